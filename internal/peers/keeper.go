package peers

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/peerrecord"
)

// Server accesses the peering object.
type Server interface {
	// Write writes records into the object, removes nil ones, and returns the new state. With a version, it fails with 409 if the object has another one.
	Write(ctx context.Context, version string, records map[string]any) (State, error)
	// NamespaceEnding reports whether the namespace of the object is being deleted or does not exist.
	NamespaceEnding(ctx context.Context) (bool, error)
	// Follow watches the object, and passes its states to the keeper, until the context ends.
	Follow(ctx context.Context, k *Keeper)
	// Failure classifies an error of these methods.
	Failure(err error) Failure
}

// Failure describes a failed request.
type Failure struct {
	Code       int           // HTTP status; 0 without a response
	Denied     bool          // an admission webhook or a policy rejected it
	RetryAfter time.Duration // as the server requests
}

// uncertain reports whether the server may have processed the request.
func (f Failure) uncertain() bool { return f.Code == 0 || f.Code >= 500 && !f.Denied }

// transient reports whether a retry may soon succeed.
func (f Failure) transient() bool {
	return f.uncertain() || f.Code == http.StatusTooManyRequests && !f.Denied
}

// Elector reports whether this replica of the operator holds the Lease.
type Elector interface{ Holds() bool }

// Keeper maintains an operator's membership in one peering object: [Keeper.Run] renews the own record, and the operator pauses because of other records.
type Keeper struct {
	server     Server
	stealth    bool    // do not log the renewals
	elector    Elector // only its leader writes the own record; nil without an election
	pauser     *pauser.Pauser
	meter      *metrics.Metrics
	name       string          // for the pauser, and in logs
	sessionCtx context.Context // ends with the session
	cancel     context.CancelFunc
	leave      func(session context.Context) (context.Context, context.CancelFunc)
	observed   context.Context // ends when a complete list was evaluated, or with the session
	setSeen    context.CancelFunc
	wakeup     chan struct{} // holds a token if something may be due early

	mayHaveRecord bool // the own record may exist and must be removed at the end; only the goroutine of Run uses it

	mu          sync.Mutex // guards following
	state       Session
	inListing   bool          // the object was in the list
	expiryTimer *time.Timer   // fires shortly before the own record expires
	alive       int64         // number of other operators, as counted by the meter
	looked      chan struct{} // closed at the end of the next attempt; nil if nothing waits for it
}

// Options are the settings of a [Keeper].
type Options struct {
	Server  Server // nil while the API server has no peering resource: the operator waits for one
	Name    string // of the membership, for the pauser and in logs
	Stealth bool   // do not log the renewals
	Elector Elector
	Pauser  *pauser.Pauser
	Meter   *metrics.Metrics
	Session Session
	// Leave returns a context for the removal of the own record, after the end of the session.
	Leave func(session context.Context) (context.Context, context.CancelFunc)
}

// NewKeeper returns a keeper whose session ends with the context, or by [Keeper.Stop].
func NewKeeper(ctx context.Context, o *Options) *Keeper {
	k := &Keeper{
		server: o.Server, name: o.Name, stealth: o.Stealth, elector: o.Elector, pauser: o.Pauser, meter: o.Meter, state: o.Session, wakeup: make(chan struct{}, 1),
		leave: o.Leave,
	}
	if o.Server == nil || k.pauser.Paused() { // an earlier session may be about to stop, and this one has not been evaluated
		k.pauser.Block(k.name, true)
	}
	k.sessionCtx, k.cancel = context.WithCancel(ctx)
	k.observed, k.setSeen = context.WithCancel(k.sessionCtx)
	return k
}

// Namespace returns the namespace of the object, or "".
func (k *Keeper) Namespace() string { return k.state.Namespace }

// Observed returns a context that ends when a complete list was evaluated, or with the session.
func (k *Keeper) Observed() context.Context { return k.observed }

func (k *Keeper) holds() bool { return k.elector == nil || k.elector.Holds() }

