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

	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/internal/promises"
)

// unused are permissions that no example uses in its test: handlers could change these objects, no other client changes these children, and no event is
// repeated.
var unused = []string{
	"patch pods", "patch pods/status", "patch namespaces/status", "patch websites",
	"patch events", "get configmaps", "get services", "get deployments", "get statefulsets", "get jobs", "delete services", "delete deployments", "delete statefulsets", "delete jobs", "patch jobs", "create jobs",
}

// TestExamples checks the promises of the examples on the real API server, with the permissions in their manifests, and that they use these permissions.
// Their unit test uses the in-memory API server.
func TestExamples(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "policy")
	const rules = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}]}`
	if err := os.WriteFile(policy, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	c := ownCluster(t, &cluster.Options{Controllers: cluster.UsualControllers, APIServerArgs: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--audit-log-mode=blocking"}})
	programs := promises.Build(t, "..")
	world := promises.NewWorld(t, "..", programs, c.Kubeconfig(), c.ConnectionInfo())
	var mu sync.Mutex
	granted := make(map[string][]string) // by the names of the examples
	admin := world.Command
	world.Command = func(program string, args []string) *exec.Cmd {
		name := filepath.Base(program)
		if name == "12-embedded" || args[0] != "run" { // it has no command line, and other commands need no account
			return admin(program, args)
		}
		mu.Lock()
		defer mu.Unlock()
		config := filepath.Join(programs, name+".kubeconfig")
		if granted[name] == nil {
			namespace := strings.TrimPrefix(args[1], "--namespace=")
			if args[1] == "--all-namespaces" {
				namespace = "example-" + name
			}
			objects := installed(t, program, namespace, args)
			granted[name] = grants(objects)
			if err := os.Rename(accountOf(t, c, namespace, objects), config); err != nil {
				t.Error(err)
			}
		}
		if name == "23-leader-election" {
			args = append(slices.Clone(args), "--leader-elect-namespace=example-"+name) // as in a pod
		}
		cmd := exec.Command(program, args...)
		cmd.Env = []string{"KUBECONFIG=" + config}
		return cmd
	}
	promises.PlayAll(t, "..", func(*testing.T) *promises.World { return world })
	t.Run("TD-39 they have the rights that they use, and use those that they have", func(t *testing.T) { checkUse(t, log, granted) })
}

// installed returns the objects for an example's account in its manifests.
func installed(t *testing.T, program, namespace string, args []string) []map[string]any {
	t.Helper()
	more := []string{"--name=operator", "--definitions=../examples/crd.yaml", "--install-namespace=" + namespace, "--peering=default"}
	if slices.Contains(args, "--namespace="+namespace) {
		more = append(more, "--namespace="+namespace)
	}
	switch filepath.Base(program) { // the settings of their startup handlers
	case "17-admission":
		more = append(more, "--webhook-configuration=auto.kopf.dev")
	case "27-external-database":
		more = append(more, "--webhook-configuration=databases.example.com")
	case "23-leader-election":
		more = append(more, "--leader-elect=kopf-example")
	}
	objects := accountsOf(t, printedBy(t, program, more...))
	if filepath.Base(program) == "04-events" { // it posts an event about a namespace in another namespace
		meta := map[string]any{"name": "events", "namespace": "default"}
		objects = append(objects,
			map[string]any{"apiVersion": rbacGroup + "/v1", "kind": "Role", "metadata": meta, "rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"events"}, "verbs": []any{"create"}}}},
			map[string]any{"apiVersion": rbacGroup + "/v1", "kind": "RoleBinding", "metadata": meta, "roleRef": map[string]any{"apiGroup": rbacGroup, "kind": "Role", "name": "events"},
				"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "operator", "namespace": namespace}}})
	}
	return objects
}

const rbacGroup = "rbac.authorization.k8s.io"

// grants returns the permissions in some roles, one by one.
func grants(objects []map[string]any) (all []string) {
	for _, o := range objects {
		rules, _ := o["rules"].([]any)
		for _, rule := range rules {
			r := rule.(map[string]any)
			for _, resource := range r["resources"].([]any) {
				for _, verb := range r["verbs"].([]any) {
					all = append(all, fmt.Sprintf("%s %s", verb, resource))
				}
			}
		}
	}
	return all
}

// audited is a request in the audit log of an API server.
type audited struct {
	User        struct{ Username string }
	Verb        string
	Annotations map[string]string
	ObjectRef   struct{ Resource, Subresource, Namespace, Name string }
}

// checkUse compares the requests in the log with the permissions of the examples.
func checkUse(t *testing.T, log string, granted map[string][]string) {
	used := make(map[string][]string)
	lines := strings.Split(strings.TrimSpace(string(mustRead(t, log))), "\n")
	for _, line := range lines {
		var r audited
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		namespace, ours := strings.CutSuffix(strings.TrimPrefix(r.User.Username, "system:serviceaccount:"), ":operator")
		if !ours {
			continue
		}
		use := r.Verb + " " + r.ObjectRef.Resource
		if r.ObjectRef.Subresource != "" {
			use += "/" + r.ObjectRef.Subresource
		}
		name := strings.TrimPrefix(namespace, "example-")
		used[name] = append(used[name], use)
		if r.Annotations["authorization.k8s.io/decision"] == "forbid" && use != "get kopfexamples" { // for an object in a delayed stream; a list reads it then
			t.Errorf("%s may not %s %s", name, use, r.ObjectRef.Name)
		}
	}
	if len(granted) < 20 {
		t.Errorf("only %d examples have accounts", len(granted))
	}
	var all []string
	for _, uses := range used {
		all = append(all, uses...)
	}
	for _, name := range slices.Sorted(maps.Keys(granted)) {
		for _, right := range granted[name] {
			resource, creates := strings.CutPrefix(right, "create ") // an apply patch requires it, too
			if !slices.Contains(all, right) && !slices.Contains(unused, right) && (!creates || !slices.Contains(all, "patch "+resource)) {
				t.Errorf("no example has a use for the right of %s: %s", name, right)
			}
		}
	}
}
