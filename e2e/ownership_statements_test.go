package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/ownership"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// TestOwnershipStatements has separate cases for results that the random writes of TestOwnership only count.
func TestOwnershipStatements(t *testing.T) {
	for i, e := range bothServers(t) {
		t.Run("RC-51 one apply of a kind teaches, "+e.name, func(t *testing.T) { testTeaching(t, e) })
		t.Run("RC-T1 an apply that changes nothing changes no version, "+e.name, func(t *testing.T) { testNormalization(t, e) })
		t.Run("RC-53 managed fields that are lost, "+e.name, func(t *testing.T) { testLostEntry(t, e) })
		t.Run("RC-53 mutating webhooks, "+e.name, func(t *testing.T) { testWebhooks(t, e, fmt.Sprint("hooked-", i)) })
	}
}

// applied applies the first configuration of a kind to an object, and passes the response to the checker.
func (n *childNamespace) applied(k *childKind, name string) *child {
	n.t.Helper()
	object := k.make(rand.New(rand.NewPCG(1, 1)), name)
	object["metadata"].(map[string]any)["ownerReferences"] = []any{n.owner}
	configuration, err := ownership.New(object, childAnnotation)
	if err != nil {
		n.t.Fatal(err)
	}
	c := n.child(k, name)
	c.configuration = configuration
	code, answer := c.apply(false)
	if code >= 300 {
		n.t.Fatalf("%s: %d %s", k.kind, code, answer)
	}
	c.live = answer
	return c
}

// learn passes the last response to the checker.
func (c *child) learn() {
	fields, apiVersion := c.fields()
	if learnt, got := c.checker.Learn(c.configuration, fields, apiVersion), c.check(); learnt != got {
		c.t.Errorf("%s: %v is learnt, and the check finds %v", c.kind.kind, learnt, got)
	}
}

func testTeaching(t *testing.T, e *endpoint) {
	n := newChildNamespace(t, e, "ownership-teaching")
	for _, k := range builtinChildren() {
		first, second := n.applied(k, "first"), n.applied(k, "second")
		if got := second.check(); got == ownership.Drifted {
			t.Errorf("%s: %v before anything is known", k.kind, got)
		}
		first.learn()
		for _, c := range []*child{first, second} {
			if got := c.check(); got != ownership.Owned {
				t.Errorf("%s: %v after an apply of another object", k.kind, got)
			}
		}
	}
}

func testNormalization(t *testing.T, e *endpoint) {
	n := newChildNamespace(t, e, "ownership-normalization")
	for _, k := range builtinChildren() {
		c := n.applied(k, childName)
		_, again := c.apply(false)
		if diff := cmp.Diff(rawjson.Map(c.live), rawjson.Map(again)); diff != "" {
			t.Errorf("%s: a second apply changes something\n%s", k.kind, diff)
		}
		c.learn()
		if got := c.check(); got != ownership.Owned {
			t.Errorf("%s: %v", k.kind, got)
		}
	}
}

func testLostEntry(t *testing.T, e *endpoint) {
	n := newChildNamespace(t, e, "ownership-lost")
	c := n.applied(builtinChildren()[0], childName)
	for _, reset := range []any{[]any{map[string]any{}}, []any{}} {
		code, answer := n.call(t.Context(), "PATCH", c.path, asMerge, map[string]any{"metadata": map[string]any{"managedFields": reset}})
		if c.live = answer; code >= 300 || c.check() != ownership.Drifted {
			t.Errorf("managed fields that become %v: %v, want %v: %s", reset, c.check(), ownership.Drifted, answer)
		}
		if _, c.live = c.apply(false); c.check() != ownership.Owned {
			t.Errorf("%v after the apply that puts that right: %s", c.check(), c.live)
		}
	}
	_, c.live = n.call(t.Context(), "PATCH", c.path, asMerge, map[string]any{"metadata": map[string]any{"managedFields": nil}})
	if got := c.check(); got != ownership.Owned {
		t.Errorf("%v after a client has left the managed fields out", got)
	}
}

