package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

// This file creates random requests: mostly realistic ones about few objects, so that they interact, and some that are invalid in various ways.

// kind is one of the kinds in the requests.
type kind struct {
	name, apiVersion, plural       string
	clusterwide, status, scale, cr bool
	spec                           func(*generator) map[string]any // the fields in addition to metadata
}

func (k *kind) collection(namespace string) string {
	base := "/apis/" + k.apiVersion
	if !strings.Contains(k.apiVersion, "/") {
		base = "/api/" + k.apiVersion
	}
	if !k.clusterwide {
		base += "/namespaces/" + namespace
	}
	return base + "/" + k.plural
}

var kinds = []*kind{
	{name: "ConfigMap", apiVersion: "v1", plural: "configmaps", spec: (*generator).configMap},
	{name: "Widget", apiVersion: "example.com/v1", plural: "widgets", status: true, scale: true, cr: true, spec: (*generator).widget},
	{name: "Gadget", apiVersion: "example.com/v1", plural: "gadgets", cr: true, spec: (*generator).gadget},
	{name: "Planet", apiVersion: "example.com/v1", plural: "planets", clusterwide: true, status: true, cr: true, spec: (*generator).gadget},
}

// definitions are the CRDs of these kinds: with schema and subresources, with neither, cluster-scoped.
var definitions = []string{
	definition("widgets", "Widget", "Namespaced", `"subresources": {"status": {}, "scale": {
			"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
		"additionalPrinterColumns": [
			{"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
			{"name": "Color", "type": "string", "jsonPath": ".spec.color", "description": "the paint"},
			{"name": "Hidden", "type": "string", "jsonPath": ".spec.nested.enabled", "priority": 1},
			{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]`,
		`{"type": "object", "properties": {
			"spec": {"type": "object", "required": ["size"], "properties": {
				"size": {"type": "integer", "minimum": 0, "maximum": 100, "default": 1},
				"color": {"type": "string", "enum": ["red", "green", "blue"]},
				"name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
				"ratio": {"type": "number"},
				"port": {"x-kubernetes-int-or-string": true},
				"tags": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 3, "items": {"type": "string"}},
				"parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {
					"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}}}},
				"list": {"type": "array", "items": {"type": "integer"}},
				"atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
				"free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				"maybe": {"type": "string", "nullable": true},
				"nested": {"type": "object", "properties": {"enabled": {"type": "boolean", "default": true}}}}},
			"status": {"type": "object", "properties": {
				"phase": {"type": "string"}, "replicas": {"type": "integer"}, "selector": {"type": "string"}}}}}`),
	definition("gadgets", "Gadget", "Namespaced", "", `{"type": "object", "x-kubernetes-preserve-unknown-fields": true}`),
	definition("planets", "Planet", "Cluster", `"subresources": {"status": {}}`, `{"type": "object", "x-kubernetes-preserve-unknown-fields": true}`),
}

func definition(plural, kind, scope, extras, schema string) string {
	if extras != "" {
		extras = ", " + extras
	}
	return fmt.Sprintf(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "%s.example.com"},
		"spec": {"group": "example.com", "scope": %q, "names": {"plural": %q, "singular": %q, "kind": %q, "shortNames": [%q], "categories": ["toys"]},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": %s}%s}]}}`,
		plural, scope, plural, strings.ToLower(kind), kind, plural[:2], schema, extras)
}

// generator creates the requests of one sequence.
type generator struct {
	*rand.Rand
	namespace string
	started   bool
	kind      *kind  // of the current request
	name      string // the object of the current request
}

func newGenerator(r *rand.Rand, namespace string) *generator {
	return &generator{Rand: r, namespace: namespace}
}

func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

// sometimes is true in one of n cases.
func (g *generator) sometimes(n int) bool { return g.IntN(n) == 0 }

