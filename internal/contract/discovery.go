package contract

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which resources an operator discovers, and how it follows their changes, in 1-change-handling.md.

var _ = Suite("discovery", func(t *testing.T, c *C) {
	discovering(t, c)
	defining(t, c)
	losing(t, c)
})

// canned answers the requests for some paths, regardless of their queries, with documents. An empty document means that the path is unknown.
func canned(documents map[string]string) func(*kopf.Operator) {
	return wired(func(req *Request) (*http.Response, error) {
		path, _, _ := strings.Cut(req.Path, "?")
		text, ok := documents[path]
		switch {
		case !ok || req.Method != http.MethodGet:
			return nil, nil
		case text == "":
			return Answer(404, "NotFound", "the server could not find the requested resource"), nil
		case strings.Contains(req.Path, "watch=true"):
			return Answer(503, "ServiceUnavailable", "nothing to watch"), nil
		}
		return document(text), nil
	})
}

// asked returns the number of an operator's requests for a path, regardless of the query.
func (op *Running) asked(path string) int {
	n := 0
	for _, req := range op.Wire.Requests("GET") {
		if asked, _, _ := strings.Cut(req.Path, "?"); asked == path {
			n++
		}
	}
	return n
}

const (
	emptyList   = `{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}`
	everyVerb   = `"verbs":["list","watch","patch"]`
	examplesDoc = `{"kind":"APIResourceList","resources":[{"name":"kopfexamples","singularName":"kopfexample","kind":"KopfExample","namespaced":true,` + everyVerb + `}]}`
)

// classicGroups returns the list of API groups, each given as "name preferred version…".
func classicGroups(groups ...string) string {
	var all []string
	for _, group := range groups {
		words := strings.Fields(group)
		var versions []string
		for _, v := range words[2:] {
			versions = append(versions, fmt.Sprintf(`{"groupVersion":"%s/%s","version":%q}`, words[0], v, v))
		}
		all = append(all, fmt.Sprintf(`{"name":%q,"versions":[%s],"preferredVersion":{"version":%q}}`, words[0], strings.Join(versions, ","), words[1]))
	}
	return `{"kind":"APIGroupList","groups":[` + strings.Join(all, ",") + "]}"
}

