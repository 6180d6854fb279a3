package contract

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that the endpoint of an operator reveals no secrets to clients in the cluster.

var _ = Suite("live_page_secrets", func(t *testing.T, c *C) {
	unprotectedPages(t, c)
	protectedPages(t, c)
})

// unprotectedPages checks pages that all clients in the cluster could read.
func unprotectedPages(t *testing.T, c *C) {
	for _, address := range []string{"0.0.0.0:8080", "[::]:8080", "10.1.2.3:8080", "[fd00::1]:8080"} {
		c.Run(t, "OB-T6 without protection, the operator does not start, and serves no page until it ends, at "+address, func(c *C) {
			c.OnlyInBubble("it waits")
			var l calls
			r := &kopf.Registry{}
			r.OnStartup(func(context.Context, *kopf.Activity) error { time.Sleep(time.Second); return nil }, id("startup"))
			r.OnCreate(Examples, l.handler("create"), named("create"))
			c.Create("a", nil)
			op, wire, _ := c.operatorOn(r)
			p := newPipe()
			op.Settings = kopf.NewSettings()
			op.Settings.Process.Page.Enabled = true
			op.LivenessEndpoint, op.LivenessListener = "http://"+address+"/healthz", &addressed{p, address}
			var viewers sync.WaitGroup
			for _, path := range []string{"/", "/?plain", "/api/v1/state", "/api/v1/events", "/api/v1/objects/KopfExample/" + c.Namespace + "/a"} {
				viewers.Go(func() {
					for { // until the listener is closed
						switch a := p.get(path); a.code {
						case 0:
							return
						case http.StatusOK:
							c.Errorf("%s is served: %d bytes", path, len(a.body))
							return
						}
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
			ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
			defer cancel()
			err := op.Run(ctx)
			viewers.Wait()
			c.wants("the error", fmt.Sprint(err), address, "--page-token", "--page-auth", "127.0.0.1")
			if n := len(wire.Writes()); n > 0 || len(l.all()) > 0 {
				c.Errorf("it has sent %d writes, and called %q", n, l.all())
			}
		})
	}
}

// protectedPages checks a page with a token, in an operator that handles Secrets.
func protectedPages(t *testing.T, c *C) {
	const token, credential, private = "0123456789abcdef-page", "operators-own-credential", "private-name"
	concealed := []string{theSecret, base64.StdEncoding.EncodeToString([]byte(theSecret)), credential, token}
	c.Run(t, "OB-T6 a protected page shows no secrets, and without the token nothing at all", func(c *C) {
		c.OnlyInBubble("it waits")
		p := newPipe()
		file := filepath.Join(c.TempDir(), "token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			c.Fatal(err)
		}
		r := &kopf.Registry{}
		later := func(context.Context, *kopf.Change) error { return kopf.Temporary(errors.New("the reason"), time.Hour) }
		r.OnCreate("secrets.v1", later, named("secret"))
		r.OnCreate(Examples, later, named("example"))
		r.OnDaemon(Examples, func(ctx context.Context, _ *kopf.Daemon) error { return waitInHandler(ctx) }, daemonID("daemon"))
		secrets := c.Of("v1", "Secret")
		secrets.Create(private, map[string]any{"stringData": map[string]any{"password": theSecret}})
		texts := map[string]any{"key": theSecret}
		c.Create(private, map[string]any{
			"metadata": map[string]any{"annotations": texts, "labels": texts},
			"spec":     map[string]any{"password": theSecret}, "status": map[string]any{"password": theSecret},
		})
		op := c.Operator(r, paged(p, func(s *kopf.PageSettings) { s.TokenFile, s.Stacks = file, true }), func(op *kopf.Operator) {
			op.Connection.Token = credential
			op.Settings.Process.Decisions = 100
			op.LivenessListener = &addressed{p, "0.0.0.0:8080"}
		}, wired(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch && strings.Contains(q.Path, "/kopfexamples/") && strings.Contains(q.Body, "example") {
				return Answer(http.StatusForbidden, "Forbidden", "no permission"), nil
			}
			return nil, nil
		}))
		c.Pass(time.Minute)
		objects := []string{
			"/api/v1/objects/Secret/" + c.Namespace + "/" + private + "?stack",
			"/api/v1/objects/KopfExample/" + c.Namespace + "/" + private + "?stack",
		}
		views := append([]string{"/?plain", "/api/v1/state"}, objects...)
		for _, path := range append(views, "/api/v1/events", "/api/v1/nothing") {
			for what, headers := range map[string][]string{
				"no token": nil, "another token": {"X-Kopf-Token: " + strings.ToUpper(token)}, "its beginning": {"Authorization: Bearer " + token[:16]},
				"the credential of the operator": {"Authorization: Bearer " + credential},
			} {
				if a := p.get(path, headers...); a.code != http.StatusUnauthorized || revealed(a, append(concealed, private)) != "" {
					c.Errorf("%s with %s: %s", path, what, a)
				}
			}
		}
		for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/debug/pprof/", "/debug/vars"} { // all clients can read them
			if word := revealed(p.get(path), append(concealed, private)); word != "" {
				c.Errorf("%s shows %s", path, word)
			}
		}
		for _, path := range views {
			a := p.get(path, "X-Kopf-Token: "+token)
			if word := revealed(a, concealed); word != "" {
				c.Errorf("%s shows %s", path, word)
			}
			c.wants(path, a.body, private, "the reason")
		}
		c.wants("the stack", p.get(objects[1], "X-Kopf-Token: "+token).body, "waitInHandler")
		c.wants("the errors of requests", p.get("/api/v1/state", "X-Kopf-Token: "+token).body, "no permission")
		events := make(chan answer)
		go func() { events <- p.get("/api/v1/events", "X-Kopf-Token: "+token) }()
		c.Pass(10 * time.Second)
		op.Stop()
		if a := <-events; revealed(a, concealed) != "" || !strings.Contains(a.body, private) {
			c.Errorf("the events are %s", a)
		}
	})
}

// revealed returns the first of the words that are in a response or its headers, or "".
func revealed(a answer, words []string) string {
	text := fmt.Sprint(a.header, a.body)
	for _, word := range words {
		if strings.Contains(text, word) {
			return word
		}
	}
	return ""
}
