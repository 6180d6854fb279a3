// Package leaderelection elects one of several replicas by a Lease. It is compatible with client-go, so that electors of both can compete for a Lease. See
// https://kubernetes.io/docs/concepts/architecture/leases/.
//
// It promises more than client-go: a replica measures its time from the start of the last answered renewal, and with two clocks. Thus it knows that it has lost
// the Lease before another replica can take it.
package leaderelection

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/validation"
)

// Leases performs the requests for one Lease, without retries. A method returns the Lease as JSON, or an error with the status code, 0 without a response.
type Leases interface {
	Get(ctx context.Context) (raw []byte, code int, err error)
	Create(ctx context.Context, raw []byte) (created []byte, code int, err error)
	// Update replaces the Lease. It fails with 409 if the resource version differs.
	Update(ctx context.Context, raw []byte) (updated []byte, code int, err error)
}

// Config has the settings of an elector. All fields but NewServer are required.
type Config struct {
	Namespace, Name string // of the Lease
	Identity        string // unique to this process
	LeaseDuration   time.Duration
	RenewDeadline   time.Duration
	RetryPeriod     time.Duration
	Leases          Leases
	Log             *slog.Logger
	// NewServer says that the API server started with this replica. A Lease that does not exist at the first attempt then had no holder, and is taken at once.
	NewServer bool
}

// Check validates the durations.
func (c *Config) Check() error {
	for _, t := range []struct {
		name string
		time time.Duration
	}{{"LeaseDuration", c.LeaseDuration}, {"RenewDeadline", c.RenewDeadline}, {"RetryPeriod", c.RetryPeriod}} {
		if err := validation.Interval(t.time); err != nil {
			return fmt.Errorf("%s %w", t.name, err)
		}
		if t.time > longest { // this also prevents overflows
			return fmt.Errorf("%s %s: want at most %d seconds, which is all that a Lease can hold", t.name, t.time, int64(longest/time.Second))
		}
	}
	if c.RetryPeriod > 0 && c.RenewDeadline > c.RetryPeriod*jitter/100 && c.LeaseDuration > c.RenewDeadline {
		return nil
	}
	return fmt.Errorf("LeaseDuration %s, RenewDeadline %s, RetryPeriod %s: want LeaseDuration > RenewDeadline > 1.2 × RetryPeriod > 0", c.LeaseDuration, c.RenewDeadline, c.RetryPeriod)
}

const (
	jitter   = 120              // maximum waiting time of a candidate, in percent of RetryPeriod
	settled  = 10 * time.Minute // after which a candidate yields to newer ones
	shortest = time.Second      // for one request
	longest  = math.MaxInt32 * time.Second

	answerGrace = time.Second // to wait for a response at the end
	warnAgain   = time.Minute // while attempts keep failing
)

// Elector competes for the Lease. Acquire, Hold and Release must be called from one goroutine. The other methods are safe for concurrent use.
type Elector struct {
	Config
	started time.Time // start of the first candidacy

	seen   []byte    // spec of the Lease as last seen by a candidate
	seenAt time.Time // first time that seen was seen; zero before
	// seenFor is how long the spec must be unchanged before the Lease may be taken.
	seenFor     time.Duration
	seenRenewal string        // renewal time written by the holder
	seenLeast   time.Duration // minimum of seenFor
	heldAt      time.Time     // last time that another replica was seen to hold the Lease; zero for never
	freeAt      time.Time     // when it may be taken unless it changes; zero if unknown
	lease       *lease        // as last written by this replica

	mu      sync.Mutex // guards following
	renewed time.Time  // start of the last answered renewal; zero while another replica may hold the Lease
	holder  string     // as last seen
	reached bool       // this replica has got the Lease, or read its holder
}

// Term describes an acquired Lease.
type Term struct {
	Version     string        // resource version of the Lease
	UID         string        // of the Lease
	Transitions int64         // number of changes of the holder
	Existed     bool          // the Lease existed, so that another replica may have held it before
	Former      string        // former holder; "" if the Lease was released, or there was none
	Vacant      time.Duration // time since the last sign of another holder; 0 if there was none
}

