package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityPage checks that each test exists that the page on security relies on, and that the page names each target for fuzzing.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	suite := regexp.MustCompile(`(?m)^var _ = Suite\("(\w+)"`)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range function.FindAllSubmatch(source, -1) {
				exists[string(m[1])] = true
			}
		}
		for _, m := range suite.FindAllSubmatch(source, -1) {
			exists["TestContract/"+string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile("`((?:Test|Fuzz)[\\w/]+)`").FindAllSubmatch(page, -1) {
		name := string(m[1])
		if named[name] = true; !exists[name] {
			t.Errorf("docs/security.md names %s, which does not exist", name)
		}
	}
	if len(named) < 50 {
		t.Errorf("docs/security.md names %d tests", len(named))
	}
	for name := range exists {
		if strings.HasPrefix(name, "Fuzz") && !named[name] {
			t.Errorf("docs/security.md does not name %s", name)
		}
	}
}
