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

// Requests makes the requests for one configuration. Each returns the code of the answer if it has failed, 0 if there was none.
type Requests interface {
	// Patch sends a merge patch. It fails with 404 if there is no such configuration.
	Patch(ctx context.Context, patch []byte) (code int, err error)
	// Create fails with 409 if there is such a configuration.
	Create(ctx context.Context, configuration []byte) (code int, err error)
}

// Keeper keeps one configuration as the handlers need it. Its exported fields are required. Its methods must not be called at the same time.
type Keeper struct {
	Kind     Kind
	Name     string // of the configuration
	Requests Requests
	Log      *slog.Logger

	written []byte // the webhooks, as they were written last; nil if that is not known
}

// Write has the webhooks of the configuration be those of some hooks, and makes it if it is not there. Nothing is sent if they have been written.
func (k *Keeper) Write(ctx context.Context, hooks []Hook, client Client) error {
	data, err := rawjson.Encode(webhooks(k.Name, hooks, client))
	if err == nil && bytes.Equal(data, k.written) {
		return nil
	}
	k.Log.Info("Reconfiguring the " + k.Kind.Word + " webhook " + k.Name + ".")
	if err == nil {
		err = k.replace(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("write the %s %q: %w", k.Kind.Name, k.Name, err)
	}
	k.written = data
	return nil
}

// replace replaces the webhooks of the configuration, and makes it if it is not there.
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

// Clear removes the webhooks that an earlier version of the operator, which had handlers for them, may have left. A configuration that does not exist is
// not made, and what may not be changed is left alone.
func (k *Keeper) Clear(ctx context.Context) {
	if k.written != nil {
		return
	}
	k.written = []byte("[]")
	if code, err := k.Requests.Patch(ctx, []byte(`{"webhooks":[]}`)); err != nil && code != http.StatusNotFound {
		k.Log.Debug("Emptying a webhook configuration without handlers failed", "kind", k.Kind.Name, "name", k.Name, "error", err)
	}
}

// Forget has the configuration written again, because another replica may have changed it.
func (k *Keeper) Forget() { k.written = nil }

// CleanUp leaves only the webhooks in the configuration that are to stay, if it was written.
func (k *Keeper) CleanUp(ctx context.Context, hooks []Hook, client Client) {
	if k.written == nil {
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
		k.Log.Warn("Cleaning up the webhook configuration failed; requests may be rejected until the operator is back", "help", "K1005", "kind", k.Kind.Name, "name", k.Name, "error", err)
	}
}
