package manifest

import (
	"testing"

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
