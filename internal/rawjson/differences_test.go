package rawjson

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDifferences(t *testing.T) {
	for _, tt := range []struct {
		before, after string
		want          []string
	}{
		{`1`, `1`, nil},
		{`1`, `2`, []string{": 1 -> 2"}},
		{`null`, `{}`, []string{": <nil> -> map[]"}},
		{`{}`, `null`, []string{": map[] -> <nil>"}},
		{`{"a":null}`, `{}`, nil},
		{`{"a":1,"b":{"c":[1],"d":"x"}}`, `{"b":{"c":[2],"d":"x","e":true},"f":null}`, []string{"a: 1 -> <nil>", "b.c: [1] -> [2]", "b.e: <nil> -> true"}},
		{`{"a":{"b":1}}`, `{"a":[1]}`, []string{"a: map[b:1] -> [1]"}},
		{`{"a":1.0}`, `{"a":1}`, nil},
		{strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat(`}`, 70), strings.Repeat(`{"a":`, 70) + `2` + strings.Repeat(`}`, 70),
			[]string{strings.TrimSuffix(strings.Repeat("a.", 70), ".") + ": 1 -> 2"}},
	} {
		var decoded, raw []string
		to := func(list *[]string) func([]string, any, any) {
			return func(path []string, before, after any) {
				*list = append(*list, fmt.Sprintf("%s: %v -> %v", strings.Join(path, "."), before, after))
			}
		}
		Differences(DecodeOrNil([]byte(tt.before)), DecodeOrNil([]byte(tt.after)), to(&decoded))
		DifferencesIn([]byte(tt.before), []byte(tt.after), to(&raw))
		if diff := cmp.Diff(tt.want, decoded); diff != "" {
			t.Errorf("%s and %s (-want +got)\n%s", tt.before, tt.after, diff)
		}
		if diff := cmp.Diff(decoded, raw); diff != "" {
			t.Errorf("%s and %s in their bytes (-decoded +raw)\n%s", tt.before, tt.after, diff)
		}
	}
}
