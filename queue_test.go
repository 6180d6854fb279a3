package kopf

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/pauser"
)

// versionedPod returns an event of a pod.
func versionedPod(t *testing.T, typ EventType, namespace, uid, version string) RawEvent {
	t.Helper()
	body, err := NewBody(map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "a", "namespace": namespace, "uid": uid, "resourceVersion": version}})
	if err != nil {
		t.Fatal(err)
	}
	return RawEvent{Type: typ, Body: body}
}

// forgettingHandler counts the forgotten objects, and panics for the first one.
type forgettingHandler struct{ forgotten int }

func (h *forgettingHandler) index(*entry, []RawEvent, epoch) result     { return result{} }
func (h *forgettingHandler) reconcile(*entry, []RawEvent, epoch) result { return result{} }
func (h *forgettingHandler) forget(*entry) {
	if h.forgotten++; h.forgotten == 1 {
		panic("oops")
	}
}

func TestQueue(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	t.Run("DF-30 the names of namespaces are forgotten with their last objects", func(t *testing.T) {
		q := newQueue(0, quiet, reconcileFunc(func(e *entry, events []RawEvent) result {
			return result{gone: events[len(events)-1].Type == Deleted}
		}))
		from := &source{}
		for n := range 100 {
			for i := range 2 {
				uid := fmt.Sprint("u", n, "-", i)
				q.add(versionedPod(t, Added, fmt.Sprint("ns", n), uid, "1"), from, true)
				q.workers.Wait()
				if i == 0 && n%2 == 0 {
					continue
				}
				q.add(versionedPod(t, Deleted, fmt.Sprint("ns", n), uid, "2"), from, true)
				q.workers.Wait()
			}
		}
		if len(q.entries) != 50 || len(q.namespaces) != 50 {
			t.Errorf("of 50 objects in 50 namespaces, %d objects are known in %d namespaces", len(q.entries), len(q.namespaces))
		}
		q.forget("ns2", false)
		if len(q.entries) != 49 || len(q.namespaces) != 49 {
			t.Errorf("of 49 objects in 49 namespaces, %d objects are known in %d namespaces", len(q.entries), len(q.namespaces))
		}
	})
	t.Run("DF-47 a panic about one object neither reaches the caller nor keeps the others", func(t *testing.T) {
		var log bytes.Buffer
		h := &forgettingHandler{}
		q := newQueue(0, slog.New(slog.NewTextHandler(&log, nil)), h)
		for n := range 3 {
			q.add(versionedPod(t, Added, "ns", fmt.Sprint("u", n), "1"), &source{}, true)
		}
		q.workers.Wait()
		q.forget("", false)
		if h.forgotten != 3 || strings.Count(log.String(), "help=K320") != 1 {
			t.Errorf("%d objects were forgotten, and the log is\n%s", h.forgotten, &log)
		}
	})
	t.Run("DF-30 no time of an object depends on the time of the day", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			settings := NewSettings()
			r := &reactor{environment: &environment{settings: settings}, began: time.Now()}
			time.Sleep(time.Minute)
			c := &cycle{reactor: r, entry: &entry{state: &objectState{}}, served: &resolved{persistence: &settings.Persistence}, event: RawEvent{}}
			c.notePatched(versionedPod(t, Modified, "ns", "u", "1").Body, versionedPod(t, Modified, "ns", "u", "2").Body)
			if got, want := c.entry.last.expectedUntil, time.Minute+settings.Persistence.ConsistencyTimeout; got != want {
				t.Errorf("our own patch is awaited until %s of the reactor's clock, want %s", got, want)
			}
		})
	})
	t.Run("DF-36 an older state than one that was seen is not seen again", func(t *testing.T) {
		var seen []string
		q := newQueue(0, quiet, reconcileFunc(func(e *entry, events []RawEvent) result {
			for _, ev := range events {
				seen = append(seen, ev.Body.version)
			}
			return result{}
		}))
		from := &source{}
		for _, version := range []string{"9", "10", "8", "10", "11", "9"} {
			q.add(versionedPod(t, Modified, "ns", "u", version), from, true)
			q.workers.Wait()
		}
		if want := []string{"9", "10", "11"}; !slices.Equal(seen, want) {
			t.Errorf("the versions %q were seen, want %q", seen, want)
		}
	})
	t.Run("DF-36 the listing of a namespace tells nothing of the objects of others", func(t *testing.T) {
		var gone []string
		q := newQueue(1, quiet, reconcileFunc(func(e *entry, events []RawEvent) result {
			deleted := events[len(events)-1].Type == Deleted
			if deleted {
				gone = append(gone, e.namespace.name)
			}
			return result{gone: deleted}
		}))
		one, other := &source{namespace: "one"}, &source{namespace: "other"}
		q.beginListing(one)
		q.add(versionedPod(t, Listed, "one", "u1", "1"), one, true)
		q.beginListing(other)
		q.add(versionedPod(t, Listed, "other", "u2", "2"), other, true)
		q.workers.Wait()
		q.beginListing(one) // it is empty now
		q.sweep(one)
		q.workers.Wait()
		if !slices.Equal(gone, []string{"one"}) {
			t.Errorf("the objects of the namespaces %q count as deleted, want that of one", gone)
		}
	})
	t.Run("DF-36 an object that is woken while its worker works is looked at again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			looks, working := 0, make(chan struct{})
			q := newQueue(0, quiet, reconcileFunc(func(e *entry, events []RawEvent) result {
				if looks++; looks == 1 {
					<-working
				}
				return result{}
			}))
			q.add(versionedPod(t, Added, "ns", "u", "1"), &source{}, true)
			synctest.Wait()
			q.wake(q.entries["u"])
			close(working)
			q.workers.Wait()
			if looks != 2 {
				t.Errorf("the object was looked at %d times, want twice", looks)
			}
		})
	})
	t.Run("a listing without an object ends what is remembered of it, even if its worker could not send everything", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			working := make(chan struct{})
			q := newQueue(0, quiet, reconcileFunc(func(e *entry, events []RawEvent) result {
				<-working
				e.state.handling.pendingFlush = &pendingFlush{}
				return result{}
			}))
			q.add(versionedPod(t, Added, "ns", "u", "1"), &source{}, true)
			synctest.Wait()
			q.forget("", false)
			again := &source{}
			q.beginListing(again)
			q.sweep(again)
			close(working)
			q.workers.Wait()
			if !q.empty() {
				t.Errorf("%d objects are remembered", len(q.entries))
			}
		})
	})
	t.Run("what a worker sends after its object was forgotten is not remembered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			working := make(chan struct{})
			q := newQueue(0, quiet, reconcileFunc(func(e *entry, events []RawEvent) result {
				e.state.handling.pendingFlush = &pendingFlush{}
				<-working
				e.state.handling.pendingFlush = nil
				return result{}
			}))
			q.add(versionedPod(t, Added, "ns", "u", "1"), &source{}, true)
			synctest.Wait()
			q.forget("", false)
			close(working)
			q.workers.Wait()
			if !q.empty() {
				t.Errorf("%d objects are remembered", len(q.entries))
			}
		})
	})
	t.Run("a barrier that opens while an object is about to wait for it does not keep it", func(t *testing.T) {
		calls := 0
		q := newQueue(0, quiet, reconcileFunc(func(*entry, []RawEvent) result {
			calls++
			return result{}
		}))
		q.barrier = &syncBarrier{}
		q.barrier.serve(q, true)
		q.barrier.add()
		q.add(versionedPod(t, Added, "ns", "u", "1"), &source{}, true)
		q.workers.Wait()
		e := q.entries["u"]
		if calls > 0 || !e.state.work.blocked {
			t.Fatalf("the object does not wait, after %d calls", calls)
		}
		e.state.work.working, e.state.work.blocked = true, false // the state after its worker has found the barrier closed
		q.barrier.done()
		if more := q.block(e, nil, epoch{}, result{}); !more {
			t.Fatal("the object waits for a barrier that is open")
		}
		if q.processNext(e); calls != 1 {
			t.Errorf("the object was handled %d times, want once", calls)
		}
	})
	t.Run("DF-13 what comes of a stream that was called off does not count", func(t *testing.T) {
		looks := 0
		q := newQueue(0, quiet, reconcileFunc(func(e *entry, events []RawEvent) result {
			looks++
			return result{}
		}))
		from := &source{namespace: "ns"}
		q.closeSource(from)
		q.forget("ns", false)
		q.add(versionedPod(t, Added, "ns", "u", "1"), from, true)
		q.workers.Wait()
		if _, settled, _, seen := q.lookupIdle(Modified, []byte("u"), []byte("1"), from); settled || !seen {
			t.Error("the stream may settle an object")
		}
		if looks > 0 || len(q.entries) > 0 {
			t.Errorf("%d objects are known, after %d looks", len(q.entries), looks)
		}
	})
}

