package apiserver

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// compiled returns a schema of one text with a pattern.
func compiled(t *testing.T, pattern string) (*schema, error) {
	t.Helper()
	quoted, err := rawjson.Encode(pattern)
	if err != nil {
		t.Fatal(err)
	}
	source, err := rawjson.DecodeObject([]byte(`{"type":"object","properties":{"a":{"type":"string","pattern":` + string(quoted) + `}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return compileSchema(source)
}

// TestPatterns checks that patterns are the regular expressions of Go, as in kube-apiserver, and match anywhere in a text.
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
		if got := s.validate(map[string]any{"a": tt.fits}, nil); len(got) > 0 {
			t.Errorf("%q refuses %q: %v", tt.pattern, tt.fits, got)
		}
		want := []fieldError{{typ: "FieldValueInvalid", field: "a", value: tt.misfits, detail: "a in body should match '" + tt.pattern + "'"}}
		if diff := cmp.Diff(want, s.validate(map[string]any{"a": tt.misfits}, nil), cmp.AllowUnexported(fieldError{})); diff != "" {
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
	if got := s.validate(map[string]any{"a": strings.Repeat("a", 100_000)}, nil); len(got) != 1 { // backtracking would never end
		t.Errorf("got %d errors, want 1", len(got))
	}
}
