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

// Server is where the peering object is.
type Server interface {
	// Write writes records into the object, or removes those that are nil, and returns what the object is then. If a version is given, it fails with 409 when
	// the object has another one.
	Write(ctx context.Context, version string, records map[string]any) (State, error)
	// NamespaceEnding asks whether the namespace of the object is being deleted, or gone.
	NamespaceEnding(ctx context.Context) (bool, error)
	// Follow tells the keeper of the object until the context ends.
	Follow(ctx context.Context, k *Keeper)
	// Failure tells what an error of these means.
	Failure(err error) Failure
}

// Failure is the answer to a request that has failed.
type Failure struct {
	Code       int           // its HTTP status; 0 if there was none
	Denied     bool          // whether an admission webhook or a policy has refused it
	RetryAfter time.Duration // what the server asks for
}

// uncertain reports whether the request may have been carried out.
func (f Failure) uncertain() bool { return f.Code == 0 || f.Code >= 500 && !f.Denied }

// transient reports whether the server may well take the same request soon.
func (f Failure) transient() bool {
	return f.uncertain() || f.Code == http.StatusTooManyRequests && !f.Denied
}

// Elector tells whether this replica of the operator holds the Lease of an election.
type Elector interface{ Holds() bool }

// Keeper keeps an operator's membership in one peering object: [Keeper.Run] has the own record alive, and the operator pauses for what the stream shows.
type Keeper struct {
	server     Server
	stealth    bool    // whether the renewals are not logged
	elector    Elector // in whose terms alone the own record is written; nil without an election
	pauser     *pauser.Pauser
	meter      *metrics.Metrics
	name       string          // for the pauser, and in logs
	sessionCtx context.Context // ends when the session stops
	cancel     context.CancelFunc
	observed   context.Context // ends when a whole listing was evaluated, or the session stops
	setSeen    context.CancelFunc
	wakeup     chan struct{} // holds a token when there may be something to do before the time

	mayHaveRecord bool // whether there may be a record of us, which is to be removed at the end; the goroutine's own

	mu          sync.Mutex // guards following
	state       Session
	inListing   bool          // whether the object was in the listing
	expiryTimer *time.Timer   // checks whether we are to pause when our record is about to expire
	alive       int64         // others, as they are counted
	looked      chan struct{} // closed when an attempt has ended that begins from now on; nil if nothing waits for that
}

// Options are what a [Keeper] is made of.
type Options struct {
	Server  Server // nil while there is no resource of peering objects: the operator waits for one
	Name    string // of the membership, for the pauser and in logs
	Stealth bool   // whether the renewals of the record are not logged
	Elector Elector
	Pauser  *pauser.Pauser
	Meter   *metrics.Metrics
	Session Session
}

// NewKeeper returns a keeper whose session ends with the context, or by [Keeper.Stop].
func NewKeeper(ctx context.Context, o *Options) *Keeper {
	k := &Keeper{
		server: o.Server, name: o.Name, stealth: o.Stealth, elector: o.Elector, pauser: o.Pauser, meter: o.Meter, state: o.Session, wakeup: make(chan struct{}, 1),
	}
	if o.Server == nil || k.pauser.Paused() { // perhaps because of a session that is about to stop, and this one has not been evaluated
		k.pauser.Block(k.name, true)
	}
	k.sessionCtx, k.cancel = context.WithCancel(ctx)
	k.observed, k.setSeen = context.WithCancel(k.sessionCtx)
	return k
}

// Namespace returns that of the object, "" for none.
func (k *Keeper) Namespace() string { return k.state.Namespace }

// Observed returns a context that ends when a whole listing was evaluated, or the session stops.
func (k *Keeper) Observed() context.Context { return k.observed }

func (k *Keeper) holds() bool { return k.elector == nil || k.elector.Holds() }

// Run keeps the own record alive until the session ends, and then removes it.
func (k *Keeper) Run() {
	ctx := k.sessionCtx
	if k.server == nil {
		k.setSeen()
		k.warnMissing(ctx)
		return
	}
	if k.holds() {
		k.keepAlive(ctx) // so that of two operators that start at the same time, at least one sees the other
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
	if !k.mayHaveRecord || k.elector != nil { // with an election, the record is that of all replicas: another one goes on with it, or it expires
		return
	}
	nothing, began := map[string]any{k.state.Identity: nil}, time.Now()
	_, err := k.server.Write(context.WithoutCancel(ctx), "", nothing)
	if err != nil && k.server.Failure(err).uncertain() && time.Since(began) < time.Second { // perhaps the connection has ended with the streams that it was shared with
		_, err = k.server.Write(context.WithoutCancel(ctx), "", nothing)
	}
	if err != nil && k.server.Failure(err).Code != http.StatusNotFound {
		k.state.Log.Error("Removing our record from the peering object failed; the record will expire", "help", "K211", "error", err)
	}
}

// step does what is due, or waits until something is.
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

// Stop ends the session, and withdraws its reasons to pause.
func (k *Keeper) Stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel()
	k.endLookLocked()
	k.countLocked(0)
	k.pauser.Block(k.name, false)
}

