package kopf

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/webhookname"
)

// This file keeps the webhook configurations up to date if the operator manages them: on the goroutine of the server when it announces itself, or on
// one that follows the resources.

// configured are the kinds of handlers with the resources of their configurations, and the words for them.
var configured = []struct {
	kind     handlerKind
	word     string
	resource Resource
}{
	{kindValidate, "validating", Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "validatingwebhookconfigurations", Kind: "ValidatingWebhookConfiguration"}},
	{kindMutate, "mutating", Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration"}},
}

// followResources writes the configurations anew when the resources have changed.
func (s *reviewServer) followResources(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			s.configure()
		}
	}
}

// configure writes what has changed of the configurations. Operators do not go on if they cannot.
func (s *reviewServer) configure() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	client, resources, idle := s.clientConfig, s.resources, s.stopping || s.clientConfig == nil || s.settings.Admission.Managed == ""
	s.mu.Unlock()
	if idle {
		return
	}
	for _, c := range configured {
		data, err := rawjson.Encode(s.entries(c.kind, resources, client, false))
		if err == nil && bytes.Equal(data, s.written[c.kind]) {
			continue
		}
		if !s.has(c.kind) {
			s.clearWebhooks(c.resource)
			s.written[c.kind] = data
			continue
		}
		s.log.Info("Reconfiguring the " + c.word + " webhook " + s.settings.Admission.Managed + ".")
		if err == nil {
			err = s.write(c.resource, data)
		}
		if err != nil {
			s.fail(fmt.Errorf("the %s %q cannot be written: %w", c.resource.Kind, s.settings.Admission.Managed, err))
			return
		}
		s.written[c.kind] = data
	}
}

// has reports whether there are handlers of a kind.
func (s *reviewServer) has(kind handlerKind) bool {
	return slices.ContainsFunc(s.all, func(h *handler) bool { return h.kind == kind })
}

// clearWebhooks removes the webhooks that an earlier version of the operator, which had handlers for them, may have left. A configuration that does not exist is
// not made, and what may not be changed is left alone.
func (s *reviewServer) clearWebhooks(r Resource) {
	_, err := s.client.patchObject(s.requests, r, "", s.settings.Admission.Managed, "", string(MergePatch), []byte(`{"webhooks":[]}`))
	if err != nil && StatusCode(err) != http.StatusNotFound {
		s.log.Debug("A configuration without handlers cannot be emptied.", "kind", r.Kind, "name", s.settings.Admission.Managed, "error", err)
	}
}

