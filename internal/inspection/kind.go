package inspection

import (
	"fmt"
	"strings"

	"github.com/kopf-go/kopf/internal/discovery"
)

// FindKind returns the kind with a name: a plural, a singular, a short name or a kind, perhaps with a group and a version.
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

// KindOf returns the kind of an object. One that is not among those that were found is added to them, with a plural as most kinds have it, and a note about that.
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
