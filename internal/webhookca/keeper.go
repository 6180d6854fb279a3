package webhookca

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/webhookconfig"
)

// Secret is the state of the Secret.
type Secret struct {
	Version string // empty if the Secret does not exist
	Data    Data
}

// Store is where the Secret is.
type Store interface {
	// Read reads the Secret. That it does not exist is no error.
	Read(ctx context.Context) (Secret, error)
	// Create fails with 409 if the Secret exists.
	Create(ctx context.Context, data Data) error
	// Update replaces the keys of an authority, removes those of them that are not given, and leaves all else. It fails with 409 if the version is
	// another one.
	Update(ctx context.Context, version string, data Data) error
	// Follow tells the follower of changes until the context ends.
	Follow(ctx context.Context, f Follower)
	// Code returns the HTTP status of an error, 0 if it is none of an API server.
	Code(err error) int
}

// Follower is what follows a Secret.
type Follower interface {
	// NoteChange is called whenever the Secret may have changed: with an error when changes cannot be seen, and with nil when they can be again.
	NoteChange(err error)
}

// Replica is this process among those that share the authority.
type Replica interface {
	// Holds reports whether this replica is the one that writes what all share. If there is no such choice, each one does.
	Holds() bool
	// Written reports whether clients know what was announced to them last, as far as this replica has written it.
	Written() bool
}

// How long is waited between two looks at what tells nothing by itself.
const (
	whileMissing   = time.Second // whether this replica may make the Secret
	whileDue       = 10 * time.Second
	whileAtRest    = 10 * time.Minute // the clock can be set
	whileUnwatched = time.Minute
	whileAwaited   = 5 * time.Second // for a Secret that cannot be watched, and does not exist
	leastPause     = time.Second
	firstRetry     = time.Second
	lastRetry      = time.Minute
)

// Keeper follows the Secret, makes and rotates the authority if this replica is to, and has certificates for the server of this replica. All fields are
// required.
type Keeper struct {
	Store           Store
	Namespace, Name string // of the Secret
	Replica         Replica
	Overlap         time.Duration // between the moment when clients trust the next authority, and that when it signs
	Log             *slog.Logger

	changed chan struct{} // holds a token when there is a new certificate or bundle
	wakeup  chan struct{} // holds a token when there may be something to do

	mu        sync.Mutex // guards following
	names     []string   // of the server
	known     *Authority // nil until there is one; what is wrong or deleted does not replace it
	leaf      *tls.Certificate
	signer    *issuer // of the leaf
	announced []byte  // the bundle that was announced last
	unread    bool    // whether the Secret may have changed since it was read
	unwatched bool    // whether its changes cannot be seen

	// The goroutine's own.
	secret       Secret // as it was read last
	broken       error  // what is wrong with that
	held         bool   // whether this replica wrote what all share when it was last looked at
	readAt       time.Time
	trustedSince time.Time // when the next authority was first seen to be trusted; zero if it is not
	failures     int       // in a row
	conflicts    int       // likewise
	complaint    string    // the last one, so as not to repeat it
	missingSince time.Time // when this replica began to wait for a Secret that it may not make; zero if it does not
	waiting      bool      // whether it was said that there is no Secret
}

// Start waits until there is an authority, and follows it on a goroutine until the context ends or the function is called. It fails if the API server
// refuses what is needed, or if the Secret has something else in it.
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

// run keeps up with the Secret until the context ends.
func (k *Keeper) run(ctx context.Context) {
	for k.wait(ctx); ctx.Err() == nil; k.wait(ctx) {
		_ = k.step(ctx) // it has said so itself
	}
}

// NoteChange implements [Follower]: it has the Secret read.
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

// usable reports whether there is something to serve with.
func (k *Keeper) usable(now time.Time) bool {
	a := k.authority()
	return a != nil && !a.signer.expired(now)
}

// Changed has a token when there is something new to show or to announce.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

// Announced notes that a bundle has been announced.
func (k *Keeper) Announced(bundle []byte) {
	k.mu.Lock()
	k.announced = bundle
	k.mu.Unlock()
	token(k.wakeup)
}

// Certificate returns the certificate to show now, and the bundle of what is to be trusted.
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

// leafDueLocked reports whether another certificate is to be shown. That of an authority that has expired is kept: another one would be of no more use.
func (k *Keeper) leafDueLocked(now time.Time) bool {
	if k.leaf == nil || !k.signer.cert.Equal(k.known.signer.cert) {
		return true
	}
	due := k.known.renewLeafAt(k.leaf.Leaf)
	return !due.IsZero() && !now.Before(due)
}

