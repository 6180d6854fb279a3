package contract

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what watch streams do after outages of the API server: they continue, list as
// little as possible, and notice when a server with an older history has come back.

var _ = Suite("client_watch_outages", func(t *testing.T, c *C) {
	c.Run(t, "DF-30 an outage costs one list of one object, and a connection that is only lost none", provePrice)
	for name, code := range map[string]int{"429": 429, "500": 500, "504": 504} {
		c.Run(t, "DF-30 a watch goes on after an outage while lists are answered with "+name, func(c *C) {
			proveWithoutLists(c, code)
		})
	}
	refused := answering(func() (*http.Response, error) { return nil, io.ErrClosedPipe })
	unavailable := answering(noBackend)
	for _, o := range []takeover{
		{name: "refused connections", down: refused},
		{name: "the answer 503 of a load balancer", down: unavailable},
		{name: "refused connections, without bookmarks", down: refused, unmarked: true},
		{name: "the answer 503 of an aggregator, without bookmarks", down: unavailable, unmarked: true},
		{name: "the answer 503 of a proxy that ends watches", down: unavailable, life: 50 * time.Second},
		{name: "two outages within minutes", down: refused, twice: true},
		{name: "two outages within minutes, with the answer 503", down: unavailable, twice: true},
		{name: "nothing but silence"},
		{name: "nothing but silence, while each watch lives for a minute only", life: 65 * time.Second},
	} {
		c.Run(t, "DF-30 an older history is noticed after "+o.name, o.prove)
	}
})

// provePrice counts the lists of a stream after outages of a server whose history remains.
func provePrice(c *C) {
	c.OnlyInBubble("it waits for hours")
	b := &balancer{}
	b.use(c.transport())
	former := b.backend
	op := c.Operator(eventful(), behind(b))
	c.Pass(time.Hour)
	lists := func() int {
		_, n := op.queries(c.examplesPath())
		return n
	}
	before := lists()
	for range 10 {
		b.use(former) // at once
		c.Pass(10 * time.Minute)
	}
	if n := lists() - before; n != 0 {
		c.Errorf("got %d lists after ten lost connections, want none", n)
	}
	for i, down := range []http.RoundTripper{
		answering(func() (*http.Response, error) { return nil, io.ErrClosedPipe }),
		answering(noBackend),
	} {
		before := lists()
		b.use(down)
		c.Pass(10 * time.Minute)
		b.use(former)
		c.Pass(time.Hour)
		if n := lists() - before; n != 1 {
			c.Errorf("got %d lists after the outage %d, want one", n, i)
		}
	}
}

// proveWithoutLists has lists fail for a while after an outage.
func proveWithoutLists(c *C, code int) {
	c.OnlyInBubble("it waits for hours")
	var failing atomic.Bool
	b := &balancer{}
	base := c.transport()
	former := roundTripper(func(req *http.Request) (*http.Response, error) {
		list := req.Method == http.MethodGet && req.URL.Path == c.examplesPath() && !opensWatch(req)
		if list && failing.Load() {
			return Answer(code, "", "overloaded"), nil
		}
		return base.RoundTrip(req)
	})
	b.use(former)
	var l calls
	r := &kopf.Registry{}
	r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
		l.add("%s", e.Name())
		return nil
	}, watchedAs("event"))
	op := c.Operator(r, behind(b))
	c.Pass(time.Hour)
	b.use(answering(func() (*http.Response, error) { return nil, io.ErrClosedPipe }))
	c.Pass(time.Second)
	failing.Store(true)
	b.use(former)
	c.Pass(30 * time.Second)
	c.Create("a", sized(1))
	c.Pass(time.Minute)
	if l.count("a") != 1 {
		c.Fatalf("got the events %q, want one of the object that was created since", l.all())
	}
	c.Pass(time.Hour)
	_, lists := op.queries(c.examplesPath())
	if lists > 20 {
		c.Errorf("got %d lists in an hour in which they failed", lists)
	}
	failing.Store(false)
	c.Pass(time.Hour)
	if _, n := op.queries(c.examplesPath()); n != lists+1 {
		c.Errorf("got %d lists when they worked again, want one", n-lists)
	}
}

// takeover is a time without an API server, after which one with an older history takes over. Its
// versions catch up with the former ones after half a minute, so that the loss can be noticed only
// until then.
type takeover struct {
	name     string
	down     http.RoundTripper // nil without an outage
	unmarked bool              // there are no bookmarks
	life     time.Duration     // after which watches end; 0 for never
	twice    bool              // two minutes after another outage
}

