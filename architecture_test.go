package kopf

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The tests in this file check the rules of the source: the names in each file, the exported names and their docs, and the imports. They read the package
// with go/types, and do not run it.

var update = flag.Bool("update", false, "rewrite the golden files")

// rules are the rules for the files of this package that the compiler does not check. Packages under internal/ need no rule, because they cannot import this
// package.
//
// They are a policy: fix a failing test by moving the code, not by editing the table.
var rules = struct {
	goroutines string   // the files that may start them, separated by spaces
	timeless   string   // the files that may not read the clock
	banned     []string // imports that no file may have
}{
	goroutines: "admission.go admission_configurations.go cli.go daemons.go leader_election.go probes.go queue.go reactor_writes.go tasks.go webhooks.go",
	timeless:   "body.go diff.go errors.go filters.go patch.go registry.go resource.go",
	banned:     []string{"os/exec", "testing", "expvar", "html/template", "text/template", "net/http/pprof", "net/http/httptest", "unsafe", "plugin"},
}

// starters and clocks are functions that start goroutines without a go statement, and functions that read the time or wait for it.
var (
	starters = []string{"time.AfterFunc", "context.AfterFunc"}
	clocks   = []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick"}
)

// TestRules parses the files one by one, without types, so that it takes milliseconds.
func TestRules(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	in := func(files, name string) bool { return slices.Contains(strings.Fields(files), name) }
	fset := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if slices.Contains(rules.banned, path) {
				t.Errorf("%s may not import %s", name, path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				if !in(rules.goroutines, name) {
					t.Errorf("%s: this file may not start goroutines", fset.Position(n.Pos()))
				}
			case *ast.CallExpr:
				called := calledFunction(n)
				if slices.Contains(starters, called) && !in(rules.goroutines, name) {
					t.Errorf("%s: this file may not start goroutines", fset.Position(n.Pos()))
				}
				if slices.Contains(clocks, called) && in(rules.timeless, name) {
					t.Errorf("%s: this file may not use the clock", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

// calledFunction returns "package.Function" for a call of a function, and other text for other calls.
func calledFunction(c *ast.CallExpr) string {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return pkg.Name + "." + s.Sel.Name
}

func TestAPI(t *testing.T) {
	pkg := load(t)
	var b strings.Builder
	for _, name := range pkg.types.Scope().Names() { // sorted
		if obj := pkg.types.Scope().Lookup(name); obj.Exported() {
			writeAPI(&b, obj, types.RelativeTo(pkg.types))
		}
	}
	const path = "testdata/api.txt"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		t.Skip("there is no " + path + " yet; go test -run TestAPI -update writes it")
	}
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(b.String(), "\n")
	old := strings.Split(string(want), "\n")
	for _, line := range got {
		if !slices.Contains(old, line) {
			t.Errorf("new in the API: %s", line)
		}
	}
	for _, line := range old {
		if !slices.Contains(got, line) {
			t.Errorf("gone from the API: %s", line)
		}
	}
	if t.Failed() || string(want) != b.String() {
		t.Errorf("%s is stale: run go test -run TestAPI -update, and review the diff", path)
	}
}

// writeAPI writes one exported name. Fields and methods follow in lines that begin with their type, so that each line stands alone.
func writeAPI(b *strings.Builder, obj types.Object, qual types.Qualifier) {
	name, ok := obj.(*types.TypeName)
	if c, is := obj.(*types.Const); is {
		fmt.Fprintf(b, "%s = %s\n", types.ObjectString(obj, qual), c.Val())
		return
	}
	if !ok || name.IsAlias() {
		fmt.Fprintln(b, types.ObjectString(obj, qual))
		return
	}
	switch u := name.Type().Underlying().(type) {
	case *types.Struct:
		fmt.Fprintf(b, "type %s struct\n", name.Name())
		for f := range u.Fields() {
			if f.Exported() && f.Embedded() {
				fmt.Fprintf(b, "%s embeds %s\n", name.Name(), types.TypeString(f.Type(), qual))
			} else if f.Exported() {
				fmt.Fprintf(b, "%s.%s %s\n", name.Name(), f.Name(), types.TypeString(f.Type(), qual))
			}
		}
	default:
		fmt.Fprintln(b, types.ObjectString(obj, qual))
	}
	named, ok := name.Type().(*types.Named)
	if !ok {
		return
	}
	methods := slices.SortedFunc(named.Methods(), func(a, b *types.Func) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, m := range methods {
		if m.Exported() {
			fmt.Fprintln(b, types.ObjectString(m, qual))
		}
	}
}

func TestDocs(t *testing.T) {
	pkg := load(t)
	for _, f := range pkg.files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) {
					wantDoc(t, pkg, d.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					checkSpecDoc(t, pkg, d, s)
				}
			}
		}
	}
}

func checkSpecDoc(t *testing.T, pkg *loaded, d *ast.GenDecl, s ast.Spec) {
	t.Helper()
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			doc := s.Doc
			if doc == nil {
				doc = d.Doc
			}
			wantDoc(t, pkg, s.Name, doc)
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
				t.Errorf("%s: %s has no doc comment", pkg.fset.Position(n.Pos()), n.Name)
			}
		}
	}
}

