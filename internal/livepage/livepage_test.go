package livepage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/inspection"
	"github.com/kopf-go/kopf/internal/metrics"
)

// source is a fake operator.
type source struct {
	fills   atomic.Int32
	fill    func(*State)
	objects int
	samples atomic.Int32
}

func (s *source) Fill(state *State) {
	s.fills.Add(1)
	if s.fill != nil {
		s.fill(state)
	}
}

func (s *source) Object(o *ObjectState) bool {
	o.Key = o.Object.Name
	return o.Object.Name != "unknown"
}

func (s *source) Search(text string, into *ObjectList) {
	for i := range s.objects {
		row := ObjectRow{Object: *object(fmt.Sprint("o", s.objects-i)), Resource: "kopfexamples.v1.kopf.dev", State: "idle"}
		if strings.Contains(row.Object.Name, text) {
			into.Add(row)
		}
	}
}

func (s *source) Sample() Sample {
	n := int(s.samples.Add(1))
	return Sample{Waiting: n, Succeeded: int64(10 * n), Failed: int64(n)}
}

func newServer(fill func(*State)) (*Server, *source) {
	s := &source{fill: fill}
	return &Server{Source: s, Calls: NewCalls(true)}, s
}

// viewersOf returns the number of event streams.
func viewersOf(s *Server) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.viewers
}

// ask sends a request to the server.
func ask(s *Server, method, url string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, nil)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func object(name string) *inspection.Object {
	return &inspection.Object{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Namespace: "default", Name: name, UID: "u-" + name}
}

func TestPage(t *testing.T) {
	s, _ := newServer(nil)
	t.Run("OB-18 the page is one file of at most 20 KB, with nothing from elsewhere", func(t *testing.T) {
		w := ask(s, "GET", "http://127.0.0.1/")
		body := w.Body.String()
		if w.Code != 200 || len(body) > 20_000 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("the code is %d, for %d bytes of %s", w.Code, len(body), w.Header().Get("Content-Type"))
		}
		for _, pattern := range []string{`https?://`, `\bsrc=`, `@import`, `url\(`, `<link`, `<img`, `//[a-z]+\.`} {
			if found := regexp.MustCompile(pattern).FindString(body); found != "" {
				t.Errorf("the page has %q", found)
			}
		}
	})
	t.Run("OB-19 values reach the page as texts alone", func(t *testing.T) {
		for _, banned := range []string{"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "srcdoc", "setHTML", "onclick", "javascript:"} {
			if strings.Contains(page, banned) {
				t.Errorf("the page has %q", banned)
			}
		}
		if n := strings.Count(page, "setAttribute("); n != 2 || !strings.Contains(page, "a.setAttribute('href', c.href)") ||
			!strings.Contains(page, "setAttribute('points', values.map(") { // of numbers
			t.Errorf("attributes are set at %d places", n)
		}
	})
	t.Run("OB-23 browsers run nothing but the script of the page", func(t *testing.T) {
		h := ask(s, "GET", "http://127.0.0.1/").Header()
		policy := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("the policy has no %q: %s", part, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("the headers are %v", h)
		}
		if n := strings.Count(page, "<script>") + strings.Count(page, "<style>"); n != 2 || strings.Contains(page, " style=") || strings.Contains(page, "<script ") {
			t.Errorf("there are %d elements with scripts and styles, want one each", n)
		}
	})
}

