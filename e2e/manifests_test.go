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
	"github.com/kopf-go/kopf/internal/promises"
)

// The tests in this file hold what the command manifests prints against a real API server: it takes all objects, operators do their work with the rights in them, and
// miss each right that is taken away.

func TestManifests(t *testing.T) {
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
	t.Run("TD-39 operators do their work with the rights", func(t *testing.T) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) { work(t, c, name) })
		}
	})
	t.Run("TD-39 each right is needed", func(t *testing.T) { leastRights(t, c) })
}

// printed returns the manifests of an example.
func printed(t *testing.T, name string, args ...string) string {
	t.Helper()
	args = append([]string{"manifests", "--name=operator", "--definitions=../examples/crd.yaml"}, args...)
	if name == "17-admission" {
		args = append(args, "--webhook-configuration=auto.kopf.dev")
	}
	cmd := exec.Command(example(t, name), args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, &errs)
	}
	return string(out)
}

// objectsOf returns the manifests of an example for one namespace, but for the pods and what is around them.
func objectsOf(t *testing.T, name, namespace string) []map[string]any {
	t.Helper()
	objects, err := kopf.ParseManifests([]byte(printed(t, name, "-n="+namespace, "--peering=default", "--leader-elect=operator")))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects, func(o map[string]any) bool {
		kind := o["kind"].(string)
		return !strings.Contains(kind, "Role") && !strings.Contains(kind, "WebhookConfiguration") && kind != "ServiceAccount"
	})
}

// accountOf makes a namespace with the objects, and a peering object, and returns a kubeconfig of the service account.
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

// work has an example keep its promise with the rights that are printed for it. A right that is missed is a warning, which is not promised.
func work(t *testing.T, c *cluster.Cluster, name string) {
	namespace := "does-" + name
	config := accountOf(t, c, namespace, objectsOf(t, name, namespace))
	world := promises.NewWorld(t, "..", filepath.Dir(example(t, name)), config, c.ConnectionInfo())
	world.Namespace = namespace
	world.Play(t, name)
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
			r := maps.Clone(rule.(map[string]any))
			if slices.Contains(r["resources"].([]any), any(resource)) {
				if r["verbs"] = slices.DeleteFunc(slices.Clone(r["verbs"].([]any)), func(v any) bool { return v == verb }); len(r["verbs"].([]any)) == 0 {
					continue
				}
			}
			kept = append(kept, r)
		}
		o = maps.Clone(o)
		o["rules"] = kept
		left = append(left, o)
	}
	return left
}

// leastRights takes each right away from an operator of its own, with a namespace of its own, and waits until it logs that it misses it.
func leastRights(t *testing.T, c *cluster.Cluster) {
	program := example(t, "22-scratch")
	taken := make(map[string]bool)
	var together sync.WaitGroup
	for _, o := range objectsOf(t, "22-scratch", "x") {
		rules, _ := o["rules"].([]any)
		for _, rule := range rules {
			r := rule.(map[string]any)
			for _, resource := range r["resources"].([]any) {
				for _, verb := range r["verbs"].([]any) {
					resource, verb := resource.(string), verb.(string)
					if key := verb + " " + resource; taken[key] || key == "patch events" {
						continue // an event that can't be counted is posted anew, and then it is no use to tell
					} else {
						taken[key] = true
					}
					together.Go(func() {
						t.Run(verb+" "+resource, func(t *testing.T) { missed(t, c, program, resource, verb) })
					})
				}
			}
		}
	}
	together.Wait()
	if len(taken) < 15 {
		t.Errorf("there are only the rights %q", slices.Sorted(maps.Keys(taken)))
	}
}

// missed runs an operator without a right.
func missed(t *testing.T, c *cluster.Cluster, program, resource, verb string) {
	namespace := "lacks-" + verb + "-" + strings.ReplaceAll(resource, "/", "-")
	config := accountOf(t, c, namespace, withoutVerb(objectsOf(t, "22-scratch", namespace), resource, verb))
	c.KubectlInput(t, fmt.Sprintf(`{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "a", "namespace": %q}, "spec": {"duration": "1m"}}`, namespace), "apply", "-f", "-")
	op := start(t, exec.Command(program, "run", "--namespace="+namespace, "--leader-elect=operator", "--leader-elect-namespace="+namespace), "KUBECONFIG="+config)
	told := fmt.Sprintf("cannot %s resource %q", verb, resource)
	log := func() string { return strings.ReplaceAll(op.log.String(), `\"`, `"`) } // attributes are quoted, the end of an operator is not
	eventually(t, told, func() bool { return lineWith(log(), told, "[WARN") || lineWith(log(), told, "[ERROR") })
	op.kill()
	for line := range strings.Lines(log()) {
		if strings.Contains(line, " cannot ") && !strings.Contains(line, told) {
			t.Errorf("it misses something else: %s", line)
		}
	}
}
