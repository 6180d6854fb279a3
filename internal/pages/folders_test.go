package pages

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kopf-go/kopf"
)

// The tests in this file hold that commands work in the folder that their page names. What takes a cluster, or minutes, is run by the tests in
// e2e and by .ci/run.

// The folders that pages name.
const (
	inClone  = "a clone of the repository"
	inModule = "the folder of an operator"
)

// places is how pages name these folders; the last one above a command counts.
var places = regexp.MustCompile(`(?i)(\bclone\b|root folder of the repository)|(folder of (?:your|the new) operator|empty folder|your own module)`)

// place is the folder that the page names above the block, empty if there is none.
func (b Block) place() string {
	all := places.FindAllStringSubmatch(b.Above, -1)
	switch {
	case len(all) == 0:
		return ""
	case all[len(all)-1][1] != "":
		return inClone
	}
	return inModule
}

// files are what commands read from the folder that they are run in.
var (
	cloneFiles  = regexp.MustCompile(`\b(?:examples|docs|bench)/|\bcd bench\b|^make |-bench\b|\bgofmt\b|go vet|go test -`)
	moduleFiles = regexp.MustCompile(`\bgo (?:run|build) .*\.( |$)|\bgo mod\b|\bgo get\b|(?:-f|--apply) [\w-]+\.yaml`)
)

// TestFolders checks that each page names the folder of a command, and that the folder has the files that the command needs.
func TestFolders(t *testing.T) {
	for _, b := range blocks(t, "sh", "console", "bash", "shell") {
		for _, line := range b.Commands() {
			t.Run(fmt.Sprintf("DF-34 %s:%d %s", filepath.Base(b.File), b.Line, line), func(t *testing.T) {
				place := b.place()
				switch {
				case cloneFiles.MatchString(line) && place != inClone:
					t.Errorf("it needs a clone of the repository, and the page names %q", place)
				case !cloneFiles.MatchString(line) && moduleFiles.MatchString(line) && place != inModule:
					t.Errorf("it needs the folder of an operator, and the page names %q", place)
				case strings.Contains(line, "myoperator") && !strings.Contains(b.Above, "`myoperator`"):
					t.Error("the page does not say what myoperator is")
				case place == inClone:
					checkInClone(t, line)
				case place == inModule:
					checkInModule(t, b, line)
				}
			})
		}
	}
}

var (
	goCommand  = regexp.MustCompile(`^(?:cd (\S+) && )?go (run|build|test) (.*)`)
	benchmarks = regexp.MustCompile(`-bench '?([^' ]+)'?`)
)

// checkInClone looks for what a command needs in the repository.
func checkInClone(t *testing.T, line string) {
	t.Helper()
	m := goCommand.FindStringSubmatch(line)
	if m == nil {
		return
	}
	folder := filepath.Join(root, m[1])
	if m[2] == "run" {
		pkg := strings.Fields(m[3])[0]
		if name := packageName(t, filepath.Join(folder, pkg)); name != "main" {
			t.Errorf("%s is the package %s, which cannot be run", pkg, name)
		}
	}
	if b := benchmarks.FindStringSubmatch(line); b != nil && !hasTest(t, folder, regexp.MustCompile(b[1])) {
		t.Errorf("no benchmark matches %s", b[1])
	}
}