// ForbiddenError reports that this replica lacks the permissions for the Lease.
type ForbiddenError struct {
	Err  error
	Hint string // the necessary rules
}

func (e *ForbiddenError) Error() string { return e.Err.Error() + "; " + e.Hint }

// Unwrap returns the refusal.
func (e *ForbiddenError) Unwrap() error { return e.Err }

// Acquire competes for the Lease until this replica holds it, or the context ends. It returns a [ForbiddenError] if the API server rejects the first requests,
// up to the creation of a missing Lease.
func (e *Elector) Acquire(ctx context.Context) (*Term, error) {
	first := e.started.IsZero()
	if first {
		e.started = time.Now()
	}
	var warned time.Time // last warning about failed attempts; zero after a success
	for {
		term, code, err := e.try(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, context.Cause(ctx)
		case err == nil && code != http.StatusNotFound:
			e.setReached()
		}
		switch {
		case term != nil:
			return term, nil
		case code == http.StatusForbidden && first:
			return nil, &ForbiddenError{err, e.hint(code)}
		case err != nil && (warned.IsZero() || time.Since(warned) >= warnAgain):
			warned = time.Now()
			e.Log.Warn("Standing for the Lease failed; retrying", e.attrs(append(e.failure(code, err), "help", "K214")...)...)
		case err == nil && !warned.IsZero():
			warned = time.Time{}
			e.Log.Info("Standing for the Lease again", e.attrs()...)
		}
		unanswered, missing := code == 0 && err != nil, code == http.StatusNotFound && err == nil
		first = first && (unanswered || missing) // only the creation shows whether this replica may write it
		wait := e.RetryPeriod + rand.N(e.RetryPeriod*(jitter-100)/100+1)
		if free := time.Until(e.freeAt); !e.freeAt.IsZero() && free > 0 {
			wait = min(wait, free)
		}
		if err := await.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// failure returns the log attributes of a failed request, with a remedy.
func (e *Elector) failure(code int, err error) []any {
	attrs := []any{"error", err}
	if hint := e.hint(code); hint != "" {
		attrs = append(attrs, "hint", hint)
	}
	return attrs
}

// hint returns a remedy for a status code, or "".
func (e *Elector) hint(code int) string {
	switch code {
	case http.StatusForbidden:
		return fmt.Sprintf(`permit it by these rules of a Role in the namespace %q: `+
			`{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"]}, `+
			`{apiGroups: ["coordination.k8s.io"], resources: ["leases"], resourceNames: [%q], verbs: ["get", "update"]}`, e.Namespace, e.Name)
	case http.StatusNotFound: // a missing Lease is created
		return fmt.Sprintf("create the namespace %q, or have the Lease in another one", e.Namespace)
	}
	return ""
}

// attrs returns the attributes of a log line.
func (e *Elector) attrs(more ...any) []any {
	return append([]any{"lease", e.Namespace + "/" + e.Name, "identity", e.Identity}, more...)
}

// try makes one attempt to get the Lease. It is no error if another replica is faster or holds it.
func (e *Elector) try(ctx context.Context) (term *Term, code int, err error) {
	e.freeAt = time.Time{}
	ctx, done := await.Outlive(ctx, answerGrace) // a Lease acquired without a response would stay taken until it expires
	defer done()
	l, write := newLease(e.Namespace, e.Name), e.Leases.Create
	raw, code, err := e.get(ctx)
	if code != http.StatusNotFound {
		if err != nil {
			return nil, code, err
		}
		if l, err = parseLease(raw); err != nil {
			return nil, code, err
		}
		write = e.Leases.Update
	}
	e.observe(l)
	e.NewServer = false // from now on, another replica can hold a Lease, and a user delete it
	if e.seenFor > time.Since(e.seenAt) {
		e.freeAt = e.seenAt.Add(e.seenFor)
		return nil, code, nil
	}
	return e.take(ctx, l, write)
}

// observe records what a candidate has seen, and how long that must be unchanged.
func (e *Elector) observe(l *lease) {
	changed := e.seenAt.IsZero() || !bytes.Equal(l.spec, e.seen)
	if changed {
		e.seenLeast = 0
		byUser := e.abandoned(l) || l.holder != "" && l.holder == e.Holder() && l.renewTime == e.seenRenewal
		if !e.seenAt.IsZero() && byUser { // the holder does not know yet
			e.seenLeast = e.seenFor
		}
		e.seen, e.seenAt, e.seenRenewal = l.spec, time.Now(), l.renewTime
		if l.holder != "" && l.holder != e.Identity {
			e.heldAt = e.seenAt
		}
	}
	e.seenFor = max(e.reserved(l), e.seenLeast)
	switch moved := e.setHolder(l.holder); {
	case moved && l.holder != "" && l.holder != e.Identity:
		e.Log.Info("Standing by for the holder of the Lease", e.attrs("holder", l.holder, "help", "K213")...)
	case changed && e.abandoned(l):
		reason := "it has no holder"
		if l.missing() {
			reason = "it does not exist"
		}
		e.Log.Info("Waiting before taking a Lease that was not released", e.attrs("reason", reason, "wait", e.seenFor, "help", "K223")...)
	}
}

// abandoned reports whether a Lease has no holder, but was not released: a user has deleted or
// emptied it, and its holder may go on until it notices, or no replica has ever had it. A Lease that
// is as short as a released one looks like it.
func (e *Elector) abandoned(l *lease) bool {
	if e.NewServer && l.missing() {
		return false
	}
	return l.holder == "" && (l.duration != releasedDuration || e.LeaseDuration <= releasedDuration)
}

// reserved returns how long the Lease must be unchanged before it may be taken, by the clock of
// this replica, whatever times the holder has written.
func (e *Elector) reserved(l *lease) time.Duration {
	switch {
	case l.holder == e.Identity: // the response to an earlier attempt was lost, or a renewal was late
		return 0
	case l.holder != "" && l.duration > 0:
		return l.duration
	case l.holder != "":
		return e.LeaseDuration
	case e.abandoned(l): // by a holder with these settings, or others
		return max(l.duration, e.LeaseDuration)
	case time.Since(e.started) < settled:
		return 0
	}
	// The former holder has released it, perhaps because of a rolling update. A newer replica may take it first.
	return e.RetryPeriod
}

// take makes this replica the holder of a free Lease. A conflict is no error.
func (e *Elector) take(ctx context.Context, l *lease, write func(context.Context, []byte) ([]byte, int, error)) (*Term, int, error) {
	began := time.Now()
	former, again := l.holder, l.holder == e.Identity
	if again {
		former = ""
	}
	next := record{holder: e.Identity, duration: e.LeaseDuration, acquireTime: l.acquireTime, transitions: l.transitions}
	if !again || next.acquireTime == "" {
		next.acquireTime = began.UTC().Format(microTime)
	}
	if !again && !l.missing() && next.transitions < math.MaxInt32 { // limit of the API server
		next.transitions++
	}
	raw, err := l.with(next, began)
	if err != nil {
		return nil, 0, err
	}
	limited, cancel := e.limit(ctx)
	defer cancel()
	raw, code, err := write(limited, raw)
	if code == http.StatusConflict || code == http.StatusNotFound && !l.missing() { // without a version, the namespace is missing
		return nil, code, nil
	} else if err != nil {
		return nil, code, err
	}
	written, err := e.parseOwn(raw)
	if err != nil {
		return nil, code, err
	}
	e.lease = written
	if e.setRenewed(began); !e.Valid() { // then the next attempt finds it held by this replica, and renews it
		return nil, code, fmt.Errorf("the answer has come after %s, when its RenewDeadline was over", time.Since(began))
	}
	term := &Term{Version: e.lease.metadata("resourceVersion"), UID: e.lease.metadata("uid"), Transitions: e.lease.transitions, Existed: !l.missing(), Former: former}
	if !e.heldAt.IsZero() {
		term.Vacant = time.Since(e.heldAt)
	}
	e.seen, e.seenAt, e.seenFor, e.heldAt = nil, time.Time{}, 0, time.Time{}
	e.setHolder(e.Identity)
	return term, code, nil
}

// parseOwn parses the response to a write. A proxy or a webhook may have changed it.
func (e *Elector) parseOwn(raw []byte) (*lease, error) {
	l, err := parseLease(raw)
	if err != nil {
		return nil, err
	}
	if l.metadata("resourceVersion") == "" || l.holder != e.Identity {
		return nil, fmt.Errorf("the answer is not the Lease as this replica has written it: it has the holder %q, and the resource version %q", l.holder, l.metadata("resourceVersion"))
	}
	return l, nil
}

// get reads the Lease.
func (e *Elector) get(ctx context.Context) (raw []byte, code int, err error) {
	ctx, cancel := e.limit(ctx)
	defer cancel()
	return e.Leases.Get(ctx)
}

// limit returns a context for one request of a candidate, or for the requests of one renewal, from the first one on.
func (e *Elector) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := min(max(shortest, e.RenewDeadline/2), e.RenewDeadline)
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %s", limit))
}

func (e *Elector) setRenewed(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.renewed = at
}

// Holder returns the last known holder of the Lease, or "".
func (e *Elector) Holder() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holder
}

