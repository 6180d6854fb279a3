// Package webhookconfig generates the webhooks of webhook configurations, and writes them. See
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/.
package webhookconfig

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Kind is a kind of webhooks.
type Kind struct {
	Word         string // for log lines and paths
	Name, Plural string // of their configurations, in the [Group] and [Version]
}

// The group and the version of the configurations.
const (
	Group   = "admissionregistration.k8s.io"
	Version = "v1"
)

// The kinds.
var (
	Validating = Kind{"validating", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"}
	Mutating   = Kind{"mutating", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"}
)

// Hook is the webhook for one handler.
type Hook struct {
	ID             string   // of the handler; several handlers can share it
	Path           string   // as returned by [Kind.Path]
	Operations     []string // nil for all
	Subresource    string   // "" for the object itself, "*" for it and all its subresources
	Resources      []Resource
	Labels         []Requirement // label requirements for the object
	Namespaces     []any         // names of the object's namespaces; nil for any
	Timeout        time.Duration // in whole seconds
	SideEffects    bool          // the handler has external side effects, except in a dry run
	IgnoreFailures bool          // admit the operation if the webhook does not respond
	Persistent     bool          // the webhook stays when the operator stops
}

// Resource is a resource that a handler is for.
type Resource struct{ Group, Version, Plural string }

// Requirement is a requirement for a label.
type Requirement struct {
	Key      string
	Operator string // Exists, DoesNotExist, or In
	Values   []any  // for In
}

// Client says how the API server reaches the webhook server: by a URL or through a service.
type Client struct {
	URL      string
	Service  *Service // nil with a URL
	CABundle []byte   // PEM; nil for the API server's default roots
	Secret   string   // with the authority of all replicas, as namespace/name; "" for none
}

// Service is a service in the cluster.
type Service struct {
	Namespace, Name string
	Path            string // prefix of the handlers' paths
	Port            int    // zero for the default
}

// webhooks returns the webhooks of one configuration: one for each id, and more for options that cannot share a webhook.
func webhooks(name string, hooks []Hook, client Client) []any {
	list, names := []any{}, names{domain: name}
	byID := make(map[string][]map[string]any)
	for _, h := range hooks {
		webhook := h.webhook(client)
		same := slices.IndexFunc(byID[h.ID], func(other map[string]any) bool { return equalExceptRules(webhook, other) })
		if same >= 0 {
			addRules(byID[h.ID][same], webhook["rules"].([]any))
			continue
		}
		byID[h.ID] = append(byID[h.ID], webhook)
		webhook["name"] = names.add(h.ID)
		list = append(list, webhook)
	}
	return list
}

// equalExceptRules reports whether two webhooks differ only in their names and rules.
func equalExceptRules(a, b map[string]any) bool {
	for key, value := range a {
		if key != "name" && key != "rules" && !rawjson.EqualNormalized(value, b[key]) {
			return false
		}
	}
	return true
}

// addRules adds missing rules to a webhook.
func addRules(webhook map[string]any, rules []any) {
	for _, rule := range rules {
		if old := webhook["rules"].([]any); !slices.ContainsFunc(old, func(o any) bool { return rawjson.EqualNormalized(o, rule) }) {
			webhook["rules"] = append(old, rule)
		}
	}
}

// webhook returns the webhook of one handler, without a name.
func (h *Hook) webhook(client Client) map[string]any {
	effects, failure := "None", "Fail"
	if h.SideEffects {
		effects = "NoneOnDryRun"
	}
	if h.IgnoreFailures {
		failure = "Ignore"
	}
	webhook := map[string]any{
		"sideEffects": effects, "failurePolicy": failure, "matchPolicy": "Equivalent", "rules": h.rules(), "objectSelector": h.objectSelector(),
		"clientConfig": client.config(h.Path), "timeoutSeconds": int(h.Timeout.Seconds()), "admissionReviewVersions": []any{"v1", "v1beta1"},
	}
	if h.Namespaces != nil && !slices.ContainsFunc(h.Resources, func(r Resource) bool { return r.Group == "" && r.Plural == "namespaces" }) {
		webhook["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "kubernetes.io/metadata.name", "operator": "In", "values": h.Namespaces}}}
	}
	return webhook
}

// rules returns the operations and resources of the webhook.
func (h *Hook) rules() []any {
	operations := []any{}
	for _, op := range h.Operations {
		operations = append(operations, op)
	}
	if len(operations) == 0 {
		operations = []any{"*"}
	}
	rules := []any{}
	for _, r := range h.Resources {
		resources := []any{r.Plural}
		switch h.Subresource {
		case "":
		case "*": // in Kubernetes, it does not include the object itself
			resources = append(resources, r.Plural+"/*")
		default:
			resources = []any{r.Plural + "/" + h.Subresource}
		}
		rules = append(rules, map[string]any{"apiGroups": []any{r.Group}, "apiVersions": []any{r.Version}, "resources": resources, "operations": operations, "scope": "*"})
	}
	return rules
}

// objectSelector returns the object selector, or nil.
func (h *Hook) objectSelector() any {
	if len(h.Labels) == 0 {
		return nil
	}
	var expressions []any
	for _, l := range slices.SortedFunc(slices.Values(h.Labels), func(a, b Requirement) int { return cmp.Compare(a.Key, b.Key) }) {
		expression := map[string]any{"key": l.Key, "operator": l.Operator}
		if l.Values != nil {
			expression["values"] = l.Values
		}
		expressions = append(expressions, expression)
	}
	return map[string]any{"matchExpressions": expressions}
}

// config returns the client configuration for a handler's path.
func (c *Client) config(path string) map[string]any {
	config := map[string]any{}
	if c.URL != "" {
		config["url"] = strings.TrimRight(c.URL, "/") + "/" + escapePath(path)
	}
	if s := c.Service; s != nil {
		service := map[string]any{"namespace": s.Namespace, "name": s.Name, "path": strings.TrimRight(s.Path, "/") + "/" + servicePath(path)}
		if s.Port != 0 {
			service["port"] = s.Port
		}
		config["service"] = service
	}
	if len(c.CABundle) > 0 {
		config["caBundle"] = base64.StdEncoding.EncodeToString(c.CABundle)
	}
	return config
}