// packageName returns the name of the package in a folder.
func packageName(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		return parsed.Name.Name
	}
	return ""
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)`)

// hasTest reports whether the tests in a folder have a function that matches.
func hasTest(t *testing.T, folder string, name *regexp.Regexp) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(testFunc.FindAllStringSubmatch(string(source), -1), func(m []string) bool { return name.MatchString(m[1]) })
	})
}

var manifestFile = regexp.MustCompile(`(?:-f|--apply) ([\w-]+\.yaml)`)

// checkInModule holds that the page tells of the files that a command reads.
func checkInModule(t *testing.T, b Block, line string) {
	t.Helper()
	for _, m := range manifestFile.FindAllStringSubmatch(line, -1) {
		if !strings.Contains(b.Above, "`"+m[1]+"`") && !strings.Contains(b.Text, "> "+m[1]) && !strings.Contains(b.Above, m[1]) {
			t.Errorf("the page does not tell what %s is", m[1])
		}
	}
}

var appliedFiles = regexp.MustCompile(`(?:-f|-k|--apply) (\S+)`)

// TestApplied checks that the embedded API server accepts the files that the pages apply, in the same order. No command may apply objects
// together with the definition of their kind, which a cluster refuses at first.
func TestApplied(t *testing.T) {
	servers := make(map[string]*kopf.APIServer) // one for each page
	n := 0
	for _, b := range blocks(t, "sh", "console", "bash", "shell") {
		for _, line := range b.Commands() {
			embedded := strings.Contains(line, " --embedded ") // which knows a kind as soon as its definition is there
			if !strings.HasPrefix(line, "kubectl apply ") && !embedded || b.place() != inClone {
				continue
			}
			n++
			t.Run(fmt.Sprintf("DF-34 %s:%d %s", filepath.Base(b.File), b.Line, line), func(t *testing.T) {
				if servers[b.File] == nil {
					servers[b.File] = kopf.NewAPIServer(nil)
				}
				objects := apply(t, servers[b.File], line)
				if kind := definedWithObjects(objects); kind != "" && !embedded {
					t.Errorf("it applies a %s together with the definition of this kind", kind)
				}
			})
		}
	}
	if n < 5 {
		t.Errorf("only %d commands apply something", n)
	}
}

// apply applies the files of a command, and returns the objects in them.
func apply(t *testing.T, server *kopf.APIServer, line string) (objects []map[string]any) {
	t.Helper()
	for _, m := range appliedFiles.FindAllStringSubmatch(line, -1) {
		for _, file := range manifestsIn(t, filepath.Join(root, m[1])) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Apply(data); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			found, err := kopf.ParseManifests(data)
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, found...)
		}
	}
	return objects
}

// definedWithObjects returns a kind that is defined among the objects, and that one of them has; empty if there is none.
func definedWithObjects(objects []map[string]any) string {
	defined := make(map[any]bool)
	for _, object := range objects {
		if object["kind"] == "CustomResourceDefinition" {
			defined[object["spec"].(map[string]any)["names"].(map[string]any)["kind"]] = true
		}
	}
	for _, object := range objects {
		if kind := object["kind"]; defined[kind] {
			return kind.(string)
		}
	}
	return ""
}

// manifestsIn returns a file, or the files that the kustomization of a folder names.
func manifestsIn(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path, "kustomization.yaml"))
	if err != nil {
		return []string{path}
	}
	objects, err := kopf.ParseManifests(data)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, resource := range objects[0]["resources"].([]any) {
		all = append(all, manifestsIn(t, filepath.Join(path, resource.(string)))...)
	}
	return all
}

// TestFirstCommands holds that the README names one command that runs the first example, and one that passes the tests, and that these are
// what .ci/run runs.
func TestFirstCommands(t *testing.T) {
	found, err := Read(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, b := range found {
		if b.Language == "sh" {
			lines = append(lines, b.Commands()...)
		}
	}
	for prefix, runs := range map[string]string{"go run ./examples/01-minimal run --embedded": ".ci/example", "go test": ".ci/run"} {
		t.Run("DF-34 "+prefix, func(t *testing.T) {
			n := 0
			for _, line := range lines {
				if strings.HasPrefix(line, prefix) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("the README names %d such commands, want one", n)
			}
			script, err := os.ReadFile(filepath.Join(root, runs))
			if err != nil {
				t.Fatal(err)
			}
			if taken := ".ci/printed '" + prefix + "'"; !strings.Contains(string(script), taken) {
				t.Errorf("%s does not take it from there by %s", runs, taken)
			}
		})
	}
}

// TestImages holds that images which build a module have a compiler that is not older than any that has made the module.
func TestImages(t *testing.T) {
	var sources []string
	for _, b := range blocks(t, "dockerfile") {
		sources = append(sources, b.Text)
	}
	files, err := filepath.Glob(filepath.Join(root, "examples", "*", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, string(data))
	}
	n := 0
	for _, source := range sources {
		for _, m := range regexp.MustCompile(`(?m)^FROM (golang\S*)`).FindAllStringSubmatch(source, -1) {
			if n++; m[1] != "golang:1" {
				t.Errorf("DF-34 the image %s may be older than the version of Go that \"go mod init\" writes", m[1])
			}
		}
	}
	if n < 3 {
		t.Errorf("only %d images build a module", n)
	}
}

// TestPasted holds that code which declares functions has no statements next to them, so that it can be pasted into a file as it is.
func TestPasted(t *testing.T) {
	for _, b := range blocks(t, "go") {
		if strings.HasPrefix(b.Excuse(), "not compiled") {
			continue
		}
		pieces, err := split(b.Text, b.Line)
		if err != nil {
			t.Error(err)
		}
		declares := slices.ContainsFunc(pieces, func(p piece) bool { return p.kind == token.FUNC })
		for _, p := range pieces {
			if declares && p.kind == token.ILLEGAL {
				t.Errorf("DF-34 %s:%d: a statement stands next to functions: %.60s", b.File, p.line, p.text)
			}
		}
	}
}
