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
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The tests in this file hold the source to the rules of the house: which file may name what, what
// is exported and documented, what is imported. They read the package with go/types, not by running it.

var update = flag.Bool("update", false, "rewrite the golden files")

// rooms is this package's architecture, the ground floor first. A file uses what is declared on its own
// floor and on the floors below it, and never what is declared above. Imports are the standard packages that a
// room may use besides those in everywhere; goroutines and clock say that it may start the ones and read the other;
// apart, that its files do not name each other, but for those about one thing. Files that do not exist yet are welcome.
//
// It is a statement of policy: a failing test is repaired by moving the code, not by editing the table.
var rooms = []room{
	{floor: 0, name: "structs", files: "body.go json.go json_*.go patch.go resource.go errors.go blake2b.go stubs.go",
		imports: "encoding/base64 encoding/binary encoding/hex io math math/big math/bits reflect unicode"},
	{floor: 0, name: "yaml", files: "yaml.go yaml_*.go", imports: "encoding/base64 encoding/binary io math math/big net/url unicode"},
	{floor: 0, name: "counters", files: "metrics.go", imports: "io math sync sync/atomic"},
	{floor: 0, name: "memos", files: "memos.go", imports: "reflect sync"},
	{floor: 1, name: "configs", files: "settings.go settings_*.go persistence.go diffbase.go progress.go",
		imports: "crypto/md5 crypto/sha256 crypto/x509 encoding/base64 encoding/hex hash/fnv net/http path reflect sync", clock: true},
	{floor: 2, name: "clients", files: "client.go client_*.go watching.go watching_*.go discovering.go auth.go auth_*.go credentials.go",
		imports: "bufio crypto/rand crypto/sha256 crypto/tls crypto/x509 encoding/base64 encoding/pem encoding/hex io io/fs math math/rand/v2 net net/http " +
			"net/url os os/exec path path/filepath reflect runtime sync sync/atomic", goroutines: true, clock: true},
	{floor: 3, name: "intents", files: "on.go on_*.go registry.go filters.go causes.go selector.go",
		imports: "math/rand/v2 path reflect runtime sync sync/atomic unicode", clock: true},
	{floor: 4, name: "actions", files: "execution.go execution_*.go sending.go queue.go queue_*.go pausing.go",
		imports: "math math/rand/v2 reflect runtime runtime/debug sync sync/atomic", goroutines: true, clock: true},
	{floor: 4, name: "listeners", files: "listening.go", imports: "net net/http sync", clock: true},
	{floor: 4, name: "logs", files: "logging.go", imports: "io os path/filepath reflect runtime sync sync/atomic unicode", clock: true},
	{floor: 5, name: "engines", files: "daemons.go indexing.go admission.go admission_configuration.go peering.go events.go probing.go",
		imports: "container/heap crypto/rand crypto/x509 encoding/base64 hash/fnv io math math/rand/v2 net net/http net/url os os/user " +
			"reflect runtime runtime/debug sync sync/atomic unicode", goroutines: true, clock: true, apart: true},
	{floor: 6, name: "reactor", files: "reactor.go reactor_*.go observation.go",
		imports: "hash/fnv math math/rand/v2 path reflect runtime/debug sync sync/atomic", goroutines: true, clock: true},
	{floor: 7, name: "kits", files: "hierarchies.go webhooks.go webhooks_*.go testing.go",
		imports: "bufio crypto crypto/aes crypto/cipher crypto/des crypto/ecdsa crypto/elliptic crypto/pbkdf2 crypto/rand crypto/sha1 crypto/sha256 crypto/sha512 " +
			"crypto/tls crypto/x509 crypto/x509/pkix encoding/asn1 encoding/base64 encoding/pem hash io math/big mime net " +
			"net/http net/url os os/exec path/filepath reflect runtime sync sync/atomic", goroutines: true, clock: true},
	{floor: 7, name: "server", files: "apiserver.go apiserver_*.go",
		imports: "bufio crypto crypto/ecdsa crypto/elliptic crypto/rand crypto/sha256 crypto/tls crypto/x509 crypto/x509/pkix encoding/base64 encoding/binary encoding/hex " +
			"encoding/pem hash/fnv io io/fs math math/big math/bits math/rand/v2 mime net net/http net/netip net/url os path path/filepath reflect " +
			"sync sync/atomic unicode", goroutines: true, clock: true},
	{floor: 8, name: "entry", files: "kopf.go activities.go",
		imports: "io math/rand/v2 net net/http os reflect runtime runtime/debug sync sync/atomic", goroutines: true, clock: true},
	{floor: 8, name: "commands", files: "cli.go cli_*.go", imports: "io os os/signal path/filepath runtime runtime/debug sync sync/atomic syscall",
		goroutines: true, clock: true},
}

type room struct {
	floor      int
	name       string
	files      string // patterns, separated by spaces
	imports    string // separated by spaces
	goroutines bool
	clock      bool
	apart      bool
}

const everywhere = "bytes cmp context encoding encoding/json errors fmt iter log/slog maps slices sort strconv strings time unicode/utf8 unicode/utf16"

// starters are the functions that start goroutines without a go statement.
var starters = map[string]bool{
	"(*sync.WaitGroup).Go": true,
	"time.AfterFunc":       true,
	"context.AfterFunc":    true,
}

// clocks are the functions that read the time or wait for it.
var clocks = map[string]bool{
	"time.Now": true, "time.Since": true, "time.Until": true, "time.Sleep": true, "time.After": true,
	"time.AfterFunc": true, "time.NewTimer": true, "time.NewTicker": true, "time.Tick": true,
}

