package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
)

// This file reports runs: in a table without violations, and with the history of an object otherwise.

// Report is the result of a run.
type Report struct {
	Seed       uint64
	Objects    int            // including deleted ones
	Changes    int            // made by clients
	Calls      int            // of handlers
	Runs       int            // processes of the operator
	Requests   int            // of the operator, including watches
	Faults     map[string]int // by name
	Settled    time.Duration  // the time until the operator settled after the last fault
	Peak       int64          // bytes of memory, the maximum of all processes
	Violations []Violation
	Missing    []string // the selected faults that did not happen

	evidence, last *Evidence
	incidents      []incident
	handovers      []string            // the actions on the replicas, and the holders of the Lease
	said           map[string][]string // the operator's log about the objects of violations, by name; its end under ""
	ofChildren     map[string][]line   // the histories of the children in violations, by name
}

func (b *bench) fill(r *Report) {
	r.Objects, r.Changes = len(r.last.Versions), int(b.writers.changes.Load())
	for _, e := range r.last.Journal {
		if e.Event == journal.Begun {
			r.Calls++
		}
	}
	r.Faults = map[string]int{}
	for _, name := range FaultNames() {
		r.Faults[name] = b.counts.of(name)
	}
	b.proxy.requests.mu.Lock()
	defer b.proxy.requests.mu.Unlock()
	for _, n := range b.proxy.requests.counts {
		r.Requests += n
	}
	r.Runs, r.Peak = int(b.replicas.counter.Load()), b.replicas.peak()
	r.incidents = b.proxy.incidents
	if len(r.Violations) == 0 {
		return
	}
	r.handovers = b.replicas.told()
	r.said = map[string][]string{"": b.replicas.first().tail(100)}
	if b.tenant != nil {
		r.said[tenantRole] = b.tenant.tail(100)
	}
	for _, v := range r.told() {
		r.said[v.Name] = b.replicas.first().said(v.Name)
	}
	r.ofChildren = map[string][]line{}
	for _, v := range r.Violations {
		if v.isOfChild() && len(r.ofChildren) < toldHistories {
			r.ofChildren[v.Name] = b.childHistory(r, v.Name)
			for _, name := range []string{v.Name, gardenOf(v.Name)} {
				r.said[name] = b.replicas.first().said(name)
			}
		}
	}
}

// told returns violations about different objects, for their histories.
func (r *Report) told() []Violation {
	var told []Violation
	for _, v := range r.Violations {
		if r.last.Versions[v.UID] != nil && len(told) < toldHistories && !slices.ContainsFunc(told, func(t Violation) bool { return t.UID == v.UID }) {
			if v.Name == "" { // violations about an operator's state have none
				v.Name = r.last.Versions[v.UID][0].Object.Metadata.Name
			}
			told = append(told, v)
		}
	}
	return told
}

// faultCount returns the number of all faults of a run.
func (r *Report) faultCount() int {
	n := 0
	for _, count := range r.Faults {
		n += count
	}
	return n
}

// WriteTable writes the tables of some runs, in Markdown.
func WriteTable(w io.Writer, reports []*Report) {
	fmt.Fprintln(w, "| seed | faults | objects | changes | handler calls | processes | violations | requests per object | peak MiB | settled after |")
	fmt.Fprintln(w, "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, r := range reports {
		fmt.Fprintf(w, "| %d | %d | %d | %d | %d | %d | %d | %.1f | %.1f | %.1f s |\n", r.Seed, r.faultCount(), r.Objects, r.Changes, r.Calls, r.Runs,
			len(r.Violations), float64(r.Requests)/float64(max(1, r.Objects)), float64(r.Peak)/(1<<20), r.Settled.Seconds())
	}
	fmt.Fprintln(w, "\n| fault | times |\n|---|---:|")
	for _, name := range FaultNames() {
		n := 0
		for _, r := range reports {
			n += r.Faults[name]
		}
		fmt.Fprintf(w, "| %s | %d |\n", name, n)
	}
	fmt.Fprintln(w, "\n| check | violations |\n|---|---:|")
	for _, rule := range Rules {
		n := 0
		for _, r := range reports {
			for _, v := range r.Violations {
				if v.Rule == rule {
					n++
				}
			}
		}
		fmt.Fprintf(w, "| %s | %d |\n", rule, n)
	}
}

