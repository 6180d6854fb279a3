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
		ref, found := ControllerOf([]byte(references))
		if got := rawjson.Unquote(ref.UID); got != want || found != (want != "") {
			t.Errorf("%s: got %+v, %t, want that with the uid %q", references, ref, found, want)
		}
	}
}