func TestRequests(t *testing.T) {
	s, _ := newServer(nil)
	s.Hosts = []string{"Operator.example"}
	t.Run("OB-23 only GET and HEAD are answered", func(t *testing.T) {
		for _, path := range []string{"/", "/?plain", "/api/v1/state", "/api/v1/events", "/api/v1/objects/x/y"} {
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "X"} {
				if w := ask(s, method, "http://127.0.0.1"+path); w.Code != 405 || w.Header().Get("Allow") != "GET,HEAD" {
					t.Errorf("%s %s: %d", method, path, w.Code)
				}
			}
			if w := ask(s, "HEAD", "http://127.0.0.1"+path); w.Code != 200 {
				t.Errorf("HEAD %s: %d", path, w.Code)
			}
		}
	})
	t.Run("OB-23 the host is an address, localhost, or as given", func(t *testing.T) {
		for host, want := range map[string]int{
			"127.0.0.1": 200, "127.0.0.1:8080": 200, "[::1]:8080": 200, "::1": 200, "10.1.2.3:80": 200, "localhost": 200, "LocalHost:8080": 200, "localhost.": 200, "operator.example": 200, "OPERATOR.EXAMPLE:80": 200,
			"": 421, "x": 421, "evil.example": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "xoperator.example": 421, "0x7f.1": 421, "127.1": 421, ":80": 421,
		} {
			for _, path := range []string{"/", "/?plain", "/api/v1/state"} {
				if w := ask(s, "GET", "http://127.0.0.1"+path, "Host", host); w.Code != want {
					t.Errorf("%s at %q: %d, want %d", path, host, w.Code, want)
				}
			}
		}
	})
	t.Run("OB-23 other sites read nothing", func(t *testing.T) {
		if w := ask(s, "GET", "http://127.0.0.1/api/v1/state", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"); w.Code != 403 || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("got %d", w.Code)
		}
		if w := ask(s, "GET", "http://127.0.0.1/api/v1/state", "Sec-Fetch-Site", "same-origin"); w.Code != 200 {
			t.Errorf("got %d", w.Code)
		}
	})
	t.Run("unknown paths are not found", func(t *testing.T) {
		for _, path := range []string{"/api/v1/", "/api/v1/x", "/api/v1/objects/", "/api/v1/objects/a", "/api/v1/objects/a/b/c/d", "/api/v1/objects/a/unknown", "/api/v1/state/"} {
			if w := ask(s, "GET", "http://127.0.0.1"+path); w.Code != 404 {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	})
}

func TestBounds(t *testing.T) {
	t.Run("DF-73 at most 1,000 objects are listed, in order, with the count of the rest", func(t *testing.T) {
		s, source := newServer(nil)
		source.objects = maxRows + 7
		var got ObjectList
		if err := json.Unmarshal(ask(s, "GET", "http://localhost/api/v1/objects?q=").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		sorted := slices.IsSortedFunc(got.Objects, func(a, b ObjectRow) int { return strings.Compare(a.Object.Name, b.Object.Name) })
		if len(got.Objects) != maxRows || got.Omitted != 7 || !sorted {
			t.Errorf("got %d objects, in order: %t, and %d are left out", len(got.Objects), sorted, got.Omitted)
		}
	})
	t.Run("DF-73 the history has at most an hour", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newServer(nil)
			ctx, cancel := context.WithCancel(t.Context())
			go s.Record(ctx)
			for _, want := range []int{0, 1, maxSamples} {
				synctest.Wait()
				h := s.past.history()
				if len(h.Waiting) != want || len(h.Succeeded) != want || len(h.Failed) != want {
					t.Errorf("got %d intervals, want %d", len(h.Waiting), want)
				}
				if want > 0 && (h.Succeeded[want-1] != 10 || h.Failed[want-1] != 1 || h.Waiting[0] != h.Waiting[want-1]-want+1) {
					t.Errorf("got %+v", h)
				}
				time.Sleep(map[int]time.Duration{0: sampleEvery, 1: 2 * time.Hour}[want])
			}
			cancel()
		})
	})
	t.Run("OB-25 at most 1,000 rows are shown, with the count of the rest", func(t *testing.T) {
		s, _ := newServer(func(state *State) {
			for i := range 1500 {
				state.Streams = append(state.Streams, Stream{Namespace: fmt.Sprint(i)})
				state.Resources = append(state.Resources, metrics.LiveResource{Resource: fmt.Sprint(i)})
			}
		})
		for i := range 12000 {
			name := fmt.Sprint(i)
			s.Calls.Begin(name, object(name), "h", Ordinary).End(true, 1, time.Now().Add(time.Duration(12000-i)*time.Second), errors.New(strings.Repeat("x", 5000)))
			if i < 30 {
				s.Calls.Begin(name, object(name), "running", Ordinary)
				s.Calls.Begin(name, object(name), "daemon", Endless)
			}
		}
		var state State
		body := ask(s, "GET", "http://127.0.0.1/api/v1/state").Body.Bytes()
		if err := json.Unmarshal(body, &state); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"streams": 500, "resources": 500, "retries": maxKept - 1000, "calls": 10}
		if diff := cmp.Diff(want, state.Omitted); diff != "" {
			t.Errorf("omitted (-want +got):\n%s", diff)
		}
		if len(state.Streams) != 1000 || len(state.Retries) != 1000 || len(state.Calls) != 20 || len(body) > 2<<20 {
			t.Errorf("%d streams, %d retries, %d calls in %d bytes", len(state.Streams), len(state.Retries), len(state.Calls), len(body))
		}
		for i, r := range state.Retries {
			if i > 0 && r.Next.Before(state.Retries[i-1].Next) || len(r.Error) > maxError {
				t.Fatalf("row %d is out of order, or its error has %d bytes", i, len(r.Error))
			}
		}
	})
	t.Run("OB-25 all viewers share a snapshot, which costs a two hundredth of the time at most", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, src := newServer(func(*State) { time.Sleep(50 * time.Millisecond) })
			began := time.Now()
			for time.Since(began) < time.Minute {
				ask(s, "GET", "http://127.0.0.1/api/v1/state")
				time.Sleep(10 * time.Millisecond)
			}
			if n := src.fills.Load(); n > 7 {
				t.Errorf("%d snapshots in a minute", n)
			}
		})
	})
	t.Run("OB-25 nothing is done without viewers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, src := newServer(nil)
			ask(s, "GET", "http://127.0.0.1/")
			time.Sleep(time.Hour)
			if src.fills.Load() != 0 || viewersOf(s) != 0 {
				t.Errorf("%d snapshots", src.fills.Load())
			}
		})
	})
}

