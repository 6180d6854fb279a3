package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// strict refuses duplicate and unknown fields, or warns of them, depending on fieldValidation.
func (a *apiRequest) strict(object map[string]any) error {
	mode := a.query.Get("fieldValidation")
	unknown := a.kind.unknownFields(object)
	a.canonical = true
	if mode == "Ignore" {
		return nil
	}
	texts := a.duplicates(unknown)
	if a.verb != "patch" && a.kind.crd == nil && len(unknown) > 0 { // those of custom resources are sorted
		unknown = inOrder(a.body, unknown)
	}
	for _, path := range unknown {
		texts = append(texts, fmt.Sprintf("unknown field %q", path))
	}
	if len(texts) == 0 {
		return nil
	}
	if media, _, _ := mime.ParseMediaType(a.raw.Header.Get("Content-Type")); mode == "Strict" && media == "application/strategic-merge-patch+json" {
		patch, _ := rawjson.DecodeObject(a.body) // it was applied
		return badPatchText(fmt.Sprint(patch), "strict decoding error: "+strings.Join(texts, ", "))
	}
	if mode == "Strict" && a.verb == "patch" {
		return badPatch(object, "strict decoding error: "+strings.Join(texts, ", "))
	}
	if mode == "Strict" {
		return apierrors.BadRequest("%s in version %q cannot be handled as a %s: strict decoding error: %s",
			a.kind.resource.Kind, a.kind.resource.Version, a.kind.resource.Kind, strings.Join(texts, ", "))
	}
	a.warnings = append(a.warnings, texts...)
	return nil
}

// unknownFields returns the paths of an object's fields that its type or its schema does not declare.
func (k *kindInfo) unknownFields(object map[string]any) []string {
	unknown := k.dropUnknown(object)
	if s := k.schemaOf(object); s != nil {
		unknown = append(unknown, s.Prune(rawjson.Clone(object).(map[string]any))...)
	}
	return unknown
}

// dropUnknown removes unknown fields from the typed parts of an object, and returns their paths.
func (k *kindInfo) dropUnknown(object map[string]any) (unknown []string) {
	if t := k.goType(); t != nil {
		return t.Decode(object)
	}
	if meta := rawjson.AsMap(object["metadata"]); meta != nil {
		for _, path := range types.Named("ObjectMeta").Decode(meta) {
			unknown = append(unknown, "metadata."+path)
		}
	}
	return unknown
}

// toStored converts the typed parts of an object to their stored form.
func (k *kindInfo) toStored(object map[string]any) {
	if t := k.goType(); t != nil {
		t.Store(object)
	} else {
		k.dropUnknown(object)
	}
}

// inOrder sorts the paths of fields by their position in JSON.
func inOrder(data []byte, paths []string) []string {
	order := make(map[string]int)
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := numberFields(decoder, "", order); err != nil { // it is YAML, or Protocol Buffers
		return paths
	}
	slices.SortStableFunc(paths, func(a, b string) int { return order[a] - order[b] })
	return paths
}

// numberFields numbers the fields of the next value of a decoder, by their paths.
func numberFields(decoder *json.Decoder, at string, order map[string]int) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	for i := 0; token != nil && (token == json.Delim('{') || token == json.Delim('[')) && decoder.More(); i++ {
		path := fmt.Sprintf("%s[%d]", at, i)
		if token == json.Delim('{') {
			key, err := decoder.Token()
			if err != nil {
				return err
			}
			path = strings.TrimPrefix(fmt.Sprint(at, ".", key), ".")
			order[path] = len(order)
		}
		if err := numberFields(decoder, path, order); err != nil {
			return err
		}
	}
	if token == json.Delim('{') || token == json.Delim('[') {
		_, err = decoder.Token()
	}
	return err
}
