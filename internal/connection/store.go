package connection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/credtransport"
)

// This file tracks the valid credentials. A request picks a credential, reports a rejection by the server, and waits for a new login when no credential is
// left. A login runs on its own goroutine, so that a canceled request does not cancel it for others. Store.Close cancels it and waits for it, for a limited
// time.

// Credential is one set of credentials, with its clients.
type Credential struct {
	ID           string       // of the login handler
	Info         *Info        // must not be modified
	Client       *http.Client // for ordinary requests
	WriteClient  *http.Client // for writes: one connection per running request, which costs less than sharing one
	StreamClient *http.Client // for watches and urgent requests, on separate connections

	connectTimeout, streamTimeout time.Duration // of the clients

	Session       *credtransport.Session // of its requests
	retries       int                    // rejected credentials in a row before it, including its own earlier uses
	neverAccepted bool                   // rejected without ever having been accepted
}

// errRanOut is the cause of the login error when a login returns only rejected credentials.
var errRanOut = errors.New("ran out of valid credentials")

// refusedRetryDelays are the delays before trying credentials that equal rejected ones, or that follow credentials that were never accepted: the rejection may
// have been temporary. After the last delay, kopf gives them up.
var refusedRetryDelays = [...]time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second}

// maxRefused is the number of remembered rejected credentials per login handler.
const maxRefused = 3

// Store holds the credentials of one operator. Its errors are of type [*Error], except those of logins and contexts.
type Store struct {
	// Timeouts returns the connect timeouts of clients; zero means no limit. Nil means no limits.
	Timeouts func() (connect, stream time.Duration)

	login Login // runs once, however many requests wait

	ctx   context.Context // of logins and sessions; canceled by Close
	stop  context.CancelFunc
	tasks sync.WaitGroup // the running login

	connections      context.Context // of all clients; canceled by Close after the requests
	closeConnections context.CancelFunc

	mu      sync.Mutex                        // guards all below
	valid   map[string]*Credential            // by login handler
	refused map[string][]*Credential          // the last ones by login handler, newest last
	expired map[string]*credtransport.Session // of expired credentials; their streams continue
	retired []*Credential                     // their streams continue; newest last
	cause   error                             // of the last rejection
	running *loginRun                         // nil without a running login
}

// loginRun is a running login.
type loginRun struct {
	done chan struct{} // closed by the login's goroutine
	err  error         // read only after done is closed
}

// failure returns the error of the login, or nil while it runs.
func (r *loginRun) failure() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// Login returns new credentials by login handler. All waiting requests receive its error unchanged.
type Login func(ctx context.Context) (map[string]*Info, error)

// NewStore returns a store without credentials. The first pick logs in.
func NewStore(login Login) *Store {
	s := &Store{
		login:   login,
		valid:   map[string]*Credential{},
		refused: map[string][]*Credential{},
		expired: map[string]*credtransport.Session{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.connections, s.closeConnections = context.WithCancel(context.Background())
	return s
}

// Do performs one request. It picks a credential and calls try, and repeats that while try reports that the server rejected the credential (HTTP 401). If
// nothing is left to try, Do returns the error of try. It also repeats a request that was canceled because its credential was removed.
func (s *Store) Do(ctx context.Context, try func(*Credential) (refused bool, err error)) error {
	var last error
	for {
		cred, err := s.Pick(ctx)
		if err != nil {
			if last != nil && errors.Is(err, errRanOut) {
				return &Error{Message: errRanOut.Error(), Err: last}
			}
			return err
		}
		refused, err := try(cred)
		switch {
		case ctx.Err() != nil:
			return err
		case !refused && errors.Is(err, credtransport.ErrClosed):
			continue
		case !refused:
			return err
		case last != nil && s.probe(ctx, cred):
			return err // the new credentials work for other requests
		}
		last = err
		s.invalidate(cred, err)
	}
}

// probe sends a harmless request, to distinguish rejected credentials from a rejected request.
func (s *Store) probe(ctx context.Context, cred *Credential) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(cred.Info.Server, "/")+"/version", nil)
	if err != nil {
		return false
	}
	resp, err := cred.Client.Do(req)
	if err != nil {
		return false
	}
	credtransport.Drain(resp.Body)
	return resp.StatusCode < 500 && resp.StatusCode != http.StatusUnauthorized
}

// Pick returns one of the best credentials, after a login if there are none. It returns an [*Error], or the error of ctx.
func (s *Store) Pick(ctx context.Context) (*Credential, error) {
	for {
		best, run, err := s.bestOrLogin()
		if best != nil || err != nil {
			return best, err
		}
		select {
		case <-run.done:
		case <-s.connections.Done(): // Close has ended, perhaps without the login
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := run.failure(); err != nil {
			return nil, err
		}
	}
}

// bestOrLogin returns one of the best credentials, or the login to wait for if there are none.
func (s *Store) bestOrLogin() (*Credential, *loginRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, nil, &Error{Message: "the client is closed"}
	}
	if best := s.bestLocked(); best != nil {
		return best, nil, nil
	}
	if s.running == nil {
		run := &loginRun{done: make(chan struct{})}
		s.running = run
		s.tasks.Go(func() { s.runLogin(run) })
	}
	return nil, s.running, nil
}

