package contract

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves which resources and namespaces an operator discovers and serves, in 3-admission-auth-client.md.

var _ = ClusterSuite("scope", func(t *testing.T, c *C) {
	reading(t, c)
	selecting(t, c)
	noticing(t, c)
	patterns(t, c)
	residing(t, c)
})

func ignore(context.Context, *kopf.WatchEvent) error { return nil }

func watchedAs(id kopf.HandlerID) *kopf.EventOptions { return &kopf.EventOptions{ID: id} }

// eventful returns a registry with an event handler that does nothing.
func eventful() *kopf.Registry {
	r := &kopf.Registry{}
	r.OnEvent(Examples, ignore, watchedAs("event"))
	return r
}

// discoveries returns the discovery requests of an operator, each once, sorted.
func (op *Running) discoveries() []string {
	var paths []string
	for _, req := range op.Wire.Requests("GET") {
		if parts := strings.Split(strings.Trim(req.Path, "/"), "/"); parts[0] == "api" && len(parts) < 3 || parts[0] == "apis" && len(parts) < 4 {
			paths = append(paths, req.Path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func kinds(entries ...string) string {
	return `{"kind":"APIResourceList","resources":[` + strings.Join(entries, ",") + `]}`
}

// kindOf returns an entry of a resource list, with verbs.
func kindOf(plural, kind string, verbs ...string) string {
	return fmt.Sprintf(`{"name":%q,"singularName":"","kind":%q,"namespaced":true,"categories":["toys"],"verbs":["%s"]}`, plural, kind, strings.Join(verbs, `","`))
}

// served reports whether a resource of a group is watched.
func (op *Running) served(group, plural string) bool {
	return op.asked(path.Join("/apis", group, "v1/namespaces", op.c.Namespace, plural)) > 0
}

func reading(t *testing.T, c *C) {
	for selector, want := range map[kopf.Selector][]string{
		"kopfexamples.v1.kopf.dev": {"/apis", "/apis/kopf.dev/v1", "/apis/kopf.dev/v1beta1"},
		"kopfexamples":             {"/api", "/api/v1", "/apis", "/apis/kopf.dev/v1", "/apis/kopf.dev/v1beta1", "/apis/other.dev/v1"},
	} {
		c.Run(t, fmt.Sprintf("AC-90 which documents are read for %q", selector), func(c *C) {
			r := &kopf.Registry{}
			r.OnEvent(selector, ignore, watchedAs("event"))
			op := c.Operator(r, canned(map[string]string{
				"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": kinds(),
				"/apis":             classicGroups("kopf.dev v1 v1 v1beta1", "other.dev v1 v1"),
				"/apis/kopf.dev/v1": examplesDoc, "/apis/kopf.dev/v1beta1": examplesDoc, "/apis/other.dev/v1": kinds(),
			}), alone)
			c.WaitFor("the watch", func() bool { return op.served("kopf.dev", "kopfexamples") })
			if got := op.discoveries(); !slices.Equal(got, want) {
				c.Errorf("got the requests %q, want %q", got, want)
			}
		})
	}
	c.Run(t, "AC-90 two documents are enough where the server has all in them", func(c *C) {
		r := &kopf.Registry{}
		r.OnEvent("kopfexamples", ignore, watchedAs("event"))
		op := c.Operator(r, alone)
		c.WaitFor("the watch", func() bool { return op.served("kopf.dev", "kopfexamples") })
		if got, want := op.discoveries(), []string{"/api", "/apis"}; !slices.Equal(got, want) {
			c.Errorf("got the requests %q, want %q", got, want)
		}
	})
	c.Run(t, "AC-91 what is kept of a resource", func(c *C) {
		got := make(chan kopf.Resource, 1)
		r := &kopf.Registry{}
		r.OnCreate("kopfstatusexamples.v1.kopf.dev", func(ctx context.Context, ch *kopf.Change) error {
			got <- ch.Resource
			return nil
		}, named("create"))
		c.Operator(r, canned(map[string]string{
			"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": kinds(), "/apis": classicGroups("kopf.dev v2 v1 v2"), "/apis/kopf.dev/v2": "",
			"/apis/kopf.dev/v1": kinds(`{"name":"kopfstatusexamples","singularName":"","kind":"KopfStatusExample","namespaced":true,"shortNames":["kse"],"categories":["all","toys"],"verbs":["list","watch","patch"]}`,
				`{"name":"kopfstatusexamples/status","kind":"KopfStatusExample","namespaced":true,"verbs":["get","patch"]}`),
		}), alone)
		c.Of("kopf.dev/v1", "KopfStatusExample").Create("a", nil)
		want := kopf.Resource{
			Group: "kopf.dev", Version: "v1", Plural: "kopfstatusexamples", Kind: "KopfStatusExample", Singular: "kopfstatusexample", ShortNames: []string{"kse"},
			Categories: []string{"all", "toys"}, Subresources: []string{"status"}, Verbs: []string{"list", "watch", "patch"}, Namespaced: true, Preferred: false,
		}
		if diff := cmp.Diff(want, <-got); diff != "" {
			c.Errorf("the resource (-want +got):\n%s", diff)
		}
	})
	c.Run(t, "AC-99 the framework's own resources are where they always are", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.PostInfo("R", "M")
			return nil
		}, named("create"))
		op := c.Operator(r, canned(map[string]string{
			"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": kinds(), "/apis": classicGroups("kopf.dev v1 v1"), "/apis/kopf.dev/v1": examplesDoc,
		}))
		c.Create("a", nil)
		c.WaitFor("the event", func() bool { return len(op.posted(false)) > 0 })
		for _, path := range []string{"/api/v1/namespaces", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"} {
			if op.asked(path) == 0 {
				c.Errorf("%s is not asked for, although discovery has not found it", path)
			}
		}
	})
}

// alone disables the operator's watches of CRDs, namespaces and peers.
func alone(op *kopf.Operator) { op.Settings.Scanning.Disabled = true }

func selecting(t *testing.T, c *C) {
	all := []string{"list", "watch", "patch"}
	groups := func(one, two string) func(*kopf.Operator) {
		documents := map[string]string{
			"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": kinds(kindOf("pods", "Pod", all...)), "/apis": classicGroups("one.dev v1 v1", "two.dev v1 v1"),
			"/apis/one.dev/v1": one, "/apis/two.dev/v1": two,
		}
		return func(op *kopf.Operator) {
			for path, text := range documents {
				documents[path] = text
			}
			for _, path := range []string{"/api/v1/namespaces/%s/pods", "/apis/one.dev/v1/namespaces/%s/gadgets", "/apis/two.dev/v1/namespaces/%s/gadgets", "/apis/two.dev/v1/namespaces/%s/pods"} {
				documents[fmt.Sprintf(path, op.Namespaces[0])] = emptyList
			}
			canned(documents)(op)
		}
	}
	// chosen runs an operator with the handlers, and returns the served resources, and the warnings.
	chosen := func(c *C, documents func(*kopf.Operator), register func(r *kopf.Registry)) (served, warnings []string) {
		c.Helper()
		r := &kopf.Registry{}
		register(r)
		op := c.Operator(r, documents, alone)
		c.Pass(time.Second)
		if op.asked("/api/v1/namespaces/"+c.Namespace+"/pods") > 0 {
			served = append(served, "pods")
		}
		for _, name := range []string{"gadgets.one.dev", "gadgets.two.dev", "pods.two.dev"} {
			plural, group, _ := strings.Cut(name, ".")
			if op.served(group, plural) {
				served = append(served, name)
			}
		}
		for _, line := range op.Logs.Find("will not be served") {
			warnings = append(warnings, line.Message)
		}
		for _, line := range op.Logs.Find("cannot be served") {
			warnings = append(warnings, line.Message)
		}
		return served, warnings
	}
	change := func(ctx context.Context, ch *kopf.Change) error { return nil }
	both := groups(kinds(kindOf("gadgets", "Gadget", all...)), kinds(kindOf("gadgets", "Gadget", all...), kindOf("pods", "Pod", all...)))
	for _, tt := range []struct {
		name      string
		documents func(*kopf.Operator)
		register  func(r *kopf.Registry)
		served    []string
		warnings  []string
	}{
		{"AC-92 only what is watched has streams", both, func(r *kopf.Registry) {
			r.OnEvent("gadgets.one.dev", ignore, watchedAs("event"))
			r.OnCreate("gadgets.two.dev", change, named("create"))
		}, []string{"gadgets.one.dev", "gadgets.two.dev"}, nil},
		{"AC-93 a name in several groups is served to nobody", both, func(r *kopf.Registry) {
			r.OnEvent("gadgets", ignore, watchedAs("event"))
			r.OnCreate("gadgets", change, named("create"))
		}, nil, []string{"Ambiguous resources will not be served (try specifying API groups): gadgets is any of gadgets.v1.one.dev, gadgets.v1.two.dev."}},
		{"AC-93 resources of the core group come first", both, func(r *kopf.Registry) { r.OnEvent("pods", ignore, watchedAs("event")) }, []string{"pods"}, nil},
		{"AC-93 categories have many", both, func(r *kopf.Registry) { r.OnEvent(kopf.Category("toys"), ignore, watchedAs("event")) },
			[]string{"pods", "gadgets.one.dev", "gadgets.two.dev", "pods.two.dev"}, nil},
		{"AC-94 what is not there is told", both, func(r *kopf.Registry) { r.OnEvent("widgets.one.dev", ignore, watchedAs("event")) },
			nil, []string{"Unresolved resources cannot be served (try creating their CRDs): widgets.one.dev."}},
		{"AC-94 the name that was probably meant is named", both, func(r *kopf.Registry) {
			r.OnEvent("gadgtes.one.dev", ignore, watchedAs("event"))
			r.OnCreate("gadgest", change, named("create"))
		}, nil, []string{
			"Unresolved resources cannot be served (try creating their CRDs): gadgtes.one.dev. Did you mean gadgets.one.dev?",
			"Unresolved resources cannot be served (try creating their CRDs): gadgest. Did you mean gadgets.one.dev?",
		}},
		{"AC-95 what cannot be watched", groups(kinds(kindOf("gadgets", "Gadget", "list", "patch")), kinds(kindOf("gadgets", "Gadget", "watch", "patch"))), func(r *kopf.Registry) {
			r.OnEvent("gadgets.one.dev", ignore, watchedAs("event"))
			r.OnEvent("gadgets.two.dev", ignore, watchedAs("event2"))
		}, nil, []string{"Non-watchable resources will not be served: gadgets.v1.one.dev.", "Non-watchable resources will not be served: gadgets.v1.two.dev."}},
		{"AC-95 what cannot be patched", groups(kinds(kindOf("gadgets", "Gadget", "list", "watch")), kinds(kindOf("gadgets", "Gadget", "list", "watch"))), func(r *kopf.Registry) {
			r.OnCreate("gadgets.one.dev", change, named("create"))
			r.OnEvent("gadgets.two.dev", ignore, watchedAs("event"))
		}, []string{"gadgets.two.dev"}, []string{"Non-patchable resources will not be served by \"create\": gadgets.v1.one.dev."}},
	} {
		c.Run(t, tt.name, func(c *C) {
			served, warnings := chosen(c, tt.documents, tt.register)
			if !slices.Equal(served, tt.served) {
				c.Errorf("served are %q, want %q", served, tt.served)
			}
			if !slices.Equal(warnings, tt.warnings) {
				c.Errorf("got the warnings %q, want %q", warnings, tt.warnings)
			}
		})
	}
	c.Run(t, "AC-92 what is only reviewed has no streams", func(c *C) {
		r := &kopf.Registry{}
		r.OnValidate(Examples, func(ctx context.Context, a *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "validate"})
		r.OnEvent("kopfstatusexamples.v1.kopf.dev", ignore, watchedAs("event"))
		_, op := c.Reviewed(r)
		c.WaitFor("the watch of the other resource", func() bool { return op.served("kopf.dev", "kopfstatusexamples") })
		c.Pass(time.Second)
		if op.served("kopf.dev", "kopfexamples") {
			c.Error("what is only reviewed is watched")
		}
	})
}

func noticing(t *testing.T, c *C) {
	gadgets := func(c *C) kopf.Selector { return kopf.Selector("gadgets." + c.Unique("leaf") + ".dev") }
	c.Run(t, "AC-94 what is not there is waited for", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(gadgets(c), ready, named("create"))
		op := c.Operator(r)
		want := "Unresolved resources cannot be served (try creating their CRDs): " + string(gadgets(c)) + "."
		if lines := op.Logs.Find("Unresolved"); len(lines) != 1 || lines[0].Level != slog.LevelWarn || lines[0].Message != want {
			c.Errorf("got the lines %+v, want %q", lines, want)
		}
		c.Define(c.gadgets())
		c.gadget().Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.gadget().Get("a").Status().String("phase") == "Ready" })
	})
	c.Run(t, "AC-96 definitions are listed and watched, and lead to discovery", func(c *C) {
		c.OnlyInBubble("other leaves have definitions, too")
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		r.OnCreate(kopf.Category("leafy"), ready, named("categorized"))
		op := c.Operator(r)
		c.Pass(10 * time.Minute) // the operator looks for missing resources for some time after the start
		const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		if all, watched := op.asked(definitions), watches(op, definitions); all-watched != 1 || watched < 1 {
			c.Errorf("definitions were listed %d times and watched %d times", all-watched, watched)
		}
		before := op.asked("/apis")
		c.Pass(10 * time.Minute)
		if n := op.asked("/apis") - before; n > 0 {
			c.Errorf("%d discoveries without a reason", n)
		}
		steps := []struct {
			name   string
			change func()
			served int
		}{
			{"ADDED", func() {
				c.Define(c.gadgets(func(spec, _ map[string]any) { spec["names"].(map[string]any)["categories"] = []any{"leafy"} }))
			}, 1},
			{"MODIFIED", func() {
				c.definitions().Patch("gadgets."+c.Unique("leaf")+".dev", map[string]any{"spec": map[string]any{"names": map[string]any{"categories": []any{}}}})
			}, 0},
			{"MODIFIED again", func() {
				c.definitions().Patch("gadgets."+c.Unique("leaf")+".dev", map[string]any{"spec": map[string]any{"names": map[string]any{"categories": []any{"leafy"}}}})
			}, 2},
			{"DELETED", func() { c.definitions().Delete("gadgets." + c.Unique("leaf") + ".dev") }, 2},
		}
		list := fmt.Sprintf("/apis/%s.dev/v1/namespaces/%s/gadgets", c.Unique("leaf"), c.Namespace)
		for _, step := range steps {
			before := op.asked("/apis")
			step.change()
			c.Pass(time.Minute)
			if op.asked("/apis") == before {
				c.Errorf("%s has led to no discovery", step.name)
			}
			if n := op.asked(list) - watches(op, list); step.served > 0 && n != step.served {
				c.Errorf("%s: the objects were listed %d times, want %d", step.name, n, step.served)
			}
		}
		if got := op.Logs.messages("; not serving it"); len(got) != 2 {
			c.Errorf("got the lines %q, want one for each time that the kind has vanished", got)
		}
	})
	c.Run(t, "AC-97 without the right to watch definitions, the operator goes on with what it has", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		op := c.Operator(r, forbidding("customresourcedefinitions", func(req *Request) bool { return true }))
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		want := []string{"WARN Watching custom resource definitions failed; new and changed ones are not noticed until that is permitted"}
		c.WaitFor("the warning", func() bool { return slices.Equal(op.Logs.messages("definitions"), want) })
	})
	c.Run(t, "a resource that an API server does not know for a moment is served on", func(c *C) {
		c.OnlyInBubble("discovery is made up")
		var l calls
		r := &kopf.Registry{}
		r.OnResume(Examples, l.handler("resume"), named("resume"))
		c.Create("a", nil)
		var starting atomic.Bool
		op := c.Operator(r)
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if !starting.Load() || q.Path != "/apis" {
				return nil, nil
			}
			const nothing = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[]}`
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(nothing))}, nil
		})
		c.Pass(time.Minute)
		before := l.count("resume")
		for n, outage := range []time.Duration{time.Second, time.Minute} {
			starting.Store(true)
			c.definitions().Patch("kopfexamples.kopf.dev", map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": fmt.Sprint(n)}}})
			c.Pass(outage)
			starting.Store(false)
			c.definitions().Patch("kopfexamples.kopf.dev", map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": "none"}}})
			c.Pass(time.Minute)
			if got := len(op.Logs.messages("The resource is gone; not serving it any more")); got != n || l.count("resume") != before+n {
				c.Errorf("after %s, the resource was given up %d times, want %d; the calls are %v", outage, got, n, l.all())
			}
		}
	})
	for name, trouble := range map[string]func(c *C, fails *atomic.Bool){
		"while its definition changes often": func(c *C, _ *atomic.Bool) {
			for n := range 50 {
				c.definitions().Patch("kopfexamples.kopf.dev", map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": fmt.Sprint(n)}}})
				c.Pass(20 * time.Millisecond)
			}
		},
		"while namespaces are created": func(c *C, _ *atomic.Bool) {
			for n := range 10 {
				c.Of("v1", "Namespace").Create(fmt.Sprintf("%s-%d", c.Namespace, n), nil)
				c.Pass(20 * time.Millisecond)
			}
		},
		"and fails to answer then": func(c *C, fails *atomic.Bool) {
			fails.Store(true)
			c.Pass(10 * time.Minute)
		},
	} {
		c.Run(t, "a resource that an API server does not know for a moment is served on, "+name, func(c *C) {
			c.OnlyInBubble("discovery is made up")
			var l calls
			r := &kopf.Registry{}
			r.OnResume(Examples, l.handler("resume"), named("resume"))
			c.Create("a", nil)
			var starting, fails atomic.Bool
			op := c.Operator(r, func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace + "*"} })
			op.Wire.Fault(func(q *Request) (*http.Response, error) {
				switch {
				case q.Path != "/apis" || !starting.Load():
					return nil, nil
				case fails.Load():
					return nil, errCut
				}
				return document(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[]}`), nil
			})
			c.Pass(time.Minute)
			before := l.count("resume")
			starting.Store(true)
			c.definitions().Patch("kopfexamples.kopf.dev", map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": "first"}}})
			c.Pass(100 * time.Millisecond)
			trouble(c, &fails)
			starting.Store(false)
			c.definitions().Patch("kopfexamples.kopf.dev", map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": "none"}}})
			c.Pass(10 * time.Minute)
			if lines := op.Logs.messages("The resource is gone; not serving it any more"); len(lines) > 0 || l.count("resume") != before {
				c.Errorf("the resource was given up %d times; the calls are %v", len(lines), l.all())
			}
		})
	}
	c.Run(t, "AC-98 without scanning, definitions and namespaces are not looked at", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		op := c.Operator(r, alone)
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		for _, path := range []string{"/api/v1/namespaces", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"} {
			if op.asked(path) > 0 {
				c.Errorf("%s is asked for", path)
			}
		}
		if got := op.discoveries(); !slices.Equal(got, []string{"/apis"}) {
			c.Errorf("got the discovery %q", got)
		}
		for _, line := range op.Logs.All() {
			if line.Level >= slog.LevelWarn {
				c.Errorf("got the line %q", line.Message)
			}
		}
	})
	c.Run(t, "AC-T13 what a changed definition says of its objects reaches the stream that runs", func(c *C) {
		with := func(status bool) map[string]any {
			return c.gadgets(func(spec, version map[string]any) {
				if status {
					version["subresources"] = map[string]any{"status": map[string]any{}}
				}
			})
		}
		c.Define(with(false))
		r := &kopf.Registry{}
		result := func(ctx context.Context, ch *kopf.Change) error {
			ch.SetResult(fmt.Sprint(ch.Spec().Int("x"), slices.Contains(ch.Resource.Subresources, "status")))
			return nil
		}
		r.OnCreate(gadgets(c), result, named("h"))
		r.OnUpdate(gadgets(c), result, named("h"))
		op := c.Operator(r)
		c.gadget().Create("a", sized(1))
		c.WaitFor("the result", func() bool { return c.gadget().Get("a").Status().String("h") == "1 false" })
		list := fmt.Sprintf("/apis/%s.dev/v1/namespaces/%s/gadgets", c.Unique("leaf"), c.Namespace)
		lists, reads := op.asked(list)-watches(op, list), op.asked("/apis")
		c.definitions().Patch("gadgets."+c.Unique("leaf")+".dev", map[string]any{"spec": map[string]any{"versions": with(true)["spec"].(map[string]any)["versions"]}})
		c.WaitFor("the discovery to be over", func() bool { return op.asked("/apis") >= reads+3 })
		c.gadget().Patch("a", sized(2))
		c.WaitFor("the result", func() bool { return c.gadget().Get("a").Status().String("h") == "2 true" })
		if again := op.asked(list) - watches(op, list) - lists; again > 0 {
			c.Errorf("the objects were listed %d times again", again)
		}
	})
}