func (o takeover) prove(c *C) {
	c.OnlyInBubble("the server is replaced by a new one")
	info, _ := c.open(c)
	client, err := kopf.NewClient(info, nil)
	if err != nil {
		c.Fatal(err)
	}
	former, other := o.through(c.transport()), o.through(info.HTTPClient.Transport)
	var l calls
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
		l.add("%s", ch.Name())
		return nil
	}, named("create"))
	b := &balancer{}
	b.use(former)
	op := c.Operator(r, behind(b))
	for i := range 30 { // so that its versions are far ahead
		c.Create("a", sized(i))
		c.Pass(time.Second)
		c.Delete("a")
		c.Pass(time.Second)
	}
	c.Pass(10 * time.Minute)
	create := func(kind, version, name string) {
		object := map[string]any{
			"apiVersion": version, "kind": kind,
			"metadata": map[string]any{"name": name, "namespace": c.Namespace},
		}
		if err := client.Create(contextWithout(c.Context()), object, nil); err != nil {
			c.Error(err)
		}
	}
	create("KopfExample", "kopf.dev/v1", "restored")
	if o.twice {
		b.use(o.down)
		c.Pass(20 * time.Second)
		b.use(former)
		c.Pass(2 * time.Minute)
	}
	if o.down != nil {
		b.use(o.down)
		c.Pass(2 * time.Minute)
	}
	b.use(other)
	if o.down != nil { // without one, the loss is noticed later
		for i := range 200 {
			create("ConfigMap", "v1", "busy-"+string(rune('a'+i/26))+string(rune('a'+i%26)))
			c.Pass(300 * time.Millisecond)
		}
	}
	c.Pass(5 * time.Minute)
	if l.count("restored") != 1 || len(op.Logs.Find("have gone back")) == 0 {
		c.Errorf("got the calls %q, want one of the object in the older history", l.all())
	}
}

// through returns a transport to a server, through the proxy of the outage.
func (o takeover) through(server http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if !opensWatch(req) {
			return server.RoundTrip(req)
		}
		ctx, cancel := context.WithCancel(req.Context())
		req = req.Clone(ctx)
		if o.unmarked {
			q := req.URL.Query()
			q.Del("allowWatchBookmarks")
			req.URL.RawQuery = q.Encode()
		}
		resp, err := server.RoundTrip(req)
		if err != nil {
			cancel()
			return nil, err
		}
		if o.life > 0 {
			time.AfterFunc(o.life, cancel)
		}
		resp.Body = properEnd{&endingBody{resp.Body, cancel}}
		return resp, nil
	})
}

// properEnd is the body of a watch whose end is always proper.
type properEnd struct{ io.ReadCloser }

func (e properEnd) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// opensWatch reports whether a request opens a watch.
func opensWatch(req *http.Request) bool { return strings.Contains(req.URL.RawQuery, "watch=true") }

// answering is a transport that gives the same answer to all requests.
func answering(answer func() (*http.Response, error)) http.RoundTripper {
	return roundTripper(func(*http.Request) (*http.Response, error) { return answer() })
}

// noBackend is the answer of a load balancer in front of no API server.
func noBackend() (*http.Response, error) {
	resp := document("no backend")
	resp.StatusCode, resp.Status = 503, "503 Service Unavailable"
	resp.Header.Set("Content-Type", "text/plain")
	return resp, nil
}

// behind has an operator connect through a load balancer.
func behind(b *balancer) func(*kopf.Operator) {
	return func(op *kopf.Operator) { op.Connection.HTTPClient.Transport.(*Wire).base = b }
}

// balancer is a transport to one API server at a time.
type balancer struct {
	mu      sync.Mutex
	backend http.RoundTripper
	cut     []context.CancelFunc
}

func (b *balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context()) // canceled by use
	b.mu.Lock()
	backend := b.backend
	b.cut = append(b.cut, cancel)
	b.mu.Unlock()
	return backend.RoundTrip(req.WithContext(ctx))
}

// use ends all connections, and makes the new ones to a backend.
func (b *balancer) use(backend http.RoundTripper) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backend = backend
	for _, cut := range b.cut {
		cut()
	}
	b.cut = nil
}
