package webhookca

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/certs"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/webhookconfig"
)

// Secret is the state of the Secret.
type Secret struct {
	Version string // "" if the Secret does not exist
	Data    Data
}

// Store accesses the Secret.
type Store interface {
	// Read reads the Secret. A missing Secret is no error.
	Read(ctx context.Context) (Secret, error)
	// Create creates the Secret. It fails with 409 if the Secret exists.
	Create(ctx context.Context, data Data) error
	// Update replaces the keys of an authority, removes those missing in data, and keeps everything else. It fails with 409 if the resource version differs.
	Update(ctx context.Context, version string, data Data) error
	// Follow watches the Secret until the context ends.
	Follow(ctx context.Context, f Follower)
	// Code returns the HTTP status of an error, or 0 if it does not come from an API server.
	Code(err error) int
}

// Follower is notified of changes to a Secret.
type Follower interface {
	// NoteChange is called whenever the Secret may have changed. With an error, changes cannot be watched. With nil, they can be watched again.
	NoteChange(err error)
}

// Replica is this process among the replicas that share the authority.
type Replica interface {
	// Holds reports whether this replica writes the shared data. Without leader election, each one does.
	Holds() bool
	// Written reports whether the last announced bundle has been published, as far as this replica writes it.
	Written() bool
}

// The intervals for checks that no notification triggers.
const (
	whileMissing   = time.Second // until this replica may create the Secret
	whileDue       = 10 * time.Second
	whileAtRest    = 10 * time.Minute // the clock can be set
	whileUnwatched = time.Minute
	whileAwaited   = 5 * time.Second // for a missing Secret that cannot be watched
	leastPause     = time.Second
	firstRetry     = time.Second
	lastRetry      = time.Minute
)

// Keeper follows the Secret, creates and rotates the authority if this replica holds that role, and provides certificates for the server of this replica. All
// fields are required.
type Keeper struct {
	Store           Store
	Namespace, Name string // of the Secret
	Replica         Replica
	Overlap         time.Duration // between the time when clients trust the next CA certificate and the time when it signs
	Log             *slog.Logger

	changed chan struct{} // holds a token if there is a new certificate or bundle
	wakeup  chan struct{} // holds a token if something may be due

	mu        sync.Mutex // guards following
	names     []string   // of the server
	known     *Authority // nil until there is one; an invalid or deleted Secret does not replace it
	leaf      *tls.Certificate
	signer    *issuer // of the leaf
	announced []byte  // last announced bundle
	unread    bool    // the Secret may have changed since it was read
	unwatched bool    // its changes cannot be watched

	// Used only by the goroutine of run.
	secret       Secret // last state read
	broken       error  // error in its content
	held         bool   // the last result of Holds
	readAt       time.Time
	trustedSince time.Time // when the next CA certificate was first trusted; zero if it is not
	failures     int       // in a row
	conflicts    int       // in a row
	complaint    string    // last error, logged once
	missingSince time.Time // since when this replica waits for a Secret that it may not create; zero if it does not
	waiting      bool      // the missing Secret has been logged
}

// Start waits until there is an authority, and then follows it on a goroutine until the context ends or stop is called. It returns an error if the API server
// rejects a necessary request, or if the Secret has other content.
func (k *Keeper) Start(ctx context.Context, names []string) (stop func(), err error) {
	k.names, k.unread = names, true
	k.changed, k.wakeup = make(chan struct{}, 1), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	stop = func() {
		cancel()
		tasks.Wait()
	}
	tasks.Go(func() { k.Store.Follow(ctx, k) })
	for {
		err := k.step(ctx)
		if ctx.Err() != nil {
			stop()
			return nil, context.Cause(ctx)
		}
		if k.usable(time.Now()) {
			tasks.Go(func() { k.run(ctx) })
			return stop, nil
		}
		if k.final(err) {
			stop()
			return nil, err
		}
		k.wait(ctx)
	}
}

// run follows the Secret until the context ends.
func (k *Keeper) run(ctx context.Context) {
	for k.wait(ctx); ctx.Err() == nil; k.wait(ctx) {
		_ = k.step(ctx) // step has logged the error
	}
}

