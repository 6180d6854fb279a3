package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how operators pause for each other, in 4-operator-and-kits.md.

var _ = ClusterSuite("peering", func(t *testing.T, c *C) {
	places(t, c)
	recording(t, c)
	modes(t, c)
})

// peeringKind defines a kind of peering objects, in namespaces or with "Cluster". On a real server, it waits at the end until the kind is gone, so
// that the next leaf can define it.
func (c *C) peeringKind(group, scope string, subresources map[string]any) *Kind {
	c.Helper()
	d := c.peeringDefinition(group, scope, subresources)
	name := d["metadata"].(map[string]any)["name"].(string)
	if _, ok := c.suite.defined[name]; ok {
		c.Fatalf("the kind %s has stayed since an earlier leaf: call noPeering first", name)
	}
	if !c.InBubble() {
		ref := kopf.ObjectReference{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: name}
		c.Cleanup(func() { waitGone(contextWithout(c.Context()), c, c.Client, ref) })
	}
	c.Define(d)
	return c.Of(group+"/v1", d["spec"].(map[string]any)["names"].(map[string]any)["kind"].(string))
}

func (c *C) peeringDefinition(group, scope string, subresources map[string]any) map[string]any {
	c.Helper()
	if !c.alone {
		c.Fatal("the kind of peering has an effect on all operators: make the suite a ClusterSuite")
	}
	kind := map[string]string{"Namespaced": "KopfPeering", "Cluster": "ClusterKopfPeering"}[scope]
	plural := strings.ToLower(kind) + "s"
	d := definition(plural, kind, scope, subresources)
	d["metadata"].(map[string]any)["name"] = plural + "." + group
	d["spec"].(map[string]any)["group"] = group
	return d
}

// meet creates the peering object "default" in the leaf's namespace. On a real server, its kind stays for the following leaves.
func (c *C) meet() *Kind {
	c.Helper()
	c.DefineForSuite(c.peeringDefinition("kopf.dev", "Namespaced", nil))
	k := c.Of("kopf.dev/v1", "KopfPeering")
	k.Create("default", nil)
	return k
}

// noPeering is for leaves that begin without a kind of peering objects.
func (c *C) noPeering() { c.suite.remove(c) }

// sit writes a record to the default peering object, or removes it.
func (k *Kind) sit(id string, record any) {
	k.c.Helper()
	k.Patch("default", map[string]any{"status": map[string]any{id: record}})
}

// The record of another operator, with a lifetime in seconds.
func rival(priority, lifetime int) map[string]any { return rivalSeen(priority, lifetime, time.Now()) }

func rivalSeen(priority, lifetime int, seen time.Time) map[string]any {
	return map[string]any{"priority": priority, "lifetime": lifetime, "lastseen": seen.UTC().Format("2006-01-02T15:04:05.000000+00:00")}
}

// as sets the identity of an operator.
func as(id string) func(*kopf.Operator) { return func(op *kopf.Operator) { op.Identity = id } }

func mandatory(op *kopf.Operator) { op.Settings.Peering.Mandatory = true }

// seats returns the identities in a peering object.
func (k *Kind) seats(name string) []string {
	k.c.Helper()
	keys := k.Get(name).Status().Keys()
	slices.Sort(keys)
	return keys
}

// worker returns a creation handler that records the names of its objects.
func worker(l *calls) *kopf.Registry {
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
		l.add("%s", ch.Name())
		return nil
	}, named("create"))
	return r
}

// peered returns the requests of an operator that write records, as texts.
func peered(op *Running) (all []Request) {
	for _, r := range op.Wire.Requests("PATCH") {
		if strings.Contains(r.Path, "kopfpeerings/") {
			all = append(all, r)
		}
	}
	return all
}

// works creates an object, and fails if the operator does not handle it. idles fails if the operator handles it.
func (c *C) works(l *calls, name string) {
	c.Helper()
	c.Create(name, nil)
	c.WaitFor("the handling of "+name, func() bool { return slices.Contains(l.all(), name) })
}

func (c *C) idles(l *calls, name string) {
	c.Helper()
	c.Create(name, nil)
	c.Pass(time.Second)
	if slices.Contains(l.all(), name) {
		c.Errorf("%s was handled in the pause", name)
	}
}

