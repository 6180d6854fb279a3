package apiserver

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// definitionCase is a line of testdata/definitions.jsonl.
type definitionCase struct {
	Name                           string
	Field, Version, Spec, Metadata map[string]any
	Versions                       []any
	Want                           string
}

// definition returns the CRD of a case, given a valid one.
func (c *definitionCase) definition(t *testing.T, base []byte) string {
	t.Helper()
	var object struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(base, &object); err != nil {
		t.Fatal(err)
	}
	change := func(to, by map[string]any) {
		for key, v := range by {
			if to[key] = v; v == nil {
				delete(to, key)
			}
		}
	}
	version := object.Spec["versions"].([]any)[0].(map[string]any)
	if c.Field != nil {
		version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
			"spec": map[string]any{"type": "object", "properties": map[string]any{"f": c.Field}}}}}
	}
	change(version, c.Version)
	change(object.Spec, c.Spec)
	change(object.Metadata, c.Metadata)
	if c.Versions != nil {
		object.Spec["versions"] = c.Versions
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The server refuses invalid CRDs with the messages of kube-apiserver. A test in e2e compares them with those of a real server.
func TestDefinitionRules(t *testing.T) {
	base, err := os.ReadFile("testdata/definitions_base.json")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile("testdata/definitions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	n := 0
	for line := range bytes.Lines(lines) {
		if bytes.HasPrefix(line, []byte("#")) {
			continue
		}
		n++
		var c definitionCase
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.Name, func(t *testing.T) {
			code, text := send(s, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", "", c.definition(t, base))
			var answer struct{ Message string }
			if err := json.Unmarshal([]byte(text), &answer); err != nil {
				t.Fatal(err)
			}
			_, message, _ := strings.Cut(answer.Message, " is invalid: ")
			if want := map[bool]int{true: 201, false: 422}[c.Want == ""]; code != want || message != c.Want {
				t.Errorf("it is answered with %d %s, want %d %s", code, message, want, c.Want)
			}
		})
	}
	if n < 200 {
		t.Errorf("%d definitions are checked, want more", n)
	}
}