// NoteChange implements [Follower]: it schedules a read of the Secret.
func (k *Keeper) NoteChange(err error) {
	k.mu.Lock()
	k.unread, k.unwatched = true, err != nil
	k.mu.Unlock()
	token(k.wakeup)
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (k *Keeper) authority() *Authority {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known
}

// usable reports whether there is a certificate to serve with.
func (k *Keeper) usable(now time.Time) bool {
	a := k.authority()
	return a != nil && !a.signer.invalid(now)
}

// Changed receives a token if there is a new certificate to serve, or a new bundle to announce.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

// Announced records that a bundle has been announced.
func (k *Keeper) Announced(bundle []byte) {
	k.mu.Lock()
	k.announced = bundle
	k.mu.Unlock()
	token(k.wakeup)
}

// Certificate returns the certificate to serve now, and the CA bundle.
func (k *Keeper) Certificate(now time.Time) (*tls.Certificate, []byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.leafDueLocked(now) {
		leaf, err := k.known.Issue(k.names, now)
		if err != nil {
			return nil, nil, err
		}
		k.leaf, k.signer = leaf, k.known.signer
	}
	return k.leaf, k.known.Bundle(), nil
}

// leafDueLocked reports whether a new certificate is due. It keeps that of an invalid authority, because a new one would not be valid either.
func (k *Keeper) leafDueLocked(now time.Time) bool {
	if k.leaf == nil || !k.signer.cert.Equal(k.known.signer.cert) {
		return true
	}
	if certs.TooEarly(k.leaf.Leaf, now) && !k.known.signer.invalid(now) { // the clock was set back
		return true
	}
	due := k.known.renewLeafAt(k.leaf.Leaf)
	return !due.IsZero() && !now.Before(due)
}

// wait waits until something may be due.
func (k *Keeper) wait(ctx context.Context) {
	t := time.NewTimer(k.pause(time.Now()))
	defer t.Stop()
	select {
	case <-k.wakeup:
		if k.failures > 0 { // after a failure, wait for the full time
			select {
			case <-t.C:
			case <-ctx.Done():
			}
		}
	case <-t.C:
	case <-ctx.Done():
	}
}

// pause returns the time until the next check.
func (k *Keeper) pause(now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failures > 0 {
		pause := min(firstRetry<<min(k.failures-1, 10), lastRetry)
		return pause + time.Duration(rand.Int64N(int64(pause)/5+1)) // jitter for the replicas
	}
	pause := whileAtRest
	if k.unwatched {
		pause = min(pause, k.nextRead().Sub(now))
	}
	switch {
	case k.known == nil || k.secret.Version == "":
		return min(max(pause, leastPause), whileMissing)
	case !k.trustedSince.IsZero():
		pause = min(pause, k.trustedSince.Add(k.Overlap).Sub(now))
	case k.known.next != nil || !now.Before(k.known.signer.rotateAt()):
		pause = min(pause, whileDue)
	default:
		pause = min(pause, k.known.signer.rotateAt().Sub(now))
	}
	if k.leaf != nil {
		if due := k.known.renewLeafAt(k.leaf.Leaf); !due.IsZero() {
			pause = min(pause, due.Sub(now))
		}
	}
	return max(pause, leastPause)
}

// nextRead returns the time of the next read of a Secret that cannot be watched.
func (k *Keeper) nextRead() time.Time {
	if k.secret.Version == "" {
		return k.readAt.Add(whileAwaited)
	}
	return k.readAt.Add(whileUnwatched)
}

// step reads the Secret if it may have changed, and performs the due actions.
func (k *Keeper) step(ctx context.Context) error {
	now := time.Now()
	k.mu.Lock()
	holds := k.Replica.Holds()
	read := k.unread || k.unwatched && !now.Before(k.nextRead()) || holds && !k.held // a new writer must not use an outdated state
	k.unread, k.held = false, holds
	k.mu.Unlock()
	var err error
	if read {
		err = k.read(ctx, now)
	}
	if !holds || k.broken != nil {
		k.trustedSince = time.Time{}
	}
	if err == nil && holds {
		err = k.write(ctx, now)
	}
	if k.Store.Code(err) != http.StatusConflict {
		k.conflicts = 0
	} else if k.conflicts++; k.conflicts <= maxConflicts { // another replica was faster
		k.again()
		err = nil
	}
	k.report(ctx, err)
	if err != nil {
		k.failures++
		k.noteUnread()
		return err
	}
	k.failures = 0
	k.mu.Lock()
	due := k.known != nil && k.leafDueLocked(now)
	k.mu.Unlock()
	if due {
		token(k.changed)
	}
	k.sayMissing(holds)
	return k.broken
}

// maxConflicts is the number of immediate retries after write conflicts in a row.
const maxConflicts = 5

// again schedules a read of the Secret at once.
func (k *Keeper) again() {
	k.noteUnread()
	token(k.wakeup)
}

func (k *Keeper) noteUnread() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unread = true
}