func discovering(t *testing.T, c *C) {
	namespaced := func(plural string) string {
		return fmt.Sprintf(`{"kind":"APIResourceList","resources":[{"name":%q,"singularName":"","kind":"Kind","namespaced":true,%s}]}`, plural, everyVerb)
	}
	aggregated := func(plural string) string {
		return fmt.Sprintf(`{"resource":%q,"responseKind":{"kind":"Kind"},"scope":"Namespaced",%s}`, plural, everyVerb)
	}
	for form, documents := range map[string]map[string]string{
		"in the classic form": {
			"/api": `{"kind":"APIVersions","versions":["v1","v2"]}`, "/api/v1": namespaced("ones"), "/api/v2": namespaced("twos"),
			"/apis": classicGroups("preferring.dev v1 v1beta1 v1"), "/apis/preferring.dev/v1": namespaced("gadgets"), "/apis/preferring.dev/v1beta1": namespaced("gadgets"),
		},
		"in the aggregated form": {
			"/api": `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":""},"versions":[{"version":"v1","resources":[` + aggregated("ones") + `]},{"version":"v2","resources":[` + aggregated("twos") + `]}]}]}`,
			"/apis": `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"preferring.dev"},"versions":[` +
				`{"version":"v1","resources":[` + aggregated("gadgets") + `]},{"version":"v1beta1","resources":[` + aggregated("gadgets") + `]}]}]}`,
		},
	} {
		c.Run(t, "CH-23 all core versions are preferred, and of the other groups the one that they say, "+form, func(c *C) {
			lists := map[string]bool{ // and whether the operator must request them
				"/api/v1/namespaces/%s/ones":                          true,
				"/api/v2/namespaces/%s/twos":                          true,
				"/apis/preferring.dev/v1/namespaces/%s/gadgets":       true,
				"/apis/preferring.dev/v1beta1/namespaces/%s/gadgets":  false,
				"/apis/preferring.dev/v1alpha1/namespaces/%s/gadgets": false,
			}
			all := map[string]string{}
			for path, text := range documents {
				all[path] = text
			}
			for path := range lists {
				all[fmt.Sprintf(path, c.Namespace)] = emptyList
			}
			r := &kopf.Registry{}
			for _, selector := range []kopf.Selector{"ones", "twos", "gadgets"} {
				r.OnEvent(selector, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event"})
			}
			op := c.Operator(r, canned(all))
			for path, wanted := range lists {
				if wanted {
					c.WaitFor("the listing of "+path, func() bool { return op.asked(fmt.Sprintf(path, c.Namespace)) > 0 })
				}
			}
			c.Pass(time.Second)
			for path, wanted := range lists {
				if !wanted && op.asked(fmt.Sprintf(path, c.Namespace)) > 0 {
					c.Errorf("%s is served, although its version is not the preferred one", path)
				}
			}
		})
	}
	c.Run(t, "CH-33 a version of a group that is not there has no resources", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		r.OnCreate("things.ghostly.dev", ready, named("create"))
		op := c.Operator(r, canned(map[string]string{
			"/apis": classicGroups("kopf.dev v1 v1", "ghostly.dev v1 v1"), "/apis/kopf.dev/v1": examplesDoc, "/apis/ghostly.dev/v1": "",
		}))
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		if op.asked("/apis/ghostly.dev/v1") == 0 {
			c.Error("the version was not asked for")
		}
		if len(op.Logs.Find("Discovering the resources of an API group failed")) > 0 || len(op.Logs.Find("Unresolved resources cannot be served (try creating their CRDs): things.ghostly.dev")) != 1 {
			c.Error("a version that is not there is not told as missing resources alone")
		}
	})
	c.Run(t, "CH-33 other failures are tried again as those of all requests, and then end the operator", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		for _, path := range []string{"/apis", "/api"} {
			for failures, want := range map[int64]time.Duration{2: 2 * time.Second, 1000: 54 * time.Second} {
				r := &kopf.Registry{}
				r.OnCreate(Examples, ready, named("create"))
				r.OnEvent("things", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event"}) // in any group
				op, wire, _ := c.operatorOn(r)
				var n atomic.Int64
				wire.Fault(func(req *Request) (*http.Response, error) {
					if req.Path == path && n.Add(1) <= failures {
						return Answer(500, "InternalError", "asked for"), nil
					}
					return nil, nil
				})
				ctx, cancel := context.WithCancel(c.Context())
				op.Ready = cancel // it has found all resources
				began := time.Now()
				err := op.Run(ctx)
				cancel()
				if lasting := failures > 9; lasting != (kopf.StatusCode(err) == 500) {
					c.Errorf("%s: got %v after %d failures", path, err, failures)
				}
				if took := time.Since(began); took < want || took > want+want/4 {
					c.Errorf("%s: it took %s with %d failures, want about %s", path, took, failures, want)
				}
			}
		}
	})
	c.Run(t, "CH-33 one group that is out of order does not hinder the others", func(c *C) {
		var broken atomic.Bool
		broken.Store(true)
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		r.OnEvent("things.extension.dev", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event"})
		list := fmt.Sprintf("/apis/extension.dev/v1/namespaces/%s/things", c.Namespace)
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if req.Path == "/apis/extension.dev/v1" && broken.Load() {
				return Answer(503, "ServiceUnavailable", "the extension is down"), nil
			}
			return nil, nil
		}), canned(map[string]string{
			"/apis": classicGroups("kopf.dev v1 v1", "extension.dev v1 v1"), "/apis/kopf.dev/v1": examplesDoc,
			"/apis/extension.dev/v1": namespaced("things"), list: emptyList,
		}))
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		if lines := op.Logs.Find("Discovering the resources of an API group failed"); len(lines) != 1 || lines[0].Level != slog.LevelWarn || lines[0].Attrs["group"] != "extension.dev" {
			c.Errorf("got the lines %+v, want one warning", lines)
		}
		if op.asked(list) > 0 {
			c.Error("what could not be discovered is served")
		}
		if lines := op.Logs.Find("Unresolved resources cannot be served"); len(lines) > 0 {
			c.Errorf("got %+v, although nothing is known of the group", lines)
		}
		broken.Store(false)
		c.WaitFor("the serving of the group", func() bool { return op.asked(list) > 0 })
	})
	c.Run(t, "CH-33 a group that stays out of order is warned of once, and again when it breaks again", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		var broken atomic.Bool
		broken.Store(true)
		r := &kopf.Registry{}
		r.OnEvent("things.extension.dev", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event"})
		list := fmt.Sprintf("/apis/extension.dev/v1/namespaces/%s/things", c.Namespace)
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if req.Path == "/apis/extension.dev/v1" && broken.Load() {
				return Answer(503, "ServiceUnavailable", "the extension is down"), nil
			}
			return nil, nil
		}), canned(map[string]string{
			"/apis": classicGroups("extension.dev v1 v1"), "/apis/extension.dev/v1": namespaced("things"), list: emptyList,
		}))
		warnings := func() int { return len(op.Logs.Find("Discovering the resources of an API group failed")) }
		c.Pass(time.Hour)
		if n := warnings(); n != 1 || op.asked("/apis/extension.dev/v1") < 30 {
			c.Errorf("got %d warnings in an hour of %d attempts, want 1", n, op.asked("/apis/extension.dev/v1"))
		}
		broken.Store(false)
		c.WaitFor("the serving of the group", func() bool { return op.asked(list) > 0 })
		broken.Store(true)
		c.Define(c.gadgets()) // triggers another discovery
		c.WaitFor("the second warning", func() bool { return warnings() == 2 })
		c.Pass(time.Hour)
		if n := warnings(); n != 2 {
			c.Errorf("got %d warnings, want 2", n)
		}
	})
	c.Run(t, "CH-33 a version of a group that is out of order does not hinder the other versions of the group", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		var broken atomic.Bool
		r := &kopf.Registry{}
		r.OnEvent("things.extension.dev", func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "event"})
		list := fmt.Sprintf("/apis/extension.dev/v1/namespaces/%s/things", c.Namespace)
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if req.Path == "/apis/extension.dev/v1beta1" && broken.Load() {
				return Answer(503, "ServiceUnavailable", "the extension is down"), nil
			}
			return nil, nil
		}), canned(map[string]string{
			"/apis": classicGroups("extension.dev v1 v1 v1beta1"), "/apis/extension.dev/v1": namespaced("things"), "/apis/extension.dev/v1beta1": namespaced("things"), list: emptyList,
		}))
		c.WaitFor("the serving of the group", func() bool { return op.asked(list) > 0 })
		broken.Store(true)
		c.Define(c.gadgets()) // triggers another discovery
		c.Pass(time.Hour)
		if lines := op.Logs.Find("Discovering the resources of an API group failed"); len(lines) != 1 {
			c.Errorf("got the lines %+v, want one warning", lines)
		}
		if lines := append(op.Logs.Find("Ambiguous resources"), op.Logs.Find("The resource is gone")...); len(lines) > 0 {
			c.Errorf("got the lines %+v, although the version of the handlers is there", lines)
		}
	})
	c.Run(t, "DF-84 a resource that leaves a version of a group is gone, though another version is out of order", func(c *C) {
		c.OnlyInBubble("it waits")
		var gone atomic.Bool
		r := &kopf.Registry{}
		for _, name := range []kopf.Selector{"things.v1.extension.dev", "others.v1beta1.extension.dev"} {
			r.OnEvent(name, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: kopf.HandlerID(name)})
		}
		list := fmt.Sprintf("/apis/extension.dev/v1/namespaces/%s/things", c.Namespace)
		others := fmt.Sprintf("/apis/extension.dev/v1beta1/namespaces/%s/others", c.Namespace)
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			switch {
			case req.Path == "/apis/extension.dev/v1beta1" && gone.Load():
				return Answer(503, "ServiceUnavailable", "the extension is down"), nil
			case req.Path == "/apis/extension.dev/v1" && gone.Load():
				return document(`{"kind":"APIResourceList","resources":[]}`), nil
			}
			return nil, nil
		}), canned(map[string]string{
			"/apis": classicGroups("extension.dev v1 v1 v1beta1"), list: emptyList, others: emptyList,
			"/apis/extension.dev/v1": namespaced("things"), "/apis/extension.dev/v1beta1": namespaced("others"),
		}))
		c.WaitFor("the serving of both", func() bool { return op.asked(list) > 0 && op.asked(others) > 0 })
		gone.Store(true)
		c.Define(c.gadgets()) // triggers another discovery
		c.Pass(10 * time.Minute)
		lines := op.Logs.Find("The resource is gone; not serving it any more")
		if len(lines) != 1 || lines[0].Attrs["resource"] != "things.v1.extension.dev" {
			c.Errorf("got the lines %+v, want one about the things", lines)
		}
	})
	c.Run(t, "CH-35 a resource without its definition is gone as soon as a late discovery says so", func(c *C) {
		c.OnlyInBubble("discovery is late")
		var late atomic.Bool
		former := make(map[string][]byte) // answers of discovery, by their paths
		r := &kopf.Registry{}
		r.OnCreate(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), ready, named("create"))
		definition := c.gadgets()
		c.Define(definition)
		op := c.Operator(r, through(func(q *http.Request, base http.RoundTripper) (*http.Response, error) {
			if q.URL.Path != "/api" && q.URL.Path != "/apis" {
				return base.RoundTrip(q)
			}
			resp, err := base.RoundTrip(q)
			if err != nil {
				return resp, err
			}
			body, err := io.ReadAll(resp.Body)
			if !late.Load() {
				former[q.URL.Path] = body
			}
			resp.Body = io.NopCloser(bytes.NewReader(former[q.URL.Path]))
			return resp, err
		}))
		late.Store(true)
		c.undefine("CustomResourceDefinition", "apiextensions.k8s.io/v1", definition["metadata"].(map[string]any)["name"].(string))
		c.Pass(time.Minute)
		late.Store(false)
		c.Pass(2 * time.Minute)
		if n := len(op.Logs.Find("The resource is gone; not serving it any more")); n != 1 {
			c.Errorf("got %d lines about the end, want 1", n)
		}
	})
	c.Run(t, "OP-31 a kind that was served for its owner only is not said to be gone with it", func(c *C) {
		r := &kopf.Registry{}
		r.OnReconcile(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), func(context.Context, *kopf.Reconcile) error { return nil },
			&kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
		definition := c.gadgets()
		c.Define(definition)
		op := c.Operator(r)
		c.undefine("CustomResourceDefinition", "apiextensions.k8s.io/v1", definition["metadata"].(map[string]any)["name"].(string))
		op.waitLogged(c, "The resource is gone; not serving it any more")
		op.waitLogged(c, "No handler needs the resource any more; not serving it")
		gone, unneeded := op.Logs.Find("The resource is gone"), op.Logs.Find("No handler needs the resource any more")
		if len(gone) != 1 || !strings.HasPrefix(gone[0].Attrs["resource"], "gadgets.") || len(unneeded) != 1 || unneeded[0].Attrs["resource"] != "configmaps.v1" {
			c.Errorf("got the lines %v and %v", gone, unneeded)
		}
	})
	c.Run(t, "CH-34 names with a slash are subresources, and a missing singular is the kind in lower case", func(c *C) {
		doc := `{"kind":"APIResourceList","resources":[` +
			`{"name":"kopfstatusexamples/scale","kind":"Scale","namespaced":true,"verbs":["get"]},` +
			`{"name":"kopfstatusexamples","singularName":"","kind":"KopfStatusExample","namespaced":true,"shortNames":["ksx"],"categories":["all","some"],` + everyVerb + `},` +
			`{"name":"kopfstatusexamples/status","kind":"KopfStatusExample","namespaced":true,"verbs":["patch"]},` +
			`{"name":"kopfexamples","singularName":"single","kind":"KopfExample","namespaced":true,` + everyVerb + `}]}`
		var l calls
		note := func(ctx context.Context, ch *kopf.Change) error {
			l.add("%v", ch.Resource.Subresources)
			l.add("%s of %v, %t", ch.Resource.Singular, append(ch.Resource.ShortNames, ch.Resource.Categories...), ch.Resource.Preferred && ch.Resource.Namespaced)
			ch.SetResult("done")
			return nil
		}
		r := &kopf.Registry{}
		r.OnCreate("kopfstatusexample.kopf.dev", note, named("create"))
		r.OnCreate("single.kopf.dev", note, named("create"))
		op := c.Operator(r, canned(map[string]string{"/apis": classicGroups("kopf.dev v1 v1"), "/apis/kopf.dev/v1": doc}))
		others := c.Of("kopf.dev/v1", "KopfStatusExample")
		others.Create("a", nil)
		c.WaitFor("the result", func() bool { return others.Get("a").Status().String("create") == "done" })
		c.Create("b", nil)
		c.WaitFor("the result", func() bool { return c.Get("b").Status().String("create") == "done" })
		c.expect(&l, "[scale status]", "kopfstatusexample of [ksx all some], true", "[]", "single of [], true")
		for _, req := range op.Wire.Writes() {
			if status := strings.HasSuffix(req.Path, "/status"); status != strings.Contains(req.Body, `"done"`) && strings.Contains(req.Path, "statusexamples") {
				c.Errorf("the result of the one with the subresource went to %s: %s", req.Path, req.Body)
			}
		}
	})
}

