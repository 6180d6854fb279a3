package contract

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that a refused change of one handler delays neither the object nor other objects, for all codes.

var _ = Suite("change_denials", func(t *testing.T, c *C) {
	deniedPatches(t, c)
	missingRights(t, c)
	deniedRequests(t, c)
})

// setsHundred reports whether a request sets the field x of the spec to 100.
func setsHundred(r *Request) bool { return strings.Contains(r.Body, `"x":100`) }

func deniedPatches(t *testing.T, c *C) {
	for _, code := range []int{400, 401, 403, 404, 409, 418, 422, 429, 500, 503} {
		reply := func() *http.Response { return denied(code, http.StatusText(code), "it is too large") }
		hundred := func(l *calls) *kopf.Registry {
			r := &kopf.Registry{}
			set := func(_ context.Context, ch *kopf.Change) error {
				l.add("%s %d", ch.Reason, ch.Spec().Int("want"))
				ch.Patch.Set("spec.x", 10*ch.Spec().Int("want"))
				return nil
			}
			r.OnCreate(Examples, set, named("create"))
			r.OnUpdate(Examples, set, &kopf.ChangeOptions{ID: "update", Field: "spec.want"})
			r.OnDelete(Examples, l.handler("delete"), named("delete"))
			return r
		}
		wanted := func(n int) map[string]any { return spec(map[string]any{"want": n}) }
		c.Run(t, fmt.Sprintf("DF-9 an object whose patch is denied with %d is deleted at once", code), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			var l calls
			op := c.Operator(hundred(&l))
			op.denyPatches(setsHundred, reply)
			for i, pass := range []time.Duration{0, 30 * time.Second, time.Hour} {
				name := fmt.Sprint("a", i)
				c.Create(name, wanted(10))
				c.Pass(pass)
				c.held(name)
				c.Delete(name)
				c.Pass(3 * time.Second)
				if c.Exists(name) {
					c.Errorf("3 s after its deletion, %s after its creation, it is there; calls: %q", pass, l.all())
				}
			}
			if n := l.count("create 10"); n != 3 {
				c.Errorf("the handler of the creations was called %d times", n)
			}
			for _, line := range op.Logs.Find("credentials") {
				c.Errorf("got the line %v", line)
			}
		})
		c.Run(t, fmt.Sprintf("DF-9 a new state of an object whose patch is denied with %d is handled", code), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			var l calls
			op := c.Operator(hundred(&l))
			op.denyPatches(setsHundred, reply)
			c.Create("a", wanted(10))
			c.Pass(time.Minute)
			c.Patch("a", wanted(2))
			c.Pass(5 * time.Minute)
			c.expect(&l, "create 10", "update 2")
			if x := c.Get("a").Spec().Int("x"); x != 20 {
				c.Errorf("the field is %d", x)
			}
			if lines := op.Logs.Find("its patch was refused"); len(lines) != 1 {
				c.Errorf("got the lines %v", lines)
			}
		})
	}
}

func missingRights(t *testing.T, c *C) {
	var granted atomic.Bool
	forbidden := func(r *Request) bool { return strings.HasSuffix(r.Path, "/status") && !granted.Load() }
	reply := func() *http.Response { return Answer(403, "Forbidden", `User "me" cannot patch resource`) }
	c.Run(t, "DF-9 an object is deleted though what its handlers leave may not be stored", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		var l calls
		r := &kopf.Registry{}
		set := func(_ context.Context, ch *kopf.Change) error {
			l.add("%s", ch.Reason)
			ch.Patch.Set("status.x", 1)
			return nil
		}
		r.OnCreate(statusExamples, set, named("create"))
		r.OnDelete(statusExamples, set, named("delete"))
		op := c.Operator(r)
		op.denyPatches(forbidden, reply)
		objects := c.Of("kopf.dev/v1", "KopfStatusExample")
		for _, name := range []string{"a", "b"} {
			objects.Create(name, nil)
		}
		c.Pass(time.Hour)
		objects.Delete("a")
		c.Pass(3 * time.Second)
		if objects.Exists("a") {
			c.Errorf("3 s after its deletion, it is there; calls: %q", l.all())
		}
		if lines := op.Logs.Find("Dropped the patch of a handler, because it could not be stored before the end of the object"); len(lines) != 2 {
			c.Errorf("got the lines %v", lines)
		}
		granted.Store(true)
		c.Pass(15 * time.Minute)
		if objects.Get("b").Status().Int("x") != 1 {
			c.Error("with the right, what the handler has set is not stored")
		}
		if got, want := l.all(), []string{"create", "create", "delete"}; !slices.Equal(got, want) {
			c.Errorf("got the calls %q, want %q", got, want)
		}
	})
	for _, code := range []int{403, 500} {
		granted.Store(false)
		c.Run(t, fmt.Sprintf("DF-9 no handler waits for what one of raw events may not store: %d", code), func(c *C) {
			c.OnlyInBubble("it takes an hour")
			var l calls
			r := &kopf.Registry{}
			r.OnEvent(statusExamples, func(_ context.Context, e *kopf.WatchEvent) error {
				if e.Type != kopf.Deleted {
					e.Patch.Set("status.x", 1)
				}
				return nil
			}, watchedAs("event"))
			r.OnCreate(statusExamples, l.handler("create"), named("create"))
			r.OnDelete(statusExamples, l.handler("delete"), named("delete"))
			op := c.Operator(r)
			op.denyPatches(forbidden, func() *http.Response { return Answer(code, http.StatusText(code), "no") })
			objects := c.Of("kopf.dev/v1", "KopfStatusExample")
			objects.Create("a", nil)
			c.Pass(time.Hour)
			if l.count("create") != 1 {
				c.Errorf("an hour later, the calls are %q", l.all())
			}
			objects.Delete("a")
			c.Pass(time.Hour)
			if objects.Exists("a") || l.count("delete") != 1 {
				c.Errorf("an hour after its deletion, it is there: %t; calls: %q", objects.Exists("a"), l.all())
			}
		})
	}
}

// deniedRequests makes requests with the client of a handler.
func deniedRequests(t *testing.T, c *C) {
	for _, code := range []int{429, 500, 503} {
		c.Run(t, fmt.Sprintf("DF-9 a denial with %d is not repeated by the client, and no other request waits for it", code), func(c *C) {
			c.OnlyInBubble("it measures the time")
			c.Create("a", nil)
			var took time.Duration
			var requests atomic.Int64
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				began := time.Now()
				_, err := ch.Client.Patch(ctx, ch.Body.Reference(), sized(100), nil)
				if kopf.StatusCode(err) != code {
					c.Errorf("the patch: %v", err)
				}
				if err := ch.Client.Get(ctx, ch.Body.Reference(), &kopf.Body{}, nil); err != nil {
					c.Error(err)
				}
				took = time.Since(began)
				return nil
			}, named("create"))
			op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
				if req.Method != http.MethodPatch || !setsHundred(req) {
					return nil, nil
				}
				requests.Add(1)
				resp := denied(code, http.StatusText(code), "not now")
				resp.Header.Set("Retry-After", "30")
				return resp, nil
			}))
			c.handled("a")
			if n := requests.Load(); n != 1 || took > time.Second {
				c.Errorf("%d requests in %s", n, took)
			}
			op.Stop()
		})
	}
}
