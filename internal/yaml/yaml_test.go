package yaml

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// yamlCases are texts with their values as JSON, one per document.
var yamlCases = []struct{ name, yaml, json string }{
	{"nothing", "", ``},
	{"a comment only", "# nothing\n\n", ``},
	{"a mapping", "a: 1\nb: two\n", `{"a":1,"b":"two"}`},
	{"no end of line", "a: b", `{"a":"b"}`},
	{"CRLF", "a: 1\r\nb: |\r\n  x\r\n  y\r\n", `{"a":1,"b":"x\ny\n"}`},
	{"BOM", "\ufeffa: 1", `{"a":1}`},
	{"UTF-16", "\xff\xfea\x00:\x00 \x001\x00", `{"a":1}`},
	{"UTF-16, big end first", "\xfe\xff\x00a\x00:\x00 \x001", `{"a":1}`},
	{"indented root", "  a: 1\n  b: 2\n", `{"a":1,"b":2}`},
	{"nested mappings", "a:\n    b:\n      c: d\n    e: f\ng: h\n", `{"a":{"b":{"c":"d"},"e":"f"},"g":"h"}`},
	{"a colon in a value", "a: x:y\nb: http://x:80/?y=1#z\n", `{"a":"x:y","b":"http://x:80/?y=1#z"}`},
	{"space before the colon", "a : b", `{"a":"b"}`},
	{"keys with spaces", "a b c: d", `{"a b c":"d"}`},
	{"quoted keys", "\"a: b\": 1\n'c''d' : 2\n", `{"a: b":1,"c'd":2}`},
	{"a sequence", "- a\n- 1\n-\n- - b\n  - c\n", `["a",1,null,["b","c"]]`},
	{"a sequence at its key's column", "a:\n- b\n- c: d\n  e: f\ng: h\n", `{"a":["b",{"c":"d","e":"f"}],"g":"h"}`},
	{"an indented sequence", "a:\n  - b\n  -   c: d\n      e: f\n", `{"a":["b",{"c":"d","e":"f"}]}`},
	{"sequences in a sequence's mapping", "- a:\n  - b\n  c: d\n- e\n", `[{"a":["b"],"c":"d"},"e"]`},
	{"items on the next line", "-\n  a: b\n-\n  - c\n", `[{"a":"b"},["c"]]`},
	{"empty values", "a:\nb: ~\nc: null\nd: ''\ne: # comment\n", `{"a":null,"b":null,"c":null,"d":"","e":null}`},
	{"comments", "# a\na: 1 # b\n  # c\nb: x#y\n#d\n", `{"a":1,"b":"x#y"}`},
	{"a comment after a quote", "a: 'x' # c\nb: [1] # d\n", `{"a":"x","b":[1]}`},
	{"explicit keys", "? a\n: b\n? c\n? |\n  d\n: - e\n  - f\n", `{"a":"b","c":null,"d\n":["e","f"]}`},
	{"a long explicit key", "? a\n  b\n: c", `{"a b":"c"}`},

	{"plain over lines", "a: x\n  y\n\n  z\nb: 1", `{"a":"x y\nz","b":1}`},
	{"plain on the next lines", "a:\n  x\n  y\n", `{"a":"x y"}`},
	{"plain that looks like an item", "a: x\n  - y\n", `{"a":"x - y"}`},
	{"plain with indicators inside", "a: x,y [z] {} & * ! ? -\n", `{"a":"x,y [z] {} & * ! ? -"}`},
	{"plain that begins with indicators", "a: -x\nb: ?x\nc: :x\nd: --\n", `{"a":"-x","b":"?x","c":":x","d":"--"}`},
	{"single quotes", "a: 'it''s # : \\n'\n", `{"a":"it's # : \\n"}`},
	{"single quotes over lines", "a: 'x  \n   y\n\n\n  z'\n", `{"a":"x y\n\nz"}`},
	{"escapes", `"\0\a\b\t\n\v\f\r\e\ \"\/\\\N\_\L\P\x41\u00e9\U0001F600"`,
		`"\u0000\u0007\b\t\n\u000b\f\r\u001b \"/\\\u0085\u00a0\u2028\u2029Aé😀"`},
	{"pairs of JSON", `"\ud83d\ude00 \ud83d \ud83dA"`, `"😀 � �A"`},
	{"double quotes over lines", "a: \"x  \n   y\n\n  z \\\n   w\\\n   v \\t \n u\"\n", `{"a":"x y\nz wv \t u"}`},
	{"quotes at any column", "a:\n  \"b\nc\"\nd: e", `{"a":"b c","d":"e"}`},

	{"literal", "a: |\n  x\n   y\n\n  z\nb: 1\n", `{"a":"x\n y\n\nz\n","b":1}`},
	{"literal, stripped", "a: |-\n  x\n\n\nb: 1\n", `{"a":"x","b":1}`},
	{"literal, kept", "a: |+\n  x\n\n\nb: 1\n", `{"a":"x\n\n\n","b":1}`},
	{"literal, indented", "a: |2\n    x\n   y\nb: |1-\n  z\n", `{"a":"  x\n y\n","b":" z"}`},
	{"literal, indented and stripped", "a: |-2\n   x\n", `{"a":" x"}`},
	{"literal that begins empty", "a: |\n\n\n  x\n", `{"a":"\n\nx\n"}`},
	{"literal with a longer empty line", "a: |\n  x\n     \n  y\n", `{"a":"x\n   \ny\n"}`},
	{"literal with tabs", "a: |\n  \tx\n  y\t\n", `{"a":"\tx\ny\t\n"}`},
	{"literal without an end of line", "a: |\n  x", `{"a":"x"}`},
	{"literal without text", "a: |\nb: |+\n\nc: |-\n", `{"a":"","b":"\n","c":""}`},
	{"literal with what looks like a comment", "a: | # c\n  # x\n# d\nb: 1\n", `{"a":"# x\n","b":1}`},
	{"literal in a sequence", "- |\n x\n- >\n y\n z\n", `["x\n","y z\n"]`},
	{"literal under a sequence at its key's column", "a:\n- |\n x\n", `{"a":["x\n"]}`},
	{"folded", "a: >\n  x\n  y\n\n  z\n\n\n  w\n", `{"a":"x y\nz\n\nw\n"}`},
	{"folded with indented lines", "a: >\n  x\n    y\n  z\n  w\n", `{"a":"x\n  y\nz w\n"}`},
	{"folded around indented lines", "a: >-\n  x\n\n   y\n\n  z\n", `{"a":"x\n\n y\n\nz"}`},
	{"folded, kept", "a: >+\n\n  x\n  y\n\n", `{"a":"\nx y\n\n"}`},

	{"brackets", "a: [1, 'b', \"c\", d e, [f], {g: h}, ]\n", `{"a":[1,"b","c","d e",["f"],{"g":"h"}]}`},
	{"braces", "{a: 1, 'b': [2], c, d: , \"e\":3, f:g, }", `{"a":1,"b":[2],"c":null,"d":null,"e":3,"f:g":null}`},
	{"empty brackets", "a: []\nb: {}\nc: [[], {}]", `{"a":[],"b":{},"c":[[],{}]}`},
	{"brackets over lines", "a: [\n  1, # one\n\n  2\n]\nb: {\n c: d\n}\n", `{"a":[1,2],"b":{"c":"d"}}`},
	{"plain over lines in brackets", "[a\n  b, {c: d\n e}]", `["a b",{"c":"d e"}]`},
	{"pairs in brackets", "[a: b, \"c\": d, ? e : f, g: ]", `[{"a":"b"},{"c":"d"},{"e":"f"},{"g":null}]`},
	{"colons and dashes in brackets", "[a:b, -1, -a, a - b, x#y]", `["a:b",-1,"-a","a - b","x#y"]`},
	{"JSON", "{\"a\": [1, 2.5, true, null, {\"b\": \"c\"}],\n\"d\"\t:\n\"e\"}", `{"a":[1,2.5,true,null,{"b":"c"}],"d":"e"}`},

	{"documents", "a: 1\n---\nb: 2\n--- # c\n- 3\n...\n---\n--- |\n x\n---\n", `{"a":1} {"b":2} [3] "x\n"`},
	{"a document on the line of its marker", "--- {a: 1}\n--- b\n---\tc\n", `{"a":1} "b" "c"`},
	{"what is no marker", "a: ---\nb: ...\nc: ---x\n", `{"a":"---","b":"...","c":"---x"}`},
	{"directives", "%YAML 1.2\n%FOO bar # baz\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n", `{"a":1} {"b":2}`},
	{"null is a document", "---\n~\n---\nnull\n", `null null`},

	{"aliases", "a: &x 1\nb: *x\nc: &y [*x, &z {d: e}]\nf: *y\ng: *z\n", `{"a":1,"b":1,"c":[1,{"d":"e"}],"f":[1,{"d":"e"}],"g":{"d":"e"}}`},
	{"aliases of blocks", "a: &x\n  b: 1\nc: *x\nd: &y\n- e\nf: *y\n", `{"a":{"b":1},"c":{"b":1},"d":["e"],"f":["e"]}`},
	{"anchored keys", "&x a: &y b\nc: [*x, *y]\n*y : d\n", `{"a":"b","c":["a","b"],"b":"d"}`},
	{"an anchor over a mapping whose key has one", "- &x\n  &y a: b\n- *x\n- *y\n", `[{"a":"b"},{"a":"b"},"a"]`},
	{"an anchor anew", "a: &x 1\nb: &x 2\nc: *x", `{"a":1,"b":2,"c":2}`},
	{"anchors of nothing", "a: &x\nb: *x\nc: [&y , *y]\n", `{"a":null,"b":null,"c":[null,null]}`},
	{"merge", "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n", `{"a":{"b":1,"c":2},"d":{"b":1,"c":3}}`},
	{"merge of several", "- &x {b: 1}\n- &y {b: 2, c: 3}\n- <<: [*x, *y]\n  d: 4\n", `[{"b":1},{"b":2,"c":3},{"b":1,"c":3,"d":4}]`},
	{"merge in braces", "{<<: {a: 1, b: 2}, b: 3}", `{"a":1,"b":3}`},
	{"merge that comes last", "b: 1\n<<: {b: 2}\n", `{"b":2}`},
	{"no merge", "'<<': 1\na: <<\n", `{"<<":1,"a":"<<"}`},

	{"tags", "a: !!str 1\nb: !!int '2'\nc: !!float 3\nd: !!bool 'yes'\ne: !!null ''\nf: !!str\n", `{"a":"1","b":2,"c":3,"d":true,"e":null,"f":""}`},
	{"tags above the value", "a: !!str\n  1\nb: !!map\n  c: d\ne: !!seq\n- f\n", `{"a":"1","b":{"c":"d"},"e":["f"]}`},
	{"tags with anchors", "a: !!str &x 1\nb: &y !!str 2\nc: [*x, *y]\n", `{"a":"1","b":"2","c":["1","2"]}`},
	{"full tags", "%TAG !e! tag:yaml.org,2002:\n---\na: !e!str 1\nb: !<tag:yaml.org,2002:str> 2\n", `{"a":"1","b":"2"}`},
	{"own tags", "a: !x 1\nb: !x [2]\nc: ! 3\n", `{"a":"1","b":[2],"c":"3"}`},
	{"binary", "a: !!binary aGVsbG8=", `{"a":"hello"}`},
	{"sets", "!!set {a, b}", `{"a":null,"b":null}`},

	{"booleans", "[true, True, TRUE, y, Y, yes, on, ON, false, n, No, off]", `[true,true,true,true,true,true,true,true,false,false,false,false]`},
	{"what is no boolean", "[tRUE, yEs, 'true', oN]", `["tRUE","yEs","true","oN"]`},
	{"nulls", "[~, null, Null, NULL, nULL]", `[null,null,null,null,"nULL"]`},
	{"integers", "[0, -1, +2, 0x1F, 0o17, 0777, 0b11, -0b11, 1_000, 08, 18446744073709551615]", `[0,-1,2,31,15,511,3,-3,1000,8,18446744073709551615]`},
	{"large integers", "[123456789012345678901234567890]", `[123456789012345678901234567890]`},
	{"floats", "[1.5, 1., .5, +.5, -1e3, 1e+3, 1.0, 6.02E23]", `[1.5,1,0.5,0.5,-1000,1000,1,6.02e+23]`},
	{"what is no number", "[1.2.3, 0x, ., .., e1, 1e, 1:30, 1e400, 0x1p4, _1, 12ab, '1', --1]", `["1.2.3","0x",".","..","e1","1e","1:30","1e400","0x1p4","_1","12ab","1","--1"]`},
	{"dates", "[2001-01-01, 2001-01-01T00:00:00Z, 12:30:45]", `["2001-01-01","2001-01-01T00:00:00Z","12:30:45"]`},
	{"keys that are no text", "1: a\n1.50: b\ntrue: c\nno: d\n0x10: e\n2001-01-01: f\n", `{"1":"a","1.5":"b","true":"c","false":"d","16":"e","2001-01-01":"f"}`},
	{"letters of all kinds", "ä: ß\n日本: '\u3000x\u00a0'\nz: \"\\N\"\n", `{"ä":"ß","日本":"\u3000x\u00a0","z":"\u0085"}`},

	{"a next line is a line end", "a: 1\u0085b: |\u0085  x\u0085c: 'd\u0085e' # f\u0085", `{"a":1,"b":"x\n","c":"d e"}`},
	{"separators end lines", "a: 1\u2028b: 2 # c\u2029d: [e,\u2028 f]", `{"a":1,"b":2,"d":["e","f"]}`},
	{"separators stay in quotes", "a: 'x \u2028 y'\nb: \"x\u2029\n y\"\nc: \"x\n\u2028y\"", `{"a":"x\u2028y","b":"x\u2029\ny","c":"x\u2028y"}`},
	{"separators stay in plain text", "a: x\u2028  y\nb: 1", `{"a":"x\u2028y","b":1}`},
	{"an escaped separator", "a: \"x\\\u2028\u2029 y\"", `{"a":"x\u2029y"}`},
	{"separators in a literal", "a: |\n  x\u2028  y\u2029\nb: 1", `{"a":"x\u2028y\u2029","b":1}`},
	{"separators in a folded block", "a: >-\n  x\u2028  y\n  z\u2029", `{"a":"x\u2028y z"}`},
	{"a literal at its key's column", "a:\n|\n x\nb: &c\n>-\n d\n", `{"a":"x\n","b":"d"}`},
	{"a literal at its dash's column", "a:\n-\n|\n x\n- b\n", `{"a":["x\n","b"]}`},
	{"keys of a tag only", "!!str : a\nb: {!c : d}\ne:\n  !f : g\n", `{"":"a","b":{"":"d"},"e":{"":"g"}}`},
}

