// Package credtransport provides HTTP transports with credentials: files of tokens and certificates, headers, and sessions that end when a credential is
// rejected.
package credtransport

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"github.com/kopf-go/kopf/internal/apirequest"
)

// ReadToken reads a token from its file.
func ReadToken(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("the token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("the token file %s is empty", path)
	}
	return token, nil
}

// TokenUser returns the user in a JSON Web Token (RFC 7519, section 4.1.2), without verifying it. It returns "" for other tokens.
func TokenUser(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	return claims.Subject
}

func FileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// PemOf returns PEM. The data may be in base64, as in kubeconfigs.
func PemOf(what string, data []byte) ([]byte, error) {
	if !bytes.Contains(data, []byte("-----BEGIN")) {
		text := strings.Join(strings.Fields(string(data)), "")
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%s is neither PEM nor base64 of it", what)
		}
		data = decoded
	}
	if block, _ := pem.Decode(data); block == nil {
		return nil, fmt.Errorf("%s has no PEM in it", what)
	}
	return data, nil
}

// DataOf returns PEM from data or a file, or nil without both.
func DataOf(what string, data []byte, file string) ([]byte, error) {
	if len(data) == 0 {
		if file == "" {
			return nil, nil
		}
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		what += " in " + file
	}
	return PemOf(what, data)
}

// FileStamp identifies the version of a file.
func FileStamp(path string) string {
	stat, err := os.Stat(path)
	if path == "" || err != nil {
		return "/"
	}
	return fmt.Sprint(stat.ModTime().UnixNano(), "+", stat.Size(), "/")
}

// ConcealingProxy removes an invalid proxy address from errors, because it can contain a password.
func ConcealingProxy(choose func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		proxy, err := choose(r)
		if err != nil {
			err = errors.New("the address of the proxy in the environment is not a URL")
		}
		return proxy, err
	}
}

// SameHost rejects redirects to another host, which must not receive the credentials.
func SameHost(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return fmt.Errorf("the server redirects to %s", apirequest.RedactURL(req.URL.String()))
	}
	return nil
}

// Session is shared by the connections of a credential and of equal ones that follow it. It ends in two steps. When other credentials replace the credential,
// reads end, above all streams, to be repeated with the new ones. Writes finish, because the server may have processed them already. When the client is closed,
// all requests end.
type Session struct {
	client   context.Context // ends when the client is closed
	Reads    context.Context // for reads; ends before client, or with it
	Replace  context.CancelFunc
	Accepted atomic.Bool // the server has accepted a request since the last login
}

// NewSession returns a session of a client that is closed with the context.
func NewSession(client context.Context) *Session {
	s := &Session{client: client}
	s.Reads, s.Replace = context.WithCancel(client)
	return s
}

// Life returns the context that limits a request with a method.
func (s *Session) Life(method string) context.Context {
	if method == http.MethodGet || method == http.MethodHead {
		return s.Reads
	}
	return s.client
}

func CloseBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // the request has failed anyway
	}
}

// Drain reads the rest of an error response, so that its connection can be reused.
func Drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}

// ExplainEnd wraps an error that the end of the session has caused in [ErrClosed].
func ExplainEnd(ctx, life context.Context, err error) error {
	if life.Err() == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// SessionBody is a response body that ends with its session.
type SessionBody struct {
	io.ReadCloser
	Ctx     context.Context // of the request
	Life    context.Context // limits the request
	Release context.CancelFunc
}

// Read reads until the end of the response or of the session.
func (b *SessionBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = ExplainEnd(b.Ctx, b.Life, err)
	}
	return n, err
}

// Close closes the answer.
func (b *SessionBody) Close() error {
	err := b.ReadCloser.Close()
	b.Release()
	return err
}

// sessionConn is a connection that ends with its session.
type sessionConn struct {
	*SessionBody
	io.Writer
}

// CopyRequest copies the parts of a request that may change: not the URL, which is only read, and no forms.
func CopyRequest(ctx context.Context, r *http.Request) *http.Request {
	c := r.WithContext(ctx)
	c.Header = r.Header.Clone()
	return c
}

// Again copies a request for another attempt, with its body from the start.
func Again(ctx context.Context, r *http.Request) (*http.Request, error) {
	again := CopyRequest(ctx, r)
	if r.GetBody == nil {
		return again, nil
	}
	body, err := r.GetBody()
	again.Body = body
	return again, err
}

// EscapeHeaderKey escapes the key of an extra for use in a header name, as API servers decode it: characters that are not allowed there, and the percent sign,
// are percent-encoded. API servers convert keys to lower case.
func EscapeHeaderKey(key string) string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$&'*+-.^_`|~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// ErrClosed is in the error of a read that was canceled because its credential was removed. The caller repeats it with another credential. A write is canceled
// only when the client is closed, and then there is no other credential.
var ErrClosed = errors.New("the credentials of the connection were removed")
