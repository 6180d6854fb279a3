package objectpatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/apiserver/patch"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/proof"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/safecall"
)

const stored = `{"kind":"Thing","metadata":{"uid":"u","resourceVersion":"7","generation":3,"finalizers":["a"]},"spec":{"x":1,"list":[1,2]},"status":{"conditions":[{"type":"Ready"}],"size":1}}`

// objectOf returns an object, and its decoded form.
func objectOf(t *testing.T, raw string) (*Object, map[string]any) {
	t.Helper()
	decoded, err := rawjson.DecodeObject([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	o := &Object{Raw: []byte(raw)}
	o.Metadata, _ = rawjson.Find(o.Raw, "metadata")
	o.Spec, _ = rawjson.Find(o.Raw, "spec")
	o.Status, _ = rawjson.Find(o.Raw, "status")
	return o, decoded
}

// textOf returns a value as JSON.
func textOf(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// doubling is a transformation with unknown fields.
type doubling struct{ err error }

func (d doubling) Apply(object map[string]any, _ *Object) error {
	spec := rawjson.AsMap(object["spec"])
	list, _ := spec["list"].([]any)
	spec["list"] = append(list, list...)
	return d.err
}
func (doubling) Touched() map[string]any { return nil }
func (doubling) Holds(*Object) bool      { return false }

func nothing() map[string]any { return nil }

func TestApply(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(*Changes)
		want func(object map[string]any)
	}{
		{"nothing", func(*Changes) {}, func(map[string]any) {}},
		{"a merge patch", func(c *Changes) { c.Put(json.Number("2"), "spec", "x") }, func(o map[string]any) { rawjson.AsMap(o["spec"])["x"] = json.Number("2") }},
		{"a replacement comes before what is merged", func(c *Changes) {
			c.Put(json.Number("2"), "spec", "y")
			c.Replace(map[string]any{}, "spec")
			c.Put(json.Number("3"), "spec", "z")
		}, func(o map[string]any) { o["spec"] = map[string]any{"z": json.Number("3")} }},
		{"a replacement below what was removed", func(c *Changes) {
			c.Put(nil, "status")
			c.Replace(map[string]any{"a": true}, "status", "inner")
		}, func(o map[string]any) { o["status"] = map[string]any{"inner": map[string]any{"a": true}} }},
		{"a replaced status keeps its conditions", func(c *Changes) { c.Replace(map[string]any{"new": true}, "status") }, func(o map[string]any) {
			o["status"] = map[string]any{"new": true, "conditions": rawjson.AsMap(o["status"])["conditions"]}
		}},
		{"a transformation comes after what is merged", func(c *Changes) {
			c.Transforms = append(c.Transforms, doubling{})
			c.Put([]any{json.Number("5")}, "spec", "list")
		}, func(o map[string]any) { rawjson.AsMap(o["spec"])["list"] = []any{json.Number("5"), json.Number("5")} }},
		{"finalizers", func(c *Changes) { c.Adds, c.Removes = []string{"b"}, []string{"a"} }, func(o map[string]any) {
			rawjson.AsMap(o["metadata"])["finalizers"] = []any{"b"}
		}},
		{"what comes last", func(c *Changes) {
			c.Transforms = []Transformation{&replacement{keys: []string{"status"}}}
			c.Last = map[string]any{"status": map[string]any{"stored": true}}
		}, func(o map[string]any) { o["status"] = map[string]any{"stored": true} }},
		{"what earlier changes have left to be sent", func(c *Changes) {
			c.Put(json.Number("2"), "spec", "x")
			c.Put(json.Number("2"), "spec", "y")
			var later Changes
			later.Replace(map[string]any{"y": json.Number("3")}, "spec")
			c.Append(&later)
		}, func(o map[string]any) { o["spec"] = map[string]any{"y": json.Number("3")} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, want := objectOf(t, stored)
			_, object := objectOf(t, stored)
			var c Changes
			tt.make(&c)
			got, err := c.Apply(object, o, nothing)
			if err != nil {
				t.Fatal(err)
			}
			tt.want(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if changes := textOf(t, got) != textOf(t, rawjson.DecodeOrNil([]byte(stored))); c.Holds(o) && changes {
				t.Error("the object is reported as unchanged")
			}
		})
	}
}

// setting is a transformation that sets a field.
type setting string

func (s setting) Apply(object map[string]any, _ *Object) error {
	manifest.Replace(object, []string{"spec", "y"}, string(s))
	return nil
}
func (setting) Touched() map[string]any { return nil }
func (setting) Holds(*Object) bool      { return false }

func TestCombine(t *testing.T) {
	remove := func(keys ...string) func(*Changes) { return func(c *Changes) { c.Put(nil, keys...) } }
	set := func(value any, keys ...string) func(*Changes) { return func(c *Changes) { c.Put(value, keys...) } }
	replace := func(value any, keys ...string) func(*Changes) { return func(c *Changes) { c.Replace(value, keys...) } }
	type m = map[string]any
	transform := func(value string) func(*Changes) {
		return func(c *Changes) { c.Transforms = append(c.Transforms, setting(value)) }
	}
	for _, tt := range []struct {
		name    string
		changes []func(*Changes) // of one handler each
		want    string           // the spec, which has the fields x and list
	}{
		{"a replacement keeps the fields of others", []func(*Changes){set("result", "spec", "other"), replace(m{"y": true}, "spec")}, `{"other":"result","y":true}`},
		{"its value wins", []func(*Changes){set("earlier", "spec", "y"), replace(m{"y": true}, "spec")}, `{"y":true}`},
		{"a later handler wins", []func(*Changes){replace(m{"y": true}, "spec"), set("later", "spec", "y")}, `{"y":"later"}`},
		{"a removal of the same", []func(*Changes){remove("spec"), replace(m{"y": true}, "spec")}, `{"y":true}`},
		{"a removal of a field of it", []func(*Changes){remove("spec", "y"), replace(m{"y": true}, "spec")}, `{"y":true}`},
		{"a removal above it", []func(*Changes){remove("spec"), replace(true, "spec", "y")}, `{"y":true}`},
		{"another value above it", []func(*Changes){set("text", "spec"), replace(true, "spec", "y")}, `{"y":true}`},
		{"a removed object with new fields", []func(*Changes){
			func(c *Changes) {
				c.Put(nil, "spec")
				c.Put("result", "spec", "other")
			},
			replace(m{"y": true}, "spec"),
		}, `{"other":"result","y":true}`},
		{"a replacement by a text", []func(*Changes){set("result", "spec", "other"), replace("text", "spec")}, `"text"`},
		{"a replacement by nothing", []func(*Changes){set("result", "spec", "other"), replace(nil, "spec")}, `{"other":"result"}`},
		{"a value after a transformation", []func(*Changes){transform("first"), set("later", "spec", "y")}, `{"list":[1,2],"x":1,"y":"later"}`},
		{"a removal after a transformation", []func(*Changes){transform("first"), remove("spec", "y")}, `{"list":[1,2],"x":1}`},
		{"a replacement after a transformation", []func(*Changes){transform("first"), replace(m{"y": true}, "spec")}, `{"y":true}`},
		{"a removal by a replacement after a transformation", []func(*Changes){transform("first"), replace(nil, "spec", "y")}, `{"list":[1,2],"x":1}`},
		{"a transformation after all", []func(*Changes){transform("first"), set("second", "spec", "y"), transform("third")}, `{"list":[1,2],"x":1,"y":"third"}`},
		{"a value after a condition", []func(*Changes){
			func(c *Changes) {
				c.Transforms = append(c.Transforms, &ConditionChange{Condition: manifest.Condition{Type: "A"}})
			},
			func(c *Changes) { c.Put(nil, "spec"); c.Put(true, "spec", "y") },
		}, `{"y":true}`},
		{"two replacements", []func(*Changes){replace(m{"a": true}, "spec"), replace(m{"b": true}, "spec")}, `{"b":true}`},
	} {
		var total Changes
		for _, fill := range tt.changes {
			var c Changes
			fill(&c)
			total.Combine(&c)
		}
		o, object := objectOf(t, stored)
		got, err := total.Apply(object, o, nothing)
		if err != nil || textOf(t, got["spec"]) != tt.want {
			t.Errorf("%s: got %s and %v, want %s", tt.name, textOf(t, got["spec"]), err, tt.want)
		}
	}
}

// change is one call of a method of a patch.
type change struct {
	replaces bool
	keys     []string
	value    any
}

func randomValue(random *rand.Rand, depth int, nulls bool) any {
	switch n := random.IntN(6); {
	case n == 0 && nulls:
		return nil
	case n <= 2 || depth == 0:
		return json.Number(fmt.Sprint(random.IntN(3)))
	case n == 3:
		return []any{"item"}
	}
	object := map[string]any{}
	for range random.IntN(3) {
		object[string(rune('a'+random.IntN(2)))] = randomValue(random, depth-1, nulls)
	}
	return object
}

func randomChange(random *rand.Rand) change {
	c := change{replaces: random.IntN(8) == 0, keys: []string{"o"}}
	for range random.IntN(3) {
		c.keys = append(c.keys, string(rune('a'+random.IntN(2))))
	}
	if random.IntN(5) > 1 {
		c.value = randomValue(random, 2, !c.replaces)
	}
	return c
}

// apply makes the change in an object.
func (c change) apply(object map[string]any) {
	if _, isMap := c.value.(map[string]any); c.replaces || !isMap {
		manifest.Replace(object, c.keys, rawjson.Clone(c.value))
		return
	}
	changes := c.value
	for _, key := range slices.Backward(c.keys) {
		changes = map[string]any{key: changes}
	}
	rawjson.Merge(object, changes)
}

// TestChangesInTurn checks that the changes of several handlers together have the effect of one after another, and the request the effect of the changes.
func TestChangesInTurn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range proof.Rounds(10_000, 1_000_000) {
		object := map[string]any{"metadata": map[string]any{"uid": "u"}}
		if random.IntN(4) > 0 {
			object["o"] = randomValue(random, 3, false)
		}
		want, text := rawjson.Clone(object).(map[string]any), textOf(t, object)
		var total Changes
		for range 1 + random.IntN(3) {
			var c Changes
			for range 1 + random.IntN(3) {
				next := randomChange(random)
				text += fmt.Sprintf("; %v %s", next.keys, textOf(t, next.value))
				if next.apply(want); next.replaces {
					text += " as a whole"
					c.Replace(next.value, next.keys...)
				} else {
					c.Put(next.value, next.keys...)
				}
			}
			text += " |"
			before := textOf(t, c.Merge)
			if total.Append(&c); textOf(t, c.Merge) != before {
				t.Fatalf("%s: the changes of a handler are now %s", text, textOf(t, c.Merge))
			}
		}
		raw := []byte(textOf(t, object))
		got, err := total.Apply(rawjson.Clone(object).(map[string]any), &Object{Raw: raw}, nothing)
		if err != nil {
			t.Fatal(err)
		}
		if !rawjson.Equal(want, got) {
			t.Fatalf("%s: got %s, want %s", text, textOf(t, got), textOf(t, want))
		}
		if total.Holds(&Object{Raw: raw}) && !rawjson.Equal(object, got) {
			t.Fatalf("%s: the object is reported as unchanged, want %s", text, textOf(t, got))
		}
		if sent := send(t, &total, raw); !rawjson.Equal(sent, got) {
			t.Fatalf("%s: the request makes %s, want %s", text, textOf(t, sent), textOf(t, got))
		}
	}
}

// send returns the object after the request for the changes.
func send(t *testing.T, c *Changes, raw []byte) map[string]any {
	t.Helper()
	before := rawjson.Map(raw)
	after, err := c.Apply(rawjson.Map(raw), &Object{Raw: raw}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Versioned() {
		before, after = c.Sides(raw)
	}
	object := rawjson.Map(raw)
	r := (&State{UID: "u"}).Main(c, before, after)
	switch {
	case r == nil:
	case r.Type == mergeType:
		rawjson.Merge(object, rawjson.DecodeOrNil([]byte(textOf(t, r.Body))))
	default:
		rawjson.AsMap(object["metadata"])["resourceVersion"] = "" // which the guard tests
		patched, err := patch.ApplyJSON(object, []byte(textOf(t, r.Body)))
		if err != nil {
			t.Fatal(err)
		}
		object = rawjson.AsMap(patched)
		delete(rawjson.AsMap(object["metadata"]), "resourceVersion")
	}
	return object
}

func TestJoined(t *testing.T) {
	last := map[string]any{"status": map[string]any{"stored": true}}
	for _, tt := range []struct {
		name string
		make func(*Changes)
		want bool // whether Last becomes a part of the merge patch
	}{
		{"alone", func(*Changes) {}, true},
		{"with a merge patch", func(c *Changes) { c.Put(true, "spec", "x") }, true},
		{"with a transformation", func(c *Changes) { c.Transforms = append(c.Transforms, doubling{}) }, false},
		{"with a removed status", func(c *Changes) { c.Put(nil, "status") }, false},
	} {
		var first, c Changes
		first.PutLast(map[string]any{"status": map[string]any{"stored": false, "other": 1}})
		tt.make(&c)
		c.PutLast(last)
		first.Combine(&c)
		want := `{"status":{"other":1,"stored":true}}`
		if got := textOf(t, first.Last); got != want {
			t.Errorf("%s: combined to %s, want %s", tt.name, got, want)
		}
		before := textOf(t, first.Merge)
		joined := first.Joined()
		_, stored := jsonpatch.Lookup(joined.Merge, "status", "stored")
		if stored != tt.want || stored == (len(joined.Last) > 0) || textOf(t, first.Merge) != before {
			t.Errorf("%s: joined to %s and %s", tt.name, textOf(t, joined.Merge), textOf(t, joined.Last))
		}
		if !first.Touches([]string{"status", "stored"}) {
			t.Errorf("%s: the last changes do not count", tt.name)
		}
	}
}

func TestApplyKeeps(t *testing.T) {
	o, object := objectOf(t, stored)
	c := &Changes{Transforms: []Transformation{&replacement{keys: []string{"status"}}}}
	got, err := c.Apply(object, o, func() map[string]any { return map[string]any{"status": map[string]any{"size": json.Number("1")}} })
	if want := `{"size":1}`; err != nil || textOf(t, got["status"]) != want {
		t.Errorf("got %s and %v, want %s", textOf(t, got["status"]), err, want)
	}
}

// panicking is a transformation that panics.
type panicking struct{ doubling }

func (panicking) Apply(map[string]any, *Object) error { panic("on purpose") }

func TestTransformError(t *testing.T) {
	failure := errors.New("on purpose")
	for _, tt := range []struct {
		at         int
		transforms []Transformation
		cause      error
	}{
		{1, []Transformation{doubling{}, doubling{failure}, doubling{}}, failure},
		{0, []Transformation{panicking{}}, nil},
	} {
		o, object := objectOf(t, stored)
		_, err := (&Changes{Transforms: tt.transforms}).Apply(object, o, nothing)
		var failed *TransformError
		if !errors.As(err, &failed) || failed.At != tt.at || tt.cause != nil && failed.Unwrap() != tt.cause || !strings.Contains(err.Error(), "on purpose") {
			t.Errorf("got %v, want an error of the transformation %d, with the cause %v", err, tt.at, tt.cause)
		}
		if stack := string(safecall.StackOf(err)); (tt.cause == nil) != strings.Contains(stack, "panicking.Apply") {
			t.Errorf("the stack of %v is %q", err, stack)
		}
	}
}

func TestHolds(t *testing.T) {
	o, _ := objectOf(t, stored)
	for _, tt := range []struct {
		name string
		c    Changes
		want bool
	}{
		{"nothing", Changes{}, true},
		{"what is there", Changes{Merge: map[string]any{"spec": map[string]any{"x": json.Number("1")}, "kind": "Thing"}}, true},
		{"what is not there", Changes{Merge: map[string]any{"spec": map[string]any{"y": nil}, "other": nil}}, true},
		{"another value", Changes{Merge: map[string]any{"spec": map[string]any{"x": json.Number("2")}}}, false},
		{"another value at last", Changes{Last: map[string]any{"status": map[string]any{"size": json.Number("2")}}}, false},
		{"a finalizer that is there", Changes{Adds: []string{"a"}}, false},
		{"a transformation", Changes{Transforms: []Transformation{doubling{}}}, false},
		{"a status that has not changed", Changes{Transforms: []Transformation{&StatusChange{Change: jsonpatch.Change{Before: map[string]any{}, After: map[string]any{}}}}}, true},
		{"a new condition", Changes{Transforms: []Transformation{&ConditionChange{Condition: manifest.Condition{Type: "Ready", Status: "True"}}}}, false},
	} {
		if got := tt.c.Holds(o); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestModel(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    Changes
		want string
	}{
		{"nothing", Changes{}, `{}`},
		{"a merge patch, finalizers and a condition", Changes{
			Merge: map[string]any{"spec": map[string]any{"x": true}}, Adds: []string{"a"}, Transforms: []Transformation{&ConditionChange{}},
		}, `{"metadata":{"finalizers":null,"generation":null},"spec":{"x":true},"status":{"conditions":null}}`},
		{"a replacement", Changes{Transforms: []Transformation{&replacement{keys: []string{"spec", "x"}}}}, `{"spec":{"x":null}}`},
		{"a function", Changes{Transforms: []Transformation{doubling{}}}, `null`},
	} {
		if got := textOf(t, tt.c.Model()); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestRequests(t *testing.T) {
	type request struct{ kind, body string }
	for _, tt := range []struct {
		name         string
		make         func(*Changes)
		state        State
		status, main request
	}{
		{"a merge patch names the object", func(c *Changes) { c.Put(json.Number("2"), "spec", "x") }, State{},
			request{}, request{mergeType, `{"metadata":{"uid":"u"},"spec":{"x":2}}`}},
		{"what is so already is not sent", func(c *Changes) { c.Put(json.Number("1"), "spec", "x") }, State{}, request{}, request{}},
		{"a status that is a subresource", func(c *Changes) {
			c.Put(json.Number("2"), "status", "size")
			c.Put(json.Number("2"), "spec", "x")
		}, State{Apart: true},
			request{OperationsType, `[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"replace","path":"/status/size","value":2}]`},
			request{mergeType, `{"metadata":{"uid":"u"},"spec":{"x":2}}`}},
		{"finalizers", func(c *Changes) { c.Removes = []string{"a"} }, State{}, request{}, request{OperationsType,
			`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/finalizers/0","value":"a"},{"op":"remove","path":"/metadata/finalizers/0"}]`}},
		{"a removal of nothing", func(c *Changes) {
			c.Put(nil, "spec", "x", "y")
			c.Put(nil, "other", "y")
			c.Put(nil, "status", "none", "y")
		}, State{Apart: true}, request{}, request{}},
		{"an object that is removed and gets a field", func(c *Changes) {
			c.Put(nil, "spec")
			c.Put(json.Number("2"), "spec", "y")
			c.Put(json.Number("2"), "other", "y")
		}, State{}, request{}, request{OperationsType, `[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/other","value":{"y":2}},` +
			`{"op":"remove","path":"/spec/list"},{"op":"remove","path":"/spec/x"},{"op":"add","path":"/spec/y","value":2}]`}},
		{"a status that is removed and gets a field", func(c *Changes) {
			c.Put(nil, "status")
			c.Put(json.Number("2"), "status", "size")
		}, State{Apart: true}, request{OperationsType, `[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"remove","path":"/status/conditions"},` +
			`{"op":"replace","path":"/status/size","value":2}]`}, request{}},
		{"an object that is removed and gets the same fields", func(c *Changes) {
			c.Put("text", "spec")
			c.Put(json.Number("1"), "spec", "x")
			c.Put([]any{json.Number("1"), json.Number("2")}, "spec", "list")
		}, State{}, request{}, request{}},
		{"a transformation is for one version", func(c *Changes) { c.Replace(json.Number("2"), "spec", "x") }, State{}, request{},
			request{OperationsType, `[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"replace","path":"/spec/x","value":2}]`}},
		{"a lenient one is for what it changes", func(c *Changes) { c.Replace(json.Number("2"), "spec", "x") }, State{Lenient: true}, request{}, request{OperationsType,
			`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/spec/x","value":1},{"op":"replace","path":"/spec/x","value":2}]`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c Changes
			tt.make(&c)
			o, before := objectOf(t, stored)
			_, object := objectOf(t, stored)
			after, err := c.Apply(object, o, nothing)
			if err != nil {
				t.Fatal(err)
			}
			if !c.Versioned() {
				before, after = c.Sides(o.Raw)
			}
			s := tt.state
			s.UID, s.Version = "u", "7"
			s.Finalizers, _ = rawjson.Find(o.Metadata, "finalizers")
			shown := func(r *Request) request {
				if r == nil {
					return request{}
				}
				return request{r.Type, textOf(t, r.Body)}
			}
			var status request
			if s.Apart {
				status = shown(s.Status(&c, before, after))
			}
			if status != tt.status {
				t.Errorf("got for the status %v, want %v", status, tt.status)
			}
			if main := shown(s.Main(&c, before, after)); main != tt.main {
				t.Errorf("got for the object %v, want %v", main, tt.main)
			}
		})
	}
}

func TestStatusChange(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		before, after, stored string
		own                   func(*Changes)
		want                  string
	}{
		{"a field", `{"a":1}`, `{"a":2}`, `{"a":1,"b":1}`, func(*Changes) {}, `{"status":{"a":2}}`},
		{"nothing", `{"a":1}`, `{"a":1}`, `{"a":2}`, func(*Changes) {}, `null`},
		{"what the handler sets itself wins", `{"a":1}`, `{"a":2}`, `{"a":1}`, func(c *Changes) { c.Put(json.Number("3"), "status", "a") }, `{"status":{"a":3}}`},
		{"what the handler removes stays removed", `{"a":1,"b":1}`, `{"a":2,"b":2}`, `{"a":1,"b":1}`, func(c *Changes) { c.Put(nil, "status", "a") }, `{"status":{"a":null,"b":2}}`},
		{"a status that was removed and set anew", `{"a":1,"b":1}`, `{"a":2,"b":1}`, `{"a":1,"b":1}`, func(c *Changes) {
			c.Put(nil, "status")
			c.Put(json.Number("3"), "status", "c")
		}, `{"status":{"a":2,"c":3}}`},
		{"a removed status stays removed", `{"a":1}`, `{"a":2}`, `{"a":1}`, func(c *Changes) { c.Put(nil, "status") }, `{"status":null}`},
	} {
		object := func(text string) map[string]any { return rawjson.Map([]byte(text)) }
		var c Changes
		tt.own(&c)
		(&StatusChange{Change: jsonpatch.Change{Before: object(tt.before), After: object(tt.after)}}).AddTo(&c, object(tt.stored), nil)
		if got := textOf(t, c.Merge); got != tt.want || len(c.Transforms) > 0 {
			t.Errorf("%s: got %s and %d transformations, want %s", tt.name, got, len(c.Transforms), tt.want)
		}
	}
}

// TestReplacementKeepsItsValue checks that a replacement, which is computed again after an update conflict, does not keep the
// conditions of the object of its first computation.
func TestReplacementKeepsItsValue(t *testing.T) {
	r := &replacement{keys: []string{"status"}, value: map[string]any{"phase": "Ready"}}
	for _, conditions := range []any{"of the first state", "of the second state"} {
		object := map[string]any{"status": map[string]any{"conditions": conditions}}
		if err := r.Apply(object, &Object{}); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"status": map[string]any{"phase": "Ready", "conditions": conditions}}
		if diff := cmp.Diff(want, object); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}
