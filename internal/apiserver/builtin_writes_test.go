package apiserver

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Unusual writes have the results that a test in e2e found on a real server.
func TestBuiltinWrites(t *testing.T) {
	const (
		merge, apply, strategic = "application/merge-patch+json", "application/apply-patch+yaml", "application/strategic-merge-patch+json"
		core                    = "/api/v1/namespaces/default/"
		numbers                 = "/apis/example.com/v1/namespaces/default/numbers"
		deployments             = "/apis/apps/v1/namespaces/default/deployments"
		roles                   = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
		autoscalers             = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
		target                  = `"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}`
	)
	number := func(spec string) string {
		return `{"apiVersion":"example.com/v1","kind":"Number","metadata":{"name":"a"},"spec":` + spec + `}`
	}
	s := New(Options{})
	for _, e := range []exchange{
		{"PUT", core + "services/a/status", "", `{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"type":"LoadBalancer","ports":[{"port":80}]},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}}`, 201, `"status":{"loadBalancer":{}}`, "clusterIP"},
		{"GET", core + "services/a", "", "", 200, `"fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`, "1.2.3.4"},
		{"PUT", core + "services/b/status", "", `{"metadata":{"name":"b"}}`, 422, "spec.ports: Required value", ""},
		{"PATCH", core + "services/b/status", merge, `{"spec":{"ports":[{"port":80}]}}`, 404, "", ""},
		{"PATCH", core + "services/b/status?fieldManager=m", apply, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"b"},"spec":{"ports":[{"port":80}]}}`, 201, "", "clusterIP"},
		{"PUT", core + "replicationcontrollers/a/status", "", `{"metadata":{"name":"a"}}`, 404, "", ""},

		{"POST", core + "resourcequotas", "", `{"metadata":{"name":"q"},"spec":{}}`, 201, "", "managedFields"},
		{"PATCH", core + "resourcequotas/q/status?fieldManager=m", merge, `{"metadata":{"labels":{"a":"b"}}}`, 200, "", "managedFields"},
		{"POST", core + "resourcequotas", "", `{"metadata":{"name":"r","labels":{"a":"1"}},"spec":{}}`, 201, `"f:labels":{".":{},"f:a":{}}`, ""},
		{"PATCH", core + "resourcequotas/r/status?fieldManager=m", merge, `{"metadata":{"labels":{"a":"2"}}}`, 200, `"fieldsV1":{"f:metadata":{"f:labels":{"f:a":{}}}},"manager":"m"`, `{".":{},"f:a":{}}`},
		{"POST", deployments, "", `{"metadata":{"name":"a","labels":{"a":"1"}},"spec":{"replicas":-0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b"}]}}}}`, 201, `"replicas":0`, ""},
		{"PATCH", deployments + "/a/status?fieldManager=m", merge, `{"metadata":{"labels":{"a":"2"}}}`, 200, `"labels":{"a":"1"}`, `"manager":"m"`},
		{"PATCH", deployments + "/a", strategic, `{"spec":{"replicas":2.0}}`, 200, `"replicas":2,`, ""},
		{"PATCH", deployments + "/a", merge, `{"spec":{"replicas":3.0}}`, 422, "", ""},
		{"PATCH", deployments + "/a?fieldManager=n&force=true", apply, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":4.0}}`, 200, `"replicas":4,`, ""},

		{"POST", roles, "", `{"metadata":{"name":"a"},"rules":[]}`, 201, `"fieldsV1":{"f:rules":{}}`, `"rules":[]`},
		{"POST", roles, "", `{"metadata":{"name":"b"},"rules":null}`, 201, `"rules":null`, "managedFields"},
		{"POST", autoscalers, "", `{"metadata":{"name":"a"},"spec":{"behavior":{"scaleUp":{"policies":[]}},` + target + `}}`, 422, "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy", ""},
		{"POST", autoscalers, "", `{"metadata":{"name":"a"},"spec":{"behavior":{"scaleUp":{"policies":null}},` + target + `}}`, 201, `"type":"Percent"`, ""},

		{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", `{"metadata":{"name":"numbers.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"numbers","kind":"Number"},"versions":[
			{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"d":{"type":"number","default":1.0,"maximum":2e0},"few":{"type":"array","maxItems":1,"items":{"type":"string"}},"one":{"type":"array","minItems":1,"items":{"type":"string"}},"map":{"type":"object","maxProperties":2,"additionalProperties":{"type":"string"}},"text":{"type":"string","maxLength":1}}}}}}}]}}`, 201, `"default":1,"maximum":2,`, ""},
		{"POST", numbers, "", number(`{"i":1.0,"j":1e3,"k":-0,"l":[1.50,12345678901234567890],"m":1e-7}`), 201, `"spec":{"d":1,"i":1,"j":1000,"k":0,"l":[1.5,12345678901234567000],"m":1e-7}`, ""},
		{"PATCH", numbers + "/a", merge, `{"spec":{"few":["a","b"]}}`, 422, "spec.few: Too many: 2: must have at most 1 item\"", ""},
		{"PATCH", numbers + "/a", merge, `{"spec":{"one":[]}}`, 422, "spec.one: Invalid value: 0: spec.one in body should have at least 1 items", ""},
		{"PATCH", numbers + "/a", merge, `{"spec":{"map":{"a":"a","b":"b","c":"c"}}}`, 422, "spec.map: Too many: 3: must have at most 2 items", ""},
		{"PATCH", numbers + "/a", merge, `{"spec":{"text":"ab"}}`, 422, "spec.text: Too long: may not be more than 1 byte\"", ""},
		{"PATCH", numbers + "/a", merge, `{"spec":{"i":2.0}}`, 200, `"i":2,`, ""},
		{"PATCH", numbers + "/a", "application/json-patch+json", `[{"op":"add","path":"/spec/i","value":3.0}]`, 200, `"i":3,`, ""},
		{"PATCH", numbers + "/a?fieldManager=n&force=true", apply, number(`{"i":4.0}`), 200, `"i":4,`, ""},
		{"PUT", numbers + "/a", "", number(`{"i":1e400}`), 400, "json: cannot unmarshal number 1e400 into Go value of type float64", ""},
		{"PATCH", numbers + "/a", merge, `{"spec":{"i":1e400}}`, 400, "error decoding patch: json: cannot unmarshal number 1e400", ""},
		{"PATCH", deployments + "/a", strategic, `{"spec":{"replicas":1e400}}`, 400, "json: cannot unmarshal number 1e400", "error decoding"},
		{"PATCH", numbers + "/a", "application/json-patch+json", `[{"op":"add","path":"/spec/i","value":1e400}]`, 400, "Go struct field jsonPatchOp.value of type float64", ""},
	} {
		e.try(t, s)
	}
}

// Clients without a field manager get the one at the beginning of their User-Agent.
func TestManagers(t *testing.T) {
	s := New(Options{})
	for agent, want := range map[string]string{
		"": "unknown", "/1.0": "unknown", "kubectl/v1.36": "kubectl", "a\tb/c": "ab", "a b": "a b", strings.Repeat("x", 200): strings.Repeat("x", 128), strings.Repeat("x", 127) + "ü": strings.Repeat("x", 127),
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", strings.NewReader(`{"metadata":{"name":"a"},"data":{"a":"b"}}`))
		r.Header.Set("User-Agent", agent)
		s.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), `"manager":"`+want+`"`) {
			t.Errorf("the manager of a client %q is in %s, want %q", agent, w.Body, want)
		}
	}
}

// New pods get the labels that their selectors refer to by matchLabelKeys, and the AppArmor profiles in their annotations.
func TestNewPods(t *testing.T) {
	c := caller{t, New(Options{DisableGarbageCollector: true})}
	const pods, deployments = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/deployments"
	const term = `{"topologyKey":"z","matchLabelKeys":["rev","none"],"mismatchLabelKeys":["app"],"labelSelector":{"matchLabels":{"a":"b"}}}`
	const merged = `{"topologyKey":"z","matchLabelKeys":["rev","none"],"mismatchLabelKeys":["app"],"labelSelector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"rev","operator":"In","values":["1"]},{"key":"app","operator":"NotIn","values":["x"]}]}}`
	affinity := func(term string) string {
		terms := `{"requiredDuringSchedulingIgnoredDuringExecution":[` + term + `],"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":` + term + `}]}`
		return `{"podAffinity":` + terms + `,"podAntiAffinity":` + terms + `}`
	}
	pod := c.call("POST", pods, `{"metadata":{"name":"a","labels":{"app":"x","rev":"1"}},"spec":{"affinity":`+affinity(term)+`,"containers":[{"name":"a","image":"b"}],"topologySpreadConstraints":[
		{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule","matchLabelKeys":["rev"],"labelSelector":{}},{"maxSkew":1,"topologyKey":"y","whenUnsatisfiable":"DoNotSchedule"}]}}`)
	c.want(pod, "spec.affinity", affinity(merged))
	c.want(pod, "spec.topologySpreadConstraints", `[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule","matchLabelKeys":["rev"],"labelSelector":{"matchExpressions":[{"key":"rev","operator":"In","values":["1"]}]}},
		{"maxSkew":1,"topologyKey":"y","whenUnsatisfiable":"DoNotSchedule"}]`)
	const appArmor, seccomp, ofPod = "container.apparmor.security.beta.kubernetes.io/a", "container.seccomp.security.alpha.kubernetes.io/a", "seccomp.security.alpha.kubernetes.io/pod"
	const old, idle = `deprecated since v1.30; use the \"appArmorProfile\" field`, `non-functional in v1.27+; use the \"seccompProfile\" field`
	for i, tt := range []struct{ annotation, value, podProfile, profile, want, warning, refusal string }{
		{appArmor, "runtime/default", "", "", `{"appArmorProfile":{"type":"RuntimeDefault"}}`, old, ""},
		{appArmor, "unconfined", "", "", `{"appArmorProfile":{"type":"Unconfined"}}`, old, ""},
		{appArmor, "localhost/foo", "", "", `{"appArmorProfile":{"type":"Localhost","localhostProfile":"foo"}}`, old, ""},
		{appArmor, "localhost/", "", "", `null`, old, ""},
		{appArmor, "runtime/default", `{"appArmorProfile":{"type":"RuntimeDefault"}}`, "", `null`, "", ""},
		{appArmor, "localhost/", `{"appArmorProfile":{"type":"RuntimeDefault"}}`, "", "", "", "apparmor type in annotation and field must match"},
		{appArmor, "localhost/bar", "", `{"appArmorProfile":{"type":"Localhost","localhostProfile":"foo"}}`, "", "", "apparmor profile in annotation and field must match"},
		{seccomp, "docker/default", "", "", "null", idle, ""},
		{seccomp, "docker/default", "", `{"seccompProfile":{"type":"RuntimeDefault"}}`, `{"seccompProfile":{"type":"RuntimeDefault"}}`, "", ""},
		{seccomp, "unconfined", "", `{"seccompProfile":{"type":"RuntimeDefault"}}`, "", "", "seccomp type in annotation and field must match"},
		{ofPod, "unconfined", "", "", "null", idle, ""},
		{ofPod, "unconfined", `{"seccompProfile":{"type":"RuntimeDefault"}}`, "", "", "", "spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"},
	} {
		context := ""
		if tt.profile != "" {
			context = `,"securityContext":` + tt.profile
		}
		spec := `{"securityContext":` + cmp.Or(tt.podProfile, "{}") + `,"containers":[{"name":"a","image":"b"` + context + `}]}`
		meta := fmt.Sprintf(`"annotations":{%q:%q}`, tt.annotation, tt.value)
		for kind, body := range map[string]string{
			pods:        fmt.Sprintf(`{"metadata":{"name":"p%d",%s},"spec":%s}`, i, meta, spec),
			deployments: fmt.Sprintf(`{"metadata":{"name":"d%d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"},%s},"spec":%s}}}`, i, meta, spec),
		} {
			w := httptest.NewRecorder()
			c.server.ServeHTTP(w, httptest.NewRequest("POST", kind, strings.NewReader(body)))
			warning := w.Header().Get("Warning")
			if code := map[bool]int{true: 201, false: 422}[tt.refusal == ""]; w.Code != code || !strings.Contains(w.Body.String(), tt.refusal) || tt.refusal == "" && (!strings.Contains(warning, tt.warning) || (warning == "") != (tt.warning == "")) {
				t.Errorf("%s: %d %s with the warning %s, want %+v", body, w.Code, w.Body, warning, tt)
			}
			if kind == pods && tt.refusal == "" {
				containers, _ := unstructured.View(w.Body.Bytes()).Get("spec.containers").([]any)
				context, _ := rawjson.Encode(rawjson.AsMap(containers[0])["securityContext"])
				if !rawjson.Equal(rawjson.ValueAt(context), rawjson.ValueAt([]byte(tt.want))) {
					t.Errorf("%s: %s, want %s", body, context, tt.want)
				}
			}
		}
	}
}

