package kopf

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf/internal/apiserver/patch"
	"github.com/kopf-go/kopf/internal/boundedset"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestPatch(t *testing.T) {
	tests := []struct {
		name string
		fill func(p *Patch)
		want string
	}{
		{"nothing", func(p *Patch) {}, `{}`},
		{"set", func(p *Patch) { p.Set("status.a", 1); p.SetPath("v", "metadata", "annotations", "example.com/x") },
			`{"status":{"a":1},"metadata":{"annotations":{"example.com/x":"v"}}}`},
		{"objects are merged", func(p *Patch) { p.Set("a", map[string]int{"x": 1}); p.Set("a", map[string]int{"y": 2}) }, `{"a":{"x":1,"y":2}}`},
		{"all else is replaced", func(p *Patch) { p.Set("a", []int{1}); p.Set("a", []int{2}) }, `{"a":[2]}`},
		{"remove", func(p *Patch) { p.Set("a.b", 1); p.Remove("a.b"); p.Set("a.c", nil) }, `{"a":{"b":null,"c":null}}`},
		{"CH-T49 through a null", func(p *Patch) { p.Remove("status"); p.Set("status.a", 1) }, `{"status":{"a":1}}`},
		{"through a scalar", func(p *Patch) { p.Set("status", "x"); p.Set("status.a", 1) }, `{"status":{"a":1}}`},
		{"merge", func(p *Patch) {
			p.Set("a.b", 1)
			p.Merge(map[string]any{"a": map[string]any{"c": 2, "b": nil}, "d": []any{}})
		},
			`{"a":{"b":null,"c":2},"d":[]}`},
		{"forget", func(p *Patch) {
			p.Set("a.b", 1)
			p.Set("a.c", 1)
			p.changes.Drop("a", "b")
			p.changes.Drop("no", "x")
			p.changes.Drop("a", "c", "x")
		}, `{"a":{"c":1}}`},
		{"forget with parents", func(p *Patch) { p.Set("a.b.c", 1); p.changes.Drop("a", "b", "c") }, `{}`},
		{"the whole object", func(p *Patch) { p.Set("", map[string]any{"a": 1}) }, `{"a":1}`},
		{"clear", func(p *Patch) {
			p.Set("a", 1)
			p.Transform(func(map[string]any) error { return nil })
			p.Set("a", func() {})
			p.Clear()
		}, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &Patch{}
			tt.fill(p)
			if diff := cmp.Diff(mustObject(t, tt.want), merged(p)); diff != "" || p.err != nil {
				t.Errorf("%v, (-want +got)\n%s", p.err, diff)
			}
			if p.Empty() != (tt.want == `{}`) {
				t.Errorf("Empty is %t", p.Empty())
			}
		})
	}
	t.Run("values that are not JSON", func(t *testing.T) {
		for _, fill := range []func(p *Patch){
			func(p *Patch) { p.Set("a.b", func() {}) },
			func(p *Patch) { p.Set("", 1) },
			func(p *Patch) { p.Merge(map[string]any{"a": make(chan int)}) },
			func(p *Patch) { p.Set("a", json.Number("x")) },
		} {
			p := &Patch{}
			if fill(p); p.err == nil {
				t.Errorf("no error in %v", p.Map())
			}
		}
	})
	t.Run("copies are apart", func(t *testing.T) {
		value := map[string]any{"b": map[string]any{"c": 1}}
		p := &Patch{}
		p.Set("a", value)
		value["b"] = 2
		p.Map()["a"] = 3
		if v, ok := p.Get("a.b.c"); !ok || v != json.Number("1") {
			t.Errorf("got %v", v)
		}
	})
	t.Run("get", func(t *testing.T) {
		p := &Patch{}
		if v, ok := p.Get("a"); ok {
			t.Errorf("an empty patch says %v", v)
		}
		p.Remove("a")
		if v, ok := p.Get("a"); !ok || v != nil {
			t.Errorf("got %v, %t, want a removal", v, ok)
		}
	})
}