// warnMissing logs, from time to time, what the operator waits for.
func (k *Keeper) warnMissing(ctx context.Context) {
	for {
		k.state.Logger.Warn("Pausing, because the mandatory peering has no resource", "help", "K205", "peering", k.state.Name, "hint", "apply the custom resource definitions of peering")
		if await.Sleep(ctx, time.Minute) != nil {
			return
		}
	}
}

// writeGrace is how long the end of an operator waits for a record that is being written.
const writeGrace = 2 * time.Second

// keepAlive writes the own record, and looks at those of the others in the answer.
func (k *Keeper) keepAlive(ctx context.Context) {
	k.mu.Lock()
	looked := k.looked
	k.looked = nil
	k.state.Begin(time.Now())
	k.mu.Unlock()
	if looked != nil {
		defer close(looked)
	}
	writing, done := await.Outlive(ctx, writeGrace) // what is cut off may be carried out later than the removal of the record
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
		if !k.state.Look(time.Now()) { // there will be no event that tells of a record that has expired
			return
		}
	}
	k.applyLocked()
}

// awaitExpiryLocked has it noticed in time when the own record dies.
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

// removeExpired removes the expired records, unless one of them has shown a sign of life meanwhile.
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
		k.state.Log.Warn("Removing the records of dead operators failed", "help", "K212", "error", err)
	}
}

// checkNamespace asks whether the namespace of a missing object is being deleted, or gone: nothing can be missed there.
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

// Recheck has it found out anew whether the namespace of the object is being deleted.
func (k *Keeper) Recheck() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Recheck()
	k.wake()
}

// Renew has the own record written anew, as another replica may have removed it. The channel is closed when that was tried, and the records in the answer were looked at,
// which the stream may not have shown yet. It is nil if there is nothing to renew.
func (k *Keeper) Renew() (looked <-chan struct{}) {
	if k.server == nil || k.sessionCtx.Err() != nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looked == nil {
		k.looked = make(chan struct{})
	}
	k.state.Renew(time.Now()) // what is known is of an earlier term
	k.wake()
	return k.looked
}

// endLookLocked has nothing wait any more for a session that ends.
func (k *Keeper) endLookLocked() {
	if k.looked != nil {
		close(k.looked)
		k.looked = nil
	}
}

// BeginListing notes that a listing begins.
func (k *Keeper) BeginListing() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inListing = false
}

// See takes a state of the object from the stream.
func (k *Keeper) See(state State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inListing = true
	k.state.See(time.Now(), state)
	k.applyLocked()
}

// SeeDeleted takes the end of the object from the stream.
func (k *Keeper) SeeDeleted(version string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Lost(version, true)
	k.applyLocked()
}

// EndListing notes that the listing is complete.
func (k *Keeper) EndListing() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Listed()
	if !k.inListing {
		k.state.Lost("", true)
	} else if !k.state.Look(time.Now()) {
		return
	}
	k.applyLocked()
}

// ForgetVersion has the next state that is seen taken for the newest one: the API server may have an older history now.
func (k *Keeper) ForgetVersion() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.ForgetVersion()
}

// FailWatching decides what becomes of a session whose object cannot be watched. Operators whose peering is not mandatory go on without it.
func (k *Keeper) FailWatching(err error) {
	if code := k.server.Failure(err).Code; code != http.StatusForbidden && code != http.StatusNotFound {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.state.Listed() {
		k.state.Log.Warn("Watching the peering objects failed; working as without peers", "help", "K208", "error", err)
		k.state.Lost("", false)
		k.applyLocked()
	}
}

// countLocked counts the others that live.
func (k *Keeper) countLocked(alive int64) {
	k.meter.Add(metrics.Peers, alive-k.alive)
	k.alive = alive
}

// wake has the goroutine of the session check what is due.
func (k *Keeper) wake() {
	select {
	case k.wakeup <- struct{}{}:
	default:
	}
}

// applyLocked does what follows from what is known now: the operator pauses or goes on, and the goroutine of the session checks what is due.
func (k *Keeper) applyLocked() {
	if k.sessionCtx.Err() != nil {
		k.countLocked(0)
		return
	}
	k.countLocked(k.state.Alive())
	k.wake()
	decision, decided := k.state.Decide(time.Now(), k.holds())
	if !decided {
		return // it depends on an answer that is not there yet
	}
	k.pauser.Block(k.name, decision.Pause)
	if decision.Observed {
		k.setSeen()
	}
}
