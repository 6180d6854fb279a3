package contract

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves for which peers operators pause, and how long, in 4-operator-and-kits.md.

var _ = ClusterSuite("peering_priorities", func(t *testing.T, c *C) {
	judging(t, c)
	announcing(t, c)
	careful(t, c)
})

func judging(t *testing.T, c *C) {
	c.Run(t, "OP-80 what a record does not say is the default", func(c *C) {
		c.OnlyInBubble("the lifetimes are long")
		k := c.meet()
		var l calls
		short := func(op *kopf.Operator) {
			op.Settings.Peering.Lifetime, op.Settings.Peering.Priority = 10*time.Second, 1
		}
		op := c.Operator(worker(&l), as("me"), short)
		// A missing priority is 0, which is too low. Unknown fields are ignored.
		k.sit("other", map[string]any{"lifetime": 600, "lastseen": rival(0, 0)["lastseen"], "color": "blue"})
		c.works(&l, "a")
		// A missing lifetime is a minute, and a missing time zone is UTC.
		k.sit("other", map[string]any{"priority": 1, "lastseen": time.Now().UTC().Format("2006-01-02T15:04:05.000000")})
		c.paused(op, 1)
		c.Pass(58 * time.Second)
		c.idles(&l, "b")
		c.Pass(2 * time.Second)
		c.WaitFor("b", func() bool { return slices.Contains(l.all(), "b") })
		// A missing time is the current time, at any moment.
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
		k.sit("me", rival(9, 3600)) // the operator ignores its own record
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
			got = append(got, r.ContentType+" "+versionless(r.Body))
		}
		c.same("the patches", []string{`application/merge-patch+json {"metadata":{"resourceVersion":""},"status":{"dead1":null,"dead2":null}}`}, got)
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
			got = append(got, fmt.Sprintf("%s %s", r.Time.Sub(began).Round(time.Second), regexp.MustCompile(`"me":{.*?}`).ReplaceAllString(versionless(r.Body), `"me":{}`)))
		}
		c.same("the patches", []string{`0s {"status":{"me":{}}}`, `20s {"status":{"me":{}}}`, `20s {"metadata":{"resourceVersion":""},"status":{"soon":null}}`,
			`30s {"status":{"me":{}}}`, `30s {"metadata":{"resourceVersion":""},"status":{"later":null}}`}, got)
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

// versionless removes the version from a patch with a precondition on it.
func versionless(patch string) string {
	return regexp.MustCompile(`"resourceVersion":"\d+"`).ReplaceAllString(patch, `"resourceVersion":""`)
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
		k.sit("low", rival(1, 3600)) // triggers another event
		c.Pass(time.Second)
		k.sit("high", nil)
		c.WaitFor("the end", func() bool { return slices.Equal(levels("Resuming operations after the pause"), []string{"INFO"}) })
		k.sit("same", rival(5, 3600))
		c.WaitFor("the pause", func() bool { return len(levels("Possibly conflicting operators with the same priority")) == 1 })
		k.sit("low", rival(2, 3600)) // triggers another event
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
	c.Run(t, "OP-92 a state of the object is warned of once, by the later operator too", func(c *C) {
		c.OnlyInBubble("the intervals are long")
		k := c.meet()
		k.sit("same", rival(0, 3600))
		op := c.Operator(&kopf.Registry{}, as("me"))
		c.Pass(10 * time.Second)
		lines := op.Logs.Find("Possibly conflicting operators with the same priority")
		if len(lines) != 1 {
			c.Fatalf("got %+v, want one warning", lines)
		}
		a := lines[0].Attrs
		if a["peering"] != "default" || a["resource"] != "kopfpeerings.v1.kopf.dev" || a["namespace"] != c.Namespace ||
			!strings.HasSuffix(a["hint"], "resume --peering default --namespace "+c.Namespace+" --id KEY") {
			c.Errorf("got %+v", a)
		}
		c.Pass(time.Minute) // the operator renews its record
		if lines := op.Logs.Find("Possibly conflicting operators with the same priority"); len(lines) != 2 {
			c.Errorf("got %+v, want one more for the new state", lines)
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
		if got := op.Logs.Find("working as without peers"); len(got) != 1 || got[0].Level.String() != "WARN" {
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
		if got := op.Logs.Find("the mandatory peering object does not exist"); len(got) == 0 || got[0].Attrs["peering"] != "default" || got[0].Attrs["resource"] != "kopfpeerings.v1.kopf.dev" || got[0].Attrs["namespace"] != c.Namespace || got[0].Level.String() != "WARN" {
			c.Errorf("got %v", got)
		}
	})
	c.Run(t, "OP-T27 what a mandatory peering lacks is told again and again", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		op := c.Operator(&kopf.Registry{}, mandatory)
		c.Pass(5 * time.Minute)
		got := op.Logs.Find("the mandatory peering has no resource")
		if len(got) < 5 || got[0].Attrs["peering"] != "default" || got[0].Level.String() != "WARN" {
			c.Errorf("got %d warnings of the kind", len(got))
		}
		c.peeringKind("kopf.dev", "Namespaced", nil)
		c.Pass(5 * time.Minute)
		if more := op.Logs.Find("the mandatory peering has no resource"); len(more) > len(got)+1 {
			c.Errorf("got %d more warnings of the kind, which exists", len(more)-len(got))
		}
		objects := op.Logs.Find("the mandatory peering object does not exist")
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
			for _, line := range op.Logs.Find("Ignoring a broken record in the peering object") {
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
		c.Pass(time.Second) // otherwise the object could be handled first
		c.idles(&l, "b")
		c.Pass(time.Minute)
		c.expect(&l, "a", "b")
		op.Stop()
		k.sit("ahead", rivalSeen(100, 60, time.Now().Add(24*time.Hour)))
		began := time.Now()
		c.Operator(worker(&l), as("me"))
		c.idles(&l, "c")
		c.Pass(time.Minute)
		c.expect(&l, "a", "b", "c")
		if passed := time.Since(began); passed > 2*time.Minute {
			c.Errorf("the record of the other day has held the operator up for %s", passed)
		}
	})
	c.Run(t, "what an answer has shown is not taken back by an older event", func(c *C) {
		c.OnlyInBubble("the time is told exactly")
		k := c.meet()
		op := c.Operator(worker(&calls{}), as("me"), func(op *kopf.Operator) {
			op.Settings.Peering.Lifetime = 3 * time.Second // renewed every second
			base := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
				resp, err := base.RoundTrip(req)
				if err == nil && strings.Contains(req.URL.Path, "kopfpeerings") && strings.Contains(req.URL.RawQuery, "watch=true") {
					resp.Body = late(resp.Body)
				}
				return resp, err
			})}
		})
		c.Pass(5*time.Second - streamLag/2)
		k.sit("low", rival(-1, 3600))
		time.Sleep(streamLag / 4)
		k.sit("boss", rival(100, 3600))
		c.Pass(streamLag / 2) // the operator renews its record in the meantime
		c.paused(op, 1)
		c.Pass(3 * time.Second)
		if got := op.Logs.Find("Resuming"); len(got) != 0 {
			c.Errorf("got %v", got)
		}
		if got := op.Logs.Find("Pausing operations"); len(got) != 1 {
			c.Errorf("got %v", got)
		}
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
	c.Run(t, "DF-36 an operator that was killed is missed when its record expires", func(c *C) {
		c.OnlyInBubble("the lifetimes are long")
		k := c.meet()
		var l, m calls
		first := c.Operator(worker(&l), as("first"), func(op *kopf.Operator) { op.Settings.Peering.Priority = 1 })
		c.WaitFor("the first record", func() bool { return slices.Equal(k.seats("default"), []string{"first"}) }) // otherwise the second one works until it is there
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
