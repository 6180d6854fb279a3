package schema

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file checks that a schema is structural: it specifies the type of each value, and logical junctors only restrict fields that are specified
// outside of them. See
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema

// Check validates the openAPIV3Schema of a CRD at a path. The status may be a subresource.
func Check(s map[string]any, at string, hasStatus bool) []field.Error {
	n := node(s)
	var faults []field.Error
	if hasStatus {
		faults = append(faults, n.checkRoot(at)...)
	}
	if n.is("nullable") {
		faults = append(faults, field.Forbidden(at+".nullable", "nullable cannot be true at the root"))
	}
	unsupported := n.unsupported(0)
	if unsupported == "" {
		if wrong := n.checkStructural(at); len(wrong) > 0 {
			faults = append(faults, wrong...)
		} else {
			faults = append(faults, checkDefaults(s, at)...)
		}
	}
	faults = append(faults, n.checkRules(at, position{root: true})...)
	if len(faults) == 0 && unsupported != "" {
		faults = append(faults, field.Invalid(at, "", unsupported))
	}
	return faults
}

// node is one node of a schema in a CRD.
type node map[string]any

// is reports whether a mark is set.
func (n node) is(key string) bool { return n[key] == true }

func (n node) text(key string) string { return unstructured.Text(n, key) }

// child returns the schema at a key, nil if there is none.
func (n node) child(key string) node { return node(rawjson.AsMap(n[key])) }

// each calls a function for each schema in a map of schemas, sorted by name.
func (n node) each(key string, f func(name string, child node)) {
	schemas := rawjson.AsMap(n[key])
	for _, name := range rawjson.SortedKeys(schemas) {
		if child := rawjson.AsMap(schemas[name]); child != nil {
			f(name, child)
		}
	}
}

// all returns a list of schemas.
func (n node) all(key string) (list []node) {
	values, _ := n[key].([]any)
	for _, v := range values {
		list = append(list, rawjson.AsMap(v))
	}
	return list
}

// junctors are the keys of lists of schemas of which all, one, or any must fit.
var junctors = []string{"anyOf", "allOf", "oneOf"}

// children calls a function for all nested schemas, until it returns a text.
func (n node) children(f func(child node) string) (found string) {
	visit := func(child node) {
		if child != nil && found == "" {
			found = f(child)
		}
	}
	for _, key := range []string{"items", "not", "additionalProperties"} {
		visit(n.child(key))
	}
	for _, key := range junctors {
		for _, child := range n.all(key) {
			visit(child)
		}
	}
	n.each("properties", func(_ string, child node) { visit(child) })
	return found
}

// unsupported returns the reason why a schema cannot be structural, "" if there is none.
func (n node) unsupported(depth int) string {
	if depth > maxSchemaDepth {
		return fmt.Sprintf("the schema is nested deeper than %d levels", maxSchemaDepth)
	}
	for _, key := range []string{"id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"} {
		if v := n[key]; !rawjson.IsEmpty(v) && v != "" {
			if key == "$schema" {
				key = "schema"
			}
			return "OpenAPIV3Schema '" + key + "' is not supported"
		}
	}
	if _, list := n["items"].([]any); list {
		return "OpenAPIV3Schema 'items' must be a schema, but is an array"
	}
	if n["x-kubernetes-preserve-unknown-fields"] == false {
		return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
	}
	return n.children(func(child node) string { return child.unsupported(depth + 1) })
}

// level is the place of a schema.
type level int

const (
	atRoot level = iota
	atItem
	atField
)

// checkStructural returns the violations of the structural rules in a schema, sorted by the messages.
func (n node) checkStructural(at string) []field.Error {
	faults := n.checkInvariants(at, atRoot)
	faults = append(faults, n.checkComplete(n, at, at)...)
	slices.SortStableFunc(faults, func(a, b field.Error) int { return cmp.Compare(a.Message(), b.Message()) })
	return faults
}

func (n node) checkInvariants(at string, l level) []field.Error {
	var faults []field.Error
	if n.text("type") == "array" && n.child("items") == nil {
		faults = append(faults, field.Required(at+".items", "must be specified"))
	}
	if items := n.child("items"); items != nil {
		faults = append(faults, items.checkInvariants(at+".items", atItem)...)
	}
	n.each("properties", func(name string, child node) {
		faults = append(faults, child.checkInvariants(at+".properties["+name+"]", atField)...)
	})
	embedded := n.is("x-kubernetes-embedded-resource")
	if additional := n["additionalProperties"]; additional != nil {
		if l == atRoot {
			faults = append(faults, field.Forbidden(at+".additionalProperties", "must not be used at the root"))
		}
		if embedded {
			faults = append(faults, field.Forbidden(at+".additionalProperties", "must not be used if x-kubernetes-embedded-resource is set"))
		}
		if child := n.child("additionalProperties"); child != nil {
			faults = append(faults, child.checkInvariants(at+".additionalProperties", atField)...)
		}
	}
	faults = append(faults, n.checkExtensions(at)...)
	faults = append(faults, n.checkValues(at, n.choosesIntOrString("anyOf"), n.choosesIntOrString("allOf"))...)
	faults = append(faults, n.checkType(at, l)...)
	if l == atRoot || embedded {
		for _, key := range []string{"kind", "apiVersion"} {
			if child := node(rawjson.AsMap(rawjson.AsMap(n["properties"])[key])); child != nil && child.text("type") != "string" {
				faults = append(faults, field.Invalid(at+".properties["+key+"].type", child.text("type"), "must be string"))
			}
		}
	}
	return append(faults, n.checkMetadata(at, l)...)
}

