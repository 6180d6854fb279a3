package contract

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBrokenOperators checks that the documentation shows the output of the commands for the broken operators.
func TestBrokenOperators(t *testing.T) {
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/broken/*.txt")
	if err != nil || len(files) != len(brokenOperators) {
		t.Fatalf("got the files %q (%v) of %d operators", files, err, len(brokenOperators))
	}
	for _, file := range files {
		session, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```text\n"+string(session)+"```\n") {
			t.Errorf("docs/troubleshooting.md does not show %s", file)
		}
	}
}
