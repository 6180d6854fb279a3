package kopf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestFieldPath(t *testing.T) {
	tests := []struct {
		path FieldPath
		keys []string
		text string
	}{
		{"", nil, ""},
		{"spec", []string{"spec"}, "spec"},
		{"spec.a.b", []string{"spec", "a", "b"}, "spec.a.b"},
		{`metadata.annotations.example\.com/x`, []string{"metadata", "annotations", "example.com/x"}, "metadata.annotations.example.com/x"},
		{`a\\b.c`, []string{`a\b`, "c"}, `a\b.c`},
		{"a..b", []string{"a", "", "b"}, "a..b"},
		{`a\`, []string{`a\`}, `a\`},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.keys, tt.path.Keys()); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", tt.path, diff)
		}
		if got := tt.path.String(); got != tt.text {
			t.Errorf("%q as text is %q", tt.path, got)
		}
	}
}

func FuzzPath(f *testing.F) {
	f.Add("metadata\nannotations\nexample.com/x")
	f.Add("a\\\n\n.")
	f.Fuzz(func(t *testing.T, lines string) {
		keys := strings.Split(lines, "\n")
		if lines == "" {
			return // one empty key has the same path as no keys
		}
		if got := Path(keys...).Keys(); !slices.Equal(got, keys) {
			t.Errorf("Path(%q) is of %q", keys, got)
		}
	})
}

const sample = ` {"apiVersion": "kopf.dev/v1", "kind": "X", "metadata": {"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "12",
	"creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": null, "finalizers": ["a", "b"], "labels": {"l": "v", "z": null},
	"annotations": {"example.com/x": "\u017e"}}, "spec": {"s": "text", "i": 42, "f": 1.50, "b": true, "n": null, "l": ["x", "y"], "m": {"k": 1}, "big": 18446744073709551617}} `

func TestBody(t *testing.T) {
	b := mustBody(t, sample)
	check := func(name string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	check("identity", b.identity.apiVersion+" "+b.Kind()+" "+b.Namespace()+"/"+b.Name()+" "+b.UID()+" "+b.ResourceVersion(), "kopf.dev/v1 X ns/n u 12")
	check("APIVersion", b.APIVersion(), "kopf.dev/v1")
	check("CreationTimestamp", b.CreationTimestamp(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	check("DeletionTimestamp", b.DeletionTimestamp(), time.Time{})
	check("Finalizers", b.Finalizers(), []string{"a", "b"})
	check("Labels", b.Labels(), map[string]string{"l": "v", "z": ""})
	check("Annotations", b.Annotations(), map[string]string{"example.com/x": "ž"})
	check("Reference", b.Reference(), ObjectReference{APIVersion: "kopf.dev/v1", Kind: "X", Name: "n", UID: "u", Namespace: "ns"})
	check("Reference as text", b.Reference().String(), "ns/n")
	check("Map", b.Map(), mustDecode(t, sample))
	check("Get", b.Get("spec.big"), json.Number("18446744073709551617"))
	check("Get through a list", b.Get("spec.l.0"), nil)
	check("Has a null", b.Has("spec.n"), true)
	check("Has nothing", b.Has("spec.x"), false)
	check("key", b.key(), "u")
	check("key without uid", mustBody(t, `{"kind":"X","metadata":{"name":"n"}}`).key(), "X/-/n/-/-")
	if v, ok := b.Label("z"); ok || v != "" {
		t.Errorf("a null label is %q", v)
	}
	if v, ok := b.Annotation("example.com/x"); !ok || v != "ž" {
		t.Errorf("the annotation is %q", v)
	}
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	check("marshalled", mustDecode(t, string(data)), mustDecode(t, sample))
	var typed struct{ Spec struct{ I int } }
	if err := b.Decode(&typed); err != nil || typed.Spec.I != 42 {
		t.Errorf("decoded: %v, %v", typed, err)
	}
	t.Run("CH-89 a null deletion timestamp is none", func(t *testing.T) {
		if b.Deleting() {
			t.Error("it is being deleted")
		}
		if !mustBody(t, `{"metadata":{"deletionTimestamp":"2026-01-02T03:04:05Z"}}`).Deleting() {
			t.Error("it is not being deleted")
		}
	})
	t.Run("what is no object", func(t *testing.T) {
		for _, bad := range []string{``, ` `, `[]`, `1`, `{`, `{"a"`, `{"metadata":{"name":}}`, `{"a":}`} {
			if _, err := ParseBody([]byte(bad)); err == nil {
				t.Errorf("%q is accepted", bad)
			}
		}
		if _, err := NewBody([]int{1}); err == nil {
			t.Error("a list is accepted")
		}
		if _, err := NewBody(func() {}); err == nil {
			t.Error("a function is accepted")
		}
	})
	t.Run("typed", func(t *testing.T) {
		for text, want := range map[string]string{
			`{"metadata":{"name":"n"}, "spec":{}}`:  `{"apiVersion":"v1","kind":"Y","metadata":{"name":"n"},"spec":{}}`,
			`{"kind":"Z","metadata":{"name":"n"}}`:  `{"apiVersion":"v1","kind":"Z","metadata":{"name":"n"}}`,
			`{"apiVersion":null,"kind":"Z","a":1}`:  `{"apiVersion":"v1","kind":"Z","a":1}`,
			`{"apiVersion":"a", "kind":"Z", "a":1}`: `{"apiVersion":"a", "kind":"Z", "a":1}`,
		} {
			got := mustBody(t, text).typed("v1", "Y")
			if string(got.raw) != want || got.APIVersion() == "" || got.Kind() == "" || got.Name() != mustBody(t, text).Name() {
				t.Errorf("%s becomes %s, want %s", text, got.raw, want)
			}
		}
	})
}

func TestView(t *testing.T) {
	v := mustBody(t, sample).Spec()
	check := func(name string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	check("String", []string{v.String("s"), v.String("i"), v.String("f"), v.String("b"), v.String("n"), v.String("l"), v.String("m"), v.String("x")},
		[]string{"text", "42", "1.50", "true", "", "", "", ""})
	check("Int", []int64{v.Int("i"), v.Int("f"), v.Int("s"), v.Int("x"), v.Int("big"), v.Int("m.k")}, []int64{42, 0, 0, 0, 0, 1})
	check("Float", []float64{v.Float("i"), v.Float("f"), v.Float("s"), v.Float("x")}, []float64{42, 1.5, 0, 0})
	check("Bool", []bool{v.Bool("b"), v.Bool("i"), v.Bool("x")}, []bool{true, false, false})
	check("Strings", [][]string{v.Strings("l"), v.Strings("x"), v.Strings("m")}, [][]string{{"x", "y"}, nil, nil})
	check("Keys", v.Keys(), []string{"s", "i", "f", "b", "n", "l", "m", "big"})
	check("Len", v.Len(), 8)
	check("View", v.View("m").Map(), map[string]any{"k": json.Number("1")})
	var m struct{ K int }
	if err := v.View("m").Decode(&m); err != nil || m.K != 1 {
		t.Errorf("decoded: %v, %v", m, err)
	}
	for name, empty := range map[string]View{"zero": {}, "absent": v.View("x"), "null": v.View("n"), "a string": v.View("s"), "through a list": v.View("l.0")} {
		check(name, []any{empty.Len(), empty.Map(), empty.Keys(), empty.Get("k"), empty.Has("k"), empty.String("k")},
			[]any{0, map[string]any{}, []string(nil), nil, false, ""})
	}
	if data, err := json.Marshal(View{}); err != nil || string(data) != "null" {
		t.Errorf("an empty view is %s, %v", data, err)
	}
	m.K = 7
	if err := (View{}).Decode(&m); err != nil || m.K != 7 {
		t.Errorf("an empty view is decoded as %v, %v", m, err)
	}
	copied, _ := v.View("m").MarshalJSON()
	copied[0] = 'x'
	if v.View("m").Int("k") != 1 {
		t.Error("a change of what is marshalled is seen in the body")
	}
}

func TestViewInt(t *testing.T) {
	for text, want := range map[string]int64{
		`5`: 5, `-5`: -5, `"5"`: 5, `"-5"`: -5,
		`1.0`: 1, `-2.00`: -2, `1e3`: 1000, `1E+3`: 1000, `12.5e1`: 125, `1200e-2`: 12, `"1e3"`: 1000, `0.0`: 0, `-0`: 0, `0e99`: 0,
		`9223372036854775807`: math.MaxInt64, `-9223372036854775808`: math.MinInt64, `9223372036854775807.0`: math.MaxInt64, `9.223372036854775807e18`: math.MaxInt64,
		`-9223372036854775808.0`: math.MinInt64, `9223372036854775808`: 0, `9223372036854775808.0`: 0, `-9223372036854775809`: 0, `1e19`: 0, `1e999999999`: 0,
		`1e99999999999999999999`: 0, `1.5`: 0, `1e-1`: 0, `0.5e0`: 0, `"1m"`: 0, `"0x10"`: 0, `"1 "`: 0, `"."`: 0, `"e3"`: 0, `"-"`: 0, `""`: 0,
		`true`: 0, `null`: 0, `[1]`: 0, `{"1":1}`: 0,
	} {
		if got := mustBody(t, `{"spec":{"n":`+text+`}}`).Spec().Int("n"); got != want {
			t.Errorf("%s is the number %d, want %d", text, got, want)
		}
	}
}

func TestViewFloat(t *testing.T) {
	for text, want := range map[string]float64{
		`5`: 5, `-0.5`: -0.5, `"0.5"`: 0.5, `1e3`: 1000, `"1E-1"`: 0.1, `1e400`: math.Inf(1), `-1e99999999999999999999`: math.Inf(-1),
		`"nan"`: 0, `"inf"`: 0, `"Infinity"`: 0, `"e"`: 0, `"1_0"`: 0, `"0x1p4"`: 0, `"1-1"`: 0, `"1 "`: 0, `""`: 0, `true`: 0, `null`: 0, `[1]`: 0,
	} {
		if got := mustBody(t, `{"spec":{"n":`+text+`}}`).Spec().Float("n"); got != want {
			t.Errorf("%s is the number %v, want %v", text, got, want)
		}
	}
}

func TestBodyInLogs(t *testing.T) {
	for object, want := range map[string]string{
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"v"}}`:                                                                               `{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"v"}}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","annotations":{"copy":"cGFzcw=="}},"data":{"k":"cGFzcw=="}}`:                 `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"1"},"stringData":{"k":"pass"}}`: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"n","resourceVersion":"1","uid":"u"}}`,
		`{"apiVersion":"example.com/v1","kind":"Secret","metadata":{"name":"a"},"data":{"k":"of another group"}}`:                               `{"apiVersion":"example.com/v1","kind":"Secret","metadata":{"name":"a"},"data":{"k":"of another group"}}`,
	} {
		if got := mustBody(t, object).LogValue().String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestNewerVersion(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"10", "9", true}, {"9", "10", false}, {"9", "9", true}, {"x", "x", true}, {"x", "1", false}, {"1", "x", false}, {"", "", true},
		{"18446744073709551616", "1", false},
	} {
		if got := apirequest.NewerVersion(tt.a, tt.b); got != tt.want {
			t.Errorf("apirequest.NewerVersion(%q, %q) = %t", tt.a, tt.b, got)
		}
	}
}

// goldenItem is an item of a diff: [operation, path, old, new].
type goldenItem [4]any

// checkDiff compares a diff with a golden one, whose order does not matter.
func checkDiff(t *testing.T, name string, want []goldenItem, got Diff) {
	t.Helper()
	lines := func(n int, at func(i int) any) []string {
		all := make([]string, n)
		for i := range all {
			v, _ := rawjson.Normalize(at(i))
			text, _ := rawjson.Encode(v)
			all[i] = string(text)
		}
		slices.Sort(all)
		return all
	}
	w := lines(len(want), func(i int) any { return want[i] })
	g := lines(len(got), func(i int) any {
		item := got[i]
		return []any{item.Operation, append([]string{}, item.Path...), item.Old, item.New}
	})
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", name, diff)
	}
}

func TestDiff(t *testing.T) {
	// Booleans are not numbers here: see docs/deviations.md.
	apart := map[string]string{`{"a": 1} {"a": true}`: "CH-T33", `{"a": 0} {"a": false}`: "CH-T33"}
	t.Run("CH-85 golden", func(t *testing.T) {
		n := 0
		for _, r := range golden[struct {
			Old, New json.RawMessage
			Diff     []goldenItem
		}](t, "diffs") {
			name := fmt.Sprintf("%s and %s", rawjson.AppendCompact(nil, r.Old), rawjson.AppendCompact(nil, r.New))
			before, after := mustDecode(t, string(r.Old)), mustDecode(t, string(r.New))
			if name := strings.ReplaceAll(name, ":", ": "); apart[strings.ReplaceAll(name, " and", "")] != "" {
				n++
				if d := diffJSON(before, after); len(d) != 1 || d[0].Operation != DiffChange {
					t.Errorf("%s: %v, want a change", name, d)
				}
				continue
			}
			checkDiff(t, name, r.Diff, diffJSON(before, after))
			checkDiff(t, name+", of bytes", r.Diff, diffRaw(r.Old, r.New))
			a, b := essenceIn(r.Old), essenceIn(r.New)
			if a.Equal(b) != (len(r.Diff) == 0) {
				t.Errorf("%s: Equal is %t", name, a.Equal(b))
			}
		}
		if n != len(apart) {
			t.Errorf("%d rows are not as in the original, want %d", n, len(apart))
		}
	})
	t.Run("CH-T33 booleans are not numbers", func(t *testing.T) {
		if diffJSON(true, json.Number("1")) == nil || diffJSON(false, json.Number("0")) == nil || diffJSON(json.Number("1"), json.Number("1.0")) != nil {
			t.Error("numbers are equal by value, booleans to themselves only")
		}
	})
	t.Run("CH-87 golden", func(t *testing.T) {
		for _, r := range golden[struct {
			Diff    []goldenItem
			Field   []string
			Reduced []goldenItem
		}](t, "diff_reduction") {
			var d Diff
			for _, item := range r.Diff {
				v, err := rawjson.Normalize(item)
				if err != nil {
					t.Fatal(err)
				}
				parts := v.([]any)
				var path []string
				for _, key := range parts[1].([]any) {
					path = append(path, key.(string))
				}
				d = append(d, DiffItem{DiffOperation(parts[0].(string)), path, parts[2], parts[3]})
			}
			checkDiff(t, fmt.Sprint(r.Field), r.Reduced, d.Reduce(Path(r.Field...)))
		}
	})
	t.Run("paths are not shared", func(t *testing.T) {
		d := diffJSON(mustDecode(t, `{"a":{"b":{"c":1,"d":1},"e":1}}`), mustDecode(t, `{"a":{"b":{"c":2,"d":2},"e":2}}`))
		want := []string{"change a.b.c: 1 -> 2", "change a.b.d: 1 -> 2", "change a.e: 1 -> 2"}
		var got []string
		for _, item := range d {
			got = append(got, item.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// FuzzDiff checks that both ways to compare values have the same result, and that applying the differences leads from one value to the other.
func FuzzDiff(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1],"c":null},"d":1.0}`), []byte(`{"d":1,"a":{"b":[2],"x":{"y":1}}}`))
	f.Add([]byte(`{"\u0061":"\u017e"}`), []byte(`{"a":"ž"}`))
	f.Add([]byte(`[1]`), []byte(` null `))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		before, err := rawjson.Decode(one)
		after, err2 := rawjson.Decode(two)
		if err != nil || err2 != nil { // checks only that it neither panics nor hangs
			_ = diffRaw(one, two)
			return
		}
		if compact := rawjson.AppendCompact(nil, one); len(diffRaw(compact, bytes.TrimSpace(one))) > 0 {
			t.Fatalf("diffRaw(%q, %q) = %v", compact, one, diffRaw(compact, bytes.TrimSpace(one)))
		}
		want := diffJSON(before, after)
		if diff := cmp.Diff(want, diffRaw(bytes.TrimSpace(one), bytes.TrimSpace(two))); diff != "" {
			t.Fatalf("%s and %s: (-decoded +bytes)\n%s", one, two, diff)
		}
		got := rawjson.Clone(before)
		for _, item := range want {
			got = applyItem(got, item.Path, item.New)
		}
		if d := diffJSON(got, after); len(d) > 0 {
			t.Fatalf("%s and %s: %v, of which remains %v", one, two, want, d)
		}
	})
}

