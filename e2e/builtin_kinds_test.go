package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// call is a request to both servers, with the parts of the responses that must be equal besides the code: paths in the object, the warnings, and for errors
// the message. A call that settles is repeated until the responses are equal, as after the change of a CRD.
type call struct {
	method, path, contentType, body string
	same                            []string
}

const (
	settles  = "(settles)"
	warnings = "(warnings)"
	onlyCode = "(only the code)"
)

const (
	asJSON  = "application/json"
	asMerge = "application/merge-patch+json"
)

// builtinObjects are the smallest objects of built-in kinds that a real server accepts.
var builtinObjects = []struct{ collection, object string }{
	{"/api/v1/namespaces/default/configmaps", `{}`},
	{"/api/v1/namespaces/default/endpoints", `{}`},
	{"/api/v1/namespaces/default/events", `{"involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}, "reason": "R", "message": "m", "type": "Normal"}`},
	{"/api/v1/namespaces/default/limitranges", `{"spec": {"limits": []}}`},
	{"/api/v1/namespaces", `{}`},
	{"/api/v1/nodes", `{}`},
	{"/api/v1/namespaces/default/persistentvolumeclaims", `{"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`},
	{"/api/v1/persistentvolumes", `{"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp/a"}}}`},
	{"/api/v1/namespaces/default/pods", `{"spec": {"containers": [{"name": "a", "image": "b"}]}}`},
	{"/api/v1/namespaces/default/podtemplates", `{"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}}`},
	{"/api/v1/namespaces/default/replicationcontrollers", `{"spec": {"selector": {"a": "b"}, ` + podTemplate + `}}`},
	{"/api/v1/namespaces/default/resourcequotas", `{"spec": {"hard": {"pods": "1"}}}`},
	{"/api/v1/namespaces/default/secrets", `{}`},
	{"/api/v1/namespaces/default/serviceaccounts", `{}`},
	{"/api/v1/namespaces/default/services", `{"spec": {"ports": [{"port": 80}]}}`},
	{"/apis/apps/v1/namespaces/default/controllerrevisions", `{"revision": 1, "data": {"a": "b"}}`},
	{"/apis/apps/v1/namespaces/default/daemonsets", `{"spec": {` + workload + `}}`},
	{"/apis/apps/v1/namespaces/default/deployments", `{"spec": {` + workload + `}}`},
	{"/apis/apps/v1/namespaces/default/replicasets", `{"spec": {` + workload + `}}`},
	{"/apis/apps/v1/namespaces/default/statefulsets", `{"spec": {"serviceName": "a", ` + workload + `}}`},
	{"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", `{"spec": {"maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}}`},
	{"/apis/batch/v1/namespaces/default/cronjobs", `{"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {` + runOnce + `}}}}`},
	{"/apis/batch/v1/namespaces/default/jobs", `{"spec": {` + runOnce + `}}`},
	{"/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"spec": {"holderIdentity": "a"}}`},
	{"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"addressType": "IPv4", "endpoints": []}`},
	{"/apis/events.k8s.io/v1/namespaces/default/events", `{"regarding": {"kind": "Pod", "name": "a", "namespace": "default"}, "reason": "R", "note": "m", "type": "Normal",
		"action": "A", "reportingController": "example.com/c", "reportingInstance": "i", "eventTime": "2026-01-02T03:04:05.000006Z"}`},
	{"/apis/networking.k8s.io/v1/ingressclasses", `{"spec": {"controller": "example.com/c"}}`},
	{"/apis/networking.k8s.io/v1/namespaces/default/ingresses", `{"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}}`},
	{"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", `{"spec": {"podSelector": {}}}`},
	{"/apis/node.k8s.io/v1/runtimeclasses", `{"handler": "a"}`},
	{"/apis/policy/v1/namespaces/default/poddisruptionbudgets", `{"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}`},
	{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"}}`},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}`},
	{"/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", `{"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}}`},
	{"/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", `{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}`},
	{"/apis/scheduling.k8s.io/v1/priorityclasses", `{"value": 1}`},
	{"/apis/storage.k8s.io/v1/storageclasses", `{"provisioner": "example.com/p"}`},
}

const (
	podTemplate = `"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}`
	workload    = `"selector": {"matchLabels": {"a": "b"}}, ` + podTemplate
	runOnce     = `"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}`
)

// named gives an object a name.
func named(object, name string) string {
	return strings.Replace(object, "{", `{"metadata": {"name": "`+name+`"}`+map[bool]string{true: "", false: ", "}[object == "{}"], 1)
}

// TestBuiltinKinds sends requests about built-in kinds to both servers.
func TestBuiltinKinds(t *testing.T) {
	compareSequences(t, judge(t, plainCluster(t)), builtinSequences())
}

// compareSequences sends the same requests to a real server and to an in-memory one.
func compareSequences(t *testing.T, real *endpoint, all []sequence) {
	servers := []*endpoint{real, embedded(t)}
	for _, sequence := range all {
		t.Run(sequence.name, func(t *testing.T) {
			seen := []*sightings{newSightings(), newSightings()}
			for _, c := range sequence.calls {
				diff := c.diff(t, servers, seen)
				for deadline := time.Now().Add(20 * time.Second); slices.Contains(c.same, settles) && diff != "" && time.Now().Before(deadline); {
					time.Sleep(200 * time.Millisecond) // controllers have no signal of their end
					diff = c.diff(t, servers, seen)
				}
				if diff != "" {
					t.Errorf("%s %s %.300q (-real +in memory):\n%s", c.method, c.path, c.body, diff)
				}
			}
		})
	}
}

// diff sends the request, and returns the differences of the responses.
func (c *call) diff(t *testing.T, servers []*endpoint, seen []*sightings) string {
	t.Helper()
	var answers [2]any
	for i, server := range servers {
		got, err := server.send(t.Context(), &request{method: c.method, path: c.path, contentType: c.contentType, body: c.body}, seen[i])
		if err != nil {
			t.Fatal(err)
		}
		answers[i] = c.compared(got)
	}
	return cmp.Diff(answers[0], answers[1])
}

// compared returns the parts that must be the same on both servers.
func (c *call) compared(r *response) any {
	body, _ := r.Body.(map[string]any)
	all := map[string]any{"code": r.Code}
	if r.Code >= 400 {
		if !slices.Contains(c.same, onlyCode) {
			all["reason"], all["message"] = body["reason"], body["message"]
		}
		if slices.Contains(c.same, causes) {
			all["message"], all["causes"] = gist(body["message"]), gistOfCauses(body)
		}
		return all
	}
	for _, path := range c.same {
		switch path {
		case settles, onlyCode, causes:
			continue
		case warnings:
			var texts []string
			for _, text := range r.Warnings {
				if !strings.Contains(text, "this server") { // the warning is about an unsupported feature
					texts = append(texts, text)
				}
			}
			all[path] = texts
			continue
		}
		var value any = body
		for _, key := range strings.Split(path, ".") {
			object, _ := value.(map[string]any)
			value = object[key]
		}
		all[path] = value
	}
	return all
}

type sequence struct {
	name  string
	calls []call
}

func builtinSequences() []sequence {
	all := []sequence{secretData, namespaceFinalizers, eventsOfTwoGroups, options}
	for _, kind := range builtinObjects {
		plural := kind.collection[strings.LastIndex(kind.collection, "/")+1:]
		one := kind.collection + "/put"
		all = append(all, sequence{"PUT of missing " + plural, []call{
			{"PUT", one, asJSON, named(kind.object, "put"), []string{"metadata.name"}},
			{"DELETE", one, asJSON, "", nil},
		}})
		if !json.Valid([]byte(kind.object)) {
			panic(kind.object)
		}
	}
	for _, plural := range []string{"persistentvolumeclaims", "persistentvolumes", "pods", "replicationcontrollers", "resourcequotas", "services", "nodes", "namespaces",
		"daemonsets", "deployments", "replicasets", "statefulsets", "horizontalpodautoscalers", "cronjobs", "jobs", "ingresses", "poddisruptionbudgets"} {
		for _, kind := range builtinObjects {
			if !strings.HasSuffix(kind.collection, "/"+plural) {
				continue
			}
			one := kind.collection + "/meta"
			all = append(all, sequence{"metadata through the status of " + plural, []call{
				{"POST", kind.collection, asJSON, named(kind.object, "meta"), []string{"metadata.name"}},
				{"PATCH", one + "/status", asMerge, `{"metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}, "finalizers": ["example.com/f"],
					"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}]}}`, nil},
				{"GET", one, "", "", []string{"metadata.labels.l", "metadata.annotations.a", "metadata.finalizers", "metadata.ownerReferences"}},
				{"PATCH", one, asMerge, `{"metadata": {"finalizers": null}}`, []string{"metadata.finalizers"}},
			}})
		}
	}
	return all
}

const secrets, secretS = "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/secrets/s"

var secretSame = []string{"data", "type", "stringData"}

var secretData = sequence{"stringData of secrets", []call{
	{"POST", secrets, asJSON, `{"metadata": {"name": "s"}, "stringData": {"a": "one"}, "data": {"a": "eA==", "b": "eQ=="}}`, secretSame},
	{"PUT", secretS, asJSON, `{"metadata": {"name": "s"}, "stringData": {"a": "two"}, "data": {"a": "MQ=="}}`, secretSame},
	{"GET", secretS, "", "", secretSame},
	{"PATCH", secretS, asMerge, `{"stringData": {"c": "three"}}`, secretSame},
	{"PATCH", secretS, "application/strategic-merge-patch+json", `{"stringData": {"c": "four"}}`, secretSame},
	{"PATCH", secretS, "application/json-patch+json", `[{"op": "add", "path": "/stringData", "value": {"d": "five"}}]`, secretSame},
	{"PATCH", secretS + "?fieldManager=m&force=true", "application/apply-patch+yaml", `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"e": "six", "a": "seven"}}`, secretSame},
	{"PATCH", secretS + "?fieldManager=m&force=true", "application/apply-patch+yaml", `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"e": "eight"}}`, secretSame},
	{"PATCH", secrets + "/applied?fieldManager=m", "application/apply-patch+yaml", `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "applied"}, "stringData": {"e": "six"}}`, secretSame},
	{"PUT", secretS, asJSON, `{"metadata": {"name": "s"}}`, secretSame},
	{"PUT", secretS, asJSON, `{"metadata": {"name": "s"}, "type": "example.com/t"}`, secretSame},
	{"PATCH", secretS, asMerge, `{"type": "example.com/t"}`, secretSame},
	{"POST", secrets, asJSON, `{"metadata": {"name": "typed"}, "type": "example.com/t"}`, secretSame},
	{"PUT", secrets + "/typed", asJSON, `{"metadata": {"name": "typed"}}`, secretSame},
	{"PATCH", secrets + "/typed", asMerge, `{"stringData": {"a": "b"}}`, secretSame},
}}

const held = "/api/v1/namespaces/held"

var namespaceFinalizers = sequence{"finalizers of namespaces", []call{
	{"POST", "/api/v1/namespaces", asJSON, `{"metadata": {"name": "held"}, "spec": {"finalizers": ["example.com/hold"]}}`, []string{"spec", "status"}},
	{"PATCH", held, asMerge, `{"spec": {"finalizers": ["example.com/other"]}, "metadata": {"labels": {"a": "b"}}}`, []string{"spec", "metadata.labels"}},
	{"PUT", held + "/finalize", asJSON, `{"metadata": {"name": "held"}, "spec": {"finalizers": ["kubernetes", "example.com/hold", "example.com/more"]}}`, []string{"spec"}},
	{"PUT", held, asJSON, `{"metadata": {"name": "held"}}`, []string{"spec", "metadata.labels"}},
	{"PUT", held + "/status", asJSON, `{"metadata": {"name": "held"}}`, []string{"spec", "metadata.labels"}},
}}

const coreEvents, newEvents = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"

var coreSame = []string{"apiVersion", "involvedObject.name", "message", "reason", "type", "count", "source.component", "reportingComponent", "reportingInstance", "firstTimestamp", "note", "regarding"}

var newSame = []string{"apiVersion", "regarding.name", "note", "reason", "type", "action", "deprecatedCount", "deprecatedSource.component", "reportingController", "reportingInstance",
	"eventTime", "message", "involvedObject", "deprecatedFirstTimestamp"}

var eventsOfTwoGroups = sequence{"events of two groups", []call{
	{"POST", coreEvents, asJSON, `{"metadata": {"name": "core"}, "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}, "reason": "R", "message": "m", "type": "Normal", "count": 2,
		"source": {"component": "c"}, "reportingComponent": "c", "reportingInstance": "i", "firstTimestamp": "2026-01-02T03:04:05Z"}`, coreSame},
	{"GET", newEvents + "/core", "", "", newSame},
	{"POST", newEvents, asJSON, `{"metadata": {"name": "new"}, "regarding": {"kind": "Pod", "name": "b", "namespace": "default"}, "reason": "N", "note": "n", "type": "Warning", "action": "A",
		"reportingController": "example.com/c", "reportingInstance": "i", "eventTime": "2026-01-02T03:04:05.000006Z"}`, newSame},
	{"GET", coreEvents + "/new", "", "", coreSame},
	{"PATCH", newEvents + "/new", asMerge, `{"series": {"count": 2, "lastObservedTime": "2026-01-02T03:05:05.000006Z"}}`, append(newSame, "series.count")},
	{"GET", coreEvents + "/new", "", "", append(coreSame, "series.count")},
	{"GET", newEvents + "?fieldSelector=regarding.name%3Db", "", "", []string{"kind", "apiVersion"}},
	{"GET", newEvents + "?fieldSelector=involvedObject.name%3Db", "", "", nil},
	{"GET", coreEvents + "?fieldSelector=regarding.name%3Db", "", "", nil},
	{"GET", newEvents + "?fieldSelector=reportingController%3Dexample.com%2Fc", "", "", []string{"kind"}},
	{"GET", coreEvents + "?fieldSelector=source%3Dc", "", "", []string{"kind"}},
	{"DELETE", coreEvents + "/new", "", "", nil},
	{"GET", newEvents + "/new", "", "", nil},
	{"DELETE", newEvents + "/core", "", "", nil},
	{"GET", coreEvents + "/core", "", "", nil},
}}

const configmaps, configmapA = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/a"

var options = sequence{"options", []call{
	{"POST", configmaps + "?fieldManager=" + strings.Repeat("m", 129), asJSON, `{"metadata": {"name": "a"}}`, nil},
	{"POST", configmaps + "?fieldManager=a%07b", asJSON, `{"metadata": {"name": "a"}}`, nil},
	{"POST", configmaps + "?fieldManager=" + strings.Repeat("m", 128), asJSON, `{"metadata": {"name": "a"}}`, []string{"metadata.name"}},
	{"PATCH", configmapA + "?force=true", asMerge, `{"data": {"a": "b"}}`, nil},
	{"PATCH", configmapA + "?force=false", asMerge, `{"data": {"a": "b"}}`, nil},
	{"PATCH", configmapA + "?fieldManager=" + strings.Repeat("m", 129), asMerge, `{"data": {"a": "b"}}`, nil},
	{"GET", configmapA + "?resourceVersion=0", "", "", []string{"metadata.name"}},
	{"GET", configmapA + "?resourceVersion=abc", "", "", nil},
	{"GET", configmapA + "?resourceVersion=1", "", "", []string{"metadata.name"}},
}}
