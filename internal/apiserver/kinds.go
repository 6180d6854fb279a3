package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/openapi"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/table"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// apiResource is a resource as discovery describes it.
type apiResource struct {
	Group, Version, Kind, Plural, Singular      string
	ShortNames, Categories, Subresources, Verbs []string
	Namespaced                                  bool
	Preferred                                   bool // whether the version is the preferred one of its group
}

// APIVersion returns "group/version", or the version alone in the core group.
func (r apiResource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// kindInfo is one kind in one version.
type kindInfo struct {
	resource  apiResource
	listKind  string
	crd       map[string]any // the CRD, nil for built-in kinds
	schema    *schema.Schema // of the whole object, nil if there is none
	columns   []table.Column // of tables, after the name; nil for the default
	hasStatus bool           // whether the status is a subresource
	scale     map[string]any // the paths of the scale subresource, nil if there is none

	storage         string // the API version of stored objects, "" for that of the kind
	generation      bool   // whether objects have a generation
	returnsGone     bool   // whether the response to a deletion is the object, and not a status
	postedOnly      bool   // whether objects are returned and never stored
	createsOnUpdate bool   // whether a PUT creates objects
	needsVersion    bool   // whether an update needs the resource version

	// Of custom resources:
	stored      *kindInfo                 // the kind in the version in which objects are stored
	schemas     map[string]*schema.Schema // of all versions, by API version
	conversion  *conversion               // nil if only the schemas of the versions differ
	versions    int                       // the number of served versions
	since       uint64                    // the version of the store since which all objects were stored by this schema
	selectable  []string                  // the paths of the selectable fields
	deprecation string                    // the warning that the version is deprecated, "" if it is not
	terminating bool                      // whether the CRD is marked for deletion
	began       uint64                    // the version of the store since which it is served in this form; watches cannot begin earlier
	ended       chan struct{}             // closed when the kind is no longer served in this form, which ends its watches

	orphansDependents bool // whether deletions orphan the dependents by default
}

// collection returns the name of the kind in the store. The events of both groups are the same objects.
func (k *kindInfo) collection() string {
	if k.isNewEvents() {
		return "events."
	}
	return k.resource.Plural + "." + k.resource.Group
}

// inStorage returns the kind in the version in which its objects are stored. The server makes its own changes in this version, so that they need no webhook.
func (k *kindInfo) inStorage() *kindInfo {
	if k.stored != nil {
		return k.stored
	}
	return k
}

// isNamespaces reports whether the kind is Namespace.
func (k *kindInfo) isNamespaces() bool {
	return k.resource.Plural == "namespaces" && k.resource.Group == ""
}

// qualified returns the kind for messages: "Pod" or "KopfExample.kopf.dev".
func (k *kindInfo) qualified() string {
	if k.resource.Group == "" {
		return k.resource.Kind
	}
	return k.resource.Kind + "." + k.resource.Group
}

// groupResource returns the resource for messages: "pods" or "kopfexamples.kopf.dev".
func (k *kindInfo) groupResource() string {
	if k.resource.Group == "" {
		return k.resource.Plural
	}
	return k.resource.Plural + "." + k.resource.Group
}

// customVerbs are the verbs of custom resources, in the order of discovery.
var customVerbs = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}

func builtinKinds() []*kindInfo {
	lazyBuiltinKinds.once.Do(func() { lazyBuiltinKinds.value = makeBuiltinKinds() })
	return lazyBuiltinKinds.value
}

// lazyBuiltinKinds is made on first use, by a function, because an initial value would take memory in every operator.
var lazyBuiltinKinds struct {
	once  sync.Once
	value []*kindInfo
}

func makeBuiltinKinds() []*kindInfo {
	var all []*kindInfo
	for _, b := range discovery.Builtins() {
		r := b.Resource
		k := &kindInfo{
			resource: apiResource{
				Group: r.Group, Version: r.Version, Plural: r.Plural, Kind: r.Kind, Singular: r.Singular, Namespaced: r.Namespaced,
				Subresources: r.Subresources, ShortNames: r.ShortNames, Categories: r.Categories, Verbs: r.Verbs, Preferred: r.Preferred,
			},
			listKind:        r.Kind + "List",
			generation:      strings.ContainsAny(b.Marks, "g1"),
			returnsGone:     strings.Contains(b.Marks, "r"),
			postedOnly:      strings.Contains(b.Marks, "p"),
			createsOnUpdate: strings.Contains(b.Marks, "u"),

			needsVersion:      strings.Contains(b.Marks, "v"),
			orphansDependents: strings.Contains(b.Marks, "o"),
		}
		if strings.Contains(b.Marks, "2") {
			k.storage = r.Group + "/v2"
		}
		if r.Plural == "componentstatuses" {
			k.deprecation = "v1 ComponentStatus is deprecated in v1.19+"
		}
		if r.Plural == "endpoints" {
			k.deprecation = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
		}
		k.hasStatus = slices.Contains(r.Subresources, "status")
		if slices.Contains(r.Subresources, "scale") {
			k.scale = map[string]any{
				"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".spec.selector",
			}
		}
		all = append(all, k)
	}
	return all
}

