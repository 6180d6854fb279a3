package apiserver

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/manifest"
)

func TestLoad(t *testing.T) {
	const (
		crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  scope: Namespaced
  group: example.com
  names: {kind: Thing, plural: things, singular: thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]`
		object    = `{apiVersion: example.com/v1, kind: Thing, metadata: {name: one, namespace: team}}`
		namespace = `{apiVersion: v1, kind: Namespace, metadata: {name: team}}`
		webhook   = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: check}
webhooks:
- name: check.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://127.0.0.1:1/"} # nothing listens there
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]`
	)
	load := func(texts ...string) error {
		var files []manifest.File
		for i, text := range texts {
			files = append(files, manifest.File{Path: string(rune('a'+i)) + ".yaml", Data: []byte(text)})
		}
		return New(Options{}).Load(files)
	}
	for name, texts := range map[string][]string{
		"in order":            {namespace, crd, object},
		"the other way round": {object, crd, namespace},
		"in one file":         {object + "\n---" + crd + "\n---\n" + namespace},
		"webhooks first":      {webhook, object, crd, namespace},
		"twice":               {namespace, crd, object, object},
	} {
		if err := load(texts...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, texts := range map[string][]string{
		`b.yaml: manifest of the Thing "one": no kind "Thing" in "example.com/v1" is served: apply its CustomResourceDefinition before it, or with it`: {namespace, object},
		`a.yaml: manifest of the Pood "one": no kind "Pood" in "v1" is served`:                                                                         {"{apiVersion: v1, kind: Pood, metadata: {name: one}}"},
		`a.yaml: manifest: apiVersion and kind are missing`:                                                                                            {"foo: bar"},
		`a.yaml: manifest "one": kind is missing`:                                                                                                      {"{apiVersion: v1, metadata: {name: one}}"},
		`a.yaml: manifest of the Pod "one": apiVersion is missing`:                                                                                     {"{kind: Pod, metadata: {name: one}}"},
		`a.yaml: manifest of the Pod: apiVersion: a text is expected, not a number`:                                                                    {"{kind: Pod, metadata: [], apiVersion: 1}"},
		`a.yaml: line 2: the key "name" is given twice, at metadata.name`:                                                                              {"{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n\"metadata\": {\"name\": \"one\", \"name\": \"two\"}}"},
		`a.yaml: line 1: the key "a" is given twice, at items[0].data.a`:                                                                               {`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "1", "a": "2"}}]}`},
		`a.yaml: manifest of the Service "one": Service in version "v1" cannot be handled as a Service: json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32`: {
			"{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {ports: [{port: http}]}}"},
		`a.yaml: document 1: items[1]: manifest of the ConfigMap: ConfigMap "" is invalid: metadata.name`: {
			"{kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}, {apiVersion: v1, kind: ConfigMap}]}"},
		`a.yaml: document 1: items[0]: items[1]: manifest "two": apiVersion and kind are missing`: {
			"{kind: List, items: [{kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}, {metadata: {name: two}}]}]}"},
		`a.yaml: document 2: manifest "two": apiVersion and kind are missing`: {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}\n---\n{metadata: {name: two}}"},
		"c.yaml: ": {namespace, crd, "a: [", object},
	} {
		if err := load(texts...); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestLoadWarnsOfUnknownFields(t *testing.T) {
	var log strings.Builder
	s := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	file := manifest.File{Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: one, lables: {}}, dta: {a: b}}")}
	if err := s.Load([]manifest.File{file}); err != nil {
		t.Fatal(err)
	}
	if want := `kind=ConfigMap name=one fields="[dta metadata.lables]"`; !strings.Contains(log.String(), want) {
		t.Errorf("the log is %s, want it to have %s", log.String(), want)
	}
}
