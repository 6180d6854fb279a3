package ownership

import (
	"testing"

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
