package kopf

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/kopf-go/kopf/internal/credtransport"
)

// This file keeps a replica that does not hold the Lease from changing anything: its client sends no such requests, and ends those that are under way.

// Fence returns a number that is higher for each leader than for all before it, for requests to other systems than the API server. A system that
// remembers the highest number it has seen, and refuses lower ones, is safe from a former leader whose handlers ignore their contexts. It is the resource version of the Lease
// of [LeaderElectionSettings] when it was got. It stays the same while the function runs, even if the Lease is lost meanwhile. Without an election, and
// while this replica stands by, it is zero.
func (o *Object) Fence() uint64 { return o.fence }

// Fence returns a number that is higher for each leader than for all before it. It is zero in start-up handlers, and in handlers of [Registry.OnStoppedLeading]
// after a loss. See [Object.Fence].
func (a *Activity) Fence() uint64 { return a.fence }

// number returns the fence of the term; 0 without one.
func (l *leadership) number() uint64 {
	if l == nil {
		return 0
	}
	return l.fence.Load()
}

// fenced returns the client with a fence: it changes nothing but in the terms of a replica.
func (c *Client) fenced(l *leadership) *Client {
	return &Client{clientCore: c.clientCore, manager: c.manager, leader: l}
}

// during returns the client for one term: it changes nothing in a later one, for what was begun before and has ignored its end.
func (c *Client) during(term uint64) *Client {
	if c == nil || c.leader == nil {
		return c
	}
	if term == 0 {
		term = noTerm
	}
	return &Client{c.clientCore, c.manager, c.leader, term}
}

// noTerm is the term of clients that were handed out between two terms: they change nothing in any.
const noTerm = ^uint64(0)

// withoutFence returns the client for what every replica does.
func (c *Client) withoutFence() *Client { return c.fenced(nil) }

// changes reports whether a request changes anything on the API server. Reviews of rights and tokens are created, but not stored.
func changes(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	base, rest, _ := strings.Cut(path, "/apis/") // the base is that of a server behind a proxy; what is proxied by the API server has "/api/" before
	review := strings.HasPrefix(rest, "authorization.k8s.io/") || strings.HasPrefix(rest, "authentication.k8s.io/")
	return !review || strings.Contains(base, "/api/")
}

// enter returns a context for a request, which ends with the term, and a function to be called when the request is over. It fails if the replica does not
// hold the Lease for certain: by its own clocks, at this moment.
func (c *Client) enter(ctx context.Context, method, path string) (context.Context, context.CancelFunc, error) {
	l := c.leader
	if l == nil || !changes(method, path) {
		return ctx, func() {}, nil
	}
	l.mu.Lock()
	term, now := l.terms.tasks, l.fence.Load()
	l.mu.Unlock()
	if now == 0 || c.term != 0 && c.term != now || l.check() != nil {
		return nil, nil, fmt.Errorf("%s %s: not sent: %w", method, path, ErrLeadershipLost)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(term, func() { cancel(ErrLeadershipLost) })
	return ctx, func() {
		stop()
		cancel(nil)
	}, nil
}

// fencedBody is the body of an answer for other libraries, whose request is over when it is closed.
type fencedBody struct {
	io.ReadCloser
	leave context.CancelFunc
}

// Close closes the body.
func (b *fencedBody) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}

// fenced sends a request that changes something, if the fence lets it through.
func (t *apiTransport) fenced(r *http.Request) (*http.Response, error) {
	ctx, leave, err := t.client.enter(r.Context(), r.Method, r.URL.Path)
	if err != nil {
		credtransport.CloseBody(r)
		return nil, err
	}
	resp, err := t.send(r.WithContext(ctx))
	if err != nil {
		leave()
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols { // whose body is the connection
		resp.Body = &fencedBody{resp.Body, leave}
	}
	return resp, nil
}
