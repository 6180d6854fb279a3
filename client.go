package kopf

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/connection"
	"github.com/kopf-go/kopf/internal/credtransport"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/ratelimit"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/workpool"
)

// This file sends requests to the API server. It starts no goroutines.

// Client sends requests to the API server. Handlers get the client of their operator, and [NewClient] returns a new one. A Client is safe for concurrent use.
//
// It repeats requests after network errors and after the codes 429 and 5xx, within the limits of [NetworkingSettings]. A refusal is an [*APIError], and
// [StatusCode] returns its code. All methods end early with their contexts.
type Client struct {
	*clientCore
	manager string        // default field manager; "" for none
	leader  *leadership   // writes need its term; nil without leader election
	term    uint64        // the only term in which writes are allowed; 0 for any
	writes  writeRecorder // of handlers; nil for none
}

// clientCore is shared by clients with different field managers.
type clientCore struct {
	credentials *connection.Store
	source      *Settings // read by configure
	log         *slog.Logger
	meter       *metrics.Metrics // nil for none

	configured sync.Once // guards following, which configure sets before the first request
	settings   NetworkingSettings
	inFlight   chan struct{}      // holds a token for each request that is not a watch; nil for no limit
	limits     *ratelimit.Limiter // nil for no limit
	noAnswer   error              // the error of a request that has timed out

	kinds discovery.Kinds // for references by kind
}

// NewClient returns a client for one connection. Nil settings mean those of [NewSettings]. It sends no request, and fails only if the connection is described
// wrongly.
func NewClient(info *ConnectionInfo, settings *NetworkingSettings) (*Client, error) {
	if info == nil {
		return nil, errors.New("a client needs a connection, not nil: a login that has found nothing returns that")
	}
	if err := info.info().Validate(); err != nil {
		return nil, err
	}
	all := NewSettings()
	if settings != nil {
		all.Networking = *settings
	}
	return newLoginClient(info.login, all, slog.Default()), nil
}

// newLoginClient returns a client that gets its connections from a login. It reads the settings at the first request.
func newLoginClient(login connection.Login, s *Settings, log *slog.Logger) *Client {
	credentials := connection.NewStore(func(ctx context.Context) (map[string]*connection.Info, error) {
		infos, err := login(ctx)
		if err != nil && !errtype.As(err, new(*LoginError)) {
			err = &LoginError{Message: "the login has failed", Err: err}
		}
		return infos, err
	})
	credentials.Timeouts = func() (connect, stream time.Duration) {
		connect = s.Networking.ConnectTimeout
		return connect, cmp.Or(s.Watching.ConnectTimeout, connect)
	}
	return &Client{clientCore: &clientCore{credentials: credentials, source: s, log: log}}
}

// renewed returns a client with the same credentials and the current settings.
func (c *Client) renewed() *Client {
	c.credentials.Reconnect()
	return &Client{clientCore: &clientCore{credentials: c.credentials, source: c.source, log: c.log, meter: c.meter}}
}

// as returns the client with a field manager; nil stays nil.
func (c *Client) as(manager string) *Client {
	if c == nil {
		return nil
	}
	return &Client{c.clientCore, manager, c.leader, c.term, c.writes}
}

// recording returns the client with a recorder of its writes.
func (c *Client) recording(w writeRecorder) *Client {
	return &Client{c.clientCore, c.manager, c.leader, c.term, w}
}

// beginWrite records a write of a whole object, until the returned function is called.
func (c *Client) beginWrite(subresource string, dryRun bool) (end func(*Body)) {
	if c == nil || c.writes == nil || subresource != "" || dryRun {
		return func(*Body) {}
	}
	return c.writes.beginWrite()
}

// configure reads the settings once. Startup handlers can change them until then.
func (c *Client) configure() {
	c.settings = c.source.Networking
	n := &c.settings
	c.noAnswer = fmt.Errorf("no answer in %s", n.RequestTimeout)
	c.limits = ratelimit.New(ratelimit.Config{Rate: n.RequestRate, Burst: n.RequestBurst, Backoffs: n.ErrorBackoffs, Exact: n.EnforceRetryAfter}, c.log)
	if n := c.settings.MaxInFlight; n > 0 {
		c.inFlight = make(chan struct{}, n)
	}
}

// errNoClient means that a client is nil, or was made without a connection.
var errNoClient = errors.New("there is no client: it is nil, or was not made by NewClient")

// check returns an error if the client has no connection.
func (c *Client) check() error {
	if c == nil || c.clientCore == nil {
		return errNoClient
	}
	return nil
}

// close cancels all requests, and the running login.
func (c *Client) close() {
	if !c.credentials.Close() {
		c.log.Error("A login did not return after cancellation; abandoning it", "help", "K905")
	}
}

