// Package kindschema reads the published schemas of kinds, in OpenAPI v3. See https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3
package kindschema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Path returns the path of the OpenAPI document for an API version.
func Path(group, version string) string {
	if group == "" {
		return "/openapi/v3/api/" + version
	}
	return "/openapi/v3/apis/" + group + "/" + version
}

// Obstacle says why kopf cannot store its state in the status of a kind. The zero value means that it can.
type Obstacle struct {
	Field    string // key of the field that is dropped
	Declared bool   // the schema has the field, but drops unknown fields in it
	Required string // path of a required field, without which nothing can be stored
}

// Warning returns a warning about a kind whose state is therefore stored in annotations.
func (o Obstacle) Warning(resource string) string {
	why := fmt.Sprintf("does not keep the field %q", o.Field)
	mend := fmt.Sprintf("add to the properties of its status: %s: {type: object, x-kubernetes-preserve-unknown-fields: true}", o.Field)
	switch {
	case o.Required != "":
		why = fmt.Sprintf("requires the field %q, without which nothing else can be stored there", o.Required)
		mend = "give the field a default, or take it out of the required ones"
	case o.Field == "status":
		mend = "add to its status: x-kubernetes-preserve-unknown-fields: true"
	case o.Declared:
		why = fmt.Sprintf("does not keep all of the field %q", o.Field)
		mend = fmt.Sprintf("let the field be: %s: {type: object, x-kubernetes-preserve-unknown-fields: true}", o.Field)
	}
	return fmt.Sprintf("The status of %s %s, so the state of its objects is kept in annotations. If its definition is yours, %s", resource, why, mend)
}

// FirstObstacle returns why a kind drops values below the parents of some fields, and whether the document has the kind.
func FirstObstacle(document []byte, group, version, kind string, fields [][]string) (o Obstacle, found bool) {
	for _, field := range fields {
		parent := field[:max(1, len(field)-1)]
		schema := find(document, group, version, kind)
		if schema == nil {
			return Obstacle{}, false
		}
		if !keepsBelow(schema, parent) {
			return Obstacle{Field: parent[len(parent)-1], Declared: declares(schema, parent)}, true
		}
		if required := requiredOn(schema, field); required != "" {
			return Obstacle{Required: required}, true
		}
	}
	return Obstacle{}, true
}

// Keeps reports whether a kind keeps the values of a field, and whether the document has the kind.
func Keeps(document []byte, group, version, kind string, field ...string) (keeps, found bool) {
	schema := find(document, group, version, kind)
	if schema == nil {
		return false, false
	}
	return declares(schema, field) || keepsBelow(schema, field), true
}

// declares reports whether a schema has a field.
func declares(schema []byte, field []string) bool {
	for _, key := range field {
		var ok bool
		if schema, ok = rawjson.Find(schema, "properties", key); !ok {
			return false
		}
	}
	return true
}

// requiredOn returns the path of the first required field that an object without the field's parents would lack after storing the field, or "". Fields with
// defaults do not count.
func requiredOn(schema []byte, field []string) (path string) {
	for i, key := range field {
		if i > 0 {
			required, _ := rawjson.Find(schema, "required")
			_ = rawjson.EachItem(required, func(quoted []byte) bool { // malformed items are ignored
				name := rawjson.Unquote(quoted)
				if _, comes := rawjson.Find(schema, "properties", name, "default"); !comes && name != key {
					path = strings.Join(append(slices.Clone(field[:i]), name), ".")
				}
				return path == ""
			})
		}
		if path != "" {
			return path
		}
		schema, _ = rawjson.Find(schema, "properties", key)
	}
	return ""
}

// find returns the schema of a kind, or nil.
func find(document []byte, group, version, kind string) (schema []byte) {
	schemas, _ := rawjson.Find(document, "components", "schemas")
	_ = rawjson.EachMember(schemas, func(_, one []byte) bool { // malformed members are ignored
		if describes(one, group, version, kind) {
			schema = one
		}
		return schema == nil
	})
	return schema
}

// describes reports whether a schema is that of a kind.
func describes(schema []byte, group, version, kind string) (found bool) {
	kinds, _ := rawjson.Find(schema, "x-kubernetes-group-version-kind")
	_ = rawjson.EachItem(kinds, func(k []byte) bool { // malformed items are ignored
		found = rawjson.StringAt(k, "group") == group && rawjson.StringAt(k, "version") == version && rawjson.StringAt(k, "kind") == kind
		return !found
	})
	return found
}

// keepsBelow reports whether a schema keeps undeclared fields below a field.
func keepsBelow(schema []byte, field []string) bool {
	if len(field) > 0 {
		if declared, ok := rawjson.Find(schema, "properties", field[0]); ok {
			return keepsBelow(declared, field[1:])
		}
		if values, ok := rawjson.Find(schema, "additionalProperties"); ok && string(values) != "true" {
			return string(values) != "false" && keepsBelow(values, field[1:])
		} else if ok {
			return true
		}
	}
	preserves, _ := rawjson.Find(schema, "x-kubernetes-preserve-unknown-fields")
	return string(preserves) == "true"
}
