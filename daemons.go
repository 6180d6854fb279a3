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

// This file runs daemons and timers. A task is one of them for one object. It has a goroutine while its function runs, and only a runtime timer while it
// waits. The object's worker starts and stops tasks.

// taskRunner runs the tasks of one resource's objects. It is an interface so that programs without daemons are linked without its implementation.
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
	functions context.Context // of the functions, which are stopped individually
	requests  context.Context // of the patches

	tasks sync.WaitGroup

	mu      sync.Mutex             // guards following
	objects map[string]*background // by key
	closed  bool
}

func newDaemons(o *observer, r *reactor) taskRunner {
	return &daemons{environment: &o.environment, owner: r, functions: context.WithoutCancel(o.handlers), requests: o.requests}
}

// backgroundOwner knows the objects with tasks.
type backgroundOwner interface {
	discoverer
	resource() Resource
	// argument makes the argument of a function for an object.
	argument(*Body, *slog.Logger) Object
	// trackedState returns the tracked fields of a state.
	trackedState(*Body) *Essence
	wake(*entry)
	// setLive stores further states of an object in the pointer, and reports whether the object is still served.
	setLive(*entry, *atomic.Pointer[Body]) bool
	// unsetLive undoes setLive when the object is gone or forgotten, and all its tasks have ended.
	unsetLive(*entry, *atomic.Pointer[Body])
	warnings() *boundedset.Set
}

// background holds the tasks of one object.
type background struct {
	engine *daemons
	entry  *entry
	live   atomic.Pointer[Body] // the newest state

	mu      sync.Mutex // guards following, and the fields of the tasks that are marked as the object's
	tasks   []*task
	ended   map[HandlerID]*failure // tasks that ended on their own; nil for success
	digest  uint64                 // of the last seen tracked fields
	changed time.Time              // when digest changed
	gone    bool                   // whether the object is gone or not served any more
	idle    chan struct{}          // closed when no task blocks the deletion any more; nil if there is no waiter
}

// getOrCreate returns the background of an object, and creates it if necessary.
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

// reattach records that the object is served again. It fails if the background has ended and is forgotten.
func (b *background) reattach() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone && len(b.tasks) == 0 {
		return false
	}
	if b.gone { // tasks that ended on their own begin again
		b.gone, b.ended = false, nil
	}
	return true
}

func (d *daemons) spawn(e *entry, handlers []*handler, o *Object, tracked *Essence) (held bool) {
	b := d.getOrCreate(e, o.Body)
	if !d.owner.setLive(e, &b.live) { // the object was forgotten meanwhile
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

// failed reports whether a daemon or a timer of an object has failed permanently, so that kopf does not call it, or only when the object changes.
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

func (d *daemons) get(e *entry) *background {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.objects[e.key]
}

// forget stops all tasks of an object that is gone or not served any more.
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

// forgetLocked forgets a gone object when its last task has ended.
func (b *background) forgetLocked() {
	if !b.gone || len(b.tasks) > 0 {
		return
	}
	b.engine.mu.Lock()
	delete(b.engine.objects, b.entry.key)
	b.engine.mu.Unlock()
	b.engine.owner.unsetLive(b.entry, &b.live)
}

// observe records a state of the object. A change of the tracked fields restarts the idle time of the timers.
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

// reconcile starts the missing tasks of an object, and stops those that do not match any more. It reports whether a task needs the finalizer.
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

// trackedDigest returns the digest of the tracked fields if a failed timer waits for their change, otherwise zero.
func (b *background) trackedDigest() uint64 {
	b.mu.Lock()
	waits := slices.ContainsFunc(slices.Collect(maps.Values(b.ended)), func(f *failure) bool { return f.waits() })
	b.mu.Unlock()
	if !waits {
		return 0
	}
	return b.engine.owner.trackedState(b.live.Load()).digest()
}

// endedLocked reports whether a task has ended on its own and must not restart. A permanently failed timer restarts when another client changes the object.
func (b *background) endedLocked(id HandlerID, now uint64) bool {
	f, ended := b.ended[id]
	if !f.waits() {
		return ended
	}
	return now == 0 || slices.Contains(f.states, now)
}

// spawnLocked starts a task. A backoff slows down a task that fails after each start, because the task itself may change the object.
func (b *background) spawnLocked(h *handler) {
	d := b.engine
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || !d.leader.leads() { // the next term reconciles the object again
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

// busyLocked reports whether running tasks block the deletion of the object.
func (b *background) busyLocked() bool {
	return slices.ContainsFunc(b.tasks, func(t *task) bool { return !t.abandoned && !t.handler.task.withoutFinalizer })
}

// waitIdle waits a short time for tasks to end after the request to stop, because most end at once. It reports whether all have ended.
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

// signalIdleLocked wakes the waiter when no task blocks the deletion any more.
func (b *background) signalIdleLocked() {
	if b.idle != nil && !b.busyLocked() {
		close(b.idle)
		b.idle = nil
	}
}

// stop requests all tasks of the object to stop.
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

// pause requests the tasks in a namespace, or in all, to stop until the operator resumes.
func (d *daemons) pause(namespace string) {
	for _, b := range d.all() {
		if namespace == "" || namespace == b.entry.namespace.name {
			b.stop(stopper.OperatorPausing)
		}
	}
}

// standBy requests all tasks to stop. In the next term, all start again, even those that ended on their own, because another replica has worked meanwhile.
func (d *daemons) standBy() {
	for _, b := range d.all() {
		b.mu.Lock()
		b.stopLocked(stopper.OperatorPausing)
		b.ended = nil
		b.mu.Unlock()
	}
}

// stop requests the tasks of all objects to stop. When the operator is exiting, it also prevents new tasks.
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

// wait waits until all tasks have ended or are abandoned, or until the context ends. It abandons and returns the remaining tasks.
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
