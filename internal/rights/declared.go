package rights

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// This file knows what can be declared: the verbs of RBAC, and resources that exist for RBAC although no discovery shows them.

// verbs are those of requests for resources, and those that parts of Kubernetes ask for besides them.
var verbs = []string{
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
	"approve", "attest", "bind", "escalate", "impersonate", "request-serviceaccounts-token-audience", "sign", "use", All,
}

// CheckDeclared returns what is wrong with a resource, or verbs of it, that are declared, for all objects or, if named, for the one with the name.
func CheckDeclared(resource string, valid, named bool, name string, declared []string) error {
	switch {
	case !valid || strings.Count(resource, "/") > 1 || strings.HasSuffix(resource, "/"):
		return fmt.Errorf("invalid resource %q: want a plural and its group, as in \"pods\", \"deployments.apps\" or \"pods/log\"", resource)
	case len(declared) == 0:
		return fmt.Errorf("no verbs for %q: want at least one, such as \"get\"", resource)
	case named && name == "":
		return errors.New("no name: want that of the objects, or Needs")
	}
	for _, verb := range declared {
		impersonation := strings.HasPrefix(verb, "impersonate:") || strings.HasPrefix(verb, "impersonate-on:") // what follows says of whom, and on what
		if !impersonation && !slices.Contains(verbs, verb) {
			return fmt.Errorf("invalid verb %q for %q: want one of %s", verb, resource, strings.Join(verbs, ", "))
		}
		if named && (verb == "create" || verb == "deletecollection" || verb == All) {
			return fmt.Errorf("invalid verb %q: RBAC cannot limit it to a name", verb)
		}
	}
	return nil
}

// virtual are the resources that the API server has no objects of, and that it asks RBAC about: whom a user may impersonate, and for which signers it may approve and sign.
var virtual = []string{"users", "groups", "uids.authentication.k8s.io", "userextras.authentication.k8s.io", "signers.certificates.k8s.io"}

// IsVirtual reports whether a resource, with its group, exists for RBAC only. It has no namespaces.
func IsVirtual(resource string) bool { return slices.Contains(virtual, resource) }

// hidden are the subresources of built-in resources, with their groups, that an API server in memory does not have, or that are none but for RBAC.
var hidden = map[string][]string{
	"nodes":                          {"checkpoint", "configz", "healthz", "log", "metrics", "pods", "proxy", "spec", "stats"},
	"pods":                           {"attach", "ephemeralcontainers", "exec", "portforward", "proxy", "resize"},
	"resourceclaims.resource.k8s.io": {"binding", "driver"},
	"services":                       {"proxy"},
}

// CheckSubresource returns what is wrong with a subresource of a resource, of which the known ones are given.
func CheckSubresource(group, resource, subresource string, known []string) error {
	resource = qualified(group, resource)
	known = slices.Concat(known, hidden[resource], []string{"finalizers"}) // which RBAC is asked about before an owner blocks its deletion
	if subresource == "" || subresource == All || slices.Contains(known, subresource) {
		return nil
	}
	slices.Sort(known)
	return fmt.Errorf("invalid subresource %q of %q: want one of %s", subresource, resource, strings.Join(known, ", "))
}
