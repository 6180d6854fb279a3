package contract

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file has all permitted differences between Kopf for Python and kopf in requests, states and log lines. It converts a step of a recorded life
// to the expectation for kopf. Each difference is next to the id of its deviation or trap.

// expectation is the expected behavior of kopf for a step.
type expectation struct {
	requests []expectedRequest
	lines    []string
}

type expectedRequest struct {
	at          time.Time
	path        string // relative to the collection of the objects
	contentType string
	body        any
}

// clock converts the times of Kopf for Python to those of kopf.
type clock struct {
	from []time.Time     // the times of Kopf for Python
	lag  []time.Duration // how much earlier kopf is from then on
}

// ourClock returns a clock with the times at which kopf is earlier than Kopf for Python.
func ourClock(tr *trace) *clock {
	k := &clock{}
	earlier := func(next int, than time.Time) {
		var before time.Duration
		if len(k.lag) > 0 {
			before = k.lag[len(k.lag)-1]
		}
		k.from = append(k.from, tr.Steps[next].Now)
		k.lag = append(k.lag, before+tr.Steps[next].Now.Sub(than))
	}
	for i, step := range tr.Steps {
		switch {
		case len(step.invoked()) > 0 && !step.logs("processed") && !step.logs("sleep"):
			earlier(i+1, step.end()) // CH-198: without a delay, the next cycle begins at once, and not with the next event
		case step.touch() != "":
			touched, _ := time.Parse(time.RFC3339Nano, step.touch()) // otherwise all times are wrong
			earlier(i+1, touched)                                    // CH-196: a delay ends at its time, and not with the event of a touch
		}
	}
	return k
}

// of returns the time at which kopf does the work that Kopf for Python did at a time.
func (k *clock) of(t time.Time) time.Time {
	for i := len(k.from) - 1; i >= 0; i-- {
		if !t.Before(k.from[i]) {
			return t.Add(-k.lag[i])
		}
	}
	return t
}

