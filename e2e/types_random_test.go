package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
)

// Random valid and invalid objects of kinds from structs are sent to both servers, and the responses compared.

func TestTypesRandom(t *testing.T) {
	objects := proof.Rounds(200, 3000) // of each kind
	real, ours := judge(t, theCluster(t)), embedded(t)
	files, err := filepath.Glob("../internal/contract/testdata/definitions/*.json")
	if err != nil || len(files) < 2 {
		t.Fatalf("got the files %v, %v", files, err)
	}
	for _, file := range files {
		t.Run("TD-9 "+filepath.Base(file), func(t *testing.T) {
			var definition map[string]any
			if err := json.Unmarshal(mustRead(t, file), &definition); err != nil {
				t.Fatal(err)
			}
			spec := definition["spec"].(map[string]any)
			names := spec["names"].(map[string]any)
			for _, key := range []string{"plural", "singular", "kind", "listKind"} { // not those of the other tests
				if name, ok := names[key].(string); ok {
					names[key] = map[bool]string{true: "random", false: "Random"}[name == strings.ToLower(name)] + name
				}
			}
			delete(names, "shortNames")
			spec["group"] = "random." + spec["group"].(string)
			definition["metadata"] = map[string]any{"name": names["plural"].(string) + "." + spec["group"].(string)}
			version := spec["versions"].([]any)[0].(map[string]any)
			root := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
			withoutRules(root) // only the real server evaluates them
			data, err := json.Marshal(definition)
			if err != nil {
				t.Fatal(err)
			}
			for _, server := range []*endpoint{real, ours} {
				accepted(t, server, data)
			}
			t.Cleanup(func() {
				theCluster(t).Kubectl(t, "delete", "crd", definition["metadata"].(map[string]any)["name"].(string))
			})
			codes := make(map[int]int)
			for seed := range uint64(objects) {
				code := compareObject(t, &objectMaker{rng: rand.New(rand.NewPCG(seed, 1))}, spec, version["name"].(string), root, real, ours)
				codes[code]++
			}
			if codes[201] < objects/30 || codes[422] < objects/10 {
				t.Errorf("got the codes %v, want some objects to fit, and some not to", codes)
			}
		})
	}
}

// withoutRules removes the rules in CEL from a schema.
func withoutRules(node any) {
	switch node := node.(type) {
	case map[string]any:
		delete(node, "x-kubernetes-validations")
		for _, inner := range node {
			withoutRules(inner)
		}
	case []any:
		for _, inner := range node {
			withoutRules(inner)
		}
	}
}

// compareObject sends a dry-run creation of an object to both servers, and returns the code of their responses.
func compareObject(t *testing.T, m *objectMaker, spec map[string]any, version string, root map[string]any, real, ours *endpoint) int {
	t.Helper()
	names := spec["names"].(map[string]any)
	m.spoilt = m.rng.IntN(3) - 1
	object := m.object(root, 0)
	object["apiVersion"], object["kind"] = spec["group"].(string)+"/"+version, names["kind"]
	object["metadata"] = map[string]any{"name": "a"}
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	path := "/apis/" + spec["group"].(string) + "/" + version
	if spec["scope"] == "Namespaced" {
		path += "/namespaces/default"
	}
	r := &request{method: "POST", path: path + "/" + names["plural"].(string) + "?dryRun=All&fieldValidation=Strict", contentType: "application/json", body: string(body)}
	var answers []string
	var code int
	for _, server := range []*endpoint{real, ours} {
		got, err := server.send(t.Context(), r, newSightings())
		if err != nil {
			t.Fatal(err)
		}
		code = got.Code
		answers = append(answers, fmt.Sprintf("%d %s", got.Code, causesOf(t, got.Body)))
	}
	if answers[0] != answers[1] {
		t.Errorf("%s\n%s:\n  %s\n%s:\n  %s", r, real.name, answers[0], ours.name, answers[1])
	}
	return code
}

