package kopf

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/boundedset"
	"github.com/kopf-go/kopf/internal/stopper"
)

// This file runs daemons and timers. A task is one of them for one object: it has a goroutine while its function
// runs, and only a timer of the runtime while it waits. The object's worker starts tasks and asks them to stop; what they do in
// between is their own business, under the lock of their object.

// taskRunner runs the tasks of the objects of one resource. It comes with the handlers, so that programs without any are linked without the daemons.
type taskRunner interface {
	spawn(e *entry, handlers []*handler, o *Object, tracked *Essence) (held bool)
	waitIdle(e *entry, limit time.Duration) bool
	failed(e *entry) bool
	forget(e *entry, reason stopper.Set)
	pause(namespace string)
	standBy()
	stop(reason stopper.Set)
	wait(ctx context.Context) (left []string)
}

type newTaskRunner func(*observer, *reactor) taskRunner

type daemons struct {
	*environment
	owner     backgroundOwner
	functions context.Context // of the functions, which are stopped one by one
	requests  context.Context // of the patches

	tasks sync.WaitGroup

	mu      sync.Mutex             // guards following
	objects map[string]*background // by key
	closed  bool
}

func newDaemons(o *observer, r *reactor) taskRunner {
	return &daemons{environment: &o.environment, owner: r, functions: context.WithoutCancel(o.handlers), requests: o.requests}
}

// backgroundOwner is what knows the objects that have tasks.
type backgroundOwner interface {
	discoverer
	resource() Resource
	// argument makes what functions get of an object.
	argument(*Body, *slog.Logger) Object
	// trackedState returns what of a state counts as a change.
	trackedState(*Body) *Essence
	// wake has an object reconciled again.
	wake(*entry)
	// setLive has the newest states of an object stored, and reports whether the object is still served.
	setLive(*entry, *atomic.Pointer[Body]) bool
	// unsetLive ends that, when the object was forgotten or is gone and nothing runs for it any more.
	unsetLive(*entry, *atomic.Pointer[Body])
	warnings() *boundedset.Set
}

// background is what runs alongside the handlers of one object.
type background struct {
	engine *daemons
	entry  *entry
	live   atomic.Pointer[Body] // the newest state

	mu      sync.Mutex // guards following, and the fields of the tasks that are marked as the object's
	tasks   []*task
	ended   map[HandlerID]*failure // those that have ended without having been asked to; nil for success, which is permanent
	digest  uint64                 // of what was last known to matter
	changed time.Time              // when that was seen
	gone    bool                   // whether the object is not there or not served any more
	idle    chan struct{}          // closed when nothing holds the object any more; nil if nothing waits for it
}

// getOrCreate returns the background of an object, which is made at the first time.
func (d *daemons) getOrCreate(e *entry, body *Body) *background {
	for {
		d.mu.Lock()
		b := d.objects[e.key]
		if b == nil {
			b = &background{engine: d, entry: e, changed: time.Now()}
			b.live.Store(body)
			if d.objects == nil {
				d.objects = make(map[string]*background)
			}
			d.objects[e.key] = b
			d.mu.Unlock()
			return b
		}
		d.mu.Unlock()
		if b.reattach() {
			return b
		}
	}
}

// reattach notes that the object is served, perhaps again. It fails if the background has ended and was forgotten.
func (b *background) reattach() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone && len(b.tasks) == 0 {
		return false
	}
	if b.gone { // what has ended on its own is to begin again
		b.gone, b.ended = false, nil
	}
	return true
}

func (d *daemons) spawn(e *entry, handlers []*handler, o *Object, tracked *Essence) (held bool) {
	b := d.getOrCreate(e, o.Body)
	if !d.owner.setLive(e, &b.live) { // it was forgotten meanwhile
		d.forget(e, stopper.FiltersMismatch)
		return false
	}
	if apirequest.NewerVersion(o.Body.version, b.live.Load().version) {
		b.live.Store(o.Body)
	}
	if tracked != nil {
		b.observe(tracked.digest(), time.Now())
	}
	return b.reconcile(handlers, o)
}

func (d *daemons) waitIdle(e *entry, limit time.Duration) bool {
	b := d.get(e)
	return b == nil || b.waitIdle(limit)
}

// failed reports whether a timer of an object has failed permanently, and is not called again until the object changes.
func (d *daemons) failed(e *entry) bool {
	b := d.get(e)
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.ended {
		if f != nil && !f.over {
			return true
		}
	}
	return false
}

// get returns the background of an object, nil if there is none.
func (d *daemons) get(e *entry) *background {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.objects[e.key]
}

// forget stops all that runs for an object that is not there or not served any more.
func (d *daemons) forget(e *entry, reason stopper.Set) {
	b := d.get(e)
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopLocked(reason)
	b.gone = true
	b.forgetLocked()
}

// forgetLocked forgets an object that is gone, when nothing runs for it any more.
func (b *background) forgetLocked() {
	if !b.gone || len(b.tasks) > 0 {
		return
	}
	b.engine.mu.Lock()
	delete(b.engine.objects, b.entry.key)
	b.engine.mu.Unlock()
	b.engine.owner.unsetLive(b.entry, &b.live)
}

// observe notes a state of the object: if it differs in what matters from the one before, the timers' idle time begins anew.
func (b *background) observe(digest uint64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.digest == digest {
		return
	}
	b.digest, b.changed = digest, now
	for _, t := range b.tasks {
		if t.waiting && t.due.IsZero() { // it waits for a change
			t.waitLocked(t.handler.task.idle)
		}
	}
}

