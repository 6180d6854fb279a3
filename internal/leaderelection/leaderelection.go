// Package leaderelection elects one of several replicas by a Lease, as client-go does, so that electors of both can compete for one. See
// https://kubernetes.io/docs/concepts/architecture/leases/.
//
// It differs from client-go in what it promises: a replica counts its time from the beginning of the last renewal that was answered, and
// looks at two clocks. So it knows that it does not hold the Lease any more before any other replica can take it.
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

// Leases makes the requests for one Lease. Each is made once, and returns the Lease as JSON, or the error and the code of the answer, 0
// if there was none.
type Leases interface {
	Get(ctx context.Context) (raw []byte, code int, err error)
	Create(ctx context.Context, raw []byte) (created []byte, code int, err error)
	// Update replaces the Lease, and fails with 409 if it has another resource version.
	Update(ctx context.Context, raw []byte) (updated []byte, code int, err error)
}

// Config is how an elector does its work. All fields are required.
type Config struct {
	Namespace, Name string // of the Lease
	Identity        string // of this process, which no other one has
	LeaseDuration   time.Duration
	RenewDeadline   time.Duration
	RetryPeriod     time.Duration
	Leases          Leases
	Log             *slog.Logger
}

// Check returns what is wrong with the times.
func (c *Config) Check() error {
	for _, t := range []struct {
		name string
		time time.Duration
	}{{"LeaseDuration", c.LeaseDuration}, {"RenewDeadline", c.RenewDeadline}, {"RetryPeriod", c.RetryPeriod}} {
		if err := validation.Interval(t.time); err != nil {
			return fmt.Errorf("%s %w", t.name, err)
		}
		if t.time > longest { // which also keeps calculations with it from overflowing
			return fmt.Errorf("%s %s: want at most %d seconds, which is all that a Lease can hold", t.name, t.time, int64(longest/time.Second))
		}
	}
	if c.RetryPeriod > 0 && c.RenewDeadline > c.RetryPeriod*jitter/100 && c.LeaseDuration > c.RenewDeadline {
		return nil
	}
	return fmt.Errorf("LeaseDuration %s, RenewDeadline %s, RetryPeriod %s: want LeaseDuration > RenewDeadline > 1.2 × RetryPeriod > 0", c.LeaseDuration, c.RenewDeadline, c.RetryPeriod)
}

const (
	jitter   = 120              // percent of the RetryPeriod that a candidate waits at most
	settled  = 10 * time.Minute // after which a candidate gives way to fresher ones
	shortest = time.Second      // that a request may take
	longest  = math.MaxInt32 * time.Second

	answerGrace = time.Second // for which an answer is awaited at the end
	warnAgain   = time.Minute // of attempts that go on to fail
)

// Elector stands for the Lease. Acquire, Hold and Release are for one goroutine; the others are for all.
type Elector struct {
	Config
	started time.Time // when it first stood

	seen   []byte    // the spec of the Lease as a candidate has seen it last
	seenAt time.Time // when that was seen first; zero before
	// seenFor is how long it must not have changed since then before it may be taken.
	seenFor     time.Duration
	seenRenewal string        // when its holder has renewed it, in the holder's own words
	seenLeast   time.Duration // what seenFor is at least
	heldAt      time.Time     // when another replica was last seen to hold the Lease; zero for never
	freeAt      time.Time     // when it may be taken unless it changes; zero if that is not known
	lease       *lease        // as it was when this replica last wrote it

	mu      sync.Mutex // guards following
	renewed time.Time  // the beginning of the last renewal that was answered; zero while another replica may hold the Lease
	holder  string     // as it was last seen
	reached bool       // whether an attempt has succeeded to get the Lease, or to find out who has it
}

// Term is what is known when the Lease was got.
type Term struct {
	Version     string        // the resource version of the Lease
	UID         string        // of the Lease
	Transitions int64         // how often the Lease has gone from one holder to another
	Existed     bool          // whether the Lease was there, so that another replica may have held it at any time before
	Former      string        // the holder before; "" if it was released, or there was none
	Vacant      time.Duration // how long ago this replica has seen the last sign of another holder; 0 if it has seen none
}

