package proof

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestSleeps checks that tests sleep in bubbles only, where it takes no time. Each other sleep needs
// a comment on its line, or the line above, which says why it must use the real clock.
//
// Functions are in a bubble in these cases. They are passed to synctest.Test. They call
// synctest.Wait, which panics elsewhere. They have one of the harnesses. Or a comment on their first
// line, or the line above, says "in a bubble".
func TestSleeps(t *testing.T) {
	files := os.DirFS(root)
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && strings.HasPrefix(entry.Name(), "."), entry.IsDir() && entry.Name() == "testdata":
			return fs.SkipDir
		case entry.IsDir() || !isTestCode(file):
			return nil
		}
		source, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		found, err := realSleeps(file, source)
		for _, at := range found {
			t.Errorf("%s: a sleep by the real clock: use a bubble or an event, or say why in a comment", at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRealSleeps(t *testing.T) {
	const source = `package p

func TestA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { time.Sleep(1) })
	time.Sleep(1)
	// polls a process
	time.Sleep(1)
	x := 1 // of another line
	for range x { time.Sleep(1) }
	for range x { // polls a process
		time.Sleep(1)
	}
	go func() { time.Sleep(1); synctest.Wait() }()
	sleep := time.Sleep
}

func wait() { // in a bubble
	func() { time.Sleep(1) }()
}

func step(c *C) { time.Sleep(1) }

func TestB(t *testing.T) {
	t.Log("a // b"); time.Sleep(1)
	<-time.After(1)
	<-time.NewTimer(1).C
	select {
	case <-time.After(1):
	}
}
`
	for folder, want := range map[string][]string{"internal/contract": {":5", ":9", ":14", ":24", ":25", ":26"}, "internal/other": {":5", ":9", ":14", ":21", ":24", ":25", ":26"}} {
		got, err := realSleeps(folder+"/a_test.go", []byte(source))
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], folder+"/a_test.go")
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v; want %q", folder, got, err, want)
		}
	}
}

// isTestCode reports whether a file is part of the tests, which some folders also have in other
// files.
func isTestCode(file string) bool {
	if !strings.HasSuffix(file, ".go") {
		return false
	}
	folders := []string{"internal/contract/", "internal/pages/", "internal/promises/", "e2e/"}
	return strings.HasSuffix(file, "_test.go") || slices.ContainsFunc(folders, func(folder string) bool {
		return strings.HasPrefix(file, folder)
	})
}

// harnesses are the types of each folder whose values exist in bubbles only. Leaves of the contract
// also run on real API servers, where time passes for them.
var harnesses = map[string][]string{".": {"life", "pipes", "replica", "replicas"}, "internal/contract": {"C"}}

// realSleeps returns the positions of sleeps that are neither in a bubble nor explained.
func realSleeps(file string, source []byte) (found []string, err error) {
	if !bytes.Contains(source, []byte("time")) {
		return nil, nil
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, spec := range parsed.Imports {
		if spec.Name != nil && spec.Path.Value == `"time"` { // its sleeps would have another name
			found = append(found, fmt.Sprint(file, ":", set.Position(spec.Pos()).Line))
		}
	}
	starts := make(map[int]int) // the columns of the comments, by lines
	for _, group := range parsed.Comments {
		for _, c := range group.List {
			at := set.Position(c.Pos())
			starts[at.Line] = at.Column
		}
	}
	lines := strings.Split(string(source), "\n")
	comment := func(n ast.Node) string {
		line := set.Position(n.Pos()).Line // from 1
		same := ""
		if column := starts[line]; column > 0 {
			same = strings.TrimSpace(strings.TrimLeft(lines[line-1][column-1:], "/"))
		}
		above := strings.TrimSpace(lines[max(line-2, 0)])
		if _, opens, ok := strings.Cut(above, "{ // "); ok { // of the block
			return same + opens
		} else if strings.HasPrefix(above, "// ") {
			return same + above
		}
		return same
	}
	harness := harnesses[path.Dir(file)]
	bubble := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return isSelector(n.Fun, "synctest", "Test")
		case *ast.FuncLit:
			return hasHarness(n.Type.Params, harness) || waits(n.Body) || strings.Contains(comment(n), "in a bubble")
		case *ast.FuncDecl:
			return hasHarness(n.Recv, harness) || hasHarness(n.Type.Params, harness) || waits(n.Body) || strings.Contains(comment(n), "in a bubble")
		}
		return false
	}
	var within []ast.Node
	ast.Inspect(parsed, func(n ast.Node) bool {
		if n == nil {
			within = within[:len(within)-1]
			return true
		}
		if (isSelector(n, "time", "Sleep") || waitsForTime(n, within)) && !slices.ContainsFunc(within, bubble) && comment(n) == "" {
			found = append(found, fmt.Sprint(file, ":", set.Position(n.Pos()).Line))
		}
		within = append(within, n)
		return true
	})
	return found, nil
}

// waitsForTime reports whether a statement does nothing but wait for a channel of package time.
func waitsForTime(n ast.Node, within []ast.Node) bool {
	s, ok := n.(*ast.ExprStmt)
	if !ok {
		return false
	}
	if _, among := within[len(within)-1].(*ast.CommClause); among {
		return false
	}
	receive, ok := s.X.(*ast.UnaryExpr)
	if !ok || receive.Op != token.ARROW {
		return false
	}
	x := receive.X
	if c, ok := x.(*ast.SelectorExpr); ok && c.Sel.Name == "C" {
		x = c.X
	}
	call, ok := x.(*ast.CallExpr)
	return ok && slices.ContainsFunc([]string{"After", "NewTimer", "Tick", "NewTicker"}, func(name string) bool { return isSelector(call.Fun, "time", name) })
}

// waits reports whether a function calls synctest.Wait itself.
func waits(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		found = found || isSelector(n, "synctest", "Wait")
		_, nested := n.(*ast.FuncLit)
		return !found && !nested
	})
	return found
}

// hasHarness reports whether one of the fields, which may be nil, is a pointer to one of the types.
func hasHarness(fields *ast.FieldList, types []string) bool {
	return fields != nil && slices.ContainsFunc(fields.List, func(f *ast.Field) bool {
		pointer, ok := f.Type.(*ast.StarExpr)
		return ok && slices.ContainsFunc(types, func(name string) bool { return isName(pointer.X, name) })
	})
}

func TestRealSleepsOfOtherImports(t *testing.T) {
	for _, name := range []string{"clock", "."} {
		source := "package p\n\nimport " + name + " \"time\"\n"
		if got, err := realSleeps("a_test.go", []byte(source)); err != nil || !slices.Equal(got, []string{"a_test.go:3"}) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func isSelector(n ast.Node, name, selected string) bool {
	s, ok := n.(*ast.SelectorExpr)
	return ok && isName(s.X, name) && s.Sel.Name == selected
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