// ConnectionInfo returns the current address and credentials of the API server, for other libraries. It logs in first if necessary. Do not change the result,
// which is shared.
func (c *Client) ConnectionInfo(ctx context.Context) (*ConnectionInfo, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	cred, err := c.credentials.Pick(ctx)
	if err != nil {
		return nil, loginError(err)
	}
	return connectionInfo(cred.Info), nil
}

// HTTPClient returns an HTTP client for other libraries, which sends its requests with the credentials of this client. When the API server rejects the
// credentials, it continues with new ones. It then cuts off GET and HEAD requests, so that watches begin again, and lets others finish. It neither limits nor
// otherwise repeats requests. Requests to other hosts fail, also after redirects, because they would disclose the credentials.
func (c *Client) HTTPClient() *http.Client { return &http.Client{Transport: &apiTransport{c}} }

// apiTransport sends the requests of other libraries.
type apiTransport struct{ client *Client }

// RoundTrip sends one request with the current credentials.
func (t *apiTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.client.check(); err != nil {
		credtransport.CloseBody(r)
		return nil, err
	}
	if t.client.leader == nil || !apirequest.Changes(r.Method, r.URL.Path) {
		return t.send(r)
	}
	return t.fenced(r)
}

// send sends one request, and repeats it if the credentials are refused.
func (t *apiTransport) send(r *http.Request) (*http.Response, error) {
	resp, err := t.client.credentials.Send(r)
	return resp, loginError(err)
}

