package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kopf-go/kopf/internal/stopper"
)

// DaemonOptions are the options of daemons. Zero values mean the defaults.
type DaemonOptions struct {
	// ID names the daemon. kopf stores its result on the object under it. kopf appends a slash and the path of the Field. Default: the name of the function.
	ID HandlerID
	// Where narrows the selector to the resources for which the function returns true. Default: all resources.
	Where func(Resource) bool
	// Labels and Annotations are the labels and annotations that the object must have. Default: any.
	Labels, Annotations Match
	// When is a predicate for the object. kopf calls it at each watch event. It must be fast and change nothing. Default: always true.
	When func(*Daemon) bool
	// Field is the path of a field that must exist, in the spec, the status, or elsewhere. Default: none.
	Field FieldPath
	// Value is the required value of the Field: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool. Default: [Present].
	Value any
	// Param is a value of yours, which kopf passes to the daemon. Default: nil.
	Param any
	// Errors decides about errors that are neither temporary nor permanent. Default: [ErrorsTemporary].
	Errors ErrorsMode
	// Timeout is the limit for all attempts together, from the first one. It also cancels the context of a running attempt. A restart of the operator resets
	// it. Zero means no limit.
	Timeout time.Duration
	// Retries is the limit of attempts, including the first one. Zero means no limit.
	Retries int
	// Backoff is the delay after an error that is neither temporary nor permanent. Default: [ExecutionSettings.DefaultBackoff].
	Backoff time.Duration
	// InitialDelay is the delay before the first call. Default: none.
	InitialDelay time.Duration
	// InitialDelayFunc computes the InitialDelay of an object. It excludes InitialDelay. Default: none.
	InitialDelayFunc func(*Object) time.Duration
	// CancellationBackoff is the time between the stop signal of a daemon and the cancellation of its context. Default: none, so that kopf cancels the
	// context at once.
	CancellationBackoff time.Duration
	// CancellationTimeout is the time that kopf waits for a daemon after it has canceled the context. kopf then abandons the daemon with a warning, and the
	// daemon no longer blocks the deletion of its object. Zero means no limit, and at shutdown [BackgroundSettings.ExitTimeout].
	CancellationTimeout time.Duration
	// CancellationPolling is the interval in which kopf logs that the daemon has not exited yet. Default: [BackgroundSettings.CancellationPolling].
	CancellationPolling time.Duration
	// WithoutFinalizer adds no finalizer for this daemon. kopf then stops the daemon after the object is gone, and the daemon cannot read it any more.
	// Default: false.
	WithoutFinalizer bool
}

// TimerOptions are the options of timers. Zero values mean the defaults.
type TimerOptions struct {
	// ID names the timer. kopf stores its result on the object under it. kopf appends a slash and the path of the Field. Default: the name of the function.
	ID HandlerID
	// Where narrows the selector to the resources for which the function returns true. Default: all resources.
	Where func(Resource) bool
	// Labels and Annotations are the labels and annotations that the object must have. Default: any.
	Labels, Annotations Match
	// When is a predicate for the object. kopf calls it at each watch event. It must be fast and change nothing. Default: always true.
	When func(*Timer) bool
	// Field is the path of a field that must exist, in the spec, the status, or elsewhere. Default: none.
	Field FieldPath
	// Value is the required value of the Field: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool. Default: [Present].
	Value any
	// Param is a value of yours, which kopf passes to the timer. Default: nil.
	Param any
	// Errors decides about errors that are neither temporary nor permanent. Default: [ErrorsTemporary].
	Errors ErrorsMode
	// Timeout is the limit from the first attempt until a success. It also cancels the context of a running attempt. A restart of the operator resets it.
	// Zero means no limit.
	Timeout time.Duration
	// Retries is the limit of attempts until a success. Zero means no limit.
	Retries int
	// Backoff is the delay after an error that is neither temporary nor permanent. Default: [ExecutionSettings.DefaultBackoff].
	Backoff time.Duration
	// InitialDelay is the delay before the first call. Default: none.
	InitialDelay time.Duration
	// InitialDelayFunc computes the InitialDelay of an object. It excludes InitialDelay. Default: none.
	InitialDelayFunc func(*Object) time.Duration
	// Jitter is the maximum of a random time that kopf adds to the InitialDelay, so that the timers of many objects do not fire together after a restart.
	// Default: none.
	Jitter time.Duration
	// Interval is the time from the end of a call to the start of the next one, at least 1 ms. Zero means one call, or with Idle one call after each change.
	Interval time.Duration
	// Sharp measures the Interval from start to start, in multiples of the Interval after the first call. kopf skips calls that would overlap. Default:
	// false.
	Sharp bool
	// Idle is the time without changes of the object before a call. Changes of the status do not count. When kopf sees the object for the first time, that
	// counts as a change. Zero means that changes do not matter.
	Idle time.Duration
	// WithoutFinalizer adds no finalizer for this timer. kopf then stops the timer after the object is gone. Default: false.
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

// OnDaemon registers a function that kopf runs in the background for each object of the selected resources, as long as the object exists and matches. A
// finalizer blocks the deletion of the object until the function has returned. It panics as [Registry.OnEvent] does.
func (r *Registry) OnDaemon(s Selector, fn DaemonFunc, opts *DaemonOptions) {
	must(kindDaemon, r.onDaemon(s, fn, opts))
}

// OnTimer registers a function that kopf calls periodically for each object of the selected resources, as long as the object exists and matches. A
// finalizer blocks the deletion of the object until the function has returned. It panics as [Registry.OnEvent] does.
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

// addObjectHandler completes and adds a handler whose filters need only the current object.
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

// StopReason is the reason for which kopf stops a daemon or a timer.
type StopReason string

const (
	// StopFiltersMismatch means that the object no longer matches the filters of the handler.
	StopFiltersMismatch StopReason = "FiltersMismatch"
	// StopResourceDeleted means that the object is being deleted, or is gone.
	StopResourceDeleted StopReason = "ResourceDeleted"
	// StopOperatorPausing means that the operator pauses in favor of another one. After a loss of the Lease of [LeaderElectionSettings], kopf cancels
	// contexts before, with the cause [ErrLeadershipLost].
	StopOperatorPausing StopReason = "OperatorPausing"
	// StopOperatorExiting means that the operator shuts down.
	StopOperatorExiting StopReason = "OperatorExiting"
)

// DaemonStopped is the cause of the canceled context of a daemon or timer. [context.Cause] returns it.
type DaemonStopped struct {
	// Reason is the reason for which kopf has stopped the daemon or timer.
	Reason StopReason
}

// Error returns the reason.
func (e *DaemonStopped) Error() string { return "the daemon is asked to stop: " + string(e.Reason) }

// callContext is the context of a call of a daemon or timer. It is empty in hand-made arguments.
type callContext struct{ ctx context.Context }

// over returns the Done channel of the context; nil without a context.
func (c callContext) over() <-chan struct{} {
	if c.ctx == nil {
		return nil
	}
	return c.ctx.Done()
}

// reason returns why a call must end. After the loss of leadership, the context ends before the stop signal.
func (c callContext) reason(s *stopper.Stopper) StopReason {
	reason := reasonOf(s.Get())
	if reason == "" && c.ctx != nil && errors.Is(context.Cause(c.ctx), ErrLeadershipLost) {
		return StopOperatorPausing
	}
	return reason
}

// reasonOf converts the stop reasons for handlers.
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
