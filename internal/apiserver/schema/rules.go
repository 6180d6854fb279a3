package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file has the rules of kube-apiserver for schemas, in addition to their structure.

// position is the place of a schema.
type position struct {
	root       bool
	inMeta     bool   // whether it is below the metadata, the kind or the API version
	noDefaults string // the reason why defaults are not allowed, "" if they are
}

// within returns the position of a nested schema.
func (p position) within() position {
	p.root = false
	return p
}

var openAPITypes = []string{"array", "boolean", "integer", "number", "object", "string"}

// allowedAtRoot are the keys that the root of a schema can have if the status is a subresource.
var allowedAtRoot = []string{
	"description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems",
	"uniqueItems", "multipleOf", "required", "items", "properties", "externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
}

// allowedNames are the same keys for messages.
const allowedNames = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems " +
	"MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]"

// checkRoot refuses keys that have no effect when the schema of the status is used alone.
func (n node) checkRoot(at string) []field.Error {
	if typ := n.text("type"); typ != "" && typ != "object" {
		return []field.Error{field.Invalid(at+".type", typ, `only "object" is allowed as the type at the root of the schema if the status subresource is enabled`)}
	}
	for _, key := range rawjson.SortedKeys(n) {
		if v := n[key]; !slices.Contains(allowedAtRoot, key) && v != nil && v != false && v != "" {
			return []field.Error{field.Invalid(at, map[string]any(n), "only "+allowedNames+" fields are allowed at the root of the schema if the status subresource is enabled")}
		}
	}
	return nil
}

// checkRules checks a schema and its nested schemas.
func (n node) checkRules(at string, p position) []field.Error {
	faults := n.checkForbidden(at, p)
	if n.is("uniqueItems") {
		faults = append(faults, field.Forbidden(at+".uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"))
	}
	if additional := n["additionalProperties"]; additional != nil {
		if additional != true && len(rawjson.AsMap(n["properties"])) > 0 {
			faults = append(faults, field.Forbidden(at+".additionalProperties", "additionalProperties and properties are mutual exclusive"))
		}
		below := p.within()
		if p.inMeta {
			below.noDefaults = "inside additionalProperties applying to object metadata"
		}
		if child := n.child("additionalProperties"); child != nil {
			faults = append(faults, child.checkRules(at+".additionalProperties", below)...)
		}
	}
	n.each("properties", func(name string, child node) {
		below := p.within()
		if (p.root || n.is("x-kubernetes-embedded-resource")) && (name == "metadata" || name == "kind" || name == "apiVersion") {
			below.inMeta = true
			if p.root {
				below.noDefaults = "in top-level " + name
			}
		}
		faults = append(faults, child.checkRules(at+".properties["+name+"]", below)...)
	})
	if not := n.child("not"); not != nil {
		faults = append(faults, not.checkRules(at+".not", p.within())...)
	}
	for _, key := range []string{"allOf", "oneOf", "anyOf"} {
		for i, child := range n.all(key) {
			faults = append(faults, child.checkRules(fmt.Sprintf("%s.%s[%d]", at, key, i), p.within())...)
		}
	}
	n.each("definitions", func(name string, child node) {
		faults = append(faults, child.checkRules(at+".definitions["+name+"]", p.within())...)
	})
	if items := n.child("items"); items != nil {
		faults = append(faults, items.checkRules(at+".items", p.within())...)
	}
	if n["x-kubernetes-preserve-unknown-fields"] == false {
		faults = append(faults, field.Invalid(at+".x-kubernetes-preserve-unknown-fields", false, "must be true or undefined"))
	}
	faults = append(faults, n.checkMapType(at)...)
	faults = append(faults, n.checkListType(at)...)
	faults = append(faults, n.checkListMap(at)...)
	faults = append(faults, n.checkKeys(at)...)
	return append(faults, n.checkValidations(at)...)
}

