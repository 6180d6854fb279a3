package audit

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRecord makes records of a call with all values, and of one with none.
func TestRecord(t *testing.T) {
	keys := func(c *Call) (all []string) {
		r := c.Record()
		r.Attrs(func(a slog.Attr) bool { all = append(all, a.Key); return true })
		return all
	}
	full := &Call{
		Handler: "create", Cause: "create", Err: errors.New("x"), Object: &Object{Name: "a"}, Fields: []string{"spec"}, Applied: []string{"Pod a/b"}, Deleted: []string{"Pod a/c"}, Fence: 7,
	}
	want := []string{"handler", "kind", "object", "cause", "attempt", "outcome", "duration", "error", "fields", "applied", "deleted", "replica", "fence"}
	if diff := cmp.Diff(want, keys(full)); diff != "" {
		t.Errorf("all values (-want +got)\n%s", diff)
	}
	want = slices.DeleteFunc(want, func(key string) bool {
		return slices.Contains([]string{"object", "cause", "error", "fields", "applied", "deleted", "fence"}, key)
	})
	if diff := cmp.Diff(want, keys(&Call{})); diff != "" {
		t.Errorf("no values (-want +got)\n%s", diff)
	}
}
