package patch

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestApplyJSONPatch(t *testing.T) {
	const doc = `{"a":{"b":[1,2,3],"n":null,"x/y":{"~":1}},"s":"text"}`
	for name, tt := range map[string]struct {
		ops, want string
		code      int // of the response
	}{
		"add a key":                 {`[{"op":"add","path":"/new","value":{"k":1}}]`, `{"a":{"b":[1,2,3],"n":null,"x/y":{"~":1}},"new":{"k":1},"s":"text"}`, 0},
		"add without a value":       {`[{"op":"add","path":"/s"}]`, `{"a":{"b":[1,2,3],"n":null,"x/y":{"~":1}},"s":null}`, 0},
		"insert":                    {`[{"op":"add","path":"/a/b/1","value":9}]`, `{"a":{"b":[1,9,2,3],"n":null,"x/y":{"~":1}},"s":"text"}`, 0},
		"append":                    {`[{"op":"add","path":"/a/b/-","value":9}]`, `{"a":{"b":[1,2,3,9],"n":null,"x/y":{"~":1}},"s":"text"}`, 0},
		"insert from the end":       {`[{"op":"add","path":"/a/b/-1","value":9}]`, `{"a":{"b":[1,2,3,9],"n":null,"x/y":{"~":1}},"s":"text"}`, 0},
		"remove an item":            {`[{"op":"remove","path":"/a/b/-1"}]`, `{"a":{"b":[1,2],"n":null,"x/y":{"~":1}},"s":"text"}`, 0},
		"escapes":                   {`[{"op":"replace","path":"/a/x~1y/~0","value":2}]`, `{"a":{"b":[1,2,3],"n":null,"x/y":{"~":2}},"s":"text"}`, 0},
		"replace what is not there": {`[{"op":"replace","path":"/new","value":1}]`, `{"a":{"b":[1,2,3],"n":null,"x/y":{"~":1}},"new":1,"s":"text"}`, 0},
		"replace all":               {`[{"op":"replace","path":"","value":{"k":1}}]`, `{"k":1}`, 0},
		"move":                      {`[{"op":"move","from":"/a/b/0","path":"/s"}]`, `{"a":{"b":[2,3],"n":null,"x/y":{"~":1}},"s":1}`, 0},
		"copy":                      {`[{"op":"copy","from":"/a/x~1y","path":"/s"},{"op":"add","path":"/s/k","value":1}]`, `{"a":{"b":[1,2,3],"n":null,"x/y":{"~":1}},"s":{"k":1,"~":1}}`, 0},
		"test":                      {`[{"op":"test","path":"/a/b","value":[1,2,3]}]`, doc, 0},
		"test a missing key":        {`[{"op":"test","path":"/new","value":null}]`, doc, 0},
		"no operations":             {`null`, doc, 0},

		"test another value":        {`[{"op":"test","path":"/s","value":"other"}]`, "", 422},
		"test another number":       {`[{"op":"test","path":"/a/b/0","value":1.0}]`, "", 422},
		"test below a null":         {`[{"op":"test","path":"/a/n/k","value":null}]`, "", 422},
		"add below nothing":         {`[{"op":"add","path":"/new/k","value":1}]`, "", 422},
		"add below a text":          {`[{"op":"add","path":"/s/k","value":1}]`, "", 422},
		"add past the end":          {`[{"op":"add","path":"/a/b/4","value":1}]`, "", 422},
		"replace past the end":      {`[{"op":"replace","path":"/a/b/-","value":1}]`, "", 422},
		"remove a missing key":      {`[{"op":"remove","path":"/new"}]`, "", 422},
		"remove all":                {`[{"op":"remove","path":""}]`, "", 422},
		"replace all with a text":   {`[{"op":"replace","path":"","value":"x"}]`, "", 422},
		"move nothing":              {`[{"op":"move","from":"/new","path":"/s"}]`, "", 422},
		"no path":                   {`[{"op":"add","value":1}]`, "", 422},
		"a path without a slash":    {`[{"op":"add","path":"s","value":1}]`, "", 422},
		"an unknown operation":      {`[{"op":"merge","path":"/s","value":1}]`, "", 422},
		"a null for an operation":   {`[null]`, "", 422},
		"an object for a patch":     {`{"op":"add"}`, "", 400},
		"a number for an operation": {`[1]`, "", 400},
		"a number for a path":       {`[{"op":"add","path":1}]`, "", 400},
		"nonsense":                  {`[`, "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := rawjson.Decode([]byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			v, err = ApplyJSON(v, []byte(tt.ops))
			var refused *apierrors.StatusError
			if errors.As(err, &refused) != (tt.code != 0) || refused != nil && refused.Code != tt.code {
				t.Fatalf("the error is %v, want one with code %d", err, tt.code)
			}
			if tt.code != 0 {
				return
			}
			got, err := rawjson.Encode(v)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzApplyJSONPatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1]}}`), []byte(`[{"op":"add","path":"/a/b/-","value":2},{"op":"move","from":"/a","path":"/a/b"}]`))
	f.Add([]byte(`[[],{"":null}]`), []byte(`[{"op":"copy","from":"/0","path":"/1/"},{"op":"test","path":"","value":[]},{"op":"remove","path":"/-1"}]`))
	f.Fuzz(func(t *testing.T, doc, ops []byte) {
		v, err := rawjson.Decode(doc)
		if err != nil {
			return
		}
		if v, err = ApplyJSON(v, ops); err != nil {
			var refused *apierrors.StatusError
			if !errors.As(err, &refused) {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		if _, err := rawjson.Encode(v); err != nil {
			t.Error(err)
		}
	})
}
