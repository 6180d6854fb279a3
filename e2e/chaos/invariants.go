package chaos

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
)

// This file checks the invariants that must hold at the end of a run, regardless of its faults.

// Evidence has all data about a run at one moment.
type Evidence struct {
	Time     time.Time
	Versions map[string][]*Version // of each object, in order
	Journal  []journal.Entry
	Gardens  *Gardens            // nil if no other clients change them
	Census   *journal.Census     // of the leader
	Standbys []*journal.Census   // of the standby replicas
	Children map[string]string   // the values in the children, by name
	Events   map[string][]string // the Kubernetes events by object
	Writes   map[string]int      // of the operator, by address
	Ends     []string            // unexpected ends of processes
	Lost     error               // an error of the history

	Tickets    map[string][]*Version // the objects that handlers created with generated names
	Rotations  []Rotation
	Contests   []Contest
	KeepAlives []time.Time // when the operator tried to renew its record
	Processes  []life      // of the operator
	Outages    []span      // when the server was not reachable

	Leaves        map[string][]*Version // the objects of the tenant's operator
	TenantJournal []journal.Entry
	Namespaces    map[string]bool
	Terminating   map[string]string // the terminating namespaces, and why they still exist

	Replicas int        // their number
	Frozen   []life     // when processes were stopped by a signal
	Sent     []sent     // the writing requests of replicas
	Leases   []*Version // of the Lease, in order
	Asked    []leaseRequest
}

// Violation is a violation of an invariant.
type Violation struct {
	Rule      string
	UID, Name string // of the object, if there is one
	Text      string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s %s: %s", v.Rule, v.Name, v.UID, v.Text)
}

// The invariants, in the order of the report.
const (
	lastState    = "every object is handled in its last state"
	finished     = "every handler has succeeded or failed permanently"
	once         = "no handler is called after its success was recorded"
	oneAtATime   = "no handler is called twice at a time"
	deletion     = "every deleted object has had its deletion handlers"
	leftovers    = "no finalizer, record, child or event is left over"
	indices      = "the index equals the cluster"
	sightings    = "event handlers have seen the last state"
	daemonsRun   = "daemons run where they should, and nowhere else"
	timersTick   = "timers tick where they should, and nowhere else"
	children     = "children match the last state of their object"
	budget       = "requests stay within the budget"
	goesOn       = "the operator keeps running"
	memoryIsBack = "memory and goroutines are back where they were"
	changedOnce  = "no process handles a change twice"
	roomsEnd     = "deleted namespaces end"
	roomsWork    = "other namespaces stay served"
	createdOnce  = "a creation with a generated name is carried out once"
	reconnects   = "the operator trusts a new authority without a restart"
	keepsAlive   = "the record of the operator is renewed in time"
	contestsEnd  = "a deletion ends while other clients write"
	oneReplica   = "replicas do not call handlers for one object at a time"
	fenced       = "no replica writes after another one has got the Lease"
	fencesGrow   = "each fence is that of the Lease as it was got"
	linearizable = "the Lease behaves as one register"
	goesOnThere  = "no replica handles again what another one has stored as handled"
)

// Rules are all invariants.
var Rules = []string{lastState, finished, once, oneAtATime, deletion, leftovers, indices, sightings, daemonsRun, timersTick, children, budget, goesOn, memoryIsBack,
	changedOnce, roomsEnd, roomsWork, createdOnce, reconnects, keepsAlive, contestsEnd,
	childrenWished, childrenPruned, childrenOthers,
	oneReplica, fenced, fencesGrow, linearizable, goesOnThere}

// passes reports whether the violation may pass after a while.
func (v Violation) passes() bool {
	return !slices.Contains([]string{once, oneAtATime, goesOn, budget, changedOnce, createdOnce, reconnects, keepsAlive, contestsEnd,
		oneReplica, fenced, fencesGrow, linearizable, goesOnThere}, v.Rule)
}

// prefix is the annotation prefix of the operator.
const prefix = "kopf.zalando.org/"

