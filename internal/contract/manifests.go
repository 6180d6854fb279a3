package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves the output of the command manifests, in 6-types-and-manifests.md. The permissions are in manifests_rights.go.

var _ = SerialSuite("manifests", func(t *testing.T, c *C) {
	printing(t, c)
	formats(t, c)
	checking(t, c)
	readingText(t, c)
})

// made is the output of a command.
type made struct {
	code           int
	stdout, stderr string
}

// print runs a command of an operator with handlers, without access to a cluster.
func (c *C) print(register func(*kopf.Registry), args ...string) made {
	c.Helper()
	c.changesProcess()
	before, logger := kopf.DefaultRegistry(), slog.Default()
	defer kopf.SetDefaultRegistry(before)
	defer slog.SetDefault(logger)
	r := &kopf.Registry{}
	r.OnStartup(func(context.Context, *kopf.Activity) error { panic("a handler was called") }, &kopf.ActivityOptions{ID: "startup"})
	r.OnLogin(func(context.Context, *kopf.Login) (*kopf.ConnectionInfo, error) { panic("a login was called") }, &kopf.ActivityOptions{ID: "login"})
	register(r)
	kopf.SetDefaultRegistry(r)
	var out, errs bytes.Buffer
	code := kopf.Command(c.Context(), args, &out, &errs)
	return made{code, out.String(), errs.String()}
}

// manifests prints manifests, and checks that there are no warnings.
func (c *C) manifests(register func(*kopf.Registry), args ...string) []map[string]any {
	c.Helper()
	m := c.print(register, append([]string{"manifests", "--name=web"}, args...)...)
	if m.code != 0 {
		c.Fatalf("%q: got the exit code %d: %s", args, m.code, m.stderr)
	}
	objects, err := kopf.ParseManifests([]byte(m.stdout))
	if err != nil {
		c.Fatalf("%q: %v\n%s", args, err, m.stdout)
	}
	return objects
}

// titles returns "Kind namespace/name" of objects.
func titles(objects []map[string]any) (names []string) {
	for _, o := range objects {
		meta := o["metadata"].(map[string]any)
		name := o["kind"].(string) + " "
		if namespace, _ := meta["namespace"].(string); namespace != "" {
			name += namespace + "/"
		}
		names = append(names, name+meta["name"].(string))
	}
	return names
}

// field returns the value at a path of keys or list indices, separated by dots.
func field(object any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch o := object.(type) {
		case map[string]any:
			object = o[key]
		case []any:
			if i := int(key[0] - '0'); i < len(o) {
				object = o[i]
			} else {
				return nil
			}
		default:
			return nil
		}
	}
	return object
}

// one returns the object of a kind.
func one(t testing.TB, objects []map[string]any, kind string) map[string]any {
	t.Helper()
	i := slices.IndexFunc(objects, func(o map[string]any) bool { return o["kind"] == kind })
	if i < 0 {
		t.Fatalf("there is no %s in %q", kind, titles(objects))
	}
	return objects[i]
}

func noChange(context.Context, *kopf.Change) error { return nil }

// website registers a usual handler.
func website(r *kopf.Registry) {
	r.OnCreate("websites.example.com", noChange, &kopf.ChangeOptions{ID: "create"})
}

// hooked registers an admission handler as well.
func hooked(r *kopf.Registry) {
	website(r)
	r.OnValidate("websites.example.com", func(context.Context, *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "check"})
}

