package manifest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAddAnnotation(t *testing.T) {
	with := func(annotations any) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "n", "annotations": annotations}}
	}
	for _, tt := range []struct{ object, want map[string]any }{
		{map[string]any{}, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"k": "v"}}}},
		{with(map[string]any{"a": "b"}), with(map[string]any{"a": "b", "k": "v"})},
		{with(map[string]any{"k": "own"}), with(map[string]any{"k": "own"})},
		{with(nil), with(map[string]any{"k": "v"})},
	} {
		AddAnnotation(tt.object, "k", "v")
		if diff := cmp.Diff(tt.want, tt.object); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestChangedConditions(t *testing.T) {
	then, later := time.Unix(1, 0), time.Unix(2, 0)
	before := []Condition{
		{Type: "Same", Status: "True", Reason: "R", LastTransitionTime: then},
		{Type: "Gone", Status: "True", Reason: "R"},
		{Type: "Turned", Status: "True", Reason: "R", ObservedGeneration: 3, LastTransitionTime: then},
		{Type: "Told", Status: "True", Reason: "R", ObservedGeneration: 3, LastTransitionTime: then},
	}
	changed, gone := ChangedConditions(before, []Condition{
		before[0],
		{Type: "New", Status: "False", Reason: "N", LastTransitionTime: later},
		{Type: "Turned", Status: "False", Reason: "R", ObservedGeneration: 3, LastTransitionTime: then},
		{Type: "Told", Status: "False", Reason: "R", ObservedGeneration: 4, LastTransitionTime: later},
	})
	want := []Condition{
		{Type: "New", Status: "False", Reason: "N", LastTransitionTime: later},
		{Type: "Turned", Status: "False", Reason: "R"},
		{Type: "Told", Status: "False", Reason: "R", ObservedGeneration: 4, LastTransitionTime: later},
	}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]int{1}, gone); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