// judge returns the violations when the operator should have settled.
func (e *Evidence) judge() []Violation {
	e = e.superseded()
	c := &court{Evidence: e, calls: e.callsByUID(), changes: map[string][]journal.Entry{}}
	for _, entry := range e.Journal {
		if entry.Reason != "" {
			c.changes[entry.UID] = append(c.changes[entry.UID], entry)
		}
	}
	if e.Lost != nil {
		c.complain(goesOn, "", "", "the bench has lost track: %v", e.Lost)
	}
	for _, end := range e.Ends {
		c.complain(goesOn, "", "", "a process has ended: %s", end)
	}
	for _, entry := range e.Journal {
		if entry.Event == journal.Wrong {
			c.complain(daemonsRun, entry.UID, entry.Name, "%s", entry.Note)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(e.Versions)) {
		c.object(uid, e.Versions[uid])
	}
	c.census()
	c.requests()
	c.tenants()
	c.created()
	c.rotated()
	if c.Replicas < 2 {
		c.kept()
	} else {
		c.replicas()
	}
	c.contested()
	c.gardened()
	return c.violations
}

// judgeEmpty returns the violations after all objects have been deleted.
func (e *Evidence) judgeEmpty(before *journal.Census) []Violation {
	violations := e.judge()
	c := &court{Evidence: e}
	for uid, versions := range e.Versions {
		if last := versions[len(versions)-1]; !last.Gone {
			c.complain(deletion, uid, last.Object.Metadata.Name, "the object is still there, with the finalizers %q", last.Object.Metadata.Finalizers)
		}
	}
	if e.Census.Goroutines > before.Goroutines+sparedGoroutines {
		c.complain(memoryIsBack, "", "", "%d goroutines, %d at the start", e.Census.Goroutines, before.Goroutines)
	}
	if e.Census.Heap > before.Heap+sparedMemory {
		c.complain(memoryIsBack, "", "", "%d bytes in use, %d at the start", e.Census.Heap, before.Heap)
	}
	c.gardensGone()
	return append(violations, c.violations...)
}

// The tolerated growth of an operator between the start and the end of a run, with the same number of objects: for idle connections, and for grown tables of
// the Go runtime.
const (
	sparedGoroutines = 30
	sparedMemory     = 6 << 20
)

type court struct {
	*Evidence
	calls      map[string]map[string][]journal.Entry // by object and handler, in order
	changes    map[string][]journal.Entry            // those of handlers of changes, by object
	violations []Violation
}

func (c *court) complain(rule, uid, name, format string, args ...any) {
	c.violations = append(c.violations, Violation{Rule: rule, UID: uid, Name: name, Text: fmt.Sprintf(format, args...)})
}

func (e *Evidence) callsByUID() map[string]map[string][]journal.Entry {
	all := map[string]map[string][]journal.Entry{}
	for _, entry := range e.Journal {
		if entry.Handler == "" {
			continue
		}
		if all[entry.UID] == nil {
			all[entry.UID] = map[string][]journal.Entry{}
		}
		all[entry.UID][entry.Handler] = append(all[entry.UID][entry.Handler], entry)
	}
	return all
}

// ends returns the ends of calls.
func ends(entries []journal.Entry) []journal.Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e journal.Entry) bool { return !e.Ended() || e.Event == journal.Superseded })
}

// last returns the last end of a call, the zero entry if there is none.
func last(groups ...[]journal.Entry) journal.Entry {
	var latest journal.Entry
	for _, entries := range groups {
		for _, e := range ends(entries) {
			if e.Time.After(latest.Time) {
				latest = e
			}
		}
	}
	return latest
}

func (c *court) object(uid string, versions []*Version) {
	now := versions[len(versions)-1]
	for handler, entries := range c.calls[uid] {
		c.repetitions(uid, handler, entries, versions)
		c.overlaps(uid, entries)
		c.doubles(uid, handler, entries)
	}
	c.overlaps(uid, c.changes[uid])
	if now.Gone {
		c.gone(uid, versions)
		return
	}
	if now.Object.Metadata.DeletionTimestamp == "" && !now.Object.size.fits() {
		return // kopf can delete it, but not handle it
	}
	c.rest(uid, now.Object)
	c.handlers(uid, now.Object)
}