var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00`)

// in returns a decoded value with the times of kopf.
func (k *clock) in(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	data = timestamp.ReplaceAllFunc(data, func(text []byte) []byte {
		t, err := time.Parse(time.RFC3339Nano, string(text))
		if err != nil {
			return text
		}
		return []byte(k.of(t).Format("2006-01-02T15:04:05.000000-07:00"))
	})
	return decoded(string(data))
}

// expected returns the expected behavior for a step, given the object before it.
func (tr *trace) expected(number int, k *clock, before map[string]any) expectation {
	step := tr.Steps[number]
	var e expectation
	now := k.in(tr.comparable(before)).(map[string]any)
	after := now
	var jsonPatch bool
	for _, r := range step.Requests {
		if step.touch() != "" { // CH-196: no touch
			continue
		}
		if r.ContentType == "application/json-patch+json" {
			jsonPatch = true
			after = tr.released(after, r)
		} else {
			after, _ = merged(after, k.in(r.Body)).(map[string]any)
		}
	}
	after = plain(after)
	tr.carry(number, after)
	identity := before["metadata"].(map[string]any)
	guard := map[string]any{"op": "test", "path": "/metadata/uid", "value": identity["uid"]}
	at := k.of(step.end())
	if jsonPatch { // CH-96: removing the finalizer and the records is a part of it
		e.add(expectedRequest{at, "a", "application/json-patch+json", guarded(guard, append(operations("", unfinalized(now), unfinalized(after)), finalizerOps(now, after)...))})
	} else {
		main := difference(now, after) // CH-T2: unchanged fields are not sent
		if tr.Resource.Status {
			only := func(object map[string]any) any {
				status, has := object["status"]
				if !has {
					return map[string]any{}
				}
				return map[string]any{"status": status}
			}
			delete(main, "status")
			// CH-178: the status comes first. CH-179: it is a JSON patch with a test of the state.
			e.add(expectedRequest{at, "a/status", "application/json-patch+json", guarded(guard, operations("", only(now), only(after)))})
		}
		if len(main) > 0 { // CH-179: a merge patch contains the object's uid
			meta, _ := main["metadata"].(map[string]any)
			meta = maps.Clone(meta)
			if meta == nil {
				meta = map[string]any{}
			}
			meta["uid"] = identity["uid"]
			main["metadata"] = meta
			e.add(expectedRequest{at, "a", "application/merge-patch+json", main})
		}
	}
	e.lines = storedFirst(step.lines())
	return e
}

func (e *expectation) add(r expectedRequest) {
	if r.body != nil {
		e.requests = append(e.requests, r)
	}
}

// carry adds the record with the state that finished handlers have seen, as long as others are unfinished (CH-T1). It adds the name of that record to
// the records of the finished handlers, or of their parents. It removes the state that is stored at the end of a deletion (CH-167).
func (tr *trace) carry(step int, after map[string]any) {
	notes, key := annotations(after), tr.prefix()+"/handling-state"
	lastKey := tr.prefix() + "/last-handled-configuration"
	last, _ := annotations(tr.Before)[lastKey].(string)
	if tr.Steps[step].logs("processed(deletion") && last == "" && step == 0 {
		delete(notes, lastKey)
	}
	delete(notes, key)
	since, parents, finished := "", []string{}, []string{}
	for id, text := range notes {
		if slices.Contains(slices.Collect(maps.Values(annotations(tr.Before))), text) {
			continue // not part of this handling
		}
		var record struct {
			Started          string
			Success, Failure bool
			Subrefs          []string
		}
		if !strings.HasPrefix(text.(string), `{"started"`) || json.Unmarshal([]byte(text.(string)), &record) != nil {
			continue
		}
		if record.Success || record.Failure {
			finished, since = append(finished, id), max(since, record.Started)
		}
		if len(record.Subrefs) > 0 {
			parents = append(parents, id)
		}
	}
	if len(finished) == 0 {
		return
	}
	if len(parents) > 0 {
		finished = parents
	}
	for _, id := range finished {
		record := strings.TrimSuffix(notes[id].(string), "}")
		if strings.Contains(record, `"handling-state"`) {
			continue // already added in an earlier step
		}
		if strings.HasSuffix(record, "]") {
			record = strings.TrimSuffix(record, "]") + ","
		} else {
			record += `,"subrefs":[`
		}
		notes[id] = record + `"handling-state"]}`
	}
	seen, _ := annotations(tr.state(len(tr.Steps) - 1))[lastKey].(string)
	notes[key] = seenRecord(since, strings.TrimSpace(last), strings.TrimSpace(seen))
}

// seenRecord returns the record of a state that handlers have seen, as the difference from the last-handled one.
func seenRecord(since, last, seen string) string {
	base := "none"
	if last != "" {
		sum := fnv.New64a()
		sum.Write([]byte(last)) // it never fails
		base = strconv.FormatUint(sum.Sum64(), 16)
	}
	head, rest := 0, last
	for rest != "" && seen != "" && rest[0] == seen[0] {
		head, rest, seen = head+1, rest[1:], seen[1:]
	}
	tail := 0
	for rest != "" && seen != "" && rest[len(rest)-1] == seen[len(seen)-1] {
		tail, rest, seen = tail+1, rest[:len(rest)-1], seen[:len(seen)-1]
	}
	message := fmt.Sprintf("%s %d %d %s", base, head, tail, seen)
	return `{"started":"` + since + `","retries":0,"success":false,"failure":false,"message":` + encoded(message) + `}`
}

// released returns an object after the JSON patch of its finalizers. Kopf for Python uses JSON patches only for finalizers.
func (tr *trace) released(object map[string]any, r *traceRequest) map[string]any {
	object = plain(object)
	meta := object["metadata"].(map[string]any)
	for _, op := range r.Body.([]any) {
		switch op := op.(map[string]any); fmt.Sprint(op["op"], " ", op["path"]) {
		case "test /metadata/resourceVersion":
		case "add /metadata/finalizers":
			meta["finalizers"] = op["value"]
		case "remove /metadata/finalizers":
			delete(meta, "finalizers")
		default:
			panic(fmt.Sprintf("unknown operation %v", op))
		}
	}
	return object
}

// touch returns the value of the step's touch, "" if there is none.
func (s *traceStep) touch() string {
	for _, r := range s.Requests {
		if m := touched.FindStringSubmatch(encoded(r.Body)); m != nil {
			return m[1]
		}
	}
	return ""
}

var touched = regexp.MustCompile(`"(?:[^"]*/touch-dummy(?:-ofDRS)?|dummy)":"([^"]+)"`)

// comparable returns the object without its identity, which the server determines.
func (tr *trace) comparable(object map[string]any) map[string]any {
	meta := map[string]any{}
	for _, key := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		if v, ok := object["metadata"].(map[string]any)[key]; ok && encoded(v) != "{}" {
			meta[key] = v
		}
	}
	rest := map[string]any{"metadata": meta}
	for _, key := range []string{"spec", "status"} {
		if v, ok := object[key]; ok {
			rest[key] = v
		}
	}
	return plain(rest)
}

// untouched returns an object without the touch by Kopf for Python (CH-196).
func untouched(object map[string]any) map[string]any {
	notes := annotations(object)
	maps.DeleteFunc(notes, func(key string, _ any) bool { return strings.Contains(key, "/touch-dummy") })
	if status, ok := object["status"].(map[string]any); ok {
		if own, ok := status["kopf"].(map[string]any); ok {
			delete(own, "dummy")
		}
	}
	return object
}

// storedFirst moves the successes of handlers in the lines of a step to the point where they are stored: to the end, before the summary (CH-165).
func storedFirst(lines []string) []string {
	success := func(line string) bool { return strings.HasSuffix(line, "' succeeded.") }
	rest := slices.DeleteFunc(slices.Clone(lines), success)
	end := slices.IndexFunc(rest, func(line string) bool { return strings.Contains(line, " is processed: ") })
	if end < 0 {
		end = len(rest)
	}
	return slices.Insert(rest, end, slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !success(line) })...)
}

// lines returns the expected log lines for a step.
func (s *traceStep) lines() []string {
	var lines []string
	for _, code := range s.Log {
		level, what, _ := strings.Cut(code, ": ")
		name, rest, _ := strings.Cut(what, "(")
		args := strings.SplitN(strings.TrimSuffix(rest, ")"), ", ", 3)
		text := ""
		switch name {
		case "in-progress":
			text = titled(args[0]) + " is in progress."
		case "diff":
			text = "Detected differences"
		case "handler-invoked":
			text = "Handler '" + args[0] + "' is invoked."
		case "handler-succeeded":
			text = "Handler '" + args[0] + "' succeeded."
		case "handler-failed-temporarily": // CH-215: kopf retries it
			level = "WARN"
			text = "Handler '" + args[0] + "' failed temporarily: " + args[1]
		case "handler-failed-permanently":
			text = "Handler '" + args[0] + "' failed permanently: " + args[1]
		case "handler-failed-will-retry":
			level = "WARN"                                                       // CH-215: likewise
			delay, _ := time.ParseDuration(strings.ReplaceAll(args[1], " ", "")) // or the line is wrong
			text = "Handler '" + args[0] + "' failed with an exception and will try again in " + delay.String() + ". " + args[2]
		case "handler-awaits-subhandlers":
			text = "Handler '" + args[0] + "' waits for its sub-handlers."
		case "superseded":
			text = superseded.ReplaceAllString(what, "$1 is superseded by the $2: $3 succeeded; $4 failed; $5 unfinished.")
			text = titled(text)
		case "processed":
			text = titled(args[0]) + " is processed: " + strings.TrimPrefix(args[1], "succeeded=") + " succeeded; " + strings.TrimPrefix(args[2], "failed=") + " failed."
		case "noop":
			text = "No tracked field has changed; skipping handlers"
		case "finalizer-adding":
			text = "Adding the finalizer, thus preventing the actual deletion."
		case "finalizer-releasing":
			text = "Removing the finalizer, thus allowing the actual deletion."
		case "gone":
			text = "Deleted, really deleted, and we are notified."
		case "cycle-finished": // the line about the noop is sufficient (CH-199)
		case "sleeping", "sleep-skipped-due-to-patch": // CH-195: kopf waits for the whole delay, even after a patch
		default:
			text = "unknown: " + code
		}
		if text != "" {
			lines = append(lines, level+" "+text)
		}
	}
	return lines
}

var superseded = regexp.MustCompile(`^superseded\((\w+) by (\w+), succeeded=(\d+), failed=(\d+), left=(\d+)\)$`)

func titled(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// The rest is JSON: merge patches, and the differences between objects.

func decoded(text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err) // it was JSON
	}
	return v
}

func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was JSON
	}
	return string(data)
}

func annotations(object map[string]any) map[string]any {
	all, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
	return all
}

// merged applies a merge patch.
func merged(object, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	o, _ := object.(map[string]any)
	o = maps.Clone(o)
	if o == nil {
		o = map[string]any{}
	}
	for key, value := range p {
		if value == nil {
			delete(o, key)
		} else {
			o[key] = merged(o[key], value)
		}
	}
	return o
}

// difference returns the merge patch between two objects.
func difference(before, after map[string]any) map[string]any {
	patch := map[string]any{}
	for key, old := range before {
		now, is := after[key]
		a, both := old.(map[string]any)
		b, are := now.(map[string]any)
		switch {
		case !is:
			patch[key] = nil
		case both && are:
			if sub := difference(a, b); len(sub) > 0 {
				patch[key] = sub
			}
		case !reflect.DeepEqual(old, now):
			patch[key] = now
		}
	}
	for key, now := range after {
		if _, was := before[key]; !was {
			patch[key] = now
		}
	}
	return patch
}

// operations returns the JSON patch between two values, ordered by path.
func operations(path string, before, after any) []any {
	a, both := before.(map[string]any)
	b, are := after.(map[string]any)
	if !both || !are {
		if reflect.DeepEqual(before, after) {
			return nil
		}
		return []any{map[string]any{"op": "replace", "path": path, "value": after}}
	}
	all := maps.Clone(a)
	maps.Copy(all, b)
	var ops []any
	for _, key := range slices.Sorted(maps.Keys(all)) {
		at := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		old, was := a[key]
		now, is := b[key]
		switch {
		case !is:
			ops = append(ops, map[string]any{"op": "remove", "path": at})
		case !was:
			if _, isMap := now.(map[string]any); isMap { // CH-179: a concurrently added map is not replaced
				ops = append(ops, map[string]any{"op": "test", "path": at, "value": nil})
			}
			ops = append(ops, map[string]any{"op": "add", "path": at, "value": now})
		default:
			ops = append(ops, operations(at, old, now)...)
		}
	}
	return ops
}

// unfinalized returns an object without its finalizers.
func unfinalized(object map[string]any) map[string]any {
	object = plain(object)
	delete(object["metadata"].(map[string]any), "finalizers")
	return object
}

// finalizerOps returns the operations that add or remove the finalizer of kopf, with their tests (CH-184).
func finalizerOps(now, after map[string]any) (ops []any) {
	const path = "/metadata/finalizers"
	before, _ := now["metadata"].(map[string]any)["finalizers"].([]any)
	list, _ := after["metadata"].(map[string]any)["finalizers"].([]any)
	switch {
	case len(list) > 1 || len(before) > 1:
		panic("there are no other finalizers in the recorded lives")
	case len(list) < len(before):
		at := path + "/0"
		return []any{map[string]any{"op": "test", "path": at, "value": before[0]}, map[string]any{"op": "remove", "path": at}}
	case len(list) > len(before):
		return []any{map[string]any{"op": "test", "path": "/metadata/deletionTimestamp", "value": nil},
			map[string]any{"op": "test", "path": path, "value": nil}, map[string]any{"op": "add", "path": path, "value": list}}
	}
	return nil
}

// guarded returns the operations after a test, nil if there are none.
func guarded(guard any, ops []any) any {
	if len(ops) == 0 {
		return nil
	}
	return append([]any{guard}, ops...)
}
