package kopf

import (
	"maps"
	"slices"
	"strings"
)

// This file describes the kinds of the in-memory API server in OpenAPI, for clients that look before they
// send, and for kubectl explain. Resource definitions bring their schemas; of built-in kinds, only the outlines are told.

// groupVersionPath is how a version of a group is addressed below /openapi/v3.
func groupVersionPath(r Resource) string {
	if r.Group == "" {
		return "api/" + r.Version
	}
	return "apis/" + r.Group + "/" + r.Version
}

// openAPIV3Index tells which documents there are.
func openAPIV3Index(kinds []*kindInfo) map[string]any {
	paths := make(map[string]any)
	for _, k := range kinds {
		at := groupVersionPath(k.resource)
		paths[at] = map[string]any{"serverRelativeURL": "/openapi/v3/" + at}
	}
	return map[string]any{"paths": paths}
}

// openAPIV3 describes one version of a group, nil if there is none.
func openAPIV3(kinds []*kindInfo, path string) map[string]any {
	paths, schemas := make(map[string]any), make(map[string]any)
	for _, k := range kinds {
		if groupVersionPath(k.resource) == path {
			maps.Copy(paths, k.openAPIPaths())
			schemas[k.schemaName()] = k.openAPISchema()
			schemas[k.schemaName()+"List"] = k.openAPIList()
		}
	}
	if len(paths) == 0 {
		return nil
	}
	for name, s := range metaSchemas() {
		schemas[name] = s
	}
	return map[string]any{
		"openapi": "3.0.0", "info": map[string]any{"title": "Kubernetes", "version": "unversioned"},
		"paths": paths, "components": map[string]any{"schemas": schemas},
	}
}

// emptyOpenAPI is the older form in protocol buffers, with no kinds at all: swagger "2.0", a title and a version. Clients
// ask for it only if they miss something in the newer form, as kubectl does with lists, and then leave the checking to the server.
var emptyOpenAPI = []byte("\x0a\x032.0\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned\x42\x00")

// openAPIV2 describes all kinds in the older form.
func openAPIV2(kinds []*kindInfo) map[string]any {
	paths, definitions := make(map[string]any), make(map[string]any)
	for _, k := range kinds {
		maps.Copy(paths, k.openAPIPaths())
		definitions[k.schemaName()] = k.openAPISchema()
	}
	for name, s := range metaSchemas() {
		definitions[name] = s
	}
	return map[string]any{"swagger": "2.0", "info": map[string]any{"title": "Kubernetes", "version": "unversioned"}, "paths": paths, "definitions": definitions}
}

// schemaName is the name of the kind's schema: the group in reverse, the version, and the kind.
func (k *kindInfo) schemaName() string {
	if k.crd == nil {
		group, _, _ := strings.Cut(k.resource.Group, ".")
		if group == "" {
			group = "core"
		}
		return "io.k8s.api." + group + "." + k.resource.Version + "." + k.resource.Kind
	}
	parts := strings.Split(k.resource.Group, ".")
	slices.Reverse(parts)
	return strings.Join(append(parts, k.resource.Version, k.resource.Kind), ".")
}

func (k *kindInfo) gvk(kind string) map[string]any {
	return map[string]any{"group": k.resource.Group, "version": k.resource.Version, "kind": kind}
}

const (
	objectMetaName = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	listMetaName   = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
	ownerName      = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference"
)

func schemaRef(name, description string) map[string]any {
	return map[string]any{
		"allOf": []any{map[string]any{"$ref": "#/components/schemas/" + name}}, "default": map[string]any{}, "description": description,
	}
}

func textSchema(description string) map[string]any {
	return map[string]any{"type": "string", "description": description}
}

// openAPISchema returns the schema of the kind's objects.
func (k *kindInfo) openAPISchema() map[string]any {
	s := map[string]any{"type": "object"}
	properties := make(map[string]any)
	if k.schema != nil {
		s = maps.Clone(k.schema.source)
		maps.Copy(properties, asMap(s["properties"]))
	} else {
		for _, field := range builtinFields(k) {
			properties[field] = map[string]any{"type": "object", "description": "The " + field + " of the object.", "x-kubernetes-preserve-unknown-fields": true}
		}
	}
	properties["apiVersion"] = textSchema("The group and version that the object is written in.")
	properties["kind"] = textSchema("The kind of the object.")
	properties["metadata"] = schemaRef(objectMetaName, "What all objects have in common.")
	s["properties"] = properties
	s["x-kubernetes-group-version-kind"] = []any{k.gvk(k.resource.Kind)}
	if s["description"] == nil && k.crd == nil {
		s["description"] = k.resource.Kind + " is a kind of objects in " + k.resource.APIVersion() + "."
	}
	return s
}

// builtinFields are the fields of a built-in kind besides the metadata.
func builtinFields(k *kindInfo) []string {
	switch k.resource.Kind {
	case "ConfigMap":
		return []string{"data", "binaryData"}
	case "Secret":
		return []string{"data", "stringData"}
	case "Event":
		return []string{"involvedObject", "source"}
	}
	if k.hasStatus {
		return []string{"spec", "status"}
	}
	return []string{"spec"}
}

