package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kopf-go/kopf/internal/stopper"
)

// This file is where daemons and timers are registered, with their options.

// DaemonOptions are the options of daemons. Zero values mean the defaults.
type DaemonOptions struct {
	// ID names the daemon; its result is stored under it. Defaults to the name of the function. A slash and the path of the
	// Field are appended.
	ID HandlerID
	// Where narrows the selector down to the resources for which it returns true. Defaults to all.
	Where func(Resource) bool
	// Labels and Annotations say which ones the object must have. Default to any.
	Labels, Annotations Match
	// When says whether the daemon is to run, by looking at all of the object. It is asked at each event of the object. Defaults to always.
	When func(*Daemon) bool
	// Field is the path of a field that must be present, in the spec, the status, or anywhere else. Defaults to none.
	Field FieldPath
	// Value is what the Field must be: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool.
	// Defaults to Present.
	Value any
	// Param is handed to the daemon as it is. Defaults to nil.
	Param any
	// Errors says what becomes of errors that are neither temporary nor permanent. Defaults to [ErrorsTemporary].
	Errors ErrorsMode
	// Timeout limits the time from the first attempt, over all attempts, in memory only: a restart of the operator begins anew. The
	// context of the running attempt ends with the Timeout. Zero means no limit.
	Timeout time.Duration
	// Retries is the number of attempts. Zero means no limit.
	Retries int
	// Backoff is the pause after an error that is neither temporary nor permanent. Defaults to
	// [ExecutionSettings.DefaultBackoff].
	Backoff time.Duration
	// InitialDelay is how long to wait before the first call. Defaults to none.
	InitialDelay time.Duration
	// InitialDelayFunc computes the InitialDelay of an object. It cannot be combined with a fixed one. Defaults to none.
	InitialDelayFunc func(*Object) time.Duration
	// CancellationBackoff is how long a daemon that is asked to stop may go on before its context ends, too. Defaults to
	// none: the context ends at once.
	CancellationBackoff time.Duration
	// CancellationTimeout is how long a daemon whose context has ended is waited for. Then it is abandoned, with a warning: the object is
	// not held for it any more. Zero means to wait for ever, and at the exit of the operator [BackgroundSettings.ExitTimeout].
	CancellationTimeout time.Duration
	// CancellationPolling is how often it is logged that the daemon is still exiting. Defaults to
	// [BackgroundSettings.CancellationPolling].
	CancellationPolling time.Duration
	// WithoutFinalizer tells not to hold the object by the finalizer for this daemon. The daemon is then
	// stopped after the object has gone, and finds nothing when it looks for it. Defaults to false.
	WithoutFinalizer bool
}

// TimerOptions are the options of timers. Zero values mean the defaults.
type TimerOptions struct {
	// ID names the timer; its result is stored under it. Defaults to the name of the function. A slash and the path of the
	// Field are appended.
	ID HandlerID
	// Where narrows the selector down to the resources for which it returns true. Defaults to all.
	Where func(Resource) bool
	// Labels and Annotations say which ones the object must have. Default to any.
	Labels, Annotations Match
	// When says whether the timer is to run, by looking at all of the object. It is asked at each event of the object. Defaults to always.
	When func(*Timer) bool
	// Field is the path of a field that must be present, in the spec, the status, or anywhere else. Defaults to none.
	Field FieldPath
	// Value is what the Field must be: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool.
	// Defaults to Present.
	Value any
	// Param is handed to the timer as it is. Defaults to nil.
	Param any
	// Errors says what becomes of errors that are neither temporary nor permanent. Defaults to [ErrorsTemporary].
	Errors ErrorsMode
	// Timeout limits the time from the first attempt until a success, in memory only: a restart of the operator begins anew. The
	// context of the running attempt ends with the Timeout. Zero means no limit.
	Timeout time.Duration
	// Retries is the number of attempts until a success. Zero means no limit.
	Retries int
	// Backoff is the pause after an error that is neither temporary nor permanent. Defaults to
	// [ExecutionSettings.DefaultBackoff].
	Backoff time.Duration
	// InitialDelay is how long to wait before the first call. Defaults to none.
	InitialDelay time.Duration
	// InitialDelayFunc computes the InitialDelay of an object. It cannot be combined with a fixed one. Defaults to none.
	InitialDelayFunc func(*Object) time.Duration
	// Jitter is a random time, up to this one, that is added to the InitialDelay, so that the timers of many
	// objects do not fire together after a restart. Defaults to none.
	Jitter time.Duration
	// Interval is the time from the end of a call to the beginning of the next one. Zero means one call, or with Idle one call after each
	// change. Otherwise it is at least one millisecond.
	Interval time.Duration
	// Sharp counts the Interval from beginning to beginning: the calls stay on the grid of the first one, and what would overlap
	// is left out. Defaults to false.
	Sharp bool
	// Idle is how long the object must have been unchanged before a call; its status does not count as a change. The first sight of the object
	// counts as one. Zero means not to look at changes.
	Idle time.Duration
	// WithoutFinalizer tells not to hold the object by the finalizer for this timer. The timer is then
	// stopped after the object has gone. Defaults to false.
	WithoutFinalizer bool
}

// OnDaemon registers a daemon in the default registry. See [Registry.OnDaemon].
func OnDaemon(s Selector, fn DaemonFunc, opts *DaemonOptions) {
	must(kindDaemon, DefaultRegistry().onDaemon(s, fn, opts))
}

// OnTimer registers a timer in the default registry. See [Registry.OnTimer].
func OnTimer(s Selector, fn TimerFunc, opts *TimerOptions) {
	must(kindTimer, DefaultRegistry().onTimer(s, fn, opts))
}

