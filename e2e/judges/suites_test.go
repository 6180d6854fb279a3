package judges

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"

	// An import of the suites, so that it is in go.mod.
	_ "github.com/go-logr/logr/funcr"
	_ "github.com/google/go-cmp/cmp/cmpopts"
	_ "github.com/google/gofuzz"
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega/gbytes"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "go.uber.org/goleak"
	_ "sigs.k8s.io/controller-runtime/pkg/builder"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
)

// suites are the suites of controller-runtime that use an API server.
var suites = []string{"client", "cache", "manager", "controller", "source", "builder"}

var (
	seed    = flag.Int("judges.seed", 1, "the order of the specs, which is the same on both servers")
	focus   = flag.String("judges.focus", "", "a regular expression of the specs to run, to look at one")
	reports = flag.String("judges.reports", "", "the folder where the reports and outputs are kept")
)

const runtimePackages = "sigs.k8s.io/controller-runtime/pkg/"

// TestControllerRuntime runs the suites of controller-runtime on both servers. Each spec that passes on the real one must pass in memory, unless known.txt
// has a reason.
func TestControllerRuntime(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	dir := *reports
	if dir == "" {
		dir = t.TempDir()
	}
	known := parseKnown(knownText)
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			binary := filepath.Join(dir, suite+".test")
			goCommand(t, "test", "-c", "-o", binary, runtimePackages+suite)
			source := strings.TrimSpace(goCommand(t, "list", "-f", "{{.Dir}}", runtimePackages+suite))
			run := func(server, kubeconfig string) []spec {
				return runSuite(t, binary, source, kubeconfig, filepath.Join(dir, suite+"-"+server))
			}
			want := run("real", realServer(t))
			got := run("memory", memoryServer(t, &kopf.APIServerOptions{DisableGarbageCollector: true})) // the real one has no controllers, too
			t.Logf("%s: %d of %d specs passed on the real server, %d of %d in memory", suite, passed(want), len(want), passed(got), len(got))
			for _, complaint := range judge(want, got, known[suite], *focus != "") {
				t.Error(complaint)
			}
		})
	}
}

func goCommand(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// realServer starts a separate control plane, and returns the path of its kubeconfig.
func realServer(t *testing.T, controllers ...string) string {
	t.Helper()
	c, err := cluster.Start(context.Background(), &cluster.Options{Controllers: controllers, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c.Kubeconfig()
}

// memoryServer is [realServer] for the in-memory server.
func memoryServer(t *testing.T, opts *kopf.APIServerOptions) string {
	t.Helper()
	listener, err := kopf.NewAPIServer(opts).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(t.TempDir(), "memory.kubeconfig")
	if err := listener.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// runSuite runs the program of a suite in the folder of its source, which contains its data, and returns the results of its specs.
func runSuite(t *testing.T, binary, source, kubeconfig, report string) []spec {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.timeout=19m", "-test.run=^Test(Client|Source|Builder)$",
		fmt.Sprintf("-ginkgo.seed=%d", *seed), "-ginkgo.no-color", "-ginkgo.focus="+*focus, "-ginkgo.json-report="+report+".json")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "USE_EXISTING_CLUSTER=true", "KUBECONFIG="+kubeconfig)
	out, failed := cmd.CombinedOutput()
	if err := os.WriteFile(report+".txt", out, 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(report + ".json")
	if err != nil {
		t.Fatalf("the suite has not reported: %v\n%v\n%.10000s", err, failed, out)
	}
	var all []types.Report
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return specsOf(all)
}

// spec is the result of one spec of a suite.
type spec struct {
	name   string
	state  types.SpecState
	reason string // the reason of a failure
}

// specsOf returns the specs of reports. Specs with the same name are numbered in the order of their runs.
func specsOf(all []types.Report) []spec {
	var specs []spec
	seen := map[string]int{}
	for _, report := range all {
		ran := slices.Clone(report.SpecReports)
		slices.SortStableFunc(ran, func(a, b types.SpecReport) int {
			return cmp.Compare(a.LeafNodeLocation.LineNumber, b.LeafNodeLocation.LineNumber)
		})
		for _, s := range ran {
			name := strings.Join(strings.Fields(s.FullText()), " ")
			switch passed := s.State.Is(types.SpecStatePassed); {
			case s.State.Is(types.SpecStatePending | types.SpecStateSkipped), passed && !s.LeafNodeType.Is(types.NodeTypeIt):
				continue
			case !s.LeafNodeType.Is(types.NodeTypeIt): // the preparation or the cleanup failed
				name = s.LeafNodeType.String()
			}
			if seen[name]++; seen[name] > 1 {
				name += fmt.Sprintf(" #%d", seen[name])
			}
			specs = append(specs, spec{name: name, state: s.State, reason: s.Failure.Message})
		}
	}
	return specs
}

func passed(specs []spec) int {
	n := 0
	for _, s := range specs {
		if s.state.Is(types.SpecStatePassed) {
			n++
		}
	}
	return n
}

//go:embed known.txt
var knownText string

// parseKnown returns the reasons of the known differences, by suite and name of the spec.
func parseKnown(text string) map[string]map[string]string {
	known := map[string]map[string]string{}
	var suite, reason string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			suite, reason = strings.Trim(line, "[]"), ""
			known[suite] = map[string]string{}
		case strings.HasPrefix(line, "\t"):
			known[suite][strings.TrimSpace(line)] = reason
		default:
			reason = line
		}
	}
	return known
}

// judge returns the new differences: specs that pass on the real server alone and are not known, and known ones that pass. With some, only a part of the
// specs ran, and missing ones are no difference.
func judge(want, got []spec, known map[string]string, some bool) []string {
	states := map[string]spec{}
	for _, s := range got {
		states[s.name] = s
	}
	var complaints []string
	differs := map[string]bool{}
	for _, s := range want {
		if !s.state.Is(types.SpecStatePassed) {
			continue // it proves nothing
		}
		ours := states[s.name]
		if ours.state.Is(types.SpecStatePassed) {
			continue
		}
		differs[s.name] = true
		if known[s.name] == "" {
			complaints = append(complaints, fmt.Sprintf("passes on the real server alone: %s (in memory: %s)\n%s", s.name, ours.state, ours.reason))
		}
	}
	for name, reason := range known {
		if !differs[name] && !some {
			complaints = append(complaints, fmt.Sprintf("is no difference any more, remove it from known.txt: %s (%s)", name, reason))
		}
	}
	slices.Sort(complaints)
	return complaints
}
