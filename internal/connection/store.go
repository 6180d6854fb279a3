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

// This file knows which credentials are valid at the moment. Requests pick one, report when the server
// has refused it, and wait for a new login when none is left. A login runs on a goroutine of its own, so that
// no request that gives up takes it down for the others; Store.Close ends it and waits for it, unless it ignores that.

// Credential is one way to authenticate, with the clients made of it.
type Credential struct {
	ID           string       // of the login handler that gave it
	Info         *Info        // not to be changed
	Client       *http.Client // for ordinary requests
	WriteClient  *http.Client // for those that change something: with a connection for each that is under way, which costs both sides less than sharing one
	StreamClient *http.Client // for watches, and for requests that must not be held up by others: with connections of its own

	connectTimeout, streamTimeout time.Duration // of the clients

	Session       *credtransport.Session // of its requests
	retries       int                    // how many before it were refused in a row, itself in an earlier life included
	neverAccepted bool                   // it was refused without ever having been accepted
}

// errRanOut is the cause of the login error when a login gives only what was refused.
var errRanOut = errors.New("ran out of valid credentials")

// refusedRetryDelays are the pauses before the credentials of a login are tried that are equal to refused ones, or follow
// others that were never accepted: the server may have been wrong for a moment. After the last one they are given up.
var refusedRetryDelays = [...]time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second}

// maxRefused is the number of refused credentials that are remembered for each login handler.
const maxRefused = 3

// Store holds the credentials of one operator. Its errors are of the type [*Error], but for those of logins and contexts.
type Store struct {
	// Timeouts limit the connecting of clients; zero means no limit. Nil means that nothing does.
	Timeouts func() (connect, stream time.Duration)

	login Login // runs once however many requests wait

	ctx   context.Context // of logins and sessions; ends when the store is closed
	stop  context.CancelFunc
	tasks sync.WaitGroup // the login that runs

	mu      sync.Mutex                        // guards all below
	valid   map[string]*Credential            // by the id of the login handler
	refused map[string][]*Credential          // the last ones, newest last
	expired map[string]*credtransport.Session // of expired credentials; their streams go on
	retired []*Credential                     // whose streams go on, newest last
	cause   error                             // of the last refusal
	running *loginRun                         // nil if no login runs
}

// loginRun is a login that requests wait for.
type loginRun struct {
	done chan struct{} // closed by the login's goroutine, waited for by pick
	err  error         // to be read when done is closed
}

// Login gets new credentials by the ids of the handlers that they come from. Its error is given as it is to all requests that wait.
type Login func(ctx context.Context) (map[string]*Info, error)

// NewStore returns a store without credentials; the first pick logs in.
func NewStore(login Login) *Store {
	s := &Store{
		login:   login,
		valid:   map[string]*Credential{},
		refused: map[string][]*Credential{},
		expired: map[string]*credtransport.Session{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Do runs one request: it picks a credential and calls try with it, again and with another one as long as
// try reports that the server has refused the credential (HTTP 401). err is then what do returns when
// there is nothing left to try. A request cut off because its credential was removed is repeated too.
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
			return err // new credentials that are valid for others: it is this request
		}
		last = err
		s.invalidate(cred, err)
	}
}

// probe asks the server something harmless, to tell refused credentials from a refused request.
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

