package judges

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
)

// TestJudge checks that new differences are reported, and known ones that no longer exist.
func TestJudge(t *testing.T) {
	const passes, fails = types.SpecStatePassed, types.SpecStateFailed
	real := []spec{{name: "both", state: passes}, {name: "new", state: passes}, {name: "known", state: passes}, {name: "mended", state: passes},
		{name: "missing", state: passes}, {name: "neither", state: fails}}
	memory := []spec{{name: "both", state: passes}, {name: "new", state: fails, reason: "why"}, {name: "known", state: fails}, {name: "mended", state: passes},
		{name: "neither", state: fails}}
	known := parseKnown("# about\n\n[other]\nreason\n\tnew\n[suite]\nfirst reason\n\tknown\n\tmended\n")["suite"]
	want := []string{
		"is no difference any more, remove it from known.txt: mended (first reason)",
		"passes on the real server alone: missing (in memory: INVALID SPEC STATE)\n",
		"passes on the real server alone: new (in memory: failed)\nwhy",
	}
	if diff := cmp.Diff(want, judge(real, memory, known, false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
