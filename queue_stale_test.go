package kopf

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/pauser"
)

// The tests in this file delete objects, and end epochs, while they wait for the barrier, for a worker, or for their tasks.

const twoWidgets = `
{apiVersion: kopf.dev/v1, kind: Widget, metadata: {name: a, namespace: default}}
---
{apiVersion: kopf.dev/v1, kind: Widget, metadata: {name: b, namespace: default}}
`

// TestBarrierAfterPause deletes a listed object before it is indexed, and pauses the operator before its worker runs.
func TestBarrierAfterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block, first := make(chan struct{}), ""
		var handled []string
		w := live(t, false, func(w *life, r *Registry) {
			if err := w.server.Apply([]byte(twoWidgets)); err != nil {
				t.Fatal(err)
			}
			OnIndexIn(r, "widgets", func(ctx context.Context, i *Indexing) (map[string]string, error) {
				if first == "" {
					first = i.Name()
					<-block
				}
				return map[string]string{i.Name(): "x"}, nil
			}, &IndexOptions{ID: "index"})
			r.OnCreate("widgets", func(ctx context.Context, c *Change) error {
				handled = append(handled, c.Name())
				return nil
			}, &ChangeOptions{ID: "create"})
			w.workers = 1
		})
		other := lifeObject
		if other.Name = "b"; first == "b" {
			other.Name = "a"
		}
		if err := w.user.Delete(t.Context(), other, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.pauser.Block("peer", true)
		time.Sleep(time.Second)
		close(block)
		w.wait()
		w.pauser.Block("peer", false)
		w.wait()
		if !slices.Equal(handled, []string{first}) || w.barrier.closed() {
			t.Errorf("the objects %q were handled, want %q; the barrier is closed: %t", handled, first, w.barrier.closed())
		}
	})
}

// TestBarrierOfStaleListing pauses the operator before the end of a list. The barrier waits for the next list.
func TestBarrierOfStaleListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := live(t, false, func(w *life, r *Registry) {
			OnIndexIn(r, "widgets", func(ctx context.Context, i *Indexing) (map[string]string, error) { return nil, nil }, &IndexOptions{ID: "index"})
		})
		r := w.resources["widgets.v1.kopf.dev"].reactor
		h := w.stream(r, r.resource(), &source{}).Handler.(*objectsHandler)
		_, release := h.Admit(t.Context())
		defer release()
		h.OnListing()
		w.pauser.Block("peer", true)
		h.reactor.enqueue(versionedPod(t, Listed, "default", "u", "77"), h.from)
		h.OnListed("")
		if !w.barrier.closed() {
			t.Error("the barrier is open, and the object is not indexed")
		}
	})
}

// forgetBefore is an owner of tasks that forgets objects, once, before it learns of the tasks of one of them.
type forgetBefore struct {
	*reactor
	forget func() // called by the workers of all objects
}

func (o *forgetBefore) setLive(e *entry, live *atomic.Pointer[Body]) bool {
	o.forget()
	return o.reactor.setLive(e, live)
}

// TestTasksOfForgotten forgets an object when its daemon is about to start.
func TestTasksOfForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := live(t, false, func(w *life, r *Registry) {
			r.OnDaemon("widgets", func(ctx context.Context, d *Daemon) error {
				<-ctx.Done()
				return nil
			}, &DaemonOptions{ID: "daemon"})
		})
		served := w.resources["widgets.v1.kopf.dev"]
		r := served.reactor
		tasks := r.daemons.(*daemons)
		tasks.owner = &forgetBefore{r, sync.OnceFunc(func() {
			w.observer.mu.Lock()
			defer w.observer.mu.Unlock()
			served.close()
		})}
		if err := w.server.Apply([]byte(twoWidgets)); err != nil {
			t.Fatal(err)
		}
		w.wait()
		if !r.queue.empty() || len(tasks.objects) > 0 {
			t.Errorf("%d objects and %d with tasks are remembered", len(r.queue.entries), len(tasks.objects))
		}
	})
}

// TestDeletionAtBarrier deletes an object that waits for the barrier, and stops serving it. The deletion is reported.
func TestDeletionAtBarrier(t *testing.T) {
	for _, tasks := range []bool{false, true} {
		t.Run(fmt.Sprintf("with tasks %t", tasks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reported := 0
				q := newQueue(0, slog.New(slog.DiscardHandler), reconcileFunc(func(e *entry, events []RawEvent) result {
					reported++
					return result{gone: true}
				}))
				q.pauser, q.barrier = &pauser.Pauser{}, &syncBarrier{}
				q.barrier.serve(q, true)
				q.barrier.add()
				from := &source{}
				q.add(versionedPod(t, Listed, "ns", "u", "1"), from, true)
				synctest.Wait()
				e, live := q.entries["u"], &atomic.Pointer[Body]{}
				if tasks && !q.setLive(e, live) {
					t.Fatal("the object is not served")
				}
				q.add(versionedPod(t, Deleted, "ns", "u", "2"), from, true)
				synctest.Wait()
				q.closeSource(from)
				q.barrier.serve(q, false)
				q.forget("", true)
				q.unsetLive(e, live)
				synctest.Wait()
				q.barrier.done()
				q.reportDeletions("")
				synctest.Wait()
				if reported != 1 || !q.empty() {
					t.Errorf("the end was reported %d times, want once; %d objects are remembered", reported, len(q.entries))
				}
			})
		})
	}
}

