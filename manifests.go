package kopf

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/cli"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/exitguard"
	"github.com/kopf-go/kopf/internal/installation"
	"github.com/kopf-go/kopf/internal/rights"
	"github.com/kopf-go/kopf/internal/webhookca"
)

// This file derives the permissions (RBAC) of an operator from its handlers, for the commands that print manifests. It calls no handler.

// Needs declares in the default registry the requests that handlers send with their clients. See [Registry.Needs].
func Needs(resource string, verbs ...string) {
	DefaultRegistry().declare("Needs", resource, "", verbs)
}

// NeedsNamed declares in the default registry the requests that handlers send for the objects with one name. See [Registry.NeedsNamed].
func NeedsNamed(resource, name string, verbs ...string) {
	DefaultRegistry().declare("NeedsNamed", resource, name, verbs)
}

// Needs declares the requests that handlers send with their clients, which kopf cannot see, for the roles that the command "manifests" prints. It takes the
// verbs of a resource, as in Needs("pods", "get", "delete"). The resource is a plural with its group, as in "deployments.apps". Kinds that are built into
// Kubernetes and those of known definitions need no group. A subresource follows after a slash, as in "pods/log" or "deployments.apps/scale". It has no
// effect on a running operator. It panics as [Registry.OnEvent] does.
func (r *Registry) Needs(resource string, verbs ...string) { r.declare("Needs", resource, "", verbs) }

// NeedsNamed is like [Registry.Needs], for the objects with one name, as in NeedsNamed("configmaps", "settings", "get", "patch"). RBAC cannot limit the verbs
// "create" and "deletecollection" to a name.
func (r *Registry) NeedsNamed(resource, name string, verbs ...string) {
	r.declare("NeedsNamed", resource, name, verbs)
}

// declare adds a declaration, and panics if it is invalid.
func (r *Registry) declare(function, resource, name string, verbs []string) {
	plural, _, _ := strings.Cut(resource, "/")
	spec, err := discovery.ParseSelector(plural, nil)
	if err = rights.CheckDeclared(resource, err == nil && spec.By == "" && spec.Version == "", function == "NeedsNamed", name, verbs); err != nil {
		panic(fmt.Sprintf("kopf: %s at %s: %v", function, callSite(), err))
	}
	r = r.target()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.needs = append(r.needs, rights.Declaration{Resource: resource, Name: name, Verbs: slices.Clone(verbs), Where: callSite()})
}

// rights returns the facts that determine the permissions of an operator with these settings, for some namespaces or all.
func (r *Registry) rights(settings *Settings, found []discovery.Resource, narrow bool) *rights.Operator {
	o := &rights.Operator{Found: found, Framework: rights.Framework{
		Narrow: narrow, Scanning: !settings.Scanning.Disabled, Posting: settings.Posting.Enabled, Lease: settings.LeaderElection.Name,
		Webhooks: r.first(func(h *handler) bool { return h.admission != nil }) != nil, Configuration: settings.Admission.Managed,
	}}
	all := r.copied()
	for _, h := range all.handlers {
		if h.kind < kindSub {
			o.Handlers = append(o.Handlers, h.rights())
		}
	}
	if p := &settings.Peering; !p.Standalone {
		o.Framework.Peering = p.Name
	}
	_, o.Framework.Authority, _ = settings.Admission.authority()
	o.Declared = all.needs
	for _, d := range all.defined {
		if k := d.(*DefinedKind); k.install {
			o.Framework.Installed = append(o.Framework.Installed, k.made.Name)
		} else {
			o.Framework.Compared = append(o.Framework.Compared, k.made.Name)
		}
	}
	return o
}

// rights returns the facts that determine the permissions for a handler.
func (h *handler) rights() rights.Handler {
	own := rights.Handler{Name: fmt.Sprintf("%s %s", kindNames[h.kind], h.id), Selector: h.selector, Reads: h.kind == kindEvent || h.kind == kindIndex}
	if h.reconcile != nil {
		for _, f := range h.reconcile.follows {
			own.Follows = append(own.Follows, rights.Follow{Selector: f.selector, Owns: f.owns})
		}
	}
	return own
}

