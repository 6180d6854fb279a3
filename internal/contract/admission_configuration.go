package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which webhook configurations operators write, and when.

var _ = ClusterSuite("admission_configuration", func(t *testing.T, c *C) {
	c.Run(t, "AC-1 what makes no sense is refused at registration", proveAdmissionOptions)
	c.Run(t, "AC-2 operations are known ones, and some", proveOperationOptions)
	c.Run(t, "AC-22 the server starts when the kinds are known", proveServerStart)
	c.Run(t, "AC-22 a server that is not announced is warned of", proveSilentServer)
	c.Run(t, "AC-28 nothing is written without a name", proveUnmanaged)
	c.Run(t, "AC-29 only what has handlers is made, and a lack of rights ends the operator", proveBothConfigurations)
	c.Run(t, "DF-33 no empty configuration is made, and one that was left over is emptied", proveNoEmptyConfiguration)
	c.Run(t, "AC-30 the webhooks are replaced as a whole", proveReplacedHooks)
	c.Run(t, "AC-31 an entry has these fields and no others", proveHookEntry)
	c.Run(t, "AC-32 names are made of ids", proveHookNames)
	c.Run(t, "AC-33 side effects and failures are told", proveHookPolicies)
	c.Run(t, "AC-34 there is a rule for each kind", proveHookRules)
	c.Run(t, "AC-35 labels become a selector", proveHookSelectors)
	c.Run(t, "AC-36 the address gets the id", proveHookAddresses)
	c.Run(t, "AC-36 each id has an address at a service", proveServiceAddresses)
	c.Run(t, "AC-37 it is written again when something has changed, and only then", proveReconfiguring)
	c.Run(t, "AC-39 at the end only persistent handlers stay", proveCleaning)
	c.Run(t, "AC-39 a write that fails does not delay the end, after which no webhooks are left", proveStopAmidWrite)
	c.Run(t, "AC-39 a write that the API server carries out late is cleaned, too", proveLateWrite)
	c.Run(t, "AC-39 a creation whose answer is lost is repeated", proveLostCreation)
	c.Run(t, "AC-39 one configuration is cleaned although the other one cannot be", proveHalfCleaning)
	c.Run(t, "AC-T2 any subresource includes the object itself", proveHookAnySubresource)
	c.Run(t, "AC-T3 names are checked at the start, and those of one id are merged", proveHookMerging)
	c.Run(t, "AC-T6 exact namespaces become a selector", proveHookNamespaces)
	c.Run(t, "API servers give webhooks their defaults, and refuse what is wrong", proveHookDefaults)
	c.Run(t, "AC-T8 the timeout is passed on in whole seconds", proveHookTimeouts)
})

func accept(context.Context, *kopf.Admission) error { return nil }

// managed is an operator that manages its webhook configurations.
type managed struct {
	*Running
	c      *C
	server *reviewer
	name   string
}

const registration = "admissionregistration.k8s.io/v1"

// Managed starts an operator that manages its webhook configurations, which are deleted at the end of the leaf.
func (c *C) Managed(registry *kopf.Registry, adjust ...func(*kopf.Operator)) *managed {
	c.Helper()
	m := &managed{c: c, name: c.Unique("hooks") + ".kopf.dev"}
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		c.Cleanup(func() {
			ref := kopf.ObjectReference{APIVersion: registration, Kind: kind, Name: m.name}
			if err := c.Client.Delete(contextWithout(c.Context()), ref, nil); err != nil && kopf.StatusCode(err) != http.StatusNotFound {
				c.Error(err)
			}
		})
	}
	m.server, m.Running = c.Reviewed(registry, append([]func(*kopf.Operator){func(op *kopf.Operator) { op.Settings.Admission.Managed = m.name }}, adjust...)...)
	return m
}

// hooks waits until a configuration has the given number of webhooks, and returns them.
func (m *managed) hooks(kind string, number int) []map[string]any {
	m.c.Helper()
	var list []map[string]any
	m.c.WaitFor("the webhooks", func() bool {
		body := &kopf.Body{}
		ref := kopf.ObjectReference{APIVersion: registration, Kind: kind + "WebhookConfiguration", Name: m.name}
		if err := m.c.Client.Get(m.c.Context(), ref, body, nil); err != nil {
			return false
		}
		list = nil
		data, _ := json.Marshal(body.Map()["webhooks"])
		return json.Unmarshal(data, &list) == nil && len(list) == number
	})
	return list
}

