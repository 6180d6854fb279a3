package webhookconfig

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Requests performs the requests for one configuration. The methods return the stored configuration, or the status code of an error, 0 without a response.
type Requests interface {
	// Patch sends a merge patch. It fails with 404 if the configuration does not exist, and with 409
	// if it does not have the resource version in the patch.
	Patch(ctx context.Context, patch []byte) (stored []byte, code int, err error)
	// Create creates the configuration. It fails with 409 if another client has created it.
	Create(ctx context.Context, configuration []byte) (stored []byte, code int, err error)
}

// Keeper keeps one configuration up to date. Its exported fields are required. Only the methods Note and Known are safe for concurrent use.
//
// Replicas of different versions have different webhooks. Those of the replica that started last
// stay: each one puts its place in the order of starts into its mark, and does not replace those of a
// later one.
type Keeper struct {
	Kind     Kind
	Name     string // of the configuration
	Requests Requests
	Log      *slog.Logger

	written []byte // webhooks as last written, or left to a later replica; nil before the first success
	tried   mark   // of the last attempt; the API server may have carried out a refused one
	asked   uint64 // version of the configuration with a question that Ask has seen; 0 for none
	failure string // code of the last failed Write or Clear; "" after a success
	seen    sighting
}

// Write sets the webhooks of the configuration, and creates the configuration if missing. It sends no request if the webhooks have not changed, neither here
// nor, by another client, in the API server.
func (k *Keeper) Write(ctx context.Context, hooks []Hook, client Client) error {
	data, err := rawjson.Encode(webhooks(k.Name, hooks, client))
	state := k.seen.state()
	if err == nil && bytes.Equal(data, k.written) && state.own != 0 && !state.changed() {
		return nil
	}
	if !k.logRestoring(state) && !state.overtaken() && k.failure == "" {
		k.Log.Info("Reconfiguring the " + k.Kind.Word + " webhook " + k.Name + ".")
	}
	if err == nil {
		_, err = k.replace(ctx, data, client.identity(), true)
	}
	if err != nil {
		return fmt.Errorf("write the %s %q: %w", k.Kind.Name, k.Name, err)
	}
	return nil
}

// logRestoring logs that a write has another reason than a change in this replica, if it has.
func (k *Keeper) logRestoring(state sightingState) (has bool) {
	switch {
	case k.failure != "": // a retry
	case state.own != 0 && state.edited && !state.overtaken():
		k.Log.Warn("Another client has changed the webhook configuration; restoring it", "kind", k.Kind.Name, "name", k.Name, "help", "K1017")
		return true
	case state.asked():
		k.Log.Debug("Another replica has asked whether this one still runs", "kind", k.Kind.Name, "name", k.Name)
		return true
	}
	return false
}

// HasWritten reports whether a Write has succeeded, or a Clear.
func (k *Keeper) HasWritten() bool { return k.written != nil }

// maxConflicts limits the attempts of a write, for a client that writes again and again. Of several
// replicas that start at the same moment, one succeeds in each attempt.
const maxConflicts = 100

// maxDeletions limits the attempts of a write during which another client deletes the configuration.
const maxDeletions = 5

// replace replaces the webhooks of the configuration, unless a replica that started later has
// written them. If the configuration is missing, it creates one, or fails with 404.
func (k *Keeper) replace(ctx context.Context, webhooks []byte, by string, create bool) (code int, err error) {
	k.seen.setIdentity(by)
	k.seen.want(newMark(webhooks, 0, by))
	for i := range maxConflicts {
		code, err = k.attempt(ctx, webhooks, by, create)
		deleted := create && code == http.StatusNotFound && i < maxDeletions
		if code != http.StatusConflict && !deleted {
			break
		}
	}
	if err == nil {
		k.written = webhooks
		k.succeeded()
	}
	return code, err
}

// HasFailed notes the code of a failed Write or Clear, 0 without an answer. It reports whether the last
// one did not fail with it.
func (k *Keeper) HasFailed(code int) (first bool) {
	failure := strconv.Itoa(code)
	first = failure != k.failure
	k.failure = failure
	return first
}

