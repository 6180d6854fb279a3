package rawjson

import (
	"fmt"
	"strings"
	"testing"
)

func TestUnorderedComparer(t *testing.T) {
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
		loose      bool // the second one is not in compact form
	}{
		{"the same", `{"a":1}`, `{"a":1}`, true, false},
		{"another order", `{"a":1,"b":2,"c":3}`, `{"c":3,"a":1,"b":2}`, true, false},
		{"another order within", `{"a":{"x":[1,{"p":0,"q":1}],"y":2},"b":2}`, `{"b":2,"a":{"y":2,"x":[1,{"q":1,"p":0}]}}`, true, false},
		{"another order of a list", `[1,2]`, `[2,1]`, false, false},
		{"a longer list", `{"a":[1,1],"b":11}`, `{"a":[11],"b":1,1}`, false, false},
		{"lists of objects", `[{"a":1,"b":2},[]]`, `[{"b":2,"a":1},[]]`, true, false},
		{"another value", `{"a":1,"b":2}`, `{"b":1,"a":2}`, false, false},
		{"another key", `{"a":1,"b":2}`, `{"a":1,"c":2}`, false, false},
		{"a key twice", `{"a":1,"a":1}`, `{"a":1,"b":1}`, false, false},
		{"a key twice on the other side", `{"a":1,"b":1}`, `{"a":1,"a":1}`, false, false},
		{"another type", `{"a":"1"}`, `{"a":[1]}`, false, false},
		{"a part", `{"a":1}`, `{"a":1`, false, false},
		{"nothing", ``, ``, false, false},
		{"spaces", `{"a":[1,{}],"b":"x"}`, " { \"b\" : \"x\" ,\n\t\"a\" : [ 1 , { } ] } ", true, true},
		{"escapes", `{"a\u00e9":"\u00e9/","b":1}`, `{"b":1,"aé":"\u00E9\/"}`, true, true},
		{"a number that is written differently", `{"a":1}`, `{"a":1.0}`, false, true},
		{"a comma too many", `{"a":1}`, `{"a":1,}`, false, true},
		{"a comma too few", `{"a":1,"b":2}`, `{"a":1 "b":2}`, false, true},
		{"a comma too few in a list", `[1,2]`, `[1 2]`, false, true},
		{"a colon too few", `{"a":1}`, `{"a" 1}`, false, true},
		{"something after it", `{"a":1}`, `{"a":1}}`, false, true},
		{"an empty object", `{}`, `{}`, true, false},
		{"an empty object and another one", `{}`, `{"a":1}`, false, false},
		{"empty lists", `{"a":[],"b":[[]]}`, `{"b":[[]],"a":[]}`, true, false},
		{"a list with less", `[1,2]`, `[1]`, false, false},
		{"objects and lists", `{"a":{}}`, `{"a":[]}`, false, false},
		{"a deep value", strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100), strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100), true, false},
		{"a value that is too deep", strings.Repeat(`[`, 102) + strings.Repeat(`]`, 102), strings.Repeat(`[`, 102) + strings.Repeat(`]`, 102), false, false},
		{"many members", many(64, true), many(64, false), true, false},
		{"too many members", many(65, true), many(65, false), false, false},
		{"too many members in the same order", many(65, true), many(65, true), true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c UnorderedComparer
			if got := c.Equal([]byte(tt.a), []byte(tt.b)); got != tt.want {
				t.Errorf("Equal(%s, %s) = %t, want %t", tt.a, tt.b, got, tt.want)
			}
			if got := c.Equal([]byte(tt.b), []byte(tt.a)); got != tt.want && !tt.loose {
				t.Errorf("the other way around it is %t, want %t", got, tt.want)
			}
		})
	}
}

// FuzzUnorderedComparer compares the results with those for decoded values.
func FuzzUnorderedComparer(f *testing.F) {
	f.Add(`{"a":1,"b":[{"c":null,"d":"é"}]}`, `{"b":[{"d":"\u00e9","c":null}],"a":1}`)
	f.Add(`[1,2]`, `[2, 1]`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var c UnorderedComparer
		v, err := Decode([]byte(a))
		if err != nil {
			c.Equal([]byte(a), []byte(b))
			return
		}
		if !c.Equal(AppendCompact(nil, []byte(a)), []byte(b)) {
			return
		}
		if w, err := Decode([]byte(b)); err != nil || !Equal(v, w) {
			t.Errorf("%s and %s count as equal: %v", a, b, err)
		}
	})
}