// forbidding refuses the requests for paths with an ending.
func forbidding(plural string, which func(*Request) bool) func(*kopf.Operator) {
	return wired(func(req *Request) (*http.Response, error) {
		path, _, _ := strings.Cut(req.Path, "?")
		if strings.HasSuffix(path, "/"+plural) && which(req) {
			return Answer(403, "Forbidden", plural+" are forbidden"), nil
		}
		return nil, nil
	})
}

func patterns(t *testing.T, c *C) {
	// listed returns the namespaces in which the operator lists the examples, "" for all at once.
	listed := func(op *Running) (spaces []string) {
		for _, req := range op.Wire.Requests("GET") {
			path, query, _ := strings.Cut(req.Path, "?")
			if strings.HasSuffix(path, "/kopfexamples") && !strings.Contains(query, "watch=true") {
				space, _ := strings.CutPrefix(path, "/apis/kopf.dev/v1/namespaces/")
				space, _, in := strings.Cut(space, "/")
				if !in || strings.HasPrefix(path, "/apis/kopf.dev/v1/kopfexamples") {
					space = ""
				}
				spaces = append(spaces, space)
			}
		}
		slices.Sort(spaces)
		return spaces
	}
	serve := func(c *C, adjust ...func(*kopf.Operator)) *Running {
		for _, space := range []string{"team-a", "team-b", "team-c1", "other"} {
			c.Of("v1", "Namespace").Create(space, nil)
		}
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		op := c.Operator(r, adjust...)
		c.Pass(time.Second)
		return op
	}
	for _, tt := range []struct {
		id       string
		patterns []string
		want     []string
	}{
		{"AC-101", []string{"team-a"}, []string{"team-a"}},
		{"AC-101", []string{"team-a", "other"}, []string{"other", "team-a"}},
		{"AC-101", []string{"team-*"}, []string{"team-a", "team-b", "team-c1"}},
		{"AC-101", []string{"team-?"}, []string{"team-a", "team-b"}},
		{"AC-101", []string{"team-[bc]*"}, []string{"team-b", "team-c1"}},
		{"AC-101", []string{"team-[!b]*"}, []string{"team-a", "team-c1"}},
		{"AC-101", []string{"team-*, !team-b"}, []string{"team-a", "team-c1"}},
		{"AC-101", []string{"team-*, !*-?, team-b"}, []string{"team-b", "team-c1"}},
		{"AC-101", []string{"!team-*,!kube-*,!default,!leaf*"}, []string{"other"}},
		{"AC-101", []string{"team-?,!team-?", "other"}, []string{"other"}},
		{"AC-101", []string{"am-a"}, nil},
		{"AC-102", []string{"team-a,other"}, []string{"team-a"}},
		{"AC-102", []string{"team-*,other"}, []string{"team-a", "team-b", "team-c1"}},
	} {
		c.Run(t, fmt.Sprintf("%s %q", tt.id, tt.patterns), func(c *C) {
			c.OnlyInBubble("other leaves have namespaces, too")
			op := serve(c, func(op *kopf.Operator) { op.Namespaces = tt.patterns })
			if got := listed(op); !slices.Equal(got, tt.want) {
				c.Errorf("the namespaces served are %q, want %q", got, tt.want)
			}
		})
	}
	c.Run(t, "AC-T18 a part that never matches is told", func(c *C) {
		c.OnlyInBubble("other leaves have namespaces, too")
		for pattern, doubt := range map[string]string{
			"team-a,other":           `In the namespace pattern "team-a,other", the part "other" has no effect: the first part selects the namespaces. To serve several namespaces, give several patterns.`,
			"team-*,default":         `In the namespace pattern "team-*,default", the part "default" has no effect: the first part selects the namespaces. To serve several namespaces, give several patterns.`,
			"team-*,!team-b,team-b1": "", "team-a,!team-b": "", "!team-a,team-a": "",
		} {
			op, _, logs := c.operatorOn(&kopf.Registry{})
			op.Namespaces = []string{pattern}
			ctx, cancel := context.WithCancel(c.Context())
			op.Ready = cancel
			if err := op.Run(ctx); err != nil {
				c.Errorf("%s: %v", pattern, err)
			}
			lines := logs.Find("namespace pattern")
			if doubt == "" && len(lines) > 0 || doubt != "" && (len(lines) != 1 || lines[0].Message != doubt || lines[0].Level != slog.LevelWarn) {
				c.Errorf("%s: got the lines %+v, want %q", pattern, lines, doubt)
			}
		}
	})
	c.Run(t, "AC-100 one of both is served, the whole cluster by default", func(c *C) {
		c.OnlyInBubble("other leaves have objects, too")
		for _, clusterwide := range []bool{false, true} {
			op := c.Operator(eventful(), func(op *kopf.Operator) { op.Namespaces, op.Clusterwide = nil, clusterwide })
			c.Pass(time.Second)
			if got := listed(op); !slices.Equal(got, []string{""}) {
				c.Errorf("served are %q", got)
			}
		}
		both, _, _ := c.operatorOn(&kopf.Registry{})
		both.Clusterwide = true
		if err := both.Run(c.Context()); err == nil || !strings.Contains(err.Error(), "not both") {
			c.Errorf("got %v for both", err)
		}
	})
	c.Run(t, "AC-106 the whole cluster is one stream for each resource", func(c *C) {
		c.OnlyInBubble("other leaves have objects, too")
		op := serve(c, func(op *kopf.Operator) { op.Namespaces, op.Clusterwide = nil, true })
		if got := listed(op); !slices.Equal(got, []string{""}) || watches(op, "/apis/kopf.dev/v1/kopfexamples") != 1 {
			c.Errorf("served are %q by %d watches", got, watches(op, "/apis/kopf.dev/v1/kopfexamples"))
		}
		if op.asked("/api/v1/namespaces") > 0 {
			c.Error("namespaces are looked at")
		}
	})
	c.Run(t, "AC-T19 what is in no namespace is served before there is a namespace", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate("kopfclusterexamples.v1.kopf.dev", ready, &kopf.ChangeOptions{ID: "create", When: func(ch *kopf.Change) bool { return strings.HasPrefix(ch.Name(), c.Namespace) }})
		op := c.Operator(r, func(op *kopf.Operator) { op.Namespaces = []string{"nowhere-*"} })
		kind, name := c.Of("kopf.dev/v1", "KopfClusterExample"), c.Unique("a")
		kind.Create(name, nil)
		defer kind.Delete(name)
		c.WaitFor("the handling", func() bool { return kind.Get(name).Status().String("phase") == "Ready" })
		if n := watches(op, "/apis/kopf.dev/v1/kopfclusterexamples"); n != 1 {
			c.Errorf("got %d watches, want 1", n)
		}
	})
}

