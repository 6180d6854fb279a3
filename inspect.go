package kopf

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/cli"
	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/exitguard"
	"github.com/kopf-go/kopf/internal/inspection"
	"github.com/kopf-go/kopf/internal/installation"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file runs the commands that explain what an operator does with an object. It also checks other causes: namespaces, peering, the Lease, and
// permissions.

// inspecting is one run of a command that reports on objects.
type inspecting struct {
	*command
	options   *cli.Options
	args      *cli.InspectOptions
	registry  *Registry
	inspector *inspector
	client    *Client              // nil without a cluster
	found     []discovery.Resource // in the cluster
	served    map[string]*resolved // with handlers, by name
	peering   inspection.Peering
}

// inspect runs the command status or explain, and returns the exit code.
func (c *command) inspect(ctx context.Context, call *cli.Call, program string) int {
	failing, err := c.inspectObjects(ctx, call)
	if err = ended(&call.Options, err); err != nil {
		fmt.Fprintf(c.stderr, "%s %s: %s\n", program, call.Command, cli.OneLine(err))
		return exitguard.ExitFailure
	}
	if failing && call.Inspect.ExitCode {
		return cli.ExitFailed
	}
	return 0
}

// inspectObjects runs the command, and reports whether handlers of any object fail.
func (c *command) inspectObjects(ctx context.Context, call *cli.Call) (failing bool, err error) {
	i := &inspecting{command: c, options: &call.Options, args: &call.Inspect, registry: DefaultRegistry()}
	quiet := *i.options
	quiet.Namespaces, quiet.Peering = nil, ""
	r, err := prepared(&quiet, slog.New(slog.DiscardHandler))
	if err != nil {
		return false, err
	}
	i.inspector = &inspector{settings: r.Settings, notes: &inspection.Notes{}}
	i.peering = inspection.Peering{Name: i.options.Peering, Priority: r.Settings.Peering.Priority}
	if i.peering.Name == "" && r.Settings.Peering.Mandatory {
		i.peering.Name = r.Settings.Peering.Name
	}
	if call.Given["priority"] {
		i.peering.Priority = i.options.Priority
	}
	if i.args.File != "" {
		return false, i.explainFile(ctx)
	}
	if err := r.connect(); err != nil {
		return false, err
	}
	defer r.client.close()
	i.client, i.inspector.client = r.client, r.client
	if call.Command == "explain" {
		return false, i.explain(ctx)
	}
	return i.status(ctx)
}

// say prints a message to stderr.
func (i *inspecting) say(message string) { fmt.Fprintln(i.stderr, inspection.Clean(message)) }

// discover finds the kinds in the cluster, and their handlers.
func (i *inspecting) discover(ctx context.Context) (err error) {
	var broken map[string]error
	if i.found, broken, err = i.client.discover(ctx, nil); err != nil {
		return err
	}
	i.serve(broken)
	return nil
}

// serve resolves the handlers for the discovered kinds.
func (i *inspecting) serve(broken map[string]error) {
	var warnings []string
	i.served, warnings = i.registry.resolve(i.found, broken)
	for _, warning := range warnings {
		i.inspector.notes.Add(warning)
	}
}

// resource returns the kind of the arguments.
func (i *inspecting) resource() (Resource, error) {
	r, err := inspection.FindKind(i.args.Kind, i.found)
	if err == nil {
		return Resource(r), nil
	}
	for _, data := range i.registry.definitions() {
		definitions, _ := ParseManifests(data) // kopf has made it
		for _, d := range definitions {
			if own, unknown := inspection.FindKind(i.args.Kind, discovery.Defined(d)); unknown == nil {
				return Resource{}, fmt.Errorf("the CRD of %s, which this operator defines, is not in the cluster: "+
					"apply the output of the command \"manifests --only CustomResourceDefinition\"", own.Name())
			}
		}
	}
	return Resource{}, err
}

// ownPrefix returns the prefix under which this operator stores its data, and whether its settings choose the storages. Otherwise, a start-up handler may
// choose others.
func (i *inspecting) ownPrefix() (prefix string, chosen bool) {
	p := i.inspector.settings.Persistence
	prefix = append(slices.Concat(prefixesOf(p.DiffBaseStorage), prefixesOf(p.ProgressStorage)), markers.DefaultPrefix)[0]
	p.untracked = "" // is not a choice
	return prefix, !reflect.DeepEqual(p, NewSettings().Persistence)
}

