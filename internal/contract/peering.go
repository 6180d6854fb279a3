package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how operators give way to each other, in 4-operator-and-kits.md.

var _ = Suite("peering", func(t *testing.T, c *C) {
	places(t, c)
	recording(t, c)
	judging(t, c)
	announcing(t, c)
	modes(t, c)
	careful(t, c)
})

// peeringKind defines a kind of peering objects, in namespaces or with "Cluster". On a real server, it waits at the end until
// the kind is gone, so that the next leaf can have it.
func (c *C) peeringKind(group, scope string, subresources map[string]any) *Kind {
	c.Helper()
	kind := map[string]string{"Namespaced": "KopfPeering", "Cluster": "ClusterKopfPeering"}[scope]
	plural := strings.ToLower(kind) + "s"
	d := definition(plural, kind, scope, subresources)
	d["metadata"].(map[string]any)["name"] = plural + "." + group
	d["spec"].(map[string]any)["group"] = group
	definitions := &Kind{c: c, apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", clusterwide: true}
	if !c.InBubble() {
		c.Cleanup(func() {
			for range 300 {
				err := c.Client.Get(contextWithout(c.Context()), definitions.Ref(plural+"."+group), &kopf.Body{}, nil)
				if kopf.StatusCode(err) == http.StatusNotFound {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			c.Errorf("the kind %s of %s does not go away", kind, group)
		})
	}
	c.Define(d)
	return c.Of(group+"/v1", kind)
}

// meet makes the peering object "default" in the leaf's namespace.
func (c *C) meet() *Kind {
	c.Helper()
	k := c.peeringKind("kopf.dev", "Namespaced", nil)
	k.Create("default", nil)
	return k
}

// sit writes a record into the default peering object, or removes it.
func (k *Kind) sit(id string, record any) {
	k.c.Helper()
	k.Patch("default", map[string]any{"status": map[string]any{id: record}})
}

// rival is a record of another operator, with a lifetime in seconds.
func rival(priority, lifetime int) map[string]any { return rivalSeen(priority, lifetime, time.Now()) }

func rivalSeen(priority, lifetime int, seen time.Time) map[string]any {
	return map[string]any{"priority": priority, "lifetime": lifetime, "lastseen": seen.UTC().Format("2006-01-02T15:04:05.000000+00:00")}
}

// as gives an operator an identity.
func as(id string) func(*kopf.Operator) { return func(op *kopf.Operator) { op.Identity = id } }

func mandatory(op *kopf.Operator) { op.Settings.Peering.Mandatory = true }

// seats returns the identities in a peering object.
func (k *Kind) seats(name string) []string {
	k.c.Helper()
	keys := k.Get(name).Status().Keys()
	slices.Sort(keys)
	return keys
}

// worker has a handler of creations that notes the names of its objects.
func worker(l *calls) *kopf.Registry {
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
		l.add("%s", ch.Name())
		return nil
	}, named("create"))
	return r
}

// peered returns the requests of an operator that write records, as their texts.
func peered(op *Running) (all []Request) {
	for _, r := range op.Wire.Requests("PATCH") {
		if strings.Contains(r.Path, "kopfpeerings/") {
			all = append(all, r)
		}
	}
	return all
}

// works creates an object, and fails if the operator does not handle it; idles fails if it does.
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
		k := c.peeringKind("zalando.org", "Namespaced", nil)
		k.Create("default", nil)
		c.Operator(&kopf.Registry{}, as("me"))
		c.WaitFor("the record", func() bool { return slices.Equal(k.seats("default"), []string{"me"}) })
	})
	c.Run(t, "OP-76 the definitions that are shipped serve", func(c *C) {
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
		if err := op.Run(c.Context()); err == nil || !strings.Contains(err.Error(), "Settings.Peering.Clusterwide is false") {
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
		second.sit("boss", nil)
		c.idles(&l, "c")
		k.sit("boss", nil)
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
		c.works(&l, "a") // and what was decided there counts no more
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
	c.Run(t, "OP-82 the identity is that of the pod, or made of the user, the host, the time and chance", func(c *C) {
		k := c.meet()
		c.Setenv("POD_ID", "pod-1")
		op := c.Operator(&kopf.Registry{})
		c.WaitFor("the record", func() bool { return slices.Equal(k.seats("default"), []string{"pod-1"}) })
		op.Stop()
		c.Setenv("POD_ID", "")
		c.Setenv("LOGNAME", "")
		c.Setenv("USER", "somebody")
		now := time.Now().UTC()
		c.Operator(&kopf.Registry{})
		c.WaitFor("the record", func() bool { return len(k.seats("default")) == 1 })
		got := k.seats("default")[0]
		m := regexp.MustCompile(`^somebody@[^/]+/(\d{14})/[a-z0-9]{3}$`).FindStringSubmatch(got)
		if m == nil {
			c.Fatalf("got the identity %q", got)
		}
		if at, err := time.Parse("20060102150405", m[1]); err != nil || at.Sub(now).Abs() > 30*time.Second {
			c.Errorf("got the identity %q, want the time in it to be about %s", got, now)
		}
	})
	c.Run(t, "OP-T29 an empty POD_ID is none", func(c *C) {
		k := c.meet()
		c.Setenv("POD_ID", "")
		c.Operator(&kopf.Registry{})
		c.WaitFor("the record", func() bool { return len(k.seats("default")) == 1 })
		if got := k.seats("default")[0]; got == "" || !strings.Contains(got, "@") {
			c.Errorf("got the identity %q", got)
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
			if tt.lifetime == 60 { // in a pause, too
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
		if got := op.Logs.Find("could not be removed from the peering"); len(got) != 1 || got[0].Level.String() != "ERROR" {
			c.Errorf("got %v", got)
		}
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

func judging(t *testing.T, c *C) {
	c.Run(t, "OP-80 what a record does not say is the default", func(c *C) {
		c.OnlyInBubble("the lifetimes are long")
		k := c.meet()
		var l calls
		short := func(op *kopf.Operator) {
			op.Settings.Peering.Lifetime, op.Settings.Peering.Priority = 10*time.Second, 1
		}
		op := c.Operator(worker(&l), as("me"), short)
		// No priority is 0, and that is too low; fields that are not known do not matter.
		k.sit("other", map[string]any{"lifetime": 600, "lastseen": rival(0, 0)["lastseen"], "color": "blue"})
		c.works(&l, "a")
		// No lifetime is a minute, and no zone is UTC.
		k.sit("other", map[string]any{"priority": 1, "lastseen": time.Now().UTC().Format("2006-01-02T15:04:05.000000")})
		c.paused(op, 1)
		c.Pass(58 * time.Second)
		c.idles(&l, "b")
		c.Pass(2 * time.Second)
		c.WaitFor("b", func() bool { return slices.Contains(l.all(), "b") })
		// No time is now, whenever that is.
		k.sit("other", map[string]any{"priority": 1})
		c.paused(op, 2)
		c.Pass(10 * time.Minute)
		c.idles(&l, "c")
	})
	c.Run(t, "OP-80 a time without a zone is in UTC, and one without a fraction is understood", func(c *C) {
		c.OnlyInBubble("the lifetimes are long")
		k := c.meet()
		k.sit("dead", map[string]any{"priority": 1, "lastseen": time.Now().UTC().Add(-61 * time.Second).Format("2006-01-02T15:04:05")})
		k.sit("alive", map[string]any{"priority": 1, "lastseen": time.Now().UTC().Add(-50 * time.Second).Format("2006-01-02T15:04:05")})
		var l calls
		op := c.Operator(worker(&l), as("me"))
		c.paused(op, 1)
		c.idles(&l, "a")
		c.Pass(7 * time.Second)
		c.idles(&l, "b")
		c.Pass(2 * time.Second)
		c.WaitFor("a", func() bool { return slices.Contains(l.all(), "a") })
	})
	c.Run(t, "OP-81 a record is dead when its lifetime is over, and one without any at once", func(c *C) {
		k := c.meet()
		k.sit("dead", rivalSeen(100, 60, time.Now().Add(-60*time.Second)))
		var l calls
		c.Operator(worker(&l), as("me"), func(op *kopf.Operator) { op.Settings.Peering.Lifetime = 0 })
		c.works(&l, "a")
		k.sit("zero", rival(100, 0))
		c.WaitFor("the end of the dead", func() bool { return len(k.seats("default")) == 0 })
		c.works(&l, "b")
	})
	c.Run(t, "OP-81 a keep-alive without a lifetime is a removal", func(c *C) {
		k := c.meet()
		k.sit("me", rival(0, 3600))
		op := c.Operator(&kopf.Registry{}, as("me"), func(op *kopf.Operator) { op.Settings.Peering.Lifetime = 0 })
		c.WaitFor("the end of the record", func() bool { return len(k.seats("default")) == 0 })
		if got := peered(op)[0].Body; got != `{"status":{"me":null}}` {
			c.Errorf("got %s", got)
		}
	})
	c.Run(t, "OP-89 higher and equal priorities pause, lower ones do not", func(c *C) {
		k := c.meet()
		var l calls
		op := c.Operator(worker(&l), as("me"), func(op *kopf.Operator) { op.Settings.Peering.Priority = 5 })
		k.sit("low", rival(4, 3600))
		k.sit("me", rival(9, 3600)) // our own record is no reason
		c.works(&l, "a")
		k.sit("same", rival(5, 3600))
		c.paused(op, 1)
		c.idles(&l, "b")
		k.sit("high", rival(6, 3600))
		k.sit("same", nil)
		c.idles(&l, "c")
		k.sit("high", rival(4, 3600))
		c.WaitFor("b and c", func() bool { return slices.Contains(l.all(), "b") && slices.Contains(l.all(), "c") })
	})
	c.Run(t, "OP-90 the dead are removed in one patch, by whoever notices", func(c *C) {
		k := c.meet()
		k.sit("dead1", rivalSeen(100, 60, time.Now().Add(-time.Hour)))
		k.sit("dead2", rivalSeen(-100, 60, time.Now().Add(-time.Hour)))
		k.sit("me", rivalSeen(100, 60, time.Now().Add(-time.Hour)))
		k.sit("alive", rival(-1, 3600))
		op := c.Operator(&kopf.Registry{}, as("me"))
		c.WaitFor("the end of the dead", func() bool { return slices.Equal(k.seats("default"), []string{"alive", "me"}) })
		c.Pass(time.Second)
		var got []string
		for _, r := range peered(op)[1:] {
			got = append(got, r.ContentType+" "+r.Body)
		}
		c.same("the patches", []string{`application/merge-patch+json {"status":{"dead1":null,"dead2":null}}`}, got)
	})
	c.Run(t, "OP-91 when the record that blocks expires, one patch forces a fresh look", func(c *C) {
		c.OnlyInBubble("the lifetimes are long")
		k := c.meet()
		k.sit("soon", rival(100, 20))
		k.sit("later", rival(50, 30))
		var l calls
		op := c.Operator(worker(&l), as("me"))
		began := time.Now()
		c.Create("a", nil)
		c.expect(&l, "a")
		if passed := time.Since(began); passed < 29*time.Second || passed > 31*time.Second {
			c.Errorf("the work has begun after %s, want 30s", passed)
		}
		var got []string
		for _, r := range peered(op) {
			got = append(got, fmt.Sprintf("%s %s", r.Time.Sub(began).Round(time.Second), regexp.MustCompile(`"me":{.*?}`).ReplaceAllString(r.Body, `"me":{}`)))
		}
		c.same("the patches", []string{`0s {"status":{"me":{}}}`, `20s {"status":{"me":{}}}`, `20s {"status":{"soon":null}}`,
			`30s {"status":{"me":{}}}`, `30s {"status":{"later":null}}`}, got)
	})
	c.Run(t, "OP-91 an expired record does not block for ever where nothing can be written", func(c *C) {
		c.OnlyInBubble("the lifetimes are long")
		k := c.meet()
		k.sit("boss", rival(100, 20))
		var l calls
		c.Operator(worker(&l), as("me"), wired(func(r *Request) (*http.Response, error) {
			if r.Method == "PATCH" && strings.Contains(r.Path, "kopfpeerings") {
				return Answer(http.StatusForbidden, "Forbidden", "no"), nil
			}
			return nil, nil
		}))
		c.idles(&l, "a")
		c.Pass(time.Minute)
		c.expect(&l, "a")
	})
}

func announcing(t *testing.T, c *C) {
	c.Run(t, "OP-92 pauses and their ends are told", func(c *C) {
		k := c.meet()
		op := c.Operator(&kopf.Registry{}, as("me"), func(op *kopf.Operator) { op.Settings.Peering.Priority = 5 })
		levels := func(text string) (all []string) {
			for _, line := range op.Logs.Find(text) {
				all = append(all, line.Level.String())
			}
			return all
		}
		high := rival(6, 3600)
		k.sit("high", high)
		c.WaitFor("the pause", func() bool { return slices.Equal(levels("Pausing operations in favour of"), []string{"INFO"}) })
		text := op.Logs.Find("in favour of")[0].Message
		for _, part := range []string{"high", `"priority":6`, `"lifetime":3600`, high["lastseen"].(string)} {
			if !strings.Contains(text, part) {
				c.Errorf("got %q, want %s in it", text, part)
			}
		}
		k.sit("low", rival(1, 3600)) // another event
		c.Pass(time.Second)
		k.sit("high", nil)
		c.WaitFor("the end", func() bool { return slices.Equal(levels("Resuming operations after the pause"), []string{"INFO"}) })
		k.sit("same", rival(5, 3600))
		c.WaitFor("the pause", func() bool { return len(levels("Possibly conflicting operators with the same priority")) == 1 })
		k.sit("low", rival(2, 3600)) // another event
		c.WaitFor("the repetition", func() bool {
			return slices.Equal(levels("Possibly conflicting operators with the same priority"), []string{"WARN", "WARN"})
		})
		if got := levels("Pausing all operators, including self"); !slices.Equal(got, []string{"WARN"}) {
			c.Errorf("got %q, want one warning", got)
		}
		if got := levels("Pausing operations in favour of"); len(got) != 1 {
			c.Errorf("got %q, want it once", got)
		}
	})
	c.Run(t, "OP-T33 the end of a pause tells who is gone", func(c *C) {
		k := c.meet()
		op := c.Operator(&kopf.Registry{}, as("me"))
		k.sit("high", rival(6, 3600))
		c.WaitFor("the pause", func() bool { return len(op.Logs.Find("Pausing operations")) == 1 })
		k.sit("high", nil)
		c.WaitFor("the end", func() bool { return len(op.Logs.Find("Resuming operations")) == 1 })
		if got := op.Logs.Find("Resuming operations")[0].Message; strings.Contains(got, "same priority") || !strings.Contains(got, "high") || !strings.Contains(got, `"priority":6`) {
			c.Errorf("got %q", got)
		}
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

func careful(t *testing.T, c *C) {
	c.Run(t, "OP-T24 nothing is listed before the peers have been looked at", func(c *C) {
		k := c.meet()
		k.sit("boss", rival(100, 3600))
		var l calls
		c.Create("a", nil)
		op := c.Operator(worker(&l), as("me"))
		c.paused(op, 1)
		c.Pass(time.Second)
		c.same("the streams", []string(nil), rounds(op))
		c.expect(&l)
		k.sit("boss", nil)
		c.expect(&l, "a")
		first := peered(op)[0]
		for _, r := range op.Wire.Requests("GET") {
			if strings.Contains(r.Path, "kopfpeerings?") && r.Time.Before(first.Time) {
				c.Error("the peers were looked at before the own record was written")
			}
		}
	})
	c.Run(t, "OP-T24 streams wait for the look at the peers, however long that takes", func(c *C) {
		c.OnlyInBubble("the server is slow")
		c.meet()
		var l calls
		c.Create("a", nil)
		op := c.Operator(worker(&l), as("me"), wired(func(r *Request) (*http.Response, error) {
			if strings.Contains(r.Path, "kopfpeerings?") {
				time.Sleep(time.Minute)
			}
			return nil, nil
		}))
		c.Pass(59 * time.Second)
		c.same("the streams", []string(nil), rounds(op))
		c.expect(&l, "a")
	})
	c.Run(t, "who may not look at the peers works without them", func(c *C) {
		k := c.meet()
		k.sit("boss", rival(100, 3600))
		var l calls
		op := c.Operator(worker(&l), as("me"), wired(func(r *Request) (*http.Response, error) {
			if strings.Contains(r.Path, "/kopfpeerings") {
				return Answer(http.StatusForbidden, "Forbidden", "no"), nil
			}
			return nil, nil
		}))
		c.works(&l, "a")
		if got := op.Logs.Find("peers cannot be noticed"); len(got) != 1 || got[0].Level.String() != "WARN" {
			c.Errorf("got %v", got)
		}
	})
	c.Run(t, "OP-T26 without the object, the automatic mode goes on, and the mandatory one pauses", func(c *C) {
		k := c.meet()
		var l, m calls
		op := c.Operator(worker(&l), as("me"))
		k.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		k.Delete("default")
		c.works(&l, "a")
		op.Stop()
		k.Create("default", nil)
		op = c.Operator(worker(&m), as("me"), mandatory)
		c.works(&m, "b")
		k.Delete("default")
		c.paused(op, 1)
		c.idles(&m, "c")
		if got := op.Logs.Find("it cannot see the mandatory object: peering \"default\""); len(got) == 0 || got[0].Level.String() != "WARN" {
			c.Errorf("got %v", got)
		}
	})
	c.Run(t, "OP-T27 what a mandatory peering lacks is told again and again", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		op := c.Operator(&kopf.Registry{}, mandatory)
		c.Pass(5 * time.Minute)
		got := op.Logs.Find(`no resource of the mandatory peering "default"`)
		if len(got) < 5 || got[0].Level.String() != "WARN" {
			c.Errorf("got %d warnings of the kind", len(got))
		}
		c.peeringKind("kopf.dev", "Namespaced", nil)
		c.Pass(5 * time.Minute)
		if more := op.Logs.Find("no resource"); len(more) > len(got)+1 {
			c.Errorf("got %d more warnings of the kind, which exists", len(more)-len(got))
		}
		objects := op.Logs.Find(`peering "default" of kopfpeerings.v1.kopf.dev in ` + c.Namespace)
		warnings := 0
		for _, line := range objects {
			if line.Level.String() == "WARN" {
				warnings++
			}
		}
		if warnings < 5 {
			c.Errorf("got %d warnings of the object in %v", warnings, objects)
		}
	})
	c.Run(t, "OP-T28 broken records have no say, and all others do", func(c *C) {
		k := c.meet()
		var l calls
		op := c.Operator(worker(&l), as("me"))
		for i, broken := range []any{
			"text", []any{}, 5, map[string]any{"priority": "high"}, map[string]any{"priority": []any{}},
			map[string]any{"priority": 100, "lifetime": "x"}, map[string]any{"priority": 100, "lastseen": "yesterday"}, map[string]any{"priority": 100, "lastseen": 5},
			map[string]any{"priority": 100, "identity": "me"},
		} {
			k.sit(fmt.Sprintf("broken%d", i), broken)
		}
		if _, err := c.Client.Patch(c.Context(), k.Ref("default"), []kopf.PatchOperation{
			{Op: "add", Path: "/status/null", Value: nil},
			{Op: "add", Path: "/status/nulls", Value: map[string]any{"priority": 100, "lifetime": nil}},
		}, &kopf.PatchOptions{Type: kopf.JSONPatch}); err != nil {
			c.Fatal(err)
		}
		c.works(&l, "a")
		warned := func(id string) bool {
			n := 0
			for _, line := range op.Logs.Find("Ignoring a broken record") {
				if line.Attrs["identity"] == id && line.Level.String() == "WARN" {
					n++
				}
			}
			return n == 1
		}
		for _, id := range []string{"broken0", "broken3", "broken6", "broken8", "null", "nulls"} {
			c.WaitFor("the warning of "+id, func() bool { return warned(id) })
		}
		k.sit("boss", rival(100, 3600))
		c.paused(op, 1)
		c.idles(&l, "b")
		k.Patch("default", map[string]any{"status": "text"})
		c.WaitFor("b", func() bool { return slices.Contains(l.all(), "b") })
	})
	c.Run(t, "OP-T31 skewed clocks neither kill operators nor keep their records alive", func(c *C) {
		c.OnlyInBubble("the lifetimes are long")
		k := c.meet()
		var l calls
		op := c.Operator(worker(&l), as("me"))
		behind := func() map[string]any { return rivalSeen(100, 60, time.Now().Add(-time.Hour)) }
		for range 10 {
			k.sit("behind", behind())
			c.Pass(50 * time.Second)
		}
		c.idles(&l, "a")
		if got := len(op.Logs.Find("Pausing the watch-stream")); got != 1 {
			c.Errorf("got %d pauses, want one", got)
		}
		c.Pass(time.Minute)
		c.expect(&l, "a")
		k.sit("ahead", rivalSeen(100, 60, time.Now().Add(24*time.Hour)))
		c.idles(&l, "b")
		c.Pass(time.Minute)
		c.expect(&l, "a", "b")
		op.Stop()
		k.sit("ahead", rivalSeen(100, 60, time.Now().Add(24*time.Hour)))
		c.Operator(worker(&l), as("me"))
		c.idles(&l, "c")
		c.Pass(time.Minute)
		c.WaitFor("c", func() bool { return slices.Contains(l.all(), "c") })
	})
	c.Run(t, "OP-T32 of two operators with the same priority, neither works", func(c *C) {
		c.meet()
		var l, m calls
		first := c.Operator(worker(&l), as("first"))
		c.works(&l, "a")
		second := c.Operator(worker(&m), as("second"))
		c.paused(first, 1)
		c.paused(second, 1)
		c.idles(&m, "b")
		if got := l.all(); slices.Contains(got, "b") || len(m.all()) != 0 {
			c.Errorf("got %q and %q", got, m.all())
		}
		second.Stop()
		c.WaitFor("b", func() bool { return slices.Contains(l.all(), "b") })
	})
	c.Run(t, "an operator that was killed is missed when its record expires", func(c *C) {
		c.OnlyInBubble("the lifetimes are long")
		c.meet()
		var l, m calls
		first := c.Operator(worker(&l), as("first"), func(op *kopf.Operator) { op.Settings.Peering.Priority = 1 })
		c.Operator(worker(&m), as("second"))
		c.works(&l, "a")
		first.Crash()
		began := time.Now()
		c.Create("b", nil)
		c.expect(&m, "b")
		if passed := time.Since(began); passed < 50*time.Second || passed > 61*time.Second {
			c.Errorf("the second one took over after %s", passed)
		}
	})
}
