package webhookconfig

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// things is a hook for the creation of things.
var things = Hook{ID: "fn", Path: "fn", Operations: []string{"CREATE"}, Resources: []Resource{{"kopf.dev", "v1", "things"}}, Timeout: 30 * time.Second}

// plain is the webhook of things, with plainClient.
const plain = `{"name": "fn.auto.kopf.dev", "sideEffects": "None", "failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 30,
	"admissionReviewVersions": ["v1", "v1beta1"], "clientConfig": {"url": "https://host/fn"},
	"rules": [{"apiGroups": ["kopf.dev"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"], "scope": "*"}]}`

var plainClient = Client{URL: "https://host"}

// decoded returns JSON, decoded.
func decoded(t *testing.T, data []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// wantWebhooks compares the webhooks of hooks with the plain one, changed by merge patches.
func wantWebhooks(t *testing.T, hooks []Hook, client Client, patches ...string) {
	t.Helper()
	want := []any{}
	for _, patch := range patches {
		want = append(want, rawjson.Merge(decoded(t, []byte(plain)), decoded(t, []byte(patch))))
	}
	data, err := rawjson.Encode(webhooks("auto.kopf.dev", hooks, client))
	if err != nil {
		t.Fatal(err)
	}
	got := decoded(t, data).([]any)
	for _, webhook := range got {
		maps.DeleteFunc(webhook.(map[string]any), func(_ string, v any) bool { return v == nil }) // null counts as absent
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// changed returns the hook of things with changes.
func changed(change func(h *Hook)) []Hook {
	h := things
	change(&h)
	return []Hook{h}
}

func TestWebhook(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(h *Hook)
		want   string
	}{
		"nothing else":       {func(*Hook) {}, `{}`},
		"all operations":     {func(h *Hook) { h.Operations = nil }, `{"rules": [{"apiGroups": ["kopf.dev"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["*"], "scope": "*"}]}`},
		"a subresource":      {func(h *Hook) { h.Subresource = "status" }, `{"rules": [{"apiGroups": ["kopf.dev"], "apiVersions": ["v1"], "resources": ["things/status"], "operations": ["CREATE"], "scope": "*"}]}`},
		"all subresources":   {func(h *Hook) { h.Subresource = "*" }, `{"rules": [{"apiGroups": ["kopf.dev"], "apiVersions": ["v1"], "resources": ["things", "things/*"], "operations": ["CREATE"], "scope": "*"}]}`},
		"no resources yet":   {func(h *Hook) { h.Resources = nil }, `{"rules": []}`},
		"side effects":       {func(h *Hook) { h.SideEffects = true }, `{"sideEffects": "NoneOnDryRun"}`},
		"ignored failures":   {func(h *Hook) { h.IgnoreFailures = true }, `{"failurePolicy": "Ignore"}`},
		"a timeout":          {func(h *Hook) { h.Timeout = 7 * time.Second }, `{"timeoutSeconds": 7}`},
		"namespaces":         {func(h *Hook) { h.Namespaces = []any{"a", "b"} }, `{"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]}}`},
		"a path of its kind": {func(h *Hook) { h.Path = "mutating:fn/x" }, `{"clientConfig": {"url": "https://host/mutating%3Afn/x"}}`},
		"labels, sorted by the key": {func(h *Hook) {
			h.Labels = []Requirement{{"b", "In", []any{"x"}}, {"c", "DoesNotExist", nil}, {"a", "Exists", nil}}
		}, `{"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "In", "values": ["x"]}, {"key": "c", "operator": "DoesNotExist"}]}}`},
	} {
		t.Run(what, func(t *testing.T) { wantWebhooks(t, changed(tt.change), plainClient, tt.want) })
	}
	t.Run("namespaces themselves are in none", func(t *testing.T) {
		hooks := changed(func(h *Hook) { h.Namespaces, h.Resources = []any{"a"}, []Resource{{"", "v1", "namespaces"}} })
		wantWebhooks(t, hooks, plainClient, `{"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"], "operations": ["CREATE"], "scope": "*"}]}`)
	})
}

func TestClients(t *testing.T) {
	for what, tt := range map[string]struct {
		client Client
		want   string
	}{
		"a URL with a slash":    {Client{URL: "https://host/x/"}, `{"clientConfig": {"url": "https://host/x/fn"}}`},
		"a CA":                  {Client{URL: "https://host", CABundle: []byte("PEM")}, `{"clientConfig": {"url": "https://host/fn", "caBundle": "UEVN"}}`},
		"a service":             {Client{Service: &Service{Namespace: "n", Name: "s"}}, `{"clientConfig": {"url": null, "service": {"namespace": "n", "name": "s", "path": "/fn"}}}`},
		"a service with a port": {Client{Service: &Service{Namespace: "n", Name: "s", Path: "/x/", Port: 8443}}, `{"clientConfig": {"url": null, "service": {"namespace": "n", "name": "s", "path": "/x/fn", "port": 8443}}}`},
	} {
		t.Run(what, func(t *testing.T) { wantWebhooks(t, []Hook{things}, tt.client, tt.want) })
	}
}

// TestSharedIDs checks that handlers with one id share a webhook if they differ only in their rules.
func TestSharedIDs(t *testing.T) {
	gadgets, lenient := things, things
	gadgets.Resources = []Resource{{"kopf.dev", "v1", "gadgets"}, {"kopf.dev", "v1", "things"}}
	lenient.IgnoreFailures = true
	other := things
	other.ID, other.Path = "fn_2", "fn_2"
	wantWebhooks(t, []Hook{things, gadgets, lenient, lenient, other}, plainClient,
		`{"rules": [
			{"apiGroups": ["kopf.dev"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"], "scope": "*"},
			{"apiGroups": ["kopf.dev"], "apiVersions": ["v1"], "resources": ["gadgets"], "operations": ["CREATE"], "scope": "*"}]}`,
		`{"name": "fn-2.auto.kopf.dev", "failurePolicy": "Ignore"}`,
		`{"name": "fn-2-2.auto.kopf.dev", "clientConfig": {"url": "https://host/fn_2"}}`)
}