func applyItem(v any, path []string, value any) any {
	if len(path) == 0 {
		return rawjson.Clone(value)
	}
	m := rawjson.AsMap(v)
	if m == nil {
		m = map[string]any{}
	}
	if value == nil && len(path) == 1 {
		delete(m, path[0])
	} else {
		m[path[0]] = applyItem(m[path[0]], path[1:], value)
	}
	return m
}

func mustDecode(t testing.TB, text string) any {
	t.Helper()
	v, err := rawjson.Decode([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func mustObject(t testing.TB, text string) map[string]any {
	t.Helper()
	return mustDecode(t, text).(map[string]any)
}

// FuzzOutline compares the outlines of objects, which need one pass, with a separate search for each part.
func FuzzOutline(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","labels":{"a":"b"},"deletionTimestamp":null},"spec":{"x":[1,"\"]"]},"status":{}}`))
	f.Add([]byte(`{"metadata":{"name":"a"},"metadata":{"uid":"b"},"m\u0065tadata":null} `))
	f.Add([]byte(`{"kind":5,"metadata":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.TrimSpace(text)
		var o rawjson.Header
		err := o.Scan(text)
		if !json.Valid(text) || !utf8.Valid(text) || text[0] != '{' {
			if err == nil && o.End > len(text) {
				t.Fatalf("%q ends at %d", text, o.End)
			}
			return
		}
		if err != nil || o.End != len(text) {
			t.Fatalf("%q: %v, and the end is %d", text, err, o.End)
		}
		for cut := range text {
			if err := o.Scan(text[:cut]); !errors.Is(err, rawjson.ErrTruncated) && cut > 0 {
				t.Fatalf("%q: got %v, want %v", text[:cut], err, rawjson.ErrTruncated)
			}
		}
		b, err := ParseBody(text)
		if err != nil {
			t.Fatal(err)
		}
		whole, _ := rawjson.Find(text, "metadata")
		for _, part := range []struct {
			path []string
			got  string
		}{
			{[]string{"apiVersion"}, b.apiVersion}, {[]string{"kind"}, b.kind}, {[]string{"metadata", "name"}, b.name},
			{[]string{"metadata", "namespace"}, b.namespace}, {[]string{"metadata", "uid"}, b.uid}, {[]string{"metadata", "resourceVersion"}, b.version},
		} {
			if want := rawjson.StringAt(text, part.path...); part.got != want {
				t.Errorf("%q: %q is %q, want %q", text, part.path, part.got, want)
			}
		}
		for _, part := range []struct {
			path []string
			got  []byte
		}{{[]string{"status"}, b.of(b.status)}, {[]string{"spec"}, b.of(b.spec)}, {[]string{"metadata", "labels"}, b.of(b.labels)}, {[]string{"metadata", "annotations"}, b.of(b.annotations)},
			{[]string{"metadata", "finalizers"}, b.of(b.finalizers)}, {[]string{"metadata", "ownerReferences"}, b.of(b.owners)}, {[]string{"metadata", "managedFields"}, b.of(b.managers)}} {
			if want, _ := rawjson.Find(text, part.path...); !bytes.Equal(part.got, want) {
				t.Errorf("%q: %q is %q, want %q", text, part.path, part.got, want)
			}
		}
		if deletion, _ := rawjson.Find(whole, "deletionTimestamp"); b.deleting == rawjson.IsNull(deletion) {
			t.Errorf("%q: deleting is %t", text, b.deleting)
		}
	})
}
