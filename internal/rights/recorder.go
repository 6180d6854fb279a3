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
)

// maxRecorded is how many different requests are recorded. Others are not looked at. Of requests that differ in nothing but the name of the object, the names of the first maxNames are remembered.
const maxRecorded, maxNames = 10_000, 100

// Recorder passes requests on, and remembers what they do, and what the server has said of its kinds. It is safe for concurrent use.
type Recorder struct {
	Base   http.RoundTripper
	Prefix string // of the paths, as of a proxy

	mu        sync.Mutex // guards following
	requests  map[Request]bool
	names     map[Request]int   // how many there are of each request without its name
	documents map[string][]byte // of the discovery, by their paths
}

// RoundTrip implements [http.RoundTripper].
func (c *Recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(r.URL.Path, c.Prefix)
	request, ok := RequestOf(r.Method, path, r.URL.Query())
	if ok {
		c.note(request)
	}
	resp, err := c.Base.RoundTrip(r)
	if err == nil && !ok && r.Method == http.MethodGet && strings.HasPrefix(path, "/api") && resp.StatusCode == http.StatusOK {
		err = c.keep(path, resp)
	}
	return resp, err
}

// CloseIdleConnections closes those of the base.
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

// keep remembers the body of an answer.
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

// Requests returns the requests so far, each once, in an order that depends on nothing else.
func (c *Recorder) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.requests), func(a, b Request) int { return strings.Compare(a.String(), b.String()) })
}

// Get implements the server of package discovery: it answers as the real one has.
func (c *Recorder) Get(_ context.Context, path, _ string, into any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if data := c.documents[path]; data != nil {
		return json.Unmarshal(data, into)
	}
	return nil
}

// GetVersion does the same.
func (c *Recorder) GetVersion(ctx context.Context, path string, into any) (unavailable, err error) {
	return nil, c.Get(ctx, path, "", into)
}
