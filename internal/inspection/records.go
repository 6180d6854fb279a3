package inspection

import (
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/progressrecord"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// AddRecords adds what the records of handlers say: those in annotations under a prefix, and those in the field of the status. The ids are those of the handlers that are known; others are known by the
// names of their annotations. The text waiting stands for no error.
func (s *Status) AddRecords(annotations map[string]string, progress []byte, prefix string, ids []string, waiting string) {
	seen := make(map[string]bool) // the keys of annotations, and the ids
	for len(ids) > 0 {
		id := ids[0]
		ids = ids[1:]
		for _, key := range markers.AnnotationKeys(prefix+"/", id, false) {
			if text, ok := annotations[key]; ok && !seen[id] {
				if r := s.addRecord(id, text, waiting, seen); r != nil { // its sub-handlers are known then
					ids = append(ids, slices.DeleteFunc(r.Subrefs, func(ref string) bool { return seen[ref] || ref == markers.HandlingState })...)
				}
			}
			seen[key] = true
		}
	}
	for _, key := range rawjson.SortedKeys(annotations) {
		name, ours := strings.CutPrefix(key, prefix+"/")
		if ours && !seen[key] && !markers.IsReserved(name) && isRecord(annotations[key]) {
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

// isRecord reports whether the annotation of no known handler is a record, damaged or not, and nothing else that another client keeps under the prefix.
func isRecord(text string) bool {
	member := func(name string) bool { return strings.Contains(text, `"`+name+`"`) }
	return strings.HasPrefix(strings.TrimSpace(text), "{") && (member("started") || member("retries") || member("success"))
}

// addRecord adds what one record says, and returns it, nil if it is damaged.
func (s *Status) addRecord(id, text, waiting string, seen map[string]bool) *progressrecord.Record {
	seen[id] = true
	value, err := rawjson.Decode([]byte(text))
	var r *progressrecord.Record
	if err == nil {
		r, err = progressrecord.Parse(value)
	}
	if err != nil {
		s.Problems = append(s.Problems, "the record of "+id+" is damaged: "+err.Error())
		return nil
	}
	h := HandlerStatus{ID: id, State: Handling, Purpose: r.Purpose, Attempts: r.Retries}
	if !r.Started.IsZero() {
		h.Started = &r.Started
	}
	if r.Message != nil && *r.Message != waiting {
		h.Error = *r.Message
	}
	switch {
	case r.Success:
		h.State = Handled
	case r.Failure:
		h.State = Failed
	case h.Error != "":
		h.State = Retrying
	}
	if !r.Success && !r.Failure && !r.Delayed.IsZero() {
		h.Next = &r.Delayed
	}
	s.Handlers = append(s.Handlers, h)
	return r
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
