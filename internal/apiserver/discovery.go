package apiserver

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// discovery answers a request below /api and /apis without a resource, in the classic form or in the aggregated one.
func (s *Server) discovery(w http.ResponseWriter, r *http.Request, parts []string) {
	kinds := s.kinds()
	aggregated := strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList")
	switch {
	case len(parts) == 1 && aggregated:
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		s.write(w, r, 200, aggregate(kinds, parts[0] == "api"))
	case len(parts) == 1 && parts[0] == "api":
		s.write(w, r, 200, map[string]any{"kind": "APIVersions", "versions": []any{"v1"},
			"serverAddressByClientCIDRs": []any{map[string]any{"clientCIDR": "0.0.0.0/0", "serverAddress": r.Host}},
		})
	case len(parts) == 1:
		s.write(w, r, 200, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groupList(kinds)})
	case len(parts) == 2 && parts[0] == "apis":
		for _, g := range groupList(kinds) {
			if group := rawjson.AsMap(g); group["name"] == parts[1] {
				group = maps.Clone(group)
				group["kind"], group["apiVersion"] = "APIGroup", "v1"
				s.write(w, r, 200, group)
				return
			}
		}
		s.unknownPath(w)
	default:
		s.resourceList(w, r, kinds, strings.Join(parts[1:], "/"))
	}
}

func (s *Server) resourceList(w http.ResponseWriter, r *http.Request, kinds []*kindInfo, groupVersion string) {
	list := []any{}
	for _, k := range kinds {
		if k.apiVersion() == groupVersion {
			list = append(list, resourceEntries(k)...)
		}
	}
	if len(list) == 0 {
		s.unknownPath(w)
		return
	}
	answer := map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion, "resources": list}
	if groupVersion == "v1" {
		delete(answer, "apiVersion") // the first API version does not send it
	}
	s.write(w, r, 200, answer)
}

// resourceEntries describes a kind and its subresources in the classic form.
func resourceEntries(k *kindInfo) []any {
	main := map[string]any{
		"name": k.resource.Plural, "singularName": k.resource.Singular, "namespaced": k.resource.Namespaced, "kind": k.resource.Kind,
		"verbs": anys(k.resource.Verbs),
	}
	if len(k.resource.ShortNames) > 0 {
		main["shortNames"] = anys(k.resource.ShortNames)
	}
	if len(k.resource.Categories) > 0 {
		main["categories"] = anys(k.resource.Categories)
	}
	if k.stored != nil {
		main["storageVersionHash"] = k.storageHash()
	}
	all := []any{main}
	for _, sub := range k.resource.Subresources {
		other := k.subresourceKind(sub)
		entry := map[string]any{
			"name": k.resource.Plural + "/" + sub, "singularName": "", "namespaced": k.resource.Namespaced, "kind": other.Kind,
			"verbs": anys(subresourceVerbs(sub)),
		}
		if other.Group != k.resource.Group {
			entry["group"], entry["version"] = other.Group, other.Version
		}
		all = append(all, entry)
	}
	return all
}

