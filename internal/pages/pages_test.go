package pages

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the folder of the module.
const root = "../.."

// markdown returns all pages of the module, by their paths from its root.
func markdown(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md", "e2e/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if len(all) < 10 {
		t.Fatalf("only %d pages", len(all))
	}
	return all
}

// blocks returns the blocks of a language in all pages.
func blocks(t *testing.T, languages ...string) []Block {
	t.Helper()
	var all []Block
	for _, page := range markdown(t) {
		found, err := Read(page)
		if err != nil {
			t.Error(err)
		}
		for _, b := range found {
			for _, language := range languages {
				if b.Language == language {
					all = append(all, b)
				}
			}
		}
	}
	return all
}

// TestGo compiles all Go of all pages and of the package comment, and runs it as [Run] tells.
func TestGo(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the code of all pages")
	}
	all := blocks(t, "go")
	Assemble(all)
	comment, err := ReadPackage(filepath.Join(root, "kopf.go"))
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, comment...)
	overlay := newOverlay(t)
	var main strings.Builder
	var sources []*Source
	var states []string // the packages of programs that are not ready: their tests come later
	counts := make(map[string]int)
	unrun := 0
	for i, b := range all {
		if b.PartOf(all[i+1:]) {
			continue
		}
		page := "page" + strings.NewReplacer("-", "", ".", "").Replace(strings.ToLower(filepath.Base(b.File))) // some begin with a digit
		counts[page]++
		if strings.HasPrefix(b.Excuse(), "not compiled") {
			unrun++
			continue
		}
		source, err := b.Compile(fmt.Sprintf("%s%d", page, counts[page]))
		if err != nil {
			t.Error(err)
			continue
		}
		if b.Excuse() != "" && b.Name() == "" {
			unrun++
		}
		overlay.add(t, source.Package+"/page.go", source.Code)
		if b.Name() != "" && len(source.Tests) == 0 {
			states = append(states, "./run/"+source.Package)
			continue
		}
		sources = append(sources, source)
	}
	if unrun*8 > len(all) {
		t.Errorf("%d of %d blocks are not run; it should be a few", unrun, len(all))
	}
	t.Logf("%d blocks, of which %d are not run", len(all), unrun)
	writeMain(&main, sources, namedFiles(t))
	overlay.add(t, "pages_test.go", []byte(main.String()))
	overlay.build(t, states...)
	overlay.run(t)
}

// TestTutorial holds that the files in the chapters of the tutorial are those of its example in the end.
func TestTutorial(t *testing.T) {
	example := filepath.Join(root, "examples", "27-external-database")
	program := Assemble(blocks(t, "go"))[filepath.Join(root, "docs", "tutorial")]
	files, err := filepath.Glob(filepath.Join(example, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, source, _ := strings.Cut("\n"+string(data), "\npackage main\n") // without the comment before it
		if got := program[filepath.Base(file)]; got != "package main\n"+source {
			t.Errorf("the tutorial shows %s as\n%s", file, got)
		}
	}
	if len(files) != len(program) {
		t.Errorf("the tutorial has %d files, and the example %d", len(program), len(files))
	}
}

// namedFiles returns the files that blocks of YAML are, by their pages and names.
func namedFiles(t *testing.T) map[string]map[string]string {
	t.Helper()
	files := make(map[string]map[string]string)
	for _, b := range blocks(t, "yaml") {
		if b.Name() == "" {
			continue
		}
		if files[b.File] == nil {
			files[b.File] = make(map[string]string)
		}
		files[b.File][b.Name()] = b.Text
	}
	return files
}

// writeMain writes the test that calls all packages.
func writeMain(out *strings.Builder, sources []*Source, files map[string]map[string]string) {
	fmt.Fprintln(out, "package run_test\nimport (\n\"testing\"\n\"github.com/kopf-go/kopf/internal/pages\"")
	for _, s := range sources {
		fmt.Fprintf(out, "%q\n", "github.com/kopf-go/kopf/internal/pages/run/"+s.Package)
	}
	fmt.Fprintln(out, ")\nfunc TestPages(t *testing.T) {")
	for _, s := range sources {
		if s.Output != "" || s.Excuse() != "" {
			continue
		}
		fmt.Fprintf(out, "t.Run(%q, func(t *testing.T) { pages.Run(t, &pages.Case{Text: %q, Handler: %v, Files: %#v, Registry: %[5]s.Registry_, Run: %[5]s.Run_, Register: %[5]s.Register_, Tests: []func(*testing.T){",
			fmt.Sprintf("%s:%d", strings.TrimPrefix(filepath.ToSlash(s.File), root+"/"), s.Line), s.Text, s.Handler, files[s.File], s.Package)
		for _, test := range s.Tests {
			fmt.Fprintf(out, "%s.%s, ", s.Package, test)
		}
		fmt.Fprintln(out, "}})})")
	}
	fmt.Fprintln(out, "}")
	for _, s := range sources {
		if s.Excuse() != "" && s.Output == "" {
			fmt.Fprintf(out, "var _ = %s.Run_\n", s.Package)
		}
		if s.Output != "" {
			fmt.Fprintf(out, "func Example_%s() {\nif err := %[1]s.Run_(nil, nil, nil, nil); err != nil {\npanic(err)\n}\n// Output:\n%s}\n", s.Package, s.Output)
		}
	}
}

// overlay is a folder of the module that is there for one command alone. So what the compiler has made of it stays in its cache.
type overlay struct {
	real    string            // where the files are
	Replace map[string]string // the paths that the command sees
}

func newOverlay(t *testing.T) *overlay {
	return &overlay{real: t.TempDir(), Replace: make(map[string]string)}
}

func (o *overlay) add(t *testing.T, name string, data []byte) {
	t.Helper()
	seen, err := filepath.Abs(filepath.Join("run", name))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(o.real, strings.ReplaceAll(name, "/", "_"))
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Replace[seen] = file
}

// build compiles packages.
func (o *overlay) build(t *testing.T, packages ...string) {
	t.Helper()
	build := exec.Command("go", append([]string{"build", "-overlay", o.file(t)}, packages...)...)
	build.Env = append(os.Environ(), "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// file writes the file that says which objects the command sees.
func (o *overlay) file(t *testing.T) string {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(o.real, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// run builds the test that calls all packages, and runs it.
func (o *overlay) run(t *testing.T) {
	t.Helper()
	program := filepath.Join(o.real, "pages.test.exe")
	build := exec.Command("go", "test", "-c", "-o", program, "-overlay", o.file(t), "-vet=off", "./run")
	build.Env = append(os.Environ(), "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(program)
	run.Dir = t.TempDir()
	run.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(run.Dir, "none"))
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
