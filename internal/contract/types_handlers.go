package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how handlers get structs, what happens to their changes, and how operators, servers and clusters get CRDs.

// note is a kind whose schema keeps everything on the server.
type note struct {
	kopf.Meta `json:",inline"`
	Spec      noteSpec   `json:"spec,omitzero"`
	Status    noteStatus `json:"status,omitzero"`
}

type noteSpec struct {
	Size int64     `json:"size,omitempty"`
	At   time.Time `json:"at,omitzero"`
}

type noteStatus struct {
	Phase      string            `json:"phase,omitempty"`
	Count      int64             `json:"count,omitempty"`
	At         time.Time         `json:"at,omitzero"`
	Pointer    *noteSpec         `json:"pointer,omitempty"`
	Items      []noteItem        `json:"items,omitempty"`
	Map        map[string]string `json:"map,omitempty"`
	Conditions []kopf.Condition  `json:"conditions,omitempty"`
}

type noteItem struct {
	Name string `json:"name"`
	Size int    `json:"size,omitempty"`
}

// notes defines a kind with the subresource status and a schema that keeps everything, and returns its selector.
func (c *C) notes() (kopf.Selector, *Kind) {
	group := strings.ReplaceAll(c.suite.name, "_", "-") + ".example.com"
	d := definition("notes", "Note", "Namespaced", map[string]any{"status": map[string]any{}})
	d["metadata"] = map[string]any{"name": "notes." + group}
	d["spec"].(map[string]any)["group"] = group
	c.DefineForSuite(d)
	return kopf.Selector(group + "/v1/notes"), c.Of(group+"/v1", "Note")
}

// typedOnce runs an operator that changes the note "a" once, and returns the object afterwards.
func (c *C) typedOnce(object map[string]any, change func(r *kopf.Reconcile, n *note) error) (*Running, *kopf.Body) {
	c.Helper()
	selector, notes := c.notes()
	notes.Create("a", object)
	if status, ok := object["status"]; ok {
		notes.PatchStatus("a", map[string]any{"status": status})
	}
	var done atomic.Bool
	r := &kopf.Registry{}
	r.OnReconcile(selector, kopf.Typed(func(_ context.Context, r *kopf.Reconcile, n *note) error {
		if done.Swap(true) {
			return nil
		}
		return change(r, n)
	}), nil)
	op := c.Operator(r)
	c.WaitFor("the call", done.Load)
	c.Pass(time.Second)
	return op, notes.Get("a")
}

// called records the names of called handlers.
type called struct {
	mu    sync.Mutex // guards names
	names []string
}

func (l *called) add(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = append(l.names, name)
}

func (l *called) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.names))
}

func (l *called) create(_ context.Context, c *kopf.Change, n *note) error {
	l.add("create")
	return nil
}
func (l *called) event(_ context.Context, e *kopf.WatchEvent, n *note) error {
	if e.Type == kopf.Added || e.Type == kopf.Listed {
		l.add("event")
	}
	return nil
}
func (l *called) timer(_ context.Context, t *kopf.Timer, n *note) error { l.add("timer"); return nil }
func (l *called) daemon(_ context.Context, d *kopf.Daemon, n *note) error {
	l.add("daemon")
	return nil
}
func (l *called) validate(_ context.Context, a *kopf.Admission, n *note) error { return nil }
func (l *called) index(_ context.Context, i *kopf.Indexing, n *note) (map[string]int64, error) {
	return map[string]int64{n.Name: n.Spec.Size}, nil
}

// like are types similar to those in k8s.io/api: with their own methods, and with embedded types.
type likeTime struct{ time.Time }

func (likeTime) OpenAPISchemaType() []string { return []string{"string"} }
func (likeTime) OpenAPISchemaFormat() string { return "date-time" }

type likeEnvVar struct {
	Name  string `json:"name" protobuf:"bytes,1,opt,name=name"`
	Value string `json:"value,omitempty" protobuf:"bytes,2,opt,name=value"`
}

type likeSpec struct {
	Env  []likeEnvVar `json:"env,omitempty" listKey:"name"`
	When likeTime     `json:"when,omitempty"`
}

type likeStatus struct {
	Env  []likeEnvVar `json:"env,omitempty"`
	When *likeTime    `json:"when,omitempty"`
}

type like struct {
	kopf.Meta
	Spec   likeSpec   `json:"spec"`
	Status likeStatus `json:"status,omitzero"`
}

