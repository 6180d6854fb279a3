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
	Version    string   // of a chart; "" for the default

	Reconciling, Children bool // whether there are reconcile handlers, and whether some of them own kinds

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

// kinds are all kinds that there may be, in the order of the objects.
var kinds = []string{
	"CustomResourceDefinition", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Service", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
	"Deployment", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "PrometheusRule", "Alert", "Dashboard",
}

// means reports whether a text means a kind: case and plural do not matter.
func means(text, kind string) bool {
	text, kind = strings.ToLower(text), strings.ToLower(kind)
	return text == kind || text == kind+"s" || text == strings.TrimSuffix(kind, "y")+"ies"
}

// CheckKind returns what is wrong with the name of a kind.
func CheckKind(asked string) error {
	if !slices.ContainsFunc(kinds, func(kind string) bool { return means(asked, kind) }) {
		return fmt.Errorf("want one of %s", strings.Join(kinds, ", "))
	}
	return nil
}

// Only returns the objects of some kinds, whose case and plural do not matter.
func Only(objects []Object, asked []string) (some []Object, err error) {
	var present []string
	for _, o := range objects {
		if !slices.Contains(present, o.Kind()) {
			present = append(present, o.Kind())
		}
		if slices.ContainsFunc(asked, func(a string) bool { return means(a, o.Kind()) }) {
			some = append(some, o)
		}
	}
	for _, a := range asked {
		if !slices.ContainsFunc(present, func(kind string) bool { return means(a, kind) }) {
			return nil, fmt.Errorf("invalid kind %q for --only: this operator has %s", a, strings.Join(present, ", "))
		}
	}
	return some, nil
}