// Reached reports whether this replica has ever got the Lease or read its holder, so that it can take over.
func (e *Elector) Reached() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reached
}

func (e *Elector) setReached() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reached = true
}

// setHolder stores the holder of the Lease, and reports whether it has changed.
func (e *Elector) setHolder(identity string) (changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed = e.holder != identity
	e.holder = identity
	return changed
}

// Valid reports whether this replica certainly holds the Lease: whether less than the RenewDeadline has passed since the start of the last answered renewal. It
// checks both the wall clock and the monotonic clock, which stops while a machine is suspended.
func (e *Elector) Valid() bool { return e.left() > 0 }

// left returns how long this replica holds the Lease without another renewal. After its end, a pending renewal has no effect, because callers may have acted on
// the end.
func (e *Elector) left() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.renewed.IsZero() {
		return 0
	}
	now := time.Now()
	left := e.RenewDeadline - max(now.Sub(e.renewed), now.Round(0).Sub(e.renewed.Round(0)))
	if left <= 0 {
		e.renewed = time.Time{}
	}
	return left
}

// extend records the start of an answered renewal.
func (e *Elector) extend(began time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.renewed.IsZero() {
		e.renewed = began
	}
}

// Hold renews the Lease. It returns an error when the Lease is lost, and is not valid any more, or nil when the context ends.
func (e *Elector) Hold(ctx context.Context) error {
	e.mu.Lock()
	next := e.renewed // the response may have taken some of the time
	e.mu.Unlock()
	var failed error // of renewals since the last success
	for {
		next = next.Add(e.RetryPeriod)
		if now := time.Now(); next.Before(now) {
			next = now
		}
		if await.Sleep(ctx, min(time.Until(next), e.left())) != nil {
			return nil
		}
		if !e.Valid() {
			return e.lose(failed)
		}
		if time.Now().Before(next) {
			continue
		}
		holder, code, err := e.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case holder != "":
			return e.lose(fmt.Errorf("%q holds it now", holder))
		case errors.Is(err, errOver) && failed != nil: // it would hide the earlier failures
		case err != nil:
			e.Log.Warn("Renewing the Lease failed; retrying", e.attrs(append(e.failure(code, err), "help", "K215")...)...)
			failed = err
		case failed != nil:
			e.Log.Info("Renewed the Lease", e.attrs()...)
			failed = nil
		}
	}
}

