package contract

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that a desired child is made again whatever hides its deletion.

// whileApplying calls functions once while the operator applies a config map: before the request, and
// after the response of the server, which the operator has not seen yet.
func whileApplying(name string, before, after func()) func(*kopf.Operator) {
	var once atomic.Bool
	return through(func(q *http.Request, base http.RoundTripper) (*http.Response, error) {
		if q.Method != http.MethodPatch || !strings.HasSuffix(q.URL.Path, "/configmaps/"+name) || once.Swap(true) {
			return base.RoundTrip(q)
		}
		if before != nil {
			before()
		}
		resp, err := base.RoundTrip(q)
		if after != nil {
			after()
		}
		return resp, err
	})
}

// controllerNamed is a reference to a controller of another kind.
func controllerNamed(name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "name": name, "uid": name, "controller": true}
}

// slowList delays the answers to the lists of a plural after a moment.
func slowList(plural string, after <-chan struct{}, delay time.Duration) func(*kopf.Operator) {
	return through(func(q *http.Request, base http.RoundTripper) (*http.Response, error) {
		resp, err := base.RoundTrip(q)
		query := q.URL.Query()
		list := q.Method == http.MethodGet && query.Get("watch") == "" && query.Get("limit") != "1"
		if list && strings.HasSuffix(q.URL.Path, "/"+plural) {
			select {
			case <-after:
				time.Sleep(delay) // the slow answer
			default:
			}
		}
		return resp, err
	})
}

// onlyOnce wants a config map that is never changed.
func onlyOnce(r *kopf.Reconcile) error {
	r.Desired(desiredMap("x", nil), &kopf.DesiredOptions{Once: true})
	return nil
}

// endWithout deletes a child, and changes its metadata before it is gone. It fails unless the child is
// made again.
func (c *C) endWithout(k *Kind, name string, metadata map[string]any) {
	c.Helper()
	change := func(metadata map[string]any) {
		k.Patch(name, map[string]any{"metadata": metadata})
		c.Pass(2 * time.Second)
	}
	first := k.Get(name).UID()
	change(map[string]any{"finalizers": []any{"example.com/held"}})
	k.Delete(name)
	c.Pass(2 * time.Second)
	change(metadata)
	change(map[string]any{"finalizers": nil})
	c.WaitFor("the new child", func() bool { return k.Exists(name) && k.Get(name).UID() != first })
}