// TestDeletionAfterPause finds an object deleted after a pause, while earlier work has not ended. The deletion is reported once.
func TestDeletionAfterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &epochs{goOn: make(chan bool)}
		q := newQueue(0, slog.New(slog.DiscardHandler), h)
		q.pauser = &pauser.Pauser{}
		from := &source{}
		q.beginListing(from)
		q.add(versionedPod(t, Listed, "ns", "u", "1"), from, true)
		synctest.Wait()
		e := q.entries["u"]
		q.pauser.Block("peer", true)
		q.pauser.Block("peer", false)
		q.openSource(from, q.pauser.Epoch())
		q.beginListing(from)
		q.sweep(from)
		q.done(e, result{unreported: true}) // the result of the worker with the earlier event
		q.beginListing(from)
		q.sweep(from)
		if n := len(e.state.work.events); n != 1 {
			t.Errorf("the end is to be reported %d times, want once", n)
		}
		close(h.goOn)
		q.workers.Wait()
	})
}

// TestTasksServedAgain forgets an object and serves it again, after one of its tasks has ended on its own, and while another one is ending.
func TestTasksServedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards calls
		calls := make(map[HandlerID]int)
		w := live(t, false, func(w *life, r *Registry) {
			add := func(id HandlerID, fn func(ctx context.Context, call int)) {
				r.OnDaemon("widgets", func(ctx context.Context, d *Daemon) error {
					mu.Lock()
					calls[id]++
					call := calls[id]
					mu.Unlock()
					fn(ctx, call)
					return nil
				}, &DaemonOptions{ID: id})
			}
			add("short", func(context.Context, int) {})
			add("slow", func(ctx context.Context, call int) {
				<-ctx.Done()
				if call == 1 {
					time.Sleep(5 * time.Minute)
				}
			})
		})
		w.create(t)
		w.wait()
		before := w.entry()
		w.serveAgain()
		w.wait()
		if calls["short"] != 2 || calls["slow"] != 2 {
			t.Errorf("the daemons were called so often: %v, want each twice", calls)
		}
		if w.entry() != before {
			t.Error("the object has another entry than the daemon that still ran")
		}
	})
}

// TestListingOverlaps checks the handling of changes that arrive between the pages of a list.
func TestListingOverlaps(t *testing.T) {
	t.Run("an object that was forgotten, and is changed before its page, counts as listed", func(t *testing.T) {
		q := newQueue(0, slog.New(slog.DiscardHandler), reconcileFunc(func(e *entry, events []RawEvent) result { return result{} }))
		for _, remembered := range []bool{false, true} {
			from := &source{namespace: "ns"}
			q.beginListing(from)
			q.add(versionedPod(t, Listed, "ns", "u", "1"), from, true)
			q.workers.Wait()
			q.sweep(from)
			q.closeSource(from)
			q.forget("ns", remembered) // with event handlers
			from = &source{namespace: "ns"}
			q.beginListing(from)
			q.add(versionedPod(t, Modified, "ns", "u", "2"), from, true)
			q.workers.Wait()
			q.add(versionedPod(t, Listed, "ns", "u", "1"), from, true)
			q.workers.Wait()
			q.sweep(from)
			q.workers.Wait()
			if e := q.entries["u"]; !e.listed {
				t.Errorf("with a memory of it %v: the object counts as new, though it was there before", remembered)
			}
			q.closeSource(from)
			q.forget("ns", false)
		}
	})
	t.Run("with versions that are no numbers, the page is the older state", func(t *testing.T) {
		var seen []string
		q := newQueue(0, slog.New(slog.DiscardHandler), reconcileFunc(func(e *entry, events []RawEvent) result {
			for _, ev := range events {
				seen = append(seen, ev.Body.version)
			}
			return result{}
		}))
		from := &source{}
		q.beginListing(from)
		q.add(versionedPod(t, Modified, "ns", "u", "new"), from, true)
		q.workers.Wait()
		q.add(versionedPod(t, Listed, "ns", "u", "old"), from, true)
		q.workers.Wait()
		q.sweep(from)
		if seen[len(seen)-1] != "new" {
			t.Errorf("seen %q: the page's older state counts as the newest", seen)
		}
	})
	t.Run("an event is looked at while the worker notes what it has handled", func(t *testing.T) { // for the race detector
		working, looked := make(chan struct{}), make(chan struct{})
		q := newQueue(0, slog.New(slog.DiscardHandler), reconcileFunc(func(e *entry, events []RawEvent) result {
			close(working)
			e.last.handled = true // without the lock, as cycles do
			<-looked
			return result{}
		}))
		from := &source{}
		q.beginListing(from)
		q.add(versionedPod(t, Listed, "ns", "u", "1"), from, true)
		q.sweep(from)
		<-working
		q.lookupIdle(Modified, []byte("u"), []byte("2"), from)
		close(looked)
		q.workers.Wait()
	})
}