func (k *kindInfo) openAPIList() map[string]any {
	return map[string]any{
		"type": "object", "description": "A list of objects.", "required": []any{"items"},
		"properties": map[string]any{
			"apiVersion": textSchema("The group and version that the list is written in."),
			"kind":       textSchema("The kind of the list."),
			"metadata":   schemaRef(listMetaName, "What all lists have in common."),
			"items":      map[string]any{"type": "array", "items": schemaRef(k.schemaName(), "An object."), "description": "The objects."},
		},
		"x-kubernetes-group-version-kind": []any{k.gvk(k.listKind)},
	}
}

// openAPIPaths returns the requests that the kind takes.
func (k *kindInfo) openAPIPaths() map[string]any {
	collection := "/" + groupVersionPath(k.resource)
	if k.resource.Namespaced {
		collection += "/namespaces/{namespace}"
	}
	collection += "/" + k.resource.Plural
	act := func(action string, parameters ...string) map[string]any {
		list := []any{}
		for _, p := range parameters {
			list = append(list, map[string]any{"name": p, "in": "query", "schema": map[string]any{"type": "string", "uniqueItems": true}})
		}
		return map[string]any{
			"parameters": list, "responses": map[string]any{"200": map[string]any{"description": "OK"}},
			"x-kubernetes-action": action, "x-kubernetes-group-version-kind": k.gvk(k.resource.Kind),
		}
	}
	if k.postedOnly {
		return map[string]any{collection: map[string]any{"post": act("post", "dryRun", "fieldManager", "fieldValidation")}}
	}
	paths := map[string]any{
		collection: map[string]any{
			"get":    act("list", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "timeoutSeconds", "watch"),
			"post":   act("post", "dryRun", "fieldManager", "fieldValidation"),
			"delete": act("deletecollection", "dryRun", "fieldSelector", "labelSelector"),
		},
		collection + "/{name}": map[string]any{
			"get":    act("get"),
			"put":    act("put", "dryRun", "fieldManager", "fieldValidation"),
			"patch":  act("patch", "dryRun", "fieldManager", "fieldValidation", "force"),
			"delete": act("delete", "dryRun", "gracePeriodSeconds", "propagationPolicy"),
		},
	}
	for _, sub := range k.resource.Subresources {
		if sub == "status" || sub == "scale" {
			paths[collection+"/{name}/"+sub] = map[string]any{
				"get":   act("get"),
				"put":   act("put", "dryRun", "fieldManager", "fieldValidation"),
				"patch": act("patch", "dryRun", "fieldManager", "fieldValidation", "force"),
			}
		}
	}
	return paths
}

// metaSchemas are the schemas that all documents share.
func metaSchemas() map[string]any {
	texts := func(description string) map[string]any {
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}, "description": description}
	}
	moment := func(description string) map[string]any {
		return map[string]any{"type": "string", "format": "date-time", "description": description}
	}
	return map[string]any{
		objectMetaName: map[string]any{
			"type": "object", "description": "ObjectMeta is what all objects have in common.",
			"properties": map[string]any{
				"name":                       textSchema("The name of the object, unique among those of its kind in its namespace."),
				"generateName":               textSchema("What the name begins with, if the server is to choose one."),
				"namespace":                  textSchema("The namespace of the object."),
				"uid":                        textSchema("The unique id of the object, set by the server."),
				"resourceVersion":            textSchema("The version of the object, set by the server."),
				"generation":                 map[string]any{"type": "integer", "format": "int64", "description": "The number of the wanted state, set by the server."},
				"creationTimestamp":          moment("When the object was created, set by the server."),
				"deletionTimestamp":          moment("When the object was marked for deletion, set by the server."),
				"deletionGracePeriodSeconds": map[string]any{"type": "integer", "format": "int64", "description": "The time for an orderly end, set by the server."},
				"labels":                     texts("The labels, by which objects are selected."),
				"annotations":                texts("The annotations, for what programs want to remember of the object."),
				"finalizers": map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "x-kubernetes-list-type": "set",
					"x-kubernetes-patch-strategy": "merge", "description": "Who has something to do before the object goes."},
				"ownerReferences": map[string]any{"type": "array", "items": schemaRef(ownerName, "An owner."), "x-kubernetes-list-type": "map",
					"x-kubernetes-list-map-keys": []any{"uid"}, "x-kubernetes-patch-merge-key": "uid", "x-kubernetes-patch-strategy": "merge",
					"description": "The objects with whose end this one ends."},
				"managedFields": map[string]any{"type": "array", "items": map[string]any{"type": "object"}, "description": "Who has set which fields, set by the server."},
			},
		},
		ownerName: map[string]any{
			"type": "object", "description": "OwnerReference names an object that owns this one.", "required": []any{"apiVersion", "kind", "name", "uid"},
			"properties": map[string]any{
				"apiVersion": textSchema("The group and version of the owner."), "kind": textSchema("The kind of the owner."),
				"name": textSchema("The name of the owner."), "uid": textSchema("The unique id of the owner."),
				"controller":         map[string]any{"type": "boolean", "description": "Whether the owner manages this object."},
				"blockOwnerDeletion": map[string]any{"type": "boolean", "description": "Whether the owner waits for the end of this object."},
			},
		},
		listMetaName: map[string]any{
			"type": "object", "description": "ListMeta is what all lists have in common.",
			"properties": map[string]any{
				"resourceVersion": textSchema("The version of the list, to watch from."), "continue": textSchema("Where the next page begins."),
				"remainingItemCount": map[string]any{"type": "integer", "format": "int64", "description": "How many objects the next pages have."},
			},
		},
	}
}
