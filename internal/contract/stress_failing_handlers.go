package contract

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// This suite proves limits on the requests and calls of handlers that always fail at once, on many objects, for all options.

func failingObjects() int64 { return int64(proof.Rounds(40, 100)) }

// fruitless is a way in which handlers fail permanently.
type fruitless struct {
	name     string
	register func(r *kopf.Registry, fail func(o *kopf.Object) error)
	backoff  time.Duration // the setting
	err      error
	first    int64 // the maximum number of calls for each object in the first minute
}

// fruitlessWays are the tested ways. Each call patches its object, too.
var fruitlessWays = []fruitless{
	{"a handler with an arbitrary error", failingChange, time.Minute, errOops, 2},
	{"a handler without a backoff", failingChange, 0, errOops, 17},
	{"a handler in a hurry", failingChange, time.Minute, kopf.Temporary(errOops, kopf.Immediately), 17},
	{"a handler in some hurry", failingChange, time.Minute, kopf.Temporary(errOops, 900*time.Millisecond), 17},
	{"a sub-handler", failingSub, time.Minute, kopf.Temporary(errOops, kopf.Immediately), 17},
	{"a daemon", func(r *kopf.Registry, fail func(o *kopf.Object) error) {
		r.OnDaemon(Examples, func(_ context.Context, d *kopf.Daemon) error { return fail(&d.Object) }, &kopf.DaemonOptions{ID: "d"})
	}, 0, errOops, 17},
	{"a timer", func(r *kopf.Registry, fail func(o *kopf.Object) error) {
		r.OnTimer(Examples, func(_ context.Context, d *kopf.Timer) error { return fail(&d.Object) }, &kopf.TimerOptions{ID: "t", Interval: time.Hour})
	}, time.Minute, kopf.Temporary(errOops, kopf.Immediately), 17},
	{"an indexer", func(r *kopf.Registry, fail func(o *kopf.Object) error) {
		kopf.OnIndexIn(r, Examples, func(_ context.Context, x *kopf.Indexing) (map[string]string, error) { return nil, fail(&x.Object) }, &kopf.IndexOptions{ID: "x"})
	}, time.Minute, kopf.Temporary(errOops, kopf.Immediately), 17},
}

func failingChange(r *kopf.Registry, fail func(o *kopf.Object) error) {
	r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error { return fail(&ch.Object) }, named("create"))
}

func failingSub(r *kopf.Registry, fail func(o *kopf.Object) error) {
	r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
		ch.Subhandler("sub", func(_ context.Context, ch *kopf.Change) error { return fail(&ch.Object) }, nil)
		return nil
	}, named("create"))
}

var _ = Suite("stress_failing_handlers", func(t *testing.T, c *C) {
	for _, way := range fruitlessWays[:proof.Rounds(len(fruitlessWays), len(fruitlessWays))] {
		c.Run(t, "handlers that always fail at once flood nobody: "+way.name, func(c *C) { proveFruitless(c, way) })
	}
	for limit, want := range map[int][]float64{
		0:  {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		3:  {0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60},
		10: {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60},
	} {
		c.Run(t, fmt.Sprintf("the pauses of a handler that fails at once grow after %d attempts", limit), func(c *C) { proveSlowing(c, limit, want) })
	}
	c.Run(t, "delays of a second are as the handler wants", proveWantedDelays)
})

func proveFruitless(c *C, way fruitless) {
	c.OnlyInBubble("it takes ten minutes")
	var calls atomic.Int64
	r := &kopf.Registry{}
	way.register(r, func(o *kopf.Object) error {
		o.Patch.Set("status.calls", calls.Add(1))
		return way.err
	})
	began := time.Now()
	op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Execution.DefaultBackoff = way.backoff })
	createMany(c, int(failingObjects()))
	c.Pass(10 * time.Minute)
	minutes := make([]int64, 11)
	for _, req := range op.Wire.Requests() {
		minutes[int(req.Time.Sub(began)/time.Minute)]++
	}
	c.Logf("%d calls; requests in each minute: %d", calls.Load(), minutes)
	if most := failingObjects() * (way.first + 10); calls.Load() > most || calls.Load() < failingObjects()*10 {
		c.Errorf("the handlers were called %d times, want %d to %d", calls.Load(), failingObjects()*10, most)
	}
	// A call leads to one request, and there are finalizers.
	if most := failingObjects()*(way.first+4) + 100; minutes[0] > most {
		c.Errorf("%d requests were made in the first minute, want at most %d", minutes[0], most)
	}
	for minute, n := range minutes[3:] {
		if most := failingObjects() + 10; n > most {
			c.Errorf("%d requests were made in minute %d, want at most %d", n, minute+3, most)
		}
	}
}

// attempts returns the times between the given number of attempts of a handler that fails with this error.
func attempts(c *C, count int, err error, adjust func(*kopf.Operator)) (pauses []time.Duration) {
	var times []time.Time
	done := make(chan struct{})
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(context.Context, *kopf.Change) error {
		if times = append(times, time.Now()); len(times) == count {
			close(done)
			return nil
		}
		return err
	}, named("create"))
	c.Operator(r, adjust)
	c.Create("a", nil)
	<-done
	for i := range times[1:] {
		pauses = append(pauses, times[i+1].Sub(times[i]))
	}
	return pauses
}

func proveSlowing(c *C, limit int, want []float64) {
	c.OnlyInBubble("it counts the seconds")
	var got []float64
	for _, pause := range attempts(c, len(want)+1, kopf.Temporary(errOops, kopf.Immediately), func(op *kopf.Operator) {
		if n := op.Settings.Execution.QuickRetries; n != 10 {
			c.Errorf("the default is %d, want 10", n)
		}
		op.Settings.Execution.QuickRetries = limit
	}) {
		got = append(got, pause.Truncate(100*time.Millisecond).Seconds())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.Errorf("the pauses (-want +got):\n%s", diff)
	}
}

func proveWantedDelays(c *C) {
	c.OnlyInBubble("it counts the seconds")
	for i, pause := range attempts(c, 50, kopf.Temporary(errOops, time.Second), func(*kopf.Operator) {}) {
		if pause.Truncate(100*time.Millisecond) != time.Second {
			c.Errorf("pause %d was %s, want 1s", i, pause)
		}
	}
}
