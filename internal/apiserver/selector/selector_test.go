package selector

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzLabelSelector reads a selector, and one that is written anew from what it means.
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

// FuzzFieldSelector does likewise for fields.
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
