package contract

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which permissions and objects operators need in a cluster, and that the examples contain them, in 4-operator-and-kits.md.

var _ = ClusterSuite("operator_deployment", func(t *testing.T, c *C) {
	rights(t, c)
	samples(t, c)
	settings(t, c)
})

// uses returns the requests of an operator as RBAC rules: "verb group/resource".
func (op *Running) uses() []string {
	verbs := map[string]string{"GET": "get", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
	var all []string
	for _, req := range op.Wire.Requests() {
		path, query, _ := strings.Cut(req.Path, "?")
		parts := strings.Split(strings.Trim(path, "/"), "/")
		group := ""
		if parts[0] == "apis" && len(parts) > 1 {
			group, parts = parts[1], parts[1:]
		}
		if len(parts) < 3 {
			continue // all authenticated users may read discovery
		}
		if parts = parts[2:]; parts[0] == "namespaces" && len(parts) > 2 {
			parts = parts[2:]
		}
		verb := verbs[req.Method]
		if verb == "get" && len(parts) == 1 {
			verb = "list"
			if strings.Contains(query, "watch=true") {
				verb = "watch"
			}
		}
		resource := parts[0]
		if len(parts) > 2 {
			resource += "/" + parts[2]
		}
		if use := verb + " " + group + "/" + resource; !slices.Contains(all, use) {
			all = append(all, use)
		}
	}
	slices.Sort(all)
	return all
}

// manifest reads a file of the examples, or of their deployment.
func (c *C) manifest(name string) []*kopf.Body {
	c.Helper()
	var data []byte
	err := os.ErrNotExist
	for _, root := range []string{"../..", ".."} { // the second one is relative to the module e2e
		for _, folder := range []string{"examples", "docs/deployment"} {
			if os.IsNotExist(err) {
				data, err = os.ReadFile(filepath.Join(root, folder, name))
			}
		}
	}
	if err != nil {
		c.Fatal(err)
	}
	objects, err := kopf.ParseManifests(data)
	if err != nil {
		c.Fatal(err)
	}
	var all []*kopf.Body
	for _, object := range objects {
		body, err := kopf.NewBody(object)
		if err != nil {
			c.Fatal(err)
		}
		all = append(all, body)
	}
	return all
}

// granted returns the permissions of the roles in the files.
func granted(c *C) (all []string) {
	bodies := slices.Concat(c.manifest("namespaced/rbac.yaml"), c.manifest("clusterwide/rbac.yaml"), c.manifest("webhooks/rbac.yaml"))
	for _, body := range bodies {
		if !strings.HasSuffix(body.Kind(), "Role") {
			continue
		}
		rules, _ := body.Get("rules").([]any)
		for _, rule := range rules {
			r := rule.(map[string]any)
			for _, group := range r["apiGroups"].([]any) {
				if strings.Contains(group.(string), "/") {
					c.Errorf("the group %v has a version, and so grants nothing", group)
				}
				for _, resource := range r["resources"].([]any) {
					for _, verb := range r["verbs"].([]any) {
						all = append(all, fmt.Sprintf("%v %v/%v", verb, group, resource))
					}
				}
			}
		}
	}
	return all
}

// elected is the name of the operator in the manifests, and of its Lease.
const elected = "kopfexample-operator"

func rights(t *testing.T, c *C) {
	// busy runs an operator that uses all features.
	busy := func(c *C) *Running {
		c.meet()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.PostInfo("R", "M")
			ch.PostInfo("R", "M") // a repeated event
			ch.SetResult("done")
			return nil
		}, named("create"))
		r.OnDelete(Examples, func(context.Context, *kopf.Change) error { return nil }, named("delete"))
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error { <-ctx.Done(); return nil }, daemonID("daemon"))
		r.OnCreate("kopfstatusexamples.v1.kopf.dev", func(ctx context.Context, ch *kopf.Change) error { ch.SetResult("done"); return nil }, named("create"))
		r.OnEvent("configmaps", ignore, watchedAs("event"))
		kopf.OnIndexIn(r, "secrets", func(context.Context, *kopf.Indexing) (map[string]bool, error) { return nil, nil }, &kopf.IndexOptions{ID: "index"})
		op := c.Operator(r)
		c.Create("a", nil)
		c.Of("kopf.dev/v1", "KopfStatusExample").Create("b", nil)
		c.handled("a")
		c.held("a")
		c.WaitFor("the event", func() bool { return len(op.posted(false)) > 0 })
		c.Delete("a")
		c.gone("a")
		c.Pass(2 * time.Minute)
		op.Stop()
		return op
	}
	allowed := []string{
		"create /events", "patch /events", "list apiextensions.k8s.io/customresourcedefinitions", "watch apiextensions.k8s.io/customresourcedefinitions",
		"list /namespaces", "watch /namespaces", "list kopf.dev/kopfpeerings", "watch kopf.dev/kopfpeerings", "patch kopf.dev/kopfpeerings",
	}
	served := []string{
		"list kopf.dev/kopfexamples", "watch kopf.dev/kopfexamples", "patch kopf.dev/kopfexamples",
		"list kopf.dev/kopfstatusexamples", "watch kopf.dev/kopfstatusexamples", "patch kopf.dev/kopfstatusexamples", "patch kopf.dev/kopfstatusexamples/status",
		"list /configmaps", "watch /configmaps", "list /secrets", "watch /secrets",
	}
	c.Run(t, "OP-169 the framework needs few rights", func(c *C) {
		c.OnlyInBubble("a repetition is told later")
		for _, use := range busy(c).uses() {
			if !slices.Contains(allowed, use) && !slices.Contains(served, use) {
				c.Errorf("the operator has used %q", use)
			}
		}
	})
	c.Run(t, "OP-170 of what it serves, it lists, watches and patches, and nothing else", func(c *C) {
		c.OnlyInBubble("a repetition is told later")
		uses := busy(c).uses()
		for _, use := range served {
			if !slices.Contains(uses, use) {
				c.Errorf("the operator has not used %q", use)
			}
		}
		for _, use := range uses {
			if strings.Contains(use, "configmaps") && strings.HasPrefix(use, "patch") || strings.HasPrefix(use, "get ") || strings.HasPrefix(use, "update ") || strings.HasPrefix(use, "delete ") {
				c.Errorf("the operator has used %q", use)
			}
		}
	})
	c.Run(t, "OP-171 the roles of the examples have what operators use", func(c *C) {
		rules := granted(c)
		for _, use := range append(slices.Clone(allowed), "list kopf.dev/kopfexamples", "watch kopf.dev/kopfexamples", "patch kopf.dev/kopfexamples", "patch kopf.dev/kopfexamples/status",
			"list kopf.dev/clusterkopfpeerings", "patch kopf.dev/clusterkopfpeerings", "patch admissionregistration.k8s.io/validatingwebhookconfigurations") {
			if !strings.Contains(use, "/kopfpeerings") && !slices.Contains(rules, use) { // the example for one namespace has no peering
				c.Errorf("%q is not granted", use)
			}
		}
		var names []string
		for _, body := range c.manifest("namespaced/rbac.yaml") {
			names = append(names, body.Kind()+" "+body.Name())
		}
		c.same("the names", []string{
			"ServiceAccount " + elected, "Role " + elected, "RoleBinding " + elected, "ClusterRole " + elected + "-default", "ClusterRoleBinding " + elected + "-default",
			"Role " + elected + "-served", "RoleBinding " + elected + "-served",
		}, names)
	})
	c.Run(t, "OP-T52 groups in roles have no versions", func(c *C) {
		rules := granted(c) // it also checks the files
		if !slices.Contains(rules, "patch admissionregistration.k8s.io/mutatingwebhookconfigurations") {
			c.Error("configurations of webhooks are not granted")
		}
	})
}

