package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/applyset"
)

const convoys = `
{apiVersion: v1, kind: Namespace, metadata: {name: convoys-a}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: convoys-b}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: convoys-c}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: convoys.sets.example.com}
spec:
  group: sets.example.com
  scope: Namespaced
  names: {plural: convoys, singular: convoy, kind: Convoy}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// TestMembers checks with kubectl the children in other namespaces that a reconcile handler has declared.
func TestMembers(t *testing.T) {
	c := theCluster(t)
	c.KubectlInput(t, convoys, "apply", "-f", "-")
	c.Kubectl(t, "wait", "--for=condition=Established", "crd/convoys.sets.example.com")
	t.Cleanup(func() {
		c.Kubectl(t, "delete", "--wait=false", "namespace/convoys-a", "namespace/convoys-b", "namespace/convoys-c", "crd/convoys.sets.example.com")
	})
	r := &kopf.Registry{}
	r.OnReconcile("convoys.sets.example.com", func(_ context.Context, r *kopf.Reconcile) error {
		for _, child := range [][2]string{{"ConfigMap", "convoys-b"}, {"Secret", "convoys-c"}, {"ConfigMap", "convoys-a"}} {
			r.Desired(map[string]any{"apiVersion": "v1", "kind": child[0], "metadata": map[string]any{"name": r.Name(), "namespace": child[1]}}, nil)
		}
		return nil
	}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps", "secrets"}})
	runner := kopf.NewRunner(t, &kopf.Operator{Registry: r, Connection: c.ConnectionInfo(), Namespaces: []string{"convoys-*"}}, nil)
	c.KubectlInput(t, `{"apiVersion":"sets.example.com/v1","kind":"Convoy","metadata":{"name":"ship","namespace":"convoys-a"}}`, "create", "-f", "-")
	exists := func(object, namespace string) bool {
		_, err := c.TryKubectl("", "get", object, "-n", namespace)
		return err == nil
	}
	eventually(t, "the children", func() bool {
		return exists("configmap/ship", "convoys-a") && exists("configmap/ship", "convoys-b") && exists("secret/ship", "convoys-c")
	})
	t.Run("RC-47 the collector of garbage leaves the children in other namespaces alone", func(t *testing.T) {
		var child struct {
			Metadata struct{ OwnerReferences []any }
		}
		if err := json.Unmarshal([]byte(c.Kubectl(t, "get", "secret/ship", "-n", "convoys-c", "-o", "json")), &child); err != nil || len(child.Metadata.OwnerReferences) > 0 {
			t.Errorf("got the owners %v, %v", child.Metadata.OwnerReferences, err)
		}
	})
	const empty = `{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: convoys-a}}`
	t.Run("RC-47 kubectl refuses to change a set of kopf", func(t *testing.T) {
		if out, err := applySet(c, empty, "convoys.sets.example.com/ship", "convoys-a"); err == nil || !strings.Contains(out, "managed by tooling") || !strings.Contains(out, "kopf") {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("RC-48 the children go with their owner", func(t *testing.T) {
		c.KubectlInput(t, `{"apiVersion":"sets.example.com/v1","kind":"Convoy","metadata":{"name":"raft","namespace":"convoys-a"}}`, "create", "-f", "-")
		eventually(t, "its children", func() bool { return exists("configmap/raft", "convoys-b") && exists("secret/raft", "convoys-c") })
		c.Kubectl(t, "delete", "convoy/raft", "-n", "convoys-a", "--timeout=60s")
		if exists("configmap/raft", "convoys-b") || exists("secret/raft", "convoys-c") {
			t.Error("a child is left")
		}
		if !exists("secret/ship", "convoys-c") {
			t.Error("the child of another owner is gone")
		}
	})
	t.Run("RC-47 kubectl finds the members of a set with its own tooling, and prunes them", func(t *testing.T) {
		if err := runner.Stop(); err != nil {
			t.Fatal(err)
		}
		c.Kubectl(t, "annotate", "--overwrite", "convoy/ship", "-n", "convoys-a", applyset.ToolingAnnotation+"=kubectl/v1")
		out, err := applySet(c, empty, "convoys.sets.example.com/ship", "convoys-a")
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var pruned []string
		for line := range strings.Lines(out) {
			if name, ok := strings.CutSuffix(strings.TrimSpace(line), " pruned"); ok {
				pruned = append(pruned, name)
			}
		}
		slices.Sort(pruned)
		if diff := cmp.Diff([]string{"configmap/ship", "secret/ship"}, pruned); diff != "" {
			t.Errorf("of %s (-want +got)\n%s", out, diff)
		}
		if !exists("configmap/ship", "convoys-a") {
			t.Error("the child with an owner reference is gone")
		}
	})
	c.KubectlInput(t, `{"metadata":{"finalizers":null}}`, "patch", "convoy/ship", "-n", "convoys-a", "--type=merge", "--patch-file=/dev/stdin")
}
