package types

import "testing"

// TestDescriptions checks that what is described is in the table of types.
func TestDescriptions(t *testing.T) {
	if len(descriptions()) < 60 {
		t.Errorf("only %d types are described", len(descriptions()))
	}
	for typ, d := range descriptions() {
		if d.Text == "" {
			t.Errorf("%s has no description", typ.FullName)
		}
		for _, f := range d.Fields {
			if _, _, scalar := ScalarWord(f.Type); !scalar && f.Ref == nil && f.Type != "any" {
				t.Errorf("%s.%s: the type %q is not known", typ.FullName, f.Name, f.Type)
			}
			if f.Description == "" || typ.Schema.Properties[f.Name] == nil {
				t.Errorf("%s.%s is described as %q, and is of the type: %t", typ.FullName, f.Name, f.Description, typ.Schema.Properties[f.Name] != nil)
			}
		}
	}
}