// roomOf returns the room of a file, nil if it has none.
func roomOf(file string) *room {
	for i := range rooms {
		for pattern := range strings.FieldsSeq(rooms[i].files) {
			if ok, _ := filepath.Match(pattern, file); ok {
				return &rooms[i]
			}
		}
	}
	return nil
}

func TestFloors(t *testing.T) {
	pkg := load(t)
	for _, f := range pkg.files {
		name := pkg.file(f.Pos())
		r := roomOf(name)
		if r == nil {
			t.Errorf("%s is on no floor: a new file needs a place in the table of rooms", name)
			continue
		}
		checkImports(t, pkg, f, r)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				if !r.goroutines {
					t.Errorf("%s: %s may not start goroutines", pkg.fset.Position(n.Pos()), r.name)
				}
			case *ast.Ident:
				checkUse(t, pkg, n, name, r)
			}
			return true
		})
	}
}

func checkImports(t *testing.T, pkg *loaded, f *ast.File, r *room) {
	t.Helper()
	allowed := strings.Fields(everywhere + " " + r.imports)
	for _, spec := range f.Imports {
		if path := strings.Trim(spec.Path.Value, `"`); !slices.Contains(allowed, path) {
			t.Errorf("%s: %s may not import %q", pkg.fset.Position(spec.Pos()), r.name, path)
		}
	}
}

// checkUse checks what one identifier in the file of room r stands for.
func checkUse(t *testing.T, pkg *loaded, id *ast.Ident, file string, r *room) {
	t.Helper()
	obj := pkg.info.Uses[id]
	if obj == nil {
		return
	}
	if fn, ok := obj.(*types.Func); ok && starters[fn.FullName()] && !r.goroutines {
		t.Errorf("%s: %s may not start goroutines", pkg.fset.Position(id.Pos()), r.name)
	} else if ok && clocks[fn.FullName()] && !r.clock {
		t.Errorf("%s: %s may not use the clock", pkg.fset.Position(id.Pos()), r.name)
	}
	if obj.Pkg() != pkg.types {
		return
	}
	decl := pkg.file(obj.Pos())
	home := roomOf(decl)
	switch {
	case home == nil || decl == file:
	case home.floor > r.floor:
		t.Errorf("%s: %s (floor %d) uses %s, declared above it in %s (floor %d)",
			pkg.fset.Position(id.Pos()), r.name, r.floor, obj.Name(), decl, home.floor)
	case home == r && r.apart && stem(decl) != stem(file):
		t.Errorf("%s: one of the %s uses %s, declared in another one, %s",
			pkg.fset.Position(id.Pos()), r.name, obj.Name(), decl)
	}
}

// stem is what the names of files about one thing begin with: admission.go and admission_configuration.go.
func stem(file string) string {
	name, _, _ := strings.Cut(strings.TrimSuffix(file, ".go"), "_")
	return name
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

// writeAPI writes one exported name; fields and methods follow in lines that begin with their type, so that each
// line says alone what it is about.
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

// exportedReceiver tells whether a function is no method, or one of an exported type.
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

// TestOptions holds that a field which several option structs share means the same thing in all of them.
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

// TestArchitecturePage holds that docs/architecture.md shows each file on its floor.
func TestArchitecturePage(t *testing.T) {
	data, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]int)
	for _, row := range regexp.MustCompile(`(?m)^\| (\d) \w+ \| ([^|]+)`).FindAllStringSubmatch(string(data), -1) {
		for _, pattern := range strings.Fields(strings.NewReplacer("`", "", ",", "").Replace(row[2])) {
			for _, file := range files {
				if ok, _ := filepath.Match(pattern, file); ok {
					shown[file] = int(row[1][0] - '0')
				}
			}
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if floor, ok := shown[file]; !ok || roomOf(file) == nil || floor != roomOf(file).floor {
			t.Errorf("docs/architecture.md does not show %s on its floor", file)
		}
	}
}

// TestDependencies holds that operators link the standard library alone, and no part of it that is for tests.
func TestDependencies(t *testing.T) {
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
	pkg := load(t)
	seen := make(map[*types.Package]bool)
	var visit func(p *types.Package, by string)
	visit = func(p *types.Package, by string) {
		if seen[p] {
			return
		}
		seen[p] = true
		switch path := p.Path(); {
		case path == "testing", path == "net/http/httptest", path == "expvar", path == "net/http/pprof":
			t.Errorf("the package links %s, by way of %s", path, by)
		case strings.Contains(strings.Split(path, "/")[0], ".") && p != pkg.types:
			t.Errorf("the package links %s, by way of %s", path, by)
		}
		for _, next := range p.Imports() {
			visit(next, p.Path())
		}
	}
	for _, p := range pkg.types.Imports() {
		visit(p, "this package")
	}
}

// TestMigrating holds that each symbol which docs/migrating.md promises is there.
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

// hasSymbol tells whether a package has a name, or a field or method of it, as in "Settings.Peering.Name".
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

// TestFileSizes finds the files in which a second concept hides.
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

// file returns the name of the file of a position.
func (p *loaded) file(pos token.Pos) string { return filepath.Base(p.fset.Position(pos).Filename) }

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
	conf := types.Config{Importer: importer.ForCompiler(p.fset, "source", nil)}
	p.types, err = conf.Check("github.com/kopf-go/kopf", p.fset, p.files, &p.info)
	return p, err
})

// load returns the package; type-checking the standard library below it takes seconds.
func load(t *testing.T) *loaded {
	t.Helper()
	if testing.Short() {
		t.Skip("reads the sources of the standard library")
	}
	p, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