func places(t *testing.T, c *C) {
	c.Run(t, "OP-75 today's and the legacy group are used at the same time", func(c *C) {
		first, second := c.meet(), c.peeringKind("zalando.org", "Namespaced", nil)
		second.Create("default", nil)
		var l calls
		op := c.Operator(worker(&l), as("me"))
		for _, k := range []*Kind{first, second} {
			c.WaitFor("the record", func() bool { return slices.Equal(k.seats("default"), []string{"me"}) })
		}
		c.works(&l, "a")
		second.sit("boss", rival(1, 3600))
		c.paused(op, 1)
		first.sit("boss", rival(1, 3600))
		second.sit("boss", nil)
		c.Pass(time.Second)
		c.idles(&l, "b")
		first.sit("boss", nil)
		c.WaitFor("b", func() bool { return slices.Contains(l.all(), "b") })
	})
	c.Run(t, "OP-T34 the legacy group is zalando.org", func(c *C) {
		c.noPeering()
		k := c.peeringKind("zalando.org", "Namespaced", nil)
		k.Create("default", nil)
		c.Operator(&kopf.Registry{}, as("me"))
		c.WaitFor("the record", func() bool { return slices.Equal(k.seats("default"), []string{"me"}) })
	})
	c.Run(t, "OP-76 operators create no peering objects", func(c *C) {
		k := c.meet()
		op := c.Operator(&kopf.Registry{}, as("me"), func(op *kopf.Operator) { op.Settings.Peering.Name = "other" })
		c.Pass(time.Second)
		if got := k.List(); len(got) != 1 || got[0].Name() != "default" {
			c.Errorf("got %d peering objects, want that none is created", len(got))
		}
		for _, r := range op.Wire.Requests("POST") {
			c.Errorf("the operator has created something: %s", r.Path)
		}
	})
	c.Run(t, "OP-77 the kind is that of the scope, and the name and the namespace keep peerings apart", func(c *C) {
		k := c.meet()
		cluster := c.peeringKind("kopf.dev", "Cluster", nil)
		cluster.Create(c.Unique("main"), nil)
		k.Create(c.Unique("main"), nil)
		named := func(op *kopf.Operator) { op.Settings.Peering.Name = c.Unique("main") }
		c.Operator(&kopf.Registry{}, as("inside"), named)
		c.Operator(&kopf.Registry{}, as("all"), named, func(op *kopf.Operator) { op.Namespaces = nil })
		startup := &kopf.Registry{}
		startup.OnStartup(func(_ context.Context, a *kopf.Activity) error {
			a.Settings.Peering.Clusterwide = true
			return nil
		}, id("s"))
		c.Operator(startup, as("against"), named)
		c.WaitFor("the records", func() bool {
			return slices.Equal(k.seats(c.Unique("main")), []string{"inside"}) && slices.Equal(cluster.seats(c.Unique("main")), []string{"against", "all"})
		})
		if got := k.seats("default"); len(got) != 0 {
			c.Errorf("got the records %q in another object", got)
		}
	})
	c.Run(t, "OP-T10 peering objects in namespaces make no sense for the whole cluster", func(c *C) {
		startup := &kopf.Registry{}
		startup.OnStartup(func(_ context.Context, a *kopf.Activity) error {
			a.Settings.Peering.Clusterwide = false
			return nil
		}, id("s"))
		op, _, _ := c.operatorOn(startup)
		op.Namespaces = nil
		if err := op.Run(c.Context()); err == nil || !strings.Contains(err.Error(), "invalid Settings.Peering.Clusterwide false") {
			c.Errorf("got %v, want an error that names the setting", err)
		}
	})
	c.Run(t, "OP-88 other objects of the kind are ignored", func(c *C) {
		k := c.meet()
		k.Create("other", map[string]any{"status": map[string]any{"boss": rival(100, 3600)}})
		var l calls
		op := c.Operator(worker(&l), as("me"))
		c.works(&l, "a")
		k.Patch("other", map[string]any{"status": map[string]any{"boss2": rival(100, 3600)}})
		c.Pass(time.Second)
		c.works(&l, "b")
		if got := op.Logs.Find("other"); len(got) != 0 {
			c.Errorf("got lines about another object: %v", got)
		}
	})
	c.Run(t, "OP-93 a conflict in one namespace pauses all, until there is none left", func(c *C) {
		c.OnlyInBubble("it needs more namespaces")
		k := c.meet()
		c.Of("v1", "Namespace").Create("leaf2", nil)
		second := *k
		other := *c
		other.Namespace = "leaf2"
		second.c = &other
		second.Create("default", nil)
		var l calls
		op := c.Operator(worker(&l), as("me"), func(op *kopf.Operator) { op.Namespaces = []string{"leaf*"} })
		c.works(&l, "a")
		second.sit("boss", rival(1, 3600))
		c.paused(op, 2)
		k.sit("boss", rival(1, 3600))
		c.idles(&l, "b")
		k.sit("boss", nil) // the later one
		c.idles(&l, "c")
		second.sit("boss", nil)
		c.WaitFor("b and c", func() bool { return slices.Contains(l.all(), "b") && slices.Contains(l.all(), "c") })
		if got := second.seats("default"); !slices.Equal(got, []string{"me"}) {
			c.Errorf("got the records %q in the other namespace", got)
		}
	})
	c.Run(t, "OP-87 the record is removed when a namespace is not served any more", func(c *C) {
		c.OnlyInBubble("it needs more namespaces")
		k := c.meet()
		spaces := c.Of("v1", "Namespace")
		spaces.Create("leaf2", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/hold"}}})
		other := *c
		other.Namespace = "leaf2"
		second := *k
		second.c = &other
		second.Create("default", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/hold"}}, "status": map[string]any{"boss": rival(5, 3600)}})
		var l calls
		op := c.Operator(worker(&l), as("me"), func(op *kopf.Operator) { op.Namespaces = []string{"leaf*"} })
		c.paused(op, 1)
		spaces.Delete("leaf2")
		spaces.PatchStatus("leaf2", map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "X", "status": "False"}}}})
		c.WaitFor("the end of the record", func() bool { return slices.Equal(second.seats("default"), []string{"boss"}) })
		c.works(&l, "a") // the earlier decision no longer applies
	})
}

