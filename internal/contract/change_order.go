package contract

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves the order in which kopf processes an event, and the steps that it omits for deleted objects, in 1-change-handling.md.

var _ = ClusterSuite("change_order", func(t *testing.T, c *C) {
	watching(t, c)
	ordering(t, c)
	gating(t, c)
	vanishing(t, c)
})

func watching(t *testing.T, c *C) {
	c.Run(t, "CH-4 handlers of events have filters and no limits, and are tried once", func(c *C) {
		var options []string
		for _, field := range reflect.VisibleFields(reflect.TypeFor[kopf.EventOptions]()) {
			options = append(options, field.Name)
		}
		if want := []string{"ID", "Where", "Labels", "Annotations", "When", "Field", "Value", "Param"}; !slices.Equal(options, want) {
			c.Errorf("got the options %q, want %q", options, want)
		}
		var l calls
		r := &kopf.Registry{}
		r.OnEvent("", func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("%s %s %v", e.Resource.Plural, e.Name(), e.Param)
			return kopf.Temporary(errOops, 10*time.Millisecond)
		}, &kopf.EventOptions{
			ID: "event", Param: "param", Field: "spec.x", Value: 1,
			Where:       func(r kopf.Resource) bool { return r.Group == "kopf.dev" && r.Plural != "kopfclusterexamples" },
			Labels:      kopf.Match{"on": kopf.Present},
			Annotations: kopf.Match{"off": kopf.Absent},
			When:        func(e *kopf.WatchEvent) bool { return e.Name() != "unwanted" },
		})
		c.Operator(r)
		marked := func(x int, annotations map[string]any) map[string]any {
			object := sized(x)
			object["metadata"] = map[string]any{"labels": map[string]any{"on": ""}, "annotations": annotations}
			return object
		}
		c.Create("unlabelled", sized(1))
		c.Create("annotated", marked(1, map[string]any{"off": ""}))
		c.Create("other", marked(2, nil))
		c.Create("unwanted", marked(1, nil))
		c.Create("wanted", marked(1, nil))
		c.Of("kopf.dev/v1", "KopfStatusExample").Create("status", marked(1, nil))
		elsewhere := c.Of("kopf.dev/v1", "KopfClusterExample")
		elsewhere.Create(c.Unique("cluster"), marked(1, nil))
		defer elsewhere.Delete(c.Unique("cluster"))
		c.WaitFor("both calls", func() bool { return len(l.all()) >= 2 })
		c.Pass(time.Second)
		got := l.all()
		slices.Sort(got)
		if want := []string{"kopfexamples wanted param", "kopfstatusexamples status param"}; !slices.Equal(got, want) {
			c.Errorf("got the calls %q, want %q", got, want)
		}
	})
}

// journey returns a registry with a handler of each kind. They record their calls. Each takes a moment, so that the order is visible.
func journey(l *calls) *kopf.Registry {
	note := func(what string, o *kopf.Object) error {
		time.Sleep(20 * time.Millisecond) // the duration of the handler
		l.add("%s %d", what, o.Spec().Int("x"))
		return nil
	}
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return note("create", &ch.Object) }, named("create"))
	r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error { return note("update", &ch.Object) }, named("update"))
	r.OnDelete(Examples, func(ctx context.Context, ch *kopf.Change) error { return note("delete", &ch.Object) }, named("delete"))
	r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
		l.add("daemon begins")
		<-ctx.Done()
		l.add("daemon ends")
		return nil
	}, daemonID("daemon"))
	r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
		return note("event "+string(e.Type), &e.Object)
	}, &kopf.EventOptions{ID: "event"})
	kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]int, error) {
		return map[string]int{"all": 1}, note("index", &i.Object)
	}, &kopf.IndexOptions{ID: "index"})
	return r
}

// posted records the patches of an operator among the calls of its handlers.
func posted(l *calls) func(*Request) (*http.Response, error) {
	return func(req *Request) (*http.Response, error) {
		if req.Method == http.MethodPatch {
			what := "records"
			if strings.Contains(req.Body, `"op":"remove","path":"/metadata/finalizers`) {
				what = "release"
			} else if strings.Contains(req.Body, finalizer) {
				what = "finalizer"
			}
			time.Sleep(20 * time.Millisecond) // for the work that began earlier
			l.add("patch of %s", what)
		}
		return nil, nil
	}
}

