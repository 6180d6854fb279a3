package kopf

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/validation"
)

func FuzzReview(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":{"group":"g","version":"v1","resource":"things"},"userInfo":{},"object":{"metadata":{"name":"a"}}}}`))
	f.Add([]byte(`{"request":{"resource":{},"userInfo":1,"oldObject":[],"object":null}}`))
	f.Add([]byte(`{"request":{"resource":null}}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := readReview(data)
		if err != nil {
			if code := err.(*ReviewError).Code; code != 400 && code != 500 {
				t.Errorf("the code is %d", code)
			}
			return
		}
		s := &reviewServer{environment: &environment{settings: NewSettings()}, operator: fakeOperatorHost{}, memories: reviewMemories{all: map[string]*reviewMemory{}}}
		s.log = slog.New(slog.DiscardHandler)
		argument, err := s.argument(q, &ReviewRequest{Body: data}, Resource{})
		if err != nil {
			return
		}
		argument.Patch.Set("metadata.labels.a", "b")
		a := &admissionReview{reviewServer: s, argument: argument, mutating: true}
		_ = argument.Diff()
		answer, err := a.answer(q)
		if err != nil || !json.Valid(answer) {
			t.Errorf("the answer is %s: %v", answer, err)
		}
	})
}

// fakeOperatorHost is an operator that knows no object.
type fakeOperatorHost struct{}

func (fakeOperatorHost) serves(namespace string) bool          { return true }
func (fakeOperatorHost) memoryOf(resource, key string) *memory { return nil }
func (fakeOperatorHost) end(error)                             {}

func FuzzHookName(f *testing.F) {
	f.Add("fn/spec.x")
	f.Add("_a//b__")
	f.Add("Größe")
	f.Fuzz(func(t *testing.T, id string) {
		name := hookLabels(id)
		for label := range strings.SplitSeq(name, ".") {
			if label != "" && len(label) < 64 && !domainName(label) {
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
		path := servicePath(id)
		for segment := range strings.SplitSeq(path, "/") {
			if !validation.IsDNSSubdomain(segment) || len(segment) > 253 {
				t.Errorf("%q becomes %q", id, path)
			}
		}
		if again := servicePath(path); len(path) < 64 && again != path {
			t.Errorf("%q becomes %q and then %q", id, path, again)
		}
	})
}
