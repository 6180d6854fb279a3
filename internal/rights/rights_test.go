package rights

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/proof"
)

// right parses "scope group/resource name verbs reason".
func right(t *testing.T, text string) Right {
	t.Helper()
	f := strings.SplitN(text, " ", 5)
	if len(f) != 5 {
		t.Fatalf("%q has %d fields", text, len(f))
	}
	group, resource, _ := strings.Cut(f[1], "/")
	r := Right{Scope: map[string]Scope{"cluster": Cluster, "served": Served, "home": Home}[f[0]], Group: group, Resource: resource, Verbs: strings.Split(f[3], ","), Reason: f[4]}
	if f[2] != "-" {
		r.Name = f[2]
	}
	return r
}

func rightsOf(t *testing.T, texts ...string) (all []Right) {
	t.Helper()
	for _, text := range texts {
		all = append(all, right(t, text))
	}
	return all
}

func TestMerge(t *testing.T) {
	rule := func(groups, resources, names, verbs, reasons string) Rule {
		split := func(text string) []string {
			if text == "-" {
				return nil
			}
			return strings.Split(text, ",")
		}
		return Rule{Groups: split(groups), Resources: split(resources), Names: split(names), Verbs: split(verbs), Reasons: split(reasons)}
	}
	tests := []struct {
		name   string
		rights []string
		want   []Rule
	}{
		{"TD-39 one resource has one rule, with each verb once and in the usual order", []string{"served /pods - watch,list a", "served /pods - delete,list,get b"},
			[]Rule{rule("", "pods", "-", "get,list,watch,delete", "a,b")}},
		{"TD-39 resources with the same verbs share a rule", []string{"served apps/deployments - list a", "served apps/statefulsets - list b", "served apps/daemonsets - get c"},
			[]Rule{rule("apps", "daemonsets", "-", "get", "c"), rule("apps", "deployments,statefulsets", "-", "list", "a,b")}},
		{"TD-39 names share a rule, and do not become all names", []string{"served /secrets x get a", "served /secrets y get a", "served /secrets - create a"},
			[]Rule{rule("", "secrets", "-", "create", "a"), rule("", "secrets", "x,y", "get", "a")}},
		{"TD-39 what another rule gives is not given twice", []string{"served /secrets x get,patch a", "served /secrets - get b", "served */* - list c", "served /pods - list d"},
			[]Rule{rule("", "secrets", "-", "get", "b"), rule("", "secrets", "x", "patch", "a"), rule("*", "*", "-", "list", "c")}},
		{"TD-39 groups share a rule", []string{"served a.b/things - list a", "served c.d/things - list a"}, []Rule{rule("a.b,c.d", "things", "-", "list", "a")}},
		{"another scope is another role", []string{"cluster /nodes - list a"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := rightsOf(t, tt.rights...)
			for range 5 {
				if diff := cmp.Diff(tt.want, Merge(all, Served, Home)); diff != "" {
					t.Fatalf("(-want +got)\n%s", diff)
				}
				rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			}
		})
	}
}

// TestMergeGivesTheSame checks that the merged rules allow the same requests as the permissions.
func TestMergeGivesTheSame(t *testing.T) {
	groups, resources, names, all := []string{"", "apps", All}, []string{"pods", "pods/status", "x", All}, []string{"", "a", "b"}, []string{"get", "list", "watch", "patch"}
	pick := func(r *rand.Rand, of []string) string { return of[r.IntN(len(of))] }
	for seed := range uint64(proof.Rounds(1000, 30_000)) {
		r := rand.New(rand.NewPCG(seed, 0))
		var given []Right
		for range 1 + r.IntN(5) {
			given = append(given, Right{Scope: Cluster, Group: pick(r, groups), Resource: pick(r, resources), Name: pick(r, names), Verbs: []string{pick(r, all), pick(r, all)}, Reason: pick(r, names)})
		}
		merged := Set{}
		for _, rule := range Merge(given, Cluster) {
			for _, group := range rule.Groups {
				for _, resource := range rule.Resources {
					names := rule.Names
					if names == nil {
						names = []string{""}
					}
					for _, name := range names {
						merged.Rights = append(merged.Rights, Right{Group: group, Resource: resource, Name: name, Verbs: rule.Verbs})
					}
				}
			}
		}
		before := Set{Rights: given}
		for _, group := range []string{"", "apps", "other"} {
			for _, resource := range []string{"pods", "pods/status", "x", "y"} {
				for _, name := range []string{"", "a", "b", "c"} {
					for _, verb := range all {
						q := Request{Verb: verb, Group: group, Resource: resource, Name: name}
						if before.Allows(q) != merged.Allows(q) {
							t.Fatalf("seed %d: %+v allows %v: %t, its rules %+v do not agree", seed, given, q, before.Allows(q), Merge(given, Cluster))
						}
					}
				}
			}
		}
	}
}

