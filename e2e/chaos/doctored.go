package chaos

import (
	"maps"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
)

// This file tests the judge: evidence that was doctored must not pass.

// Doctored is a lie in the evidence of a run, and whether the judge has found it.
type Doctored struct {
	What  string
	Found bool
}

// Doctored changes the evidence of the run in several ways, each of which is what a fault of the operator would look like.
func (r *Report) Doctored() []Doctored {
	lies := []struct {
		what, rule string
		tell       func(e *Evidence) bool // whether there was anything to change
	}{
		{"an event was dropped", sightings, func(e *Evidence) bool {
			return change(e.Census.Seen, func(value int64) int64 { return value - 1 })
		}},
		{"an object is not in the index any more", indices, func(e *Evidence) bool { return removeOne(e.Census.Colors) }},
		{"a daemon goes on", daemonsRun, func(e *Evidence) bool {
			e.Census.Daemons["00000000-0000-0000-0000-000000000000"] = true
			return true
		}},
		{"the last change was not handled", lastState, func(e *Evidence) bool {
			uid := e.some(func(v []*Version) bool { return !v[len(v)-1].Gone })
			return e.forget(uid, func(c *journal.Entry) bool {
				return c.Handler == "value" && c.Value == e.Versions[uid][len(e.Versions[uid])-1].Object.value()
			})
		}},
		{"the handler of a deletion was not called", deletion, func(e *Evidence) bool {
			uid := e.some(func(v []*Version) bool {
				return v[len(v)-1].Gone && slices.ContainsFunc(v, func(v *Version) bool {
					return v.Object.held() && v.Object.Metadata.DeletionTimestamp != ""
				})
			})
			return e.forget(uid, func(c *journal.Entry) bool { return c.Handler == "unmake" })
		}},
		{"a handler was called again after its success was stored", once, (*Evidence).repeatCall},
		{"a process has ended by itself", goesOn, func(e *Evidence) bool {
			e.Ends = append(e.Ends, "exit status 1")
			return true
		}},
		{"requests came in floods", budget, func(e *Evidence) bool {
			e.Writes[collection+"/w-0"] += 1_000_000
			return true
		}},
		{"a child is left", children, func(e *Evidence) bool {
			e.Children["nobody"] = "1"
			return true
		}},
	}
	var all []Doctored
	for _, lie := range lies {
		e := r.evidence.clone()
		if lie.tell(e) {
			found := slices.ContainsFunc(e.judge(), func(v Violation) bool { return v.Rule == lie.rule })
			all = append(all, Doctored{lie.what, found})
		}
	}
	return all
}

func (e *Evidence) clone() *Evidence {
	c := *e
	c.Journal, c.Ends = slices.Clone(e.Journal), slices.Clone(e.Ends)
	c.Versions, c.Children, c.Events, c.Writes = maps.Clone(e.Versions), maps.Clone(e.Children), maps.Clone(e.Events), maps.Clone(e.Writes)
	census := *e.Census
	census.Daemons, census.Colors, census.Seen = maps.Clone(census.Daemons), maps.Clone(census.Colors), maps.Clone(census.Seen)
	c.Census = &census
	return &c
}

func change[V any](m map[string]V, fn func(V) V) bool {
	for key, value := range m {
		m[key] = fn(value)
		return true
	}
	return false
}

func removeOne[V any](m map[string]V) bool {
	for key := range m {
		delete(m, key)
		return true
	}
	return false
}

// some returns the uid of an object with such versions, "" if there is none.
func (e *Evidence) some(fits func([]*Version) bool) string {
	for uid, versions := range e.Versions {
		if fits(versions) {
			return uid
		}
	}
	return ""
}

func (e *Evidence) forget(uid string, which func(*journal.Entry) bool) bool {
	n := len(e.Journal)
	e.Journal = slices.DeleteFunc(e.Journal, func(c journal.Entry) bool { return c.UID == uid && which(&c) })
	return len(e.Journal) < n
}

// repeatCall adds a call of a handler whose success is stored at that time.
func (e *Evidence) repeatCall() bool {
	for uid, versions := range e.Versions {
		for _, v := range versions {
			record := v.Object.Metadata.Annotations[prefix+"make"]
			if !v.Gone && strings.Contains(record, `"success":true`) && strings.Contains(record, `"purpose":"create"`) {
				e.Journal = append(e.Journal, journal.Entry{Time: v.Seen.Add(1), Event: journal.Begun, Call: 1 << 40, Handler: "make", UID: uid, Reason: "create"})
				return true
			}
		}
	}
	return false
}
