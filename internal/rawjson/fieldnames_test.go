package rawjson

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type sized struct {
	MaxSize  int    `json:"maxSize"`
	Kind     string `json:"kind,omitempty"`
	Plain    string // without a tag
	Untagged *sizedBase
	//lint:ignore SA5008 encoding/json ignores this name
	Bad    string            `json:"a,b'"`
	Inner  *sized            `json:"inner,omitempty"`
	List   []sized           `json:"list,omitempty"`
	Map    map[string]*sized `json:"map,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Own    ownDecoding       `json:"own,omitzero"`
	At     time.Time         `json:"at,omitzero"`
	Any    any               `json:"any,omitempty"`
	Array  [1]sizedBase      `json:"array,omitzero"`
	sizedBase
	*SizedOther
	//lint:ignore U1000 decoders must skip it
	hidden int
}

type sizedBase struct {
	MaxSize int `json:"MAXSIZE"`
	Deep    int `json:"deep"`
	Twice   int `json:"twice"`
}

type SizedOther struct {
	Twice int `json:"twice"`
	TWICE int
	Other int `json:"-"`
	*sizedBase
}

// ownDecoding decodes itself.
type ownDecoding struct{ Text string }

func (o *ownDecoding) UnmarshalJSON(data []byte) error { o.Text = string(data); return nil }

func TestUnmarshal(t *testing.T) {
	for name, tt := range map[string]struct{ data, same string }{
		"the last one is another field":      {`{"maxSize":3,"maxsize":900}`, `{"maxSize":3}`},
		"the first one is another field":     {`{"Maxsize":900,"maxSize":3}`, `{"maxSize":3}`},
		"the only one is another field":      {`{"maxsize":900}`, `{}`},
		"another type":                       {`{"maxsize":"many","maxSize":3}`, `{"maxSize":3}`},
		"letters that fold to others":        {"{\"\u212aind\":\"x\",\"maxſize\":1}", `{}`},
		"an escaped name":                    {`{"\u006daxsize":900,"max\u0053ize":3}`, `{"maxSize":3}`},
		"a field without a tag":              {`{"plain":"x"}`, `{"Plain":"x"}`},
		"a struct in a field without a tag":  {`{"untagged":{"maxsize":1,"Deep":2,"deep":3}}`, `{"Untagged":{"deep":3}}`},
		"a tag that encoding/json ignores":   {`{"Bad":"x","A":"y","bad":"z"}`, `{"Bad":"x"}`},
		"a struct below a pointer":           {`{"inner":{"maxsize":1,"inner":{"Maxsize":2,"maxSize":3}}}`, `{"inner":{"inner":{"maxSize":3}}}`},
		"structs in a list":                  {`{"list":[{"maxsize":1}, {"maxSize":2} ,{"maxSize":3,"maxsize":4}]}`, `{"list":[{},{"maxSize":2},{"maxSize":3}]}`},
		"structs in a map":                   {`{"map":{"a":{"maxsize":1},"A":{"maxSize":2}}}`, `{"map":{"a":{},"A":{"maxSize":2}}}`},
		"structs in an array":                {`{"array":[{"DEEP":1,"deep":2}]}`, `{"array":[{"deep":2}]}`},
		"keys of a map":                      {`{"labels":{"a":"1","A":"2"},"LABELS":{"a":"3"}}`, `{"labels":{"a":"1","A":"2"}}`},
		"values without a type":              {`{"any":{"maxsize":1,"maxSize":2}}`, `{"any":{"maxsize":1,"maxSize":2}}`},
		"a type that decodes itself":         {`{"own":{"text":"x"},"OWN":1}`, `{"own":{"text":"x"}}`},
		"a type that decodes itself as text": {`{"at":"2026-01-02T03:04:05Z","At":"never"}`, `{"at":"2026-01-02T03:04:05Z"}`},
		"an embedded struct":                 {`{"MAXSIZE":1,"deep":2,"Deep":3,"maxSize":4}`, `{"maxSize":4,"MAXSIZE":1,"deep":2}`},
		"embedded fields of one name":        {`{"twice":1,"Twice":2,"TWICE":3}`, `{"TWICE":3}`},
		"a field that is not in the JSON":    {`{"Other":1,"hidden":2,"-":3}`, `{}`},
		"unknown names":                      {`{"x":{"maxsize":1},"y":[{}],"maxSize":2}`, `{"maxSize":2}`},
		"spaces":                             {" { \"maxsize\" : 1 ,\n\"maxSize\" : 2 } ", `{"maxSize":2}`},
		"null":                               {`{"inner":null,"list":null,"map":null}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			var got, want sized
			if err := Unmarshal([]byte(tt.data), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tt.same), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(sized{}, SizedOther{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestUnmarshalInto(t *testing.T) {
	const data = `{"maxsize":1,"maxSize":2}`
	var pointer *sized
	var plain any
	target := any(&sized{})
	for _, into := range []any{&pointer, &target} {
		if err := Unmarshal([]byte(data), into); err != nil {
			t.Error(err)
		}
	}
	if into := target.(*sized); into.MaxSize != 2 || pointer.MaxSize != 2 {
		t.Errorf("got %d in an interface, and %d below a pointer, want 2", into.MaxSize, pointer.MaxSize)
	}
	if err := Unmarshal([]byte(data), &plain); err != nil || len(plain.(map[string]any)) != 2 {
		t.Errorf("got %v, %v, want both keys", plain, err)
	}
	for _, into := range []any{nil, sized{}, (*sized)(nil)} {
		if err := Unmarshal([]byte(data), into); err == nil {
			t.Errorf("got no error for a target of the type %T", into)
		}
	}
}

func TestExactNames(t *testing.T) {
	right := []byte(`{"maxSize":1,"list":[{"deep":1}],"other":{}}`)
	if got := ExactNames(right, &sized{}); &got[0] != &right[0] {
		t.Error("got a copy of an object without misspelled names")
	}
	wrong := `{"list":[{"maxsize":1}]}`
	data := []byte(wrong)
	if got := ExactNames(data, &sized{}); string(data) != wrong || len(got) != len(data) {
		t.Errorf("got %s, and the data became %s", got, data)
	}
	for i := range wrong { // the decoder reports malformed JSON
		if err := Unmarshal([]byte(wrong[:i]), &sized{}); err == nil {
			t.Errorf("got no error for %s", wrong[:i])
		}
	}
	for _, bad := range []string{`{"list":[{]}`, `{"map":{"a":}}`, `[:]`, `{"list":{"maxsize":1}`, `{"list":[1 2`, `{"list":[,,`} {
		if err := Unmarshal([]byte(bad), &sized{}); err == nil {
			t.Errorf("got no error for %s", bad)
		}
	}
	deep := strings.Repeat(`{"inner":`, 5000) + `{"maxsize":1}` + strings.Repeat(`}`, 5000)
	var got sized
	if err := Unmarshal([]byte(deep), &got); err != nil {
		t.Error(err)
	}
}

// encoding/json replaces the value in an interface, unless it is a pointer.
func TestUnmarshalIntoInterface(t *testing.T) {
	for name, into := range map[string]any{
		"a struct": sizedBase{}, "a nil pointer": (*sizedBase)(nil), "a map of structs": map[string]sizedBase{}, "nil": nil,
	} {
		got, want := into, into
		const data = `{"maxsize":1,"a":{"maxsize":2}}`
		if err := Unmarshal([]byte(data), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(data), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	var pointer any = &sizedBase{}
	inner := pointer
	if err := Unmarshal([]byte(`{"maxsize":1,"Deep":2}`), &inner); err != nil || pointer.(*sizedBase).Deep != 0 {
		t.Errorf("got %v, %v, want an object without values", pointer, err)
	}
}