func TestRequestOf(t *testing.T) {
	tests := []struct{ method, address, want string }{
		{"GET", "/api/v1/pods", "list pods"},
		{"GET", "/api/v1/namespaces/a/pods?watch=true", "watch pods in the namespace a"},
		{"GET", "/api/v1/namespaces/a/pods?watch=false", "list pods in the namespace a"},
		{"GET", "/api/v1/namespaces/a/pods/b", "get pods b in the namespace a"},
		{"GET", "/api/v1/namespaces/a/pods/b/log", "get pods/log b in the namespace a"},
		{"GET", "/apis/kopf.dev/v1/namespaces/a/kopfpeerings?watch=1&fieldSelector=metadata.name%3Db", "watch kopfpeerings.kopf.dev b in the namespace a"},
		{"GET", "/api/v1/pods?fieldSelector=metadata.name%3Db%2Cx%3Dy", "list pods"},
		{"GET", "/api/v1/pods?fieldSelector=metadata.name%3Da%5C%3Db%5C%2Cc%5C%5Cd", `list pods a=b,c\d`},
		{"POST", "/api/v1/namespaces/a/pods/b/eviction", "create pods/eviction b in the namespace a"},
		{"POST", "/apis/apps/v1/namespaces/a/deployments", "create deployments.apps in the namespace a"},
		{"PATCH", "/apis/apps/v1/namespaces/a/deployments/b/scale", "patch deployments.apps/scale b in the namespace a"},
		{"PUT", "/api/v1/namespaces/a/status", "update namespaces/status a in the namespace a"},
		{"DELETE", "/api/v1/namespaces/a/pods", "deletecollection pods in the namespace a"},
		{"DELETE", "/api/v1/nodes/a", "delete nodes a"},
		{"GET", "/api/v1/namespaces", "list namespaces"},
		{"GET", "/api/v1/namespaces/a", "get namespaces a in the namespace a"},
		{"GET", "/apis/apps/v1", ""}, {"GET", "/api", ""}, {"GET", "/version", ""}, {"GET", "/openapi/v3/apis/apps/v1/x", ""}, {"OPTIONS", "/api/v1/nodes/a", ""},
	}
	for _, tt := range tests {
		u, err := url.Parse(tt.address)
		if err != nil {
			t.Fatal(err)
		}
		r, ok := RequestOf(tt.method, u.Path, u.Query())
		got := ""
		if ok {
			got = r.String()
		}
		if got != tt.want {
			t.Errorf("%s %s: got %q, want %q", tt.method, tt.address, got, tt.want)
		}
	}
}

func FuzzRequestOf(f *testing.F) {
	f.Add("GET", "/apis/apps/v1/namespaces/a/deployments/b/scale", "watch=1")
	f.Add("DELETE", "//", "fieldSelector=metadata.name=x")
	f.Fuzz(func(t *testing.T, method, path, query string) {
		values, _ := url.ParseQuery(query)
		if r, ok := RequestOf(method, path, values); ok && r.Verb == "" {
			t.Errorf("%s %s: got no verb", method, path)
		}
	})
}

