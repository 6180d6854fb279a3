package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how events reach the workers of their objects, and what the workers do concurrently, in 1-change-handling.md.

var _ = Suite("change_workers", func(t *testing.T, c *C) {
	queueing(t, c)
	hurrying(t, c)
	limiting(t, c)
	ending(t, c)
})

// sized returns an object of the given size, by which leaves distinguish its states.
func sized(n int) map[string]any { return spec(map[string]any{"x": n}) }

// doorway blocks callers until it is opened.
type doorway struct {
	once sync.Once
	open chan struct{}
}

func newDoorway() *doorway { return &doorway{open: make(chan struct{})} }

func (d *doorway) pass(ctx context.Context) {
	select {
	case <-d.open:
	case <-ctx.Done():
	}
}

// let opens the doorway.
func (d *doorway) let() { d.once.Do(func() { close(d.open) }) }

func queueing(t *testing.T, c *C) {
	c.Run(t, "CH-59 the events of an object are processed one after another, different objects at the same time", func(c *C) {
		var l calls
		door := newDoorway()
		defer door.let()
		handle := func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Listed || len(e.Annotations()) > 0 {
				return nil
			}
			l.add("%s %s %d begins", e.Resource.Singular, e.Name(), e.Spec().Int("x"))
			if e.Name() == "slow" && e.Resource.Kind == "KopfExample" {
				door.pass(ctx)
			}
			l.add("%s %s %d ends", e.Resource.Singular, e.Name(), e.Spec().Int("x"))
			return nil
		}
		r := &kopf.Registry{}
		r.OnEvent(Examples, handle, &kopf.EventOptions{ID: "event"})
		r.OnEvent("kopfstatusexamples.v1.kopf.dev", handle, &kopf.EventOptions{ID: "event"})
		c.Operator(r)
		c.Pass(time.Second) // after the initial lists
		c.Create("slow", sized(1))
		c.Patch("slow", sized(2))
		c.Patch("slow", sized(3))
		c.expect(&l, "kopfexample slow 1 begins")
		c.Create("quick", sized(1))
		c.expect(&l, "kopfexample slow 1 begins", "kopfexample quick 1 begins", "kopfexample quick 1 ends")
		c.Of("kopf.dev/v1", "KopfStatusExample").Create("slow", sized(7))
		before := []string{
			"kopfexample slow 1 begins", "kopfexample quick 1 begins", "kopfexample quick 1 ends",
			"kopfstatusexample slow 7 begins", "kopfstatusexample slow 7 ends",
		}
		c.expect(&l, before...)
		door.let()
		c.expect(&l, append(before, "kopfexample slow 1 ends",
			"kopfexample slow 2 begins", "kopfexample slow 2 ends", "kopfexample slow 3 begins", "kopfexample slow 3 ends")...)
	})
	c.Run(t, "CH-60 objects are told apart by their uid", func(c *C) {
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			_, known := ch.Memo().Load("known")
			ch.Memo().Store("known", true)
			l.add("%s %d known=%t", ch.Name(), ch.Spec().Int("x"), known)
			if ch.Spec().Int("x") == 1 {
				door.pass(ctx)
			}
			return nil
		}, named("create"))
		c.Operator(r)
		c.Create("a", sized(1))
		c.expect(&l, "a 1 known=false")
		c.Delete("a")
		c.Create("a", sized(2)) // an object of the same name, which waits for nothing
		c.expect(&l, "a 1 known=false", "a 2 known=false")
		c.handled("a")
		door.let()
		c.Pass(time.Second)
		if got := c.Get("a").Spec().Int("x"); got != 2 {
			c.Errorf("got x=%d, want 2", got)
		}
	})
	c.Run(t, "CH-T43 objects without a uid have memories of their own, too", func(c *C) {
		c.OnlyInBubble("the real server gives uids")
		object := func(name, created string, version int) string {
			return fmt.Sprintf(`{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"name":%q,"namespace":"leaf","creationTimestamp":%q,"resourceVersion":"%d"}}`, name, created, version)
		}
		const early, late = "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"
		frames := []string{
			`{"type":"MODIFIED","object":` + object("a", early, 11) + "}", `{"type":"MODIFIED","object":` + object("b", early, 12) + "}",
			`{"type":"ADDED","object":` + object("a", late, 13) + "}", `{"type":"MODIFIED","object":` + object("a", early, 14) + "}",
		}
		list := `{"kind":"KopfExampleList","apiVersion":"kopf.dev/v1","metadata":{"resourceVersion":"10"},"items":[` + object("a", early, 1) + "," + object("b", early, 2) + "]}"
		var l calls
		r := &kopf.Registry{}
		type visits struct{ n int }
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			v := kopf.MemoOf[visits](e)
			v.n++
			l.add("%s %s: %d", e.Name(), e.Meta().String("creationTimestamp")[:10], v.n)
			return nil
		}, &kopf.EventOptions{ID: "event"})
		c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			switch {
			case !strings.Contains(req.Path, "/kopfexamples"):
				return nil, nil
			case strings.Contains(req.Path, "watch=true") && strings.Contains(req.Path, "resourceVersion=10"):
				return document(strings.Join(frames, "\n") + "\n"), nil
			case strings.Contains(req.Path, "watch=true"):
				return Answer(503, "ServiceUnavailable", "no more"), nil
			}
			return document(list), nil
		}))
		c.WaitFor("all events", func() bool { return len(l.all()) == 6 })
		got := l.all()
		slices.Sort(got)
		want := []string{"a 2020-01-01: 1", "a 2020-01-01: 2", "a 2020-01-01: 3", "a 2020-01-02: 1", "b 2020-01-01: 1", "b 2020-01-01: 2"}
		if !slices.Equal(got, want) {
			c.Errorf("got %q, want %q", got, want)
		}
	})
	c.Run(t, "CH-62 handlers of events see each event, however many have come meanwhile", func(c *C) {
		var l calls
		door := newDoorway()
		defer door.let()
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			l.add("%s %d", e.Type, e.Spec().Int("x"))
			door.pass(ctx)
			return nil
		}, &kopf.EventOptions{ID: "event"})
		c.Operator(r)
		c.Pass(time.Second) // after the initial list
		c.Create("a", sized(1))
		for n := 2; n <= 5; n++ {
			c.Patch("a", sized(n))
		}
		c.Delete("a")
		c.expect(&l, "ADDED 1")
		c.Pass(time.Second) // until the events wait in the queue
		door.let()
		c.expect(&l, "ADDED 1", "MODIFIED 2", "MODIFIED 3", "MODIFIED 4", "MODIFIED 5", "DELETED 5")
	})
}

