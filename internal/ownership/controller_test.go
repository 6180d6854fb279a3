package ownership

import (
	"testing"

	"github.com/kopf-go/kopf/internal/applyset"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestControllerOf(t *testing.T) {
	for references, want := range map[string]string{
		`[{"uid": "a"}, {"uid": "b", "controller": true}, {"uid": "c", "controller": true}]`: "b",
		`[{"uid": "a", "controller": false}, {"uid": "b", "controller": null}]`:              "",
		`[]`:                               "",
		`null`:                             "",
		``:                                 "",
		`{"uid": "a", "controller": true}`: "",
		`[1, "a", null]`:                   "",
	} {
		ref := ControllerOf([]byte(references))
		if got := rawjson.StringAt(ref, "uid"); got != want || (ref == nil) != (want == "") {
			t.Errorf("%s: got %s, want that with the uid %q", references, ref, want)
		}
	}
}

func TestControllerOfKind(t *testing.T) {
	for references, want := range map[string]string{
		`[{"apiVersion":"example.com/v1","kind":"Thing","uid":"a","controller":true}]`:  "a",
		`[{"apiVersion":"example.com/v2","kind":"Thing","uid":"b","controller":true}]`:  "b",
		`[{"apiVersion":"example.com/v1","kind":"Thing","uid":"a","controller":false}]`: "",
		`[{"apiVersion":"other.com/v1","kind":"Thing","uid":"a","controller":true}]`:    "",
		`[{"apiVersion":"v1","kind":"Thing","uid":"a","controller":true}]`:              "",
		`[{"apiVersion":"example.com/v1","kind":"Other","uid":"a","controller":true}]`:  "",
		`[{"apiVersion":"example.com/v1","kind":"Thing","uid":"","controller":true}]`:   "",
		`null`: "",
	} {
		if got := rawjson.Unquote(ControllerOfKind([]byte(references), "example.com", "Thing")); got != want {
			t.Errorf("%s: got %q, want %q", references, got, want)
		}
	}
	core := `[{"apiVersion":"v1","kind":"Pod","uid":"p","controller":true}]`
	if got := rawjson.Unquote(ControllerOfKind([]byte(core), "", "Pod")); got != "p" {
		t.Errorf("%s: got %q, want p", core, got)
	}
}

func TestSetOf(t *testing.T) {
	id := applyset.ID("name", "namespace", "Thing", "example.com")
	managed := func(manager, fields string) []byte {
		return []byte(`[{"manager":"` + manager + `","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":` + fields + `}]`)
	}
	labels := `{"f:metadata":{"f:labels":{"f:` + applyset.PartOfLabel + `":{}}}}`
	for _, tt := range []struct {
		label   string
		managed []byte
		want    string
	}{
		{id, managed("us", labels), id},
		{id, managed("them", labels), ""},
		{id, managed("us", `{"f:metadata":{}}`), ""},
		{"other", managed("us", labels), ""},
		{"", nil, ""},
	} {
		if got := SetOf(tt.label, tt.managed, "us"); got != tt.want {
			t.Errorf("the label %q with %s: got %q, want %q", tt.label, tt.managed, got, tt.want)
		}
	}
}
