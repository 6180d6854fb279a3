package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// The tests in this file use the output of the command manifests with a real API server. It accepts all objects. Operators work with the permissions in
// them, and report each permission that is removed.

func TestManifests(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, nil)
	c.Kubectl(t, "apply", "--validate=strict", "-f", "../examples/crd.yaml", "-f", "../examples/peering.yaml")
	c.Kubectl(t, "wait", "--for=condition=Established", "-f", "../examples/crd.yaml", "-f", "../examples/peering.yaml")
	names := []string{"05-handlers", "08-events", "14-daemons", "16-indexing", "17-admission", "21-reconcile", "22-scratch", "24-website"}

	t.Run("TD-37 the API server takes them", func(t *testing.T) {
		for _, name := range names {
			for _, args := range [][]string{nil, {"-n=default", "--replicas=2", "--peering=default"}, {"-n=team-*"}} {
				c.KubectlInput(t, printed(t, name, args...), "apply", "--validate=strict", "--dry-run=server", "-f", "-")
			}
		}
		folder := t.TempDir()
		printed(t, "22-scratch", "--format=kustomize", "--out", folder)
		c.Kubectl(t, "apply", "--validate=strict", "--dry-run=server", "-k", folder)
		if rendered := c.Kubectl(t, "kustomize", folder); strings.Count(rendered, "\nkind: ")+strings.Count(rendered, "kind: Kustomization") < 5 {
			t.Errorf("kubectl kustomize renders\n%s", rendered)
		}
	})
	t.Run("TD-39 each right is needed", func(t *testing.T) { leastRights(t, c) })
}

// printed returns the manifests of an example.
func printed(t *testing.T, name string, args ...string) string {
	t.Helper()
	args = append([]string{"--name=operator", "--definitions=../examples/crd.yaml"}, args...)
	if name == "17-admission" {
		args = append(args, "--webhook-configuration=auto.kopf.dev")
	}
	return printedBy(t, example(t, name), args...)
}

// printedBy returns the manifests that a program prints.
func printedBy(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, append([]string{"manifests"}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, &errs)
	}
	return string(out)
}

// accountsOf returns the objects of some manifests, except for the pods and related objects.
func accountsOf(t *testing.T, manifests string) []map[string]any {
	t.Helper()
	objects, err := kopf.ParseManifests([]byte(manifests))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects, func(o map[string]any) bool {
		kind := o["kind"].(string)
		return !strings.Contains(kind, "Role") && !strings.Contains(kind, "WebhookConfiguration") && kind != "ServiceAccount"
	})
}

// objectsOf returns the accounts of an example for one namespace.
func objectsOf(t *testing.T, name, namespace string) []map[string]any {
	t.Helper()
	return accountsOf(t, printed(t, name, "-n="+namespace, "--peering=default", "--leader-elect=operator"))
}

// accountOf creates a namespace with the objects, and a peering object, and returns a kubeconfig of the service account.
func accountOf(t *testing.T, c *cluster.Cluster, namespace string, objects []map[string]any) string {
	t.Helper()
	objects = append([]map[string]any{
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}},
		{"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": map[string]any{"name": "default", "namespace": namespace}},
	}, objects...)
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		t.Fatal(err)
	}
	c.KubectlInput(t, string(data), "apply", "--validate=strict", "-f", "-")
	token := strings.TrimSpace(c.Kubectl(t, "create", "token", "operator", "-n", namespace))
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(withToken(c, token)), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// withoutVerb returns the objects without a verb for a resource in their rules.
func withoutVerb(objects []map[string]any, resource, verb string) (left []map[string]any) {
	for _, o := range objects {
		rules, _ := o["rules"].([]any)
		if rules == nil {
			left = append(left, o)
			continue
		}
		var kept []any
		for _, rule := range rules {
			r := rule.(map[string]any)
			resources, verbs := r["resources"].([]any), r["verbs"].([]any)
			if !slices.Contains(resources, any(resource)) || !slices.Contains(verbs, any(verb)) {
				kept = append(kept, r)
				continue
			}
			if others := slices.DeleteFunc(slices.Clone(resources), func(other any) bool { return other == resource }); len(others) > 0 {
				r := maps.Clone(r)
				r["resources"] = others
				kept = append(kept, r)
			}
			if others := slices.DeleteFunc(slices.Clone(verbs), func(other any) bool { return other == verb }); len(others) > 0 {
				r := maps.Clone(r)
				r["resources"], r["verbs"] = []any{resource}, others
				kept = append(kept, r)
			}
		}
		o = maps.Clone(o)
		o["rules"] = kept
		left = append(left, o)
	}
	return left
}

// leastRights removes each permission from a separate operator in its own namespace, and waits until the operator logs that it is missing.
func leastRights(t *testing.T, c *cluster.Cluster) {
	for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		t.Run("17-admission patch "+kind, func(t *testing.T) { missed(t, c, "17-admission", "", kind, "patch") })
		c.Kubectl(t, "delete", kind, "--all") // they refer to a server that is gone
	}
	var together sync.WaitGroup
	n := 0
	for name, object := range map[string]string{
		"22-scratch":   `{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "a"}, "spec": {"duration": "1m"}}`,
		"21-reconcile": `{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "a"}, "spec": {"items": ["one"]}}`,
	} {
		all := grants(objectsOf(t, name, "x"))
		slices.Sort(all)
		for _, right := range slices.Compact(all) {
			verb, resource, _ := strings.Cut(right, " ")
			if right == "patch events" || resource == "configmaps" && (verb == "get" || verb == "delete") || name == "21-reconcile" && verb == "patch" && strings.HasPrefix(resource, "kopfexamples") {
				continue // kopf posts a new event if it cannot count one, and logs nothing; no other client changes the children; and the handler leaves the object unchanged
			}
			n++
			together.Go(func() {
				t.Run(name+" "+right, func(t *testing.T) { missed(t, c, name, object, resource, verb) })
			})
		}
	}
	together.Wait()
	if n < 30 {
		t.Errorf("only %d rights were taken away", n)
	}
}

// missed runs an operator without a permission, with an object to handle.
func missed(t *testing.T, c *cluster.Cluster, name, object, resource, verb string) {
	namespace := "lacks-" + verb + "-" + strings.ReplaceAll(resource, "/", "-") + "-" + name
	config := accountOf(t, c, namespace, withoutVerb(objectsOf(t, name, namespace), resource, verb))
	if object != "" {
		c.KubectlInput(t, object, "apply", "-n", namespace, "-f", "-")
	}
	op := start(t, exec.Command(example(t, name), "run", "--namespace="+namespace, "--leader-elect=operator", "--leader-elect-namespace="+namespace), "KUBECONFIG="+config)
	told := fmt.Sprintf("cannot %s resource %q", verb, resource)
	log := func() string { return strings.ReplaceAll(op.log.String(), `\"`, `"`) } // attributes are quoted, the final error of an operator is not
	eventually(t, told, func() bool { return lineWith(log(), told, "[WARN") || lineWith(log(), told, "[ERROR") })
	op.kill()
	for line := range strings.Lines(log()) {
		if strings.Contains(line, " cannot ") && !strings.Contains(line, told) {
			t.Errorf("it misses something else: %s", line)
		}
	}
}