// viewer opens an event stream on its own connection.
func viewer(t *testing.T, s *Server) (conn net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	l := &listener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	l.conns <- theirs
	server := &http.Server{Handler: s, ReadTimeout: 10 * time.Second}
	go server.Serve(l)
	t.Cleanup(func() { server.Close(); ours.Close() })
	go fmt.Fprint(ours, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	return ours
}

type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{} }

func TestEvents(t *testing.T) {
	t.Run("OB-18 changes come as events, and a sign of life where there are none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var version atomic.Int32
			s, _ := newServer(func(state *State) { state.Time, state.Version = time.Time{}, fmt.Sprint("v", version.Load()) })
			conn := viewer(t, s)
			var mu sync.Mutex
			var text strings.Builder
			go func() {
				b := make([]byte, 4096)
				for {
					n, err := conn.Read(b)
					mu.Lock()
					text.Write(b[:n])
					mu.Unlock()
					if err != nil {
						return
					}
				}
			}()
			got := func() string { mu.Lock(); defer mu.Unlock(); return text.String() }
			time.Sleep(40 * time.Second) // longer than the server's timeout for requests
			if n := strings.Count(got(), "event: state"); n != 1 || strings.Count(got(), ": still here") != 2 || !strings.Contains(got(), "text/event-stream") {
				t.Errorf("got %q", got())
			}
			version.Store(1)
			time.Sleep(2 * time.Second)
			if n := strings.Count(got(), "event: state"); n != 2 || !strings.Contains(got(), `"version":"v1"`) {
				t.Errorf("%d events: %q", n, got())
			}
			conn.Close()
			time.Sleep(time.Minute)
			if viewersOf(s) != 0 {
				t.Error("the viewer is still counted")
			}
		})
	})
	t.Run("OB-25 a slow viewer is cut off, and delays no other", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newServer(func(state *State) { state.Version = strings.Repeat("x", 1<<16) })
			conn := viewer(t, s)
			time.Sleep(time.Second) // without reading
			if viewersOf(s) != 1 {
				t.Fatalf("%d viewers", viewersOf(s))
			}
			began := time.Now()
			if ask(s, "GET", "http://127.0.0.1/api/v1/state"); time.Since(began) > 0 {
				t.Errorf("another viewer has waited for %s", time.Since(began))
			}
			time.Sleep(2 * sendTimeout)
			if viewersOf(s) != 0 {
				t.Error("the slow viewer is still there")
			}
			conn.Close()
		})
	})
	t.Run("OB-25 the viewers of events are bounded", func(t *testing.T) {
		s, _ := newServer(nil)
		s.viewers = maxViewers
		if w := ask(s, "GET", "http://127.0.0.1/api/v1/events"); w.Code != 503 || viewersOf(s) != maxViewers {
			t.Errorf("got %d", w.Code)
		}
	})
}