// Pick returns one of the best credentials, after a login if there are none. It fails with a *Error, or when ctx ends.
func (s *Store) Pick(ctx context.Context) (*Credential, error) {
	for {
		best, run, err := s.bestOrLogin()
		if best != nil || err != nil {
			return best, err
		}
		select {
		case <-run.done:
			if run.err != nil {
				return nil, run.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// bestOrLogin returns one of the best credentials, or the login that is to be waited for because there are none.
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

// bestLocked returns a random one of the credentials with the highest priority, nil if there are none. Those that
// have expired are put aside.
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

// maxRetired is the number of credentials that are remembered because their streams may go on.
const maxRetired = 10

// retireLocked takes a credential out of use whose requests under way finish with it, and closes what those before it do not use any more.
func (s *Store) retireLocked(c *Credential) {
	if s.retired = append(s.retired, c); len(s.retired) > maxRetired {
		s.retired = slices.Delete(s.retired, 0, 1)
	}
	for _, c := range s.retired {
		c.CloseIdle()
	}
}

// CloseIdle closes the connections that no request uses.
func (c *Credential) CloseIdle() {
	c.Client.CloseIdleConnections()
	c.WriteClient.CloseIdleConnections()
	c.StreamClient.CloseIdleConnections()
}

// runLogin logs in for all requests that wait for the run. The credentials are stored, and the sessions of refused ones
// replaced, under one lock: a request that is refused with new ones in between would look like one without any.
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

// endRefusedLocked replaces the sessions of refused credentials that no valid one goes on with.
func (s *Store) endRefusedLocked() {
	for id, list := range s.refused {
		for _, c := range list {
			if now := s.valid[id]; now == nil || now.Session != c.Session {
				c.Session.Replace()
			}
		}
	}
}

// take returns the credentials to store of what a login has given. Those that were refused before are only taken when
// there are no others, and after a delay.
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

// failed returns an error of a login that was cut off.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Message: "the login has failed", Err: err}
}

// storeLocked stores the credentials of a login. It fails if there are none, and none are left of the logins before.
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

// noCredentialsLocked returns why a login has left nothing to try.
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

// refusedError is errRanOut with the answer of the server that has led to it.
type refusedError struct{ cause error }

func (e *refusedError) Error() string {
	if e.cause == nil {
		return "all of them were refused"
	}
	return e.cause.Error()
}

func (e *refusedError) Unwrap() []error { return []error{errRanOut, e.cause} }

// classify makes credentials of what a login has given: fresh ones, and those that were refused before but may be tried again.
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
			return nil, nil, &Error{Message: fmt.Sprintf("the credentials of %q can't be used", id), Err: err}
		}
		if before != nil {
			again = append(again, c)
		} else {
			fresh = append(fresh, c)
		}
	}
	return fresh, again, nil
}

// refusedLocked returns the refused credential that speaks against info: an equal one, or the last one if the server has
// never accepted it; nil if there is none.
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

// connect makes the clients of a credential. Its session is a new one if it has none that is open.
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

// makeClients makes the clients of a credential with a session.
func (s *Store) makeClients(c *Credential) (err error) {
	c.connectTimeout, c.streamTimeout = s.timeouts()
	if c.Client, err = c.Info.NewHTTPClient(c.connectTimeout, c.Session, Sharing); err != nil {
		return err
	}
	if c.WriteClient, err = c.Info.NewHTTPClient(c.connectTimeout, c.Session, Alone); err != nil {
		return err
	}
	c.StreamClient, err = c.Info.NewHTTPClient(c.streamTimeout, c.Session, Sharing)
	return err
}

// timeouts returns what limits the connecting of the two clients; zero means no limit.
func (s *Store) timeouts() (connect, stream time.Duration) {
	if s.Timeouts == nil {
		return 0, 0
	}
	return s.Timeouts()
}

// Reconnect makes the clients of all credentials anew whose limits have changed. Requests under way finish with the old ones.
func (s *Store) Reconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	connect, stream := s.timeouts()
	for id, c := range s.valid {
		if c.connectTimeout == connect && c.streamTimeout == stream {
			continue
		}
		next := &Credential{ID: c.ID, Info: c.Info, Session: c.Session, retries: c.retries}
		if s.makeClients(next) == nil { // or the old ones are as good, for its files were there before
			s.valid[id] = next
			s.retireLocked(c)
		}
	}
}

// invalidate removes a credential that the server has refused; cause is its answer. What is being read with it ends: now,
// if other credentials can take over, otherwise after the next login, unless that gives the same again.
func (s *Store) invalidate(cred *Credential, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.valid[cred.ID] != cred {
		return // another client was first
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

// loginGracePeriod is how long a login may go on after the end of its context. It is longer than what the handlers of a login have.
const loginGracePeriod = 5 * time.Second

// Close ends all connections and the login that runs, and waits for that for a limited time; nothing is picked afterwards. It reports whether
// the login has ended.
func (s *Store) Close() (ended bool) {
	s.mu.Lock()
	s.stop() // under the lock, so that no login begins after the waiting
	s.mu.Unlock()
	ended = await.For(s.ctx, &s.tasks, loginGracePeriod)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.valid {
		c.CloseIdle()
	}
	for _, list := range append(slices.Collect(maps.Values(s.refused)), s.retired) {
		for _, c := range list {
			c.CloseIdle() // requests that have finished since have left connections
		}
	}
	clear(s.valid)
	return ended
}
