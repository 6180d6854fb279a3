package contract

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how an operator reacts to an API server with an older history, as after etcd was restored from a backup.

var _ = Suite("client_watch_restored", func(t *testing.T, c *C) {
	object := func(c *C, version, x int) string {
		return fmt.Sprintf(`{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"name":"a","namespace":%q,"uid":"u","resourceVersion":"%d","creationTimestamp":"2020-01-01T00:00:00Z"},"spec":{"x":%d}}`,
			c.Namespace, version, x)
	}
	list := func(version int, items ...string) *http.Response {
		return document(fmt.Sprintf(`{"kind":"KopfExampleList","apiVersion":"kopf.dev/v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, strings.Join(items, ",")))
	}
	tooLarge := func() *http.Response {
		resp := document(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":504,"reason":"Timeout",` +
			`"message":"Timeout: Too large resource version: 1000, current: 500",` +
			`"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1}}`)
		resp.StatusCode, resp.Status = 504, "504 Gateway Timeout"
		return resp
	}
	for name, notice := range map[string]func() *http.Response{
		"by a bookmark": func() *http.Response {
			return document(`{"type":"BOOKMARK","object":{"kind":"KopfExample","apiVersion":"kopf.dev/v1","metadata":{"resourceVersion":"500"}}}` + "\n")
		},
		"by the refusal of the version": tooLarge,
		"by the end of the version":     func() *http.Response { return Answer(410, "Expired", "too old resource version") },
	} {
		c.Run(t, "DF-30 versions that went back after a restore are followed, noticed "+name, func(c *C) {
			c.OnlyInBubble("the answers are made up")
			var restored atomic.Bool
			var l calls
			r := &kopf.Registry{}
			r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error { l.add("%d", e.Spec().Int("x")); return nil }, watchedAs("event"))
			c.Operator(r, wired(func(req *Request) (*http.Response, error) {
				switch watch := strings.Contains(req.Path, "watch=true"); {
				case !strings.Contains(req.Path, "/kopfexamples?"):
					return nil, nil
				case !watch && !restored.Load():
					return list(1000, object(c, 900, 1)), nil
				case !watch:
					return list(500, object(c, 400, 2)), nil
				case !restored.Load():
					return Answer(503, "ServiceUnavailable", "later"), nil
				case strings.Contains(req.Path, "resourceVersion=1000"):
					return notice(), nil
				case strings.Contains(req.Path, "resourceVersion=500"):
					return document(`{"type":"MODIFIED","object":` + object(c, 501, 3) + "}\n"), nil
				}
				return Answer(503, "ServiceUnavailable", "later"), nil
			}))
			c.Pass(time.Minute)
			c.expect(&l, "1")
			restored.Store(true)
			c.Pass(time.Hour)
			c.expect(&l, "1", "2", "3")
		})
	}
	c.Run(t, "DF-30 another API server in the place of the former one is noticed", func(c *C) {
		c.OnlyInBubble("the server is replaced by a new one")
		other, _ := c.open(c)
		b := &balancer{}
		b.use(c.transport())
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error { l.add("%s", ch.Name()); return nil }, named("create"))
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			l.add("%s is gone", d.Name())
			return nil
		}, daemonID("daemon"))
		op := c.Operator(r, behind(b))
		for i := range 30 { // so that its versions are far ahead
			c.Create("a", sized(i))
			c.Pass(time.Second)
			c.Delete("a")
			c.Pass(time.Second)
		}
		c.Create("old", nil)
		c.Pass(time.Minute)
		b.use(other.HTTPClient.Transport)
		client, err := kopf.NewClient(other, nil)
		if err != nil {
			c.Fatal(err)
		}
		object := map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": "new", "namespace": c.Namespace}}
		if err := client.Create(contextWithout(c.Context()), object, nil); err != nil {
			c.Fatal(err)
		}
		c.Pass(2 * time.Minute)
		if l.count("new") != 1 || l.count("old is gone") != 1 || len(op.Logs.Find("have gone back")) == 0 {
			c.Errorf("got the calls %q", l.all())
		}
	})
	c.Run(t, "DF-30 an object whose worker worked when the server was restored is handled, though its stream is busy", func(c *C) {
		c.OnlyInBubble("the answers are made up")
		var restored atomic.Bool
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Name() == "a" && !restored.Load() && e.Type == kopf.Modified {
				time.Sleep(90 * time.Second) // until after the restore
			}
			return nil
		}, watchedAs("event"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s created %d", ch.Name(), ch.Spec().Int("x"))
			return nil
		}, named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s updated %d", ch.Name(), ch.Spec().Int("x"))
			return nil
		}, named("update"))
		object := func(name string, version, x int, annotations string) string {
			return fmt.Sprintf(`{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"name":%q,"namespace":%q,"uid":"u-%[1]s","resourceVersion":"%[3]d","creationTimestamp":"2020-01-01T00:00:00Z"%s},"spec":{"x":%d}}`,
				name, c.Namespace, version, annotations, x)
		}
		base := func(x int) string {
			return fmt.Sprintf(`,"annotations":{"kopf.zalando.org/last-handled-configuration":"{\"spec\":{\"x\":%d}}"}`, x)
		}
		list := func(version int, items ...string) *http.Response {
			return document(fmt.Sprintf(`{"kind":"KopfExampleList","apiVersion":"kopf.dev/v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, strings.Join(items, ",")))
		}
		var n atomic.Int64
		c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			watch := strings.Contains(req.Path, "watch=true")
			switch {
			case req.Method == http.MethodPatch && strings.Contains(req.Path, "/kopfexamples/"):
				return document(object("a", 1000, 2, base(2))), nil
			case req.Method == http.MethodGet && strings.Contains(req.Path, "/kopfexamples/"):
				return document(object("a", 450, 7, base(1))), nil
			case !strings.Contains(req.Path, "/kopfexamples?"):
				return nil, nil
			case !watch && !restored.Load():
				return list(900, object("a", 890, 2, base(1)), object("b", 880, 1, base(1))), nil
			case !watch: // a user has changed it since
				return list(500, object("a", 450, 7, base(1)), object("b", 440, 1, base(1))), nil
			case !restored.Load():
				if strings.Contains(req.Path, "resourceVersion=900") { // a change by another client before the patch
					time.Sleep(time.Second)
					return document(`{"type":"MODIFIED","object":` + object("a", 950, 2, base(1)) + "}\n"), nil
				}
				for !restored.Load() {
					time.Sleep(time.Second)
				}
				return Answer(410, "Expired", "too old resource version"), nil
			case strings.Contains(req.Path, "resourceVersion=950"):
				return Answer(410, "Expired", "too old resource version"), nil
			}
			time.Sleep(time.Second) // other objects change each second
			n.Add(1)
			return document(`{"type":"MODIFIED","object":` + object("b", 500+int(n.Load()), 1, base(1)) + "}\n"), nil
		}))
		c.Pass(time.Minute)
		restored.Store(true)
		c.Pass(4 * time.Minute)
		if l.count("a updated 7") == 0 {
			c.Errorf("four minutes after the restore, with %d events of others, called were only %q", n.Load(), l.all())
		}
	})
})
