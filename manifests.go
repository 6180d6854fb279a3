package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/cli"
	"github.com/kopf-go/kopf/internal/exitguard"
	"github.com/kopf-go/kopf/internal/installation"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/rights"
)

// This file knows what an installation of an operator needs, from what is registered: the rights of its roles, and the commands that print manifests. It calls no handler.

// Needs declares in the default registry what handlers do by their clients. See [Registry.Needs].
func Needs(resource string, verbs ...string) {
	DefaultRegistry().declare("Needs", resource, "", verbs)
}

// NeedsNamed declares in the default registry what handlers do with the objects of one name. See [Registry.NeedsNamed].
func NeedsNamed(resource, name string, verbs ...string) {
	DefaultRegistry().declare("NeedsNamed", resource, name, verbs)
}

// Needs declares what handlers do by their clients, which kopf cannot see, for the roles that the command "manifests" prints: the verbs of a resource, as in
// Needs("pods", "get", "delete"). The resource is a plural with its group, as in "deployments.apps"; kinds that are built into Kubernetes and those of known definitions need no group. A
// subresource follows after a slash, as in "pods/log" or "deployments.apps/scale". It changes nothing for an operator that runs. It panics as [Registry.OnEvent] does.
func (r *Registry) Needs(resource string, verbs ...string) { r.declare("Needs", resource, "", verbs) }

// NeedsNamed is like [Registry.Needs], for the objects with one name, as in NeedsNamed("configmaps", "settings", "get", "patch"). RBAC cannot limit the verbs "create" and "deletecollection" to a name.
func (r *Registry) NeedsNamed(resource, name string, verbs ...string) {
	r.declare("NeedsNamed", resource, name, verbs)
}

