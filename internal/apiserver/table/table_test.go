package table

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// FuzzTablePath follows the path of a column. The result must be in the object, and must not be larger.
func FuzzTablePath(f *testing.F) {
	f.Add(`{"a":[{"b":"x","c":1},{"b":"y"}]}`, `.a[?(@.b=="x")].c`)
	f.Add(`{"a":[1,2]}`, `{$.a[-9223372036854775808]}`)
	f.Add(`{"a":{"b":[]}}`, `['a'].*[*]..[0]`)
	f.Add(`{"a":1}`, `.a\`)
	f.Add(`[[[[1]]]]`, `[*][?(@[?(@[0`)
	f.Fuzz(func(t *testing.T, text, path string) {
		v, err := rawjson.Decode([]byte(text))
		if err != nil {
			t.Skip()
		}
		found := unstructured.JSONPath(v, path)
		if len(found) > strings.Count(text, ",")+strings.Count(text, ":")+strings.Count(text, "[")+1 {
			t.Errorf("%q leads to %d values in %s", path, len(found), text)
		}
		for _, typ := range []string{"date", "integer", "boolean", "string"} {
			cell := (&Column{typ: typ, path: path}).value(unstructured.View([]byte(text)), time.Unix(0, 0))
			if _, err := json.Marshal(cell); err != nil {
				t.Errorf("%q in %s is shown as %v: %v", path, text, cell, err)
			}
		}
	})
}

// FuzzAge formats the ages of objects.
func FuzzAge(f *testing.F) {
	f.Add("2020-01-01T00:00:00Z", int64(0))
	f.Add("9999-12-31T23:59:59Z", int64(1)<<62)
	f.Fuzz(func(t *testing.T, text string, seconds int64) {
		got := age(text, time.Unix(seconds%(1<<40), 0))
		if got == "" || len(got) > 12 || strings.Contains(got, "-") {
			t.Errorf("%q is %q old", text, got)
		}
	})
}