// succeeded logs the end of failures.
func (k *Keeper) succeeded() {
	if k.failure != "" {
		k.Log.Info("Writing the webhook configuration works again", "kind", k.Kind.Name, "name", k.Name)
	}
	k.failure = ""
}

// attempt reads the configuration, and replaces its webhooks. It fails with 409 if another client
// was faster.
func (k *Keeper) attempt(ctx context.Context, webhooks []byte, by string, create bool) (code int, err error) {
	verb := "patch"
	found, code, err := k.read(ctx)
	if code == http.StatusNotFound && create {
		verb = "create"
		found, code, err = k.create(ctx, webhooks, by)
	}
	if err == nil {
		verb = "patch"
		code, err = k.patch(ctx, parseConfiguration(found), webhooks, by)
	}
	if code == http.StatusForbidden && create && !k.HasWritten() {
		k.Log.Error("Not enough RBAC permissions to "+verb+" a "+k.Kind.Name+".", "help", "K1001")
	}
	return code, err
}

// read returns the stored configuration. A patch without changes needs no further permission.
func (k *Keeper) read(ctx context.Context) (stored []byte, code int, err error) {
	return k.Requests.Patch(ctx, []byte("{}"))
}

// create creates the configuration. If this replica has no place in the order yet, the patch that
// follows gives it one.
func (k *Keeper) create(ctx context.Context, webhooks []byte, by string) (stored []byte, code int, err error) {
	k.tried = newMark(webhooks, k.seen.state().own, by)
	return k.Requests.Create(ctx, slices.Concat(
		[]byte(`{"apiVersion":"`+Group+"/"+Version+`","kind":"`+k.Kind.Name+`","metadata":{"name":`),
		rawjson.AppendString(nil, k.Name), []byte(`,`), marking(k.tried),
		[]byte(`},"webhooks":`), webhooks, []byte(`}`)))
}

// patch replaces the webhooks of a configuration that was read, unless a replica that started later
// has written them. The first patch of a replica gives it the last place in the order.
func (k *Keeper) patch(ctx context.Context, found configuration, webhooks []byte, by string) (code int, err error) {
	own := k.seen.state().own
	if found.version != 0 && own >= found.version { // of a later history, as before a restore
		own = 0
	}
	other := k.isOther(found.mark)
	switch {
	case own != 0 && found.mark.since > own:
		k.leave()
		k.seen.answer(found, own)
		return 0, nil
	case own != 0:
	case other && bytes.Equal(webhooks, none): // leftovers only if it does not answer, see Ask
		k.seen.answer(found, 1)
		return 0, nil
	default:
		own = max(found.version, 1) // versions that are no numbers leave the order open
	}
	k.tried = newMark(webhooks, own, by)
	stored, code, err := k.Requests.Patch(ctx, replacement(webhooks, k.tried, found.version))
	if err == nil {
		k.seen.answer(parseConfiguration(stored), own)
	}
	return code, err
}

// leave logs that the webhooks of another replica stay.
func (k *Keeper) leave() {
	k.Log.Info("Leaving the webhook configuration to the replica that started last",
		"kind", k.Kind.Name, "name", k.Name)
}

// isOther reports whether a mark is that of another operator, and warns of each once.
func (k *Keeper) isOther(m mark) bool {
	is, fresh := k.seen.other(m)
	if fresh {
		k.Log.Warn("Another operator writes the same webhook configuration; the one that starts last replaces the webhooks of the other",
			"kind", k.Kind.Name, "name", k.Name, "other", m.by, "help", "K1021")
	}
	return is
}

// marking returns the field of the metadata with a mark.
func marking(m mark) []byte {
	return slices.Concat(fmt.Appendf(nil, `"annotations":{%q:`, MarkAnnotation),
		rawjson.AppendString(nil, m.String()), []byte(`}`))
}

// replacement returns a patch for a version of the configuration that replaces the webhooks, unless
// they are nil, and their mark.
func replacement(webhooks []byte, m mark, version uint64) []byte {
	patch := slices.Concat([]byte(`{"metadata":{`), marking(m))
	if version != 0 {
		patch = fmt.Appendf(patch, `,"resourceVersion":"%d"`, version)
	}
	patch = append(patch, '}')
	if webhooks != nil {
		patch = slices.Concat(patch, []byte(`,"webhooks":`), webhooks)
	}
	return append(patch, '}')
}

