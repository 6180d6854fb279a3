package contract

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how the client sends requests and watches objects, in 3-admission-auth-client.md.

var _ = ClusterSuite("client_watch", func(t *testing.T, c *C) {
	c.Run(t, "the bodies that a watch yields keep their content", func(c *C) {
		c.Create("a", sized(0))
		var bodies []*kopf.Body
		for event, err := range c.Client.Watch(c.Context(), kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample"}, &kopf.ListOptions{Namespace: c.Namespace}) {
			if err != nil {
				c.Fatal(err)
			}
			if bodies = append(bodies, event.Body); len(bodies) == 10 {
				break
			}
			c.Patch("a", sized(len(bodies)))
		}
		for i, body := range bodies {
			if got := body.Spec().Int("x"); got != int64(i) {
				c.Errorf("event %d has got the content of event %d", i, got)
			}
		}
	})
	requests(t, c)
	watched(t, c)
	followed(t, c)
	deafWatches(t, c)
})

// objectFrame returns a watch event for an example.
func (c *C) objectFrame(typ, name string, version, size int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"name":%q,"namespace":%q,"uid":"uid-%s","resourceVersion":"%d"},"spec":{"x":%d}}}`+"\n",
		typ, name, c.Namespace, name, version, size)
}

// openEnded is a response that begins with a text, and remains open until the connection is closed.
func openEnded(text string) *http.Response {
	resp := document("")
	r, w := io.Pipe()
	resp.Body, resp.ContentLength = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(text), r), closer(func() { _ = w.Close(); _ = r.Close() })}, -1
	return resp
}

type closer func()

func (f closer) Close() error { f(); return nil }

// scripted answers the watches of the examples one after another, and blocks later ones.
func (c *C) scripted(list string, answers ...func() *http.Response) func(*kopf.Operator) {
	var n atomic.Int64
	return wired(func(req *Request) (*http.Response, error) {
		path, query, _ := strings.Cut(req.Path, "?")
		switch {
		case !strings.HasSuffix(path, "/kopfexamples"):
			return nil, nil
		case !strings.Contains(query, "watch=true"):
			return document(list), nil
		}
		if i := int(n.Add(1)) - 1; i < len(answers) {
			return answers[i](), nil
		}
		return openEnded(""), nil
	})
}

const listAtTen = `{"kind":"KopfExampleList","apiVersion":"kopf.dev/v1","metadata":{"resourceVersion":"10"},"items":[]}`

// queries returns the queries of the watches, and the number of lists.
func (op *Running) queries(path string) (watched []url.Values, lists int) {
	for _, req := range op.Wire.Requests("GET") {
		asked, text, _ := strings.Cut(req.Path, "?")
		query, err := url.ParseQuery(text)
		switch {
		case err != nil:
			op.c.Fatal(err)
		case asked != path:
		case query.Get("watch") == "true":
			watched = append(watched, query)
		default:
			lists++
		}
	}
	return watched, lists
}

func (c *C) examplesPath() string {
	return fmt.Sprintf("/apis/kopf.dev/v1/namespaces/%s/kopfexamples", c.Namespace)
}

func requests(t *testing.T, c *C) {
	c.Run(t, "an event of something without a name is not taken for one of an object", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
			l.add("%q", e.Name())
			return nil
		}, &kopf.EventOptions{ID: "event"})
		var garbled atomic.Bool
		c.Operator(r, wired(func(q *Request) (*http.Response, error) {
			if !strings.Contains(q.Path, "watch=true") || !strings.Contains(q.Path, "kopfexamples") || garbled.Swap(true) {
				return nil, nil
			}
			const event = `{"type":"ADDED","object":{"kind":"Nothing"}}` + "\n"
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(event))}, nil
		}))
		c.WaitFor("the event", garbled.Load)
		c.Create("a", nil)
		c.WaitFor("the object", func() bool { return len(l.all()) > 0 })
		c.expect(&l, `"a"`)
	})
	c.Run(t, "a page that comes instead of an answer is no success", func(c *C) {
		c.Create("a", nil)
		for code, page := range map[int]string{200: "<html><h1>It works!</h1></html>", 201: "\n\n<html></html>", 302: "", 203: strings.Repeat("It works! ", 100)} {
			client, wire := c.client(kopf.NetworkingSettings{})
			wire.Fault(func(q *Request) (*http.Response, error) {
				if q.Method != http.MethodDelete {
					return nil, nil
				}
				return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader(page))}, nil
			})
			if err := client.Delete(c.Context(), c.Ref("a"), nil); err == nil {
				c.Errorf("the answer %d with %.20q counts as a success", code, page)
			}
		}
		client, _ := c.client(kopf.NetworkingSettings{})
		if err := client.Delete(c.Context(), c.Ref("a"), nil); err != nil || c.Exists("a") {
			c.Errorf("the object is not deleted: %v", err)
		}
	})
	c.Run(t, "a page that comes instead of the answer to a handler's deletion is no success", func(c *C) {
		maps := c.Of("v1", "ConfigMap")
		maps.Create("child", nil)
		c.Create("a", nil)
		var lost atomic.Bool
		deleted := make(chan error, 1)
		registry := &kopf.Registry{}
		registry.OnReconcile(Examples, func(ctx context.Context, r *kopf.Reconcile) error {
			select {
			case deleted <- r.Client.Delete(ctx, maps.Ref("child"), nil):
			default:
			}
			return kopf.Unchanged
		}, &kopf.ReconcileOptions{ID: "r", Owns: []kopf.Selector{"configmaps"}})
		c.Operator(registry, wired(func(q *Request) (*http.Response, error) {
			if q.Method != http.MethodDelete || lost.Swap(true) {
				return nil, nil
			}
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader("<html>It works!</html>"))}, nil
		}))
		if err := <-deleted; err == nil || !maps.Exists("child") {
			c.Errorf("got the error %v, and the object exists: %t", err, maps.Exists("child"))
		}
	})
	c.Run(t, "AC-75 events about what is in no namespace go to that of the credentials", func(c *C) {
		for given, want := range map[string]string{"": "default", c.Namespace: c.Namespace} {
			r := &kopf.Registry{}
			r.OnCreate("kopfclusterexamples.v1.kopf.dev", func(ctx context.Context, ch *kopf.Change) error {
				ch.PostInfo("R", "M")
				return nil
			}, &kopf.ChangeOptions{ID: "create", When: func(ch *kopf.Change) bool { return ch.Name() == c.Unique("a") }})
			op := c.Operator(r, func(op *kopf.Operator) { op.Connection.DefaultNamespace = given })
			kind := c.Of("kopf.dev/v1", "KopfClusterExample")
			kind.Create(c.Unique("a"), nil)
			if p := op.wantPosted("Normal R: M")[0]; p.Path != "/api/v1/namespaces/"+want+"/events" {
				c.Errorf("given %q: posted to %s, want the namespace %s", given, p.Path, want)
			}
			kind.Delete(c.Unique("a"))
		}
	})
	c.Run(t, "AC-81 an object of another kind goes to the subresource that it is for", func(c *C) {
		c.Of("apps/v1", "Deployment").Create("d", map[string]any{"spec": map[string]any{
			"replicas": 0, "selector": map[string]any{"matchLabels": map[string]any{"app": "x"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "example.com/none"}}}},
		}})
		scale := map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": map[string]any{"name": "d", "namespace": c.Namespace}, "spec": map[string]any{"replicas": 3}}
		opts := &kopf.WriteOptions{Subresource: "scale", Of: kopf.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment"}}
		if err := c.Client.Update(c.Context(), scale, opts); err != nil {
			c.Error(err)
		}
		if got := c.Of("apps/v1", "Deployment").Get("d").Spec().Int("replicas"); got != 3 {
			c.Errorf("got %d replicas, want 3", got)
		}
		if err := c.Client.Update(c.Context(), scale, &kopf.WriteOptions{Subresource: "scale"}); err == nil {
			c.Error("a scale of nothing was written")
		}
		c.Of("v1", "Pod").Create("p", map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "example.com/none"}}}})
		eviction := map[string]any{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": "p", "namespace": c.Namespace}}
		if err := c.Client.Create(c.Context(), eviction, &kopf.WriteOptions{Subresource: "eviction", Of: kopf.ObjectReference{APIVersion: "v1", Kind: "Pod"}}); err != nil {
			c.Error(err)
		}
		c.WaitFor("the end of the pod", func() bool { return !c.Of("v1", "Pod").Exists("p") })
	})
	c.Run(t, "AC-83 an attempt of a request has its time, and a watch has not", func(c *C) {
		c.OnlyInBubble("it waits")
		s := kopf.NewSettings().Networking
		if s.RequestTimeout != 5*time.Minute || s.ConnectTimeout != 0 || fmt.Sprint(s.ErrorBackoffs) != "[1s 1s 2s 3s 5s 8s 13s 21s]" || s.EnforceRetryAfter || s.TrustEnv {
			c.Errorf("the defaults are %+v", s)
		}
		var attempts atomic.Int64
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		op := c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Networking.RequestTimeout, op.Settings.Networking.ErrorBackoffs = 10*time.Second, []time.Duration{time.Second, time.Second}
		}, wired(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && attempts.Add(1) < 3 {
				return openEnded(""), nil
			}
			return nil, nil
		}))
		c.Pass(5 * time.Minute)
		if watched, _ := op.queries(c.examplesPath()); len(watched) != 1 {
			c.Errorf("the examples were watched %d times in 5 minutes, want once", len(watched))
		}
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		var times []time.Time
		for _, req := range op.Wire.Writes() {
			times = append(times, req.Time)
		}
		if len(times) != 3 || times[1].Sub(times[0]).Truncate(time.Second) != 11*time.Second || times[2].Sub(times[1]).Truncate(time.Second) != 11*time.Second {
			c.Errorf("got the attempts %v, want three with 11 s between them", times)
		}
		if lines := op.Logs.Find("will retry in"); len(lines) != 2 || !strings.Contains(lines[0].Attrs["error"], "no answer in 10s") {
			c.Errorf("got the lines %+v", lines)
		}
	})
	c.Run(t, "AC-85 attempts are told with their numbers", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type != kopf.Added {
				return nil
			}
			return e.Client.Delete(ctx, kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Namespace: c.Namespace, Name: "other"}, nil)
		}, watchedAs("event"))
		for failures, want := range map[int64][]string{
			2: {"WARN Request attempt #1/3 failed; will retry", "WARN Request attempt #2/3 failed; will retry", "DEBUG Request attempt #3/3 succeeded."},
			3: {"WARN Request attempt #1/3 failed; will retry", "WARN Request attempt #2/3 failed; will retry", "WARN Request attempt #3/3 failed; escalating."},
		} {
			var n atomic.Int64
			op := c.Operator(r, func(op *kopf.Operator) {
				op.Settings.Networking.ErrorBackoffs = []time.Duration{time.Second, time.Second}
			},
				wired(func(req *Request) (*http.Response, error) {
					switch {
					case req.Method != http.MethodDelete:
						return nil, nil
					case n.Add(1) <= failures:
						return Answer(500, "InternalError", "asked for"), nil
					}
					return document(`{"kind":"Status","status":"Success"}`), nil
				}))
			c.Pass(time.Second) // after the initial list
			name := fmt.Sprint("a", failures)
			c.Create(name, nil)
			c.Pass(time.Minute)
			var got []string
			for _, line := range op.Logs.Find("Request attempt") {
				message, _, _ := strings.Cut(line.Message, " in ")
				got = append(got, line.Level.String()+" "+message)
				if line.Attrs["request"] != "DELETE "+c.examplesPath()+"/other" || line.Level > slog.LevelDebug && !strings.Contains(line.Attrs["error"], "500 InternalError: asked for") {
					c.Errorf("got the line %+v", line)
				}
			}
			if !slices.Equal(got, want) {
				c.Errorf("%d failures: got %q, want %q", failures, got, want)
			}
			op.Stop()
		}
	})
	c.Run(t, "AC-88 answers below 400 are good", func(c *C) {
		for _, code := range []int{200, 201, 202, 299} {
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				ch.PostInfo("R", "M")
				return nil
			}, named("create"))
			op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
				if req.Method != http.MethodPost {
					return nil, nil
				}
				resp := document(`{"kind":"Status","status":"Success"}`)
				resp.StatusCode, resp.Status = code, http.StatusText(code)
				return resp, nil
			}))
			c.Create("a", nil)
			op.wantPosted("Normal R: M")
			for _, line := range op.Logs.All() {
				if line.Level >= slog.LevelWarn {
					c.Errorf("%d: got the line %+v", code, line)
				}
			}
			c.Delete("a")
		}
	})
}

func watched(t *testing.T, c *C) {
	c.Run(t, "AC-107 each resource has a stream in each namespace, or one", func(c *C) {
		other := c.Unique("other")
		c.Of("v1", "Namespace").Create(other, nil)
		defer c.Of("v1", "Namespace").Delete(other)
		r := eventful()
		r.OnCreate(Examples, ready, named("create"))
		r.OnEvent("kopfstatusexamples.v1.kopf.dev", ignore, watchedAs("event"))
		r.OnEvent("kopfclusterexamples.v1.kopf.dev", ignore, watchedAs("event"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace, other} })
		paths := []string{
			c.examplesPath(), "/apis/kopf.dev/v1/namespaces/" + other + "/kopfexamples", "/apis/kopf.dev/v1/namespaces/" + c.Namespace + "/kopfstatusexamples",
			"/apis/kopf.dev/v1/namespaces/" + other + "/kopfstatusexamples", "/apis/kopf.dev/v1/kopfclusterexamples",
		}
		for _, path := range paths {
			c.WaitFor("the watch of "+path, func() bool { watched, _ := op.queries(path); return len(watched) > 0 })
		}
		c.Pass(time.Second)
		for _, path := range paths {
			if watched, lists := op.queries(path); len(watched) != 1 || lists != 1 {
				c.Errorf("%s was listed %d times and watched %d times, want once", path, lists, len(watched))
			}
		}
		for _, req := range op.Wire.Requests("GET") {
			if path, _, _ := strings.Cut(req.Path, "?"); strings.Contains(path, "examples") && !slices.Contains(paths, path) {
				c.Errorf("%s is asked for, too", path)
			}
		}
	})
	for timeout, want := range map[time.Duration]string{0: "", 90 * time.Second: "90", 1500 * time.Millisecond: "2"} {
		c.Run(t, fmt.Sprintf("AC-109 what a watch asks for, with a time-out of %s", timeout), func(c *C) {
			ends := func(text string) func() *http.Response { return func() *http.Response { return document(text) } }
			var l calls
			r := &kopf.Registry{}
			r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
				l.add("%s %s", e.Type, e.Name())
				return nil
			}, watchedAs("event"))
			bookmark := `{"type":"BOOKMARK","object":{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"resourceVersion":"30"}}}` + "\n"
			op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Watching.ServerTimeout = timeout },
				c.scripted(listAtTen, ends(c.objectFrame("ADDED", "a", 11, 1)+c.objectFrame("MODIFIED", "a", 15, 2)), ends(bookmark), ends(c.objectFrame("DELETED", "a", 40, 2))))
			c.WaitFor("the fourth watch", func() bool { watched, _ := op.queries(c.examplesPath()); return len(watched) == 4 })
			c.expect(&l, "ADDED a", "MODIFIED a", "DELETED a")
			watched, lists := op.queries(c.examplesPath())
			if lists != 1 {
				c.Errorf("got %d listings", lists)
			}
			for i, version := range []string{"10", "15", "30", "40"} {
				query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {version}}
				if want != "" {
					query.Set("timeoutSeconds", want)
				}
				if got := watched[i].Encode(); got != query.Encode() {
					c.Errorf("watch %d: got %s, want %s", i, got, query.Encode())
				}
			}
		})
	}
	c.Run(t, "AC-112 an error that comes as an event ends the watch alone", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, sizes(&l, time.Now()), watchedAs("event"))
		fails := func() *http.Response {
			return document(c.objectFrame("ADDED", "a", 11, 1) + `{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"InternalError","message":"etcd is away"}}` + "\n")
		}
		op := c.Operator(r, c.scripted(listAtTen, fails, func() *http.Response { return openEnded(c.objectFrame("MODIFIED", "a", 12, 2)) }))
		c.WaitFor("both events", func() bool { return len(l.all()) == 2 })
		if watched, lists := op.queries(c.examplesPath()); lists != 1 || len(watched) != 2 || watched[1].Get("resourceVersion") != "11" {
			c.Errorf("got %d listings and the watches %v", lists, watched)
		}
		if lines := op.Logs.Find("Watching objects failed"); len(lines) != 1 || lines[0].Level != slog.LevelWarn || !strings.Contains(lines[0].Attrs["error"], "etcd is away") {
			c.Errorf("got the lines %+v", lines)
		}
	})
}

func followed(t *testing.T, c *C) {
	c.Run(t, "AC-117 the events of an object are processed in order, those of others meanwhile", func(c *C) {
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("%s %d", e.Name(), e.Spec().Int("x"))
			if e.Name() == "a" {
				door.pass(ctx)
			}
			return nil
		}, watchedAs("event"))
		text := ""
		for n := range 20 {
			text += c.objectFrame("MODIFIED", "a", 11+2*n, n) + c.objectFrame("MODIFIED", "b", 12+2*n, n)
		}
		c.Operator(r, c.scripted(listAtTen, func() *http.Response { return openEnded(text) }))
		c.WaitFor("all of the other object, and the first of this one", func() bool { return l.count("b ") == 20 && l.count("a ") > 0 })
		if n := l.count("a "); n != 1 {
			c.Errorf("the first object was handled %d times meanwhile", n)
		}
		door.let()
		c.WaitFor("all", func() bool { return len(l.all()) == 40 })
		for _, name := range []string{"a", "b"} {
			at := 0
			for _, call := range l.all() {
				if of, n, _ := strings.Cut(call, " "); of == name {
					if n != fmt.Sprint(at) {
						c.Fatalf("the events of %s came in the order %q", name, l.all())
					}
					at++
				}
			}
		}
	})
	c.Run(t, "AC-T20 quiet streams of servers without bookmarks are opened again, without a listing or a word", func(c *C) {
		c.OnlyInBubble("it waits")
		op := c.Operator(eventful(), c.scripted(listAtTen))
		c.Pass(time.Hour)
		watched, lists := op.queries(c.examplesPath())
		if lists != 1 || len(watched) < 50 || len(watched) > 52 {
			c.Errorf("got %d listings and %d watches in an hour, want 1 and one every 70 s", lists, len(watched))
		}
		for _, query := range watched {
			if query.Get("resourceVersion") != "10" {
				c.Errorf("got a watch from %s", query.Get("resourceVersion"))
			}
		}
		quiet := op.Logs.Find("The watch stream is inactive; reconnecting")
		for _, line := range op.Logs.All() {
			if line.Level > slog.LevelInfo {
				c.Errorf("got the line %+v", line)
			}
		}
		if n := len(watched) - len(quiet); n < 0 || n > 2 { // the first one, and one that is being opened
			c.Errorf("got %d lines for debugging of %d watches", len(quiet), len(watched))
		}
	})
}

// deafWatches checks streams whose watches are answered with success, and never pass an event on.
func deafWatches(t *testing.T, c *C) {
	for _, tt := range []struct {
		name string
		body func(c *C) string
	}{
		{"an empty body", func(*C) string { return "" }},
		{"blank lines", func(*C) string { return "\n\n\n" }},
		{"half an event", func(c *C) string { return c.objectFrame("MODIFIED", "x", 1, 1)[:40] }},
		{"an event without the end of its line", func(c *C) string {
			return strings.TrimSpace(c.objectFrame("MODIFIED", "x", 1, 1))
		}},
		{"a page without the end of its line", func(*C) string { return "<html>welcome</html>" }},
		{"events of an unknown type", func(c *C) string { return c.objectFrame("NEWS", "x", 1, 1) }},
	} {
		c.Run(t, "DF-37 watches answered with "+tt.name+" lead to lists, and readiness falls", func(c *C) {
			body, p := tt.body(c), newPipe()
			var l calls
			var deaf atomic.Bool
			deaf.Store(true)
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(_ context.Context, x *kopf.Change) error {
				l.add("%s", x.Name())
				return nil
			}, &kopf.ChangeOptions{ID: "create"})
			op := c.Operator(r, probed(p, "http://0.0.0.0/healthz"), wired(func(q *Request) (*http.Response, error) {
				path, query, _ := strings.Cut(q.Path, "?")
				if path == c.examplesPath() && strings.Contains(query, "watch=true") && deaf.Load() {
					return document(body), nil
				}
				return nil, nil
			}))
			c.Create("a", sized(1))
			c.WaitFor("the creation", func() bool { return l.count("a") > 0 })
			c.WaitFor("the end of readiness", func() bool { return p.ask("GET", "/readyz").code != http.StatusOK })
			if c.InBubble() {
				c.Pass(2 * time.Hour)
				watched, lists := op.queries(c.examplesPath())
				if len(watched) > 200 || lists > 50 {
					c.Errorf("got %d watches and %d lists in two hours", len(watched), lists)
				}
				if code := p.ask("GET", "/readyz").code; code == http.StatusOK {
					c.Error("the readiness has come back while nothing was heard")
				}
			}
			if lines := op.Logs.Find("Watching objects failed; retrying"); len(lines) != 1 {
				c.Errorf("got %d warnings, want 1: %v", len(lines), lines)
			}
			deaf.Store(false)
			c.WaitFor("readiness", func() bool { return p.ask("GET", "/readyz").code == http.StatusOK })
			c.Create("b", sized(1))
			c.WaitFor("another creation", func() bool { return l.count("b") > 0 })
		})
	}
}
