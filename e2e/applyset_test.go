package e2e

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/internal/applyset"
)

// This file compares kopf's implementation of the ApplySet specification with kubectl, which reads and writes sets itself.

const applySetObjects = `
{apiVersion: v1, kind: Namespace, metadata: {name: sets-a}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: sets-b}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: sets-c}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fleets.sets.example.com, labels: {applyset.kubernetes.io/is-parent-type: "true"}}
spec:
  group: sets.example.com
  scope: Cluster
  names: {plural: fleets, singular: fleet, kind: Fleet}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// setMembers returns members of a set in namespaces.
func setMembers(one, two, three string) string {
	return `
{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: ` + one + `}}
---
{apiVersion: v1, kind: Secret, metadata: {name: two, namespace: ` + two + `}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: three, namespace: ` + three + `}
spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}}
`
}

// lastMember is the remaining member of the set.
const lastMember = `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: sets-a}}`

func TestApplySets(t *testing.T) {
	c := theCluster(t)
	c.KubectlInput(t, applySetObjects, "apply", "-f", "-")
	c.Kubectl(t, "wait", "--for=condition=Established", "crd/fleets.sets.example.com")
	t.Cleanup(func() {
		c.Kubectl(t, "delete", "--wait=false", "namespace/sets-a", "namespace/sets-b", "namespace/sets-c", "crd/fleets.sets.example.com")
	})
	t.Run("RC-47 kubectl writes what kopf writes", func(t *testing.T) {
		c.KubectlInput(t, `{"apiVersion":"sets.example.com/v1","kind":"Fleet","metadata":{"name":"written","labels":{"`+applyset.IDLabel+`":"`+
			applyset.ID("written", "", "Fleet", "sets.example.com")+`"},"annotations":{"`+applyset.ToolingAnnotation+`":"kubectl/v1","`+applyset.GroupKindsAnnotation+`":""}}}`, "create", "-f", "-")
		for _, parent := range []struct {
			kind, group, namespace, resource string
			members                          []string // their namespaces; for kubectl, a parent with a namespace has all members there
		}{
			{"Secret", "", "sets-a", "secrets", []string{"sets-a", "sets-a", "sets-a"}},
			{"ConfigMap", "", "sets-b", "configmaps", []string{"sets-b", "sets-b", "sets-b"}},
			{"Fleet", "sets.example.com", "", "fleets.sets.example.com", []string{"sets-c", "sets-a", "sets-b"}},
		} {
			set, members := parent.resource+"/written", setMembers(parent.members[0], parent.members[1], parent.members[2])
			where := []string{"get", set, "-o", "json"}
			if parent.namespace != "" {
				where = append(where, "-n", parent.namespace)
			}
			if out, err := applySet(c, members, set, parent.namespace); err != nil {
				t.Fatalf("%s: %v: %s", set, err, out)
			}
			id := applyset.ID("written", parent.namespace, parent.kind, parent.group)
			got := metadataOf(t, c.Kubectl(t, where...))
			if got.Labels[applyset.IDLabel] != id {
				t.Errorf("%s: got the ID %s, want %s", set, got.Labels[applyset.IDLabel], id)
			}
			want := map[string]string{
				applyset.GroupKindsAnnotation: applyset.FormatGroupKinds([]applyset.GroupKind{{Group: "batch", Kind: "CronJob"}, {Kind: "Secret"}, {Kind: "ConfigMap"}}),
				applyset.NamespacesAnnotation: applyset.FormatNamespaces(parent.members, parent.namespace),
			}
			for annotation, value := range want {
				if got.Annotations[annotation] != value {
					t.Errorf("%s: got %s: %s, want %s", set, annotation, got.Annotations[annotation], value)
				}
			}
			if tooling := got.Annotations[applyset.ToolingAnnotation]; !strings.HasPrefix(tooling, "kubectl/") || applyset.IsOwnTooling(tooling) {
				t.Errorf("%s: got the tooling %s", set, tooling)
			}
			member := metadataOf(t, c.Kubectl(t, "get", "secret/two", "-n", parent.members[1], "-o", "json"))
			if member.Labels[applyset.PartOfLabel] != id {
				t.Errorf("%s: a member is part of %s, want %s", set, member.Labels[applyset.PartOfLabel], id)
			}
			c.KubectlInput(t, members, "delete", "-f", "-") // a member has one set
		}
	})
	t.Run("RC-47 kubectl reads what kopf writes", func(t *testing.T) {
		id := applyset.ID("read", "", "Fleet", "sets.example.com")
		parent, err := json.Marshal(map[string]any{"apiVersion": "sets.example.com/v1", "kind": "Fleet", "metadata": map[string]any{
			"name": "read", "labels": map[string]string{applyset.IDLabel: id}, "annotations": map[string]string{
				applyset.ToolingAnnotation:    applyset.Tooling("0.1.0"),
				applyset.GroupKindsAnnotation: applyset.FormatGroupKinds([]applyset.GroupKind{{Kind: "Secret"}, {Group: "batch", Kind: "CronJob"}, {Kind: "ConfigMap"}}),
				applyset.NamespacesAnnotation: applyset.FormatNamespaces([]string{"sets-a", "sets-b", "sets-c"}, ""),
			}}})
		if err != nil {
			t.Fatal(err)
		}
		c.KubectlInput(t, string(parent), "create", "-f", "-")
		c.KubectlInput(t, setMembers("sets-a", "sets-b", "sets-c"), "create", "-f", "-")
		for _, member := range [][]string{{"configmap/one", "sets-a"}, {"secret/two", "sets-b"}, {"cronjob/three", "sets-c"}} {
			c.Kubectl(t, "label", member[0], "-n", member[1], applyset.PartOfLabel+"="+id)
		}
		if out, err := applySet(c, lastMember, "fleets.sets.example.com/read", ""); err == nil || !strings.Contains(out, `managed by tooling`) || !strings.Contains(out, "kopf") {
			t.Fatalf("kubectl works on a set of kopf: %v: %s", err, out)
		}
		c.Kubectl(t, "annotate", "--overwrite", "fleets.sets.example.com/read", applyset.ToolingAnnotation+"=kubectl/v1")
		out, err := applySet(c, lastMember, "fleets.sets.example.com/read", "")
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
		if diff := cmp.Diff([]string{"cronjob.batch/three", "secret/two"}, pruned); diff != "" {
			t.Errorf("of %s (-want +got)\n%s", out, diff)
		}
	})
}

// applySet has kubectl apply objects as a set, and returns its output.
func applySet(c *cluster.Cluster, objects, set, namespace string) (string, error) {
	args := []string{"--cache-dir=" + c.Kubeconfig() + ".applysets", "apply", "--prune", "--applyset=" + set, "-f", "-"}
	if namespace != "" {
		args = append(args, "-n", namespace)
	}
	cmd := exec.CommandContext(context.Background(), c.KubectlPath(), args...)
	cmd.Env = []string{"KUBECONFIG=" + c.Kubeconfig(), "KUBECTL_APPLYSET=true", "KUBECTL_KUBERC=false"}
	cmd.Stdin = strings.NewReader(objects)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// setMetadata has the labels and annotations of an object.
type setMetadata struct{ Labels, Annotations map[string]string }

func metadataOf(t *testing.T, object string) setMetadata {
	t.Helper()
	var decoded struct{ Metadata setMetadata }
	if err := json.Unmarshal([]byte(object), &decoded); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	return decoded.Metadata
}
