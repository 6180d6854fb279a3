package proof

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// root is the folder of the module.
const root = "../.."

func TestRounds(t *testing.T) {
	for value, want := range map[string]int{"": 12, "0": 12, "false": 12, "1": 40, "true": 40} {
		t.Setenv(Variable, value)
		if testing.Short() && want == 12 {
			want = 3
		}
		if got := Rounds(12, 40); got != want {
			t.Errorf("%s=%q: got %d rounds, want %d", Variable, value, got, want)
		}
	}
}

// TestVariable checks that tests read the number of their rounds while they run. The test cache does not know which
// environment variables are read earlier, so a test with few rounds would pass for one with many.
func TestVariable(t *testing.T) {
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isTestCode(path) {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, path), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.VAR {
				ast.Inspect(d, func(n ast.Node) bool {
					_, function := n.(*ast.FuncLit)
					if e, ok := n.(ast.Expr); ok && (isSelector(e, "proof", "Rounds") || isSelector(e, "proof", "Full")) {
						t.Errorf("%s: the environment is read before the tests", set.Position(n.Pos()))
					}
					return !function
				})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
