package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how kopf writes changes of a typed status: together with changes by other clients, with the patch of the handler, and after
// failed requests.

// conditioned is a status with conditions, and few other fields.
type conditioned struct {
	kopf.Meta `json:",inline"`
	Status    struct {
		Phase      string           `json:"phase,omitempty"`
		Conditions []kopf.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

// alwaysWritten is a status as other tools generate it: omitempty does not omit a struct, and its fields are always written.
type alwaysWritten struct {
	kopf.Meta `json:",inline"`
	Status    struct {
		Phase string `json:"phase"`
		Count int    `json:"count"`
	} `json:"status,omitempty"`
}

// inventory is a status with lists that have keys, and with optional structs and maps.
type inventory struct {
	kopf.Meta `json:",inline"`
	Status    struct {
		Resources []inventoryItem   `json:"resources,omitempty" listKey:"kind,name"`
		Ports     []inventoryPort   `json:"ports,omitempty" listKey:"port"`
		Sync      inventorySync     `json:"sync,omitzero"`
		Items     []string          `json:"items,omitempty"`
		Map       map[string]string `json:"map,omitempty"`
	} `json:"status,omitzero"`
}

type inventoryItem struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Ready bool   `json:"ready,omitempty"`
}

type inventoryPort struct {
	Port  int    `json:"port"`
	State string `json:"state,omitempty"`
}

type inventorySync struct {
	Done int `json:"done,omitempty"`
}

// pointed is a status with conditions in an optional struct.
type pointed struct {
	kopf.Meta `json:",inline"`
	Status    struct {
		*pointedCommon
		Phase string `json:"phase,omitempty"`
	} `json:"status,omitzero"`
}

type pointedCommon struct {
	Conditions []kopf.Condition `json:"conditions,omitempty"`
}

// changedOnce runs an operator that changes an object with a status once. Meanwhile, another client may write another status. It returns the status
// afterwards.
func changedOnce[T any](c *C, status, meanwhile map[string]any, change func(r *kopf.Reconcile, o *T)) map[string]any {
	c.Helper()
	selector, notes := c.notes()
	notes.Create("a", nil)
	if status != nil {
		notes.PatchStatus("a", map[string]any{"status": status})
	}
	var done atomic.Bool
	r := &kopf.Registry{}
	r.OnReconcile(selector, kopf.Typed(func(_ context.Context, r *kopf.Reconcile, o *T) error {
		if done.Swap(true) {
			return nil
		}
		if meanwhile != nil {
			notes.PatchStatus("a", map[string]any{"status": meanwhile})
		}
		change(r, o)
		return nil
	}), &kopf.ReconcileOptions{ID: "reconcile"})
	op := c.Operator(r)
	c.WaitFor("the call", done.Load)
	c.Pass(2 * time.Second)
	for _, line := range op.Logs.All() {
		if strings.Contains(line.Message, "panic") {
			c.Errorf("got the line %v", line)
		}
	}
	return notes.Get("a").Status().Map()
}

func readyCondition(status, reason string) map[string]any {
	return map[string]any{"type": "Ready", "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}
}

var _ = Suite("types_status", func(t *testing.T, c *C) {
	removals(t, c)
	listItems(t, c)
	explicitConditions(t, c)
	unsentStatus(t, c)
	laterStatus(t, c)
	c.Run(t, "TD-3 fields that are always written go with the first change of the status", func(c *C) {
		got := changedOnce(c, nil, nil, func(_ *kopf.Reconcile, o *alwaysWritten) { o.Status.Phase = "Ready" })
		c.same("the status", map[string]any{"phase": "Ready", "count": 0}, got)
	})
	c.Run(t, "TD-3 fields that a newer struct has in addition go with the next change of the status", func(c *C) {
		got := changedOnce(c, map[string]any{"phase": "Old", "theirs": 1}, nil, func(_ *kopf.Reconcile, o *alwaysWritten) { o.Status.Phase = "New" })
		c.same("the status", map[string]any{"phase": "New", "count": 0, "theirs": 1}, got)
	})
	c.Run(t, "TD-3 fields that others remove meanwhile stay removed", func(c *C) {
		got := changedOnce(c, map[string]any{"phase": "Old", "count": 5}, map[string]any{"count": nil}, func(_ *kopf.Reconcile, o *alwaysWritten) { o.Status.Phase = "New" })
		c.same("the status", map[string]any{"phase": "New"}, got)
	})
	c.Run(t, "TD-3 a condition alone goes with the fields that are always written", func(c *C) {
		type both struct {
			kopf.Meta `json:",inline"`
			Status    struct {
				Count      int              `json:"count"`
				Conditions []kopf.Condition `json:"conditions,omitempty"`
			} `json:"status,omitempty"`
		}
		got := changedOnce(c, nil, nil, func(_ *kopf.Reconcile, o *both) {
			o.Status.Conditions = []kopf.Condition{{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Up"}}
		})
		if list, _ := got["conditions"].([]any); len(list) != 1 || fmt.Sprint(got["count"]) != "0" {
			c.Errorf("got %v, want the condition and the count", got)
		}
	})
	c.Run(t, "TD-3 conditions may be in an embedded pointer that is nil", func(c *C) {
		got := changedOnce(c, map[string]any{"phase": "Old"}, nil, func(_ *kopf.Reconcile, o *pointed) { o.Status.Phase = "New" })
		c.same("the status", map[string]any{"phase": "New"}, got)
	})
	c.Run(t, "TD-2 a value that does not fit is shown in part, and one of a Secret is not", func(c *C) {
		type number struct {
			Data struct {
				Long int `json:"long"`
			} `json:"data"`
		}
		ignoreNumber := func(context.Context, *kopf.Change, *number) error { return nil }
		r := &kopf.Registry{}
		r.OnCreate("secrets", kopf.Typed(ignoreNumber), &kopf.ChangeOptions{ID: "secret"})
		r.OnCreate("configmaps", kopf.Typed(ignoreNumber), &kopf.ChangeOptions{ID: "configmap"})
		op := c.Operator(r)
		c.Of("v1", "Secret").Create("a", map[string]any{"data": map[string]any{"long": "aHVudGVyMg=="}})
		c.configMaps().Create("b", map[string]any{"data": map[string]any{"long": strings.Repeat("x", 5000)}})
		find := func(id string) []Line { return op.Logs.Find("Handler '" + id + "' failed permanently") }
		c.WaitFor("the failures", func() bool { return len(find("secret")) > 0 && len(find("configmap")) > 0 })
		text := func(l Line) string { return l.Message + fmt.Sprint(l.Attrs) }
		c.wants("the line", text(find("secret")[0]), "data.long: want int, got something else")
		c.wants("the line", text(find("configmap")[0]), `data.long: want int, got "xxx`, "… (5002 bytes)")
		for _, line := range op.Logs.All() {
			if strings.Contains(text(line), "aHVudGVyMg") || line.Level > slog.LevelDebug && len(text(line)) > 1000 {
				c.Errorf("got the line %v", line)
			}
		}
	})
	c.Run(t, "TD-2 a function without a struct is refused when its handler is made", func(c *C) {
		problem := func() (problem any) {
			defer func() { problem = recover() }()
			kopf.Typed(func(context.Context, *kopf.Change, *string) error { return nil })
			return nil
		}()
		c.wants("the panic", fmt.Sprint(problem), "kopf: Typed at ", "types_status.go:", "want a function that takes a pointer to a struct, not to string")
	})
	c.Run(t, "TD-5 an object that is read into a struct, and updated, keeps its owners", func(c *C) {
		_, notes := c.notes()
		owner := c.configMaps().Create("owner", nil)
		notes.Create("a", map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.UID(), "controller": true}}}})
		var n note
		ref := notes.Get("a").Reference()
		if err := c.Client.Get(c.Context(), ref, &n, nil); err != nil {
			c.Fatal(err)
		}
		n.Spec.Size = 5
		if err := c.Client.Update(c.Context(), &n, nil); err != nil {
			c.Fatal(err)
		}
		after := notes.Get("a")
		c.same("the size", 5, after.Spec().Int("size"))
		c.same("the owners", 1, len(after.Metadata().Views("ownerReferences")))
	})
	c.Run(t, "TD-5 an object that is read into a used struct replaces it", func(c *C) {
		_, notes := c.notes()
		notes.Create("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}})
		n := note{Spec: noteSpec{Size: 5}}
		n.Labels = map[string]string{"c": "d"}
		if err := c.Client.Get(c.Context(), notes.Get("a").Reference(), &n, nil); err != nil {
			c.Fatal(err)
		}
		if n.Spec.Size != 0 || !maps.Equal(n.Labels, map[string]string{"a": "b"}) {
			c.Errorf("got the size %d and the labels %v, want none of what was there before", n.Spec.Size, n.Labels)
		}
	})
})

func removals(t *testing.T, c *C) {
	c.Run(t, "TD-6 a status that is reset loses its conditions", func(c *C) {
		got := changedOnce(c, map[string]any{"phase": "Old", "conditions": []any{readyCondition("True", "Up")}}, nil, func(_ *kopf.Reconcile, o *conditioned) { o.Status = conditioned{}.Status })
		if conditions, _ := got["conditions"].([]any); len(conditions) > 0 || got["phase"] != nil {
			c.Errorf("got %v, want nothing", got)
		}
	})
	c.Run(t, "TD-5 what is not known of a struct stays, also if the struct becomes the zero value", func(c *C) {
		got := changedOnce(c, map[string]any{"sync": map[string]any{"done": 5, "theirs": 1}}, nil, func(_ *kopf.Reconcile, o *inventory) { o.Status.Sync.Done = 0 })
		c.same("the status", map[string]any{"sync": map[string]any{"theirs": 1}}, got)
	})
	c.Run(t, "TD-6 a struct that becomes the zero value goes", func(c *C) {
		got := changedOnce(c, map[string]any{"sync": map[string]any{"done": 5}, "items": []any{"a"}}, nil, func(_ *kopf.Reconcile, o *inventory) { o.Status.Sync.Done = 0 })
		c.same("the status", map[string]any{"items": []any{"a"}}, got)
	})
	c.Run(t, "TD-5 what others add to a list or a map meanwhile stays, also if all else of it goes", func(c *C) {
		got := changedOnce(c, map[string]any{"items": []any{"a"}, "map": map[string]any{"a": "b"}}, map[string]any{"items": []any{"a", "theirs"}, "map": map[string]any{"theirs": "x"}}, func(_ *kopf.Reconcile, o *inventory) {
			o.Status.Items = nil
			delete(o.Status.Map, "a")
		})
		c.same("the status", map[string]any{"items": []any{"theirs"}, "map": map[string]any{"theirs": "x"}}, got)
	})
}

func listItems(t *testing.T, c *C) {
	item := func(kind string, more ...any) map[string]any {
		m := map[string]any{"kind": kind, "name": "web"}
		if len(more) > 0 {
			m["theirs"] = more[0]
		}
		return m
	}
	c.Run(t, "TD-5 an item that others add meanwhile stays, also with the name of another item", func(c *C) {
		got := changedOnce(c, map[string]any{"resources": []any{item("Service")}}, map[string]any{"resources": []any{item("Service"), item("Ingress")}}, func(_ *kopf.Reconcile, o *inventory) {
			o.Status.Resources[0].Ready = true
		})
		c.same("the items", []any{map[string]any{"kind": "Service", "name": "web", "ready": true}, item("Ingress")}, got["resources"])
	})
	c.Run(t, "TD-5 an item keeps what is its own when another one of its name goes", func(c *C) {
		got := changedOnce(c, map[string]any{"resources": []any{item("Service", 1), item("Ingress", 2)}}, nil, func(_ *kopf.Reconcile, o *inventory) {
			o.Status.Resources = o.Status.Resources[1:]
			o.Status.Resources[0].Ready = true
		})
		c.same("the items", []any{map[string]any{"kind": "Ingress", "name": "web", "ready": true, "theirs": 2}}, got["resources"])
	})
	c.Run(t, "TD-5 an item whose key is a number keeps what is its own", func(c *C) {
		got := changedOnce(c, map[string]any{"ports": []any{map[string]any{"port": 80, "theirs": 1}, map[string]any{"port": 443, "theirs": 2}}}, nil, func(_ *kopf.Reconcile, o *inventory) {
			o.Status.Ports = o.Status.Ports[1:]
			o.Status.Ports[0].State = "open"
		})
		c.same("the ports", []any{map[string]any{"port": 443, "state": "open", "theirs": 2}}, got["ports"])
	})
}

func explicitConditions(t *testing.T, c *C) {
	for name, explicit := range map[string]func(p *kopf.Patch){
		"the status is removed": func(p *kopf.Patch) { p.Remove("status") },
		"the list is removed":   func(p *kopf.Patch) { p.Remove("status.conditions") },
		"the list is set":       func(p *kopf.Patch) { p.Set("status.conditions", []any{readyCondition("False", "Patch")}) },
		"the list is replaced":  func(p *kopf.Patch) { p.Replace("status.conditions", []any{readyCondition("False", "Patch")}) },
	} {
		c.Run(t, "TD-3 what the patch says of conditions wins: "+name, func(c *C) {
			got := changedOnce(c, map[string]any{"phase": "Old"}, nil, func(r *kopf.Reconcile, o *conditioned) {
				o.Status.Conditions = []kopf.Condition{{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Struct"}}
				explicit(r.Patch)
			})
			text := fmt.Sprint(got["conditions"])
			if strings.Contains(text, "Struct") || strings.Contains(name, "removed") != (got["conditions"] == nil) {
				c.Errorf("got the conditions %s, want what the patch says", text)
			}
		})
	}
}

func unsentStatus(t *testing.T, c *C) {
	// timed runs a timer that sets the phases one after another, with an error for those that end in "!". For "", it leaves the object unchanged. The
	// patches of some calls fail.
	timed := func(c *C, failing []int32, phases ...string) string {
		c.OnlyInBubble("the pauses are long")
		selector, notes := c.notes()
		var calls atomic.Int32
		r := &kopf.Registry{}
		r.OnTimer(selector, kopf.Typed(func(_ context.Context, _ *kopf.Timer, o *conditioned) error {
			i := int(calls.Add(1)) - 1
			if i >= len(phases) {
				return nil
			}
			phase, fails := strings.CutSuffix(phases[i], "!")
			switch phase {
			case "panic":
				panic("on purpose")
			case "":
			default:
				o.Status.Phase = phase
			}
			if fails {
				return errors.New("not yet")
			}
			return nil
		}), &kopf.TimerOptions{ID: "timer", Interval: 50 * time.Second, Backoff: 10 * time.Second})
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Networking.ErrorBackoffs = nil })
		op.Wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch && strings.Contains(q.Path, "/notes/") && slices.Contains(failing, calls.Load()) {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, nil
		})
		notes.Create("a", nil)
		c.WaitFor("the calls", func() bool { return int(calls.Load()) > len(phases) })
		return notes.Get("a").Status().String("phase")
	}
	c.Run(t, "TD-3 a change that could not be sent is overtaken by that of the next call", func(c *C) {
		c.same("the phase", "Second", timed(c, []int32{1}, "First", "Second"))
	})
	c.Run(t, "TD-3 a change that could not be sent goes with the next call, if that leaves it", func(c *C) {
		c.same("the phase", "First", timed(c, []int32{1}, "First", ""))
	})
	c.Run(t, "TD-3 also if that panics", func(c *C) {
		c.same("the phase", "First", timed(c, []int32{1}, "First", "panic!"))
	})
	c.Run(t, "TD-3 a change of a call that has failed is overtaken, too", func(c *C) {
		c.same("the phase", "Second", timed(c, []int32{1}, "First!", "Second"))
	})
	c.Run(t, "TD-3 a change back of what could not be sent is a change", func(c *C) {
		c.same("the phase", "Up", timed(c, []int32{2}, "Up", "Down", "Up"))
	})
}