// Run renews the own record until the session ends, and then removes it.
func (k *Keeper) Run() {
	ctx := k.sessionCtx
	if k.server == nil {
		k.setSeen()
		k.warnMissing(ctx)
		return
	}
	if k.holds() {
		k.keepAlive(ctx) // first, so that at least one of two operators that start at the same time sees the other
	}
	var streams sync.WaitGroup
	streams.Go(func() { k.server.Follow(ctx, k) })
	for ctx.Err() == nil {
		k.step(ctx)
	}
	streams.Wait()
	k.mu.Lock()
	k.endLookLocked()
	if k.expiryTimer != nil {
		k.expiryTimer.Stop()
	}
	k.mu.Unlock()
	if !k.mayHaveRecord || k.elector != nil { // with an election, all replicas share the record: another one renews it, or it expires
		return
	}
	ctx, cancel := k.leave(ctx)
	defer cancel()
	nothing, began := map[string]any{k.state.Identity: nil}, time.Now()
	_, err := k.server.Write(ctx, "", nothing)
	if err != nil && k.server.Failure(err).uncertain() && time.Since(began) < time.Second { // perhaps the connection ended with the streams that shared it
		_, err = k.server.Write(ctx, "", nothing)
	}
	if err != nil && k.server.Failure(err).Code != http.StatusNotFound {
		k.state.Log.Error("Removing our record from the peering object failed; the record will expire", "error", err, "help", "K211")
	}
}

// step performs the next action, or waits until one is due.
func (k *Keeper) step(ctx context.Context) {
	k.mu.Lock()
	next := k.state.Next(time.Now(), k.holds())
	k.mu.Unlock()
	switch next.Action {
	case CheckNamespace:
		k.checkNamespace(ctx, next.Question)
	case Write:
		k.keepAlive(ctx)
	case RemoveExpired:
		k.removeExpired(ctx)
	case Idle:
		timer := time.NewTimer(next.Wait)
		select {
		case <-k.wakeup:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Stop ends the session, and removes its reasons to pause.
func (k *Keeper) Stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel()
	k.endLookLocked()
	k.countLocked(0)
	k.pauser.Block(k.name, false)
}

// warnMissing logs, from time to time, that the operator waits for a peering resource.
func (k *Keeper) warnMissing(ctx context.Context) {
	for {
		k.state.Logger.Warn("Pausing, because the mandatory peering has no resource", "peering", k.state.Name, "hint", "apply the custom resource definitions of peering", "help", "K205")
		if await.Sleep(ctx, time.Minute) != nil {
			return
		}
	}
}

// writeGrace is the grace period at shutdown for a running write of the record.
const writeGrace = 2 * time.Second

// keepAlive writes the own record, and evaluates the other records in the response.
func (k *Keeper) keepAlive(ctx context.Context) {
	k.mu.Lock()
	looked := k.looked
	k.looked = nil
	k.state.Begin(time.Now())
	k.mu.Unlock()
	if looked != nil {
		defer close(looked)
	}
	writing, done := await.Outlive(ctx, writeGrace) // the server may process a canceled write after the removal of the record
	state, err := k.server.Write(writing, "", map[string]any{k.state.Identity: peerrecord.Record(k.state.Priority, k.state.Lifetime)})
	done()
	var failure Failure
	if err == nil {
		k.mayHaveRecord = k.state.Lifetime > 0
	} else if failure = k.server.Failure(err); failure.uncertain() {
		k.mayHaveRecord = true // perhaps
	}
	if ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		if !k.stealth {
			k.state.Logger.Debug("Keep-alive in "+k.name+".", "result", "ok")
		}
		k.state.Written(time.Now(), state)
		k.awaitExpiryLocked()
	case failure.Code == http.StatusNotFound:
		k.state.Logger.Debug("Keep-alive in "+k.name+".", "result", "not found")
		k.state.NotFound()
	case failure.transient():
		k.state.Failed(err, max(2*time.Second, failure.RetryAfter))
	default:
		k.state.Failed(err, 0)
		if !k.state.Look(time.Now()) { // a record that expires causes no event
			return
		}
	}
	k.applyLocked()
}

// awaitExpiryLocked starts the timer for the expiration of the own record.
func (k *Keeper) awaitExpiryLocked() {
	if k.state.Lifetime <= 0 || k.sessionCtx.Err() != nil {
		return
	}
	if wait := time.Until(k.state.LapseTime()); k.expiryTimer == nil {
		k.expiryTimer = time.AfterFunc(wait, k.checkExpiry)
	} else {
		k.expiryTimer.Reset(wait)
	}
}

// checkExpiry pauses the operator if its record has expired.
func (k *Keeper) checkExpiry() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.applyLocked()
}

