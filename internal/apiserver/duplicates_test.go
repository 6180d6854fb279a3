package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestDuplicatesIn(t *testing.T) {
	hundred := strings.Repeat(`{"x":1,"x":2},`, 2*maxDuplicates)
	for _, tt := range []struct {
		body string
		want []duplicate
	}{
		{`{"a":1,"b":{"a":1}}`, nil},
		{`{"a":1,"b":2,"a":3,"a":4}`, []duplicate{{"a", "a", 1}}},
		{"{\n\"a\":[1,{\"b\":1,\n\"b\":2}],\n\"a\":[]}", []duplicate{{"a[1].b", "b", 3}, {"a", "a", 4}}},
		{`{"a":{"b":1,"b":2},"a":{"b":1,"b":2}}`, []duplicate{{"a.b", "b", 1}, {"a", "a", 1}}},
		{`[ [ ] , { } , [ { "a" : [ ] , "a" : { } } ] ]`, []duplicate{{"[2][0].a", "a", 1}}},
		{`{"a.b":1,"a.b":2,"\u0061.b":3,"c":{"d":1,"d":2`, []duplicate{{"a.b", "a.b", 1}, {"c.d", "d", 1}}},
		{`{"a":1,"a":`, []duplicate{{"a", "a", 1}}},
		{``, nil},
	} {
		if got := duplicatesIn([]byte(tt.body)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.body, got, tt.want)
		}
	}
	got := duplicatesIn([]byte("[" + hundred + "0]"))
	if len(got) != maxDuplicates || got[maxDuplicates-1].path != fmt.Sprintf("[%d].x", maxDuplicates-1) {
		t.Errorf("got %d of many duplicates, want the first %d", len(got), maxDuplicates)
	}
}

// A document is scanned once, however deep it is. No level scans its content again, and no value has a string for its path.
func TestDuplicatesOfDeepDocuments(t *testing.T) {
	const depth = 2000
	deep := func(inner string) []byte {
		return []byte(`{"x":` + strings.Repeat("[", depth) + inner + strings.Repeat("]", depth) + `}`)
	}
	f := &duplicateFinder{body: deep(`"x"`), paths: make(map[string]bool), line: 1}
	if _, more := f.value(0); !more || f.steps != depth+2 {
		t.Errorf("%d values are looked at, want %d", f.steps, depth+2)
	}
	body := deep(strings.Repeat("1,", 10_000) + "1")
	if n := testing.AllocsPerRun(1, func() { duplicatesIn(body) }); n > 100 {
		t.Errorf("%.0f allocations for values without duplicates, want few: no text of the path of each", n)
	}
}
