package contract

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves webhook servers without an operator. The suites of admission prove how operators use them. In a bubble they listen on pipes, so
// that a year can pass.

var _ = Suite("webhook_server", func(t *testing.T, c *C) {
	c.Run(t, "AC-10 the handler's id is what comes after the root path", provePaths)
	c.Run(t, "AC-12 what cannot be a review is refused with a reason", proveRefusals)
	c.Run(t, "AC-12 what the review function says is wrong is told with its code", proveReviewErrors)
	c.Run(t, "AC-12 a review that breaks off is refused", proveTruncated)
	c.Run(t, "AC-T7 reviews of 8 MiB are taken, and no larger ones", proveSizes)
	c.Run(t, "AC-41 reviews come with their headers, and the first announcement when the server listens", proveReview)
	c.Run(t, "AC-41 the same review again is answered again", proveReplay)
	c.Run(t, "AC-41 a panic is answered, and the connection goes on", provePanic)
	c.Run(t, "AC-41 reviews under way are answered at the end", proveDrain)
	c.Run(t, "AC-41 reviews that take too long at the end are told to end", proveLongDrain)
	c.Run(t, "AC-41 senders who are too slow are let go", proveSlowSenders)
	c.Run(t, "AC-41 receivers who are too slow are let go", proveSlowReceivers)
	c.Run(t, "AC-41 connections can rest between reviews", proveResting)
	c.Run(t, "AC-41 what all reviews hold together is bounded", proveHeld)
	c.Run(t, "AC-43 PEM is announced where trust is needed, and nothing else", proveBundle)
	c.Run(t, "AC-44 nothing needs to be given", proveDefaults)
	c.Run(t, "AC-45 the address says how the server is reached", proveAddresses)
	c.Run(t, "AC-45 all ports can be said", proveLastPort)
	c.Run(t, "AC-48 plain HTTP and TLS exclude each other", proveContradictions)
	c.Run(t, "AC-52 servers for clusters on a machine know its name there", proveVariants)
})

// Served is a running webhook server.
type Served struct {
	// Logs has its log lines, if it uses the given logger.
	Logs *Logs

	c        *C
	listener *wiredListener
	runner   *kopf.Runner

	mu        sync.Mutex // guards the following
	announced []kopf.WebhookClientConfig
	times     []time.Time   // the times of the announcements
	delay     time.Duration // the delay of announcements
}

// Serves runs a server until the end of the leaf, and returns when the server has announced itself. The function gets the listener and the logger for
// the server.
func (c *C) Serves(review kopf.ReviewFunc, make func(l net.Listener, log *slog.Logger) kopf.AdmissionServer) *Served {
	c.Helper()
	s := c.tryServing(review, make)
	c.WaitFor("the announcement", func() bool {
		if err := context.Cause(s.runner.Context()); err != nil {
			c.Fatalf("the server has ended: %v", err)
		}
		return len(s.Announced()) > 0
	})
	return s
}

func (c *C) tryServing(review kopf.ReviewFunc, make func(l net.Listener, log *slog.Logger) kopf.AdmissionServer) *Served {
	s := &Served{c: c, Logs: &Logs{}, listener: c.listener()}
	log := slog.New(&recorder{logs: s.Logs, next: slog.DiscardHandler})
	server := make(s.listener, log)
	s.runner = kopf.NewRunner(c, kopf.RunFunc(func(ctx context.Context) error { return server.Serve(ctx, review, s.announce) }), nil)
	return s
}

func (s *Served) announce(config kopf.WebhookClientConfig) {
	s.mu.Lock()
	delay := s.delay
	s.mu.Unlock()
	time.Sleep(delay) // the duration of a slow announcement
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announced, s.times = append(s.announced, config), append(s.times, time.Now())
}

// Announced returns the announcements so far.
func (s *Served) Announced() []kopf.WebhookClientConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]kopf.WebhookClientConfig(nil), s.announced...)
}

