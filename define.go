package kopf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"

	"github.com/kopf-go/kopf/internal/definition"
	"github.com/kopf-go/kopf/internal/discovery"
)

// Definition describes a kind to [Define], in addition to its struct. Group and Version are required.
type Definition struct {
	// Group is the API group, a domain such as "example.com".
	Group string
	// Version is the version of the kind, such as "v1".
	Version string
	// Kind is the name of the kind. Defaults to the name of the struct.
	Kind string
	// Plural is the name in URLs. Defaults to the plural of the Kind in lower case by the rules of regular English words, such as "policies".
	Plural string
	// Singular is the name of one object for kubectl. Defaults to the Kind in lower case.
	Singular string
	// ListKind is the kind of lists. Defaults to the Kind with "List".
	ListKind string
	// ShortNames are further names for kubectl. Defaults to none.
	ShortNames []string
	// Categories are the groups of kinds for kubectl, such as "all". Defaults to none.
	Categories []string
	// Cluster makes the kind cluster-scoped, without namespaces. Default: false.
	Cluster bool
	// Description is the text of the kind for kubectl explain. Defaults to none.
	Description string
	// Scale adds the subresource "scale", for kubectl scale and autoscalers. Default: none.
	Scale *Scale
	// EmbeddedObjectMeta adds the name, namespace, labels, annotations and finalizers of a
	// metav1.ObjectMeta inside of the object, such as that of a PodTemplateSpec, as the option
	// generateEmbeddedObjectMeta of controller-gen does. Default: false, with which the schema has no
	// fields of it, and API servers drop them.
	EmbeddedObjectMeta bool
	// Install creates or updates the CustomResourceDefinition in the cluster when the operator starts. It needs the permissions to get, create and patch it.
	// Default: false, with which kopf compares the definition with that of the cluster, and warns of differences.
	Install bool
}

// Scale has the paths of the fields for the subresource "scale".
type Scale struct {
	// Replicas is the path of the requested number, such as "spec.replicas".
	Replicas FieldPath
	// StatusReplicas is the path of the current number, such as "status.replicas".
	StatusReplicas FieldPath
	// Selector is the path of the label selector of the pods, a text. Defaults to none.
	Selector FieldPath
}

// DefinedKind is a custom resource that [Define] has made of a struct.
type DefinedKind struct {
	made    *definition.Definition
	install bool
	where   string // the call of Define in the source
}

// Define makes a custom resource of a struct, in the default registry. The struct embeds [Meta], and has at most the fields spec and status. Their fields and
// tags make the schema: see docs/types.md. The embedded API server and [NewRunner] know the kind at once. A cluster needs the CustomResourceDefinition: see
// [Definition.Install] and [DefinedKind.Manifest].
//
// It panics with the path of the field on types and tags that cannot be in a schema.
func Define[T any](d *Definition) *DefinedKind {
	return defineType(DefaultRegistry(), reflect.TypeFor[T](), d)
}

// DefineIn makes a custom resource of a struct, in the given registry. See [Define].
func DefineIn[T any](r *Registry, d *Definition) *DefinedKind {
	return defineType(r, reflect.TypeFor[T](), d)
}

func defineType(r *Registry, t reflect.Type, d *Definition) *DefinedKind {
	k := &DefinedKind{where: callSite()}
	err := k.make(t, d)
	if err == nil {
		err = r.define(k)
	}
	if err != nil {
		panic(fmt.Sprintf("kopf: Define[%s] at %s: %v", t, k.where, err))
	}
	return k
}

func (k *DefinedKind) make(t reflect.Type, d *Definition) (err error) {
	if d == nil {
		return errors.New("the definition is nil: want one with a Group and a Version")
	}
	o := definition.Options{
		Group: d.Group, Version: d.Version, Kind: d.Kind, Plural: d.Plural, Singular: d.Singular, ListKind: d.ListKind,
		ShortNames: slices.Clone(d.ShortNames), Categories: slices.Clone(d.Categories), Cluster: d.Cluster, Description: d.Description,
		EmbeddedObjectMeta: d.EmbeddedObjectMeta,
	}
	if d.Scale != nil {
		o.Scale = &definition.Scale{Replicas: string(d.Scale.Replicas), StatusReplicas: string(d.Scale.StatusReplicas), Selector: string(d.Scale.Selector)}
	}
	k.install = d.Install
	k.made, err = definition.Of(t, reflect.TypeFor[Meta](), describeType, o)
	return err
}

// Selector returns the selector of the kind and its version, to register handlers.
func (k *DefinedKind) Selector() Selector {
	return Selector(k.made.Group + "/" + k.made.Version + "/" + k.made.Plural)
}

// Manifest returns the CustomResourceDefinition in JSON. The same struct always gives the same bytes.
func (k *DefinedKind) Manifest() []byte { return slices.Clone(k.made.JSON) }

// definedKind is a [DefinedKind] of a registry. It is an interface so that programs without Define
// are linked without its implementation.
type definedKind interface {
	// prepare is called before the operator's streams are opened.
	prepare(ctx context.Context, r *run) error
	// warnOfFields logs the fields of the operator's handlers that no object of the kind has.
	warnOfFields(r *run)
}

