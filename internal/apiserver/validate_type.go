package apiserver

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
)

// checkGoType refuses an object that does not fit the Go types of its kind.
func (a *apiRequest) checkGoType(object map[string]any) error {
	switch a.subresource {
	case "", "status", "finalize", "approval":
	default:
		return a.checkSubresourceType(object)
	}
	if why := untyped(a.kind, object); why != "" {
		return apierrors.BadRequest("%s in version %q cannot be handled as a %s: %s", object["kind"], a.kind.resource.Version, a.kind.resource.Kind, why)
	}
	return a.checkEmbeddedTypes(object)
}

// checkSubresourceType refuses an object that does not fit the Go type of its subresource, such as a scale.
func (a *apiRequest) checkSubresourceType(object map[string]any) error {
	kind := a.kind.subresourceKind(a.subresource)
	t := types.OfKind(kind.Group, kind.Version, kind.Kind)
	if t == nil {
		return nil
	}
	if why := types.DecodeError(t.Schema, object, kind.Kind); why != "" {
		return apierrors.BadRequest("%s in version %q cannot be handled as a %s: %s", kind.Kind, kind.Version, kind.Kind, why)
	}
	return nil
}

// untyped returns the reason why an object does not fit the Go types of kube-apiserver, "" if it fits. In custom resources, only the metadata has a
// type. Numbers without a type get their canonical form.
func untyped(k *kindInfo, object map[string]any) string {
	if k.crd != nil || k.isDefinitions() {
		if n := unstructured.CanonicalNumbers(object); n != "" {
			return unfit(n)
		}
	}
	if t := k.goType(); t != nil {
		return types.DecodeError(t.Schema, object, k.resource.Kind)
	}
	return types.DecodeError(types.Named("ObjectMeta").Schema, object["metadata"], "ObjectMeta")
}

// unfit returns the reason why a number that is out of range cannot be decoded.
func unfit(n json.Number) string {
	return fmt.Sprintf("json: cannot unmarshal number %s into Go value of type float64", n)
}

// goType returns the type of the objects of a built-in kind, nil for custom resources.
func (k *kindInfo) goType() *types.Type {
	if k.crd != nil {
		return nil
	}
	return types.OfKind(k.resource.Group, k.resource.Version, k.resource.Kind)
}

// checkType refuses an object of another kind than that of the address. Custom resources of another kind are refused later, with their other errors.
func (a *apiRequest) checkType(object map[string]any) error {
	apiVersion := unstructured.Text(object, "apiVersion")
	kind := unstructured.Text(object, "kind")
	if sub := a.subresource; sub != "" && sub != "status" && sub != "finalize" && sub != "scale" {
		return nil
	}
	wantedVersion, wantedKind := a.wanted()
	typed := a.kind.crd == nil || a.subresource == "scale"
	if typed { // the address determines a typed kind
		if apiVersion == "" {
			object["apiVersion"], apiVersion = wantedVersion, wantedVersion
		}
		if kind == "" {
			object["kind"], kind = wantedKind, wantedKind
		}
	}
	switch {
	case kind == "":
		return apierrors.BadRequest("the object provided is unrecognized (must be of type %s): Object 'Kind' is missing in '%s' (%s)", wantedKind, a.body, summary(a.body))
	case typed && (apiVersion != wantedVersion || kind != wantedKind):
		return apierrors.BadRequest("%s in version %q cannot be handled as a %s: no kind %q is registered for version %q in scheme \"pkg/runtime/scheme.go:111\"",
			kind, apiVersion[strings.Index(apiVersion, "/")+1:], wantedKind, kind, apiVersion)
	case apiVersion != wantedVersion:
		return apierrors.BadRequest("the API version in the data (%s) does not match the expected API version (%s)", apiVersion, wantedVersion)
	}
	return nil
}

// wanted returns the API version and the kind of the object in the body. A scale has its own kind.
func (a *apiRequest) wanted() (apiVersion, kind string) {
	if a.subresource == "scale" {
		return "autoscaling/v1", "Scale"
	}
	return a.kind.apiVersion(), a.kind.resource.Kind
}

// summary returns the beginning of a body, for messages.
func summary(body []byte) string {
	const most = 30
	if len(body) > most {
		return string(body[:most]) + " ..."
	}
	return string(body)
}

// another validates the API version and the kind of a custom resource. Those of built-in kinds come from the address.
func (k *kindInfo) another(object map[string]any) []field.Error {
	if k.crd == nil {
		return nil
	}
	var faults []field.Error
	for _, f := range [...][2]string{{"apiVersion", k.apiVersion()}, {"kind", k.resource.Kind}} {
		if key, want := f[0], f[1]; object[key] != want {
			faults = append(faults, field.Invalid(key, object[key], "must be "+want))
		}
	}
	return faults
}
