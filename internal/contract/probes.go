package contract

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf"
)

// This suite proves the responses of an operator's liveness endpoint.

var _ = ClusterSuite("probes", func(t *testing.T, c *C) {
	probingEndpoint(t, c)
	probingProbes(t, c)
	probingReadiness(t, c)
})

// pipe is the listener of an endpoint, with connections that work in bubbles.
type pipe struct{ *pipeListener }

func newPipe() *pipe {
	return &pipe{&pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}}
}

// answer is a response of the endpoint. Its code is 0 if there is none.
type answer struct {
	code   int
	kind   string
	body   string
	header http.Header
}

func (a answer) String() string { return fmt.Sprint(a.code, " ", a.body) }

// ask sends a request to the endpoint, on a connection of its own.
func (p *pipe) ask(method, path string) answer { return p.send(method, path, "") }

// askFor requests a path in a format.
func (p *pipe) askFor(path, accept string) answer {
	return p.send(http.MethodGet, path, "Accept: "+accept+"\r\n")
}

func (p *pipe) send(method, path, headers string) answer {
	ours, theirs := net.Pipe()
	defer ours.Close()
	select {
	case p.conns <- theirs:
	case <-p.closed:
		return answer{}
	}
	go fmt.Fprintf(ours, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n", method, path, headers)
	resp, err := http.ReadResponse(bufio.NewReader(ours), &http.Request{Method: method})
	if err != nil {
		return answer{}
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), string(body), resp.Header}
}

// probed gives an operator an endpoint.
func probed(p *pipe, endpoint string) func(*kopf.Operator) {
	return func(op *kopf.Operator) { op.LivenessEndpoint, op.LivenessListener = endpoint, p }
}

