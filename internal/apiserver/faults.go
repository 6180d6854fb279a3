package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
)

// Fault tells a [Server] to fail some requests. Empty fields fit all requests.
type Fault struct {
	Verb        string // get, list, watch, create, update, patch, delete or deletecollection
	Resource    string // the plural
	Subresource string
	Namespace   string
	Name        string
	After       int // how many fitting requests go well before
	Times       int // how many fail then; zero means all

	Status     int           // refuse with this code
	Reason     string        // the reason in the refusal. Defaults to the usual one for the code
	Message    string        // the message in the refusal. Defaults to one that says that it was asked for
	RetryAfter time.Duration // the wish sent with the refusal, in whole seconds
	HTML       bool          // refuse with a page, as proxies do
	Delay      time.Duration // answer that much later
	Drop       bool          // drop the connection without doing anything
	DropAfter  bool          // do what is asked, and drop the connection without answering
	Stall      bool          // of watches: accept, and never send anything
	Gone       bool          // of watches: accept, and send an error event with the code 410
	Cut        bool          // of watches: break off in the middle of the first event
}

// Fail makes requests fail from now on, until the returned function is called. Of several faults that fit, the first
// one counts.
func (s *Server) Fail(f Fault) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := &f
	s.faults = append(s.faults, own)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = slices.DeleteFunc(s.faults, func(g *Fault) bool { return g == own })
	}
}

// match returns the fault that is due for a request, nil if there is none.
func (s *Server) match(a *apiRequest) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		resource := ""
		if a.kind != nil {
			resource = a.kind.resource.Plural
		}
		fits := (f.Verb == "" || f.Verb == a.verb) && (f.Resource == "" || f.Resource == resource) && (f.Subresource == "" || f.Subresource == a.subresource) &&
			(f.Namespace == "" || f.Namespace == a.namespace) && (f.Name == "" || f.Name == a.name)
		if !fits {
			continue
		}
		if f.After > 0 {
			f.After--
			continue
		}
		hit := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.DeleteFunc(s.faults, func(g *Fault) bool { return g == f })
			}
		}
		return &hit
	}
	return nil
}

// fault makes a request fail if it is to, and tells whether that was all.
func (s *Server) fault(w http.ResponseWriter, r *http.Request, a *apiRequest) bool {
	f := s.match(a)
	if a.fault = f; f == nil {
		return false
	}
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	if f.Status == 0 {
		return false
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
	}
	if f.HTML {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(f.Status)
		fmt.Fprintf(w, "<html><body><h1>%d %s</h1></body></html>\n", f.Status, http.StatusText(f.Status))
		return true
	}
	e := apierrors.New(f.Status, f.Reason, f.Message, nil)
	if e.Reason == "" {
		e.Reason = strings.ReplaceAll(http.StatusText(f.Status), " ", "")
	}
	if e.Message == "" {
		e.Message = "this failure was asked for"
	}
	s.refuse(w, r, e)
	return true
}