func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(nil)
		c := s.Calls
		state := func() *State {
			s := &State{Time: time.Now()}
			c.fill(s)
			return s
		}
		slow := c.Begin("a", object("a"), "slow", Ordinary)
		time.Sleep(time.Second)
		c.Begin("b", object("b"), "quick", Ordinary)
		if got := state(); len(got.Calls) != 2 || got.Calls[0].Handler != "slow" {
			t.Errorf("the slowest call is not the first one: %v", got.Calls)
		}
		slow.End(true, 1, time.Now().Add(time.Hour), errors.New("no"))
		timer := c.Begin("a", object("a"), "timer", Apart)
		timer.End(true, 2, time.Now().Add(time.Minute), errors.New("later"))
		c.Pause("a", object("a"), time.Now().Add(10*time.Second), "refused")
		if got := state(); len(got.Retries) != 3 || got.Retries[0].Error != "refused" || got.Retries[2].Handler != "slow" || got.Retries[2].Attempts != 1 {
			t.Errorf("got %+v", got.Retries)
		}
		c.Settle("a", nil, nil) // the object has changed: the handler will not be retried, but the timer will
		if got := state(); len(got.Retries) != 2 || got.Retries[1].Handler != "timer" {
			t.Errorf("got %+v", got.Retries)
		}
		time.Sleep(20 * time.Second)
		if got := state(); len(got.Retries) != 1 {
			t.Errorf("a pause that is over is still shown: %+v", got.Retries)
		}
		c.Settle("b", []string{"h"}, []*Retry{{Object: object("b"), Handler: "h", Next: time.Now().Add(time.Second)}})
		c.Forget("a")
		if got := state(); len(got.Retries) != 1 || got.Retries[0].Handler != "h" {
			t.Errorf("got %+v", got.Retries)
		}
		time.Sleep(time.Hour)
		if got := state(); len(got.Retries) != 0 || c.kept != 0 || len(c.retries) != 0 {
			t.Errorf("what was never called again is still shown: %+v", got.Retries)
		}
		var none *Calls
		none.Begin("a", object("a"), "h", Ordinary).End(true, 1, time.Time{}, nil)
		none.Pause("a", object("a"), time.Time{}, "")
		none.Settle("a", nil, nil)
		none.Stop("a", "h")
		none.Forget("a")
	})
}

// cluster proxies to pods, some of which do not respond.
type cluster struct{ dead string }

func (c *cluster) Read(ctx context.Context, path string, _ url.Values, _ string) ([]byte, int, error) {
	if strings.HasSuffix(path, "/pods") {
		var items []string
		for i := range 35 {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":"pod-%d"}}`, i))
		}
		return []byte(`{"items":[` + strings.Join(items, ",") + `]}`), 200, nil
	}
	if strings.Contains(path, c.dead) {
		<-ctx.Done()
		return nil, 0, context.Cause(ctx)
	}
	return []byte("{}"), 200, nil
}

func TestDeadPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		pods := &Pods{Namespace: "default", Selector: "app=x", Port: 8080}
		all, err := pods.States(t.Context(), &cluster{dead: "pod-1"}) // and ten other pods
		if err != nil || len(all) != 35 {
			t.Fatalf("got %d pods: %v", len(all), err)
		}
		for i, pod := range all {
			dead := strings.HasPrefix(pod.Pod, "pod-1")
			if pod.Pod != fmt.Sprint("pod-", i) || dead != strings.Contains(pod.Error, "no answer in 10s") || dead == (string(pod.State) == "{}") {
				t.Errorf("got %+v", pod)
			}
		}
		if took := time.Since(began); took > 2*askWithin {
			t.Errorf("asking has taken %s", took)
		}
		began = time.Now()
		if _, err := pods.States(t.Context(), &cluster{dead: "pod-"}); err == nil || time.Since(began) > 4*askWithin {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

func TestCallsWithoutViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(nil)
		c := s.Calls
		for i := range 2 * maxKept {
			key := fmt.Sprint(i)
			c.Pause(key, object(key), time.Now().Add(time.Second), "conflicts")
		}
		if c.kept != maxKept {
			t.Errorf("%d are kept, want %d", c.kept, maxKept)
		}
		time.Sleep(time.Hour)
		c.Settle("a", []string{"h"}, []*Retry{{Object: object("a"), Handler: "h", Next: time.Now().Add(time.Minute)}})
		if got := ask(s, "GET", "http://127.0.0.1/api/v1/state").Body.String(); !strings.Contains(got, `"handler":"h"`) {
			t.Error("what is long over leaves no place for a handler in retry")
		}
	})
}

// handlerUnderTest blocks, so that it appears in a stack trace.
func handlerUnderTest(c *Calls, began, end chan struct{}) {
	r := c.Begin("a", object("a"), "h", Ordinary)
	defer r.End(false, 0, time.Time{}, nil)
	r.Enter()
	close(began)
	<-end
}

func TestStacks(t *testing.T) {
	t.Run("OB-21 the stack of a running handler is shown on request, if that is wanted", func(t *testing.T) {
		for _, wanted := range []bool{true, false} {
			s, _ := newServer(nil)
			s.Calls = NewCalls(wanted)
			began, end := make(chan struct{}), make(chan struct{})
			var done sync.WaitGroup
			done.Go(func() { handlerUnderTest(s.Calls, began, end) })
			<-began
			var with, without ObjectState
			for query, into := range map[string]*ObjectState{"?stack": &with, "": &without} {
				if err := json.Unmarshal(ask(s, "GET", "http://127.0.0.1/api/v1/objects/kopfexamples/default/a"+query).Body.Bytes(), into); err != nil {
					t.Fatal(err)
				}
			}
			if len(with.Running) != 1 || strings.Contains(with.Running[0].Stack, "handlerUnderTest") != wanted || (len(with.Notes) == 0) != wanted {
				t.Errorf("with stacks %t: %+v", wanted, with)
			}
			if without.Running[0].Stack != "" || len(without.Notes) > 0 {
				t.Errorf("a stack that was not asked for: %+v", without)
			}
			close(end)
			done.Wait()
		}
	})
}

func TestPlain(t *testing.T) {
	t.Run("OB-26 there is a page without a script, on which values are texts", func(t *testing.T) {
		s, _ := newServer(func(state *State) {
			state.Version = `<script>alert("1")</script>&'`
			state.Streams = []Stream{{Resource: "a", Error: "<b>"}, {Resource: "b", Namespace: `"x'`}}
		})
		s.Calls.Begin("a", object("<script>a</script>"), "h", Ordinary)
		w := ask(s, "GET", "http://localhost/?plain")
		body := w.Body.String()
		if strings.Contains(body, "<script") || strings.Contains(body, "<b>") {
			t.Errorf("a value is markup: %s", body)
		}
		for _, want := range []string{"&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;&amp;&#39;", "&lt;b&gt;", "<h2>streams</h2>", "name: &lt;script&gt;a&lt;/script&gt;", "&#34;x&#39;", "<p>None.</p>"} {
			if !strings.Contains(body, want) {
				t.Errorf("the page has no %s", want)
			}
		}
		if !strings.Contains(page, `<noscript>`) || !strings.Contains(page, `href="?plain"`) {
			t.Error("the page does not link to the plain one")
		}
	})
}

// reviewer is an API server that accepts one token.
type reviewer struct {
	calls []string
	err   error
	may   bool
}

