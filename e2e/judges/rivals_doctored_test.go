package judges

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf/e2e/judges/rivalry"
)

// This file tests the checks: they must find errors in programs with a faulty election.

// doctored is a change that makes the election faulty.
type doctored struct {
	what, file    string // the file is a source file of kopf
	from, to      string
	rules         []string // at least one of them must be violated
	fault         string
	times         electionTimes
	kinds         [][2]string
	skew, unwinds time.Duration
}

var doctoredElections = []doctored{
	{what: "counts from the answer of a renewal", file: "internal/leaderelection/leaderelection.go",
		from: "e.extend(began)", to: "e.extend(time.Now())",
		rules: []string{ruleOverlap, ruleRegister}, fault: slowThenGone,
		// With these, the next holder begins half a second after the end of the previous one.
		times: electionTimes{4 * time.Second, 3500 * time.Millisecond, 250 * time.Millisecond},
		kinds: [][2]string{{"ours", rivalry.Ours}, {"ours too", rivalry.Ours}}},
	{what: "gives the Lease up before its handlers have ended", file: "kopf.go",
		from:  "	return errors.Join(err, r.leader.failed(), o.stop(endHandlers, endRequests))\n",
		to:    "	r.leader.stop()\n	return errors.Join(err, r.leader.failed(), o.stop(endHandlers, endRequests))\n",
		rules: []string{ruleReleased}, fault: "stop", times: shortTimes, unwinds: 300 * time.Millisecond,
		kinds: [][2]string{{"ours", rivalry.Ours}, {"ours too", rivalry.Ours}, {"elector", rivalry.ClientGo}}},
	{what: "believes the times in the record", file: "internal/leaderelection/leaderelection.go",
		from:  "	if e.seenFor > time.Since(e.seenAt) {\n",
		to:    "	renewed, _ := time.Parse(microTime, fmt.Sprint(l.object[\"spec\"].(map[string]any)[\"renewTime\"]))\n	if e.seenFor > time.Since(renewed) {\n",
		rules: []string{ruleEarly}, fault: "stop", times: shortTimes, skew: -5 * time.Minute,
		kinds: [][2]string{{"ours", rivalry.Ours}, {"elector", rivalry.ClientGo}, {"manager", rivalry.Manager}}},
}

// doctoredFor is the duration of the test for each seed.
const doctoredFor = 40 * time.Second

// TestRivalsAreJudged runs programs with a faulty election. The checks find each with one of three seeds, and find nothing without the fault.
func TestRivalsAreJudged(t *testing.T) {
	for _, d := range doctoredElections {
		d.overlay(t) // fails early if the source has changed
	}
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	to := realUpstream(t)
	right := buildRival(t, "")
	for _, d := range doctoredElections {
		t.Run(d.what, func(t *testing.T) {
			wrong := buildRival(t, d.overlay(t))
			for rule, all := range d.run(t, to, right, 1).violations {
				t.Errorf("of the right one, %s: %d times, such as %s", rule, len(all), all[0])
			}
			for seed := range uint64(3) {
				v := d.run(t, to, wrong, seed+1)
				for _, rule := range d.rules {
					if len(v.violations[rule]) > 0 {
						t.Logf("found with the seed %d: %s: %s", seed+1, rule, v.violations[rule][0])
						return
					}
				}
			}
			t.Errorf("a program that %s is not found", d.what)
		})
	}
}

// overlay writes the changed file, and the overlay file for the compiler.
func (d *doctored) overlay(t *testing.T) string {
	t.Helper()
	source := filepath.Join(strings.TrimSpace(goCommand(t, "list", "-m", "-f", "{{.Dir}}", "github.com/kopf-go/kopf")), filepath.FromSlash(d.file))
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), d.from) {
		t.Fatalf("%s has no %q any more: the change that makes it wrong has to follow", d.file, d.from)
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{changed: strings.ReplaceAll(string(text), d.from, d.to), overlay: string(data)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}

// run has a program of kopf compete, and returns the violations.
func (d *doctored) run(t *testing.T, to upstream, binary string, seed uint64) *verdict {
	t.Helper()
	c := newContest(t, to)
	defer c.clear(t)
	for i, kind := range d.kinds {
		c.add(kind[0], kind[1], binary, d.times, func(r *rivalry.Config) { r.Skew, r.Unwinding = time.Duration(i)*d.skew, d.unwinds })
	}
	f := &rivalFaults{times: d.times, duration: doctoredFor, seed: seed, only: d.fault}
	f.run(t, c)
	return c.history(t).judge()
}