// written returns the last configuration that the operator has sent.
func (m *managed) written(plural string) map[string]any {
	m.c.Helper()
	var last map[string]any
	for _, r := range m.Wire.Requests("POST", "PATCH") {
		if strings.Contains(r.Path, "/"+plural) {
			last = nil
			if err := json.Unmarshal([]byte(r.Body), &last); err != nil {
				m.c.Fatal(err)
			}
		}
	}
	return last
}

func proveAdmissionOptions(c *C) {
	for what, opts := range map[string]*kopf.AdmissionOptions{
		"a negative Timeout":  {ID: "fn", Timeout: -1},
		"a long Timeout":      {ID: "fn", Timeout: 31 * time.Second},
		"a bad subresource":   {ID: "fn", Subresource: "a/b"},
		"a Value of no Field": {ID: "fn", Value: 1},
		"a bad ID":            {ID: "a b"},
		"a nil label":         {ID: "fn", Labels: kopf.Match{"a": nil}},
	} {
		if text := refusal(func() { new(kopf.Registry).OnValidate(Examples, accept, opts) }); !strings.Contains(text, "OnValidate at ") || !strings.Contains(text, "admission_configuration.go:") {
			c.Errorf("%s: the panic is %q", what, text)
		}
	}
	if text := refusal(func() { new(kopf.Registry).OnMutate("", accept, nil) }); !strings.Contains(text, "OnMutate at ") {
		c.Errorf("no selector: the panic is %q", text)
	}
	if text := refusal(func() {
		new(kopf.Registry).OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: "fn", Timeout: 30 * time.Second, Subresource: "status", Operations: []kopf.Operation{"CONNECT"}})
	}); text != "" {
		c.Errorf("the panic is %q", text)
	}
}

// refusal returns the value of a function's panic, "" if there is none.
func refusal(f func()) (text string) {
	defer func() { text, _ = recover().(string) }()
	f()
	return ""
}

func proveOperationOptions(c *C) {
	for want, operations := range map[string][]kopf.Operation{
		"option Operations []":    {},
		`operation "PATCH": want`: {"CREATE", "PATCH"},
		`operation "": want`:      {""},
	} {
		if text := refusal(func() {
			new(kopf.Registry).OnValidate(Examples, accept, &kopf.AdmissionOptions{Operations: operations})
		}); !strings.Contains(text, want) {
			c.Errorf("%q: the panic is %q, want %q", operations, text, want)
		}
	}
}

func proveServerStart(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, nil)
	s := &reviewer{}
	op := c.Operator(registry, func(op *kopf.Operator) { op.Settings.Admission.Server = s })
	c.WaitFor("the server", s.serves)
	discovered := time.Time{}
	for _, r := range op.Wire.Requests("GET") {
		if strings.HasPrefix(r.Path, "/apis") && discovered.IsZero() {
			discovered = r.Time
		}
	}
	if discovered.IsZero() || s.started.Before(discovered) {
		c.Errorf("the server has started at %s, and the kinds were asked for at %s", s.started, discovered)
	}
	if code := s.refused(c, "accept", c.reviewOf(nil)); code != 0 {
		c.Errorf("the first review is refused with %d", code)
	}
}

func proveUnmanaged(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, nil)
	_, op := c.Reviewed(registry)
	c.Pass(time.Second)
	op.Stop()
	if writes := op.Wire.Writes(); len(writes) > 0 {
		c.Errorf("something was written: %v", writes)
	}
	const line = "Keeping no webhook configuration; the API server sends no reviews unless others have made one"
	if lines := op.Logs.Find(line); len(lines) != 1 || lines[0].Level != slog.LevelInfo || !strings.Contains(lines[0].Attrs["hint"], "Settings.Admission.Managed") {
		c.Errorf("got %+v, want one line with a hint", lines)
	}
	managed := c.Managed(registry)
	c.Pass(time.Second)
	if lines := managed.Logs.Find(line); len(lines) > 0 {
		c.Errorf("got %+v with a configuration", lines)
	}
}