// kindsOf returns the kind of a CRD in all its served versions, the preferred one first, and in the version in which objects are stored. A CRD
// without accepted names serves nothing.
func kindsOf(crd map[string]any) (served []*kindInfo, stored *kindInfo, err error) {
	spec, status := rawjson.AsMap(crd["spec"]), rawjson.AsMap(crd["status"])
	if !isTrue(status, "NamesAccepted") && !isTrue(status, "Established") {
		return nil, nil, nil
	}
	names := rawjson.AsMap(status["acceptedNames"])
	versions, _ := spec["versions"].([]any)
	schemas := make(map[string]*schema.Schema)
	webhook := conversionOf(crd)
	for _, v := range versions {
		version := rawjson.AsMap(v)
		k, err := kindOf(crd, version)
		if err != nil {
			return nil, nil, err
		}
		k.resource.Group, k.resource.Version = unstructured.Text(spec, "group"), unstructured.Text(version, "name")
		k.resource.Plural, k.resource.Kind, k.resource.Singular = unstructured.Text(names, "plural"), unstructured.Text(names, "kind"), unstructured.Text(names, "singular")
		k.resource.ShortNames, k.resource.Categories = unstructured.Texts(names["shortNames"]), unstructured.Texts(names["categories"])
		k.resource.Namespaced = unstructured.Text(spec, "scope") == "Namespaced"
		k.listKind = unstructured.Text(names, "listKind")
		k.deprecation = deprecationOf(spec, version)
		k.schemas, k.conversion, k.terminating = schemas, webhook, isTrue(status, "Terminating")
		k.ended = make(chan struct{})
		schemas[k.apiVersion()] = k.schema
		if version["storage"] == true {
			stored = k
		}
		if version["served"] == true {
			served = append(served, k)
		}
	}
	if stored == nil {
		return nil, nil, errors.New("no version is stored")
	}
	slices.SortStableFunc(served, func(a, b *kindInfo) int { return validation.CompareVersions(b.resource.Version, a.resource.Version) })
	for i, k := range served {
		k.stored, k.storage, k.resource.Preferred, k.versions = stored, stored.apiVersion(), i == 0, len(served)
	}
	stored.stored, stored.storage = stored, stored.apiVersion() // it need not be served
	return served, stored, nil
}

// deprecationOf returns the warning that a version is deprecated, "" if it is not.
func deprecationOf(spec, version map[string]any) string {
	if version["deprecated"] != true {
		return ""
	}
	if text, ok := version["deprecationWarning"].(string); ok {
		return text
	}
	group, kind := unstructured.Text(spec, "group"), unstructured.Text(rawjson.AsMap(spec["names"]), "kind")
	var others []string
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		if other := rawjson.AsMap(v); other["served"] == true && other["deprecated"] != true {
			others = append(others, unstructured.Text(other, "name"))
		}
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", group, version["name"], kind)
	if len(others) > 0 {
		text += fmt.Sprintf("; use %s/%s %s", group, slices.MinFunc(others, func(a, b string) int { return validation.CompareVersions(b, a) }), kind)
	}
	return text
}

func kindOf(crd, version map[string]any) (*kindInfo, error) {
	k := &kindInfo{crd: crd, generation: true, needsVersion: true, columns: table.DefinedColumns(version)}
	k.resource.Verbs = customVerbs
	fields, _ := version["selectableFields"].([]any)
	for _, f := range fields {
		k.selectable = append(k.selectable, strings.TrimPrefix(unstructured.Text(rawjson.AsMap(f), "jsonPath"), "."))
	}
	subresources := rawjson.AsMap(version["subresources"])
	if rawjson.AsMap(subresources["status"]) != nil {
		k.hasStatus = true
		k.resource.Subresources = append(k.resource.Subresources, "status")
	}
	if scale := rawjson.AsMap(subresources["scale"]); scale != nil {
		k.scale = scale
		k.resource.Subresources = append(k.resource.Subresources, "scale")
	}
	var err error
	if open := rawjson.AsMap(rawjson.AsMap(version["schema"])["openAPIV3Schema"]); open != nil {
		if k.schema, err = schema.Compile(open); err != nil {
			return nil, fmt.Errorf("the schema of version %q: %w", version["name"], err)
		}
	}
	return k, nil
}

// apiVersion returns the group and the version of the kind.
func (k *kindInfo) apiVersion() string { return k.resource.APIVersion() }

// tableColumns returns the columns of tables of the kind.
func (k *kindInfo) tableColumns() []table.Column {
	return table.Columns(k.resource.Plural, k.crd != nil, k.columns)
}

// openAPIKinds returns kinds for the OpenAPI documents.
func openAPIKinds(kinds []*kindInfo) []*openapi.Kind {
	all := make([]*openapi.Kind, len(kinds))
	for i, k := range kinds {
		r := k.resource
		all[i] = &openapi.Kind{
			Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, ListKind: k.listKind, Namespaced: r.Namespaced,
			Subresources: r.Subresources, Verbs: r.Verbs, Custom: k.crd != nil, PostedOnly: k.postedOnly, ReturnsObject: k.returnsGone,
		}
		if k.schema != nil {
			all[i].Schema = k.schema.Source
		}
	}
	return all
}