func TestParseYAML(t *testing.T) {
	for _, c := range yamlCases {
		t.Run(c.name, func(t *testing.T) {
			docs, err := parse([]byte(c.yaml), false)
			if err != nil {
				t.Fatal(err)
			}
			var want []any
			d := json.NewDecoder(strings.NewReader(c.json))
			d.UseNumber()
			for d.More() {
				var v any
				if err := d.Decode(&v); err != nil {
					t.Fatal(err)
				}
				want = append(want, v)
			}
			if diff := cmp.Diff(want, docs); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseYAMLErrors(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+1)
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := byte('b'); c < 'k'; c++ {
		alias := "*" + string(c-1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat(alias+", ", 8) + alias + "]\n"
	}
	for _, c := range []struct{ name, yaml, want string }{
		{"a tab as indentation", "a:\n\tb: 1", "line 2, column 1: a tab can't be used for indentation"},
		{"a tab in the root", "\ta: 1", "line 1, column 1: a tab"},
		{"a tab in a literal", "a: |\n\tx", "line 2, column 1: a tab"},
		{"a tab before a compact collection", "-\t- a", "line 1, column 3: "},
		{"a duplicate key", "a: 1\nb: 2\na: 3", `line 3, column 1: the key "a" is given twice`},
		{"a duplicate key in braces", "{a: 1, a: 2}", `line 1, column 8: the key "a" is given twice`},
		{"a duplicate key of another type", "1: a\n'1': b", `line 2, column 1: the key "1" is given twice`},
		{"a second mapping on a line", "a: b: c", "line 1, column 5: a mapping can't begin here"},
		{"a mapping after a marker", "--- a: b", "line 1, column 6: a mapping can't begin here"},
		{"a sequence after a key", "a: - b", `line 1, column 4: '-' must begin a line`},
		{"a key over lines", "a\nb: c", "line 2, column 2: a mapping can't begin here"},
		{"no colon", "a: 1\nb\n", "line 2, column 1: a key and a colon are expected, not \"b\""},
		{"an item in a mapping", "a: b\n- c", `line 2, column 1: a key is expected, not "- c"`},
		{"a key in a sequence", "- a\nb: c", "line 2, column 1: "},
		{"too much indentation", "a:\n  b: 1\n   c: 2", "line 3, column 5: a mapping can't begin here: the lines above"},
		{"text under a value", "a: 'b'\n c: d", "line 2, column 2: unexpected indentation of \"c: d\""},
		{"too little indentation", "a:\n    b: 1\n  c: 2", "line 3, column 3: unexpected indentation"},
		{"less than the root", "  a: 1\nb: 2", "line 2, column 1: "},
		{"text after a quote", "a: 'b' c", `line 1, column 8: unexpected "c" after a value`},
		{"text after brackets", "a: [b]c", "line 1, column 7: "},
		{"open brackets", "a: [b\n", "line 1, column 4: the bracket is not closed"},
		{"open braces before a document", "a: {b\n---\n", "line 1, column 4: the bracket is not closed"},
		{"an open quote", "é: \"b\n", "line 1, column 4: the quote is not closed"},
		{"an open quote before a document", "a: 'b\n---\n", "line 1, column 4: the quote is not closed"},
		{"the wrong bracket", "a: [b}", "line 1, column 6: a comma or ']' is expected"},
		{"a missing item", "[a,,b]", "line 1, column 4: a value is expected, not ','"},
		{"an unknown escape", `a: "\q"`, `line 1, column 5: the escape \q is unknown`},
		{"a bad escape", `a: "\x4"`, "2 hexadecimal digits are expected"},
		{"no character", `a: "\UFFFFFFFF"`, "there is no character"},
		{"reserved", "a: @b", "line 1, column 4: a value can't begin with '@'"},
		{"a percent sign", "a: %b", "line 1, column 4: a value can't begin with '%'"},
		{"a directive without a document", "%YAML 1.2\n", "a document (---) is expected"},
		{"a directive before text", "%YAML 1.2\na: 1", "line 2, column 1: a document (---) is expected"},
		{"a strange version", "%YAML 2.0\n---\na: 1", "line 1, column 1: %YAML 1.1 or 1.2 is expected"},
		{"text after the end", "a: 1\n... b", `line 2, column 5: unexpected "b"`},
		{"an unknown alias", "a: *b", `line 1, column 4: there is no anchor "b" before`},
		{"an alias of another document", "a: &b 1\n---\nc: *b", `line 3, column 4: there is no anchor "b" before`},
		{"an alias in itself", "a: &b [*b]", `line 1, column 8: the anchor "b" contains itself`},
		{"an alias in its own mapping", "a: &b\n  c: *b", `line 2, column 6: the anchor "b" contains itself`},
		{"an anchor without a name", "a: & b", "a name is expected after"},
		{"two anchors", "a: &b &c d", "two anchors or tags"},
		{"two anchors on two lines", "a: &b\n  &c d", "line 2, column 3: a value can't have two anchors or tags"},
		{"an alias with an anchor", "a: &b 1\nc: &d *b", "an alias can't have an anchor or a tag"},
		{"an unknown handle", "a: !e!x 1", "line 1, column 4: the handle of the tag \"!e!x\" is not declared"},
		{"a wrong tag", "a: !!int x", `line 1, column 10: a value of !!int is expected`},
		{"a float as an integer", "a: !!int 1.0", "a value of !!int is expected"},
		{"bad base64", "a: !!binary '*'", "the value of !!binary is not base64"},
		{"infinity", "a: .inf", "line 1, column 4: .inf is not a number in JSON"},
		{"not a number", "a: .NaN", "line 1, column 4: .NaN is not a number in JSON"},
		{"a key of nothing", "~: a", "line 1, column 1: a key must be a string, a number or a boolean, not null"},
		{"a list as a key", "? [a]\n: b", "a key must be a string, a number or a boolean, not a list"},
		{"merge of text", "<<: a", "line 1, column 1: the key << needs a mapping or a list of mappings, not a string"},
		{"a key over lines in braces", "a: {b\n : c}", "line 2, column 2: a key and its colon must be on one line"},
		{"a key over lines in brackets", "a: [\"b\u2028c\": d]", "line 2, column 3: a key and its colon must be on one line"},
		{"a place after separators", "a: 1\u2028b: 2\u0085c", "line 3, column 1: a key and a colon are expected"},
		{"a place of a control character after separators", "a: 1\u2028b: \x7f", "line 2, column 4: the control character '\\x7f' must be escaped"},
		{"a control character of Latin 1", "a: \u0080", "line 1, column 4: the control character '\\u0080' must be escaped"},
		{"no character of Unicode", "a: \uffff", "line 1, column 4: the control character '\\uffff' must be escaped"},
		{"a question mark in brackets", "a: [b?c]", "line 1, column 6: a comma or ']' is expected"},
		{"a control character", "a: \x01", "line 1, column 4: the control character '\\x01' must be escaped"},
		{"bytes that are no text", "a: \xff", "line 1, column 4: the text is not UTF-8"},
		{"deep nesting", deep, "more than 10000 values are nested"},
		{"an alias bomb", bomb, "aliases stand for more than 400000 values"},
		{"a bomb of merges", strings.ReplaceAll(bomb, "[x, x", "[x, {y: z}"), "aliases stand for more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			docs, err := parse([]byte(c.yaml), false)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("got %v, error %v; want an error with %q", docs, err, c.want)
			}
		})
	}
}

func TestParseManifests(t *testing.T) {
	for _, c := range []struct{ name, in, want, err string }{
		{"documents", "# a\n---\nkind: A\n---\n---\nkind: B\nm: 1.0\n", `[{"kind":"A"},{"kind":"B","m":1}]`, ""},
		{"JSON", ` {"kind":"A","n":1.0}` + "\n", `[{"kind":"A","n":1.0}]`, ""},
		{"several JSON documents", "{\"kind\":\"A\"}\n---\n{\"kind\":\"B\"}", `[{"kind":"A"},{"kind":"B"}]`, ""},
		{"a list", "kind: List\nitems:\n- kind: A\n- kind: BList\n  items: [{kind: B}]\n", `[{"kind":"A"},{"kind":"B"}]`, ""},
		{"an empty list", "kind: List\nitems: []\n", `null`, ""},
		{"a kind of one's own with items", "kind: Cart\nitems: [a]\n", `[{"kind":"Cart","items":["a"]}]`, ""},
		{"null documents", "---\nnull\n---\nkind: A\n", `[{"kind":"A"}]`, ""},
		{"text", "kind: A\n---\nhello\n", "", "document 2: an object is expected, not a string"},
		{"text in a list", "kind: List\nitems: [{kind: List, items: [1]}]\n", "", "document 1: items[0]: items[0]: an object is expected, not a number"},
		{"broken", "kind: A\n b: 1", "", "line 2, column 3: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects, err := ParseManifests([]byte(c.in))
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) {
					t.Fatalf("got %v, error %v; want the error %q", objects, err, c.err)
				}
				return
			}
			got, _ := rawjson.Encode(objects)
			var want any
			d := json.NewDecoder(strings.NewReader(c.want))
			d.UseNumber()
			if err := d.Decode(&want); err != nil {
				t.Fatal(err)
			}
			canonical, _ := rawjson.Encode(want)
			if err != nil || string(got) != string(canonical) {
				t.Errorf("got %s, error %v; want %s", got, err, canonical)
			}
		})
	}
}