// checkForbidden refuses keys of OpenAPI that schemas of CRDs do not allow.
func (n node) checkForbidden(at string, p position) []field.Error {
	var faults []field.Error
	typ := n.text("type")
	if typ != "" && !slices.Contains(openAPITypes, typ) {
		faults = append(faults, field.NotSupported(at+".type", typ, `supported values: "array", "boolean", "integer", "number", "object", "string"`))
	}
	if n["default"] != nil && p.noDefaults != "" {
		faults = append(faults, field.Forbidden(at+".default", "must not be set "+p.noDefaults))
	}
	for _, key := range []string{"id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"} {
		v := n[key]
		m, isMap := v.(map[string]any)
		if v == nil || v == "" && key == "id" || isMap && len(m) == 0 && (key == "patternProperties" || key == "definitions") {
			continue
		}
		faults = append(faults, field.Forbidden(at+"."+key, key+" is not supported"))
	}
	if typ == "null" {
		faults = append(faults, field.Forbidden(at+".type", "type cannot be set to null, use nullable as an alternative"))
	}
	if list, _ := n["items"].([]any); len(list) > 0 {
		faults = append(faults, field.Forbidden(at+".items", "items must be a schema object and not an array"))
	}
	if p.inMeta && n.is("x-kubernetes-embedded-resource") {
		faults = append(faults, field.Forbidden(at+".x-kubernetes-embedded-resource", "must not be used inside of resource meta"))
	}
	return faults
}

// checkTyped checks that a schema with an extension has the type that the extension requires.
func (n node) checkTyped(at, key, want string) []field.Error {
	typ := n.text("type")
	detail := fmt.Sprintf("must be %s if %s is specified", want, key)
	switch {
	case n[key] == nil || typ == want:
		return nil
	case typ == "":
		return []field.Error{field.Required(at+".type", detail)}
	}
	return []field.Error{field.Invalid(at+".type", typ, detail)}
}

func (n node) checkMapType(at string) []field.Error {
	const key = "x-kubernetes-map-type"
	faults := n.checkTyped(at, key, "object")
	if typ := n[key]; typ != nil && typ != "atomic" && typ != "granular" {
		faults = append(faults, field.NotSupported(at+"."+key, typ, `supported values: "atomic", "granular"`))
	}
	return faults
}

func (n node) checkListType(at string) []field.Error {
	const key = "x-kubernetes-list-type"
	faults := n.checkTyped(at, key, "array")
	typ := n[key]
	if items := n.child("items"); len(faults) == 0 && typ == "set" && items != nil {
		const detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
		switch list := items[key]; {
		case items.text("type") == "array" && list != nil && list != "atomic":
			faults = append(faults, field.Invalid(at+".items."+key, list, detail))
		case items.text("type") == "object" && items["x-kubernetes-map-type"] != "atomic":
			faults = append(faults, field.Invalid(at+".items.x-kubernetes-map-type", list, detail)) // kube-apiserver, too, reports the value of the list type
		}
	}
	if typ != nil && typ != "atomic" && typ != "set" && typ != "map" {
		faults = append(faults, field.NotSupported(at+"."+key, typ, `supported values: "atomic", "set", "map"`))
	}
	return faults
}

// checkListMap checks the keys of a list, and that its items have them.
func (n node) checkListMap(at string) []field.Error {
	keys, typ, items := unstructured.Texts(n["x-kubernetes-list-map-keys"]), n["x-kubernetes-list-type"], n.child("items")
	var faults []field.Error
	if detail := "must be map if x-kubernetes-list-map-keys is non-empty"; len(keys) > 0 && typ == nil {
		faults = append(faults, field.Required(at+".x-kubernetes-list-type", detail))
	} else if len(keys) > 0 && typ != "map" {
		faults = append(faults, field.Invalid(at+".x-kubernetes-list-type", typ, detail))
	}
	if typ != "map" {
		return faults
	}
	if len(keys) == 0 {
		faults = append(faults, field.Required(at+".x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map"))
	}
	switch _, isList := n["items"].([]any); {
	case isList:
		faults = append(faults, field.Invalid(at+".items", n["items"], "must only have a single schema if x-kubernetes-list-type is map"))
	case items == nil:
		faults = append(faults, field.Required(at+".items", "must have a schema if x-kubernetes-list-type is map"))
	case items.text("type") != "object":
		faults = append(faults, field.Invalid(at+".items.type", items.text("type"), "must be object if parent array's x-kubernetes-list-type is map"))
	default:
		faults = append(faults, items.checkMapKeys(at, keys)...)
	}
	return faults
}