// lose records the loss of the Lease.
func (e *Elector) lose(why error) error {
	e.setRenewed(time.Time{})
	e.setHolder("")
	if why == nil {
		why = errors.New("the process has not run in time")
	}
	return why
}

// errOver is the cause that cancels a renewal when the Lease has expired.
var errOver = errors.New("no answer before the end of the Lease")

// renew renews the Lease once. It returns the new holder if another replica holds the Lease, and the status code of a failure.
func (e *Elector) renew(ctx context.Context) (holder string, code int, err error) {
	ctx, cancel := e.limit(ctx)
	defer cancel()
	ctx, end := context.WithTimeoutCause(ctx, e.left(), errOver)
	defer end()
	for read := false; ; {
		began, write := time.Now(), e.Leases.Update
		if e.lease.missing() { // it was deleted, but this replica still holds it
			write = e.Leases.Create
		}
		raw, err := e.lease.with(record{holder: e.Identity, duration: e.LeaseDuration, acquireTime: e.lease.acquireTime, transitions: e.lease.transitions}, began)
		if err != nil {
			return "", 0, err
		}
		raw, code, err := write(ctx, raw)
		switch {
		case err == nil:
			l, err := e.parseOwn(raw)
			if err == nil {
				e.lease = l
				e.extend(began)
			}
			return "", code, err
		case code == http.StatusNotFound && !e.lease.missing(): // otherwise the namespace is missing
			e.lease = e.lease.recreated(e.Namespace, e.Name)
		case code == http.StatusConflict && !read: // otherwise wait for the next attempt
			if holder, code, err = e.reread(ctx); holder != "" || err != nil {
				return holder, code, err
			}
			read = true
		default:
			return "", code, err
		}
	}
}