func recording(t *testing.T, c *C) {
	c.Run(t, "OP-78 a record is the priority, the lifetime and the time", func(c *C) {
		k := c.meet()
		c.Operator(&kopf.Registry{}, as("user@host/20201231235959/a1b"), func(op *kopf.Operator) {
			op.Settings.Peering.Priority, op.Settings.Peering.Lifetime = 7, 90*time.Second
		})
		c.WaitFor("the record", func() bool { return len(k.seats("default")) == 1 })
		raw, err := json.Marshal(k.Get("default").Status())
		if err != nil {
			c.Fatal(err)
		}
		m := regexp.MustCompile(`^{"user@host/20201231235959/a1b":{(.*)"lastseen":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00)"(.*)}}$`).FindStringSubmatch(string(raw))
		if m == nil {
			c.Fatalf("got the status %s", raw)
		}
		rest := strings.Split(strings.Trim(m[1]+m[3], ","), ",")
		slices.Sort(rest)
		c.same("the other fields", []string{`"lifetime":90`, `"priority":7`}, rest)
		seen, err := time.Parse(time.RFC3339, m[2])
		if passed := time.Since(seen); err != nil || passed < 0 || passed > 30*time.Second {
			c.Errorf("the record is of %s (%v), want of now", seen, err)
		}
	})
	c.Run(t, "OP-79 records are merged into the object, or into its status subresource, one at a time", func(c *C) {
		c.noPeering()
		for _, subresource := range []bool{false, true} {
			var subresources map[string]any
			group, suffix := "kopf.dev", ""
			if subresource {
				group, suffix, subresources = "zalando.org", "/status", map[string]any{"status": map[string]any{}}
			}
			k := c.peeringKind(group, "Namespaced", subresources)
			k.Create("default", nil)
			if subresource {
				k.PatchStatus("default", map[string]any{"status": map[string]any{"low": rival(-1, 3600)}})
			} else {
				k.sit("low", rival(-1, 3600))
			}
			op := c.Operator(&kopf.Registry{}, as("me"))
			c.WaitFor("the record", func() bool { return slices.Equal(k.seats("default"), []string{"low", "me"}) })
			op.Stop()
			c.same("the records that are left", []string{"low"}, k.seats("default"))
			var got []Request
			for _, r := range peered(op) {
				if strings.Contains(r.Path, group) {
					got = append(got, r)
				}
			}
			path := fmt.Sprintf("/apis/%s/v1/namespaces/%s/kopfpeerings/default%s", group, c.Namespace, suffix)
			if len(got) != 2 || got[0].Path != path || got[0].ContentType != "application/merge-patch+json" ||
				!strings.HasPrefix(got[0].Body, `{"status":{"me":{`) || strings.Contains(got[0].Body, "low") ||
				got[1].Body != `{"status":{"me":null}}` || got[1].ContentType != "application/merge-patch+json" {
				c.Errorf("got the requests %v", got)
			}
		}
	})
	c.Run(t, "OP-85 the record is renewed a little before it dies", func(c *C) {
		c.OnlyInBubble("the intervals are long")
		k := c.meet()
		for _, tt := range []struct{ lifetime, least, most int }{{60, 50, 55}, {9, 1, 4}, {3, 1, 1}} {
			op := c.Operator(&kopf.Registry{}, as("me"), func(op *kopf.Operator) {
				op.Settings.Peering.Lifetime = time.Duration(tt.lifetime) * time.Second
				op.Settings.Peering.Priority = 5
			})
			k.sit("low", rival(4, 36000))
			if tt.lifetime == 60 { // during a pause, too
				k.sit("boss", rival(100, 900))
			}
			c.Pass(30 * time.Minute)
			all := peered(op)
			different := map[time.Duration]bool{}
			for i := 1; i < len(all); i++ {
				passed := all[i].Time.Sub(all[i-1].Time).Round(time.Second)
				expiry := tt.lifetime == 60 && all[i].Time.Sub(all[0].Time).Round(time.Minute) == 15*time.Minute
				if different[passed] = true; !expiry && (passed < time.Duration(tt.least)*time.Second || passed > time.Duration(tt.most)*time.Second) {
					c.Errorf("with the lifetime %ds, the record was renewed after %s, %s after the first: %s", tt.lifetime, passed, all[i].Time.Sub(all[0].Time), all[i].Body)
				}
			}
			if len(all) < 1800/tt.most-1 || tt.least != tt.most && len(different) < 3 {
				c.Errorf("with the lifetime %ds, got %d records in 30 minutes, in the intervals %v", tt.lifetime, len(all), different)
			}
			op.Stop()
		}
	})
	c.Run(t, "OP-86 keep-alives are logged for those who debug, but not in stealth", func(c *C) {
		k := c.meet()
		op := c.Operator(&kopf.Registry{})
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("Keep-alive in peering \"default\" of kopfpeerings")) == 1 })
		line := op.Logs.Find("Keep-alive")[0]
		if line.Level.String() != "DEBUG" || line.Attrs["result"] != "ok" || !strings.Contains(line.Message, " in "+c.Namespace) {
			c.Errorf("got %v", line)
		}
		op.Stop()
		stealth := func(op *kopf.Operator) { op.Settings.Peering.Stealth = true }
		op = c.Operator(&kopf.Registry{}, as("me"), stealth)
		c.WaitFor("the record", func() bool { return len(k.seats("default")) == 1 })
		c.Pass(time.Second)
		if got := op.Logs.Find("Keep-alive"); len(got) != 0 {
			c.Errorf("got %v in stealth", got)
		}
		op.Stop()
		k.Delete("default")
		op = c.Operator(&kopf.Registry{}, as("me"), stealth)
		c.WaitFor("the line", func() bool {
			got := op.Logs.Find("Keep-alive")
			return len(got) == 1 && got[0].Level.String() == "DEBUG" && got[0].Attrs["result"] == "not found"
		})
	})
	c.Run(t, "OP-86 the keep-alive goes on without the object", func(c *C) {
		c.OnlyInBubble("the intervals are long")
		k := c.peeringKind("kopf.dev", "Namespaced", nil)
		c.Operator(&kopf.Registry{}, as("me"))
		c.Pass(time.Minute)
		k.Create("default", nil)
		c.Pass(time.Minute)
		c.same("the records", []string{"me"}, k.seats("default"))
	})
	c.Run(t, "OP-87 a record that cannot be removed is told, and ignored", func(c *C) {
		k := c.meet()
		op := c.Operator(&kopf.Registry{}, as("me"))
		c.WaitFor("the record", func() bool { return len(k.seats("default")) == 1 })
		op.Wire.Fault(func(r *Request) (*http.Response, error) {
			if strings.Contains(r.Body, `"me":null`) {
				return Answer(http.StatusForbidden, "Forbidden", "no"), nil
			}
			return nil, nil
		})
		op.Stop()
		if got := op.Logs.Find("Removing our record from the peering object failed; the record will expire"); len(got) != 1 || got[0].Level.String() != "ERROR" {
			c.Errorf("got %v", got)
		}
	})
	c.Run(t, "OP-87 a record is removed although a connection breaks off", func(c *C) {
		k := c.meet()
		op := c.Operator(&kopf.Registry{}, as("me"))
		c.WaitFor("the record", func() bool { return len(k.seats("default")) == 1 })
		var broken atomic.Bool
		op.Wire.Fault(func(r *Request) (*http.Response, error) {
			if strings.Contains(r.Body, `"me":null`) && broken.CompareAndSwap(false, true) {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, nil
		})
		op.Stop()
		if got := op.Logs.Find("Removing our record from the peering object failed; the record will expire"); !broken.Load() || len(got) > 0 {
			c.Errorf("got %v", got)
		}
		c.same("the records", []string(nil), k.seats("default"))
	})
	c.Run(t, "OP-T25 the record is removed at the very end", func(c *C) {
		c.OnlyInBubble("the intervals are long")
		k := c.meet()
		var l calls
		door := newDoorway()
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error {
			l.add("create")
			<-door.open
			l.add("created")
			return nil
		}, named("create"))
		r.OnCleanup(func(context.Context, *kopf.Activity) error {
			time.Sleep(20 * time.Second)
			l.add("cleanup with %d records", len(k.seats("default")))
			return nil
		}, id("c"))
		op := c.Operator(r, as("me"), func(op *kopf.Operator) {
			op.Settings.Queueing.ExitTimeout, op.Settings.Peering.Lifetime = time.Minute, 12*time.Second
		})
		c.Create("a", nil)
		c.expect(&l, "create")
		go func() {
			time.Sleep(20 * time.Second)
			l.add("%d records", len(k.seats("default")))
			door.let()
		}()
		op.Stop()
		c.expect(&l, "create", "1 records", "created", "cleanup with 1 records")
		c.same("the records after the end", []string(nil), k.seats("default"))
		all := peered(op)
		for i := 1; i < len(all); i++ {
			if passed := all[i].Time.Sub(all[i-1].Time); passed > 8*time.Second {
				c.Errorf("the record was not renewed for %s in the exit", passed)
			}
		}
		if len(all) < 6 || all[len(all)-1].Body != `{"status":{"me":null}}` {
			c.Errorf("got %d records, and the last one %v", len(all), all[len(all)-1])
		}
	})
	c.Run(t, "a record that somebody else has removed is written again at once", func(c *C) {
		k := c.meet()
		c.Operator(&kopf.Registry{}, as("me"))
		c.WaitFor("the record", func() bool { return len(k.seats("default")) == 1 })
		c.Pass(time.Second)
		k.sit("me", nil)
		c.Pass(2 * time.Second)
		c.same("the records", []string{"me"}, k.seats("default"))
	})
}

