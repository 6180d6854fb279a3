package patch

import (
	"testing"

	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestApplyMerge(t *testing.T) {
	for _, tt := range []struct{ object, patch, want string }{
		{`{"a":1,"b":{"c":1,"d":2}}`, `{"a":null,"b":{"c":null,"e":3}}`, `{"b":{"d":2,"e":3}}`},
		{`{}`, `{"a":{"b":null,"c":{"d":null}}}`, `{"a":{"c":{}}}`},
		{`{"a":1}`, `{"a":{"b":null}}`, `{"a":{}}`},
		{`{}`, `{"a":[{"b":"c","d":null},{"e":{"f":null}},[{"g":null}],null]}`, `{"a":[{"b":"c"},{"e":{}},[{}],null]}`},
		{`{"a":[{"b":1}]}`, `{"a":[{"b":null}]}`, `{"a":[{}]}`},
		{`{"a":null}`, `{"a":[{"b":null}]}`, `{"a":[{}]}`},
		{`{"a":{"b":1}}`, `{"a":[{"b":null}]}`, `{"a":[{"b":null}]}`}, // the list replaces an object
		{`{"a":{"b":1}}`, `{"a":2}`, `{"a":2}`},
	} {
		object, patch, want := rawjson.DecodeOrNil([]byte(tt.object)).(map[string]any), rawjson.DecodeOrNil([]byte(tt.patch)), rawjson.DecodeOrNil([]byte(tt.want))
		before := rawjson.Clone(patch)
		if got := ApplyMerge(object, patch.(map[string]any)); !rawjson.Equal(got, want) {
			t.Errorf("%s with the patch %s: got %v, want %s", tt.object, tt.patch, got, tt.want)
		}
		if !rawjson.Equal(patch, before) {
			t.Errorf("the patch %s has changed to %v", tt.patch, patch)
		}
	}
}