// causesOf returns the fields in an error response, or an object with its defaults. The real server adds a cause without a field about unevaluated rules. It
// also reports a value of the wrong type as unsupported if the field has an enum.
func causesOf(t *testing.T, answer any) string {
	t.Helper()
	data, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	body, err := kopf.ParseBody(data)
	if err != nil {
		t.Fatal(err)
	}
	if body.Kind() != "Status" {
		object := maps.Clone(body.Map())
		delete(object, "metadata")
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var causes []string
	for _, cause := range body.View("details").Views("causes") {
		if field := cause.String("field"); field != "<nil>" {
			causes = append(causes, field)
		}
	}
	slices.Sort(causes)
	return fmt.Sprint(body.Get("reason")) + " " + strings.Join(slices.Compact(causes), ", ")
}

// objectMaker creates values of a schema, some of which are invalid.
type objectMaker struct {
	rng    *rand.Rand
	spoilt int // the number of values that must still be invalid; -1 for none
}

// odd reports whether the next value must be invalid.
func (m *objectMaker) odd() bool {
	if m.spoilt < 0 || m.rng.IntN(6) > 0 {
		return false
	}
	m.spoilt--
	return true
}

func (m *objectMaker) value(schema map[string]any, depth int) any {
	if schema["format"] != "byte" && m.odd() { // kube-apiserver accepts lists for it
		return []any{nil, "text", -1000000, 1.5, true, []any{}, map[string]any{}, []any{map[string]any{}}, strings.Repeat("long ", 40)}[m.rng.IntN(9)]
	}
	if options, ok := schema["enum"].([]any); ok {
		return options[m.rng.IntN(len(options))]
	}
	if schema["x-kubernetes-int-or-string"] == true {
		return []any{5, "50%"}[m.rng.IntN(2)]
	}
	switch schema["type"] {
	case "object":
		if schema["x-kubernetes-embedded-resource"] == true && m.rng.IntN(4) > 0 {
			return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}
		}
		return m.object(schema, depth)
	case "array":
		items, _ := schema["items"].(map[string]any)
		list := []any{}
		for range m.rng.IntN(3) {
			list = append(list, m.value(items, depth+1))
		}
		return list
	case "integer", "number":
		low, high := number(schema["minimum"], -3), number(schema["maximum"], 100)
		return low + float64(m.rng.IntN(int(min(high-low, 1000))+1))
	case "boolean":
		return m.rng.IntN(2) == 0
	case "string":
		return m.text(schema)
	}
	return map[string]any{"any": m.rng.IntN(9)}
}

func number(v any, otherwise float64) float64 {
	if n, ok := v.(float64); ok {
		return n
	}
	return otherwise
}

func (m *objectMaker) object(schema map[string]any, depth int) map[string]any {
	object := make(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		inner, _ := properties[name].(map[string]any)
		needed := slices.Contains(required, any(name)) || depth == 0 && name == "spec"
		if needed && !m.odd() || !needed && m.rng.IntN(2) == 0 {
			object[name] = m.value(inner, depth+1)
		}
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		for i := range m.rng.IntN(3) {
			object[fmt.Sprint("key", i)] = m.value(values, depth+1)
		}
	}
	if m.rng.IntN(20) == 0 {
		object["unknown"] = 1
	}
	return object
}

func (m *objectMaker) text(schema map[string]any) string {
	switch schema["format"] {
	case "date-time":
		return "2026-01-02T03:04:05Z"
	case "byte":
		return "AAAA"
	}
	if pattern, ok := schema["pattern"].(string); ok {
		texts := []string{"x-" + pattern, "a", "10", "1h", "Ready", "small", "a1"}
		fitting := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return !regexp.MustCompile(pattern).MatchString(text) })
		if len(fitting) > 0 && m.rng.IntN(10) > 0 {
			texts = fitting
		}
		return texts[m.rng.IntN(len(texts))]
	}
	n := int(number(schema["minLength"], 0)) + m.rng.IntN(3)
	return strings.Repeat("é", n)
}