func (n node) checkExtensions(at string) (faults []field.Error) {
	if !n.is("x-kubernetes-int-or-string") {
		return nil
	}
	for _, key := range []string{"x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"} {
		if n.is(key) {
			faults = append(faults, field.Invalid(at+"."+key, true, "must be false if x-kubernetes-int-or-string is true"))
		}
	}
	return faults
}

func (n node) checkType(at string, l level) []field.Error {
	typ := n.text("type")
	embedded := n.is("x-kubernetes-embedded-resource")
	var faults []field.Error
	switch {
	case embedded && typ == "":
		faults = append(faults, field.Required(at+".type", "must be object if x-kubernetes-embedded-resource is true"))
	case embedded && typ != "object":
		faults = append(faults, field.Invalid(at+".type", typ, "must be object if x-kubernetes-embedded-resource is true"))
	case !embedded && typ == "" && !n.is("x-kubernetes-int-or-string") && !n.is("x-kubernetes-preserve-unknown-fields"):
		where := [...]string{atRoot: "at the root", atItem: "for specified array items", atField: "for specified object fields"}
		faults = append(faults, field.Required(at+".type", "must not be empty "+where[l]))
	}
	if l == atRoot && typ != "" && typ != "object" {
		faults = append(faults, field.Invalid(at+".type", typ, "must be object at the root"))
	}
	if embedded && !n.is("x-kubernetes-preserve-unknown-fields") && len(rawjson.AsMap(n["properties"])) == 0 {
		faults = append(faults, field.Required(at+".properties", "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"))
	}
	return faults
}

// checkMetadata validates the schema of the metadata, which may restrict only the names.
func (n node) checkMetadata(at string, l level) []field.Error {
	meta := node(rawjson.AsMap(rawjson.AsMap(n["properties"])["metadata"]))
	if meta == nil {
		return nil
	}
	at += ".properties[metadata]"
	var faults []field.Error
	if (l == atRoot || n.is("x-kubernetes-embedded-resource")) && meta.text("type") != "object" {
		faults = append(faults, field.Invalid(at+".type", meta.text("type"), "must be object"))
	}
	if l != atRoot {
		return faults
	}
	for _, key := range rawjson.SortedKeys(meta) {
		names := key == "properties"
		for name := range rawjson.AsMap(meta["properties"]) {
			names = names && (name == "name" || name == "generateName")
		}
		if v := meta[key]; key != "type" && key != "default" && !names && !rawjson.IsEmpty(v) && v != "" && v != false {
			return append(faults, field.Forbidden(at, "must not specify anything other than name and generateName, but metadata is implicitly specified"))
		}
	}
	return faults
}

// choosesIntOrString reports whether a junctor has a form that x-kubernetes-int-or-string allows: a choice of both types, or that choice in its first
// schema.
func (n node) choosesIntOrString(junctor string) bool {
	choices := n.all(junctor)
	if junctor == "allOf" {
		return len(choices) > 0 && choices[0].choosesIntOrString("anyOf")
	}
	if len(choices) != 2 {
		return false
	}
	for i, typ := range []string{"integer", "string"} {
		if len(choices[i]) != 1 || choices[i]["type"] != typ {
			return false
		}
	}
	return true
}

// checkValues checks the pattern and the junctors. The choice of an int-or-string may have types, also in the first schema of allOf.
func (n node) checkValues(at string, anyOfTyped, allOfTyped bool) []field.Error {
	var faults []field.Error
	for _, key := range junctors {
		if key == "anyOf" && anyOfTyped {
			continue
		}
		for i, child := range n.all(key) {
			faults = append(faults, child.checkNested(fmt.Sprintf("%s.%s[%d]", at, key, i), key == "allOf" && allOfTyped && i == 0)...)
		}
	}
	if not := n.child("not"); not != nil {
		faults = append(faults, not.checkNested(at+".not", false)...)
	}
	if pattern := n.text("pattern"); pattern != "" {
		if _, err := regexp.Compile(pattern); err != nil {
			faults = append(faults, field.Invalid(at+".pattern", pattern, fmt.Sprintf("must be a valid regular expression, but isn't: %v", err)))
		}
	}
	return faults
}

