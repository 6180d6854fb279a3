package structschema

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The types themselves are in a judge in e2e/judges, because this module does not import them.
func TestMarkers(t *testing.T) {
	if !slices.IsSorted(atomicTypes) {
		t.Error("DF-88: the atomic types are not sorted")
	}
	for i, m := range markers {
		if strings.Count(m.field, ".") != 2 || !strings.Contains(m.field, "/") {
			t.Errorf("DF-88: %s is no field of a type", m.field)
		}
		if i > 0 && m.field <= markers[i-1].field {
			t.Errorf("DF-88: %s is not sorted", m.field)
		}
		if known, err := readTags(m.tags); err != nil || len(known.values) == 0 {
			t.Errorf("DF-88: %s has %s: %v", m.field, m.tags, err)
		}
		if markersOf(m.field) != m.tags {
			t.Errorf("DF-88: %s is not found", m.field)
		}
	}
}

func TestIdentifies(t *testing.T) {
	type port struct {
		Number   int    `json:"number"`
		Protocol string `json:"protocol,omitempty" default:"TCP"`
		IP       string `json:"ip,omitempty"`
	}
	for _, tt := range []struct {
		keys string
		want bool
	}{
		{"number", true},
		{"number,protocol", true},
		{"ip", false},
		{"missing", false},
	} {
		got := identifies(strings.Split(tt.keys, ","), reflect.TypeFor[[]port]())
		if got != tt.want {
			t.Errorf("DF-88 %s: got %t, want %t", tt.keys, got, tt.want)
		}
	}
}

func TestObjectMetaSchema(t *testing.T) {
	if got := objectMetaSchema(false); len(got) != 1 || got["type"] != "object" {
		t.Errorf("DF-88: got %v, want an object without fields", got)
	}
	fields, _ := objectMetaSchema(true)["properties"].(map[string]any)
	if fields["labels"] == nil || fields["uid"] != nil {
		t.Errorf("DF-88: got the fields %v", fields)
	}
}

func TestKubernetesName(t *testing.T) {
	if got := kubernetesName(reflect.TypeFor[field]()); got != "" {
		t.Errorf("DF-88: got %q for a type of another module", got)
	}
}
