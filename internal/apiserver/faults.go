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

// Fault makes a [Server] fail some requests. Empty fields match all requests.
type Fault struct {
	Verb        string // get, list, watch, create, update, patch, delete or deletecollection
	Resource    string // the plural
	Subresource string
	Namespace   string
	Name        string
	After       int // how many matching requests succeed first
	Times       int // how many fail then. Zero means all

	Status     int           // the code of the refusal
	Reason     string        // the reason of the refusal. Default: the usual one for the code
	Message    string        // the message of the refusal; a fixed text if empty
	RetryAfter time.Duration // the header Retry-After of the refusal, in whole seconds
	HTML       bool          // refuse with an HTML page, as proxies do
	Delay      time.Duration // delay the response
	Drop       bool          // drop the connection before the request has an effect
	DropAfter  bool          // drop the connection after the request took effect
	Stall      bool          // of watches: accept, and send nothing
	Gone       bool          // of watches: accept, and send an error event with the code 410
	Cut        bool          // of watches: end in the middle of the first event
}

// Fail makes requests fail until remove is called. If several faults match a request, the first one applies.
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

// match returns the fault for a request, nil if there is none.
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

// fault applies the fault of a request, if any. It reports whether the request is answered.
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