// gadgets returns the CRD of a kind that only one leaf uses.
func (c *C) gadgets(adjust ...func(spec, version map[string]any)) map[string]any {
	group := c.Unique("leaf") + ".dev"
	d := definition("gadgets", "Gadget", "Namespaced", nil)
	d["metadata"] = map[string]any{"name": "gadgets." + group}
	spec := d["spec"].(map[string]any)
	spec["group"] = group
	for _, f := range adjust {
		f(spec, spec["versions"].([]any)[0].(map[string]any))
	}
	return d
}

// gadget returns the verbs for the objects of that CRD.
func (c *C) gadget() *Kind { return c.Of(c.Unique("leaf")+".dev/v1", "Gadget") }

func (c *C) definitions() *Kind {
	return c.Of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
}

func defining(t *testing.T, c *C) {
	c.Run(t, "CH-35 many changes of definitions in a short time do not multiply the requests of discovery", func(c *C) {
		c.OnlyInBubble("requests are counted by their times")
		c.Define(c.gadgets())
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		op := c.Operator(r)
		c.Pass(time.Minute) // until discovery is idle
		before := op.asked("/apis")
		for n := range 500 {
			c.definitions().Patch("gadgets."+c.Unique("leaf")+".dev", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"n": fmt.Sprint(n)}}})
			c.Pass(10 * time.Millisecond)
		}
		if n := op.asked("/apis") - before; n < 5 || n > 50 {
			c.Errorf("the resources were discovered %d times in 5 s of changes, want 25", n)
		}
	})
	c.Run(t, "CH-35 definitions that come, change and go are followed", func(c *C) {
		name := "gadgets." + c.Unique("leaf") + ".dev"
		category := c.Unique("category")
		r := &kopf.Registry{}
		r.OnCreate(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), ready, named("create"))
		r.OnCreate(kopf.Category(category), func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Set("status.category", true)
			return nil
		}, named("categorized"))
		op := c.Operator(r)
		calm := func() { // until discovery is idle
			if c.InBubble() {
				c.Pass(time.Minute)
			}
		}
		calm()
		c.Define(c.gadgets()) // ADDED
		c.gadget().Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.gadget().Get("a").Status().String("phase") == "Ready" })
		calm()
		c.definitions().Patch(name, map[string]any{"spec": map[string]any{"names": map[string]any{"categories": []any{category}}}}) // MODIFIED
		c.WaitFor("the handling by the category", func() bool {
			c.gadget().Apply("b", nil)
			c.Pass(100 * time.Millisecond) // until the handler would have been called
			if c.gadget().Get("b").Has("status.category") {
				return true
			}
			c.gadget().Delete("b")
			return false
		})
		calm()
		c.undefine("CustomResourceDefinition", "apiextensions.k8s.io/v1", name) // DELETED
		c.WaitFor("the end of the serving", func() bool { return len(op.Logs.Find("The resource is gone; not serving it any more")) == 1 })
		c.Pass(time.Second)
		calm()
		list := fmt.Sprintf("/apis/%s.dev/v1/namespaces/%s/gadgets", c.Unique("leaf"), c.Namespace)
		asked := op.asked(list)
		op.Wire.Drop() // a wanted watch would be opened again
		c.Pass(2 * time.Second)
		calm()
		if again := op.asked(list) - asked; again > 0 {
			c.Errorf("the resource that is gone was asked for %d times", again)
		}
	})
	for kind, reason := range map[string]bool{"ADDED": true, "MODIFIED": true, "DELETED": true, "BOOKMARK": false} {
		c.Run(t, "CH-35 what is a reason to discover again: "+kind, func(c *C) {
			c.OnlyInBubble("definitions are made up")
			const object = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"kopfexamples.kopf.dev","uid":"u","resourceVersion":"11"}}`
			door := newDoorway()
			defer door.let()
			r := &kopf.Registry{}
			r.OnCreate(Examples, ready, named("create"))
			op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
				switch {
				case !strings.Contains(req.Path, "/customresourcedefinitions?"):
					return nil, nil
				case !strings.Contains(req.Path, "watch=true"):
					return document(`{"kind":"List","metadata":{"resourceVersion":"10"},"items":[` + object + "]}"), nil
				case strings.Contains(req.Path, "resourceVersion=10"):
					door.pass(c.Context())
					return document(fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)), nil
				}
				return Answer(503, "ServiceUnavailable", "no more"), nil
			}))
			c.Pass(time.Minute)
			if n := op.asked("/apis"); n != 1 {
				c.Errorf("the groups were read %d times before, want once", n)
			}
			door.let()
			c.Pass(time.Minute)
			if n := op.asked("/apis"); reason != (n > 1) {
				c.Errorf("the groups were read %d times afterwards", n)
			}
		})
	}
	c.Run(t, "CH-35 the first listing of definitions is no reason to discover again", func(c *C) {
		c.OnlyInBubble("other leaves have definitions, too")
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		op := c.Operator(r)
		c.Pass(time.Hour)
		if n := op.asked("/apis"); n != 1 {
			c.Errorf("the groups were read %d times, want once", n)
		}
		if n := op.asked("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"); n < 2 {
			c.Error("the definitions are not watched")
		}
		c.Define(c.gadgets())
		c.Pass(time.Second)
		if n := op.asked("/apis"); n < 2 {
			c.Error("a new definition was no reason to discover again")
		}
	})
	c.Run(t, "DF-84 a definition whose names are not accepted is no reason to discover again at each start", func(c *C) {
		c.OnlyInBubble("other leaves have definitions, too")
		c.Define(c.gadgets())
		group := c.Unique("leaf") + ".dev"
		second := c.gadgets(func(spec, _ map[string]any) { spec["names"].(map[string]any)["plural"] = "seconds" })
		second["metadata"] = map[string]any{"name": "seconds." + group}
		c.definitions().Create("seconds."+group, second)
		c.WaitFor("the conflict of names", func() bool {
			conditions := c.definitions().Get("seconds." + group).Status().Views("conditions")
			return slices.ContainsFunc(conditions, func(v kopf.View) bool {
				return v.String("type") == "NamesAccepted" && v.String("status") == "False"
			})
		})
		r := &kopf.Registry{}
		r.OnCreate("gadgets", ready, named("create"))
		op := c.Operator(r)
		c.Pass(time.Minute)
		if n := op.asked("/apis"); n != 1 {
			c.Errorf("the groups were read %d times, want once", n)
		}
	})
	kept := func(c *C, op *Running) {
		c.Helper()
		c.Define(c.gadgets())
		c.gadget().Create("a", nil)
		c.Create("a", nil)
		c.WaitFor("the handling", func() bool { return c.isReady("a") })
		c.Pass(2 * time.Second)
		if c.gadget().Get("a").Has("status") {
			c.Error("a resource that was not there at the start is served")
		}
		if n := op.asked("/apis"); n > 6 {
			c.Errorf("the groups were read %d times", n)
		}
	}
	registry := func(c *C) *kopf.Registry {
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		r.OnCreate(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), ready, named("create"))
		return r
	}
	c.Run(t, "CH-36 without the right to watch definitions, what was there at the start is served, with a warning", func(c *C) {
		c.OnlyInBubble("a resource that is missing at the start is looked for a little longer")
		op := c.Operator(registry(c), wired(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "customresourcedefinitions") {
				return Answer(403, "Forbidden", "definitions are forbidden"), nil
			}
			return nil, nil
		}))
		c.Pass(time.Minute)
		kept(c, op)
		lines := op.Logs.Find("Watching custom resource definitions failed")
		if len(lines) != 1 || lines[0].Level != slog.LevelWarn || !strings.Contains(lines[0].Attrs["error"], "forbidden") {
			c.Errorf("got %+v, want one warning", lines)
		}
	})
	c.Run(t, "CH-36 if scanning is disabled, what was there at the start is served, without a word", func(c *C) {
		c.OnlyInBubble("a resource that is missing at the start is looked for a little longer")
		op := c.Operator(registry(c), func(op *kopf.Operator) { op.Settings.Scanning.Disabled = true })
		c.Pass(time.Minute)
		kept(c, op)
		if op.asked("/apis/apiextensions.k8s.io/v1/customresourcedefinitions") > 0 {
			c.Error("the definitions are watched")
		}
		for _, line := range op.Logs.All() {
			if line.Level >= slog.LevelWarn && !strings.HasPrefix(line.Message, "Unresolved resources") {
				c.Errorf("got the line %q", line.Message)
			}
		}
		if kopf.NewSettings().Scanning.Disabled {
			c.Error("scanning is disabled by default")
		}
	})
}

func losing(t *testing.T, c *C) {
	served := func(status bool) func(spec, version map[string]any) {
		return func(spec, version map[string]any) {
			if status {
				version["subresources"] = map[string]any{"status": map[string]any{}}
			}
		}
	}
	// flip adds the subresource to the CRD, or removes it.
	flip := func(c *C, status bool) {
		c.Helper()
		d := c.gadgets(served(status))["spec"].(map[string]any)
		c.definitions().Patch("gadgets."+c.Unique("leaf")+".dev", map[string]any{"spec": map[string]any{"versions": d["versions"]}})
	}
	registry := func(c *C, l *calls) *kopf.Registry {
		r := &kopf.Registry{}
		both := func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s %d", ch.Reason, ch.Spec().Int("x"))
			ch.SetResult(ch.Spec().Int("x"))
			return nil
		}
		selector := kopf.Selector("gadgets." + c.Unique("leaf") + ".dev")
		r.OnCreate(selector, both, named("h"))
		r.OnUpdate(selector, both, named("h"))
		return r
	}
	last := func(op *Running) (paths []string) {
		op.c.WaitFor("the answers", func() bool {
			return !slices.ContainsFunc(op.Wire.Writes(), func(req Request) bool { return req.Code == 0 })
		})
		for _, req := range op.Wire.Writes() {
			paths = append(paths, fmt.Sprintf("%s %d", req.Path[strings.LastIndexByte(req.Path, '/')+1:], req.Code))
		}
		return paths
	}
	c.Run(t, "CH-T45 a subresource that comes later is used by what runs", func(c *C) {
		var l calls
		c.Define(c.gadgets(served(false)))
		op := c.Operator(registry(c, &l))
		c.gadget().Create("a", sized(1))
		c.WaitFor("the result", func() bool { return c.gadget().Get("a").Status().Int("h") == 1 })
		c.WaitFor("the answer", func() bool { return slices.Equal(last(op), []string{"a 200"}) })
		flip(c, true)
		reads := op.asked("/apis")
		c.WaitFor("the discovery to be over", func() bool { return op.asked("/apis") >= reads+3 })
		c.gadget().Patch("a", sized(2))
		c.WaitFor("the result", func() bool { return c.gadget().Get("a").Status().Int("h") == 2 })
		c.WaitFor("the last patch", func() bool { return len(last(op)) == 3 })
		if got, want := last(op), []string{"a 200", "status 200", "a 200"}; !slices.Equal(got, want) {
			c.Errorf("got the patches %q, want %q", got, want)
		}
		c.expect(&l, "create 1", "update 2")
	})
	c.Run(t, "CH-T46 a subresource that is gone is no object that is gone: the resources are discovered again", func(c *C) {
		var l calls
		c.Define(c.gadgets(served(true)))
		op := c.Operator(registry(c, &l), wired(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "customresourcedefinitions") { // so that no watch event announces the change
				return Answer(403, "Forbidden", "definitions are forbidden"), nil
			}
			return nil, nil
		}))
		c.gadget().Create("a", sized(1))
		c.WaitFor("the result", func() bool { return c.gadget().Get("a").Status().Int("h") == 1 })
		flip(c, false)
		c.WaitFor("the server to have taken it", func() bool {
			_, err := c.Client.Patch(c.Context(), c.gadget().Ref("a"), map[string]any{}, &kopf.PatchOptions{Subresource: "status"})
			return kopf.StatusCode(err) == 404
		})
		c.gadget().Patch("a", sized(2))
		c.WaitFor("the result", func() bool { return c.gadget().Get("a").Status().Int("h") == 2 })
		c.expect(&l, "create 1", "update 2") // this does not call the handler again
		c.Pass(2 * time.Second)
		paths := last(op)
		if got, want := paths[:3], []string{"status 200", "a 200", "status 404"}; !slices.Equal(got, want) || paths[len(paths)-1] != "a 200" {
			c.Errorf("got the patches %q, want %q and one of the object in the end", paths, want)
		}
		c.gadget().Patch("a", sized(3))
		c.WaitFor("the next result", func() bool { return c.gadget().Get("a").Status().Int("h") == 3 })
		if again := last(op)[len(paths):]; !slices.Equal(again, []string{"a 200"}) {
			c.Errorf("got the patches %q afterwards, want one of the object", again)
		}
	})
	c.Run(t, "CH-T46 a timer notices that the subresource is gone, too", func(c *C) {
		c.Define(c.gadgets(served(true)))
		r := &kopf.Registry{}
		r.OnTimer(kopf.Selector("gadgets."+c.Unique("leaf")+".dev"), func(ctx context.Context, t *kopf.Timer) error {
			t.Patch.Set("status.t", t.Spec().Int("x"))
			return nil
		}, &kopf.TimerOptions{ID: "t", Interval: 500 * time.Millisecond, WithoutFinalizer: true})
		op := c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "customresourcedefinitions") {
				return Answer(403, "Forbidden", "definitions are forbidden"), nil
			}
			return nil, nil
		}))
		c.gadget().Create("a", sized(1))
		c.WaitFor("the status", func() bool { return c.gadget().Get("a").Status().Int("t") == 1 })
		flip(c, false)
		c.WaitFor("the server to have taken it", func() bool {
			_, err := c.Client.Patch(c.Context(), c.gadget().Ref("a"), map[string]any{}, &kopf.PatchOptions{Subresource: "status"})
			return kopf.StatusCode(err) == 404
		})
		c.gadget().Patch("a", sized(2))
		c.WaitFor("the status", func() bool { return c.gadget().Get("a").Status().Int("t") == 2 })
		if paths := last(op); !slices.Contains(paths, "status 404") || paths[len(paths)-1] != "a 200" {
			c.Errorf("got the patches %q, want a refused one of the status, and one of the object in the end", paths)
		}
	})
	c.Run(t, "CH-T46 an object that is gone, is", func(c *C) {
		var l calls
		op := c.Operator(func() *kopf.Registry {
			r := &kopf.Registry{}
			r.OnCreate("kopfstatusexamples.v1.kopf.dev", func(ctx context.Context, ch *kopf.Change) error {
				l.add("create %d", ch.Retry)
				c.Of("kopf.dev/v1", "KopfStatusExample").Delete(ch.Name())
				ch.SetResult(1)
				return nil
			}, named("h"))
			return r
		}())
		reads := op.asked("/apis")
		c.Of("kopf.dev/v1", "KopfStatusExample").Create("a", nil)
		c.WaitFor("the refusal", func() bool { return len(last(op)) == 1 })
		c.Pass(2 * time.Second)
		if got := last(op); !slices.Equal(got, []string{"status 404"}) || c.InBubble() && op.asked("/apis") > reads { // elsewhere, other leaves have CRDs
			c.Errorf("got the patches %q and %d discoveries", got, op.asked("/apis")-reads)
		}
		if lines := op.Logs.Find("Processing of the object failed"); len(lines) > 0 {
			c.Errorf("got the lines %+v", lines)
		}
	})
	c.Run(t, "CH-T47 objects of a namespace that is being deleted are handled until it is gone", func(c *C) {
		space := c.Unique("doomed")
		namespaces := c.Of("v1", "Namespace")
		namespaces.Create(space, nil)
		var l calls
		r := &kopf.Registry{}
		r.OnDelete(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("delete %d", ch.Retry)
			if ch.Retry < 2 {
				return kopf.Temporary(errOops, 1500*time.Millisecond)
			}
			return nil
		}, named("delete"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Namespaces = []string{space} })
		inside := *c
		inside.Namespace = space
		there := inside.Of("kopf.dev/v1", "KopfExample")
		there.Create("a", nil)
		c.WaitFor("the finalizer", func() bool { return holds(there.Get("a")) })
		namespaces.Delete(space)
		c.WaitFor("the end of the namespace", func() bool { return !namespaces.Exists(space) })
		c.expect(&l, "delete 0", "delete 1", "delete 2")
		list := fmt.Sprintf("/apis/kopf.dev/v1/namespaces/%s/kopfexamples", space)
		c.Pass(time.Second)
		asked := op.asked(list)
		if watched := watches(op, list); asked-watched != 1 {
			c.Errorf("the namespace was listed %d times, want once", asked-watched)
		}
		op.Wire.Drop() // a wanted watch would be opened again
		c.Pass(2 * time.Second)
		if again := op.asked(list) - asked; again > 0 {
			c.Errorf("the namespace that is gone was asked for %d times", again)
		}
	})
}
