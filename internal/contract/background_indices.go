package contract

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what indices contain, and when they are complete, in 2-background.md.

var _ = Suite("background_indices", func(t *testing.T, c *C) {
	indexing(t, c)
	opening(t, c)
	lateIndexing(t, c)
})

// lateIndexing checks the order of states in an index when responses come before events.
func lateIndexing(t *testing.T, c *C) {
	for _, fails := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("DF-95 an index never goes back to an older state of an object, with a failing function %v", fails), func(c *C) {
			c.OnlyInBubble("the stream has to be late")
			var l calls
			r := &kopf.Registry{}
			kopf.OnIndexIn(r, Examples, func(_ context.Context, i *kopf.Indexing) (map[string]int64, error) {
				l.add("%d", i.Spec().Int("x"))
				return map[string]int64{i.Name(): i.Spec().Int("x")}, nil
			}, &kopf.IndexOptions{ID: "sizes"})
			if fails {
				kopf.OnIndexIn(r, Examples, func(context.Context, *kopf.Indexing) (map[string]int64, error) {
					return nil, kopf.Temporary(errors.New("not yet"), 7*time.Second)
				}, &kopf.IndexOptions{ID: "failing", Errors: kopf.ErrorsTemporary})
			}
			r.OnUpdate(Examples, func(_ context.Context, x *kopf.Change) error {
				if x.Retry == 0 {
					return kopf.Temporary(errors.New("not yet"), time.Second)
				}
				return nil
			}, &kopf.ChangeOptions{ID: "update", Field: "spec"})
			c.Create("a", sized(1))
			c.Operator(r, slowly(30*time.Second, nil))
			c.Pass(5 * time.Minute)
			c.Patch("a", sized(2))
			c.Pass(3 * time.Second)
			c.Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"y": "z"}}})
			c.Pass(3 * time.Second)
			c.Patch("a", sized(3))
			c.Pass(10 * time.Minute)
			all := l.all()
			if !slices.IsSorted(all) || all[len(all)-1] != "3" {
				c.Errorf("the function was called with %q, want rising sizes up to 3", all)
			}
			n := len(all)
			c.Patch("a", sized(4))
			c.Pass(10 * time.Minute)
			if all = l.all()[n:]; len(all) == 0 || slices.ContainsFunc(all, func(x string) bool { return x != "4" && x != "3" }) || all[len(all)-1] != "4" {
				c.Errorf("after another change, the function was called with %q, want 4 at last", all)
			}
		})
	}
}

// byColor indexes the objects' names by their color.
func byColor(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
	if !i.Spec().Has("color") {
		return nil, nil
	}
	return map[string]string{i.Spec().String("color"): i.Name()}, nil
}

// reader registers a handler that records the content of an index, for objects that request it.
func reader[K comparable, V any](r *kopf.Registry, x *kopf.Index[K, V], l *calls) {
	r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
		if e.Type != kopf.Deleted && e.Spec().Has("ask") {
			l.add("%s", contents(x, e))
		}
		return nil
	}, &kopf.EventOptions{ID: "reader"})
}

