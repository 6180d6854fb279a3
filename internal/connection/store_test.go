package connection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/credtransport"
)

// fakeAuthServer is an in-process API server that accepts some tokens, and counts the requests.
type fakeAuthServer struct {
	mu       sync.Mutex
	tokens   map[string]bool // accepted tokens
	barred   string          // a path that rejects all requests
	requests map[string]int  // by token
	logins   int
	client   *http.Client // always the same, so that equal tokens make equal information
}

func newGate(tokens ...string) *fakeAuthServer {
	g := &fakeAuthServer{tokens: map[string]bool{}, requests: map[string]int{}}
	for _, token := range tokens {
		g.tokens[token] = true
	}
	g.client = &http.Client{Transport: g}
	return g
}

func (f *fakeAuthServer) allow(token string, allowed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens[token] = allowed
}

func (f *fakeAuthServer) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.logins
}

// RoundTrip responds to a request. The response to /stream continues until its context ends.
func (f *fakeAuthServer) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	f.requests[token]++
	resp := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("ok")), Request: req, Header: http.Header{}}
	if !f.tokens[token] || req.URL.Path == f.barred {
		resp.StatusCode = http.StatusUnauthorized
		return resp, nil
	}
	if req.URL.Path == "/stream" {
		r, w := io.Pipe()
		context.AfterFunc(req.Context(), func() { w.CloseWithError(context.Cause(req.Context())) })
		resp.Body = r
	}
	return resp, nil
}

// info returns connection information for the server.
func (f *fakeAuthServer) info(token string) *Info {
	return &Info{Server: "http://turnstile", Token: token, HTTPClient: f.client}
}

// store returns a store whose logins return one token after the other, and then the last one again and again.
func (f *fakeAuthServer) store(tokens ...string) *Store {
	return NewStore(func(ctx context.Context) (map[string]*Info, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		token := tokens[min(f.logins, len(tokens)-1)]
		f.logins++
		return map[string]*Info{"login": f.info(token)}, nil
	})
}

var errRefused = errors.New("HTTP 401")

// get requests a path with any credentials.
func get(ctx context.Context, v *Store, path string) error {
	return v.Do(ctx, func(c *Credential) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Info.Server+path, nil)
		if err != nil {
			return false, err
		}
		resp, err := c.Client.Do(req)
		if err != nil {
			return false, err
		}
		credtransport.Drain(resp.Body)
		if resp.StatusCode == http.StatusUnauthorized {
			return true, errRefused
		}
		return false, nil
	})
}

// getAll sends several concurrent requests, and returns their errors.
func getAll(ctx context.Context, v *Store, n int, path string) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = get(ctx, v, path) })
	}
	all.Wait()
	return errs
}

// openStream opens a stream, and returns a channel for the error that ends it.
func openStream(t *testing.T, ctx context.Context, v *Store) <-chan error {
	t.Helper()
	c, err := v.Pick(ctx)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Info.Server+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.StreamClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		ended <- err
	}()
	return ended
}

func isOpen(ended <-chan error) bool {
	synctest.Wait()
	select {
	case <-ended:
		return false
	default:
		return true
	}
}

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), text) {
		t.Errorf("got the error %v, want an Error with %q", err, text)
	}
}

