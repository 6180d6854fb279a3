package kopf

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"testing"
)

// TestProofVariable checks that tests read the number of their rounds while they run. The test cache does not know which
// environment variables are read earlier, so a test with few rounds would pass for one with many.
func TestProofVariable(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isTestCode(filepath.ToSlash(path)) {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
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
