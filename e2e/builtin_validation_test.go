package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// causes marks cases that also compare the causes of an error, without values that are structs: kube-apiserver prints their Go fields.
const causes = "(causes)"

var shownStructure = regexp.MustCompile(`(?s)((?:Invalid|Unsupported|Duplicate) value: )[{\[].*?[}\]](: |$)`)

// gist returns a message without the structs and the differences in it.
func gist(message any) any {
	text, _ := message.(string)
	text, _, _ = strings.Cut(text, "\n")
	text = strings.TrimSuffix(text, "]")
	return shownStructure.ReplaceAllString(text, "$1...$2")
}

func gistOfCauses(body map[string]any) []string {
	details, _ := body["details"].(map[string]any)
	list, _ := details["causes"].([]any)
	var all []string
	for _, c := range list {
		cause, _ := c.(map[string]any)
		all = append(all, fmt.Sprint(cause["field"], " ", cause["reason"], " ", gist(cause["message"])))
	}
	return all
}

// validated is a kind with invalid objects. Each line of creations is an object: the smallest one with some fields set, as path=value with values in JSON,
// separated by semicolons. A null removes a field. Each line of updates changes the object in the same way.
type validated struct {
	collection, object, creations, updates string
	status                                 string // updates of the status
}

// TestBuiltinValidation sends invalid objects to both servers.
func TestBuiltinValidation(t *testing.T) {
	t.Parallel()
	compareSequences(t, judge(t, ownCluster(t, nil)), validationSequences(t))
}

func validationSequences(t *testing.T) []sequence {
	var all []sequence
	count := 0
	for i, v := range slices.Concat(podValidations, workloadValidations, networkValidations, otherValidations, moreValidations, webhookValidations) {
		plural := v.collection[strings.LastIndex(v.collection, "/")+1:]
		name := fmt.Sprintf("v%d", i)
		calls := []call{{"POST", v.collection, asJSON, named(v.object, name), []string{causes, warnings, "metadata.name"}}}
		for j, line := range cases(v.creations) {
			object := named(v.object, fmt.Sprintf("%s-%d", name, j))
			calls = append(calls, call{"POST", v.collection + "?dryRun=All", asJSON, withFields(t, object, line), []string{causes, warnings}})
		}
		for _, line := range cases(v.updates) {
			calls = append(calls, call{"PATCH", v.collection + "/" + name + "?dryRun=All", "application/json-patch+json", jsonPatch(t, named(v.object, name), line), []string{causes, warnings}})
		}
		for _, line := range cases(v.status) {
			calls = append(calls, call{"PATCH", v.collection + "/" + name + "/status?dryRun=All", asMerge, withFields(t, `{}`, line), []string{causes}})
		}
		count += len(calls)
		all = append(all, sequence{plural, calls})
	}
	if t.Logf("%d requests", count); count < 400 {
		t.Errorf("%d requests, want 400 at least", count)
	}
	return all
}

// cases returns the lines of a text.
func cases(text string) []string {
	var all []string
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// assignments parses one line.
func assignments(t *testing.T, line string) (paths [][]string, values []any) {
	t.Helper()
	for _, text := range strings.Split(line, " ; ") {
		path, raw, _ := strings.Cut(text, "=")
		var value any
		if err := json.Unmarshal([]byte(strings.ReplaceAll(raw, "<long>", strings.Repeat("a", 254))), &value); err != nil {
			t.Fatal(text, err)
		}
		paths = append(paths, strings.Split(path, "."))
		values = append(values, value)
	}
	for _, path := range paths {
		for i := range path {
			path[i] = strings.ReplaceAll(path[i], "~", ".")
		}
	}
	return paths, values
}

// withFields returns an object with some fields set.
func withFields(t *testing.T, object, line string) string {
	t.Helper()
	var root any
	if err := json.Unmarshal([]byte(object), &root); err != nil {
		t.Fatal(object, err)
	}
	paths, values := assignments(t, line)
	for i, path := range paths {
		root = assigned(root, path, values[i])
	}
	data, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func assigned(v any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if list, ok := v.([]any); ok {
		i, _ := strconv.Atoi(path[0])
		if i == len(list) {
			return append(list, assigned(nil, path[1:], value))
		}
		list[i] = assigned(list[i], path[1:], value)
		return list
	}
	m, ok := v.(map[string]any)
	if !ok {
		m = make(map[string]any)
	}
	if len(path) == 1 && value == nil {
		delete(m, path[0])
		return m
	}
	m[path[0]] = assigned(m[path[0]], path[1:], value)
	return m
}

// jsonPatch returns the patch that sets some fields of an object. Fields that the object does not have are added.
func jsonPatch(t *testing.T, object, line string) string {
	t.Helper()
	var root any
	if err := json.Unmarshal([]byte(object), &root); err != nil {
		t.Fatal(object, err)
	}
	var patch []map[string]any
	paths, values := assignments(t, line)
	for i, path := range paths {
		patch = append(patch, operation(root, path, values[i]))
		root = assigned(root, path, values[i])
	}
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func operation(root any, path []string, value any) map[string]any {
	v, pointer := root, ""
	for i, name := range path {
		var next any
		found := false
		switch v := v.(type) {
		case map[string]any:
			next, found = v[name]
		case []any:
			if j, _ := strconv.Atoi(name); j < len(v) {
				next, found = v[j], true
			}
		}
		pointer += "/" + strings.ReplaceAll(name, "/", "~1")
		if !found {
			if value == nil { // the server has set a default
				return map[string]any{"op": "remove", "path": pointer}
			}
			return map[string]any{"op": "add", "path": pointer, "value": assigned(nil, path[i+1:], value)}
		}
		v = next
	}
	if value == nil {
		return map[string]any{"op": "remove", "path": pointer}
	}
	return map[string]any{"op": "replace", "path": pointer, "value": value}
}
