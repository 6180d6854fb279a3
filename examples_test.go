package kopf_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// TestExamples checks how pkg.go.dev shows the examples. It shows an example that is alone in its file as a whole program. It shows others as their function,
// with the functions and types of the same file that it uses. If they use other declarations, it shows only the body, with names that readers do not know.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("example_*test.go")
	if err != nil {
		t.Fatal(err)
	}
	missing := []string{"", "Client", "Define", "NewRunner", "OnCreate", "OnDaemon", "OnIndex", "OnReconcile", "OnTimer", "OnValidate", "Operator"} // whole programs
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range doc.Examples(file) {
			if e.Play == nil {
				t.Errorf("%s: Example%s uses something of another file", path, e.Name)
			}
			if _, whole := e.Code.(*ast.File); whole {
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == e.Name })
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("these examples are not alone in their files: %q", missing)
	}
	t.Run("the test that ExampleNewRunner shows", deliveryTest)
}