func residing(t *testing.T, c *C) {
	registry := func(l *calls) *kopf.Registry {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s/%s", ch.Namespace(), ch.Name())
			return nil
		}, named("create"))
		return r
	}
	c.Run(t, "AC-103 streams begin and end as namespaces come and go", func(c *C) {
		var l calls
		op := c.Operator(registry(&l), func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace + "-*"} })
		namespaces, space := c.Of("v1", "Namespace"), c.Unique("comes")
		list := fmt.Sprintf("/apis/kopf.dev/v1/namespaces/%s/kopfexamples", space)
		if all, watched := op.asked("/api/v1/namespaces"), watches(op, "/api/v1/namespaces"); c.InBubble() && all-watched != 1 || len(l.all()) > 0 { // elsewhere, there are so many that they come in pages
			c.Errorf("namespaces were listed %d times", all-watched)
		}
		inside := *c
		inside.Namespace = space
		for n := 1; n <= 2; n++ {
			namespaces.Create(space, nil)
			inside.Of("kopf.dev/v1", "KopfExample").Create(fmt.Sprint("a", n), nil)
			c.WaitFor("the handling", func() bool { return l.count(fmt.Sprintf("%s/a%d", space, n)) == 1 })
			if lists := op.asked(list) - watches(op, list); lists != n {
				c.Errorf("the objects were listed %d times, want %d", lists, n)
			}
			namespaces.Delete(space)
			c.WaitFor("the end of the namespace", func() bool { return !namespaces.Exists(space) })
			c.Pass(time.Second)
		}
		asked := op.asked(list)
		op.Wire.Drop() // a wanted watch would be opened again
		c.Pass(2 * time.Second)
		if again := op.asked(list) - asked; again > 0 {
			c.Errorf("the namespace that is gone was asked for %d times", again)
		}
	})
	for _, tt := range []struct {
		name, event, metadata, status string
		stays                         bool
		told                          string
	}{
		{"a deletion timestamp alone changes nothing", "MODIFIED", `,"deletionTimestamp":"2020-01-01T00:00:00Z"`, `{}`, true, ""},
		{"what is to be finished keeps it", "MODIFIED", `,"deletionTimestamp":"2020-01-01T00:00:00Z"`,
			`{"conditions":[{"type":"A","status":"False"},{"type":"B","status":"True","reason":"Some","message":"finalizers remain"}]}`, true,
			`Namespace "%s" termination is pending: Some: finalizers remain`},
		{"when nothing is to be finished, it ends", "MODIFIED", `,"deletionTimestamp":"2020-01-01T00:00:00Z"`, `{"conditions":[{"type":"A","status":"False"}]}`, false, ""},
		{"conditions without a deletion change nothing", "MODIFIED", ``, `{"conditions":[{"type":"A","status":"False"}]}`, true, ""},
		{"a namespace that is gone ends", "DELETED", ``, `{}`, false, ""},
	} {
		c.Run(t, "AC-104 "+tt.name, func(c *C) {
			object := func(version int, metadata, status string) string {
				return fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"uid":"u","resourceVersion":"%d"%s},"status":%s}`, c.Namespace, version, metadata, status)
			}
			var opened atomic.Int64
			door := newDoorway()
			defer door.let()
			var l calls
			op := c.Operator(registry(&l), wired(func(req *Request) (*http.Response, error) {
				switch path, query, _ := strings.Cut(req.Path, "?"); {
				case path != "/api/v1/namespaces":
				case !strings.Contains(query, "watch=true"):
					return document(`{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + object(1, "", "{}") + `]}`), nil
				case opened.Add(1) == 1:
					door.pass(c.Context())
					return document(fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", tt.event, object(2, tt.metadata, tt.status))), nil
				default:
					return Answer(503, "ServiceUnavailable", "no more"), nil
				}
				return nil, nil
			}))
			c.Create("a", nil)
			c.WaitFor("the handling", func() bool { return l.count("") == 1 })
			door.let()
			c.WaitFor("the event", func() bool { return opened.Load() > 1 })
			c.Pass(time.Second)
			list := fmt.Sprintf("/apis/kopf.dev/v1/namespaces/%s/kopfexamples", c.Namespace)
			asked := op.asked(list)
			op.Wire.Drop() // a wanted watch is opened again
			c.Pass(2 * time.Second)
			if goesOn := op.asked(list) > asked; goesOn != tt.stays {
				c.Errorf("the namespace is served: %t, want %t", goesOn, tt.stays)
			}
			if told := op.Logs.messages("termination"); tt.told == "" && len(told) > 0 || tt.told != "" && !slices.Equal(told, []string{"DEBUG " + fmt.Sprintf(tt.told, c.Namespace)}) {
				c.Errorf("got the lines %q", told)
			}
		})
	}
	for _, suffix := range []string{"comes", "com*"} {
		c.Run(t, "an operator whose patterns match no namespace warns and waits for one: "+suffix, func(c *C) {
			var l calls
			patterns := []string{c.Unique(suffix), c.Unique("never")}
			op := c.Operator(registry(&l), func(op *kopf.Operator) { op.Namespaces = patterns })
			warnings := func() []Line { return op.Logs.Find("No namespace matches the patterns; waiting until one does") }
			c.WaitFor("the warning", func() bool { return len(warnings()) > 0 })
			if line := warnings()[0]; line.Level != slog.LevelWarn || line.Attrs["patterns"] != fmt.Sprint(patterns) {
				c.Errorf("got the line %+v", line)
			}
			inside := *c
			inside.Namespace = c.Unique("comes")
			namespaces := c.Of("v1", "Namespace")
			namespaces.Create(inside.Namespace, nil)
			defer namespaces.Delete(inside.Namespace)
			inside.Of("kopf.dev/v1", "KopfExample").Create("a", nil)
			c.WaitFor("the handling", func() bool { return l.count(inside.Namespace+"/a") == 1 })
			if n := len(warnings()); n != 1 {
				c.Errorf("the operator has warned %d times", n)
			}
		})
	}
	c.Run(t, "an operator with a pattern that matches a namespace does not warn of the others", func(c *C) {
		var l calls
		op := c.Operator(registry(&l), func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace, c.Unique("never")} })
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return l.count(c.Namespace+"/a") == 1 })
		if lines := op.Logs.Find("No namespace matches"); len(lines) > 0 {
			c.Errorf("got the lines %+v", lines)
		}
	})
	c.Run(t, "AC-105 without the right to list namespaces, exact names are taken, and patterns dropped", func(c *C) {
		var l calls
		op := c.Operator(registry(&l), func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace, "a*", "b?", "!c", "d,e"} },
			forbidding("namespaces", func(*Request) bool { return true }))
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return l.count(c.Namespace+"/a") == 1 })
		lines := op.Logs.Find("Serving only the namespaces given by exact names, because namespaces are not listed")
		if len(lines) != 1 || lines[0].Level != slog.LevelWarn || lines[0].Attrs["dropped"] != "[a* b? !c d,e]" || !strings.Contains(lines[0].Attrs["error"], "forbidden") {
			c.Errorf("got the lines %+v", lines)
		}
	})
	c.Run(t, "AC-105 without the right to watch namespaces, those of the start are served", func(c *C) {
		var l calls
		op := c.Operator(registry(&l), func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace + "*"} },
			forbidding("namespaces", func(req *Request) bool { return strings.Contains(req.Path, "watch=true") }))
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return l.count(c.Namespace+"/a") == 1 })
		want := []string{"WARN Watching namespaces failed; new and deleted ones are not noticed until that is permitted"}
		c.WaitFor("the warning", func() bool { return slices.Equal(op.Logs.messages("Watching namespaces failed"), want) })
	})
}
