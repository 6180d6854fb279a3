package apiserver

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/patch"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// checkPatchType refuses patches whose media type the kind of the object does not support.
func (a *apiRequest) checkPatchType() error {
	media, _, _ := mime.ParseMediaType(a.raw.Header.Get("Content-Type"))
	known := []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}
	if a.kind.crd == nil {
		known = slices.Insert(append(known, "application/apply-patch+cbor"), 2, "application/strategic-merge-patch+json")
	}
	if media == "application/json" && a.kind.crd == nil {
		return apierrors.New(415, "UnsupportedMediaType", "415: Unsupported Media Type", map[string]any{})
	}
	if media == "application/apply-patch+cbor" || !slices.Contains(known, media) {
		return apierrors.New(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: "+strings.Join(known, ", "), nil)
	}
	return nil
}

func (a *apiRequest) patch(w http.ResponseWriter, r *http.Request) error {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var apply func(live map[string]any) (map[string]any, error)
	switch media {
	case "application/json-patch+json":
		apply = a.jsonPatch
	case "application/merge-patch+json":
		apply = a.mergePatch
	case "application/strategic-merge-patch+json":
		apply = func(live map[string]any) (map[string]any, error) {
			own := map[string]any{"apiVersion": live["apiVersion"], "kind": live["kind"]} // the patch changes the live object
			object, err := a.strategicPatch(live)
			for key, text := range own {
				if _, isText := object[key].(string); err == nil && (isText || object[key] == nil) { // they come from the address
					object[key] = text
				}
			}
			return object, err
		}
	default: // an apply; all others are refused earlier
		return a.apply(w, r)
	}
	raw, err := a.changeObject(func(live map[string]any) (map[string]any, error) {
		if a.subresource == "scale" {
			live = a.markedScale(live)
		}
		object, err := apply(live)
		if err == nil && a.subresource == "scale" {
			err = a.checkMarkedScale(object)
		}
		if err == nil {
			err = a.checkPatched(object)
		}
		if err == nil && (a.subresource == "" || a.subresource == "status") {
			a.warnings = nil // of the previous attempt
			err = a.strict(object)
		}
		if err == nil {
			err = a.checkPatchedPlace(object)
		}
		return object, err
	})
	if err != nil {
		return err
	}
	return a.answerItem(w, r, 200, raw)
}

func (a *apiRequest) jsonPatch(live map[string]any) (map[string]any, error) {
	if ops, err := rawjson.Decode(a.body); err == nil {
		if n := unstructured.CanonicalNumbers(ops); n != "" {
			return nil, apierrors.BadRequest("error decoding patch: json: cannot unmarshal number %s into Go struct field jsonPatchOp.value of type float64", n)
		}
	}
	patched, err := patch.ApplyJSON(live, a.body)
	if err != nil {
		return nil, err
	}
	object, ok := patched.(map[string]any)
	if !ok {
		return nil, apierrors.BadRequest("the patch makes %s of the object", rawjson.KindOf(patched))
	}
	if a.kind.crd == nil && a.subresource != "scale" {
		a.complementType(object)
	}
	return object, nil
}

// complementType adds the missing type of a built-in kind to a patched object.
func (a *apiRequest) complementType(object map[string]any) {
	for key, own := range map[string]string{"kind": a.kind.resource.Kind, "apiVersion": a.kind.apiVersion()} {
		if v, ok := object[key]; !ok || v == nil || v == "" {
			object[key] = own
		}
	}
}

func (a *apiRequest) mergePatch(live map[string]any) (map[string]any, error) {
	change, err := rawjson.DecodeObject(a.body)
	if err != nil {
		return nil, apierrors.BadRequest("error decoding patch: %v", err)
	}
	if n := unstructured.CanonicalNumbers(rawjson.Clone(change)); n != "" { // unchanged numbers are decoded with the object
		return nil, apierrors.BadRequest("error decoding patch: %s", unfit(n))
	}
	object := patch.ApplyMerge(live, change)
	if a.kind.crd == nil && a.subresource != "scale" {
		a.complementType(object)
	}
	return object, nil
}

func (a *apiRequest) strategicPatch(live map[string]any) (map[string]any, error) {
	change, err := rawjson.DecodeObject(a.body)
	if err != nil {
		return nil, apierrors.BadRequest("error decoding patch: %v", err)
	}
	if n := unstructured.CanonicalNumbers(change); n != "" { // only such patches accept 1.0 as an integer
		return nil, apierrors.BadRequest("%s", unfit(n))
	}
	object, err := patch.ApplyStrategicMerge(a.kind.goType().Schema, live, change)
	if entries, ok := rawjson.AsMap(change["metadata"])["managedFields"].([]any); err == nil && ok && len(entries) == 0 {
		mapAt(object, "metadata")["managedFields"] = entries // an empty list resets them, a missing one does not
	}
	return object, err
}

// checkPatched refuses a patched object that does not fit the Go types of its kind.
func (a *apiRequest) checkPatched(object map[string]any) error {
	why := ""
	if a.subresource == "scale" {
		why = unscalable(object)
		if kind, _ := object["kind"].(string); why == "" && kind != "" && kind != "Scale" {
			why = fmt.Sprintf("no kind %q is registered for version %q in scheme", kind, unstructured.Word(object["apiVersion"]))
		}
	} else if why = untyped(a.kind, object); why == "" && a.kind.crd == nil && (object["apiVersion"] != a.kind.apiVersion() || object["kind"] != a.kind.resource.Kind) {
		why = fmt.Sprintf("no kind %q is registered for version %q in scheme", unstructured.Word(object["kind"]), unstructured.Word(object["apiVersion"]))
	}
	if why != "" {
		return badPatch(object, why)
	}
	return nil
}

// checkPatchedPlace refuses a patched object that has another name or namespace.
func (a *apiRequest) checkPatchedPlace(object map[string]any) error {
	meta := rawjson.AsMap(object["metadata"])
	if meta != nil && a.subresource != "scale" {
		if err := a.place(meta); err != nil {
			return err
		}
	}
	return a.checkOwnName(meta)
}