// Last returns the last announcement.
func (s *Served) Last() kopf.WebhookClientConfig {
	all := s.Announced()
	return all[len(all)-1]
}

// Delay delays all future announcements.
func (s *Served) Delay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// Before returns the announcement that was the last one some time ago.
func (s *Served) Before(d time.Duration) kopf.WebhookClientConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.times) - 1
	for i > 0 && time.Since(s.times[i]) < d {
		i--
	}
	return s.announced[i]
}

// Client returns a client that uses an announcement, like an API server. The functions may adjust its TLS.
func (s *Served) Client(config kopf.WebhookClientConfig, adjust ...func(*tls.Config)) *http.Client {
	conf := &tls.Config{RootCAs: x509.NewCertPool()}
	conf.RootCAs.AppendCertsFromPEM(config.CABundle)
	for _, f := range adjust {
		f(conf)
	}
	transport := &http.Transport{DialContext: s.listener.dial, TLSClientConfig: conf}
	s.c.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Post sends a review to the last announced address, and returns the code and the text of the response.
func (s *Served) Post(path, body string) (int, string) {
	s.c.Helper()
	code, text, err := post(s.Client(s.Last()), s.Last().URL+path, body)
	if err != nil {
		s.c.Fatal(err)
	}
	return code, text
}

func post(client *http.Client, url, body string) (int, string, error) {
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, string(text), err
}

// told returns the message of a Status, which API servers pass on. It returns other responses unchanged.
func told(code int, text string) string {
	var status struct {
		APIVersion, Kind, Status, Message string
		Code                              int
	}
	if json.Unmarshal([]byte(text), &status) == nil && status.APIVersion == "v1" && status.Kind == "Status" && status.Status == "Failure" && status.Code == code {
		return status.Message
	}
	return text
}

// wiredListener listens on pipes in bubbles, and on this machine elsewhere.
type wiredListener struct {
	net.Listener
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (c *C) listener() *wiredListener {
	if !c.InBubble() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			c.Fatal(err)
		}
		return &wiredListener{l, func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
		}}
	}
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	return &wiredListener{l, func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case l.conns <- there:
			return here, nil
		case <-l.closed:
			return nil, errors.New("connection refused")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

// pipeListener accepts pipes, for which bubbles can wait.
type pipeListener struct {
	conns  chan net.Conn // from dialing clients
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// plainServer returns a server that uses HTTP. A function changes it.
func plainServer(change func(*kopf.WebhookServer)) func(net.Listener, *slog.Logger) kopf.AdmissionServer {
	return func(l net.Listener, log *slog.Logger) kopf.AdmissionServer {
		server := &kopf.WebhookServer{Listener: l, Logger: log, Insecure: true}
		if change != nil {
			change(server)
		}
		return server
	}
}

// secureServer is the same with HTTPS.
func secureServer(change func(*kopf.WebhookServer)) func(net.Listener, *slog.Logger) kopf.AdmissionServer {
	return plainServer(func(s *kopf.WebhookServer) {
		s.Insecure = false
		if change != nil {
			change(s)
		}
	})
}

// echo answers with the id of the handler and the body.
func echo(_ context.Context, r *kopf.ReviewRequest) ([]byte, error) {
	return fmt.Appendf(nil, "<%s> %s", r.Handler, r.Body), nil
}

func provePaths(c *C) {
	for _, tt := range []struct{ root, path, want string }{
		{"", "", "200 <> {}"},
		{"", "/", "200 <> {}"},
		{"", "/fn/spec.x", "200 <fn/spec.x> {}"},
		{"", "/a%20b%2Fc%3F", "200 <a b/c?> {}"},
		{"", "/%D1%84", "200 <ф> {}"},
		{"", "/a//b/../c/", "200 <a//b/../c/> {}"},
		{"hooks", "", "200 <> {}"},
		{"/hooks/", "/", "200 <> {}"},
		{"hooks/v1", "/fn", "200 <fn> {}"},
		{"hooks", "2/fn", "404"},
		{"hooks", "/../fn", "200 <../fn> {}"},
	} {
		s := c.Serves(echo, plainServer(func(s *kopf.WebhookServer) { s.Path = tt.root }))
		code, text := s.Post(tt.path, "{}")
		if got := strings.TrimSpace(fmt.Sprint(code, " ", text)); !strings.HasPrefix(got, tt.want) || code == 200 && got != tt.want {
			c.Errorf("root %q, path %q: got %q, want %q", tt.root, tt.path, got, tt.want)
		}
		if err := s.runner.Stop(); err != nil {
			c.Error(err)
		}
	}
}

func proveRefusals(c *C) {
	called := 0
	s := c.Serves(func(context.Context, *kopf.ReviewRequest) ([]byte, error) {
		called++
		return []byte("{}"), nil
	}, plainServer(func(s *kopf.WebhookServer) { s.Path = "hooks" }))
	base := strings.TrimSuffix(s.Last().URL, "/hooks")
	for _, tt := range []struct {
		method, path, contentType string
		code                      int
		reason, allow             string
	}{
		{"GET", "/hooks/fn", "", 405, "the method is GET; reviews come by POST", "POST"},
		{"PUT", "/hooks/fn", "application/json", 405, "the method is PUT; reviews come by POST", "POST"},
		{"POST", "/other/fn", "application/json", 404, `the path "/other/fn" is not below that of the webhooks`, ""},
		{"POST", "/", "application/json", 404, `the path "/" is not below that of the webhooks`, ""},
		{"POST", "/hooks/fn", "text/plain", 415, `the content is "text/plain"; reviews are application/json`, ""},
		{"POST", "/hooks/fn", "", 415, `the content is ""; reviews are application/json`, ""},
		{"POST", "/hooks/fn", "application/json, text/plain", 415, `the content is "application/json, text/plain"; reviews are application/json`, ""},
		{"POST", "/hooks/fn", "application/json; charset=utf-8", 200, "{}", ""},
	} {
		req, err := http.NewRequestWithContext(c.Context(), tt.method, base+tt.path, strings.NewReader("{}"))
		if err != nil {
			c.Fatal(err)
		}
		if tt.contentType != "" {
			req.Header.Set("Content-Type", tt.contentType)
		}
		resp, err := s.Client(s.Last()).Do(req)
		if err != nil {
			c.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		got := []any{resp.StatusCode, told(resp.StatusCode, string(text)), resp.Header.Get("Allow")}
		if diff := cmp.Diff([]any{tt.code, tt.reason, tt.allow}, got); diff != "" {
			c.Errorf("%s %s %q (-want +got):\n%s", tt.method, tt.path, tt.contentType, diff)
		}
	}
	if called != 1 {
		c.Errorf("the review function was called %d times, want 1", called)
	}
}

func proveReviewErrors(c *C) {
	var err error
	s := c.Serves(func(context.Context, *kopf.ReviewRequest) ([]byte, error) { return nil, err }, plainServer(nil))
	for _, tt := range []struct {
		err  error
		code int
		text string
	}{
		{&kopf.ReviewError{Code: 404, Message: "no such handler"}, 404, "no such handler"},
		{fmt.Errorf("wrapped: %w", &kopf.ReviewError{Code: 409, Message: "two kinds"}), 409, "wrapped: two kinds"},
		{&kopf.ReviewError{Code: 200, Message: "not a code of an error"}, 500, "not a code of an error"},
		{&kopf.ReviewError{Message: "no code"}, 500, "no code"},
		{errors.New("out of order"), 500, "out of order"},
	} {
		err = tt.err
		if code, text := s.Post("/fn", "{}"); code != tt.code || told(code, text) != tt.text {
			c.Errorf("%v: got %d %q, want %d %q", tt.err, code, text, tt.code, tt.text)
		}
	}
}

// proveTruncated sends fewer bytes than the Content-Length.
func proveTruncated(c *C) {
	s := c.Serves(echo, secureServer(nil))
	conn, err := s.listener.dial(c.Context(), "", "")
	if err != nil {
		c.Fatal(err)
	}
	secured := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	defer secured.Close()
	if _, err := io.WriteString(secured, "POST /fn HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"kind\":"); err != nil {
		c.Fatal(err)
	}
	if err := secured.CloseWrite(); err != nil {
		c.Fatal(err)
	}
	answer, err := io.ReadAll(secured)
	if err != nil {
		c.Fatal(err)
	}
	for _, want := range []string{"HTTP/1.1 400 ", "the review has broken off after 8 bytes"} {
		if !strings.Contains(string(answer), want) {
			c.Errorf("the answer is %q, want %q in it", answer, want)
		}
	}
}

func proveSizes(c *C) {
	const limit = 8 << 20
	s := c.Serves(func(_ context.Context, r *kopf.ReviewRequest) ([]byte, error) {
		return fmt.Append(nil, len(r.Body)), nil
	}, plainServer(nil))
	for _, tt := range []struct {
		name string
		body io.Reader // with or without a known length
		code int
		text string
	}{
		{"8 MiB", strings.NewReader(strings.Repeat("x", limit)), 200, fmt.Sprint(limit)},
		{"8 MiB in chunks", io.MultiReader(strings.NewReader(strings.Repeat("x", limit))), 200, fmt.Sprint(limit)},
		{"more", strings.NewReader(strings.Repeat("x", limit+1)), 413, "the review is larger than 8388608 bytes"},
		{"more in chunks", io.MultiReader(strings.NewReader(strings.Repeat("x", limit+1))), 413, "the review is larger than 8388608 bytes"},
	} {
		resp, err := s.Client(s.Last()).Post(s.Last().URL, "application/json", tt.body)
		if err != nil {
			c.Errorf("%s: %v", tt.name, err)
			continue
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != tt.code || told(resp.StatusCode, string(text)) != tt.text {
			c.Errorf("%s: got %d %q, want %d %q", tt.name, resp.StatusCode, text, tt.code, tt.text)
		}
	}
}

func proveReview(c *C) {
	var got *kopf.ReviewRequest
	s := c.Serves(func(_ context.Context, r *kopf.ReviewRequest) ([]byte, error) {
		got = r
		return []byte(`{"response":{}}`), nil
	}, plainServer(nil))
	req, err := http.NewRequestWithContext(c.Context(), http.MethodPost, s.Last().URL+"/fn", strings.NewReader(`{"request":{}}`))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Mine", "yes")
	resp, err := s.Client(s.Last()).Do(req)
	if err != nil {
		c.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if answer := fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Content-Type"), " ", string(text)); answer != `200 application/json {"response":{}}` {
		c.Errorf("the answer is %q", answer)
	}
	if got.Handler != "fn" || string(got.Body) != `{"request":{}}` || got.Header.Get("X-Mine") != "yes" || got.Peer != nil {
		c.Errorf("the review is %+v", got)
	}
}

func proveReplay(c *C) {
	var bodies []string
	s := c.Serves(func(_ context.Context, r *kopf.ReviewRequest) ([]byte, error) {
		bodies = append(bodies, string(r.Body))
		return r.Body, nil
	}, plainServer(nil))
	for range 3 {
		if code, text := s.Post("/fn", `{"request":{"uid":"1"}}`); code != 200 || text != `{"request":{"uid":"1"}}` {
			c.Errorf("got %d %q", code, text)
		}
	}
	if len(bodies) != 3 {
		c.Errorf("there were %d reviews, want 3", len(bodies))
	}
}

func provePanic(c *C) {
	s := c.Serves(func(_ context.Context, r *kopf.ReviewRequest) ([]byte, error) {
		if string(r.Body) != "{}" {
			panic("a secret")
		}
		return []byte("fine"), nil
	}, plainServer(nil))
	client := s.Client(s.Last())
	code, text, err := post(client, s.Last().URL, "[]")
	if err != nil || code != 500 || told(code, text) != "the review could not be finished: the operator has panicked; its log tells where" {
		c.Errorf("got %d %q %v", code, text, err)
	}
	if code, text, err := post(client, s.Last().URL, "{}"); err != nil || code != 200 || text != "fine" {
		c.Errorf("after it: got %d %q %v", code, text, err)
	}
	lines := s.Logs.Find("panic")
	if len(lines) != 1 || lines[0].Level != slog.LevelError || lines[0].Attrs["panic"] != "a secret" || !strings.Contains(lines[0].Attrs["stack"], "provePanic") {
		c.Errorf("the log lines are %+v", lines)
	}
}

func proveDrain(c *C) {
	entered, leave := make(chan context.Context, 1), make(chan struct{})
	s := c.Serves(func(ctx context.Context, _ *kopf.ReviewRequest) ([]byte, error) {
		entered <- ctx
		<-leave
		return []byte("done"), nil
	}, plainServer(nil))
	answers, stopped := make(chan string, 1), make(chan error, 1)
	go func() {
		code, text, err := post(s.Client(s.Last()), s.Last().URL, "{}")
		answers <- fmt.Sprint(code, " ", text, " ", err)
	}()
	ctx := <-entered
	go func() { stopped <- s.runner.Stop() }()
	c.Pass(2 * time.Second)
	if _, _, err := post(s.Client(s.Last()), s.Last().URL, "{}"); err == nil {
		c.Error("a new review is taken at the end")
	}
	if ctx.Err() != nil {
		c.Errorf("the context of the review has ended: %v", context.Cause(ctx))
	}
	close(leave)
	if got := <-answers; got != "200 done <nil>" {
		c.Errorf("the answer is %q", got)
	}
	if err := <-stopped; err != nil {
		c.Errorf("the server has returned %v", err)
	}
}

func proveLongDrain(c *C) {
	cause := make(chan error, 1)
	entered := make(chan struct{})
	s := c.Serves(func(ctx context.Context, _ *kopf.ReviewRequest) ([]byte, error) {
		close(entered)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil, ctx.Err()
	}, plainServer(func(s *kopf.WebhookServer) { s.DrainTimeout = time.Second }))
	go func() { _, _, _ = post(s.Client(s.Last()), s.Last().URL, "{}") }()
	<-entered
	began := time.Now()
	if err := s.runner.Stop(); err != nil {
		c.Errorf("the server has returned %v", err)
	}
	if passed := time.Since(began); passed < time.Second || c.late(passed, 3*time.Second) {
		c.Errorf("the end took %s, want 1s", passed)
	}
	if err := <-cause; err == nil || err.Error() != "the webhook server has stopped" {
		c.Errorf("the cause is %v", err)
	}
	if lines := s.Logs.Find("Some reviews have not finished in time"); len(lines) != 1 {
		c.Errorf("the log lines are %+v", s.Logs.All())
	}
}

func proveSlowSenders(c *C) {
	c.OnlyInBubble("it takes half a minute")
	s := c.Serves(echo, plainServer(func(s *kopf.WebhookServer) { s.ReadTimeout = 30 * time.Second }))
	const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"
	for _, tt := range []struct {
		name, sent string
		drip       string // sent every second
		want       string
		after      time.Duration
	}{
		{"nothing", "", "", "", 10 * time.Second},
		{"headers", head, "X: y\r\n", "", 10 * time.Second},
		{"a body", head + "\r\n", "x", "HTTP/1.1 408 ", 30 * time.Second},
		{"huge headers", head + "X: " + strings.Repeat("y", 80<<10), "", "HTTP/1.1 431 ", 0},
	} {
		conn, err := s.listener.dial(c.Context(), "", "")
		if err != nil {
			c.Fatal(err)
		}
		began := time.Now()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, err := io.WriteString(conn, tt.sent)
			for err == nil && tt.drip != "" {
				time.Sleep(time.Second)
				_, err = io.WriteString(conn, tt.drip)
			}
		}()
		answer, _ := io.ReadAll(conn) // a broken connection is as good as a closed one
		if passed := time.Since(began).Round(time.Second); passed < tt.after || passed > tt.after+time.Second {
			c.Errorf("%s: let go after %s, want %s", tt.name, passed, tt.after)
		}
		if !strings.HasPrefix(string(answer), tt.want) || tt.want == "" && len(answer) > 0 {
			c.Errorf("%s: the answer is %q, want %q", tt.name, answer, tt.want)
		}
		_ = conn.Close()
		<-sent
	}
}

func proveSlowReceivers(c *C) {
	c.OnlyInBubble("the network takes more than nobody reads")
	ended := make(chan struct{})
	s := c.Serves(func(ctx context.Context, _ *kopf.ReviewRequest) ([]byte, error) {
		context.AfterFunc(ctx, func() { close(ended) })
		return make([]byte, 1<<20), nil
	}, plainServer(nil))
	conn, err := s.listener.dial(c.Context(), "", "")
	if err != nil {
		c.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		c.Fatal(err)
	}
	<-ended
	if passed := time.Since(began); passed != 10*time.Second {
		c.Errorf("let go after %s, want 10s", passed)
	}
}

// proveResting sends reviews on one connection, with pauses that are longer than the time limit of a response.
func proveResting(c *C) {
	c.OnlyInBubble("it takes minutes")
	s := c.Serves(echo, secureServer(nil))
	dials, client := 0, s.Client(s.Last())
	transport := client.Transport.(*http.Transport)
	transport.ExpectContinueTimeout, transport.DialContext = 5*time.Second, func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return s.listener.dial(ctx, network, address)
	}
	for range 3 {
		req, err := http.NewRequestWithContext(c.Context(), http.MethodPost, s.Last().URL, strings.NewReader("{}"))
		if err != nil {
			c.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Expect", "100-continue")
		resp, err := client.Do(req)
		if err != nil {
			c.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 {
			c.Errorf("got %d", resp.StatusCode)
		}
		c.Pass(time.Minute)
	}
	if dials != 1 {
		c.Errorf("there were %d connections, want 1", dials)
	}
}

func proveHeld(c *C) {
	entered, leave := make(chan struct{}, 100), make(chan struct{})
	s := c.Serves(func(context.Context, *kopf.ReviewRequest) ([]byte, error) {
		entered <- struct{}{}
		select {
		case <-leave:
		case <-time.After(10 * time.Second): // so that a review that should be refused fails the test
		}
		return []byte("{}"), nil
	}, plainServer(func(s *kopf.WebhookServer) { s.MaxBodyBytes, s.MaxHeldBytes = 1<<20, 5<<19 }))
	body := strings.Repeat("x", 1<<20-1)
	codes := make(chan int, 2)
	for range 2 { // each takes almost 1 MiB
		go func() {
			code, _, _ := post(s.Client(s.Last()), s.Last().URL, body)
			codes <- code
		}()
		<-entered
	}
	resp, err := s.Client(s.Last()).Post(s.Last().URL, "application/json", strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	want := "the reviews under way are larger than 2621440 bytes together; try again"
	if resp.StatusCode != 503 || told(503, string(text)) != want || resp.Header.Get("Retry-After") != "1" {
		c.Errorf("beyond the limit: got %d %q %q", resp.StatusCode, text, resp.Header.Get("Retry-After"))
	}
	close(leave)
	for range 2 {
		if code := <-codes; code != 200 {
			c.Errorf("below the limit: got %d", code)
		}
	}
	for range 10 { // the server frees the memory
		if code, _ := s.Post("", body); code != 200 {
			c.Errorf("afterwards: got %d", code)
		}
	}
}

func proveBundle(c *C) {
	s := c.Serves(echo, secureServer(func(s *kopf.WebhookServer) { s.Host = "hooks.ns.svc" }))
	block, rest := pem.Decode(s.Last().CABundle)
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 || s.Last().Service != nil {
		c.Errorf("announced: %+v", s.Last())
	}
	if code, text := s.Post("/fn", "{}"); code != 200 || text != "<fn> {}" {
		c.Errorf("with the announced trust: got %d %q", code, text)
	}
	bare := c.Serves(echo, plainServer(nil))
	if got := bare.Announced(); len(got) != 1 || got[0].CABundle != nil || got[0].Service != nil {
		c.Errorf("without TLS, announced: %+v", got)
	}
}

// proveDefaults uses the network: in a bubble, nothing may wait for time or for idle goroutines here.
func proveDefaults(c *C) {
	ctx, stop := context.WithCancel(c.Context())
	announced, served := make(chan kopf.WebhookClientConfig, 1), make(chan error, 1)
	go func() {
		served <- (&kopf.WebhookServer{}).Serve(ctx, echo, func(config kopf.WebhookClientConfig) { announced <- config })
	}()
	config := <-announced
	u, err := url.Parse(config.URL)
	if err != nil {
		c.Fatal(err)
	}
	if u.Scheme != "https" || u.Hostname() != "localhost" || u.Port() == "" || u.Port() == "0" || u.Path != "" {
		c.Errorf("the URL is %s", u)
	}
	conf := &tls.Config{RootCAs: x509.NewCertPool()}
	conf.RootCAs.AppendCertsFromPEM(config.CABundle)
	transport := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: !c.InBubble()}
	for _, host := range []string{"127.0.0.1", "[::1]"} { // all addresses of the machine, if it has them
		probe, err := net.Listen("tcp", host+":0")
		if err != nil {
			c.Logf("no %s here: %v", host, err)
			continue
		}
		_ = probe.Close()
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", host+":"+u.Port())
		}
		code, text, err := post(&http.Client{Transport: transport}, config.URL+"/fn", "{}")
		if err != nil || code != 200 || text != "<fn> {}" {
			c.Errorf("at %s: got %d %q %v", host, code, text, err)
		}
		transport.CloseIdleConnections()
	}
	stop()
	if err := <-served; err != nil {
		c.Errorf("the server has returned %v", err)
	}
}

func proveAddresses(c *C) {
	for _, tt := range []struct {
		server kopf.WebhookServer
		want   string
	}{
		{kopf.WebhookServer{Port: 9443}, "https://localhost:9443"},
		{kopf.WebhookServer{Port: 443}, "https://localhost"},
		{kopf.WebhookServer{Port: 80}, "https://localhost:80"},
		{kopf.WebhookServer{Port: 443, Insecure: true}, "http://localhost:443"},
		{kopf.WebhookServer{Port: 80, Insecure: true, Path: "hooks"}, "http://localhost/hooks"},
		{kopf.WebhookServer{Port: 9443, Addr: "0.0.0.0"}, "https://127.0.0.1:9443"},
		{kopf.WebhookServer{Port: 9443, Addr: "::"}, "https://[::1]:9443"},
		{kopf.WebhookServer{Port: 443, Addr: "::"}, "https://[::1]"},
		{kopf.WebhookServer{Port: 9443, Addr: "[fd00::1]"}, "https://[fd00::1]:9443"},
		{kopf.WebhookServer{Port: 9443, Addr: "10.0.0.1", Path: "/a/b/"}, "https://10.0.0.1:9443/a/b"},
		{kopf.WebhookServer{Port: 9443, Addr: "10.0.0.1", Host: "hooks.ns.svc"}, "https://hooks.ns.svc:9443"},
		{kopf.WebhookServer{Port: 9443, Addr: "0.0.0.0", Host: "fd00::2"}, "https://[fd00::2]:9443"},
	} {
		s := c.Serves(echo, func(l net.Listener, log *slog.Logger) kopf.AdmissionServer {
			tt.server.Listener, tt.server.Logger = l, log
			return &tt.server
		})
		want := tt.want
		if !c.InBubble() && tt.server.Addr == "" && tt.server.Host == "" {
			want = strings.Replace(want, "localhost", "127.0.0.1", 1) // the address of the listener
		}
		if got := s.Last().URL; got != want {
			c.Errorf("Addr %q, Host %q: got %q, want %q", tt.server.Addr, tt.server.Host, got, want)
		}
		if lines := s.Logs.Find("Accessing the webhooks at " + want); len(lines) != 1 || lines[0].Level != slog.LevelDebug {
			c.Errorf("%s: the log lines are %+v", want, s.Logs.All())
		}
		if lines := s.Logs.Find("Listening for webhooks at " + tt.want[:strings.Index(tt.want, "://")+3]); len(lines) != 1 || lines[0].Level != slog.LevelDebug {
			c.Errorf("%s: the log lines are %+v", want, s.Logs.All())
		}
		if err := s.runner.Stop(); err != nil {
			c.Error(err)
		}
	}
}

func proveContradictions(c *C) {
	cert := filepath.Join(c.TempDir(), "tls.crt")
	if err := os.WriteFile(cert, []byte("none"), 0o600); err != nil {
		c.Fatal(err)
	}
	for want, server := range map[string]*kopf.WebhookServer{
		"webhook server: the fields Insecure and TLSConfig exclude each other":                          {Insecure: true, TLSConfig: &tls.Config{}},
		`webhook server: the cluster "kind" is none of auto, k3d, minikube and docker-desktop`:          {Cluster: "kind"},
		"webhook server: the field Insecure and a certificate exclude each other":                       {Insecure: true, CertFile: cert, KeyFile: cert},
		"webhook server: the port 65536 is not between 0 and 65535":                                     {Port: 65536},
		"webhook server: the port -1 is not between 0 and 65535":                                        {Port: -1},
		fmt.Sprintf(`webhook server: the certificate %q and the key "" are only of use together`, cert): {CertFile: cert},
	} {
		err := server.Serve(c.Context(), echo, func(config kopf.WebhookClientConfig) { c.Errorf("%s: announced %+v", want, config) })
		if err == nil || err.Error() != want {
			c.Errorf("got %v, want %s", err, want)
		}
	}
}

func proveLastPort(c *C) {
	s := c.Serves(echo, func(l net.Listener, log *slog.Logger) kopf.AdmissionServer {
		return &kopf.WebhookServer{Listener: l, Logger: log, Host: "example.com", Port: 65535, Insecure: true}
	})
	if got := s.Last().URL; got != "http://example.com:65535" {
		c.Errorf("the URL is %q", got)
	}
}

func proveVariants(c *C) {
	for _, host := range []string{"", "10.1.2.3"} {
		for _, tt := range []struct {
			cluster kopf.Cluster
			want    string
		}{
			{kopf.ClusterK3d, "host.k3d.internal"},
			{kopf.ClusterMinikube, "host.minikube.internal"},
			{kopf.ClusterDockerDesktop, "host.docker.internal"},
		} {
			want := tt.want
			if host != "" {
				want = host
			}
			s := c.Serves(echo, func(l net.Listener, log *slog.Logger) kopf.AdmissionServer {
				return &kopf.WebhookServer{Listener: l, Logger: log, Host: host, Port: 9443, Cluster: tt.cluster}
			})
			if got := s.Last().URL; got != "https://"+want+":9443" {
				c.Errorf("the URL is %q, want the host %q", got, want)
			}
			if code, _ := s.Post("/fn", "{}"); code != 200 { // the certificate must have this name
				c.Errorf("%s: got %d", want, code)
			}
			if err := s.runner.Stop(); err != nil {
				c.Error(err)
			}
		}
	}
}