func wantAnswer(c *C, what string, got answer, want string) {
	c.Helper()
	if got.String() != want {
		c.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func probingEndpoint(t *testing.T, c *C) {
	c.Run(t, "OP-68 the path counts exactly, and the query not", func(c *C) {
		p := newPipe()
		op := c.Operator(&kopf.Registry{}, probed(p, "http://:1234/healthz"))
		wantAnswer(c, "the path", p.ask("GET", "/healthz"), "200 {}")
		wantAnswer(c, "with a query", p.ask("GET", "/healthz?x=y"), "200 {}")
		for _, path := range []string{"/healthz/", "/", "/healthzz"} {
			if code := p.ask("GET", path).code; code != 404 {
				c.Errorf("%s: %d, want 404", path, code)
			}
		}
		if lines := op.Logs.Find("Serving health status at http://"); len(lines) != 1 || lines[0].Level != slog.LevelDebug || !strings.HasSuffix(lines[0].Message, "/healthz") {
			c.Errorf("the log tells %v", lines)
		}
	})
	c.Run(t, "OP-68 an empty path is a slash", func(c *C) {
		p := newPipe()
		c.Operator(&kopf.Registry{}, probed(p, "http://0.0.0.0"))
		wantAnswer(c, "the path", p.ask("GET", "/"), "200 {}")
	})
	c.Run(t, "OP-68 only http is served", func(c *C) {
		op := &kopf.Operator{Registry: &kopf.Registry{}, LivenessEndpoint: "https://0.0.0.0:1234/", LivenessListener: newPipe(), Connection: c.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithTimeout(c.Context(), time.Second)
		defer cancel()
		if err := op.Run(ctx); err == nil || !strings.Contains(err.Error(), `"https"`) {
			c.Errorf("got %v", err)
		}
	})
	c.Run(t, "OP-69 at the exit, the endpoint closes first, and gives requests a second", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		began := make(chan struct{})
		r := &kopf.Registry{}
		r.OnProbe(func(ctx context.Context, p *kopf.Probe) (any, error) {
			close(began)
			<-ctx.Done()
			time.Sleep(500 * time.Millisecond)
			return "late", nil
		}, &kopf.ProbeOptions{ID: "probe"})
		var atCleanup int
		r.OnCleanup(func(context.Context, *kopf.Activity) error {
			atCleanup = p.ask("GET", "/").code
			return nil
		}, id("cleanup"))
		op := c.Operator(r, probed(p, "http://0.0.0.0/"))
		got := make(chan answer)
		go func() { got <- p.ask("GET", "/") }()
		<-began
		op.Stop()
		if a := <-got; a.code != 500 && a.code != 200 {
			c.Errorf("the request under way: %s", a)
		}
		if atCleanup != 0 {
			c.Errorf("during the cleanup, the answer is %d, want none", atCleanup)
		}
	})
	c.Run(t, "OP-70 the answer is JSON by the ids of the probes, without those that tell nothing", func(c *C) {
		p := newPipe()
		r := &kopf.Registry{}
		for name, value := range map[string]any{"number": 5, "object": map[string]any{"a": []int{1}}, "none": nil, "false": false} {
			r.OnProbe(func(context.Context, *kopf.Probe) (any, error) { return value, nil }, &kopf.ProbeOptions{ID: kopf.HandlerID(name)})
		}
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		a := p.ask("GET", "/healthz")
		wantAnswer(c, "GET", a, `200 {"false":false,"number":5,"object":{"a":[1]}}`)
		if a.kind != "application/json; charset=utf-8" {
			c.Errorf("the type is %q", a.kind)
		}
		wantAnswer(c, "HEAD", p.ask("HEAD", "/healthz"), "200 ")
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			if a := p.ask(method, "/healthz"); a.code != 405 || a.header.Get("Allow") == "" {
				c.Errorf("%s: %s, want 405", method, a)
			}
		}
	})
	c.Run(t, "requests are told in the log for debugging", func(c *C) {
		p := newPipe()
		op := c.Operator(&kopf.Registry{}, probed(p, "http://0.0.0.0/healthz"))
		p.ask("GET", "/nowhere")
		lines := op.Logs.Find("Answered a request to the liveness endpoint")
		if len(lines) != 1 || lines[0].Attrs["path"] != "/nowhere" || lines[0].Attrs["code"] != "404" || lines[0].Attrs["activity"] != "probe" || lines[0].Level != slog.LevelDebug {
			c.Errorf("the log tells %v", lines)
		}
	})
	c.Run(t, "OP-T37 it answers before the start-up handlers are done", func(c *C) {
		p := newPipe()
		r := &kopf.Registry{}
		var liveness, readiness answer
		r.OnStartup(func(context.Context, *kopf.Activity) error {
			liveness, readiness = p.ask("GET", "/healthz"), p.ask("GET", "/readyz")
			return nil
		}, id("startup"))
		r.OnProbe(func(_ context.Context, p *kopf.Probe) (any, error) { return p.Client != nil, nil }, &kopf.ProbeOptions{ID: "probe"})
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		wantAnswer(c, "during the start", liveness, "200 {}")
		if readiness.code != 503 {
			c.Errorf("readiness during the start: %s", readiness)
		}
		wantAnswer(c, "afterwards", p.ask("GET", "/healthz"), `200 {"probe":true}`)
	})
	c.Run(t, "OP-68 the endpoint listens where it is told to", func(c *C) {
		if c.InBubble() {
			c.Skip("it opens a port")
		}
		op := c.Operator(&kopf.Registry{}, func(op *kopf.Operator) { op.LivenessEndpoint = "http://127.0.0.1:0/healthz" })
		_, url, _ := strings.Cut(op.Logs.Find("Serving health status at ")[0].Message, " at ")
		resp, err := http.Get(url)
		if err != nil {
			c.Fatal(err)
		}
		defer resp.Body.Close()
		defer http.DefaultClient.CloseIdleConnections()
		if body, _ := io.ReadAll(resp.Body); string(body) != "{}" {
			c.Errorf("got %s", body)
		}
		op.Stop()
		if _, err := http.Get(url); err == nil {
			c.Error("it listens after the end of the operator")
		}
	})
}

func probingProbes(t *testing.T, c *C) {
	c.Run(t, "OP-71 answers are given again for 10 seconds, and requests share a round", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		var n atomic.Int32
		r.OnProbe(func(context.Context, *kopf.Probe) (any, error) {
			time.Sleep(time.Second)
			return n.Add(1), nil
		}, &kopf.ProbeOptions{ID: "n"})
		c.Operator(r, probed(p, "http://0.0.0.0/"))
		if n.Load() != 0 {
			c.Error("probes are called without being asked for")
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { wantAnswer(c, "at the same time", p.ask("GET", "/"), `200 {"n":1}`) })
		}
		all.Wait()
		time.Sleep(9900 * time.Millisecond)
		wantAnswer(c, "younger than 10 s", p.ask("GET", "/"), `200 {"n":1}`)
		time.Sleep(100 * time.Millisecond)
		wantAnswer(c, "10 s old", p.ask("GET", "/"), `200 {"n":2}`)
	})
	c.Run(t, "OP-72 a failure is 500, and the next request tries again", func(c *C) {
		p := newPipe()
		r := &kopf.Registry{}
		n := 0
		r.OnProbe(func(context.Context, *kopf.Probe) (any, error) {
			if n++; n <= 2 {
				return nil, errors.New("secret")
			}
			return n, nil
		}, &kopf.ProbeOptions{ID: "bad"})
		r.OnProbe(func(context.Context, *kopf.Probe) (any, error) { return "fine", nil }, &kopf.ProbeOptions{ID: "good"})
		c.Operator(r, probed(p, "http://0.0.0.0/"))
		got := []string{p.ask("GET", "/").String(), p.ask("GET", "/").String(), p.ask("GET", "/").String()}
		if diff := cmp.Diff([]string{`500 {"failed":["bad"]}`, `500 {"failed":["bad"]}`, `200 {"bad":3,"good":"fine"}`}, got); diff != "" {
			c.Errorf("(-want +got):\n%s", diff)
		}
	})
	c.Run(t, "OP-72 a result that is no JSON is a failure, too", func(c *C) {
		p := newPipe()
		r := &kopf.Registry{}
		r.OnProbe(func(context.Context, *kopf.Probe) (any, error) { return make(chan int), nil }, &kopf.ProbeOptions{ID: "nojson"})
		c.Operator(r, probed(p, "http://0.0.0.0/"))
		wantAnswer(c, "it", p.ask("GET", "/"), `500 {"failed":["nojson"]}`)
	})
	c.Run(t, "OP-73 it is alive without streams and credentials", func(c *C) {
		p := newPipe()
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event"})
		op := c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		op.Wire.Cut()
		c.Pass(time.Second)
		wantAnswer(c, "liveness", p.ask("GET", "/healthz"), "200 {}")
	})
	c.Run(t, "OP-T36 there is one attempt with a deadline, and the answer names who has failed", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		calls := &calls{}
		r.OnProbe(func(context.Context, *kopf.Probe) (any, error) {
			calls.add("temporary")
			return nil, kopf.Temporary(errors.New("not yet"), time.Second)
		}, &kopf.ProbeOptions{ID: "temporary"})
		release := make(chan struct{})
		r.OnProbe(func(context.Context, *kopf.Probe) (any, error) {
			calls.add("deaf")
			<-release
			return nil, nil
		}, &kopf.ProbeOptions{ID: "deaf", Timeout: 3 * time.Second})
		r.OnProbe(func(context.Context, *kopf.Probe) (any, error) { panic("boom") }, &kopf.ProbeOptions{ID: "panics"})
		c.Operator(r, probed(p, "http://0.0.0.0/"))
		began := time.Now()
		wantAnswer(c, "the first request", p.ask("GET", "/"), `500 {"failed":["temporary","deaf","panics"]}`)
		if passed := time.Since(began); passed != 3*time.Second {
			c.Errorf("the answer took %s, want 3s", passed)
		}
		wantAnswer(c, "the second request", p.ask("GET", "/"), `500 {"failed":["temporary","deaf","panics"]}`)
		if passed := time.Since(began); passed != 3*time.Second {
			c.Errorf("the second answer came after %s, want at once", passed)
		}
		close(release)
		c.Pass(time.Second)
		wantAnswer(c, "the third request", p.ask("GET", "/"), `500 {"failed":["temporary","panics"]}`)
		if n := calls.count("deaf"); n != 2 {
			c.Errorf("the deaf probe was called %d times, want 2", n)
		}
		if n := calls.count("temporary"); n != 3 {
			c.Errorf("the failing probe was called %d times, want 3", n)
		}
	})
	c.Run(t, "DF-41 a probe that calls runtime.Goexit has failed, and is called again", func(c *C) {
		c.OnlyInBubble("it waits")
		var l calls
		p, r := newPipe(), &kopf.Registry{}
		r.OnProbe(func(context.Context, *kopf.Probe) (any, error) {
			l.add("call")
			runtime.Goexit()
			return nil, nil
		}, &kopf.ProbeOptions{ID: "exits"})
		c.Operator(r, probed(p, "http://0.0.0.0/"))
		for range 2 {
			wantAnswer(c, "a request", p.ask("GET", "/"), `500 {"failed":["exits"]}`)
			c.Pass(time.Minute)
		}
		c.expect(&l, "call", "call")
	})
	c.Run(t, "OP-T36 without an option, a probe has 10 seconds", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := &kopf.Registry{}
		r.OnProbe(func(ctx context.Context, _ *kopf.Probe) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, &kopf.ProbeOptions{ID: "slow"})
		c.Operator(r, probed(p, "http://0.0.0.0/"))
		began := time.Now()
		wantAnswer(c, "the answer", p.ask("GET", "/"), `500 {"failed":["slow"]}`)
		if passed := time.Since(began); passed != 10*time.Second {
			c.Errorf("the answer took %s, want 10s", passed)
		}
	})
}

