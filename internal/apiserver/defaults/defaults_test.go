package defaults

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	object, err := rawjson.DecodeObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// TestFill checks responses of kube-apiserver from the tests in e2e.
func TestFill(t *testing.T) {
	const container = `{"name":"a","image":"b","imagePullPolicy":"Always","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}`
	const pod = `"containers":[` + container + `],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30`
	for _, tt := range []struct{ name, typ, object, want string }{
		{"a pod", "Pod", `{"spec":{"containers":[{"name":"a","image":"b"}]}}`, `{"spec":{` + pod + `,"enableServiceLinks":true}}`},
		{"a template", "PodTemplateSpec", `{"spec":{"containers":[{"name":"a","image":"b"}]}}`, `{"spec":{` + pod + `}}`},
		{"what is set", "Pod", `{"spec":{"restartPolicy":"Never","dnsPolicy":"Default","terminationGracePeriodSeconds":0,"enableServiceLinks":false,"schedulerName":"s","securityContext":{"runAsUser":1}}}`,
			`{"spec":{"restartPolicy":"Never","dnsPolicy":"Default","terminationGracePeriodSeconds":0,"enableServiceLinks":false,"schedulerName":"s","securityContext":{"runAsUser":1}}}`},
		{"the old name of a service account", "PodSpec", `{"serviceAccount":"x","containers":[{"name":"a","image":"b"}]}`, `{` + pod + `,"serviceAccount":"x","serviceAccountName":"x"}`},
		{"two service accounts", "PodSpec", `{"serviceAccount":"x","serviceAccountName":"y","containers":[{"name":"a","image":"b"}]}`, `{` + pod + `,"serviceAccount":"y","serviceAccountName":"y"}`},
		{"ports of the host", "Pod", `{"spec":{"hostNetwork":true,"containers":[{"name":"a","image":"b","ports":[{"containerPort":80},{"containerPort":81,"hostPort":8}]}]}}`,
			`{"spec":{` + strings.Replace(pod, `"image":"b",`, `"image":"b","ports":[{"containerPort":80,"hostPort":80,"protocol":"TCP"},{"containerPort":81,"hostPort":8,"protocol":"TCP"}],`, 1) + `,"enableServiceLinks":true,"hostNetwork":true}}`},
		{"requests from limits", "Pod", `{"spec":{"containers":[{"name":"a","image":"b","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"100m"}}}]}}`,
			`{"spec":{` + strings.Replace(pod, `"image":"b",`, `"image":"b","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"100m","memory":"1Gi"}},`, 1) + `,"enableServiceLinks":true}}`},
		{"a probe", "Probe", `{"timeoutSeconds":0,"periodSeconds":5,"httpGet":{"port":80},"grpc":{"port":1}}`,
			`{"timeoutSeconds":1,"periodSeconds":5,"successThreshold":1,"failureThreshold":3,"httpGet":{"port":80,"path":"/","scheme":"HTTP"},"grpc":{"port":1,"service":""}}`},
		{"volumes", "PodSpec", `{"volumes":[{"name":"a"},{"name":"b","secret":{}},{"name":"c","hostPath":{"path":"/"}},{"name":"d","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}],"containers":[{"name":"a","image":"b"}]}`,
			`{` + pod + `,"volumes":[{"name":"a","emptyDir":{}},{"name":"b","secret":{"defaultMode":420}},{"name":"c","hostPath":{"path":"/","type":""}},
			{"name":"d","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"path":"t","expirationSeconds":3600}}]}}]}`},
		{"a default of the table of types", "RBDVolumeSource", `{"pool":"","user":"u"}`, `{"pool":"rbd","user":"u","keyring":"/etc/ceph/keyring"}`},
		{"a deployment", "Deployment", `{"spec":{}}`,
			`{"spec":{"replicas":1,"revisionHistoryLimit":10,"progressDeadlineSeconds":600,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}}}}`},
		{"a deployment that recreates", "Deployment", `{"spec":{"replicas":0,"strategy":{"type":"Recreate"}}}`, `{"spec":{"replicas":0,"revisionHistoryLimit":10,"progressDeadlineSeconds":600,"strategy":{"type":"Recreate"}}}`},
		{"a stateful set", "StatefulSet", `{"spec":{"volumeClaimTemplates":[{"kind":"another","spec":{}}]}}`, `{"spec":{"replicas":1,"podManagementPolicy":"OrderedReady","revisionHistoryLimit":10,
			"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}},
			"volumeClaimTemplates":[{"apiVersion":"v1","kind":"PersistentVolumeClaim","spec":{"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}]}}`},
		{"a stateful set without a rolling update", "StatefulSet", `{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`, `{"spec":{"replicas":1,"podManagementPolicy":"OrderedReady","revisionHistoryLimit":10,
			"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},"updateStrategy":{"type":"RollingUpdate"}}}`},
		{"a job", "Job", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, `{"metadata":{"labels":{"a":"b"}},"spec":{"completions":1,"parallelism":1,"backoffLimit":6,"completionMode":"NonIndexed","suspend":false,
			"podReplacementPolicy":"TerminatingOrFailed","manualSelector":false,"template":{"metadata":{"labels":{"a":"b"}}}}}`},
		{"a job with a parallelism", "Job", `{"spec":{"parallelism":2,"backoffLimitPerIndex":1,"podFailurePolicy":{}}}`, `{"spec":{"parallelism":2,"backoffLimitPerIndex":1,"backoffLimit":2147483647,"completionMode":"NonIndexed",
			"suspend":false,"podReplacementPolicy":"Failed","manualSelector":false,"podFailurePolicy":{}}}`},
		{"the job of a cron job", "CronJob", `{"spec":{"jobTemplate":{"spec":{}}}}`, `{"spec":{"concurrencyPolicy":"Allow","suspend":false,"successfulJobsHistoryLimit":3,"failedJobsHistoryLimit":1,"jobTemplate":{"spec":{}}}}`},
		{"a service", "Service", `{"spec":{"ports":[{"port":80},{"port":53,"targetPort":"dns","protocol":"UDP"}]}}`,
			`{"spec":{"type":"ClusterIP","sessionAffinity":"None","internalTrafficPolicy":"Cluster","ports":[{"port":80,"protocol":"TCP","targetPort":80},{"port":53,"targetPort":"dns","protocol":"UDP"}]}}`},
		{"a service of a load balancer", "Service", `{"spec":{"type":"LoadBalancer","sessionAffinity":"ClientIP"}}`, `{"spec":{"type":"LoadBalancer","sessionAffinity":"ClientIP","internalTrafficPolicy":"Cluster",
			"externalTrafficPolicy":"Cluster","allocateLoadBalancerNodePorts":true,"sessionAffinityConfig":{"clientIP":{"timeoutSeconds":10800}}}}`},
		{"an affinity that is gone", "Service", `{"spec":{"type":"ExternalName","sessionAffinity":"None","sessionAffinityConfig":{}}}`, `{"spec":{"type":"ExternalName","sessionAffinity":"None"}}`},
		{"a policy of the way out", "NetworkPolicy", `{"spec":{"egress":[{"ports":[{"port":53}]}]}}`, `{"spec":{"egress":[{"ports":[{"port":53,"protocol":"TCP"}]}],"policyTypes":["Ingress","Egress"]}}`},
		{"a policy without a spec", "NetworkPolicy", `{}`, `{"spec":{"policyTypes":["Ingress"]}}`},
		{"limits", "LimitRangeItem", `{"type":"Container","max":{"cpu":"2"},"default":{"memory":"1Gi"},"min":{"disk":"1"}}`,
			`{"type":"Container","max":{"cpu":"2"},"default":{"memory":"1Gi","cpu":"2"},"min":{"disk":"1"},"defaultRequest":{"memory":"1Gi","cpu":"2","disk":"1"}}`},
		{"limits of pods", "LimitRangeItem", `{"type":"Pod","max":{"cpu":"2"}}`, `{"type":"Pod","max":{"cpu":"2"}}`},
		{"subjects", "RoleBinding", `{"roleRef":{"name":"r"},"subjects":[{"kind":"User"},{"kind":"ServiceAccount"}]}`,
			`{"roleRef":{"name":"r","apiGroup":"rbac.authorization.k8s.io"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io"},{"kind":"ServiceAccount"}]}`},
		{"wrong types", "Deployment", `{"spec":{"strategy":"x","template":[1]}}`, `{"spec":{"strategy":"x","template":[1],"replicas":1,"revisionHistoryLimit":10,"progressDeadlineSeconds":600}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object := decode(t, tt.object)
			for range 2 { // the second time changes nothing
				Fill(types.Named(tt.typ), object)
				if diff := cmp.Diff(decode(t, tt.want), object); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

func TestInitialize(t *testing.T) {
	pod := decode(t, `{"spec":{"schedulingGates":[{"name":"g"}]},"status":{"phase":"Running"}}`)
	Initialize(types.Named("Pod"), pod)
	status := rawjson.AsMap(pod["status"])
	conditions, _ := status["conditions"].([]any)
	if status["phase"] != "Pending" || status["qosClass"] != "BestEffort" || len(conditions) != 1 {
		t.Errorf("the status is %v", status)
	}
}

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]string{
		"b": "Always", "b:latest": "Always", "b:1": "IfNotPresent", "r.example.com:5000/b": "Always", "r.example.com:5000/b:1": "IfNotPresent",
		"b@sha256:01": "IfNotPresent", "b:latest@sha256:01": "Always", "B": "IfNotPresent", "": "IfNotPresent",
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("the policy of %q is %v, want %s", image, got, want)
		}
	}
}

func TestQoSClass(t *testing.T) {
	for spec, want := range map[string]string{
		`{"containers":[{}]}`: "BestEffort",
		`{"containers":[{"resources":{"requests":{"cpu":"0"}}}]}`:                                                                                             "BestEffort",
		`{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}`:                                                                                             "Burstable",
		`{"containers":[{"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1000m","memory":"1024Mi"}}}]}`:                                   "Guaranteed",
		`{"containers":[{"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}},{}]}`:                                       "Burstable",
		`{"containers":[{"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Mi"}}}]}`:                                          "Burstable",
		`{"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}},"containers":[{"resources":{"requests":{"cpu":"100m"}}}]}`:  "Guaranteed",
		`{"initContainers":[{"resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}}],"containers":[{"resources":{"limits":{"cpu":"x","memory":"1Gi"}}}]}`: "Burstable",
	} {
		if got := qosClass(decode(t, spec)); got != want {
			t.Errorf("the class of %s is %v, want %s", spec, got, want)
		}
	}
}