func TestCredentials(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, ctx context.Context)
	}{
		{"AC-60 no login before it is needed", testCredentialsLazy},
		{"AC-63 the highest priority, at random among equals", testCredentialsPriorities},
		{"AC-64 the next credential after a 401", testCredentialsNext},
		{"AC-64 one login for all requests", testCredentialsOneLogin},
		{"AC-64 a refusal that comes late", testCredentialsLate},
		{"AC-65 an equal credential is ignored if there is a fresh one", testCredentialsEqual},
		{"AC-66 none left", testCredentialsNoneLeft},
		{"AC-67 expiration", testCredentialsExpiration},
		{"AC-67 expired already", testCredentialsExpired},
		{"AC-68 removing closes what is open", testCredentialsCloses},
		{"AC-68 at once, where others can take over", testCredentialsClosesAtOnce},
		{"AC-68 a closed session is no failure of the request", testCredentialsRepeats},
		{"AC-69 nothing but connection information", testCredentialsNothing},
		{"AC-T23 a failed login fails all that wait", testCredentialsFailedLogin},
		{"AC-T23 a login outlives the request that has begun it", testCredentialsCancelled},
		{"AC-T24 one refused path", testCredentialsOnePath},
		{"AC-T26 a token and a password", testCredentialsContradiction},
		{"AC-T27 a server that is wrong for a while", testCredentialsOutage},
		{"AC-T27 the same with another expiration", testCredentialsOtherExpiration},
		{"AC-T27 useless credentials that always differ", testCredentialsUseless},
		{"AC-T27 patience begins anew after success", testCredentialsRetriesRefused},
		{"closing", testCredentialsClose},
		{"closing while a login runs", testCredentialsCloseLogin},
		{"DF-19 closing while a login runs that ignores it", testCredentialsCloseStuckLogin},
		{"a request that does not wait", testCredentialsContext},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c.test(t, ctx)
				cancel()
				synctest.Wait()
			})
		})
	}
}

func testCredentialsLazy(t *testing.T, ctx context.Context) { // in a bubble
	g := newGate("good")
	v := g.store("good")
	time.Sleep(time.Hour)
	if n := g.count(); n != 0 {
		t.Errorf("got %d logins before the first request, want none", n)
	}
	for range 3 {
		if err := get(ctx, v, "/"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
	}
	if n := g.count(); n != 1 {
		t.Errorf("got %d logins, want 1", n)
	}
}

func testCredentialsPriorities(t *testing.T, ctx context.Context) {
	g := newGate("low", "high1", "high2")
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		infos := map[string]*Info{"a": g.info("low"), "b": g.info("high1"), "c": g.info("high2"), "none": nil}
		infos["a"].Priority, infos["b"].Priority, infos["c"].Priority = -1, 5, 5
		return infos, nil
	})
	for range 100 {
		if err := get(ctx, v, "/"); err != nil {
			t.Fatal(err)
		}
	}
	if g.requests["low"] != 0 || g.requests["high1"] < 10 || g.requests["high2"] < 10 {
		t.Errorf("got the requests %v, want about 50 of each of the high ones", g.requests)
	}
}

func testCredentialsNext(t *testing.T, ctx context.Context) {
	g := newGate("good")
	logins := 0
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		logins++
		bad := g.info("bad")
		bad.Priority = 10
		return map[string]*Info{"a": bad, "b": g.info("good")}, nil
	})
	for range 3 {
		if err := get(ctx, v, "/"); err != nil {
			t.Fatal(err)
		}
	}
	if g.requests["bad"] != 1 || g.requests["good"] != 3 || logins != 1 {
		t.Errorf("got the requests %v and %d logins, want 1 bad one, 3 good ones, and 1", g.requests, logins)
	}
}

func testCredentialsOneLogin(t *testing.T, ctx context.Context) {
	g := newGate("one", "two")
	v := g.store("one", "two")
	if err := get(ctx, v, "/"); err != nil {
		t.Fatal(err)
	}
	g.allow("one", false)
	if err := errors.Join(getAll(ctx, v, 50, "/")...); err != nil {
		t.Fatal(err)
	}
	if n := g.count(); n != 2 {
		t.Errorf("got %d logins, want the first and one more", n)
	}
}

func testCredentialsLate(t *testing.T, ctx context.Context) {
	g := newGate("good")
	v := g.store("good")
	stale, err := v.Pick(ctx)
	if err != nil {
		t.Fatal(err)
	}
	v.invalidate(stale, errRefused)
	if err := get(ctx, v, "/"); err != nil {
		t.Fatal(err)
	}
	v.invalidate(stale, errRefused) // another request, sent before the login
	if err := get(ctx, v, "/"); err != nil {
		t.Fatal(err)
	}
	if n := g.count(); n != 2 {
		t.Errorf("got %d logins, want the first and one more", n)
	}
}

