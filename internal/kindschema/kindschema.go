// Package kindschema reads what API servers publish about the schemas of kinds, in OpenAPI v3.
// See https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3
package kindschema

import "github.com/kopf-go/kopf/internal/rawjson"

// Path returns the path of the document with the kinds of an API version.
func Path(group, version string) string {
	if group == "" {
		return "/openapi/v3/api/" + version
	}
	return "/openapi/v3/apis/" + group + "/" + version
}

// Keeps reports whether objects of a kind keep anything that is written to the field. The document is that of the API version. Not found means that
// the document does not have the kind.
func Keeps(document []byte, group, version, kind string, field ...string) (keeps, found bool) {
	schemas, _ := rawjson.Find(document, "components", "schemas")
	_ = rawjson.EachMember(schemas, func(_, schema []byte) bool { // what is malformed is not there
		if found = describes(schema, group, version, kind); found {
			keeps = keepsBelow(schema, field)
		}
		return !found
	})
	return keeps, found
}

// FirstLost returns the first of some fields whose parent does not keep what is written to it, by its second key, or the first one if it has
// only two; and whether the document has the kind. It returns "" if all are kept.
func FirstLost(document []byte, group, version, kind string, fields [][]string) (lost string, found bool) {
	for _, field := range fields {
		parent := field[:max(1, len(field)-1)]
		keeps, found := Keeps(document, group, version, kind, parent...)
		if !found {
			return "", false
		}
		if !keeps {
			return parent[len(parent)-1], true
		}
	}
	return "", true
}

// describes reports whether a schema is that of a kind.
func describes(schema []byte, group, version, kind string) (found bool) {
	kinds, _ := rawjson.Find(schema, "x-kubernetes-group-version-kind")
	_ = rawjson.EachItem(kinds, func(k []byte) bool { // what is malformed is none
		found = rawjson.StringAt(k, "group") == group && rawjson.StringAt(k, "version") == version && rawjson.StringAt(k, "kind") == kind
		return !found
	})
	return found
}

// keepsBelow reports whether a field below a schema takes what no schema declares.
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