func TestAllows(t *testing.T) {
	all := rightsOf(t, "cluster /nodes - get r", "served /pods - list,get r", "home coordination.k8s.io/leases web get r", "served apps/* - * r", "cluster x/things a list r")
	tests := []struct {
		request Request
		narrow  bool // whether an operator of the namespace "a" may do it
		wide    bool
	}{
		{Request{Verb: "get", Resource: "nodes", Name: "x"}, true, true},
		{Request{Verb: "list", Resource: "nodes"}, false, false},
		{Request{Verb: "list", Resource: "pods", Namespace: "a"}, true, true},
		{Request{Verb: "list", Resource: "pods"}, false, true},
		{Request{Verb: "list", Resource: "pods", Namespace: "b"}, false, true},
		{Request{Verb: "get", Resource: "pods/log", Namespace: "a", Name: "x"}, false, false},
		{Request{Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "ops", Name: "web"}, true, true},
		{Request{Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "a", Name: "web"}, false, false},
		{Request{Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "ops", Name: "other"}, false, false},
		{Request{Verb: "delete", Group: "apps", Resource: "deployments/scale", Namespace: "a"}, true, true},
		{Request{Verb: "list", Group: "x", Resource: "things"}, false, false},
		{Request{Verb: "list", Group: "x", Resource: "things", Name: "a"}, true, true},
	}
	for _, tt := range tests {
		narrow, wide := &Set{Rights: all, Home: "ops", Namespaces: []string{"a"}}, &Set{Rights: all, Home: "ops"}
		if narrow.Allows(tt.request) != tt.narrow || wide.Allows(tt.request) != tt.wide {
			t.Errorf("%v: allowed in one namespace: %t, in all: %t, want %t and %t", &tt.request, !tt.narrow, wide.Allows(tt.request), tt.narrow, tt.wide)
		}
	}
	unknown := &Set{Rights: all}
	if r := (Request{Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "any", Name: "web"}); !unknown.Allows(r) {
		t.Errorf("%v is not allowed where the namespace of the operator is not known", &r)
	}
	needed := slices.Collect(func(yield func(bool) bool) {
		for _, r := range all {
			if !yield(unknown.Needed(&r, []Request{{Verb: "get", Resource: "pods", Namespace: "a"}})) {
				return
			}
		}
	})
	if !slices.Equal(needed, []bool{false, true, false, false, false}) {
		t.Errorf("got needed %v", needed)
	}
}

func TestExplain(t *testing.T) {
	t.Run("TD-48 each right has the handlers that need it", func(t *testing.T) {
		all := rightsOf(t, "served apps/deployments - watch,list OnReconcile b", "served apps/deployments - list OnCreate a", "home coordination.k8s.io/leases web get the election", "cluster /nodes - get Needs")
		got := (&Set{Rights: all, Home: "ops", Namespaces: []string{"b", "a"}}).Explain()
		want := `In the cluster:
  nodes
    get                                      Needs

In each of the namespaces a, b:
  deployments.apps
    list                                     OnCreate a
    list, watch                              OnReconcile b

In the namespace of the operator, ops:
  leases.coordination.k8s.io web
    get                                      the election
`
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestRecorderOfCreations checks that a PATCH that creates an object needs both permissions, by the name.
func TestRecorderOfCreations(t *testing.T) {
	for code, want := range map[int][]string{200: {"patch pods a"}, 201: {"create pods a", "patch pods a"}} {
		recorder := &Recorder{Base: transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Body: http.NoBody}, nil
		})}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "http://x/api/v1/pods/a", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := recorder.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		var got []string
		for _, r := range recorder.Requests() {
			got = append(got, r.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d: (-want +got)\n%s", code, diff)
		}
	}
}

// transport is a function as a transport.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestMissing(t *testing.T) {
	for message, want := range map[string]string{
		`pods "a" is forbidden: User "system:serviceaccount:default:x" cannot delete resource "pods" in API group "" in the namespace "default"`: `kopf.Needs("pods", "delete")`,
		`deployments.apps "a" is forbidden: User "x" cannot patch resource "deployments/scale" in API group "apps" in the namespace "default"`:   `kopf.Needs("deployments.apps/scale", "patch")`,
		`nodes is forbidden: User "x" cannot list resource "nodes" in API group "" at the cluster scope`:                                         `kopf.Needs("nodes", "list")`,
		`pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`:                                             "",
		`admission webhook "a.b.c" denied the request: it cannot be`:                                                                             "",
		``: "",
	} {
		if line := Missing(message); line != want {
			t.Errorf("%s: got %s, want %s", message, line, want)
		}
	}
}
