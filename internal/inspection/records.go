package inspection

import (
	"maps"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/progressrecord"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// AddRecords adds the handler progress: the annotations with a prefix, and the status field. The ids are those of the known handlers. Other handlers are
// named after their annotations. An error with the text waiting is ignored.
func (s *Status) AddRecords(annotations map[string]string, progress []byte, prefix string, ids []string, waiting string) {
	seen := make(map[string]bool) // annotation keys and ids
	for len(ids) > 0 {
		id := ids[0]
		ids = ids[1:]
		for _, key := range markers.AnnotationKeys(prefix+"/", id, false) {
			if text, ok := annotations[key]; ok && !seen[id] {
				if r := s.addRecord(id, text, waiting, seen); r != nil { // makes its sub-handlers known
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
	_ = rawjson.EachMember(progress, func(quoted, value []byte) bool { // malformed records are ignored
		id := rawjson.Unquote(quoted)
		known := seen[id] || slices.ContainsFunc(markers.AnnotationKeys("", id, false), func(name string) bool { return seen[name] })
		if !known && !markers.IsReserved(id) && !rawjson.IsNull(value) {
			s.addRecord(id, string(value), waiting, seen)
		}
		return true
	})
	s.sortHandlers()
}

// isRecord reports whether an annotation without a known handler is a record, damaged or not, rather than a value of another client under the prefix.
func isRecord(text string) bool {
	member := func(name string) bool { return strings.Contains(text, `"`+name+`"`) }
	return strings.HasPrefix(strings.TrimSpace(text), "{") && (member("started") || member("retries") || member("success"))
}

// addRecord adds one record, and returns it, or nil if it is damaged.
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
	s.Handlers = append(s.Handlers, statusOf(id, r, waiting))
	return r
}

// AddFailures adds the handlers that failed permanently in the last handling, and have no newer record.
func (s *Status) AddFailures(failed map[string]*progressrecord.Record) {
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		if !slices.ContainsFunc(s.Handlers, func(h HandlerStatus) bool { return h.ID == id }) {
			former := statusOf(id, failed[id], "")
			former.Former = true
			s.Handlers = append(s.Handlers, former)
		}
	}
	s.sortHandlers()
}

func (s *Status) sortHandlers() {
	slices.SortFunc(s.Handlers, func(a, b HandlerStatus) int { return strings.Compare(a.ID, b.ID) })
}

// statusOf returns the status of a handler by its record. An error with the text waiting is ignored.
func statusOf(id string, r *progressrecord.Record, waiting string) HandlerStatus {
	h := HandlerStatus{ID: id, State: Handling, Purpose: r.Purpose, Attempts: r.Retries, Stopped: r.Stopped}
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
	return h
}

// ConditionsIn decodes a JSON list of conditions. It ignores malformed ones.
func ConditionsIn(list []byte) (all []Condition) {
	_ = rawjson.EachItem(list, func(item []byte) bool {
		all = append(all, Condition{Type: rawjson.StringAt(item, "type"), Status: rawjson.StringAt(item, "status"), Reason: rawjson.StringAt(item, "reason"), Message: rawjson.StringAt(item, "message"),
			ObservedGeneration: rawjson.IntAt(item, "observedGeneration")})
		return true
	})
	return all
}
