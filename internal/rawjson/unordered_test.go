package rawjson

import (
	"fmt"
	"strings"
	"testing"
)

func TestEqualUnordered(t *testing.T) {
	many := func(n int, first bool) string {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`"k%02d":%d`, i, i%10))
		}
		if !first {
			members[0], members[n-1] = members[n-1], members[0]
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	for _, tt := range []struct {
		name, a, b string
		want       bool
	}{
		{"the same", `{"a":1}`, `{"a":1}`, true},
		{"another order", `{"a":1,"b":2,"c":3}`, `{"c":3,"a":1,"b":2}`, true},
		{"another order within", `{"a":{"x":[1,{"p":0,"q":1}],"y":2},"b":2}`, `{"b":2,"a":{"y":2,"x":[1,{"q":1,"p":0}]}}`, true},
		{"another order of a list", `[1,2]`, `[2,1]`, false},
		{"a longer list", `{"a":[1,1],"b":11}`, `{"a":[11],"b":1,1}`, false},
		{"lists of objects", `[{"a":1,"b":2},[]]`, `[{"b":2,"a":1},[]]`, true},
		{"another value", `{"a":1,"b":2}`, `{"b":1,"a":2}`, false},
		{"another key", `{"a":1,"b":2}`, `{"a":1,"c":2}`, false},
		{"a key twice", `{"a":1,"a":1}`, `{"a":1,"b":1}`, false},
		{"a key twice on the other side", `{"a":1,"b":1}`, `{"a":1,"a":1}`, false},
		{"another type", `{"a":"1"}`, `{"a":[1]}`, false},
		{"a part", `{"a":1}`, `{"a":1`, false},
		{"nothing", ``, ``, true},
		{"many members", many(64, true), many(64, false), true},
		{"too many members", many(65, true), many(65, false), false},
		{"too many members in the same order", many(65, true), many(65, true), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := EqualUnordered([]byte(tt.a), []byte(tt.b)); got != tt.want {
				t.Errorf("EqualUnordered(%s, %s) = %t, want %t", tt.a, tt.b, got, tt.want)
			}
			if got := EqualUnordered([]byte(tt.b), []byte(tt.a)); got != tt.want {
				t.Errorf("the other way around it is %t, want %t", got, tt.want)
			}
		})
	}
}

// FuzzEqualUnordered compares what it reports with what decoded values say.
func FuzzEqualUnordered(f *testing.F) {
	f.Add(`{"a":1,"b":[{"c":null,"d":"é"}]}`, `{"b":[{"d":"\u00e9","c":null}],"a":1}`)
	f.Add(`[1,2]`, `[2,1]`)
	f.Fuzz(func(t *testing.T, a, b string) {
		v, err := Decode([]byte(a))
		w, err2 := Decode([]byte(b))
		if err != nil || err2 != nil {
			EqualUnordered([]byte(a), []byte(b))
			return
		}
		if EqualUnordered(AppendCompact(nil, []byte(a)), AppendCompact(nil, []byte(b))) && !Equal(v, w) {
			t.Errorf("%s and %s count as equal", a, b)
		}
	})
}
