package livepage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // page.html is embedded
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// page is the complete page, with its script and its style.
//
//go:embed page.html
var page string

// The paths of the page. Those of the JSON are below the first one.
const (
	apiPath     = "/api/v1/"
	statePath   = apiPath + "state"
	eventsPath  = apiPath + "events"
	historyPath = apiPath + "history"
	searchPath  = apiPath + "objects"
	objectsPath = searchPath + "/"
)

const (
	interval    = time.Second      // minimum time between two snapshots
	share       = 200              // snapshots take at most 1/share of the time
	heartbeat   = 15 * time.Second // maximum time between two events
	sendTimeout = 5 * time.Second  // per event; slower viewers are disconnected
	lifetime    = time.Hour        // maximum duration of an event stream, after which the viewer reconnects
	maxViewers  = 100
)

// Source provides the data of an operator.
type Source interface {
	// Fill sets the fields of the state.
	Fill(*State)
	// Object sets the fields of an object's state, and reports whether the object is known.
	Object(*ObjectState) bool
	// Search adds the objects whose names contain the text, in any case. Names include the resource
	// and the namespace.
	Search(text string, into *ObjectList)
	// Sample returns the present state of the work. It is called often.
	Sample() Sample
}

// Server serves the page. Its exported fields must not change after the start.
type Server struct {
	Source Source
	Calls  *Calls
	Auth   *Auth    // nil allows all clients
	Hosts  []string // allowed host names, in addition to IP addresses and localhost

	past recorder

	headed sync.Once // guards lines
	lines  [][2]string

	mu      sync.Mutex // guards the following, and the creation of snapshots
	state   []byte     // last snapshot, as JSON
	made    time.Time
	pause   time.Duration // until the next snapshot
	viewers int           // number of event streams
}

// Serves reports whether a path belongs to the page.
func Serves(path string) bool { return path == "/" || strings.HasPrefix(path, apiPath) }

// PathError returns the error of a liveness endpoint with a path of the page.
func PathError(path string) error {
	return fmt.Errorf("the path %q of the liveness endpoint is one of the live page: want another one, such as /healthz", path)
}

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for _, line := range s.headers() {
		h.Set(line[0], line[1])
	}
	plain := r.URL.Path == "/" && r.URL.Query().Has("plain")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET,HEAD")
		refuse(w, http.StatusMethodNotAllowed, "only GET and HEAD are answered")
	case !s.knowsHost(r.Host):
		refuse(w, http.StatusMisdirectedRequest, "the page is not served under this name: use the address of the operator, or Settings.Process.Page.Hosts")
	case strings.HasPrefix(r.URL.Path, apiPath) && r.Header.Get("Sec-Fetch-Site") == "cross-site":
		refuse(w, http.StatusForbidden, "other sites may not read this")
	case r.URL.Path == "/" && !plain: // reveals nothing by itself
		h.Set("Content-Type", "text/html; charset=utf-8")
		answer(w, []byte(page))
	case !s.Auth.allow(w, r, plain):
	case plain:
		h.Set("Content-Type", "text/html; charset=utf-8")
		answer(w, plainPage(s.snapshot()))
	case r.URL.Path == statePath:
		h.Set("Content-Type", "application/json")
		answer(w, s.snapshot())
	case r.URL.Path == eventsPath:
		s.serveEvents(w, r)
	case r.URL.Path == historyPath:
		answerJSON(w, s.past.history())
	case r.URL.Path == searchPath:
		s.serveSearch(w, r)
	case strings.HasPrefix(r.URL.Path, objectsPath):
		s.serveObject(w, r)
	default:
		refuse(w, http.StatusNotFound, "there is no such path")
	}
}

// headers returns the headers of all responses. Browsers run only the script of the page, load nothing else, and do not show the page in a frame.
func (s *Server) headers() [][2]string {
	s.headed.Do(func() { // not at program start, which would cost programs without the page
		policy := "default-src 'none'; script-src " + hashOf("script") + "; style-src " + hashOf("style") + "; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
		s.lines = [][2]string{
			{"Content-Security-Policy", policy}, {"X-Frame-Options", "DENY"}, {"X-Content-Type-Options", "nosniff"}, {"Referrer-Policy", "no-referrer"},
			{"Cross-Origin-Resource-Policy", "same-origin"}, {"Cache-Control", "no-store"},
		}
	})
	return s.lines
}