// removeExpired removes the expired records, unless one of them was renewed meanwhile.
func (k *Keeper) removeExpired(ctx context.Context) {
	records := make(map[string]any)
	k.mu.Lock()
	version, expired := k.state.TakeExpired()
	k.mu.Unlock()
	for _, id := range expired {
		records[id] = nil
	}
	state, err := k.server.Write(ctx, version, records)
	if err == nil {
		k.mu.Lock()
		k.state.See(time.Now(), state)
		k.applyLocked()
		k.mu.Unlock()
	} else if code := k.server.Failure(err).Code; ctx.Err() == nil && code != http.StatusNotFound && code != http.StatusConflict {
		k.state.Log.Warn("Removing the records of dead operators failed", "error", err, "help", "K212")
	}
}

// checkNamespace checks whether the namespace of a missing object is being deleted or does not exist. Then the object is not needed.
func (k *Keeper) checkNamespace(ctx context.Context, question int) {
	ending, err := false, error(nil)
	if k.state.Namespace != "" && k.state.Mandatory {
		ending, err = k.server.NamespaceEnding(ctx)
	}
	var after time.Duration
	if err != nil && k.server.Failure(err).transient() {
		after = 2 * time.Second
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() == nil && k.state.Checked(time.Now(), question, ending, after) {
		k.applyLocked()
	}
}

// Recheck schedules another check whether the namespace of the object is being deleted.
func (k *Keeper) Recheck() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Recheck()
	k.wake()
}

// Renew schedules a write of the own record, because another replica may have removed it. It closes the channel after the attempt, when the records in the
// response were evaluated: the stream may not have shown them yet. It returns nil if there is nothing to renew.
func (k *Keeper) Renew() (looked <-chan struct{}) {
	if k.server == nil || k.sessionCtx.Err() != nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looked == nil {
		k.looked = make(chan struct{})
	}
	k.state.Renew(time.Now()) // the known state is of an earlier term
	k.wake()
	return k.looked
}

// endLookLocked releases those who wait for an attempt, at the end of the session.
func (k *Keeper) endLookLocked() {
	if k.looked != nil {
		close(k.looked)
		k.looked = nil
	}
}

// BeginListing records the start of a list.
func (k *Keeper) BeginListing() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inListing = false
}

// See handles a state of the object from the stream.
func (k *Keeper) See(state State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inListing = true
	k.state.See(time.Now(), state)
	k.applyLocked()
}

// SeeDeleted handles the deletion of the object.
func (k *Keeper) SeeDeleted(version string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Lost(version, true)
	k.applyLocked()
}

// EndListing records that the list is complete.
func (k *Keeper) EndListing() {
	k.mu.Lock()
	defer k.mu.Unlock()
	again := k.state.Listed()
	if !k.inListing {
		if !again && k.state.Chosen && !k.state.Mandatory {
			k.state.Log.Warn("The peering object of the settings does not exist; working as without peers until it exists", "help", "K222")
		}
		k.state.Lost("", true)
	} else if !k.state.Look(time.Now()) {
		return
	}
	k.applyLocked()
}

// ForgetVersion makes the next state the newest one, because the API server may have been restored to an older history.
func (k *Keeper) ForgetVersion() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.ForgetVersion()
}

// FailWatching handles the failure to watch the object. An operator without mandatory peering works without the object.
func (k *Keeper) FailWatching(err error) {
	if code := k.server.Failure(err).Code; code != http.StatusForbidden && code != http.StatusNotFound {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.state.Listed() {
		k.state.Log.Warn("Watching the peering objects failed; working as without peers", "error", err, "help", "K208")
		k.state.Lost("", false)
		k.applyLocked()
	}
}

// countLocked updates the number of other operators that are alive.
func (k *Keeper) countLocked(alive int64) {
	k.meter.Add(metrics.Peers, alive-k.alive)
	k.alive = alive
}

// wake wakes the goroutine of [Keeper.Run].
func (k *Keeper) wake() {
	select {
	case k.wakeup <- struct{}{}:
	default:
	}
}

// applyLocked applies a changed state: the operator pauses or resumes, and the goroutine of [Keeper.Run] wakes up.
func (k *Keeper) applyLocked() {
	if k.sessionCtx.Err() != nil {
		k.countLocked(0)
		return
	}
	k.countLocked(k.state.Alive())
	k.wake()
	decision, decided := k.state.Decide(time.Now(), k.holds())
	if !decided {
		return // a check of the namespace is pending
	}
	k.pauser.Block(k.name, decision.Pause)
	if decision.Observed {
		k.setSeen()
	}
}
