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
	eachSource(t, func(path string, source []byte) {
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range function.FindAllSubmatch(source, -1) {
				exists[string(m[1])] = true
			}
		}
		for _, m := range suite.FindAllSubmatch(source, -1) {
			exists["TestContract/"+string(m[1])] = true
		}
	})
	return exists
}

// eachSource calls a function with the Go files of all modules but the site's, which is no part of an operator.
func eachSource(t *testing.T, use func(path string, source []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path == filepath.Join(root, "site") {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err == nil {
			use(path, source)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStatements checks that the id in the name of a subtest is that of a statement of the contract. Each statement from part 5 on
// must have a subtest, or be a documented deviation.
func TestStatements(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "internal/contract/*.md"))
	if err != nil || len(pages) < 9 {
		t.Fatalf("got the pages %v, %v", pages, err)
	}
	stated := make(map[string]string)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^- (?:\*\*)?([A-Z]{2}-T?\d+)\b`).FindAllSubmatch(text, -1) {
			stated[string(m[1])] = filepath.Base(page)
		}
	}
	proven := make(map[string]bool)
	name := regexp.MustCompile("[\" `]((?:CH|BG|AC|OP|RC|TD|HA|OB|DF)-T?\\d+)[ \"`]")
	eachSource(t, func(path string, source []byte) {
		for _, m := range name.FindAllSubmatch(source, -1) {
			id := string(m[1])
			if proven[id] = true; stated[id] == "" {
				t.Errorf("%s: the pages of the contract have no statement %s", path, id)
			}
		}
	})
	deviations, err := os.ReadFile(filepath.Join(root, "docs/deviations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for id, page := range stated {
		if page > "5" && !proven[id] && !strings.Contains(string(deviations), "| "+id+" |") {
			t.Errorf("%s: no subtest is named after %s", page, id)
		}
	}
}
