package apiserver

import (
	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/rules"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// review answers a review of access, users or tokens: all users have all permissions.
func (a *apiRequest) review(object map[string]any) error {
	if err := a.strict(object); err != nil {
		return err
	}
	a.fit(object)
	if a.kind.resource.Namespaced {
		if err := a.place(mapAt(object, "metadata")); err != nil {
			return err
		}
	}
	if faults := rules.Validate(a.kind.resource.Group, a.kind.resource.Kind, "", nil, object); len(faults) > 0 {
		unnamed := &kindInfo{resource: apiResource{Group: a.kind.resource.Group}} // as kube-apiserver has it
		return unnamed.invalid("", faults)
	}
	spec := rawjson.AsMap(object["spec"])
	switch a.kind.resource.Kind {
	case "SelfSubjectRulesReview":
		if unstructured.Text(spec, "namespace") == "" {
			return apierrors.BadRequest("no namespace on request")
		}
		all := []any{"*"}
		object["metadata"], object["spec"] = map[string]any{}, map[string]any{}
		object["status"] = map[string]any{
			"resourceRules":    []any{map[string]any{"verbs": all, "apiGroups": all, "resources": all}},
			"nonResourceRules": []any{map[string]any{"verbs": all, "nonResourceURLs": all}}, "incomplete": false,
		}
	case "SelfSubjectReview":
		object["metadata"], object["status"] = map[string]any{}, map[string]any{"userInfo": userInfo()}
	case "TokenReview":
		if unstructured.Text(spec, "token") == "" {
			return apierrors.BadRequest("token is required for TokenReview in authentication")
		}
		object["status"] = map[string]any{"user": map[string]any{}, "error": "tokens are not checked by this server"}
	default:
		object["status"] = map[string]any{"allowed": true}
	}
	return nil
}
