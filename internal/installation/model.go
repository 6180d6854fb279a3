// Package installation generates the manifests that install an operator: as YAML, as a Kustomize folder, or as a Helm chart.
package installation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/rights"
)

// Model describes the operator to install.
type Model struct {
	Name       string // of the objects
	Image      string
	Home       string   // namespace of the operator
	Namespaces []string // names or patterns of the served namespaces; none for all
	Patterns   bool     // some are patterns, so that the operator needs its permissions in all namespaces
	Replicas   int
	Lease      string        // of the leader election; "" without one
	Args       []string      // additional arguments of the command run
	Monitoring bool          // create a ServiceMonitor for Prometheus
	Version    string        // version of a chart; "" for the default
	Grace      time.Duration // how long the operator may take to end

	Reconciling, Children bool // there are reconcile handlers, and some of them own kinds

	// Rights are the permissions of the operator. Otherwise are those for the other scope, all namespaces or some. A chart has both.
	Rights, Otherwise []rights.Right
	Webhooks          *Webhooks // nil for none
	Definitions       []map[string]any
}

// Webhooks describes the webhooks of an operator.
type Webhooks struct {
	Port          int
	Configuration string   // name of the configurations
	Kinds         []string // of the configurations
}

// ProbesPort is the port of probes and metrics.
const ProbesPort = 8080

// Set returns the permissions of the operator with its namespaces.
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
	If    string // template action that encloses it
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

// Objects returns the manifests in the order of their application.
func (m *Model) Objects() []Object { return (&plan{Model: m}).objects() }

// kinds are all possible kinds, in the order of the objects.
var kinds = []string{
	"CustomResourceDefinition", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Service", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
	"Deployment", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "PrometheusRule", "Alert", "Dashboard",
}

// means reports whether a text names a kind, whatever its case and plural.
func means(text, kind string) bool {
	text, kind = strings.ToLower(text), strings.ToLower(kind)
	return text == kind || text == kind+"s" || text == strings.TrimSuffix(kind, "y")+"ies"
}

// CheckKind returns an error for an unknown kind.
func CheckKind(asked string) error {
	if !slices.ContainsFunc(kinds, func(kind string) bool { return means(asked, kind) }) {
		return fmt.Errorf("want one of %s", strings.Join(kinds, ", "))
	}
	return nil
}

// DependsOnWebhooks reports whether objects of a kind depend on the webhook server of the operator.
func DependsOnWebhooks(kind string) bool {
	of := []string{"Deployment", "Service", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "NetworkPolicy"}
	return slices.ContainsFunc(of, func(k string) bool { return means(kind, k) })
}

// DependsOnHandlers reports whether objects of a kind depend on the handlers of the operator.
func DependsOnHandlers(kind string) bool { return !means(kind, "CustomResourceDefinition") }

// Only returns the objects of some kinds, whatever their case and plural.
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
