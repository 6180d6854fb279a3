package contract

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/kopf-go/kopf"
)

// This suite proves that no two functions get the same id, in 1-change-handling.md.

var _ = Suite("change_handler_ids", func(t *testing.T, c *C) {
	// counter returns closures of one function literal, which differ only in their data.
	counter := func(l *calls, name string) kopf.ChangeFunc {
		return func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s", name)
			return nil
		}
	}
	refused := func(c *C, register func()) (text string) {
		c.Helper()
		defer func() { text = fmt.Sprint(recover()) }()
		register()
		return ""
	}
	c.Run(t, "CH-T11 two closures under one id are refused, and one is called for all its causes", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		one, two := counter(&l, "one"), counter(&l, "two")
		r.OnUpdate(Examples, one, named("h"))
		text := refused(c, func() { r.OnUpdate(Examples, two, named("h")) })
		if strings.Count(text, "change_handler_ids.go:") != 2 || !strings.Contains(text, `"h"`) {
			c.Errorf("got the panic %q, want one with both lines", text)
		}
		r.OnResume(Examples, one, named("h"))
		r.OnUpdate(Examples, two, named("other"))
		c.settled("a", sized(1))
		c.Patch("a", sized(2))
		c.Operator(r)
		c.handled("a")
		c.expect(&l, "one", "two")
	})
	c.Run(t, "DF-31 a result under the ID conditions does not replace the conditions", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("create")
			ch.Patch.SetCondition(kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Made"})
			ch.SetResult(map[string]any{"made": true})
			return nil
		}, named("conditions"))
		op := c.Operator(r)
		c.Create("a", nil)
		body := c.handled("a")
		if got := body.Status().Views("conditions"); len(got) != 1 || l.count("create") != 1 {
			c.Errorf("got the conditions %v after %q", got, l.all())
		}
		lines := op.Logs.Find("Handler 'conditions' failed permanently: the result would replace status.conditions")
		if len(lines) != 1 {
			c.Errorf("got the lines %v, want one", lines)
		}
	})
	c.Run(t, "CH-T11 methods are told apart by their receivers", func(c *C) {
		var l calls
		here, there := &recipient{&l, "here"}, &recipient{&l, "there"}
		r := &kopf.Registry{}
		r.OnUpdate(Examples, here.handle, nil)
		if text := refused(c, func() { r.OnResume(Examples, there.handle, nil) }); !strings.Contains(text, "recipient.handle") {
			c.Errorf("got the panic %q, want one with the id", text)
		}
		r.OnResume(Examples, here.handle, nil)
		r.OnUpdate(Examples, there.handle, named("there"))
		c.settled("a", sized(1))
		c.Patch("a", sized(2))
		c.Operator(r)
		c.handled("a")
		c.expect(&l, "here", "there")
	})
	c.Run(t, "CH-T11 of two functions that selectors of two forms give one id, the first is called, and the other is warned of", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, counter(&l, "one"), named("h"))
		r.OnCreate("kopf.dev/v1/KopfExample", counter(&l, "two"), named("h"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		c.expect(&l, "one")
		if lines := op.Logs.Find("is not called for kopfexamples.v1.kopf.dev"); len(lines) != 1 || lines[0].Level != slog.LevelWarn {
			c.Errorf("got %+v, want one warning", lines)
		}
	})
	c.Run(t, "CH-T11 sub-handlers whose ids are stored alike are refused", func(c *C) {
		caught := make(chan string, 1)
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			nothing := func(context.Context, *kopf.Change) error { return nil }
			caught <- refused(c, func() {
				ch.Subhandler("a/b", nothing, nil)
				ch.Subhandler("a.b", nothing, nil)
			})
			return nil
		}, named("h"))
		c.Operator(r)
		c.Create("a", nil)
		if text := <-caught; !strings.Contains(text, `"h/a/b" and "h/a.b"`) {
			c.Errorf("got the panic %q, want one with both ids", text)
		}
	})
	c.Run(t, "ids are refused that are names of what is stored besides the records", func(c *C) {
		var l calls
		fn, r := counter(&l, "one"), &kopf.Registry{}
		for family, register := range map[string]func(id kopf.HandlerID){
			"OnCreate": func(id kopf.HandlerID) { r.OnCreate(Examples, fn, named(id)) },
			"OnUpdate": func(id kopf.HandlerID) { r.OnUpdate(Examples, fn, named(id)) },
			"OnDelete": func(id kopf.HandlerID) { r.OnDelete(Examples, fn, named(id)) },
			"OnResume": func(id kopf.HandlerID) { r.OnResume(Examples, fn, named(id)) },
			"OnField":  func(id kopf.HandlerID) { r.OnField(Examples, "", fn, named(id)) },
		} {
			text := refused(c, func() { register("handling-state") })
			if !strings.Contains(text, family+" at ") || !strings.Contains(text, `"handling-state" is reserved`) {
				c.Errorf("got the panic %q, want one of %s with the id", text, family)
			}
		}
		for _, id := range []kopf.HandlerID{
			"last-handled-configuration", "tracked-fields", "handling-base", "kopf-managed", "touch-dummy", "handled-uid",
			"reconciled-spec", "failed-handlers", "wanted", "explain",
		} {
			if text := refused(c, func() { r.OnCreate(Examples, fn, named(id)) }); !strings.Contains(text, fmt.Sprintf("%q is reserved", id)) {
				c.Errorf("got the panic %q, want one with the id %q", text, id)
			}
		}
		r = &kopf.Registry{}
		r.OnField(Examples, "spec.x", counter(&l, "field"), named("handling-state")) // which has another id
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Subhandler("handling-state", counter(&l, "sub"), nil) // another id as well
			return nil
		}, named("h"))
		c.Operator(r)
		c.Create("a", sized(1))
		c.handled("a")
		c.expect(&l, "field", "sub")
	})
})

// recipient is a method receiver.
type recipient struct {
	l    *calls
	name string
}

func (r *recipient) handle(context.Context, *kopf.Change) error {
	r.l.add("%s", r.name)
	return nil
}
