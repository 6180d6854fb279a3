// Package openapi makes OpenAPI documents of kinds, in the form of those of kube-apiserver. Clients
// such as kubectl use them to validate, to explain, and to apply.
//
// See https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-interface-definition
package openapi

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

const (
	metaPackage = "io.k8s.apimachinery.pkg.apis.meta.v1."
	refPrefixV3 = "#/components/schemas/"
	refPrefixV2 = "#/definitions/"
)

// Kind describes a kind in one version for the documents.
type Kind struct {
	Group, Version, Kind, Plural string
	ListKind                     string
	Namespaced                   bool
	Subresources, Verbs          []string
	Custom                       bool           // whether a CRD defines it
	Schema                       map[string]any // of a custom kind, from its CRD; nil if there is none
	PostedOnly                   bool           // whether objects are returned and never stored
	ReturnsObject                bool           // whether the response to a deletion is the object, and not a status
}

// groupVersionPath returns the path of a version of a group below /openapi/v3.
func groupVersionPath(k *Kind) string {
	if k.Group == "" {
		return "api/" + k.Version
	}
	return "apis/" + k.Group + "/" + k.Version
}

// V3Index returns the list of all documents of [V3].
func V3Index(kinds []*Kind) map[string]any {
	byPath := make(map[string][]*Kind)
	for _, k := range kinds {
		path := groupVersionPath(k)
		byPath[path] = append(byPath[path], k)
	}
	paths := make(map[string]any, len(byPath))
	for path, served := range byPath {
		paths[path] = map[string]any{"serverRelativeURL": "/openapi/v3/" + path + "?hash=" + hashOf(served, path)} // clients cache a document as long as the hash is the same
	}
	return map[string]any{"paths": paths}
}

// hashOf returns the hash of a document. The hash of documents with built-in kinds only is cached.
func hashOf(served []*Kind, path string) string {
	key := fmt.Sprint(path, len(served))
	custom := slices.ContainsFunc(served, func(k *Kind) bool { return k.Custom })
	if hash, ok := builtinHashes.Load(key); ok && !custom {
		return hash.(string)
	}
	data, err := rawjson.Encode(V3(served, path))
	if err != nil {
		panic(err) // it was JSON
	}
	hash := fmt.Sprintf("%X", sha256.Sum256(data))
	if !custom {
		builtinHashes.Store(key, hash)
	}
	return hash
}

// builtinHashes are the hashes of the documents with built-in kinds only, by their paths and their number of kinds.
var builtinHashes sync.Map

// V3 returns the document at a path such as "apis/apps/v1" or "api/v1", nil if there is none.
func V3(kinds []*Kind, path string) map[string]any {
	d := &document{paths: map[string]any{}, schemas: map[string]any{}, prefix: refPrefixV3}
	title, version := "Kubernetes", "1.36"
	for _, k := range kinds {
		if groupVersionPath(k) != path {
			continue
		}
		if k.Custom {
			title, version = "Kubernetes CRD Swagger", "v0.1.0"
		}
		d.addKind(k)
	}
	if len(d.paths) == 0 {
		return nil
	}
	return map[string]any{
		"openapi": "3.0.0", "info": map[string]any{"title": title, "version": version}, "paths": d.paths, "components": map[string]any{"schemas": d.schemas},
	}
}

// EmptyV2 is a document of version 2 in Protocol Buffers, without kinds: swagger "2.0", a title and a version. Clients request it only if a kind is
// missing in version 3, as kubectl does for lists. They then leave the validation to the server.
var EmptyV2 = []byte("\x0a\x032.0\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned\x42\x00")

// V2 returns the document of all kinds, with their definitions and without their paths. It is for clients that do not support version 3.
func V2(kinds []*Kind) map[string]any {
	d := &document{paths: map[string]any{}, schemas: map[string]any{}, prefix: refPrefixV2}
	for _, k := range kinds {
		d.addSchemas(k)
	}
	for _, s := range d.schemas {
		flattenRefs(s)
	}
	return map[string]any{"swagger": "2.0", "info": map[string]any{"title": "Kubernetes", "version": "v1.36.3"}, "paths": d.paths, "definitions": d.schemas}
}

// flattenRefs replaces references in an allOf, the form of version 3 for references with descriptions, by the form of version 2.
func flattenRefs(v any) {
	switch v := v.(type) {
	case map[string]any:
		if all, ok := v["allOf"].([]any); ok && len(all) == 1 {
			if ref, ok := rawjson.AsMap(all[0])["$ref"]; ok {
				delete(v, "allOf")
				v["$ref"] = ref
			}
		}
		for _, e := range v {
			flattenRefs(e)
		}
	case []any:
		for _, e := range v {
			flattenRefs(e)
		}
	}
}