// testWebhooks has a webhook that changes a field of the configuration, and adds others. After each of some foreign writes, the check must agree with a dry
// run.
func testWebhooks(t *testing.T, e *endpoint, namespace string) {
	n := newChildNamespace(t, e, namespace)
	webhook := httptest.NewTLSServer(http.HandlerFunc(mutateChild))
	defer webhook.Close()
	kinds := []*childKind{builtinChildren()[0], builtinChildren()[3]}
	configuration := "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	n.must("POST", configuration, map[string]any{"metadata": map[string]any{"name": namespace}, "webhooks": []any{map[string]any{
		"name": "children.example.com", "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "reinvocationPolicy": "IfNeeded",
		"clientConfig":      map[string]any{"url": webhook.URL, "caBundle": base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw}))},
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": namespace}},
		"rules":             []any{map[string]any{"operations": []any{"CREATE", "UPDATE"}, "apiGroups": []any{"", "apps"}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps", "deployments"}}},
	}}})
	defer n.must("DELETE", configuration+"/"+namespace, nil)
	eventually(t, "the webhook is called", func() bool {
		_, answer := n.call(t.Context(), "POST", "/api/v1/namespaces/"+namespace+"/configmaps?dryRun=All", asJSON, map[string]any{"metadata": map[string]any{"name": "probe"}})
		return rawjson.StringAt(answer, "metadata", "labels", "injected") == "yes"
	})
	for i, k := range kinds {
		c := n.applied(k, "mutated")
		c.learn()
		if rawjson.StringAt(c.live, "metadata", "labels", "injected") != "yes" || c.check() != ownership.Owned {
			t.Errorf("%s: %v, want %v: %s", k.kind, c.check(), ownership.Owned, c.live)
		}
		n.try(rand.New(rand.NewPCG(7, uint64(i))), k)
	}
	t.Logf("%v", n.counts) // one apply is needless for each write of another client to a field that the webhook sets
	if n.counts["owned"] == 0 || n.counts["drifted"] == 0 {
		t.Error("nothing was compared")
	}
}

// mutateChild is a webhook that adds a label to all objects. In config maps, it changes a value of the configuration, and adds another one. In deployments,
// it changes the image of the first container, adds a variable to it, and adds another container.
func mutateChild(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	uid := rawjson.StringAt(body, "request", "uid")
	object, _ := rawjson.ValueAt(body, "request", "object").(map[string]any)
	labels := childMap(childMap(object, "metadata"), "labels")
	labels["injected"] = "yes"
	if rawjson.StringAt(body, "request", "kind", "kind") == "ConfigMap" {
		data := childMap(object, "data")
		if data["a"] != nil {
			data["a"] = "mutated"
		}
		data["injected"] = "yes"
	} else {
		injectContainer(childMap(childMap(childMap(object, "spec"), "template"), "spec"))
	}
	patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "", "value": object}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": map[string]any{
		"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch}}) // the server reports a missing response
}

func injectContainer(pod map[string]any) {
	containers, _ := pod["containers"].([]any)
	injected := false
	for i, item := range containers {
		container := item.(map[string]any)
		injected = injected || container["name"] == "injected"
		if i == 0 && container["name"] != "injected" {
			container["image"] = "mirror/nginx"
			env, _ := container["env"].([]any)
			variable := map[string]any{"name": "INJECTED", "value": "yes"}
			if !containsEqual(env, variable) {
				container["env"] = append(env, variable)
			}
		}
	}
	if !injected {
		pod["containers"] = append(containers, map[string]any{"name": "injected", "image": "proxy"})
	}
}

func containsEqual(list []any, value any) bool {
	for _, item := range list {
		if cmp.Equal(item, value) {
			return true
		}
	}
	return false
}

// childMap returns the map at a key. It adds one if there is none.
func childMap(object map[string]any, key string) map[string]any {
	child, ok := object[key].(map[string]any)
	if !ok {
		child = map[string]any{}
		object[key] = child
	}
	return child
}