// TestParseYAMLCopies checks that the results share nothing, so that a change of one object changes no other.
func TestParseYAMLCopies(t *testing.T) {
	objects, err := ParseManifests([]byte("a: &x {b: {c: 1}}\nd: *x\ne: {<<: *x}\n"))
	if err != nil {
		t.Fatal(err)
	}
	rawjson.Merge(objects[0]["a"], map[string]any{"b": map[string]any{"c": "changed"}})
	got, _ := rawjson.Encode(objects[0])
	if want := `{"a":{"b":{"c":"changed"}},"d":{"b":{"c":1}},"e":{"b":{"c":1}}}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzYAML(f *testing.F) {
	for _, c := range yamlCases {
		f.Add([]byte(c.yaml))
		f.Add([]byte(c.json))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		docs, err := parse(data, false)
		if took := time.Since(start); took > 5*time.Second {
			t.Fatalf("%d bytes took %s", len(data), took)
		}
		if err != nil && len(docs) > 0 {
			t.Fatalf("got documents with an error: %v, %v", docs, err)
		}
		if err == nil {
			if _, err := rawjson.Encode(docs); err != nil {
				t.Fatalf("got what is not JSON: %v", err)
			}
		}
		want, jsonErr := rawjson.Decode(data)
		if jsonErr != nil || beyondYAML(data, want) {
			return
		}
		if err != nil || len(docs) != 1 || !rawjson.Equal(want, docs[0]) {
			t.Fatalf("got %v, error %v; want %v", docs, err, want)
		}
	})
}

// beyondASCII matches the line breaks of YAML beyond ASCII, and characters that must be escaped. A line break before a colon is valid only in JSON.
var beyondASCII = regexp.MustCompile("[\u007f-\u009f\u2028\u2029\ufffe\uffff]|[\r\n][ \t\r\n]*:")

// beyondYAML reports whether YAML reads a JSON text differently: numbers that no float holds, equal keys, merge keys, text that is not UTF-8, a leading tab, and
// what [beyondASCII] matches.
func beyondYAML(data []byte, v any) bool {
	if tab := strings.TrimLeft(string(data), " \r\n"); strings.HasPrefix(tab, "\t") {
		return true
	}
	if !utf8.Valid(data) || beyondASCII.Match(data) || strings.Contains(string(data), `"<<"`) {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if beyondYAML(nil, e) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if beyondYAML(nil, e) {
				return true
			}
		}
	case json.Number:
		_, err := v.Float64()
		return err != nil || strings.HasPrefix(string(v), "-0")
	}
	return hasEqualKeys(data)
}

// hasEqualKeys reports whether an object in a JSON text has a key twice.
func hasEqualKeys(raw []byte) bool {
	seen, found := map[string]bool{}, false
	_ = rawjson.EachMember(raw, func(quoted, value []byte) bool {
		key := rawjson.Unquote(quoted)
		found = found || seen[key] || hasEqualKeys(value)
		seen[key] = true
		return !found
	})
	_ = rawjson.EachItem(raw, func(value []byte) bool {
		found = found || hasEqualKeys(value)
		return !found
	})
	return found
}
