package kopf

import (
	"context"
	"log/slog"
	"time"
)

// This file is how functions are registered that tell how the operator is. They are called on goroutines of their own, when
// the endpoint of the operator's liveness is requested.

// ProbeFunc tells something about the operator: a value for the answer of its endpoint, which has to be possible in JSON, or nil for none; or an
// error, if the operator is not well. It is called when the endpoint is asked, and the last answer of all probes is 10 seconds old; never
// twice at the same time. There is one attempt for an answer.
type ProbeFunc func(ctx context.Context, p *Probe) (any, error)

// Probe is what a [ProbeFunc] gets.
type Probe struct {
	// Settings are the operator's. They are not to be changed any more.
	Settings *Settings
	// Logger logs under the name of the activity.
	Logger *slog.Logger
	// Client talks to the API server with the operator's credentials.
	Client *Client
	// Indices are the operator's indices. [Index.Get] reads them with their types.
	Indices Indices
	// Param is the Param option of the handler.
	Param any

	memo *Memo
}

func (p *Probe) indexes() Indices { return p.Indices }

// Memo returns the operator's memo, from which the memos of objects are copied.
func (p *Probe) Memo() *Memo { return p.memo }

// ProbeOptions are the options of probes. Zero values mean the defaults.
type ProbeOptions struct {
	// ID is the name of the value in the answer. Defaults to the name of the function.
	ID HandlerID
	// Param is handed to the handler as it is. Defaults to nil.
	Param any
	// Timeout is the time for one call. One that takes longer has failed, and is not called again until it has returned. Defaults to 10 s.
	Timeout time.Duration
}

// OnProbe registers a probe of the operator in the default registry. See [Registry.OnProbe].
func OnProbe(fn ProbeFunc, opts *ProbeOptions) { must(kindProbe, DefaultRegistry().onProbe(fn, opts)) }

// OnProbe registers a function that tells how the operator is, for those who ask its [Operator.LivenessEndpoint]. It panics as
// [Registry.OnEvent] does.
func (r *Registry) OnProbe(fn ProbeFunc, opts *ProbeOptions) { must(kindProbe, r.onProbe(fn, opts)) }

func (r *Registry) onProbe(fn ProbeFunc, opts *ProbeOptions) error {
	o := ProbeOptions{}
	if opts != nil {
		o = *opts
	}
	h := &handler{kind: kindProbe, param: o.Param, errors: ErrorsPermanent, timeout: o.Timeout, probe: fn}
	if err := h.checkLimits(); err != nil {
		return err
	}
	if err := h.identify(o.ID, fn); err != nil {
		return err
	}
	return r.add(h)
}
