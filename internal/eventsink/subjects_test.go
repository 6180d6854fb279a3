package eventsink

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSubjects(t *testing.T) {
	var none *int
	one, object := 1, map[string]any{"kind": "X"}
	got := Subjects([]any{nil, none, &one, object, map[string]any(nil), []any{"a", []map[string]any{object, nil}, [2]any{nil, 2}}, []int{}, struct{ X int }{3}})
	want := []any{&one, object, "a", object, 2, struct{ X int }{3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := Subjects(nil); len(got) > 0 {
		t.Errorf("of nothing: got %v", got)
	}
}
