package installation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/rights"
)

// This file generates the objects other than the Deployment.

// plan generates objects, or the chart templates for them.
type plan struct {
	*Model
	chart bool
}

// The files for the objects.
const (
	definitionsFile = "definitions.yaml"
	rightsFile      = "rbac.yaml"
	deploymentFile  = "deployment.yaml"
	budgetFile      = "disruption-budget.yaml"
	networkFile     = "network-policy.yaml"
	serviceFile     = "service.yaml"
	webhooksFile    = "webhooks.yaml"
	monitorFile     = "service-monitor.yaml"
	alertsFile      = "alerts.yaml"
	dashboardFile   = "dashboard.yaml"
)

func (p *plan) objects() []Object {
	var all []Object
	for _, d := range p.Definitions {
		o := Object{Value: d, File: definitionsFile}
		if p.chart {
			o.Value, o.If = kept(d), "if $.Values.crds.enabled"
		}
		all = append(all, o)
	}
	all = append(all, Object{Value: p.namespaced("v1", "ServiceAccount", p.Name, p.home()), File: rightsFile})
	all = append(all, p.roles()...)
	if p.Webhooks != nil || p.Monitoring || p.chart {
		all = append(all, p.service())
	}
	all = append(all, p.webhookConfigurations()...)
	all = append(all, Object{Value: p.deployment(), File: deploymentFile})
	if p.Lease != "" {
		all = append(all, Object{Value: p.budget(), File: budgetFile})
	}
	all = append(all, Object{Value: p.networkPolicy(), File: networkFile})
	if p.Monitoring || p.chart {
		all = append(all, p.monitor())
	}
	return all
}

