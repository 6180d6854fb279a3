package webhookconfig

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Requests performs the requests for one configuration. The methods return the stored configuration, or the status code of an error, 0 without a response.
type Requests interface {
	// Patch sends a merge patch. It fails with 404 if the configuration does not exist.
	Patch(ctx context.Context, patch []byte) (stored []byte, code int, err error)
	// Create creates the configuration. It fails with 409 if it exists.
	Create(ctx context.Context, configuration []byte) (stored []byte, code int, err error)
}

// Keeper keeps one configuration up to date. Its exported fields are required. Only the methods Note and Known are safe for concurrent use.
type Keeper struct {
	Kind     Kind
	Name     string // of the configuration
	Requests Requests
	Log      *slog.Logger

	written []byte   // webhooks as last written; nil before the first success
	stale   bool     // whether another replica may have written the configuration since
	marks   []string // of the last successful Write, and of those since: an earlier attempt of a refused request may have succeeded
	seen    sighting
}

// Write sets the webhooks of the configuration, and creates the configuration if missing. It sends no request if the webhooks have not changed, neither here
// nor, by another client, in the API server.
func (k *Keeper) Write(ctx context.Context, hooks []Hook, client Client) error {
	data, err := rawjson.Encode(webhooks(k.Name, hooks, client))
	edited := k.seen.isEdited()
	if err == nil && bytes.Equal(data, k.written) && !k.stale && !edited {
		return nil
	}
	if edited {
		k.Log.Warn("Another client has changed the webhook configuration; restoring it", "kind", k.Kind.Name, "name", k.Name, "help", "K1017")
	} else {
		k.Log.Info("Reconfiguring the " + k.Kind.Word + " webhook " + k.Name + ".")
	}
	if err == nil {
		err = k.replace(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("write the %s %q: %w", k.Kind.Name, k.Name, err)
	}
	k.written, k.stale = data, false
	return nil
}

// HasWritten reports whether a Write has succeeded, or a Clear.
func (k *Keeper) HasWritten() bool { return k.written != nil }

// replace replaces the webhooks of the configuration, and creates the configuration if missing.
func (k *Keeper) replace(ctx context.Context, webhooks []byte) error {
	mark := markOf(webhooks)
	k.marks = append(k.marks, mark)
	annotations := marking(mark)
	patch := replacement(webhooks)
	stored, code, err := k.Requests.Patch(ctx, patch)
	verb := "patch"
	if code == http.StatusNotFound {
		verb = "create"
		configuration := slices.Concat(
			[]byte(`{"apiVersion":"`+Group+"/"+Version+`","kind":"`+k.Kind.Name+`","metadata":{"name":`), rawjson.AppendString(nil, k.Name),
			[]byte(`,`), annotations, []byte(`},"webhooks":`), webhooks, []byte(`}`))
		if stored, code, err = k.Requests.Create(ctx, configuration); code == http.StatusConflict { // another replica was faster
			stored, code, err = k.Requests.Patch(ctx, patch)
		}
	}
	if code == http.StatusForbidden && !k.HasWritten() {
		k.Log.Error("Not enough RBAC permissions to "+verb+" a "+k.Kind.Name+".", "help", "K1001")
	}
	if err == nil {
		k.marks = []string{mark}
		k.seen.answer(stored)
	}
	return err
}

// marking returns the field of the metadata with a mark.
func marking(mark string) []byte {
	return fmt.Appendf(nil, `"annotations":{%q:%q}`, MarkAnnotation, mark)
}

// replacement returns a patch that replaces the webhooks and their mark.
func replacement(webhooks []byte) []byte {
	annotations := marking(markOf(webhooks))
	return slices.Concat([]byte(`{"metadata":{`), annotations, []byte(`},"webhooks":`), webhooks, []byte(`}`))
}

// Clear removes the webhooks that an earlier version of the operator, with handlers for them, may have left. Its mark keeps a replica of that version,
// which may still run, from restoring them. It does not create a configuration. It ignores
// missing permissions, and tries again at the next call then.
func (k *Keeper) Clear(ctx context.Context) error {
	if k.HasWritten() && !k.stale {
		return nil
	}
	none := []byte("[]")
	_, code, err := k.Requests.Patch(ctx, replacement(none))
	switch {
	case err == nil, code == http.StatusNotFound:
		k.written, k.stale = none, false
	case code == http.StatusForbidden:
		k.Log.Debug("Emptying a webhook configuration without handlers is not permitted", "kind", k.Kind.Name, "name", k.Name, "error", err)
	default:
		return fmt.Errorf("empty the %s %q: %w", k.Kind.Name, k.Name, err)
	}
	return nil
}

// Forget makes the next Write send a request, because another replica may have changed the configuration.
func (k *Keeper) Forget() { k.stale = true }

// Note notes the stored configuration as in an event or a list, nil if it does not exist. It reports whether another client than the replicas of the operator
// has changed it, so that a Write is due.
func (k *Keeper) Note(configuration []byte, listed bool) (edited bool) {
	return k.seen.note(configuration, listed)
}

// Known returns the version of the last stored state in an answer or a list, 0 if there is none.
func (k *Keeper) Known() uint64 { return k.seen.known() }

// CleanUp removes all webhooks but the persistent ones from the configuration, if it may have been written, unless another replica has written it since.
func (k *Keeper) CleanUp(ctx context.Context, hooks []Hook, client Client) {
	if k.marks == nil {
		return
	}
	if mark := k.seen.lastMark(); mark != "" && !slices.Contains(k.marks, mark) {
		k.Log.Info("Leaving the webhook configuration to the replica that has written it last", "kind", k.Kind.Name, "name", k.Name)
		return
	}
	k.Log.Info("Cleaning up the " + k.Kind.Word + " webhook " + k.Name + ".")
	staying := slices.DeleteFunc(slices.Clone(hooks), func(h Hook) bool { return !h.Persistent })
	patch, err := rawjson.Encode(map[string]any{"webhooks": webhooks(k.Name, staying, client)})
	code := 0
	if err == nil {
		_, code, err = k.Requests.Patch(ctx, patch)
	}
	switch {
	case err == nil, code == http.StatusNotFound:
	case code == http.StatusForbidden && k.seen.lastMark() == "": // all writes were refused, too, and logged
		k.Log.Debug("Cleaning up the webhook configuration is not permitted, and writing it was not either", "kind", k.Kind.Name, "name", k.Name, "error", err)
	default:
		k.Log.Warn("Cleaning up the webhook configuration failed; requests may be rejected until the operator is back", "kind", k.Kind.Name, "name", k.Name, "error", err, "help", "K1005")
	}
}
