package types

import "testing"

// TestDescriptions checks that all described types and fields are in the table of types.
func TestDescriptions(t *testing.T) {
	if len(descriptions()) < 60 {
		t.Errorf("only %d types are described", len(descriptions()))
	}
	for typ, d := range descriptions() {
		if d.Text == "" {
			t.Errorf("%s has no description", typ.FullName)
		}
		for name, text := range d.Fields {
			if text == "" || typ.Schema.Properties[name] == nil {
				t.Errorf("%s.%s is described as %q, and is of the type: %t", typ.FullName, name, text, typ.Schema.Properties[name] != nil)
			}
		}
	}
}
