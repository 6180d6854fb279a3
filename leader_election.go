package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/credtransport"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/leaderelection"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/workpool"
)

// This file runs the leader election: only the replica that holds the Lease works. The others stand by with open streams and full indices, and call no
// handlers. The election runs on its own goroutine. The fence stops writes without the Lease: the client sends none, and cancels those under way.

// ErrLeadershipLost is the cause of canceled contexts when a replica loses the Lease of [LeaderElectionSettings]. See [context.Cause]. Requests of the
// operator's client that would write without the Lease return it, too. A handler can just return it. The attempt then does not count, and the next leader calls
// the handler again.
var ErrLeadershipLost = errors.New("this replica does not hold the Lease of the leader election")

var leasesResource = Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease", Namespaced: true}

// leadership is the state of a replica in an election. It is nil without an election, and the operator then always works.
type leadership struct {
	run     *run
	elector *leaderelection.Elector
	log     *slog.Logger
	ref     ObjectReference // of the Lease
	standby pauser.Pauser   // paused while another replica works; its epochs are the terms and the times between them
	fence   atomic.Uint64   // the acquired resource version of the Lease; 0 while this replica does not work
	follows atomic.Bool     // whether there may have been an earlier term, of any replica, since this one started; stays so

	standing context.CancelFunc // ends the attempts to acquire the Lease
	holding  context.CancelFunc // ends its renewals
	done     chan struct{}      // closed when the election is over

	mu       sync.Mutex // guards following, and the additions to starting
	terms    termContexts
	failure  error // ends the operator
	stopping bool  // whether no term begins any more

	starting sync.WaitGroup // the start of a term
}

// termContexts are the contexts of one term, nil before the first one.
type termContexts struct {
	handlers context.Context // of event and change handlers: ends with the term, or when the shutdown stops waiting
	tasks    context.Context // of daemons and timers: ends with the term
	lease    string          // the uid of the Lease
	requests context.Context // of requests that store results: ends with the term, or with the operator
	end      context.CancelCauseFunc
	stopped  bool // whether the handlers of its end were called
}

// newLeadership returns the state of the replica in an election, nil without one.
func newLeadership(r *run) *leadership {
	s := &r.Settings.LeaderElection
	if s.Name == "" {
		return nil
	}
	l := &leadership{run: r, log: r.Logger, done: make(chan struct{})}
	l.elector = &leaderelection.Elector{Config: leaderelection.Config{
		Name: s.Name, Identity: fmt.Sprintf("%s_%08d", r.Identity, rand.IntN(100_000_000)),
		LeaseDuration: s.LeaseDuration, RenewDeadline: s.RenewDeadline, RetryPeriod: s.RetryPeriod, Log: r.Logger, NewServer: r.local,
	}}
	l.standby.Block("standby", true)
	return l
}

// start starts the election.
func (l *leadership) start(ctx context.Context, o *observer) {
	if l == nil {
		return
	}
	e := l.elector
	l.run.meter.Election.Store(&metrics.Election{Lease: e.Name, Leading: func() bool { return l.fence.Load() != 0 }, Holder: e.Holder, Reached: e.Reached})
	standing, stopStanding := context.WithCancel(unlimited(ctx))
	holding, stopHolding := context.WithCancel(context.WithoutCancel(standing))
	l.mu.Lock()
	l.standing, l.holding = stopStanding, stopHolding
	l.mu.Unlock()
	go func() {
		defer close(l.done)
		l.elect(standing, holding, o)
	}()
}

// locate determines the namespace of the Lease, which can need a login.
func (l *leadership) locate(ctx context.Context) error {
	if l == nil {
		return nil
	}
	e := l.elector
	if e.Namespace = l.run.Settings.LeaderElection.Namespace; e.Namespace == "" {
		info, err := l.run.client.ConnectionInfo(ctx)
		if err != nil {
			return err
		}
		e.Namespace = cmp.Or(info.DefaultNamespace, "default")
	}
	l.ref = ObjectReference{APIVersion: leasesResource.APIVersion(), Kind: leasesResource.Kind, Namespace: e.Namespace, Name: e.Name}
	e.Leases = &leaseRequests{client: l.run.client.withoutFence(), namespace: e.Namespace, name: e.Name}
	return nil
}