func (r *reviewer) Post(_ context.Context, path string, body []byte, into any) error {
	r.calls = append(r.calls, path+" "+string(body))
	answer := `{"status":{"authenticated":true,"user":{"username":"alice","uid":"1","groups":["admins"],"extra":{"k":["v"]}}}}`
	if strings.Contains(path, "access") {
		answer = fmt.Sprintf(`{"status":{"allowed":%t}}`, r.may)
	} else if !strings.Contains(string(body), `"good"`) {
		answer = `{"status":{"authenticated":false,"user":{}}}`
	}
	if r.err != nil {
		return r.err
	}
	return json.Unmarshal([]byte(answer), into)
}

// slowReviewer responds slowly.
type slowReviewer struct {
	reviewer
	takes atomic.Int64
}

func (r *slowReviewer) Post(ctx context.Context, path string, body []byte, into any) error {
	select {
	case <-time.After(time.Duration(r.takes.Load())):
		return r.reviewer.Post(ctx, path, body, into)
	case <-ctx.Done():
		return ctx.Err()
	}
}

var quiet = slog.New(slog.DiscardHandler)

func TestToken(t *testing.T) {
	const token = "0123456789abcdef"
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("OB-24 the token of the file opens the page, and no other one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			write(token + "\n")
			s, _ := newServer(nil)
			var err error
			if s.Auth, err = NewAuth(file, nil, quiet); err != nil {
				t.Fatal(err)
			}
			basic := func(password string) string {
				r := httptest.NewRequest("GET", "/", nil)
				r.SetBasicAuth("any", password)
				return r.Header.Get("Authorization")
			}
			for _, path := range []string{"/api/v1/state", "/?plain", "/api/v1/objects/a/b"} {
				for _, c := range []struct {
					header, value string
					want          int
				}{
					{"Authorization", "Bearer " + token, 200}, {"Authorization", "bearer  " + token, 200}, {"Authorization", basic(token), 200}, {TokenHeader, token, 200},
					{"Authorization", "Bearer " + token[1:], 401}, {"Authorization", "Bearer " + token + "0", 401}, {"Authorization", token, 401}, {"Authorization", basic(""), 401},
					{"Authorization", "Bearer ", 401}, {TokenHeader, "", 401}, {TokenHeader, strings.Repeat("x", maxToken+1), 401}, {"X", "", 401},
				} {
					if w := ask(s, "GET", "http://10.0.0.1"+path, c.header, c.value); w.Code != c.want || (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
						t.Errorf("%s with %s %q: %d, want %d", path, c.header, c.value, w.Code, c.want)
					}
				}
			}
			if w := ask(s, "GET", "http://10.0.0.1/"); w.Code != 200 || strings.Contains(w.Body.String(), token) {
				t.Errorf("the page that asks for the token: %d", w.Code)
			}
			if w := ask(s, "GET", "http://10.0.0.1/api/v1/state"); strings.Contains(w.Header().Get("WWW-Authenticate"), "Basic") {
				t.Error("browsers would ask for a password instead of the page")
			}
			write("fedcba9876543210")
			time.Sleep(2 * rereadAfter)
			old, now := ask(s, "GET", "http://10.0.0.1/api/v1/state", TokenHeader, token).Code, ask(s, "GET", "http://10.0.0.1/api/v1/state", TokenHeader, "fedcba9876543210").Code
			if old != 401 || now != 200 {
				t.Errorf("after a rotation: %d for the old token, %d for the new one", old, now)
			}
			write("")
			time.Sleep(2 * rereadAfter)
			if code := ask(s, "GET", "http://10.0.0.1/api/v1/state", TokenHeader, "fedcba9876543210").Code; code != 200 {
				t.Errorf("after the file was emptied: %d", code)
			}
		})
	})
	t.Run("OB-24 a missing or short token is an error", func(t *testing.T) {
		write("short\n")
		if _, err := NewAuth(file, nil, quiet); err == nil || !strings.Contains(err.Error(), "has 5 bytes") {
			t.Errorf("got %v", err)
		}
		if _, err := NewAuth(file+"x", nil, quiet); err == nil || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("OB-24 on other addresses than loopback, anybody must not look", func(t *testing.T) {
		for address, open := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "0.0.0.0": false, "::": false, "10.0.0.1": false} {
			if err := CheckAddress(&net.TCPAddr{IP: net.ParseIP(address), Port: 80}, nil); (err == nil) != open {
				t.Errorf("%s: %v", address, err)
			}
			if err := CheckAddress(&net.TCPAddr{IP: net.ParseIP(address)}, &Auth{}); err != nil {
				t.Errorf("%s with a token: %v", address, err)
			}
		}
		if err := CheckAddress(&net.UnixAddr{}, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestReviews(t *testing.T) {
	t.Run("OB-24 the API server decides who may look", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &reviewer{may: true}
			s, _ := newServer(nil)
			s.Auth, _ = NewAuth("", r, quiet)
			code := func(token string) int {
				return ask(s, "GET", "http://10.0.0.1/api/v1/state", "Authorization", "Bearer "+token).Code
			}
			if got := code("good"); got != 200 || len(r.calls) != 2 {
				t.Fatalf("got %d after %q", got, r.calls)
			}
			want := `/apis/authorization.k8s.io/v1/subjectaccessreviews {"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"extra":{"k":["v"]},"groups":["admins"],` +
				`"nonResourceAttributes":{"path":"/kopf-page","verb":"get"},"uid":"1","user":"alice"}}`
			if r.calls[1] != want {
				t.Errorf("asked for %s\nwant %s", r.calls[1], want)
			}
			for range 100 {
				code("good")
			}
			if len(r.calls) != 2 {
				t.Errorf("%d requests for one token", len(r.calls))
			}
			if r.may = false; code("good") != 200 {
				t.Error("the verdict has not counted for a minute")
			}
			if time.Sleep(allowedFor); code("good") != 401 {
				t.Error("a right that was taken away still counts")
			}
			if code("bad") != 401 || code("") != 401 {
				t.Error("a bad token is let in")
			}
			r.err = errors.New("down")
			if time.Sleep(time.Hour); code("good") != 503 {
				t.Error("a verdict without an answer")
			}
			r.err, r.may = nil, true
			if code("good") != 200 {
				t.Error("an error is remembered as a verdict")
			}
			for i := range 2 * maxReviewed {
				code(fmt.Sprint("x", i))
			}
			if len(s.Auth.reviewed) > maxReviewed {
				t.Errorf("%d verdicts are remembered", len(s.Auth.reviewed))
			}
		})
	})
	t.Run("OB-24 strangers hold up neither those who are known nor the API server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte("0123456789abcdef"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := &slowReviewer{reviewer: reviewer{may: true}}
			s, _ := newServer(nil)
			s.Auth, _ = NewAuth(file, r, quiet)
			code := func(token string) int {
				return ask(s, "GET", "http://10.0.0.1/api/v1/state", "Authorization", "Bearer "+token).Code
			}
			if got := code("good"); got != 200 {
				t.Fatalf("got %d", got)
			}
			r.takes.Store(int64(time.Hour))
			var strangers sync.WaitGroup
			var codes [50]int
			for i := range codes {
				strangers.Go(func() { codes[i] = code(fmt.Sprint("stranger", i)) })
			}
			synctest.Wait()
			began := time.Now()
			if a, b := code("0123456789abcdef"), code("good"); a != 200 || b != 200 || time.Since(began) > 0 {
				t.Errorf("got %d for the token of the file and %d for one that was reviewed, after %s", a, b, time.Since(began))
			}
			strangers.Wait()
			if took := time.Since(began); took > 2*reviewWithin {
				t.Errorf("the last stranger has waited for %s", took)
			}
			r.takes.Store(0)
			before, began := len(r.calls), time.Now()
			for i := range 1000 {
				code(fmt.Sprint("another", i))
			}
			if asked, took := len(r.calls)-before, time.Since(began); asked > int(took/reviewEvery)+1 {
				t.Errorf("the API server was asked %d times in %s", asked, took)
			}
		})
	})
	t.Run("OB-24 strangers do not fill the log while the API server does not answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var logged bytes.Buffer
			s, _ := newServer(nil)
			s.Auth, _ = NewAuth("", &reviewer{err: errors.New("down")}, slog.New(slog.NewTextHandler(&logged, nil)))
			for i := range 600 { // ten a second
				if w := ask(s, "GET", "http://10.0.0.1/api/v1/state", "Authorization", fmt.Sprint("Bearer stranger", i)); w.Code != 503 {
					t.Fatalf("got %d, want 503", w.Code)
				}
			}
			if n := strings.Count(logged.String(), "level=WARN"); n < 1 || n > 2 {
				t.Errorf("got %d warnings in a minute, want one or two", n)
			}
		})
	})
	if a, err := NewAuth("", nil, quiet); a != nil || err != nil || !a.allow(nil, nil, false) {
		t.Error("without a token, there is one")
	}
}