// builtinResources returns the resources of Kubernetes and of some definitions. Builds with the embedded API server also check the definitions.
func builtinResources(definitions []map[string]any) (found []discovery.Resource, err error) {
	for _, b := range discovery.Builtins() {
		found = append(found, b.Resource)
	}
	var texts []json.RawMessage
	for _, d := range definitions {
		texts = append(texts, json.RawMessage(installation.YAML(d)))
		found = append(found, discovery.Defined(d)...)
	}
	if embedded.Included {
		err = embedded.Check(texts)
	}
	return found, err
}

// install runs the command manifests or explain-rights, and returns the exit code.
func (c *command) install(ctx context.Context, call *cli.Call, program string) int {
	differs, err := c.describe(ctx, call, program)
	if err != nil {
		fmt.Fprintf(c.stderr, "%s %s: %v\n", program, call.Command, err)
	}
	if differs || err != nil {
		return exitguard.ExitFailure
	}
	return 0
}

// describe prints the manifests or permissions, and returns whether the checked folder differs.
func (c *command) describe(ctx context.Context, call *cli.Call, program string) (differs bool, err error) {
	registry, settings := DefaultRegistry(), NewSettings()
	if _, err := registry.configure(settings); err != nil {
		return false, err
	}
	settings.complete(call)
	settings.LeaderElection.Name = call.LeaderElect
	if err := settings.validate(registry.snapshot()); err != nil {
		return false, err
	}
	if !registry.serving() && call.DependsOnHandlers() {
		c.warn([]string{"no handlers are registered for objects, so the operator does nothing, and needs no permissions for them"})
		if note := registry.unknownHandlers(); note != "" {
			c.warn([]string{note + ", nor the permissions that these need: register them before the start"})
		}
	}
	definitions, warnings, err := call.ReadDefinitions(registry.definitions())
	c.warn(warnings)
	if err != nil {
		return false, err
	}
	found, err := builtinResources(definitions)
	if err == nil && call.Install().Discover {
		err = connected(&call.Options, slog.New(slog.DiscardHandler), func(r *run) error {
			there, _, err := r.client.discover(ctx, nil)
			found = discovery.Added(found, there)
			return err
		})
	}
	if err != nil {
		return false, err
	}
	var webhooks []string
	for _, h := range registry.snapshot() {
		if h.admission != nil {
			webhooks = append(webhooks, h.webhookKind().Name)
		}
	}
	m, note := call.Model(program, definitions, webhooks)
	if m.Webhooks != nil && !settings.Admission.fits(m) && call.DependsOnWebhooks() {
		fmt.Fprint(c.stderr, note)
	}
	for _, h := range registry.snapshot() {
		m.Reconciling = m.Reconciling || h.reconcile != nil
		m.Children = m.Children || h.reconcile != nil && slices.ContainsFunc(h.reconcile.follows, func(f *followSpec) bool { return f.owns })
	}
	narrow := len(m.Namespaces) > 0
	settings.LeaderElection.Name = m.Lease
	settings.Peering.Name, settings.Peering.Standalone = call.Peering, call.Peering == ""
	if m.Webhooks != nil {
		settings.Admission.Managed = m.Webhooks.Configuration
	}
	needed := registry.rights(settings, found, narrow).Needed()
	c.warn(slices.Concat(needed.Warnings, settings.elsewhere(m)))
	m.Rights, m.Otherwise = needed.Rights, registry.rights(settings, found, !narrow).Needed().Rights
	if err := needed.Err(); err != nil {
		return false, err
	}
	if call.Command == "explain-rights" {
		fmt.Fprint(c.stdout, m.Set().Explain())
		return false, nil
	}
	m.Grace = settings.exitTime(registry.snapshot())
	c.warn(settings.endless(registry.snapshot()))
	return call.Write(m, c.stdout, c.stderr)
}