// hashOf returns the hash of the only element with a tag name in the page, in the form of a content security policy.
func hashOf(element string) string {
	_, rest, _ := strings.Cut(page, "<"+element+">")
	text, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// knowsHost reports whether the page is served under a host name. It rejects foreign names for the operator's address, against DNS rebinding.
func (s *Server) knowsHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	return host == "localhost" || net.ParseIP(host) != nil || host != "" && slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// snapshot returns the state as JSON. It makes a new snapshot if the last one is too old.
func (s *Server) snapshot() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != nil && time.Since(s.made) < s.pause {
		return s.state
	}
	began := time.Now()
	state := &State{Time: began.UTC()}
	s.Source.Fill(state)
	s.Calls.fill(state)
	state.Resources = bounded(state, "resources", state.Resources, maxRows)
	state.Streams = bounded(state, "streams", state.Streams, maxRows)
	state.Handlers = bounded(state, "handlers", state.Handlers, maxRows)
	state.Requests = bounded(state, "requests", state.Requests, maxRows)
	state.Children = bounded(state, "children", state.Children, maxRows)
	s.state, _ = json.Marshal(state) // cannot fail for these types
	s.made = time.Now()
	s.pause = max(interval, share*s.made.Sub(began))
	return s.state
}

// serveEvents sends the state, and each new snapshot, until the viewer disconnects, is too slow, or
// is not allowed any more.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	if !s.enter(1) {
		refuse(w, http.StatusServiceUnavailable, "there are too many viewers")
		return
	}
	defer s.enter(-1)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the client sends nothing more
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	send := func(prefix string, state []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(sendTimeout))
		for _, part := range [][]byte{[]byte(prefix), state, []byte("\n\n")} {
			if _, err := w.Write(part); err != nil {
				return false
			}
		}
		return control.Flush() == nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), lifetime)
	var checking sync.WaitGroup
	checking.Go(func() {
		defer cancel()
		s.Auth.awaitRevocation(ctx, r)
	})
	defer checking.Wait()
	defer cancel()
	next := time.NewTicker(interval)
	defer next.Stop()
	for last, sent := []byte(nil), time.Now(); ; {
		if state := s.snapshot(); !bytes.Equal(state, last) {
			if !send("event: state\ndata: ", state) {
				return
			}
			last, sent = state, time.Now()
		} else if time.Since(sent) >= heartbeat {
			if !send(": still here", nil) {
				return
			}
			sent = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
	}
}

// enter adds a number of viewers, 1 or -1, and reports whether the limit allows it.
func (s *Server) enter(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && s.viewers >= maxViewers {
		return false
	}
	s.viewers += n
	return true
}

// serveObject responds with the state of one object.
func (s *Server) serveObject(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, objectsPath), "/")
	o := &ObjectState{Running: []*Call{}, Records: []*Retry{}, Decisions: []Decision{}}
	switch len(parts) {
	case 2:
		o.Resource, o.Object.Name = parts[0], parts[1]
	case 3:
		o.Resource, o.Object.Namespace, o.Object.Name = parts[0], parts[1], parts[2]
	default:
		refuse(w, http.StatusNotFound, "want "+objectsPath+"RESOURCE/NAMESPACE/NAME, without the namespace for objects of the cluster")
		return
	}
	if !s.Source.Object(o) {
		refuse(w, http.StatusNotFound, fmt.Sprintf("the operator knows no object %q of %q", strings.TrimPrefix(o.Object.Namespace+"/"+o.Object.Name, "/"), o.Resource))
		return
	}
	s.Calls.Of(o.Key, r.URL.Query().Has("stack"), o)
	o.Decisions = append([]Decision{}, o.Decisions[:min(len(o.Decisions), maxRows)]...) // none is no null
	answerJSON(w, o)
}

// serveSearch responds with the objects that fit a text.
func (s *Server) serveSearch(w http.ResponseWriter, r *http.Request) {
	found := &ObjectList{Objects: []ObjectRow{}}
	s.Source.Search(strings.TrimSpace(r.URL.Query().Get("q")), found)
	slices.SortFunc(found.Objects, func(a, b ObjectRow) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Object.Namespace, b.Object.Namespace),
			strings.Compare(a.Object.Name, b.Object.Name))
	})
	answerJSON(w, found)
}

// answerJSON sends a value as JSON.
func answerJSON(w http.ResponseWriter, value any) {
	body, _ := json.Marshal(value) // cannot fail for the types of this package
	w.Header().Set("Content-Type", "application/json")
	answer(w, body)
}

// answer sends a complete response.
func answer(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client has disconnected
}

// refuse responds with an error.
func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, "%d: %s\n", code, why)
}
