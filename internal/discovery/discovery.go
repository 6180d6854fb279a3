// Package discovery reads the resources of an API server: in two requests if the server supports aggregated discovery, else in one for each version of each
// group.
package discovery

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Resource is a resource. It is convertible to kopf.Resource.
type Resource struct {
	Group        string
	Version      string
	Plural       string
	Kind         string
	Singular     string
	ShortNames   []string
	Categories   []string
	Subresources []string
	Verbs        []string
	Namespaced   bool
	Preferred    bool
}

// isVersionOf reports whether both are the same resource, perhaps in different versions.
func (r *Resource) isVersionOf(o *Resource) bool { return r.Group == o.Group && r.Plural == o.Plural }

// Added returns the known resources and the unknown ones of others. The preferred version of a known resource does not change.
func Added(known, others []Resource) []Resource {
	all := slices.Clone(known)
	for _, o := range others {
		if !slices.ContainsFunc(known, func(k Resource) bool { return k.Name() == o.Name() }) {
			o.Preferred = o.Preferred && !slices.ContainsFunc(known, func(k Resource) bool { return k.isVersionOf(&o) })
			all = append(all, o)
		}
	}
	return all
}

// WithFormer returns the found resources and the former ones of the versions that could not be read. A resource in both is returned once, and at most one of its
// versions is preferred.
func WithFormer(found, former []Resource, broken map[string]error) []Resource {
	all := slices.Clone(found)
	for _, f := range former {
		if !unread(broken, f.Group, f.Version) || slices.ContainsFunc(found, func(r Resource) bool { return r.Name() == f.Name() }) {
			continue
		}
		f.Preferred = f.Preferred && !slices.ContainsFunc(found, func(r Resource) bool { return r.Preferred && r.isVersionOf(&f) })
		all = append(all, f)
	}
	return all
}

// brokenGroup is why some versions of a group cannot be read.
type brokenGroup struct {
	error    // of one of them
	versions []string
}

// Unwrap returns the error itself.
func (b *brokenGroup) Unwrap() error { return b.error }

// unread reports whether a version of a group could not be read.
func unread(broken map[string]error, group, version string) bool {
	b, _ := broken[group].(*brokenGroup)
	return b != nil && slices.Contains(b.versions, version)
}

// Server reads discovery documents. A missing document is no error, and leaves the value unchanged.
type Server interface {
	// Get decodes the document at a path. The default for accept is JSON.
	Get(ctx context.Context, path, accept string, into any) error
	// GetVersion is Get for a version of a group that an extension API server may serve. It has a time limit and no retries, so that other groups do not wait.
	// The first error concerns only this document, the second one all.
	GetVersion(ctx context.Context, path string, into any) (unavailable, err error)
}

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

// Read returns the resources of the given groups, or of all groups for nil. Groups that cannot be read now, because their extension API server is down, are
// omitted and returned in broken.
func Read(ctx context.Context, s Server, groups []string) (found []Resource, broken map[string]error, err error) {
	r := &reading{server: s, groups: groups, broken: make(map[string]error)}
	if r.wants("") {
		if err := r.read(ctx, "/api"); err != nil {
			return nil, nil, err
		}
	}
	if groups == nil || slices.ContainsFunc(groups, func(g string) bool { return g != "" }) {
		if err := r.read(ctx, "/apis"); err != nil {
			return nil, nil, err
		}
	}
	return r.found, r.broken, nil
}

// reading is the state of one Read.
type reading struct {
	server Server
	groups []string
	found  []Resource
	broken map[string]error
}

func (r *reading) wants(group string) bool {
	return r.groups == nil || slices.Contains(r.groups, group)
}

// fail records that a version of a group cannot be read now.
func (r *reading) fail(group, version string, err error) {
	b := &brokenGroup{error: err}
	if before, ok := r.broken[group].(*brokenGroup); ok {
		b.versions = before.versions
	}
	b.versions = append(b.versions, version)
	r.broken[group] = b
}

func (r *reading) read(ctx context.Context, path string) error {
	var doc groupsDocument
	if err := r.server.Get(ctx, path, aggregated, &doc); err != nil {
		return err
	}
	switch doc.Kind {
	case "APIGroupDiscoveryList":
		for _, group := range doc.Items {
			if r.wants(group.Metadata.Name) {
				for i, v := range group.Versions {
					r.addAggregated(group.Metadata.Name, v, i == 0 || group.Metadata.Name == "")
				}
			}
		}
	case "APIVersions":
		for _, version := range doc.Versions {
			if err := r.version(ctx, "", version, true); err != nil {
				return err
			}
		}
	default:
		for _, group := range doc.Groups {
			for _, v := range group.Versions {
				if !r.wants(group.Name) {
					continue
				}
				if err := r.version(ctx, group.Name, v.Version, v.Version == group.PreferredVersion.Version); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *reading) addAggregated(group string, v aggregatedVersion, preferred bool) {
	if v.Freshness == "Stale" && len(v.Resources) == 0 {
		r.fail(group, v.Version, fmt.Errorf("version %q is not available", v.Version))
		return
	}
	for _, res := range v.Resources {
		found := Resource{
			Group: group, Version: v.Version, Plural: res.Resource, Kind: res.ResponseKind.Kind, Singular: res.SingularResource,
			ShortNames: res.ShortNames, Categories: res.Categories, Verbs: res.Verbs, Namespaced: res.Scope == "Namespaced", Preferred: preferred,
		}
		for _, sub := range res.Subresources {
			found.Subresources = append(found.Subresources, sub.Subresource)
		}
		r.add(found)
	}
}

// add adds a resource, unless its name is invalid.
func (r *reading) add(found Resource) {
	if found.Plural == "" || strings.Contains(found.Plural, "/") {
		return
	}
	if found.Singular == "" {
		found.Singular = strings.ToLower(found.Kind)
	}
	r.found = append(r.found, found)
}

// version reads one version of a group from a document of the non-aggregated form.
func (r *reading) version(ctx context.Context, group, version string, preferred bool) (err error) {
	var doc versionDocument
	if group == "" {
		err = r.server.Get(ctx, "/api/"+version, "", &doc)
	} else {
		var unavailable error
		if unavailable, err = r.server.GetVersion(ctx, "/apis/"+url.PathEscape(group)+"/"+url.PathEscape(version), &doc); unavailable != nil {
			r.fail(group, version, unavailable)
			return nil
		}
	}
	if err != nil {
		return err
	}
	subresources := make(map[string][]string)
	for _, res := range doc.Resources {
		if name, sub, ok := strings.Cut(res.Name, "/"); ok {
			subresources[name] = append(subresources[name], sub)
		}
	}
	for _, res := range doc.Resources {
		if !strings.Contains(res.Name, "/") {
			r.add(Resource{
				Group: group, Version: version, Plural: res.Name, Kind: res.Kind, Singular: res.SingularName, ShortNames: res.ShortNames,
				Categories: res.Categories, Verbs: res.Verbs, Namespaced: res.Namespaced, Preferred: preferred, Subresources: subresources[res.Name],
			})
		}
	}
	return nil
}
