package workpool

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// workers stay active until a test ends them, one after another.
type workers struct {
	mu    sync.Mutex // guards begun
	begun []string
	ends  chan struct{}
}

func newWorkers() *workers { return &workers{ends: make(chan struct{})} }

// begin records the start of a worker.
func (w *workers) begin(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = append(w.begun, name)
}

// worker returns a worker with a name.
func (w *workers) worker(name string) func() {
	return func() {
		w.begin(name)
		<-w.ends
	}
}

// end ends one of the active workers, and returns the workers that have begun so far.
func (w *workers) end() []string {
	w.ends <- struct{}{}
	synctest.Wait()
	return w.all()
}

func (w *workers) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.begun)
}

func TestLimiter(t *testing.T) {
	test := func(name string, f func(t *testing.T, w *workers)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, newWorkers()) }) })
	}
	test("those who are too many wait, the first one first", func(t *testing.T, w *workers) {
		c, names := New(2, 0), []string{"a", "b", "c", "d", "e"}
		for _, name := range names {
			c.Start(true, w.worker(name))
			synctest.Wait()
		}
		if got := w.all(); !slices.Equal(got, names[:2]) {
			t.Fatalf("%q have begun, want %q", got, names[:2])
		}
		for n := 3; n <= 5; n++ {
			if got := w.end(); !slices.Equal(got, names[:n]) {
				t.Fatalf("%q have begun, want %q", got, names[:n])
			}
		}
		w.end()
		w.end()
		if c.working != 0 {
			t.Errorf("%d work after all have left", c.working)
		}
	})
	test("who returns comes before those who have not begun", func(t *testing.T, w *workers) {
		c, handled := New(1, 0), make(chan struct{})
		c.Start(true, func() {
			regain := c.Yield() // it runs a user's function
			<-handled
			regain()
			w.begin("first")
		})
		synctest.Wait()
		c.Start(true, w.worker("second"))
		synctest.Wait()
		if got := w.all(); got != nil {
			t.Errorf("%q have begun at once, want none", got)
		}
		time.Sleep(yieldAfter)
		synctest.Wait()
		c.Start(true, w.worker("third"))
		close(handled)
		synctest.Wait()
		if got, want := w.end(), []string{"second", "first", "third"}; !slices.Equal(got, want) {
			t.Errorf("the order is %q, want %q", got, want)
		}
		w.end()
	})
	test("who pauses has no place meanwhile", func(t *testing.T, w *workers) {
		c := New(1, 0)
		c.Start(true, func() {
			l := FromContext(NewContext(t.Context(), c))
			l.Release()
			time.Sleep(time.Hour)
			l.Acquire()
		})
		synctest.Wait()
		c.Start(true, w.worker("other"))
		synctest.Wait()
		if len(w.all()) == 0 {
			t.Error("no worker has begun while the only one that works pauses")
		}
		w.end()
		time.Sleep(time.Hour)
		synctest.Wait()
		if c.working != 0 {
			t.Errorf("%d work after all have left", c.working)
		}
	})
	test("who ends its goroutine has no place after that", func(t *testing.T, w *workers) {
		c := New(1, 0)
		c.Start(true, runtime.Goexit)
		synctest.Wait()
		c.Start(true, w.worker("other"))
		synctest.Wait()
		if len(w.all()) == 0 {
			t.Error("no worker has begun after one that has ended its goroutine")
		}
		w.end()
	})
	for _, tt := range []struct {
		name   string
		leave  int           // number that leave after a second
		cancel time.Duration // end of the context
		want   time.Duration
	}{
		{"the pages of a listing wait until few are left", 50, time.Hour, time.Second},
		{"the pages of a listing do not wait for long", 10, time.Hour, time.Minute},
		{"the pages of a listing do not wait at the end", 10, 2 * time.Second, 2 * time.Second},
	} {
		test(tt.name, func(t *testing.T, w *workers) { // in a bubble
			c, all := New(1, 0), maxBacklog+1+40
			for range all {
				c.Start(true, w.worker("one"))
			}
			go func() {
				time.Sleep(time.Second)
				for range tt.leave {
					w.end()
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), tt.cancel)
			defer cancel()
			begun := time.Now()
			c.WaitBacklog(ctx, time.Minute)
			if got := time.Since(begun); got != tt.want {
				t.Errorf("it took %s, want %s", got, tt.want)
			}
			time.Sleep(2 * time.Second) // for those that leave
			for range all - tt.leave {
				w.end()
			}
		})
	}
	test("few may go on at once", func(t *testing.T, w *workers) {
		c := New(1, 0)
		c.Start(true, w.worker("one"))
		c.WaitBacklog(t.Context(), time.Hour)
		w.end()
	})
}
