package apiserver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// about returns the details of an error about one object, or about all objects if the name is empty.
func (k *kindInfo) about(name string) map[string]any {
	d := map[string]any{"name": name, "kind": k.resource.Plural}
	if k.resource.Group != "" {
		d["group"] = k.resource.Group
	}
	if name == "" {
		delete(d, "name")
	}
	return d
}

func (k *kindInfo) notFound(name string) *apierrors.StatusError {
	return apierrors.New(404, "NotFound", fmt.Sprintf("%s %q not found", k.groupResource(), name), k.about(name))
}

func (k *kindInfo) alreadyExists(name string) *apierrors.StatusError {
	return apierrors.New(409, "AlreadyExists", fmt.Sprintf("%s %q already exists", k.groupResource(), name), k.about(name))
}

func (k *kindInfo) conflict(name, why string) *apierrors.StatusError {
	return apierrors.New(409, "Conflict", fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s", k.groupResource(), name, why), k.about(name))
}

func (k *kindInfo) forbidden(name, why string) *apierrors.StatusError {
	return apierrors.New(403, "Forbidden", fmt.Sprintf("%s %q is forbidden: %s", k.groupResource(), name, why), k.about(name))
}

const modifiedMeanwhile = "the object has been modified; please apply your changes to the latest version and try again"

// deletionConflict refuses a deletion whose preconditions fail. It contains the kind and not the resource, as in kube-apiserver.
func (k *kindInfo) deletionConflict(name, why string) *apierrors.StatusError {
	kind := k.resource.Kind
	if k.resource.Group != "" {
		kind += "." + k.resource.Group
	}
	about := k.about(name)
	about["kind"] = k.resource.Kind
	return apierrors.New(409, "Conflict", fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s", kind, name, why), about)
}

// invalid refuses an object because of invalid fields.
func (k *kindInfo) invalid(name string, faults []field.Error) *apierrors.StatusError {
	var texts []string
	var causes []any
	for _, f := range faults {
		text := f.Message()
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		_, short, _ := strings.Cut(text, ": ")
		causes = append(causes, apierrors.Cause(f.Reason, short, f.Path))
	}
	list := strings.Join(texts, ", ")
	if len(texts) > 1 {
		list = "[" + list + "]"
	}
	details := map[string]any{"causes": causes}
	if k.resource.Kind != "" {
		details["kind"] = k.resource.Kind
	}
	if name != "" {
		details["name"] = name
	}
	if k.resource.Group != "" {
		details["group"] = k.resource.Group
	}
	return apierrors.New(422, "Invalid", fmt.Sprintf("%s %q is invalid: %s", k.qualified(), name, list), details)
}

// invalidOptions refuses the options of a request.
func invalidOptions(kind string, faults ...field.Error) error {
	options := &kindInfo{resource: apiResource{Group: "meta.k8s.io", Kind: kind}}
	return options.invalid("", faults)
}

// badPatch refuses a patch because of its result.
func badPatch(object map[string]any, why string) error {
	data, err := rawjson.Encode(object)
	if err != nil {
		return err
	}
	return badPatchText(string(data), why)
}

// badPatchText refuses a patch, or its result.
func badPatchText(shown, why string) error {
	nothing := (&kindInfo{}).invalid("", []field.Error{field.Invalid("patch", shown, why)})
	delete(nothing.Details, "kind")
	return nothing
}