// document is a document under construction.
type document struct {
	paths   map[string]any
	schemas map[string]any
	prefix  string // of references to schemas
}

func (d *document) ref(name string) map[string]any {
	return map[string]any{"$ref": d.prefix + name}
}

// schemaName returns the name of a kind's schema: dev.kopf.v1.KopfExample, or
// io.k8s.api.apps.v1.Deployment.
func (k *Kind) schemaName() string { return packageOf(k) + "." + k.Kind }

func packageOf(k *Kind) string {
	group := k.Group
	switch {
	case k.Custom:
		parts := strings.Split(group, ".")
		slices.Reverse(parts)
		return strings.Join(parts, ".") + "." + k.Version
	case group == "":
		group = "core"
	case group == "apiextensions.k8s.io":
		return "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions." + k.Version
	case group == "apiregistration.k8s.io":
		return "io.k8s.kube-aggregator.pkg.apis.apiregistration." + k.Version
	}
	group, _, _ = strings.Cut(group, ".")
	return "io.k8s.api." + group + "." + k.Version
}

// identifier returns a group and a version as a tag (kopfDev_v1), and as a part of the names of
// operations (KopfDevV1).
func (k *Kind) identifier() (tag, name string) {
	group := strings.TrimSuffix(k.Group, ".k8s.io")
	if group == "" {
		group = "core"
	}
	parts := strings.FieldsFunc(group, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, p := range parts {
		name += upperFirst(p)
		if i > 0 {
			p = upperFirst(p)
		}
		tag += p
	}
	return tag + "_" + k.Version, name + upperFirst(k.Version)
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// addKind adds the paths and the schemas of a kind.
func (d *document) addKind(k *Kind) {
	d.addSchemas(k)
	p := operations{document: d, kind: k}
	p.tag, p.name = k.identifier()
	prefix := "/" + groupVersionPath(k)
	collection := prefix + "/" + k.Plural
	shared := parameters("pretty")
	if k.Namespaced {
		p.scope = "Namespaced"
		if !k.PostedOnly {
			d.paths[collection] = map[string]any{"get": p.list("ForAllNamespaces", ""), "parameters": slices.Insert(parameters(listParameters), 5, shared...)}
		}
		collection = prefix + "/namespaces/{namespace}/" + k.Plural
		shared = parameters("namespace pretty")
	}
	if k.PostedOnly {
		d.paths[collection] = map[string]any{"post": p.create(), "parameters": shared}
		return
	}
	d.paths[collection] = p.collection(shared)
	named := append(parameters("name"), shared...)
	item := p.item("", named)
	item["delete"] = p.remove()
	d.paths[collection+"/{name}"] = item
	for _, sub := range []string{"scale", "status"} {
		if slices.Contains(k.Subresources, sub) {
			d.paths[collection+"/{name}/"+sub] = p.item(sub, named)
		}
	}
}

// operations makes the operations of one kind.
type operations struct {
	document         *document
	kind             *Kind
	tag, name, scope string
}

// operation is one operation. Its name consists of the verb, the group and the version, between, the scope, the kind, and after.
type operation struct {
	action, description  string
	verb, between, after string
	parameters           string
	body                 string // the schema of the request
	bodyTypes            string // the media types of the body, "" for the usual ones
	optional             bool   // whether the body is optional
	answer               string // the schema of the response
	codes                string
	subresource          string
}

func (p *operations) describe(op *operation) map[string]any {
	k := p.kind
	scope, group, version, kind := p.scope, k.Group, k.Version, k.Kind
	if op.after == "ForAllNamespaces" {
		scope = ""
	}
	m := map[string]any{
		"tags": []any{p.tag}, "description": op.description, "operationId": op.verb + p.name + op.between + scope + kind + op.after,
		"x-kubernetes-action": op.action,
	}
	if op.subresource == "scale" {
		group, version, kind = "autoscaling", "v1", "Scale"
	}
	m["x-kubernetes-group-version-kind"] = unstructured.GroupVersionKind(group, version, kind)
	if op.parameters != "" {
		m["parameters"] = parameters(op.parameters)
	}
	media := op.bodyTypes
	if media == "" && !k.Custom {
		media = "*/*"
	} else if media == "" {
		media = answerTypes
	}
	if op.body != "" {
		body := map[string]any{"content": p.content(media, op.body)}
		if !op.optional {
			body["required"] = true
		}
		m["requestBody"] = body
	}
	responses := map[string]any{"401": map[string]any{"description": "Unauthorized"}}
	for _, code := range strings.Fields(op.codes) {
		status, _ := strconv.Atoi(code) // it is a constant
		responses[code] = map[string]any{"description": http.StatusText(status), "content": p.content(answerTypes, op.answer)}
	}
	m["responses"] = responses
	return m
}

const answerTypes = "application/json application/yaml"

// content returns a schema in several media types.
func (p *operations) content(types, name string) map[string]any {
	content := map[string]any{}
	for _, t := range strings.Fields(types) {
		content[t] = map[string]any{"schema": p.document.ref(name)}
	}
	return content
}

// collection makes the operations on all objects.
func (p *operations) collection(shared []any) map[string]any {
	m := map[string]any{"get": p.list("", listParameters), "post": p.create(), "parameters": shared}
	if slices.Contains(p.kind.Verbs, "deletecollection") {
		op := operation{action: "deletecollection", description: "delete collection of " + p.kind.Kind, verb: "delete", between: "Collection",
			parameters: listParameters, answer: metaPackage + "Status", codes: "200"}
		if !p.kind.Custom {
			op.parameters, op.body, op.optional = purgeParameters, metaPackage+"DeleteOptions", true
		}
		m["delete"] = p.describe(&op)
	}
	return m
}

func (p *operations) list(after, parameters string) map[string]any {
	what := "list or watch objects of kind "
	if p.kind.Custom {
		what = "list objects of kind "
	}
	return p.describe(&operation{action: "list", description: what + p.kind.Kind, verb: "list", after: after, parameters: parameters,
		answer: packageOf(p.kind) + "." + p.kind.ListKind, codes: "200"})
}

func (p *operations) create() map[string]any {
	name := p.kind.schemaName()
	return p.describe(&operation{action: "post", description: "create a" + article(p.kind.Kind), verb: "create",
		parameters: writeParameters, body: name, answer: name, codes: "200 201 202"})
}

// article returns the end of the indefinite article and the kind: "n Ingress", or " Pod".
func article(kind string) string {
	if strings.ContainsAny(kind[:min(1, len(kind))], "AEIOU") {
		return "n " + kind
	}
	return " " + kind
}

// item makes the operations on one object, or on a subresource of it.
func (p *operations) item(subresource string, named []any) map[string]any {
	about, schema := "the specified "+p.kind.Kind, p.kind.schemaName()
	if subresource != "" {
		about = subresource + " of " + about
	}
	if subresource == "scale" {
		schema = "io.k8s.api.autoscaling.v1.Scale"
	}
	read := operation{action: "get", description: "read " + about, verb: "read", after: upperFirst(subresource), answer: schema, codes: "200",
		subresource: subresource}
	replace := read
	replace.action, replace.verb, replace.description = "put", "replace", "replace "+about
	replace.parameters, replace.body, replace.codes = writeParameters, schema, "200 201"
	patch := replace
	patch.action, patch.verb, patch.description = "patch", "patch", "partially update "+about
	patch.parameters, patch.body = writeParameters+" force", metaPackage+"Patch"
	patch.bodyTypes = "application/apply-patch+yaml application/json-patch+json application/merge-patch+json"
	if p.kind.Custom {
		read.parameters, patch.codes = "resourceVersion", "200"
	} else {
		patch.bodyTypes += " application/strategic-merge-patch+json"
	}
	return map[string]any{"get": p.describe(&read), "put": p.describe(&replace), "patch": p.describe(&patch), "parameters": named}
}

func (p *operations) remove() map[string]any {
	op := operation{action: "delete", description: "delete a" + article(p.kind.Kind), verb: "delete",
		parameters: deletionParameters, body: metaPackage + "DeleteOptions", optional: true, answer: metaPackage + "Status", codes: "200 202"}
	if p.kind.ReturnsObject && !p.kind.Custom {
		op.answer = p.kind.schemaName()
	}
	return p.describe(&op)
}

// parameterTexts are the names, types and descriptions of all parameters.
var parameterTexts = [...]struct{ name, typ, text string }{
	{"pretty", "string", "Whether the answer is to be indented."},
	{"namespace", "string", "The namespace of the object."},
	{"name", "string", "The name of the object."},
	{"dryRun", "string", `With "All", everything is checked and nothing is stored.`},
	{"fieldManager", "string", "The name under which the written fields are accounted for."},
	{"fieldValidation", "string", "What to do about unknown fields: Ignore, Warn, or Strict."},
	{"force", "boolean", "Whether applied fields are taken away from their managers."},
	{"allowWatchBookmarks", "boolean", "Whether the watch may tell of the version it has come to."},
	{"continue", "string", "Where the previous page has ended."},
	{"fieldSelector", "string", "Which fields the objects must have."},
	{"labelSelector", "string", "Which labels the objects must have."},
	{"limit", "integer", "How many objects a page has at most."},
	{"resourceVersion", "string", "The version to read, or to watch from."},
	{"resourceVersionMatch", "string", "How the version is meant: Exact, or NotOlderThan."},
	{"sendInitialEvents", "boolean", "Whether the watch begins with the objects that are there."},
	{"shardSelector", "string", "Which share of the objects is wanted."},
	{"timeoutSeconds", "integer", "After how many seconds the watch ends."},
	{"watch", "boolean", "Whether changes are wanted instead of a list."},
	{"gracePeriodSeconds", "integer", "How many seconds the object has got to end."},
	{"ignoreStoreReadErrorWithClusterBreakingPotential", "boolean", "Whether objects that cannot be read are deleted nevertheless."},
	{"orphanDependents", "boolean", "Whether dependents outlive the object. Use propagationPolicy instead."},
	{"propagationPolicy", "string", "What becomes of dependents: Foreground, Background, or Orphan."},
}

const (
	writeParameters    = "dryRun fieldManager fieldValidation"
	listParameters     = "allowWatchBookmarks continue fieldSelector labelSelector limit resourceVersion resourceVersionMatch sendInitialEvents shardSelector timeoutSeconds watch"
	deletionParameters = "dryRun gracePeriodSeconds ignoreStoreReadErrorWithClusterBreakingPotential orphanDependents propagationPolicy"
	// purgeParameters are the parameters of deletecollection.
	purgeParameters = "continue dryRun fieldSelector gracePeriodSeconds ignoreStoreReadErrorWithClusterBreakingPotential labelSelector limit orphanDependents " +
		"propagationPolicy resourceVersion resourceVersionMatch sendInitialEvents shardSelector timeoutSeconds"
)

// parameters returns the parameters with the given names, which are separated by spaces.
func parameters(names string) []any {
	var all []any
	for _, name := range strings.Fields(names) {
		for _, known := range parameterTexts {
			if known.name != name {
				continue
			}
			p := map[string]any{"name": name, "in": "query", "description": known.text, "schema": map[string]any{"type": known.typ, "uniqueItems": true}}
			if name == "name" || name == "namespace" {
				p["in"], p["required"] = "path", true
			}
			all = append(all, p)
		}
	}
	return all
}

// addSchemas adds the schemas of a kind, of its list, and of all types that they reference.
func (d *document) addSchemas(k *Kind) {
	var object map[string]any
	switch {
	case k.Custom && k.Schema != nil:
		object, _ = rawjson.Clone(k.Schema).(map[string]any)
		d.addMeta(object)
	case k.Custom:
		object = map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		d.addMeta(object)
	default:
		object = d.builtinSchema(k)
	}
	object["x-kubernetes-group-version-kind"] = []any{unstructured.GroupVersionKind(k.Group, k.Version, k.Kind)}
	d.schemas[k.schemaName()] = object
	if !k.PostedOnly {
		list := map[string]any{
			"description": k.ListKind + " is a list of " + k.Kind, "type": "object", "required": []any{"items"},
			"properties":                      map[string]any{"items": map[string]any{"type": "array", "items": d.ref(k.schemaName()), "description": "The objects."}},
			"x-kubernetes-group-version-kind": []any{unstructured.GroupVersionKind(k.Group, k.Version, k.ListKind)},
		}
		d.addTypes(list)
		properties := rawjson.AsMap(list["properties"])
		properties["metadata"] = d.described(metaPackage+"ListMeta", "What is said of the list.")
		if !k.Custom {
			items := rawjson.AsMap(properties["items"])
			items["items"] = itemSchema(rawjson.AsMap(items["items"]))
			rawjson.AsMap(properties["metadata"])["default"] = map[string]any{}
		}
		d.schemas[packageOf(k)+"."+k.ListKind] = list
	}
	if slices.Contains(k.Subresources, "scale") {
		d.require("io.k8s.api.autoscaling.v1.Scale")
	}
	for _, name := range []string{"ObjectMeta", "ListMeta", "Patch", "DeleteOptions", "Status"} {
		d.require(metaPackage + name)
	}
}

// described returns a reference to a schema, with a description of its own.
func (d *document) described(name, description string) map[string]any {
	return map[string]any{"description": description, "allOf": []any{d.ref(name)}}
}

// addTypes adds the properties apiVersion and kind.
func (d *document) addTypes(object map[string]any) {
	properties := rawjson.AsMap(object["properties"])
	properties["apiVersion"] = map[string]any{"type": "string", "description": "The group and the version that the object is written in."}
	properties["kind"] = map[string]any{"type": "string", "description": "The kind of the object."}
}

// addMeta adds the properties that every object has.
func (d *document) addMeta(object map[string]any) {
	if rawjson.AsMap(object["properties"]) == nil {
		object["properties"] = map[string]any{}
	}
	d.addTypes(object)
	rawjson.AsMap(object["properties"])["metadata"] = d.described(metaPackage+"ObjectMeta", metadataText)
}

// metadataText describes the metadata of objects.
const metadataText = "What all objects have: a name, labels, owners, and the like."
