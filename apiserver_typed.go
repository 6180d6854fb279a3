package kopf

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file tells whether objects are of the types that the in-memory API server knows, in the two ways in which kube-apiserver
// asks: when it decodes what is typed in its own language, and when it accounts for fields by the schema of a kind.

// checkGoType refuses what the typed parts of an object cannot hold.
func (a *apiRequest) checkGoType(object map[string]any) error {
	if a.subresource != "" && a.subresource != "status" {
		return nil
	}
	if why := untyped(a.kind, object); why != "" {
		return badRequest("%s in version %q cannot be handled as a %s: %s", object["kind"], a.kind.resource.Version, a.kind.resource.Kind, why)
	}
	return nil
}

// untyped tells why an object does not fit the types of the server, "" if it does: its metadata, and the
// data of those kinds that are little else. A null where a text is expected becomes an empty one.
func untyped(k *kindInfo, object map[string]any) string {
	kind := k.resource.Kind
	if k.crd != nil { // whose metadata are decoded by themselves
		return goMisfit(namedTypes()["ObjectMeta"].schema, object["metadata"], "ObjectMeta", "")
	}
	known := map[string]*schema{"metadata": namedTypes()["ObjectMeta"].schema}
	if k.resource.Group == "" && (kind == "ConfigMap" || kind == "Secret") {
		known = typeOfKind("", "v1", kind).schema.properties
	}
	for _, key := range unionKeys(object, nil) {
		if s := known[key]; s != nil {
			if why := goMisfit(s, object[key], kind, key); why != "" {
				return why
			}
		}
	}
	return ""
}

// goMisfit tells why a value cannot be decoded into a type of kube-apiserver, "" if it can.
func goMisfit(s *schema, v any, owner, field string) string {
	misfit := func() string {
		word := map[string]string{"integer": "number", "boolean": "bool"}[typeOf(v)]
		if word == "" {
			word = typeOf(v)
		}
		if s.format == "date-time" {
			return "json: cannot unmarshal " + word + " into Go value of type string"
		}
		return fmt.Sprintf("json: cannot unmarshal %s into Go struct field %s.%s of type %s", word, owner, field, goType(s, field))
	}
	if v == nil || s.preserve {
		return ""
	}
	switch s.typ {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			return misfit()
		}
		if s.additional == nil {
			owner = s.builtin.name
		}
		for _, key := range unionKeys(m, nil) {
			inner, at := s.additional, field
			if inner == nil {
				if inner = s.properties[key]; inner == nil {
					continue
				}
				at = strings.TrimPrefix(field+"."+key, ".")
			}
			if m[key] == nil && s.additional != nil && inner.typ == "string" {
				m[key] = ""
			}
			if why := goMisfit(inner, m[key], owner, at); why != "" {
				return why
			}
		}
	case "array":
		list, ok := v.([]any)
		if !ok {
			return misfit()
		}
		for i, e := range list {
			if e == nil && s.items.typ == "string" {
				list[i] = ""
			}
			if why := goMisfit(s.items, e, owner, field); why != "" {
				return why
			}
		}
	default:
		if typeOf(v) != s.typ {
			return misfit()
		}
		if text, ok := v.(string); ok {
			return badText(s.format, text)
		}
	}
	return ""
}