func testCredentialsEqual(t *testing.T, ctx context.Context) {
	g := newGate("a1", "b2")
	epoch := 0
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		epoch++
		return map[string]*Info{"a": g.info("a1"), "b": g.info(fmt.Sprint("b", epoch))}, nil
	})
	g.allow("b1", true)
	for range 20 {
		if err := get(ctx, v, "/"); err != nil {
			t.Fatal(err)
		}
	}
	g.allow("a1", false)
	g.allow("b1", false)
	before, start := g.requests["a1"], time.Now()
	for range 20 {
		if err := get(ctx, v, "/"); err != nil {
			t.Fatal(err)
		}
	}
	if n := g.requests["a1"] - before; n > 2 { // one request, and one to distinguish a rejected token from a rejected request
		t.Errorf("got %d requests with the refused credential, want 2 at most", n)
	}
	if epoch != 2 || time.Since(start) > 0 {
		t.Errorf("got %d logins in %s, want 2 at once", epoch, time.Since(start))
	}
}

func testCredentialsNoneLeft(t *testing.T, ctx context.Context) {
	g := newGate()
	v := g.store("bad")
	start := time.Now()
	for _, err := range getAll(ctx, v, 5, "/") {
		wantError(t, err, "ran out of valid credentials: HTTP 401")
		if !errors.Is(err, errRefused) {
			t.Errorf("the error %v does not hold the answer of the server", err)
		}
	}
	if elapsed := time.Since(start); elapsed != 61*time.Second {
		t.Errorf("gave up after %s, want 1m1s", elapsed)
	}
	// Each of the five requests tries each credential once, and probes after all but the first.
	if n, limit := g.requests["bad"], 5*(1+2*len(refusedRetryDelays)); n > limit {
		t.Errorf("got %d requests, want at most %d", n, limit)
	}
}

func testCredentialsExpiration(t *testing.T, ctx context.Context) { // in a bubble
	g := newGate("one", "two")
	tokens := []string{"one", "one", "two"}
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		g.logins++
		info := g.info(tokens[g.logins-1])
		info.Expiration = time.Now().Add(time.Hour)
		return map[string]*Info{"login": info}, nil
	})
	ended := openStream(t, ctx, v)
	for i, want := range []int{1, 1, 2, 2, 3} { // at 0, 30, 60, 90, 120 minutes
		if err := get(ctx, v, "/"); err != nil {
			t.Fatal(err)
		}
		if n := g.count(); n != want {
			t.Errorf("got %d logins after %d half hours, want %d", n, i, want)
		}
		time.Sleep(30 * time.Minute)
	}
	if !isOpen(ended) {
		t.Error("the stream was closed when its credential expired")
	}
	v.Close()
	if isOpen(ended) {
		t.Error("the stream has outlived the store")
	}
}

func testCredentialsExpired(t *testing.T, ctx context.Context) {
	g := newGate("old")
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		info := g.info("old")
		info.Expiration = time.Now()
		return map[string]*Info{"login": info}, nil
	})
	wantError(t, get(ctx, v, "/"), `the credentials of "login" have expired at`)
}

func testCredentialsCloses(t *testing.T, ctx context.Context) {
	g := newGate("one", "two")
	v := g.store("one", "two")
	ended := openStream(t, ctx, v)
	if !isOpen(ended) {
		t.Fatal("the stream has ended early")
	}
	g.allow("one", false)
	if err := get(ctx, v, "/"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, credtransport.ErrClosed) {
		t.Errorf("the stream has ended with %v, want %v", err, credtransport.ErrClosed)
	}
	again := openStream(t, ctx, v)
	if !isOpen(again) {
		t.Error("the new stream has ended")
	}
}

func testCredentialsClosesAtOnce(t *testing.T, ctx context.Context) {
	g := newGate("first", "second")
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		first := g.info("first")
		first.Priority = 1
		return map[string]*Info{"a": first, "b": g.info("second")}, nil
	})
	ended := openStream(t, ctx, v)
	c, err := v.Pick(ctx)
	if err != nil {
		t.Fatal(err)
	}
	v.invalidate(c, errRefused)
	if isOpen(ended) {
		t.Error("the stream of the removed credential goes on")
	}
}

