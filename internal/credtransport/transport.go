package credtransport

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// tokenMaxAge is how long the content of a token file is cached.
const tokenMaxAge = time.Minute

// Credentials are the credentials of requests.
type Credentials struct {
	Token, TokenFile   string // the file is read again after a while; Token applies until it can be read
	Scheme             string // of the Authorization header; "" means Bearer
	Username, Password string

	ImpersonateUser, ImpersonateUID string
	ImpersonateGroups               []string
	ImpersonateExtra                map[string][]string
}

// Transport adds credentials to requests, and ends their responses with a session.
type Transport struct {
	Next        http.RoundTripper
	Credentials Credentials
	Session     *Session // nil for requests without a session

	mu   sync.Mutex // guards all below
	last string     // content of the token file
	read time.Time  // last read; zero if never
}

// CloseIdleConnections closes the idle connections of the base transport.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Check returns an error if the token file cannot be read.
func (t *Transport) Check() error {
	_, err := t.token(false)
	return err
}

// token returns the token. It reads the file again if the token was rotated or is old.
func (t *Transport) token(rotated bool) (string, error) {
	if t.Credentials.TokenFile == "" {
		return t.Credentials.Token, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !rotated && !t.read.IsZero() && time.Since(t.read) < tokenMaxAge {
		return t.last, nil
	}
	token, err := ReadToken(t.Credentials.TokenFile)
	if err != nil {
		if t.last == "" {
			t.last = t.Credentials.Token
		}
		if t.last == "" {
			return "", err
		}
		token = t.last // the file may be incomplete during a change
	}
	t.last, t.read = token, time.Now()
	return token, nil
}

// RoundTrip sends the request with the credentials. If the server rejects a token from a file, and the file has another token now, RoundTrip repeats the
// request with it.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := t.token(false)
	if err != nil {
		CloseBody(req)
		return nil, err
	}
	resp, err := t.send(req, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	if t.Credentials.TokenFile == "" || req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return resp, nil
	}
	fresh, err := t.token(true)
	if err != nil || fresh == token {
		return resp, nil
	}
	again := CopyRequest(req.Context(), req)
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return resp, nil
		}
	}
	Drain(resp.Body)
	return t.send(again, fresh)
}

// send sends the request with a token.
func (t *Transport) send(req *http.Request, token string) (*http.Response, error) {
	if t.Session == nil {
		return t.Next.RoundTrip(t.Credentials.Authorize(req.Context(), req, token))
	}
	life := t.Session.Life(req.Method)
	if life.Err() != nil { // AfterFunc would report it only while the request runs
		CloseBody(req)
		return nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(life, func() { cancel(ErrClosed) })
	release := func() {
		stop()
		cancel(nil)
	}
	resp, err := t.Next.RoundTrip(t.Credentials.Authorize(ctx, req, token))
	if err != nil {
		err = ExplainEnd(req.Context(), life, err)
		release()
		return nil, err
	}
	if resp.StatusCode < 500 && resp.StatusCode != http.StatusUnauthorized {
		t.Session.Accepted.Store(true)
	}
	body := &SessionBody{ReadCloser: resp.Body, Ctx: req.Context(), Life: life, Release: release}
	if conn, ok := resp.Body.(io.Writer); ok { // after a change of the protocol, such as for an exec, the body is the connection
		resp.Body = &sessionConn{body, conn}
	} else {
		resp.Body = body
	}
	return resp, nil
}

// Authorize returns the request with the authentication headers, except those that it has already.
func (c *Credentials) Authorize(ctx context.Context, req *http.Request, token string) *http.Request {
	req = CopyRequest(ctx, req)
	h := req.Header
	if h.Get("Authorization") == "" {
		switch {
		case token != "" && c.Scheme == "":
			h.Set("Authorization", "Bearer "+token)
		case c.Scheme != "":
			h.Set("Authorization", strings.TrimSpace(c.Scheme+" "+token))
		case c.Username != "" && c.Password != "":
			req.SetBasicAuth(c.Username, c.Password)
		}
	}
	if c.ImpersonateUser == "" || h.Get("Impersonate-User") != "" {
		return req
	}
	h.Set("Impersonate-User", c.ImpersonateUser)
	if c.ImpersonateUID != "" {
		h.Set("Impersonate-Uid", c.ImpersonateUID)
	}
	for _, group := range c.ImpersonateGroups {
		h.Add("Impersonate-Group", group)
	}
	for key, values := range c.ImpersonateExtra {
		for _, value := range values {
			h.Add("Impersonate-Extra-"+EscapeHeaderKey(key), value)
		}
	}
	return req
}
