package contract

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what happens when filters stop matching between two attempts, in 9-defects.md.

var _ = Suite("change_filters", func(t *testing.T, c *C) {
	t.Run("gaps", func(t *testing.T) { filterGaps(t, c) })
})

// switched returns the options of a handler that matches objects with the label on.
func switched(id kopf.HandlerID, timeout time.Duration, retries int) *kopf.ChangeOptions {
	return &kopf.ChangeOptions{ID: id, Labels: kopf.Match{"on": "yes"}, Timeout: timeout, Retries: retries}
}

func filterGaps(t *testing.T, c *C) {
	later := kopf.Temporary(errOops, 30*time.Second)
	for what, register := range map[string]func(*kopf.Registry, *calls){
		"creation": func(r *kopf.Registry, l *calls) {
			r.OnCreate(Examples, l.handler("h", later), switched("h", 5*time.Minute, 2))
		},
		"update": func(r *kopf.Registry, l *calls) {
			r.OnUpdate(Examples, l.handler("h", later), switched("h", 5*time.Minute, 2))
		},
	} {
		c.Run(t, "DF-42 a gap in which no handler matches counts neither as time nor as attempts of the "+what, func(c *C) {
			c.OnlyInBubble("the delays are long")
			var l calls
			r := &kopf.Registry{}
			register(r, &l)
			object := labelled("on", "yes")
			if what == "update" {
				metadata := handledBefore(`{"metadata":{"labels":{"on":"yes"}},"spec":{"x":0}}`, nil)
				metadata["labels"] = map[string]any{"on": "yes"}
				object["metadata"] = metadata
			}
			object["spec"] = map[string]any{"x": 1}
			c.Create("a", object)
			c.Operator(r)
			c.WaitFor("the first attempt", func() bool { return len(l.all()) == 1 })
			c.Pass(time.Second)
			c.Patch("a", unlabelled("on"))
			c.Pass(time.Hour)
			if got := records(c.Get("a")); len(got) > 0 {
				c.Errorf("got the records %q of an object that no handler matches", got)
			}
			c.Patch("a", labelled("on", "yes"))
			c.handled("a")
			reason := map[string]string{"creation": "create", "update": "update"}[what]
			c.expect(&l, "h "+reason+" 0", "h "+reason+" 0", "h "+reason+" 1")
		})
	}
	c.Run(t, "DF-42 a gap during the retries of another handler counts neither as time nor as attempts", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h", later), switched("h", 5*time.Minute, 2))
		r.OnCreate(Examples, l.handler("slow", kopf.Temporary(errOops, 2*time.Hour)), named("slow"))
		c.Operator(r)
		c.Create("a", labelled("on", "yes"))
		c.Pass(time.Second)
		c.Patch("a", unlabelled("on"))
		c.Pass(time.Hour)
		if got, want := fmt.Sprint(records(c.Get("a"))), "[slow]"; got != want {
			c.Errorf("got the records %s, want %s", got, want)
		}
		c.Patch("a", labelled("on", "yes"))
		c.handled("a")
		c.expect(&l, "h create 0", "slow create 0", "h create 0", "h create 1", "slow create 1")
	})
	c.Run(t, "DF-42 a gap counts neither as time nor as attempts of a sub-handler", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Subhandler("sub", l.handler("sub", later), switched("sub", 5*time.Minute, 2))
			if ch.Labels()["on"] != "yes" {
				ch.Subhandler("slow", l.handler("slow", kopf.Temporary(errOops, 2*time.Hour)), nil)
			}
			return nil
		}, named("parent"))
		c.Operator(r)
		c.Create("a", labelled("on", "yes"))
		c.Pass(time.Second)
		c.Patch("a", unlabelled("on"))
		c.Pass(time.Hour)
		if got, want := fmt.Sprint(records(c.Get("a"))), "[parent parent.slow]"; got != want {
			c.Errorf("got the records %s, want %s", got, want)
		}
		c.Patch("a", labelled("on", "yes"))
		c.handled("a")
		c.expect(&l, "sub create 0", "slow create 0", "sub create 0", "sub create 1")
	})
	c.Run(t, "DF-42 when no handler matches, the parent of a finished sub-handler begins again, and the sub-handler does not", func(c *C) {
		c.OnlyInBubble("the delays are long")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("parent %d", ch.Retry)
			ch.Subhandler("quick", l.handler("quick"), nil)
			ch.Subhandler("slow", l.handler("slow", later), nil)
			return nil
		}, switched("parent", 5*time.Minute, 0))
		c.Operator(r)
		c.Create("a", labelled("on", "yes"))
		c.Pass(time.Second)
		c.Patch("a", unlabelled("on"))
		c.Pass(time.Hour)
		if record := c.record(c.Get("a"), "parent"); record["started"] != nil || record["retries"] != 0.0 {
			c.Errorf("got the record %v of the parent", record)
		}
		c.Patch("a", labelled("on", "yes"))
		body := c.handled("a")
		c.expect(&l, "parent 0", "quick create 0", "slow create 0", "parent 0", "slow create 0", "parent 1", "slow create 1")
		if got := records(body); len(got) > 0 {
			c.Errorf("the records %q remain", got)
		}
	})
	c.Run(t, "DF-42 the log says that a handler is not called again, because its filters do not match any more", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("h", kopf.Temporary(errOops, time.Hour)), switched("h", 0, 0))
		r.OnCreate(Examples, l.handler("other"), named("other"))
		op := c.Operator(r)
		c.Create("a", labelled("on", "yes"))
		c.WaitFor("both attempts", func() bool { return len(l.all()) == 2 })
		c.Patch("a", unlabelled("on"))
		c.handled("a")
		c.Patch("a", labelled("on", "yes"))
		c.Pass(time.Second)
		c.expect(&l, "h create 0", "other create 0")
		op.waitLogged(c, "Handler 'h' is not called again for this change, because its filters do not match any more")
	})
}