// checkMapKeys checks that the items of a list at a path have its keys as scalars.
func (n node) checkMapKeys(at string, keys []string) []field.Error {
	var faults []field.Error
	for i, key := range keys {
		child := node(rawjson.AsMap(rawjson.AsMap(n["properties"])[key]))
		if child == nil {
			faults = append(faults, field.Invalid(at+".x-kubernetes-list-map-keys", keys, "entries must all be names of item properties"))
		} else if typ := child.text("type"); typ == "array" || typ == "object" { // kube-apiserver, too, reports the type of the items
			faults = append(faults, field.Invalid(at+".items.properties["+key+"].type", n.text("type"), "must be a scalar type if parent array's x-kubernetes-list-type is map"))
		}
		if slices.Contains(keys[:i], key) {
			faults = append(faults, field.Invalid(at+".x-kubernetes-list-map-keys", keys, "must not contain duplicate entries"))
		}
	}
	return faults
}

// checkKeys checks that the items of sets and maps are not null, and that keys of items are required, or have a default.
func (n node) checkKeys(at string) []field.Error {
	typ, items := n["x-kubernetes-list-type"], n.child("items")
	if items == nil || typ != "set" && typ != "map" {
		return nil
	}
	var faults []field.Error
	if items.is("nullable") {
		faults = append(faults, field.Forbidden(at+".items.nullable", fmt.Sprintf("cannot be nullable when x-kubernetes-list-type is %s", typ)))
	}
	if typ == "set" {
		return faults
	}
	for _, key := range unstructured.Texts(n["x-kubernetes-list-map-keys"]) {
		child := node(rawjson.AsMap(rawjson.AsMap(items["properties"])[key]))
		if child == nil {
			continue
		}
		here := at + ".items.properties[" + key + "]"
		if child["default"] == nil && !slices.Contains(unstructured.Texts(items["required"]), key) {
			faults = append(faults, field.Required(here+".default", "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"))
		}
		if child.is("nullable") {
			faults = append(faults, field.Forbidden(here+".nullable", "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"))
		}
	}
	return faults
}

// checkValidations checks the rules in CEL, apart from the expressions themselves.
func (n node) checkValidations(at string) []field.Error {
	list, _ := n["x-kubernetes-validations"].([]any)
	var faults []field.Error
	for i, v := range list {
		rule := node(rawjson.AsMap(v))
		here := fmt.Sprintf("%s.x-kubernetes-validations[%d]", at, i)
		faults = append(faults, rule.checkTexts(here)...)
		path := rule.text("fieldPath")
		if path != "" && strings.TrimSpace(path) == "" {
			faults = append(faults, field.Invalid(here+".fieldPath", path, "must be non-empty if specified"))
		}
		if strings.ContainsAny(path, "\n\r") {
			faults = append(faults, field.Invalid(here+".fieldPath", path, "must not contain line breaks"))
		}
		if path != "" && n.unsupported(0) == "" {
			if _, _, err := FieldAt(n, path, true); err != nil {
				faults = append(faults, field.Invalid(here+".fieldPath", path, "must be a valid path"))
			}
		}
	}
	return faults
}

// checkTexts checks the texts of a rule in CEL.
func (n node) checkTexts(at string) []field.Error {
	rule, message := n.text("rule"), n.text("message")
	breaks := func(text string) bool { return strings.ContainsAny(strings.TrimSpace(text), "\n\r") }
	var faults []field.Error
	switch {
	case strings.TrimSpace(rule) == "":
		faults = append(faults, field.Required(at+".rule", "rule is not specified"))
	case message != "" && strings.TrimSpace(message) == "":
		faults = append(faults, field.Invalid(at+".message", message, "must be non-empty if specified"))
	case breaks(message):
		faults = append(faults, field.Invalid(at+".message", message, "must not contain line breaks"))
	case breaks(rule) && message == "":
		faults = append(faults, field.Required(at+".message", "message must be specified if rule contains line breaks"))
	}
	if text := n.text("messageExpression"); text != "" && strings.TrimSpace(text) == "" {
		faults = append(faults, field.Required(at+".messageExpression", "messageExpression must be non-empty if specified"))
	}
	const reasons = `supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"`
	if reason := n["reason"]; reason != nil && !strings.Contains(reasons, fmt.Sprintf("%q", reason)) {
		faults = append(faults, field.NotSupported(at+".reason", reason, reasons))
	}
	return faults
}
