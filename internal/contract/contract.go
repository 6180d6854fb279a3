// Package contract proves the statements of the pages in this folder through the public API alone. The same suites run on the embedded API server, by
// the test of this package, and on a real one, by the module e2e. On the embedded server, each leaf has its own server inside a synctest bubble, where
// hours take no time. On a real server, it has its own namespace, and time passes as usual. A suite is a variable of its file:
//
//	var _ = Suite("change_causes", func(t *testing.T, c *C) {
//		c.Run(t, "CH-12 handlers run once", func(c *C) {
//			c.Operator(registry)
//			c.Create("a", nil)
//			c.WaitFor("the status", func() bool { return … })
//		})
//	})
package contract

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// Judge is a server that the suites run on.
type Judge struct {
	// Open returns a connection to a server with the kinds of [Manifests], with an HTTPClient, and an existing namespace for the leaf. It is called
	// for each leaf, inside its bubble if there is one. It stops its server by t.Cleanup.
	Open opener
	// OpenAlone is like Open, for the suites that need a real server for themselves. There is a function for each of several
	// servers, which divide these suites between them, and run them alongside the others. Default: Open alone.
	OpenAlone []opener
	// Bubble reports whether each leaf runs in a synctest bubble, with its own clock. Its server can fail, too.
	Bubble bool
}

type opener = func(t testing.TB) (info *kopf.ConnectionInfo, namespace string)

// suite is a function that runs leaves.
type suite struct {
	run     func(t *testing.T, c *C)
	serial  bool // whether it has to run alone
	cluster bool // whether it has to run alone on a server that the suites share
}

var suites = map[string]suite{}

// Suite registers a suite, which runs in parallel with others. Its result has no meaning. See the package comment.
func Suite(name string, run func(t *testing.T, c *C)) struct{} {
	return register(name, suite{run: run})
}

// SerialSuite registers a suite that no other one may run alongside, because it changes or measures the process: its
// environment, default registry, memory or goroutines.
func SerialSuite(name string, run func(t *testing.T, c *C)) struct{} {
	return register(name, suite{run: run, serial: true})
}

// ClusterSuite registers a suite that runs alone on a real server, because its operators or webhooks are for the whole cluster.
func ClusterSuite(name string, run func(t *testing.T, c *C)) struct{} {
	return register(name, suite{run: run, cluster: true})
}

func register(name string, s suite) struct{} {
	if suites[name].run != nil {
		panic("two suites are named " + name)
	}
	suites[name] = s
	return struct{}{}
}

// Run runs all suites: first the serial ones, and then the others in parallel. Alongside those, each of the servers of
// OpenAlone runs suites for the whole cluster, one after the other.
func Run(t *testing.T, j *Judge) {
	names := slices.Sorted(maps.Keys(suites))
	isAlone := func(name string) bool { return !j.Bubble && suites[name].cluster && !suites[name].serial }
	if slices.ContainsFunc(names, isAlone) {
		t.Run("alone", func(t *testing.T) { // the first one, because it takes longest
			t.Parallel()
			j.runAlone(t, slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isAlone(name) }))
		})
	}
	for _, name := range names {
		s := suites[name]
		switch {
		case s.serial:
			t.Run(name, func(t *testing.T) {
				c := j.suite(t, name)
				c.open, c.alone = j.alone()[0], true
				s.run(t, c)
			})
		case !isAlone(name):
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := j.suite(t, name)
				c.parallel = true
				s.run(t, c)
			})
		}
	}
}

// alone returns the functions for the suites that need a server for themselves.
func (j *Judge) alone() []opener {
	if len(j.OpenAlone) == 0 {
		return []opener{j.Open}
	}
	return j.OpenAlone
}

// runAlone runs suites on the servers of OpenAlone, each on the next server that has nothing to do.
func (j *Judge) runAlone(t *testing.T, names []string) {
	queue := make(chan string, len(names))
	for _, name := range names {
		queue <- name
	}
	close(queue)
	var servers sync.WaitGroup
	for _, open := range j.alone() {
		servers.Go(func() {
			for name := range queue {
				t.Run(name, func(t *testing.T) {
					c := j.suite(t, name)
					c.open, c.alone, c.parallel = open, true, true
					suites[name].run(t, c)
				})
			}
		})
	}
	servers.Wait()
}

// suite returns the harness of a suite. At the end of the suite, the kinds of [C.DefineForSuite] are removed.
func (j *Judge) suite(t *testing.T, name string) *C {
	c := &C{judge: j, open: j.Open, alone: j.Bubble, suite: &suiteKinds{name: name}}
	t.Cleanup(func() { c.suite.remove(t) })
	return c
}

// C is the harness of a suite and its leaves. That of a suite can only run leaves.
type C struct {
	testing.TB
	// Kind is the kind of the objects in most leaves: KopfExample, in the leaf's namespace.
	*Kind
	// Namespace is the leaf's own namespace.
	Namespace string
	// Client is the client of the test, for requests that the verbs do not support.
	Client *kopf.Client

	judge    *Judge
	open     opener
	suite    *suiteKinds
	alone    bool // whether no other leaf uses the server
	parallel bool // whether other suites run at the same time
	info     *kopf.ConnectionInfo
	lines    *bufferedLines
}