func (g *generator) next() *request {
	if !g.started {
		g.started = true
		return &request{what: "create Namespace", method: "POST", path: "/api/v1/namespaces", contentType: "application/json",
			body: fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q}}`, g.namespace)}
	}
	g.kind = pick(g, kinds[0], kinds[1], kinds[1], kinds[2], kinds[3])
	g.name = pick(g, "a", "a", "b", "c")
	if g.kind.clusterwide {
		g.name = g.namespace + "-" + g.name
	}
	makers := []struct {
		weight int
		make   func() *request
	}{
		{20, g.create}, {6, g.get}, {8, g.list}, {12, g.replace}, {12, g.mergePatch}, {8, g.jsonPatch}, {3, g.strategicPatch},
		{14, g.apply}, {8, g.status}, {4, g.scale}, {8, g.remove}, {1, g.removeCollection}, {2, g.watch}, {2, g.odd},
	}
	total := 0
	for _, m := range makers {
		total += m.weight
	}
	n := g.IntN(total)
	for _, m := range makers {
		if n -= m.weight; n < 0 {
			r := m.make()
			r.what += " " + g.kind.name
			return r
		}
	}
	panic("unreachable")
}

func (g *generator) collection() string { return g.kind.collection(g.namespace) }
func (g *generator) object() string     { return g.collection() + "/" + g.name }
func (g *generator) ref(what string) string {
	return "{" + what + ":" + g.kind.name + ":" + g.name + "}"
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// query adds parameters to a path, without empty ones.
func query(path string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	text := values.Encode()
	for escaped, plain := range map[string]string{"%7B": "{", "%7D": "}", "%3A": ":"} {
		text = strings.ReplaceAll(text, escaped, plain)
	}
	return path + "?" + text
}

// writing adds parameters that all writes accept.
func (g *generator) writing(path string) string {
	dry, validation := "", ""
	if g.sometimes(12) {
		dry = pick(g, "All", "All", "all")
	}
	if g.sometimes(6) {
		validation = pick(g, "Strict", "Warn", "Ignore", "Wrong")
	}
	manager := ""
	if g.sometimes(4) {
		manager = pick(g, "alice", "bob")
	}
	return query(path, "dryRun", dry, "fieldValidation", validation, "fieldManager", manager)
}

// body returns a whole object.
func (g *generator) body() map[string]any {
	meta := map[string]any{"name": g.name}
	if !g.kind.clusterwide && g.sometimes(3) {
		meta["namespace"] = g.namespace
	}
	if g.sometimes(2) {
		meta["labels"] = map[string]any{"app": pick(g, "x", "y"), "tier": pick(g, "front", "back")}
	}
	if g.sometimes(3) {
		meta["annotations"] = map[string]any{"example.com/note": pick(g, "one", "two", "")}
	}
	if g.sometimes(4) {
		meta["finalizers"] = pick(g, []any{"example.com/a"}, []any{"example.com/a", "example.com/b"}, []any{})
	}
	if g.sometimes(12) {
		meta["ownerReferences"] = []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "11111111-2222-3333-4444-555555555555", "controller": true}}
	}
	body := map[string]any{"apiVersion": g.kind.apiVersion, "kind": g.kind.name, "metadata": meta}
	for k, v := range g.kind.spec(g) {
		body[k] = v
	}
	if g.sometimes(14) {
		g.spoil(body, meta)
	}
	return body
}

// spoil violates a rule of all kinds.
func (g *generator) spoil(body, meta map[string]any) {
	switch g.IntN(18) {
	case 0:
		delete(body, "kind")
	case 1:
		body["kind"] = "Other"
	case 2:
		delete(body, "apiVersion")
	case 3:
		body["apiVersion"] = "other.example.com/v1"
	case 4:
		delete(meta, "name")
	case 5:
		meta["name"] = pick(g, "Upper", "under_score", "-dash", strings.Repeat("long", 70), "a/b", "..")
	case 6:
		meta["namespace"] = "elsewhere"
	case 7:
		meta["labels"] = map[string]any{pick(g, "app", "bad key", "/x", "example.com/"): pick(g, "fine", "not fine", "-x")}
	case 8:
		meta["labels"] = map[string]any{"number": 1}
	case 9:
		meta["finalizers"] = []any{pick(g, "nameless", "bad finalizer", "")}
	case 10:
		meta["resourceVersion"] = pick(g, "1", "abc", g.ref("version"))
	case 11:
		meta["uid"] = "11111111-2222-3333-4444-555555555555"
	case 12:
		meta["unknown"] = "field"
	case 13:
		body["unknown"] = "field"
	case 14:
		meta["annotations"] = map[string]any{"bad key": "x"}
	case 15:
		meta["generation"] = 7
		meta["creationTimestamp"] = "2020-01-02T03:04:05Z"
		meta["deletionTimestamp"] = "2020-01-02T03:04:05Z"
		meta["selfLink"] = "/self"
	case 16:
		meta["generateName"] = "other-"
	case 17:
		meta["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": pick(g, "", "x")}}
	}
}

func (g *generator) configMap() map[string]any {
	out := map[string]any{}
	if !g.sometimes(5) {
		out["data"] = map[string]any{"k": pick(g, "1", "2", "3"), pick(g, "l", "m", "file.txt"): pick(g, "text", "other\ntext")}
	}
	switch g.IntN(20) {
	case 0:
		out["binaryData"] = map[string]any{"b": pick(g, "AAEC", "not base64!")}
	case 1:
		out["data"] = map[string]any{"bad key!": "x"}
	case 2:
		out["data"] = map[string]any{"k": 1}
	case 3:
		out["immutable"] = true
	}
	return out
}

func (g *generator) widget() map[string]any {
	spec := map[string]any{}
	options := map[string][]any{
		"size":   {1, 2, 3, 50, 101, -1, "1", 1.5},
		"color":  {"red", "green", "blue", "pink", nil},
		"name":   {"abc", "abcde", "a", "abcdef", "A12"},
		"ratio":  {0.5, 1, 1.25, "half"},
		"port":   {80, "http", 1.5, true},
		"tags":   {[]any{}, []any{"a"}, []any{"a", "b"}, []any{"a", "a"}, []any{"a", "b", "c", "d"}, "a"},
		"parts":  {[]any{map[string]any{"name": "x"}}, []any{map[string]any{"name": "x", "count": 2}, map[string]any{"name": "y"}}, []any{map[string]any{"name": "x"}, map[string]any{"name": "x"}}, []any{map[string]any{"count": 1}}},
		"list":   {[]any{1, 2, 3}, []any{}, nil, []any{1, "x"}},
		"atomic": {map[string]any{"a": "1"}, map[string]any{"a": "1", "b": "2"}, map[string]any{"a": 1}},
		"free":   {map[string]any{"any": map[string]any{"thing": []any{1, "x", nil}}}, map[string]any{}, "text"},
		"maybe":  {nil, "text"},
		"nested": {map[string]any{}, map[string]any{"enabled": false}, map[string]any{"other": 1}, nil},
		"extra":  {"pruned"},
	}
	for _, key := range []string{"size", "color", "name", "ratio", "port", "tags", "parts", "list", "atomic", "free", "maybe", "nested", "extra"} {
		chance := 3
		if key == "size" {
			chance = 2
		}
		if key == "extra" {
			chance = 10
		}
		if !g.sometimes(chance) {
			continue
		}
		values := options[key]
		good := (len(values) + 1) / 2
		if g.sometimes(10) {
			good = len(values)
		}
		spec[key] = values[g.IntN(good)]
	}
	out := map[string]any{"spec": spec}
	if g.sometimes(4) {
		out["status"] = g.widgetStatus()
	}
	if g.sometimes(20) {
		delete(out, "spec")
	}
	return out
}

func (g *generator) widgetStatus() map[string]any {
	return pick(g, map[string]any{"phase": "Ready"}, map[string]any{"phase": "Broken", "replicas": 2, "selector": "app=x"},
		map[string]any{"replicas": "two"}, map[string]any{"unknown": 1}, map[string]any{})
}

func (g *generator) gadget() map[string]any {
	out := map[string]any{"spec": pick[any](g, map[string]any{"x": 1}, map[string]any{"x": 1.0, "y": "text"}, map[string]any{"list": []any{1, map[string]any{"a": "b"}}},
		map[string]any{"null": nil, "deep": map[string]any{"er": true}}, map[string]any{"big": 9007199254740993}, map[string]any{})}
	if g.sometimes(3) {
		out["status"] = map[string]any{"phase": pick(g, "Ready", "Broken")}
	}
	if g.sometimes(6) {
		out["more"] = pick[any](g, 1, "x", []any{}, nil)
	}
	return out
}

func (g *generator) create() *request {
	body := g.body()
	if g.sometimes(10) {
		meta := body["metadata"].(map[string]any)
		delete(meta, "name")
		meta["generateName"] = "gen-"
	}
	return &request{what: "create", method: "POST", path: g.writing(g.collection()), contentType: "application/json", body: encode(body)}
}

// accept returns an Accept header.
func (g *generator) accept() string {
	switch g.IntN(8) {
	case 0:
		return "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	case 1:
		return "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
	case 2:
		return "*/*"
	}
	return "application/json"
}

func (g *generator) get() *request {
	r := &request{what: "get", method: "GET", path: g.object(), accept: g.accept()}
	if strings.Contains(r.accept, "Table") {
		r.path = query(r.path, "includeObject", pick(g, "", "None", "Metadata", "Object"))
		r.what += " as table"
	}
	if strings.Contains(r.accept, "Partial") {
		r.what += " as metadata"
	}
	return r
}

func (g *generator) selectors() (labels, fields string) {
	if g.sometimes(2) {
		labels = pick(g, "app=x", "app==y", "app!=x", "app in (x,y)", "app notin (x)", "app", "!app", "app=x,tier=front", "tier in (front, back),app",
			"none", "=", "app in x", "app=x y", "bad key=x", ",", "app>1")
	}
	if g.sometimes(5) {
		fields = pick(g, "metadata.name="+g.name, "metadata.name!="+g.name, "metadata.namespace="+g.namespace, "metadata.name="+g.name+",metadata.namespace="+g.namespace,
			"spec.x=1", "metadata.name", "status.phase=Ready")
	}
	return labels, fields
}

func (g *generator) list() *request {
	labels, fields := g.selectors()
	limit, token := "", ""
	if g.sometimes(3) {
		limit = pick(g, "1", "2", "-1", "x")
	}
	if g.sometimes(6) {
		limit, token = "1", pick(g, "{token}", "{token}", "{token}", "nonsense")
		labels, fields = "", ""
	}
	if g.kind.clusterwide { // other sequences have objects there too
		fields, limit, token = "metadata.name="+g.name, "", ""
	}
	version, match := "", ""
	if g.sometimes(8) {
		version, match = pick(g, g.ref("version"), g.ref("version"), "", "abc"), pick(g, "", "NotOlderThan", "Exact", "Wrong")
	}
	r := &request{what: "list", method: "GET", accept: g.accept(), path: query(g.collection(),
		"labelSelector", labels, "fieldSelector", fields, "limit", limit, "continue", token, "resourceVersion", version, "resourceVersionMatch", match)}
	if !g.sometimes(5) {
		r.accept = strings.ReplaceAll(r.accept, "as=PartialObjectMetadata;", "as=PartialObjectMetadataList;")
	}
	if strings.Contains(r.accept, "Table") {
		r.what += " as table"
	}
	if strings.Contains(r.accept, "Partial") {
		r.what += " as metadata"
	}
	return r
}

// current adds the fields that a client sends after it has read the object.
func (g *generator) current(body map[string]any) {
	meta := body["metadata"].(map[string]any)
	switch g.IntN(6) {
	case 0, 1, 2:
		meta["resourceVersion"] = g.ref("version")
	case 3:
		meta["resourceVersion"] = g.ref("first")
	}
	if g.sometimes(5) {
		meta["uid"] = pick(g, g.ref("uid"), g.ref("uid"), "11111111-2222-3333-4444-555555555555")
	}
}

func (g *generator) replace() *request {
	body := g.body()
	g.current(body)
	return &request{what: "replace", method: "PUT", path: g.writing(g.object()), contentType: "application/json", body: encode(body)}
}

func (g *generator) metaPatch() map[string]any {
	return pick(g,
		map[string]any{"labels": map[string]any{"app": pick[any](g, "x", "y", nil)}},
		map[string]any{"annotations": map[string]any{"example.com/note": pick[any](g, "one", "two", nil)}},
		map[string]any{"finalizers": pick[any](g, []any{"example.com/a"}, []any{}, nil, []any{"example.com/b", "example.com/a"})},
		map[string]any{"resourceVersion": pick(g, g.ref("version"), g.ref("first")), "labels": map[string]any{"app": "z"}},
		map[string]any{"uid": pick(g, g.ref("uid"), "11111111-2222-3333-4444-555555555555"), "labels": map[string]any{"app": "z"}},
		map[string]any{"name": "other"},
		map[string]any{"creationTimestamp": nil, "generation": 9},
		map[string]any{"labels": nil, "annotations": nil},
		map[string]any{"managedFields": []any{map[string]any{}}},
	)
}

func (g *generator) mergeBody() map[string]any {
	if g.sometimes(2) {
		return map[string]any{"metadata": g.metaPatch()}
	}
	if g.kind.name == "ConfigMap" {
		return pick(g, map[string]any{"data": map[string]any{"k": pick[any](g, "1", "4", nil)}}, map[string]any{"data": nil}, map[string]any{"data": map[string]any{"k": 1}},
			map[string]any{}, map[string]any{"kind": "Other"}, map[string]any{"unknown": 1})
	}
	return pick(g, map[string]any{"spec": map[string]any{"size": pick[any](g, 1, 2, nil, 1000)}}, map[string]any{"status": map[string]any{"phase": "Ready"}},
		map[string]any{"spec": map[string]any{"nested": nil, "free": map[string]any{"a": map[string]any{"b": nil, "c": 1}}}}, map[string]any{},
		map[string]any{"spec": map[string]any{"unknown": 1}}, map[string]any{"apiVersion": "example.com/v2"}, map[string]any{"spec": map[string]any{"list": []any{3, 2}}})
}

func (g *generator) mergePatch() *request {
	return &request{what: "merge-patch", method: "PATCH", path: g.writing(g.object()), contentType: "application/merge-patch+json", body: encode(g.mergeBody())}
}

func (g *generator) jsonPatch() *request {
	path := pick(g, "/metadata/labels/app", "/metadata/labels", "/metadata/annotations/example.com~1note", "/metadata/finalizers", "/metadata/finalizers/-", "/metadata/finalizers/0",
		"/metadata/finalizers/5", "/data/k", "/spec/size", "/spec/list/0", "/spec/free", "/spec", "/status/phase", "/none/none", "", "spec", "/metadata/uid", "/metadata/resourceVersion")
	value := pick[any](g, "x", 1, nil, []any{"example.com/a"}, map[string]any{"app": "x"}, g.ref("uid"), "example.com/b")
	var ops []any
	for range 1 + g.IntN(2) {
		op := map[string]any{"op": pick(g, "add", "add", "replace", "remove", "test", "copy", "move", "wrong"), "path": path}
		switch op["op"] {
		case "copy", "move":
			op["from"] = pick(g, "/metadata/labels", "/spec", "/metadata/name", "/none")
		case "remove":
		default:
			op["value"] = value
		}
		ops = append(ops, op)
		path = pick(g, "/metadata/labels/app", "/metadata/annotations", path)
	}
	return &request{what: "json-patch", method: "PATCH", path: g.writing(g.object()), contentType: "application/json-patch+json", body: encode(ops)}
}

func (g *generator) strategicPatch() *request {
	body := g.mergeBody()
	if g.sometimes(2) {
		body = map[string]any{"metadata": pick(g,
			map[string]any{"finalizers": []any{"example.com/c"}},
			map[string]any{"$deleteFromPrimitiveList/finalizers": []any{"example.com/a"}},
			map[string]any{"$setElementOrder/finalizers": []any{"example.com/b", "example.com/a"}, "finalizers": []any{"example.com/b"}},
			map[string]any{"labels": map[string]any{"$patch": "replace", "only": "one"}},
			map[string]any{"labels": map[string]any{"$patch": "delete"}},
			map[string]any{"labels": map[string]any{"$retainKeys": []any{"app"}, "app": "x"}},
			map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "two", "uid": "22222222-2222-3333-4444-555555555555"}}},
			map[string]any{"ownerReferences": []any{map[string]any{"$patch": "delete", "uid": "11111111-2222-3333-4444-555555555555"}}},
		)}
	}
	return &request{what: "strategic-patch", method: "PATCH", path: g.writing(g.object()), contentType: "application/strategic-merge-patch+json", body: encode(body)}
}

func (g *generator) apply() *request {
	body := g.body()
	if g.sometimes(2) { // a part of it
		body["metadata"] = map[string]any{"name": g.name}
		if g.sometimes(2) {
			body["metadata"] = map[string]any{"name": g.name, "labels": map[string]any{"app": pick(g, "x", "y")}}
		}
	}
	if g.sometimes(15) {
		body["metadata"].(map[string]any)["managedFields"] = []any{}
	}
	if g.sometimes(15) {
		body["metadata"].(map[string]any)["resourceVersion"] = pick(g, g.ref("version"), g.ref("first"))
	}
	manager, force, dry := pick(g, "alice", "alice", "bob", "carol"), pick(g, "", "true", "true", "false"), ""
	if g.sometimes(20) {
		manager = ""
	}
	if g.sometimes(12) {
		dry = "All"
	}
	path := g.object()
	what := "apply"
	if (g.kind.status || g.kind.clusterwide) && g.sometimes(5) {
		path += "/status"
		what = "apply status"
		body["status"] = g.widgetStatus()
	}
	return &request{what: what, method: "PATCH", path: query(path, "fieldManager", manager, "force", force, "dryRun", dry),
		contentType: "application/apply-patch+yaml", body: encode(body)}
}

func (g *generator) status() *request {
	path := g.object() + "/status"
	switch g.IntN(4) {
	case 0:
		return &request{what: "get status", method: "GET", path: path}
	case 1:
		body := g.body()
		g.current(body)
		body["status"] = g.widgetStatus()
		return &request{what: "replace status", method: "PUT", path: g.writing(path), contentType: "application/json", body: encode(body)}
	case 2:
		return &request{what: "json-patch status", method: "PATCH", path: g.writing(path), contentType: "application/json-patch+json", body: encode([]any{
			map[string]any{"op": "test", "path": "/metadata/uid", "value": pick(g, g.ref("uid"), "11111111-2222-3333-4444-555555555555")},
			map[string]any{"op": "add", "path": "/status", "value": g.widgetStatus()}})}
	}
	body := map[string]any{"status": g.widgetStatus()}
	if g.sometimes(3) {
		body["metadata"] = g.metaPatch()
	}
	if g.sometimes(4) {
		body["spec"] = map[string]any{"size": 77}
	}
	return &request{what: "merge-patch status", method: "PATCH", path: g.writing(path), contentType: "application/merge-patch+json", body: encode(body)}
}

func (g *generator) scale() *request {
	path := g.object() + "/scale"
	switch g.IntN(3) {
	case 0:
		return &request{what: "get scale", method: "GET", path: path}
	case 1:
		return &request{what: "merge-patch scale", method: "PATCH", path: path, contentType: "application/merge-patch+json",
			body: encode(map[string]any{"spec": map[string]any{"replicas": pick[any](g, 3, 0, -1, "x", 200)}})}
	}
	meta := map[string]any{"name": g.name, "namespace": g.namespace}
	if g.sometimes(2) {
		meta["resourceVersion"] = pick(g, g.ref("version"), g.ref("first"))
	}
	return &request{what: "replace scale", method: "PUT", path: path, contentType: "application/json",
		body: encode(map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": map[string]any{"replicas": pick(g, 4, 5)}})}
}

func (g *generator) remove() *request {
	r := &request{what: "delete", method: "DELETE", path: g.object()}
	switch g.IntN(6) {
	case 0:
		r.contentType, r.body = "application/json", encode(map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": pick(g,
			map[string]any{"uid": g.ref("uid")}, map[string]any{"uid": "11111111-2222-3333-4444-555555555555"},
			map[string]any{"resourceVersion": g.ref("version")}, map[string]any{"resourceVersion": g.ref("first")})})
	case 1:
		r.contentType, r.body = "application/json", encode(map[string]any{"propagationPolicy": pick(g, "Background", "Foreground", "Orphan", "Wrong")})
	case 2:
		r.path = query(r.path, "dryRun", "All")
	case 3:
		r.path = query(r.path, "propagationPolicy", pick(g, "Background", "Foreground", "Orphan"), "gracePeriodSeconds", pick(g, "", "0", "30"))
	}
	return r
}

func (g *generator) removeCollection() *request {
	labels, _ := g.selectors()
	if g.kind.clusterwide {
		labels = "of=" + g.namespace // other sequences have objects there too
	}
	return &request{what: "delete collection", method: "DELETE", path: query(g.collection(), "labelSelector", labels)}
}

func (g *generator) watch() *request {
	labels, fields := g.selectors()
	what, version, initial, match := "watch", pick(g, g.ref("first"), g.ref("version")), "", ""
	if g.sometimes(3) {
		what, version, initial, match = "watch-list", "", "true", "NotOlderThan"
	}
	if g.kind.clusterwide {
		fields = "metadata.name=" + g.name
	}
	r := &request{what: what, method: "GET", accept: g.accept(), path: query(g.collection(), "watch", "true", "timeoutSeconds", "1", "allowWatchBookmarks", "true",
		"resourceVersion", version, "labelSelector", labels, "fieldSelector", fields, "sendInitialEvents", initial, "resourceVersionMatch", match)}
	if strings.Contains(r.accept, "Table") {
		r.what += " as table"
	}
	if strings.Contains(r.accept, "Partial") {
		r.what += " as metadata"
	}
	return r
}

// odd returns an unusual or malformed request.
func (g *generator) odd() *request {
	return pick(g,
		&request{what: "odd media type", method: "PATCH", path: g.object(), contentType: "application/json", body: "{}"},
		&request{what: "odd media type", method: "POST", path: g.collection(), contentType: "text/plain", body: "hello"},
		&request{what: "odd accept", method: "GET", path: g.object(), accept: "text/html"},
		&request{what: "odd body", method: "POST", path: g.collection(), contentType: "application/json", body: "{"},
		&request{what: "odd body", method: "POST", path: g.collection(), contentType: "application/json", body: ""},
		&request{what: "odd body", method: "POST", path: g.collection(), contentType: "application/json", body: "[]"},
		&request{what: "odd body", method: "PATCH", path: g.object(), contentType: "application/merge-patch+json", body: "{"},
		&request{what: "odd body", method: "PATCH", path: g.object(), contentType: "application/json-patch+json", body: "{}"},
		&request{what: "odd method", method: "POST", path: g.object(), contentType: "application/json", body: "{}"},
		&request{what: "odd method", method: http.MethodPut, path: g.collection(), contentType: "application/json", body: "{}"},
		&request{what: "odd path", method: "GET", path: "/apis/example.com/v2/widgets"},
		&request{what: "odd path", method: "GET", path: "/apis/example.com/v1/namespaces/" + g.namespace + "/nothings"},
		&request{what: "odd path", method: "GET", path: g.object() + "/nothing"},
		&request{what: "odd path", method: "GET", path: "/nothing"},
		&request{what: "odd namespace", method: "POST", path: strings.ReplaceAll(g.collection(), g.namespace, "no-such-namespace"), contentType: "application/json", body: encode(g.body())},
	)
}