// declare adds a declaration, and panics if it is bad.
func (r *Registry) declare(function, resource, name string, verbs []string) {
	plural, _, _ := strings.Cut(resource, "/")
	spec, err := Selector(plural).spec(nil)
	if err = rights.CheckDeclared(resource, err == nil && spec.By == "" && spec.Version == "", function == "NeedsNamed", name, verbs); err != nil {
		panic(fmt.Sprintf("kopf: %s at %s: %v", function, callSite(), err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.needs = append(r.needs, append([]string{resource, callSite(), name}, verbs...))
}

// rightsCollector collects the rights that an operator needs.
type rightsCollector struct {
	registry *Registry
	settings *Settings
	found    []Resource // the kinds that are known
	narrow   bool       // whether only some namespaces are served

	all      []rights.Right
	objects  bool // whether there are handlers of objects
	far      bool // whether some of them are for kinds without namespaces
	warnings []string
	problems []error
}

// collect collects the rights of all handlers, and of the framework for itself.
func (c *rightsCollector) collect() {
	for _, h := range c.registry.snapshot() {
		if h.kind < kindSub {
			c.objects = true
			c.handler(h)
		}
	}
	c.registry.mu.Lock()
	needs := slices.Clone(c.registry.needs)
	kinds, _ := c.registry.defined.(definedTypes)
	c.registry.mu.Unlock()
	for _, n := range needs {
		c.need(n[0], n[1], n[2], n[3:])
	}
	f := rights.Framework{
		Narrow: c.narrow, Scanning: !c.settings.Scanning.Disabled, Objects: c.objects, Far: c.far, Posting: c.settings.Posting.Enabled, Lease: c.settings.LeaderElection.Name,
		Webhooks: c.registry.first(func(h *handler) bool { return h.admission != nil }) != nil, Configuration: c.settings.Admission.Managed,
	}
	if p := &c.settings.Peering; !p.Standalone {
		f.Peering = p.Name
	}
	for _, k := range kinds {
		if k.install {
			f.Installed = append(f.Installed, k.made.Name)
		} else {
			f.Compared = append(f.Compared, k.made.Name)
		}
	}
	c.all = append(c.all, f.Rights()...)
}

// add adds a right for a resource, or a subresource of it, and for the objects with one name, unless it is empty.
func (c *rightsCollector) add(r Resource, subresource, name, reason string, verbs ...string) {
	right := rights.Right{Group: r.Group, Resource: r.Plural, Name: name, Verbs: verbs, Reason: reason, Certain: true}
	if subresource != "" {
		right.Resource += "/" + subresource
	}
	if r.Namespaced {
		right.Scope = rights.Served
	}
	c.all = append(c.all, right)
}

// handler adds the rights for one handler of objects.
func (c *rightsCollector) handler(h *handler) {
	who := fmt.Sprintf("%s %s", kindNames[h.kind], h.id)
	for _, r := range c.targets(h.selector, h.text, who) {
		c.far = c.far || !r.Namespaced
		if h.kind == kindEvent || h.kind == kindIndex {
			c.add(r, "", "", who, "list", "watch")
			continue
		}
		c.add(r, "", "", who, "list", "watch", "patch")
		if slices.Contains(r.Subresources, "status") {
			c.add(r, "status", "", who, "patch")
		}
	}
	if h.reconcile == nil {
		return
	}
	for _, f := range h.reconcile.follows {
		for _, r := range c.targets(f.selector, f.text, who) {
			if f.owns {
				c.add(r, "", "", who, "get", "list", "watch", "create", "patch", "delete")
			} else {
				c.add(r, "", "", who, "list", "watch")
			}
		}
	}
}

// targets returns the resources that a selector means. Those that depend on the cluster become all resources of their groups, with a warning.
func (c *rightsCollector) targets(s selectorSpec, text, who string) []Resource {
	if !s.Named() {
		group := rights.All
		if s.HasGroup {
			group = s.Group
		}
		near := func(r Resource) bool { return r.Group == group && r.Namespaced }
		far := !slices.ContainsFunc(c.found, near) || slices.ContainsFunc(c.found, func(r Resource) bool { return r.Group == group && !near(r) })
		where := ""
		if far && c.narrow {
			where = " in the whole cluster, as there may be some without namespaces"
		}
		c.warnings = append(c.warnings, fmt.Sprintf("%s is for %s, which depends on the cluster: its rule is for all resources of %s%s", who, text, groupName(group), where))
		return []Resource{{Group: group, Plural: rights.All, Namespaced: !far}}
	}
	s.where = nil // which can only be asked about what is there
	fit := s.selected(c.found)
	plural := s.By == "" && strings.ToLower(s.Name) == s.Name
	switch {
	case len(fit) == 1:
		return fit
	case len(fit) > 1:
		c.problems = append(c.problems, fmt.Errorf("%s is for %q, which is any of %s: write the group as well", who, text, names(fit)))
	case s.HasGroup && s.Group != "" && plural && !slices.ContainsFunc(c.found, func(r Resource) bool { return r.Group == s.Group }):
		return []Resource{{Group: s.Group, Version: s.Version, Plural: s.Name, Namespaced: true, Subresources: []string{"status"}}} // as most kinds are
	default:
		group := cmp.Or(s.Group, "example.com")
		c.problems = append(c.problems, fmt.Errorf("%s is for %q, a kind that is not known without a cluster.%s Write its plural and its group, as in %q, or name its definition by --definitions",
			who, text, s.suggestion(c.found), strings.ToLower(s.Name)+"."+group))
	}
	return nil
}

func groupName(group string) string {
	switch group {
	case rights.All:
		return "all groups"
	case "":
		return "the core group"
	}
	return "the group " + group
}

// need adds the rights that were declared.
func (c *rightsCollector) need(resource, where, name string, verbs []string) {
	plural, subresource, _ := strings.Cut(resource, "/")
	spec, err := Selector(plural).spec(nil)
	if err != nil {
		c.problems = append(c.problems, err) // which is not possible, as it was read before
		return
	}
	who := fmt.Sprintf("Needs (%s)", where)
	targets := []Resource{{Group: spec.Group, Plural: spec.Name}}
	if !rights.IsVirtual(plural) {
		targets = c.targets(spec, resource, who)
	}
	for _, r := range targets {
		if err := rights.CheckSubresource(r.Group, r.Plural, subresource, r.Subresources); err != nil && slices.ContainsFunc(c.found, r.isVersionOf) {
			c.problems = append(c.problems, fmt.Errorf("%s: %w", who, err))
		}
		c.add(r, subresource, name, rights.Declared, verbs...)
	}
}

// builtinResources returns the kinds of Kubernetes and those of some definitions, as an API server in memory has them.
func builtinResources(ctx context.Context, definitions []map[string]any) ([]Resource, error) {
	server := NewAPIServer(&APIServerOptions{DisableGarbageCollector: true, Logger: slog.New(slog.DiscardHandler)})
	for _, d := range definitions {
		if err := server.Apply([]byte(installation.YAML(d))); err != nil {
			return nil, err
		}
	}
	client, err := NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		return nil, err
	}
	defer client.close()
	found, _, err := client.discover(ctx, nil)
	return found, err
}

// installing is one call of the command manifests or explain-rights.
type installing struct {
	*command
	options  *cli.Options
	install  *cli.InstallOptions
	program  string
	registry *Registry
	model    *installation.Model
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

// describe prints what an installation needs, and returns whether the folder to be checked has something else.
func (c *command) describe(ctx context.Context, call *cli.Call, program string) (differs bool, err error) {
	i := &installing{command: c, options: &call.Options, install: call.Install(), program: program, registry: DefaultRegistry()}
	if err := i.describe(ctx); err != nil {
		return false, err
	}
	if call.Command == "explain-rights" {
		fmt.Fprint(c.stdout, i.model.Set().Explain())
		return false, nil
	}
	return i.print()
}

// describe fills in the model.
func (i *installing) describe(ctx context.Context) error {
	o := i.install
	definitions, err := i.definitions()
	if err != nil {
		return err
	}
	found, err := builtinResources(ctx, definitions)
	if err == nil && o.Discover {
		found, err = i.discover(ctx, found)
	}
	if err != nil {
		return err
	}
	m := &installation.Model{Name: cmp.Or(o.Name, installation.NameOf(i.program)), Version: o.ChartVersion, Namespaces: i.options.Namespaces, Lease: i.options.LeaderElect, Replicas: o.Replicas, Monitoring: o.Monitoring, Definitions: definitions}
	i.model = m
	m.Patterns = namespaces.IsPattern(strings.Join(m.Namespaces, ""))
	m.Image, m.Home = cmp.Or(o.Image, m.Name), o.Home
	if m.Home == "" && len(m.Namespaces) == 1 && !m.Patterns {
		m.Home = m.Namespaces[0]
	}
	m.Home = cmp.Or(m.Home, "default")
	if m.Replicas == 0 && m.Lease != "" {
		m.Replicas = 2
	}
	if m.Replicas = max(m.Replicas, 1); m.Replicas > 1 {
		m.Lease = cmp.Or(m.Lease, m.Name)
	}
	m.Args = []string{"--standalone"}
	if i.options.Peering != "" {
		m.Args = []string{"--peering=" + i.options.Peering}
	}
	i.describeWebhooks(m)
	return i.collect(found)
}

// definitions returns those of the registry, and those that were read.
func (i *installing) definitions() ([]map[string]any, error) {
	var files []manifest.File
	for _, data := range i.registry.definitions() {
		files = append(files, manifest.File{Path: "Define", Data: data})
	}
	all, warnings, err := installation.Definitions(append(files, i.options.Manifests...), i.install.Definitions)
	i.warn(warnings)
	return all, err
}

func (i *installing) warn(warnings []string) {
	for _, warning := range warnings {
		fmt.Fprintln(i.stderr, "Warning: "+warning+".")
	}
}

// discover returns the kinds that are known, and those that only the cluster has.
func (i *installing) discover(ctx context.Context, known []Resource) ([]Resource, error) {
	all := slices.Clone(known)
	err := connected(i.options, slog.New(slog.DiscardHandler), func(r *run) error {
		found, _, err := r.client.discover(ctx, nil)
		for _, f := range found {
			if !slices.ContainsFunc(known, func(k Resource) bool { return k.Name() == f.Name() }) {
				f.Preferred = f.Preferred && !slices.ContainsFunc(known, f.isVersionOf)
				all = append(all, f)
			}
		}
		return err
	})
	return all, err
}

// describeWebhooks says what there is to say of webhooks, if there are some. Settings that start-up handlers make are not known, so the manifests go by what they have to be.
func (i *installing) describeWebhooks(m *installation.Model) {
	o := i.install
	w := &installation.Webhooks{Port: cmp.Or(o.WebhookPort, 9443), Configuration: cmp.Or(o.WebhookConfiguration, m.Name+".kopf.dev")}
	for _, h := range i.registry.snapshot() {
		if h.admission != nil && !slices.Contains(w.Kinds, h.webhookKind().Name) {
			w.Kinds = append(w.Kinds, h.webhookKind().Name)
		}
	}
	if len(w.Kinds) == 0 {
		return
	}
	slices.Sort(w.Kinds)
	m.Webhooks = w
	fmt.Fprintf(i.stderr, "There are admission handlers: the manifests expect a.Settings.Admission.Server = &kopf.WebhookServer{Port: %d, Service: &kopf.ServiceReference{Name: %q}} and a.Settings.Admission.Managed = %q.\n", w.Port, m.Name, w.Configuration)
}

// collect fills in the rights, for the namespaces that are served, and for the other case.
func (i *installing) collect(found []Resource) error {
	m := i.model
	settings := NewSettings()
	settings.LeaderElection.Name = m.Lease
	settings.Peering.Name, settings.Peering.Standalone = i.options.Peering, i.options.Peering == ""
	if m.Webhooks != nil {
		settings.Admission.Managed = m.Webhooks.Configuration
	}
	narrow := len(m.Namespaces) > 0
	other := &rightsCollector{registry: i.registry, settings: settings, found: found, narrow: !narrow}
	other.collect()
	c := &rightsCollector{registry: i.registry, settings: settings, found: found, narrow: narrow}
	c.collect()
	i.warn(c.warnings)
	m.Rights, m.Otherwise = c.all, other.all
	return errors.Join(c.problems...)
}

// print prints the manifests, writes them, or compares them with what is there.
func (i *installing) print() (differs bool, err error) {
	o, m := i.install, i.model
	if o.NoDescriptions {
		m = m.Clone()
	}
	objects := m.Objects()
	if len(o.Only) > 0 {
		if objects, err = installation.Only(objects, o.Only); err != nil {
			return false, err
		}
	}
	if o.Out == "" {
		_, err = fmt.Fprint(i.stdout, installation.Documents(objects))
		return false, err
	}
	var files installation.Files
	switch o.Format {
	case "helm":
		files = m.ChartFiles()
	case "kustomize":
		files = m.KustomizeFiles(objects)
	default:
		files = m.YAMLFiles(objects)
	}
	folder := &installation.Folder{Path: o.Out, Keep: len(o.Only) > 0}
	if o.Check {
		diff, err := folder.Diff(files)
		fmt.Fprint(i.stdout, diff)
		return diff != "", err
	}
	removed, err := folder.Write(files)
	for _, path := range removed {
		fmt.Fprintln(i.stderr, "Removed "+path)
	}
	return false, err
}