// write replaces the webhooks of a configuration, and makes it if it is not there.
func (s *reviewServer) write(r Resource, webhooks []byte) error {
	ctx := unlimited(s.requests) // requests that are under way may be those that wait for these webhooks
	patch := slices.Concat([]byte(`{"webhooks":`), webhooks, []byte(`}`))
	_, err := s.client.patchObject(ctx, r, "", s.settings.Admission.Managed, "", string(MergePatch), patch)
	verb := "patch"
	if StatusCode(err) == http.StatusNotFound {
		verb = "create"
		object := slices.Concat([]byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"`+r.Kind+`","metadata":{"name":`), rawjson.AppendString(nil, s.settings.Admission.Managed), []byte(`},"webhooks":`), webhooks, []byte(`}`))
		_, err = s.client.body(ctx, &request{method: http.MethodPost, path: r.URL("", "", ""), contentType: "application/json", body: object})
		if StatusCode(err) == http.StatusConflict { // another replica was faster
			_, err = s.client.patchObject(ctx, r, "", s.settings.Admission.Managed, "", string(MergePatch), patch)
		}
	}
	if StatusCode(err) == http.StatusForbidden {
		s.log.Error("Not enough RBAC permissions to " + verb + " a " + r.Kind + ".")
	}
	return err
}

// cleaningTimeout is how long the API server is tried to be reached at the end. The server of webhooks lives as long.
const cleaningTimeout = 5 * time.Second

// cleanConfigurations leaves only the handlers in the configurations that are to stay.
func (s *reviewServer) cleanConfigurations() {
	ctx, cancel := context.WithTimeout(unlimited(s.requests), cleaningTimeout)
	defer cancel()
	s.writing.Lock()
	defer s.writing.Unlock()
	for _, c := range configured {
		if s.written[c.kind] == nil || !s.has(c.kind) {
			continue
		}
		s.mu.Lock()
		entries := s.entries(c.kind, s.resources, s.clientConfig, true)
		s.mu.Unlock()
		s.log.Info("Cleaning up the admission webhook " + s.settings.Admission.Managed + ".")
		data, err := rawjson.Encode(map[string]any{"webhooks": entries})
		if err == nil {
			_, err = s.client.patchObject(ctx, c.resource, "", s.settings.Admission.Managed, "", string(MergePatch), data)
		}
		if err != nil && StatusCode(err) != http.StatusNotFound {
			s.log.Warn("The webhook configuration could not be cleaned up; operations can be refused until the operator is back.", "kind", c.resource.Kind, "name", s.settings.Admission.Managed, "error", err)
		}
	}
}

// entries are the webhooks of one configuration: one for each id, and for each set of options that one webhook can't have together.
func (s *reviewServer) entries(kind handlerKind, resources map[*handler][]Resource, client *WebhookClientConfig, persistent bool) []any {
	list := []any{}
	bases := make(map[HandlerID][]map[string]any)
	taken := make(map[string]bool)
	for _, h := range s.all {
		if h.kind != kind || persistent && !h.admission.persistent {
			continue
		}
		entry := s.entry(h, resources[h], client)
		rules := entry["rules"].([]any)
		same := slices.IndexFunc(bases[h.id], func(other map[string]any) bool { return sameExceptRules(entry, other) })
		if same >= 0 {
			other := bases[h.id][same]
			for _, rule := range rules {
				if old := other["rules"].([]any); !slices.ContainsFunc(old, func(o any) bool { return rawjson.Equal(plainJSON(o), plainJSON(rule)) }) {
					other["rules"] = append(old, rule)
				}
			}
			continue
		}
		bases[h.id] = append(bases[h.id], entry)
		entry["name"] = s.hookName(h.id, taken)
		list = append(list, entry)
	}
	return list
}

func plainJSON(v any) any {
	plain, err := rawjson.Normalize(v)
	if err != nil {
		return nil
	}
	return plain
}

// sameExceptRules reports whether two entries of one handler differ in their rules alone.
func sameExceptRules(a, b map[string]any) bool {
	for key, value := range a {
		if key != "name" && key != "rules" && !rawjson.Equal(plainJSON(value), plainJSON(b[key])) {
			return false
		}
	}
	return true
}

// entry is one webhook.
func (s *reviewServer) entry(h *handler, resources []Resource, client *WebhookClientConfig) map[string]any {
	o := h.admission
	effects, failure := "None", "Fail"
	if o.sideEffects {
		effects = "NoneOnDryRun"
	}
	if o.ignoreFailures {
		failure = "Ignore"
	}
	entry := map[string]any{
		"sideEffects": effects, "failurePolicy": failure, "matchPolicy": "Equivalent", "rules": h.hookRules(resources), "objectSelector": h.objectSelector(),
		"clientConfig": client.forHandler(s.pathOf(h)), "timeoutSeconds": int(h.reviewTime().Seconds()), "admissionReviewVersions": []any{"v1", "v1beta1"},
	}
	if exact := exactNames(s.namespaces); exact != nil && !slices.ContainsFunc(resources, func(r Resource) bool { return r.Group == "" && r.Plural == "namespaces" }) {
		entry["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "kubernetes.io/metadata.name", "operator": "In", "values": exact}}}
	}
	return entry
}

// exactNames returns the patterns of namespaces if all of them are names, else nil.
func exactNames(patterns []string) []any {
	var names []any
	for _, pattern := range patterns {
		if namespaces.IsPattern(pattern) {
			return nil
		}
		names = append(names, strings.TrimSpace(pattern))
	}
	return names
}

// hookRules returns which operations on which resources the webhook is for.
func (h *handler) hookRules(resources []Resource) []any {
	operations := []any{}
	for _, op := range h.admission.operations {
		operations = append(operations, string(op))
	}
	if len(operations) == 0 {
		operations = []any{"*"}
	}
	rules := []any{}
	for _, r := range resources {
		names := []any{r.Plural}
		switch sub := h.admission.subresource; sub {
		case "":
		case "*": // which does not include the object itself for Kubernetes
			names = append(names, r.Plural+"/*")
		default:
			names = []any{r.Plural + "/" + sub}
		}
		rules = append(rules, map[string]any{"apiGroups": []any{r.Group}, "apiVersions": []any{r.Version}, "resources": names, "operations": operations, "scope": "*"})
	}
	return rules
}

// objectSelector returns the criteria for labels that a selector can express, or nil.
func (h *handler) objectSelector() any {
	var expressions []any
	keys := make([]string, 0, len(h.filters.labels))
	for key := range h.filters.labels {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		switch c := h.filters.labels[key]; {
		case c.predicate != nil:
		case c.marker == Present:
			expressions = append(expressions, map[string]any{"key": key, "operator": "Exists"})
		case c.marker == Absent:
			expressions = append(expressions, map[string]any{"key": key, "operator": "DoesNotExist"})
		default:
			expressions = append(expressions, map[string]any{"key": key, "operator": "In", "values": []any{c.literal}})
		}
	}
	if expressions == nil {
		return nil
	}
	return map[string]any{"matchExpressions": expressions}
}

// forHandler returns the way to the handler with the path, as JSON.
func (c *WebhookClientConfig) forHandler(path string) map[string]any {
	config := map[string]any{}
	if c.URL != "" {
		config["url"] = strings.TrimRight(c.URL, "/") + "/" + webhookname.EscapePath(path)
	}
	if s := c.Service; s != nil {
		service := map[string]any{"namespace": s.Namespace, "name": s.Name, "path": strings.TrimRight(s.Path, "/") + "/" + webhookname.ServicePath(path)}
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

// pathOf returns the path of a handler: its id, with its kind if there is a handler of the other kind with the same id.
func (s *reviewServer) pathOf(h *handler) string {
	if !slices.ContainsFunc(s.all, func(o *handler) bool { return o.id == h.id && o.kind != h.kind }) {
		return string(h.id)
	}
	if h.kind == kindMutate {
		return "mutating:" + string(h.id)
	}
	return "validating:" + string(h.id)
}

// hookName makes a name of an id, which the API server takes and no other webhook of the configuration has.
func (s *reviewServer) hookName(id HandlerID, taken map[string]bool) string {
	base := webhookname.Labels(string(id))
	name := base
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	taken[name] = true
	return name + "." + s.settings.Admission.Managed
}

// checkNames returns which names the API server would not take.
func (s *reviewServer) checkNames() error {
	if s.settings.Admission.Managed == "" {
		return nil
	}
	if !webhookname.IsDomain(s.settings.Admission.Managed) {
		return fmt.Errorf("the name %q in Settings.Admission.Managed is bad: lower-case letters, digits, '-' and '.' are expected, as in \"auto.kopf.dev\"", s.settings.Admission.Managed)
	}
	var errs []error
	for _, kind := range []handlerKind{kindValidate, kindMutate} {
		taken := make(map[string]bool)
		for _, h := range s.all {
			if h.kind != kind {
				continue
			}
			if name := s.hookName(h.id, taken); strings.Count(name, ".") < 2 {
				errs = append(errs, fmt.Errorf("the webhook of the handler %q would be named %q, and three parts at least are expected: give Settings.Admission.Managed a name with a dot, such as \"%s.kopf.dev\"", h.id, name, s.settings.Admission.Managed))
			} else if !webhookname.IsDomain(name) {
				errs = append(errs, fmt.Errorf("the webhook of the handler %q would be named %q, which is too long, or has a part longer than 63 characters: give the handler a shorter ID", h.id, name))
			}
		}
	}
	return errors.Join(errs...)
}
