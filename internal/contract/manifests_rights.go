package contract

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves which permissions the command manifests grants, in 6-types-and-manifests.md.

var _ = SerialSuite("manifests_rights", func(t *testing.T, c *C) {
	leastRights(t, c)
	declaredRights(t, c)
	unknownKinds(t, c)
})

// rulesOf returns the rules of the roles as lines: the role, groups, resources, names and verbs.
func rulesOf(objects []map[string]any) (lines []string) {
	words := func(v any) string {
		list, _ := v.([]any)
		texts := make([]string, len(list))
		for i, word := range list {
			texts[i] = fmt.Sprint(word)
		}
		return strings.Join(texts, ",")
	}
	for _, o := range objects {
		rules, _ := o["rules"].([]any)
		for _, rule := range rules {
			r := rule.(map[string]any)
			line := titles([]map[string]any{o})[0] + ": " + words(r["verbs"]) + " " + words(r["resources"])
			if groups := words(r["apiGroups"]); groups != "" {
				line += " of " + groups
			}
			if names := words(r["resourceNames"]); names != "" {
				line += " named " + names
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func leastRights(t *testing.T, c *C) {
	const watched = "ClusterRole web-default: list,watch customresourcedefinitions of apiextensions.k8s.io"
	tests := []struct {
		name     string
		register func(*kopf.Registry)
		args     string
		want     []string
	}{
		{"TD-39 a handler of changes", website, "", []string{
			"ClusterRole web-default: create,patch events", watched, "ClusterRole web-default: list,watch,patch websites of example.com", "ClusterRole web-default: patch websites/status of example.com",
		}},
		{"TD-39 one namespace has its own role", website, "-n a --install-namespace ops", []string{
			"ClusterRole web-ops: list,watch namespaces", "ClusterRole web-ops: list,watch customresourcedefinitions of apiextensions.k8s.io",
			"Role a/web-served: create,patch events", "Role a/web-served: list,watch,patch websites of example.com", "Role a/web-served: patch websites/status of example.com",
		}},
		{"TD-39 namespaces by a pattern", website, "-n team-*", []string{
			"ClusterRole web-default: create,patch events", "ClusterRole web-default: list,watch namespaces", watched, "ClusterRole web-default: list,watch,patch websites of example.com", "ClusterRole web-default: patch websites/status of example.com",
		}},
		{"TD-39 nothing is written to what is only looked at", func(r *kopf.Registry) {
			r.OnEvent("pods", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "pods"})
			kopf.OnIndexIn(r, "nodes", func(context.Context, *kopf.Indexing) (map[string]string, error) { return nil, nil }, &kopf.IndexOptions{ID: "nodes"})
		}, "", []string{"ClusterRole web-default: create,patch events", "ClusterRole web-default: list,watch nodes,pods", watched}},
		{"TD-39 kinds without a status as a subresource", func(r *kopf.Registry) {
			r.OnCreate("configmaps", noChange, &kopf.ChangeOptions{ID: "create"})
		}, "", []string{"ClusterRole web-default: list,watch,patch configmaps", "ClusterRole web-default: create,patch events", watched}},
		{"TD-39 children and what is watched", func(r *kopf.Registry) {
			r.OnReconcile("websites.example.com", func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{
				ID: "reconcile", Owns: []kopf.Selector{"deploy", "services"}, Watches: []kopf.Watch{{Of: "secrets"}},
			})
		}, "", []string{
			"ClusterRole web-default: create,patch events", "ClusterRole web-default: list,watch secrets", "ClusterRole web-default: get,list,watch,create,patch,delete services", watched,
			"ClusterRole web-default: get,list,watch,create,patch,delete deployments of apps", "ClusterRole web-default: list,watch,patch websites of example.com", "ClusterRole web-default: patch websites/status of example.com",
		}},
		{"TD-39 a Lease and a peering object by their names", func(r *kopf.Registry) {
			r.OnCreate("configmaps", noChange, &kopf.ChangeOptions{ID: "create"})
		}, "-n a --install-namespace ops --leader-elect lease --peering main", []string{
			"Role ops/web: create,patch events", "Role ops/web: create leases of coordination.k8s.io", "Role ops/web: get,update leases of coordination.k8s.io named lease",
			"ClusterRole web-ops: list,watch namespaces", "ClusterRole web-ops: list,watch customresourcedefinitions of apiextensions.k8s.io",
			"Role a/web-served: list,watch,patch configmaps", "Role a/web-served: create,patch events", "Role a/web-served: list,watch kopfpeerings of kopf.dev", "Role a/web-served: patch kopfpeerings of kopf.dev named main",
		}},
		{"TD-39 configurations by their names, and an authority of replicas", hooked, "--replicas 2", []string{
			"Role default/web: create,patch events", "Role default/web: create secrets", "Role default/web: get,list,watch,patch secrets named web-webhooks",
			"Role default/web: create leases of coordination.k8s.io", "Role default/web: get,update leases of coordination.k8s.io named web", "ClusterRole web-default: create,patch events",
			"ClusterRole web-default: list,watch,create,patch mutatingwebhookconfigurations,validatingwebhookconfigurations of admissionregistration.k8s.io named web.kopf.dev", watched,
			"ClusterRole web-default: list,watch,patch websites of example.com", "ClusterRole web-default: patch websites/status of example.com",
		}},
		{"TD-39 kinds without namespaces, whose events are in another one", func(r *kopf.Registry) {
			r.OnCreate("nodes", noChange, &kopf.ChangeOptions{ID: "create"})
		}, "-n a", []string{
			"ClusterRole web-a: create,patch events", "ClusterRole web-a: list,watch namespaces", "ClusterRole web-a: list,watch,patch nodes", "ClusterRole web-a: patch nodes/status", "ClusterRole web-a: list,watch customresourcedefinitions of apiextensions.k8s.io",
		}},
		{"TD-39 definitions by their names", func(r *kopf.Registry) {
			compared := kopf.DefineIn[site](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Website"})
			kopf.DefineIn[site](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Page", Install: true})
			r.OnCreate(compared.Selector(), noChange, &kopf.ChangeOptions{ID: "create"})
		}, "", []string{
			"ClusterRole web-default: create,patch events", watched, "ClusterRole web-default: get,create,patch customresourcedefinitions of apiextensions.k8s.io named pages.example.com",
			"ClusterRole web-default: get customresourcedefinitions of apiextensions.k8s.io named websites.example.com",
			"ClusterRole web-default: list,watch,patch websites of example.com", "ClusterRole web-default: patch websites/status of example.com",
		}},
		{"TD-42 all of a group", func(r *kopf.Registry) {
			r.OnEvent("*.apps", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "apps"})
		}, "", []string{"ClusterRole web-default: create,patch events", watched, "ClusterRole web-default: list,watch * of apps"}},
		{"TD-42 all of a group whose kinds have namespaces", func(r *kopf.Registry) {
			r.OnEvent("*.apps", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "apps"})
		}, "-n a", []string{
			"ClusterRole web-a: list,watch namespaces", "ClusterRole web-a: list,watch customresourcedefinitions of apiextensions.k8s.io", "Role a/web-served: create,patch events", "Role a/web-served: list,watch * of apps",
		}},
		{"TD-42 all of a group some of whose kinds have no namespaces", func(r *kopf.Registry) {
			r.OnEvent("v1/*", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "core"})
		}, "-n a", []string{"ClusterRole web-a: list,watch *", "ClusterRole web-a: create,patch events", "ClusterRole web-a: list,watch customresourcedefinitions of apiextensions.k8s.io"}},
		{"TD-42 everything", func(r *kopf.Registry) {
			r.OnEvent(kopf.Everything, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "all"})
		}, "", []string{"ClusterRole web-default: create,patch events", "ClusterRole web-default: list,watch * of *"}},
	}
	for _, tt := range tests {
		c.Run(t, tt.name, func(c *C) {
			if diff := cmp.Diff(tt.want, rulesOf(c.manifests(tt.register, strings.Fields(tt.args)...))); diff != "" {
				c.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	c.Run(t, "TD-42 a warning names the handler", func(c *C) {
		for selector, want := range map[kopf.Selector]string{kopf.Everything: "all groups", "*.apps": "the group apps", "v1/*": "the core group", kopf.Category("all"): "all groups"} {
			m := c.print(func(r *kopf.Registry) {
				r.OnEvent(selector, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "look"})
			}, "manifests", "--name=web")
			if !strings.Contains(m.stderr, "Warning: OnEvent look is for "+string(selector)+", which depends on the cluster: its rule is for all resources of "+want) {
				c.Errorf("%s: got %s, want a warning of %s", selector, m.stderr, want)
			}
		}
		far := c.print(func(r *kopf.Registry) {
			r.OnEvent(kopf.Everything, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "look"})
		}, "manifests", "--name=web", "-n=a")
		if want := "all resources of all groups in the whole cluster, as there may be some without namespaces."; !strings.Contains(far.stderr, want) {
			c.Errorf("got %s, want %s", far.stderr, want)
		}
		m := c.print(func(r *kopf.Registry) {
			r.OnEvent("", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "look", Where: func(kopf.Resource) bool { panic("it was asked") }})
		}, "manifests", "--name=web")
		if m.code != 0 || !strings.Contains(m.stderr, "Warning: OnEvent look is for ") {
			c.Errorf("got %+v", m)
		}
	})
	c.Run(t, "TD-48 each right is told with the handlers that need it", func(c *C) {
		m := c.print(func(r *kopf.Registry) {
			website(r)
			r.OnReconcile("websites.example.com", func(context.Context, *kopf.Reconcile) error { return nil }, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"deployments"}})
			r.Needs("pods/log", "get")
		}, "explain-rights", "--name=web", "-n", "a", "--leader-elect=lease", "--install-namespace=ops")
		for _, want := range []string{
			"In the cluster:\n", "In the namespace a:\n", "In the namespace of the operator, ops:\n", "  websites.example.com\n    list, watch, patch                       OnCreate create\n    list, watch, patch                       OnReconcile reconcile\n",
			"  deployments.apps\n    get, list, watch, create, patch, delete  OnReconcile reconcile\n", "  pods/log\n    get                                      Needs\n", "  leases.coordination.k8s.io lease\n    get, update                              replicas elect a leader\n",
		} {
			if !strings.Contains(m.stdout, want) {
				c.Errorf("want\n%sin\n%s", want, m.stdout)
			}
		}
		if m.code != 0 || m.stderr != "" {
			c.Errorf("got the exit code %d and %s", m.code, m.stderr)
		}
	})
}

