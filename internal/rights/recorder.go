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

// maxRecorded is how many different requests are recorded. Others are not looked at.
const maxRecorded = 10_000

// Recorder passes requests on, and remembers what they do, and what the server has said of its kinds. It is safe for concurrent use.
type Recorder struct {
	Base   http.RoundTripper
	Prefix string // of the paths, as of a proxy

	mu        sync.Mutex // guards following
	requests  map[Request]bool
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

// named are the resources of which operators have rights for single objects. The names of others are not remembered.
var named = []string{"leases", "secrets", "kopfpeerings", "clusterkopfpeerings", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}

func (c *Recorder) note(r Request) {
	if !slices.Contains(named, r.Resource) {
		r.Name = ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests == nil {
		c.requests = make(map[Request]bool)
	}
	if len(c.requests) < maxRecorded {
		c.requests[r] = true
	}
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
