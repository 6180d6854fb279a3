package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// compiled returns a schema of one text with a pattern.
func compiled(t *testing.T, pattern string) (*Schema, error) {
	t.Helper()
	quoted, err := rawjson.Encode(pattern)
	if err != nil {
		t.Fatal(err)
	}
	source, err := rawjson.DecodeObject([]byte(`{"type":"object","properties":{"a":{"type":"string","pattern":` + string(quoted) + `}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return Compile(source)
}

// TestPatterns checks that patterns are Go regular expressions, as in kube-apiserver, and match anywhere in a text.
func TestPatterns(t *testing.T) {
	for _, tt := range []struct{ pattern, fits, misfits string }{
		{`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, "a-9", "a-"},
		{`^\d+(ms|s|m|h)$`, "10ms", "10"},
		{`b`, "abc", "ac"},
		{`(?i)^straße|\x{212A}$`, "STRAßE", "strasse"},
		{`^[[:alpha:][:^digit:]]+$`, "a-", "1"},
		{`^\p{Greek}+$`, "λ", "l"},
		{`^\p{Lu}\P{N}$`, "AB", "A1"},
		{`(?s)^.$`, "\n", "ab"},
		{`\Qa.b\E`, "a.b", "axb"},
	} {
		s, err := compiled(t, tt.pattern)
		if err != nil {
			t.Errorf("%q: %v", tt.pattern, err)
			continue
		}
		if got := s.Validate(map[string]any{"a": tt.fits}, nil); len(got) > 0 {
			t.Errorf("%q refuses %q: %v", tt.pattern, tt.fits, got)
		}
		want := []field.Error{{Reason: "FieldValueInvalid", Path: "a", Value: tt.misfits, Detail: "a in body should match '" + tt.pattern + "'"}}
		if diff := cmp.Diff(want, s.Validate(map[string]any{"a": tt.misfits}, nil), cmp.AllowUnexported(field.Error{})); diff != "" {
			t.Errorf("%q and %q (-want +got)\n%s", tt.pattern, tt.misfits, diff)
		}
	}
}

func TestBadPatterns(t *testing.T) {
	deep := strings.Repeat("(", 1001) + strings.Repeat(")", 1001)
	for pattern, why := range map[string]string{
		`(`:           "missing closing ): `(`",
		`a)b`:         "unexpected ): `a)b`",
		`a**`:         "invalid nested repetition operator: `**`",
		`(x{40}){40}`: "invalid repeat count: `{40}`",
		`(?=a)`:       "invalid or unsupported Perl syntax: `(?=`",
		`\1`:          "invalid escape sequence: `\\1`",
		`\p{Nope}`:    "invalid character class range: `\\p{Nope}`",
		deep:          "expression nests too deeply: `" + deep + "`",
	} {
		want := `a: pattern ` + strconv.Quote(pattern) + `: error parsing regexp: ` + why
		if _, err := compiled(t, pattern); err == nil || err.Error() != want {
			t.Errorf("got %.200v, want %.200s", err, want)
		}
	}
}

func TestPatternIsLinear(t *testing.T) {
	s, err := compiled(t, `^(((a*)*)*|(a|a)*)*b$`)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Validate(map[string]any{"a": strings.Repeat("a", 100_000)}, nil); len(got) != 1 { // backtracking would never end
		t.Errorf("got %d errors, want 1", len(got))
	}
}

// FuzzSchema compiles a schema, and uses it to prune, complete and validate an object. A repetition changes nothing.
func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"array","uniqueItems":true,"items":{"type":"integer","multipleOf":0.5,"maximum":1e300}}}}`, `{"a":[1,1,1e400],"b":2}`)
	f.Add(`{"properties":{"a":{"default":{"b":1},"properties":{"b":{"default":[2]}}},"c":{"nullable":true,"type":"string","pattern":"^(a|b)*$","maxLength":-1}},"not":{"required":["a"]}}`, `{"a":null,"c":null}`)
	f.Add(`{"additionalProperties":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string","format":"cidr"}]},"oneOf":[{"enum":[{}]},{}],"minProperties":99999999999999999999}`, `{"":"::/0","a":{}}`)
	f.Add(`{"properties":{"a":{"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"x-kubernetes-embedded-resource":true,"properties":{"k":{"default":1}}}}}}`, `{"a":[{},{"k":1},null,[]]}`)
	f.Fuzz(func(t *testing.T, definition, object string) {
		source, err := rawjson.DecodeObject([]byte(definition))
		if err != nil {
			t.Skip()
		}
		obj, err := rawjson.DecodeObject([]byte(object))
		if err != nil {
			t.Skip()
		}
		s, err := Compile(source)
		if err != nil {
			return
		}
		s.Prune(obj)
		if more := s.Prune(obj); len(more) > 0 {
			t.Errorf("after pruning, %q is unknown", more)
		}
		s.ApplyDefaults(obj)
		first := s.Validate(obj, nil)
		once, err := rawjson.Encode(obj)
		if err != nil {
			t.Fatal(err)
		}
		if again := s.Validate(obj, nil); len(again) != len(first) {
			t.Errorf("%v is wrong at first, and %v then", first, again)
		}
		if twice, err := rawjson.Encode(obj); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("to check changes %s into %s", once, twice)
		}
		for _, e := range first {
			if e.Reason == "" {
				t.Errorf("%+v has no type", e)
			}
			_ = e.Message()
		}
	})
}

func TestNulls(t *testing.T) {
	for _, tt := range []struct{ name, schema, want string }{
		{"of a field", `{"properties":{"m":{"type":"string"}}}`, `{"n":{"a":null}}`},
		{"of a value of a map", `{"properties":{"m":{"type":"string"},"n":{"additionalProperties":{"type":"string"}}}}`, `{"n":{}}`},
		{"of a value with a default", `{"properties":{"m":{"type":"string","default":"x"},"n":{"additionalProperties":{"type":"string","default":"y"}}}}`, `{"m":"x","n":{"a":"y"}}`},
		{"that may be there", `{"properties":{"m":{"type":"string","nullable":true},"n":{"additionalProperties":{"type":"string","nullable":true}}}}`, `{"m":null,"n":{"a":null}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var source, object map[string]any
			if err := errors.Join(json.Unmarshal([]byte(tt.schema), &source), json.Unmarshal([]byte(`{"m":null,"n":{"a":null}}`), &object)); err != nil {
				t.Fatal(err)
			}
			s, err := Compile(source)
			if err != nil {
				t.Fatal(err)
			}
			s.ApplyDefaults(object)
			if got, err := json.Marshal(object); err != nil || string(got) != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
		})
	}
}
