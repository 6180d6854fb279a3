package rules

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/apiserver/types"
)

// TestTable checks that the table has no unused or undefined sets, and that all its fields exist in the types.
func TestTable(t *testing.T) {
	sets := table().sets
	used := make(map[string]bool)
	for name, rules := range sets {
		for _, r := range rules {
			for _, w := range r.words {
				if regexp.MustCompile(`^[A-Z]`).MatchString(w.name) {
					used[w.name] = true
				}
				if w.name == "oneof" {
					for _, arg := range w.args {
						used[strings.Split(arg, "/")[1]] = true
					}
				}
			}
			owner, _, _ := strings.Cut(strings.TrimPrefix(name, "events."), ".")
			typ := types.Named(owner)
			if typ == nil || len(r.field) == 0 || r.field[0] == "metadata" {
				continue
			}
			if typ.Schema.Properties[r.field[0]] == nil {
				t.Errorf("%s has no field %s", name, r.field[0])
			}
		}
	}
	for name := range used {
		if _, ok := sets[name]; !ok {
			t.Errorf("the table uses the set %s, and does not have it", name)
		}
	}
}

// TestFunctions checks that each function is used.
func TestFunctions(t *testing.T) {
	for name := range functions() {
		if !regexp.MustCompile(`do:` + name + `\b`).MatchString(rulesText) {
			t.Errorf("the function %s is not used", name)
		}
	}
	for name := range formats() {
		if !regexp.MustCompile(`[ :]` + name + `\b`).MatchString(rulesText) {
			t.Errorf("the format %s is not used", name)
		}
	}
}
