package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestProofs checks that each test exists that a page relies on, and that the page on security names each target for fuzzing.
func TestProofs(t *testing.T) {
	exists := tests(t)
	for page, least := range map[string]int{"docs/security.md": 50, "docs/reliability.md": 10} {
		named := proofs(t, page)
		if len(named) < least {
			t.Errorf("%s names %d tests", page, len(named))
		}
		for name := range named {
			if !exists[name] {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
		for name := range exists {
			if page == "docs/security.md" && strings.HasPrefix(name, "Fuzz") && !named[name] {
				t.Errorf("%s does not name %s", page, name)
			}
		}
	}
}

// proofs are the tests that a page names.
func proofs(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile("`((?:Test|Fuzz)[\\w/]+)`").FindAllSubmatch(text, -1) {
		named[string(m[1])] = true
	}
	return named
}

// tests are the names of all tests and suites.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	exists := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	suite := regexp.MustCompile(`(?m)^var _ = (?:Serial|Cluster)?Suite\("(\w+)"`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path == filepath.Join(root, "site") { // no part of an operator
			return filepath.SkipDir
		}
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
	return exists
}