func proveNoEmptyConfiguration(c *C) {
	for _, kind := range []string{"Validating", "Mutating"} {
		other := map[string]string{"Validating": "Mutating", "Mutating": "Validating"}[kind]
		registry := &kopf.Registry{}
		if kind == "Validating" {
			registry.OnValidate(Examples, accept, nil)
		} else {
			registry.OnMutate(Examples, accept, nil)
		}
		name := c.Unique(strings.ToLower(kind)) + ".kopf.dev"
		start := func(adjust ...func(*kopf.Operator)) *managed {
			m := c.Managed(registry, append(adjust, func(op *kopf.Operator) { op.Settings.Admission.Managed = name })...)
			m.name = name
			return m
		}
		m := start()
		m.hooks(kind, 1)
		c.Pass(time.Second)
		empty := c.Of(registration, other+"WebhookConfiguration")
		empty.clusterwide = true
		if empty.Exists(m.name) {
			c.Errorf("there is a %sWebhookConfiguration, and there are no handlers for it", other)
		}
		for _, line := range m.Logs.Find("Reconfiguring the " + strings.ToLower(other)) {
			c.Errorf("got the line %v", line)
		}
		m.Stop()
		empty.Create(m.name, map[string]any{"webhooks": []any{map[string]any{
			"name": "old.kopf.dev", "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "failurePolicy": "Ignore",
			"clientConfig": map[string]any{"url": "https://localhost:1/"},
		}}})
		again := start()
		c.WaitFor("the end of the old webhook", func() bool { return len(asList(empty.Get(m.name).Map()["webhooks"])) == 0 })
		again.Stop()
		empty.Delete(m.name)
		unprivileged := start(func(op *kopf.Operator) { // it needs no permissions for the other configuration
			op.Connection.HTTPClient.Transport.(*Wire).Fault(func(r *Request) (*http.Response, error) {
				if strings.Contains(r.Path, strings.ToLower(other)+"webhook") {
					return Answer(403, "Forbidden", "no"), nil
				}
				return nil, nil
			})
		})
		unprivileged.hooks(kind, 1)
		unprivileged.Stop()
		for _, line := range unprivileged.Logs.Find("Cleaning up the webhook configuration failed; requests may be rejected until the operator is back") {
			c.Errorf("got the line %v", line)
		}
	}
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

func proveBothConfigurations(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, nil)
	m := c.Managed(registry)
	m.hooks("Validating", 1)
	for _, r := range m.Wire.Requests() {
		watched := r.Method == "GET" && strings.Contains(r.Path, "fieldSelector=metadata.name%3D"+m.name+"&")
		if strings.Contains(r.Path, "admissionregistration") && r.Method != "PATCH" && !watched {
			c.Errorf("there was a request %s %s", r.Method, r.Path)
		}
	}
	s := &reviewer{}
	other := &kopf.Operator{Registry: registry, Namespaces: []string{c.Namespace}, Settings: kopf.NewSettings(), Connection: c.ConnectionInfo()}
	other.Settings.Admission = kopf.AdmissionSettings{Server: s, Managed: "other.kopf.dev"}
	wire := &Wire{base: c.transport()}
	wire.Fault(func(r *Request) (*http.Response, error) {
		if strings.Contains(r.Path, "admissionregistration") && r.ContentType == string(kopf.ApplyPatch) {
			return Answer(403, "Forbidden", "no"), nil
		}
		return nil, nil
	})
	defer wire.CloseIdleConnections()
	other.Connection.HTTPClient = &http.Client{Transport: wire}
	if err := other.Run(c.Context()); kopf.StatusCode(err) != 403 || !strings.Contains(err.Error(), `write the ValidatingWebhookConfiguration "other.kopf.dev": `) {
		c.Errorf("the operator has ended with %v", err)
	}
}

func proveReplacedHooks(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "b"})
	registry.OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: "m"})
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a"})
	foreign := map[string]any{
		"name": "x.foreign.dev", "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": "https://127.0.0.1:1/x"},
	}
	c.Define(map[string]any{
		"apiVersion": registration, "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": c.Unique("hooks") + ".kopf.dev"}, "webhooks": []any{foreign},
	})
	m := c.Managed(registry)
	list := m.hooks("Validating", 2)
	expect(c, "the order", []any{list[0]["name"], list[1]["name"]}, []any{"b." + m.name, "a." + m.name})
	for _, r := range m.Wire.Writes() {
		if strings.Contains(r.Path, "/validatingwebhookconfigurations") && (r.Method != "PATCH" || r.ContentType != "application/merge-patch+json") {
			c.Errorf("what exists is written by %s of %s", r.Method, r.ContentType)
		}
	}
}