func TestUnapplied(t *testing.T) {
	type row struct {
		Patch, Response json.RawMessage
		Diff            []goldenItem
	}
	t.Run("CH-190 golden", func(t *testing.T) {
		for _, r := range golden[row](t, "diffs_left_scope_for_patch_verification") {
			got := leftDiff(mustObject(t, string(r.Patch)), r.Response)
			checkDiff(t, fmt.Sprintf("%s answered with %s", r.Patch, r.Response), r.Diff, got)
		}
	})
	t.Run("CH-191 what is not reported", func(t *testing.T) {
		for _, tt := range []struct {
			patch, response string
			want            int
		}{
			{`{"metadata":{"annotations":{},"labels":{},"finalizers":[]}}`, `{"metadata":{}}`, 0},
			{`{"metadata":{"annotations":{"a":null}}}`, `{"metadata":{}}`, 0},
			{`{"metadata":{"finalizers":["f"]}}`, `{"metadata":{}}`, 1},
			{`{"metadata":{"finalizers":[]}}`, `{"metadata":{"finalizers":["f"]}}`, 1},
			{`{"metadata":{"ownerReferences":[]}}`, `{"metadata":{}}`, 1},
			{`{"spec":{"labels":{}}}`, `{"spec":{}}`, 1},
			{`{"status":{"a":{"b":1,"c":2}}}`, `{"status":{"a":{"b":1,"x":1}}}`, 1},
			{`{"spec":{"x":1}}`, `{"spec":{"x":1.0}}`, 0},
		} {
			if got := unapplied(mustObject(t, tt.patch), mustBody(t, tt.response)); len(got) != tt.want {
				t.Errorf("%s answered with %s: %v, want %d items", tt.patch, tt.response, got, tt.want)
			}
		}
	})
}

func TestFinalizers(t *testing.T) {
	const finalizer = "kopf.zalando.org/KopfFinalizerMarker"
	t.Run("CH-98 golden", func(t *testing.T) {
		for _, r := range golden[struct {
			Metadata    map[string]any
			Add, Remove json.RawMessage
		}](t, "finalizer_json_patches") {
			b, err := NewBody(map[string]any{"metadata": r.Metadata})
			if err != nil {
				t.Fatal(err)
			}
			for _, tt := range []struct {
				name   string
				change func(object map[string]any)
				want   json.RawMessage
			}{
				{"add", func(object map[string]any) { manifest.AddFinalizer(object, finalizer) }, r.Add},
				{"remove", func(object map[string]any) { manifest.RemoveFinalizer(object, finalizer) }, r.Remove},
			} {
				p := &Patch{}
				p.Transform(func(object map[string]any) error { tt.change(object); return nil })
				got, err := rawjson.Normalize(p.JSONPatch(b))
				if got == nil {
					got = []any{}
				}
				if diff := cmp.Diff(mustDecode(t, string(tt.want)), got); diff != "" || err != nil {
					t.Errorf("%s, %v: %v, (-want +got)\n%s", tt.name, r.Metadata, err, diff)
				}
			}
		}
	})
}

