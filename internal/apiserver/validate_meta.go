package apiserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/rules"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// maxAnnotations is the largest total size of the annotations of an object, in bytes.
const maxAnnotations = 256 << 10

// checkMeta validates the metadata of an object. The live object is nil for creations. kube-apiserver checks a change twice, for all objects and for
// the kind, so it reports each error twice.
func (k *kindInfo) checkMeta(live, object map[string]any) []field.Error {
	meta := rawjson.AsMap(object["metadata"])
	if live == nil {
		name := unstructured.Text(meta, "name")
		var faults []field.Error
		if prefix := unstructured.Text(meta, "generateName"); prefix != "" {
			faults = k.checkName("metadata.generateName", prefix, true)
		}
		if name != "" {
			faults = append(faults, k.checkName("metadata.name", name, false)...)
		} else {
			faults = append(faults, field.Required("metadata.name", "name or generateName is required"))
		}
		if number, _ := meta["generation"].(json.Number); strings.HasPrefix(number.String(), "-") {
			faults = append(faults, field.Invalid("metadata.generation", number, "must be greater than or equal to 0"))
		}
		return append(faults, k.checkWhole(meta)...)
	}
	faults := append(checkChanged(live, object), checkChange(rawjson.AsMap(live["metadata"]), meta)...)
	if k.crd == nil {
		if prefix := unstructured.Text(meta, "generateName"); prefix != "" {
			faults = append(faults, k.checkName("metadata.generateName", prefix, true)...)
		}
		faults = append(append(faults, checkStandard(meta)...), k.checkWhole(meta)...)
	}
	return faults
}

// checkChanged validates changed metadata in the check that is the same for all kinds.
func checkChanged(live, object map[string]any) []field.Error {
	old, meta := rawjson.AsMap(live["metadata"]), rawjson.AsMap(object["metadata"])
	meta["creationTimestamp"] = old["creationTimestamp"]
	faults := append(checkTexts(meta), checkFinalizers(meta)...)
	return append(faults, checkChange(old, meta)...)
}

// checkWhole validates the metadata, regardless of the live object.
func (k *kindInfo) checkWhole(meta map[string]any) []field.Error {
	faults := append(checkTexts(meta), checkFinalizers(meta)...)
	if k.crd != nil {
		return faults
	}
	return append(faults, checkStandard(meta)...)
}

