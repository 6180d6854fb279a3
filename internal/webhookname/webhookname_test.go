package webhookname

import (
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/validation"
)

func FuzzHookName(f *testing.F) {
	f.Add("fn/spec.x")
	f.Add("_a//b__")
	f.Add("Größe")
	f.Fuzz(func(t *testing.T, id string) {
		name := Labels(id)
		for label := range strings.SplitSeq(name, ".") {
			if label != "" && len(label) < 64 && !IsDomain(label) {
				t.Errorf("%q becomes %q", id, name)
			}
		}
	})
}

func FuzzServicePath(f *testing.F) {
	f.Add("fn/spec.x")
	f.Add("_a//B__")
	f.Add("validateAll")
	f.Add("mutating:" + strings.Repeat("Größe.", 50))
	f.Add(strings.Repeat("x", 198) + "-.Y")
	f.Fuzz(func(t *testing.T, id string) {
		path := ServicePath(id)
		for segment := range strings.SplitSeq(path, "/") {
			if !validation.IsDNSSubdomain(segment) || len(segment) > 253 {
				t.Errorf("%q becomes %q", id, path)
			}
		}
		if again := ServicePath(path); len(path) < 64 && again != path {
			t.Errorf("%q becomes %q and then %q", id, path, again)
		}
	})
}