// storageHash returns a hash that changes with the version in which a custom resource is stored.
func (k *kindInfo) storageHash() string {
	sum := sha256.Sum256([]byte(k.storage + "/" + k.resource.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// subresourceKind returns the kind of a subresource.
func (k *kindInfo) subresourceKind(sub string) *apiResource {
	other := &apiResource{Version: "v1"}
	switch sub {
	case "scale":
		other.Group, other.Kind = "autoscaling", "Scale"
	case "eviction":
		other.Group, other.Kind = "policy", "Eviction"
	case "binding":
		other.Kind = "Binding"
	case "token":
		other.Group, other.Kind = "authentication.k8s.io", "TokenRequest"
	default:
		return &k.resource
	}
	return other
}

// responseKind returns a kind for the aggregated form, in which built-in kinds omit their own group and version.
func (k *kindInfo) responseKind(r *apiResource) map[string]any {
	if k.crd == nil && r.Group == k.resource.Group && r.Version == k.resource.Version {
		return unstructured.GroupVersionKind("", "", r.Kind)
	}
	return unstructured.GroupVersionKind(r.Group, r.Version, r.Kind)
}

func subresourceVerbs(sub string) []string {
	switch sub {
	case "approval", "status", "scale":
		return []string{"get", "patch", "update"}
	case "finalize":
		return []string{"update"}
	case "log":
		return []string{"get"}
	}
	return []string{"create"}
}

// anys returns strings as a decoded list.
func anys(list []string) []any {
	all := make([]any, len(list))
	for i, s := range list {
		all[i] = s
	}
	return all
}

// byGroup returns the kinds of each group, in the order of kube-apiserver.
func byGroup(kinds []*kindInfo) (names []string, groups map[string][]*kindInfo) {
	groups = make(map[string][]*kindInfo)
	for _, k := range kinds {
		if groups[k.resource.Group] == nil {
			names = append(names, k.resource.Group)
		}
		groups[k.resource.Group] = append(groups[k.resource.Group], k)
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(groupRank(a), groupRank(b)), cmp.Compare(a, b))
	})
	return names, groups
}

// groupRank puts the built-in groups first.
func groupRank(group string) int {
	order := []string{
		"", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch",
		"certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io",
		"apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io",
		"flowcontrol.apiserver.k8s.io",
	}
	if i := slices.Index(order, group); i >= 0 {
		return i
	}
	return len(order)
}

// versionsOf returns the versions of one group, the preferred one first.
func versionsOf(kinds []*kindInfo) []string {
	var versions []string
	for _, k := range kinds {
		if !slices.Contains(versions, k.resource.Version) {
			versions = append(versions, k.resource.Version)
		}
	}
	slices.SortStableFunc(versions, func(a, b string) int { return validation.CompareVersions(b, a) })
	return versions
}

func groupList(kinds []*kindInfo) []any {
	names, groups := byGroup(kinds)
	all := []any{}
	for _, name := range names {
		if name == "" {
			continue
		}
		var versions []any
		for _, v := range versionsOf(groups[name]) {
			versions = append(versions, map[string]any{"groupVersion": name + "/" + v, "version": v})
		}
		all = append(all, map[string]any{"name": name, "versions": versions, "preferredVersion": versions[0]})
	}
	return all
}

// aggregate describes the core group, or all others, in one document.
func aggregate(kinds []*kindInfo, core bool) map[string]any {
	names, groups := byGroup(kinds)
	items := []any{}
	for _, name := range names {
		if (name == "") != core {
			continue
		}
		var versions []any
		for _, v := range versionsOf(groups[name]) {
			resources := []any{}
			for _, k := range groups[name] {
				if k.resource.Version == v {
					resources = append(resources, aggregateEntry(k))
				}
			}
			versions = append(versions, map[string]any{"version": v, "resources": resources, "freshness": "Current"})
		}
		meta := map[string]any{}
		if name != "" {
			meta["name"] = name
		}
		items = append(items, map[string]any{"metadata": meta, "versions": versions})
	}
	return map[string]any{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": map[string]any{}, "items": items}
}

func aggregateEntry(k *kindInfo) map[string]any {
	scope := "Cluster"
	if k.resource.Namespaced {
		scope = "Namespaced"
	}
	entry := map[string]any{
		"resource": k.resource.Plural, "singularResource": k.resource.Singular, "scope": scope, "verbs": anys(k.resource.Verbs),
		"responseKind": k.responseKind(&k.resource),
	}
	if len(k.resource.ShortNames) > 0 {
		entry["shortNames"] = anys(k.resource.ShortNames)
	}
	if len(k.resource.Categories) > 0 {
		entry["categories"] = anys(k.resource.Categories)
	}
	var subs []any
	for _, sub := range k.resource.Subresources {
		subs = append(subs, map[string]any{"subresource": sub, "responseKind": k.responseKind(k.subresourceKind(sub)), "verbs": anys(subresourceVerbs(sub))})
	}
	if subs != nil {
		entry["subresources"] = subs
	}
	return entry
}
