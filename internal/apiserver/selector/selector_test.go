package selector

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParse checks responses of kube-apiserver to selectors.
func TestParse(t *testing.T) {
	labels := func(text string) error { _, err := ParseLabels(text); return err }
	fields := func(text string) error { _, err := ParseFields(text); return err }
	for _, tt := range []struct {
		parse      func(string) error
		text, want string // "" for none
	}{
		{labels, "", ""},
		{labels, " \t", ""},
		{labels, "a,!b,c = d , e==f,g!=h,i in (j,,k),l notin(),m>1,n<2,in=notin,o in (),p=", ""},
		{labels, "a=-", "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be "},
		{labels, "a in (b,c/d,-)", "unable to parse requirement: [values[0][a]: Invalid value: \"-\": a valid label must be "},
		{labels, "a/b/c=1", "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key must "},
		{labels, "a>x", "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"},
		{labels, "a=b=c", "found '=', expected: ',' or 'end of string'"},
		{labels, "a,", "found '', expected: identifier after ','"},
		{labels, ",a", "found ',', expected: !, identifier, or 'end of string'"},
		{labels, "!", "unable to parse requirement: found '', expected: identifier"},
		{labels, "!a in (b)", "found 'in', expected: ',' or 'end of string'"},
		{labels, "a is b", "unable to parse requirement: found 'is', expected: in, notin, =, ==, !=, gt, lt"},
		{labels, "a in b", "unable to parse requirement: found 'b' expected: '('"},
		{labels, "a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"},
		{labels, "a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"},
		{labels, "a===b", "unable to parse requirement: found '=', expected: identifier"},
		{fields, `a=b\,c,d!=e\=f,g==\\,=,`, ""},
		{fields, "a", "invalid selector: 'a'; can't understand 'a'"},
		{fields, "a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"},
		{fields, "a=b=c", "invalid field selector: unescaped character in value: 61"},
		{fields, `a=\b`, `invalid field selector: invalid escape sequence: \b`},
		{fields, `a=b\`, `invalid field selector: invalid escape sequence: \`},
	} {
		message := ""
		if err := tt.parse(tt.text); err != nil {
			message = err.Error()
		}
		if !strings.HasPrefix(message, tt.want) || tt.want == "" && message != "" {
			t.Errorf("%q: %q, want %q", tt.text, message, tt.want)
		}
	}
	if all, _ := ParseFields(`metadata.name=a\,b\=c\\`); len(all) != 1 || !all[0].Matches(`a,b=c\`, true) {
		t.Errorf("escaped characters are read as %+v", all)
	}
}

// FuzzLabelSelector parses a selector, and the selector that it formats from the result.
func FuzzLabelSelector(f *testing.F) {
	f.Add("a=b,c!=d,e in (f,g),h,!i,j>1,k notin ()")
	f.Add("a in (")
	f.Add("!")
	f.Add("a,")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseLabels(text)
		if err != nil {
			return
		}
		var parts []string
		for _, r := range all {
			if r.Key == "" {
				t.Fatalf("%q has a requirement without a key", text)
			}
			switch r.op {
			case "exists":
				parts = append(parts, r.Key)
			case "!exists":
				parts = append(parts, "!"+r.Key)
			case "in", "notin":
				parts = append(parts, r.Key+" "+r.op+" ("+strings.Join(r.values, ",")+")")
			default:
				parts = append(parts, r.Key+r.op+r.values[0])
			}
			_ = r.Matches("1", true)
			if r.Matches("1", false) == slices.Contains([]string{"=", "in", "exists", "<", ">"}, r.op) {
				t.Errorf("%q: what is not there fits %+v", text, r)
			}
		}
		again, err := ParseLabels(strings.Join(parts, ","))
		if diff := cmp.Diff(all, again, cmp.AllowUnexported(Requirement{})); err != nil || diff != "" {
			t.Errorf("%q means %q, which is %v (%v)\n%s", text, parts, again, err, diff)
		}
	})
}

// FuzzFieldSelector does the same for fields.
func FuzzFieldSelector(f *testing.F) {
	f.Add("metadata.name=a,status.phase!=b,c==d")
	f.Add(",=,")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseFields(text)
		if err != nil {
			return
		}
		for _, r := range all {
			if len(r.values) != 1 || r.Matches(r.values[0], true) != (r.op == "=") {
				t.Errorf("%q has the requirement %+v", text, r)
			}
		}
	})
}
