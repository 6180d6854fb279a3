package inspection

import (
	"fmt"
	"strings"

	"github.com/kopf-go/kopf/internal/discovery"
)

// FindKind finds a kind by its plural, singular, short name or kind, with an optional group and version.
func FindKind(name string, found []discovery.Resource) (discovery.Resource, error) {
	s, err := discovery.ParseSelector(name, nil)
	if err != nil {
		return discovery.Resource{}, err
	}
	switch fit := s.Select(found); {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) > 1:
		return discovery.Resource{}, fmt.Errorf("%q is any of %s: write the group as well, as in %q", name, discovery.Names(fit), fit[0].Name())
	}
	return discovery.Resource{}, fmt.Errorf("there is no kind %q in the cluster.%s Want a plural, a singular, a short name or a kind, such as pods", name, s.Suggestion(found))
}

// KindOf returns the kind of an object. It adds an unknown kind to the result with an assumed plural, and returns a note about it.
func KindOf(apiVersion, kind string, namespaced bool, found []discovery.Resource) (r discovery.Resource, all []discovery.Resource, note string) {
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	for _, r := range found {
		if r.Group == group && r.Version == version && r.Kind == kind {
			return r, found, ""
		}
	}
	r = discovery.Resource{Group: group, Version: version, Kind: kind, Singular: strings.ToLower(kind), Plural: strings.ToLower(kind) + "s", Namespaced: namespaced,
		Verbs: []string{"list", "watch", "patch"}, Subresources: []string{"status"}, Preferred: true}
	return r, append(found, r), fmt.Sprintf("The kind %s is not known without a cluster, and its plural is assumed to be %q: --definitions names its definition", kind, r.Plural)
}