func declaredRights(t *testing.T, c *C) {
	c.Run(t, "TD-40 what handlers need is declared", func(c *C) {
		rules := rulesOf(c.manifests(func(r *kopf.Registry) {
			r.Needs("pods", "get", "delete")
			r.Needs("pods/eviction", "create")
			r.Needs("deployments.apps/scale", "patch")
			r.Needs("things.example.com", "get")
			r.Needs("nodes", "get")
			r.NeedsNamed("configmaps", "settings", "get", "patch")
		}, "-n", "a"))
		want := []string{
			"ClusterRole web-a: list,watch namespaces", "ClusterRole web-a: get nodes", "ClusterRole web-a: list,watch customresourcedefinitions of apiextensions.k8s.io",
			"Role a/web-served: get,patch configmaps named settings", "Role a/web-served: get,delete pods", "Role a/web-served: create pods/eviction", "Role a/web-served: patch deployments/scale of apps", "Role a/web-served: get things of example.com",
		}
		if diff := cmp.Diff(want, rules); diff != "" {
			c.Errorf("(-want +got)\n%s", diff)
		}
	})
	c.Run(t, "TD-40 a bad declaration panics at its line", func(c *C) {
		for _, tt := range []struct {
			resource, verbs, want string
		}{
			{"pods", "", `no verbs for "pods": want at least one`}, {"", "get", `invalid resource ""`}, {"v1/pods/log", "get", `invalid resource "v1/pods/log"`}, {"deployments.v1.apps", "get", `invalid resource "deployments.v1.apps"`},
			{"kind:Pod", "get", `invalid resource "kind:Pod"`}, {"pods", "GET", `invalid verb "GET" for "pods": want one of get, list, watch, create, update, patch, delete, deletecollection, approve, `}, {"pods/", "get", `invalid resource "pods/"`},
			{"pods", "read", `invalid verb "read" for "pods": want one of get, `}, {"pods", "get,list", `invalid verb "get,list"`},
		} {
			func() {
				defer func() {
					text, _ := recover().(string)
					if !strings.HasPrefix(text, "kopf: Needs at ") || !strings.Contains(text, "manifests_rights.go:") || !strings.Contains(text, tt.want) {
						c.Errorf("%q: got %q, want %s", tt.resource, text, tt.want)
					}
				}()
				(&kopf.Registry{}).Needs(tt.resource, strings.Fields(tt.verbs)...)
			}()
		}
		for _, tt := range []struct{ name, verb, want string }{{"", "get", "no name: want that of the objects, or Needs"}, {"a", "create", `invalid verb "create": RBAC cannot limit it to a name`}, {"a", "*", `invalid verb "*"`}} {
			func() {
				defer func() {
					if text, _ := recover().(string); !strings.HasPrefix(text, "kopf: NeedsNamed at ") || !strings.Contains(text, tt.want) {
						c.Errorf("%q, %q: got %q, want %s", tt.name, tt.verb, text, tt.want)
					}
				}()
				(&kopf.Registry{}).NeedsNamed("pods", tt.name, tt.verb)
			}()
		}
	})
	c.Run(t, "TD-40 resources and verbs that are for RBAC only", func(c *C) {
		rules := rulesOf(c.manifests(func(r *kopf.Registry) {
			r.Needs("users", "impersonate", "impersonate:user-info")
			r.Needs("userextras.authentication.k8s.io/scopes", "impersonate")
			r.NeedsNamed("clusterroles.rbac.authorization.k8s.io", "view", "bind")
			r.Needs("signers.certificates.k8s.io", "approve", "sign")
			r.Needs("websites.example.com/finalizers", "update")
			r.Needs("pods/exec", "create")
			r.Needs("services/*", "get")
		}, "--definitions", c.definitionFile(describedDefinition("x"))))
		for _, want := range []string{
			"impersonate,impersonate:user-info users", "impersonate userextras/scopes of authentication.k8s.io", "bind clusterroles of rbac.authorization.k8s.io named view", "approve,sign signers of certificates.k8s.io",
			"update websites/finalizers of example.com", "create pods/exec", "get services/*",
		} {
			if !slices.Contains(rules, "ClusterRole web-default: "+want) {
				c.Errorf("want %q in %q", want, rules)
			}
		}
	})
	c.Run(t, "TD-40 a subresource that there is not", func(c *C) {
		for resource, want := range map[string]string{
			"pods/nope":                    `invalid subresource "nope" of "pods": want one of attach, binding, `,
			"configmaps/status":            `invalid subresource "status" of "configmaps": want one of finalizers`,
			"websites.example.com/scale":   `invalid subresource "scale" of "websites.example.com": want one of finalizers, status`,
			"unknown.example.org/anything": "",
		} {
			m := c.print(func(r *kopf.Registry) { r.Needs(resource, "get") }, "manifests", "--name=web", "--definitions", c.definitionFile(describedDefinition("x")))
			if want == "" && m.code != 0 || want != "" && (m.code != 1 || m.stdout != "" || !strings.Contains(m.stderr, "Needs (") || !strings.Contains(m.stderr, want)) {
				c.Errorf("%s: got %d and %s, want %s", resource, m.code, m.stderr, want)
			}
		}
	})
	c.Run(t, "TD-40 a refused request logs the line to add", func(c *C) {
		c.OnlyInBubble("requests are made to fail")
		registry := &kopf.Registry{}
		registry.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			_ = ch.Client.Delete(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.Namespace, Name: "x"}, nil)
			for _, err := range ch.Client.List(ctx, kopf.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment"}, &kopf.ListOptions{Namespace: c.Namespace}) {
				_ = err
			}
			return nil
		}, &kopf.ChangeOptions{ID: "create"})
		op := c.Operator(registry)
		op.Wire.Fault(forbid)
		c.Create("a", nil)
		for _, line := range []string{`add kopf.Needs("configmaps", "delete") next to the handler`, `add kopf.Needs("deployments.apps", "list") next to the handler`} {
			c.WaitFor("the line", func() bool {
				return slices.ContainsFunc(op.Logs.All(), func(l Line) bool {
					return l.Message == "The roles of the operator lack a permission that a handler needs" && strings.Contains(l.Attrs["hint"], line)
				})
			})
		}
	})
}

