package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/rawjson"
)

const (
	container = `{"name":"a","image":"b"}`
	template  = `"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[` + container + `]}}`
	workload  = `"selector":{"matchLabels":{"a":"b"}},` + template
	runOnce   = `"template":{"spec":{"restartPolicy":"Never","containers":[` + container + `]}}`
)

// pod returns a pod with additional fields in its container and in its spec.
func pod(more, spec string) string {
	if more != "" {
		more = "," + more
	}
	if spec != "" {
		spec = "," + spec
	}
	return `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"b"` + more + `}]` + spec + `}}`
}

// webhook returns a webhook with some fields replaced.
func webhook(more string) string {
	least := `{"name":"a.example.com","clientConfig":{"url":"https://localhost"},"sideEffects":"None","admissionReviewVersions":["v1"],"timeoutSeconds":10}`
	if more == "" {
		return least
	}
	return strings.TrimSuffix(least, "}") + "," + more + "}"
}

// TestValidate checks responses of kube-apiserver to some of the objects that the tests in e2e send.
func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		kind, object string
		want         []string
	}{
		{"Pod", `{}`, []string{`spec.containers: Required value`}},
		{"Pod", pod("", ""), nil},
		{"Pod", pod(`"ports":[{"containerPort":0}]`, ""), []string{`spec.containers[0].ports[0].containerPort: Required value`}},
		{"Pod", pod(`"ports":[{"containerPort":80,"name":"-a"}]`, ""), []string{`spec.containers[0].ports[0].name: Invalid value: "-a": must not begin or end with a hyphen`}},
		{"Pod", pod(`"ports":[{"containerPort":80,"hostPort":80},{"containerPort":81,"hostPort":80}]`, ""), []string{`spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"`}},
		{"Pod", pod(`"env":[{"name":"a","valueFrom":{}}]`, ""), []string{"spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"}},
		{"Pod", pod(`"env":[{"name":"a","valueFrom":{"fieldRef":{"fieldPath":"x"}}}]`, ""), []string{`spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "x": error converting fieldPath: field label not supported: x`}},
		{"Pod", pod(`"volumeMounts":[{"name":"v","mountPath":"/a"}]`, ""), []string{`spec.containers[0].volumeMounts[0].name: Not found: "v"`}},
		{"Pod", pod(`"volumeMounts":[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/a"}]`, `"volumes":[{"name":"v","emptyDir":{}}]`), []string{`spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique`}},
		{"Pod", pod(`"resources":{"limits":{"cpu":"1500m"},"requests":{"cpu":"1.6"}}`, ""), []string{`spec.containers[0].resources.requests: Invalid value: "1600m": must be less than or equal to cpu limit of 1500m`}},
		{"Pod", pod(`"resources":{"limits":{"pods":"1"}}`, ""), []string{`spec.containers[0].resources.limits[pods]: Invalid value: "pods": must be a standard resource for containers`,
			`spec.containers[0].resources.requests[pods]: Invalid value: "pods": must be a standard resource for containers`}},
		{"Pod", pod(`"livenessProbe":{}`, ""), []string{`spec.containers[0].livenessProbe: Required value: must specify a handler type`}},
		{"Pod", pod(`"livenessProbe":{"exec":{"command":["a"]},"tcpSocket":{"port":1}}`, ""), []string{`spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type`}},
		{"Pod", pod(`"securityContext":{"seccompProfile":{"type":"RuntimeDefault","localhostProfile":"a"}}`, ""), []string{`spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: {"Type":"RuntimeDefault","LocalhostProfile":"a"}: can only be set when seccomp type is Localhost`}},
		{"Pod", pod("", `"initContainers":[{"name":"a","image":"b"}]`), []string{`spec.initContainers[0].name: Duplicate value: "a"`}},
		{"Pod", pod("", `"restartPolicy":"x"`), []string{`spec.restartPolicy: Unsupported value: "x": supported values: "Always", "OnFailure", "Never"`}},
		{"Pod", pod("", `"dnsPolicy":"None"`), []string{"spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},
		{"Pod", pod("", `"tolerations":[{"key":"a","operator":"x"}]`), []string{`spec.tolerations[0].operator: Unsupported value: "x": supported values: "Equal", "Exists"`}},
		{"Pod", pod("", `"volumes":[{"name":"v","emptyDir":{},"hostPath":{"path":"/a"}}]`), []string{`spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type`}},
		{"Pod", pod("", `"volumes":[{"name":"v","secret":{"secretName":"s","defaultMode":512}}]`), []string{`spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive`}},
		{"Pod", pod("", `"topologySpreadConstraints":[{}]`), []string{`spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero`, `spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty`,
			`spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "": supported values: "DoNotSchedule", "ScheduleAnyway"`}},
		{"Pod", pod("", `"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}}}`), []string{`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term`}},
		{"Pod", pod("", `"hostUsers":false,"hostPID":true`), []string{"spec.HostPID: Forbidden: when `hostUsers` is false"}},
		{"Deployment", `{}`, []string{`spec.selector: Required value`, "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`", `spec.template.spec.containers: Required value`}},
		{"Deployment", `{"spec":{"replicas":-1,` + workload + `}}`, []string{`spec.replicas: Invalid value: -1: must be greater than or equal to 0`}},
		{"Deployment", `{"spec":{"selector":{},` + template + `}}`, []string{`spec.selector: Invalid value: {}: empty selector is invalid for deployment`}},
		{"Deployment", `{"spec":{"selector":{"matchLabels":{"a":"c"}},` + template + `}}`, []string{"spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"}},
		{"Deployment", `{"spec":{"strategy":{"type":"x"},` + workload + `}}`, []string{`spec.strategy: Unsupported value: {"Type":"x","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate"`}},
		{"Deployment", `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":0}},` + workload + `}}`, []string{"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"}},
		{"StatefulSet", `{"spec":{"serviceName":"A",` + workload + `}}`, []string{"spec.serviceName: Invalid value: \"A\": " + LabelRule}},
		{"DaemonSet", `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":0}},` + workload + `}}`, []string{`spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0`}},
		{"Job", `{"spec":{` + template + `}}`, []string{`spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`}},
		{"Job", `{"spec":{"backoffLimitPerIndex":1,` + runOnce + `}}`, []string{`spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode`}},
		{"Job", `{"spec":{"podFailurePolicy":{"rules":[{"action":"Count","onExitCodes":{"operator":"In","values":[2,1,1]}}]},` + runOnce + `}}`, []string{`spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 1`,
			`spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1,1]: must be ordered`}},
		{"CronJob", `{"spec":{"schedule":"60 * * * *","jobTemplate":{"spec":{` + runOnce + `}}}}`, []string{`spec.schedule: Invalid value: "60 * * * *": end of range (60) above maximum (59): 60`}},
		{"CronJob", `{"spec":{"schedule":"0,30 1-5/2 ? jan-mar mon","jobTemplate":{"spec":{` + runOnce + `}}}}`, nil},
		{"CronJob", `{"spec":{"schedule":"* * * *","jobTemplate":{"spec":{` + runOnce + `}}}}`, []string{`spec.schedule: Invalid value: "* * * *": expected exactly 5 fields, found 4: [* * * *]`}},
		{"CronJob", `{"metadata":{"name":"` + strings.Repeat("a", 53) + `"},"spec":{"schedule":"@hourly","jobTemplate":{"spec":{` + runOnce + `}}}}`, []string{`metadata.name: Invalid value: "` + strings.Repeat("a", 53) + `": must be no more than 52 characters`}},
		{"Service", `{}`, []string{`spec.ports: Required value`}},
		{"Service", `{"spec":{"ports":[{"port":80},{"port":80}]}}`, []string{`spec.ports[0].name: Required value`, `spec.ports[1].name: Required value`, `spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}`}},
		{"Service", `{"spec":{"type":"ExternalName"}}`, []string{`spec.externalName: Required value`}},
		{"Service", `{"spec":{"ports":[{"port":80}],"externalIPs":["127.0.0.1"]}}`, []string{`spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`}},
		{"ConfigMap", `{"data":{"a b":"c"}}`, []string{`data[a b]: Invalid value: "a b": ` + configKeyRule}},
		{"ConfigMap", `{"data":{"a":"c"},"binaryData":{"a":""}}`, []string{`data[a]: Invalid value: "a": duplicate of key present in binaryData`}},
		{"ConfigMap", `{"data":{"a":"` + strings.Repeat("x", maxData+1) + `"}}`, []string{`[]: Too long: may not be more than 1048576 bytes`}},
		{"Secret", `{"type":"kubernetes.io/tls"}`, []string{`data[tls.crt]: Required value`, `data[tls.key]: Required value`}},
		{"Secret", `{"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"eA=="}}`, []string{`data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character 'x' looking for beginning of value`}},
		{"Secret", `{"type":"kubernetes.io/service-account-token"}`, []string{`metadata.annotations[kubernetes.io/service-account.name]: Required value`}},
		{"PersistentVolumeClaim", `{}`, []string{`spec.accessModes: Required value: at least 1 access mode is required`, `spec.resources[storage]: Required value`}},
		{"PersistentVolume", `{"spec":{"accessModes":["x"],"capacity":{"storage":"0"}}}`, []string{`spec.accessModes: Unsupported value: "x": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`,
			`spec.capacity[storage]: Invalid value: "0": must be greater than zero`, `spec: Required value: must specify a volume type`}},
		{"Ingress", `{}`, []string{"spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"}},
		{"Ingress", `{"spec":{"rules":[{"http":{"paths":[{"path":"/a//b","pathType":"Exact","backend":{}}]}}]}}`, []string{`spec.rules[0].http.paths[0].path: Invalid value: "/a//b": must not contain '//'`,
			`spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required`}},
		{"NetworkPolicy", `{"spec":{"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["11.0.0.0/16"]}}]}]}}`, []string{"spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`"}},
		{"NetworkPolicy", `{"spec":{"egress":[{"to":[{}]}]}}`, []string{`spec.egress[0].to[0]: Required value: must specify a peer`}},
		{"Role", `{"metadata":{"namespace":"n"},"rules":[{"verbs":["get"],"nonResourceURLs":["/a"]}]}`, []string{`rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs`}},
		{"ClusterRole", `{"rules":[{}]}`, []string{`rules[0].verbs: Required value: verbs must contain at least one value`, `rules[0].apiGroups: Required value: resource rules must supply at least one api group`,
			`rules[0].resources: Required value: resource rules must supply at least one resource`}},
		{"ClusterRoleBinding", `{"roleRef":{"kind":"ClusterRole","name":"a"},"subjects":[{"kind":"ServiceAccount","name":"a"}]}`, []string{`subjects[0].namespace: Required value`}},
		{"PodDisruptionBudget", `{"spec":{"minAvailable":1,"maxUnavailable":"101%"}}`, []string{`spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":"101%","UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set`,
			`spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%`}},
		{"HorizontalPodAutoscaler", `{"spec":{"maxReplicas":1,"scaleTargetRef":{"kind":"a","name":"b","apiVersion":"v1"},"metrics":[{"type":"Resource"}]}}`, []string{
			`spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group`, `spec.metrics[0].resource: Required value: must populate information for the given metric source`}},
		{"Lease", `{"spec":{"leaseDurationSeconds":0}}`, []string{`spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0`}},
		{"EndpointSlice", `{"addressType":"IPv4","endpoints":[{"addresses":["::1"]}]}`, []string{`endpoints[0].addresses: Invalid value: "::1": must be an IPv4 address`,
			`endpoints[0].addresses[0]: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)`}},
		{"PriorityClass", `{"metadata":{"name":"system-a"}}`, []string{`metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-a is not a known system priority class`}},
		{"LimitRange", `{"spec":{"limits":[{"type":"Container","min":{"cpu":"2"},"max":{"cpu":"1"}}]}}`, []string{`spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1`}},
		{"ResourceQuota", `{"spec":{"hard":{"pods":"1.5"}}}`, []string{`spec.hard[pods]: Invalid value: "1500m": must be an integer`}},
		{"Node", `{"spec":{"taints":[{"key":"a","effect":"x"}]}}`, []string{`metadata.taints[0].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
		{"ValidatingWebhookConfiguration", `{"webhooks":[` + webhook("") + `]}`, nil},
		{"ValidatingWebhookConfiguration", `{"webhooks":[` + webhook("") + `,` + webhook("") + `]}`, []string{`webhooks[1].name: Duplicate value: "a.example.com"`}},
		{"MutatingWebhookConfiguration", `{"webhooks":[` + webhook(`"failurePolicy":"x","matchPolicy":"","sideEffects":"Some","reinvocationPolicy":"x"`) + `]}`, []string{
			`webhooks[0].failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"`, `webhooks[0].matchPolicy: Unsupported value: "": supported values: "Equivalent", "Exact"`,
			`webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`, `webhooks[0].reinvocationPolicy: Unsupported value: "x": supported values: "IfNeeded", "Never"`}},
		{"ValidatingWebhookConfiguration", `{"webhooks":[` + webhook(`"admissionReviewVersions":["v1","v1"],"objectSelector":{"matchExpressions":[{"key":"a","operator":"In"}]}`) + `]}`, []string{
			"webhooks[0].objectSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'", `webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": duplicate version`}},
		{"ValidatingWebhookConfiguration", `{"webhooks":[` + webhook(`"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["pods/*","pods/log","*","pods"]}]`) + `]}`, []string{
			`webhooks[0].rules[0].resources[1]: Invalid value: "pods/log": if 'pods/*' is present, must not specify pods/log`,
			`webhooks[0].rules[0].resources: Invalid value: ["pods/*","pods/log","*","pods"]: if '*' is present, must not specify other resources without subresources`}},
		{"ValidatingWebhookConfiguration", `{"webhooks":[` + webhook(`"matchConditions":[{"name":"a","expression":" "},{"name":"a","expression":"true"}]`) + `]}`, []string{
			`webhooks[0].matchConditions[0].expression: Required value`, `webhooks[0].matchConditions[1].name: Duplicate value: "a"`}},
		{"SelfSubjectAccessReview", `{"spec":{"resourceAttributes":{}}}`, nil},
		{"SelfSubjectAccessReview", `{}`, []string{`spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified`}},
		{"SubjectAccessReview", `{"metadata":{"name":"a"},"spec":{"groups":[],"resourceAttributes":{},"nonResourceAttributes":{"path":"/"}}}`, []string{`metadata: Invalid value: {"name":"a"}: must be empty`,
			`spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":""}: cannot be specified in combination with resourceAttributes`, `spec.user: Invalid value: "": at least one of user or group must be specified`}},
		{"LocalSubjectAccessReview", `{"metadata":{"namespace":"a"},"spec":{"groups":["g"],"resourceAttributes":{"namespace":"b"}}}`, []string{`spec.resourceAttributes.namespace: Invalid value: "b": must match metadata.namespace`}},
		{"SelfSubjectAccessReview", `{"spec":{"resourceAttributes":{"fieldSelector":{},"labelSelector":{"rawSelector":"a","requirements":[{"key":"a","operator":"In"}]}}}}`, []string{
			`spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required`,
			`spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": may not specified at the same time as requirements`,
			"spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"}},
	} {
		compare(t, tt.kind, "", "", tt.object, tt.want)
	}
}

// TestValidateUpdate checks responses of kube-apiserver to changes.
func TestValidateUpdate(t *testing.T) {
	const (
		claim   = `{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}}}`
		bound   = `{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}},"status":{"phase":"Bound","capacity":{"storage":"2Gi"}}}`
		service = `{"spec":{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ports":[{"port":80}]}}`
		role    = `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"a"}}`
	)
	for _, tt := range []struct {
		kind, live, object string
		want               []string
	}{
		{"Pod", pod("", ""), pod("", ""), nil},
		{"Pod", pod("", ""), strings.Replace(pod("", ""), `"b"`, `"c"`, 1), nil},
		{"Pod", pod("", ""), pod(`"command":["x"]`, ""), []string{`spec: Forbidden: pod updates may not change fields other than `}},
		{"Pod", pod("", ""), pod("", `"initContainers":[{"name":"c","image":"d"}]`), []string{`spec.initContainers: Forbidden: pod updates may not add or remove containers`}},
		{"Pod", pod("", `"activeDeadlineSeconds":10`), pod("", `"activeDeadlineSeconds":20`), []string{`spec.activeDeadlineSeconds: Invalid value: 20: must be less than or equal to previous value`}},
		{"Pod", pod("", ""), pod("", `"tolerations":[{"key":"a","operator":"Exists"}]`), nil},
		{"Pod", pod("", `"tolerations":[{"key":"a","operator":"Exists"}]`), pod("", ""), []string{`spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds`}},
		{"Pod", pod("", `"schedulingGates":[{"name":"g"}]`), pod("", `"nodeSelector":{"a":"b"}`), nil},
		{"Pod", pod("", `"schedulingGates":[{"name":"g"}],"nodeSelector":{"a":"b"}`), pod("", `"schedulingGates":[{"name":"g"}],"nodeSelector":{"a":"c"}`), []string{`spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)`}},
		{"Pod", pod("", `"terminationGracePeriodSeconds":-1`), pod("", `"terminationGracePeriodSeconds":1`), nil},
		{"Deployment", `{"spec":{` + workload + `}}`, `{"spec":{"selector":{"matchLabels":{"c":"d"}},"template":{"metadata":{"labels":{"c":"d"}},"spec":{"containers":[` + container + `]}}}}`,
			[]string{`spec.selector: Invalid value: {"matchLabels":{"c":"d"}}: field is immutable`}},
		{"StatefulSet", `{"spec":{` + workload + `}}`, `{"spec":{"serviceName":"a","replicas":3,` + workload + `}}`, []string{`spec: Forbidden: updates to statefulset spec for fields other than `}},
		{"StatefulSet", `{"spec":{` + workload + `}}`, `{"spec":{"replicas":3,` + workload + `}}`, nil},
		{"Job", `{"spec":{` + runOnce + `}}`, `{"spec":{"completions":5,` + runOnce + `}}`, []string{`spec.completions: Invalid value: 5: field is immutable`}},
		{"Job", `{"spec":{` + runOnce + `}}`, `{"spec":{"parallelism":5,` + runOnce + `}}`, nil},
		{"Job", `{"spec":{` + runOnce + `}}`, `{"spec":{` + strings.Replace(runOnce, `"b"`, `"c"`, 1) + `}}`, []string{`spec.template: Invalid value: `}},
		{"Job", `{"spec":{"suspend":true,` + runOnce + `}}`, `{"spec":{"suspend":true,` + strings.Replace(runOnce, `"restartPolicy"`, `"nodeSelector":{"a":"b"},"restartPolicy"`, 1) + `}}`, nil},
		{"Service", service, strings.ReplaceAll(service, "10.0.0.1", "10.0.0.2"), []string{`spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set`}},
		{"Secret", `{"type":"Opaque"}`, `{"type":"example.com/a"}`, []string{`type: Invalid value: "example.com/a": field is immutable`}},
		{"Secret", `{"immutable":true,"data":{"a":"Yg=="}}`, `{"data":{"a":"Yw=="}}`, []string{"immutable: Forbidden: field is immutable when `immutable` is set", "data: Forbidden: field is immutable when `immutable` is set"}},
		{"ConfigMap", `{"immutable":true,"data":{"a":"b"}}`, `{"immutable":true,"data":{"a":"b"}}`, nil},
		{"PersistentVolumeClaim", claim, strings.Replace(claim, "2Gi", "3Gi", 1), []string{`spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims`}},
		{"PersistentVolumeClaim", strings.Replace(bound, "1Gi", "2Gi", 1), strings.Replace(bound, "1Gi", "3Gi", 1), nil},
		{"PersistentVolumeClaim", strings.Replace(bound, "1Gi", "2Gi", 1), bound, []string{`spec.resources.requests.storage: Forbidden: field can not be less than status.capacity`}},
		{"RoleBinding", role, strings.Replace(role, `"a"`, `"b"`, 1), []string{`roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"b"}: cannot change roleRef`}},
		{"PriorityClass", `{"value":1}`, `{"value":2}`, []string{`value: Forbidden: may not be changed in an update.`}},
		{"StorageClass", `{"provisioner":"a"}`, `{"provisioner":"b"}`, []string{`provisioner: Invalid value: "b": field is immutable`}},
		{"IngressClass", `{"spec":{"controller":"a/b"}}`, `{"spec":{"controller":"a/c"}}`, []string{`spec.controller: Invalid value: "a/c": field is immutable`}},
		{"EndpointSlice", `{"addressType":"IPv4"}`, `{"addressType":"IPv6"}`, []string{`addressType: Invalid value: "IPv6": field is immutable`}},
		{"ResourceQuota", `{"spec":{"hard":{"pods":"1"}}}`, `{"spec":{"hard":{"pods":"1"},"scopes":["BestEffort"]}}`, []string{`spec.scopes: Invalid value: ["BestEffort"]: field is immutable`}},
	} {
		compare(t, tt.kind, "", tt.live, tt.object, tt.want)
	}
}

// TestValidateStatus checks responses of kube-apiserver to changes of the status.
func TestValidateStatus(t *testing.T) {
	for _, tt := range []struct {
		kind, live, object string
		want               []string
	}{
		{"Deployment", `{}`, `{"status":{"replicas":1,"readyReplicas":2}}`, []string{`status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas`}},
		{"Deployment", `{"status":{"collisionCount":2}}`, `{"status":{"collisionCount":1}}`, []string{`status.collisionCount: Invalid value: 1: cannot be decremented`}},
		{"Deployment", `{}`, `{"spec":{"replicas":-1}}`, nil},
		{"Pod", `{}`, `{"status":{"phase":"Running","podIPs":[{"ip":"x"}]}}`, []string{`status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`}},
		{"Pod", `{"spec":{"restartPolicy":"Never"},"status":{"containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":1}}}]}}`,
			`{"spec":{"restartPolicy":"Never"},"status":{"containerStatuses":[{"name":"a","state":{"running":{}}}]}}`, []string{`status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state`}},
		{"Job", `{}`, `{"status":{"startTime":"2026-01-02T03:04:05Z","conditions":[{"type":"Failed","status":"True"}]}}`, []string{`status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition`}},
		{"Service", `{}`, `{"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}}`, []string{"status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"}},
		{"ConfigMap", `{}`, `{"data":{"a b":"c"}}`, nil},
	} {
		compare(t, tt.kind, "status", tt.live, tt.object, tt.want)
	}
}

// TestWarnings checks warnings of kube-apiserver.
func TestWarnings(t *testing.T) {
	for _, tt := range []struct {
		kind, live, object string
		want               []string
	}{
		{"Pod", "", pod("", ""), nil},
		{"Pod", "", strings.Replace(pod("", ""), `"p"`, `"p.q"`, 1), []string{"metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"}},
		{"Pod", "", pod(`"env":[{"name":"a","value":"b"},{"name":"a","value":"c"}]`, ""), []string{`spec.containers[0].env[1]: hides previous definition of "a", which may be dropped when using apply`}},
		{"Pod", "", pod(`"env":[{"name":"a","value":"b"},{"name":"a","value":"$(a)c"}]`, ""), nil},
		{"Pod", "", pod(`"ports":[{"containerPort":80},{"containerPort":80}]`, ""), []string{"spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"}},
		{"Pod", "", pod(`"resources":{"limits":{"memory":"100m"}}`, ""), []string{`spec.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer`}},
		{"Pod", "", pod("", `"nodeSelector":{"beta.kubernetes.io/os":"linux"}`), []string{`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`}},
		{"Pod", "", pod("", `"volumes":[{"name":"v","gitRepo":{}}]`), []string{"spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"}},
		{"Pod", pod("", ""), pod("", `"volumes":[{"name":"v","gitRepo":{}}]`), nil},
		{"Deployment", `{"spec":{` + workload + `}}`, `{"spec":{` + strings.Replace(workload, `"containers"`, `"topologySpreadConstraints":[{}],"containers"`, 1) + `}}`,
			[]string{"spec.template.spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"}},
		{"Service", "", `{"spec":{"externalName":"a"}}`, []string{`spec.externalName is ignored when spec.type is not "ExternalName"`}},
		{"Secret", "", `{"type":"kubernetes.io/tls","data":{"tls.crt":"","tls.key":""}}`, []string{"tls: failed to find any PEM data in certificate input"}},
		{"ResourceQuota", "", `{"spec":{"hard":{"cpu":"2","limits.cpu":"1"}}}`, []string{"ResourceQuota cpu (2) should be less than limits.cpu (1)"}},
		{"ConfigMap", "", `{}`, nil},
	} {
		var live map[string]any
		if tt.live != "" {
			live = decoded(t, tt.live)
		}
		if got := Warnings("", tt.kind, live, decoded(t, tt.object)); !slices.Equal(got, tt.want) {
			t.Errorf("%s %s: %q, want %q", tt.kind, tt.object, got, tt.want)
		}
	}
}

// compare checks an object. The last expected error may be a prefix.
func compare(t *testing.T, kind, subresource, live, object string, want []string) {
	t.Helper()
	var before map[string]any
	if live != "" {
		before = decoded(t, live)
	}
	var got []string
	for _, e := range Validate("", kind, subresource, before, decoded(t, object)) {
		if message := e.Message(); !slices.Contains(got, message) {
			got = append(got, message)
		}
	}
	same := len(got) == len(want)
	for i := range want {
		same = same && (got[i] == want[i] || i == len(want)-1 && strings.HasPrefix(got[i], want[i]))
	}
	if !same {
		t.Errorf("%s %s %.300s: %q, want %q", kind, subresource, object, got, want)
	}
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	object, err := rawjson.DecodeObject([]byte(text))
	if err != nil {
		t.Fatal(err, text)
	}
	return object
}

// TestCheckName checks names of the kinds whose names are not subdomains.
func TestCheckName(t *testing.T) {
	for _, tt := range []struct {
		kind, name string
		prefix     bool
		valid      bool
	}{
		{"Pod", "a.b", false, true}, {"Pod", "A", false, false}, {"Pod", "a-", false, false}, {"Pod", "a-", true, true}, {"Pod", strings.Repeat("a", 254), false, false},
		{"Service", "1a", false, true}, {"Service", "a.b", false, false}, {"Service", strings.Repeat("a", 64), false, false},
		{"StatefulSet", "a.b", false, false}, {"Namespace", "a.b", false, false},
		{"ClusterRole", "system:a", false, true}, {"ClusterRole", "a/b", false, false}, {"Role", "..", false, false},
		{"PodDisruptionBudget", "A", false, true},
	} {
		if got := CheckName(tt.kind, tt.name, tt.prefix); (len(got) == 0) != tt.valid {
			t.Errorf("CheckName(%q, %.20q): %q, want valid: %v", tt.kind, tt.name, got, tt.valid)
		}
	}
}
