package apiserver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

const (
	subdomainRule = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	labelRule     = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	partRule      = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
	valueRule     = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
)

// maxAnnotations is the largest total size of the annotations of an object, in bytes.
const maxAnnotations = 256 << 10

// checkMeta returns what is wrong with the metadata of an object. The live object is nil for
// creations. kube-apiserver checks a change twice, for all objects and for the kind, so each error
// is there twice.
func (k *kindInfo) checkMeta(live, object map[string]any) []field.Error {
	meta := rawjson.AsMap(object["metadata"])
	if live == nil {
		name := unstructured.Text(meta, "name")
		faults := []field.Error{field.Required("metadata.name", "name or generateName is required")}
		if name != "" {
			faults = k.checkName(name)
		}
		return append(faults, k.checkWhole(meta)...)
	}
	faults := append(checkChanged(live, object), checkChange(rawjson.AsMap(live["metadata"]), meta)...)
	if k.crd == nil {
		faults = append(append(faults, checkStandard(meta)...), k.checkWhole(meta)...)
	}
	return faults
}

// checkChanged returns what is wrong with the metadata of a change, in the check that is the same
// for all kinds.
func checkChanged(live, object map[string]any) []field.Error {
	old, meta := rawjson.AsMap(live["metadata"]), rawjson.AsMap(object["metadata"])
	meta["creationTimestamp"] = old["creationTimestamp"]
	faults := append(checkTexts(meta), checkFinalizers(meta)...)
	return append(faults, checkChange(old, meta)...)
}

// checkWhole returns what is wrong with the metadata, regardless of the live object.
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
	return faults
}

// misnamed returns the errors of a qualified name.
func misnamed(path, value, name string) []field.Error {
	var faults []field.Error
	for _, rule := range qualifiedName(name) {
		faults = append(faults, field.Invalid(path, value, rule))
	}
	return faults
}

func (k *kindInfo) checkName(name string) []field.Error {
	short, rule := k.resource.Plural == "namespaces" || k.resource.Plural == "services", ""
	switch {
	case k.resource.Group == "rbac.authorization.k8s.io":
	case short && len(name) > 63:
		rule = "must be no more than 63 bytes"
	case short && !validation.IsDNSLabel(name):
		rule = labelRule
	case short:
	case len(name) > 253:
		rule = "must be no more than 253 characters"
	case !validation.IsDNSSubdomain(name):
		rule = subdomainRule
	}
	if rule == "" {
		return nil
	}
	return []field.Error{field.Invalid("metadata.name", name, rule)}
}

// qualifiedName returns what is wrong with a name such as "example.com/name".
func qualifiedName(text string) (rules []string) {
	prefix, name, ok := strings.Cut(text, "/")
	if !ok {
		name = text
	} else if strings.Contains(name, "/") {
		return []string{`a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`}
	} else if prefix == "" {
		rules = append(rules, "prefix part must be non-empty")
	} else if !validation.IsDNSSubdomain(prefix) || len(prefix) > 253 {
		rules = append(rules, "prefix part "+subdomainRule)
	}
	if name == "" {
		rules = append(rules, "name part must be non-empty")
	} else if len(name) > 63 {
		rules = append(rules, "name part must be no more than 63 bytes")
	}
	if !validation.IsName(name, "-_.") {
		rules = append(rules, partRule)
	}
	return rules
}

func checkLabels(labels map[string]any) []field.Error {
	var faults []field.Error
	for _, key := range rawjson.UnionKeys(labels, nil) {
		faults = append(faults, misnamed("metadata.labels", key, key)...)
		value := unstructured.Text(labels, key)
		if len(value) > 63 {
			faults = append(faults, field.Invalid("metadata.labels", value, "must be no more than 63 bytes"))
		} else if value != "" && !validation.IsName(value, "-_.") {
			faults = append(faults, field.Invalid("metadata.labels", value, valueRule))
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
	controllers := 0
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
		if owner["controller"] == true {
			controllers++
		}
	}
	if controllers > 1 {
		faults = append(faults, field.Invalid("metadata.ownerReferences", owners, "Only one reference can have Controller set to true."))
	}
	return faults
}

// checkChange returns what is wrong with changed metadata, such as changes of immutable fields.
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

// check returns what is wrong with an object of a built-in kind. Few kinds are checked.
func (k *kindInfo) check(live, object map[string]any) []field.Error {
	if k.isHooks() {
		return checkHooks(object)
	}
	switch k.resource.Plural + "." + k.resource.Group {
	case "customresourcedefinitions.apiextensions.k8s.io":
		return checkDefinition(live, object)
	case "configmaps.", "secrets.":
		return slices.Concat(checkSecretType(live, object), checkImmutable(live, object), checkData(object))
	}
	return nil
}

// checkSecretType refuses changes of the type of secrets.
func checkSecretType(live, object map[string]any) []field.Error {
	if live == nil || rawjson.Equal(live["type"], object["type"]) {
		return nil
	}
	return []field.Error{field.Invalid("type", object["type"], "field is immutable")}
}

// checkImmutable refuses changes of immutable config maps and secrets.
func checkImmutable(live, object map[string]any) []field.Error {
	var faults []field.Error
	for _, key := range []string{"immutable", "data", "binaryData"} {
		if live["immutable"] == true && !rawjson.Equal(live[key], object[key]) {
			faults = append(faults, field.Forbidden(key, "field is immutable when `immutable` is set"))
		}
	}
	return faults
}

func checkData(object map[string]any) []field.Error {
	var faults []field.Error
	for _, key := range rawjson.UnionKeys(rawjson.AsMap(object["data"]), nil) {
		if !validation.IsName("0"+key+"0", "-_.") || key == "" {
			faults = append(faults, field.Invalid("data["+key+"]", key, "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"))
		}
	}
	return faults
}