func TestPatchOperation(t *testing.T) {
	for want, o := range map[string]PatchOperation{
		`{"op":"add","path":"/a","value":null}`:        {Op: "add", Path: "/a"},
		`{"op":"replace","path":"/a","value":false}`:   {Op: "replace", Path: "/a", Value: false},
		`{"op":"test","path":"/a","value":"x"}`:        {Op: "test", Path: "/a", Value: "x"},
		`{"op":"remove","path":"/a"}`:                  {Op: "remove", Path: "/a", Value: 1},
		`{"from":"/b","op":"move","path":"/a"}`:        {Op: "move", Path: "/a", From: "/b"},
		`{"from":"/b","op":"copy","path":"/a"}`:        {Op: "copy", Path: "/a", From: "/b"},
		`{"op":"add","path":"/~01~1/0","value":[1,2]}`: {Op: "add", Path: jsonpatch.Pointer("~1/", "0"), Value: []int{1, 2}},
	} {
		if got, err := json.Marshal(o); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

func TestJSONPatch(t *testing.T) {
	b := mustBody(t, `{"spec":{"l":["a","b"]}}`)
	p := &Patch{}
	p.Set("spec.x", 1)
	p.Transform(func(object map[string]any) error {
		spec := rawjson.AsMap(object["spec"])
		spec["l"] = append(spec["l"].([]any), spec["x"])
		return nil
	})
	p.Transform(func(object map[string]any) error {
		spec := rawjson.AsMap(object["spec"])
		spec["n"] = json.Number(strconv.Itoa(len(spec["l"].([]any))))
		return nil
	})
	t.Run("CH-183 the dictionary first, then the functions in order", func(t *testing.T) {
		got, err := rawjson.Normalize(p.JSONPatch(b))
		want := mustDecode(t, `[{"op":"add","path":"/spec/l/2","value":1},{"op":"add","path":"/spec/n","value":3},{"op":"add","path":"/spec/x","value":1}]`)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v, (-want +got)\n%s", err, diff)
		}
		if got := string(p.applied(b).raw); got != `{"spec":{"l":["a","b",1],"n":3,"x":1}}` {
			t.Errorf("applied it is %s", got)
		}
	})
	t.Run("a transformation that panics", func(t *testing.T) {
		p := &Patch{}
		p.Transform(func(map[string]any) error { panic("oops") })
		if err := p.try(b); err == nil || !strings.Contains(err.Error(), "oops") {
			t.Errorf("%v, want the panic", err)
		}
		if p.applied(b) != b || p.JSONPatch(b) != nil {
			t.Error("it has an effect")
		}
	})
}

// FuzzAppliedTo compares the quick check of an applied patch with the differences.
func FuzzAppliedTo(f *testing.F) {
	f.Add([]byte(`{"a":{"b":"x\n","c":1},"d":true}`), []byte(`{"a":{"b":"x\n"},"d":true,"e":null}`))
	f.Add([]byte(`{"a":{}}`), []byte(`{"a":{"b":null}}`))
	f.Add([]byte(`{"a":[1,1.0]}`), []byte(`{"a":[1,1]}`))
	f.Fuzz(func(t *testing.T, raw, text []byte) {
		patch, err := rawjson.DecodeObject(text)
		if err != nil || !json.Valid(raw) {
			return
		}
		body, err := ParseBody(raw)
		if err != nil {
			return
		}
		if left := leftDiff(patch, body.raw); jsonpatch.IsApplied(body.raw, patch) && len(left) > 0 {
			t.Errorf("%s in %s: it is taken for applied, but %v", text, raw, left)
		}
	})
}

func TestFinalizerOps(t *testing.T) {
	const object = `{"metadata":{"name":"n","uid":"u","resourceVersion":"1"%s}}`
	for _, list := range []string{"", "a", "x", "a x", "x a", "x a x b x", "y x", "a b"} {
		for _, p := range []*Patch{{changes: objectpatch.Changes{Adds: []string{"x"}}}, {changes: objectpatch.Changes{Removes: []string{"x"}}}, {changes: objectpatch.Changes{Removes: []string{"x", "y"}}}} {
			var names []any
			meta := ""
			for _, name := range strings.Fields(list) {
				names = append(names, name)
			}
			if len(names) > 0 {
				data, _ := json.Marshal(names)
				meta = `,"finalizers":` + string(data)
			}
			b := mustBody(t, fmt.Sprintf(object, meta))
			data, err := json.Marshal(jsonpatch.FinalizerOps(b.Finalizers(), p.changes.Adds, p.changes.Removes))
			if err != nil {
				t.Fatal(err)
			}
			want, err := p.apply(b)
			if err != nil {
				t.Fatal(err)
			}
			got, err := patch.ApplyJSON(any(b.Map()), data)
			if meta := rawjson.AsMap(rawjson.AsMap(got)["metadata"]); rawjson.IsEmpty(meta["finalizers"]) { // the API server omits it
				delete(meta, "finalizers")
			}
			if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
				t.Errorf("%q, adding %q and removing %q, by %s: %v (-want +got)\n%s", list, p.changes.Adds, p.changes.Removes, data, err, diff)
			}
		}
	}
}

