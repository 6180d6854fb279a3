package e2e

import (
	"bytes"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos"
	"github.com/kopf-go/kopf/internal/proof"
)

var chaosSeed = flag.Uint64("chaos.seed", 1, "what decides about the faults of the fault bench")

// TestChaos is a short run of the fault bench, for one replica and without children. The long run, with all kinds of faults, is a command: go run
// ./chaos/cmd
func TestChaos(t *testing.T) {
	t.Parallel()
	families := slices.DeleteFunc(chaos.Families(), func(name string) bool { return name == "children" || name == "replicas" })
	tryToBreak(t, chaos.Options{Seed: *chaosSeed, Duration: time.Duration(proof.Rounds(20, 60)) * time.Second, Objects: 150, Families: families})
}

// TestChaosChildren includes the faults of children. More faults take longer until each of them has happened.
func TestChaosChildren(t *testing.T) {
	onlyInProof(t)
	tryToBreak(t, chaos.Options{Seed: *chaosSeed, Duration: 60 * time.Second, Objects: 100, Families: []string{"basic", "children"}})
}

// TestChaosReplicas includes the faults of replicas, with three of them.
func TestChaosReplicas(t *testing.T) {
	onlyInProof(t)
	tryToBreak(t, chaos.Options{Seed: *chaosSeed, Duration: 100 * time.Second, Objects: 150, Replicas: 3, Families: []string{"basic", "replicas"}})
}

// onlyInProof skips a test whose result depends on what happens within minutes of real time.
func onlyInProof(t *testing.T) {
	t.Helper()
	if !proof.Full() {
		t.Skip("takes minutes: " + proof.Variable + "=1 runs it")
	}
}

func tryToBreak(t *testing.T, options chaos.Options) {
	t.Helper()
	report, err := chaos.Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Violations) > 0 {
		var told bytes.Buffer
		report.WriteViolations(&told)
		t.Errorf("to repeat it: -chaos.seed %d\n%s", *chaosSeed, &told)
	}
	happened := 0
	for _, count := range report.Faults {
		happened += count
	}
	if happened == 0 {
		t.Error("there were no faults")
	}
	if len(report.Missing) > 0 && proof.Full() { // on a busy machine, a short run may miss some
		t.Errorf("these faults have not happened: %q", report.Missing)
	}
	for _, doctored := range report.Doctored() {
		if !doctored.Found {
			t.Errorf("nobody notices that %s", doctored.What)
		}
	}
	var table bytes.Buffer
	chaos.WriteTable(&table, []*chaos.Report{report})
	t.Logf("%s", &table)
}
