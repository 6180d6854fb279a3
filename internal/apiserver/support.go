package apiserver

import (
	"fmt"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// checkSupport warns of what an object asks for and this server does not do, in the answer and once in the log, or refuses it.
func (a *apiRequest) checkSupport(object map[string]any) error {
	missing := a.kind.unsupported(object)
	if len(missing) == 0 {
		return nil
	}
	if a.server.opts.RefuseUnsupported {
		return a.kind.invalid(a.name, missing)
	}
	for _, m := range missing {
		a.warnings = append(a.warnings, m.Path+": "+m.Detail)
		if a.server.warned.Add(a.kind.collection() + " " + a.name + " " + m.Path) {
			a.server.opts.Logger.Warn("The API server in memory does not evaluate all of an object", "kind", a.kind.resource.Kind, "name", a.name, "field", m.Path, "reason", m.Detail)
		}
	}
	return nil
}

// notEvaluated is why conditions and rules in CEL have no effect.
const notEvaluated = "rules in CEL are not evaluated by this server"

// unsupported returns the fields of an object that have no effect on this server, although they have one on others.
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
			if path := rulesIn(rawjson.AsMap(rawjson.AsMap(v)["schema"])["openAPIV3Schema"]); path != "" {
				all = append(all, field.Forbidden(fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema%s", i, path), notEvaluated))
			}
		}
		if conversion := rawjson.AsMap(spec["conversion"]); unstructured.Text(conversion, "strategy") == "Webhook" {
			all = append(all, field.Forbidden("spec.conversion.strategy", "webhooks of conversions are not called by this server"))
		}
	}
	return all
}

// rulesIn returns the path of the first rules in CEL within a schema, "" if there are none.
func rulesIn(schema any) string {
	switch v := schema.(type) {
	case map[string]any:
		if !rawjson.IsEmpty(v["x-kubernetes-validations"]) {
			return ".x-kubernetes-validations"
		}
		for _, key := range rawjson.UnionKeys(v, nil) {
			path := ""
			switch key {
			case "default", "example", "enum": // values
			case "properties", "patternProperties", "definitions":
				path = rulesBelow(rawjson.AsMap(v[key]))
			default:
				path = rulesIn(v[key])
			}
			if path != "" {
				return "." + key + path
			}
		}
	case []any:
		for i, e := range v {
			if path := rulesIn(e); path != "" {
				return fmt.Sprintf("[%d]%s", i, path)
			}
		}
	}
	return ""
}

// rulesBelow does it within schemas by their names.
func rulesBelow(schemas map[string]any) string {
	for _, name := range rawjson.UnionKeys(schemas, nil) {
		if path := rulesIn(schemas[name]); path != "" {
			return "." + name + path
		}
	}
	return ""
}
