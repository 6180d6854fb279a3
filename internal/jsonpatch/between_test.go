package jsonpatch

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestBetween(t *testing.T) {
	for _, tt := range []struct{ name, before, after, stored, want string }{
		{"nothing", `{"a":1}`, `{"a":1.0}`, `{"a":1,"b":2}`, `{"a":1,"b":2}`},
		{"a value", `{"a":1}`, `{"a":12345678901234567890}`, `{"a":1,"b":2}`, `{"a":12345678901234567890,"b":2}`},
		{"a removal", `{"a":1,"l":[1]}`, `{}`, `{"a":1,"l":[1],"b":2}`, `{"b":2}`},
		{"a map", `{"m":{"a":1}}`, `{"m":{"a":2}}`, `{"m":{"a":1,"x":9}}`, `{"m":{"a":2,"x":9}}`},
		{"an empty map", `{}`, `{"m":{}}`, `{}`, `{"m":{}}`},
		{"a map that others have removed", `{"m":{"a":1}}`, `{"m":{"a":1,"b":{}}}`, `{}`, `{"m":{"b":{}}}`},
		{"a map that was a text", `{"m":"x"}`, `{"m":{"a":1}}`, `{"m":"x"}`, `{"m":{"a":1}}`},
		{"an item by name", `{"l":[{"name":"a","n":1},{"name":"b","n":2}]}`, `{"l":[{"name":"b","n":3},{"name":"a","n":1}]}`, `{"l":[{"name":"a","n":1,"x":1},{"name":"b","n":2,"x":2}]}`,
			`{"l":[{"name":"b","n":3,"x":2},{"name":"a","n":1,"x":1}]}`},
		{"an item by index", `{"l":[{"n":1},{"n":2}]}`, `{"l":[{"n":1},{"n":3},{"n":4}]}`, `{"l":[{"n":1,"x":1},{"n":2,"x":2}]}`, `{"l":[{"n":1,"x":1},{"n":3,"x":2},{"n":4}]}`},
		{"another item in its place", `{"l":[{"name":"a"}]}`, `{"l":[{"name":"b"}]}`, `{"l":[{"name":"a","x":1}]}`, `{"l":[{"name":"b"}]}`},
		{"what others have added", `{"l":["a","b"]}`, `{"l":["a","c"]}`, `{"l":["a","b","z"]}`, `{"l":["a","c","z"]}`},
		{"what others have removed", `{"l":["a","b"]}`, `{"l":["a","b","c"]}`, `{"l":["b"]}`, `{"l":["b","c"]}`},
		{"what others have added, too", `{"l":[]}`, `{"l":["a"]}`, `{"l":["a"]}`, `{"l":["a"]}`},
		{"what is not known of a map that goes", `{"m":{"a":1,"b":{"c":1}}}`, `{}`, `{"m":{"a":1,"b":{"c":1,"x":2},"x":9}}`, `{"m":{"b":{"x":2},"x":9}}`},
		{"a map that goes", `{"m":{"a":{"b":1}}}`, `{}`, `{"m":{"a":{"b":1}}}`, `{}`},
		{"a list that goes", `{"l":["a"]}`, `{}`, `{"l":["a","theirs"]}`, `{"l":["theirs"]}`},
		{"references of one name", `{"l":[{"kind":"A","name":"x"}]}`, `{"l":[{"kind":"A","name":"x","n":1}]}`, `{"l":[{"kind":"A","name":"x"},{"kind":"B","name":"x"}]}`, `{"l":[{"kind":"A","name":"x","n":1},{"kind":"B","name":"x"}]}`},
		{"twice the same", `{"l":[1,1]}`, `{"l":[1]}`, `{"l":[1,1]}`, `{"l":[1]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stored := decoded(t, tt.stored)
			patch := Between(decoded(t, tt.before), decoded(t, tt.after), stored, nil)
			if got := rawjson.Merge(rawjson.Clone(stored), patch); !rawjson.Equal(got, any(decoded(t, tt.want))) {
				t.Errorf("got %v by the patch %v, want %s", got, patch, tt.want)
			}
		})
	}
}

func decoded(t testing.TB, text string) map[string]any {
	t.Helper()
	m, err := rawjson.DecodeObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// FuzzBetween checks that the patch changes the stored value to the result, except for nulls, which a merge patch cannot set.
func FuzzBetween(f *testing.F) {
	for _, seed := range [][2]string{{`{"a":1}`, `{"a":[1,{"b":2}]}`}, {`{"a":[{"name":"x"},{"name":"y","z":{}}]}`, `{"a":[{"name":"y"},{"name":"x"}]}`}, {`{"a":{"b":{}}}`, `{"a":{}}`}, {`{}`, `{"a":{"b":{"c":{}}}}`}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		old, err := rawjson.DecodeObject([]byte(before))
		if err != nil {
			return
		}
		now, err := rawjson.DecodeObject([]byte(after))
		if err != nil || hasNull(old) || hasNull(now) {
			return
		}
		patch := Between(old, now, old, nil)
		got := rawjson.Merge(rawjson.Clone(old), rawjson.Clone(patch))
		if !rawjson.Equal(got, any(now)) {
			a, _ := json.Marshal(got)
			t.Errorf("from %s to %s, got %s\n%s", before, after, a, cmp.Diff(any(now), got))
		}
	})
}

func hasNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, x := range v {
			if hasNull(x) {
				return true
			}
		}
	case []any:
		for _, x := range v {
			if hasNull(x) {
				return true
			}
		}
	}
	return false
}
