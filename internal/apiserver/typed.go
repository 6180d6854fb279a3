package apiserver

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
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
		return goValueError(namedTypes()["ObjectMeta"].schema, object["metadata"], "ObjectMeta", "").String()
	}
	known := map[string]*schema{"metadata": namedTypes()["ObjectMeta"].schema}
	if k.resource.Group == "" && (kind == "ConfigMap" || kind == "Secret") {
		known = typeOfKind("", "v1", kind).schema.properties
	}
	return goFieldsError(&schema{properties: known}, object, kind, "").String()
}

// goTypeError is what is wrong with a value that cannot be decoded into a type of kube-apiserver.
type goTypeError struct {
	text               string // all of it, if it says nothing of where it is
	word, owner, typed string // what the value is, in which type, and of which type it should be
	path               string
}

func (m *goTypeError) String() string {
	switch {
	case m == nil:
		return ""
	case m.text != "":
		return m.text
	}
	return fmt.Sprintf("json: cannot unmarshal %s into Go struct field %s.%s of type %s", m.word, m.owner, m.path, m.typed)
}

// goValueError returns why a value called name in a type called owner cannot be decoded, nil if it can.
func goValueError(s *schema, v any, owner, name string) *goTypeError {
	if v == nil || s.preserve {
		return nil
	}
	switch s.typ {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			return newGoTypeError(s, v, owner, name)
		}
		if s.additional == nil {
			owner = s.builtin.name
		}
		return goFieldsError(s, m, owner, name)
	case "array":
		list, ok := v.([]any)
		if !ok {
			return newGoTypeError(s, v, owner, name)
		}
		for i, e := range list {
			if e == nil && s.items.typ == "string" {
				list[i] = ""
			}
			if why := goValueError(s.items, e, owner, name); why != nil {
				return why
			}
		}
	default:
		if typeOf(v) != s.typ {
			return newGoTypeError(s, v, owner, name)
		}
		if text, ok := v.(string); ok {
			return badText(s.format, text)
		}
	}
	return nil
}

// goFieldsError returns the first error by the order of the keys.
func goFieldsError(s *schema, m map[string]any, owner, name string) *goTypeError {
	var found *goTypeError
	var first string
	for key, v := range m {
		inner, inside := s.additional, name
		if inner == nil {
			if inner = s.properties[key]; inner == nil {
				continue
			}
			inside = key
		}
		if v == nil && s.additional != nil && inner.typ == "string" {
			m[key] = ""
		}
		why := goValueError(inner, v, owner, inside)
		if why == nil || found != nil && key > first {
			continue
		}
		if s.additional == nil {
			why.path = strings.TrimSuffix(key+"."+why.path, ".")
		}
		first, found = key, why
	}
	return found
}

func newGoTypeError(s *schema, v any, owner, name string) *goTypeError {
	word := typeOf(v)
	switch word {
	case "integer":
		word = "number"
	case "boolean":
		word = "bool"
	}
	if s.format == "date-time" {
		return &goTypeError{text: "json: cannot unmarshal " + word + " into Go value of type string"}
	}
	return &goTypeError{word: word, owner: owner, typed: goType(s, name)}
}

// badText tells why a text cannot be decoded, nil if it can.
func badText(format, text string) *goTypeError {
	var err error
	switch format {
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	case "byte":
		_, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil {
		return &goTypeError{text: err.Error()}
	}
	return nil
}

// goType names a type as kube-apiserver does in its complaints.
func goType(s *schema, field string) string {
	switch {
	case field == "uid":
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
	apiVersion := textIn(object, "apiVersion")
	kind := textIn(object, "kind")
	if sub := a.subresource; sub != "" && sub != "status" && sub != "finalize" && sub != "scale" {
		return nil
	}
	wantedVersion, wantedKind := a.wanted()
	typed := a.kind.crd == nil || a.subresource == "scale"
	if typed { // typed kinds do not need to be told what they are
		if apiVersion == "" {
			object["apiVersion"], apiVersion = wantedVersion, wantedVersion
		}
		if kind == "" {
			object["kind"], kind = wantedKind, wantedKind
		}
	}
	switch {
	case kind == "":
		return badRequest("the object provided is unrecognized (must be of type %s): Object 'Kind' is missing in '%s' (%s)", wantedKind, a.body, summary(a.body))
	case typed && (apiVersion != wantedVersion || kind != wantedKind):
		return badRequest("%s in version %q cannot be handled as a %s: no kind %q is registered for version %q in scheme",
			kind, apiVersion[strings.Index(apiVersion, "/")+1:], wantedKind, kind, apiVersion)
	case apiVersion != wantedVersion:
		return badRequest("the API version in the data (%s) does not match the expected API version (%s)", apiVersion, wantedVersion)
	}
	return nil
}

// wanted returns the version and the kind of what is written: the scale of an object is of its own kind.
func (a *apiRequest) wanted() (apiVersion, kind string) {
	if a.subresource == "scale" {
		return "autoscaling/v1", "Scale"
	}
	return a.kind.apiVersion(), a.kind.resource.Kind
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
	for _, f := range [...][2]string{{"apiVersion", k.apiVersion()}, {"kind", k.resource.Kind}} {
		if field, want := f[0], f[1]; object[field] != want {
			faults = withFault(faults, "FieldValueInvalid", field, object[field], "must be "+want)
		}
	}
	return faults
}

// typeError tells where a value does not fit the type by which its fields are accounted for and why, beginning with the path below the value,
// "" if it does. Items of a list that cannot be told apart are let pass if there may be twins.
func (t fieldType) typeError(v any, twins bool) string {
	s := t.schema
	if v == nil || s == nil && !t.root {
		return ""
	}
	switch v := v.(type) {
	case map[string]any:
		if s != nil && (s.intOrString || s.typ != "object" && s.typ != "") {
			return ": expected " + s.typ + ", got a map"
		}
		return t.fieldsError(v, twins)
	case []any:
		if s != nil && (s.intOrString || s.typ != "array" && s.typ != "") {
			return ": expected " + s.typ + ", got a list"
		}
		return t.itemsError(v, twins)
	default:
		if s != nil && !s.fitsScalar(v) {
			return fmt.Sprintf(": expected %s, got %v", s.typ, v)
		}
	}
	return ""
}

// fieldsError returns the first error by the order of the keys, without the cost of sorting what fits.
func (t fieldType) fieldsError(m map[string]any, twins bool) string {
	first, found := "", ""
	for key, v := range m {
		child, known := t.field(key)
		why := ": field not declared in schema"
		if known || t.open() {
			why = child.typeError(v, twins)
		}
		if why != "" && (found == "" || key < first) {
			first, found = key, "."+key+why
		}
	}
	return found
}

func (t fieldType) itemsError(list []any, twins bool) string {
	var seen []string
	for i, e := range list {
		if t.associative() {
			step, ok := t.step(e)
			if !ok {
				return "[" + strconv.Itoa(i) + "]: the item has no key"
			}
			if slices.Contains(seen, step) && !twins {
				return ": duplicate entries for key " + step
			}
			seen = append(seen, step)
		}
		if why := t.item().typeError(e, twins); why != "" {
			return "[" + strconv.Itoa(i) + "]" + why
		}
	}
	return ""
}

// open tells whether a map of the type can have keys that the type does not know.
func (t fieldType) open() bool {
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
