package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func mustDecode(t testing.TB, text string) any {
	t.Helper()
	v, err := Decode([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func TestDecodeJSON(t *testing.T) {
	for _, bad := range []string{``, ` `, `{`, `{"a":1,}`, `[1 2]`, `nul`, `{} {}`, `1 2`, "\"\x01\"", `{"a":1}x`} {
		if v, err := Decode([]byte(bad)); err == nil {
			t.Errorf("decodeJSON(%q) = %v, want an error", bad, v)
		}
	}
	got := mustDecode(t, ` {"a": [1, 1.0, 1e2, 18446744073709551617, null, true, "x"]} `)
	want := map[string]any{"a": []any{json.Number("1"), json.Number("1.0"), json.Number("1e2"),
		json.Number("18446744073709551617"), nil, true, "x"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := DecodeObject([]byte(`[]`)); err == nil || !strings.Contains(err.Error(), "a list") {
		t.Errorf("decodeObject of a list: %v, want an error that says so", err)
	}
}

func TestEncodeJSON(t *testing.T) {
	got, err := Encode(map[string]any{"b": "<&>ž", "a": json.Number("1.0")})
	if want := `{"a":1.0,"b":"<&>ž"}`; err != nil || string(got) != want {
		t.Errorf("encodeJSON: %s, %v, want %s", got, err, want)
	}
	if _, err := Encode(make(chan int)); err == nil {
		t.Error("encodeJSON of a channel: want an error")
	}
}

func TestNormalizeJSON(t *testing.T) {
	type point struct {
		X int `json:"x"`
		Y []uint8
	}
	got, err := Normalize(map[string]any{"p": point{X: 1}, "n": 1.5, "nil": (*point)(nil)})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"p": map[string]any{"x": json.Number("1"), "Y": nil}, "n": json.Number("1.5"), "nil": nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := Normalize(func() {}); err == nil {
		t.Error("normalizeJSON of a function: want an error")
	}
}

func TestNormalizeText(t *testing.T) {
	type named struct{ Name string }
	for _, tt := range []struct {
		value, want any
		replaced    bool
	}{
		{"caf\xe9\xe8", "caf\ufffd\ufffd", true},
		{"café \ufffd", "café \ufffd", false},
		{`\ufffd`, `\ufffd`, false},
		{"", "", false},
		{[]string{`\ufffd \`, "\ufffd"}, []any{`\ufffd \`, "\ufffd"}, false},
		{[]string{`\` + "\xe9"}, []any{`\` + "\ufffd"}, true},
		{named{"caf\xe9\xe8"}, map[string]any{"Name": "caf\ufffd\ufffd"}, true},
		{map[string]any{"caf\xe9": true}, map[string]any{"caf\ufffd": true}, true},
	} {
		got, replaced, err := NormalizeText(tt.value)
		if diff := cmp.Diff(tt.want, got); diff != "" || replaced != tt.replaced || err != nil {
			t.Errorf("%q: got replaced %t and %v, want %t (-want +got)\n%s", tt.value, replaced, err, tt.replaced, diff)
		}
	}
}

// TestNormalizePlain compares copied values with encoded and decoded ones.
func TestNormalizePlain(t *testing.T) {
	type m = map[string]any
	deep := m{}
	for inner, depth := deep, 0; depth < 2*maxNesting; depth++ {
		next := m{}
		inner["a"], inner = next, next
	}
	for _, v := range []any{
		m{}, m(nil), []any{}, []any(nil), []m{}, []m(nil), []string(nil), map[string]string(nil), deep,
		m{"a": nil, "b": true, "c": "text <&> \u2028", "d": 1, "e": int64(-1 << 63), "f": json.Number("12"), "g": []m{{"x": []string{"y", ""}}, nil}, "h": map[string]string{"k": "v"}},
		m{"bad\xff": "bad\xff"}, []string{"bad\xff"}, map[string]string{"a": "bad\xff"}, m{"n": json.Number("0")}, m{"n": json.Number("1e3")}, m{"n": json.Number("")}, m{"n": json.Number("x")},
		m{"f": 1.5, "u": uint8(3), "s": []int{1}, "i": int32(4)}, []any{m{"a": m(nil), "b": []any(nil)}}, m{"f": func() {}},
	} {
		got, err := NormalizeObject(v)
		var want any
		data, wantErr := Encode(v)
		if wantErr == nil {
			want, wantErr = Decode(data)
		}
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
			t.Errorf("%.100v: got the error %v, want %v (-want +got)\n%.300s", v, err, wantErr, diff)
		}
	}
	original := m{"a": []any{m{"b": "c"}}}
	normalized, err := NormalizeObject(original)
	if err != nil {
		t.Fatal(err)
	}
	normalized.(m)["a"].([]any)[0].(m)["b"] = "changed"
	if original["a"].([]any)[0].(m)["b"] != "c" {
		t.Error("the value is shared with the original")
	}
}

func TestEqualJSON(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true},
		{`1`, `1e0`, true},
		{`100`, `1E+2`, true},
		{`0`, `-0.0`, true},
		{`1`, `true`, false},
		{`0`, `false`, false},
		{`0`, `null`, false},
		{`""`, `null`, false},
		{`"1"`, `1`, false},
		{`18446744073709551616`, `18446744073709551617`, false},
		{`18446744073709551616.0`, `18446744073709551616`, true},
		{`0.1`, `0.10000000000000001`, false},
		{`1e999999999`, `1e999999999`, true},
		{`1`, `1e999999999`, false},
		{`1e999999999`, `10e999999998`, true},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{`{"a":null}`, `{}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[1]`, `[1,1]`, false},
		{`[]`, `{}`, false},
		{`[{"a":[1.0]}]`, `[{"a":[1]}]`, true},
	}
	for _, tt := range tests {
		a, b := mustDecode(t, tt.a), mustDecode(t, tt.b)
		if got := Equal(a, b); got != tt.want {
			t.Errorf("equalJSON(%s, %s) = %t", tt.a, tt.b, got)
		}
		if got := Equal(b, a); got != tt.want {
			t.Errorf("equalJSON(%s, %s) = %t", tt.b, tt.a, got)
		}
	}
	if !Equal(1, json.Number("1")) || !Equal(int64(1), 1.0) || Equal(struct{}{}, struct{}{}) {
		t.Error("numbers of Go are compared wrongly")
	}
}

func TestMergeJSON(t *testing.T) {
	tests := []struct{ target, patch, want string }{ // RFC 7396, appendix A
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	}
	for _, tt := range tests {
		patch := mustDecode(t, tt.patch)
		got := Merge(mustDecode(t, tt.target), patch)
		if diff := cmp.Diff(mustDecode(t, tt.want), got); diff != "" {
			t.Errorf("mergeJSON(%s, %s): (-want +got)\n%s", tt.target, tt.patch, diff)
		}
		if m, ok := got.(map[string]any); ok {
			m["changed"] = true
			if diff := cmp.Diff(mustDecode(t, tt.patch), patch); diff != "" {
				t.Errorf("mergeJSON(%s, %s) shares its result with the patch:\n%s", tt.target, tt.patch, diff)
			}
		}
	}
}

func TestCloneJSON(t *testing.T) {
	v := mustDecode(t, `{"a":{"b":[{"c":1}]}}`)
	c := Clone(v)
	c.(map[string]any)["a"].(map[string]any)["b"].([]any)[0].(map[string]any)["c"] = "changed"
	if diff := cmp.Diff(mustDecode(t, `{"a":{"b":[{"c":1}]}}`), v); diff != "" {
		t.Errorf("a change of the copy is seen in the original:\n%s", diff)
	}
}

func TestFindJSON(t *testing.T) {
	raw := []byte(` { "a" : { "b\u002fc" : [ 1 , "}" ] , "d" : "x\\" , "d" : "y\"" } , "n" : null , "\u0061a":{} } `)
	tests := []struct {
		path []string
		want string // "" for no result
	}{
		{nil, strings.TrimSpace(string(raw))},
		{[]string{"a", "b/c"}, `[ 1 , "}" ]`},
		{[]string{"a", "d"}, `"y\""`}, // the last one, as in decoding
		{[]string{"n"}, `null`},
		{[]string{"aa"}, `{}`},
		{[]string{"n", "x"}, ``},
		{[]string{"a", "b/c", "0"}, ``},
		{[]string{"z"}, ``},
		{[]string{""}, ``},
	}
	for _, tt := range tests {
		got, ok := Find(raw, tt.path...)
		if string(got) != tt.want || ok != (tt.want != "") {
			t.Errorf("findJSON(%q) = %s, %t, want %s", tt.path, got, ok, tt.want)
		}
	}
}

func TestUnquote(t *testing.T) {
	tests := []struct{ quoted, want string }{
		{`"plain"`, "plain"},
		{`""`, ""},
		{`"a\"b\\c\/d\b\f\n\r\t"`, "a\"b\\c/d\b\f\n\r\t"},
		{`"\u00e9\uD83D\uDC0E\ud83d\udc0e"`, "é🐎🐎"},
		{`"\ud83d"`, "\ufffd"},
		{`"\ud83d\u0041"`, "\ufffdA"},
		{`"\udc0e\ud83d"`, "\ufffd\ufffd"},
		{"\"\xff\xfe\"", "\ufffd\ufffd"},
		{"\"é\x7f\"", "é\x7f"},
		{`"\u12"`, ""}, // not a string, like the following ones
		{`"\x"`, ""},
		{`"a\"`, ""},
		{"\"a\nb\"", ""},
		{`"a"b"`, ""},
		{`x`, ""},
		{``, ""},
		{`"`, ""},
		{`1234`, ""},
		{`"x1`, ""},
	}
	for _, tt := range tests {
		if got := Unquote([]byte(tt.quoted)); got != tt.want {
			t.Errorf("unquote(%s) = %q, want %q", tt.quoted, got, tt.want)
		}
	}
}

func TestAppendCompact(t *testing.T) {
	tests := []struct{ raw, want string }{
		{` { "b" : [ 1.0 , 2e5 ] , "a" : null } `, `{"b":[1.0,2e5],"a":null}`},
		{`"a b"`, `"a b"`},
		{`["\u0041\/\u003c", "ž🐎\u00e9"]`, `["A/<","\u017e\ud83d\udc0e\u00e9"]`},
		{"\"\x7f\\u001f\\b\\f\\n\\r\\t\\\"\\\\\"", `"\u007f\u001f\b\f\n\r\t\"\\"`},
		{`"\ud83d"`, `"\ufffd"`},
		{`{ }`, `{}`},
		{`{"a" : "broken`, `{"a":"broken`},
	}
	for _, tt := range tests {
		if got := string(AppendCompact(nil, []byte(tt.raw))); got != tt.want {
			t.Errorf("appendCompact(%s) = %s, want %s", tt.raw, got, tt.want)
		}
	}
}

func TestObject(t *testing.T) {
	change := func(change func(o *Object)) string {
		o := ParseObject([]byte(`{"z": 1, "a": {"x": {"y": 2}}, "s": "str", "n": null, "e": {}}`))
		change(o)
		return string(o.AppendTo(nil))
	}
	tests := []struct {
		name   string
		change func(o *Object)
		want   string
	}{
		{"nothing", func(o *Object) {}, `{"z":1,"a":{"x":{"y":2}},"s":"str","n":null,"e":{}}`},
		{"put in its place", func(o *Object) { o.Put("a", []byte(`[ 1 ]`)) }, `{"z":1,"a":[1],"s":"str","n":null,"e":{}}`},
		{"set", func(o *Object) { o.Set([]byte(`3`), "a", "x", "z") }, `{"z":1,"a":{"x":{"y":2,"z":3}},"s":"str","n":null,"e":{}}`},
		{"set anew", func(o *Object) { o.Set([]byte(`3`), "b", "ž") }, `{"z":1,"a":{"x":{"y":2}},"s":"str","n":null,"e":{},"b":{"\u017e":3}}`},
		{"set through a string", func(o *Object) { o.Set([]byte(`3`), "s", "x") }, `{"z":1,"a":{"x":{"y":2}},"s":"str","n":null,"e":{}}`},
		{"remove with parents", func(o *Object) { o.Remove("a", "x", "y") }, `{"z":1,"s":"str","n":null,"e":{}}`},
		{"remove what is absent", func(o *Object) { o.Remove("a", "x", "no") }, `{"z":1,"a":{"x":{"y":2}},"s":"str","n":null,"e":{}}`},
		{"remove from an empty parent", func(o *Object) { o.Remove("e", "no") }, `{"z":1,"a":{"x":{"y":2}},"s":"str","n":null}`},
		{"remove through a string", func(o *Object) { o.Remove("s", "x") }, `{"z":1,"a":{"x":{"y":2}},"s":"str","n":null,"e":{}}`},
		{"remove the root", func(o *Object) { o.Remove() }, `{"z":1,"a":{"x":{"y":2}},"s":"str","n":null,"e":{}}`},
	}
	for _, tt := range tests {
		if got := change(tt.change); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// FuzzScanner compares the functions on bytes with encoding/json.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"a":{"b":[1,2.50,null,true,"x"]},"c":"\u00e9\ud83d\ude00\n"}`, ` [ {} , [] , "" ] `, `"\ud800"`, `{"a":1,"a":{"b":2}}`,
		`{"a"`, `{"a":`, `[1,`, `{"a":}`, `{"\u0061":"\\"}`, `-1e+9`, `{"a":1]`, `[}`, "\"\xff\"", `{"":{"":{}}}`, `{"a":{},}`, "{\"\x7f\":\"ž\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		compact := AppendCompact(nil, data)
		object := ParseObject(data)
		v, err := Decode(data)
		if err != nil { // must only neither panic nor hang
			_, _ = Find(data, "a", "b")
			_ = EachItem(data, func([]byte) bool { return true })
			_ = Unquote(data)
			_ = object.AppendTo(nil)
			return
		}
		if got, err := Decode(compact); err != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("appendCompact(%q) = %q, which is %v (%v), want %v", data, compact, got, err, v)
		}
		for _, c := range compact {
			if c < ' ' || c > '~' {
				t.Fatalf("appendCompact(%q) = %q, which is not plain", data, compact)
			}
		}
		if again := AppendCompact(nil, compact); !bytes.Equal(again, compact) {
			t.Fatalf("appendCompact(%q) = %q, and of this %q", data, compact, again)
		}
		scan(t, bytes.TrimSpace(data), v)
	})
}

// FuzzDecodedValues compares the decoding and encoding of values with encoding/json.
func FuzzDecodedValues(f *testing.F) {
	for _, text := range []string{`"a"`, `"\u00e9\ud800"`, `-0`, `01`, `0`, `1e5`, `{"b":[null,true,"\n"],"a":{"<":12}}`, `"a","b"`, `"\x"`, "\"\xff\x7f\"", `[]`, `"\u2028"`, ` null`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var want any
		wrong := d.Decode(&want)
		if wrong == nil {
			if _, err := d.Token(); err != io.EOF {
				wrong = errors.New("something follows")
			}
		}
		got, err := Decode(data)
		if (err == nil) != (wrong == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is %#v (%v), want %#v (%v)", data, got, err, want, wrong)
		}
		if err != nil {
			return
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(want); err != nil {
			t.Fatal(err)
		}
		if text, err := Encode(got); err != nil || string(text) != strings.TrimSuffix(b.String(), "\n") {
			t.Errorf("%#v is written as %s (%v), want %s", got, text, err, &b)
		}
	})
}

// scan compares each part of raw with the decoded value.
func scan(t *testing.T, raw []byte, v any) {
	if end, err := SkipValue(raw, 0); err != nil || end != len(raw) {
		t.Fatalf("skipValue(%q) = %d, %v", raw, end, err)
	}
	switch v := v.(type) {
	case string:
		if got := Unquote(raw); got != v {
			t.Fatalf("unquote(%q) = %q, want %q", raw, got, v)
		}
	case []any:
		n := 0
		if err := EachItem(raw, func(value []byte) bool { scan(t, value, v[n]); n++; return true }); err != nil || n != len(v) {
			t.Fatalf("eachItem(%q): %d items, %v", raw, n, err)
		}
	case map[string]any:
		last := map[string][]byte{}
		if err := EachMember(raw, func(quoted, value []byte) bool {
			last[Unquote(quoted)] = value
			return true
		}); err != nil || len(last) != len(v) {
			t.Fatalf("eachMember(%q): %d keys, %v", raw, len(last), err)
		}
		o := ParseObject(raw)
		if got, err := DecodeObject(o.AppendTo(nil)); err != nil || !reflect.DeepEqual(got, v) || len(o.Members) != len(v) {
			t.Fatalf("parseObject(%q) is %v (%v), want %v", raw, got, err, v)
		}
		for key, value := range last {
			scan(t, value, v[key])
			if got, ok := Find(raw, key); (!ok || !bytes.Equal(got, value)) && utf8.Valid(raw) {
				t.Fatalf("findJSON(%q, %q) = %q, want %q", raw, key, got, value)
			}
		}
	}
}

// FuzzNumbers compares numbers with those of math/big.
func FuzzNumbers(f *testing.F) {
	f.Add("1", "1.0")
	f.Add("1e2", "100")
	f.Add("-0", "0")
	f.Add("1e-400", "0.1e-399")
	f.Fuzz(func(t *testing.T, x, y string) {
		if len(x) > 20 || len(y) > 20 || !isNumber(x) || !isNumber(y) || far(x) || far(y) {
			t.Skip()
		}
		a, _ := new(big.Rat).SetString(x)
		b, _ := new(big.Rat).SetString(y)
		if got := EqualNumbers(x, y); got != (a.Cmp(b) == 0) {
			t.Fatalf("equalNumbers(%s, %s) = %t", x, y, got)
		}
	})
}

// far reports whether a number is too large or too small for the slow comparison.
func far(x string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(x), "e")
	n, err := strconv.Atoi(exponent)
	return exponent != "" && (err != nil || n > 400 || n < -400)
}

func isNumber(s string) bool {
	v, err := Decode([]byte(s))
	n, ok := v.(json.Number)
	return err == nil && ok && n.String() == s
}

func TestIsNormal(t *testing.T) {
	loop := map[string]any{}
	loop["a"] = []any{loop}
	deep := any("end")
	for range 2 * maxNesting {
		deep = []any{deep}
	}
	for _, tt := range []struct {
		name  string
		value any
		want  bool
	}{
		{"null", nil, true},
		{"decoded values", map[string]any{"a": []any{true, "é\ufffd", json.Number("12"), json.Number("-1.5e3"), json.Number("0")}}, true},
		{"an integer", []any{1}, false},
		{"a list of texts", map[string]any{"a": []string{"y"}}, false},
		{"a nil map", map[string]any(nil), false},
		{"a nil list", []any{[]any(nil)}, false},
		{"text that is not UTF-8", []any{"caf\xe9"}, false},
		{"a key that is not UTF-8", map[string]any{"caf\xe9": true}, false},
		{"a deep value", deep, false},
		{"a struct", struct{ A int }{1}, false},
		{"a function", func() {}, false},
		{"not a number", []any{math.NaN(), "x"}, false},
		{"a bad number", []any{json.Number("x")}, false},
		{"an empty number", []any{json.Number("")}, false},
		{"a loop", loop, false},
	} {
		if got := IsNormal(tt.value); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
		if normal, err := Normalize(tt.value); tt.want && (err != nil || cmp.Diff(tt.value, normal) != "") {
			t.Errorf("%s: got %v and %v", tt.name, normal, err)
		}
	}
}