func proveHookEntry(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "val_1", Operations: []kopf.Operation{"CREATE"}, Labels: kopf.Match{"a": "b"}})
	m := c.Managed(registry, func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace + "*"} })
	m.hooks("Validating", 1)
	c.WaitFor("the address", func() bool { return m.written("validatingwebhookconfigurations") != nil })
	expect(c, "the entry", m.written("validatingwebhookconfigurations")["webhooks"], any([]any{map[string]any{
		"name": "val-1." + m.name, "sideEffects": "None", "failurePolicy": "Fail", "matchPolicy": "Equivalent",
		"rules":          []any{map[string]any{"apiGroups": []any{"kopf.dev"}, "apiVersions": []any{"v1"}, "resources": []any{"kopfexamples"}, "operations": []any{"CREATE"}, "scope": "*"}},
		"objectSelector": map[string]any{"matchExpressions": []any{map[string]any{"key": "a", "operator": "In", "values": []any{"b"}}}},
		"clientConfig":   map[string]any{"url": "https://127.0.0.1:1/hooks/val_1"},
		"timeoutSeconds": 30.0, "admissionReviewVersions": []any{"v1", "v1beta1"},
	}}))
}

func proveHookNames(c *C) {
	registry := &kopf.Registry{}
	want := []any{}
	m := c.Unique("hooks") + ".kopf.dev"
	for _, id := range [][2]string{{"fn", "fn"}, {"a_b", "a-b"}, {"fn/spec.x", "fn.spec.x"}, {"Big", "big"}, {"a<b", "a3cb"}, {"x_/_y", "x.y"}} {
		registry.OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: kopf.HandlerID(id[0])})
		want = append(want, id[1]+"."+m)
	}
	got := []any{}
	for _, hook := range c.Managed(registry).hooks("Mutating", len(want)) {
		got = append(got, hook["name"])
	}
	expect(c, "the names", got, want)
}

func proveHookPolicies(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a"})
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "b", SideEffects: true, IgnoreFailures: true})
	list := c.Managed(registry).hooks("Validating", 2)
	expect(c, "the policies", []any{list[0]["sideEffects"], list[0]["failurePolicy"], list[1]["sideEffects"], list[1]["failurePolicy"]}, []any{"None", "Fail", "NoneOnDryRun", "Ignore"})
}

func proveHookRules(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(kopf.Everything, accept, &kopf.AdmissionOptions{ID: "many", Where: func(r kopf.Resource) bool {
		return r.Group == "kopf.dev" && strings.HasPrefix(r.Plural, "kopf") && r.Preferred
	}})
	registry.OnValidate("nothings.v1.kopf.dev", accept, &kopf.AdmissionOptions{ID: "none"})
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "status", Subresource: "status", Operations: []kopf.Operation{"UPDATE", "CREATE"}})
	m := c.Managed(registry)
	m.hooks("Validating", 3)
	list := m.written("validatingwebhookconfigurations")["webhooks"].([]any)
	rules := func(i int) any { return list[i].(map[string]any)["rules"] }
	rule := func(operations []any, resource string) any {
		return map[string]any{"apiGroups": []any{"kopf.dev"}, "apiVersions": []any{"v1"}, "resources": []any{resource}, "operations": operations, "scope": "*"}
	}
	all := []any{"*"}
	expect(c, "many", rules(0), any([]any{rule(all, "kopfclusterexamples"), rule(all, "kopfexamples"), rule(all, "kopfstatusexamples")}))
	expect(c, "none", rules(1), any([]any{}))
	expect(c, "a subresource", rules(2), any([]any{rule([]any{"UPDATE", "CREATE"}, "kopfexamples/status")}))
}