// read reads the Secret, and takes over its authority.
func (k *Keeper) read(ctx context.Context, now time.Time) error {
	secret, err := k.Store.Read(ctx)
	if err != nil {
		return k.explain("read", err)
	}
	k.readAt, k.secret, k.broken = now, secret, nil
	if secret.Version == "" || len(secret.Data) == 0 {
		return nil
	}
	found, err := Parse(secret.Data)
	if err != nil {
		k.broken = &contentError{fmt.Errorf("the Secret %q has something else than an authority for webhooks in it: %w; delete the Secret if nothing needs it, or name another one", k.where(), err)}
		return nil
	}
	k.take(found)
	return nil
}

// contentError is an error in the content of the Secret.
type contentError struct{ error }

// take takes over an authority, to serve and to announce it.
func (k *Keeper) take(found *Authority) {
	k.mu.Lock()
	before := k.known
	k.known = found
	same := before != nil && before.signer.cert.Equal(found.signer.cert)
	changed := !same || !bytes.Equal(before.Bundle(), found.Bundle())
	k.mu.Unlock()
	if changed {
		k.trustedSince = time.Time{}
		token(k.changed)
	}
	if !same {
		k.Log.Info("Serving webhooks with certificates of the shared authority", "secret", k.where(), "authority", found.signer.cert.Subject.CommonName,
			"expires", found.signer.cert.NotAfter)
	}
}

func (k *Keeper) where() string { return k.Namespace + "/" + k.Name }

// write performs the next write of the Secret, if one is due. It does not touch invalid content.
func (k *Keeper) write(ctx context.Context, now time.Time) error {
	known := k.authority()
	switch {
	case k.broken != nil:
		return nil
	case known == nil || k.secret.Version == "" || len(k.secret.Data) == 0:
		return k.make(ctx, known, now)
	}
	wanted, message := known.current(now), "Removed expired authorities of the webhooks"
	invalid, attrs := "which had expired", []any{"secret", k.where()}
	if begin := wanted.signer.cert.NotBefore; certs.TooEarly(wanted.signer.cert, now) {
		invalid, attrs = "which was not valid yet", append(attrs, "notBefore", begin, "now", now)
	}
	var err error
	switch trusted := k.trusted(wanted, now); {
	case wanted.next != nil && (trusted || wanted.signer.invalid(now)):
		wanted, message = wanted.promoted(now), "Rotated the authority of the webhooks: the next one signs"
	case wanted.signer.invalid(now): // nothing is trusted any more, so waiting is useless
		if wanted, err = wanted.withNext(k.Name, now); err == nil {
			wanted, message = wanted.promoted(now), "Replaced the authority of the webhooks, "+invalid
		}
	case wanted.next == nil && !now.Before(wanted.signer.rotateAt()):
		wanted, err = wanted.withNext(k.Name, now)
		message = "Added the next authority of the webhooks, which will sign when it is trusted"
	case len(wanted.trusted) == len(known.trusted) && wanted.next == known.next:
		return nil
	}
	var data Data
	if err == nil {
		data, err = wanted.Data()
	}
	if err != nil {
		return err
	}
	if err := k.Store.Update(ctx, k.secret.Version, data); err != nil {
		return k.explain("patch", err)
	}
	k.Log.Info(message, attrs...)
	k.again()
	return nil
}