// define adds a kind. Names must be unique.
func (r *Registry) define(k *DefinedKind) error {
	r = r.target()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.all().defined {
		other := d.(*DefinedKind)
		if other.made.Name == k.made.Name {
			return fmt.Errorf("the kind %s is defined already at %s", k.made.Name, other.where)
		}
		if name := k.made.SharedName(other.made); name != "" {
			return fmt.Errorf("the name %q is also that of %s, defined at %s: want another one, "+
				"because an API server serves only one of them", name, other.made.Name, other.where)
		}
	}
	r.defined = append(r.defined, k)
	return nil
}

// definitions returns the CustomResourceDefinitions of the defined kinds, in the order of the calls of Define.
func (r *Registry) definitions() (all []json.RawMessage) {
	for _, k := range r.copied().defined {
		all = append(all, k.(*DefinedKind).made.JSON)
	}
	return all
}

// prepare installs the definition, or compares it with the one of the cluster, before the operator's streams are opened.
func (k *DefinedKind) prepare(ctx context.Context, r *run) error {
	for _, warning := range k.made.Warnings {
		r.Logger.Warn("The definition of a kind may cause trouble", "definition", k.made.Name, "defined", k.where, "problem", warning, "help", "K116")
	}
	cluster := definitionRequests{r.client.withoutFence()} // all replicas write the same
	if k.install {
		if err := k.made.Install(ctx, cluster); err != nil {
			return fmt.Errorf("install the definition %s: %w", k.made.Name, err)
		}
		r.Logger.Info("Definition installed", "definition", k.made.Name)
		return nil
	}
	problem, err := k.made.Compare(ctx, cluster)
	if StatusCode(err) == http.StatusForbidden || err != nil && ctx.Err() != nil { // nothing else needs this permission
		r.Logger.Debug("Definition could not be compared with that of the cluster", "definition", k.made.Name, "error", err)
	} else if err != nil {
		r.Logger.Warn("Definition could not be compared with that of the cluster", "definition", k.made.Name, "error", err, "help", "K115")
	}
	switch problem {
	case "":
	case definition.Missing:
		r.Logger.Warn("The CRD of a kind is not installed; not serving the kind until it is",
			"definition", k.made.Name, "defined", k.where, "hint", "apply the output of the command "+
				"manifests --only CustomResourceDefinition, or set Install in the definition", "help", "K114")
	default:
		r.Logger.Warn("The cluster has another definition of a kind than the operator",
			"definition", k.made.Name, "defined", k.where, "problem", problem,
			"hint", "apply the definition of this operator, or set Install in it", "help", "K114")
	}
	return nil
}

// warnOfFields logs the fields of handlers that no object has. The kinds may be defined in the default
// registry, and the handlers be in another one.
func (r *run) warnOfFields() {
	kinds := r.Registry.copied().defined
	if other := DefaultRegistry(); other != r.Registry.base {
		kinds = append(kinds, other.copied().defined...)
	}
	for _, k := range kinds {
		k.warnOfFields(r)
	}
}

// warnOfFields logs the fields of handlers that no object of the kind has, because such a handler is
// never called. Another definition in the cluster could have them.
func (k *DefinedKind) warnOfFields(r *run) {
	resource := discovery.Resource{
		Group: k.made.Group, Version: k.made.Version, Plural: k.made.Plural, Kind: k.made.Kind, Preferred: true,
	}
	for _, h := range r.Registry.snapshot() {
		if !h.selector.Specific() || !h.selector.Matches(resource) {
			continue
		}
		for _, path := range h.fieldPaths() {
			if problem := k.made.Lacks(path); problem != "" {
				r.Logger.Warn("A handler has a field that is not in the definition of its kind", handlerAttr(h.id), "registered", h.registered.where,
					"field", string(Path(path...)), "definition", k.made.Name, "problem", problem, "help", "K127")
			}
		}
	}
}

// fieldPaths returns the paths of the fields in the options of the handler.
func (h *handler) fieldPaths() (all [][]string) {
	if len(h.field) > 0 {
		all = append(all, h.field)
	}
	if h.reconcile != nil {
		for _, path := range h.reconcile.fields {
			all = append(all, path.Keys())
		}
	}
	return all
}

// definitionsManager is the field manager of definitions.
const definitionsManager = "kopf-definitions"

// definitionRequests implements [definition.Cluster].
type definitionRequests struct{ client *Client }

func (d definitionRequests) Get(ctx context.Context, path string) (raw []byte, code int, err error) {
	return d.send(ctx, &request{method: http.MethodGet, path: path})
}

func (d definitionRequests) GetOnce(ctx context.Context, path string) (raw []byte, code int, err error) {
	return d.send(ctx, &request{method: http.MethodGet, path: path, once: true})
}

func (d definitionRequests) Apply(ctx context.Context, path string, document []byte) (raw []byte, code int, err error) {
	query := url.Values{"fieldManager": {definitionsManager}, "force": {"true"}}
	return d.send(ctx, &request{method: http.MethodPatch, path: path, query: query, contentType: string(ApplyPatch), body: document})
}

func (d definitionRequests) send(ctx context.Context, r *request) (raw []byte, code int, err error) {
	body, err := d.client.body(ctx, r)
	if err != nil {
		return nil, StatusCode(err), err
	}
	return body.raw, http.StatusOK, nil
}
