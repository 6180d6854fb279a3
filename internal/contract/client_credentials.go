package contract

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what happens to running requests when the credentials of the operator are replaced.

var _ = Suite("client_credentials", func(t *testing.T, c *C) {
	const manifest = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"made-"}}`
	clients := map[string]func(ctx context.Context, c *C, client *kopf.Client, server string) error{
		"Client": func(ctx context.Context, c *C, client *kopf.Client, _ string) error {
			return client.Create(ctx, map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "made-", "namespace": c.Namespace},
			}, nil)
		},
		"HTTPClient": func(ctx context.Context, c *C, client *kopf.Client, server string) error {
			resp, err := client.HTTPClient().Post(server+"/api/v1/namespaces/"+c.Namespace+"/configmaps", "application/json", strings.NewReader(manifest))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusCreated {
				return fmt.Errorf("HTTP %s", resp.Status)
			}
			return nil
		},
	}
	for name, create := range clients {
		for _, others := range []bool{false, true} {
			c.Run(t, fmt.Sprintf("DF-17 a creation with a generated name under way is not carried out twice: %s, other credentials at hand: %t", name, others), func(c *C) {
				c.OnlyInBubble("it waits")
				e, gate := newEntry(), &tokenGate{refused: map[string]bool{}}
				logins := 0
				e.login("login", kopf.ActivityOptions{}, func() *kopf.ConnectionInfo {
					logins++
					return gate.info(e, fmt.Sprint("token-", logins), 1)
				})
				if others {
					e.login("other", kopf.ActivityOptions{}, func() *kopf.ConnectionInfo { return gate.info(e, "other", 0) })
				}
				created := make(chan error, 1)
				e.registry.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
					if ch.Name() == "a" {
						created <- create(ctx, c, ch.Client, e.info().Server)
						return nil
					}
					return ch.Client.Get(ctx, c.Ref("b"), &kopf.Body{}, nil)
				}, named("create"))
				c.Operator(&e.registry, e.door)
				c.Create("a", nil)
				c.WaitFor("the creation", func() bool { return gate.creations() == 1 })
				gate.refuse("token-1") // it has expired,
				c.Create("b", nil)     // which another request finds out
				if err := <-created; err != nil {
					c.Errorf("the creation has failed: %v", err)
				}
				if n := gate.creations(); n != 1 {
					c.Errorf("the creation was carried out %d times", n)
				}
				if gate.used("token-2") == 0 && gate.used("other") == 0 {
					c.Error("no other credentials were used")
				}
			})
		}
	}
})

// tokenGate passes requests to the server unless their token is refused. It delays the responses to creations of config maps, as slow webhooks do.
type tokenGate struct {
	mu       sync.Mutex // guards all below
	next     http.RoundTripper
	refused  map[string]bool
	requests map[string]int // by token
	created  int
}

// info returns a connection through the gate.
func (g *tokenGate) info(e *entry, token string, priority int) *kopf.ConnectionInfo {
	info := e.info()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next, g.requests = info.HTTPClient.Transport, map[string]int{}
	info.HTTPClient = &http.Client{Transport: g}
	info.Token, info.Priority = kopf.Secret(token), priority
	return info
}

func (g *tokenGate) refuse(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused[token] = true
}

func (g *tokenGate) creations() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.created
}

func (g *tokenGate) used(token string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests[token]
}

// RoundTrip sends the request even if its context is canceled, as servers complete requests.
func (g *tokenGate) RoundTrip(req *http.Request) (*http.Response, error) {
	token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	g.mu.Lock()
	refused, next := g.refused[token], g.next
	g.requests[token]++
	g.mu.Unlock()
	if refused {
		return Answer(http.StatusUnauthorized, "Unauthorized", "the token has expired"), nil
	}
	if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/configmaps") {
		return next.RoundTrip(req)
	}
	resp, err := next.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
	g.mu.Lock()
	g.created++
	g.mu.Unlock()
	select {
	case <-time.After(5 * time.Second):
		return resp, err
	case <-req.Context().Done():
		if err == nil {
			_ = resp.Body.Close() // it is not read
		}
		return nil, req.Context().Err()
	}
}