func testCredentialsRepeats(t *testing.T, ctx context.Context) {
	g := newGate("one", "two")
	v := g.store("one", "two")
	tries := 0
	err := v.Do(ctx, func(c *Credential) (bool, error) {
		if tries++; tries == 1 {
			v.invalidate(c, errRefused)
			if err := get(ctx, v, "/"); err != nil {
				t.Fatal(err)
			}
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, c.Info.Server+"/stream", nil)
			resp, err := c.Client.Do(req)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			return false, err
		}
		return false, nil
	})
	if err != nil || tries != 2 {
		t.Errorf("got %v after %d tries, want success with the second one", err, tries)
	}
}

func testCredentialsNothing(t *testing.T, ctx context.Context) {
	for _, infos := range []map[string]*Info{nil, {"login": nil}} {
		v := NewStore(func(context.Context) (map[string]*Info, error) { return infos, nil })
		wantError(t, get(ctx, v, "/"), "no credentials were given by the login handlers")
	}
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		return map[string]*Info{"login": {}}, nil
	})
	wantError(t, get(ctx, v, "/"), `the credentials of "login" can't be used: invalid server "": want a URL`)
}

func testCredentialsFailedLogin(t *testing.T, ctx context.Context) { // in a bubble
	broken, logins := errors.New("broken"), atomic.Int32{}
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		logins.Add(1)
		time.Sleep(time.Minute)
		return nil, broken
	})
	start := time.Now()
	for _, err := range getAll(ctx, v, 20, "/") {
		if err != broken {
			t.Errorf("got the error %v, want that of the login", err)
		}
	}
	if n := logins.Load(); n != 1 || time.Since(start) != time.Minute {
		t.Errorf("got %d logins in %s, want one in a minute", n, time.Since(start))
	}
}

func testCredentialsCancelled(t *testing.T, ctx context.Context) {
	g := newGate("good")
	v := NewStore(func(ctx context.Context) (map[string]*Info, error) {
		g.logins++
		return map[string]*Info{"login": g.info("good")}, await.Sleep(ctx, time.Minute)
	})
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() {
		if err := get(short, v, "/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v from the request that did not wait", err)
		}
	})
	synctest.Wait()
	start := time.Now()
	if err := errors.Join(getAll(ctx, v, 5, "/")...); err != nil {
		t.Error(err)
	}
	all.Wait()
	if elapsed := time.Since(start); g.count() != 1 || elapsed != time.Minute {
		t.Errorf("got %d logins in %s, want that of the impatient request", g.count(), elapsed)
	}
}

func testCredentialsOnePath(t *testing.T, ctx context.Context) {
	g := newGate("good")
	g.barred = "/apis/broken"
	v := g.store("good")
	ended := openStream(t, ctx, v)
	start := time.Now()
	err := get(ctx, v, g.barred)
	if err != errRefused {
		t.Errorf("got the error %v, want that of the request itself", err)
	}
	if n := g.count(); n != 2 {
		t.Errorf("got %d logins, want the first and one more", n)
	}
	if err := errors.Join(getAll(ctx, v, 5, "/")...); err != nil {
		t.Errorf("other requests fail: %v", err)
	}
	if !isOpen(ended) || time.Since(start) > 0 {
		t.Errorf("the others were disturbed: a stream is open: %v, after %s", isOpen(ended), time.Since(start))
	}
}

func testCredentialsContradiction(t *testing.T, ctx context.Context) {
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		return map[string]*Info{"login": {Server: "http://x", Token: "t", Username: "u", Password: "p"}}, nil
	})
	err := get(ctx, v, "/")
	wantError(t, err, `the credentials of "login" can't be used: a token and a username with a password exclude each other`)
}