func probingReadiness(t *testing.T, c *C) {
	const calm = `200 {"started":true,"login":true,"paused":false,"streams":{"wanted":1,"working":1}}`
	watching := func() *kopf.Registry {
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event"})
		return r
	}
	c.Run(t, "OP-T38 readiness tells of streams that do not work", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		op := c.Operator(watching(), probed(p, "http://0.0.0.0/healthz"))
		c.WaitFor("the streams", func() bool { return p.ask("GET", "/readyz").String() == calm })
		var broken atomic.Bool
		broken.Store(true)
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if broken.Load() && strings.Contains(q.Path, "/kopfexamples") {
				return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
			}
			return nil, nil
		})
		op.Wire.Drop()
		c.WaitFor("the trouble", func() bool {
			return p.ask("GET", "/readyz").String() == `503 {"started":true,"login":true,"paused":false,"streams":{"wanted":1,"working":0}}`
		})
		wantAnswer(c, "liveness meanwhile", p.ask("GET", "/healthz"), "200 {}")
		broken.Store(false)
		c.WaitFor("the recovery", func() bool { return p.ask("GET", "/readyz").String() == calm })
	})
	c.Run(t, "DF-81 an operator is not ready while none of its handlers can be served, and says why", func(c *C) {
		p := newPipe()
		r := &kopf.Registry{}
		r.OnEvent("ghosts.ghostly.dev", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "ghost"})
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"))
		const why = `,"unserved":["Unresolved resources cannot be served (try creating their CRDs): ghosts.ghostly.dev.`
		c.WaitFor("the answer", func() bool {
			return strings.HasPrefix(p.ask("GET", "/readyz").String(), `503 {"started":true,"login":true,"paused":false,"streams":{"wanted":0,"working":0}`+why)
		})
		r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event"})
		some := newPipe()
		c.Operator(r, probed(some, "http://0.0.0.0/healthz"))
		c.WaitFor("the one with another handler", func() bool { return some.ask("GET", "/readyz").String() == calm })
	})
	c.Run(t, "DF-81 readiness names the resources without permissions", func(c *C) {
		p := newPipe()
		op := c.Operator(watching(), probed(p, "http://0.0.0.0/healthz"))
		c.WaitFor("the streams", func() bool { return p.ask("GET", "/readyz").String() == calm })
		var forbidden atomic.Bool
		forbidden.Store(true)
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if forbidden.Load() && strings.Contains(q.Path, "/kopfexamples") {
				return Answer(http.StatusForbidden, "Forbidden", "not you"), nil
			}
			return nil, nil
		})
		op.Wire.Drop()
		const why = `,"unserved":["No permission to list and watch kopfexamples.v1.kopf.dev"]}`
		c.WaitFor("the refusal", func() bool {
			return p.ask("GET", "/readyz").String() == `503 {"started":true,"login":true,"paused":false,"streams":{"wanted":1,"working":0}`+why
		})
		forbidden.Store(false)
		c.WaitFor("the recovery", func() bool { return p.ask("GET", "/readyz").String() == calm })
	})
	c.Run(t, "OP-T38 readiness tells of a login that hangs", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		r := watching()
		var hangs atomic.Bool
		info := c.ConnectionInfo()
		r.OnLogin(func(ctx context.Context, _ *kopf.Login) (*kopf.ConnectionInfo, error) {
			if hangs.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return info, nil
		}, id("login"))
		c.Operator(r, probed(p, "http://0.0.0.0/healthz"), func(op *kopf.Operator) {
			info.HTTPClient = &http.Client{Transport: tripper(func(q *http.Request) (*http.Response, error) {
				if hangs.Load() {
					return Answer(http.StatusUnauthorized, "Unauthorized", "who are you?"), nil
				}
				return c.info.HTTPClient.Transport.RoundTrip(q)
			})}
			op.Connection = nil
			op.Settings.Watching.ClientTimeout = time.Minute
		})
		c.WaitFor("the streams", func() bool { return p.ask("GET", "/readyz").String() == calm })
		hangs.Store(true)
		c.WaitFor("the login", func() bool {
			a := p.ask("GET", "/readyz")
			return a.code == 503 && strings.Contains(a.body, `"login":false`)
		})
	})
	c.Run(t, "OP-T38 an operator that pauses is ready to take over, and tells that it pauses", func(c *C) {
		p := newPipe()
		table := c.meet()
		op := c.Operator(watching(), probed(p, "http://0.0.0.0/healthz"))
		c.WaitFor("the streams", func() bool { return p.ask("GET", "/readyz").code == 200 })
		table.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.WaitFor("the answer", func() bool {
			return p.ask("GET", "/readyz").String() == `200 {"started":true,"login":true,"paused":true,"streams":{"wanted":1,"working":0}}`
		})
		if page := p.ask("GET", "/metrics").body; !strings.Contains(page, "\nkopf_paused 1\n") || !strings.Contains(page, "\nkopf_peers 1\n") {
			c.Errorf("the metrics tell nothing of the pause:\n%s", page)
		}
		table.sit("boss", nil)
		c.going(op, 1)
		c.WaitFor("the streams after the pause", func() bool { return p.ask("GET", "/readyz").String() == calm })
	})
}