func proveHookSelectors(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", Labels: kopf.Match{
		"there": kopf.Present, "gone": kopf.Absent, "is": "v", "asked": func(*kopf.FieldValue) bool { return true },
	}})
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "b", Labels: kopf.Match{"asked": func(*kopf.FieldValue) bool { return true }}})
	m := c.Managed(registry)
	m.hooks("Validating", 2)
	list := m.written("validatingwebhookconfigurations")["webhooks"].([]any)
	expect(c, "the selector", list[0].(map[string]any)["objectSelector"], any(map[string]any{"matchExpressions": []any{
		map[string]any{"key": "gone", "operator": "DoesNotExist"}, map[string]any{"key": "is", "operator": "In", "values": []any{"v"}}, map[string]any{"key": "there", "operator": "Exists"},
	}}))
	expect(c, "no selector", list[1].(map[string]any)["objectSelector"], any(nil))
}

// silent is a server that never announces itself.
type silent struct{}

func (silent) Serve(ctx context.Context, _ kopf.ReviewFunc, _ func(kopf.WebhookClientConfig)) error {
	<-ctx.Done()
	return nil
}

func proveSilentServer(c *C) {
	c.OnlyInBubble("it takes a minute")
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, nil)
	const warning = "The admission server has not announced itself"
	op := c.Operator(registry, func(op *kopf.Operator) { op.Settings.Admission.Server = silent{} })
	c.Pass(time.Hour)
	if lines := op.Logs.Find(warning); len(lines) != 1 {
		c.Errorf("got the lines %v", lines)
	}
	op.Stop()
	_, op = c.Reviewed(registry)
	c.Pass(time.Hour)
	if lines := op.Logs.Find(warning); len(lines) != 0 {
		c.Errorf("got the lines %v", lines)
	}
}

func proveHookAddresses(c *C) {
	registry := &kopf.Registry{}
	registry.OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: "f<n/x"})
	m := c.Managed(registry)
	m.hooks("Mutating", 1)
	client := func() any {
		return m.written("mutatingwebhookconfigurations")["webhooks"].([]any)[0].(map[string]any)["clientConfig"]
	}
	expect(c, "the URL", client(), any(map[string]any{"url": "https://127.0.0.1:1/hooks/f%3Cn/x"}))
	m.server.announce(kopf.WebhookClientConfig{Service: &kopf.ServiceReference{Namespace: "n", Name: "s", Path: "/p", Port: 8443}})
	expect(c, "the service", client(), any(map[string]any{"service": map[string]any{"namespace": "n", "name": "s", "path": "/p/f3cn-ca2b0103/x", "port": 8443.0}}))
	m.server.announce(kopf.WebhookClientConfig{Service: &kopf.ServiceReference{Namespace: "n", Name: "s"}})
	expect(c, "the service without a path", client(), any(map[string]any{"service": map[string]any{"namespace": "n", "name": "s", "path": "/f3cn-ca2b0103/x"}}))
}

// proveServiceAddresses announces a service for handlers with all kinds of ids: the API server accepts only subdomains in its path.
func proveServiceAddresses(c *C) {
	registry, l := &kopf.Registry{}, &asking{}
	ids := []string{"plain", "camelCase", "camelcase", "snake_case", "a.b/c-d", "field/spec.someField", "a//b", "fn<x>y", strings.Repeat("Long", 15)}
	for _, id := range ids {
		registry.OnValidate(Examples, l.handler(id, nil), &kopf.AdmissionOptions{ID: kopf.HandlerID(id)})
	}
	registry.OnMutate(Examples, l.handler("mutating", nil), &kopf.AdmissionOptions{ID: "plain"})
	m := c.Managed(registry)
	m.server.announce(kopf.WebhookClientConfig{Service: &kopf.ServiceReference{Namespace: "n", Name: "s", Path: "/hooks"}})
	paths := make(map[string]bool)
	for i, hook := range m.hooks("Validating", len(ids)) {
		service, _ := hook["clientConfig"].(map[string]any)["service"].(map[string]any)
		path, _ := strings.CutPrefix(service["path"].(string), "/hooks/")
		paths[path] = true
		expect(c, "the answer at "+path, m.server.ask(c, path, nil), admitted)
		expect(c, "the calls at "+path, l.take(), ids[i:i+1])
	}
	expect(c, "the number of paths", len(paths), len(ids))
}