// retryAfterOf returns the delay in the server's Retry-After header, zero without one.
func retryAfterOf(err error) time.Duration {
	if e := (*APIError)(nil); errtype.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// isDenied reports whether an admission webhook or a policy has denied the request.
func isDenied(err error) bool {
	var api *APIError
	return errtype.As(err, &api) && api.denied()
}

// newAPIError makes an error of a response.
func newAPIError(method, path string, resp *http.Response) *APIError {
	r := apirequest.ReadRefusal(resp)
	e := &APIError{Code: resp.StatusCode, Reason: r.Reason, Message: r.Message, Name: r.Name, RetryAfter: r.RetryAfter, Method: method, Path: path, Header: resp.Header}
	for _, cause := range r.Causes {
		e.Causes = append(e.Causes, ErrorCause(cause))
	}
	return e
}

// request is one request to the API server.
type request struct {
	method      string
	path        string
	query       url.Values
	contentType string
	accept      string // defaults to JSON
	pageToken   string // for the live page of an operator, which is behind the API server's proxy
	body        []byte
	stream      bool         // a watch, without limits of number and time
	once        bool         // not repeated, because the caller does that
	named       bool         // a creation with a name, so that the API server refuses a second one
	refresh     func() error // called before a repetition with other credentials, which needs its success; may be nil
	// read reads the body of a successful response.
	read     func(io.Reader) error
	length   int64    // of the answer, if it is known
	warnings []string // in the answer
}

// do sends a request, and repeats it while that may help.
func (c *Client) do(ctx context.Context, r *request) error {
	if err := cmp.Or(c.check(), apirequest.CheckPath(r.path)); err != nil {
		return err
	}
	c.configured.Do(c.configure)
	backoffs := c.settings.ErrorBackoffs
	if r.once || r.stream {
		backoffs = nil
	}
	for attempt := 0; ; attempt++ {
		err := c.attempt(ctx, r)
		if err == nil && attempt > 0 {
			c.log.Debug(fmt.Sprintf("Request attempt #%d/%d succeeded.", attempt+1, len(backoffs)+1), "request", r.method+" "+r.path)
		}
		if err == nil || ctx.Err() != nil || !r.repeatable(err) {
			return err
		}
		if attempt >= len(backoffs) {
			if attempt > 0 {
				c.log.Warn(fmt.Sprintf("Request attempt #%d/%d failed; escalating.", attempt+1, len(backoffs)+1), "request", r.method+" "+r.path, "error", err, "help", "K316")
			}
			return err
		}
		delay := c.delay(backoffs[attempt], err)
		c.log.Warn(fmt.Sprintf("Request attempt #%d/%d failed; will retry in %s.", attempt+1, len(backoffs)+1, delay.Round(time.Millisecond)),
			"request", r.method+" "+r.path, "error", err, "help", "K315")
		if pause(ctx, delay) != nil {
			return err
		}
	}
}

// delay returns the time before the next attempt: the server's Retry-After, or the backoff with jitter.
func (c *Client) delay(backoff time.Duration, err error) time.Duration {
	backoff += time.Duration(rand.Int64N(int64(backoff)/10 + 1))
	pause := retryAfterOf(err)
	if pause > 0 && c.settings.EnforceRetryAfter {
		return pause
	}
	return max(backoff, pause)
}

// repeatable reports whether the request may be repeated after an error. It may not if the server has rejected it as invalid, or if the server may have
// executed a request that must not run twice.
func (r *request) repeatable(err error) bool {
	var api *APIError
	var login *LoginError
	var certificate *tls.CertificateVerificationError
	var dial *net.OpError
	switch {
	case errtype.As(err, &login), errtype.As(err, &certificate), errors.Is(err, ErrLeadershipLost), errors.Is(err, apirequest.ErrInterrupted), errors.Is(err, rawjson.ErrUnreadable):
		return false
	case errtype.As(err, &api) && (api.denied() || apirequest.IsMistyped(api.Message)):
		return false
	case errtype.As(err, &api):
		if r.method == http.MethodPost && !r.named {
			return api.Code == http.StatusTooManyRequests || api.Code == http.StatusServiceUnavailable && api.RetryAfter > 0
		}
		page := strings.HasPrefix(api.Header.Get("Content-Type"), "text/html") // from a proxy: the API server sends no HTML to programs
		return api.Code == http.StatusTooManyRequests || api.Code >= 500 || page
	case r.method == http.MethodPost && !r.named:
		return errtype.As(err, &dial) && dial.Op == "dial"
	}
	return true
}

// attempt sends a request, and repeats it with other credentials.
func (c *Client) attempt(ctx context.Context, r *request) error {
	if !r.stream && !isUnlimited(ctx) {
		began := time.Now()
		err := c.limits.Wait(ctx, r.path)
		if c.meter.Add(metrics.Throttled, int64(time.Since(began))); err != nil {
			return err
		}
		if c.inFlight != nil {
			select {
			case c.inFlight <- struct{}{}:
				defer func() { <-c.inFlight }()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	again := false
	return loginError(c.credentials.Do(ctx, func(cred *connection.Credential) (bool, error) {
		if again && r.refresh != nil {
			if err := r.refresh(); err != nil {
				return false, err
			}
		}
		again = true
		ctx, answered := outliveForAnswer(ctx) // the login needs the context without this and the timeout
		defer answered()
		if t := c.settings.RequestTimeout; t > 0 && !r.stream {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, t, c.noAnswer)
			defer cancel()
		}
		ctx, leave, err := c.enter(ctx, r.method, r.path)
		if err != nil {
			return false, err
		}
		defer leave()
		sent := time.Now()
		ctx, span := c.trace(ctx, r)
		code, err := r.send(ctx, cred)
		endSpan(span, err)
		c.meter.Request(cred.Info.Host(), r.verb(), code, time.Since(sent))
		if isDenied(err) {
			code = http.StatusForbidden // the API server itself is healthy
		}
		c.observe(r, sent, code, err, isUnlimited(ctx))
		refused := code == http.StatusUnauthorized || apirequest.RefusesCertificate(err)
		if refused {
			c.log.Warn("The API server refuses the credentials; logging in again", "login", cred.ID, "error", err, "help", "K904")
		}
		return refused, err
	}))
}

// observe delays later requests if the server requests a pause.
func (c *Client) observe(r *request, sent time.Time, code int, err error, unlimited bool) {
	switch {
	case code == http.StatusTooManyRequests && strings.HasSuffix(r.path, "/eviction"): // refused because of the pods, not because of the load
	case !r.stream && !unlimited:
		c.limits.Answered(r.path, sent, code, retryAfterOf(err))
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		c.limits.Hold(r.path, code, retryAfterOf(err)) // unlimited requests make their own pauses
	}
}

// setHeaders sets the headers of the request.
func (r *request) setHeaders(h http.Header) {
	h.Set("User-Agent", fieldManager+"/"+Version)
	h.Set("Accept", cmp.Or(r.accept, "application/json"))
	if r.pageToken != "" {
		h.Set(livepage.TokenHeader, r.pageToken)
	}
	if r.contentType != "" {
		h.Set("Content-Type", r.contentType)
	}
}

// send sends the request with one credential. It returns the code of the response, 0 without one.
func (r *request) send(ctx context.Context, cred *connection.Credential) (code int, err error) {
	target := strings.TrimRight(cred.Info.Server, "/") + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return 0, err
	}
	r.setHeaders(req.Header)
	client := cred.WriteClient
	if r.stream || isUnlimited(ctx) { // on another connection, so that ordinary requests cannot delay it
		client = cred.StreamClient
	} else if r.method == http.MethodGet {
		client = cred.Client
	}
	if parent := TraceParent(ctx); parent != "" {
		req.Header.Set("Traceparent", parent)
	}
	if r.stream {
		req.Header.Set("Accept-Encoding", "identity") // so that each event arrives at once
	}
	resp, err := client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
			return 0, fmt.Errorf("%s %s: %w", r.method, r.path, cause)
		}
		return 0, apirequest.PlainError(err)
	}
	if r.stream && resp.StatusCode < 400 {
		defer resp.Body.Close() // the rest of a watch may never arrive
	} else {
		defer credtransport.Drain(resp.Body)
	}
	if resp.StatusCode >= 300 {
		return resp.StatusCode, newAPIError(r.method, r.path, resp)
	}
	read := r.read
	if read == nil {
		read = apirequest.Confirm
	}
	r.length, r.warnings = resp.ContentLength, apirequest.Warnings(resp.Header)
	if err := read(resp.Body); err != nil {
		if ctx.Err() != nil && !r.stream {
			err = context.Cause(ctx)
		}
		return resp.StatusCode, fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	return resp.StatusCode, nil
}

// verb is the method of the request, or WATCH.
func (r *request) verb() string {
	if r.stream {
		return watchMethod
	}
	return r.method
}

// maxGuess limits the buffer that is allocated by the Content-Length of a response.
const maxGuess = 4 << 20

// body sends a request whose response is an object.
func (c *Client) body(ctx context.Context, r *request) (*Body, error) {
	var body *Body
	r.read = func(answer io.Reader) error {
		var whole bytes.Buffer
		if r.length > 0 && r.length < maxGuess {
			whole.Grow(int(r.length) + bytes.MinRead)
		}
		_, err := whole.ReadFrom(&apirequest.Bounded{Answer: answer, Left: rawjson.MaxObject})
		if err != nil {
			return err
		}
		if body, err = ParseBody(whole.Bytes()); err != nil {
			return fmt.Errorf("%w: %w", rawjson.ErrUnreadable, err)
		}
		return nil
	}
	err := c.do(ctx, r)
	return body, err
}

// object reads an object of a known resource. Without the permission to get it, it lists the object by its name: operators have the permission to list
// watched kinds, but often not to get them.
func (c *Client) object(ctx context.Context, r Resource, namespace, name string) (*Body, error) {
	body, err := c.body(apirequest.WithListInstead(ctx), &request{method: http.MethodGet, path: r.path(namespace, name, "")})
	if forbidden := (*APIError)(nil); errtype.As(err, &forbidden) && forbidden.Code == http.StatusForbidden {
		return c.listObject(ctx, r, namespace, name, forbidden)
	}
	return body, err
}

// listObject reads an object by a list of its name. A missing object gives the error that a get would have given. A failed list says nothing about the
// object, so it gives both errors.
func (c *Client) listObject(ctx context.Context, r Resource, namespace, name string, forbidden *APIError) (*Body, error) {
	var found *Body
	query := url.Values{"fieldSelector": {apirequest.NameSelector(name)}}
	err := c.list(ctx, r, namespace, query, 500, false, func(b *Body) bool {
		if b.name == name && b.namespace == namespace { // a server may ignore the selector
			found = b
		}
		return true
	})
	switch {
	case err != nil:
		return nil, errors.Join(forbidden, err)
	case found == nil:
		missing := fmt.Sprintf("%s %q not found", r.Name(), name)
		return nil, &APIError{Code: http.StatusNotFound, Reason: "NotFound", Message: missing, Name: name, Method: forbidden.Method, Path: forbidden.Path, Header: forbidden.Header}
	}
	return found, nil
}

// patchObject patches an object or a subresource of it, and returns the patched object.
func (c *Client) patchObject(ctx context.Context, r Resource, namespace, name, subresource, contentType string, patch []byte) (*Body, error) {
	return c.body(ctx, &request{method: http.MethodPatch, path: r.path(namespace, name, subresource), contentType: contentType, body: patch})
}

type unlimitedKey struct{}

// unlimited returns a context whose requests skip the connection limit and the rate limit. It is for few and urgent requests.
func unlimited(ctx context.Context) context.Context {
	return context.WithValue(ctx, unlimitedKey{}, true)
}

func isUnlimited(ctx context.Context) bool { return ctx.Value(unlimitedKey{}) != nil }

type answerGraceKey struct{}

// withAnswerGrace returns a context for requests. When it ends, it ends the pauses between attempts, but the attempt under way still has the grace for its
// answer: the API server may carry out a canceled write later, after what its caller sends next.
func withAnswerGrace(ctx context.Context, grace time.Duration) context.Context {
	return context.WithValue(ctx, answerGraceKey{}, grace)
}

// outliveForAnswer returns the context for one attempt of a request.
func outliveForAnswer(ctx context.Context) (context.Context, context.CancelFunc) {
	grace, _ := ctx.Value(answerGraceKey{}).(time.Duration)
	if grace == 0 || ctx.Err() != nil {
		return ctx, func() {}
	}
	return await.Outlive(ctx, grace)
}

// pause sleeps. If the caller is a worker, it releases its place in the pool meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	l := workpool.FromContext(ctx)
	l.Release()
	defer l.Acquire()
	return await.Sleep(ctx, d)
}
