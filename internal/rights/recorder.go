package rights

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/apirequest"
)

// maxRecorded is the maximum number of different recorded requests, and maxNames that of names for requests that are otherwise equal.
const maxRecorded, maxNames = 10_000, 100

// Recorder forwards requests, and records them with the discovery documents of the server. It is safe for concurrent use.
type Recorder struct {
	Base   http.RoundTripper
	Prefix string // of the paths, such as that of a proxy

	mu        sync.Mutex // guards following
	requests  map[Request]bool
	names     map[Request]int   // number of names of each request
	documents map[string][]byte // discovery documents by path
}

// RoundTrip implements [http.RoundTripper].
func (c *Recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(r.URL.Path, c.Prefix)
	request, ok := RequestOf(r.Method, path, r.URL.Query())
	if ok {
		request.OrList = apirequest.ListsInstead(r.Context())
		c.note(request)
	}
	resp, err := c.Base.RoundTrip(r)
	if ok && err == nil && request.Verb == "patch" && resp.StatusCode == http.StatusCreated { // it needs both permissions
		request.Verb = "create"
		c.note(request)
	}
	if err == nil && !ok && r.Method == http.MethodGet && strings.HasPrefix(path, "/api") && resp.StatusCode == http.StatusOK {
		err = c.keep(path, resp)
	}
	return resp, err
}

// CloseIdleConnections closes the idle connections of the base.
func (c *Recorder) CloseIdleConnections() { (&http.Client{Transport: c.Base}).CloseIdleConnections() }

func (c *Recorder) note(r Request) {
	nameless := r
	nameless.Name = ""
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests == nil {
		c.requests, c.names = make(map[Request]bool), make(map[Request]int)
	}
	if c.requests[r] || len(c.requests) >= maxRecorded {
		return
	}
	if c.names[nameless]++; c.names[nameless] > maxNames {
		r = nameless
	}
	c.requests[r] = true
}

// keep stores the body of a response.
func (c *Recorder) keep(path string, resp *http.Response) error {
	data, err := io.ReadAll(resp.Body)
	if err == nil {
		err = resp.Body.Close()
	}
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.documents == nil {
		c.documents = make(map[string][]byte)
	}
	c.documents[path] = data
	return nil
}

// Requests returns the distinct requests so far, sorted.
func (c *Recorder) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.requests), func(a, b Request) int { return strings.Compare(a.String(), b.String()) })
}

// Get implements [discovery.Server] with the recorded documents.
func (c *Recorder) Get(_ context.Context, path, _ string, into any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if data := c.documents[path]; data != nil {
		return json.Unmarshal(data, into)
	}
	return nil
}

// GetVersion implements [discovery.Server].
func (c *Recorder) GetVersion(ctx context.Context, path string, into any) (unavailable, err error) {
	return nil, c.Get(ctx, path, "", into)
}
