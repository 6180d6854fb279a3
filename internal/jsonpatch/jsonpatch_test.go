package jsonpatch

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestEffectiveMerge(t *testing.T) {
	t.Run("CH-T2 patches without effect", func(t *testing.T) {
		for _, tt := range []struct{ object, patch, want string }{
			{`{"a":1}`, `{"a":1}`, `null`},
			{`{"a":1}`, `{"a":1.0}`, `null`},
			{`{"a":1}`, `{"b":null}`, `null`},
			{`{"a":1}`, `{"a":null}`, `{"a":null}`},
			{`{"a":null}`, `{"a":null}`, `{"a":null}`},
			{`{"a":{"b":1,"c":2}}`, `{"a":{"b":1,"c":3}}`, `{"a":{"c":3}}`},
			{`{"a":{"b":1}}`, `{"a":{}}`, `null`},
			{`{}`, `{"a":{}}`, `{"a":{}}`},
			{`{}`, `{"a":{"b":null}}`, `{"a":{"b":null}}`},
			{`{"a":"x"}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
			{`{"a":{"b":1}}`, `{"a":"x"}`, `{"a":"x"}`},
			{`{"a":[1]}`, `{"a":[1]}`, `null`},
			{`{"a":[1]}`, `{"a":[1,2]}`, `{"a":[1,2]}`},
			{`{"a":true}`, `{"a":1}`, `{"a":1}`},
			{`{}`, `{}`, `null`},
		} {
			object, patch := decodeMap(t, tt.object), decodeMap(t, tt.patch)
			got := EffectiveMerge(object, patch)
			want, _ := decodeText(t, tt.want).(map[string]any)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("effectiveMerge(%s, %s): (-want +got)\n%s", tt.object, tt.patch, diff)
			}
		}
	})
}

// FuzzEffectiveMerge checks that the effective part has the effect of the whole patch, and that it is nil exactly for a patch without effect.
func FuzzEffectiveMerge(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1,"n":null}}`), []byte(`{"a":{"b":1,"c":null,"d":{"e":null}}}`))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		object, err := rawjson.DecodeObject(one)
		patch, err2 := rawjson.DecodeObject(two)
		if err != nil || err2 != nil {
			t.Skip()
		}
		want := rawjson.Merge(rawjson.Clone(object), patch)
		effective := EffectiveMerge(object, patch)
		if got := rawjson.Merge(rawjson.Clone(object), any(effective)); effective != nil && !rawjson.Equal(got, want) {
			t.Fatalf("%s patched with %s is %v, and with its effective part %v: %v", one, two, want, effective, got)
		}
		if same := rawjson.Equal(object, want); same != (effective == nil) {
			t.Fatalf("%s patched with %s is %v, and the effective part is %v", one, two, want, effective)
		}
	})
}

func TestDiffPatch(t *testing.T) {
	tests := []struct{ before, after, want string }{
		{`{"a":1}`, `{"a":1.0}`, `[]`},
		{`{"a":null}`, `{}`, `[{"op":"remove","path":"/a"}]`},
		{`{}`, `{"a":null}`, `[{"op":"add","path":"/a","value":null}]`},
		{`{"l":[1,2,3]}`, `{"l":[2,3]}`, `[{"op":"remove","path":"/l/0"}]`},
		{`{"l":[1,3]}`, `{"l":[1,2,3]}`, `[{"op":"add","path":"/l/1","value":2}]`},
		{`{"l":[{"a":1,"b":1}]}`, `{"l":[{"a":2,"b":1}]}`, `[{"op":"replace","path":"/l/0/a","value":2}]`},
		{`{"a/b":{"~":1}}`, `{"a/b":{"~":"x"}}`, `[{"op":"replace","path":"/a~1b/~0","value":"x"}]`},
		{`{"a":[]}`, `{"a":{}}`, `[{"op":"replace","path":"/a","value":{}}]`},
		{`1`, `2`, `[{"op":"replace","path":"","value":2}]`},
	}
	for _, tt := range tests {
		got, err := rawjson.Normalize(Diff(decodeText(t, tt.before), decodeText(t, tt.after)))
		if got == nil {
			got = []any{}
		}
		if diff := cmp.Diff(decodeText(t, tt.want), got); diff != "" || err != nil {
			t.Errorf("diffPatch(%s, %s): %v, (-want +got)\n%s", tt.before, tt.after, err, diff)
		}
	}
}