// TestEpochs ends epochs while workers work in them.
func TestEpochs(t *testing.T) {
	body := func(t *testing.T, typ EventType, version string) RawEvent {
		return versionedPod(t, typ, "ns", "u", version)
	}
	tests := []struct {
		name string
		ends func(q *queue, from *source)
		want bool // whether the epoch is still current
		then int  // number of later reconciliations of the object
	}{
		{name: "nothing happens", ends: func(q *queue, from *source) {}, want: true},
		{name: "another event comes", ends: func(q *queue, from *source) { q.add(body(t, Modified, "2"), from, true) }, want: true, then: 1},
		{name: "the operator pauses", ends: func(q *queue, from *source) { q.pauser.Block("x", true) }},
		{name: "the operator has paused", ends: func(q *queue, from *source) {
			q.pauser.Block("x", true)
			q.pauser.Block("x", false)
			q.add(body(t, Modified, "2"), from, true) // of the earlier stream
			from = &source{}
			q.openSource(from, q.pauser.Epoch())
			q.add(body(t, Listed, "1"), from, true) // seen before the pause
		}, then: 1},
		{name: "it is not served any more", ends: func(q *queue, from *source) { q.forget("", true) }},
		{name: "it is served again", ends: func(q *queue, from *source) {
			q.forget("ns", false)
			q.add(body(t, Listed, "1"), from, true)
		}, then: 1},
		{name: "it is gone, and not served any more", ends: func(q *queue, from *source) {
			q.add(body(t, Deleted, "2"), from, true)
			q.forget("", true)
		}, then: 1},
		{name: "it is gone, and served again", ends: func(q *queue, from *source) {
			q.forget("", true)
			q.reportDeletions("")
			q.add(body(t, Listed, "1"), from, true)
		}, then: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &epochs{goOn: make(chan bool)}
				q := newQueue(0, slog.New(slog.DiscardHandler), h)
				q.pauser = &pauser.Pauser{}
				from := &source{}
				q.add(body(t, Added, "1"), from, true)
				synctest.Wait()
				e := q.entries["u"]
				tt.ends(q, from)
				if got := q.current(e, h.at[0]); got != tt.want {
					t.Errorf("the epoch goes on: %t, want %t", got, tt.want)
				}
				close(h.goOn)
				q.workers.Wait()
				if got := len(h.at) - 1; got != tt.then {
					t.Errorf("the object is reconciled %d times afterwards, want %d", got, tt.then)
				}
				for _, at := range h.at[1:] {
					if !q.current(e, at) && e.presence != gone {
						t.Errorf("the epoch %+v of an event that counts is over", at)
					}
				}
				if len(q.entries) > 1 || len(q.entries) == 1 && q.entries["u"] != e {
					t.Error("the object has another entry")
				}
			})
		})
	}
}