// Clear removes the webhooks that an earlier version of the operator, with handlers for them, may have left. Its mark keeps a replica of that version,
// which may still run, from restoring them. It does not create a configuration. It ignores
// missing permissions, and tries again at the next call then.
func (k *Keeper) Clear(ctx context.Context, client Client) error {
	state := k.seen.state()
	if state.own != 0 && !state.changed() {
		return nil
	}
	k.logRestoring(state)
	switch code, err := k.replace(ctx, none, client.identity(), false); {
	case err == nil:
	case code == http.StatusNotFound:
		k.written = none
		k.seen.answer(configuration{mark: mark{since: 1}, webhooks: []any{}}, 1) // before all others
	case code == http.StatusForbidden:
		k.Log.Debug("Emptying a webhook configuration without handlers is not permitted", "kind", k.Kind.Name, "name", k.Name, "error", err)
	default:
		return fmt.Errorf("empty the %s %q: %w", k.Kind.Name, k.Name, err)
	}
	return nil
}

// none is the JSON of no webhooks.
var none = []byte("[]")

// Forget makes the next Write replace the webhooks of any other replica, because this one leads now.
func (k *Keeper) Forget() { k.seen.forget() }

// Note notes the stored configuration as in an event or a list.
func (k *Keeper) Note(configuration []byte, listed bool) {
	k.seen.note(parseConfiguration(configuration), listed)
	k.isOther(k.seen.state().mark)
}

// NoteMissing notes that the configuration does not exist: it was deleted, with a version, or a list
// does not have it, with the version 0.
func (k *Keeper) NoteMissing(version uint64) { k.seen.noteMissing(version) }

// IsDue reports whether a Write or Clear is due: another client has changed the configuration since
// the last one, or a replica that started earlier, or IsAsked.
func (k *Keeper) IsDue() bool { return k.seen.state().changed() }

// IsAsked reports whether another replica asks whether this one still runs. A Write answers it.
func (k *Keeper) IsAsked() bool { return k.seen.state().asked() }

// IsOwn reports whether this replica has taken its place in the order of starts.
func (k *Keeper) IsOwn() bool { return k.seen.state().own != 0 }

// IsDoubtful reports whether the webhooks of a replica that started later differ from those of the
// last Write or Clear. See [Keeper.Ask].
func (k *Keeper) IsDoubtful() bool { return k.seen.state().doubtful() }

// HasBundle reports whether all stored webhooks have the certificates of a CA bundle, in PEM, whichever replica has written them.
func (k *Keeper) HasBundle(bundle []byte) bool { return k.seen.hasBundle(bundle) }

// askInterval is the time between two questions to a replica that answers, such as during a slow update.
const askInterval = 10 * time.Minute

// Ask asks the replica that wrote doubtful webhooks whether it still runs, by its mark. If it has not answered
// since the last call, Ask leaves the configuration to all others in its name, and a Write is due for each of them.
// It sends no request if the webhooks are not doubtful, or the replica has answered lately.
func (k *Keeper) Ask(ctx context.Context) error {
	if !k.IsDoubtful() || k.seen.hasAnswered(askInterval) {
		return nil
	}
	stored, code, err := k.read(ctx)
	switch {
	case code == http.StatusNotFound:
		k.NoteMissing(0)
		return nil
	case err != nil:
		return fmt.Errorf("read the %s %q: %w", k.Kind.Name, k.Name, err)
	}
	found := parseConfiguration(stored)
	k.seen.note(found, false)
	if !k.IsDoubtful() {
		return nil
	}
	left := k.seen.state().mark
	switch {
	case !left.asked:
		left.asked = true
	case k.asked != found.version: // another replica asks
		k.asked = found.version
		return nil
	default:
		left.asked, left.since = false, 0
	}
	stored, code, err = k.Requests.Patch(ctx, replacement(nil, left, found.version))
	switch {
	case code == http.StatusConflict: // another client was faster
		return nil
	case err != nil:
		return fmt.Errorf("patch the mark of the %s %q: %w", k.Kind.Name, k.Name, err)
	}
	if !left.asked {
		k.Log.Info("The replica that wrote the webhook configuration last does not answer; the others replace its webhooks",
			"kind", k.Kind.Name, "name", k.Name)
	}
	found = parseConfiguration(stored)
	k.seen.note(found, false)
	k.asked = found.version
	return nil
}