func samples(t *testing.T, c *C) {
	deployment := func(c *C) *kopf.Body { return c.manifest("namespaced/deployment.yaml")[0] }
	container := func(c *C) map[string]any {
		return deployment(c).Get("spec.template.spec.containers").([]any)[0].(map[string]any)
	}
	c.Run(t, "OP-168 the example of a deployment has two replicas with an election, a rolling update, and a service account", func(c *C) {
		d := deployment(c)
		if d.Spec().Int("replicas") != 2 || d.Spec().String("template.spec.serviceAccountName") != elected {
			c.Errorf("got %v", d.Map())
		}
		if s := d.Spec().View("strategy"); s.String("type") != "RollingUpdate" || s.Int("rollingUpdate.maxSurge") != 1 || s.Int("rollingUpdate.maxUnavailable") != 0 {
			c.Errorf("got the strategy %v, want a replica more and none less", s.Map())
		}
		if args := fmt.Sprint(container(c)["args"]); !strings.Contains(args, "--leader-elect="+elected) {
			c.Errorf("got the arguments %s, want --leader-elect=%s", args, elected)
		}
		if n := len(c.manifest("namespaced/deployment.yaml")); n != 1 {
			c.Errorf("got %d objects, want no services", n)
		}
	})
	c.Run(t, "HA-29 the replicas are on different nodes, which are drained one at a time", func(c *C) {
		labels := deployment(c).Get("spec.template.metadata.labels")
		spread := deployment(c).Get("spec.template.spec.topologySpreadConstraints").([]any)[0].(map[string]any)
		if spread["topologyKey"] != "kubernetes.io/hostname" || fmt.Sprint(spread["labelSelector"].(map[string]any)["matchLabels"]) != fmt.Sprint(labels) {
			c.Errorf("got the constraint %v, want one for nodes and the labels %v", spread, labels)
		}
		budget := c.manifest("namespaced/disruption-budget.yaml")[0]
		if budget.Kind() != "PodDisruptionBudget" || budget.Spec().Int("maxUnavailable") != 1 || fmt.Sprint(budget.Get("spec.selector.matchLabels")) != fmt.Sprint(labels) {
			c.Errorf("got %v, want a budget for the labels %v", budget.Map(), labels)
		}
	})
	c.Run(t, "HA-10 the rights for the Lease are as few as can be", func(c *C) {
		var got []string
		for _, body := range c.manifest("namespaced/rbac.yaml") {
			rules, _ := body.Get("rules").([]any)
			for _, rule := range rules {
				if r := rule.(map[string]any); fmt.Sprint(r["resources"]) == "[leases]" {
					got = append(got, fmt.Sprint(body.Kind(), " ", r["apiGroups"], r["verbs"], r["resourceNames"]))
				}
			}
		}
		c.same("the rules", []string{"Role [coordination.k8s.io] [create] <nil>", "Role [coordination.k8s.io] [get update] [" + elected + "]"}, got)
	})
	c.Run(t, "OP-172 it has a liveness probe, and time to end", func(c *C) {
		if grace := deployment(c).Spec().Int("template.spec.terminationGracePeriodSeconds"); grace < int64(kopf.NewSettings().Queueing.ExitTimeout/time.Second) {
			c.Errorf("got %d s to end", grace)
		}
		one := container(c)
		path := fmt.Sprint(one["livenessProbe"].(map[string]any)["httpGet"].(map[string]any)["path"])
		if !strings.Contains(fmt.Sprint(one["args"]), path) {
			c.Errorf("got %v", one)
		}
	})
	c.Run(t, "OP-T7 the time to end is told beside the grace period", func(c *C) {
		if s := kopf.NewSettings(); s.Queueing.ExitTimeout != 2*time.Second {
			c.Errorf("handlers have %s to end", s.Queueing.ExitTimeout)
		}
		if grace := deployment(c).Spec().Int("template.spec.terminationGracePeriodSeconds"); grace != 30 {
			c.Errorf("the example has %d s", grace)
		}
	})
	c.Run(t, "OP-173 its pod tells its name", func(c *C) {
		env := container(c)["env"].([]any)[0].(map[string]any)
		if env["name"] != "POD_ID" || fmt.Sprint(env["valueFrom"]) != "map[fieldRef:map[fieldPath:metadata.name]]" {
			c.Errorf("got %v", env)
		}
	})
	c.Run(t, "OP-175 an object is let go by hand", func(c *C) {
		r := &kopf.Registry{}
		r.OnDelete(Examples, func(context.Context, *kopf.Change) error { return nil }, named("delete"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.held("a")
		op.Stop()
		c.Delete("a")
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": []any{}}})
		c.gone("a")
	})
	c.Run(t, "OP-176 the sample kind and object are those of the original", func(c *C) {
		crd, obj := c.manifest("crd.yaml")[0], c.manifest("obj.yaml")[0]
		c.same("the names", map[string]any{"kind": "KopfExample", "plural": "kopfexamples", "singular": "kopfexample", "shortNames": []any{"kopfexes", "kopfex", "kexes", "kex"}}, crd.Get("spec.names"))
		if crd.Name() != "kopfexamples.kopf.dev" || crd.Spec().String("scope") != "Namespaced" {
			c.Errorf("got %s, %s", crd.Name(), crd.Spec().String("scope"))
		}
		version := crd.Get("spec.versions").([]any)[0].(map[string]any)
		var columns []string
		for _, column := range version["additionalPrinterColumns"].([]any) {
			columns = append(columns, fmt.Sprint(column.(map[string]any)["name"], " ", column.(map[string]any)["jsonPath"]))
		}
		c.same("the columns", []string{"Duration .spec.duration", "Children .status.create_fn.children", "Message .status.create_fn.message"}, columns)
		if version["subresources"] == nil || version["name"] != "v1" {
			c.Errorf("got the version %v", version)
		}
		c.same("the spec", map[string]any{"duration": "1m", "field": "value", "items": []any{"item1", "item2"}}, obj.Spec().Map())
		if obj.Name() != "kopf-example-1" || obj.Labels()["somelabel"] != "somevalue" || obj.Annotations()["someannotation"] != "somevalue" {
			c.Errorf("got %s %v %v", obj.Name(), obj.Labels(), obj.Annotations())
		}
	})
	c.Run(t, "OP-177 there are all the examples", func(c *C) {
		root := "../../examples"
		if _, err := os.Stat(root); err != nil {
			root = "../examples"
		}
		for _, name := range []string{
			"01-minimal", "02-children", "03-exceptions", "04-events", "05-handlers", "06-peering", "07-subhandlers", "08-events", "09-testing", "10-builtins",
			"11-filtering-handlers", "12-embedded", "13-hooks", "14-daemons", "15-timers", "16-indexing", "17-admission", "99-all-at-once",
		} {
			if _, err := os.Stat(filepath.Join(root, name, "main.go")); err != nil {
				c.Error(err)
			}
		}
	})
}

func settings(t *testing.T, c *C) {
	c.Run(t, "OP-47 every setting has its default, and can be set", func(c *C) {
		want := map[string]any{
			"Process.UltimateExitingTimeout": 10 * time.Minute, "Posting.Enabled": true, "Posting.Loggers": false, "Posting.Level": slog.LevelInfo,
			"Posting.ReportingComponent": "kopf", "Posting.ReportingInstance": "dev", "Posting.EventNamePrefix": "kopf-event-",
			"Peering.Name": "default", "Peering.Stealth": false, "Peering.Priority": 0, "Peering.Lifetime": time.Minute, "Peering.Mandatory": false,
			"Peering.Standalone": false, "Peering.Clusterwide": false,
			"Watching.ServerTimeout": time.Duration(0), "Watching.ClientTimeout": time.Duration(0), "Watching.ConnectTimeout": time.Duration(0),
			"Watching.ReconnectBackoff": 100 * time.Millisecond, "Watching.InactivityTimeout": 70 * time.Second,
			"Queueing.WorkerLimit": 0, "Queueing.ExitTimeout": 2 * time.Second,
			"Queueing.ErrorDelays": secondsOf(1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610),
			"Scanning.Disabled":    false, "Admission.Server": nil, "Admission.Managed": "", "Execution.DefaultBackoff": time.Minute,
			"Background.CancellationPolling": time.Minute, "Background.InstantExitTimeout": 100 * time.Millisecond,
			"Networking.RequestTimeout": 5 * time.Minute, "Networking.ConnectTimeout": time.Duration(0), "Networking.ErrorBackoffs": secondsOf(1, 1, 2, 3, 5, 8, 13, 21),
			"Networking.EnforceRetryAfter": false, "Networking.TrustEnv": false,
			"Persistence.Finalizer": "kopf.zalando.org/KopfFinalizerMarker", "Persistence.ConsistencyTimeout": 5 * time.Second,
		}
		for path, value := range want {
			group, name, _ := strings.Cut(path, ".")
			field := reflect.ValueOf(kopf.NewSettings()).Elem().FieldByName(group).FieldByName(name)
			if !field.IsValid() || !field.CanSet() {
				c.Errorf("there is no setting %s", path)
				continue
			}
			if got := field.Interface(); fmt.Sprint(got) != fmt.Sprint(value) {
				c.Errorf("%s: got %v, want %v", path, got, value)
			}
		}
		s := kopf.NewSettings().Persistence
		if s.Storage != kopf.InAnnotations || reflect.TypeOf(s.ProgressStorage) != reflect.TypeFor[*kopf.SmartProgressStorage]() || reflect.TypeOf(s.DiffBaseStorage) != reflect.TypeFor[*kopf.SmartDiffBaseStorage]() {
			c.Errorf("the storage is %v, with %T and %T", s.Storage, s.ProgressStorage, s.DiffBaseStorage)
		}
	})
	c.Run(t, "OP-T13 time-outs of the server are whole seconds", func(c *C) {
		op := c.Operator(eventful(), func(op *kopf.Operator) { op.Settings.Watching.ServerTimeout = 90500 * time.Millisecond })
		c.WaitFor("the watch", func() bool { watched, _ := op.queries(c.examplesPath()); return len(watched) > 0 })
		if watched, _ := op.queries(c.examplesPath()); watched[0].Get("timeoutSeconds") != "91" {
			c.Errorf("got %v", watched[0])
		}
	})
	c.Run(t, "OP-T5 what stops an operator holds nothing", func(c *C) {
		ctx, cancel := context.WithCancel(c.Context())
		defer cancel()
		r := &kopf.Registry{}
		r.OnStartup(func(context.Context, *kopf.Activity) error { return kopf.Permanent(errOops) }, id("startup"))
		op, _, _ := c.operatorOn(r)
		if err := op.Run(ctx); err == nil { // it ends with another error, and the bubble checks for remaining goroutines
			c.Error("got no error")
		}
	})
	c.Run(t, "OP-T9 the context of an attempt ends with the time of the handler", func(c *C) {
		c.OnlyInBubble("it waits")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			began := time.Now()
			<-ctx.Done()
			l.add("ended after %s", time.Since(began))
			return ctx.Err()
		}, &kopf.ChangeOptions{ID: "create", Timeout: 7 * time.Second})
		c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the end", func() bool { return len(l.all()) > 0 })
		c.expect(&l, "ended after 7s")
	})
	c.Run(t, "OP-T11 a registry of one's own has the built-in logins", func(c *C) {
		path := filepath.Join(c.TempDir(), "config")
		c.writeFile(path, []byte("{current-context: c, contexts: [], clusters: [], users: []}"))
		op, _, _ := c.operatorOn(&kopf.Registry{})
		op.Connection, op.Kubeconfig = nil, path
		if err := op.Run(c.Context()); err == nil || !strings.Contains(err.Error(), `the context "c" does not exist`) {
			c.Errorf("got %v, want the complaint of the built-in login", err)
		}
	})
	c.Run(t, "OP-T23 what comes from logs has the reason Logging", func(c *C) {
		op := c.posts(func(ch *kopf.Change) { ch.Logger.Info("told") }, func(op *kopf.Operator) { op.Settings.Posting.Loggers = true })
		c.WaitFor("the posts", func() bool { return len(op.posted(true)) >= 3 })
		for _, p := range op.posted(true) {
			if p.Reason != "Logging" {
				c.Errorf("got %s", p)
			}
		}
	})
	c.Run(t, "OP-T45 null is absent", func(c *C) {
		body, err := kopf.NewBody(map[string]any{"kind": "X", "spec": nil, "status": nil, "metadata": map[string]any{"labels": nil, "annotations": nil, "finalizers": nil}})
		if err != nil {
			c.Fatal(err)
		}
		if body.Spec().Len()+body.Status().Len()+len(body.Labels())+len(body.Annotations())+len(body.Finalizers()) > 0 || body.Spec().Has("x") {
			c.Errorf("got something of %v", body.Map())
		}
	})
	c.Run(t, "OP-T46 a null takes one key away, and not its stanza", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			ch.Patch.Remove("spec.only")
			ch.Patch.Transform(func(object map[string]any) error { object["other"] = true; return nil }) // all of it becomes a JSON patch
			return nil
		}, named("create"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"only": 1}))
		c.WaitFor("the patch", func() bool { return !c.Get("a").Has("spec.only") })
		if !c.Get("a").Has("spec") {
			c.Error("the stanza is gone")
		}
	})
	c.Run(t, "OP-T47 objects without a uid have memos of their own", func(c *C) {
		c.OnlyInBubble("the real server gives uids")
		object := func(name string) string {
			return fmt.Sprintf(`{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"name":%q,"namespace":%q,"resourceVersion":"5"}}`, name, c.Namespace)
		}
		var l calls
		r := &kopf.Registry{}
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			_, known := e.Memo().Load("known")
			e.Memo().Store("known", true)
			l.add("%s %t", e.Name(), known)
			return nil
		}, watchedAs("event"))
		c.Operator(r, c.scripted(`{"kind":"KopfExampleList","apiVersion":"kopf.dev/v1","metadata":{"resourceVersion":"10"},"items":[`+object("a")+","+object("b")+`]}`))
		c.WaitFor("both", func() bool { return len(l.all()) == 2 })
		if l.count("a false") != 1 || l.count("b false") != 1 {
			c.Errorf("got %q", l.all())
		}
	})
	c.Run(t, "OP-T48 what is split by keys is of the type that says so", func(c *C) {
		r := &kopf.Registry{}
		whole := kopf.OnIndexIn(r, Examples, func(ctx context.Context, i *kopf.Indexing) (map[string]map[string]any, error) {
			return map[string]map[string]any{"spec": i.Spec().Map()}, nil
		}, &kopf.IndexOptions{ID: "whole"})
		got := make(chan map[string]any, 10)
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			got <- whole.Get(ch, "spec")[0]
			return nil
		}, named("create"))
		c.Operator(r)
		c.Create("a", spec(map[string]any{"x": "1", "y": "2"}))
		c.same("the value", map[string]any{"x": "1", "y": "2"}, <-got)
	})
	c.Run(t, "OP-T49 patterns that cannot be served are told", func(c *C) {
		op := c.Operator(eventful(), alone, func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace, "[abc]*"} })
		want := []string{"WARN Serving only the namespaces given by exact names, because namespaces are not listed"}
		if got := op.Logs.messages("Serving only the namespaces"); !slices.Equal(got, want) {
			c.Errorf("got the lines %q, want %q", got, want)
		}
	})
}

func secondsOf(counts ...int) (all []time.Duration) {
	for _, n := range counts {
		all = append(all, time.Duration(n)*time.Second)
	}
	return all
}
