package installation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// This file formats the objects as files.

// Files holds texts by path, with slashes.
type Files map[string]string

// mark begins each generated file.
const mark = "# Made by the command manifests of "

func (m *Model) header() string {
	return mark + m.Name + ": change its code or the options, not this file.\n"
}

// Documents returns objects as one text.
func Documents(objects []Object) string {
	var parts []string
	for _, o := range objects {
		parts = append(parts, YAML(o.Value))
	}
	return strings.Join(parts, "---\n")
}

// YAMLFiles returns the files with the objects.
func (m *Model) YAMLFiles(objects []Object) Files {
	files := make(Files)
	for _, o := range objects {
		if files[o.File] == "" {
			files[o.File] = m.header()
		} else {
			files[o.File] += "---\n"
		}
		files[o.File] += YAML(o.Value)
	}
	return files
}

// KustomizeFiles returns the same files with a kustomization for kubectl apply -k.
func (m *Model) KustomizeFiles(objects []Object) Files {
	files := m.YAMLFiles(objects)
	var order []string
	for _, o := range objects {
		if !slices.Contains(order, o.File) {
			order = append(order, o.File)
		}
	}
	files["kustomization.yaml"] = m.header() + YAML(Map{
		{Key: "apiVersion", Value: "kustomize.config.k8s.io/v1beta1"}, {Key: "kind", Value: "Kustomization"}, {Key: "resources", Value: order},
	})
	return files
}

// ChartFiles returns the files of a Helm chart for the same objects.
func (m *Model) ChartFiles() Files {
	about := Map{
		{Key: "apiVersion", Value: "v2"}, {Key: "name", Value: m.Name}, {Key: "description", Value: "The operator " + m.Name},
		{Key: "type", Value: "application"}, {Key: "version", Value: cmp.Or(m.Version, "0.1.0")},
	}
	if tag := tag(m.Image); tag != "" {
		about = append(about, Entry{Key: "appVersion", Value: tag})
	}
	files := Files{
		"Chart.yaml":         m.header() + YAML(about),
		"values.yaml":        m.header() + YAML(m.values()),
		"values.schema.json": m.valuesSchema(),
	}
	for _, o := range (&plan{Model: m, chart: true}).objects() {
		name := path.Join("templates", o.File)
		if files[name] == "" {
			files[name] = m.header()
		}
		text := "---\n" + write(o.Value, true)
		if o.If != "" {
			text = "{{- " + o.If + " }}\n" + text + "{{- end }}\n"
		}
		files[name] += text
	}
	return files
}

func (m *Model) values() Map {
	namespaces := Entry{Key: "namespaces", Value: m.Namespaces, Comment: "The namespaces that are served; none for all."}
	if m.Patterns {
		namespaces.Comment = "The namespaces that are served, by names or patterns."
	}
	replicas := Entry{Key: "replicas", Value: m.Replicas}
	if m.Lease == "" {
		replicas.Comment = "There is no election, so there can be one."
	}
	return Map{
		{Key: "image", Value: m.Image},
		replicas,
		namespaces,
		{Key: "logFormat", Value: defaultLogFormat, Comment: "One of full, plain and json."},
		{Key: "monitoring", Value: m.Monitoring, Comment: "Whether Prometheus is to find the operator by a ServiceMonitor."},
		{Key: "resources", Value: defaultResources},
		{Key: "env", Value: []any{}, Comment: "More environment variables of the operator."},
		{Key: "imagePullSecrets", Value: []any{}},
		{Key: "podAnnotations", Value: Map{}},
		{Key: "nodeSelector", Value: Map{}},
		{Key: "affinity", Value: Map{}},
		{Key: "tolerations", Value: []any{}},
		{Key: "crds", Value: Map{{Key: "enabled", Value: true, Comment: "Whether the definitions are part of the release. They stay when it is removed."}}},
	}
}

// valuesSchema returns the JSON schema with which Helm validates the values.
func (m *Model) valuesSchema() string {
	replicas := map[string]any{"type": "integer", "minimum": 0}
	if m.Lease == "" {
		replicas["maximum"] = 1
	}
	namespace := map[string]any{"type": "string", "minLength": 1}
	namespaces := map[string]any{"type": "array", "items": namespace}
	if !m.Patterns {
		namespace["pattern"] = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
	} else {
		namespaces["minItems"] = 1
	}
	type object = map[string]any
	text := object{"type": "string"}
	named := object{"type": "array", "items": object{"type": "object", "required": []string{"name"}, "properties": object{"name": object{"type": "string", "minLength": 1}}}}
	schema := object{
		"$comment": strings.TrimPrefix(strings.TrimSpace(m.header()), "# "), "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
		"properties": object{
			"image": object{"type": "string", "minLength": 1}, "replicas": replicas, "namespaces": namespaces,
			"logFormat":  object{"enum": []any{"full", "plain", "json"}},
			"monitoring": object{"type": "boolean"}, "resources": object{"type": "object"}, "tolerations": object{"type": "array", "items": object{"type": "object"}},
			"env": named, "imagePullSecrets": named, "affinity": object{"type": "object"},
			"podAnnotations": object{"type": "object", "additionalProperties": text}, "nodeSelector": object{"type": "object", "additionalProperties": text},
			"crds": object{"type": "object", "properties": object{"enabled": object{"type": "boolean"}}},
		},
	}
	data, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("kopf: the schema of a chart cannot be encoded: %v", err)) // all values can be encoded
	}
	return string(data) + "\n"
}

// Names returns the sorted paths.
func (f Files) Names() []string { return slices.Sorted(maps.Keys(f)) }