// bestLocked returns a random one of the credentials with the highest priority, or nil. It removes expired ones.
func (s *Store) bestLocked() *Credential {
	var best *Credential
	equal := 0
	for id, c := range s.valid {
		switch {
		case c.Info.expired():
			delete(s.valid, id)
			s.expired[id] = c.Session
			s.retireLocked(c)
		case best == nil || c.Info.Priority > best.Info.Priority:
			best, equal = c, 1
		case c.Info.Priority == best.Info.Priority:
			if equal++; rand.IntN(equal) == 0 {
				best = c
			}
		}
	}
	return best
}

// maxRetired is the number of remembered credentials whose streams may continue.
const maxRetired = 10

// retireLocked stops using a credential. Its running requests finish with it. It also closes idle connections of earlier retired credentials.
func (s *Store) retireLocked(c *Credential) {
	if s.retired = append(s.retired, c); len(s.retired) > maxRetired {
		s.retired = slices.Delete(s.retired, 0, 1)
	}
	for _, c := range s.retired {
		c.CloseIdle()
	}
}

// CloseIdle closes the idle connections.
func (c *Credential) CloseIdle() {
	c.Client.CloseIdleConnections()
	c.WriteClient.CloseIdleConnections()
	c.StreamClient.CloseIdleConnections()
}

// runLogin logs in for all waiting requests. It stores the credentials and replaces the sessions of rejected ones under one lock. Otherwise, a request rejected
// in between would find no credentials.
func (s *Store) runLogin(run *loginRun) {
	infos, err := s.login(s.ctx)
	var fresh []*Credential
	if err == nil {
		fresh, err = s.take(infos)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = s.storeLocked(fresh, infos)
	}
	s.endRefusedLocked()
	s.running = nil
	run.err = err
	close(run.done)
}

// endRefusedLocked replaces the sessions of rejected credentials, unless a valid credential shares them.
func (s *Store) endRefusedLocked() {
	for id, list := range s.refused {
		for _, c := range list {
			if now := s.valid[id]; now == nil || now.Session != c.Session {
				c.Session.Replace()
			}
		}
	}
}

// take returns the credentials of a login to store. It takes rejected credentials only if there are no others, and after a delay.
func (s *Store) take(infos map[string]*Info) ([]*Credential, error) {
	fresh, again, err := s.classify(infos)
	if err != nil || len(fresh) > 0 || len(again) == 0 {
		return fresh, err
	}
	pause := refusedRetryDelays[len(refusedRetryDelays)-1]
	for _, c := range again {
		pause = min(pause, refusedRetryDelays[c.retries-1])
	}
	return again, failed(await.Sleep(s.ctx, pause))
}

// failed returns the error of a canceled login.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Message: "the login has failed", Err: err}
}

// storeLocked stores the credentials of a login. It returns an error if there are none, and none are left of earlier logins.
func (s *Store) storeLocked(fresh []*Credential, infos map[string]*Info) error {
	if s.ctx.Err() != nil {
		return failed(context.Cause(s.ctx))
	}
	if len(fresh) == 0 && len(s.valid) == 0 {
		return s.noCredentialsLocked(infos)
	}
	for _, c := range fresh {
		delete(s.expired, c.ID)
		s.valid[c.ID] = c
	}
	return nil
}

// noCredentialsLocked returns the reason why a login has left no credentials.
func (s *Store) noCredentialsLocked(infos map[string]*Info) error {
	count := 0
	for id, info := range infos {
		if info == nil {
			continue
		}
		if count++; info.expired() {
			return &Error{Message: fmt.Sprintf("the credentials of %q have expired at %s already", id, info.Expiration.Format(time.RFC3339))}
		}
	}
	if count == 0 {
		return &Error{Message: "no credentials were given by the login handlers"}
	}
	return &Error{Message: errRanOut.Error(), Err: &refusedError{s.cause}}
}

// refusedError is errRanOut with the response of the server.
type refusedError struct{ cause error }

func (e *refusedError) Error() string {
	if e.cause == nil {
		return "all of them were refused"
	}
	return e.cause.Error()
}

func (e *refusedError) Unwrap() []error { return []error{errRanOut, e.cause} }

