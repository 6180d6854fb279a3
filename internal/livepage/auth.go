package livepage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/await"
)

// TokenHeader carries the token where the Authorization header is not forwarded, as by the API server's proxy.
const TokenHeader = "X-Kopf-Token"

// reviewedPath is the non-resource path that callers need permission to get. No role that comes with Kubernetes includes it.
const reviewedPath = "/kopf-page"

const (
	minToken     = 16               // bytes of a token in a file
	maxToken     = 64 << 10         // bytes of a token in a request
	rereadAfter  = 10 * time.Second // for the file, which may be a mounted Secret
	allowedFor   = time.Minute      // how long a review of the API server is valid
	refusedFor   = 10 * time.Second
	reviewWithin = 10 * time.Second
	reviewEvery  = 100 * time.Millisecond // at most: strangers with invented tokens must not use up the operator's rate limit
	maxReviewed  = 1000                   // tokens with a cached review
	warnEvery    = time.Minute            // at most, of failed reviews: strangers must not fill the log
	recheckEvery = 15 * time.Second       // for the token of an open event stream
)

// Reviewer sends reviews to the API server.
type Reviewer interface {
	// Post creates an object, and reads the response.
	Post(ctx context.Context, path string, body []byte, into any) error
}

// Auth decides who may see the page: clients with the token of a file, or with a token that the API server accepts and allows to see the page.
type Auth struct {
	file   string
	log    *slog.Logger
	review Reviewer      // nil without reviews
	turn   chan struct{} // holds a token during a review
	asked  time.Time     // time of the last review; guarded by turn

	mu       sync.Mutex // guards following
	token    []byte
	read     time.Time
	warned   time.Time // of a failed review
	reviewed map[[sha256.Size]byte]verdict
}

// verdict is the result of a review of a token.
type verdict struct {
	allowed bool
	until   time.Time
}

// NewAuth returns an Auth for the token in a file, unless the name is empty, and for reviews, unless the reviewer is nil. Without both, it returns nil.
func NewAuth(file string, reviewer Reviewer, log *slog.Logger) (*Auth, error) {
	if file == "" && reviewer == nil {
		return nil, nil
	}
	a := &Auth{file: file, log: log, review: reviewer, turn: make(chan struct{}, 1), reviewed: make(map[[sha256.Size]byte]verdict)}
	if file == "" {
		return a, nil
	}
	return a, a.readToken(time.Now())
}

// CheckToken returns the error of a file that has no token.
func CheckToken(file string) error { return (&Auth{file: file}).readToken(time.Time{}) }

// readToken reads the file.
func (a *Auth) readToken(now time.Time) error {
	a.read = now
	token, err := os.ReadFile(a.file)
	if err != nil {
		return fmt.Errorf("the token of the live page: %w", err)
	}
	if token = bytes.TrimSpace(token); len(token) < minToken {
		return fmt.Errorf("the token of the live page in %q has %d bytes: want %d at least, such as of \"openssl rand -hex 32\"", a.file, len(token), minToken)
	}
	a.token = token
	return nil
}

// allow reports whether a request is allowed, and otherwise sends an error response. With ask, browsers prompt for a name and a password, which is the token.
func (a *Auth) allow(w http.ResponseWriter, r *http.Request, ask bool) bool {
	if a == nil {
		return true
	}
	token, why := tokenOf(r), "the token is missing or wrong"
	if a.review != nil {
		why += ", or its account has no permission to get " + reviewedPath
	}
	ok, err := false, error(nil)
	if token != "" && len(token) <= maxToken {
		ok, err = a.knows(r.Context(), token)
	}
	switch {
	case ok:
		return true
	case err != nil && r.Context().Err() != nil: // the client has disconnected
	case err != nil:
		a.warn(err)
		refuse(w, http.StatusServiceUnavailable, "the API server could not be asked about the token; see the log of the operator")
	case ask:
		w.Header().Set("WWW-Authenticate", `Basic realm="the token of the live page as the password"`)
		refuse(w, http.StatusUnauthorized, why)
	default:
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, why)
	}
	return false
}