// ForbiddenError says that this replica may not use the Lease.
type ForbiddenError struct {
	Err  error
	Hint string // the rules that permit it
}

func (e *ForbiddenError) Error() string { return e.Err.Error() + "; " + e.Hint }

// Unwrap returns the refusal.
func (e *ForbiddenError) Unwrap() error { return e.Err }

// Acquire stands for the Lease until this replica holds it, or the context ends. It fails with a [ForbiddenError] if the first request is refused.
func (e *Elector) Acquire(ctx context.Context) (*Term, error) {
	first := e.started.IsZero()
	if first {
		e.started = time.Now()
	}
	var warned time.Time // of attempts that have failed; zero if the last one has not
	for {
		term, code, err := e.try(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, context.Cause(ctx)
		case err == nil:
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
		first = first && code == 0 && err != nil
		wait := e.RetryPeriod + rand.N(e.RetryPeriod*(jitter-100)/100+1)
		if free := time.Until(e.freeAt); !e.freeAt.IsZero() && free > 0 {
			wait = min(wait, free)
		}
		if err := await.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// failure returns the attributes of a request that has failed, with what a person can do about it.
func (e *Elector) failure(code int, err error) []any {
	attrs := []any{"error", err}
	if hint := e.hint(code); hint != "" {
		attrs = append(attrs, "hint", hint)
	}
	return attrs
}

// hint returns what a person can do about an answer, "" if that is not known.
func (e *Elector) hint(code int) string {
	switch code {
	case http.StatusForbidden:
		return fmt.Sprintf(`permit it by these rules of a Role in the namespace %q: `+
			`{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"]}, `+
			`{apiGroups: ["coordination.k8s.io"], resources: ["leases"], resourceNames: [%q], verbs: ["get", "update"]}`, e.Namespace, e.Name)
	case http.StatusNotFound: // a missing Lease is made
		return fmt.Sprintf("create the namespace %q, or have the Lease in another one", e.Namespace)
	}
	return ""
}

// attrs returns the attributes of a log line.
func (e *Elector) attrs(more ...any) []any {
	return append([]any{"lease", e.Namespace + "/" + e.Name, "identity", e.Identity}, more...)
}

// try makes one attempt to get the Lease. Another replica that is quicker, or holds it, is no error.
func (e *Elector) try(ctx context.Context) (term *Term, code int, err error) {
	e.freeAt = time.Time{}
	ctx, done := await.Outlive(ctx, answerGrace) // a Lease that is got without knowing it would be kept until it expires
	defer done()
	raw, code, err := e.get(ctx)
	if code == http.StatusNotFound {
		if e.seenFor > time.Since(e.seenAt) { // a person has deleted it, and its holder makes it anew
			e.freeAt = e.seenAt.Add(e.seenFor)
			return nil, code, nil
		}
		return e.take(ctx, newLease(e.Namespace, e.Name), e.Leases.Create)
	} else if err != nil {
		return nil, code, err
	}
	l, err := parseLease(raw)
	if err != nil {
		return nil, code, err
	}
	if e.seenAt.IsZero() || !bytes.Equal(l.spec, e.seen) {
		e.seenLeast = 0
		if !e.seenAt.IsZero() && l.holder != "" && l.holder == e.Holder() && l.renewTime == e.seenRenewal { // a person has written it, of whom the holder does not know yet
			e.seenLeast = e.seenFor
		}
		e.seen, e.seenAt, e.seenRenewal = l.spec, time.Now(), l.renewTime
		if l.holder != "" && l.holder != e.Identity {
			e.heldAt = e.seenAt
		}
	}
	if e.setHolder(l.holder) && l.holder != "" && l.holder != e.Identity {
		e.Log.Info("Standing by for the holder of the Lease", e.attrs("holder", l.holder, "help", "K213")...)
	}
	if e.seenFor = max(e.reserved(l), e.seenLeast); e.seenFor > time.Since(e.seenAt) {
		e.freeAt = e.seenAt.Add(e.seenFor)
		return nil, code, nil
	}
	return e.take(ctx, l, e.Leases.Update)
}

// reserved returns how long the Lease must not have changed before it may be taken: by the clock of this replica alone, whatever times the holder has
// written.
func (e *Elector) reserved(l *lease) time.Duration {
	switch {
	case l.holder == e.Identity: // the answer to an earlier attempt was lost, or a renewal was late
		return 0
	case l.holder != "" && l.duration > 0:
		return l.duration
	case l.holder != "":
		return e.LeaseDuration
	case time.Since(e.started) < settled:
		return 0
	}
	// It was released, perhaps by a replica that is being replaced like this one. A newer replica may take it first.
	return e.RetryPeriod
}

// take makes this replica the holder of a Lease that is free. A conflict is no error.
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
	if !again && l.metadata("resourceVersion") != "" && next.transitions < math.MaxInt32 { // the API server takes no more
		next.transitions++
	}
	raw, err := l.with(next, began)
	if err != nil {
		return nil, 0, err
	}
	limited, cancel := e.limit(ctx)
	defer cancel()
	raw, code, err := write(limited, raw)
	if code == http.StatusConflict || code == http.StatusNotFound && l.metadata("resourceVersion") != "" { // without a version, it is the namespace that is missing
		return nil, code, nil
	} else if err != nil {
		return nil, code, err
	}
	written, err := e.parseOwn(raw)
	if err != nil {
		return nil, code, err
	}
	e.lease = written
	if e.setRenewed(began); !e.Valid() { // the next attempt finds it held by this replica, and renews it
		return nil, code, fmt.Errorf("the answer has come after %s, when its RenewDeadline was over", time.Since(began))
	}
	term := &Term{Version: e.lease.metadata("resourceVersion"), UID: e.lease.metadata("uid"), Transitions: e.lease.transitions, Existed: l.metadata("resourceVersion") != "", Former: former}
	if !e.heldAt.IsZero() {
		term.Vacant = time.Since(e.heldAt)
	}
	e.seen, e.seenAt, e.seenFor, e.heldAt = nil, time.Time{}, 0, time.Time{}
	e.setHolder(e.Identity)
	return term, code, nil
}

// parseOwn reads the answer to a write. What stands between the API server and this replica, or a webhook, may have made something else of it.
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

// limit returns a context for one request of a candidate, or for those of one renewal, which begins to count with the first.
func (e *Elector) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := min(max(shortest, e.RenewDeadline/2), e.RenewDeadline)
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %s", limit))
}

func (e *Elector) setRenewed(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.renewed = at
}

// Holder returns the identity of the holder of the Lease as this replica has seen it last, "" if there was none.
func (e *Elector) Holder() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holder
}

