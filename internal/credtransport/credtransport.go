// Package credtransport has what requests with credentials need: files of tokens and certificates, headers, and the end of what is read with
// a credential that is refused.
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

// TokenUser returns the user that a JSON Web Token names (RFC 7519, section 4.1.2), which is not verified. It is empty for other tokens.
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

// PemOf returns PEM that may be in base64, as kubeconfigs have it.
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

// DataOf returns the PEM of data or a file, nil if there is neither.
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

// ConcealingProxy is a choice of proxies whose errors do not contain an address that cannot be read, for it can have a password in it.
func ConcealingProxy(choose func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		proxy, err := choose(r)
		if err != nil {
			err = errors.New("the address of the proxy in the environment is not a URL")
		}
		return proxy, err
	}
}

// SameHost refuses to take credentials to another host.
func SameHost(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return fmt.Errorf("the server redirects to %s", req.URL.Redacted())
	}
	return nil
}

// Session is what the connections of a credential, and of equal ones after it, have in common. It ends in two steps: when other
// credentials replace it, what is being read ends, streams above all, to be read again with those. Requests that change something
// finish, for the server may have carried them out already. When the client is closed, all ends.
type Session struct {
	client   context.Context // ends when the client is closed
	Reads    context.Context // of what is being read; ends before client, or with it
	Replace  context.CancelFunc
	Accepted atomic.Bool // the server has let a request in since the last login
}

// NewSession returns a session of a client that is closed with a context.
func NewSession(client context.Context) *Session {
	s := &Session{client: client}
	s.Reads, s.Replace = context.WithCancel(client)
	return s
}

// Life returns the context that a request must not outlive.
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

// Drain reads what is left of a refusal, so that its connection can be used again.
func Drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}

// ExplainEnd tells errors of a request that the end of its session has caused from others.
func ExplainEnd(ctx, life context.Context, err error) error {
	if life.Err() == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// SessionBody is the body of an answer that ends with its session.
type SessionBody struct {
	io.ReadCloser
	Ctx     context.Context // of the request
	Life    context.Context // that the request must not outlive
	Release context.CancelFunc
}

// Read reads on until the end of the answer or of the session.
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

// CopyRequest copies a request as far as the copy is changed: without its address, which only is read, and without its forms.
func CopyRequest(ctx context.Context, r *http.Request) *http.Request {
	c := r.WithContext(ctx)
	c.Header = r.Header.Clone()
	return c
}

// Again copies a request to be sent once more, with its body from the beginning.
func Again(ctx context.Context, r *http.Request) (*http.Request, error) {
	again := CopyRequest(ctx, r)
	if r.GetBody == nil {
		return again, nil
	}
	body, err := r.GetBody()
	again.Body = body
	return again, err
}

// EscapeHeaderKey writes the key of an extra as a part of a header's name, as API servers read it: what is not
// allowed there, and the percent sign itself, is percent-encoded. Keys are read in lower case.
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

// ErrClosed is found in the error of a request or a stream that was cut off because its
// credential was removed. It is to be repeated with another one; credentialStore.do does so. What changes something is never cut off so, except
// when the client is closed, and then there is no other one.
var ErrClosed = errors.New("the credentials of the connection were removed")
