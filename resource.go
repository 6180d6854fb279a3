package kopf

import (
	"strings"

	"github.com/kopf-go/kopf/internal/discovery"
)

// This file knows resources: what discovery tells of them, and the selectors that name them.

// Resource is a kind of objects in one version of its API group, as the API server
// describes it.
type Resource struct {
	Group        string   // the API group, "" for the core group
	Version      string   // such as "v1"
	Plural       string   // the name in URLs, such as "pods"
	Kind         string   // such as "Pod"
	Singular     string   // such as "pod"
	ShortNames   []string // such as "po"
	Categories   []string // such as "all"
	Subresources []string // such as "status" and "scale"
	Verbs        []string // such as "list", "watch" and "patch"
	Namespaced   bool     // whether its objects live in namespaces
	Preferred    bool     // whether the version is the preferred one of its group
}

// APIVersion returns "group/version", or the version alone in the core group.
func (r Resource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// typeMeta returns what the objects have in common.
func (r Resource) typeMeta() *typeMeta { return &typeMeta{r.APIVersion(), r.Kind} }

// isVersionOf reports whether both are of the same objects, perhaps in different versions.
func (r Resource) isVersionOf(o Resource) bool { return r.Group == o.Group && r.Plural == o.Plural }

// Name returns "plural.version.group", which tells the resource apart from all others.
func (r Resource) Name() string {
	return strings.TrimSuffix(strings.Join([]string{r.Plural, r.Version, r.Group}, "."), ".")
}

// String returns [Resource.Name].
func (r Resource) String() string { return r.Name() }

// loggable returns what a log may say of an object: nothing of what secrets hold.
func (r Resource) loggable(v any) any {
	if r.Group == "" && r.Plural == "secrets" {
		return "concealed"
	}
	return v
}

// URL returns the path of a collection, an object, or its subresource on the API
// server. Empty arguments are left out: no name means the collection, and no
// namespace means that of all namespaces or of a kind without them.
func (r Resource) URL(namespace, name, subresource string) string {
	path := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		path = "/api/" + r.Version
	}
	if r.Namespaced && namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + r.Plural
	if name != "" {
		path += "/" + name
		if subresource != "" {
			path += "/" + subresource
		}
	}
	return path
}

// fieldManager owns the fields that handlers of the resource write by their client. It must never change: another one could not remove them.
func (r Resource) fieldManager() string {
	name := "kopf-" + strings.Trim(r.Plural+"."+r.Group, ".")
	return name[:min(len(name), 128)] // more is refused
}

// Selector names the resources that a handler is for: "plural", "plural.group", "plural.version.group",
// "plural.version", "group/version/plural", "group/plural", or "v1/plural" for the core group. Instead of the plural, the kind,
// the singular, or a short name will do; instead of a name, "*" means all of a group or version, as in "*.v1.apps" or "apps/v1/*".
// Without a version, the preferred one of the group is meant. If a name fits kinds of several groups, kopf serves the one of the core
// group. If none of them is there, kopf logs a warning and serves none. See also [Kind], [Category] and [Everything]. For all else,
// there is the option Where of the handlers, with which the selector may be empty.
type Selector string

// Everything selects all resources but Kubernetes events.
const Everything Selector = "*"

// Kind selects resources by nothing but their kind. A version and a group may follow, as in "KopfExample.v1.kopf.dev".
func Kind(kind string) Selector { return Selector("kind:" + kind) }

// Category selects the resources of a category, such as "all".
func Category(category string) Selector { return Selector("category:" + category) }

// spec returns the selector as it is understood.
func (s Selector) spec(where func(Resource) bool) (discovery.Selector, error) {
	if where == nil {
		return discovery.ParseSelector(string(s), nil)
	}
	return discovery.ParseSelector(string(s), func(r discovery.Resource) bool { return where(Resource(r)) })
}
