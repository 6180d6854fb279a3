package contract

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves how handlers see an object, and how they change it, in 4-operator-and-kits.md.

var _ = Suite("handler_view", func(t *testing.T, c *C) {
	views(t, c)
	edits(t, c)
	printedObjects(t, c)
})

// seen runs a handler on the creation of an object, and returns when it has ended.
func (c *C) seen(object map[string]any, look func(ch *kopf.Change)) *Running {
	c.Helper()
	done := make(chan struct{})
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
		defer close(done)
		look(ch)
		return nil
	}, named("create"))
	op := c.Operator(r)
	c.Create("a", object)
	<-done
	return op
}

func views(t *testing.T, c *C) {
	c.Run(t, "OP-134 the stanzas of a body are views, empty if they are absent", func(c *C) {
		c.seen(map[string]any{"spec": map[string]any{"x": 1, "list": []any{"a"}, "deep": map[string]any{"er": true}}}, func(ch *kopf.Change) {
			before := ch.Body.Map()
			if ch.Spec().Int("x") != 1 || !ch.Spec().Bool("deep.er") || !slices.Equal(ch.Spec().Strings("list"), []string{"a"}) || ch.Meta().String("name") != "a" {
				c.Errorf("got the spec %v and the name %q", ch.Spec().Map(), ch.Meta().String("name"))
			}
			if ch.Body.Has("status") || ch.Status().Len() != 0 || ch.Status().String("any.thing") != "" || ch.Status().Get("x") != nil {
				c.Errorf("got the status %v of an object without one", ch.Status().Map())
			}
			if diff := cmp.Diff(before, ch.Body.Map()); diff != "" {
				c.Errorf("looking has changed the object:\n%s", diff)
			}
			ch.Spec().Map()["x"] = 2 // a copy
			if ch.Spec().Int("x") != 1 {
				c.Error("what is read can be written")
			}
		})
	})
	c.Run(t, "OP-135 what all objects have is at hand, and empty if it is absent", func(c *C) {
		c.seen(map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": "1"}, "annotations": map[string]any{"n": "2"}}}, func(ch *kopf.Change) {
			if ch.Name() != "a" || ch.Namespace() != c.Namespace || ch.UID() == "" || ch.Labels()["l"] != "1" || ch.Annotations()["n"] != "2" || ch.Body.CreationTimestamp().IsZero() {
				c.Errorf("got %s/%s %s %v %v %s", ch.Namespace(), ch.Name(), ch.UID(), ch.Labels(), ch.Annotations(), ch.Body.CreationTimestamp())
			}
			if !ch.Body.DeletionTimestamp().IsZero() || ch.Body.Deleting() {
				c.Error("the object is not being deleted")
			}
		})
		bare, err := kopf.NewBody(map[string]any{"kind": "X"})
		if err != nil {
			c.Fatal(err)
		}
		if bare.Name()+bare.Namespace()+bare.UID()+bare.ResourceVersion() != "" || len(bare.Labels())+len(bare.Annotations())+len(bare.Finalizers()) > 0 || !bare.CreationTimestamp().IsZero() {
			c.Errorf("got something of an object without metadata: %v", bare.Map())
		}
		if _, there := bare.Label("l"); there {
			c.Error("a label is there")
		}
	})
	c.Run(t, "OP-136 daemons and timers see the newest state, and other handlers the one that they are called for", func(c *C) {
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("daemon %s %d", d.Name(), d.Spec().Int("x"))
			door.pass(ctx)
			l.add("daemon %s %d, begun with %d", d.Name(), d.Spec().Int("x"), d.Body.Spec().Int("x"))
			return nil
		}, daemonID("daemon"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("create %d", ch.Spec().Int("x"))
			door.pass(ctx)
			l.add("create still %d", ch.Spec().Int("x"))
			return nil
		}, named("create"))
		op := c.Operator(r)
		c.Create("a", sized(1))
		c.WaitFor("both handlers", func() bool { return len(l.all()) == 2 })
		c.Patch("a", sized(2))
		c.WaitFor("the event", func() bool { return len(op.Wire.Requests()) > 0 && l.count("") == 2 })
		c.Pass(time.Second)
		door.let()
		c.WaitFor("both ends", func() bool { return len(l.all()) == 4 })
		if l.count("daemon a 2, begun with 1") != 1 || l.count("create still 1") != 1 {
			c.Errorf("got the calls %q", l.all())
		}
	})
	c.Run(t, "OP-137 a stanza that is null or no mapping has nothing in it", func(c *C) {
		for _, spec := range []any{nil, "text", 5, []any{"a"}} {
			body, err := kopf.NewBody(map[string]any{"kind": "X", "spec": spec})
			if err != nil {
				c.Fatal(err)
			}
			if !body.Has("spec") || body.Spec().Len() != 0 || body.Spec().Has("x") || body.Spec().Get("x") != nil || body.Spec().String("x") != "" {
				c.Errorf("%v: got %v", spec, body.Spec().Map())
			}
			if got := body.Get("spec"); fmt.Sprint(got) != fmt.Sprint(spec) {
				c.Errorf("got %v, want %v", got, spec)
			}
		}
	})
}