// describedDefinition returns a CRD with a description.
func describedDefinition(description string) string {
	quoted, _ := json.Marshal(description)
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"websites.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
"names":{"kind":"Website","plural":"websites","singular":"website","shortNames":["web"],"categories":["all"]},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"schema":{"openAPIV3Schema":{"type":"object","description":` + string(quoted) + `,"properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`
}

// definitionFile writes a CRD to a file.
func (c *C) definitionFile(text string) string {
	c.Helper()
	folder, err := os.MkdirTemp("", "manifests")
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "crd.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	return path
}

func printing(t *testing.T, c *C) {
	c.Run(t, "TD-37 the objects of an operator of all namespaces", func(c *C) {
		want := []string{
			"CustomResourceDefinition websites.example.com", "ServiceAccount default/web", "ClusterRole web-default", "ClusterRoleBinding web-default", "Deployment default/web", "NetworkPolicy default/web",
		}
		if diff := cmp.Diff(want, titles(c.manifests(website, "--definitions", c.definitionFile(describedDefinition("x"))))); diff != "" {
			c.Errorf("(-want +got)\n%s", diff)
		}
	})
	c.Run(t, "TD-37 a program without handlers is warned, and of start-up handlers that may register some", func(c *C) {
		for _, command := range []string{"manifests", "explain-rights"} {
			m := c.print(func(*kopf.Registry) {}, command, "--name=web")
			for _, want := range []string{
				"Warning: no handlers are registered for objects, so the operator does nothing",
				"Warning: This command calls no start-up handlers, so it does not know the handlers that they register, nor the permissions",
			} {
				if m.code != 0 || strings.Count(m.stderr, want) != 1 {
					c.Errorf("%s: got the exit code %d and %s, want %q", command, m.code, m.stderr, want)
				}
			}
		}
	})
	c.Run(t, "TD-37 the definitions of kinds that are defined by structs", func(c *C) {
		defined := func(r *kopf.Registry) {
			kopf.DefineIn[site](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Website"})
			r.OnCreate("websites", noChange, &kopf.ChangeOptions{ID: "create"}) // its group comes from the CRD
		}
		m := c.print(defined, "manifests", "--name=web", "--only=CustomResourceDefinition")
		objects, err := kopf.ParseManifests([]byte(m.stdout))
		if err != nil || m.code != 0 {
			c.Fatalf("got %+v: %v", m, err)
		}
		want, err := kopf.ParseManifests(kopf.DefineIn[site](&kopf.Registry{}, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Website"}).Manifest())
		if err != nil {
			c.Fatal(err)
		}
		if diff := cmp.Diff(want[0]["spec"], one(c, objects, "CustomResourceDefinition")["spec"]); diff != "" {
			c.Errorf("(-want +got)\n%s", diff)
		}
	})
	c.Run(t, "TD-37 a definition that is given twice", func(c *C) {
		defined := func(class string) func(r *kopf.Registry) {
			return func(r *kopf.Registry) {
				kopf.DefineIn[site](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site", Categories: []string{class}})
			}
		}
		r := &kopf.Registry{}
		same := c.definitionFile(string(kopf.DefineIn[site](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site", Categories: []string{"a"}}).Manifest()))
		for category, warning := range map[string]string{"a": "", "b": "Warning: The definition sites.example.com in " + same + " differs from that of Define, which is the one that is used.\n"} {
			m := c.print(defined(category), "manifests", "--name=web", "--only=CustomResourceDefinition", "--definitions", same, "--definitions", same)
			objects, err := kopf.ParseManifests([]byte(m.stdout))
			if err != nil || m.code != 0 || len(objects) != 1 || !strings.Contains(m.stderr, warning) || warning == "" && m.stderr != "" {
				c.Fatalf("%s: got %+v, %v", category, m, err)
			}
			if got := field(objects[0], "spec.names.categories.0"); got != category {
				c.Errorf("%s: got the definition with the category %v", category, got)
			}
		}
	})
	c.Run(t, "TD-37 a file without a definition", func(c *C) {
		file := c.definitionFile(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
		for path, want := range map[string]string{file: "--definitions: " + file + " has no CustomResourceDefinition", filepath.Dir(file): "--definitions: there is no CustomResourceDefinition in "} {
			if m := c.print(website, "manifests", "--name=web", "--definitions", path); m.code != 1 || m.stdout != "" || !strings.Contains(m.stderr, want) {
				c.Errorf("got %+v, want %s", m, want)
			}
		}
	})
	c.Run(t, "TD-37 the objects of one with all there is", func(c *C) {
		want := []string{
			"ServiceAccount ops/web", "Role ops/web", "RoleBinding ops/web", "ClusterRole web-ops", "ClusterRoleBinding web-ops", "Role a/web-served", "RoleBinding a/web-served", "Role b/web-served", "RoleBinding b/web-served",
			"Service ops/web", "ValidatingWebhookConfiguration web.kopf.dev", "Deployment ops/web", "PodDisruptionBudget ops/web", "NetworkPolicy ops/web", "ServiceMonitor ops/web",
		}
		objects := c.manifests(hooked, "-n", "a", "-n", "b", "--install-namespace=ops", "--replicas=3", "--service-monitor", "--image=example.com/web:1")
		if diff := cmp.Diff(want, titles(objects)); diff != "" {
			c.Errorf("(-want +got)\n%s", diff)
		}
		spec := one(c, objects, "Deployment")["spec"]
		for path, want := range map[string]any{
			"replicas": json.Number("3"), "template.spec.containers.0.image": "example.com/web:1", "template.spec.serviceAccountName": "web", "template.spec.containers.0.ports.1.containerPort": json.Number("9443"),
		} {
			if got := field(spec, path); got != want {
				if n, ok := want.(json.Number); !ok || !sameNumber(got, n) {
					c.Errorf("%s is %v (%T), want %v", path, got, got, want)
				}
			}
		}
	})
	c.Run(t, "TD-37 the settings of webhooks have to be as the manifests expect", func(c *C) {
		m := c.print(hooked, "manifests", "--name=web", "--webhook-port=8443", "--webhook-configuration=hooks.example.com", "--only=Service,validatingwebhookconfigurations")
		want := `s.Admission.Server = &kopf.WebhookServer{Port: 8443, Service: &kopf.ServiceReference{Name: "web"}} and s.Admission.Managed = "hooks.example.com" in the function of kopf.Configure`
		if !strings.Contains(m.stderr, want) {
			c.Errorf("got %s, want %s in it", m.stderr, want)
		}
		for only, told := range map[string]bool{"ServiceAccount,clusterroles": false, "deployments": true, "serviceaccount,service": true} {
			m := c.print(hooked, "manifests", "--name=web", "--only="+only)
			if strings.Contains(m.stderr, "the manifests expect") != told {
				c.Errorf("with --only=%s: got %q", only, m.stderr)
			}
		}
		objects, err := kopf.ParseManifests([]byte(m.stdout))
		if err != nil {
			c.Fatal(err)
		}
		if diff := cmp.Diff([]string{"Service default/web", "ValidatingWebhookConfiguration hooks.example.com"}, titles(objects)); diff != "" {
			c.Errorf("(-want +got)\n%s", diff)
		}
	})
	c.Run(t, "TD-37 a kind that is not made", func(c *C) {
		m := c.print(website, "manifests", "--name=web", "--only=Pod")
		if m.code != 2 || m.stdout != "" || !strings.Contains(m.stderr, `invalid value "Pod" for --only: want one of CustomResourceDefinition, `) {
			c.Errorf("got %+v", m)
		}
		m = c.print(website, "manifests", "--name=web", "--only=Service")
		if m.code != 1 || m.stdout != "" || !strings.Contains(m.stderr, `invalid kind "Service" for --only: this operator has ServiceAccount, `) {
			c.Errorf("got %+v", m)
		}
	})
	c.Run(t, "TD-37 settings that the operator would refuse make no manifests", func(c *C) {
		for _, tt := range []struct {
			set  func(*kopf.Settings)
			want string
		}{
			{func(s *kopf.Settings) { s.LeaderElection.Name = "My Lease" }, "LeaderElection.Name"},
			{func(s *kopf.Settings) { s.Persistence.Finalizer = "no domain!" }, "Persistence.Finalizer"},
			{func(s *kopf.Settings) { s.Watching.PageSize = -5 }, "Watching.PageSize"},
		} {
			for _, command := range []string{"manifests", "explain-rights"} {
				m := c.print(func(r *kopf.Registry) {
					website(r)
					r.Configure(tt.set)
				}, command)
				if m.code != 1 || m.stdout != "" || !strings.Contains(m.stderr, tt.want) {
					c.Errorf("%s: got %+v, want an error with %s", command, m, tt.want)
				}
			}
		}
	})
	c.Run(t, "TD-37 the name of the program may be none of a Service", func(c *C) {
		m := c.print(website, "manifests", "--service-monitor", "--only=Service")
		objects, err := kopf.ParseManifests([]byte(m.stdout))
		if err != nil || m.code != 0 {
			c.Fatalf("got %+v, %v", m, err)
		}
		if diff := cmp.Diff([]string{"Service default/contract-test"}, titles(objects)); diff != "" {
			c.Errorf("(-want +got)\n%s", diff)
		}
	})
	c.Run(t, "TD-37 a namespace may have a name of 63 characters, and may be given twice", func(c *C) {
		long := strings.Repeat("n", 63)
		want := []string{"ServiceAccount " + long + "/web", "ClusterRole web-" + long, "ClusterRoleBinding web-" + long, "Role a/web-served", "RoleBinding a/web-served", "Deployment " + long + "/web", "NetworkPolicy " + long + "/web"}
		if diff := cmp.Diff(want, titles(c.manifests(website, "--install-namespace", long, "-n=a", "-n=a"))); diff != "" {
			c.Errorf("(-want +got)\n%s", diff)
		}
	})
	c.Run(t, "TD-38 the same input gives the same bytes", func(c *C) {
		other := func(r *kopf.Registry) {
			r.OnReconcile("websites.example.com", func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"deployments.apps", "services", "configmaps"}})
			r.Needs("pods", "get")
		}
		args := []string{"manifests", "--name=web", "-n=a", "--replicas=2", "--definitions", c.definitionFile(describedDefinition("x"))}
		first := c.print(func(r *kopf.Registry) { website(r); other(r) }, args...)
		again := c.print(func(r *kopf.Registry) { other(r); website(r) }, args...)
		if first.code != 0 || first != again {
			c.Errorf("got %s, and then (-first +again)\n%s", first.stderr, cmp.Diff(first.stdout, again.stdout))
		}
	})
	c.Run(t, "TD-43 the pods of one replica", func(c *C) {
		deployment := one(c, c.manifests(website), "Deployment")
		pod := field(deployment, "spec.template.spec")
		for path, want := range map[string]any{
			"securityContext.runAsNonRoot": true, "securityContext.seccompProfile.type": "RuntimeDefault", "containers.0.securityContext.allowPrivilegeEscalation": false, "containers.0.securityContext.readOnlyRootFilesystem": true,
			"containers.0.securityContext.capabilities.drop.0": "ALL", "containers.0.livenessProbe.httpGet.path": "/healthz", "containers.0.readinessProbe.httpGet.path": "/readyz", "containers.0.env.0.name": "POD_ID",
			"containers.0.resources.limits.memory": "128Mi", "topologySpreadConstraints": nil,
		} {
			if got := field(pod, path); got != want {
				c.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		if strategy := field(deployment, "spec.strategy.type"); strategy != "Recreate" {
			c.Errorf("the strategy is %v, want Recreate", strategy)
		}
		if diff := cmp.Diff([]any{"run", "--standalone", "--log-format=json", "--liveness=http://0.0.0.0:8080/healthz"}, field(pod, "containers.0.args")); diff != "" {
			c.Errorf("the arguments (-want +got)\n%s", diff)
		}
	})
	c.Run(t, "TD-43 replicas with an election", func(c *C) {
		objects := c.manifests(website, "--leader-elect=web-lease", "-n=a", "--peering=main")
		deployment := one(c, objects, "Deployment")
		for path, want := range map[string]any{
			"spec.strategy.type": "RollingUpdate", "spec.template.spec.topologySpreadConstraints.0.topologyKey": "kubernetes.io/hostname",
		} {
			if got := field(deployment, path); got != want {
				c.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		if got := field(deployment, "spec.replicas"); !sameNumber(got, "2") {
			c.Errorf("there are %v replicas, want 2", got)
		}
		if got := field(one(c, objects, "PodDisruptionBudget"), "spec.maxUnavailable"); !sameNumber(got, "1") {
			c.Errorf("%v may be unavailable, want 1", got)
		}
		want := []any{"run", "--namespace=a", "--leader-elect=web-lease", "--peering=main", "--log-format=json", "--liveness=http://0.0.0.0:8080/healthz"}
		if diff := cmp.Diff(want, field(deployment, "spec.template.spec.containers.0.args")); diff != "" {
			c.Errorf("the arguments (-want +got)\n%s", diff)
		}
	})
	c.Run(t, "TD-T10 a large definition without descriptions can be applied", func(c *C) {
		file := c.definitionFile(describedDefinition(strings.Repeat("long ", 60_000)))
		args := []string{"manifests", "--name=web", "--only=CustomResourceDefinition", "--definitions", file}
		whole, bare := c.print(website, args...), c.print(website, append(args, "--no-descriptions")...)
		out := []string{"--out", c.folder(website, append(args[2:], "--no-descriptions")...), "--check"}
		if m := c.print(website, append(append(args, "--no-descriptions"), out...)...); m != (made{}) {
			c.Errorf("the folder without descriptions: got %+v", m)
		}
		if m := c.print(website, append(args, out...)...); m.code != 1 || !strings.Contains(m.stdout, "description: ") {
			c.Errorf("the folder with descriptions: got the code %d, and %d bytes", m.code, len(m.stdout))
		}
		if len(whole.stdout) < 262_144 || len(bare.stdout) > 2000 || bare.code != 0 || strings.Contains(bare.stdout, "description") {
			c.Errorf("got %d bytes, and %d without descriptions", len(whole.stdout), len(bare.stdout))
		}
	})
}

// sameNumber reports whether a value of a manifest equals the number.
func sameNumber(got any, want json.Number) bool {
	data, err := json.Marshal(got)
	return err == nil && string(data) == string(want)
}

// folder runs a command that writes to a folder, and returns the folder.
func (c *C) folder(register func(*kopf.Registry), args ...string) string {
	c.Helper()
	folder, err := os.MkdirTemp("", "manifests")
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = os.RemoveAll(folder) })
	if m := c.print(register, append([]string{"manifests", "--name=web", "--out", folder}, args...)...); m.code != 0 || m.stdout != "" {
		c.Fatalf("%q: got %+v", args, m)
	}
	return folder
}

// read returns the text of a file.
func (c *C) read(path ...string) string {
	c.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		c.Fatal(err)
	}
	return string(data)
}

func formats(t *testing.T, c *C) {
	c.Run(t, "TD-37 a folder for Kustomize", func(c *C) {
		folder := c.folder(website, "--format=kustomize", "--replicas=2")
		objects, err := kopf.ParseManifests([]byte(c.read(folder, "kustomization.yaml")))
		if err != nil {
			c.Fatal(err)
		}
		var all []map[string]any
		for _, name := range objects[0]["resources"].([]any) {
			some, err := kopf.ParseManifests([]byte(c.read(folder, name.(string))))
			if err != nil {
				c.Errorf("%s: %v", name, err)
			}
			all = append(all, some...)
		}
		want := c.manifests(website, "--replicas=2")
		order := func(a, b map[string]any) int {
			return strings.Compare(titles([]map[string]any{a})[0], titles([]map[string]any{b})[0])
		}
		slices.SortFunc(all, order)
		slices.SortFunc(want, order)
		if diff := cmp.Diff(want, all); diff != "" {
			c.Errorf("(-want +got)\n%s", diff)
		}
	})
	c.Run(t, "TD-44 a chart has values for what is to be set", func(c *C) {
		folder := c.folder(website, "--format=helm", "-n=a")
		values, err := kopf.ParseManifests([]byte(c.read(folder, "values.yaml")))
		if err != nil {
			c.Fatal(err)
		}
		for path, want := range map[string]any{"image": "web", "namespaces.0": "a", "logFormat": "json", "monitoring": false, "crds.enabled": true, "resources.limits.memory": "128Mi"} {
			if got := field(values[0], path); got != want {
				c.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		for _, name := range []string{"env", "imagePullSecrets", "tolerations"} {
			if list, ok := values[0][name].([]any); !ok || len(list) > 0 {
				c.Errorf("%s is %v, want an empty list", name, values[0][name])
			}
		}
		for _, name := range []string{"podAnnotations", "nodeSelector", "affinity"} {
			if m, ok := values[0][name].(map[string]any); !ok || len(m) > 0 {
				c.Errorf("%s is %v, want an empty object", name, values[0][name])
			}
		}
		if !sameNumber(values[0]["replicas"], "1") {
			c.Errorf("got %v", values[0])
		}
		var schema map[string]any
		if err := json.Unmarshal([]byte(c.read(folder, "values.schema.json")), &schema); err != nil {
			c.Error(err)
		}
		if limit := field(schema, "properties.replicas.maximum"); !sameNumber(limit, "1") {
			c.Errorf("without an election, there may be %v replicas, want 1", limit)
		}
	})
	c.Run(t, "TD-44 a chart has its version, and that of the image", func(c *C) {
		about, err := kopf.ParseManifests([]byte(c.read(c.folder(website, "--format=helm", "--chart-version=1.2.3", "--image=example.com/web:7"), "Chart.yaml")))
		if err != nil {
			c.Fatal(err)
		}
		if about[0]["version"] != "1.2.3" || about[0]["appVersion"] != "7" {
			c.Errorf("got %v", about[0])
		}
	})
	c.Run(t, "TD-T5 the chart has the rules of the manifests", func(c *C) {
		register := func(r *kopf.Registry) {
			website(r)
			r.Needs("pods/log", "get")
		}
		chart := c.read(c.folder(register, "--format=helm"), "templates", "rbac.yaml")
		m := c.print(register, "manifests", "--name=web", "--only=ClusterRole")
		_, rules, found := strings.Cut(m.stdout, "rules:\n")
		if !found || !strings.Contains(rules, "pods/log") || !strings.Contains(chart, "rules:\n"+rules) {
			c.Errorf("the chart has\n%s\nwant in it\n%s", chart, rules)
		}
	})
	c.Run(t, "TD-T6 definitions are upgraded with a release, and stay when it goes", func(c *C) {
		folder := c.folder(website, "--format=helm", "--definitions", c.definitionFile(describedDefinition("x")))
		if _, err := os.Stat(filepath.Join(folder, "crds")); !errors.Is(err, os.ErrNotExist) {
			c.Errorf("there is a folder crds, which is never upgraded (%v)", err)
		}
		text := c.read(folder, "templates", "definitions.yaml")
		for _, want := range []string{"{{- if $.Values.crds.enabled }}", "helm.sh/resource-policy: keep"} {
			if !strings.Contains(text, want) {
				c.Errorf("the definitions lack %s:\n%s", want, text)
			}
		}
	})
}

func checking(t *testing.T, c *C) {
	c.Run(t, "TD-46 a folder that is up to date", func(c *C) {
		folder := c.folder(website, "--format=kustomize")
		if m := c.print(website, "manifests", "--name=web", "--out", folder, "--format=kustomize", "--check"); m != (made{}) {
			c.Errorf("got %+v", m)
		}
	})
	c.Run(t, "TD-46 another handler makes a difference, and nothing is written", func(c *C) {
		folder := c.folder(website)
		other := func(r *kopf.Registry) {
			website(r)
			r.OnEvent("pods", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "pods"})
		}
		before := c.read(folder, "rbac.yaml")
		m := c.print(other, "manifests", "--name=web", "--out", folder, "--check")
		if m.code != 1 || !strings.Contains(m.stdout, "--- a/rbac.yaml\n+++ b/rbac.yaml\n") || !strings.Contains(m.stdout, "+    resources: [pods]\n") {
			c.Errorf("got %+v", m)
		}
		if c.read(folder, "rbac.yaml") != before {
			c.Error("the file was written")
		}
	})
	c.Run(t, "TD-46 what is missing and what is not made any more, but not files of others", func(c *C) {
		folder := c.folder(website, "--replicas=2")
		if err := errors.Join(os.Remove(filepath.Join(folder, "rbac.yaml")), os.WriteFile(filepath.Join(folder, "own.yaml"), []byte("a: 1\n"), 0o600)); err != nil {
			c.Fatal(err)
		}
		m := c.print(website, "manifests", "--name=web", "--out", folder, "--check")
		if m.code != 1 || !strings.Contains(m.stdout, "+++ b/rbac.yaml\n") || !strings.Contains(m.stdout, "--- a/disruption-budget.yaml\n+++ "+os.DevNull+"\n") || strings.Contains(m.stdout, "own.yaml") {
			c.Errorf("got %+v", m)
		}
		if m := c.print(website, "manifests", "--name=web", "--out", folder); m != (made{stderr: "Removed " + filepath.Join(folder, "disruption-budget.yaml") + "\n"}) {
			c.Errorf("got %+v", m)
		}
		if _, err := os.Stat(filepath.Join(folder, "disruption-budget.yaml")); !errors.Is(err, os.ErrNotExist) {
			c.Errorf("the budget is there (%v)", err)
		}
		if c.read(folder, "own.yaml") != "a: 1\n" {
			c.Error("the file of another origin has changed")
		}
	})
	c.Run(t, "TD-46 some kinds are made, and the files of the others stay", func(c *C) {
		folder := c.folder(website, "--service-monitor")
		before := c.read(folder, "deployment.yaml")
		for _, more := range [][]string{{"--check"}, nil} {
			if m := c.print(website, append([]string{"manifests", "--name=web", "--service-monitor", "--only=Service", "--out", folder}, more...)...); m != (made{}) {
				c.Errorf("%q: got %+v", more, m)
			}
		}
		if c.read(folder, "deployment.yaml") != before {
			c.Error("the Deployment has changed")
		}
	})
	c.Run(t, "TD-46 the folder of another operator, or none", func(c *C) {
		folder := c.folder(website)
		before := c.read(folder, "rbac.yaml")
		for _, more := range [][]string{nil, {"--check"}, {"--format=helm"}} {
			m := c.print(website, append([]string{"manifests", "--name=mail", "--out", folder}, more...)...)
			if want := `--out: the folder ` + folder + ` has files of the operator "web", such as deployment.yaml, and these are of "mail"`; m.code != 1 || m.stdout != "" || !strings.Contains(m.stderr, want) {
				c.Errorf("%q: got %+v, want %s", more, m, want)
			}
		}
		if c.read(folder, "rbac.yaml") != before {
			c.Error("the roles have changed")
		}
		if m := c.print(website, "manifests", "--name=web", "--out", filepath.Join(folder, "rbac.yaml")); m.code != 1 || !strings.Contains(m.stderr, "--out: ") {
			c.Errorf("a file: got %+v", m)
		}
	})
}

// readingText proves that manifests are read as by sigs.k8s.io/yaml, whose results these are. TestYAML of the e2e tests compares both for random text.
func readingText(t *testing.T, c *C) {
	c.Run(t, "DF-83 block scalars without a last line end, and line breaks beyond ASCII, are read as by the library of kubectl", func(c *C) {
		for text, want := range map[string]string{
			"a: |\n  x":                           "x",
			"a: |+\n  x\n\n":                      "x\n\n",
			"a: >\n  x\n  y":                      "x y",
			"a:\n|-\n x":                          "x",
			"a: |\n  x\u0085  y\u2028  z":         "x\ny\u2028z",
			"a: >\n  x\u0085  y\u2029  z\n":       "x y\u2029z\n",
			"a: 'x \u0085 y\u2028 z'":             "x y\u2028z",
			"a: x\u0085 y\u2029 z\nb: 1":          "x y\u2029z",
			"b: 1 # c\u0085a: x":                  "x",
			"a: \"x\\u0085\\u2028\\u2029\u00a0\"": "x\u0085\u2028\u2029\u00a0",
		} {
			objects, err := kopf.ParseManifests([]byte(text))
			if err != nil || len(objects) != 1 || objects[0]["a"] != want {
				c.Errorf("%q: got %q, %v; want a: %q", text, objects, err, want)
			}
		}
		if objects, err := kopf.ParseManifests([]byte("a: \u0080")); err == nil {
			c.Errorf("a control character: got %q, want an error", objects)
		}
	})
}