// wired adds a fault to the wire of an operator before it starts.
func wired(fault func(*Request) (*http.Response, error)) func(*kopf.Operator) {
	return func(op *kopf.Operator) { op.Connection.HTTPClient.Transport.(*Wire).Fault(fault) }
}

// document returns a response with a JSON text.
func document(text string) *http.Response {
	resp := Answer(http.StatusOK, "", "")
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return resp
}

// sizes is an event handler that records the sizes of the object, with the times since the start of the leaf.
func sizes(l *calls, began time.Time) kopf.EventFunc {
	return func(ctx context.Context, e *kopf.WatchEvent) error {
		if n := e.Spec().Int("x"); l.count(fmt.Sprintf("seen %d ", n)) == 0 {
			l.add("seen %d after %s", n, time.Since(began).Round(time.Second))
		}
		return nil
	}
}

func hurrying(t *testing.T, c *C) {
	c.Run(t, "CH-63 a retry that is waited for delays no event, and events do not hasten it", func(c *C) {
		c.OnlyInBubble("the delay is long")
		var l calls
		began := time.Now()
		r := &kopf.Registry{}
		r.OnEvent(Examples, sizes(&l, began), &kopf.EventOptions{ID: "event"})
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("create %d after %s", ch.Retry, time.Since(began).Round(time.Second))
			if ch.Retry == 0 {
				return kopf.Temporary(errOops, time.Hour)
			}
			return nil
		}, named("create"))
		c.Operator(r)
		c.Create("a", sized(1))
		c.Pass(time.Minute)
		c.Patch("a", sized(2))
		c.Pass(2 * time.Hour)
		c.expect(&l, "seen 1 after 0s", "create 0 after 0s", "seen 2 after 1m0s", "create 1 after 1h0m0s")
	})
	c.Run(t, "CH-63 a pause after an error delays no event", func(c *C) {
		c.OnlyInBubble("the pause is long")
		var l calls
		began := time.Now()
		r := &kopf.Registry{}
		r.OnEvent(Examples, sizes(&l, began), &kopf.EventOptions{ID: "event"})
		r.OnCreate(Examples, l.handler("create"), named("create"))
		var broken atomic.Bool
		broken.Store(true)
		op := c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Queueing.ErrorDelays = []time.Duration{time.Hour}
			op.Settings.Networking.ErrorBackoffs = nil
		}, wired(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && broken.Load() {
				return Answer(500, "InternalError", "asked for"), nil
			}
			return nil, nil
		}))
		c.Create("a", sized(1))
		c.Pass(time.Minute)
		broken.Store(false)
		c.Patch("a", sized(2))
		c.Pass(time.Minute)
		c.expect(&l, "seen 1 after 0s", "create create 0", "seen 2 after 1m0s")
		if n := len(op.Wire.Writes()); n != 1 {
			c.Errorf("got %d writes during the pause, want the one that has failed", n)
		}
		c.Pass(time.Hour)
		c.handled("a")
	})
	c.Run(t, "CH-63 the waiting for an own patch delays no event, but handlers of changes", func(c *C) {
		c.OnlyInBubble("versions are made up")
		var l calls
		began := time.Now()
		r := &kopf.Registry{}
		r.OnEvent(Examples, sizes(&l, began), &kopf.EventOptions{ID: "event"})
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("update %d after %s", ch.Spec().Int("x"), time.Since(began).Round(time.Second))
			return nil
		}, named("update"))
		c.Operator(r, wired(c.futureVersion()))
		c.Create("a", sized(1))
		c.handled("a")
		c.Pass(time.Second)
		c.Patch("a", sized(2))
		c.Pass(time.Second)
		c.Patch("a", sized(3))
		c.Pass(time.Minute)
		c.expect(&l, "seen 1 after 0s", "create create 0", "seen 2 after 1s", "seen 3 after 2s", "update 3 after 7s") // the stream delivered events until 2 s
	})
}