func proveReconfiguring(c *C) {
	c.OnlyInBubble("other leaves define kinds at the same time")
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, nil)
	registry.OnValidate("laters.v1.kopf.dev", accept, &kopf.AdmissionOptions{ID: "later"})
	m := c.Managed(registry)
	m.hooks("Validating", 2)
	count := func() int {
		return len(m.Logs.Find("Reconfiguring the validating webhook "+m.name+".")) + 100*len(m.Logs.Find("Reconfiguring the mutating webhook "+m.name+"."))
	}
	expect(c, "the first writes", count(), 1)
	m.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:1/hooks/"})
	c.Define(definition("unwanteds", "Unwanted", "Namespaced", nil))
	c.Pass(time.Hour)
	expect(c, "the writes after what changes nothing", count(), 1)
	m.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:2/hooks/"})
	expect(c, "the writes after another address", count(), 2)
	c.Define(definition("laters", "Later", "Namespaced", nil))
	c.WaitFor("the new rule", func() bool { return count() == 3 })
	if rules := m.hooks("Validating", 2)[1]["rules"].([]any); len(rules) != 1 {
		c.Errorf("the rules are %v", rules)
	}
	if err := c.Client.Delete(c.Context(), kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: m.name}, nil); err != nil {
		c.Fatal(err)
	}
	m.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:3/hooks/"})
	if list := m.hooks("Validating", 2); list[0]["clientConfig"].(map[string]any)["url"] != "https://127.0.0.1:3/hooks/accept" {
		c.Errorf("the configuration that had vanished is %v", list)
	}
}

func proveCleaning(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "b", IgnoreFailures: true, Persistent: true})
	registry.OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: "m", IgnoreFailures: true})
	m := c.Managed(registry)
	m.hooks("Validating", 2)
	m.hooks("Mutating", 1)
	m.Stop()
	list := m.hooks("Validating", 1)
	expect(c, "what stays", list[0]["name"], any("b."+m.name))
	m.hooks("Mutating", 0)
	for _, kind := range []string{"validating", "mutating"} {
		expect(c, "the messages", len(m.Logs.Find("Cleaning up the "+kind+" webhook "+m.name+".")), 1)
	}
	again := c.Managed(registry)
	again.hooks("Validating", 2)
	again.Crash()
	again.hooks("Validating", 2)
}

// proveStopAmidWrite stops an operator while it writes a configuration again and again, because the answers are lost. The server
// has carried out the writes.
func proveStopAmidWrite(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
	registry.OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: "m", IgnoreFailures: true})
	m := c.Managed(registry)
	m.hooks("Mutating", 1)
	isWrite := func(req *Request) bool {
		return strings.Contains(req.Path, "/mutatingwebhookconfigurations/") && strings.Contains(req.Body, "clientConfig")
	}
	before := len(m.Wire.Writes())
	m.Wire.Lose(isWrite)
	announced := make(chan struct{})
	go func() {
		m.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:2/hooks/"})
		close(announced)
	}()
	c.WaitFor("another attempt", func() bool { return len(m.Wire.Writes()) > before+2 })
	began := time.Now()
	m.Stop()
	<-announced
	if passed := time.Since(began); c.late(passed, time.Second) {
		c.Errorf("the end took %s", passed)
	}
	m.hooks("Validating", 0)
	m.hooks("Mutating", 0)
}

// lateTransport is of an API server that carries out the writes of webhooks with some address a second late, also if the client has canceled them.
type lateTransport struct {
	base    http.RoundTripper
	address string
	sent    *doorway
	done    sync.WaitGroup
}

func (l *lateTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	data := []byte{}
	if req.Body != nil {
		data, _ = io.ReadAll(req.Body) // of memory
		req.Body = io.NopCloser(bytes.NewReader(data))
	}
	if !bytes.Contains(data, []byte(l.address)) {
		return l.base.RoundTrip(req)
	}
	l.sent.let()
	var resp *http.Response
	var err error
	answered := make(chan struct{})
	l.done.Go(func() {
		defer close(answered)
		time.Sleep(time.Second) // the slow server
		resp, err = l.base.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
	})
	select {
	case <-answered:
		return resp, err
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// proveLateWrite stops an operator while the API server carries out a write.
func proveLateWrite(c *C) {
	registry := &kopf.Registry{}
	registry.OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: "m", IgnoreFailures: true})
	late := &lateTransport{address: "127.0.0.1:2", sent: newDoorway()}
	m := c.Managed(registry, func(op *kopf.Operator) {
		late.base = op.Connection.HTTPClient.Transport
		op.Connection.HTTPClient = &http.Client{Transport: late}
	})
	m.hooks("Mutating", 1)
	go m.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:2/hooks/"})
	late.sent.pass(c.Context())
	m.Stop()
	late.done.Wait()
	m.hooks("Mutating", 0)
}