// reconcile starts the tasks that an object is to have, and asks the others to stop. It reports whether the object has to be
// held for any of them.
func (b *background) reconcile(handlers []*handler, o *Object) (held bool) {
	reason := stopper.FiltersMismatch
	if o.Body.Deleting() {
		reason, handlers = stopper.ResourceDeleted, nil
	}
	// Without the lock, because both call functions of users.
	matching := slices.DeleteFunc(slices.Clone(handlers), func(h *handler) bool { return !h.matchesObject(o) })
	now := b.trackedDigest()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return b.busyLocked()
	}
	wanted := make(map[HandlerID]bool, len(matching))
	for _, h := range matching {
		if wanted[h.id] || b.endedLocked(h.id, now) {
			continue
		}
		wanted[h.id] = true
		held = held || !h.task.withoutFinalizer
		if !slices.ContainsFunc(b.tasks, func(t *task) bool { return t.handler.id == h.id }) {
			b.spawnLocked(h)
		}
	}
	for _, t := range slices.Clone(b.tasks) {
		if !wanted[t.handler.id] {
			t.requestLocked(reason)
		}
	}
	for id, f := range b.ended {
		if f != nil {
			f.over = !slices.ContainsFunc(matching, func(h *handler) bool { return h.id == id })
		}
	}
	return held || b.busyLocked()
}

// trackedDigest returns the digest of what is tracked of the object now, if a timer has failed and waits for that to change; zero otherwise.
func (b *background) trackedDigest() uint64 {
	b.mu.Lock()
	waits := slices.ContainsFunc(slices.Collect(maps.Values(b.ended)), func(f *failure) bool { return f != nil })
	b.mu.Unlock()
	if !waits {
		return 0
	}
	return b.engine.owner.trackedState(b.live.Load()).digest()
}

// endedLocked reports whether a task has ended by itself and is not to begin again: a timer that has failed permanently
// begins again when another client has changed the object since its last call.
func (b *background) endedLocked(id HandlerID, now uint64) bool {
	f, ended := b.ended[id]
	if f == nil {
		return ended
	}
	return now == 0 || slices.Contains(f.states, now)
}

// spawnLocked starts a task. One that fails each time it begins again slows down, as it may be what changes the object.
func (b *background) spawnLocked(h *handler) {
	d := b.engine
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || !d.leader.leads() { // in the next term, the object is looked at again
		return
	}
	t := &task{object: b, memory: &b.entry.state.memory, handler: h, failed: b.ended[h.id], functions: d.functions, requests: d.requests}
	if d.leader != nil {
		term := d.leader.contexts(d.leader.term())
		t.functions, t.requests = term.tasks, term.requests
	}
	delete(b.ended, h.id)
	b.tasks = append(b.tasks, t)
	t.count(1)
	d.tasks.Add(1)
	wait := time.Duration(0)
	if t.failed != nil {
		wait = d.settings.Execution.retryDelay(0, t.failed.times)
	}
	t.waitLocked(wait)
}

// busyLocked reports whether the object is held for tasks that have not ended.
func (b *background) busyLocked() bool {
	return slices.ContainsFunc(b.tasks, func(t *task) bool { return !t.abandoned && !t.handler.task.withoutFinalizer })
}

// waitIdle gives the tasks a little time to end after they were asked to: most of them do at once. It reports whether they have.
func (b *background) waitIdle(limit time.Duration) bool {
	b.mu.Lock()
	if !b.busyLocked() {
		b.mu.Unlock()
		return true
	}
	idle := make(chan struct{})
	b.idle = idle
	b.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-idle:
		return true
	case <-t.C:
		return false
	}
}

// signalIdleLocked wakes what waits for the time when nothing holds the object any more.
func (b *background) signalIdleLocked() {
	if b.idle != nil && !b.busyLocked() {
		close(b.idle)
		b.idle = nil
	}
}

// stop asks all tasks of the object to stop.
func (b *background) stop(reason stopper.Set) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopLocked(reason)
}

func (b *background) stopLocked(reason stopper.Set) {
	for _, t := range slices.Clone(b.tasks) {
		t.requestLocked(reason)
	}
}

// pause asks the tasks of the objects of a namespace, or of all, to stop until the operator works again.
func (d *daemons) pause(namespace string) {
	for _, b := range d.all() {
		if namespace == "" || namespace == b.entry.namespace.name {
			b.stop(stopper.OperatorPausing)
		}
	}
}

// standBy asks all tasks to stop. All begin again in the next term, also those that have ended on their own: another replica has worked meanwhile.
func (d *daemons) standBy() {
	for _, b := range d.all() {
		b.mu.Lock()
		b.stopLocked(stopper.OperatorPausing)
		b.ended = nil
		b.mu.Unlock()
	}
}

// stop asks the tasks of all objects to stop. If the operator is exiting, no new ones are started.
func (d *daemons) stop(reason stopper.Set) {
	d.mu.Lock()
	d.closed = d.closed || reason == stopper.OperatorExiting
	d.mu.Unlock()
	for _, b := range d.all() {
		b.stop(reason)
	}
}

func (d *daemons) all() []*background {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.objects))
}

// wait waits until all tasks have ended or are abandoned, and the context has not. It returns those left, which are abandoned.
func (d *daemons) wait(ctx context.Context) (left []string) {
	if await.For(ctx, &d.tasks, 0) {
		return nil
	}
	d.leader.abandonAll(&d.tasks)
	for _, b := range d.all() {
		b.mu.Lock()
		for _, t := range b.tasks {
			left = append(left, fmt.Sprintf("%s in %s", b.live.Load().Reference(), t.name()))
		}
		b.mu.Unlock()
	}
	return left
}