// kept returns a definition that Helm keeps when it uninstalls the release, because its removal would delete all objects of the kind.
func kept(definition map[string]any) map[string]any {
	meta, _ := definition["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	return with(definition, "metadata", with(meta, "annotations", with(annotations, "helm.sh/resource-policy", "keep")))
}

// home returns the namespace of the operator.
func (p *plan) home() any {
	if p.chart {
		return Expression("$.Release.Namespace | quote")
	}
	return p.Home
}

// clusterName returns the name of cluster-scoped objects. It differs between installations.
func (p *plan) clusterName() any {
	if p.chart {
		return Expression(fmt.Sprintf("printf %q $.Release.Namespace | quote", p.Name+"-%s"))
	}
	return p.Name + "-" + p.Home
}

func (p *plan) labels() Map { return Map{{Key: "app.kubernetes.io/name", Value: p.Name}} }

// namespaced returns the head of an object.
func (p *plan) namespaced(apiVersion, kind string, name, namespace any) Map {
	meta := Map{{Key: "name", Value: name}}
	if namespace != nil {
		meta = append(meta, Entry{Key: "namespace", Value: namespace})
	}
	return Map{{Key: "apiVersion", Value: apiVersion}, {Key: "kind", Value: kind}, {Key: "metadata", Value: append(meta, Entry{Key: "labels", Value: p.labels()})}}
}

const rbac = "rbac.authorization.k8s.io"

// roles returns the roles and their bindings. A chart has those of both scopes, because its values choose the scope.
func (p *plan) roles() []Object {
	all := p.role(p.Rights, p.Name, p.home(), "", rights.Home)
	everywhere, some := p.Rights, p.Otherwise
	if len(p.Namespaces) > 0 {
		everywhere, some = p.Otherwise, p.Rights
	}
	switch {
	case p.Patterns:
		return append(all, p.role(p.Rights, p.clusterName(), nil, "", rights.Cluster, rights.Served)...)
	case p.chart:
		all = append(all, p.role(everywhere, p.clusterName(), nil, "if not $.Values.namespaces", rights.Cluster, rights.Served)...)
		all = append(all, p.role(some, p.clusterName(), nil, "if $.Values.namespaces", rights.Cluster)...)
		return append(all, p.role(some, p.Name+"-served", Expression(". | quote"), "range $.Values.namespaces", rights.Served)...)
	case len(p.Namespaces) == 0:
		return append(all, p.role(p.Rights, p.clusterName(), nil, "", rights.Cluster, rights.Served)...)
	}
	all = append(all, p.role(p.Rights, p.clusterName(), nil, "", rights.Cluster)...)
	for _, namespace := range p.Namespaces {
		all = append(all, p.role(p.Rights, p.Name+"-served", namespace, "", rights.Served)...)
	}
	return all
}

// role returns a role with the permissions of some scopes, and its binding, or nothing without permissions.
func (p *plan) role(all []rights.Right, name, namespace any, condition string, scopes ...rights.Scope) []Object {
	rules := rights.Merge(all, scopes...)
	if len(rules) == 0 {
		return nil
	}
	kind := "ClusterRole"
	if namespace != nil {
		kind = "Role"
	}
	items := make([]Item, len(rules))
	for i, r := range rules {
		rule := Map{{Key: "apiGroups", Value: r.Groups}, {Key: "resources", Value: r.Resources}}
		if len(r.Names) > 0 {
			rule = append(rule, Entry{Key: "resourceNames", Value: r.Names})
		}
		items[i] = Item{Value: append(rule, Entry{Key: "verbs", Value: r.Verbs}), Comment: comment(r.Reasons)}
	}
	role := append(p.namespaced(rbac+"/v1", kind, name, namespace), Entry{Key: "rules", Value: items})
	binding := append(p.namespaced(rbac+"/v1", kind+"Binding", name, namespace),
		Entry{Key: "roleRef", Value: Map{{Key: "apiGroup", Value: rbac}, {Key: "kind", Value: kind}, {Key: "name", Value: name}}},
		Entry{Key: "subjects", Value: []Map{{{Key: "kind", Value: "ServiceAccount"}, {Key: "name", Value: p.Name}, {Key: "namespace", Value: p.home()}}}})
	return []Object{{Value: role, File: rightsFile, If: condition}, {Value: binding, File: rightsFile, If: condition}}
}

// commentWidth is the maximum width of comment lines, except for longer words.
const commentWidth = 110

// comment returns the reasons of a rule as comment lines.
func comment(reasons []string) string {
	var lines []string
	for i, reason := range reasons {
		if i < len(reasons)-1 {
			reason += ";"
		}
		if last := len(lines) - 1; last >= 0 && len(lines[last])+len(reason) < commentWidth {
			lines[last] += " " + reason
		} else {
			lines = append(lines, reason)
		}
	}
	return strings.Join(lines, "\n")
}

// service returns the Service for the webhooks and the metrics.
func (p *plan) service() Object {
	var ports []Item
	o := Object{File: serviceFile}
	if w := p.Webhooks; w != nil {
		ports = append(ports, Item{Value: Map{{Key: "name", Value: "webhooks"}, {Key: "port", Value: 443}, {Key: "targetPort", Value: "webhooks"}}})
	}
	probes := Item{Value: Map{{Key: "name", Value: "probes"}, {Key: "port", Value: ProbesPort}, {Key: "targetPort", Value: "probes"}}}
	switch {
	case p.chart && p.Webhooks == nil:
		o.If = "if $.Values.monitoring"
		ports = append(ports, probes)
	case p.chart:
		probes.If = "if $.Values.monitoring"
		ports = append(ports, probes)
	case p.Monitoring:
		ports = append(ports, probes)
	}
	o.Value = append(p.namespaced("v1", "Service", p.Name, p.home()), Entry{Key: "spec", Value: Map{{Key: "selector", Value: p.labels()}, {Key: "ports", Value: ports}}})
	return o
}

// webhookConfigurations returns the configurations, which the operator fills in. Because they exist, the operator needs no permission to create them.
func (p *plan) webhookConfigurations() (all []Object) {
	if p.Webhooks == nil {
		return nil
	}
	for _, kind := range p.Webhooks.Kinds {
		configuration := p.namespaced("admissionregistration.k8s.io/v1", kind, p.Webhooks.Configuration, nil)
		configuration[0].Comment = "The operator keeps the webhooks in it."
		all = append(all, Object{Value: configuration, File: webhooksFile})
	}
	return all
}

// budget returns the PodDisruptionBudget of the replicas.
func (p *plan) budget() Map {
	return append(p.namespaced("policy/v1", "PodDisruptionBudget", p.Name, p.home()), Entry{Key: "spec", Value: Map{
		{Key: "maxUnavailable", Value: 1, Comment: "unlike minAvailable, it does not block drains if there is one replica"},
		{Key: "selector", Value: Map{{Key: "matchLabels", Value: p.labels()}}},
	}})
}

// networkPolicy returns the NetworkPolicy for the operator's connections.
func (p *plan) networkPolicy() Map {
	port := func(n int, comment string) Item {
		return Item{Value: Map{{Key: "protocol", Value: "TCP"}, {Key: "port", Value: n}}, Comment: comment}
	}
	in := []Item{port(ProbesPort, "probes and metrics")}
	if p.Webhooks != nil {
		in = append(in, port(p.Webhooks.Port, "webhooks"))
	}
	out := []Item{port(443, "the API server, and what else has these ports; add what your handlers talk to"), port(6443, "")}
	return append(p.namespaced("networking.k8s.io/v1", "NetworkPolicy", p.Name, p.home()), Entry{Key: "spec", Value: Map{
		{Key: "podSelector", Value: Map{{Key: "matchLabels", Value: p.labels()}}},
		{Key: "policyTypes", Value: []string{"Ingress", "Egress"}},
		{Key: "ingress", Value: []Map{{{Key: "ports", Value: in}}}},
		{Key: "egress", Value: []Map{{{Key: "ports", Value: out}}}},
	}})
}

// monitor returns the ServiceMonitor, for clusters with the Prometheus operator.
func (p *plan) monitor() Object {
	o := Object{File: monitorFile}
	if p.chart {
		o.If = "if $.Values.monitoring"
	}
	o.Value = append(p.namespaced("monitoring.coreos.com/v1", "ServiceMonitor", p.Name, p.home()), Entry{Key: "spec", Value: Map{
		{Key: "selector", Value: Map{{Key: "matchLabels", Value: p.labels()}}},
		{Key: "endpoints", Value: []Map{{{Key: "port", Value: "probes"}, {Key: "path", Value: "/metrics"}}}},
	}})
	return o
}

// Clone returns a copy of the model whose definitions have no descriptions.
func (m *Model) Clone() *Model {
	clone := *m
	clone.Definitions = slices.Clone(m.Definitions)
	for i, d := range clone.Definitions {
		clone.Definitions[i] = WithoutDescriptions(d)
	}
	return &clone
}