// contents formats the content of an index, sorted.
func contents[K comparable, V any](x *kopf.Index[K, V], h kopf.HandlerArgument) string {
	var all []string
	for key, values := range x.All(h) {
		var texts []string
		for _, v := range values {
			texts = append(texts, fmt.Sprint(v))
		}
		slices.Sort(texts)
		all = append(all, fmt.Sprintf("%v=%s", key, strings.Join(texts, "+")))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// ask has the reader read the index, and checks the result.
func (c *C) ask(l *calls, want string) {
	c.Helper()
	before := len(l.all())
	c.Apply("reader", spec(map[string]any{"ask": fmt.Sprint(before)}))
	c.WaitFor("an answer", func() bool { return len(l.all()) > before })
	if got := l.all()[before]; got != want {
		c.Errorf("the index holds %q, want %q", got, want)
	}
}

func colored(color string) map[string]any { return spec(map[string]any{"color": color}) }

func indexing(t *testing.T, c *C) {
	c.Run(t, "BG-73 an index maps keys to the values of all objects", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, byColor, nil)
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Deleted || !e.Spec().Has("ask") {
				return nil
			}
			red := slices.Clone(x.Get(e, "red"))
			slices.Sort(red)
			l.add("%v %t %t %d %v", red, x.Has(e, "red"), x.Has(e, "none"), x.Len(e), x.Get(e, "none") == nil)
			untyped := e.Indices.Get("byColor", "blue")
			l.add("%v %v %v %v", e.Indices.IDs(), untyped, e.Indices.Get("byColor", 7), e.Indices.Get("no such", "x"))
			return nil
		}, &kopf.EventOptions{ID: "reader"})
		c.Create("a", colored("red"))
		c.Create("b", colored("red"))
		c.Create("c", colored("blue"))
		c.Operator(r)
		c.Create("reader", spec(map[string]any{"ask": 1}))
		c.expect(&l, "[a b] true false 2 true", "[byColor] [c] [] []")
	})
	c.Run(t, "BG-77 no result leaves what was there, and an empty one takes it back", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, func(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
			switch color := i.Spec().String("color"); color {
			case "":
				return nil, nil
			case "none":
				return map[string]string{}, nil
			default:
				return map[string]string{color: i.Name()}, nil
			}
		}, &kopf.IndexOptions{ID: "x"})
		reader(r, x, &l)
		c.Operator(r)
		c.Create("a", colored("red"))
		c.Pass(100 * time.Millisecond)
		c.ask(&l, "red=a")
		c.Patch("a", spec(map[string]any{"color": nil}))
		c.Pass(100 * time.Millisecond)
		c.ask(&l, "red=a")
		c.Patch("a", colored("none"))
		c.Pass(100 * time.Millisecond)
		c.ask(&l, "")
	})
	c.Run(t, "BG-78 a new result takes the place of the object's former ones", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, func(_ context.Context, i *kopf.Indexing) (map[string]int64, error) {
			all := map[string]int64{}
			for _, key := range i.Spec().Strings("keys") {
				all[key] = i.Spec().Int("value")
			}
			return all, nil
		}, &kopf.IndexOptions{ID: "x"})
		reader(r, x, &l)
		c.Operator(r)
		c.Create("a", spec(map[string]any{"keys": []any{"k", "l"}, "value": 1}))
		c.Create("b", spec(map[string]any{"keys": []any{"l", "m"}, "value": 2}))
		c.Pass(100 * time.Millisecond)
		c.ask(&l, "k=1 l=1+2 m=2")
		c.Patch("a", spec(map[string]any{"keys": []any{"l", "n"}, "value": 3}))
		c.Pass(100 * time.Millisecond)
		c.ask(&l, "l=2+3 m=2 n=3")
	})
	c.Run(t, "BG-79 one index can be filled by several kinds", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		kind := func(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
			if i.Spec().Has("ask") {
				return nil, nil
			}
			return map[string]string{i.Name(): i.Resource.Kind}, nil
		}
		x := kopf.OnIndexIn(r, Examples, kind, &kopf.IndexOptions{ID: "x"})
		kopf.OnIndexIn(r, "kopfstatusexamples.v1.kopf.dev", kind, &kopf.IndexOptions{ID: "x"})
		reader(r, x, &l)
		c.Operator(r)
		c.Create("a", nil)
		c.Of("kopf.dev/v1", "KopfStatusExample").Create("a", nil)
		c.Pass(200 * time.Millisecond)
		c.ask(&l, "a=KopfExample+KopfStatusExample")
	})
	c.Run(t, "BG-80 what does not match or is gone has no values", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, byColor, &kopf.IndexOptions{Labels: kopf.Match{"off": kopf.Absent}})
		reader(r, x, &l)
		c.Operator(r)
		c.Create("a", colored("red"))
		c.Create("b", colored("red"))
		c.Create("c", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/x"}}, "spec": map[string]any{"color": "red"}})
		c.Pass(100 * time.Millisecond)
		c.ask(&l, "red=a+b+c")
		c.Patch("a", labelled("off", "yes"))
		c.Delete("b")
		c.Delete("c") // the finalizer blocks the deletion
		c.Pass(100 * time.Millisecond)
		c.ask(&l, "red=c")
		c.Patch("c", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		c.gone("c")
		c.Pass(100 * time.Millisecond)
		c.ask(&l, "")
	})
	c.Run(t, "BG-81 errors take the values away, unless they are ignored", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		broken := func(err error) kopf.IndexFunc[string, string] {
			return func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
				if i.Spec().Bool("broken") {
					return nil, err
				}
				return byColor(ctx, i)
			}
		}
		ignored := kopf.OnIndexIn(r, Examples, broken(errOops), &kopf.IndexOptions{ID: "ignored"})
		permanent := kopf.OnIndexIn(r, Examples, broken(kopf.Permanent(errOops)), &kopf.IndexOptions{ID: "permanent"})
		temporary := kopf.OnIndexIn(r, Examples, broken(errOops), &kopf.IndexOptions{ID: "temporary", Errors: kopf.ErrorsTemporary})
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Spec().Has("ask") {
				l.add("%s/%s/%s", contents(ignored, e), contents(permanent, e), contents(temporary, e))
			}
			return nil
		}, &kopf.EventOptions{ID: "reader"})
		c.Operator(r)
		c.Create("a", colored("red"))
		c.Pass(time.Second)
		c.ask(&l, "red=a/red=a/red=a")
		c.Patch("a", spec(map[string]any{"broken": true}))
		c.Pass(time.Second)
		c.ask(&l, "red=a//")
		c.Patch("a", spec(map[string]any{"broken": false, "color": "blue"}))
		c.Pass(time.Second)
		c.ask(&l, "blue=a//")
		c.Pass(2 * time.Minute)
		c.ask(&l, "blue=a//blue=a") // the permanent error has no end, and the temporary one lasts a minute
	})
	c.Run(t, "BG-T10 a temporary error is tried again when its delay is over", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		var times atomic.Int64
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			if i.Spec().Has("color") && times.Add(1) == 1 {
				return nil, kopf.Temporary(errOops, time.Hour)
			}
			return byColor(ctx, i)
		}, &kopf.IndexOptions{ID: "x"})
		reader(r, x, &l)
		c.Operator(r)
		c.Create("a", colored("red"))
		c.Pass(59 * time.Minute)
		c.ask(&l, "")
		c.Pass(2 * time.Minute)
		c.ask(&l, "red=a")
	})
	c.Run(t, "DF-47 a key that does not equal itself is an error of the index function, and its object goes on", func(c *C) {
		var l, events calls
		r := &kopf.Registry{}
		type point struct{ X, Y float64 }
		points := kopf.OnIndexIn(r, Examples, func(_ context.Context, i *kopf.Indexing) (map[point]string, error) {
			if !i.Spec().Has("y") {
				return nil, nil
			}
			return map[point]string{{1, math.Log(i.Spec().Float("y"))}: i.Name()}, nil
		}, &kopf.IndexOptions{ID: "points", Errors: kopf.ErrorsTemporary, Backoff: time.Second})
		reader(r, points, &l)
		r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
			if e.Name() == "a" {
				events.add("%s", e.Type)
			}
			return nil
		}, watchedAs("events"))
		op := c.Operator(r)
		c.Create("a", spec(map[string]any{"y": 1}))
		c.expect(&events, "ADDED")
		c.ask(&l, "{1 0}=a")
		c.Patch("a", spec(map[string]any{"y": -1}))
		c.expect(&events, "ADDED", "MODIFIED")
		c.ask(&l, "")
		const want = "invalid key {X:1 Y:NaN} of an index: want a value that equals itself, unlike its part Y"
		if lines := op.Logs.Find("Indexer 'points' failed"); len(lines) == 0 || lines[0].Attrs["error"] != want {
			c.Errorf("got the lines %+v, want %q", lines, want)
		}
		c.Patch("a", spec(map[string]any{"y": 1}))
		c.expect(&events, "ADDED", "MODIFIED", "MODIFIED")
		c.Pass(2 * time.Second)
		c.ask(&l, "{1 0}=a")
		c.Delete("a")
		c.expect(&events, "ADDED", "MODIFIED", "MODIFIED", "DELETED")
		c.ask(&l, "")
	})
	c.Run(t, "DF-47 the operator goes on when a kind ends whose objects had keys that do not equal themselves", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		group := c.Unique("leaf") + ".dev"
		kopf.OnIndexIn(r, kopf.Selector("gadgets."+group), func(_ context.Context, i *kopf.Indexing) (map[any]string, error) {
			l.add("indexed %s", i.Name())
			return map[any]string{[2]float64{0, math.NaN()}: i.Name()}, nil
		}, &kopf.IndexOptions{ID: "gadgets"})
		r.OnCreate(Examples, l.handler("create"), named("create"))
		c.Define(c.gadgets())
		c.gadget().Create("x", nil)
		op := c.Operator(r)
		c.expect(&l, "indexed x")
		c.undefine("CustomResourceDefinition", "apiextensions.k8s.io/v1", "gadgets."+group)
		c.Pass(time.Second)
		c.Create("a", nil)
		c.handled("a")
		if op.Stop(); len(op.Logs.Find("panicked")) > 0 {
			c.Errorf("got the lines %+v", op.Logs.Find("panicked"))
		}
	})
	c.Run(t, "BG-85 a kind that is only indexed is never written to", func(c *C) {
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, Examples, func(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
			i.Patch.Set("status.x", 1) // kopf drops it (BG-84)
			return map[string]string{"x": i.Name()}, nil
		}, &kopf.IndexOptions{ID: "x"})
		op := c.Operator(r)
		c.Create("a", nil)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(500 * time.Millisecond)
		if got := op.Wire.Writes(); len(got) > 0 {
			c.Errorf("got the requests %v", got)
		}
		if got := c.Get("a"); got.Status().Len() > 0 || len(got.Finalizers()) > 0 {
			c.Errorf("got the object %s", got.LogValue())
		}
	})
	c.Run(t, "BG-T22 a reader keeps what it has read, whatever changes meanwhile", func(c *C) {
		var kept []string
		begun, done := make(chan struct{}), make(chan struct{})
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, byColor, nil)
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			if ch.Name() != "reader" {
				return nil
			}
			kept = x.Get(ch, "red")
			all := x.All(ch)
			close(begun)
			<-done
			for _, values := range all {
				kept = append(kept, values...)
			}
			return nil
		}, named("create"))
		c.Operator(r)
		c.Create("a", colored("red"))
		c.handled("a")
		c.Create("reader", nil)
		<-begun
		c.Patch("a", colored("blue"))
		c.Create("b", colored("red"))
		c.handled("b")
		close(done)
		c.handled("reader")
		if got := fmt.Sprint(kept); got != "[a a]" {
			c.Errorf("the reader has %s, want what it has read, [a a]", got)
		}
	})
}