// OnDaemon registers a function that runs alongside each object of the selected resources, as long as the object exists
// and matches. The object is held by the finalizer until the function has returned. It panics as [Registry.OnEvent] does.
func (r *Registry) OnDaemon(s Selector, fn DaemonFunc, opts *DaemonOptions) {
	must(kindDaemon, r.onDaemon(s, fn, opts))
}

// OnTimer registers a function that is called by the clock for each object of the selected resources, as long as the object
// exists and matches. The object is held by the finalizer until the function has returned. It panics as [Registry.OnEvent] does.
func (r *Registry) OnTimer(s Selector, fn TimerFunc, opts *TimerOptions) {
	must(kindTimer, r.onTimer(s, fn, opts))
}

func (r *Registry) onDaemon(s Selector, fn DaemonFunc, opts *DaemonOptions) error {
	o := optionsOf(opts)
	h := &handler{
		kind: kindDaemon, field: o.Field.Keys(), param: o.Param,
		retry: retryPolicy{errors: cmp.Or(o.Errors, ErrorsTemporary), timeout: o.Timeout, retries: o.Retries, backoff: o.Backoff},
		task: &taskSpec{
			runner: newDaemons, daemon: fn, delay: o.InitialDelay, delayOf: o.InitialDelayFunc, withoutFinalizer: o.WithoutFinalizer,
			backoff: o.CancellationBackoff, timeout: o.CancellationTimeout, pollInterval: o.CancellationPolling,
		},
	}
	if when := o.When; when != nil {
		h.filters.whenObject = func(o *Object) bool { return when(&Daemon{Object: *o}) }
	}
	return r.addObjectHandler(h, s, o.Where, o.ID, fn, o.Labels, o.Annotations, o.Value)
}

func (r *Registry) onTimer(s Selector, fn TimerFunc, opts *TimerOptions) error {
	o := optionsOf(opts)
	if o.Sharp && o.Interval == 0 {
		return fmt.Errorf("the option Sharp needs an Interval")
	}
	h := &handler{
		kind: kindTimer, field: o.Field.Keys(), param: o.Param,
		retry: retryPolicy{errors: cmp.Or(o.Errors, ErrorsTemporary), timeout: o.Timeout, retries: o.Retries, backoff: o.Backoff},
		task: &taskSpec{
			runner: newDaemons, timer: fn, delay: o.InitialDelay, delayOf: o.InitialDelayFunc, jitter: o.Jitter, withoutFinalizer: o.WithoutFinalizer,
			interval: o.Interval, idle: o.Idle, sharp: o.Sharp,
		},
	}
	if when := o.When; when != nil {
		h.filters.whenObject = func(o *Object) bool { return when(&Timer{Object: *o}) }
	}
	return r.addObjectHandler(h, s, o.Where, o.ID, fn, o.Labels, o.Annotations, o.Value)
}

// addObjectHandler completes and adds a handler that looks at the current object alone.
func (r *Registry) addObjectHandler(h *handler, s Selector, where func(Resource) bool, id HandlerID, fn any, labels, annotations Match, value any) error {
	var err error
	if h.selector, err = s.spec(where); err != nil {
		return err
	}
	if err := h.checkLimits(); err != nil {
		return err
	}
	if h.task != nil {
		if err := h.task.check(); err != nil {
			return err
		}
	}
	if err := h.identify(id, fn); err != nil {
		return err
	}
	if err := h.filter(labels, annotations, value, nil, nil); err != nil {
		return err
	}
	return r.add(h)
}

// StopReason is why a daemon or a timer is asked to stop.
type StopReason string

const (
	// StopFiltersMismatch is that the object does not match the filters of the handler any more.
	StopFiltersMismatch StopReason = "FiltersMismatch"
	// StopResourceDeleted is that the object is being deleted, or is gone.
	StopResourceDeleted StopReason = "ResourceDeleted"
	// StopOperatorPausing is that the operator pauses in favor of another one. After a loss of the Lease of [LeaderElectionSettings], contexts end before it, with the
	// cause [ErrLeadershipLost].
	StopOperatorPausing StopReason = "OperatorPausing"
	// StopOperatorExiting is that the operator shuts down.
	StopOperatorExiting StopReason = "OperatorExiting"
)

// DaemonStopped is the cause, as of [context.Cause], for which the context of a daemon or timer has ended.
type DaemonStopped struct {
	// Reason is why it was asked to stop.
	Reason StopReason
}

// Error says why the daemon is asked to stop.
func (e *DaemonStopped) Error() string { return "the daemon is asked to stop: " + string(e.Reason) }

// callContext is that of the call of a daemon or timer; without one in arguments that were made by hand.
type callContext struct{ ctx context.Context }

// over is closed when the context has ended; nil without one.
func (c callContext) over() <-chan struct{} {
	if c.ctx == nil {
		return nil
	}
	return c.ctx.Done()
}

// reason returns why a call is to end. The context ends with the term of a leader, before its functions are asked to stop.
func (c callContext) reason(s *stopper.Stopper) StopReason {
	reason := reasonOf(s.Get())
	if reason == "" && c.ctx != nil && errors.Is(context.Cause(c.ctx), ErrLeadershipLost) {
		return StopOperatorPausing
	}
	return reason
}

// reasonOf returns what handlers are given for why they are asked to stop.
func reasonOf(s stopper.Set) StopReason {
	switch {
	case s.Has(stopper.OperatorExiting):
		return StopOperatorExiting
	case s.Has(stopper.ResourceDeleted):
		return StopResourceDeleted
	case s.Has(stopper.OperatorPausing):
		return StopOperatorPausing
	case s.Has(stopper.FiltersMismatch):
		return StopFiltersMismatch
	}
	return ""
}
