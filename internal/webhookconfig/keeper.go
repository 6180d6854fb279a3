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

// Requests performs the requests for one configuration. The methods return the status code of an error, 0 without a response.
type Requests interface {
	// Patch sends a merge patch. It fails with 404 if the configuration does not exist.
	Patch(ctx context.Context, patch []byte) (code int, err error)
	// Create creates the configuration. It fails with 409 if it exists.
	Create(ctx context.Context, configuration []byte) (code int, err error)
}

// Keeper keeps one configuration up to date. Its exported fields are required. It is not safe for concurrent use.
type Keeper struct {
	Kind     Kind
	Name     string // of the configuration
	Requests Requests
	Log      *slog.Logger

	written []byte // webhooks as last written; nil if unknown
	present bool   // whether a Write has sent webhooks. The answer does not matter: an earlier attempt of a refused request may have succeeded
}

// Write sets the webhooks of the configuration, and creates the configuration if missing. It sends no request if the webhooks have not changed.
func (k *Keeper) Write(ctx context.Context, hooks []Hook, client Client) error {
	data, err := rawjson.Encode(webhooks(k.Name, hooks, client))
	if err == nil && bytes.Equal(data, k.written) {
		return nil
	}
	k.Log.Info("Reconfiguring the " + k.Kind.Word + " webhook " + k.Name + ".")
	if err == nil {
		k.present = true
		err = k.replace(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("write the %s %q: %w", k.Kind.Name, k.Name, err)
	}
	k.written = data
	return nil
}

// replace replaces the webhooks of the configuration, and creates the configuration if missing.
func (k *Keeper) replace(ctx context.Context, webhooks []byte) error {
	patch := slices.Concat([]byte(`{"webhooks":`), webhooks, []byte(`}`))
	code, err := k.Requests.Patch(ctx, patch)
	verb := "patch"
	if code == http.StatusNotFound {
		verb = "create"
		configuration := slices.Concat([]byte(`{"apiVersion":"`+Group+"/"+Version+`","kind":"`+k.Kind.Name+`","metadata":{"name":`), rawjson.AppendString(nil, k.Name), []byte(`},"webhooks":`), webhooks, []byte(`}`))
		if code, err = k.Requests.Create(ctx, configuration); code == http.StatusConflict { // another replica was faster
			code, err = k.Requests.Patch(ctx, patch)
		}
	}
	if code == http.StatusForbidden {
		k.Log.Error("Not enough RBAC permissions to "+verb+" a "+k.Kind.Name+".", "help", "K1001")
	}
	return err
}

// Clear removes the webhooks that an earlier version of the operator, with handlers for them, may have left. It does not create a configuration, and ignores
// missing permissions.
func (k *Keeper) Clear(ctx context.Context) {
	if k.written != nil {
		return
	}
	k.written = []byte("[]")
	if code, err := k.Requests.Patch(ctx, []byte(`{"webhooks":[]}`)); err != nil && code != http.StatusNotFound {
		k.Log.Debug("Emptying a webhook configuration without handlers failed", "kind", k.Kind.Name, "name", k.Name, "error", err)
	}
}

// Forget makes the next Write send a request, because another replica may have changed the configuration.
func (k *Keeper) Forget() { k.written = nil }

// CleanUp removes all webhooks but the persistent ones from the configuration, if it may have been written.
func (k *Keeper) CleanUp(ctx context.Context, hooks []Hook, client Client) {
	if !k.present {
		return
	}
	k.Log.Info("Cleaning up the " + k.Kind.Word + " webhook " + k.Name + ".")
	staying := slices.DeleteFunc(slices.Clone(hooks), func(h Hook) bool { return !h.Persistent })
	patch, err := rawjson.Encode(map[string]any{"webhooks": webhooks(k.Name, staying, client)})
	code := 0
	if err == nil {
		code, err = k.Requests.Patch(ctx, patch)
	}
	if err != nil && code != http.StatusNotFound {
		k.Log.Warn("Cleaning up the webhook configuration failed; requests may be rejected until the operator is back", "kind", k.Kind.Name, "name", k.Name, "error", err, "help", "K1005")
	}
}