func modes(t *testing.T, c *C) {
	c.Run(t, "OP-97 a standalone operator has no peers", func(c *C) {
		k := c.meet()
		k.sit("boss", rival(100, 3600))
		var l calls
		op := c.Operator(worker(&l), as("me"), func(op *kopf.Operator) { op.Settings.Peering.Standalone = true })
		c.works(&l, "a")
		op.Stop()
		for _, r := range op.Wire.Requests() {
			if strings.Contains(r.Path, "kopfpeerings") {
				c.Errorf("got the request %s %s", r.Method, r.Path)
			}
		}
		c.same("the records", []string{"boss"}, k.seats("default"))
	})
	c.Run(t, "OP-97 the automatic mode works without the kind and the object, and takes part as soon as they exist", func(c *C) {
		c.noPeering()
		var l calls
		op := c.Operator(worker(&l), as("me"))
		c.works(&l, "a")
		k := c.peeringKind("kopf.dev", "Namespaced", nil)
		c.WaitFor("the notice of the kind", func() bool { return len(op.Logs.Find("Keep-alive in")) > 0 })
		c.works(&l, "b")
		k.Create("default", map[string]any{"status": map[string]any{"boss": rival(100, 3600)}})
		c.paused(op, 1)
		c.idles(&l, "c")
	})
	c.Run(t, "OP-97 the mandatory mode pauses until the kind and the object exist", func(c *C) {
		c.noPeering()
		var l calls
		op := c.Operator(worker(&l), as("me"), mandatory)
		c.idles(&l, "a")
		k := c.peeringKind("kopf.dev", "Namespaced", nil)
		c.WaitFor("the notice of the kind", func() bool { return len(op.Logs.Find("Keep-alive in")) > 0 })
		c.idles(&l, "b")
		k.Create("default", map[string]any{"status": map[string]any{"boss": rival(100, 3600)}})
		c.idles(&l, "c")
		k.sit("boss", nil)
		c.WaitFor("the objects", func() bool { return len(l.all()) == 3 })
	})
	c.Run(t, "OP-97 the automatic mode warns when the object is deleted, and goes on", func(c *C) {
		k := c.meet()
		k.sit("boss", rival(100, 3600))
		var l calls
		op := c.Operator(worker(&l), as("me"))
		c.paused(op, 1)
		c.idles(&l, "a")
		k.Delete("default")
		c.WaitFor("the object", func() bool { return len(l.all()) == 1 })
		if lines := op.Logs.Find("The peering object has been deleted; working as without peers until it exists again"); len(lines) != 1 {
			c.Errorf("got the lines %v", lines)
		}
		if lines := op.Logs.Find("Gone are"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
	})
	c.Run(t, "OP-97 an object that is deleted while the stream is down is missed in the next list", func(c *C) {
		c.OnlyInBubble("it takes a minute")
		k := c.meet()
		k.sit("boss", rival(100, 36000))
		var l calls
		var down, expired atomic.Bool
		op := c.Operator(worker(&l), as("me"), func(op *kopf.Operator) { op.Settings.Peering.Lifetime = 10 * time.Hour }, wired(func(req *Request) (*http.Response, error) {
			if !strings.Contains(req.Path, "kopfpeerings?") {
				return nil, nil
			}
			if down.Load() {
				return nil, errCut
			}
			if strings.Contains(req.Path, "watch=true") && expired.CompareAndSwap(true, false) {
				return Answer(http.StatusGone, "Expired", "too old resource version"), nil
			}
			return nil, nil
		}))
		c.paused(op, 1)
		c.idles(&l, "a")
		down.Store(true)
		op.Wire.Drop()
		c.Pass(time.Second)
		k.Delete("default")
		c.Pass(time.Second)
		expired.Store(true)
		down.Store(false)
		c.Pass(time.Minute)
		if len(l.all()) == 0 {
			c.Error("the operator still waits for a record of the object that is gone")
		}
	})
	c.Run(t, "OP-97 the mandatory mode does nothing before it has looked for the object", func(c *C) {
		c.OnlyInBubble("the answers are late")
		var l calls
		op := c.Operator(worker(&l), as("me"), mandatory)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "kopfpeerings") {
				time.Sleep(10 * time.Second)
			}
			return nil, nil
		})
		c.idles(&l, "a")
		c.peeringKind("kopf.dev", "Namespaced", nil)
		c.Pass(time.Hour)
		c.expect(&l)
	})
	c.Run(t, "OP-97 the mandatory mode looks at each namespace", func(c *C) {
		c.OnlyInBubble("it needs more namespaces")
		k := c.meet()
		c.Of("v1", "Namespace").Create("leaf2", nil)
		other := *c
		other.Namespace = "leaf2"
		second := *k
		second.c = &other
		var l calls
		c.Operator(worker(&l), as("me"), mandatory, func(op *kopf.Operator) { op.Namespaces = []string{"leaf*"} })
		c.idles(&l, "a")
		second.Create("default", nil)
		c.WaitFor("a", func() bool { return slices.Contains(l.all(), "a") })
	})
	c.Run(t, "OP-56 the name of the operator's peering makes it mandatory, that of the settings does not", func(c *C) {
		k := c.meet()
		var l, m calls
		first := c.Operator(worker(&l), as("first"), func(op *kopf.Operator) { op.Settings.Peering.Name = "special" })
		c.works(&l, "a")
		first.Stop()
		op := c.Operator(worker(&m), as("second"), func(op *kopf.Operator) { op.Peering = "special" })
		c.paused(op, 1)
		c.idles(&m, "b")
		k.Create("special", nil)
		c.expect(&m, "b")
	})
	c.Run(t, "OP-95 discovery, peering and cleaning up do not pause", func(c *C) {
		k := c.meet()
		k.sit("boss", rival(100, 3600))
		var l calls
		r := worker(&l)
		r.OnCleanup(func(context.Context, *kopf.Activity) error {
			l.add("cleanup")
			return nil
		}, id("cleanup"))
		op := c.Operator(r, as("me"))
		before := len(op.Wire.Requests("GET"))
		c.Define(c.gadgets())
		c.WaitFor("the discovery in the pause", func() bool { return len(op.Wire.Requests("GET")) > before })
		op.Stop()
		c.expect(&l, "cleanup")
	})
}