func testCredentialsOutage(t *testing.T, ctx context.Context) { // in a bubble
	g := newGate("good")
	v := g.store("good")
	if err := get(ctx, v, "/"); err != nil {
		t.Fatal(err)
	}
	ended := openStream(t, ctx, v)
	g.allow("good", false)
	var all sync.WaitGroup
	all.Go(func() {
		time.Sleep(20 * time.Second)
		g.allow("good", true)
	})
	start := time.Now()
	if err := errors.Join(getAll(ctx, v, 10, "/")...); err != nil {
		t.Error(err)
	}
	if elapsed := time.Since(start); elapsed < 20*time.Second || elapsed > 40*time.Second {
		t.Errorf("recovered after %s, want soon after 20s", elapsed)
	}
	if !isOpen(ended) {
		t.Error("the stream was closed, though its credentials are good")
	}
	if n := g.count(); n > 10 {
		t.Errorf("got %d logins", n)
	}
	all.Wait()
}

func testCredentialsOtherExpiration(t *testing.T, ctx context.Context) {
	g := newGate("good")
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		info := g.info("good")
		info.Expiration = time.Now().Add(time.Hour)
		return map[string]*Info{"login": info}, nil
	})
	ended := openStream(t, ctx, v)
	g.allow("good", false)
	time.AfterFunc(5*time.Second, func() { g.allow("good", true) })
	if err := get(ctx, v, "/"); err != nil {
		t.Fatal(err)
	}
	if !isOpen(ended) {
		t.Error("the stream was closed, though its token is still good")
	}
}

func testCredentialsUseless(t *testing.T, ctx context.Context) {
	g := newGate()
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		g.logins++
		return map[string]*Info{"login": g.info(fmt.Sprint("bad", g.logins))}, nil
	})
	wantError(t, get(ctx, v, "/"), "ran out of valid credentials")
	if n := g.count(); n != len(refusedRetryDelays)+2 {
		t.Errorf("got %d logins, want %d", n, len(refusedRetryDelays)+2)
	}
}

func testCredentialsRetriesRefused(t *testing.T, ctx context.Context) { // in a bubble
	g := newGate("good")
	v := g.store("good")
	for range 20 { // outages, one hour apart
		if err := get(ctx, v, "/"); err != nil {
			t.Fatal(err)
		}
		g.allow("good", false)
		time.AfterFunc(5*time.Second, func() { g.allow("good", true) })
		if err := get(ctx, v, "/"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
	}
}

func testCredentialsClose(t *testing.T, ctx context.Context) {
	g := newGate("good")
	v := g.store("good")
	ended := openStream(t, ctx, v)
	v.Close()
	if isOpen(ended) {
		t.Error("the stream goes on")
	}
	wantError(t, get(ctx, v, "/"), "the client is closed")
}

func testCredentialsCloseLogin(t *testing.T, ctx context.Context) {
	v := NewStore(func(ctx context.Context) (map[string]*Info, error) {
		<-ctx.Done()
		time.Sleep(time.Second)
		return nil, ctx.Err()
	})
	var all sync.WaitGroup
	all.Go(func() {
		if err := get(ctx, v, "/"); !errors.Is(err, context.Canceled) {
			t.Errorf("got the error %v, want that of the login", err)
		}
	})
	synctest.Wait()
	start := time.Now()
	v.Close()
	if elapsed := time.Since(start); elapsed != time.Second {
		t.Errorf("closed after %s, want to have waited for the login", elapsed)
	}
	all.Wait()
}

func testCredentialsCloseStuckLogin(t *testing.T, ctx context.Context) {
	stuck := make(chan struct{})
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		<-stuck
		return nil, nil
	})
	var all sync.WaitGroup
	short, cancel := context.WithCancel(ctx)
	all.Go(func() { _ = get(short, v, "/") })
	synctest.Wait()
	start := time.Now()
	if ended := v.Close(); ended || time.Since(start) != loginGracePeriod {
		t.Errorf("closed after %s, the login has ended: %t; want it left behind after %s", time.Since(start), ended, loginGracePeriod)
	}
	cancel()
	close(stuck)
	all.Wait()
}

