package installation

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

func TestYAML(t *testing.T) {
	tests := []struct {
		name  string
		value any
		want  string
	}{
		{"an empty map", Map{}, "{}\n"},
		{"an empty list", []any{}, "[]\n"},
		{"a map in its order", Map{{Key: "b", Value: 1}, {Key: "a", Value: true}}, "b: 1\na: true\n"},
		{"a map without an order", map[string]any{"spec": 1, "kind": "X", "apiVersion": "v1", "a": nil}, "apiVersion: v1\nkind: X\na: null\nspec: 1\n"},
		{"nested", Map{{Key: "a", Value: []Map{{{Key: "b", Value: []any{"c"}}, {Key: "d", Value: Map{{Key: "e", Value: "f"}}}}}}}, "a:\n  - b:\n      - c\n    d:\n      e: f\n"},
		{"lists of lists", []any{[]any{"a", []any{}}, map[string]any{}}, "-\n  - a\n  - []\n- {}\n"},
		{"words that mean something", []any{"yes", "No", "on", "null", "~", "1", "1e3", "2020-01-01", "0x1", ".5", "", "a: b", "a #b", "- a", "a ", "true", "x:"},
			"- \"yes\"\n- \"No\"\n- \"on\"\n- \"null\"\n- \"~\"\n- \"1\"\n- \"1e3\"\n- \"2020-01-01\"\n- \"0x1\"\n- \".5\"\n- \"\"\n- \"a: b\"\n- \"a #b\"\n- \"- a\"\n- \"a \"\n- \"true\"\n- \"x:\"\n"},
		{"plain texts", []any{"a b", "/healthz", "example.com/app:1", "rbac.authorization.k8s.io"}, "- a b\n- /healthz\n- example.com/app:1\n- rbac.authorization.k8s.io\n"},
		{"lists on one line", Map{{Key: "a", Value: []string{}}, {Key: "b", Value: []string{"", "x", "*", "a,b", "y", "n.m/o"}}}, "a: []\nb: [\"\", x, \"*\", \"a,b\", \"y\", n.m/o]\n"},
		{"lines", Map{{Key: "a", Value: "b\n\n  c\n"}, {Key: "d", Value: "e\nf"}, {Key: "g", Value: " h\ni"}, {Key: "j", Value: "k\n\n"}}, "a: |\n  b\n\n    c\nd: |-\n  e\n  f\ng: \" h\\ni\"\nj: \"k\\n\\n\"\n"},
		{"comments", Map{{Key: "a", Value: []Item{{Value: Map{{Key: "b", Value: 1}}, Comment: "one\ntwo"}}, Comment: "zero"}}, "# zero\na:\n  # one\n  # two\n  - b: 1\n"},
		{"numbers", []any{json.Number("9007199254740993"), 1.5, int64(-1)}, "- 9007199254740993\n- 1.5\n- -1\n"},
		{"no space for braces", "{{ x }}", "\"{{ x }}\"\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, YAML(tt.value)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	t.Run("templates", func(t *testing.T) {
		value := Map{{Key: "a", Value: Expression(".Values.a | quote")}, {Key: "b", Value: "x {{ y }}"}, {Key: "c", Value: Expression("toJson ."), If: "with .Values.c"}, {Key: "d", Value: []Item{{Value: Expression("quote ."), If: "range .Values.d"}}}}
		want := "a: {{ .Values.a | quote }}\nb: \"x {{ \"{{\" }} y }}\"\n{{- with .Values.c }}\nc: {{ toJson . }}\n{{- end }}\nd:\n{{- range .Values.d }}\n  - {{ quote . }}\n{{- end }}\n"
		if diff := cmp.Diff(want, write(value, true)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// FuzzYAML checks that parsing the output gives the value again.
func FuzzYAML(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"b",{"c":null}],"d":{}}`, `["yes","1e3",""," x","a\n b\n","\u0000\u2028\ufeff\ud83d\ude00","---\n...","é: ü"]`, `{"":"","a b":1,"- x":[[]],"# y":{"z: z":"{{"}}`, `"x\ty"`, `{"a":"b\n\n\nc\n"}`, `-1.5e300`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value, err := rawjson.Decode([]byte(text))
		if err != nil || json.Unmarshal([]byte(text), new(any)) != nil { // such as numbers out of range
			return
		}
		written := YAML(value)
		if written != YAML(value) {
			t.Errorf("%q is written in two ways", text)
		}
		read, err := yaml.Parse([]byte(written), false)
		if err != nil {
			t.Fatalf("%q was written as\n%s\nwhich cannot be read: %v", text, written, err)
		}
		var got any
		if len(read) == 1 {
			got = read[0]
		}
		if len(read) > 1 || !rawjson.Equal(value, got) && !(value == nil && len(read) == 0) {
			t.Errorf("%q was written as\n%s\nwhich reads as %#v", text, written, read)
		}
	})
}