// handled returns the handlers of a resource, with the storages of an operator that uses the prefix. Those of this operator are in its settings.
func (i *inspecting) handled(r Resource, body *Body, prefix string) *resolved {
	what := &resolved{resource: r}
	if served := i.served[r.Name()]; served != nil {
		known := *served
		what = &known
	}
	p := i.inspector.settings.Persistence
	if own, chosen := i.ownPrefix(); chosen && own == prefix {
		what.persistence = p.resolve(p.resolve(true).inStatus(body)) // the schema may not keep it there
		return what
	}
	p.ProgressStorage, p.DiffBaseStorage = &SmartProgressStorage{Prefix: prefix}, &SmartDiffBaseStorage{Prefix: prefix}
	for _, f := range body.Finalizers() { // the operator may have another name for it
		if strings.HasPrefix(f, prefix+"/") {
			p.Finalizer = f
		}
	}
	what.persistence = p.resolve(false)
	return what
}

// prefixesOn returns the prefixes of the operators' data on an object, or the prefix of this operator. If its settings choose the storages, its own prefix is
// the first one.
func (i *inspecting) prefixesOn(body *Body) []string {
	if i.args.Prefix != "" {
		return []string{i.args.Prefix}
	}
	own, chosen := i.ownPrefix()
	_, inStatus := body.find("status", defaultName)
	all := markers.AllPrefixes(body.of(body.annotations), own, inStatus)
	if chosen {
		all = append([]string{own}, slices.DeleteFunc(all, func(prefix string) bool { return prefix == own })...)
	}
	return all
}

// namespace returns the namespace of the arguments.
func (i *inspecting) namespace(ctx context.Context, r Resource) (string, error) {
	if !r.Namespaced || i.args.AllNamespaces {
		return "", nil
	}
	if i.args.Namespace != "" {
		return i.args.Namespace, nil
	}
	return i.home(ctx)
}

// home returns the namespace of the connection, in which an operator has its Lease by default.
func (i *inspecting) home(ctx context.Context) (string, error) {
	info, err := i.client.ConnectionInfo(ctx)
	if err != nil {
		return "", err
	}
	return cmp.Or(info.DefaultNamespace, "default"), nil
}

// explain explains an object of the cluster, or the handlers of a kind.
func (i *inspecting) explain(ctx context.Context) error {
	if err := i.discover(ctx); err != nil {
		return err
	}
	r, err := i.resource()
	if err != nil {
		return err
	}
	if i.args.Name == "" {
		return i.explainKind(r)
	}
	namespace, err := i.namespace(ctx, r)
	if err != nil {
		return err
	}
	body, err := i.client.object(ctx, r, namespace, i.args.Name)
	if err != nil {
		return err
	}
	return i.explainBody(ctx, r, body)
}

// explainFile explains an object of a file, without a cluster.
func (i *inspecting) explainFile(ctx context.Context) error {
	body, err := i.readBody(ctx, i.args.File)
	if err != nil {
		return err
	}
	var files []manifest.File
	for _, data := range i.registry.definitions() {
		files = append(files, manifest.File{Path: "Define", Data: data})
	}
	definitions, _, err := installation.Definitions(append(files, i.options.Manifests...), i.args.Definitions)
	if err != nil {
		return err
	}
	if i.found, err = builtinResources(definitions); err != nil {
		return err
	}
	ref, note := body.Reference(), ""
	var r discovery.Resource
	if r, i.found, note = inspection.KindOf(ref.APIVersion, ref.Kind, body.namespace != "", i.found); note != "" {
		i.inspector.notes.Add(note)
	}
	i.serve(nil)
	return i.explainBody(ctx, Resource(r), body)
}

// readBody reads the object of a file.
func (i *inspecting) readBody(ctx context.Context, file string) (*Body, error) {
	object, err := inspection.ReadObject(ctx, file, i.stdin)
	if err != nil {
		return nil, err
	}
	return NewBody(object)
}