var _ = Suite("reconcile_missing", func(t *testing.T, c *C) {
	c.Run(t, "RC-10 a child that goes while its watch has expired and others are applied is made again", func(c *C) {
		c.OnlyInBubble("watches are made to expire")
		var op *Running
		op, _ = c.parenting(bySize, nil, whileApplying("a-1", func() {
			time.Sleep(time.Second) // until the stream has shown it
			expired(op, "configmaps", func() { c.configMaps().Delete("a-0") })
			time.Sleep(10 * time.Second) // until the list has shown that
		}, nil))
		c.Create("a", spec(map[string]any{"size": 2}))
		c.Pass(time.Hour)
		if !c.configMaps().Exists("a-0") {
			c.Error("the child is missing")
		}
	})
	for when, slow := range map[string]time.Duration{"before": 0, "after": 20 * time.Second} {
		c.Run(t, "RC-42 a new child is made again that is gone in a list that ends "+when+" its answer", func(c *C) {
			c.OnlyInBubble("watches are made to expire")
			var op *Running
			applied := make(chan struct{})
			op, _ = c.parenting(bySize, nil, slowList("configmaps", applied, slow), whileApplying("a-0", func() {
				expired(op, "configmaps", func() {
					<-applied
					c.configMaps().Delete("a-0")
				})
			}, func() {
				close(applied)
				time.Sleep(10 * time.Second)
			}))
			c.Create("a", spec(map[string]any{"size": 1}))
			c.Pass(time.Hour)
			if !c.configMaps().Exists("a-0") {
				c.Error("the child is missing")
			}
		})
	}
	c.Run(t, "DF-89 a child that is gone in a list before the answer to its creation calls the handler", func(c *C) {
		c.OnlyInBubble("watches are made to expire")
		var op *Running
		var once atomic.Bool
		created := make(chan struct{})
		op, _ = c.parenting(func(r *kopf.Reconcile) error {
			if len(r.Children("configmaps")) > 0 {
				return nil
			}
			return createByClient(c.Context(), r, "x")
		}, nil, through(func(q *http.Request, base http.RoundTripper) (*http.Response, error) {
			if q.Method != http.MethodPost || once.Swap(true) {
				return base.RoundTrip(q)
			}
			expired(op, "configmaps", func() {
				<-created
				c.configMaps().Delete("x")
			})
			resp, err := base.RoundTrip(q)
			close(created)
			time.Sleep(10 * time.Second) // until the list is complete
			return resp, err
		}))
		c.Create("a", nil)
		c.Pass(time.Hour)
		if !c.configMaps().Exists("x") {
			c.Error("the child is missing")
		}
	})
	for what, fields := range map[string]map[string]any{
		"is taken over":                 {"ownerReferences": []any{controllerNamed("b")}},
		"loses its owner and its marks": {"ownerReferences": nil, "annotations": nil, "managedFields": []any{map[string]any{}}},
	} {
		c.Run(t, "RC-40 a new child that "+what+" before the answer to its apply is not the handler's", func(c *C) {
			c.OnlyInBubble("the answer has to be late")
			op, _ := c.parenting(bySize, nil, whileApplying("a-0", nil, func() {
				time.Sleep(time.Second) // until the stream has shown it
				c.configMaps().Patch("a-0", map[string]any{"metadata": fields})
				time.Sleep(time.Second)
			}))
			c.Create("b", spec(map[string]any{"size": 1})) // what its apply teaches holds for the other one
			c.Pass(time.Minute)
			c.Create("a", spec(map[string]any{"size": 1}))
			c.Pass(time.Minute)
			if len(op.Logs.Find("Handler 'reconcile' failed with an exception")) == 0 {
				c.Error("the handler takes it for its child")
			}
			c.configMaps().Delete("a-0")
			c.Pass(time.Hour)
			if !c.configMaps().Exists("a-0") {
				c.Error("the child is missing")
			}
		})
	}
	c.Run(t, "RC-42 a child that loses its owner while it is being deleted is made again", func(c *C) {
		c.parenting(bySize, nil)
		c.Create("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		c.endWithout(c.configMaps(), "a-0", map[string]any{"ownerReferences": nil})
	})
	c.Run(t, "RC-43 a child with Once that has lost its owner is made again when it is gone", func(c *C) {
		c.parenting(onlyOnce, nil)
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		c.Pass(time.Second)
		c.configMaps().Patch("x", map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
		c.Pass(2 * time.Second)
		c.configMaps().Delete("x")
		c.WaitFor("the new child", func() bool { return c.configMaps().Exists("x") })
	})
	c.Run(t, "RC-43 a child with Once that has lost its owner is that of the next owner", func(c *C) {
		op, _ := c.parenting(onlyOnce, nil)
		c.Create("a", nil)
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("x") })
		c.Pass(time.Second)
		c.configMaps().Patch("x", map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
		c.Pass(2 * time.Second)
		c.Delete("a")
		c.WaitFor("the end of the owner", func() bool { return !c.Exists("a") })
		c.Pass(time.Second)
		c.Create("b", nil)
		c.Pass(2 * time.Second)
		if lines := op.Logs.Find("Handler 'reconcile' failed"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
		c.configMaps().Delete("x")
		c.WaitFor("the new child", func() bool { return c.configMaps().Exists("x") })
	})
	c.Run(t, "RC-41 a child is not deleted because the events of a former one of its name are late", func(c *C) {
		c.OnlyInBubble("the stream has to be slow")
		slow := &dripping{plural: "configmaps"}
		op, _ := c.parenting(bySize, nil, slow.of)
		owner := c.Create("a", nil)
		c.Pass(time.Minute)
		slow.pause.Store(int64(5 * time.Second))
		reference := map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "a", "uid": owner.UID(), "controller": true}
		c.configMaps().Create("a-0", map[string]any{"metadata": map[string]any{
			"finalizers": []any{"example.com/held"}, "ownerReferences": []any{reference},
		}})
		c.configMaps().Delete("a-0")
		c.configMaps().Patch("a-0", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		c.Patch("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the child", func() bool { return c.configMaps().Exists("a-0") })
		uid := c.configMaps().Get("a-0").UID()
		c.Pass(time.Minute)
		c.stays(c.configMaps(), "a-0", uid)
		if lines := op.Logs.Find("Deleted a child that is not desired any more"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
	})
})
