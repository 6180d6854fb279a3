package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// The kinds of the children in TestOwnership: built-in ones, and custom resources with random schemas.

// childKind creates configurations of one kind.
type childKind struct {
	apiVersion, kind, plural string
	builtin                  bool
	scalable                 bool
	status                   bool           // whether it has the subresource
	schema                   map[string]any // of custom resources
	make                     func(r *rand.Rand, name string) map[string]any
}

// path returns the path of an object in a namespace.
func (k *childKind) path(namespace, name string) string {
	root := "/apis/"
	if !strings.Contains(k.apiVersion, "/") {
		root = "/api/"
	}
	return root + k.apiVersion + "/namespaces/" + namespace + "/" + k.plural + "/" + name
}

// object returns an object of the kind.
func (k *childKind) object(name string, rest map[string]any) map[string]any {
	object := map[string]any{"apiVersion": k.apiVersion, "kind": k.kind, "metadata": map[string]any{"name": name}}
	maps.Copy(object, rest)
	return object
}

// builtinChildren have values that are hard to compare: quantities, defaults, many kinds of lists, and fields with different names in requests and
// responses.
func builtinChildren() []*childKind {
	kinds := []*childKind{
		{apiVersion: "v1", kind: "ConfigMap", plural: "configmaps"},
		{apiVersion: "v1", kind: "Secret", plural: "secrets"},
		{apiVersion: "v1", kind: "Service", plural: "services", status: true},
		{apiVersion: "apps/v1", kind: "Deployment", plural: "deployments", status: true, scalable: true},
		{apiVersion: "apps/v1", kind: "StatefulSet", plural: "statefulsets", status: true, scalable: true},
		{apiVersion: "networking.k8s.io/v1", kind: "Ingress", plural: "ingresses", status: true},
		{apiVersion: "batch/v1", kind: "CronJob", plural: "cronjobs", status: true},
		{apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", plural: "roles"},
		{apiVersion: "policy/v1", kind: "PodDisruptionBudget", plural: "poddisruptionbudgets", status: true},
		{apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", plural: "networkpolicies"},
	}
	for _, k := range kinds {
		k.builtin = true
		k.make = func(r *rand.Rand, name string) map[string]any {
			texts := builtinConfigurations[k.kind]
			return k.object(name, mustDecode(strings.ReplaceAll(texts[r.IntN(len(texts))], "NAME", name)))
		}
	}
	return kinds
}

func mustDecode(text string) map[string]any {
	object, err := rawjson.DecodeObject([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
	return object
}

var builtinConfigurations = map[string][]string{
	"ConfigMap": {
		`{"data": {"a": "1", "b.c_d-e": "2", "x": "ü \"3\""}, "binaryData": {}}`,
		`{"data": {"a": "1", "b": null}, "immutable": null}`,
	},
	"Secret": {
		`{"stringData": {"a": "1", "b": "ü"}, "data": {"c": "Mg=="}, "type": "Opaque"}`,
		`{"data": {"a": "MQ==", "b": "Mg=="}}`,
	},
	"Service": {
		`{"spec": {"selector": {"x": "NAME"}, "ports": [{"port": 80}]}, "status": {}}`,
		`{"spec": {"selector": {"x": "NAME"}, "ports": [{"port": 443, "name": "s", "targetPort": "https"}, {"port": 53, "name": "d", "protocol": "UDP"}, {"port": 53, "name": "e"}]}, "status": {"loadBalancer": {}}}`,
	},
	"Deployment": {
		`{"spec": {"replicas": 2, "strategy": {}, "selector": {"matchLabels": {"x": "NAME"}}, "template": {"metadata": {"labels": {"x": "NAME"}, "creationTimestamp": null}, "spec": {
			"containers": [{"name": "w", "image": "nginx", "env": [{"name": "B", "value": "1"}, {"name": "A", "value": "2"}], "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}],
				"resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": "0.5"}}, "args": ["x", "y"]}, {"name": "s", "image": "sidecar", "resources": {}}],
			"volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "a", "operator": "Exists"}], "nodeSelector": {"a": "b"}, "securityContext": {}}}}, "status": {}}`,
		`{"spec": {"selector": {"matchLabels": {"x": "NAME"}}, "template": {"metadata": {"labels": {"x": "NAME"}}, "spec": {"containers": [{"name": "w", "image": "nginx", "env": [], "ports": [], "args": [], "volumeMounts": null,
			"livenessProbe": {"httpGet": {"path": "/", "port": "http"}}, "resources": {"requests": {"memory": "1e3", "cpu": 1.5}}}], "initContainers": [{"name": "i", "image": "init"}], "topologySpreadConstraints": [
			{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"x": "NAME"}}}]}}}}`,
	},
	"StatefulSet": {
		`{"spec": {"serviceName": "NAME", "replicas": 1, "selector": {"matchLabels": {"x": "NAME"}}, "template": {"metadata": {"labels": {"x": "NAME"}}, "spec": {"containers": [{"name": "w", "image": "nginx"}]}},
			"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}}]}}`,
	},
	"Ingress": {
		`{"spec": {"rules": [{"host": "a.example", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "NAME", "port": {"number": 80}}}}]}}], "tls": [{"hosts": ["a.example"], "secretName": "s"}]}}`,
	},
	"CronJob": {
		`{"spec": {"schedule": "* * * * *", "suspend": true, "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "w", "image": "nginx"}]}}}}}}`,
	},
	"Role": {
		`{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}`,
		`{"rules": []}`,
	},
	"PodDisruptionBudget": {
		`{"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"x": "NAME"}}}}`,
		`{"spec": {"maxUnavailable": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}}}`,
	},
	"NetworkPolicy": {
		`{"spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {"matchLabels": {"a": "b"}}}], "ports": [{"port": 80}, {"port": "http", "protocol": "TCP"}]}]}}`,
	},
}

// customChild returns a kind with a random structural schema.
func customChild(r *rand.Rand, group string, number int) *childKind {
	name := "child" + strconv.Itoa(number)
	g := &schemaMaker{r}
	spec := g.object(3)
	k := &childKind{
		apiVersion: group + "/v1", kind: "Child" + strconv.Itoa(number), plural: name + "s", status: r.IntN(4) > 0,
		schema: map[string]any{"type": "object", "properties": map[string]any{"spec": spec, "extra": g.node(1), "status": map[string]any{
			"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
	}
	k.make = func(r *rand.Rand, name string) map[string]any {
		v := &valueMaker{r}
		rest := v.object(k.schema)
		if rest["spec"] == nil {
			rest["spec"] = v.value(spec)
		}
		if r.IntN(2) > 0 {
			delete(rest, "status")
		}
		return k.object(name, rest)
	}
	return k
}

// definition returns the CRD of the kind.
func (k *childKind) definition() map[string]any {
	group, version, _ := strings.Cut(k.apiVersion, "/")
	subresources := map[string]any{}
	if k.status {
		subresources["status"] = map[string]any{}
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": k.plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": k.plural, "kind": k.kind},
			"versions": []any{map[string]any{"name": version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": k.schema}, "subresources": subresources}},
		},
	}
}

// schemaMaker creates random schemas.
type schemaMaker struct{ *rand.Rand }

func (g *schemaMaker) node(depth int) map[string]any {
	n := 6
	if depth > 0 {
		n = 16
	}
	switch g.IntN(n) {
	case 0, 1:
		return g.text()
	case 2:
		return map[string]any{"type": "integer"}
	case 3:
		return map[string]any{"type": "number"}
	case 4:
		return map[string]any{"type": "boolean"}
	case 5:
		return map[string]any{"x-kubernetes-int-or-string": true}
	case 6, 7:
		return g.object(depth - 1)
	case 8, 9:
		return g.freeMap(depth - 1)
	case 10:
		return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	case 11:
		return map[string]any{"type": "array", "items": g.node(depth - 1)}
	case 12, 13:
		return map[string]any{"type": "array", "x-kubernetes-list-type": "set", "items": map[string]any{"type": []string{"string", "integer", "number", "boolean"}[g.IntN(4)]}}
	}
	return g.keyedList(depth - 1)
}

func (g *schemaMaker) text() map[string]any {
	s := map[string]any{"type": "string"}
	switch g.IntN(4) {
	case 0:
		s["default"] = "default"
	case 1:
		s["nullable"] = true
	}
	return s
}

func (g *schemaMaker) object(depth int) map[string]any {
	properties := map[string]any{}
	for i := range 2 + g.IntN(4) {
		properties[string(rune('a'+i))] = g.node(depth)
	}
	s := map[string]any{"type": "object", "properties": properties}
	switch g.IntN(6) {
	case 0:
		s["x-kubernetes-map-type"] = "atomic"
	case 1:
		s["x-kubernetes-preserve-unknown-fields"] = true
	case 2:
		s["nullable"] = true
	}
	return s
}

func (g *schemaMaker) freeMap(depth int) map[string]any {
	s := map[string]any{"type": "object", "additionalProperties": g.node(depth)}
	if g.IntN(3) == 0 {
		s["x-kubernetes-map-type"] = "atomic"
	}
	return s
}

// keyedList returns a list with one key or two, which may have defaults.
func (g *schemaMaker) keyedList(depth int) map[string]any {
	item := g.object(depth)
	delete(item, "nullable")
	keys, required := []any{"name"}, []any{"name"}
	properties := item["properties"].(map[string]any)
	name := map[string]any{"type": []string{"string", "integer"}[g.IntN(2)]}
	properties["name"] = name
	switch g.IntN(4) {
	case 0:
		keys = append(keys, "port")
		properties["port"] = map[string]any{"type": "integer", "default": 80}
	case 1:
		keys, required = append(keys, "on"), append(required, "on")
		properties["on"] = map[string]any{"type": "boolean"}
	case 2:
		name["default"] = map[any]any{"string": "default", "integer": 0}[name["type"]]
		keys, required = append(keys, "proto"), nil
		properties["proto"] = map[string]any{"type": "string", "default": "TCP"}
	}
	if required != nil {
		item["required"] = required
	}
	return map[string]any{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": item}
}

// oddKeys contain characters that JSON pointers, paths and managed fields escape.
var oddKeys = []string{"k", "x.y/z", "t~u", `q"r\s`, "ü", ".", "f:k"}

// valueMaker creates random values that fit a schema.
type valueMaker struct{ *rand.Rand }

func (v *valueMaker) value(s map[string]any) any {
	if s["nullable"] == true && v.IntN(6) == 0 {
		return nil
	}
	switch s["type"] {
	case "string":
		return v.text()
	case "integer":
		return v.IntN(5)
	case "number":
		return v.number()
	case "boolean":
		return v.IntN(2) > 0
	case "array":
		return v.list(s)
	case "object":
		return v.object(s)
	}
	if v.IntN(2) > 0 {
		return v.IntN(5)
	}
	return v.text()
}

func (v *valueMaker) text() string { return []string{"s", "t", "ü \"q\" <&>", "", "80"}[v.IntN(5)] }

func (v *valueMaker) number() any {
	return json.Number([]string{"1", "1234567.0", "2.5", "1.5e3", "1e21", "-0.1", "-7"}[v.IntN(7)])
}

func (v *valueMaker) object(s map[string]any) map[string]any {
	object := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, key := range rawjson.SortedKeys(properties) {
		if slices.Contains(required, any(key)) || v.IntN(5) > 1 {
			object[key] = v.value(properties[key].(map[string]any))
		}
	}
	if additional, ok := s["additionalProperties"].(map[string]any); ok {
		for range v.IntN(4) {
			object[oddKeys[v.IntN(len(oddKeys))]] = v.value(additional)
		}
	}
	if s["x-kubernetes-preserve-unknown-fields"] == true {
		for range v.IntN(3) {
			object["z"+oddKeys[v.IntN(len(oddKeys))]] = v.anything(2)
		}
	}
	return object
}

// anything returns a value without a schema.
func (v *valueMaker) anything(depth int) any {
	n := 5
	if depth > 0 {
		n = 8
	}
	switch v.IntN(n) {
	case 0:
		return nil
	case 1:
		return v.number()
	case 2:
		return v.IntN(2) > 0
	case 3, 4:
		return v.text()
	case 5:
		list := []any{}
		for range v.IntN(3) {
			list = append(list, v.anything(depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range v.IntN(4) {
		object[oddKeys[v.IntN(len(oddKeys))]] = v.anything(depth - 1)
	}
	return object
}

// list returns items that differ in their keys.
func (v *valueMaker) list(s map[string]any) any {
	items := s["items"].(map[string]any)
	list, seen := []any{}, map[string]bool{}
	for range v.IntN(4) {
		item := v.value(items)
		key, ok := "", true
		switch s["x-kubernetes-list-type"] {
		case "set":
			key = encode(item)
			ok = key != "1234567.0" && key != "1.5e3" // kube-apiserver does not treat them as equal to the integers in its responses
		case "map":
			key, ok = keysOf(s, items, item.(map[string]any))
		default:
			key = strconv.Itoa(len(list))
		}
		if ok && !seen[key] {
			seen[key] = true
			list = append(list, item)
		}
	}
	return list
}

// keysOf returns the keys of an item, with defaults, and reports whether the item has any of them itself.
func keysOf(s, items, item map[string]any) (text string, ok bool) {
	properties := items["properties"].(map[string]any)
	for _, key := range s["x-kubernetes-list-map-keys"].([]any) {
		value, has := item[key.(string)]
		if !has {
			value = properties[key.(string)].(map[string]any)["default"]
		}
		ok = ok || has
		text += encode(value) + ","
	}
	return text, ok
}