// elect acquires and holds the Lease, repeatedly, until the operator ends.
func (l *leadership) elect(standing, holding context.Context, o *observer) {
	for {
		term, err := l.elector.Acquire(standing)
		if forbidden := (*leaderelection.ForbiddenError)(nil); errtype.As(err, &forbidden) {
			l.fail(o, fmt.Errorf("the leader election may not use the Lease %s: %w", l.leaseName(), err))
		}
		if err != nil || standing.Err() != nil {
			return
		}
		if !l.begin(term, o) {
			return // the Lease is released
		}
		lost := l.elector.Hold(holding)
		if lost == nil {
			l.starting.Wait() // the contexts have ended with the operator
			return
		}
		l.end(lost, o)
		l.stoppedLeading()
	}
}

// begin begins a term, unless the operator is stopping. It allows requests, and calls the handlers of the start of leading.
func (l *leadership) begin(term *leaderelection.Term, o *observer) bool {
	number, _ := strconv.ParseUint(term.Version, 10, 64)
	number = max(number, 1) // API servers have numeric versions; for others, the fence only means that there is a term
	handlers, endHandlers := context.WithCancelCause(o.handlers)
	tasks, endTasks := context.WithCancelCause(context.WithoutCancel(o.handlers))
	requests, endRequests := context.WithCancelCause(o.requests)
	end := func(cause error) {
		endHandlers(cause)
		endTasks(cause)
		endRequests(cause)
	}
	l.mu.Lock()
	if l.stopping {
		l.mu.Unlock()
		end(nil)
		return false
	}
	if term.Existed {
		l.follows.Store(true)
	}
	l.fence.Store(number)
	l.terms = termContexts{lease: term.UID, handlers: handlers, tasks: tasks, requests: requests, end: end}
	l.starting.Add(1)
	l.mu.Unlock()
	l.run.meter.Add(metrics.Terms, 1)
	l.logLeading(term, number)
	l.post("became leader")
	go func() {
		defer l.starting.Done()
		l.startLeading(o)
	}()
	return true
}

func (l *leadership) logLeading(term *leaderelection.Term, fence uint64) {
	attrs := []any{"lease", l.leaseName(), "identity", l.elector.Identity, "fence", fence, "transitions", term.Transitions}
	if term.Former != "" {
		attrs = append(attrs, "former", term.Former)
	}
	if term.Vacant > 0 {
		attrs = append(attrs, "vacant", term.Vacant.Round(time.Millisecond))
	}
	l.log.Info("Became the leader", attrs...)
}

// startLeading calls the handlers of the start of leading, and then starts the handling of objects.
func (l *leadership) startLeading(o *observer) {
	l.mu.Lock()
	ctx := l.terms.handlers
	l.mu.Unlock()
	var reading sync.WaitGroup
	if l.follows.Load() {
		reading.Go(func() { o.readVersions(ctx, l.number()) })
	}
	defer reading.Wait() // its context ends with the term
	looked := o.peers.renew()
	if _, err := l.run.activity(ctx, kindStartedLeading, "startedLeading", l.run.client.during(l.number())); err != nil {
		if ctx.Err() == nil {
			l.fail(o, err)
		}
		return
	}
	o.peers.waitRenewed(ctx, looked)
	l.mu.Lock()
	if ctx.Err() != nil { // the term has ended meanwhile
		l.mu.Unlock()
		return
	}
	l.standby.Block("standby", false)
	l.mu.Unlock()
	o.lead()
}

// fail ends the operator.
func (l *leadership) fail(o *observer, err error) {
	l.mu.Lock()
	l.failure = err
	l.mu.Unlock()
	o.end(err)
}

// failed returns the error of the election that has ended the operator, nil if there is none.
func (l *leadership) failed() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// end ends a term after a loss of the Lease.
func (l *leadership) end(lost error, o *observer) {
	l.endTerm(l.number())
	l.log.Warn("Lost the leadership; standing by", "lease", l.leaseName(), "identity", l.elector.Identity, "reason", lost, "help", "K216")
	o.standBy()
}

// endTerm ends the term with a fence, unless it is over. It prevents new work, and cancels the contexts of the running work.
func (l *leadership) endTerm(fence uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fence.Load() != fence {
		return // the loss of an earlier term does not concern the next one
	}
	l.standby.Block("standby", true)
	l.fence.Store(0)
	l.follows.Store(true)
	if l.terms.end != nil {
		l.terms.end(ErrLeadershipLost)
	}
}

// check returns an error, and ends the term, if the Lease has expired by the replica's clocks. The election may not have noticed that yet, because a stopped
// process continues everywhere at once.
func (l *leadership) check() error {
	if l == nil {
		return nil
	}
	fence := l.number()
	if fence != 0 && l.elector.Valid() { // it is also valid shortly before a term begins
		return nil
	}
	l.endTerm(fence)
	return ErrLeadershipLost
}

