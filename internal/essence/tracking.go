package essence

import (
	"slices"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Tracking says which fields of an object are tracked in addition to those that always are, and which are not. It is stored with the last handled essence, so that another set of handlers
// does not make all objects look changed (CH-T28).
type Tracking struct {
	Fields  []string `json:"fields,omitempty"` // their paths
	Ignored []string `json:"ignored,omitempty"`
	State   string   `json:"state,omitempty"` // the digest of the essence that it was stored with; it tells nothing of another one
}

// NewTracking returns what is tracked for handlers that are about those fields, by a storage that ignores others.
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

// IsEmpty reports whether there is nothing to note.
func (t Tracking) IsEmpty() bool { return len(t.Fields)+len(t.Ignored) == 0 }

// Guess returns what may have been tracked for an essence of which that is not noted: what is tracked now, and what it has besides. So what has vanished is explained, but what appears is a
// change, because it may have appeared while it was tracked.
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

// Differing returns the fields that were tracked or ignored then, and are not now, or the other way round.
func (t Tracking) Differing(now Tracking) []string {
	return slices.Concat(uncovered(t.Fields, now.Fields), uncovered(now.Fields, t.Fields), uncovered(t.Ignored, now.Ignored), uncovered(now.Ignored, t.Ignored))
}

// Common returns the fields that were tracked then, and are now.
func (t Tracking) Common(now Tracking) []string {
	return slices.DeleteFunc(slices.Concat(t.Fields, now.Fields), func(field string) bool {
		return len(uncovered([]string{field}, t.Fields))+len(uncovered([]string{field}, now.Fields)) > 0
	})
}

// uncovered returns those fields that are neither among the others nor in them.
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
