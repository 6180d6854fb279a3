package rights

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// This file validates declarations: the verbs of RBAC, and resources that exist for RBAC, but not in the discovery.

// verbs are the verbs of requests, and additional verbs that parts of Kubernetes check.
var verbs = []string{
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
	"approve", "attest", "bind", "escalate", "impersonate", "request-serviceaccounts-token-audience", "sign", "use", All,
}

// CheckDeclared validates a declared resource with its verbs, for all objects or, if named, for one object.
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
		impersonation := strings.HasPrefix(verb, "impersonate:") || strings.HasPrefix(verb, "impersonate-on:") // the suffix says who and what
		if !impersonation && !slices.Contains(verbs, verb) {
			return fmt.Errorf("invalid verb %q for %q: want one of %s", verb, resource, strings.Join(verbs, ", "))
		}
		if named && (verb == "create" || verb == "deletecollection" || verb == All) {
			return fmt.Errorf("invalid verb %q: RBAC cannot limit it to a name", verb)
		}
	}
	return nil
}

// virtual are resources without objects that the API server checks with RBAC: for the impersonation of users, and for the approval and signing of certificates.
var virtual = []string{"users", "groups", "uids.authentication.k8s.io", "userextras.authentication.k8s.io", "signers.certificates.k8s.io"}

// IsVirtual reports whether a resource, with its group, exists for RBAC only. Such resources are cluster-scoped.
func IsVirtual(resource string) bool { return slices.Contains(virtual, resource) }

// hidden are subresources of built-in resources that the in-memory API server lacks, or that exist for RBAC only.
var hidden = map[string][]string{
	"nodes":                          {"checkpoint", "configz", "healthz", "log", "metrics", "pods", "proxy", "spec", "stats"},
	"pods":                           {"attach", "ephemeralcontainers", "exec", "portforward", "proxy", "resize"},
	"resourceclaims.resource.k8s.io": {"binding", "driver"},
	"services":                       {"proxy"},
}

// CheckSubresource validates a subresource of a resource, given the known ones.
func CheckSubresource(group, resource, subresource string, known []string) error {
	resource = qualified(group, resource)
	known = slices.Concat(known, hidden[resource], []string{"finalizers"}) // RBAC checks it before an owner blocks its deletion
	if subresource == "" || subresource == All || slices.Contains(known, subresource) {
		return nil
	}
	slices.Sort(known)
	return fmt.Errorf("invalid subresource %q of %q: want one of %s", subresource, resource, strings.Join(known, ", "))
}
