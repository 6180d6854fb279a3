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

// Calls knows which calls of handlers are under way, and which handlers are to be called again after errors. It is for any goroutine; nil knows nothing, and costs nothing.
type Calls struct {
	stacks bool

	mu      sync.Mutex // guards following
	running map[*Running]struct{}
	retries map[string][]*Retry // by the key of the object
	kept    int                 // in all of them
	swept   time.Time           // when those were dropped last whose time is long over
}

// NewCalls returns what knows the calls, and where they are in the source if that is wanted.
func NewCalls(stacks bool) *Calls {
	return &Calls{stacks: stacks, running: make(map[*Running]struct{}), retries: make(map[string][]*Retry)}
}

// Running is a call under way.
type Running struct {
	calls     *Calls
	key       string
	call      Call
	kind      Kind
	goroutine []byte // the beginning of its stack; nil if that is not wanted
}

// Kind is what is known of the calls of a handler.
type Kind int

// The kinds of calls.
const (
	Ordinary Kind = iota // of a handler that the worker of the object calls
	Apart                // of a timer, or for an event: the worker does not know whether it is to be called again
	Endless              // of a daemon: how long it runs says nothing
)

// Begin notes that a handler is called, on the goroutine of the call.
func (c *Calls) Begin(key string, object *inspection.Object, handler string, kind Kind) *Running {
	if c == nil {
		return nil
	}
	r := &Running{calls: c, key: key, call: Call{Object: object, Handler: handler, Since: time.Now().UTC()}, kind: kind}
	if c.stacks {
		var head [64]byte
		text := head[:runtime.Stack(head[:], false)]
		if i := bytes.IndexByte(text, '['); i > 0 { // "goroutine 7 [running]:"
			r.goroutine = bytes.Clone(text[:i+1])
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[r] = struct{}{}
	return r
}

// End notes that the call has ended. If it is made again after an error, that is kept until the next call ends, or the object is settled or forgotten.
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

// Pause notes that an object is looked at again later, because of an error that is of no handler.
func (c *Calls) Pause(key string, object *inspection.Object, next time.Time, why string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setLocked(key, &Retry{Object: object, Next: next.UTC(), Error: cut.End(why, maxError)})
}

// Settle notes which ordinary handlers of an object are to be called again after an error, and more about those of changes.
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

// Stop notes that a handler is not called again for an object.
func (c *Calls) Stop(key, handler string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(key, func(t *Retry) bool { return t.Handler == handler })
}

// Forget forgets an object.
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
	if now := time.Now(); c.kept >= maxKept && now.Sub(c.swept) >= interval { // as there are no viewers
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

// fill fills in what is under way, and what is to be called again.
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

// dropOutdatedLocked drops what was to be called again and was not, and the pauses that are over.
func (c *Calls) dropOutdatedLocked(now time.Time) {
	c.swept = now
	outdated := now.Add(-keptAfter)
	for key := range c.retries {
		c.dropLocked(key, func(t *Retry) bool { return t.Next.Before(outdated) || t.Handler == "" && t.Next.Before(now) })
	}
}

// Of fills in what is under way for an object, with the stacks of the calls if they are wanted and known.
func (c *Calls) Of(key string, stacks bool, o *ObjectState) {
	var goroutines [][]byte
	c.mu.Lock()
	for r := range c.running {
		if r.key == key {
			call := r.call // which gets its stack
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

// maxStacks is how many bytes of stacks are looked through.
const maxStacks = 8 << 20

// allStacks returns the stacks of all goroutines, as far as they fit.
func allStacks() []byte {
	for size := 1 << 16; ; size *= 2 {
		b := make([]byte, size)
		if n := runtime.Stack(b, true); n < size || size >= maxStacks {
			return b[:n]
		}
	}
}

// stackOf returns the stack among others that has a beginning; "" if there is none.
func stackOf(all, head []byte) string {
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		if len(head) > 0 && strings.HasPrefix(stack, string(head)) {
			return stack
		}
	}
	return ""
}