// explainBody prints an explanation of an object.
func (i *inspecting) explainBody(ctx context.Context, r Resource, body *Body) error {
	prefixes := i.prefixesOn(body)
	if len(prefixes) > 1 {
		i.inspector.notes.Add(fmt.Sprintf("Several operators have stored something on the object: %s; --prefix chooses one", strings.Join(prefixes, ", ")))
	}
	if indices := i.registry.indexIDs(); len(indices) > 0 {
		i.inspector.notes.Add(fmt.Sprintf("Handlers are called when the indices are complete, and predicates find nothing in them here: %s", strings.Join(indices, ", ")))
	}
	what := i.handled(r, body, prefixes[0])
	supposed, err := i.suppose(ctx, what, body)
	if err != nil {
		return err
	}
	x := i.inspector.explain(what, supposed, i.args.Event == "resumed")
	if i.explainReviews(r, supposed, x); len(x.Handlers) == 0 && i.registry.unknownHandlers() != "" {
		x.Notes = append(x.Notes, i.registry.unknownHandlers())
	}
	said := &inspection.Status{State: inspection.Unknown}
	if i.conclude(r, supposed, said); said.Error != "" {
		reason := strings.TrimPrefix(said.Error, string(said.State)+": ")
		x.Notes = append(x.Notes, fmt.Sprintf("The conditions of the object say %s: %s", said.State, reason))
	}
	if i.client != nil {
		if err := i.explainElse(ctx, r, body, x); err != nil {
			return err
		}
	}
	serves := func(pattern string) bool { return namespaces.Match(pattern, body.namespace) }
	if served := i.args.Serves; len(served) > 0 && body.namespace != "" && !slices.ContainsFunc(served, serves) {
		x.Prevent(fmt.Sprintf("the namespace %q is not served by %s", body.namespace, strings.Join(served, " or ")))
	}
	if i.options.Output == "json" {
		return inspection.WriteJSON(i.stdout, x)
	}
	return x.WriteText(i.stdout)
}

func (r *Registry) indexIDs() (ids []string) {
	for _, h := range r.snapshot() {
		if h.kind == kindIndex && !slices.Contains(ids, string(h.id)) {
			ids = append(ids, string(h.id))
		}
	}
	return ids
}

// suppose returns the object in the state that the arguments assume.
func (i *inspecting) suppose(ctx context.Context, what *resolved, body *Body) (*Body, error) {
	switch {
	case i.args.Event == "created":
		return withoutState(what, body), nil
	case i.args.Old != "":
		old, err := i.readBody(ctx, i.args.Old)
		if err != nil {
			return nil, err
		}
		groupOf := func(b *Body) string { return b.apiVersion[:max(strings.LastIndex(b.apiVersion, "/"), 0)] }
		if groupOf(old) != groupOf(body) || old.kind != body.kind || old.name != body.name || old.namespace != body.namespace {
			return nil, fmt.Errorf("%s has the object %s: want another state of %s", i.args.Old, old.Reference(), body.Reference())
		}
		fresh, patch := withoutState(what, body), newPatch(what.persistence, &what.resource, body)
		what.persistence.DiffBaseStorage.Store(what.track(withoutState(what, old)), fresh, patch)
		body = patch.applied(fresh)
	}
	if i.args.Event == "deleted" && !body.Deleting() {
		i.inspector.running = true
		patch := &Patch{}
		if i.inspector.cycle(what, body, false).decide().Kind == decision.AddFinalizer { // the operator would have added it long ago
			patch.changes.Adds = []string{what.persistence.Finalizer}
		}
		patch.Set("metadata.deletionTimestamp", time.Now().UTC().Format(time.RFC3339))
		body = patch.applied(body)
	}
	return body, nil
}

// withoutState returns the object without the operator's data.
func withoutState(what *resolved, body *Body) *Body {
	patch := newPatch(what.persistence, &what.resource, body)
	for _, prefix := range prefixesOf(what.persistence.DiffBaseStorage) {
		for key := range body.Annotations() {
			if markers.HasPrefix([]byte(key), prefix) {
				patch.put(nil, "metadata", "annotations", key)
			}
		}
	}
	if _, ok := body.find("status", defaultName); ok {
		patch.put(nil, "status", defaultName)
	}
	return patch.applied(body)
}