// nestedForbidden are the keys that schemas in junctors must not set, and the values that they must have.
var nestedForbidden = [...][2]string{
	{"type", "must be empty to be structural"},
	{"additionalProperties", "must be undefined to be structural"},
	{"default", "must be undefined to be structural"},
	{"title", "must be empty to be structural"},
	{"description", "must be empty to be structural"},
	{"nullable", "must be false to be structural"},
	{"x-kubernetes-preserve-unknown-fields", "must be false to be structural"},
	{"x-kubernetes-embedded-resource", "must be false to be structural"},
	{"x-kubernetes-int-or-string", "must be false to be structural"},
	{"x-kubernetes-list-map-keys", "must be empty to be structural"},
	{"x-kubernetes-list-type", "must be undefined to be structural"},
	{"x-kubernetes-map-type", "must be undefined to be structural"},
	{"x-kubernetes-validations", "must be empty to be structural"},
}

// checkNested checks a schema in a junctor.
func (n node) checkNested(at string, anyOfTyped bool) []field.Error {
	faults := n.checkValues(at, anyOfTyped, false)
	if items := n.child("items"); items != nil {
		faults = append(faults, items.checkNested(at+".items", false)...)
	}
	n.each("properties", func(name string, child node) {
		faults = append(faults, child.checkNested(at+".properties["+name+"]", false)...)
		if name == "metadata" {
			faults = append(faults, field.Forbidden(at+".properties[metadata]", "must not be specified in a nested context"))
		}
	})
	for _, f := range nestedForbidden {
		v := n[f[0]]
		list, isList := v.([]any)
		switch {
		case v == nil, v == false, v == "" && f[0] != "default" && f[0] != "x-kubernetes-list-type" && f[0] != "x-kubernetes-map-type", isList && len(list) == 0 && f[0] != "default":
		default:
			faults = append(faults, field.Forbidden(at+"."+f[0], f[1]))
		}
	}
	return faults
}

// checkComplete checks that the structure specifies all fields that the junctors of a schema restrict. The path is that of the structure.
func (n node) checkComplete(structure node, path, at string) []field.Error {
	var faults []field.Error
	visit := func(child node, at string) {
		faults = append(faults, child.checkNestedComplete(structure, path, at)...)
	}
	if not := n.child("not"); not != nil {
		visit(not, at+".not")
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		for i, child := range n.all(key) {
			visit(child, fmt.Sprintf("%s.%s[%d]", at, key, i))
		}
	}
	return faults
}

func (n node) checkNestedComplete(structure node, path, at string) []field.Error {
	if structure == nil {
		return []field.Error{field.Required(path, "because it is defined in "+at)}
	}
	faults := n.checkComplete(structure, path, at)
	if items := n.child("items"); items != nil {
		faults = append(faults, items.checkNestedComplete(structure.child("items"), path+".items", at+".items")...)
	}
	n.each("properties", func(name string, child node) {
		below := ".properties[" + name + "]"
		within := node(rawjson.AsMap(rawjson.AsMap(structure["properties"])[name]))
		faults = append(faults, child.checkNestedComplete(within, path+below, at+below)...)
	})
	return faults
}

// checkDefaults validates the defaults in a structural schema.
func checkDefaults(s map[string]any, at string) []field.Error {
	compiled, err := Compile(s)
	if err != nil {
		return nil // it is reported because of its pattern
	}
	compiled.Embedded = true
	return compiled.checkDefaults(at)
}

func (s *Schema) checkDefaults(at string) []field.Error {
	if s == nil {
		return nil
	}
	var faults []field.Error
	if s.HasDefault {
		pruned := rawjson.Clone(s.Default)
		var unknown []string
		if s.pruneValue(pruned, "", &unknown); len(unknown) > 0 {
			faults = append(faults, field.Invalid(at+".default", s.Default, "must not have unknown fields"))
		}
		wrong := checkEmbedded(s, s.Default, "")
		if len(wrong) == 0 {
			check := &validator{}
			check.value(s, s.Default, previous{}, "")
			wrong = check.faults
		}
		for _, f := range wrong { // their details only have the path within the default
			f.Path = strings.TrimSuffix(at+".default."+f.Path, ".")
			faults = append(faults, f)
		}
	}
	faults = append(faults, s.Items.checkDefaults(at+".items")...)
	for _, name := range rawjson.SortedKeys(s.Properties) {
		faults = append(faults, s.Properties[name].checkDefaults(at+".properties["+name+"]")...)
	}
	return faults
}

// HasDefaults reports whether a schema, or a nested one, has a default.
func HasDefaults(s map[string]any) bool {
	found := node(s).children(func(child node) string {
		if HasDefaults(child) {
			return "yes"
		}
		return ""
	})
	return s["default"] != nil || found != ""
}