// proveLostCreation loses the answer of the creation of a configuration. The repetition finds it.
func proveLostCreation(c *C) {
	registry := &kopf.Registry{}
	registry.OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: "m", IgnoreFailures: true})
	lost := 0
	m := c.Managed(registry, func(op *kopf.Operator) {
		op.Connection.HTTPClient.Transport.(*Wire).Lose(func(req *Request) bool {
			if req.ContentType != "application/apply-patch+yaml" || !strings.Contains(req.Path, "/mutatingwebhookconfigurations") {
				return false
			}
			lost++
			return lost == 1
		})
	})
	m.hooks("Mutating", 1)
	m.Stop()
	if err := m.Err(); err != nil || lost == 0 {
		c.Errorf("the operator ended with %v after %d lost answers", err, lost)
	}
	m.hooks("Mutating", 0)
}

func proveHalfCleaning(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
	registry.OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: "m", IgnoreFailures: true})
	m := c.Managed(registry)
	m.hooks("Mutating", 1)
	m.Wire.Fault(func(req *Request) (*http.Response, error) {
		if strings.Contains(req.Path, "/validatingwebhookconfigurations/") {
			return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
		}
		return nil, nil
	})
	m.Stop()
	m.hooks("Mutating", 0)
	m.hooks("Validating", 1)
}

func proveHookAnySubresource(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", Subresource: "*"})
	rule := c.Managed(registry).hooks("Validating", 1)[0]["rules"].([]any)[0].(map[string]any)
	expect(c, "the resources", rule["resources"], any([]any{"kopfexamples", "kopfexamples/*"}))
}

func proveHookMerging(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "f_n", Operations: []kopf.Operation{"CREATE"}})
	registry.OnValidate("kopfstatusexamples.v1.kopf.dev", accept, &kopf.AdmissionOptions{ID: "f_n"})
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "f_n", Operations: []kopf.Operation{"CREATE"}})
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "f-n"})
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "f_n", IgnoreFailures: true})
	m := c.Managed(registry)
	list := m.hooks("Validating", 3)
	expect(c, "the names", []any{list[0]["name"], list[1]["name"], list[2]["name"]}, []any{"f-n." + m.name, "f-n-2." + m.name, "f-n-3." + m.name})
	expect(c, "the rules of one id", len(list[0]["rules"].([]any)), 2)
	for managed, want := range map[string]string{
		"auto":                            "want at least three parts",
		"Auto.kopf.dev":                   `invalid Settings.Admission.Managed "Auto.kopf.dev": want`,
		strings.Repeat("x", 64) + ".dev":  "invalid Settings.Admission.Managed",
		strings.Repeat("x.", 125) + "dev": "want at most 253 characters",
	} {
		op := &kopf.Operator{Registry: registry, Namespaces: []string{c.Namespace}, Settings: kopf.NewSettings(), Connection: c.ConnectionInfo()}
		op.Settings.Admission = kopf.AdmissionSettings{Server: &reviewer{}, Managed: managed}
		if err := op.Run(c.Context()); err == nil || !strings.Contains(err.Error(), want) {
			c.Errorf("%q: the operator has ended with %v, want %q", managed, err, want)
		}
	}
}

func proveHookNamespaces(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, nil)
	hook := c.Managed(registry).hooks("Validating", 1)[0]
	expect(c, "the selector", hook["namespaceSelector"], any(map[string]any{"matchExpressions": []any{
		map[string]any{"key": "kubernetes.io/metadata.name", "operator": "In", "values": []any{c.Namespace}},
	}}))
}

func proveHookTimeouts(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", Timeout: 1500 * time.Millisecond})
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "b", Timeout: 5 * time.Second})
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "c"})
	list := c.Managed(registry).hooks("Validating", 3)
	expect(c, "the timeouts", []any{list[0]["timeoutSeconds"], list[1]["timeoutSeconds"], list[2]["timeoutSeconds"]}, []any{2.0, 5.0, 30.0})
}