// TestStateNames checks the field names in the JSON, which other programs read.
func TestStateNames(t *testing.T) {
	data, err := json.Marshal(&State{Streams: []Stream{{}}, Calls: []*Call{{Object: object("a")}}, Retries: []*Retry{{Object: object("a")}}, Resources: []metrics.LiveResource{{}}, Election: &Election{},
		Live: metrics.Live{Handlers: []metrics.LiveHandler{{}}, Requests: []metrics.LiveRequests{{}}, Certificates: []metrics.LiveCertificate{{}}, Children: []metrics.LiveChildren{{}}}})
	if err != nil {
		t.Fatal(err)
	}
	more, err := json.Marshal([]any{&ObjectState{Decisions: []Decision{{Cause: "x", Handlers: []Verdict{{}}}}, Notes: []string{""}}, &ObjectList{Objects: []ObjectRow{{}}, Omitted: 1}, &History{}})
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, more...)
	t.Run("OB-27 the names of the fields are documented", func(t *testing.T) {
		text, err := os.ReadFile("../../docs/live-page.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`"([A-Za-z0-9]+)":`).FindAllStringSubmatch(string(data), -1) {
			if !strings.Contains(string(text), "`"+name[1]+"`") {
				t.Errorf("docs/live-page.md does not have %s", name[1])
			}
		}
	})
	t.Run("OB-22 nothing is shown of specs, statuses, annotations and secrets", func(t *testing.T) {
		for _, name := range []string{"spec", "status", "annotations", "labels", "data", "body", "diff", "patch"} {
			if strings.Contains(string(data), `"`+name+`":`) {
				t.Errorf("there is a field %q", name)
			}
		}
	})
}