// Volume attachments and volume attributes classes are validated and immutable. A deleted class is removed when no volume has its attributes.
func TestVolumeAttachments(t *testing.T) {
	const classes, attachments, volumes = "/apis/storage.k8s.io/v1/volumeattributesclasses", "/apis/storage.k8s.io/v1/volumeattachments", "/api/v1/persistentvolumes"
	const merge, source = "application/merge-patch+json", `"source":{"persistentVolumeName":"pv"}`
	s := New(Options{})
	for _, e := range []exchange{
		{"POST", classes, "", `{"metadata":{"name":"c"}}`, 422, "[driverName: Required value, parameters: Required value: must contain at least one key/value pair]", ""},
		{"POST", classes, "", `{"metadata":{"name":"c"},"driverName":"A b","parameters":{"a":"b"}}`, 422, `driverName: Invalid value: \"a b\": name part must consist of`, ""},
		{"POST", classes, "", `{"metadata":{"name":"c"},"driverName":"a","parameters":{"a":"b"}}`, 201, `"finalizers":["kubernetes.io/vac-protection"]`, ""},
		{"PATCH", classes + "/c", merge, `{"parameters":{"a":"c"}}`, 422, "parameters: Forbidden: updates to parameters are forbidden.", ""},
		{"POST", volumes, "", `{"metadata":{"name":"pv"},"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"volumeAttributesClassName":"c","csi":{"driver":"a","volumeHandle":"h"}}}`, 201, "", ""},
		{"DELETE", classes + "/c", "", "", 200, "deletionTimestamp", ""},
		{"GET", classes + "/c", "", "", 200, "", ""},
		{"DELETE", volumes + "/pv", "", "", 200, "", ""},
		{"GET", classes + "/c", "", "", 404, "", ""},

		{"POST", attachments, "", `{"metadata":{"name":"a"},"spec":{"attacher":"a b","nodeName":"n","source":{}}}`, 422, "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName", ""},
		{"POST", attachments, "", `{"metadata":{"name":"a"},"spec":{"attacher":"a","nodeName":"n","source":{"inlineVolumeSpec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/a"}}}}}`, 422,
			"[spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes, spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes]", ""},
		{"POST", attachments, "", `{"metadata":{"name":"a"},"spec":{"attacher":"a","nodeName":"n",` + source + `}}`, 201, "", ""},
		{"PATCH", attachments + "/a", merge, `{"spec":{"nodeName":"m"}}`, 422, "field is immutable", ""},
		{"PATCH", attachments + "/a/status", merge, `{"status":{"attachError":{"errorCode":-1}}}`, 422, "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive", ""},
		{"PATCH", attachments + "/a/status", merge, `{"status":{"attachmentMetadata":{"a":"` + strings.Repeat("x", 300_000) + `"}}}`, 422, "status.attachmentMetadata: Too long: may not be more than 262144 bytes", ""},
		{"PATCH", attachments + "/a/status", merge, `{"status":{"attached":true}}`, 200, `"attached":true`, ""},
	} {
		e.try(t, s)
	}
}