// Run runs a leaf. Its name begins with the id of the statement or trap that it proves.
func (c *C) Run(t *testing.T, name string, leaf func(c *C)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		if !c.judge.Bubble {
			c.run(t, leaf)
			return
		}
		synctest.Test(t, func(t *testing.T) { c.run(t, leaf) })
	})
}

func (c *C) run(t *testing.T, leaf func(c *C)) {
	info, namespace := c.open(t)
	client, err := kopf.NewClient(info, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(info.HTTPClient.CloseIdleConnections)
	own := &C{TB: t, Namespace: namespace, Client: client, judge: c.judge, open: c.open, suite: c.suite, alone: c.alone, parallel: c.parallel, info: info, lines: &bufferedLines{}}
	own.Kind = own.Of("kopf.dev/v1", "KopfExample")
	t.Cleanup(func() { own.lines.printIf(t.Failed()) })
	leaf(own)
}

// ConnectionInfo returns a connection to the server with all permissions.
func (c *C) ConnectionInfo() *kopf.ConnectionInfo {
	info := *c.info
	return &info
}

// changesProcess fails the leaf if its suite can run alongside others, which the change of the process would have an effect on.
func (c *C) changesProcess() {
	c.Helper()
	if c.parallel {
		c.Fatal("the leaf changes the process: make its suite a SerialSuite")
	}
}

// InBubble reports whether the leaf runs in a synctest bubble with its own server.
func (c *C) InBubble() bool { return c.judge.Bubble }

// late reports whether a duration is above its limit. On a real server, a busy machine can make everything late.
func (c *C) late(passed, limit time.Duration) bool { return c.judge.Bubble && passed > limit }

// OnlyInBubble skips the leaf on the real server. The reason is why the leaf makes no sense there, or takes too long.
func (c *C) OnlyInBubble(why string) {
	c.Helper()
	if !c.judge.Bubble {
		c.Skip(why)
	}
}

// NotShort skips the leaf with -short. The reason is what takes long under the race detector, and is not concurrent.
func (c *C) NotShort(why string) {
	c.Helper()
	if testing.Short() {
		c.Skip(why)
	}
}

// patience is the timeout of WaitFor. In a bubble, waiting costs nothing.
func (c *C) patience() time.Duration {
	if c.judge.Bubble {
		return 24 * time.Hour
	}
	return 30 * time.Second
}

// WaitFor waits until the condition holds. In a bubble, it evaluates the condition whenever all goroutines wait. It does so less and less often, so
// that its delay is at most a fiftieth of the waiting time.
func (c *C) WaitFor(what string, condition func() bool) {
	c.Helper()
	began := time.Now()
	for {
		c.idle()
		if condition() {
			return
		}
		passed := time.Since(began)
		if passed > c.patience() {
			c.Fatalf("%s: not within %s", what, passed.Round(time.Second))
		}
		time.Sleep(max(10*time.Millisecond, passed/50))
	}
}

// Pass lets time pass, to check what happens then, or that nothing happens. More than two seconds are for bubbles only.
func (c *C) Pass(d time.Duration) {
	c.Helper()
	if d > 2*time.Second {
		c.OnlyInBubble("it would take " + d.String())
	}
	time.Sleep(d)
	c.idle()
}

// idle waits until all other goroutines of the bubble are blocked.
func (c *C) idle() {
	if c.judge.Bubble {
		synctest.Wait()
	}
}

// Context returns the context of the leaf.
func (c *C) Context() context.Context { return c.TB.Context() }

// Unique returns a name that no other leaf uses, for cluster-scoped objects.
func (c *C) Unique(suffix string) string { return c.Namespace + "-" + suffix }

// Manifests returns the kinds that all suites can use: KopfExample with neither schema nor subresources, KopfStatusExample with the subresource
// status, KopfClusterExample outside of namespaces.
func Manifests() []map[string]any {
	return []map[string]any{
		definition("kopfexamples", "KopfExample", "Namespaced", nil),
		definition("kopfstatusexamples", "KopfStatusExample", "Namespaced", map[string]any{"status": map[string]any{}}),
		definition("kopfclusterexamples", "KopfClusterExample", "Cluster", nil),
	}
}

// Examples selects the KopfExamples only.
const Examples kopf.Selector = "kopfexamples.v1.kopf.dev"

func definition(plural, kind, scope string, subresources map[string]any) map[string]any {
	version := map[string]any{
		"name": "v1", "served": true, "storage": true,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
	}
	if subresources != nil {
		version["subresources"] = subresources
	}
	short := map[string]string{"kopfexamples": "kex", "kopfstatusexamples": "ksx", "kopfclusterexamples": "kcx"}[plural]
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".kopf.dev"},
		"spec": map[string]any{
			"group": "kopf.dev", "scope": scope, "versions": []any{version},
			"names": map[string]any{
				"plural": plural, "kind": kind, "singular": strings.ToLower(kind), "listKind": kind + "List",
				"shortNames": []any{cmp.Or(short, plural)},
			},
		},
	}
}
