package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file compares the definition of a struct with the one in a cluster.

// maxPaths is the maximum number of fields in a message.
const maxPaths = 5

// Difference returns the problem with the cluster's definition of the kind, or "" if it is compatible with the struct.
func (d *Definition) Difference(served []byte) string {
	var versions []string
	var problem string
	found := false
	spec, _ := rawjson.Find(served, "spec", "versions")
	_ = rawjson.EachItem(spec, func(version []byte) bool { // malformed versions are ignored
		if on, _ := rawjson.Find(version, "served"); string(on) != "true" {
			return true
		}
		name := rawjson.StringAt(version, "name")
		versions = append(versions, name)
		if name == d.Version {
			found = true
			raw, _ := rawjson.Find(version, "schema", "openAPIV3Schema")
			problem = d.lost(rawjson.AsMap(rawjson.DecodeOrNil(raw)))
		}
		return true
	})
	if !found {
		return fmt.Sprintf("it serves the versions %s, but not %s", orNone(versions), d.Version)
	}
	return problem
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "(none)"
	}
	return strings.Join(names, ", ")
}

// lost returns a message about the fields of the struct that a schema would drop, or that have another type in it.
func (d *Definition) lost(schema map[string]any) string {
	var problems []string
	if paths := missing(nil, "", d.schema, schema); len(paths) > 0 {
		problems = append(problems, "its schema drops the fields "+some(paths))
	}
	if paths := retyped(nil, "", d.schema, schema); len(paths) > 0 {
		problems = append(problems, "its schema has other types for the fields "+some(paths))
	}
	return strings.Join(problems, ", and ")
}

// some joins the paths, up to the maximum of a message.
func some(paths []string) string {
	if len(paths) <= maxPaths {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(paths[:maxPaths], ", "), len(paths)-maxPaths)
}

// retyped appends the paths of the values that have another type in the other schema, with both types.
func retyped(paths []string, at string, ours, theirs map[string]any) []string {
	if ours == nil || theirs == nil {
		return paths
	}
	own, _ := ours["type"].(string)
	other, _ := theirs["type"].(string)
	if own != "" && other != "" && own != other && !(own == "number" && other == "integer") {
		return append(paths, fmt.Sprintf("%s (%s, want %s)", at, other, own))
	}
	properties := rawjson.AsMap(ours["properties"])
	for _, name := range rawjson.SortedKeys(properties) {
		paths = retyped(paths, strings.TrimPrefix(at+"."+name, "."), rawjson.AsMap(properties[name]), rawjson.AsMap(rawjson.AsMap(theirs["properties"])[name]))
	}
	for _, key := range []string{"items", "additionalProperties"} {
		suffix := map[string]string{"items": "[]", "additionalProperties": "[*]"}[key]
		paths = retyped(paths, at+suffix, rawjson.AsMap(ours[key]), rawjson.AsMap(theirs[key]))
	}
	return paths
}

// missing appends the paths of the fields of one schema that the other one would drop.
func missing(paths []string, at string, ours, theirs map[string]any) []string {
	if theirs["x-kubernetes-preserve-unknown-fields"] == true && theirs["properties"] == nil {
		return paths
	}
	properties := rawjson.AsMap(ours["properties"])
	for _, name := range rawjson.SortedKeys(properties) {
		path := strings.TrimPrefix(at+"."+name, ".")
		if path == "metadata" || path == "apiVersion" || path == "kind" { // every schema keeps them
			continue
		}
		below := rawjson.AsMap(rawjson.AsMap(theirs["properties"])[name])
		if below == nil {
			below = rawjson.AsMap(theirs["additionalProperties"])
		}
		switch {
		case below != nil:
			paths = missing(paths, path, rawjson.AsMap(properties[name]), below)
		case theirs["x-kubernetes-preserve-unknown-fields"] != true && theirs["additionalProperties"] != true:
			paths = append(paths, path)
		}
	}
	for key, suffix := range map[string]string{"items": "[]", "additionalProperties": "[*]"} {
		own, other := rawjson.AsMap(ours[key]), rawjson.AsMap(theirs[key])
		if own != nil && other != nil {
			paths = missing(paths, at+suffix, own, other)
		}
	}
	if ours["additionalProperties"] != nil && theirs["additionalProperties"] == nil && theirs["x-kubernetes-preserve-unknown-fields"] != true {
		paths = append(paths, at+"[*]")
	}
	if ours["x-kubernetes-preserve-unknown-fields"] == true && theirs["x-kubernetes-preserve-unknown-fields"] != true && theirs["type"] == "object" && theirs["additionalProperties"] == nil {
		paths = append(paths, at)
	}
	return paths
}

// Lacks returns why no object has a field of the path, "" if objects may have one.
func (d *Definition) Lacks(path []string) string {
	at := d.schema
	if len(path) > 0 && slices.Contains([]string{"apiVersion", "kind", "metadata"}, path[0]) {
		return ""
	}
	for i, key := range path {
		below := rawjson.AsMap(rawjson.AsMap(at["properties"])[key])
		if below == nil {
			below = rawjson.AsMap(at["additionalProperties"])
		}
		switch {
		case below != nil:
		case at["x-kubernetes-preserve-unknown-fields"] == true || at["additionalProperties"] == true:
			return ""
		case at["type"] == "array":
			return fmt.Sprintf("%q is a list, which has no fields", strings.Join(path[:i], "."))
		default:
			return fmt.Sprintf("the struct has no field %q", strings.Join(path[:i+1], "."))
		}
		at = below
	}
	return ""
}
