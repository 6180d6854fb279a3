package controller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/pages"
)

// TestPage checks that the Go code of the page equals the files in this folder, and so compiles and works.
func TestPage(t *testing.T) {
	blocks, err := pages.Read(filepath.Join("..", "..", "docs", "envtest.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.WriteString(unindented(string(data)))
	}
	found := 0
	for _, b := range blocks {
		if b.Language != "go" {
			continue
		}
		found++
		for part := range strings.SplitSeq(unindented(b.Text), "// …\n") {
			if !strings.Contains(source.String(), part) {
				t.Errorf("docs/envtest.md:%d: the code is in no file of this folder:\n%s", b.Line, part)
			}
		}
	}
	if found == 0 {
		t.Error("the page has no code")
	}
}

// unindented returns a text without the spaces at the beginnings of its lines, to compare fragments of a function.
func unindented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