func ordering(t *testing.T, c *C) {
	c.Run(t, "CH-68 indices, handlers of events, daemons, the finalizer, handlers of changes, one patch", func(c *C) {
		var l calls
		c.Operator(journey(&l), wired(posted(&l)))
		c.Pass(time.Second) // after the initial list
		c.Create("a", sized(1))
		c.handled("a")
		c.Pass(time.Second)
		c.expect(&l,
			"index 1", "event ADDED 1", "daemon begins", "patch of finalizer",
			"index 1", "event MODIFIED 1", "create 1", "patch of records",
			"index 1", "event MODIFIED 1")
		l.forget()
		c.Delete("a")
		c.gone("a")
		c.WaitFor("the last event", func() bool { return l.count("event DELETED") == 1 })
		c.Pass(time.Second)
		got := l.all()
		// The daemon ends on its own goroutine, some time after it was stopped.
		end := slices.Index(got, "daemon ends")
		if want := []string{"index 1", "event MODIFIED 1", "delete 1", "patch of release"}; end < 2 || end > 3 || !slices.Equal(slices.Delete(got, end, end+1)[:4], want) {
			c.Errorf("got %q, want %q and the end of the daemon after the event", l.all(), want)
		}
	})
	c.Run(t, "CH-69 indices, handlers of events and daemons do not wait for an own patch to come back", func(c *C) {
		c.OnlyInBubble("versions are made up")
		began := time.Now()
		var l calls
		after := func() time.Duration { return time.Since(began).Round(time.Second) }
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("create %d after %s", ch.Spec().Int("x"), after())
			return nil
		}, named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("update %d after %s", ch.Spec().Int("x"), after())
			return nil
		}, named("update"))
		kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]int, error) {
			if i.Spec().Int("x") == 2 {
				l.add("index 2 after %s", after())
			}
			return map[string]int{"all": 1}, nil
		}, &kopf.IndexOptions{ID: "index"})
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("event after %s", after())
			return nil
		}, &kopf.EventOptions{ID: "event", Field: "spec.x", Value: 2})
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("daemon after %s", after())
			<-ctx.Done()
			return nil
		}, &kopf.DaemonOptions{ID: "daemon", WithoutFinalizer: true, Field: "spec.x", Value: 2})
		c.Operator(r, wired(c.futureVersion()))
		c.Create("a", sized(1))
		c.handled("a")
		c.Pass(2 * time.Second)
		c.Patch("a", sized(2))
		c.Pass(2 * time.Second)
		early := l.all()
		slices.Sort(early)
		if want := []string{"create 1 after 0s", "daemon after 2s", "event after 2s", "index 2 after 2s"}; !slices.Equal(early, want) {
			c.Errorf("got %q, want %q", early, want)
		}
		c.Pass(time.Minute)
		if got := l.count("update 2 after 7s"); got != 1 || l.count("update") != 1 { // the stream delivered events until 2 s
			c.Errorf("got %q, want an update after 7s", l.all())
		}
	})
}

func gating(t *testing.T, c *C) {
	c.Run(t, "CH-69 no handler is called until the indices are full, but afterwards they wait for none", func(c *C) {
		const others kopf.Selector = "kopfstatusexamples.v1.kopf.dev"
		c.Create("a", sized(1))
		statusExamples := c.Of("kopf.dev/v1", "KopfStatusExample")
		statusExamples.Create("b", sized(1))
		var l calls
		first, later := newDoorway(), newDoorway()
		defer first.let()
		defer later.let()
		var full atomic.Bool
		r := &kopf.Registry{}
		index := kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]int, error) {
			if full.Load() {
				later.pass(ctx)
			} else {
				first.pass(ctx)
			}
			return map[string]int{i.Name(): 1}, nil
		}, &kopf.IndexOptions{ID: "index"})
		r.OnEvent(others, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("event %s, index of %d", e.Name(), index.Len(e))
			return nil
		}, &kopf.EventOptions{ID: "event", Field: "spec.x", Value: 1, Annotations: kopf.Match{diffBase: kopf.Absent}})
		r.OnCreate(others, func(ctx context.Context, ch *kopf.Change) error {
			l.add("create %s", ch.Name())
			return nil
		}, named("create"))
		r.OnDaemon(others, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("daemon %s", d.Name())
			<-ctx.Done()
			return nil
		}, &kopf.DaemonOptions{ID: "daemon", WithoutFinalizer: true})
		c.Operator(r)
		c.Pass(time.Second)
		c.expect(&l)
		full.Store(true)
		first.let()
		c.WaitFor("all handlers", func() bool { return len(l.all()) == 3 })
		got := l.all()
		slices.Sort(got)
		if want := []string{"create b", "daemon b", "event b, index of 1"}; !slices.Equal(got, want) {
			c.Errorf("got %q, want %q", got, want)
		}
		c.Create("slow", sized(1)) // from now on, indexing takes long
		statusExamples.Create("quick", sized(1))
		c.WaitFor("all handlers of the new object", func() bool { return l.count("create quick") == 1 && l.count("daemon quick") == 1 })
	})
}

func vanishing(t *testing.T, c *C) {
	c.Run(t, "CH-71 of a deleted object, indices, handlers of events and daemons are told, and nothing is sent", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		index := kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			return map[string]string{"all": i.Name()}, nil
		}, &kopf.IndexOptions{ID: "index"})
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type != kopf.Deleted {
				return nil
			}
			_, known := e.Memo().Load("known")
			l.add("%s known=%t index=%q", e.Type, known, index.Get(e, "all"))
			e.Patch.Set("status.phase", "Gone")
			e.Patch.Transform(func(object map[string]any) error { object["spec"] = map[string]any{"x": 9}; return nil })
			return nil
		}, &kopf.EventOptions{ID: "event"})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Memo().Store("known", true)
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, time.Second)
			}
			l.add("retried")
			return nil
		}, named("create"))
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			<-ctx.Done()
			l.add("daemon %s", d.StopReason())
			return nil
		}, &kopf.DaemonOptions{ID: "daemon", WithoutFinalizer: true})
		r.OnField(Examples, "spec", l.handler("field"), &kopf.ChangeOptions{ID: "field", When: func(ch *kopf.Change) bool { return ch.Reason == "gone" }})
		op := c.Operator(r)
		c.Pass(time.Second) // after the initial list
		c.Create("a", sized(1))
		c.WaitFor("the record", func() bool { return slices.Contains(records(c.Get("a")), "create") })
		writes := len(op.Wire.Writes())
		c.Delete("a")
		c.WaitFor("both calls", func() bool { return len(l.all()) >= 2 })
		c.Pass(2 * time.Second) // the retry has no object anymore
		got := l.all()
		slices.Sort(got)
		if want := []string{`DELETED known=true index=[]`, "daemon ResourceDeleted"}; !slices.Equal(got, want) {
			c.Errorf("got %q, want %q", got, want)
		}
		if all := patches(op); len(all) != writes {
			c.Errorf("got the writes %q after the deletion", all[writes:])
		}
		c.Create("a", sized(1))
		c.WaitFor("the new namesake", func() bool { return l.count("retried") == 1 })
	})
}
