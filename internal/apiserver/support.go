package apiserver

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// checkSupport refuses an object with a field that this server does not support, or warns of it in the response and once in the log.
func (a *apiRequest) checkSupport(object map[string]any) error {
	missing := a.kind.unsupported(object)
	if a.kind.crd == nil {
		kind := a.kind.subresourceKind(a.subresource).Kind
		if kind == "SelfSubjectAccessReview" && a.raw != nil && a.raw.Header.Get("Impersonate-User") != "" {
			kind = "SubjectAccessReview"
		}
		missing = append(missing, unenforcedIn(kind, object)...)
	}
	if len(missing) == 0 {
		return nil
	}
	if a.server.opts.RefuseUnsupported {
		return a.kind.invalid(a.name, missing)
	}
	for _, m := range missing {
		a.warnings = append(a.warnings, m.Path+": "+m.Detail)
		if !a.dryRun && a.server.warned.Add(a.kind.collection()+" "+a.name+" "+m.Path) {
			a.server.opts.Logger.Warn("The API server in memory does not evaluate all of an object", "kind", a.kind.resource.Kind, "name", a.name, "field", m.Path, "reason", m.Detail, "help", "K1202")
		}
	}
	return nil
}

// checkImpersonation refuses a request on behalf of another user, or warns of it, because this server has no users.
func (s *Server) checkImpersonation(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Impersonate-User") == "" {
		for name := range r.Header {
			if strings.HasPrefix(name, "Impersonate-Extra-") || (name == "Impersonate-Group" || name == "Impersonate-Uid") && r.Header.Get(name) != "" {
				return apierrors.BadRequest("requested %s without impersonating a user name", name)
			}
		}
		return nil
	}
	const why = "impersonation has no effect on this server, which knows no users"
	if s.opts.RefuseUnsupported {
		return apierrors.New(422, "Invalid", why, map[string]any{})
	}
	addWarning(w, why)
	if s.warned.Add("Impersonate-User") {
		s.opts.Logger.Warn("The API server in memory ignores impersonation", "reason", "it knows no users", "help", "K1203")
	}
	return nil
}

// notEvaluated is the reason why conditions and rules in CEL have no effect.
const notEvaluated = "rules in CEL are not evaluated by this server"

// unenforced are built-in kinds that have an effect in a real cluster and none here, one in a line: the kind, the field that requests the effect, if
// need be with the prefix of its value, and the reason. A field of the status is one that kube-apiserver would set. Kinds that kube-apiserver itself
// does not act on, such as NetworkPolicy, are not included.
const unenforced = `
APIService spec.service requests are not proxied to other API servers by this server
CertificateSigningRequest spec.signerName=kubernetes.io/ certificates are not signed by this server
FlowSchema spec requests have no priorities on this server
LimitRange spec.limits limits are not enforced by this server
MutatingAdmissionPolicy spec admission policies are not evaluated by this server
MutatingAdmissionPolicyBinding spec admission policies are not evaluated by this server
PriorityLevelConfiguration spec requests have no priorities on this server
ResourceQuota spec.hard quotas are not enforced by this server
SubjectAccessReview status.allowed permissions are not checked by this server, which allows everything
LocalSubjectAccessReview status.allowed permissions are not checked by this server, which allows everything
TokenReview status.authenticated tokens are not checked by this server, which lets everybody in
ValidatingAdmissionPolicy spec admission policies are not evaluated by this server
ValidatingAdmissionPolicyBinding spec admission policies are not evaluated by this server
`

// unenforcedIn returns the field of an object of a built-in kind that has no effect.
func unenforcedIn(kind string, object map[string]any) []field.Error {
	_, line, found := strings.Cut(unenforced, "\n"+kind+" ")
	if !found {
		return nil
	}
	line, _, _ = strings.Cut(line, "\n")
	path, why, _ := strings.Cut(line, " ")
	path, prefix, _ := strings.Cut(path, "=")
	var value any = object
	for _, key := range strings.Split(path, ".") {
		value = rawjson.AsMap(value)[key]
	}
	if text, _ := value.(string); !strings.HasPrefix(path, "status.") && rawjson.IsEmpty(value) || !strings.HasPrefix(text, prefix) {
		return nil
	}
	return []field.Error{field.Forbidden(path, why)}
}

// isHooks reports whether the kind is one of the two webhook configurations.
func (k *kindInfo) isHooks() bool {
	return k.resource.Group == "admissionregistration.k8s.io" && strings.HasSuffix(k.resource.Plural, "webhookconfigurations")
}

// unsupported returns the fields of an object that have no effect on this server, although they have one on real servers.
func (k *kindInfo) unsupported(object map[string]any) (all []field.Error) {
	switch {
	case k.isHooks():
		hooks, _ := object["webhooks"].([]any)
		for i, hook := range hooks {
			if conditions := rawjson.AsMap(hook)["matchConditions"]; !rawjson.IsEmpty(conditions) {
				all = append(all, field.Forbidden(fmt.Sprintf("webhooks[%d].matchConditions", i), notEvaluated))
			}
		}
	case k.crd == nil && k.resource.Plural == "customresourcedefinitions":
		spec := rawjson.AsMap(object["spec"])
		versions, _ := spec["versions"].([]any)
		for i, v := range versions {
			paths := rulesIn(rawjson.AsMap(rawjson.AsMap(v)["schema"])["openAPIV3Schema"], fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i))
			switch len(paths) {
			case 0:
			case 1:
				all = append(all, field.Forbidden(paths[0], notEvaluated))
			default: // there can be many
				all = append(all, field.Forbidden(paths[0], fmt.Sprintf("%s, and %d more places have some", notEvaluated, len(paths)-1)))
			}
		}
	}
	return all
}

// rulesIn returns the paths of the rules in CEL within a schema.
func rulesIn(schema any, at string) (paths []string) {
	switch v := schema.(type) {
	case map[string]any:
		if !rawjson.IsEmpty(v["x-kubernetes-validations"]) {
			paths = append(paths, at+".x-kubernetes-validations")
		}
		for _, key := range rawjson.UnionKeys(v, nil) {
			switch key {
			case "default", "example", "enum", "x-kubernetes-validations": // values
			case "properties", "patternProperties", "definitions":
				schemas := rawjson.AsMap(v[key])
				for _, name := range rawjson.UnionKeys(schemas, nil) {
					paths = append(paths, rulesIn(schemas[name], at+"."+key+"."+name)...)
				}
			default:
				paths = append(paths, rulesIn(v[key], at+"."+key)...)
			}
		}
	case []any:
		for i, e := range v {
			paths = append(paths, rulesIn(e, fmt.Sprintf("%s[%d]", at, i))...)
		}
	}
	return paths
}