func opening(t *testing.T, c *C) {
	c.Run(t, "BG-86 no handler is called before all objects of indexed kinds are indexed", func(c *C) {
		var l calls
		other := c.Of("kopf.dev/v1", "KopfStatusExample")
		for i := range 20 {
			other.Create(fmt.Sprint("o", i), colored("red"))
		}
		c.Create("a", nil)
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, "kopfstatusexamples.v1.kopf.dev", func(ctx context.Context, i *kopf.Indexing) (map[string]string, error) {
			time.Sleep(20 * time.Millisecond)
			return byColor(ctx, i)
		}, &kopf.IndexOptions{ID: "x"})
		note := func(name string, h kopf.HandlerArgument) { l.add("%s %d", name, len(x.Get(h, "red"))) }
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Listed {
				note("event", e)
			}
			return nil
		}, &kopf.EventOptions{ID: "event"})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { note("create", ch); return nil }, named("create"))
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error { note("daemon", d); return nil }, &kopf.DaemonOptions{ID: "daemon", WithoutFinalizer: true})
		r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error { note("timer", t); return nil }, &kopf.TimerOptions{ID: "timer", WithoutFinalizer: true})
		c.Operator(r)
		c.WaitFor("all of them", func() bool { return len(l.all()) >= 4 })
		got := l.all()
		slices.Sort(got)
		if want := []string{"create 20", "daemon 20", "event 20", "timer 20"}; !slices.Equal(got, want) {
			c.Errorf("got the calls %q, want %q", got, want)
		}
	})
	c.Run(t, "BG-87 without objects, the gate opens with the empty listing", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, "kopfstatusexamples.v1.kopf.dev", byColor, nil)
		r.OnCreate(Examples, l.handler("create"), named("create"))
		c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
	})
	c.Run(t, "BG-91 a limit of workers does not keep the gate closed", func(c *C) {
		for i := range 5 {
			c.Create(fmt.Sprint("a", i), colored("red"))
		}
		var l calls
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, Examples, byColor, nil)
		r.OnCreate(Examples, l.handler("create"), named("create"))
		c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.WorkerLimit = 1 })
		c.WaitFor("all creations", func() bool { return l.count("create") == 5 })
	})
	c.Run(t, "BG-T9 a listing that is refused again and again does not stop all handlers", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var l calls
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, "kopfstatusexamples.v1.kopf.dev", byColor, &kopf.IndexOptions{ID: "colors"})
		r.OnCreate(Examples, l.handler("create"), named("create"))
		refuse := func(op *kopf.Operator) {
			op.Connection.HTTPClient.Transport.(*Wire).Fault(func(req *Request) (*http.Response, error) {
				if strings.Contains(req.Path, "kopfstatusexamples") {
					return Answer(403, "Forbidden", "not for you"), nil
				}
				return nil, nil
			})
		}
		op := c.Operator(r, refuse)
		c.Create("a", nil)
		c.handled("a")
		lines := op.Logs.Find("Listing an indexed resource fails repeatedly; calling handlers with incomplete indices")
		if len(lines) != 1 || lines[0].Attrs["indices"] != "colors" || !strings.Contains(lines[0].Attrs["error"], "not for you") {
			c.Errorf("got the lines %v, want one that names the index and the reason", lines)
		}
	})
	c.Run(t, "BG-86 no handler is called when the operator stops before what is indexed was listed", func(c *C) {
		c.OnlyInBubble("the listing does not end")
		var l calls
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, "configmaps", func(_ context.Context, i *kopf.Indexing) (map[string]bool, error) {
			return map[string]bool{i.Name(): true}, nil
		}, &kopf.IndexOptions{ID: "names"})
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error {
			l.add("event")
			return nil
		}, watchedAs("event"))
		r.OnDaemon(Examples, l.daemon("d"), &kopf.DaemonOptions{ID: "d"})
		c.Create("a", nil)
		op := c.Operator(r, withoutAnswers("/configmaps"))
		c.Pass(time.Second)
		op.Stop()
		if got := l.all(); len(got) > 0 {
			c.Errorf("got the calls %q", got)
		}
	})
	c.Run(t, "BG-T7 what a new listing does not show has no values and no daemons", func(c *C) {
		c.OnlyInBubble("the watch is to be lost")
		var l, reads calls
		r := &kopf.Registry{}
		x := kopf.OnIndexIn(r, Examples, byColor, nil)
		reader(r, x, &reads)
		r.OnDaemon(Examples, l.daemon("d"), &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true, Labels: kopf.Match{"run": kopf.Present}})
		op := c.Operator(r)
		c.Create("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"run": "x"}}, "spec": map[string]any{"color": "red"}})
		c.Pass(time.Second)
		c.ask(&reads, "red=a")
		var gone atomic.Bool
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "watch=true") && strings.Contains(req.Path, "/kopfexamples") && gone.CompareAndSwap(false, true) {
				return Answer(410, "Expired", "too old"), nil
			}
			return nil, nil
		})
		hold := make(chan struct{})
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "/kopfexamples") {
				<-hold
			}
			return nil, nil
		})
		op.Wire.Drop()
		c.Pass(time.Second)
		c.Delete("a")
		close(hold)
		c.WaitFor("the end of the daemon", func() bool { return l.count("d ends ResourceDeleted") == 1 })
		c.ask(&reads, "")
	})
}