// Reached reports whether this replica has ever found out who holds the Lease, or got it: whether it is in a position to take over.
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

// setHolder notes who holds the Lease, and reports whether that is new.
func (e *Elector) setHolder(identity string) (changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed = e.holder != identity
	e.holder = identity
	return changed
}

// Valid reports whether this replica holds the Lease for certain: whether less than the RenewDeadline has passed since the beginning
// of the last renewal that was answered. The clock of the day counts as well as the monotonic one, which stands still while a machine is suspended.
func (e *Elector) Valid() bool { return e.left() > 0 }

// left returns how long this replica holds the Lease unless it is renewed. Once it is over, no renewal that was under way changes that: those who have
// found it over have ended what they did.
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

// extend notes when a renewal began that was answered.
func (e *Elector) extend(began time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.renewed.IsZero() {
		e.renewed = began
	}
}

// Hold renews the Lease until it is lost, and returns why, or until the context ends, and returns nil. The Lease is not valid any more in the first case.
func (e *Elector) Hold(ctx context.Context) error {
	e.mu.Lock()
	next := e.renewed // not now: the answer may have taken a part of the time
	e.mu.Unlock()
	var failed error // of the renewals since the last one that has succeeded
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
		case errors.Is(err, errOver) && failed != nil: // which would hide why the ones before have failed
		case err != nil:
			e.Log.Warn("Renewing the Lease failed; retrying", e.attrs(append(e.failure(code, err), "help", "K215")...)...)
			failed = err
		case failed != nil:
			e.Log.Info("Renewed the Lease", e.attrs()...)
			failed = nil
		}
	}
}