// forbid refuses the requests of the handler of TD-40, as RBAC does.
func forbid(r *Request) (*http.Response, error) {
	const user = `User "system:serviceaccount:default:web" cannot `
	switch {
	case r.Method == http.MethodDelete && strings.Contains(r.Path, "/configmaps/"):
		return Answer(http.StatusForbidden, "Forbidden", `configmaps "x" is forbidden: `+user+`delete resource "configmaps" in API group "" in the namespace "default"`), nil
	case strings.Contains(r.Path, "/deployments"):
		return Answer(http.StatusForbidden, "Forbidden", `deployments.apps is forbidden: `+user+`list resource "deployments" in API group "apps" in the namespace "default"`), nil
	}
	return nil, nil
}

func unknownKinds(t *testing.T, c *C) {
	c.Run(t, "TD-42 a kind that is not known needs its group", func(c *C) {
		for selector, want := range map[kopf.Selector]string{
			"websites":                 `OnCreate create is for "websites", a kind that is not known without a cluster. Write its plural and its group, as in "websites.example.com", or name its definition by --definitions`,
			"podz":                     ` Did you mean pods? Write its plural`,
			kopf.Kind("Website"):       `as in "website.example.com"`,
			"Website.example.com":      `as in "website.example.com"`,
			"deployment.extensions":    "", // of an unknown group
			"nothings.apps":            `OnCreate create is for "nothings.apps", a kind that is not known without a cluster`,
			"v1/nothings":              `OnCreate create is for "v1/nothings", a kind that is not known`,
			"events":                   "",
			"ing":                      "",
			kopf.Kind("Pod"):           "",
			"websites.v1.example.com":  "",
			"example.com/v1/websites":  "",
			"apps/v1/deployments":      "",
			"deployments.v1beta1.apps": `is not known without a cluster`,
		} {
			m := c.print(func(r *kopf.Registry) { r.OnCreate(selector, noChange, &kopf.ChangeOptions{ID: "create"}) }, "manifests", "--name=web")
			if want == "" && (m.code != 0 || m.stdout == "") || want != "" && (m.code != 1 || m.stdout != "" || !strings.Contains(m.stderr, want)) {
				c.Errorf("%s: got the exit code %d and %s, want %s", selector, m.code, m.stderr, want)
			}
		}
	})
	c.Run(t, "TD-42 a definition tells the group, the scope, and the subresources", func(c *C) {
		file := c.definitionFile(strings.Replace(describedDefinition("x"), `"subresources":{"status":{}},`, "", 1))
		for _, selector := range []kopf.Selector{"websites", "web", "website", kopf.Kind("Website"), "websites.example.com"} {
			rules := rulesOf(c.manifests(func(r *kopf.Registry) { r.OnCreate(selector, noChange, &kopf.ChangeOptions{ID: "create"}) }, "-n", "a", "--definitions", file))
			want := []string{
				"ClusterRole web-a: list,watch namespaces", "ClusterRole web-a: list,watch customresourcedefinitions of apiextensions.k8s.io", "Role a/web-served: create,patch events", "Role a/web-served: list,watch,patch websites of example.com",
			}
			if diff := cmp.Diff(want, rules); diff != "" {
				c.Errorf("%s: (-want +got)\n%s", selector, diff)
			}
		}
	})
	c.Run(t, "TD-42 the cluster says which kinds there are, besides those that are defined", func(c *C) {
		before := kopf.DefaultRegistry() // the kinds that a server uses
		kopf.SetDefaultRegistry(&kopf.Registry{})
		server := kopf.NewAPIServer(nil)
		kopf.SetDefaultRegistry(before)
		if err := server.Apply([]byte(describedDefinition("x"))); err != nil {
			c.Fatal(err)
		}
		listener, err := server.Listen("127.0.0.1:0")
		if err != nil {
			c.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		file := filepath.Join(filepath.Dir(c.definitionFile("")), "config")
		if err := listener.WriteKubeconfig(file); err != nil {
			c.Fatal(err)
		}
		register := func(r *kopf.Registry) {
			k := kopf.DefineIn[site](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site", Cluster: true}) // the cluster does not have it yet
			r.OnCreate(k.Selector(), noChange, &kopf.ChangeOptions{ID: "site"})
			r.OnEvent("web", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "website"}) // the cluster has it
		}
		if m := c.print(register, "manifests", "--name=web", "-n=a"); m.code != 1 || !strings.Contains(m.stderr, `OnEvent website is for "web", a kind that is not known without a cluster`) {
			c.Errorf("without a cluster: got %+v", m)
		}
		m := c.print(func(r *kopf.Registry) { *r = kopf.Registry{}; register(r) }, "manifests", "--name=web", "-n=a", "--discover", "--kubeconfig", file)
		objects, err := kopf.ParseManifests([]byte(m.stdout))
		if err != nil || m.code != 0 {
			c.Fatalf("got %+v, %v", m, err)
		}
		want := []string{
			"ClusterRole web-a: create,patch events", "ClusterRole web-a: list,watch namespaces", "ClusterRole web-a: list,watch customresourcedefinitions of apiextensions.k8s.io",
			"ClusterRole web-a: get customresourcedefinitions of apiextensions.k8s.io named sites.example.com", "ClusterRole web-a: list,watch,patch sites of example.com", "ClusterRole web-a: patch sites/status of example.com",
			"Role a/web-served: list,watch websites of example.com",
		}
		if diff := cmp.Diff(want, rulesOf(objects)); diff != "" {
			c.Errorf("(-want +got)\n%s", diff)
		}
	})
	c.Run(t, "TD-T4 the rules follow the handlers, whatever comments say", func(c *C) {
		//+kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
		for _, line := range rulesOf(c.manifests(website)) {
			if strings.Contains(line, "deployments") {
				c.Errorf("a comment gives a right: %s", line)
			}
		}
		with := rulesOf(c.manifests(func(r *kopf.Registry) {
			website(r)
			r.OnDelete("services", noChange, &kopf.ChangeOptions{ID: "remove"})
		}))
		if !slices.Contains(with, "ClusterRole web-default: list,watch,patch services") {
			c.Errorf("a handler more gives no right more: %q", with)
		}
	})
}