// make creates the Secret. After a deletion, the known authority continues to sign until clients trust another one.
func (k *Keeper) make(ctx context.Context, known *Authority, now time.Time) error {
	var wanted *Authority
	var err error
	if known == nil || known.signer.invalid(now) {
		wanted, err = makeAuthority(k.Name, now)
	} else {
		wanted, err = known.withNext(k.Name, now)
	}
	var data Data
	if err == nil {
		data, err = wanted.Data()
	}
	if err != nil {
		return err
	}
	verb := "create"
	if k.secret.Version == "" {
		err = k.Store.Create(ctx, data)
	} else {
		verb = "patch"
		err = k.Store.Update(ctx, k.secret.Version, data)
	}
	if err != nil {
		return k.explain(verb, err)
	}
	k.Log.Info("Created the authority of the webhooks", "secret", k.where())
	k.again()
	return nil
}

// trusted reports whether clients have trusted all CA certificates of an authority for long enough.
func (k *Keeper) trusted(a *Authority, now time.Time) bool {
	k.mu.Lock()
	announced := bytes.Equal(k.announced, a.Bundle())
	k.mu.Unlock()
	switch {
	case a.next == nil || !announced || !k.Replica.Written():
		k.trustedSince = time.Time{}
		return false
	case k.trustedSince.IsZero():
		k.trustedSince = now
	}
	return !now.Before(k.trustedSince.Add(k.Overlap))
}

// explain adds the subject of an error, and the remedy for missing permissions.
func (k *Keeper) explain(verb string, err error) error {
	code := k.Store.Code(err)
	err = fmt.Errorf("%s the Secret %q with the authority of the webhooks: %w", verb, k.where(), err)
	if code == http.StatusForbidden {
		rule := fmt.Sprintf("{apiGroups: [\"\"], resources: [secrets], resourceNames: [%s], verbs: [get, list, watch, patch]}", k.Name)
		if verb == "create" {
			rule = "{apiGroups: [\"\"], resources: [secrets], verbs: [create]}"
		}
		err = fmt.Errorf("%w; add the rule %s to a Role in the namespace %q", err, rule, k.Namespace)
	}
	return err
}

// final reports whether retries cannot fix an error.
func (k *Keeper) final(err error) bool {
	if err == nil {
		return false
	}
	if wrong := (*contentError)(nil); errtype.As(err, &wrong) {
		return true
	}
	code := k.Store.Code(err)
	return code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout && code != http.StatusUnauthorized
}

// report logs each new failure once, and its end.
func (k *Keeper) report(ctx context.Context, err error) {
	if err = cmp.Or(err, k.broken); ctx.Err() != nil || k.authority() == nil && k.final(err) {
		return // Start returns it
	}
	complaint := ""
	if err != nil { // equal errors may differ in the ports of connections
		complaint = fmt.Sprint(k.Store.Code(err))
	}
	if wrong := (*contentError)(nil); errtype.As(err, &wrong) {
		complaint = err.Error()
	}
	if complaint == k.complaint {
		return
	}
	k.complaint = complaint
	if err != nil {
		k.Log.Error("Keeping the authority of the webhooks failed; going on with what is known", "error", err, "help", "K1007")
	} else {
		k.Log.Info("Keeping the authority of the webhooks works again", "secret", k.where())
	}
}

// sayMissing logs, once, that this replica waits for a Secret that it may not create. At the start, each replica needs a moment to become the leader.
func (k *Keeper) sayMissing(holds bool) {
	now := time.Now()
	if holds || k.broken != nil || k.usable(now) {
		k.missingSince, k.waiting = time.Time{}, false
		return
	}
	if k.missingSince.IsZero() {
		k.missingSince = now
	}
	if !k.waiting && now.Sub(k.missingSince) >= whileAwaited {
		k.waiting = true
		k.Log.Info("Waiting for the leader to create the authority of the webhooks", "secret", k.where(), "help", "K1008")
	}
}

// Split splits a Secret's name, or namespace/name.
func Split(secret string) (namespace, name string, err error) {
	namespace, name, qualified := strings.Cut(secret, "/")
	if !qualified {
		namespace, name = "", secret
	}
	if !webhookconfig.IsDomain(name) || qualified && (!webhookconfig.IsDomain(namespace) || strings.Contains(namespace, ".")) {
		err = fmt.Errorf("the Secret %q is neither a name nor a namespace and a name, as in \"default/my-operator-webhooks\"", secret)
	}
	return namespace, name, err
}