// tunnelStatus is a status that functions change which kopf calls after the handler has returned.
type tunnelStatus struct {
	kopf.Meta `json:",inline"`
	Status    struct {
		Tunnel     string           `json:"tunnel,omitempty"`
		Phase      string           `json:"phase,omitempty"`
		Done       []string         `json:"done,omitempty"`
		Bad        float64          `json:"bad,omitempty" type:"number"`
		Conditions []kopf.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

func laterStatus(t *testing.T, c *C) {
	// declare declares a ConfigMap with options in a typed handler, and returns the status afterwards.
	declare := func(c *C, handle func(r *kopf.Reconcile, o *tunnelStatus) *kopf.DesiredOptions) map[string]any {
		selector, notes := c.notes()
		notes.Create("a", nil)
		r := &kopf.Registry{}
		var calls atomic.Int32
		r.OnReconcile(selector, kopf.Typed(func(_ context.Context, r *kopf.Reconcile, o *tunnelStatus) error {
			calls.Add(1)
			r.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, handle(r, o))
			return nil
		}), &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
		c.Operator(r)
		c.WaitFor("the call", func() bool { return calls.Load() > 0 })
		c.Pass(2 * time.Second)
		return notes.Get("a").Status().Map()
	}
	noFields := func() (any, error) { return map[string]any{}, nil }
	c.Run(t, "TD-3 the option Create may change the status of a typed object", func(c *C) {
		got := declare(c, func(r *kopf.Reconcile, o *tunnelStatus) *kopf.DesiredOptions {
			o.Status.Phase = "Declared"
			return &kopf.DesiredOptions{Create: func(context.Context) (any, error) {
				o.Status.Tunnel, o.Status.Phase = "tunnel-1", "Made"
				o.Status.Conditions = []kopf.Condition{{Type: "Tunnel", Status: kopf.ConditionTrue, Reason: "Up"}}
				return noFields()
			}}
		})
		conditions, _ := got["conditions"].([]any)
		if got["tunnel"] != "tunnel-1" || got["phase"] != "Made" || len(conditions) != 1 {
			c.Errorf("got %v, want the tunnel, the phase Made and the condition", got)
		}
	})
	c.Run(t, "TD-3 a change in the option Create keeps what the patch has", func(c *C) {
		got := declare(c, func(r *kopf.Reconcile, o *tunnelStatus) *kopf.DesiredOptions {
			r.Patch.Set("status.phase", "Patch")
			return &kopf.DesiredOptions{Create: func(context.Context) (any, error) {
				o.Status.Done = append(o.Status.Done, "made")
				r.Patch.Set("status.tunnel", "tunnel-1")
				return noFields()
			}}
		})
		c.same("the status", map[string]any{"phase": "Patch", "tunnel": "tunnel-1", "done": []any{"made"}}, got)
	})
	c.Run(t, "TD-3 the option Ready may change the status of a typed object", func(c *C) {
		got := declare(c, func(r *kopf.Reconcile, o *tunnelStatus) *kopf.DesiredOptions {
			return &kopf.DesiredOptions{Ready: func(*kopf.Body) (bool, string) {
				o.Status.Phase = "Judged"
				return true, ""
			}}
		})
		c.same("the status", map[string]any{"phase": "Judged"}, got)
	})
	c.Run(t, "TD-3 a status that the option Create makes invalid fails the handler", func(c *C) {
		selector, notes := c.notes()
		r := &kopf.Registry{}
		r.OnReconcile(selector, kopf.Typed(func(_ context.Context, r *kopf.Reconcile, o *tunnelStatus) error {
			r.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, &kopf.DesiredOptions{Create: func(context.Context) (any, error) {
				o.Status.Bad = math.NaN()
				return noFields()
			}})
			return nil
		}), &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
		op := c.Operator(r)
		notes.Create("a", nil)
		c.WaitFor("the failure", func() bool { return len(op.Logs.Find("Handler 'reconcile' failed permanently")) > 0 })
		c.wants("the line", op.Logs.Find("Handler 'reconcile' failed permanently")[0].Message, "status", "NaN")
	})
	// subhandled runs a typed handler with sub-handlers that change its struct, and returns the status
	// afterwards.
	subhandled := func(c *C, sub func(retry int, name string, o *tunnelStatus) error) (map[string]any, *Running) {
		selector, notes := c.notes()
		r := &kopf.Registry{}
		r.OnCreate(selector, kopf.Typed(func(_ context.Context, ch *kopf.Change, o *tunnelStatus) error {
			for _, name := range []string{"one", "two"} {
				ch.Subhandler(kopf.HandlerID(name), func(_ context.Context, ch *kopf.Change) error { return sub(ch.Retry, name, o) }, nil)
			}
			return nil
		}), &kopf.ChangeOptions{ID: "create"})
		op := c.Operator(r)
		notes.Create("a", nil)
		c.WaitFor("the end", func() bool {
			return len(op.Logs.Find("Handler 'create' succeeded")) > 0 || len(op.Logs.Find("Handler 'create' failed")) > 0
		})
		return notes.Get("a").Status().Map(), op
	}
	c.Run(t, "TD-3 sub-handlers may change the status of a typed object of their parent", func(c *C) {
		got, _ := subhandled(c, func(_ int, name string, o *tunnelStatus) error {
			o.Status.Done = append(o.Status.Done, name)
			return nil
		})
		c.same("the status", map[string]any{"done": []any{"one", "two"}}, got)
	})
	c.Run(t, "TD-3 sub-handlers that are called again add to the status", func(c *C) {
		got, _ := subhandled(c, func(retry int, name string, o *tunnelStatus) error {
			if name == "two" && retry == 0 {
				return kopf.Temporary(errors.New("not yet"), time.Second)
			}
			o.Status.Done = append(o.Status.Done, name)
			return nil
		})
		c.same("the status", map[string]any{"done": []any{"one", "two"}}, got)
	})
	c.Run(t, "TD-3 a status that a sub-handler makes invalid fails the handler", func(c *C) {
		_, op := subhandled(c, func(_ int, _ string, o *tunnelStatus) error {
			o.Status.Bad = math.NaN()
			return nil
		})
		c.wants("the line", op.Logs.Find("Handler 'create' failed")[0].Message, "failed permanently", "status", "NaN")
	})
	c.Run(t, "TD-3 a handler that panics keeps its changes of the status, as those of the patch", func(c *C) {
		selector, notes := c.notes()
		notes.Create("a", nil)
		r := &kopf.Registry{}
		r.OnReconcile(selector, kopf.Typed(func(_ context.Context, r *kopf.Reconcile, o *tunnelStatus) error {
			r.Patch.Set("status.tunnel", "tunnel-1")
			o.Status.Phase = "Begun"
			panic("on purpose")
		}), &kopf.ReconcileOptions{ID: "reconcile", Errors: kopf.ErrorsPermanent})
		op := c.Operator(r)
		c.WaitFor("the failure", func() bool { return len(op.Logs.Find("Handler 'reconcile' failed")) > 0 })
		c.Pass(2 * time.Second)
		c.same("the status", map[string]any{"tunnel": "tunnel-1", "phase": "Begun"}, notes.Get("a").Status().Map())
	})
}
