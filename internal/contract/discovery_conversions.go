package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what an operator does while the conversion webhook of another program is down.
// The API server then refuses all requests for objects that are stored in another version.

var _ = Suite("discovery_conversions", func(t *testing.T, c *C) {
	c.Run(t, "TD-T7 a conversion webhook that is down stops the handlers of its kind alone, until it is up", func(c *C) {
		c.OnlyInBubble("it needs a webhook")
		hook := c.converting()
		hook.down.Store(true)
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(c.converted(), l.handler("gadget"), named("create"))
		r.OnUpdate(c.converted(), l.handler("gadget"), named("update"))
		r.OnCreate(Examples, l.handler("example"), named("create"))
		c.gadget().Create("a", sized(1))
		p := newPipe()
		op := c.Operator(r, probed(p, "http://0.0.0.0/healthz")) // it starts in spite of the webhook
		c.Create("b", nil)
		c.handled("b")
		c.Pass(time.Hour)
		c.same("the calls while the webhook is down", []string{"example create 0"}, l.all())
		wantAnswer(c, "liveness", p.ask("GET", "/healthz"), "200 {}")
		wantAnswer(c, "readiness", p.ask("GET", "/readyz"), `503 {"started":true,"login":true,"paused":false,"streams":{"wanted":2,"working":1}}`)
		lines := op.Logs.Find("Watching objects failed; retrying")
		if len(lines) != 1 || lines[0].Level != slog.LevelWarn {
			c.Fatalf("got the lines %v, want one warning", lines)
		}
		c.wants("the resource", lines[0].Attrs["resource"], "gadgets.v2.")
		c.wants("the error", lines[0].Attrs["error"], "500", "conversion webhook for "+c.Unique("leaf")+".dev/v1, Kind=Gadget failed", errConverter.Error())
		hook.down.Store(false)
		c.WaitFor("the handling", func() bool { return l.count("gadget create") == 1 })
		c.Pass(time.Minute)
		wantAnswer(c, "readiness", p.ask("GET", "/readyz"), `200 {"started":true,"login":true,"paused":false,"streams":{"wanted":2,"working":2}}`)
		op.waitLogged(c, "Watching objects again")

		hook.down.Store(true) // while the operator works
		c.gadget().Patch("a", sized(2))
		c.Create("c", nil)
		c.handled("c")
		c.Pass(time.Hour)
		hook.down.Store(false)
		c.Pass(time.Hour)
		c.same("all calls", []string{"example create 0", "gadget create 0", "example create 0", "gadget update 0"}, l.all())
	})
	c.Run(t, "TD-T7 a handler that ends while the conversion webhook is down is not called again, and its patch is not lost", func(c *C) {
		c.OnlyInBubble("it needs a webhook")
		hook := c.converting()
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(c.converted(), func(_ context.Context, ch *kopf.Change) error {
			l.add("create")
			hook.down.Store(true)
			ch.Patch.Set("status.phase", "Ready")
			return nil
		}, named("create"))
		op := c.Operator(r)
		c.gadget().Create("a", sized(1))
		c.WaitFor("the call", func() bool { return l.count("create") == 1 })
		c.Pass(time.Hour)
		var refused int
		for _, q := range op.Wire.Requests(http.MethodPatch) {
			if q.Code == http.StatusInternalServerError {
				refused++
			}
		}
		if refused == 0 {
			c.Error("no patch was refused")
		}
		hook.down.Store(false)
		c.WaitFor("the patch", func() bool { return c.gadget().Get("a").Status().String("phase") == "Ready" })
		c.Pass(time.Hour)
		c.same("the calls", []string{"create"}, l.all())
	})
})

// errConverter is the error of a converter that is down.
var errConverter = errors.New("dial tcp 10.0.0.1:443: connect: connection refused")

// converter is a conversion webhook between versions that differ in nothing else.
type converter struct{ down atomic.Bool }

// RoundTrip implements [http.RoundTripper].
func (v *converter) RoundTrip(req *http.Request) (*http.Response, error) {
	defer req.Body.Close()
	if v.down.Load() {
		return nil, errConverter
	}
	var review struct {
		Request struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		} `json:"request"`
	}
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		return nil, err
	}
	for _, object := range review.Request.Objects {
		object["apiVersion"] = review.Request.DesiredAPIVersion
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
		"response": map[string]any{"uid": review.Request.UID, "convertedObjects": review.Request.Objects, "result": map[string]any{"status": "Success"}},
	})
	return document(string(data)), err
}

// converting gives the leaf another server, whose gadgets are stored in v1, and served in v1 and v2
// by a conversion webhook.
func (c *C) converting() *converter {
	c.Helper()
	hook := &converter{}
	server := kopf.NewAPIServer(&kopf.APIServerOptions{WebhookTransport: hook, DisableGarbageCollector: true})
	for _, manifest := range append(Manifests(), map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": c.Namespace}}) {
		if err := server.Apply([]byte(indented(manifest))); err != nil {
			c.Fatal(err)
		}
	}
	c.info = server.ConnectionInfo()
	client, err := kopf.NewClient(c.info, nil)
	if err != nil {
		c.Fatal(err)
	}
	c.Client = client
	c.Cleanup(c.info.HTTPClient.CloseIdleConnections)
	c.Define(c.gadgets(func(spec, _ map[string]any) {
		spec["versions"] = []any{crdVersion("v1", true, true), crdVersion("v2", true, false)}
		spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"clientConfig": map[string]any{"url": "https://converter.example/convert"}, "conversionReviewVersions": []any{"v1"},
		}}
	}))
	return hook
}

// converted selects the gadgets in the version that is not stored.
func (c *C) converted() kopf.Selector {
	return kopf.Selector(fmt.Sprintf("gadgets.v2.%s.dev", c.Unique("leaf")))
}