// checkStandard checks finalizers without a domain, on built-in kinds.
func checkStandard(meta map[string]any) []field.Error {
	var faults []field.Error
	finalizers, _ := meta["finalizers"].([]any)
	for i, f := range finalizers {
		text, _ := f.(string)
		if !strings.Contains(text, "/") && !slices.Contains([]string{"orphan", "foregroundDeletion", "kubernetes", definitionFinalizer}, text) {
			faults = append(faults, field.Invalid(fmt.Sprintf("metadata.finalizers[%d]", i), text, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return faults
}

// checkTexts checks labels, annotations and owners.
func checkTexts(meta map[string]any) []field.Error {
	faults := append(checkLabels(rawjson.AsMap(meta["labels"])), checkAnnotations(rawjson.AsMap(meta["annotations"]))...)
	return append(faults, checkOwners(meta)...)
}

func checkFinalizers(meta map[string]any) []field.Error {
	var faults []field.Error
	finalizers, _ := meta["finalizers"].([]any)
	for _, f := range finalizers {
		text, _ := f.(string)
		faults = append(faults, misnamed("metadata.finalizers", text, text)...)
	}
	if slices.Contains(finalizers, any("orphan")) && slices.Contains(finalizers, any("foregroundDeletion")) {
		faults = append(faults, field.Invalid("metadata.finalizers", finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
	}
	return faults
}

// misnamed returns the errors of a qualified name.
func misnamed(path, value, name string) []field.Error {
	var faults []field.Error
	for _, rule := range rules.QualifiedName(name) {
		faults = append(faults, field.Invalid(path, value, rule))
	}
	return faults
}

// checkName validates the name of a new object.
func (k *kindInfo) checkName(path, name string, prefix bool) []field.Error {
	wrong := rules.Subdomain
	if k.crd == nil {
		wrong = func(text string) []string { return rules.CheckName(k.resource.Kind, text, prefix) }
	} else if prefix && len(name) > 1 && strings.HasSuffix(name, "-") {
		wrong = func(text string) []string { return rules.Subdomain(text[:len(text)-2] + "a") }
	}
	var faults []field.Error
	for _, detail := range wrong(name) {
		faults = append(faults, field.Invalid(path, name, detail))
	}
	return faults
}

func checkLabels(labels map[string]any) []field.Error {
	var faults []field.Error
	for _, key := range rawjson.UnionKeys(labels, nil) {
		faults = append(faults, misnamed("metadata.labels", key, key)...)
		value := unstructured.Text(labels, key)
		for _, detail := range rules.LabelValue(value) {
			faults = append(faults, field.Invalid("metadata.labels", value, detail))
		}
	}
	return faults
}

func checkAnnotations(annotations map[string]any) []field.Error {
	var faults []field.Error
	size := 0
	for _, key := range rawjson.UnionKeys(annotations, nil) {
		faults = append(faults, misnamed("metadata.annotations", key, strings.ToLower(key))...)
		value := unstructured.Text(annotations, key)
		size += len(key) + len(value)
	}
	if size > maxAnnotations {
		faults = append(faults, field.TooLong("metadata.annotations", nil, fmt.Sprintf("may not be more than %d bytes", maxAnnotations)))
	}
	return faults
}

func checkOwners(meta map[string]any) []field.Error {
	var faults []field.Error
	owners, _ := meta["ownerReferences"].([]any)
	first := ""
	for _, o := range owners {
		owner := rawjson.AsMap(o)
		for _, key := range []string{"apiVersion", "kind", "name", "uid"} {
			if owner[key] == nil || owner[key] == "" {
				detail := "must not be empty"
				if key == "apiVersion" {
					detail = "version must not be empty"
				}
				faults = append(faults, field.Invalid("metadata.ownerReferences."+key, "", detail))
			}
		}
		if owner["apiVersion"] == "v1" && owner["kind"] == "Event" {
			faults = append(faults, field.Invalid("metadata.ownerReferences", owner, "/v1, Kind=Event is disallowed from being an owner"))
		}
		name := unstructured.Text(owner, "kind") + "/" + unstructured.Text(owner, "name")
		switch controls := owner["controller"] == true; {
		case controls && first != "":
			faults = append(faults, field.Invalid("metadata.ownerReferences", owners,
				fmt.Sprintf(`Only one reference can have Controller set to true. Found "true" in references for %s and %s`, first, name)))
		case controls:
			first = name
		}
	}
	return faults
}

// checkChange validates changed metadata, such as changes of immutable fields.
func checkChange(old, meta map[string]any) []field.Error {
	faults := checkTexts(meta)
	for _, key := range []string{"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		if !rawjson.Equal(old[key], meta[key]) {
			faults = append(faults, field.Invalid("metadata."+key, meta[key], "field is immutable"))
		}
	}
	if old["deletionTimestamp"] == nil {
		return faults
	}
	before, _ := old["finalizers"].([]any)
	now, _ := meta["finalizers"].([]any)
	var added []string
	for _, f := range now {
		if !slices.Contains(before, f) {
			added = append(added, fmt.Sprint(f))
		}
	}
	if len(added) > 0 {
		faults = append(faults, field.Forbidden("metadata.finalizers", fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %#v", added)))
	}
	return faults
}

// check validates an object of a built-in kind.
func (a *apiRequest) check(live, object map[string]any) []field.Error {
	k := a.kind
	switch {
	case k.crd != nil:
		return nil
	case k.isDefinitions():
		return checkDefinition(live, object)
	}
	return rules.Validate(k.resource.Group, k.resource.Kind, a.subresource, live, object)
}