// epochs is a queue handler that records its epochs, and waits in the first one.
type epochs struct {
	at   []epoch
	goOn chan bool
}

func (*epochs) index(*entry, []RawEvent, epoch) result { return result{} }

func (h *epochs) reconcile(_ *entry, events []RawEvent, at epoch) result {
	h.at = append(h.at, at)
	<-h.goOn
	return result{gone: len(events) > 0 && events[len(events)-1].Type == Deleted}
}

func (*epochs) forget(*entry) {}

// reconcileFunc is a queue handler.
type reconcileFunc func(*entry, []RawEvent) result

func (reconcileFunc) index(*entry, []RawEvent, epoch) result                  { return result{} }
func (f reconcileFunc) reconcile(e *entry, events []RawEvent, _ epoch) result { return f(e, events) }
func (reconcileFunc) forget(*entry)                                           {}

func TestAwaits(t *testing.T) {
	pod := func(version string) RawEvent { return versionedPod(t, Modified, "ns", "u", version) }
	for _, tt := range []struct {
		name   string
		events func(q *queue, from *source)
		want   time.Duration
	}{
		{"nothing came for the timeout", func(q *queue, from *source) { time.Sleep(6 * time.Second) }, -time.Second}, // in a bubble, like the others
		{"something came lately", func(q *queue, from *source) { // in a bubble
			time.Sleep(4 * time.Second)
			q.add(pod("6"), from, false)
			time.Sleep(time.Second)
		}, 4 * time.Second},
		{"the same, without a worker", func(q *queue, from *source) { // in a bubble
			time.Sleep(4 * time.Second)
			q.lookupIdle(Modified, []byte("other"), []byte("6"), from)
			time.Sleep(time.Second)
		}, 4 * time.Second},
		{"the stream has passed the version", func(q *queue, from *source) { q.lookupIdle(Modified, []byte("other"), []byte("10"), from) }, 0},
		{"it lists again", func(q *queue, from *source) {
			q.lookupIdle(Modified, []byte("other"), []byte("10"), from)
			q.beginListing(from)
			q.lookupIdle(Listed, []byte("other"), []byte("10"), from)
		}, 5 * time.Second},
		{"it is closed", func(q *queue, from *source) { q.closeSource(from) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(0, slog.New(slog.DiscardHandler), reconcileFunc(func(*entry, []RawEvent) result { return result{} }))
				from := &source{}
				q.add(pod("5"), from, false)
				q.workers.Wait()
				tt.events(q, from)
				q.workers.Wait()
				if got := q.awaits(q.entries["u"], "9", 5*time.Second); got != tt.want {
					t.Errorf("it is awaited for %s, want %s", got, tt.want)
				}
				if got := q.awaits(q.entries["u"], "opaque", 5*time.Second); got != 0 {
					t.Errorf("a version that is no number is awaited for %s", got)
				}
			})
		})
	}
}
