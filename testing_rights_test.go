package kopf

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/installation"
	"github.com/kopf-go/kopf/internal/rights"
)

// complaints is a test that records its errors.
type complaints struct {
	*testing.T
	errors []string
}

func (c *complaints) Errorf(format string, args ...any) {
	c.errors = append(c.errors, fmt.Sprintf(format, args...))
}

// announcing is an [AdmissionServer] that announces its URL, and receives no reviews.
type announcing string

func (a announcing) Serve(ctx context.Context, _ ReviewFunc, announce func(WebhookClientConfig)) error {
	announce(WebhookClientConfig{URL: string(a)})
	<-ctx.Done()
	return nil
}

// TestCheckRights runs operators, and compares their requests with the permissions in their manifests.
func TestCheckRights(t *testing.T) {
	args := os.Args
	os.Args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return strings.HasPrefix(arg, "-test.run=") || strings.HasPrefix(arg, "-test.skip=")
	})
	defer func() { os.Args = args }()
	recordings.all = nil // of other tests
	defer func() { recordings.all = nil }()

	definitions, err := os.ReadFile("examples/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}

	// play makes operators handle an object, one after another, and returns the complaints.
	play := func(t *testing.T, all ...*Operator) []string {
		t.Helper()
		for _, op := range all {
			synctest.Test(t, func(t *testing.T) {
				server := NewAPIServer(nil)
				if err := server.Apply(definitions); err != nil {
					t.Fatal(err)
				}
				if err := server.Apply([]byte(`{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "a", "namespace": "default"}}`)); err != nil {
					t.Fatal(err)
				}
				op.Connection = server.ConnectionInfo()
				NewRunner(t, op, nil)
				time.Sleep(20 * time.Second) // a LeaseDuration passes before a replica takes the first Lease
				synctest.Wait()
			})
		}
		c := &complaints{T: t}
		CheckRights(c)
		return c.errors
	}
	getPod := func(ctx context.Context, c *Change) error {
		if err := c.Client.Get(ctx, ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "x"}, &Body{}, nil); StatusCode(err) != 404 {
			return err
		}
		return nil
	}
	examples := func(fn ChangeFunc) *Registry {
		r := &Registry{}
		r.OnCreate("kopfexamples", fn, &ChangeOptions{ID: "create"})
		return r
	}
	want := func(t *testing.T, got []string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	status := func(_ context.Context, c *Change) error { c.Patch.Set("status.x", 1); return nil }

	t.Run("TD-41 all that is needed is allowed, and needed", func(t *testing.T) {
		want(t, play(t, &Operator{Registry: examples(status), Namespaces: []string{"default"}}))
	})
	t.Run("TD-41 a request that is not allowed", func(t *testing.T) {
		r := examples(status)
		r.OnCreate("kopfexamples", getPod, &ChangeOptions{ID: "get"})
		want(t, play(t, &Operator{Registry: r}), `the operator has no permission (RBAC) to get pods x in the namespace default: add kopf.Needs("pods", "get")`)
	})
	t.Run("TD-41 a request that is not allowed, of several operators", func(t *testing.T) {
		r := examples(status)
		r.OnCreate("kopfexamples", getPod, &ChangeOptions{ID: "get"})
		want(t, play(t, &Operator{Registry: r}, &Operator{Registry: r, Namespaces: []string{"default"}}),
			`the operator has no permission (RBAC) to get pods x in the namespace default: add kopf.Needs("pods", "get")`)
	})
	t.Run("TD-41 it is declared", func(t *testing.T) {
		r := examples(status)
		r.OnCreate("kopfexamples", getPod, &ChangeOptions{ID: "get"})
		r.Needs("pods", "get")
		want(t, play(t, &Operator{Registry: r}))
	})
	t.Run("TD-41 it is declared for a name", func(t *testing.T) {
		r := examples(status)
		r.OnCreate("kopfexamples", getPod, &ChangeOptions{ID: "get"})
		r.NeedsNamed("pods", "x", "get")
		want(t, play(t, &Operator{Registry: r}))
	})
	t.Run("TD-41 it is declared for another name", func(t *testing.T) {
		r := examples(status)
		r.OnCreate("kopfexamples", getPod, &ChangeOptions{ID: "get"})
		r.NeedsNamed("pods", "y", "get")
		want(t, play(t, &Operator{Registry: r}), `the operator has no permission (RBAC) to get pods x in the namespace default: add kopf.Needs("pods", "get")`, "no test has needed the permission to get pods y, for Needs")
	})
	t.Run("TD-41 a definition is compared by its name", func(t *testing.T) {
		type thing struct {
			Meta `json:",inline"`
			Spec struct{} `json:"spec"`
		}
		r := examples(status)
		DefineIn[thing](r, &Definition{Group: "example.com", Version: "v1", Kind: "Thing"})
		want(t, play(t, &Operator{Registry: r}))
	})
	t.Run("TD-41 a definition is installed by its name", func(t *testing.T) {
		type thing struct {
			Meta `json:",inline"`
			Spec struct{} `json:"spec"`
		}
		r := examples(status)
		DefineIn[thing](r, &Definition{Group: "example.com", Version: "v1", Kind: "Thing", Install: true})
		want(t, play(t, &Operator{Registry: r}))
	})
	t.Run("DF-62 webhook configurations are created by their name", func(t *testing.T) {
		r := examples(status)
		r.OnValidate("kopfexamples", func(context.Context, *Admission) error { return nil }, &AdmissionOptions{ID: "v"})
		settings := NewSettings()
		settings.Admission.Managed = "auto.example.com"
		settings.Admission.Server = announcing("https://127.0.0.1:1")
		want(t, play(t, &Operator{Registry: r, Settings: settings}))
	})
	t.Run("TD-41 kopf lists an owner that it may not get", func(t *testing.T) {
		r := &Registry{}
		calls := 0
		r.OnReconcile("kopfexamples", func(ctx context.Context, c *Reconcile) error {
			c.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, nil)
			if calls++; calls == 1 {
				time.AfterFunc(time.Second, func() {
					_ = c.Client.Delete(context.WithoutCancel(ctx), ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}, nil)
				})
			}
			return nil
		}, &ReconcileOptions{ID: "rec", Owns: []Selector{"configmaps"}})
		got := play(t, &Operator{Registry: r})
		if got = slices.DeleteFunc(got, func(text string) bool { return strings.HasPrefix(text, "no test has needed") }); len(got) > 0 || calls < 2 {
			t.Errorf("got %q after %d calls", got, calls)
		}
	})
	t.Run("TD-41 the rights are for the namespaces that are served", func(t *testing.T) {
		r := examples(status)
		r.OnCreate("kopfexamples", getPod, &ChangeOptions{ID: "get"})
		r.OnCreate("kopfexamples", func(ctx context.Context, c *Change) error {
			return IgnoreNotFound(c.Client.Get(ctx, ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "other", Name: "x"}, &Body{}, nil))
		}, &ChangeOptions{ID: "other"})
		r.Needs("pods", "get")
		want(t, play(t, &Operator{Registry: r, Namespaces: []string{"default"}}),
			"the operator has no permission (RBAC) to get pods x in the namespace other: its permissions are for the namespaces that it serves, which are default, so bind a role of your own in the other one")
		r.Needs("nodes", "get")
		want(t, play(t, &Operator{Registry: r, Namespaces: []string{"def*"}}), "no test has needed the permission to get nodes, for Needs")
	})
	t.Run("TD-41 what was declared and is not needed", func(t *testing.T) {
		r := examples(status)
		r.OnCreate("kopfexamples", getPod, &ChangeOptions{ID: "get"})
		r.Needs("pods", "get", "delete")
		want(t, play(t, &Operator{Registry: r}), "no test has needed the permission to delete pods, for Needs")
	})
	t.Run("TD-41 a right of a handler that no test needs", func(t *testing.T) {
		want(t, play(t, &Operator{Registry: examples(func(context.Context, *Change) error { return nil })}), "no test has needed the permission to patch kopfexamples.kopf.dev/status, for OnCreate create")
	})
	t.Run("TD-41 one of several operators needs it", func(t *testing.T) {
		other := &Operator{Registry: examples(func(context.Context, *Change) error { return nil })}
		want(t, play(t, other, &Operator{Registry: examples(status)}))
	})
	t.Run("TD-41 settings say what is needed", func(t *testing.T) {
		settings := NewSettings()
		settings.LeaderElection.Name, settings.LeaderElection.Namespace = "lease", "default"
		want(t, play(t, &Operator{Registry: examples(status), Settings: settings, Namespaces: []string{"default"}}))
	})
	t.Run("TD-41 tests may be left out", func(t *testing.T) {
		for _, arg := range []string{"-test.run=x", "-test.skip=x"} {
			os.Args = append(os.Args, arg)
			r := examples(getPod)
			r.Needs("nodes", "get")
			want(t, play(t, &Operator{Registry: r}), `the operator has no permission (RBAC) to get pods x in the namespace default: add kopf.Needs("pods", "get")`)
			os.Args = os.Args[:len(os.Args)-1]
		}
	})
	t.Run("TD-41 nothing has run", func(t *testing.T) {
		want(t, play(t), "no requests were recorded: run operators by NewRunner before, with a Connection such as that of APIServer.ConnectionInfo")
	})
}