func edits(t *testing.T, c *C) {
	c.Run(t, "OP-138 a patch begins empty, and what is set makes its parents", func(c *C) {
		c.seen(sized(1), func(ch *kopf.Change) {
			if !ch.Patch.Empty() || len(ch.Patch.Map()) > 0 {
				c.Errorf("it begins with %v", ch.Patch.Map())
			}
			if _, there := ch.Patch.Get("spec.x"); there {
				c.Error("the state of the object is in it")
			}
			ch.Patch.Set("status.a.b", 1)
			ch.Patch.SetPath("v", "metadata", "annotations", "example.com/dotted")
			ch.Patch.Remove("spec.gone")
			want := map[string]any{
				"status": map[string]any{"a": map[string]any{"b": 1}}, "metadata": map[string]any{"annotations": map[string]any{"example.com/dotted": "v"}},
				"spec": map[string]any{"gone": nil},
			}
			if got := ch.Patch.Map(); fmt.Sprint(got) != fmt.Sprint(want) {
				c.Errorf("got %v, want %v", got, want)
			}
			if v, there := ch.Patch.Get("status.a.b"); !there || fmt.Sprint(v) != "1" {
				c.Errorf("got %v, %t", v, there)
			}
			if _, there := ch.Patch.Get("status.x"); there {
				c.Error("what was not written is there")
			}
		})
		c.WaitFor("the patch", func() bool {
			value, _ := c.Get("a").Annotation("example.com/dotted")
			return c.Get("a").Status().Int("a.b") == 1 && value == "v"
		})
	})
	c.Run(t, "OP-139 transformations get a copy of the object, and are part of the patch", func(c *C) {
		c.seen(sized(1), func(ch *kopf.Change) {
			ch.Patch.Transform(func(object map[string]any) error { object["spec"].(map[string]any)["y"] = 2; return nil })
			if ch.Patch.Empty() {
				c.Error("a patch with a transformation is empty")
			}
			if ch.Spec().Has("y") {
				c.Error("the object itself was changed")
			}
			other := &kopf.Patch{}
			other.Set("x", 1)
			other.Transform(func(map[string]any) error { return nil })
			if other.Clear(); !other.Empty() {
				c.Error("something is left of a patch that was cleared")
			}
		})
		c.WaitFor("the patch", func() bool { return c.Get("a").Spec().Int("y") == 2 })
	})
	c.Run(t, "OP-140 the status is patched first, then the object", func(c *C) {
		r := &kopf.Registry{}
		r.OnUpdate("kopfstatusexamples.v1.kopf.dev", func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("spec.merged", true)
			ch.Patch.Set("status.merged", true)
			ch.Patch.Transform(func(object map[string]any) error {
				object["spec"].(map[string]any)["transformed"] = true
				status, _ := object["status"].(map[string]any)
				if status == nil {
					status = map[string]any{}
					object["status"] = status
				}
				status["transformed"] = true
				return nil
			})
			return nil
		}, &kopf.ChangeOptions{ID: "update", Field: "spec.x"})
		r.OnCreate("kopfstatusexamples.v1.kopf.dev", func(context.Context, *kopf.Change) error { return nil }, named("create"))
		op := c.Operator(r)
		kind := c.Of("kopf.dev/v1", "KopfStatusExample")
		kind.Create("a", sized(1))
		c.WaitFor("the creation", func() bool { _, ok := kind.Get("a").Annotation(diffBase); return ok })
		before := len(op.Wire.Writes())
		kind.Patch("a", sized(2))
		c.WaitFor("all of it", func() bool {
			b := kind.Get("a")
			return b.Spec().Bool("merged") && b.Status().Bool("merged") && b.Spec().Bool("transformed") && b.Status().Bool("transformed")
		})
		var got []string
		for _, req := range op.Wire.Writes()[before:] {
			got = append(got, req.ContentType+" "+req.Path[strings.LastIndexByte(req.Path, '/')+1:])
			if strings.Contains(req.ContentType, "json-patch") && !strings.HasPrefix(req.Body, `[{"op":"test","path":"/metadata/`) {
				c.Errorf("the patch begins with %.80s", req.Body)
			}
		}
		want := []string{"application/json-patch+json status", "application/json-patch+json a"}
		if len(got) < 2 || !slices.Equal(got[:2], want) {
			c.Errorf("got the requests %q, want %q at first", got, want)
		}
	})
	c.Run(t, "OP-141 transformations that meet another change are repeated, and an object that is gone is no error", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.merged", ch.Retry)
			ch.Patch.Transform(func(object map[string]any) error {
				l.add("transformation")
				object["spec"].(map[string]any)["y"] = 2
				return nil
			})
			return nil
		}, named("create"))
		refused := make(chan struct{}, 1)
		refused <- struct{}{}
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.ContentType, "json-patch") {
				select {
				case <-refused:
					return Answer(422, "Invalid", "the server rejected our request"), nil
				default:
				}
			}
			return nil, nil
		}))
		c.Create("a", sized(1))
		c.WaitFor("the transformation", func() bool { return c.Get("a").Spec().Int("y") == 2 })
		if n := len(op.Logs.Find("Handler 'create' is invoked.")); n != 1 || l.count("transformation") < 2 {
			c.Errorf("the handler was called %d times, and the transformation %d times", n, l.count("transformation"))
		}
	})
	c.Run(t, "OP-142 a cycle has one patch, and that of an index is dropped", func(c *C) {
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]bool, error) {
			i.Patch.Set("status.index", true)
			return nil, nil
		}, &kopf.IndexOptions{ID: "index"})
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Added {
				e.Patch.Set("status.event", true)
			}
			return nil
		}, watchedAs("event"))
		for _, name := range []kopf.HandlerID{"one", "two"} {
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				ch.Patch.Set(kopf.FieldPath("status."+string(name)), true)
				return nil
			}, named(name))
		}
		op := c.Operator(r)
		c.Pass(time.Second)
		c.Create("a", nil)
		c.handled("a")
		if writes := op.Wire.Writes(); len(writes) != 1 || !strings.Contains(writes[0].Body, `"status":{"event":true,"one":true,"two":true}`) {
			c.Errorf("got the patches %+v", writes)
		}
	})
}