// rest checks the stored state of a handled object.
func (c *court) rest(uid string, o *Object) {
	name := o.Metadata.Name
	if o.Metadata.DeletionTimestamp != "" {
		c.complain(deletion, uid, name, "the object is still there, with the finalizers %q", o.Metadata.Finalizers)
		return
	}
	if !o.held() {
		c.complain(lastState, uid, name, "the object has no finalizer of the operator")
	}
	var handled struct {
		Metadata struct{ Labels map[string]string }
		Spec     map[string]any
	}
	text := o.Metadata.Annotations[prefix+"last-handled-configuration"]
	if err := json.Unmarshal([]byte(text), &handled); err != nil || !sameJSON(handled.Spec, o.Spec) || !maps.Equal(handled.Metadata.Labels, o.Metadata.Labels) {
		c.complain(lastState, uid, name, "the object is %v with the labels %v, handled was %s", o.Spec, o.Metadata.Labels, text)
	}
	for key, value := range o.Metadata.Annotations {
		switch {
		case !strings.HasPrefix(key, prefix) || key == prefix+"last-handled-configuration":
		case key == prefix+"failed-handlers":
			c.failures(uid, name, value)
		default:
			c.complain(leftovers, uid, name, "the annotation %s is left: %s", key, value)
		}
	}
	if o.Status["kopf"] != nil {
		c.complain(leftovers, uid, name, "the status has records left: %v", o.Status["kopf"])
	}
	if slices.Contains(o.Metadata.Finalizers, hold) {
		c.complain(leftovers, uid, name, "the object is held by the bench")
	}
}

// failures checks that the handlers have failed that are stored as failed. The digest in the message is not checked.
func (c *court) failures(uid, name, stored string) {
	var record struct{ Message string }
	failed := map[string]struct{ Message string }{}
	err := json.Unmarshal([]byte(stored), &record)
	if err == nil {
		_, text, _ := strings.Cut(record.Message, " ")
		err = json.Unmarshal([]byte(text), &failed)
	}
	if err != nil || len(failed) == 0 {
		c.complain(leftovers, uid, name, "the record of failed handlers has no handlers: %s", stored)
	}
	for id, failure := range failed {
		if strings.HasPrefix(failure.Message, "its patch was refused: ") {
			continue // after its call
		}
		handler := strings.TrimSuffix(id, "/spec.value") // the field in the ID of a handler
		e := last(c.calls[uid][handler])
		exhausted := handler == "fragile" && e.Retry >= 2 && e.Event != journal.Done
		if e.Event != journal.Permanent && !exhausted {
			c.complain(leftovers, uid, name, "the handler %s is stored as failed, but its last call has come to %q", id, e.Event)
		}
	}
}