// reread reads the Lease after another client changed it, and returns another holder, if any: a change by a user or a replica counts immediately.
func (e *Elector) reread(ctx context.Context) (holder string, code int, err error) {
	raw, code, err := e.Leases.Get(ctx)
	if code == http.StatusNotFound {
		e.lease = e.lease.recreated(e.Namespace, e.Name)
		return "", code, nil
	} else if err != nil {
		return "", code, err
	}
	l, err := parseLease(raw)
	if err != nil {
		return "", code, err
	}
	if l.holder == e.Identity || e.abandoned(l) { // values that a user has removed are written again
		l.acquireTime, l.transitions = cmp.Or(l.acquireTime, e.lease.acquireTime), max(l.transitions, e.lease.transitions)
		e.lease = l
		return "", code, nil
	}
	return cmp.Or(l.holder, "no replica"), code, nil
}

// recreated returns the Lease to create after a deletion.
func (l *lease) recreated(namespace, name string) *lease {
	created := newLease(namespace, name)
	created.record = l.record
	if spec, ok := l.object["spec"].(map[string]any); ok {
		created.object["spec"] = maps.Clone(spec)
	}
	metadata, _ := l.object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} { // everything else belonged to the deleted object
		if value, ok := metadata[field]; ok {
			created.object["metadata"].(map[string]any)[field] = value
		}
	}
	return created
}

// Release gives up the Lease, so that another replica can take it immediately. The Lease is not valid from the start of the call. Release returns an error,
// without a request, if this replica does not hold it.
func (e *Elector) Release(ctx context.Context) error {
	if !e.Valid() {
		return errors.New("this replica does not hold it any more")
	}
	e.setRenewed(time.Time{})
	ctx, cancel := e.limit(ctx)
	defer cancel()
	for attempt := 0; ; attempt++ {
		now := time.Now()
		raw, err := e.lease.with(record{duration: releasedDuration, acquireTime: now.UTC().Format(microTime), transitions: e.lease.transitions}, now)
		if err != nil {
			return err
		}
		_, code, err := e.Leases.Update(ctx, raw)
		if code == http.StatusNotFound {
			return nil
		} else if code != http.StatusConflict || attempt > 0 {
			return err
		}
		if holder, _, err := e.reread(ctx); holder != "" || err != nil {
			return err
		}
	}
}