// FuzzReport prints arbitrary responses of a pod. No output may control a terminal.
func FuzzReport(f *testing.F) {
	state, err := json.Marshal(&State{Version: "v", Streams: []Stream{{Error: "no"}}, Calls: []*Call{{Object: object("a")}}, Retries: []*Retry{{Object: object("a"), Error: "no"}}, Resources: []metrics.LiveResource{{Resource: "r"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state)
	f.Add([]byte(`{"calls":[null,{}],"retries":[{},null],"pausedFor":"\u001b[2J","election":null}`))
	f.Add([]byte(`[1`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		var b strings.Builder
		if err := WriteReport(&b, []PodState{{Pod: "a", State: answer}, {Pod: "b", Error: "no"}}); err != nil {
			t.Fatal(err)
		}
		for _, r := range b.String() {
			if r < ' ' && r != '\n' || r == 0x7f {
				t.Fatalf("%q has a control character", b.String())
			}
		}
	})
}

// FuzzPlain shows arbitrary states without a script.
func FuzzPlain(f *testing.F) {
	f.Add(`<script>`, "&")
	f.Add("\x00\"", "</table>")
	f.Fuzz(func(t *testing.T, name, text string) {
		s, _ := newServer(func(state *State) {
			state.PausedFor = name
			state.Streams = []Stream{{Resource: name, Error: text}}
		})
		body := ask(s, "GET", "http://localhost/?plain").Body.String()
		for _, tag := range regexp.MustCompile(`<[^>]*>?`).FindAllString(body, -1) {
			if !regexp.MustCompile(`^</?(!doctype html|html( lang="en")?|meta [a-z="0-9, -]*|title|style|main|h1|h2|p|table|thead|tr|td|th)>$`).MatchString(tag) {
				t.Errorf("%q is markup", tag)
			}
		}
	})
}
