package kopf_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fewestTargets is the minimum number of fuzz targets. Tests that move to another package must not lose one. Raise it for new ones.
const fewestTargets = 68

// TestFuzzTargets checks that "make fuzz" runs the fuzz targets of all packages.
func TestFuzzTargets(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil || !strings.Contains(string(makefile), "\nfuzz:\n\tbash .ci/fuzz $(FUZZTIME)\n") {
		t.Errorf("make fuzz does not run .ci/fuzz: %v", err)
	}
	cmd := exec.Command(bash, ".ci/fuzz", "list")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(got)
	want := fuzzTargets(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("targets in the tree and in .ci/fuzz list (-want +got)\n%s", diff)
	}
	if len(want) < fewestTargets {
		t.Errorf("there are %d targets, want at least %d", len(want), fewestTargets)
	}
}

// fuzzTargets returns the packages and names of the fuzz targets in the files of this module.
func fuzzTargets(t *testing.T) []string {
	t.Helper()
	var targets []string
	target := regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			if file != "." && (err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(file)
		for _, m := range target.FindAllSubmatch(data, -1) {
			targets = append(targets, path.Join("github.com/kopf-go/kopf", filepath.ToSlash(filepath.Dir(file)))+" "+string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(targets)
	return targets
}
