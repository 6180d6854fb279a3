package livepage

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/inspection"
)

// Calls tracks the running calls of handlers, and the handlers to retry after errors. It is safe for concurrent use. Nil tracks nothing.
type Calls struct {
	stacks bool

	mu      sync.Mutex // guards following
	running map[*Running]struct{}
	retries map[string][]*Retry // by the key of the object
	kept    int                 // total length of the retries
	swept   time.Time           // time of the last removal of outdated retries
}

// NewCalls returns an empty tracker. With stacks, it records which goroutine a call runs on.
func NewCalls(stacks bool) *Calls {
	return &Calls{stacks: stacks, running: make(map[*Running]struct{}), retries: make(map[string][]*Retry)}
}

// Running is a running call.
type Running struct {
	calls     *Calls
	key       string
	call      Call
	kind      Kind
	goroutine []byte // start of its stack trace; nil without stacks, and before Enter
}

// Kind says how the calls of a handler are tracked.
type Kind int

// The kinds of calls.
const (
	Ordinary Kind = iota // of a handler that the object's worker calls
	Apart                // of a timer or an event handler: the worker does not know whether there is a retry
	Endless              // of a daemon: its duration has no meaning
)

// Begin records the start of a call.
func (c *Calls) Begin(key string, object *inspection.Object, handler string, kind Kind) *Running {
	if c == nil {
		return nil
	}
	r := &Running{calls: c, key: key, call: Call{Object: object, Handler: handler, Since: time.Now().UTC()}, kind: kind}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[r] = struct{}{}
	return r
}

// Enter records the goroutine of the call, which calls it.
func (r *Running) Enter() {
	if r == nil || !r.calls.stacks {
		return
	}
	var head [64]byte
	text := head[:runtime.Stack(head[:], false)]
	if i := bytes.IndexByte(text, '['); i > 0 { // "goroutine 7 [running]:"
		r.calls.mu.Lock()
		defer r.calls.mu.Unlock()
		r.goroutine = bytes.Clone(text[:i+1])
	}
}

// End records the end of the call. A retry after an error is kept until the next call ends, or until the object is settled or forgotten.
func (r *Running) End(again bool, attempts int, next time.Time, err error) {
	if r == nil {
		return
	}
	c := r.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, r)
	if again {
		c.setLocked(r.key, &Retry{Object: r.call.Object, Handler: r.call.Handler, Attempts: attempts, Next: next.UTC(), Error: cut.End(err.Error(), maxError), apart: r.kind != Ordinary})
	} else {
		c.dropLocked(r.key, func(t *Retry) bool { return t.Handler == r.call.Handler })
	}
}

// Pause records that an object is delayed because of an error outside of handlers.
func (c *Calls) Pause(key string, object *inspection.Object, next time.Time, why string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setLocked(key, &Retry{Object: object, Next: next.UTC(), Error: cut.End(why, maxError)})
}

// Settle records which ordinary handlers of an object will be retried after an error. The last argument has details about the change handlers.
func (c *Calls) Settle(key string, handlers []string, now []*Retry) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(key, func(t *Retry) bool {
		return t.Handler != "" && !t.apart && !slices.Contains(handlers, t.Handler) || t.Next.Before(time.Now())
	})
	for _, t := range now {
		t.Error = cut.End(t.Error, maxError)
		c.setLocked(key, t)
	}
}

// Stop records that a handler will not be called again for an object.
func (c *Calls) Stop(key, handler string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(key, func(t *Retry) bool { return t.Handler == handler })
}

// Forget removes an object.
func (c *Calls) Forget(key string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(key, func(*Retry) bool { return true })
}

func (c *Calls) setLocked(key string, t *Retry) {
	c.dropLocked(key, func(old *Retry) bool { return old.Handler == t.Handler })
	if now := time.Now(); c.kept >= maxKept && now.Sub(c.swept) >= interval { // there are no viewers, whose snapshots would do it
		c.dropOutdatedLocked(now)
	}
	if c.kept < maxKept {
		c.kept++
		c.retries[key] = append(c.retries[key], t)
	}
}

func (c *Calls) dropLocked(key string, drop func(*Retry) bool) {
	all := c.retries[key]
	if len(all) == 0 {
		return
	}
	left := slices.DeleteFunc(all, drop)
	c.kept -= len(all) - len(left)
	if c.retries[key] = left; len(left) == 0 {
		delete(c.retries, key)
	}
}

// fill adds the running calls and the retries to a state.
func (c *Calls) fill(s *State) {
	c.mu.Lock()
	for r := range c.running {
		if r.kind != Endless {
			s.Calls = append(s.Calls, &r.call)
		}
	}
	c.dropOutdatedLocked(s.Time)
	for _, all := range c.retries {
		s.Retries = append(s.Retries, all...)
	}
	c.mu.Unlock()
	slices.SortFunc(s.Calls, func(a, b *Call) int { return a.Since.Compare(b.Since) })
	slices.SortFunc(s.Retries, func(a, b *Retry) int { return a.Next.Compare(b.Next) })
	s.Calls, s.Retries = bounded(s, "calls", s.Calls, maxCalls), bounded(s, "retries", s.Retries, maxRows)
}

// dropOutdatedLocked drops overdue retries, and pauses that have ended.
func (c *Calls) dropOutdatedLocked(now time.Time) {
	c.swept = now
	outdated := now.Add(-keptAfter)
	for key := range c.retries {
		c.dropLocked(key, func(t *Retry) bool { return t.Next.Before(outdated) || t.Handler == "" && t.Next.Before(now) })
	}
}

// Of adds the running calls of an object to its state, with their stack traces if requested and known.
func (c *Calls) Of(key string, stacks bool, o *ObjectState) {
	var goroutines [][]byte
	c.mu.Lock()
	for r := range c.running {
		if r.key == key {
			call := r.call // a copy that gets the stack trace
			o.Running, goroutines = append(o.Running, &call), append(goroutines, r.goroutine)
		}
	}
	o.Records = append(o.Records, c.retries[key]...)
	c.mu.Unlock()
	switch {
	case stacks && !c.stacks:
		o.Notes = append(o.Notes, "The stacks of running handlers are not served: --page-stacks switches them on")
	case stacks && len(o.Running) > 0:
		all := allStacks()
		for i, g := range goroutines {
			o.Running[i].Stack = stackOf(all, g)
		}
	}
}

// maxStacks is the maximum size of all stack traces, in bytes.
const maxStacks = 8 << 20

// allStacks returns the stack traces of all goroutines, up to the maximum size.
func allStacks() []byte {
	for size := 1 << 16; ; size *= 2 {
		b := make([]byte, size)
		if n := runtime.Stack(b, true); n < size || size >= maxStacks {
			return b[:n]
		}
	}
}

// stackOf finds the stack trace with a header, or returns "".
func stackOf(all, head []byte) string {
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		if len(head) > 0 && strings.HasPrefix(stack, string(head)) {
			return stack
		}
	}
	return ""
}