var _ = SerialSuite("types_handlers", func(t *testing.T, c *C) {
	c.Run(t, "TD-2 each call gets a new struct, and what does not fit fails the handler permanently", func(c *C) {
		selector, notes := c.notes()
		var l called
		r := &kopf.Registry{}
		first := func(_ context.Context, ch *kopf.Change, n *note) error {
			l.add(fmt.Sprint("first ", n.Spec.Size))
			n.Spec.Size = 5
			return nil
		}
		r.OnCreate(selector, kopf.Typed(first), &kopf.ChangeOptions{ID: "first"})
		r.OnCreate(selector, kopf.Typed(func(_ context.Context, ch *kopf.Change, n *note) error {
			l.add(fmt.Sprint("second ", n.Spec.Size))
			return nil
		}), &kopf.ChangeOptions{ID: "second"})
		r.OnCreate(selector, func(_ context.Context, ch *kopf.Change) error { l.add("untyped"); return nil }, &kopf.ChangeOptions{ID: "third"})
		op := c.Operator(r)
		notes.Create("a", spec(map[string]any{"size": 1}))
		c.WaitFor("the calls", func() bool { return len(l.all()) == 3 })
		c.same("the calls", []string{"first 1", "second 1", "untyped"}, l.all())
		notes.Create("b", spec(map[string]any{"size": "large"}))
		c.WaitFor("the end of the handling", func() bool { return strings.Contains(fmt.Sprint(notes.Get("b").Annotations()), "last-handled") })
		c.same("the calls", []string{"first 1", "second 1", "untyped", "untyped"}, l.all())
		lines := op.Logs.Find("failed permanently")
		if len(lines) != 2 {
			c.Fatalf("got %v, want a line of each typed handler", lines)
		}
		c.wants("the line", lines[0].Message+lines[0].Attrs["error"], "Note", `does not fit the type contract.note: spec.size: want int64, got "large"`)
	})
	c.Run(t, "TD-2 Typed fits all families, and handlers have the names of their functions", func(c *C) {
		c.OnlyInBubble("the server of the reviews is in the process")
		selector, notes := c.notes()
		var l called
		r := &kopf.Registry{}
		r.OnCreate(selector, kopf.Typed(l.create), nil)
		r.OnResume(selector, kopf.Typed(l.create), nil) // the same function again
		r.OnEvent(selector, kopf.Typed(l.event), nil)
		r.OnTimer(selector, kopf.Typed(l.timer), &kopf.TimerOptions{Interval: 1000 * time.Hour})
		r.OnDaemon(selector, kopf.Typed(l.daemon), nil)
		r.OnValidate(selector, kopf.Typed(l.validate), nil)
		sizes := kopf.OnIndexIn(r, selector, kopf.TypedIndex(l.index), nil)
		r.OnUpdate(selector, kopf.Typed(func(_ context.Context, ch *kopf.Change, n *note) error {
			for _, size := range sizes.Get(ch, "a") {
				l.add(fmt.Sprint("index ", size))
			}
			ch.Subhandler("sub", kopf.Typed(func(_ context.Context, ch *kopf.Change, n *note) error { l.add("sub " + n.Name); return nil }), nil)
			return nil
		}), &kopf.ChangeOptions{ID: "update"})
		problem := func() (problem any) {
			defer func() { problem = recover() }()
			r.OnDelete(selector, kopf.Typed[*kopf.Change, note](nil), nil)
			return nil
		}()
		c.wants("the panic", fmt.Sprint(problem), "the function is nil")
		op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Admission.Server = nilServer{} })
		notes.Create("a", spec(map[string]any{"size": 4}))
		c.WaitFor("the calls", func() bool { return len(l.all()) == 4 })
		c.same("the calls", []string{"create", "daemon", "event", "timer"}, l.all())
		for _, name := range []string{"called.create", "called.timer", "called.daemon"} {
			if len(op.Logs.Find("Handler '"+name+"' succeeded"))+len(op.Logs.Find("'"+name+"'")) == 0 {
				c.Errorf("there is no line of the handler %s", name)
			}
		}
		notes.Patch("a", spec(map[string]any{"size": 6}))
		c.WaitFor("the sub-handler", func() bool { return slices.Contains(l.all(), "sub a") })
		if !slices.Contains(l.all(), "index 6") {
			c.Errorf("got %v, want the value of the index", l.all())
		}
	})
	c.Run(t, "TD-3 changes of the status are in the patch, also after an error", func(c *C) {
		selector, notes := c.notes()
		var calls atomic.Int32
		r := &kopf.Registry{}
		r.OnReconcile(selector, kopf.Typed(func(_ context.Context, r *kopf.Reconcile, n *note) error {
			switch calls.Add(1) {
			case 1:
				n.Status.Phase = "Failing"
				return errors.New("not yet")
			case 2:
				n.Status.Phase = "Ready"
			}
			return nil
		}), &kopf.ReconcileOptions{ID: "reconcile"})
		op := c.Operator(r)
		notes.Create("a", nil)
		c.WaitFor("the status", func() bool { return notes.Get("a").Status().String("phase") == "Ready" })
		c.Pass(time.Second)
		c.same("the patches", []string{
			`[{"op":"test","path":"/metadata/uid","value":"U"},{"op":"test","path":"/status","value":null},{"op":"add","path":"/status","value":{"phase":"Failing"}}]`,
			`[{"op":"test","path":"/metadata/uid","value":"U"},{"op":"replace","path":"/status/phase","value":"Ready"}]`,
		}, statusPatches(op, notes.Get("a").UID()))
		notes.Patch("a", spec(map[string]any{"size": 1}))
		c.WaitFor("another call", func() bool { return calls.Load() >= 3 })
		c.Pass(time.Second)
		if n := len(op.Wire.Writes()); n != 2 {
			c.Errorf("got %d writes, want none for a call without a difference", n-2)
		}
	})
	c.Run(t, "TD-3 what the patch has already wins", func(c *C) {
		_, body := c.typedOnce(map[string]any{"status": map[string]any{"phase": "Old", "map": map[string]any{"a": "b"}}}, func(r *kopf.Reconcile, n *note) error {
			n.Status.Phase, n.Status.Count, n.Status.Map = "Struct", 5, map[string]string{"a": "struct", "b": "struct"}
			n.Status.Items = []noteItem{{Name: "struct"}}
			n.Status.Pointer = &noteSpec{Size: 1}
			n.Status.Conditions = []kopf.Condition{{Type: "Ready", Status: "False", Reason: "Struct"}}
			r.Patch.Set("status.phase", "Patch")
			r.Patch.Set("status.map.a", "patch")
			r.Patch.Replace("status.pointer", map[string]any{"size": 2})
			r.Patch.Set("status.items", []any{map[string]any{"name": "patch"}})
			r.SetCondition(kopf.Condition{Type: "Ready", Status: "True", Reason: "Patch"})
			return nil
		})
		status := body.Status().Map()
		c.same("the condition", "Patch", status["conditions"].([]any)[0].(map[string]any)["reason"])
		delete(status, "conditions")
		c.same("the status", map[string]any{"phase": "Patch", "count": 5, "map": map[string]any{"a": "patch", "b": "struct"}, "pointer": map[string]any{"size": 2}, "items": []any{map[string]any{"name": "patch"}}}, status)
	})
	c.Run(t, "TD-3 a status that the patch removes stays removed", func(c *C) {
		_, body := c.typedOnce(map[string]any{"status": map[string]any{"phase": "Old"}}, func(r *kopf.Reconcile, n *note) error {
			n.Status.Count = 5
			r.Patch.Remove("status")
			return nil
		})
		if body.Has("status.count") || body.Has("status.phase") {
			c.Errorf("got %s", indented(body.Status()))
		}
	})
	c.Run(t, "TD-3 conditions keep their time while their status stays", func(c *C) {
		old := map[string]any{"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}
		_, body := c.typedOnce(map[string]any{"status": map[string]any{"conditions": []any{old, map[string]any{"type": "Gone", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}}}}, func(r *kopf.Reconcile, n *note) error {
			n.Status.Conditions = []kopf.Condition{{Type: "Ready", Status: "True", Reason: "Better"}, {Type: "New", Status: "False", Reason: "Down"}}
			return nil
		})
		var got []string
		for _, one := range body.Status().Views("conditions") {
			since := "now"
			if one.String("lastTransitionTime") == "2026-01-02T03:04:05Z" {
				since = "then"
			}
			got = append(got, fmt.Sprintf("%s %s %s %s %d", one.String("type"), one.String("status"), one.String("reason"), since, one.Int("observedGeneration")))
		}
		c.same("the conditions", []string{"Ready True Better then 1", "New False Down now 1"}, got)
	})
	c.Run(t, "TD-4 changes outside of the status are dropped, and told once", func(c *C) {
		selector, notes := c.notes()
		var calls atomic.Int32
		r := &kopf.Registry{}
		r.OnReconcile(selector, kopf.Typed(func(_ context.Context, r *kopf.Reconcile, n *note) error {
			calls.Add(1)
			n.Spec.Size++
			n.Name = "other"
			return nil
		}), &kopf.ReconcileOptions{ID: "reconcile"})
		op := c.Operator(r)
		for i := range 3 {
			name := fmt.Sprint("a", i)
			notes.Create(name, spec(map[string]any{"size": 1}))
			c.WaitFor("the call", func() bool { return calls.Load() == int32(i+1) })
			c.Pass(200 * time.Millisecond)
			c.same("the size", 1, notes.Get(name).Spec().Int("size"))
		}
		var got []string
		for _, line := range op.Logs.Find("A change of a typed object outside of its status was dropped") {
			got = append(got, fmt.Sprint(line.Level, " ", line.Attrs["handler"], " ", line.Attrs["field"]))
		}
		slices.Sort(got)
		c.same("the lines", []string{fmt.Sprint(slog.LevelWarn, " reconcile metadata.name"), fmt.Sprint(slog.LevelWarn, " reconcile spec.size")}, got)
		c.same("the writes", 0, len(op.Wire.Writes()))
	})
	c.Run(t, "TD-5 fields that the struct does not have stay", func(c *C) {
		_, body := c.typedOnce(map[string]any{
			"spec": map[string]any{"unknown": 1}, "status": map[string]any{
				"phase": "Old", "unknown": map[string]any{"a": 1}, "pointer": map[string]any{"size": 1, "unknown": 2}, "items": []any{map[string]any{"name": "a", "unknown": 3}, map[string]any{"name": "b", "unknown": 4}},
			},
		}, func(r *kopf.Reconcile, n *note) error {
			n.Status.Phase, n.Status.Pointer.Size = "New", 2
			n.Status.Items = []noteItem{n.Status.Items[1], {Name: "a", Size: 5}, {Name: "c"}}
			return nil
		})
		c.same("the status", map[string]any{
			"phase": "New", "unknown": map[string]any{"a": 1}, "pointer": map[string]any{"size": 2, "unknown": 2},
			"items": []any{map[string]any{"name": "b", "unknown": 4}, map[string]any{"name": "a", "size": 5, "unknown": 3}, map[string]any{"name": "c"}},
		}, body.Status().Map())
	})
	c.Run(t, "TD-5 items that others add meanwhile stay", func(c *C) {
		selector, notes := c.notes()
		notes.Create("a", nil)
		notes.PatchStatus("a", map[string]any{"status": map[string]any{"items": []any{map[string]any{"name": "a"}}}})
		r := &kopf.Registry{}
		var once sync.Once
		r.OnReconcile(selector, kopf.Typed(func(_ context.Context, r *kopf.Reconcile, n *note) error {
			once.Do(func() {
				n.Status.Items[0].Size = 1
				notes.PatchStatus("a", map[string]any{"status": map[string]any{"items": []any{map[string]any{"name": "a"}, map[string]any{"name": "theirs"}}}})
			})
			return nil
		}), nil)
		c.Operator(r)
		c.WaitFor("the change", func() bool { return strings.Contains(indented(notes.Get("a").Status()), "size") })
		c.same("the items", []any{map[string]any{"name": "a", "size": 1}, map[string]any{"name": "theirs"}}, notes.Get("a").Status().Get("items"))
	})
	c.Run(t, "TD-6 numbers and times come through, and what is nil is removed", func(c *C) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)
		_, body := c.typedOnce(map[string]any{
			"spec":   map[string]any{"size": int64(math.MaxInt64), "at": "2026-01-02T03:04:05.123456789Z"},
			"status": map[string]any{"count": int64(1<<53 + 1), "pointer": map[string]any{"size": 1}, "items": []any{map[string]any{"name": "a"}}, "map": map[string]any{"a": "b"}},
		}, func(r *kopf.Reconcile, n *note) error {
			if n.Spec.Size != math.MaxInt64 || !n.Spec.At.Equal(at) || n.Status.Count != 1<<53+1 {
				c.Errorf("got %+v", n)
			}
			n.Status.Count += 2
			n.Status.At = at
			n.Status.Pointer, n.Status.Items, n.Status.Map = nil, nil, nil
			return nil
		})
		c.same("the status", map[string]any{"count": int64(1<<53 + 3), "at": "2026-01-02T03:04:05.123456789Z"}, body.Status().Map())
	})
	c.Run(t, "TD-7 a struct and a function are all that is needed", func(c *C) {
		r := &kopf.Registry{}
		k, objects := definedAs[site](c, r, &kopf.Definition{Kind: "Site"})
		r.OnReconcile(k.Selector(), kopf.Typed(func(_ context.Context, r *kopf.Reconcile, s *site) error {
			s.Status.URL = "http://" + s.Name
			return nil
		}), nil)
		c.Operator(r)
		object := &site{Meta: kopf.Meta{APIVersion: objects.apiVersion, Kind: "Site", ObjectMeta: kopf.ObjectMeta{Name: "a", Namespace: c.Namespace}}}
		if err := c.Client.Create(c.Context(), object, nil); err != nil {
			c.Fatal(err)
		}
		c.same("the default", 1, object.Spec.Replicas)
		c.WaitFor("the status", func() bool { return objects.Get("a").Status().String("url") == "http://a" })
	})
	c.Run(t, "TD-8 types of k8s.io/api are fields", func(c *C) {
		r := &kopf.Registry{}
		k, objects := definedAs[like](c, r, &kopf.Definition{Kind: "Like"})
		c.same("the schema", `{"format":"date-time","type":"string"}`, schemaOf(c, k, "properties", "status", "properties", "when"))
		r.OnReconcile(k.Selector(), kopf.Typed(func(_ context.Context, r *kopf.Reconcile, o *like) error {
			o.Status = likeStatus{Env: o.Spec.Env, When: &o.Spec.When}
			return nil
		}), nil)
		c.Operator(r)
		objects.Create("a", spec(map[string]any{"env": []any{map[string]any{"name": "A", "value": "b"}}, "when": "2026-01-02T03:04:05Z"}))
		c.WaitFor("the status", func() bool { return objects.Get("a").Status().String("when") == "2026-01-02T03:04:05Z" })
		c.same("the list", []any{map[string]any{"name": "A", "value": "b"}}, objects.Get("a").Status().Get("env"))
	})
	c.Run(t, "DF-57 a misspelled field does not replace a field of the struct", func(c *C) {
		selector, notes := c.notes()
		object := spec(map[string]any{"size": 3, "Size": "many", "SIZE": 900})
		object["Status"] = map[string]any{"phase": "Misspelled"}
		var typed note
		var decoded noteSpec
		var done atomic.Bool
		r := &kopf.Registry{}
		r.OnCreate(selector, kopf.Typed(func(_ context.Context, ch *kopf.Change, n *note) error {
			typed = *n
			err := ch.Spec().Decode(&decoded)
			n.Status.Count = 1
			done.Store(true)
			return err
		}), &kopf.ChangeOptions{ID: "create"})
		op := c.Operator(r)
		notes.Create("a", object)
		c.WaitFor("the call", done.Load)
		c.WaitFor("the status", func() bool { return notes.Get("a").Status().Int("count") == 1 })
		op.Stop()
		var body, got note
		if err := notes.Get("a").Decode(&body); err != nil {
			c.Error(err)
		}
		ref := kopf.ObjectReference{APIVersion: typed.APIVersion, Kind: "Note", Namespace: c.Namespace, Name: "a"}
		if err := c.Client.Get(c.Context(), ref, &got, nil); err != nil {
			c.Error(err)
		}
		c.same("the sizes", []int64{3, 3, 3, 3}, []int64{typed.Spec.Size, decoded.Size, body.Spec.Size, got.Spec.Size})
		c.same("the phases", []string{"", "", ""}, []string{typed.Status.Phase, body.Status.Phase, got.Status.Phase})
		body.Spec.Size = 4
		if err := c.Client.Update(c.Context(), &body, nil); err != nil || body.Spec.Size != 4 {
			c.Errorf("got the size %d after an update, and the error %v", body.Spec.Size, err)
		}
	})
	c.Run(t, "TD-16 a handler of a field that the struct does not have is named in a warning", func(c *C) {
		c.OnlyInBubble("it is about the server in memory")
		server := kopf.NewAPIServer(nil)
		r := &kopf.Registry{}
		k := kopf.DefineIn[tunnelStatus](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Tunnel"})
		nothing := func(context.Context, *kopf.Change) error { return nil }
		for _, path := range []kopf.FieldPath{"status.phase", "status.done", "metadata.labels", "status.fase", "status.done.0"} {
			r.OnField(k.Selector(), path, nothing, &kopf.ChangeOptions{ID: "field"})
		}
		r.OnField("pods", "spec.nodeNames", nothing, &kopf.ChangeOptions{ID: "field"})
		r.OnReconcile(k.Selector(), func(context.Context, *kopf.Reconcile) error { return nil },
			&kopf.ReconcileOptions{ID: "reconcile", Fields: []kopf.FieldPath{"status.phase", "status.tunel"}})
		logs := &Logs{}
		kopf.NewRunner(c, &kopf.Operator{Registry: r, Connection: server.ConnectionInfo(), Logger: slog.New(&recorder{logs: logs, next: slog.DiscardHandler})}, nil)
		var problems []string
		for _, line := range logs.Find("A handler has a field that is not in the definition of its kind") {
			problems = append(problems, fmt.Sprint(line.Attrs["handler"], ": ", line.Attrs["problem"]))
		}
		c.same("the problems", []string{
			`field/status.fase: the struct has no field "status.fase"`, `field/status.done.0: "status.done" is a list, which has no fields`,
			`reconcile: the struct has no field "status.tunel"`,
		}, problems)
	})
	c.Run(t, "TD-28 a Runner makes the server in memory know the kinds", func(c *C) {
		c.OnlyInBubble("it is about the server in memory")
		server := kopf.NewAPIServer(nil)
		r := &kopf.Registry{}
		k := kopf.DefineIn[site](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site"})
		r.OnReconcile(k.Selector(), kopf.Typed(func(_ context.Context, r *kopf.Reconcile, s *site) error { s.Status.URL = "x"; return nil }), nil)
		kopf.NewRunner(c, &kopf.Operator{Registry: r, Connection: server.ConnectionInfo()}, nil)
		if err := server.Apply([]byte("{apiVersion: example.com/v1, kind: Site, metadata: {name: a, namespace: default}, spec: {}}")); err != nil {
			c.Fatal(err)
		}
		client, err := kopf.NewClient(server.ConnectionInfo(), nil)
		if err != nil {
			c.Fatal(err)
		}
		ref := kopf.ObjectReference{APIVersion: "example.com/v1", Kind: "Site", Namespace: "default", Name: "a"}
		if _, err := kopf.WaitFor(c.Context(), client, ref, "to be handled", func(b *kopf.Body) bool { return b != nil && b.Status().String("url") == "x" }); err != nil {
			c.Error(err)
		}
	})
	c.Run(t, "TD-28 another definition of the kind stays", func(c *C) {
		c.OnlyInBubble("it is about the server in memory")
		server := kopf.NewAPIServer(nil)
		r := &kopf.Registry{}
		k := kopf.DefineIn[site](r, &kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site"})
		if err := server.Apply([]byte(strings.Replace(string(k.Manifest()), `"replicas":{"default":1`, `"replicas":{"default":2`, 1))); err != nil {
			c.Fatal(err)
		}
		kopf.NewRunner(c, &kopf.Operator{Registry: r, Connection: server.ConnectionInfo()}, nil)
		object := &site{Meta: kopf.Meta{APIVersion: "example.com/v1", Kind: "Site", ObjectMeta: kopf.ObjectMeta{Name: "a", Namespace: "default"}}}
		client, err := kopf.NewClient(server.ConnectionInfo(), nil)
		if err == nil {
			err = client.Create(c.Context(), object, nil)
		}
		if err != nil || object.Spec.Replicas != 2 {
			c.Errorf("got %d replicas, %v", object.Spec.Replicas, err)
		}
	})
	c.Run(t, "TD-28 a new server knows the kinds of the default registry", func(c *C) {
		c.OnlyInBubble("it is about the server in memory")
		before := kopf.DefaultRegistry()
		kopf.SetDefaultRegistry(nil)
		defer kopf.SetDefaultRegistry(before)
		kopf.Define[site](&kopf.Definition{Group: "example.com", Version: "v1", Kind: "Site"})
		if err := kopf.NewAPIServer(nil).Apply([]byte("{apiVersion: example.com/v1, kind: Site, metadata: {name: a, namespace: default}, spec: {}}")); err != nil {
			c.Error(err)
		}
	})
	c.Run(t, "TD-T3 what a schema drops is told, and a definition of the struct drops nothing", func(c *C) {
		r := &kopf.Registry{}
		k, objects := definedAs[site](c, r, &kopf.Definition{Kind: "Site"})
		r.OnReconcile(k.Selector(), kopf.Typed(func(_ context.Context, r *kopf.Reconcile, s *site) error {
			s.Status = siteStatus{URL: "x", Replicas: 3, Conditions: []kopf.Condition{{Type: "Ready", Status: "True", Reason: "Up"}}}
			return nil
		}), nil)
		op := c.Operator(r)
		objects.Create("a", spec(map[string]any{}))
		c.WaitFor("all of the status", func() bool {
			return objects.Get("a").Has("status.conditions") && objects.Get("a").Has("status.replicas") && objects.Get("a").Has("status.url")
		})
		if lines := op.Logs.Find("The cluster has another definition of a kind than the operator"); len(lines) > 0 {
			c.Errorf("got %v", lines)
		}
	})
	c.Run(t, "TD-29 the definition of the cluster is compared with that of the struct", func(c *C) {
		r := &kopf.Registry{}
		group := c.Unique("types.example.com")
		kopf.DefineIn[site](r, &kopf.Definition{Group: group, Version: "v1", Kind: "Site"})
		problems := func() (all []string) {
			c.Helper()
			op := c.Operator(r)
			for _, line := range op.Logs.Find("The cluster has another definition of a kind than the operator") {
				all = append(all, fmt.Sprint(line.Level, " ", line.Attrs["definition"], " ", line.Attrs["problem"]))
			}
			for _, line := range op.Logs.Find("The CRD of a kind is not installed; not serving the kind until it is") {
				c.same("the hint", true, strings.Contains(line.Attrs["hint"], "manifests --only CustomResourceDefinition"))
				all = append(all, fmt.Sprint(line.Level, " ", line.Attrs["definition"], " is not installed"))
			}
			var gets int
			for _, q := range op.Wire.Requests() {
				if strings.HasSuffix(q.Path, "/customresourcedefinitions/sites."+group) {
					gets++
				}
			}
			if writes := op.Wire.Writes(); gets != 1 || len(writes) > 0 {
				c.Errorf("got %d requests for the definition, want 1 GET, and no writes: %v", gets, writes)
			}
			op.Stop()
			return all
		}
		c.same("no definition", []string{"WARN sites." + group + " is not installed"}, problems())
		manifest := manifestOf(c, first(tried[site](&kopf.Definition{Group: group, Version: "v1", Kind: "Site"})))
		version := manifest["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
		version["name"] = "v2"
		c.Define(manifest)
		c.same("another version", []string{"WARN sites." + group + " it serves the versions v2, but not v1"}, problems())
		c.undefine("CustomResourceDefinition", "apiextensions.k8s.io/v1", "sites."+group)
		version["name"] = "v1"
		properties := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)
		delete(properties, "hosts")
		ports := properties["ports"].(map[string]any)["items"].(map[string]any)
		delete(ports["properties"].(map[string]any), "port")
		ports["required"] = []any{"name"}
		c.Define(manifest)
		c.same("a schema that is behind", []string{"WARN sites." + group + " its schema drops the fields spec.hosts, spec.ports[].port"}, problems())
	})
	c.Run(t, "TD-29 without the permission nothing is compared", func(c *C) {
		r := &kopf.Registry{}
		kopf.DefineIn[site](r, &kopf.Definition{Group: c.Unique("types.example.com"), Version: "v1", Kind: "Site"})
		op := c.Operator(r, func(op *kopf.Operator) {
			op.Connection.HTTPClient.Transport.(*Wire).Fault(func(q *Request) (*http.Response, error) {
				if strings.Contains(q.Path, "/customresourcedefinitions/") {
					return Answer(http.StatusForbidden, "Forbidden", "you may not"), nil
				}
				return nil, nil
			})
		})
		if lines := op.Logs.Find("The cluster has another definition"); len(lines) > 0 {
			c.Errorf("got %v", lines)
		}
	})
	c.Run(t, "TD-29 Install applies the definition, and waits for it", func(c *C) {
		r := &kopf.Registry{}
		group := c.Unique("types.example.com")
		name := "sites." + group
		definitions := c.Of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
		k := kopf.DefineIn[site](r, &kopf.Definition{Group: group, Version: "v1", Kind: "Site", Install: true})
		r.OnReconcile(k.Selector(), kopf.Typed(func(_ context.Context, r *kopf.Reconcile, s *site) error { s.Status.URL = "x"; return nil }), nil)
		op := c.Operator(r)
		c.Cleanup(func() { _ = c.Client.Delete(contextWithout(c.Context()), definitions.Ref(name), nil) })
		if status, _, _ := condition(definitions.Get(name), "Established"); status != "True" {
			c.Error("the definition is not established when the operator is ready")
		}
		if lines := op.Logs.Find("Definition installed"); len(lines) != 1 {
			c.Errorf("got the lines %v", lines)
		}
		objects := c.Of(group+"/v1", "Site")
		c.WaitFor("the kind", func() bool { return c.serves(definitions.Get(name)) })
		objects.Create("a", spec(map[string]any{}))
		c.WaitFor("the status", func() bool { return objects.Get("a").Status().String("url") == "x" })
		op.Stop()
		version := definitions.Get(name).ResourceVersion()
		c.Operator(r).Stop()
		c.same("the version after another start", version, definitions.Get(name).ResourceVersion())
	})
	c.Run(t, "TD-29 an Install that is refused ends the operator", func(c *C) {
		r := &kopf.Registry{}
		kopf.DefineIn[site](r, &kopf.Definition{Group: c.Unique("types.example.com"), Version: "v1", Kind: "Site", Install: true})
		wire := &Wire{base: c.transport()}
		wire.Fault(func(q *Request) (*http.Response, error) {
			if q.Method == http.MethodPatch {
				return Answer(http.StatusForbidden, "Forbidden", "you may not"), nil
			}
			return nil, nil
		})
		info := c.ConnectionInfo()
		info.HTTPClient = &http.Client{Transport: wire}
		err := (&kopf.Operator{Registry: r, Connection: info, Namespaces: []string{c.Namespace}, Logger: slog.New(slog.DiscardHandler)}).Run(c.Context())
		wire.CloseIdleConnections()
		c.wants("the error", fmt.Sprint(err), "install the definition sites."+c.Unique("types.example.com"), "you may not")
	})
	c.Run(t, "TD-29 an Install that meets another replica is made again", func(c *C) {
		name, op, patches := c.installing(func(n int32) *http.Response {
			if n > 1 {
				return nil
			}
			return Answer(http.StatusConflict, "Conflict", "the object has been modified; please apply your changes to the latest version and try again")
		})
		if status, _, _ := condition(c.Of("apiextensions.k8s.io/v1", "CustomResourceDefinition").Get(name), "Established"); status != "True" || patches.Load() != 2 || len(op.Logs.Find("Definition installed")) != 1 {
			c.Errorf("got %q after %d patches, want an established definition after 2", status, patches.Load())
		}
	})
	c.Run(t, "TD-29 a definition that is being deleted is installed anew", func(c *C) {
		definitions := c.Of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
		k := first(tried[site](&kopf.Definition{Group: c.Unique("types.example.com"), Version: "v1", Kind: "Site"}))
		manifest := manifestOf(c, k)
		ref := definitions.Ref(fmt.Sprint(manifest["metadata"].(map[string]any)["name"]))
		manifest["metadata"].(map[string]any)["finalizers"] = []any{"example.com/last"}
		c.Define(manifest)
		uid := definitions.Get(ref.Name).UID()
		if err := c.Client.Delete(c.Context(), ref, nil); err != nil {
			c.Fatal(err)
		}
		name, _, _ := c.installing(func(n int32) *http.Response {
			if n == 3 { // it has waited until now
				if _, err := c.Client.Patch(c.Context(), ref, map[string]any{"metadata": map[string]any{"finalizers": []any{}}}, nil); err != nil {
					c.Error(err)
				}
			}
			return nil
		})
		if body := definitions.Get(name); body.UID() == uid || !body.DeletionTimestamp().IsZero() {
			c.Errorf("the operator is ready, and has this definition: %s", indented(body.Metadata()))
		}
	})
	c.Run(t, "TD-29 a comparison that fails is logged, and delays no operator", func(c *C) {
		r := &kopf.Registry{}
		kopf.DefineIn[site](r, &kopf.Definition{Group: c.Unique("types.example.com"), Version: "v1", Kind: "Site"})
		var gets atomic.Int32
		begin := time.Now()
		op := c.Operator(r, func(op *kopf.Operator) {
			op.Connection.HTTPClient.Transport.(*Wire).Fault(func(q *Request) (*http.Response, error) {
				if strings.Contains(q.Path, "/customresourcedefinitions/") {
					gets.Add(1)
					return Answer(http.StatusInternalServerError, "InternalError", "broken"), nil
				}
				return nil, nil
			})
		})
		if took := time.Since(begin); c.late(took, 10*time.Second) || gets.Load() != 1 {
			c.Errorf("the operator was ready after %s and %d requests for the definition, want one", took, gets.Load())
		}
		if lines := op.Logs.Find("Definition could not be compared with that of the cluster"); len(lines) != 1 || lines[0].Level != slog.LevelWarn {
			c.Errorf("got the lines %v, want a warning", lines)
		}
	})
})

// installing runs an operator that installs a CRD, until it is ready. A function may answer its patches of the CRD, which are counted from 1.
func (c *C) installing(answer func(n int32) *http.Response) (name string, op *Running, patches *atomic.Int32) {
	c.Helper()
	r := &kopf.Registry{}
	group := c.Unique("types.example.com")
	name, patches = "sites."+group, &atomic.Int32{}
	kopf.DefineIn[site](r, &kopf.Definition{Group: group, Version: "v1", Kind: "Site", Install: true})
	c.Cleanup(func() {
		_ = c.Client.Delete(contextWithout(c.Context()), c.Of("apiextensions.k8s.io/v1", "CustomResourceDefinition").Ref(name), nil)
	})
	op = c.Operator(r, func(op *kopf.Operator) {
		op.Connection.HTTPClient.Transport.(*Wire).Fault(func(q *Request) (*http.Response, error) {
			if q.Method != http.MethodPatch || !strings.Contains(q.Path, "/customresourcedefinitions/") {
				return nil, nil
			}
			return answer(patches.Add(1)), nil
		})
	})
	return name, op, patches
}

// nilServer is a webhook server without reviews.
type nilServer struct{}

// Serve implements kopf.AdmissionServer.
func (nilServer) Serve(ctx context.Context, _ kopf.ReviewFunc, _ func(kopf.WebhookClientConfig)) error {
	<-ctx.Done()
	return nil
}

// statusPatches returns the bodies of the operator's patches of the status, with U for the uid.
func statusPatches(op *Running, uid string) (all []string) {
	for _, q := range op.Wire.Requests(http.MethodPatch) {
		if path, _, _ := strings.Cut(q.Path, "?"); strings.HasSuffix(path, "/status") {
			all = append(all, strings.ReplaceAll(q.Body, uid, "U"))
		}
	}
	return all
}
