package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/types"
)

// This file creates random requests about objects of built-in kinds: realistic objects with one change, by the types of their fields, and malformed
// requests.

// builtinSample is an object that a real server accepts.
type builtinSample struct {
	collection string // with the namespace default, if it has one
	object     map[string]any
	typ        *types.Type
	kind       string
	apiVersion string
}

func (s *builtinSample) namespaced() bool { return strings.Contains(s.collection, "/namespaces/") }

// unfit are kinds that the requests exclude: namespaces and CRDs change the served kinds, and webhooks the accepted objects.
var unfit = []string{"namespaces", "customresourcedefinitions", "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "certificatesigningrequests",
	"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}

// builtinSamples returns the objects of the tests of tables and of built-in kinds, if their types are known.
func builtinSamples(kinds map[string]string) ([]*builtinSample, error) {
	data, err := os.ReadFile(cellsFile)
	if err != nil {
		return nil, err
	}
	var all []*builtinSample
	add := func(collection, object string) error {
		plural := collection[strings.LastIndex(collection, "/")+1:]
		group := strings.TrimPrefix(strings.TrimPrefix(strings.Split(collection, "/namespaces")[0], "/apis/"), "/api/")
		group = strings.TrimSuffix(group, "/"+plural)
		kind := kinds[group+"/"+plural]
		s := &builtinSample{collection: collection, kind: kind, apiVersion: group}
		name, version, ok := strings.Cut(group, "/")
		if !ok {
			name, version = "", group
		}
		s.typ = types.OfKind(name, version, kind)
		if kind == "" || s.typ == nil || slices.Contains(unfit, plural) {
			return nil
		}
		all = append(all, s)
		return json.Unmarshal([]byte(object), &s.object)
	}
	for _, block := range strings.Split(string(data), "\n\n") {
		if lines := strings.Split(block, "\n"); strings.HasPrefix(block, "/") {
			if err := add(lines[0], lines[1]); err != nil {
				return nil, err
			}
		}
	}
	for _, k := range builtinObjects {
		if err := add(k.collection, k.object); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// builtinGenerator creates the requests of one sequence, which is about one object.
type builtinGenerator struct {
	*rand.Rand
	sample          *builtinSample
	namespace, name string
	sent            int
}

// place is a struct in an object that can be changed.
type place struct {
	parent map[string]any // contains the value
	typ    *types.Type    // the type of the parent
	path   string
}

// places returns all structs of an object whose types are known.
func places(object map[string]any, typ *types.Type, path string) []place {
	if typ == nil || len(typ.Fields) == 0 {
		return nil
	}
	all := []place{{object, typ, path}}
	for _, f := range typ.Fields {
		if f.Name == "managedFields" || f.Ref == nil {
			continue
		}
		at := path + "." + f.Name
		switch v := object[f.Name].(type) {
		case map[string]any:
			if !f.Map {
				all = append(all, places(v, f.Ref, at)...)
			}
		case []any:
			for _, e := range v {
				if m, ok := e.(map[string]any); ok {
					all = append(all, places(m, f.Ref, at+"[]")...)
				}
			}
		}
	}
	return all
}

func clone(object map[string]any) map[string]any {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	var c map[string]any
	if err := json.Unmarshal(data, &c); err != nil {
		panic(err)
	}
	return c
}

func choose[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// controlled are fields of metadata that other tests cover, and that would make the responses incomparable.
var controlled = []string{"managedFields", "name", "namespace", "generateName", "deletionTimestamp", "creationTimestamp", "uid", "resourceVersion", "ownerReferences", "finalizers", "selfLink"}

// mutate changes one field of an object, and describes the change.
func (g *builtinGenerator) mutate(object map[string]any) string {
	all := slices.DeleteFunc(places(object, g.sample.typ, ""), func(p place) bool { return p.path == ".metadata" && g.IntN(4) > 0 })
	p := choose(g.Rand, all...)
	f := choose(g.Rand, p.typ.Fields...)
	if p.path == "" && (f.Name == "kind" || f.Name == "apiVersion") || p.path == ".metadata" && slices.Contains(controlled, f.Name) {
		f = types.Field{Name: "unknownField", Type: "string"}
	}
	at := p.path + "." + f.Name
	switch g.IntN(12) {
	case 0:
		p.parent["unknownField"] = choose[any](g.Rand, 1, "x", nil, map[string]any{})
		return "unknown field in " + p.path
	case 1, 2:
		delete(p.parent, f.Name)
		return "without " + at
	case 3:
		p.parent[f.Name] = nil
		return "null in " + at
	case 4, 5:
		p.parent[f.Name] = choose[any](g.Rand, "text", -1, 1.5, true, []any{}, map[string]any{}, []any{"a", 1}, map[string]any{"a": 1}, []any{nil}, "", 99999999999)
		return "another type in " + at
	case 6, 7, 8:
		p.parent[f.Name] = g.nonsense(&f)
		return "nonsense in " + at
	default:
		p.parent[f.Name] = g.value(&f, 2)
		return "a value in " + at
	}
}

// value returns a value of the type of a field.
func (g *builtinGenerator) value(f *types.Field, depth int) any {
	one := func() any {
		if f.Ref == nil {
			return g.scalar(f.Type, f.Name)
		}
		if f.Ref.Scalar != "" || len(f.Ref.Fields) == 0 {
			return g.scalar(f.Type, f.Name)
		}
		m := map[string]any{}
		for _, inner := range f.Ref.Fields {
			if inner.Required || depth > 0 && g.IntN(4) == 0 {
				m[inner.Name] = g.value(&inner, depth-1)
			}
		}
		return m
	}
	switch {
	case f.List && f.Map:
		return map[string]any{"a": []any{one()}}
	case f.List:
		return []any{one()}
	case f.Map:
		return map[string]any{"a": one()}
	}
	return one()
}

func (g *builtinGenerator) scalar(word, name string) any {
	switch word {
	case "bool":
		return g.IntN(2) == 0
	case "int", "long", "number":
		return choose[any](g.Rand, 0, 1, 2, 80, 1000)
	case "bytes":
		return "AAEC"
	case "Quantity":
		return choose[any](g.Rand, "1", "100m", "1Gi", 2)
	case "IntOrString":
		return choose[any](g.Rand, 1, "50%", "http")
	case "Time":
		return "2026-01-02T03:04:05Z"
	case "MicroTime":
		return "2026-01-02T03:04:05.000006Z"
	}
	return choose[any](g.Rand, "a", "x", "Always", "Never", "TCP", "Pod", "example.com/a", name)
}

// nonsense returns a value of approximately the right type that is probably invalid.
func (g *builtinGenerator) nonsense(f *types.Field) any {
	var bad any
	switch f.Type {
	case "bool":
		bad = choose[any](g.Rand, "true", 0)
	case "int", "long", "number":
		bad = choose[any](g.Rand, -1, -1000, 70000, 1<<40, "7", 0.5)
	case "Quantity":
		bad = choose[any](g.Rand, "", "x", "-1", "1e99", "1.5Gi", true)
	case "IntOrString":
		bad = choose[any](g.Rand, -1, "", "150%", "Bad Port", 1.5)
	case "Time", "MicroTime":
		bad = choose[any](g.Rand, "", "yesterday", "2026-01-02", 5)
	default:
		bad = choose[any](g.Rand, "", " ", "Upper Case", "under_score", strings.Repeat("long", 70), "a/b/c", "..", "-", "é", "*")
	}
	switch {
	case f.List && g.IntN(3) == 0:
		return []any{bad, bad}
	case f.List:
		return []any{bad}
	case f.Map:
		return map[string]any{choose(g.Rand, "a", "", "Bad Key", "a/b/c"): bad}
	}
	return bad
}

func (g *builtinGenerator) collection() string {
	return strings.Replace(g.sample.collection, "/namespaces/default/", "/namespaces/"+g.namespace+"/", 1)
}

func (g *builtinGenerator) object() map[string]any {
	o := clone(g.sample.object)
	o["apiVersion"], o["kind"] = g.sample.apiVersion, g.sample.kind
	meta, _ := o["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	delete(meta, "ownerReferences")
	meta["name"] = g.name
	for _, key := range []string{"involvedObject", "regarding"} { // an event is in the namespace of its object
		if about, ok := o[key].(map[string]any); ok {
			about["namespace"] = g.namespace
		}
	}
	g.releaseAddresses(o)
	o["metadata"] = meta
	return o
}

// releaseAddresses lets the servers allocate the addresses and ports of services, which must be unique.
func (g *builtinGenerator) releaseAddresses(object map[string]any) {
	spec, _ := object["spec"].(map[string]any)
	if g.sample.kind != "Service" || spec == nil || spec["clusterIP"] == "None" {
		return
	}
	delete(spec, "clusterIP")
	delete(spec, "clusterIPs")
	ports, _ := spec["ports"].([]any)
	for _, port := range ports {
		delete(port.(map[string]any), "nodePort")
	}
}

// options adds random parameters.
func (g *builtinGenerator) options(path string, verb string) string {
	if g.IntN(3) > 0 {
		return path
	}
	var pairs []string
	switch verb {
	case "list":
		pairs = choose(g.Rand, []string{"limit", "1"}, []string{"limit", "-1"}, []string{"limit", "x"}, []string{"continue", "nonsense"}, []string{"resourceVersion", "0"},
			[]string{"resourceVersion", "1", "resourceVersionMatch", "Exact"}, []string{"resourceVersionMatch", "Exact"}, []string{"resourceVersion", "x"},
			[]string{"labelSelector", "a=b"}, []string{"labelSelector", "a in"}, []string{"fieldSelector", "metadata.name=" + g.name}, []string{"fieldSelector", "spec.nothing=1"},
			[]string{"timeoutSeconds", "x"}, []string{"sendInitialEvents", "true"}, []string{"resourceVersion", "0", "resourceVersionMatch", "Wrong"})
	case "get":
		pairs = choose(g.Rand, []string{"resourceVersion", "0"}, []string{"resourceVersion", "x"}, []string{"pretty", "true"})
	case "delete":
		pairs = choose(g.Rand, []string{"propagationPolicy", "Background"}, []string{"propagationPolicy", "Wrong"}, []string{"gracePeriodSeconds", "0"}, []string{"gracePeriodSeconds", "-1"},
			[]string{"orphanDependents", "false"}, []string{"orphanDependents", "false", "propagationPolicy", "Background"}, []string{"dryRun", "All"}, []string{"dryRun", "Wrong"}, []string{"gracePeriodSeconds", "x"})
	default:
		pairs = choose(g.Rand, []string{"dryRun", "All"}, []string{"dryRun", "Wrong"}, []string{"fieldManager", "m"}, []string{"fieldManager", strings.Repeat("m", 200)}, []string{"fieldValidation", "Strict"},
			[]string{"fieldValidation", "Ignore"}, []string{"fieldValidation", "Wrong"}, []string{"force", "true"}, []string{"pretty", "x"})
	}
	return query(path, pairs...)
}

// next returns a request, with a description of its unusual parts.
func (g *builtinGenerator) next() *request {
	g.sent++
	one := g.collection() + "/" + g.name
	if g.sent == 1 || g.IntN(6) == 0 {
		object, what := g.object(), "as it is"
		if g.sent > 1 || g.IntN(2) == 0 {
			what = g.mutate(object)
		}
		return &request{what: "create " + what, method: http.MethodPost, path: g.options(g.collection(), "create"), contentType: asJSON, body: encode(object)}
	}
	switch g.IntN(12) {
	case 0, 1:
		object := g.object()
		return &request{what: "replace " + g.mutate(object), method: http.MethodPut, path: g.options(one, "update"), contentType: asJSON, body: encode(object)}
	case 2, 3:
		object := g.object()
		return &request{what: "merge-patch " + g.mutate(object), method: http.MethodPatch, path: g.options(one, "patch"), contentType: choose(g.Rand, asMerge, asStrategic), body: encode(object)}
	case 4:
		object := g.object()
		return &request{what: "apply " + g.mutate(object), method: http.MethodPatch, path: query(one, "fieldManager", choose(g.Rand, "m", "m", ""), "force", choose(g.Rand, "true", "true", "")), contentType: asApply, body: encode(object)}
	case 5:
		object := g.object()
		what := g.mutate(object)
		if object["status"] == nil {
			object["status"] = map[string]any{}
		}
		return &request{what: "replace status " + what, method: http.MethodPut, path: one + "/status", contentType: asJSON, body: encode(object)}
	case 6:
		return g.jsonPatch(one)
	case 7:
		return &request{what: "get", method: http.MethodGet, path: g.options(one, "get")}
	case 8:
		return &request{what: "list", method: http.MethodGet, path: g.options(g.collection(), "list")}
	case 9:
		return &request{what: "delete", method: http.MethodDelete, path: g.options(one, "delete"), contentType: asJSON, body: choose(g.Rand, "", "", `{}`, `{"kind": "DeleteOptions", "apiVersion": "v1"}`,
			`{"preconditions": {"uid": "x"}}`, `{"preconditions": {"resourceVersion": "1"}}`, `{"propagationPolicy": "Wrong"}`, `{"gracePeriodSeconds": "x"}`, `{"unknown": 1}`, `[]`, `{`)}
	}
	return g.malformed(one)
}

func (g *builtinGenerator) jsonPatch(one string) *request {
	path := choose(g.Rand, "/spec", "/metadata/labels/a", "/data", "/spec/nothing", "/metadata/labels", "/kind", "/metadata/name", "/spec/template/spec/containers/0/image", "/status", "spec", "")
	op := choose(g.Rand, "add", "replace", "remove", "test", "move", "copy", "wrong")
	operation := map[string]any{"op": op, "path": path, "value": choose[any](g.Rand, "x", 1, nil, map[string]any{}, map[string]any{"a": "b"}, []any{}), "from": choose(g.Rand, "/metadata/name", "/nothing", "")}
	return &request{what: fmt.Sprintf("json-patch %s of %s", op, path), method: http.MethodPatch, path: g.options(one, "patch"), contentType: asJSONPatch, body: encode([]any{operation})}
}

// malformed returns a malformed request.
func (g *builtinGenerator) malformed(one string) *request {
	collection, body := g.collection(), encode(g.object())
	post := func(what, contentType, body string) *request {
		return &request{what: "malformed: " + what, method: http.MethodPost, path: collection, contentType: contentType, body: body}
	}
	patch := func(what, contentType, body string) *request {
		return &request{what: "malformed: " + what, method: http.MethodPatch, path: one, contentType: contentType, body: body}
	}
	at := func(method, path string) *request {
		return &request{what: "malformed: " + method + " " + strings.ReplaceAll(strings.ReplaceAll(path, one, "OBJECT"), collection, "COLLECTION"), method: method, path: path, contentType: asJSON, body: body}
	}
	return choose(g.Rand,
		post("cut body", asJSON, body[:len(body)/2]), post("body with more", asJSON, body+"x"), post("two bodies", asJSON, body+body), post("empty body", asJSON, ""),
		post("list", asJSON, "[]"), post("null", asJSON, "null"), post("text", asJSON, `"x"`), post("number", asJSON, "7"), post("empty object", asJSON, "{}"),
		post("as text", "text/plain", body), post("no content type", "", body), post("bad content type", "a/b/c", body), post("as yaml", "application/yaml", body),
		post("bad yaml", "application/yaml", "a: b: c"), post("json as protobuf", "application/vnd.kubernetes.protobuf", body), post("with charset", "application/json; charset=utf-8", body),
		post("invalid UTF-8", asJSON, strings.Replace(body, g.name, "\xff", 1)), post("control character", asJSON, strings.Replace(body, g.name, "a\x01b", 1)),
		post("other kind", asJSON, strings.Replace(body, `"kind":"`+g.sample.kind+`"`, `"kind":"Other"`, 1)),
		post("other version", asJSON, strings.Replace(body, `"apiVersion":"`, `"apiVersion":"other/`, 1)),
		post("no kind", asJSON, strings.Replace(body, `"kind":"`+g.sample.kind+`"`, `"x":1`, 1)),
		post("no name", asJSON, strings.Replace(body, `"name":"`+g.name+`"`, `"x":1`, 1)),
		post("generated name", asJSON, strings.Replace(body, `"name":"`+g.name+`"`, `"generateName":"Bad_"`, 1)),
		post("bad name", asJSON, strings.Replace(body, `"name":"`+g.name+`"`, `"name":"`+choose(g.Rand, "Upper", "a_b", "..", "a/b", "-a", strings.Repeat("n", 260))+`"`, 1)),
		post("other namespace", asJSON, strings.Replace(body, `"name":"`+g.name+`"`, `"name":"n","namespace":"elsewhere"`, 1)),
		post("duplicate keys", asJSON, strings.Replace(body, `"kind":`, `"kind":"x","kind":`, 1)),
		patch("as json", asJSON, "{}"), patch("no content type", "", "{}"), patch("list", asMerge, "[]"), patch("empty", asMerge, ""), patch("object", asJSONPatch, "{}"), patch("text", asStrategic, `"x"`),
		patch("bad directive", asStrategic, `{"metadata":{"$patch":"wrong"}}`), patch("bad yaml", asApply, "a: b: c"), patch("no kind", asApply, "{}"), patch("other name", asMerge, `{"metadata":{"name":"other"}}`),
		patch("old version", asMerge, `{"metadata":{"resourceVersion":"1"}}`), patch("wrong uid", asMerge, `{"metadata":{"uid":"x"}}`), patch("labels", asMerge, `{"metadata":{"labels":{"a":1}}}`),
		at(http.MethodPost, one), at(http.MethodPut, collection), at(http.MethodPatch, collection), at(http.MethodGet, one+"/nothing"), at(http.MethodPost, one+"/status"), at(http.MethodDelete, one+"/status"),
		at(http.MethodGet, strings.Replace(one, "/namespaces/"+g.namespace, "", 1)), at(http.MethodGet, strings.Replace(collection, "/v1/", "/v9/", 1)), at(http.MethodGet, collection+"s"),
		at(http.MethodOptions, one), at("NONSENSE", one), at(http.MethodGet, one+"/"), at(http.MethodGet, "/"+collection), at(http.MethodGet, collection+"/UPPER_case"), at(http.MethodPut, collection+"/other"),
		at(http.MethodPost, strings.Replace(collection, g.namespace, "no-such-namespace", 1)), at(http.MethodGet, strings.Replace(collection, g.namespace, "no-such-namespace", 1)),
		&request{what: "malformed: accept", method: http.MethodGet, path: one, accept: choose(g.Rand, "text/html", "a", "application/json;q=x", "*/*", "application/json;as=Nothing;v=v1;g=meta.k8s.io")},
	)
}