// lost reports whether the error means the end of the context's term. A client of an earlier term returns such errors, too.
func (l *leadership) lost(ctx context.Context, err error) bool {
	return errors.Is(err, ErrLeadershipLost) && (errors.Is(context.Cause(ctx), ErrLeadershipLost) || l.check() != nil)
}

// stoppedLeadingTimeout limits the handlers of the end of leading. At shutdown, the next leader waits for them. After the second signal, they have as much
// time as clean-up handlers.
const stoppedLeadingTimeout = 5 * time.Second

// stoppedLeading calls the handlers of the end of leading once per term, after those of its start have returned. It logs their errors.
func (l *leadership) stoppedLeading() {
	l.starting.Wait() // their contexts have ended
	l.mu.Lock()
	stopped, client := l.terms.stopped, l.run.client.during(l.number())
	l.terms.stopped = true
	l.mu.Unlock()
	if stopped {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stoppedLeadingTimeout)
	defer cancel()
	ctx, end := await.EndAfter(ctx, l.run.guard.ForceContext(), forcedCleanupTime)
	defer end()
	if _, err := l.run.activity(ctx, kindStoppedLeading, "stoppedLeading", client); err != nil {
		l.log.Error("The handlers of the end of the leading failed", "error", err, "help", "K220")
	}
}

// stop ends the election, and releases the Lease if no running function needs it.
func (l *leadership) stop() {
	if l == nil {
		return
	}
	l.mu.Lock()
	standing, holding := l.standing, l.holding
	l.stopping = true
	l.mu.Unlock()
	if standing == nil { // the election was never started
		return
	}
	standing()
	l.starting.Wait() // their contexts have ended: those that do not return are orphans now
	if l.fence.Load() != 0 && l.run.orphans.Load() == 0 && l.elector.Valid() {
		l.stoppedLeading() // while the Lease is still renewed
	}
	holding()
	<-l.done
	if !l.elector.Valid() {
		return
	}
	if l.run.orphans.Load() > 0 {
		l.log.Warn("Leaving the Lease to expire, because a function of a handler has not returned", "lease", l.leaseName(), "help", "K218")
		return
	}
	l.endTerm(l.number())
	ctx, cancel := await.EndAfter(context.Background(), l.run.guard.ForceContext(), forcedRequestTime)
	defer cancel()
	if err := l.elector.Release(unlimited(ctx)); err != nil {
		l.log.Warn("Releasing the Lease failed; it will expire", "lease", l.leaseName(), "error", err, "help", "K219")
	} else {
		l.log.Info("Released the Lease", "lease", l.leaseName())
	}
}

// leaseName returns the namespace and the name of the Lease.
func (l *leadership) leaseName() string { return l.ref.Namespace + "/" + l.ref.Name }

// abandon counts abandoned functions. It is called with -1 when one of them returns.
func (l *leadership) abandon(n int64) {
	if l != nil {
		l.run.orphans.Add(n)
	}
}

// abandonAll counts tasks as one abandoned function until all of them have ended.
func (l *leadership) abandonAll(tasks *sync.WaitGroup) {
	l.abandon(1)
	go func() {
		tasks.Wait()
		l.abandon(-1)
	}()
}

// announceEnd posts the event before an orderly end of leading. After a loss, no request may be sent.
func (l *leadership) announceEnd() {
	if l != nil && l.fence.Load() != 0 && l.run.orphans.Load() == 0 {
		l.post("stopped leading")
	}
}

// post posts an event about the Lease, with the messages of client-go.
func (l *leadership) post(what string) {
	l.mu.Lock()
	ref := l.ref
	ref.UID = l.terms.lease
	l.mu.Unlock()
	l.run.events.post(slog.LevelInfo, ref, "Normal", "LeaderElection", l.elector.Identity+" "+what)
}

// leads reports whether this replica works.
func (l *leadership) leads() bool { return l == nil || !l.standby.Paused() }

// Holds reports whether this replica may write: it works, or is about to.
func (l *leadership) Holds() bool { return l == nil || l.fence.Load() != 0 }

// term returns the number of the current epoch: a term, or the time between two terms.
func (l *leadership) term() uint32 {
	if l == nil {
		return 0
	}
	return l.standby.Epoch()
}

// contexts returns the contexts of a term, canceled ones if it is over. It needs an election.
func (l *leadership) contexts(term uint32) termContexts {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms.end == nil || term != l.standby.Epoch() {
		lost, end := context.WithCancelCause(context.Background())
		end(ErrLeadershipLost)
		return termContexts{handlers: lost, tasks: lost, requests: lost}
	}
	return l.terms
}

