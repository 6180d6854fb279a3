package essence

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTracking(t *testing.T) {
	now := NewTracking([]string{"status.b", "spec.x", "metadata.labels.a", "metadata.finalizers", "status"}, []string{"spec.z", "spec.y"})
	if diff := cmp.Diff(Tracking{Fields: []string{"metadata.finalizers", "status", "status.b"}, Ignored: []string{"spec.y", "spec.z"}}, now); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if none := NewTracking([]string{"spec"}, nil); !none.IsEmpty() || now.IsEmpty() {
		t.Errorf("%+v is empty, or %+v is not", now, none)
	}
	then := now.Guess([]byte(`{"spec":{"y":1},"kind":"X","metadata":{"labels":{},"a.b":1}}`))
	want := Tracking{Fields: []string{"metadata.finalizers", "status", "status.b", "kind", `metadata.a\.b`}, Ignored: []string{"spec.z"}}
	if diff := cmp.Diff(want, then); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"kind", `metadata.a\.b`, "spec.y"}, then.Differing(now)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	narrow := Tracking{Fields: []string{"status.b"}}
	if diff := cmp.Diff([]string{"status.b", "status.b"}, narrow.Common(now)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
