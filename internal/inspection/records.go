package inspection

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/progressrecord"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// record is a stored record of a handler.
type record struct {
	started, delayed time.Time
	purpose          string
	retries          int
	success, failure bool
	message          *string
}

// AddRecords adds what the records of handlers say: those in annotations under a prefix, and those in the field of the status. The ids are those of the handlers that are known; others are known by the
// names of their annotations. The text waiting stands for no error.
func (s *Status) AddRecords(annotations map[string]string, progress []byte, prefix string, ids []string, waiting string) {
	seen := make(map[string]bool) // the keys of annotations, and the ids
	for _, id := range ids {
		for _, key := range markers.AnnotationKeys(prefix+"/", id, false) {
			if text, ok := annotations[key]; ok && !seen[id] {
				s.addRecord(id, text, waiting, seen)
			}
			seen[key] = true
		}
	}
	for _, key := range rawjson.SortedKeys(annotations) {
		name, ours := strings.CutPrefix(key, prefix+"/")
		if ours && !seen[key] && !markers.IsReserved(name) && strings.HasPrefix(strings.TrimSpace(annotations[key]), "{") {
			s.addRecord(name, annotations[key], waiting, seen)
		}
	}
	_ = rawjson.EachMember(progress, func(quoted, value []byte) bool { // what is malformed is not there
		id := rawjson.Unquote(quoted)
		known := seen[id] || slices.ContainsFunc(markers.AnnotationKeys("", id, false), func(name string) bool { return seen[name] })
		if !known && id != markers.HandlingState && !rawjson.IsNull(value) {
			s.addRecord(id, string(value), waiting, seen)
		}
		return true
	})
	slices.SortFunc(s.Handlers, func(a, b HandlerStatus) int { return strings.Compare(a.ID, b.ID) })
}

// addRecord adds what one record says.
func (s *Status) addRecord(id, text, waiting string, seen map[string]bool) {
	seen[id] = true
	var r record
	value, err := rawjson.Decode([]byte(text))
	if err == nil {
		members, ok := value.(map[string]any)
		if !ok {
			err = fmt.Errorf("an object is expected, not %s", rawjson.KindOf(value))
		} else {
			err = progressrecord.Decode(members, map[string]any{"started": &r.started, "delayed": &r.delayed, "purpose": &r.purpose, "retries": &r.retries,
				"success": &r.success, "failure": &r.failure, "message": &r.message})
		}
	}
	if err != nil {
		s.Problems = append(s.Problems, "the record of "+id+" is damaged: "+err.Error())
		return
	}
	h := HandlerStatus{ID: id, State: Handling, Purpose: r.purpose, Attempts: r.retries}
	if !r.started.IsZero() {
		h.Started = &r.started
	}
	if r.message != nil && *r.message != waiting {
		h.Error = *r.message
	}
	switch {
	case r.success:
		h.State = Handled
	case r.failure:
		h.State = Failed
	case h.Error != "":
		h.State = Retrying
	}
	if !r.success && !r.failure && !r.delayed.IsZero() {
		h.Next = &r.delayed
	}
	s.Handlers = append(s.Handlers, h)
}

// ConditionsIn returns the conditions in a list of JSON. What is malformed is not there.
func ConditionsIn(list []byte) (all []Condition) {
	_ = rawjson.EachItem(list, func(item []byte) bool {
		all = append(all, Condition{Type: rawjson.StringAt(item, "type"), Status: rawjson.StringAt(item, "status"), Reason: rawjson.StringAt(item, "reason"), Message: rawjson.StringAt(item, "message"),
			ObservedGeneration: rawjson.IntAt(item, "observedGeneration")})
		return true
	})
	return all
}