// futureVersion has a wire answer the first patch with a version that never arrives.
func (c *C) futureVersion() func(req *Request) (*http.Response, error) {
	var done atomic.Bool
	return func(req *Request) (*http.Response, error) {
		if req.Method != http.MethodPatch || !done.CompareAndSwap(false, true) {
			return nil, nil
		}
		path, _, _ := strings.Cut(req.Path, "?")
		body, err := c.Client.Patch(c.Context(), c.Ref(path[strings.LastIndexByte(path, '/')+1:]), json.RawMessage(req.Body), nil)
		if err != nil {
			return nil, err
		}
		object := body.Map()
		object["metadata"].(map[string]any)["resourceVersion"] = "999999999"
		text, err := json.Marshal(object)
		return document(string(text)), err
	}
}

func limiting(t *testing.T, c *C) {
	c.Run(t, "CH-65 a limit of workers lets the other objects wait", func(c *C) {
		var l calls
		var running, most atomic.Int64
		turns := make(chan struct{})
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			l.add("%s", ch.Name())
			select {
			case <-turns:
			case <-ctx.Done():
			}
			return nil
		}, named("create"))
		c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.WorkerLimit = 2 })
		for n := range 5 {
			c.Create(fmt.Sprint("a", n), nil)
		}
		for finished := range 4 {
			c.WaitFor("the next two", func() bool { return running.Load() == 2 && len(l.all()) == finished+2 })
			c.Pass(100 * time.Millisecond)
			if n := len(l.all()); n != finished+2 {
				c.Fatalf("%d handlers were called when %d had finished, want two more", n, finished)
			}
			turns <- struct{}{}
		}
		c.WaitFor("the last one", func() bool { return running.Load() == 1 })
		turns <- struct{}{}
		for n := range 5 {
			c.handled(fmt.Sprint("a", n))
		}
		if most.Load() != 2 {
			c.Errorf("%d handlers were running at the same time, want 2", most.Load())
		}
	})
	c.Run(t, "CH-T39 objects that wait for a retry take no place from others", func(c *C) {
		c.OnlyInBubble("the delay is long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s %d", ch.Name(), ch.Retry)
			if ch.Name() != "z" && ch.Retry == 0 {
				return kopf.Temporary(errOops, time.Hour)
			}
			return nil
		}, named("create"))
		c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.WorkerLimit = 1 })
		for _, name := range []string{"a", "b", "c"} {
			c.Create(name, nil)
			c.Pass(time.Second)
		}
		c.Create("z", nil)
		c.Pass(time.Second)
		c.expect(&l, "a 0", "b 0", "c 0", "z 0")
		c.Pass(time.Hour)
		c.expect(&l, "a 0", "b 0", "c 0", "z 0", "a 1", "b 1", "c 1")
	})
}