func printedObjects(t *testing.T, c *C) {
	verbs := []string{"%v", "%s", "%+v", "%#v", "%q", "%x", "%d"}
	c.Run(t, "DF-92 objects, their parts and patches are printed as JSON", func(c *C) {
		c.seen(map[string]any{"spec": map[string]any{"x": 1}}, func(ch *kopf.Change) {
			ch.Patch.Set("status.y", "text")
			ch.Patch.SetCondition(kopf.Condition{Type: "A", Status: kopf.ConditionTrue, Reason: "B"})
			patch := `{"status":{"y":"text"}} and 1 further change`
			for _, verb := range verbs[:3] {
				for _, tt := range []struct {
					value any
					want  string
				}{
					{ch.Spec(), `{"x":1}`},
					{ch.New.View("spec"), `{"x":1}`},
					{ch.Spec().View("missing"), "null"},
					{[]kopf.View{ch.Spec(), {}}, `[{"x":1} null]`},
					{ch.Patch, patch},
					{*ch.Patch, patch},
					{ch.Body, ch.Body.LogValue().String()},
					{*ch.Body, ch.Body.LogValue().String()},
				} {
					if got := fmt.Sprintf(verb, tt.value); got != tt.want {
						c.Errorf("%s of %T is %s, want %s", verb, tt.value, got, tt.want)
					}
				}
			}
		})
	})
	c.Run(t, "DF-92 nothing that is printed has the contents of a Secret", func(c *C) {
		const secret = "aHVudGVyMmh1bnRlcjI="
		forms := []string{secret, "hunter2", fmt.Sprint([]byte(secret)), fmt.Sprintf("%x", secret)}
		done := make(chan struct{})
		r := &kopf.Registry{}
		r.OnCreate("v1/secrets", func(ctx context.Context, ch *kopf.Change) error {
			defer close(done)
			ch.Patch.Set("data.other", secret)
			data := ch.Body.View("data")
			for _, value := range []any{
				ch, *ch, ch.Object, ch.Body, *ch.Body, ch.Patch, *ch.Patch, data, data.View("password"), ch.New,
				ch.New.View("data"), ch.Body.View("").View("data"), ch.Meta().View("annotations"),
				ch.Body.LogValue(), data.LogValue(), ch.Patch.LogValue(),
			} {
				for _, verb := range verbs {
					got := fmt.Sprintf(verb, value)
					if slices.ContainsFunc(forms, func(form string) bool {
						return strings.Contains(got, strings.Trim(form, "[]"))
					}) {
						c.Errorf("%s of %T is %s", verb, value, got)
					}
				}
			}
			return nil
		}, &kopf.ChangeOptions{ID: "create", Annotations: kopf.Match{"copy": secret}})
		c.Operator(r)
		c.Of("v1", "Secret").Create("a", map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"copy": secret}},
			"data":     map[string]any{"password": secret},
		})
		<-done
	})
}