// awaitRevocation returns when the token of an allowed request is not allowed any more, or when the
// context ends. A review that fails revokes nothing: an outage is when viewers need the page most.
func (a *Auth) awaitRevocation(ctx context.Context, r *http.Request) {
	if a == nil {
		<-ctx.Done()
		return
	}
	for token := tokenOf(r); await.Sleep(ctx, recheckEvery) == nil; {
		if allowed, err := a.knows(ctx, token); err == nil && !allowed {
			return
		}
	}
}

// warn logs that a review has failed, unless it has done so shortly before.
func (a *Auth) warn(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.warned) >= warnEvery {
		a.warned = now
		a.log.Warn("Asking the API server about a token for the live page failed", "error", err, "hint", "grant the permission to create tokenreviews and subjectaccessreviews", "help", "K1105")
	}
}

// tokenOf returns the token of a request, or "".
func tokenOf(r *http.Request) string {
	if token := r.Header.Get(TokenHeader); token != "" {
		return token
	}
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	if kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(kind, "Bearer") {
		return strings.TrimSpace(token)
	}
	return ""
}

// knows reports whether a token is valid and allowed.
func (a *Auth) knows(ctx context.Context, token string) (bool, error) {
	sum := sha256.Sum256([]byte(token))
	if allowed, known := a.remembers(sum); known || a.review == nil {
		return allowed, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewWithin)
	defer cancel()
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if allowed, known := a.remembers(sum); known { // another request has reviewed it meanwhile
		return allowed, nil
	}
	if err := await.Sleep(ctx, time.Until(a.asked.Add(reviewEvery))); err != nil {
		return false, err
	}
	allowed, err := a.ask(ctx, token)
	now := time.Now()
	if a.asked = now; err != nil {
		return false, err
	}
	v := verdict{allowed, now.Add(refusedFor)}
	if allowed {
		v.until = now.Add(allowedFor)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.reviewed) >= maxReviewed {
		clear(a.reviewed)
	}
	a.reviewed[sum] = v
	return allowed, nil
}

// remembers reports whether a token is allowed, if that is known without a review.
func (a *Auth) remembers(sum [sha256.Size]byte) (allowed, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.file != "" {
		if now.Sub(a.read) >= rereadAfter {
			_ = a.readToken(now) // on failure, the old token stays valid
		}
		if want := sha256.Sum256(a.token); subtle.ConstantTimeCompare(sum[:], want[:]) == 1 {
			return true, true
		}
	}
	v := a.reviewed[sum]
	return v.allowed, now.Before(v.until)
}

// ask asks the API server to which user the token belongs, and whether that user may see the page.
func (a *Auth) ask(ctx context.Context, token string) (bool, error) {
	var who struct {
		Status struct {
			Authenticated bool `json:"authenticated"`
			User          struct {
				Username string              `json:"username"`
				UID      string              `json:"uid"`
				Groups   []string            `json:"groups"`
				Extra    map[string][]string `json:"extra"`
			} `json:"user"`
		} `json:"status"`
	}
	err := a.post(ctx, "authentication", "TokenReview", map[string]any{"token": token}, &who)
	user := who.Status.User
	if err != nil || !who.Status.Authenticated || user.Username == "" {
		return false, err
	}
	var may struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	err = a.post(ctx, "authorization", "SubjectAccessReview", map[string]any{
		"user": user.Username, "uid": user.UID, "groups": user.Groups, "extra": user.Extra, "nonResourceAttributes": map[string]any{"path": reviewedPath, "verb": "get"},
	}, &may)
	return may.Status.Allowed, err
}

func (a *Auth) post(ctx context.Context, group, kind string, spec map[string]any, into any) error {
	body, err := json.Marshal(map[string]any{"apiVersion": group + ".k8s.io/v1", "kind": kind, "spec": spec})
	if err != nil {
		return err
	}
	return a.review.Post(ctx, "/apis/"+group+".k8s.io/v1/"+strings.ToLower(kind)+"s", body, into)
}

// CheckAddress returns an error if other hosts can reach the address, and access is not restricted.
func CheckAddress(address net.Addr, a *Auth) error {
	tcp, ok := address.(*net.TCPAddr)
	if a != nil || !ok || tcp.IP.IsLoopback() {
		return nil
	}
	return errors.New("the live page can be reached from other hosts at " + address.String() + ": want a token for it, by --page-token or --page-auth, or an endpoint at 127.0.0.1")
}