func TestMergeOps(t *testing.T) {
	for _, tt := range []struct{ object, patch string }{
		{`{}`, `{"a":1}`}, {`{"a":1}`, `{"a":null,"b":null}`}, {`{"a":1}`, `{"a":{"b":1,"c":null}}`}, {`{}`, `{"a":{"b":{"c":[1,{"d":2}]}}}`}, {`{"a":{"b":1}}`, `{"a":{"c/d":2,"b":1}}`},
		{`{"a":[1,2,3]}`, `{"a":[0,1,2,3]}`}, {`{"a":{"b":1}}`, `{"a":5}`}, {`{"a":{"b":1}}`, `{"a":{}}`}, {`{"a":{"b":[{"x":1}]}}`, `{"a":{"b":[{"x":2}],"e":{}}}`},
	} {
		object, change := rawjson.AsMap(mustDecode(t, tt.object)), rawjson.AsMap(mustDecode(t, tt.patch))
		ops := jsonpatch.AppendMerge(nil, "", object, change)
		for _, op := range ops {
			if strings.ContainsAny(strings.ReplaceAll(op.Path, "~1", ""), "0123456789") {
				t.Errorf("%s with %s: an index in %v", tt.object, tt.patch, op)
			}
		}
		data, err := json.Marshal(ops)
		if err != nil {
			t.Fatal(err)
		}
		want := rawjson.Merge(rawjson.Clone(any(object)), any(change))
		got, err := patch.ApplyJSON(any(object), data)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s with %s, by %s: %v (-want +got)\n%s", tt.object, tt.patch, data, err, diff)
		}
	}
}

