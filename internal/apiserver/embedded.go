package apiserver

import (
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/rules"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// checkEmbedded validates the objects that are embedded in a custom resource.
func (k *kindInfo) checkEmbedded(object map[string]any) []field.Error {
	if k.crd == nil || k.schema == nil {
		return nil
	}
	var faults []field.Error
	for _, e := range k.schema.EmbeddedIn(object, "") {
		faults = append(faults, e.CheckType()...)
		if kind := unstructured.Text(e.Object, "kind"); kind != "" {
			faults = append(faults, checkLabel(e.Path+".kind", kind, mixedCase)...)
		}
		meta := rawjson.AsMap(e.Object["metadata"])
		for _, f := range append(checkEmbeddedNames(meta), append(checkTexts(meta), checkFinalizers(meta)...)...) {
			f.Path = e.Path + "." + f.Path
			faults = append(faults, f)
		}
	}
	return faults
}

// checkEmbeddedNames checks the names in the metadata of an embedded object, whose kind is unknown.
func checkEmbeddedNames(meta map[string]any) (faults []field.Error) {
	for _, key := range []string{"generateName", "name"} {
		name, at := unstructured.Text(meta, key), "metadata."+key
		if key == "name" && (name == "." || name == "..") {
			faults = append(faults, field.Invalid(at, name, "may not be '"+name+"'"))
		}
		for _, sign := range []string{"/", "%"} {
			if strings.Contains(name, sign) {
				faults = append(faults, field.Invalid(at, name, "may not contain '"+sign+"'"))
			}
		}
	}
	if namespace := unstructured.Text(meta, "namespace"); namespace != "" && !validation.IsDNSLabel(namespace) {
		faults = append(faults, field.Invalid("metadata.namespace", namespace, rules.LabelRule))
	}
	return faults
}

// checkEmbeddedTypes refuses embedded objects whose metadata does not fit its Go type.
func (a *apiRequest) checkEmbeddedTypes(object map[string]any) error {
	if a.kind.crd == nil || a.kind.schemaOf(object) == nil {
		return nil
	}
	for _, e := range a.kind.schemaOf(object).EmbeddedIn(object, "") {
		for _, key := range []string{"apiVersion", "kind"} {
			if v, ok := e.Object[key]; ok && schema.TypeOf(v) != "string" {
				return a.badEmbedded(field.Invalid(e.Path+"."+key, v, "must be a string"))
			}
		}
		if typ := schema.TypeOf(e.Object["metadata"]); typ != "object" && typ != "null" {
			return a.badEmbedded(field.Invalid(e.Path+".metadata", e.Object["metadata"], "json: cannot unmarshal "+typ+" into Go value of type v1.ObjectMeta"))
		}
		if why := types.DecodeError(types.Named("ObjectMeta").Schema, e.Object["metadata"], "ObjectMeta"); why != "" {
			return a.badEmbedded(field.Invalid(e.Path+".metadata", e.Object["metadata"], why))
		}
	}
	return nil
}

func (a *apiRequest) badEmbedded(fault field.Error) error {
	r := a.kind.resource
	return apierrors.BadRequest("%s in version %q cannot be handled as a %s: %s", r.Kind, r.Version, r.Kind, fault.Message())
}