// lose notes that the Lease is lost.
func (e *Elector) lose(why error) error {
	e.setRenewed(time.Time{})
	e.setHolder("")
	if why == nil {
		why = errors.New("the process has not run in time")
	}
	return why
}

// errOver is why a renewal is cut off when the Lease is not valid any more.
var errOver = errors.New("no answer before the end of the Lease")

// renew renews the Lease once. It returns the holder if that is another one, and the code of the answer that has made it fail.
func (e *Elector) renew(ctx context.Context) (holder string, code int, err error) {
	ctx, cancel := e.limit(ctx)
	defer cancel()
	ctx, end := context.WithTimeoutCause(ctx, e.left(), errOver)
	defer end()
	for read := false; ; {
		began, write := time.Now(), e.Leases.Update
		if e.lease.metadata("resourceVersion") == "" { // it was deleted, but is still this replica's
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
		case code == http.StatusNotFound && e.lease.metadata("resourceVersion") != "": // otherwise the namespace is missing
			e.lease = e.lease.anew(e.Namespace, e.Name)
		case code == http.StatusConflict && !read: // otherwise the next attempt comes in a while
			if holder, code, err = e.reread(ctx); holder != "" || err != nil {
				return holder, code, err
			}
			read = true
		default:
			return "", code, err
		}
	}
}

// reread reads the Lease that has changed meanwhile, and returns the holder if that is another one: a person, or another replica, counts at once.
func (e *Elector) reread(ctx context.Context) (holder string, code int, err error) {
	raw, code, err := e.Leases.Get(ctx)
	if code == http.StatusNotFound {
		e.lease = e.lease.anew(e.Namespace, e.Name)
		return "", code, nil
	} else if err != nil {
		return "", code, err
	}
	l, err := parseLease(raw)
	if err != nil {
		return "", code, err
	}
	if l.holder == e.Identity { // what a person has taken out of it is written again
		l.acquireTime, l.transitions = cmp.Or(l.acquireTime, e.lease.acquireTime), max(l.transitions, e.lease.transitions)
		e.lease = l
		return "", code, nil
	}
	return cmp.Or(l.holder, "no replica"), code, nil
}

// anew returns the Lease as it is to be created when it was deleted.
func (l *lease) anew(namespace, name string) *lease {
	created := newLease(namespace, name)
	created.record = l.record
	if spec, ok := l.object["spec"].(map[string]any); ok {
		created.object["spec"] = maps.Clone(spec)
	}
	metadata, _ := l.object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} { // all else was of the object that is gone
		if value, ok := metadata[field]; ok {
			created.object["metadata"].(map[string]any)[field] = value
		}
	}
	return created
}

// Release gives the Lease up, so that another replica can take it at once. From its beginning, the Lease is not valid any more. It fails, and does
// nothing, if this replica does not hold it.
func (e *Elector) Release(ctx context.Context) error {
	if !e.Valid() {
		return errors.New("this replica does not hold it any more")
	}
	e.setRenewed(time.Time{})
	ctx, cancel := e.limit(ctx)
	defer cancel()
	for attempt := 0; ; attempt++ {
		now := time.Now()
		raw, err := e.lease.with(record{duration: time.Second, acquireTime: now.UTC().Format(microTime), transitions: e.lease.transitions}, now)
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