func testCredentialsContext(t *testing.T, ctx context.Context) {
	v := NewStore(func(ctx context.Context) (map[string]*Info, error) {
		time.Sleep(time.Minute)
		return nil, errors.New("too late")
	})
	var all sync.WaitGroup
	all.Go(func() { _ = get(ctx, v, "/") })
	synctest.Wait()
	short, cancel := context.WithTimeoutCause(ctx, time.Second, errors.New("enough"))
	defer cancel()
	if err := get(short, v, "/"); err == nil || err.Error() != "enough" {
		t.Errorf("got %v, want the cause of the context", err)
	}
	all.Wait()
}

// TestConnectionsOfExpiredCredentials lets credentials expire while a stream is open. The stream ends before the store is closed.
func TestConnectionsOfExpiredCredentials(t *testing.T) {
	var streams, open sync.WaitGroup
	streams.Add(1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		if r.URL.Path == "/stream" {
			_ = http.NewResponseController(w).Flush() // so that the stream is open
			streams.Done()
			<-r.Context().Done()
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Done()
		}
	}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	logins := 0
	v := NewStore(func(context.Context) (map[string]*Info, error) {
		logins++
		info := &Info{Server: s.URL, InsecureSkipTLSVerify: true, Token: fmt.Sprint(logins), Expiration: time.Now().Add(time.Hour)}
		return map[string]*Info{"login": info}, nil
	})
	ctx, end := context.WithCancel(t.Context())
	ended := openStream(t, ctx, v)
	streams.Wait()
	first, err := v.Pick(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first.Info.Expiration = time.Now()
	if err := get(t.Context(), v, "/"); err != nil || logins != 2 {
		t.Fatalf("got the error %v after %d logins, want none after 2", err, logins)
	}
	select {
	case err := <-ended:
		t.Fatalf("the stream has ended with its credentials: %v", err)
	default:
	}
	end()
	<-ended
	v.Close()
	closed := make(chan struct{})
	go func() {
		open.Wait()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("connections are left open, though the store is closed")
	}
}

// TestSend checks that requests of other libraries are repeated with the next credentials, if they can be repeated.
func TestSend(t *testing.T) {
	g := newGate("good")
	for name, tt := range map[string]struct {
		target string
		body   io.Reader
		code   int
		err    string
	}{
		"AC-64 a request":                        {"http://turnstile/x", nil, http.StatusOK, ""},
		"AC-64 one whose body can be read again": {"http://turnstile/x", strings.NewReader("{}"), http.StatusOK, ""},
		"one that cannot be repeated":            {"http://turnstile/x", io.MultiReader(strings.NewReader("{}")), http.StatusUnauthorized, ""},
		"one to another host":                    {"http://elsewhere/x", nil, 0, "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			v := NewStore(func(context.Context) (map[string]*Info, error) {
				bad := g.info("bad")
				bad.Priority = 1
				return map[string]*Info{"a": bad, "b": g.info("good")}, nil
			})
			defer v.Close()
			req, err := http.NewRequest(http.MethodPost, tt.target, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := v.Send(req)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got the error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			credtransport.Drain(resp.Body)
			if resp.StatusCode != tt.code {
				t.Errorf("got %s, want %d", resp.Status, tt.code)
			}
		})
	}
}

// TestCloseEndsWaitingRequests closes a store during a login that ignores its context.
func TestCloseEndsWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		store := NewStore(func(context.Context) (map[string]*Info, error) {
			<-release
			return nil, nil
		})
		failed := make(chan error, 1)
		go func() {
			_, err := store.Pick(context.Background())
			failed <- err
		}()
		synctest.Wait()
		if store.Close() {
			t.Error("the login has ended")
		}
		time.Sleep(time.Hour)
		select {
		case err := <-failed:
			if err == nil {
				t.Error("a closed store has given credentials")
			}
		default:
			t.Error("a request waits although the store is closed")
		}
		close(release)
		synctest.Wait()
	})
}