// TestRightsOfGroups checks that an operator of one namespace has the permissions for its requests. That includes handlers for kinds that depend on the
// cluster, even cluster-scoped ones.
func TestRightsOfGroups(t *testing.T) {
	found, err := builtinResources(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, selector := range []Selector{Everything, "v1/*", Category("all"), "*.rbac.authorization.k8s.io", "*.apps"} {
		t.Run("TD-42 "+string(selector), func(t *testing.T) {
			op := &Operator{Registry: &Registry{}, Namespaces: []string{"default"}, Settings: NewSettings()}
			op.Registry.OnEvent(selector, func(context.Context, *WatchEvent) error { return nil }, &EventOptions{ID: "all"})
			op.Settings.Peering.Standalone = true
			recordings.all = nil // of other tests
			defer func() { recordings.all = nil }()
			synctest.Test(t, func(t *testing.T) {
				op.Connection = NewAPIServer(nil).ConnectionInfo()
				NewRunner(t, op, nil)
				synctest.Wait()
			})
			requests := recordings.all[0].requests.Requests()
			set := &rights.Set{Rights: op.Registry.rights(op.Settings, found, true).Needed().Rights, Home: "default", Namespaces: op.Namespaces}
			if refused := set.Refused(requests); len(refused) > 0 || len(requests) == 0 {
				t.Errorf("%d of %d requests are not allowed: %q", len(refused), len(requests), refused)
			}
			everywhere := rights.Request{Verb: "list", Group: "apps", Resource: "deployments"}
			if selector == "*.apps" && set.Allows(everywhere) {
				t.Error("a group all of whose kinds have namespaces is allowed in all of them")
			}
		})
	}
}

// TestBuiltinResources compares the kinds of the commands without a cluster with the discovery of an API server.
func TestBuiltinResources(t *testing.T) {
	definition := map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "sites.example.com"},
		"spec": map[string]any{"group": "example.com", "scope": "Cluster", "names": map[string]any{"plural": "sites", "kind": "Site", "shortNames": []any{"st"}, "categories": []any{"all"}}}}
	var versions []any
	for _, name := range []string{"v1beta1", "v1", "v2alpha1", "v0"} {
		version := map[string]any{"name": name, "served": name != "v0", "storage": name == "v1", "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
		if name == "v1" {
			version["subresources"] = map[string]any{"status": map[string]any{}, "scale": map[string]any{"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}}
		}
		versions = append(versions, version)
	}
	definition["spec"].(map[string]any)["versions"] = versions
	got, err := builtinResources([]map[string]any{definition})
	if err != nil {
		t.Fatal(err)
	}
	server := NewAPIServer(nil)
	if err := server.Apply([]byte(installation.YAML(definition))); err != nil {
		t.Fatal(err)
	}
	client, err := NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := client.discover(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, all := range [][]discovery.Resource{got, want} {
		slices.SortFunc(all, func(a, b discovery.Resource) int { return strings.Compare(a.Name(), b.Name()) })
		for i := range all {
			slices.Sort(all[i].Subresources)
			slices.Sort(all[i].Verbs)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-server +got)\n%s", diff)
	}
}
