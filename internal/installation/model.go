// Package installation makes the manifests that install an operator: from a description of it to objects, and from these to YAML, a folder for Kustomize, or a Helm chart.
package installation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/rights"
)

// Model is what is to be installed.
type Model struct {
	Name       string // of the objects
	Image      string
	Home       string   // the namespace of the operator
	Namespaces []string // names or patterns of those that it serves; none for all
	Patterns   bool     // whether there are patterns among them, so that it needs its rights in all namespaces
	Replicas   int
	Lease      string   // for which the replicas stand; "" without an election
	Args       []string // of the command run, besides those for the above
	Monitoring bool     // whether Prometheus is to find the operator

	// Rights are what the operator needs, and Otherwise what it would need if it served all namespaces instead of some, or some instead of all: a chart has both.
	Rights, Otherwise []rights.Right
	Webhooks          *Webhooks // nil without
	Definitions       []map[string]any
}

// Webhooks is what there is to say of the webhooks of an operator.
type Webhooks struct {
	Port          int
	Configuration string   // the name of the configurations
	Kinds         []string // of the configurations
}

// ProbesPort is the port of probes and metrics.
const ProbesPort = 8080

// Set returns the rights of the operator with what is known of its namespaces.
func (m *Model) Set() *rights.Set {
	s := &rights.Set{Rights: m.Rights, Home: m.Home}
	if !m.Patterns {
		s.Namespaces = m.Namespaces
	}
	return s
}

// Object is one manifest.
type Object struct {
	Value any // a [Map] or a map[string]any
	File  string
	If    string // the action of a template that it is in
}

// Kind returns the kind of the object.
func (o *Object) Kind() string {
	m, _ := ordered(o.Value)
	i := slices.IndexFunc(m, func(e Entry) bool { return e.Key == "kind" })
	if i < 0 {
		return ""
	}
	kind, _ := m[i].Value.(string)
	return kind
}

// Objects returns the manifests in the order in which they are applied.
func (m *Model) Objects() []Object { return (&plan{Model: m}).objects() }

// Kinds returns the kinds among some objects, each once.
func Kinds(objects []Object) (kinds []string) {
	for _, o := range objects {
		if kind := o.Kind(); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Only returns the objects of some kinds, whose case and plural do not matter.
func Only(objects []Object, kinds []string) (some []Object, err error) {
	names := func(kind string) []string {
		kind = strings.ToLower(kind)
		return []string{kind, kind + "s", strings.TrimSuffix(kind, "y") + "ies"}
	}
	for _, asked := range kinds {
		if !slices.ContainsFunc(objects, func(o Object) bool { return slices.Contains(names(o.Kind()), strings.ToLower(asked)) }) {
			return nil, fmt.Errorf("invalid kind %q: want one of %s", asked, strings.Join(Kinds(objects), ", "))
		}
	}
	for _, o := range objects {
		if slices.ContainsFunc(kinds, func(asked string) bool { return slices.Contains(names(o.Kind()), strings.ToLower(asked)) }) {
			some = append(some, o)
		}
	}
	return some, nil
}

// WithoutDescriptions returns a definition whose schemas describe nothing.
func WithoutDescriptions(definition map[string]any) map[string]any {
	spec, _ := definition["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	bare := make([]any, len(versions))
	for i, version := range versions {
		v, _ := version.(map[string]any)
		bare[i] = with(v, "schema", bareSchemas(v["schema"]))
	}
	return with(definition, "spec", with(spec, "versions", bare))
}

// with returns a copy of a map with another value.
func with(m map[string]any, key string, value any) map[string]any {
	changed := make(map[string]any, len(m))
	for k, v := range m {
		changed[k] = v
	}
	changed[key] = value
	return changed
}

// bareSchemas returns a schema, or what holds some, without descriptions. Properties may have that name.
func bareSchemas(value any) any {
	switch value := value.(type) {
	case map[string]any:
		bare := make(map[string]any, len(value))
		for k, v := range value {
			_, isText := v.(string)
			switch {
			case k == "description" && isText:
			case k == "default", k == "example", k == "enum":
				bare[k] = v
			default:
				bare[k] = bareSchemas(v)
			}
		}
		return bare
	case []any:
		bare := make([]any, len(value))
		for i, v := range value {
			bare[i] = bareSchemas(v)
		}
		return bare
	}
	return value
}
