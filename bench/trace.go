package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kopf-go/kopf/bench/replay"
)

// policy has the server log the requests for widgets, with their times.
const policy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived","ResponseStarted"],` +
	`"rules":[{"level":"Metadata","verbs":["create","patch"],"resources":[{"group":"bench.kopf.dev"}]},{"level":"None"}]}`

// traceText explains the table on the page.
const traceText = `The table follows each of 500 objects from its creation, 25 per second. Each step is a median, and the times of the server are from its audit log.

- *received*: the API server receives the request that creates the object.
- *called*: the operator calls the function for it. Until then, the server stores the object and sends the event, which takes most of the time.
- *written*: the server receives the write of that function. The time from *called* to *written* is the operator's work alone. The time between two writes of one object is the server's answer to the first one.
- *seen*: a watch shows the last write. Until then, the server stores the change and sends the event.
- *answered after*: the time of the server's answer to that write.`

// audited is a request in the audit log of the server.
type audited struct {
	Verb      string
	ObjectRef struct{ Name string }
	Received  time.Time `json:"requestReceivedTimestamp"`
	Done      time.Time `json:"stageTimestamp"`
}

// tracing measures the steps in the handling of an object, on a real server.
func (o *options) tracing(ctx context.Context, b *bench) error {
	auditLog, policyFile := filepath.Join(b.dir, "audit.log"), filepath.Join(b.dir, "policy.json")
	if err := os.WriteFile(policyFile, []byte(policy), 0o600); err != nil {
		return err
	}
	p, err := startReal(ctx, "--audit-policy-file="+policyFile, "--audit-log-path="+auditLog, "--audit-log-maxsize=1000")
	if err != nil {
		return err
	}
	defer p.close()
	j := latency(500, 25)
	f := finding{place: realName, job: "where the time of an object goes", text: traceText, command: "go run . -trace", tables: []table{{header: []string{
		"operator", "received → called, ms", "called → written, ms", "written → written again, ms", "written → seen, ms", "(answered after, ms)", "all, ms",
	}}}}
	for _, v := range b.operators {
		if v.program == "client" || v.workers == 1 {
			continue
		}
		calls := filepath.Join(b.dir, "calls")
		if err := os.Setenv("BENCH_TRACE", calls); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s, trace: %s\n", p.name(), v.name)
		before, err := os.ReadFile(auditLog)
		if err != nil {
			return err
		}
		if _, err := j.run(ctx, p, v, b.dir); err != nil {
			return fmt.Errorf("%s: %s: %w\n%s", j.name, v.name, err, p.cluster.Logs())
		}
		row, err := p.traced(j.unit, calls, auditLog, len(before))
		if err != nil {
			return err
		}
		f.tables[0].rows = append(f.tables[0].rows, append([]string{v.name}, row...))
		if err := os.Remove(calls); err != nil {
			return err
		}
	}
	b.findings = append(b.findings, f)
	return f.print()
}

// traced returns the medians of the steps of all objects.
func (p *realPlace) traced(count int, calls, auditLog string, from int) ([]string, error) {
	called, err := readCalls(calls)
	if err != nil {
		return nil, err
	}
	requests, err := readAudit(auditLog, from)
	if err != nil {
		return nil, err
	}
	var steps [6][]time.Duration
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range count {
		all, call := requests[replay.Name(i)], called[replay.Name(i)]
		if len(all) < 2 || all[0].Verb != "create" || call.IsZero() {
			return nil, fmt.Errorf("the trace of %s is not complete: %d requests, called at %s", replay.Name(i), len(all), call)
		}
		first, last := all[1], all[len(all)-1]
		for k, d := range []time.Duration{
			call.Sub(all[0].Received), first.Received.Sub(call), last.Received.Sub(first.Received),
			p.widgets[i].handled.Sub(last.Received), last.Done.Sub(last.Received), p.widgets[i].handled.Sub(all[0].Received),
		} {
			steps[k] = append(steps[k], d)
		}
	}
	var row []string
	for _, all := range steps {
		slices.Sort(all)
		row = append(row, millis(all[len(all)/2]))
	}
	return row, nil
}

func readCalls(path string) (map[string]time.Time, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := map[string]time.Time{}
	for line := range bytes.Lines(data) {
		var name string
		var at int64
		if _, err := fmt.Sscan(string(line), &name, &at); err != nil {
			return nil, fmt.Errorf("the call %q: %w", line, err)
		}
		if all[name].IsZero() {
			all[name] = time.Unix(0, at)
		}
	}
	return all, nil
}

// readAudit returns the requests in a part of the log by the names of their objects, in order.
func readAudit(path string, from int) (map[string][]audited, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := map[string][]audited{}
	for line := range bytes.Lines(data[from:]) {
		var r audited
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("the request %q: %w", line, err)
		}
		all[r.ObjectRef.Name] = append(all[r.ObjectRef.Name], r)
	}
	for name := range all {
		slices.SortFunc(all[name], func(a, b audited) int { return a.Received.Compare(b.Received) })
	}
	return all, nil
}