func ending(t *testing.T, c *C) {
	c.Run(t, "CH-66 at the exit, workers finish the events that they have, and are cut off after two seconds", func(c *C) {
		c.OnlyInBubble("the times are exact")
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			wait := 800 * time.Millisecond
			if e.Name() == "endless" {
				wait = time.Hour
			}
			select {
			case <-time.After(wait):
				l.add("%s %d ends", e.Name(), e.Spec().Int("x"))
			case <-ctx.Done():
				l.add("%s %d is cut off", e.Name(), e.Spec().Int("x"))
			}
			return nil
		}, &kopf.EventOptions{ID: "event"})
		op := c.Operator(r)
		c.Pass(time.Second) // after the initial list
		c.Create("brief", sized(1))
		c.Patch("brief", sized(2))
		c.Create("endless", sized(1))
		c.Pass(time.Millisecond)
		began := time.Now()
		op.Stop()
		if took := time.Since(began); took != 2*time.Second {
			c.Errorf("the exit took %s, want 2s", took)
		}
		c.expect(&l, "brief 1 ends", "brief 2 ends", "endless 1 is cut off")
		warned := op.Logs.Find("Some handlers have not finished in time; canceling their contexts")
		if len(warned) != 1 || warned[0].Level != slog.LevelWarn || !strings.Contains(warned[0].Attrs["objects"], "endless") || strings.Contains(warned[0].Attrs["objects"], "brief") {
			c.Errorf("got the warnings %+v, want one that names the endless one alone", warned)
		}
	})
	c.Run(t, "CH-67 a panic beside the handlers is an error of one object, which is tried again", func(c *C) {
		c.OnlyInBubble("the pause is long")
		var l calls
		var panics atomic.Int64
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		op := c.Operator(r, func(op *kopf.Operator) {
			op.Settings.Persistence.DiffBaseStorage = &faultyDiffBase{build: func(*kopf.Body) {
				if panics.Add(1) == 1 {
					panic("boom")
				}
			}}
		})
		c.Create("a", nil)
		c.Pass(time.Second)
		c.expect(&l)
		c.Create("b", nil)
		c.handled("b")
		c.Pass(2 * time.Minute)
		c.handled("a")
		c.expect(&l, "create create 0", "create create 0")
		lines := op.Logs.Find("Processing of the object panicked")
		if len(lines) != 1 || lines[0].Level != slog.LevelError || !strings.Contains(lines[0].Attrs["stack"], "goroutine") || !strings.Contains(lines[0].Attrs["error"], "boom") {
			c.Errorf("got the lines %+v, want one error with its stack", lines)
		}
	})
}
