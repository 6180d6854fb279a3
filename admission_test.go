package kopf

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/kopf-go/kopf/internal/admissionreview"
)

func FuzzReview(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":{"group":"g","version":"v1","resource":"things"},"userInfo":{},"object":{"metadata":{"name":"a"}}}}`))
	f.Add([]byte(`{"request":{"resource":{},"userInfo":1,"oldObject":[],"object":null}}`))
	f.Add([]byte(`{"request":{"resource":null}}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		q, bad := admissionreview.Read(data)
		if bad != nil {
			if bad.Code != 400 && bad.Code != 500 {
				t.Errorf("the code is %d", bad.Code)
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

// fakeOperatorHost is an operator without objects.
type fakeOperatorHost struct{}

func (fakeOperatorHost) serves(namespace string) bool          { return true }
func (fakeOperatorHost) memoryOf(resource, key string) *memory { return nil }
func (fakeOperatorHost) end(error)                             {}