// contexts returns the contexts of handlers and of requests for an epoch.
func (r *reactor) contexts(at epoch) (handlers, requests context.Context) {
	if r.leader == nil {
		return r.handlers, r.requests
	}
	term := r.leader.contexts(at.term)
	return term.handlers, workpool.NewContext(term.requests, r.limiter)
}

// leaseRequests sends the requests for a Lease, on a connection that other requests cannot delay.
type leaseRequests struct {
	client          *Client
	namespace, name string
}

// Get implements [leaderelection.Leases].
func (l *leaseRequests) Get(ctx context.Context) ([]byte, int, error) {
	return l.send(ctx, http.MethodGet, l.name, nil)
}

// Create implements [leaderelection.Leases].
func (l *leaseRequests) Create(ctx context.Context, raw []byte) ([]byte, int, error) {
	return l.send(ctx, http.MethodPost, "", raw)
}

// Update implements [leaderelection.Leases].
func (l *leaseRequests) Update(ctx context.Context, raw []byte) ([]byte, int, error) {
	return l.send(ctx, http.MethodPut, l.name, raw)
}

func (l *leaseRequests) send(ctx context.Context, method, name string, raw []byte) ([]byte, int, error) {
	r := &request{method: method, path: leasesResource.path(l.namespace, name, ""), body: raw, once: true}
	if raw != nil {
		r.contentType = "application/json"
	}
	body, err := l.client.body(ctx, r)
	if err != nil {
		return nil, StatusCode(err), err
	}
	return body.raw, http.StatusOK, nil
}

// Fence returns a fencing token: a number that is higher for each new leader. Send it to systems other than the API server. A system that refuses lower numbers
// than it has seen is safe from a former leader whose handlers ignore their contexts. It is the resource version of the Lease of [LeaderElectionSettings] when
// the replica got it, and stays the same during a call. It is zero without a leader election, and on a standby replica.
func (o *Object) Fence() uint64 { return o.fence }

// Fence returns a number that is higher for each new leader. It is zero in start-up handlers, and in handlers of [Registry.OnStoppedLeading] after a loss. See
// [Object.Fence].
func (a *Activity) Fence() uint64 { return a.fence }

// number returns the fence of the term; 0 without one.
func (l *leadership) number() uint64 {
	if l == nil {
		return 0
	}
	return l.fence.Load()
}

// fenced returns the client with a fence: it writes only during the terms of a replica.
func (c *Client) fenced(l *leadership) *Client {
	return &Client{clientCore: c.clientCore, manager: c.manager, leader: l}
}

// during returns the client for one term. Code that ignores the end of the term cannot write in a later one.
func (c *Client) during(term uint64) *Client {
	if c == nil || c.leader == nil {
		return c
	}
	if term == 0 {
		term = noTerm
	}
	return &Client{c.clientCore, c.manager, c.leader, term, c.writes}
}

// noTerm is the term of clients that were made between two terms, which never write.
const noTerm = ^uint64(0)

// withoutFence returns the client for work of all replicas.
func (c *Client) withoutFence() *Client { return c.fenced(nil) }

// enter returns a context for a request, which ends with the term, and a function to call after the request. It fails unless the replica certainly holds the
// Lease by its own clocks.
func (c *Client) enter(ctx context.Context, method, path string) (context.Context, context.CancelFunc, error) {
	l := c.leader
	if l == nil || !apirequest.Changes(method, path) {
		return ctx, func() {}, nil
	}
	l.mu.Lock()
	term, now := l.terms.tasks, l.fence.Load()
	l.mu.Unlock()
	if now == 0 || c.term != 0 && c.term != now || l.check() != nil {
		return nil, nil, fmt.Errorf("%s %s: not sent: %w", method, path, ErrLeadershipLost)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(term, func() { cancel(ErrLeadershipLost) })
	return ctx, func() {
		stop()
		cancel(nil)
	}, nil
}

// fencedBody is the body of a response for other libraries. Closing it ends the request.
type fencedBody struct {
	io.ReadCloser
	leave context.CancelFunc
}

// Close closes the body.
func (b *fencedBody) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}

// fenced sends a write request if the fence allows it.
func (t *apiTransport) fenced(r *http.Request) (*http.Response, error) {
	ctx, leave, err := t.client.enter(r.Context(), r.Method, r.URL.Path)
	if err != nil {
		credtransport.CloseBody(r)
		return nil, err
	}
	resp, err := t.send(r.WithContext(ctx))
	if err != nil {
		leave()
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols { // its body is the connection
		resp.Body = &fencedBody{resp.Body, leave}
	}
	return resp, nil
}
