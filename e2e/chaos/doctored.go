package chaos

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
)

// This file tests the checks: manipulated evidence must not pass them.

// Doctored is a manipulation of the evidence of a run, and whether the checks found it.
type Doctored struct {
	What  string
	Found bool
}

// Doctored manipulates the evidence of the run in several ways. Each looks like an error of the operator.
func (r *Report) Doctored() []Doctored {
	lies := []lie{
		{"an event was dropped", sightings, func(e *Evidence) bool {
			return change(e.Census.Seen, func(value int64) int64 { return value - 1 })
		}},
		{"an object is not in the index any more", indices, func(e *Evidence) bool { return removeOne(e.Census.Colors) }},
		{"a daemon goes on", daemonsRun, func(e *Evidence) bool {
			e.Census.Daemons["00000000-0000-0000-0000-000000000000"] = true
			return true
		}},
		{"the last change was not handled", lastState, func(e *Evidence) bool {
			uid := e.some(func(v []*Version) bool { // one that kopf has to handle
				last := v[len(v)-1]
				return !last.Gone && last.Object.size.fits()
			})
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
		{"a handler is stored as failed that has succeeded", leftovers, (*Evidence).storeFailure},
		{"requests came in floods", budget, func(e *Evidence) bool {
			e.Writes["/apis/"+group+"/v2/namespaces/"+namespace+"/widgets/w-0"] += 1_000_000
			return true
		}},
		{"a child is left", children, func(e *Evidence) bool {
			e.Children["nobody"] = "1"
			return true
		}},
		{"two handlers of an object were called at a time", oneAtATime, (*Evidence).interleave},
		{"a process has handled a change twice", changedOnce, (*Evidence).handleTwice},
		{"a large object was not let go", deletion, (*Evidence).keepLarge},
		{"a namespace is still there", roomsEnd, func(e *Evidence) bool {
			if e.Terminating == nil {
				return false
			}
			e.Terminating[roomPrefix+"0"] = "for ever"
			return true
		}},
		{"an object in another namespace was not handled", roomsWork, func(e *Evidence) bool {
			for uid, versions := range e.Leaves {
				if now := versions[len(versions)-1]; !now.Gone && e.Namespaces[now.Object.Metadata.Namespace] {
					e.TenantJournal = slices.DeleteFunc(e.TenantJournal, func(c journal.Entry) bool { return c.UID == uid })
					return true
				}
			}
			return false
		}},
		{"a creation was carried out twice", createdOnce, func(e *Evidence) bool {
			for _, versions := range e.Tickets {
				e.Tickets["00000000-0000-0000-0000-000000000000"] = versions
				return true
			}
			return false
		}},
		{"a creation that has succeeded was not carried out", createdOnce, func(e *Evidence) bool {
			for _, c := range e.Journal {
				if c.Event == journal.Created {
					maps.DeleteFunc(e.Tickets, func(_ string, v []*Version) bool { return v[0].Object.Metadata.Annotations[callKey] == c.Note })
					return true
				}
			}
			return false
		}},
		{"the operator does not believe a new authority", reconnects, func(e *Evidence) bool {
			for i, r := range e.Rotations {
				if r.Reached {
					e.Rotations[i].Reached = false
					return true
				}
			}
			return false
		}},
		{"the record of the operator was not renewed", keepsAlive, (*Evidence).forgetRenewals},
		{"a deletion does not end while others write", contestsEnd, func(e *Evidence) bool {
			for i := range e.Contests {
				e.Contests[i].Gone = false
			}
			return len(e.Contests) > 0
		}},
	}
	var all []Doctored
	for _, lie := range slices.Concat(lies, liesOfReplicas, liesOfGardens) {
		e := r.evidence.clone()
		if lie.tell(e) {
			found := slices.ContainsFunc(e.judge(), func(v Violation) bool { return v.Rule == lie.rule })
			all = append(all, Doctored{lie.what, found})
		}
	}
	return all
}

// lie is a manipulation of the evidence.
type lie struct {
	what, rule string
	tell       func(e *Evidence) bool // whether the evidence had the required data
}

// liesOfReplicas are manipulations for several replicas.
var liesOfReplicas = []lie{
	{"two replicas called handlers for an object at a time", oneReplica, (*Evidence).callElsewhere},
	{"a replica has written that does not hold the Lease", fenced, func(e *Evidence) bool {
		terms := e.terms()
		if len(terms) < 2 {
			return false
		}
		late := sent{Run: terms[0].run, Method: "PATCH", Path: "/apis/" + group + "/v1/namespaces/default/widgets/w-0"}
		for _, t := range terms[1:] {
			if t.run != late.Run {
				late.At = t.at.Add(time.Nanosecond)
				e.Sent, e.Frozen = append(e.Sent, late), nil
				return true
			}
		}
		return false
	}},
	{"a handler has got the fence of another process", fencesGrow, func(e *Evidence) bool {
		for i, c := range e.Journal {
			if e.Replicas > 1 && c.Handler != "" {
				e.Journal[i].Fence++
				return true
			}
		}
		return false
	}},
	{"the Lease was got by two at a time", linearizable, func(e *Evidence) bool {
		for i, q := range e.Asked {
			if q.Method == http.MethodPut && q.Code == http.StatusOK {
				q.Run, q.Got.Version = -1, q.Got.Version+"0"
				e.Asked = slices.Insert(e.Asked, i+1, q)
				return true
			}
		}
		return false
	}},
}

func (e *Evidence) clone() *Evidence {
	c := *e
	c.Journal, c.Ends = slices.Clone(e.Journal), slices.Clone(e.Ends)
	c.Versions, c.Children, c.Events, c.Writes = maps.Clone(e.Versions), maps.Clone(e.Children), maps.Clone(e.Events), maps.Clone(e.Writes)
	c.Leaves, c.Tickets, c.Terminating = maps.Clone(e.Leaves), maps.Clone(e.Tickets), maps.Clone(e.Terminating)
	c.TenantJournal, c.Rotations, c.Contests, c.KeepAlives = slices.Clone(e.TenantJournal), slices.Clone(e.Rotations), slices.Clone(e.Contests), slices.Clone(e.KeepAlives)
	c.Sent, c.Asked = slices.Clone(e.Sent), slices.Clone(e.Asked)
	c.Gardens = e.Gardens.clone()
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

// some returns the uid of an object with matching versions, "" if there is none.
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

// repeatCall adds a call of a handler after its success was stored. For an object that was too large to be stored, it could be
// right.
func (e *Evidence) repeatCall() bool {
	for uid, versions := range e.Versions {
		if wasLarge(versions) {
			continue
		}
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

// interleave moves the start of a call before the end of another handler's call.
func (e *Evidence) interleave() bool {
	for i, c := range e.Journal {
		if c.Event != journal.Begun || c.Reason == "" {
			continue
		}
		for k, other := range e.Journal[i+1:] {
			if other.UID == c.UID && other.Run == c.Run && other.Event == journal.Begun && other.Reason != "" {
				e.Journal = slices.Insert(slices.Delete(e.Journal, i+1+k, i+2+k), i+1, other)
				return true
			}
		}
	}
	return false
}

// callElsewhere adds a call by another process during a call.
func (e *Evidence) callElsewhere() bool {
	if e.Replicas < 2 {
		return false
	}
	for _, c := range e.Journal {
		if c.Event == journal.Begun && c.Handler == "daemon" {
			begun := c
			begun.Run, begun.Call, begun.Time = 1<<20, 1, c.Time.Add(time.Microsecond)
			ended := begun
			ended.Event, ended.Time = journal.Done, c.Time.Add(2*time.Microsecond)
			e.Journal, e.Frozen = append(e.Journal, begun, ended), nil
			return true
		}
	}
	return false
}

// handleTwice adds a second call for a change.
func (e *Evidence) handleTwice() bool {
	for i, c := range e.Journal {
		if c.Event == journal.Done && c.Reason == "update" && c.Handler == "value" {
			begun := c
			begun.Event = journal.Begun
			e.Journal = slices.Insert(e.Journal, i+1, begun, c)
			return true
		}
	}
	return false
}

// keepLarge restores a large object that was deleted.
func (e *Evidence) keepLarge() bool {
	for uid, versions := range e.Versions {
		n := len(versions)
		if n < 2 || !versions[n-1].Gone || versions[n-1].Object.size.fits() {
			continue
		}
		left := *versions[n-2].Object
		left.Metadata.DeletionTimestamp = "2026-01-01T00:00:00Z"
		e.Versions[uid] = append(slices.Clone(versions[:n-1]), &Version{Revision: versions[n-1].Revision, Seen: versions[n-1].Seen, Object: &left})
		return true
	}
	return false
}

// storeFailure adds the record of a failure to an object whose handler has succeeded.
func (e *Evidence) storeFailure() bool {
	calls := e.callsByUID()
	for uid, versions := range e.Versions {
		now := versions[len(versions)-1]
		if now.Gone || !now.Object.size.fits() || last(calls[uid]["value"]).Event != journal.Done {
			continue
		}
		failed := *now.Object
		failed.Metadata.Annotations = maps.Clone(failed.Metadata.Annotations)
		failed.Metadata.Annotations[prefix+"failed-handlers"] = `{"message":"none {\"value/spec.value\":{}}"}`
		e.Versions[uid] = append(slices.Clone(versions), &Version{Revision: now.Revision, Seen: now.Seen, Object: &failed})
		return true
	}
	return false
}

// forgetRenewals removes the renewals in the middle of the longest-running process.
func (e *Evidence) forgetRenewals() bool {
	if e.Replicas > 1 { // other processes renew it as well
		return false
	}
	longest := slices.MaxFunc(e.Processes, func(a, b life) int { return cmp.Compare(a.to.Sub(a.from), b.to.Sub(b.from)) })
	middle := longest.from.Add(longest.to.Sub(longest.from) / 2)
	const missed = recordLifetime + recordSlack
	n := len(e.KeepAlives)
	e.KeepAlives = slices.DeleteFunc(e.KeepAlives, func(t time.Time) bool { return t.Sub(middle).Abs() < missed })
	return len(e.KeepAlives) < n && longest.to.Sub(longest.from) > 3*missed
}