// wantDoc checks that the first sentence of a doc comment begins with the name, after an optional article.
func wantDoc(t *testing.T, pkg *loaded, id *ast.Ident, doc *ast.CommentGroup) {
	t.Helper()
	text := doc.Text()
	for _, article := range []string{"A ", "An ", "The "} {
		text = strings.TrimPrefix(text, article)
	}
	if !strings.HasPrefix(text, id.Name) {
		t.Errorf("%s: the comment on %s must begin with its name", pkg.fset.Position(id.Pos()), id.Name)
	}
}

// exportedReceiver reports whether a function is no method, or a method of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// TestOptions checks that a field in several option structs has the same meaning in all of them.
func TestOptions(t *testing.T) {
	pkg := load(t)
	qual := types.RelativeTo(pkg.types)
	first := make(map[string]*types.Var)
	owner := make(map[string]string)
	for _, name := range pkg.types.Scope().Names() {
		obj, ok := pkg.types.Scope().Lookup(name).(*types.TypeName)
		if !ok || !obj.Exported() || !strings.HasSuffix(name, "Options") {
			continue
		}
		s, ok := obj.Type().Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for f := range s.Fields() {
			if _, isFunc := f.Type().Underlying().(*types.Signature); isFunc {
				continue // a callback takes the argument of its own family
			}
			if old := first[f.Name()]; old == nil {
				first[f.Name()], owner[f.Name()] = f, name
			} else if !types.Identical(old.Type(), f.Type()) {
				t.Errorf("%s: %s.%s is %s, but %s.%s is %s", pkg.fset.Position(f.Pos()), name, f.Name(),
					types.TypeString(f.Type(), qual), owner[f.Name()], f.Name(), types.TypeString(old.Type(), qual))
			}
		}
	}
}

// TestDependencies checks that operators link only the standard library, without its packages for
// tests and for templates, with all build tags.
func TestDependencies(t *testing.T) {
	t.Run("OB-T8 the module requires no SDK", func(t *testing.T) {
		data, err := os.ReadFile("go.mod")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
			if len(fields) >= 2 && strings.HasPrefix(fields[1], "v") && fields[0] != "github.com/google/go-cmp" {
				t.Errorf("go.mod requires %s; only github.com/google/go-cmp is allowed, and only in tests", fields[0])
			}
		}
	})
	for _, tags := range []string{"", "noembed", "livepage", "noembed,livepage"} {
		by := linked(t, tags)
		t.Run(fmt.Sprintf("OB-T8 operators link the standard library and this module alone, with the tags %q", tags), func(t *testing.T) {
			for path, importer := range by {
				standard := !strings.Contains(strings.Split(path, "/")[0], ".") || strings.HasPrefix(path, "vendor/golang.org/x/")
				if !standard && path != "github.com/kopf-go/kopf" && !strings.HasPrefix(path, "github.com/kopf-go/kopf/internal/") {
					t.Errorf("an operator links %s, by way of %s", path, importer)
				}
			}
		})
		t.Run(fmt.Sprintf("OB-T9 operators link no templates, and nothing for tests, with the tags %q", tags), func(t *testing.T) {
			for _, path := range []string{
				"html/template", "text/template", // they call methods by name, so that the linker keeps all exported ones
				"testing", "net/http/httptest", "expvar", "net/http/pprof",
			} {
				if importer, ok := by[path]; ok {
					t.Errorf("an operator links %s, by way of %s", path, importer)
				}
			}
		})
	}
}