// complete adds the options that are not given, and that the settings have.
func (s *Settings) complete(call *cli.Call) {
	call.LeaderElect = cmp.Or(call.LeaderElect, s.LeaderElection.Name)
	if p := &s.Peering; !p.Standalone && (p.Mandatory || p.named()) {
		call.Peering = cmp.Or(call.Peering, p.Name)
	}
	o := call.Install()
	o.WebhookConfiguration = cmp.Or(o.WebhookConfiguration, s.Admission.Managed)
	if server, ok := s.Admission.Server.(interface{ port() int }); ok {
		o.WebhookPort = cmp.Or(o.WebhookPort, server.port())
	}
}

// exitMargin is the time that a pod has for the rest of its shutdown: the handlers of the end of
// leading, and the release of the Lease.
const exitMargin = 5 * time.Second

// exitTime returns how long an operator with the settings and handlers may take to end. It counts
// waits without a limit as none.
func (s *Settings) exitTime(handlers []*handler) time.Duration {
	var tasks, cleanup time.Duration
	for _, h := range handlers {
		switch {
		case h.task != nil:
			stop := h.task.backoff + h.task.exitTimeout(&s.Background)
			tasks = max(tasks, stop, s.Background.InstantExitTimeout)
		case h.kind == kindCleanup:
			cleanup = max(cleanup, h.retry.timeout)
		}
	}
	return max(s.Queueing.ExitTimeout+tasks+cleanup, s.Admission.ShutdownDelay) + exitMargin
}

// endless warns of daemons and timers for which the operator waits without a limit. A pod cannot.
func (s *Settings) endless(handlers []*handler) (warnings []string) {
	for _, h := range handlers {
		if h.task != nil && h.task.exitTimeout(&s.Background) == 0 {
			warnings = append(warnings, fmt.Sprintf("the operator waits for %s %s without a limit when it stops, "+
				"but Kubernetes kills its pod after terminationGracePeriodSeconds: "+
				"set Settings.Background.ExitTimeout, or raise the grace period", kindNames[h.kind], h.id))
		}
	}
	return warnings
}

// authority returns the namespace and the name of the Secret that the settings give for the
// authority of the webhooks, if they give one.
func (s *AdmissionSettings) authority() (namespace, name string, err error) {
	server, ok := s.Server.(interface{ authoritySecret() string })
	if !ok || server.authoritySecret() == "" {
		return "", "", nil
	}
	return webhookca.Split(server.authoritySecret())
}

// elsewhere warns of what the operator uses in other namespaces than its own, where the manifests
// give it no permissions.
func (s *Settings) elsewhere(m *installation.Model) (warnings []string) {
	const text = "%s is in the namespace %q, and the manifests give permissions for it in %q, " +
		"the namespace of the operator: grant them there, too, or install the operator there"
	if namespace := cmp.Or(s.LeaderElection.Namespace, m.Home); m.Lease != "" && namespace != m.Home {
		warnings = append(warnings, fmt.Sprintf(text, "the Lease of Settings.LeaderElection", namespace, m.Home))
	}
	namespace, name, err := s.Admission.authority()
	if namespace = cmp.Or(namespace, m.Home); m.Webhooks != nil && (err != nil || namespace != m.Home) {
		what := fmt.Sprintf("the Secret %q of the authority of the webhooks", name)
		warnings = append(warnings, fmt.Sprintf(text, what, namespace, m.Home))
	}
	return warnings
}

// fits reports whether the settings are those that the manifests expect.
func (s *AdmissionSettings) fits(m *installation.Model) bool {
	server, ok := s.Server.(interface {
		port() int
		serviceName() string
	})
	return ok && server.port() == m.Webhooks.Port && server.serviceName() == m.Name && s.Managed == m.Webhooks.Configuration
}

func (c *command) warn(warnings []string) {
	for _, warning := range warnings {
		fmt.Fprintln(c.stderr, "Warning: "+warning+".")
	}
}
