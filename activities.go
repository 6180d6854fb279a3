package kopf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// This file calls the handlers of the operator's own activities: its start, its logins, its end. Each call has a goroutine of its own, so
// that no function of a user holds up the end of the operator.

// login gets credentials from the login handlers, or from the environment if there are none.
func (r *run) login(ctx context.Context) (map[string]*ConnectionInfo, error) {
	l := Login{
		Logger: r.Logger, Settings: r.Settings, memo: r.Memo,
		Kubeconfig: r.Kubeconfig, Context: r.Context, TrustEnv: r.Settings.Networking.TrustEnv,
	}
	handlers := r.Registry.activities(kindLogin)
	if len(handlers) == 0 {
		return defaultLogin(ctx, &l)
	}
	results, err := r.attempts(ctx, handlers, "login", func(ctx context.Context, h *handler, a Attempt) (any, error) {
		own := l
		own.Attempt, own.Param = a, h.param
		return h.login(ctx, &own)
	})
	found := make(map[string]*ConnectionInfo)
	for id, value := range results {
		if info, _ := value.(*ConnectionInfo); info != nil {
			found[string(id)] = info
		}
	}
	if err == nil && len(found) == 0 {
		err = errors.New("no credentials were retrieved from the login handlers")
	}
	return found, err
}

// cleanup runs the clean-up handlers, for a limited time.
func (r *run) cleanup(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	limit := r.Settings.Process.UltimateExitingTimeout
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	_, err := r.activity(ctx, kindCleanup, "cleanup", r.client)
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("the clean-up handlers have not finished in %s: %w", limit, err)
	}
	return err
}

// activity runs the handlers of one activity until all are finished. It reports whether any has succeeded, or
// there are none, and fails if one of them has failed permanently.
func (r *run) activity(ctx context.Context, kind handlerKind, name string, client *Client) (bool, error) {
	handlers := r.Registry.activities(kind)
	log := r.Logger.With("activity", name)
	succeeded, err := r.attempts(ctx, handlers, name, func(ctx context.Context, h *handler, a Attempt) (any, error) {
		return nil, h.activity(ctx, &Activity{Attempt: a, Settings: r.Settings, Logger: log, Client: client, Indices: r.indices, Param: h.param, memo: r.Memo})
	})
	return len(handlers) == 0 || len(succeeded) > 0, err
}

// attempts calls handlers one after another, again and again, until each has succeeded or
// failed permanently. It returns what those have returned that have succeeded, and the failures.
func (r *run) attempts(ctx context.Context, handlers []*handler, name string, once func(context.Context, *handler, Attempt) (any, error)) (map[HandlerID]any, error) {
	type state struct {
		*handler
		record ProgressRecord
	}
	var pending []*state
	for _, h := range handlers {
		pending = append(pending, &state{handler: h, record: ProgressRecord{Started: time.Now()}})
	}
	succeeded := make(map[HandlerID]any)
	var failures []error
	for len(pending) > 0 {
		var left []*state
		wait := time.Duration(-1)
		for _, s := range pending {
			p := progress{handler: s.handler, record: &s.record}
			due, delay := p.due(time.Now())
			if due {
				value, o := r.attemptActivity(ctx, s.handler, &s.record, name, once)
				switch {
				case o.cancelled:
					return succeeded, errors.Join(append(failures, ctx.Err())...)
				case o.final && o.err != nil:
					failures = append(failures, fmt.Errorf("%s handler '%s': %w", name, s.id, o.err))
				case o.final:
					succeeded[s.id] = value
				}
				_, delay = p.due(time.Now())
			}
			if !s.record.finished() {
				left = append(left, s)
				if wait < 0 || delay < wait {
					wait = delay
				}
			}
		}
		pending = left
		if len(pending) > 0 && sleep(ctx, max(wait, 0)) != nil {
			return succeeded, errors.Join(append(failures, ctx.Err())...)
		}
	}
	return succeeded, errors.Join(failures...)
}

// attemptActivity calls a handler of an activity once, unless its limits forbid it.
func (r *run) attemptActivity(ctx context.Context, h *handler, record *ProgressRecord, name string, once func(context.Context, *handler, Attempt) (any, error)) (any, outcome) {
	age := time.Since(record.Started)
	var value any
	var err error
	var o outcome
	began := time.Now()
	if err = h.exhausted(record.Retries, age, nil); err != nil {
		o = outcome{final: true, err: err}
	} else {
		r.Logger.Debug(fmt.Sprintf("Activity '%s' is invoked.", h.id))
		inner := ctx
		if h.timeout > 0 {
			var cancel context.CancelFunc
			inner, cancel = context.WithDeadline(ctx, record.Started.Add(h.timeout))
			defer cancel()
		}
		attempt := Attempt{Retry: record.Retries, Started: record.Started, Runtime: age}
		value, err = r.await(ctx, fmt.Sprintf("The handler of the %s '%s'", name, h.id), func() (any, error) { return once(inner, h, attempt) })
		o = h.outcome(err, record.Retries, time.Since(record.Started), &r.Settings.Execution)
		if err != nil && ctx.Err() != nil {
			o = outcome{cancelled: true}
		}
	}
	if !o.cancelled {
		record.apply(o, time.Now())
	}
	r.meter.Handler(string(h.id), false).Ended(o.result(err), int64(time.Since(began)))
	logOutcome(ctx, r.Logger, "Activity", h.id, o, err)
	return value, o
}

// activityGracePeriod is how long a function of the user may go on after its context has ended.
const activityGracePeriod = 2 * time.Second

// await calls a function of the user on a goroutine, and waits for it. A while after the end of ctx, the function is left behind.
func (r *run) await(ctx context.Context, what string, run func() (any, error)) (any, error) {
	var value any
	err := errors.New("the function has ended its goroutine")
	var task sync.WaitGroup
	task.Go(func() {
		err = call(func() (failed error) {
			value, failed = run()
			return failed
		})
	})
	if !waitFor(ctx, &task, activityGracePeriod) {
		r.Logger.Error(what + " ignores that its context has ended; it is left behind.")
		return nil, context.Cause(ctx)
	}
	return value, err
}
