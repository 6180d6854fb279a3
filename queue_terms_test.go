package kopf

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/leaderelection"
	"github.com/kopf-go/kopf/internal/pauser"
)

// reportingHandler delays the reconciliation of a deletion.
type reportingHandler struct {
	q     *queue
	began chan struct{}
	goOn  chan struct{}
}

func (h *reportingHandler) index(*entry, []RawEvent, epoch) result { return result{} }
func (h *reportingHandler) reconcile(e *entry, events []RawEvent, at epoch) result {
	if len(events) == 0 || events[len(events)-1].Type != Deleted {
		return result{}
	}
	h.began <- struct{}{} // like a slow event handler
	<-h.goOn
	if !h.q.current(e, at) { // as in cycle.drop
		return result{unreported: true}
	}
	return result{gone: true}
}
func (h *reportingHandler) forget(*entry) {}

// TestLossWhileADeletionIsReported deletes an object. During the call of its event handler, its namespace is forgotten and the Lease is lost.
func TestLossWhileADeletionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leadership{}
		h := &reportingHandler{began: make(chan struct{}), goOn: make(chan struct{})}
		q := newQueue(0, slog.New(slog.DiscardHandler), h)
		h.q, q.leader, q.pauser = q, l, &pauser.Pauser{}
		from := &source{}
		ev := versionedPod(t, Added, "ns", "u", "1")
		q.add(ev, from, true)
		q.workers.Wait()
		ev = versionedPod(t, Deleted, "ns", "u", "2")
		q.add(ev, from, true)
		<-h.began
		q.forget("ns", true)
		l.standby.Block("standby", true) // the Lease is lost
		q.standBy()
		close(h.goOn)
		q.workers.Wait() // a panic of the worker would end the process
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.entries) > 0 {
			t.Errorf("%d objects that are gone are remembered", len(q.entries))
		}
	})
}

// TestLateCheckSparesTheNextTerm lets a goroutine find the Lease expired, but end the term only after the next one has begun, as in a slow process. The
// replica must not hold and renew the Lease without working.
func TestLateCheckSparesTheNextTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leadership{log: slog.New(slog.DiscardHandler)}
		l.elector = &leaderelection.Elector{Config: leaderelection.Config{
			Namespace: "default", Name: "l", Identity: "a", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			Leases: releasedLeases{}, Log: l.log,
		}}
		begin := func(number uint64) context.Context { // as in leadership.begin and startLeading
			if _, err := l.elector.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancelCause(context.Background())
			l.terms = termContexts{handlers: ctx, tasks: ctx, requests: ctx, end: end}
			l.fence.Store(number)
			l.standby.Block("standby", false)
			return ctx
		}
		l.standby.Block("standby", true)
		begin(7)
		time.Sleep(11 * time.Second) // the process was stopped
		l.mu.Lock()
		checked := make(chan error, 1)
		go func() { checked <- l.check() }() // of a handler, which waits for the lock
		for !runs((*leadership).endTerm) {
			runtime.Gosched() // until it has found the Lease expired
		}
		l.standby.Block("standby", true) // as in endTerm, on the faster goroutine of the election
		l.fence.Store(0)
		l.terms.end(ErrLeadershipLost)
		ctx := begin(8) // no other replica has taken the Lease meanwhile
		l.mu.Unlock()
		<-checked
		if ctx.Err() != nil || l.number() != 8 || !l.leads() {
			t.Errorf("the Lease is held and renewed, but the term has ended: cause %v, fence %d, leads %t", context.Cause(ctx), l.number(), l.leads())
		}
	})
}

// runs reports whether a goroutine has entered the function.
func runs(function any) bool {
	name := runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(name+"("))
}

// retryingHandler leaves objects that are due much later, as after a temporary error.
type retryingHandler struct{ liveHandler }

func (h *retryingHandler) reconcile(e *entry, events []RawEvent, at epoch) result {
	_ = h.liveHandler.reconcile(e, events, at)
	return result{requeue: true, requeueAfter: time.Hour}
}

// TestRetriesAtTheEndOfATerm ends the term while workers end with a retry. Those objects must wait for the next term like all others, where their daemons
// start at once.
func TestRetriesAtTheEndOfATerm(t *testing.T) {
	missed := 0
	const rounds, objects = 500, 200
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8)) // the window is small
	for round := range rounds {
		l := &leadership{}
		h := &retryingHandler{liveHandler: liveHandler{seen: make(map[string]int)}}
		q := newQueue(0, slog.New(slog.DiscardHandler), h)
		h.q, q.leader = q, l
		from := &source{}
		var events []RawEvent
		for i := range objects {
			events = append(events, versionedPod(t, Added, "ns", fmt.Sprint("u", i), fmt.Sprint(round+1)))
		}
		var began atomic.Bool
		var tasks sync.WaitGroup
		tasks.Go(func() {
			for i, ev := range events {
				if i == objects/2 {
					began.Store(true)
				}
				q.add(ev, from, false)
			}
		})
		tasks.Go(func() {
			for !began.Load() {
				runtime.Gosched()
			}
			l.standby.Block("standby", true)
			q.standBy()
		})
		tasks.Wait()
		working := func() (n int) {
			q.mu.Lock()
			defer q.mu.Unlock()
			for _, e := range q.entries {
				if e.state != nil && e.state.work.working {
					n++
				}
			}
			return n
		}
		for working() > 0 {
			runtime.Gosched()
		}
		q.mu.Lock()
		for _, e := range q.entries {
			if e.state != nil && !e.state.work.blocked {
				missed++
			}
		}
		q.mu.Unlock()
		q.close()
		q.workers.Wait()
	}
	if missed > 0 {
		t.Errorf("%d of %d objects do not wait for the next term, but for the end of an hour", missed, rounds*objects)
	}
}
