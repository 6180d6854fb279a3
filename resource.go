package kopf

import "strings"

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

// Name returns "plural.version.group", which tells the resource apart from all others.
func (r Resource) Name() string {
	return strings.TrimSuffix(r.Plural+"."+r.Version+"."+r.Group, ".")
}

// String returns [Resource.Name].
func (r Resource) String() string { return r.Name() }

// URL returns the path of a collection, an object, or its subresource on the API
// server. Empty arguments are left out: no name means the collection, and no
// namespace means that of all namespaces or of a kind without them.
func (r Resource) URL(namespace, name, subresource string) string {
	var b strings.Builder
	if r.Group == "" {
		b.WriteString("/api/" + r.Version)
	} else {
		b.WriteString("/apis/" + r.Group + "/" + r.Version)
	}
	if r.Namespaced && namespace != "" {
		b.WriteString("/namespaces/" + namespace)
	}
	b.WriteString("/" + r.Plural)
	if name != "" {
		b.WriteString("/" + name)
		if subresource != "" {
			b.WriteString("/" + subresource)
		}
	}
	return b.String()
}