// badText tells why a text cannot be decoded.
func badText(format, text string) string {
	var err error
	switch format {
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	case "byte":
		_, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// goType names a type as kube-apiserver does in its complaints.
func goType(s *schema, field string) string {
	switch {
	case field == "uid" || strings.HasSuffix(field, ".uid"):
		return "types.UID"
	case s.typ == "array":
		return "[]" + goType(s.items, "")
	case s.typ == "object" && s.additional != nil:
		return "map[string]" + goType(s.additional, "")
	case s.typ == "object":
		return "v1." + s.builtin.name
	case s.typ == "integer":
		return s.format
	case s.typ == "boolean":
		return "bool"
	case s.format == "byte":
		return "[]uint8"
	}
	return "string"
}

// checkType tells whether the object is of the kind that the address is of. Custom resources of another kind are refused
// later, with all else that is wrong with them.
func (a *apiRequest) checkType(object map[string]any) error {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	want := a.kind.resource
	if sub := a.subresource; sub == "scale" {
		want = Resource{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	} else if sub != "" && sub != "status" && sub != "finalize" {
		return nil
	}
	if a.kind.crd == nil || a.subresource == "scale" { // the typed kinds do not need to be told what they are
		if apiVersion == "" {
			object["apiVersion"], apiVersion = want.APIVersion(), want.APIVersion()
		}
		if kind == "" {
			object["kind"], kind = want.Kind, want.Kind
		}
	}
	if kind == "" {
		return badRequest("the object provided is unrecognized (must be of type %s): Object 'Kind' is missing in '%s' (%s)", want.Kind, a.body, summary(a.body))
	}
	typed := a.kind.crd == nil || a.subresource == "scale"
	if typed && (apiVersion != want.APIVersion() || kind != want.Kind) {
		return badRequest("%s in version %q cannot be handled as a %s: no kind %q is registered for version %q in scheme",
			kind, apiVersion[strings.Index(apiVersion, "/")+1:], want.Kind, kind, apiVersion)
	}
	if apiVersion != want.APIVersion() {
		return badRequest("the API version in the data (%s) does not match the expected API version (%s)", apiVersion, want.APIVersion())
	}
	return nil
}

// summary is the beginning of a body, for messages.
func summary(body []byte) string {
	const most = 30
	if len(body) > most {
		return string(body[:most]) + " ..."
	}
	return string(body)
}

// another tells what is wrong with the kind of an object, for custom resources alone: others are known by their address.
func (k *kindInfo) another(object map[string]any) []fieldError {
	if k.crd == nil {
		return nil
	}
	var faults []fieldError
	for field, want := range map[string]string{"kind": k.resource.Kind, "apiVersion": k.resource.APIVersion()} {
		if object[field] != want {
			faults = append(faults, fieldError{typ: "FieldValueInvalid", field: field, value: object[field], detail: "must be " + want})
		}
	}
	sortByText(faults, func(f fieldError) string { return f.field })
	return faults
}

// misfit tells where a value does not fit the type by which its fields are accounted for, "" if it does. Items of a list that cannot be
// told apart are let pass if there may be twins.
func (t *fieldType) misfit(v any, at string, twins bool) string {
	s := t.schema
	if v == nil || s == nil && !t.root {
		return ""
	}
	switch v := v.(type) {
	case map[string]any:
		if s != nil && (s.intOrString || s.typ != "object" && s.typ != "") {
			return at + ": expected " + s.typ + ", got a map"
		}
		for _, key := range unionKeys(v, nil) {
			child, known := t.field(key)
			if !known && !t.open() {
				return at + "." + key + ": field not declared in schema"
			}
			if why := child.misfit(v[key], at+"."+key, twins); why != "" {
				return why
			}
		}
	case []any:
		if s != nil && (s.intOrString || s.typ != "array" && s.typ != "") {
			return at + ": expected " + s.typ + ", got a list"
		}
		return t.misfitItems(v, at, twins)
	default:
		if s != nil && !s.fitsScalar(v) {
			return fmt.Sprintf("%s: expected %s, got %v", at, s.typ, v)
		}
	}
	return ""
}

func (t *fieldType) misfitItems(list []any, at string, twins bool) string {
	var seen []string
	for i, e := range list {
		name := fmt.Sprintf("%s[%d]", at, i)
		if t.associative() {
			step, ok := t.step(e)
			if !ok {
				return name + ": the item has no key"
			}
			if slices.Contains(seen, step) && !twins {
				return at + ": duplicate entries for key " + step
			}
			seen = append(seen, step)
		}
		if why := t.item().misfit(e, name, twins); why != "" {
			return why
		}
	}
	return ""
}

// open tells whether a map of the type can have keys that the type does not know.
func (t *fieldType) open() bool {
	s := t.schema
	return s == nil || s.preserve || s.anything || s.additional != nil || len(s.properties) == 0
}

// fitsScalar tells whether a value that is neither a map nor a list is of the type: numbers are all one, and a text with a format may be
// anything.
func (s *schema) fitsScalar(v any) bool {
	typ := typeOf(v)
	switch s.typ {
	case "object", "array":
		return false
	case "string":
		return typ == "string" || s.format != "" && s.format != "byte"
	case "integer", "number":
		return typ == "integer" || typ == "number"
	case "boolean":
		return typ == "boolean"
	}
	return true
}