// linked returns the packages that an operator links with some build tags, each with one that
// imports it.
func linked(t *testing.T, tags string) map[string]string {
	t.Helper()
	const operator = "./examples/01-minimal"
	out, err := exec.Command("go", "list", "-deps", "-tags="+tags, "-f", "{{.ImportPath}} {{.Imports}}", operator).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	by := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		importer, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, path := range strings.Fields(strings.Trim(imports, "[]")) {
			by[path] = importer
		}
	}
	if _, ok := by["github.com/kopf-go/kopf"]; !ok || len(by) < 50 {
		t.Fatalf("go list has found only %d packages", len(by))
	}
	return by
}

// TestMigrating checks that each symbol in docs/migrating.md exists.
func TestMigrating(t *testing.T) {
	data, err := os.ReadFile("docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	pkg := load(t)
	symbols := 0
	_, tables, _ := strings.Cut(string(data), "\n## Names\n")
	for line := range strings.Lines(tables) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, quoted := range regexp.MustCompile("`[^`]+`").FindAllString(cells[2], -1) {
			symbols++
			if symbol := strings.Trim(quoted, "`"); !hasSymbol(pkg.types, symbol) {
				t.Errorf("docs/migrating.md: there is no %s", symbol)
			}
		}
	}
	if symbols == 0 {
		t.Error("docs/migrating.md: no symbol in any table")
	}
}

// hasSymbol reports whether a package has a name, or a field or method of a type, as in "Settings.Peering.Name".
func hasSymbol(pkg *types.Package, symbol string) bool {
	parts := strings.Split(symbol, ".")
	obj := pkg.Scope().Lookup(parts[0])
	for _, part := range parts[1:] {
		if obj == nil || !obj.Exported() {
			return false
		}
		obj, _, _ = types.LookupFieldOrMethod(obj.Type(), true, pkg, part)
	}
	return obj != nil && obj.Exported()
}

// TestFileSizes finds files that are too long for one concept.
func TestFileSizes(t *testing.T) {
	const limit = 900
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		data, err := os.ReadFile(path)
		if n := strings.Count(string(data), "\n"); n > limit {
			t.Errorf("%s has %d lines; past %d it holds two concepts: split it by them", path, n, limit)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// loaded is this package's source without its tests, parsed and type-checked.
type loaded struct {
	fset  *token.FileSet
	files []*ast.File
	types *types.Package
	info  types.Info
}

var loadOnce = sync.OnceValues(func() (*loaded, error) {
	bp, err := build.ImportDir(".", 0)
	if err != nil {
		return nil, err
	}
	p := &loaded{fset: token.NewFileSet()}
	for _, name := range bp.GoFiles {
		f, err := parser.ParseFile(p.fset, name, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	p.info.Uses = make(map[*ast.Ident]types.Object)
	exports, err := exportData()
	if err != nil {
		return nil, err
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	conf := types.Config{Importer: importer.ForCompiler(p.fset, "gc", open)}
	p.types, err = conf.Check("github.com/kopf-go/kopf", p.fset, p.files, &p.info)
	return p, err
})

// exportData returns the files in the build cache that have the types of the package's dependencies, by import paths. To
// type-check their sources would take many times longer.
func exportData() (map[string]string, error) {
	out, err := exec.Command("go", "list", "-deps", "-export", "-f", "{{.ImportPath}} {{.Export}}", ".").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files, nil
}

// load returns the package.
func load(t *testing.T) *loaded {
	t.Helper()
	p, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