// FuzzDiffPatch checks that applying a JSON patch gives the second value.
func FuzzDiffPatch(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":2},3],"c/d":{"~":null}}`), []byte(`{"a":[{"b":3},3,4,[]],"c/d":{"x":1}}`))
	f.Add([]byte(`[[],[1,2,3,4]]`), []byte(`[[1],[4,1]]`))
	f.Add([]byte(`{"":{"":1}}`), []byte(`{"":{}}`))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		before, err := rawjson.Decode(one)
		after, err2 := rawjson.Decode(two)
		if err != nil || err2 != nil {
			t.Skip()
		}
		ops := Diff(before, after)
		got := rawjson.Clone(before)
		for _, op := range ops {
			got = applyOp(t, got, strings.Split(op.Path, "/")[1:], op)
		}
		if !rawjson.Equal(got, after) {
			t.Fatalf("%s patched with %v is %v, want %s", one, ops, got, two)
		}
		if len(ops) > 0 == rawjson.Equal(before, after) {
			t.Fatalf("%s and %s: %v", one, two, ops)
		}
	})
}

// applyOp applies add, remove or replace at a path of escaped keys, and returns the new value.
func applyOp(t *testing.T, v any, path []string, op Operation) any {
	if len(path) == 0 {
		return op.Value
	}
	key := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0])
	switch v := v.(type) {
	case map[string]any:
		_, present := v[key]
		switch {
		case present == (op.Op == "add") && len(path) == 1:
			t.Fatalf("%s of %q: the key is there: %t", op.Op, op.Path, present)
		case len(path) == 1 && op.Op == "remove":
			delete(v, key)
		default:
			v[key] = applyOp(t, v[key], path[1:], op)
		}
		return v
	case []any:
		i, err := strconv.Atoi(key)
		switch {
		case err != nil || i < 0 || i > len(v) || i == len(v) && op.Op != "add":
			t.Fatalf("%s of %q: there is no such item in %v", op.Op, op.Path, v)
		case len(path) > 1 || op.Op == "replace":
			v[i] = applyOp(t, v[i], path[1:], op)
		case op.Op == "add":
			return slices.Insert(v, i, op.Value)
		default:
			return slices.Delete(v, i, i+1)
		}
		return v
	}
	t.Fatalf("%s of %q: nothing to go into in %v", op.Op, op.Path, v)
	return nil
}

func decodeText(t testing.TB, text string) any {
	t.Helper()
	v, err := rawjson.Decode([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func decodeMap(t testing.TB, text string) map[string]any {
	t.Helper()
	return decodeText(t, text).(map[string]any)
}

func TestHollows(t *testing.T) {
	object := []byte(`{"status":{"kopf":{"state":"x","progress":{}},"phase":"y"}}`)
	path := []string{"status", "kopf"}
	for text, want := range map[string]bool{
		`{"status":{"kopf":{"state":null}}}`:                          true,
		`{"status":{"kopf":{"state":null,"progress":{"a":null}}}}`:    true,
		`{"status":{"kopf":{"state":null,"progress":{"a":{"b":1}}}}}`: false,
		`{"status":{"kopf":{"progress":null}}}`:                       false,
		`{"status":{"kopf":null}}`:                                    false, // no change
		`{"status":{"phase":null}}`:                                   false,
		`{}`:                                                          false,
	} {
		var patch map[string]any
		if err := json.Unmarshal([]byte(text), &patch); err != nil {
			t.Fatal(err)
		}
		if got := Hollows(object, patch, path); got != want {
			t.Errorf("%s: got %t", text, got)
		}
		if Hollows([]byte(`{"status":{}}`), patch, path) {
			t.Errorf("%s: what is not there is hollowed", text)
		}
	}
}

func TestTouches(t *testing.T) {
	patch := map[string]any{"spec": map[string]any{"x": 1, "y": nil}, "status": nil}
	for field, want := range map[string]bool{"spec": true, "spec.x": true, "spec.x.deeper": true, "spec.y": true, "spec.z": false, "status.any": true, "other": false} {
		if got := Touches(patch, strings.Split(field, ".")); got != want {
			t.Errorf("%s: got %t, want %t", field, got, want)
		}
	}
}

func TestPut(t *testing.T) {
	for _, tt := range []struct {
		merge, value, want string
		keys               []string
	}{
		{`{}`, `1`, `{"a":{"b":1}}`, []string{"a", "b"}},
		{`{"a":null}`, `1`, `{"a":{"b":1}}`, []string{"a", "b"}},
		{`{"a":"x"}`, `1`, `{"a":{"b":1}}`, []string{"a", "b"}},
		{`{"a":{"c":2}}`, `{"b":1}`, `{"a":{"b":1,"c":2}}`, []string{"a"}},
		{`{"a":{"c":2}}`, `null`, `{"a":null}`, []string{"a"}},
		{`{"a":[1]}`, `{"b":1}`, `{"a":{"b":1}}`, []string{"a"}},
	} {
		merge, err := rawjson.DecodeObject([]byte(tt.merge))
		if err != nil {
			t.Fatal(err)
		}
		Put(merge, rawjson.DecodeOrNil([]byte(tt.value)), tt.keys...)
		if got, err := json.Marshal(merge); err != nil || string(got) != tt.want {
			t.Errorf("%s with %s at %q: got %s, %v, want %s", tt.merge, tt.value, tt.keys, got, err, tt.want)
		}
	}
}