// explainReviews adds the admission handlers.
func (i *inspecting) explainReviews(r Resource, body *Body, x *inspection.Explanation) {
	for _, h := range i.registry.snapshot() {
		if h.admission == nil {
			continue
		}
		if fit, _ := h.selected(i.found); !slices.ContainsFunc(fit, func(f discovery.Resource) bool { return f.Name() == r.Name() }) {
			continue
		}
		x.Handlers = append(x.Handlers, h.explainReview(r, body, i.inspector))
	}
}

// explainElse checks the causes outside of the object.
func (i *inspecting) explainElse(ctx context.Context, r Resource, body *Body, x *inspection.Explanation) error {
	server := inspectionServer{discovering: discovering{i.client}, warn: x.AddWarning}
	x.AddPause(i.pausedBy(ctx, body.namespace))
	election := i.inspector.settings.LeaderElection
	if name := cmp.Or(i.options.LeaderElect, election.Name); name != "" {
		namespace, err := i.home(ctx) // not that of the object
		if err != nil {
			return err
		}
		x.AddHolder(ctx, server, name, leasesResource.URL(cmp.Or(i.options.LeaderElectNamespace, election.Namespace, namespace), name, ""))
	}
	if account := i.args.ServiceAccount; account != "" {
		x.AddMissing(ctx, server, account, r.Group, r.Plural, body.namespace)
	}
	return nil
}

// pausedBy returns the peer for which the operator pauses in a namespace.
func (i *inspecting) pausedBy(ctx context.Context, namespace string) *inspection.Pause {
	peering := &i.inspector.settings.Peering
	if peering.Standalone && i.options.Peering == "" {
		return &inspection.Pause{}
	}
	var paths []string
	elsewhere := false // in namespaces, for an object without one
	for _, r := range i.found {
		switch {
		case isPeering(r, true), isPeering(r, false) && namespace != "":
			paths = append(paths, Resource(r).URL(url.PathEscape(namespace), cmp.Or(i.options.Peering, peering.Name), ""))
		case isPeering(r, false):
			elsewhere = true
		}
	}
	if elsewhere && len(paths) == 0 {
		return &inspection.Pause{}
	}
	return i.peering.In(ctx, inspectionServer{discovering: discovering{i.client}}, namespace, paths)
}

// inspectionServer implements [inspection.Server].
type inspectionServer struct {
	discovering
	warn func(text string) // takes the warnings of the server; may be nil
}

// Post implements [inspection.Server].
func (s inspectionServer) Post(ctx context.Context, path string, body []byte, into any) error {
	r := &request{method: http.MethodPost, path: path, body: body, contentType: "application/json"}
	answer, err := s.client.body(ctx, r)
	if err != nil {
		return err
	}
	for _, text := range r.warnings {
		if s.warn != nil {
			s.warn(text)
		}
	}
	return answer.Decode(into)
}

// Read implements [livepage.Cluster].
func (s inspectionServer) Read(ctx context.Context, path string, query url.Values, token string) (data []byte, code int, err error) {
	err = s.client.do(ctx, &request{method: http.MethodGet, path: path, query: query, pageToken: token, read: func(answer io.Reader) error {
		data, err = io.ReadAll(&apirequest.Bounded{Answer: answer, Left: rawjson.MaxObject})
		return err
	}})
	return data, StatusCode(err), err
}

// explainKind prints the handlers of a kind.
func (i *inspecting) explainKind(r Resource) error {
	list := &inspection.HandlerList{Resource: r.Name(), Notes: i.inspector.notes.Messages()}
	what := i.served[r.Name()]
	if what == nil {
		what = &resolved{resource: r}
	}
	all := what.handlers()
	for _, h := range i.registry.snapshot() {
		if fit, _ := h.selected(i.found); h.admission != nil && slices.ContainsFunc(fit, func(f discovery.Resource) bool { return f.Name() == r.Name() }) {
			all = append(all, h)
		}
	}
	settings := &i.inspector.settings.Persistence
	p := settings.resolve(r.hasStatus()) // as if the schema kept the state
	for _, h := range all {
		list.Handlers = append(list.Handlers, h.describe(r, p))
	}
	if note := i.registry.unknownHandlers(); note != "" && len(all) == 0 {
		list.Notes = append(list.Notes, note)
	}
	if i.options.Output == "json" {
		return inspection.WriteJSON(i.stdout, list)
	}
	return list.WriteText(i.stdout)
}