func proveHookDefaults(c *C) {
	name := c.Unique("defaults")
	create := func(adjust func(hook map[string]any)) (*kopf.Body, error) {
		hook := map[string]any{
			"name": "a." + name + ".dev", "sideEffects": "None", "admissionReviewVersions": []any{"v1"},
			"clientConfig": map[string]any{"service": map[string]any{"namespace": "nowhere", "name": "s"}},
			"rules":        []any{map[string]any{"apiGroups": []any{"nothing.dev"}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"things"}}},
		}
		adjust(hook)
		body, err := kopf.NewBody(map[string]any{"apiVersion": registration, "kind": "MutatingWebhookConfiguration", "metadata": map[string]any{"name": name}, "webhooks": []any{hook}})
		if err != nil {
			c.Fatal(err)
		}
		return body, c.Client.Create(c.Context(), body, &kopf.WriteOptions{DryRun: true})
	}
	body, err := create(func(map[string]any) {})
	if err != nil {
		c.Fatal(err)
	}
	var got []map[string]any
	data, _ := json.Marshal(body.Map()["webhooks"])
	if err := json.Unmarshal(data, &got); err != nil {
		c.Fatal(err)
	}
	expect(c, "the defaults", got, []map[string]any{{
		"name": "a." + name + ".dev", "sideEffects": "None", "admissionReviewVersions": []any{"v1"},
		"clientConfig":  map[string]any{"service": map[string]any{"namespace": "nowhere", "name": "s", "port": 443.0}},
		"rules":         []any{map[string]any{"apiGroups": []any{"nothing.dev"}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"things"}, "scope": "*"}},
		"failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": map[string]any{}, "objectSelector": map[string]any{}, "timeoutSeconds": 10.0, "reinvocationPolicy": "Never",
	}})
	service := func(key string, value any) map[string]any {
		service := map[string]any{"namespace": "n", "name": "s"}
		service[key] = value
		return map[string]any{"clientConfig": map[string]any{"service": service}}
	}
	for want, change := range map[string]map[string]any{
		`webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots`:                        {"name": "a.b"},
		`webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds`:                                {"timeoutSeconds": 31},
		`webhooks[0].clientConfig: Required value: exactly one of url or service is required`:                                              {"clientConfig": map[string]any{}},
		`webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`: {"clientConfig": map[string]any{"url": "http://a/b"}},
		`webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun`:                                                  {"sideEffects": nil},
		`webhooks[0].clientConfig.url: Invalid value: "a:b": user information is not permitted in the URL`:                                 {"clientConfig": map[string]any{"url": "https://a:b@c/d"}},
		`webhooks[0].clientConfig.url: Invalid value: "f": fragments are not permitted in the URL`:                                         {"clientConfig": map[string]any{"url": "https://a/b#f"}},
		`webhooks[0].clientConfig.url: Invalid value: "q=1": query parameters are not permitted in the URL`:                                {"clientConfig": map[string]any{"url": "https://a/b?q=1"}},
		`webhooks[0].clientConfig.service.name: Required value`:                                                                            service("namespace", ""),
		`webhooks[0].clientConfig.service.namespace: Required value`:                                                                       service("name", ""),
		`webhooks[0].clientConfig.service.port: Invalid value: 65536: port is not valid: must be between 1 and 65535, inclusive`:           service("port", 65536),
		`webhooks[0].clientConfig.service.port: Invalid value: -1: port is not valid: must be between 1 and 65535, inclusive`:              service("port", -1),
		`webhooks[0].clientConfig.service.path: Invalid value: "a": must start with a '/'`:                                                 service("path", "a"),
		`webhooks[0].clientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty`:                                       service("path", "/a//b"),
		`webhooks[0].clientConfig.service.path: Invalid value: "//": segment[0] may not be empty`:                                          service("path", "//"),
		`webhooks[0].clientConfig.service.path: Invalid value: "/a/B": segment[1]: a lowercase RFC 1123 subdomain must consist of`:         service("path", "/a/B"),
	} {
		if _, err := create(func(hook map[string]any) {
			for key, value := range change {
				hook[key] = value
			}
		}); kopf.StatusCode(err) != 422 || !strings.Contains(err.Error(), want) {
			c.Errorf("%v: got %v, want %s", change, err, want)
		}
	}
}
