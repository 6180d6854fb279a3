package essence

import (
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Tracking lists the fields that are tracked in addition to the default ones, and the fields that are not tracked. It is stored with the last-handled state,
// so that another set of handlers does not make all objects look changed (CH-T28).
type Tracking struct {
	Fields  []string `json:"fields,omitempty"` // paths
	Ignored []string `json:"ignored,omitempty"`
	State   string   `json:"state,omitempty"` // digest of the last-handled state that it was stored with; it is invalid for another state
}

// NewTracking returns the tracking for handlers that use the given fields, and for a storage that ignores others.
func NewTracking(fields, ignored []string) Tracking {
	t := Tracking{Ignored: slices.Clone(ignored)}
	for _, field := range fields {
		switch keys := rawjson.SplitPath(field); {
		case len(keys) > 1 && keys[0] == "metadata" && (keys[1] == "labels" || keys[1] == "annotations"):
		case len(keys) > 0 && slices.Contains([]string{"metadata", "status", "apiVersion", "kind"}, keys[0]):
			t.Fields = append(t.Fields, field)
		}
	}
	slices.Sort(t.Fields)
	slices.Sort(t.Ignored)
	return t
}

// IsEmpty reports whether there is nothing to store.
func (t Tracking) IsEmpty() bool { return len(t.Fields)+len(t.Ignored) == 0 }

// Guess returns the tracking that a stored state without one may have had: the current fields, and the additional fields in the state. Thus a field that is
// missing now may be untracked, but a new field is always a change, because it may have been tracked all the time.
func (t Tracking) Guess(stored []byte) Tracking {
	then := Tracking{Fields: slices.Clone(t.Fields)}
	for _, key := range rawjson.Keys(stored) {
		switch key {
		case "status", "apiVersion", "kind":
			then.Fields = append(then.Fields, key)
		case "metadata":
			metadata, _ := rawjson.Find(stored, key)
			for _, sub := range rawjson.Keys(metadata) {
				if sub != "labels" && sub != "annotations" {
					then.Fields = append(then.Fields, rawjson.JoinPath([]string{key, sub}))
				}
			}
		}
	}
	for _, field := range t.Ignored {
		if _, shown := rawjson.Find(stored, rawjson.SplitPath(field)...); !shown {
			then.Ignored = append(then.Ignored, field)
		}
	}
	return then
}

// Differing returns the fields that are tracked or ignored in only one of the two.
func (t Tracking) Differing(now Tracking) []string {
	return slices.Concat(uncovered(t.Fields, now.Fields), uncovered(now.Fields, t.Fields), uncovered(t.Ignored, now.Ignored), uncovered(now.Ignored, t.Ignored))
}

// Common returns the fields that both track.
func (t Tracking) Common(now Tracking) []string {
	return slices.DeleteFunc(slices.Concat(t.Fields, now.Fields), func(field string) bool {
		return len(uncovered([]string{field}, t.Fields))+len(uncovered([]string{field}, now.Fields)) > 0
	})
}

// uncovered returns the fields that are neither equal to one of the others nor below one.
func uncovered(fields, others []string) (left []string) {
	for _, field := range fields {
		keys := rawjson.SplitPath(field)
		covered := slices.ContainsFunc(others, func(other string) bool {
			above := rawjson.SplitPath(other)
			return len(above) <= len(keys) && slices.Equal(above, keys[:len(above)])
		})
		if !covered {
			left = append(left, field)
		}
	}
	return left
}