func TestPatchReplaces(t *testing.T) {
	own := NewSettings().Persistence
	own.Storage = InStatus
	object := `{"apiVersion":"v1","kind":"Pod","metadata":{"generation":3},"status":{"phase":"Old","items":[1],"kopf":{"last-handled-configuration":"{}","mine":1}}}`
	tests := []struct {
		name    string
		storage *PersistenceSettings
		patch   func(p *Patch)
		want    string // of the status
	}{
		{"what a struct leaves out goes", nil, func(p *Patch) {
			p.Replace("status", struct {
				Phase string `json:"phase"`
				Items []int  `json:"items,omitempty"`
			}{Phase: "New"})
		}, `{"phase":"New"}`},
		{"a part", nil, func(p *Patch) { p.Replace("status.kopf", map[string]any{}) }, `{"phase":"Old","items":[1],"kopf":{}}`},
		{"what was set before goes, what is set after stays", nil, func(p *Patch) {
			p.Set("status.before", 1)
			p.Replace("status", map[string]any{"phase": "New"})
			p.Set("status.after", 2)
		}, `{"phase":"New","after":2}`},
		{"a new field", nil, func(p *Patch) { p.Replace("status.a.b", 1) }, `{"phase":"Old","items":[1],"kopf":{"last-handled-configuration":"{}","mine":1},"a":{"b":1}}`},
		{"a removal", nil, func(p *Patch) { p.Replace("status.kopf", nil) }, `{"phase":"Old","items":[1]}`},
		{"what the framework stores stays", &own, func(p *Patch) { p.Replace("status", map[string]any{"phase": "New"}) },
			`{"phase":"New","kopf":{"last-handled-configuration":"{}"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, err := ParseBody([]byte(object))
			if err != nil {
				t.Fatal(err)
			}
			p := &Patch{persistence: tt.storage}
			tt.patch(p)
			if err := p.try(body); err != nil {
				t.Fatal(err)
			}
			got, err := p.apply(body)
			if err != nil {
				t.Fatal(err)
			}
			want, err := rawjson.DecodeObject([]byte(tt.want))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got["status"]); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestPatchConditions(t *testing.T) {
	body, err := ParseBody([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"generation":3},"status":{"conditions":[
		{"type":"Other","status":"True","extra":1},{"type":"Ready","status":"False","reason":"Old","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, tt := range []struct {
		name      string
		condition Condition
		want      string // of the condition
		err       string
	}{
		{"another status", Condition{Type: "Ready", Status: ConditionTrue, Reason: "Made", LastTransitionTime: since},
			`{"type":"Ready","status":"True","reason":"Made","message":"","observedGeneration":3,"lastTransitionTime":"2026-01-02T03:04:05Z"}`, ""},
		{"the same status", Condition{Type: "Ready", Status: ConditionFalse, Reason: "New", Message: "m", ObservedGeneration: 2, LastTransitionTime: since},
			`{"type":"Ready","status":"False","reason":"New","message":"m","observedGeneration":2,"lastTransitionTime":"2020-01-01T00:00:00Z"}`, ""},
		{"another type", Condition{Type: "example.com/Sized", Status: ConditionUnknown, Reason: "R", LastTransitionTime: since},
			`{"type":"example.com/Sized","status":"Unknown","reason":"R","message":"","observedGeneration":3,"lastTransitionTime":"2026-01-02T03:04:05Z"}`, ""},
		{"no type", Condition{Status: ConditionTrue, Reason: "R"}, "", "invalid type"},
		{"a bad status", Condition{Type: "Ready", Status: "yes", Reason: "R"}, "", "want True, False or Unknown"},
		{"no reason", Condition{Type: "Ready", Status: ConditionTrue}, "", "invalid reason"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &Patch{}
			p.SetCondition(tt.condition)
			if err := p.try(body); err != nil || tt.err != "" {
				if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			object, err := p.apply(body)
			if err != nil {
				t.Fatal(err)
			}
			list := object["status"].(map[string]any)["conditions"].([]any)
			i := slices.IndexFunc(list, func(c any) bool { return c.(map[string]any)["type"] == tt.condition.Type })
			want, err := rawjson.DecodeObject([]byte(tt.want))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(any(want), list[i]); diff != "" || list[0].(map[string]any)["extra"] == nil {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestPatchChecks(t *testing.T) {
	for _, tt := range []struct {
		patch   func(p *Patch)
		want    string
		retried bool
	}{
		{func(p *Patch) { p.Set("metadata.annotations.example.com/touched", "yes") }, `use SetAnnotation("example.com/touched", value)`, false},
		{func(p *Patch) { p.Set("metadata.labels.a.b/c", "yes") }, `use SetLabel("a.b/c", value)`, false},
		{func(p *Patch) { p.SetPath(15, "metadata", "annotations", "n") }, "want a string", false},
		{func(p *Patch) {
			p.Merge(map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": true}}})
		}, "want a string", false},
		{func(p *Patch) { p.Replace("", map[string]any{}) }, "want the path of a field", false},
		{func(p *Patch) { p.Set("spec..x", 1) }, `invalid path "spec..x"`, false},
		{func(p *Patch) { p.Remove("spec.") }, `invalid path "spec."`, false},
		{func(p *Patch) { p.Replace(".spec", map[string]any{}) }, `invalid path ".spec"`, false},
		{func(p *Patch) { p.SetPath(1, "spec", "", "x") }, "", false},
		{func(p *Patch) { p.Replace("status", func() {}) }, "replace", false},
		{func(p *Patch) { p.Set("status.x", func() {}) }, "unsupported type", false},
		{func(p *Patch) { p.Merge(map[string]any{"status": math.NaN()}) }, "unsupported value", false},
		{func(p *Patch) {
			loop := map[string]any{}
			loop["loop"] = loop
			p.Set("status", loop)
		}, "cycle", false},
		{func(p *Patch) { p.SetPath("x") }, "must be an object", false},
		{func(p *Patch) { p.SetCondition(Condition{Type: "Ready", Status: "yes", Reason: "R"}) }, "want True, False or Unknown", false},
		{func(p *Patch) { p.Transform(func(map[string]any) error { return Permanent(errors.New("oops")) }) }, "oops", false},
		{func(p *Patch) { p.Transform(func(map[string]any) error { return errors.New("later") }) }, "later", true},
		{func(p *Patch) { p.Transform(func(map[string]any) error { panic("mistake") }) }, "panicked", true},
		{func(p *Patch) { p.SetAnnotation("example.com/touched", "yes"); p.SetLabel("a.b/c", "") }, "", false},
		{func(p *Patch) { p.Remove(Path("metadata", "annotations", "a.b")) }, "", false},
	} {
		p := &Patch{}
		tt.patch(p)
		body, err := ParseBody([]byte(`{"apiVersion":"v1","kind":"Pod"}`))
		if err != nil {
			t.Fatal(err)
		}
		err = p.try(body)
		if bad := jsonpatch.TakeBadTexts(p.changes.Merge); bad != nil {
			t.Errorf("what is refused is sent: %v", bad)
		}
		if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		} else if want := tt.want != "" && !tt.retried; want != errors.As(err, new(*PermanentError)) {
			t.Errorf("got %v, which is permanent: %t, want %t", err, !want, want)
		}
	}
}

func TestMissedFields(t *testing.T) {
	missed := Diff{
		{DiffRemove, []string{"data", "first"}, "b25l", nil},
		{DiffChange, []string{"data", "second"}, map[string]any{"x": json.Number("1")}, true},
	}
	for _, tt := range []struct {
		resource Resource
		want     string
	}{
		{Resource{Version: "v1", Plural: "configmaps"}, `differences="[data.first: sent \"b25l\", stored nothing data.second: sent {\"x\":1}, stored true]"`},
		{Resource{Version: "v1", Plural: "secrets"}, `differences=concealed`},
	} {
		var log strings.Builder
		s := &sender{ctx: t.Context(), resource: tt.resource, warned: &boundedset.Set{}, log: slog.New(slog.NewTextHandler(&log, nil))}
		s.warn("text", "K601", missed)
		if !strings.Contains(log.String(), "level=WARN msg=text "+tt.want) {
			t.Errorf("%s: got the line %s, want %s", tt.resource.Plural, log.String(), tt.want)
		}
	}
}

// TestReplaceOrder checks that the last of two calls for one part of an object wins.
func TestReplaceOrder(t *testing.T) {
	body, err := ParseBody([]byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"status":{"a":{"y":1},"conditions":[{"type":"A"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	value := map[string]any{"x": 1}
	for _, tt := range []struct {
		name string
		fill func(p *Patch)
		want string
	}{
		{"a replacement below what is removed", func(p *Patch) { p.Remove("status"); p.Replace("status.a", value) }, `{"a":{"x":1}}`},
		{"a replacement below a scalar", func(p *Patch) { p.Set("status", "text"); p.Replace("status.a", value) }, `{"a":{"x":1}}`},
		{"a replacement deeper below what is removed", func(p *Patch) { p.Remove("status.a"); p.Replace("status.a.b", value) },
			`{"a":{"b":{"x":1}},"conditions":[{"type":"A"}]}`},
		{"a removal above a replacement", func(p *Patch) { p.Replace("status.a", value); p.Remove("status") }, `null`},
		{"a status without conditions", func(p *Patch) { p.Replace("status", value) }, `{"conditions":[{"type":"A"}],"x":1}`},
		{"a status with conditions", func(p *Patch) { p.Replace("status", map[string]any{"conditions": []any{}}) }, `{"conditions":[]}`},
	} {
		p := &Patch{}
		tt.fill(p)
		object, err := p.apply(body)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(object["status"]); string(got) != tt.want {
			t.Errorf("%s: the status is %s, want %s", tt.name, got, tt.want)
		}
	}
	for _, path := range []FieldPath{"metadata", "metadata.finalizers", ""} {
		p := &Patch{}
		if p.Replace(path, value); !errors.As(p.check(), new(*PermanentError)) || !p.Empty() {
			t.Errorf("the path %q is accepted", path)
		}
	}
}

// TestConditionTags checks that conditions can be in the struct of a status.
func TestConditionTags(t *testing.T) {
	got, err := json.Marshal(struct{ Conditions []Condition }{[]Condition{
		{Type: "Ready", Status: ConditionTrue, Reason: "R", ObservedGeneration: 2, LastTransitionTime: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)},
		{Type: "New", Status: ConditionUnknown, Reason: "R"},
	}})
	want := `{"Conditions":[{"type":"Ready","status":"True","reason":"R","message":"","observedGeneration":2,"lastTransitionTime":"2030-01-02T03:04:05Z"},` +
		`{"type":"New","status":"Unknown","reason":"R","message":""}]}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, want %s; error %v", got, want, err)
	}
}

// A patch without functions has the same effect on the touched part as on the whole object. A patch that changes the object is never taken for an unchanged
// one.
func FuzzTouched(f *testing.F) {
	f.Add(`{"metadata":{"generation":3,"labels":{"a":"b"}},"spec":{"x":1},"status":{"y":2}}`, `{"status":{"y":3}}`, `{"spec":{"x":null}}`, "status.z", uint8(0xff))
	f.Add(`{"metadata":{"finalizers":["a"]},"status":{"kopf":{"progress":{}},"conditions":[]}}`, `{"status":{"kopf":null}}`, `{}`, "status", uint8(0x3f))
	f.Add(`{"status":"text"}`, `{"status":null}`, `{"status":{"conditions":null}}`, "spec.a.b", uint8(0x1f))
	f.Add(`{"metadata":{"annotations":{"kopf.zalando.org/a":"b","c":"d"}}}`, `{"metadata":{"annotations":null}}`, `{"metadata":{"annotations":{"e":"f"}}}`, "metadata.annotations", uint8(0x2b))
	f.Add(`{"status":{"a":1,"conditions":[{"type":"Ready","status":"True","reason":"Fine","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`, `{"status":{"a":1}}`, `{}`, "", uint8(0x21))
	f.Add(`{"metadata":{"generation":2},"status":{"conditions":[{"type":"Ready","status":"True","reason":"Fine","message":"","observedGeneration":2,"lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`, `{"metadata":{"x":null}}`, `{}`, "", uint8(0x21))
	persistence := NewSettings().Persistence
	inStatus := persistence
	inStatus.Storage = InStatus
	f.Fuzz(func(t *testing.T, object, merge, last, path string, which uint8) {
		body, err := ParseBody([]byte(object))
		if err != nil || !json.Valid([]byte(object)) {
			t.Skip()
		}
		p := newPatch(&persistence, &Resource{}, body)
		if which&64 != 0 {
			p = newPatch(&inStatus, &Resource{}, body)
		}
		if which&1 != 0 {
			p.Merge(rawjson.AsMap(decoded(merge)))
		}
		if which&2 != 0 {
			p.changes.Last = rawjson.AsMap(decoded(last))
		}
		if which&4 != 0 {
			p.Replace(FieldPath(path), decoded(last))
		}
		if which&8 != 0 {
			p.changes.Adds = []string{"added"}
		}
		if which&16 != 0 {
			p.changes.Removes = []string{"a"}
		}
		if which&32 != 0 {
			p.SetCondition(Condition{Type: "Ready", Status: ConditionTrue, Reason: "Fine", LastTransitionTime: time.Unix(0, 0)})
		}
		whole, wholeErr := p.apply(body)
		part := p.touched(body)
		after, err := p.apply(part)
		if (err == nil) != (wholeErr == nil) {
			t.Fatalf("the error is %v, and %v for the whole object", err, wholeErr)
		}
		if err != nil {
			return
		}
		got, want := jsonpatch.Diff(part.Map(), after), jsonpatch.Diff(body.Map(), whole)
		if p.holds(body) && len(want) > 0 {
			t.Errorf("it is taken for one that changes nothing, but it makes %v", want)
		}
		if diff := cmp.Diff(sortedOperations(want), sortedOperations(got)); diff != "" {
			t.Errorf("the part changes otherwise than the whole (-whole +part):\n%s\n%s", diff, part.raw)
		}
	})
}

// decoded returns the value of a text in JSON, nil if it is invalid.
func decoded(text string) any {
	v, err := rawjson.Decode([]byte(text))
	if err != nil {
		return nil
	}
	return v
}

// sortedOperations returns operations as sorted texts.
func sortedOperations(operations []jsonpatch.Operation) []string {
	texts := make([]string, 0, len(operations))
	for _, o := range operations {
		texts = append(texts, fmt.Sprintf("%s %s %v", o.Op, o.Path, o.Value))
	}
	slices.Sort(texts)
	return texts
}

// TestClearKeepsItsObject checks that a patch is for the same object after it was cleared: with the generation for conditions, and
// the storages whose fields a transformation must not remove.
func TestClearKeepsItsObject(t *testing.T) {
	body, err := ParseBody([]byte(`{"metadata":{"generation":7}}`))
	if err != nil {
		t.Fatal(err)
	}
	settings := &NewSettings().Persistence
	p := newPatch(settings, &Resource{Subresources: []string{"status"}}, body)
	p.Set("spec.x", 1)
	p.Clear()
	if !p.Empty() || p.of != body || p.persistence != settings {
		t.Errorf("got %+v", p)
	}
	p.SetCondition(Condition{Type: "Ready", Status: ConditionTrue, Reason: "Made"})
	if got := fmt.Sprint(p.JSONPatch(body)); !strings.Contains(got, "observedGeneration:7") {
		t.Errorf("got the operations %s", got)
	}
}

// TestCoalescedRemovals checks that waiting patches of an event handler stay one patch, also if they set fields in an object that they
// have removed.
func TestCoalescedRemovals(t *testing.T) {
	var all []*handlerPatch
	for i := range 10 {
		p := &Patch{}
		p.Remove("spec.a")
		p.Set("spec.a.b", i)
		all = coalesce(append(all, &handlerPatch{id: "event", patch: p}))
	}
	b := mustBody(t, `{"spec":{"a":{"old":1},"x":1}}`)
	if got := string(all[0].patch.applied(b).raw); len(all) != 1 || got != `{"spec":{"a":{"b":9},"x":1}}` {
		t.Errorf("got %d patches, and applied %s", len(all), got)
	}
}

// TestPatchValues checks that a patch shows removals, and objects that replace others, as plain JSON.
func TestPatchValues(t *testing.T) {
	p := &Patch{}
	p.Remove("spec.a")
	p.Set("spec.a.b", 1)
	p.Remove("status.x.y")
	want := mustObject(t, `{"spec":{"a":{"b":1}},"status":{"x":{"y":null}}}`)
	if diff := cmp.Diff(want, p.Map()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for path, want := range map[FieldPath]any{"spec.a": map[string]any{"b": json.Number("1")}, "spec.a.b": json.Number("1"), "status.x.y": nil} {
		if got, ok := p.Get(path); !ok || cmp.Diff(want, got) != "" {
			t.Errorf("%s: got %v, %t", path, got, ok)
		}
	}
	if _, ok := p.Get("spec.a.c"); ok {
		t.Error("a field has a value that was not set")
	}
}