// wait waits until there may be something to do.
func (k *Keeper) wait(ctx context.Context) {
	t := time.NewTimer(k.pause(time.Now()))
	defer t.Stop()
	select {
	case <-k.wakeup:
		if k.failures > 0 { // what has failed is not to be done again before its time
			select {
			case <-t.C:
			case <-ctx.Done():
			}
		}
	case <-t.C:
	case <-ctx.Done():
	}
}

// pause is how long there is nothing to do unless something happens.
func (k *Keeper) pause(now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failures > 0 {
		pause := min(firstRetry<<min(k.failures-1, 10), lastRetry)
		return pause + time.Duration(rand.Int64N(int64(pause)/5+1)) // replicas do not come all at once
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

// nextRead is when a Secret that cannot be watched is read again.
func (k *Keeper) nextRead() time.Time {
	if k.secret.Version == "" {
		return k.readAt.Add(whileAwaited)
	}
	return k.readAt.Add(whileUnwatched)
}

// step reads the Secret if it may have changed, and does what is due.
func (k *Keeper) step(ctx context.Context) error {
	now := time.Now()
	k.mu.Lock()
	holds := k.Replica.Holds()
	read := k.unread || k.unwatched && !now.Before(k.nextRead()) || holds && !k.held // who begins to write must not do so from what is old
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
	} else if k.conflicts++; k.conflicts <= maxConflicts { // others were faster
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

// maxConflicts is how often in a row a write that came too late is made again at once.
const maxConflicts = 5

// again has the Secret read at once.
func (k *Keeper) again() {
	k.noteUnread()
	token(k.wakeup)
}

func (k *Keeper) noteUnread() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unread = true
}

// read reads the Secret, and takes the authority in it.
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

// contentError tells what is wrong with the content of the Secret.
type contentError struct{ error }

// take shows and announces an authority.
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

// write brings the Secret one step further, if one is due. What is wrong is left alone.
func (k *Keeper) write(ctx context.Context, now time.Time) error {
	known := k.authority()
	switch {
	case k.broken != nil:
		return nil
	case known == nil || k.secret.Version == "" || len(k.secret.Data) == 0:
		return k.make(ctx, known, now)
	}
	wanted, message := known.current(now), "Removed expired authorities of the webhooks"
	var err error
	switch trusted := k.trusted(wanted, now); {
	case wanted.next != nil && (trusted || wanted.signer.expired(now)):
		wanted, message = wanted.promoted(now), "Rotated the authority of the webhooks: the next one signs"
	case wanted.signer.expired(now): // nothing is trusted any more, so that there is nothing to wait for
		if wanted, err = wanted.withNext(k.Name, now); err == nil {
			wanted, message = wanted.promoted(now), "Replaced the authority of the webhooks, which had expired"
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
	k.Log.Info(message, "secret", k.where())
	k.again()
	return nil
}

// make makes the Secret. If it was deleted, the authority goes on to sign until another one, which nothing of the deleted Secret is known of, is trusted.
func (k *Keeper) make(ctx context.Context, known *Authority, now time.Time) error {
	var wanted *Authority
	var err error
	if known == nil || known.signer.expired(now) {
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

// trusted reports whether clients have trusted all of an authority for long enough.
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

// explain says what an error is about, and what to do about a lack of rights.
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

// final reports whether an error will not pass by itself.
func (k *Keeper) final(err error) bool {
	if err == nil {
		return false
	}
	if wrong := (*contentError)(nil); errors.As(err, &wrong) {
		return true
	}
	code := k.Store.Code(err)
	return code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout && code != http.StatusUnauthorized
}

// report logs what goes wrong, each thing once, and that it is over.
func (k *Keeper) report(ctx context.Context, err error) {
	if err = cmp.Or(err, k.broken); ctx.Err() != nil || k.authority() == nil && k.final(err) {
		return // it is returned
	}
	complaint := ""
	if err != nil { // the texts of others may differ in the ports of connections
		complaint = fmt.Sprint(k.Store.Code(err))
	}
	if wrong := (*contentError)(nil); errors.As(err, &wrong) {
		complaint = err.Error()
	}
	if complaint == k.complaint {
		return
	}
	k.complaint = complaint
	if err != nil {
		k.Log.Error("Keeping the authority of the webhooks failed; going on with what is known", "help", "K1007", "error", err)
	} else {
		k.Log.Info("Keeping the authority of the webhooks works again", "secret", k.where())
	}
}

// sayMissing logs, once, what a replica waits for that may not make the Secret. At the start, each replica needs a moment to become the leader.
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
		k.Log.Info("Waiting for the leader to create the authority of the webhooks", "help", "K1008", "secret", k.where())
	}
}

// Split returns the namespace, if there is one, and the name of a Secret that is given as a name or as namespace/name.
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