// Refresh reads the configuration, for a replica that may not watch it.
func (k *Keeper) Refresh(ctx context.Context) error {
	stored, code, err := k.read(ctx)
	switch {
	case code == http.StatusNotFound:
		k.NoteMissing(0)
	case err != nil:
		return fmt.Errorf("read the %s %q: %w", k.Kind.Name, k.Name, err)
	default:
		k.Note(stored, false)
	}
	return nil
}

// IsKnown reports whether the stored state is known, also if the configuration is missing.
func (k *Keeper) IsKnown() bool { return k.seen.isKnown() }

// IsForeign reports whether another operator has written the webhooks.
func (k *Keeper) IsForeign() bool { return k.seen.isForeign() }

// Known returns the version of the last stored state in an answer or a list, 0 if there is none.
func (k *Keeper) Known() uint64 { return k.seen.known() }

// CleanUp removes all webhooks but the persistent ones from the configuration, if it may have been written, unless another replica has written it since.
func (k *Keeper) CleanUp(ctx context.Context, hooks []Hook, client Client) {
	if state := k.seen.state(); k.tried == (mark{}) || !k.mayBeOwn(state.mark) {
		if k.tried != (mark{}) {
			k.leave()
		}
		return
	}
	k.Log.Info("Cleaning up the " + k.Kind.Word + " webhook " + k.Name + ".")
	staying := slices.DeleteFunc(slices.Clone(hooks), func(h Hook) bool { return !h.Persistent })
	data, err := rawjson.Encode(webhooks(k.Name, staying, client))
	code := 0
	if err == nil {
		code, err = k.release(ctx, data)
	}
	switch {
	case err == nil, code == http.StatusNotFound:
	case code == http.StatusForbidden && k.written == nil: // all writes were refused, too, and logged
		k.Log.Debug("Cleaning up the webhook configuration is not permitted, and writing it was not either", "kind", k.Kind.Name, "name", k.Name, "error", err)
	default:
		k.Log.Warn("Cleaning up the webhook configuration failed; requests may be rejected until the operator is back", "kind", k.Kind.Name, "name", k.Name, "error", err, "help", "K1005")
	}
}

// Release leaves the configuration to the other replicas. If they have other webhooks, that one of
// them that started last replaces those of this replica, which are those of a failed update perhaps.
func (k *Keeper) Release(ctx context.Context) {
	if k.tried == (mark{}) || !k.mayBeOwn(k.seen.state().mark) {
		return
	}
	code, err := k.release(ctx, nil)
	switch {
	case err == nil, code == http.StatusNotFound:
	case code == http.StatusForbidden && k.written == nil: // all writes were refused, too, and logged
	default:
		k.Log.Warn("Leaving the webhook configuration to other replicas failed; they replace the webhooks some minutes later",
			"kind", k.Kind.Name, "name", k.Name, "error", err, "help", "K1024")
	}
}

// release marks the configuration as one that any replica replaces, and replaces its webhooks unless
// they are nil. It does nothing if another replica has written it.
func (k *Keeper) release(ctx context.Context, webhooks []byte) (code int, err error) {
	for range maxConflicts {
		var stored []byte
		if stored, code, err = k.read(ctx); err != nil {
			return code, err
		}
		found := parseConfiguration(stored)
		if !k.mayBeOwn(found.mark) {
			k.leave()
			return 0, nil
		}
		left := k.tried
		if left.since = 0; webhooks != nil {
			left = newMark(webhooks, 0, left.by)
		}
		if _, code, err = k.Requests.Patch(ctx, replacement(webhooks, left, found.version)); code != http.StatusConflict {
			break
		}
	}
	return code, err
}

// mayBeOwn reports whether a configuration with a mark, or with none, may be one that this replica
// has written last.
func (k *Keeper) mayBeOwn(m mark) bool {
	return m == mark{} || m == k.tried || m.since != 0 && m.since == k.tried.since
}