// classify sorts the credentials of a login: fresh ones, and rejected ones to try again.
func (s *Store) classify(infos map[string]*Info) (fresh, again []*Credential, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(infos)) {
		info := infos[id]
		if info == nil || info.expired() {
			continue
		}
		c := &Credential{ID: id, Info: info, Session: s.expired[id]}
		before := s.refusedLocked(id, info)
		if before != nil {
			if before.retries == len(refusedRetryDelays) {
				continue
			}
			c.retries = before.retries + 1
			if before.Info.equal(info) {
				c.Session = before.Session
			}
		}
		if err := s.connect(c); err != nil {
			return nil, nil, unusable(id, err)
		}
		if before != nil {
			again = append(again, c)
		} else {
			fresh = append(fresh, c)
		}
	}
	return fresh, again, nil
}

// unusable returns the error of a login whose result cannot be used, or nil without an error.
func unusable(id string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Message: fmt.Sprintf("the credentials of %q can't be used", id), Err: err}
}

// refusedLocked returns the rejected credential that casts doubt on info: an equal one, or the last one if the server never accepted it. It returns nil if
// there is none.
func (s *Store) refusedLocked(id string, info *Info) *Credential {
	list := s.refused[id]
	for _, c := range list {
		if c.Info.equal(info) {
			return c
		}
	}
	if n := len(list); n > 0 && list[n-1].neverAccepted {
		return list[n-1]
	}
	return nil
}

// connect creates the clients of a credential, with a new session unless it has an open one.
func (s *Store) connect(c *Credential) error {
	info := *c.Info // the caller may change its own
	c.Info = &info
	if err := info.Validate(); err != nil {
		return err
	}
	if c.Session == nil || c.Session.Reads.Err() != nil {
		c.Session = credtransport.NewSession(s.ctx)
	}
	c.Session.Accepted.Store(false)
	return s.makeClients(c)
}

// makeClients creates the clients of a credential with a session.
func (s *Store) makeClients(c *Credential) (err error) {
	c.connectTimeout, c.streamTimeout = s.timeouts()
	if c.Client, err = c.Info.NewHTTPClient(s.connections, c.connectTimeout, c.Session, Sharing); err != nil {
		return err
	}
	if c.WriteClient, err = c.Info.NewHTTPClient(s.connections, c.connectTimeout, c.Session, Alone); err != nil {
		return err
	}
	c.StreamClient, err = c.Info.NewHTTPClient(s.connections, c.streamTimeout, c.Session, Sharing)
	return err
}

// timeouts returns the connect timeouts of the two clients; zero means no limit.
func (s *Store) timeouts() (connect, stream time.Duration) {
	if s.Timeouts == nil {
		return 0, 0
	}
	return s.Timeouts()
}

// Reconnect replaces the clients of all credentials whose timeouts have changed. Running requests finish with the old ones.
func (s *Store) Reconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	connect, stream := s.timeouts()
	for id, c := range s.valid {
		if c.connectTimeout == connect && c.streamTimeout == stream {
			continue
		}
		next := &Credential{ID: c.ID, Info: c.Info, Session: c.Session, retries: c.retries}
		if s.makeClients(next) == nil { // on failure, the old clients stay in use
			s.valid[id] = next
			s.retireLocked(c)
		}
	}
}

// invalidate removes a rejected credential; cause is the response of the server. Its streams end now if other credentials are valid. Otherwise, they end after
// the next login, unless that returns the same credentials.
func (s *Store) invalidate(cred *Credential, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.valid[cred.ID] != cred {
		return // another request has done it
	}
	delete(s.valid, cred.ID)
	if cred.neverAccepted = !cred.Session.Accepted.Load(); !cred.neverAccepted {
		cred.retries = 0
	}
	s.cause = cause
	var list []*Credential
	for _, c := range s.refused[cred.ID] {
		if !c.Info.equal(cred.Info) {
			list = append(list, c)
		}
	}
	if list = append(list, cred); len(list) > maxRefused {
		list[0].Session.Replace()
		list = slices.Delete(list, 0, 1)
	}
	s.refused[cred.ID] = list
	cred.CloseIdle()
	if s.bestLocked() != nil {
		cred.Session.Replace()
	}
}

// loginGracePeriod is how long a login may run after its context is canceled. It is longer than the grace period of login handlers.
const loginGracePeriod = 5 * time.Second

// Close closes all connections, cancels the running login, and waits for it for a limited time. Later picks return an error. Close reports whether the login
// has ended.
func (s *Store) Close() (ended bool) {
	s.mu.Lock()
	s.stop() // under the lock, so that no login begins after the wait
	s.mu.Unlock()
	ended = await.For(s.ctx, &s.tasks, loginGracePeriod)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.valid {
		c.CloseIdle()
	}
	for _, list := range append(slices.Collect(maps.Values(s.refused)), s.retired) {
		for _, c := range list {
			c.CloseIdle() // requests that finished since then have left connections
		}
	}
	s.closeConnections()
	clear(s.valid)
	return ended
}