func sameJSON(a, b any) bool {
	x, _ := json.Marshal(a) // both were decoded from JSON
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// handlers checks the ends of an object's calls.
func (c *court) handlers(uid string, o *Object) {
	name, calls := o.Metadata.Name, c.calls[uid]
	if e := last(calls["value"]); !e.Finished() || e.Value != o.value() {
		c.complain(lastState, uid, name, "the handler of the field has come to %q with the value %d, it is %d", e.Event, e.Value, o.value())
	}
	parent := last(calls["make"], calls["change"])
	if !parent.Finished() || parent.Value != o.value() {
		c.complain(lastState, uid, name, "the handlers have come to %q with the value %d, it is %d", parent.Event, parent.Value, o.value())
	}
	if e := last(calls["make"]); !e.Finished() {
		c.complain(finished, uid, name, "the handler of the creation has come to %q", e.Event)
	}
	if e := last(calls["fragile"]); !e.Finished() && e.Retry < 2 {
		c.complain(finished, uid, name, "the handler with three attempts has come to %q after %d", e.Event, e.Retry+1)
	}
	for _, item := range o.items() {
		if e := last(calls["make/"+item], calls["change/"+item]); parent.Event == journal.Done && !e.Finished() {
			c.complain(finished, uid, name, "the sub-handler of %s has come to %q", item, e.Event)
		}
	}
	if got, ok := c.Children[name]; !ok || got != fmt.Sprint(o.value()) {
		c.complain(children, uid, name, "the child has the value %q, the object %d", got, o.value())
	}
	if posted := c.posted(uid); len(c.Events[uid]) > posted {
		c.complain(leftovers, uid, name, "the Kubernetes events are %q, %d were posted", c.Events[uid], posted)
	}
}

func (c *court) posted(uid string) int {
	n := 0
	for _, e := range c.Journal {
		if e.Event == journal.Posted && e.UID == uid {
			n++
		}
	}
	return n
}

// gone checks a removed object. If it had the operator's finalizer, its handler of deletions must have finished before. A server may check for finalizers,
// and remove the object although one is added in between. Such objects pass unnoticed.
func (c *court) gone(uid string, versions []*Version) {
	end := versions[len(versions)-1]
	name := end.Object.Metadata.Name
	held := slices.ContainsFunc(versions, func(v *Version) bool { return v.Object.held() && v.Object.Metadata.DeletionTimestamp != "" })
	e := last(c.calls[uid]["unmake"])
	if held && !e.Finished() {
		c.complain(deletion, uid, name, "the handler of the deletion has come to %q", e.Event)
	}
	if held && e.Time.After(end.Seen) {
		c.complain(deletion, uid, name, "the handler of the deletion was done after the end")
	}
	for _, v := range versions { // the first one without the finalizer
		if v.Object.Metadata.DeletionTimestamp != "" && !v.Object.held() && held {
			if e.Time.After(v.Seen) {
				c.complain(deletion, uid, name, "the finalizer was removed before the handler of the deletion was done")
			}
			break
		}
	}
	for _, call := range c.calls[uid]["unmake"] {
		if call.Event == journal.Begun && !slices.ContainsFunc(versions, func(v *Version) bool {
			return v.Object.Metadata.DeletionTimestamp != "" && v.Seen.Before(call.Time.Add(5*time.Second))
		}) {
			c.complain(deletion, uid, name, "the handler of the deletion was called for an object that was not deleted")
		}
	}
}

// repetitions finds calls that began after the success of the handler was stored.
func (c *court) repetitions(uid, handler string, entries []journal.Entry, versions []*Version) {
	key := prefix + strings.ReplaceAll(handler, "/", ".")
	if handler == "value" {
		key += ".spec.value"
	}
	for i, e := range entries {
		if e.Event != journal.Begun || e.Reason == "" {
			continue
		}
		v := versionAt(versions, e.Time)
		if v == nil {
			continue
		}
		var record struct {
			Purpose          string
			Started          time.Time // the same for all handlers of the change
			Success, Failure bool
		}
		text := v.Object.Metadata.Annotations[key]
		if text == "" || json.Unmarshal([]byte(text), &record) != nil || record.Purpose != e.Reason {
			continue
		}
		allowed := wasLarge(versions) && (last(entries[:i]).Value != e.Value || hadOther(versions, record.Started, e.Value))
		if (record.Success || record.Failure) && !allowed {
			c.complain(once, uid, e.Name, "%s is called for the %s at %s, though since %s it is recorded: %s",
				handler, e.Reason, e.Time.Format(clock), v.Seen.Format(clock), text)
		}
	}
}

// hadOther reports whether the object had another value than this one at a time. Then another handler of the change may have seen that, and if it is too large to
// be stored, kopf calls all of them again.
func hadOther(versions []*Version, at time.Time, value int64) bool {
	v := versionAt(versions, at)
	return v != nil && v.Object.value() != value
}

// versionAt returns the last version that was seen before a time, or nil.
func versionAt(versions []*Version, at time.Time) *Version {
	after, _ := slices.BinarySearchFunc(versions, at, func(v *Version, t time.Time) int { return v.Seen.Compare(t) })
	if after == 0 {
		return nil
	}
	return versions[after-1]
}

const clock = "15:04:05.000"

// doubles finds changes that one process handled twice, although the first call succeeded. Handlers with sub-handlers are called until all of these have
// succeeded.
func (c *court) doubles(uid, handler string, entries []journal.Entry) {
	type change struct {
		run        int
		fence      uint64 // outcomes of an earlier term may not be stored
		reason     string
		old, value int64
	}
	done := map[change]journal.Entry{}
	if handler == "make" || handler == "change" {
		return
	}
	for _, e := range entries {
		if e.Event != journal.Done || e.Reason == "" || e.Reason == "resume" || e.Old == e.Value {
			continue
		}
		key := change{e.Run, e.Fence, e.Reason, e.Old, e.Value}
		if first, ok := done[key]; ok && !c.unstorable(e.Run, first.Time, e.Time) {
			c.complain(changedOnce, uid, e.Name, "%s has succeeded with the %s from %d to %d at %s and again at %s", handler, e.Reason, e.Old, e.Value,
				first.Time.Format(clock), e.Time.Format(clock))
		}
		done[key] = e
	}
}

// unstorable reports whether a storage panicked between two calls, so that a success could not be stored.
func (c *court) unstorable(run int, from, to time.Time) bool {
	return slices.ContainsFunc(c.Journal, func(e journal.Entry) bool {
		return e.Event == journal.Panicked && e.Run == run && e.Time.After(from) && e.Time.Before(to)
	})
}

// overlaps finds calls that began before the end of another one, in one process.
func (c *court) overlaps(uid string, entries []journal.Entry) {
	open := map[int]int64{} // the running call, by process
	for _, e := range entries {
		switch {
		case e.Event == journal.Begun && open[e.Run] != 0:
			c.complain(oneAtATime, uid, e.Name, "%s is called at %s while another call is under way", e.Handler, e.Time.Format(clock))
		case e.Event == journal.Begun:
			open[e.Run] = e.Call
		case e.Ended() && open[e.Run] == e.Call:
			delete(open, e.Run)
		}
	}
}

// newest returns the UID of the last object with a name.
func (c *court) newest(name string) (found string) {
	var seen time.Time
	for uid, versions := range c.Versions {
		if first := versions[0]; first.Object.Metadata.Name == name && first.Seen.After(seen) {
			found, seen = uid, first.Seen
		}
	}
	return found
}

// census compares the operator's view with the objects.
func (c *court) census() {
	colors, seen, daemons, names := map[string][]string{}, map[string]int64{}, map[string]bool{}, map[string]bool{}
	for uid, versions := range c.Versions {
		now := versions[len(versions)-1]
		if now.Gone {
			continue
		}
		o := now.Object
		names[o.Metadata.Name] = true
		colors[uid], seen[uid] = []string{o.color()}, o.value()
		if o.Metadata.Labels["daemon"] == "yes" {
			daemons[uid] = true
		}
		c.timer(uid, now)
	}
	for name := range c.Children {
		if !names[name] {
			c.complain(children, c.newest(name), name, "the child of an object that is gone is there")
		}
	}
	compare(c, indices, c.Census.Colors, colors)
	if c.Replicas > 1 { // a former leader is not informed about later deletions
		maps.DeleteFunc(c.Census.Seen, func(uid string, _ int64) bool { _, ok := seen[uid]; return !ok })
	}
	compare(c, sightings, c.Census.Seen, seen)
	compare(c, daemonsRun, c.Census.Daemons, daemons)
	for _, s := range c.Standbys {
		compare(c, indices, s.Colors, colors)
		compare(c, daemonsRun, s.Daemons, map[string]bool{})
	}
}

// patience is longer than the interval of a timer, also on a busy machine.
const patience = 15 * time.Second

func (c *court) timer(uid string, now *Version) {
	ticks := c.calls[uid]["tick"]
	var latest journal.Entry
	if len(ticks) > 0 {
		latest = ticks[len(ticks)-1]
	}
	wanted := now.Object.Metadata.Labels["timer"] == "yes"
	if wanted && c.Time.Sub(latest.Time) > patience {
		c.complain(timersTick, uid, now.Object.Metadata.Name, "the timer has not ticked since %s", latest.Time.Format(clock))
	}
	if !wanted && latest.Event == journal.Begun && c.Time.Sub(latest.Time) < patience && latest.Time.Sub(now.Seen) > patience {
		c.complain(timersTick, uid, now.Object.Metadata.Name, "the timer has ticked at %s, it is not wanted since %s", latest.Time.Format(clock), now.Seen.Format(clock))
	}
}

func compare[V any](c *court, rule string, got, want map[string]V) {
	for _, uid := range slices.Sorted(maps.Keys(want)) {
		if value, ok := got[uid]; !ok || !sameJSON(value, want[uid]) {
			c.complain(rule, uid, "", "got %v, want %v", value, want[uid])
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[uid]; !ok {
			c.complain(rule, uid, "", "got %v of an object that is not there", got[uid])
		}
	}
}

// requests compares the number of writes to the objects with the required number.
func (c *court) requests() {
	need, got := 0, 0
	for _, e := range c.Journal {
		if e.Ended() {
			need++ // for its outcome and its patch
		}
	}
	for _, versions := range c.Versions {
		need += 2 + len(versions)/2 // for its finalizer and its last-handled states
	}
	for path, n := range c.Writes {
		if isWidgets(path) {
			got += n
		}
	}
	if allowed := 2*need + 1000; got > allowed {
		c.complain(budget, "", "", "%d writes, at most %d are needed", got, allowed)
	}
}
