package kopf

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goldenRows are the sections of the vectors from Kopf for Python, with their numbers of rows. No row may be lost unnoticed, or come without a test.
var goldenRows = map[string]int{
	"annotation_keys": 37, "suffixes": 8, "essences": 14, "diffbase_stored_form": 4, "progress_stored_form": 7,
	"diffs": 23, "diffs_left_scope_for_patch_verification": 7, "diff_reduction": 14,
	"selector_parsing": 33, "selector_resources": 7, "selector_matching": 26, "field_filters": 255,
	"cause_detection": 56, "finalizer_json_patches": 5, "handler_ids": 11, "record_transitions": 9, "error_decisions": 49,
	"objects": 8, // see internal/contract
}

// goldenSections reads the raw sections.
func goldenSections(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	data, err := os.ReadFile("internal/contract/testdata/golden/change-handling.json")
	if err != nil {
		t.Fatal(err)
	}
	var sections map[string]json.RawMessage
	if err := json.Unmarshal(data, &sections); err != nil {
		t.Fatal(err)
	}
	return sections
}

// golden reads the rows of one section in order.
func golden[T any](t *testing.T, section string) []T {
	t.Helper()
	var rows []T
	if err := json.Unmarshal(goldenSections(t)[section], &rows); err != nil {
		t.Fatalf("section %q: %v", section, err)
	}
	if want := goldenRows[section]; len(rows) != want || want == 0 {
		t.Fatalf("section %q has %d rows, want %d", section, len(rows), want)
	}
	t.Logf("section %q: %d rows", section, len(rows))
	return rows
}

// TestGolden checks that some test reads each section. These tests must not skip rows.
func TestGolden(t *testing.T) {
	sections := goldenSections(t)
	delete(sections, "about")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(goldenRows)), slices.Sorted(maps.Keys(sections))); diff != "" {
		t.Errorf("sections (-want +got)\n%s", diff)
	}
	for name, raw := range sections {
		var rows []json.RawMessage
		var named map[string]json.RawMessage
		if json.Unmarshal(raw, &rows) != nil && json.Unmarshal(raw, &named) != nil {
			t.Fatalf("section %q is neither a list nor an object", name)
		}
		if got, want := len(rows)+len(named), goldenRows[name]; got != want {
			t.Errorf("section %q has %d rows, want %d", name, got, want)
		}
	}
	read := map[string]bool{"objects": true} // by its field in the type of the traces
	call := regexp.MustCompile(`golden(?:\[|Sections\(t\)\[)(?:.|\n)*?"(\w+)"[)\]]`)
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file == "golden_test.go" {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllSubmatch(source, -1) {
			read[string(m[1])] = true
		}
	}
	for name := range sections {
		if !read[name] {
			t.Errorf("no test reads the section %q", name)
		}
	}
}