// The limits of a report about violations.
const (
	toldViolations = 30
	toldHistories  = 3
)

// WriteViolations writes the violations in a run, and the histories of some of the objects.
func (r *Report) WriteViolations(w io.Writer) {
	fmt.Fprintf(w, "seed %d: %d violations\n", r.Seed, len(r.Violations))
	for _, v := range r.Violations[:min(len(r.Violations), toldViolations)] {
		fmt.Fprintln(w, " ", v)
	}
	for _, v := range r.told() {
		fmt.Fprintf(w, "\nthe history of %s %s:\n", v.Name, v.UID)
		r.writeHistory(w, v.UID, v.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(r.ofChildren)) {
		r.writeChild(w, name)
	}
	if len(r.handovers) > 0 {
		fmt.Fprintf(w, "\nthe replicas:\n%s\n", strings.Join(r.handovers, "\n"))
	}
	fmt.Fprintf(w, "\nthe end of the log of the operator:\n%s\n", strings.Join(r.said[""], "\n"))
	if lines := r.said[tenantRole]; lines != nil {
		fmt.Fprintf(w, "\nthe end of the log of the tenant's operator:\n%s\n", strings.Join(lines, "\n"))
	}
}

// writeHistory writes all versions of an object, all calls for it, and the faults of its requests, in order of time, and then the operator's log lines about
// it.
func (r *Report) writeHistory(w io.Writer, uid, name string) {
	e := r.last
	lines := r.starts()
	for _, v := range e.Versions[uid] {
		lines = append(lines, line{v.Seen, v.String()})
	}
	for _, c := range e.Journal {
		if c.UID == uid {
			lines = append(lines, line{c.Time, fmt.Sprintf("  process %d: %s %s %s value=%d retry=%d version=%s fence=%d %s", c.Run, c.Handler, c.Reason, c.Event, c.Value, c.Retry, c.Version, c.Fence, c.Note)})
		}
	}
	for _, i := range r.incidents {
		if strings.HasSuffix(i.Path, "/"+name) || strings.HasSuffix(i.Path, "/"+name+"/status") || strings.HasSuffix(i.Path, "/widgets") {
			lines = append(lines, line{i.Time, "fault: " + i.What})
		}
	}
	writeLines(w, lines)
	fmt.Fprintf(w, "\nthe log about %s:\n%s\n", name, strings.Join(r.said[name], "\n"))
}

// starts returns the starts of the operator.
func (r *Report) starts() (lines []line) {
	for _, c := range r.last.Journal {
		if c.Event == journal.Started {
			lines = append(lines, line{c.Time, fmt.Sprintf("process %d of the operator starts", c.Run)})
		}
	}
	return lines
}

// writeChild writes all writes of a child and its garden, and the operator's log lines about them.
func (r *Report) writeChild(w io.Writer, name string) {
	fmt.Fprintf(w, "\nthe history of the child %s and its garden:\n", name)
	writeLines(w, r.ofChildren[name])
	for _, about := range slices.Compact([]string{gardenOf(name), name}) {
		fmt.Fprintf(w, "\nthe log about %s:\n%s\n", about, strings.Join(r.said[about], "\n"))
	}
}

func (v *Version) String() string {
	o := v.Object
	if v.Gone {
		return fmt.Sprintf("version %d: gone", v.Revision)
	}
	var records []string
	for key, text := range o.Metadata.Annotations {
		records = append(records, strings.TrimPrefix(key, prefix)+"="+text)
	}
	slices.Sort(records)
	return fmt.Sprintf("version %d: %v labels=%v deleted=%q finalizers=%v status=%v\n\t%s", v.Revision, o.Spec, o.Metadata.Labels,
		o.Metadata.DeletionTimestamp, o.Metadata.Finalizers, o.Status, strings.Join(records, "\n\t"))
}
