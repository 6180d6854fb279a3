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

// This suite proves what an operator makes of an API server whose history is an older one than before, as after etcd was restored from a backup.

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
})
