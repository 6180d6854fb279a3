package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// TestBuiltinDefaults creates, replaces, patches and applies objects of built-in kinds on both servers, and compares the complete objects with their managed fields.
func TestBuiltinDefaults(t *testing.T) {
	t.Parallel()
	servers := []*endpoint{judge(t, ownCluster(t, nil)), embedded(t)}
	for _, server := range servers {
		for _, prepared := range [][2]string{
			{"/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}`},
			{"/apis/storage.k8s.io/v1/storageclasses", `{"metadata": {"name": "usual", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "example.com/p"}`},
			{"/apis/networking.k8s.io/v1/ingressclasses", `{"metadata": {"name": "usual", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}, "spec": {"controller": "example.com/c"}}`},
		} {
			server.mustSend(t, &request{method: "POST", path: prepared[0], contentType: asJSON, body: prepared[1]})
		}
	}
	for i, c := range defaultsCases() {
		t.Run(c.name, func(t *testing.T) {
			seen := []*sightings{newSightings(), newSightings()}
			name := fmt.Sprintf("case%d", i)
			for _, r := range requestsOf(c, name) {
				if diff := differs(t, servers, seen, r); diff != "" {
					t.Errorf("%s %s %.500s differs:\n%s", r.method, r.path, r.body, diff)
				}
			}
		})
	}
}

// requestsOf returns requests that write an object in all ways.
func requestsOf(c defaultsCase, name string) []*request {
	at, applied := c.collection+"/"+name, c.collection+"/"+name+"-applied"
	configuration := strings.Replace(named(c.object, name+"-applied"), "{", `{"apiVersion": "`+apiVersionOf(c.collection)+`", "kind": "`+c.kind+`", `, 1)
	const apply, asApply = "?fieldManager=applier", "application/apply-patch+yaml"
	all := []*request{
		{method: "POST", path: c.collection, contentType: asJSON, body: named(c.object, name)},
		{method: "PUT", path: at, contentType: asJSON, body: named(c.object, name)},
		{method: "PUT", path: at, contentType: asJSON, body: strings.Replace(named(c.object, name), `"metadata": {`, `"metadata": {"resourceVersion": "{version:`+c.kind+`:`+name+`}", `, 1)},
		{method: "PATCH", path: at, contentType: asMerge, body: `{"metadata": {"annotations": {"patched": "yes"}}}`},
		{method: "PATCH", path: applied + apply, contentType: asApply, body: configuration},
		{method: "PATCH", path: applied + apply, contentType: asApply, body: configuration},
		{method: "PATCH", path: applied + "?fieldManager=other", contentType: asApply, body: strings.Replace(configuration, `"metadata": {`, `"metadata": {"labels": {"other": "yes"}, `, 1)},
	}
	if c.kind == "Job" || c.kind == "PersistentVolumeClaim" { // the server has set immutable fields in them
		all = slices.Delete(all, 1, 3)
	}
	for _, patch := range c.patches {
		all = append(all, &request{method: "PATCH", path: at, contentType: asMerge, body: patch})
	}
	return all
}

func apiVersionOf(collection string) string {
	parts := strings.Split(strings.Trim(collection, "/"), "/")
	if parts[0] == "api" {
		return parts[1]
	}
	return parts[1] + "/" + parts[2]
}

// differs sends a request to both servers, and returns the differences of the responses, without some of their fields.
func differs(t *testing.T, servers []*endpoint, seen []*sightings, r *request, but ...string) string {
	t.Helper()
	var answers [2]any
	for i, server := range servers {
		got, err := server.send(t.Context(), r, seen[i])
		if err != nil {
			t.Fatal(err)
		}
		hideAllocated(got.Body)
		hide(got.Body, but)
		answers[i] = map[string]any{"code": got.Code, "body": got.Body}
	}
	return strings.Join(pathDifferences("", answers[0], answers[1]), "\n")
}

// pathDifferences returns the paths at which two trees differ, each with the values.
func pathDifferences(path string, want, got any) (all []string) {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			for _, key := range slices.Sorted(maps.Keys(union(w, g))) {
				switch {
				case !has(w, key):
					all = append(all, fmt.Sprintf("%s.%s: absent, but in memory %v", path, key, g[key]))
				case !has(g, key):
					all = append(all, fmt.Sprintf("%s.%s: %v, but in memory absent", path, key, w[key]))
				default:
					all = append(all, pathDifferences(path+"."+key, w[key], g[key])...)
				}
			}
			return all
		}
	case []any:
		if g, ok := got.([]any); ok && len(g) == len(w) {
			for i := range w {
				all = append(all, pathDifferences(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
			}
			return all
		}
	}
	if !cmp.Equal(want, got) {
		all = append(all, fmt.Sprintf("%s: %v, but in memory %v", path, want, got))
	}
	return all
}

// hideAllocated replaces the addresses and the ports that a server has allocated.
func hideAllocated(body any) {
	object, _ := body.(map[string]any)
	spec, _ := object["spec"].(map[string]any)
	if meta, _ := object["metadata"].(map[string]any); object["kind"] == "Job" || object["kind"] == "PersistentVolumeClaim" {
		delete(meta, "resourceVersion") // a real server writes the allocated values when it reads objects
	}
	if object["kind"] != "Service" || spec == nil {
		return
	}
	if address, _ := spec["clusterIP"].(string); strings.HasPrefix(address, "10.") {
		spec["clusterIP"], spec["clusterIPs"] = "(some)", len(spec["clusterIPs"].([]any))
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		if port := p.(map[string]any); port["nodePort"] != nil {
			port["nodePort"] = "(some)"
		}
	}
	if spec["healthCheckNodePort"] != nil {
		spec["healthCheckNodePort"] = "(some)"
	}
}

// hide replaces the uids in labels and the names of volumes for tokens, and removes some fields.
func hide(v any, fields []string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if slices.Contains(fields, key) {
				delete(v, key)
			}
			text, _ := value.(string)
			switch {
			case strings.HasSuffix(key, "controller-uid"):
				v[key] = uidText.ReplaceAllString(text, "(uid)")
			case strings.HasPrefix(text, "kube-api-access-"):
				v[key] = "kube-api-access-(some)"
			}
			hide(value, fields)
		}
	case []any:
		for _, item := range v {
			hide(item, fields)
		}
	}
}

// defaultsCase is one object, with merge patches of it.
type defaultsCase struct {
	name, kind, collection, object string
	patches                        []string
}

// defaultsKinds are the kinds of the cases, each with its collection.
var defaultsKinds = map[string]string{
	"Pod": "/api/v1/namespaces/default/pods", "PodTemplate": "/api/v1/namespaces/default/podtemplates", "ReplicationController": "/api/v1/namespaces/default/replicationcontrollers",
	"Service": "/api/v1/namespaces/default/services", "PersistentVolumeClaim": "/api/v1/namespaces/default/persistentvolumeclaims", "PersistentVolume": "/api/v1/persistentvolumes",
	"LimitRange": "/api/v1/namespaces/default/limitranges", "Node": "/api/v1/nodes", "Endpoints": "/api/v1/namespaces/default/endpoints",
	"ResourceQuota": "/api/v1/namespaces/default/resourcequotas", "ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
	"Deployment": "/apis/apps/v1/namespaces/default/deployments", "DaemonSet": "/apis/apps/v1/namespaces/default/daemonsets", "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
	"ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets", "ControllerRevision": "/apis/apps/v1/namespaces/default/controllerrevisions",
	"Job": "/apis/batch/v1/namespaces/default/jobs", "CronJob": "/apis/batch/v1/namespaces/default/cronjobs",
	"Ingress": "/apis/networking.k8s.io/v1/namespaces/default/ingresses", "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
	"IngressClass": "/apis/networking.k8s.io/v1/ingressclasses", "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
	"HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
	"Lease": "/apis/coordination.k8s.io/v1/namespaces/default/leases", "StorageClass": "/apis/storage.k8s.io/v1/storageclasses", "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
	"RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
	"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
	"MutatingWebhookConfiguration":   "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
}

const (
	aContainer = `{"name": "a", "image": "b"}`
	aSelector  = `"selector": {"matchLabels": {"a": "b"}}`
	aTarget    = `"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}`
	aHook      = `"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"]`
)

// defaultsCases returns the objects: at least one for each default. A % is replaced by a pod template.
func defaultsCases() (all []defaultsCase) {
	for _, c := range []defaultsCase{
		{"pod", "Pod", "", `{"spec": {"containers": [` + aContainer + `]}}`, []string{`{"spec": {"activeDeadlineSeconds": 10}}`}},
		{"pod with fields set", "Pod", "", `{"spec": {"restartPolicy": "Never", "dnsPolicy": "Default", "terminationGracePeriodSeconds": 0, "enableServiceLinks": false, "schedulerName": "s",
			"securityContext": {"runAsNonRoot": true}, "priorityClassName": "high", "tolerations": [{"operator": "Exists"}],
			"containers": [{"name": "a", "image": "b:1", "imagePullPolicy": "Never", "terminationMessagePath": "/x", "terminationMessagePolicy": "FallbackToLogsOnError"}]}}`, nil},
		{"pod with a service account", "Pod", "", `{"spec": {"serviceAccountName": "x", "automountServiceAccountToken": false, "containers": [` + aContainer + `]}}`, nil},
		{"pod with the old name of a service account", "Pod", "", `{"spec": {"serviceAccount": "x", "containers": [` + aContainer + `]}}`, nil},
		{"pod with images", "Pod", "", `{"spec": {"containers": [{"name": "a", "image": "b:latest"}, {"name": "c", "image": "r.example.com:5000/b"}, {"name": "d", "image": "r.example.com:5000/b:v1"},
			{"name": "e", "image": "b@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}, {"name": "f", "image": "B"},
			{"name": "g", "image": "b:latest@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}]}}`, nil},
		{"pod with ports and probes", "Pod", "", `{"spec": {"initContainers": [{"name": "i", "image": "b", "restartPolicy": "Always", "startupProbe": {"exec": {"command": ["a"]}, "periodSeconds": 1}}],
			"containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
			"livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"grpc": {"port": 80}, "timeoutSeconds": 3}, "startupProbe": {"tcpSocket": {"port": "dns"}, "failureThreshold": 5},
			"lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/x", "scheme": "HTTPS"}}, "postStart": {"httpGet": {"port": 80}}}}]}}`, nil},
		{"pod on the network of its host", "Pod", "", `{"spec": {"hostNetwork": true, "containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]}]}}`, nil},
		{"pod with volumes", "Pod", "", `{"spec": {"serviceAccountName": "x", "containers": [` + aContainer + `], "volumes": [{"name": "a"}, {"name": "b", "secret": {"secretName": "s"}}, {"name": "c", "configMap": {"name": "c"}},
			{"name": "d", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}}, {"name": "e", "hostPath": {"path": "/e"}}, {"name": "f", "emptyDir": {"medium": "Memory"}},
			{"name": "g", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}}, {"secret": {"name": "s"}}]}},
			{"name": "h", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "i", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
			{"name": "j", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:storage", "lun": 1}}, {"name": "k", "rbd": {"monitors": ["m"], "image": "i"}},
			{"name": "l", "image": {"reference": "b"}}, {"name": "m", "image": {"reference": "b:1"}}, {"name": "n", "azureDisk": {"diskName": "d", "diskURI": "https://example.com/blob"}},
			{"name": "o", "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "s"}, "volumeName": "v"}}]}}`, nil},
		{"pod with an environment", "Pod", "", `{"spec": {"containers": [{"name": "a", "image": "b", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B", "value": ""},
			{"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}]}}`, nil},
		{"pod with limits", "Pod", "", `{"spec": {"containers": [{"name": "a", "image": "b", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}}`, nil},
		{"pod with some requests", "Pod", "", `{"spec": {"containers": [{"name": "a", "image": "b", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}}}],
			"initContainers": [{"name": "c", "image": "b", "resources": {"limits": {"memory": "1Gi"}}}]}}`, nil},
		{"pod that waits for a gate", "Pod", "", `{"spec": {"schedulingGates": [{"name": "example.com/g"}], "containers": [` + aContainer + `]}}`, nil},
		{"pod that tolerates a little", "Pod", "", `{"spec": {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}], "containers": [` + aContainer + `]}}`, nil},
		{"pod of a class that there is not", "Pod", "", `{"spec": {"priorityClassName": "none", "containers": [` + aContainer + `]}}`, nil},
		{"pod with another priority", "Pod", "", `{"spec": {"priorityClassName": "high", "priority": 5, "containers": [` + aContainer + `]}}`, nil},
		{"pod template", "PodTemplate", "", `{%}`, []string{`{"template": {"spec": {"hostname": "h"}}}`}},

		{"replication controller", "ReplicationController", "", `{"spec": {%}}`, []string{`{"spec": {"replicas": 2}}`}},
		{"replication controller with a selector", "ReplicationController", "", `{"spec": {"replicas": 0, "selector": {"a": "b"}, %}}`, nil},
		{"replica set", "ReplicaSet", "", `{"spec": {` + aSelector + `, %}}`, []string{`{"spec": {"replicas": 2}}`}},
		{"deployment", "Deployment", "", `{"spec": {` + aSelector + `, %}}`, []string{`{"spec": {"replicas": 2}}`, `{"spec": {"strategy": null}}`, `{"spec": {"template": {"spec": {"serviceAccountName": "x"}}}}`}},
		{"deployment that recreates", "Deployment", "", `{"spec": {"replicas": 0, "strategy": {"type": "Recreate"}, "revisionHistoryLimit": 0, "progressDeadlineSeconds": 10, ` + aSelector + `, %}}`, nil},
		{"deployment with half a strategy", "Deployment", "", `{"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1}}, ` + aSelector + `, %}}`, nil},
		{"daemon set", "DaemonSet", "", `{"spec": {` + aSelector + `, %}}`, []string{`{"spec": {"minReadySeconds": 2}}`, `{"spec": {"template": {"spec": {"hostname": "h"}}}}`}},
		{"daemon set that waits for deletions", "DaemonSet", "", `{"spec": {"updateStrategy": {"type": "OnDelete"}, ` + aSelector + `, %}}`, nil},
		{"stateful set", "StatefulSet", "", `{"spec": {"serviceName": "a", ` + aSelector + `, %}}`, []string{`{"spec": {"replicas": 2}}`}},
		{"stateful set with claims", "StatefulSet", "", `{"spec": {"podManagementPolicy": "Parallel", "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}, "updateStrategy": {"type": "RollingUpdate"},
			"volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}], ` + aSelector + `, %}}`, nil},
		{"stateful set that waits for deletions", "StatefulSet", "", `{"spec": {"updateStrategy": {"type": "OnDelete"}, ` + aSelector + `, %}}`, nil},
		{"stateful set with a partition", "StatefulSet", "", `{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}, ` + aSelector + `, %}}`, nil},
		{"job", "Job", "", `{"spec": {` + runOnce + `}}`, []string{`{"spec": {"suspend": true}}`}},
		{"job with labels of its template", "Job", "", `{"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "OnFailure", "containers": [` + aContainer + `]}}}}`, nil},
		{"job with a parallelism", "Job", "", `{"spec": {"parallelism": 2, ` + runOnce + `}}`, nil},
		{"job with completions", "Job", "", `{"spec": {"completions": 2, ` + runOnce + `}}`, nil},
		{"indexed job", "Job", "", `{"spec": {"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1, ` + runOnce + `}}`, nil},
		{"job with a policy", "Job", "", `{"spec": {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}, ` + runOnce + `}}`, nil},
		{"job with a selector", "Job", "", `{"spec": {"manualSelector": true, ` + aSelector + `, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [` + aContainer + `]}}}}`, nil},
		{"cron job", "CronJob", "", `{"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {` + runOnce + `}}}}`, []string{`{"spec": {"suspend": true}}`}},

		{"service", "Service", "", `{"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}`, []string{`{"spec": {"type": "NodePort"}}`, `{"spec": {"type": "LoadBalancer"}}`, `{"spec": {"type": "ClusterIP"}}`,
			`{"spec": {"sessionAffinity": "ClientIP"}}`, `{"spec": {"sessionAffinity": "None"}}`, `{"spec": {"externalIPs": ["1.2.3.4"]}}`, `{"spec": {"type": "ExternalName", "externalName": "example.com"}}`}},
		{"service with ports", "Service", "", `{"spec": {"type": "NodePort", "sessionAffinity": "ClientIP", "ports": [{"name": "a", "port": 80, "targetPort": "x"}, {"name": "b", "port": 53, "protocol": "UDP"},
			{"name": "c", "port": 53, "protocol": "TCP", "targetPort": 5353}]}}`, nil},
		{"service of a load balancer", "Service", "", `{"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}}`, []string{`{"spec": {"externalTrafficPolicy": "Cluster"}}`, `{"spec": {"type": "ClusterIP"}}`}},
		{"service without ports on nodes", "Service", "", `{"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]}}`, nil},
		{"headless service", "Service", "", `{"spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}}`, nil},
		{"headless service without a selector", "Service", "", `{"spec": {"clusterIP": "None"}}`, nil},
		{"external service", "Service", "", `{"spec": {"type": "ExternalName", "externalName": "example.com"}}`, []string{`{"spec": {"type": "ClusterIP", "externalName": null, "ports": [{"port": 80}]}}`}},
		{"service of two families", "Service", "", `{"spec": {"ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]}}`, nil},
		{"service that requires two families", "Service", "", `{"spec": {"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]}}`, nil},
		{"service of the other family", "Service", "", `{"spec": {"ipFamilies": ["IPv6"], "ports": [{"port": 80}]}}`, nil},
		{"service with a port out of range", "Service", "", `{"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}}`, nil},
		{"endpoints", "Endpoints", "", `{"subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}]}`, nil},
		{"endpoint slice", "EndpointSlice", "", `{"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}], "ports": [{"port": 80}, {"name": "a", "port": 53, "protocol": "UDP"}]}`,
			[]string{`{"metadata": {"labels": {"l": "1"}}}`, `{"endpoints": []}`}},
		{"ingress", "Ingress", "", `{"spec": {"rules": [{"host": "example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "a", "port": {"number": 80}}}}]}}]}}`, nil},
		{"ingress of a class", "Ingress", "", `{"spec": {"ingressClassName": "c", "defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}}`, nil},
		{"ingress class", "IngressClass", "", `{"spec": {"controller": "example.com/c", "parameters": {"kind": "K", "name": "n"}}}`, nil},
		{"network policy", "NetworkPolicy", "", `{"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}}`, nil},
		{"network policy of the way out", "NetworkPolicy", "", `{"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]}}`, nil},

		{"claim", "PersistentVolumeClaim", "", `{"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`, nil},
		{"claim of a class", "PersistentVolumeClaim", "", `{"spec": {"storageClassName": "", "volumeMode": "Block", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`, nil},
		{"claim with a source", "PersistentVolumeClaim", "", `{"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`, nil},
		{"claim with a reference to a source", "PersistentVolumeClaim", "", `{"spec": {"dataSourceRef": {"apiGroup": "example.com", "kind": "K", "name": "x"}, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`, nil},
		{"volume", "PersistentVolume", "", `{"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp/a"}}}`, nil},
		{"storage class", "StorageClass", "", `{"provisioner": "example.com/p"}`, nil},
		{"storage class with fields set", "StorageClass", "", `{"provisioner": "example.com/p", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"}`, nil},

		{"limit range", "LimitRange", "", `{"spec": {"limits": [{"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "default": {"memory": "512Mi"}, "min": {"ephemeral-storage": "1Gi"}}, {"type": "Pod", "max": {"cpu": "2"}}]}}`, nil},
		{"quota", "ResourceQuota", "", `{"spec": {"hard": {"pods": "1"}}}`, nil},
		{"node", "Node", "", `{"status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}`, nil},
		{"service account", "ServiceAccount", "", `{}`, nil},
		{"disruption budget", "PodDisruptionBudget", "", `{"spec": {"minAvailable": 1, ` + aSelector + `}}`, []string{`{"spec": {"minAvailable": 2}}`}},
		{"autoscaler", "HorizontalPodAutoscaler", "", `{"spec": {"maxReplicas": 3, ` + aTarget + `}}`, nil},
		{"autoscaler with a behavior", "HorizontalPodAutoscaler", "", `{"spec": {"minReplicas": 2, "maxReplicas": 3, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}, ` + aTarget + `,
			"metrics": [{"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}}]}}`, nil},
		{"priority class", "PriorityClass", "", `{"value": 1}`, []string{`{"description": "d"}`}},
		{"runtime class", "RuntimeClass", "", `{"handler": "a"}`, nil},
		{"lease", "Lease", "", `{"spec": {"holderIdentity": "a"}}`, nil},
		{"controller revision", "ControllerRevision", "", `{"revision": 1, "data": {"a":"b"}}`, nil},

		{"role binding", "RoleBinding", "", `{"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": "default"}]}`, nil},
		{"cluster role binding", "ClusterRoleBinding", "", `{"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}`, nil},
		{"validating webhooks", "ValidatingWebhookConfiguration", "", `{"webhooks": [{` + aHook + `, "clientConfig": {"service": {"name": "s", "namespace": "n"}},
			"rules": [{"operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["as"]}]}]}`, []string{`{"metadata": {"labels": {"l": "1"}}}`}},
		{"mutating webhooks", "MutatingWebhookConfiguration", "", `{"webhooks": [{` + aHook + `, "clientConfig": {"url": "https://example.com"}, "failurePolicy": "Ignore",
			"rules": [{"operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["as"], "scope": "Namespaced"}]}]}`, nil},
	} {
		c.collection = defaultsKinds[c.kind]
		c.object = strings.Replace(c.object, "%", podTemplate, 1)
		all = append(all, c)
	}
	return all
}

const oldAutoscalers, newAutoscalers = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"

// TestAutoscalers reads and writes autoscalers in both of their versions.
func TestAutoscalers(t *testing.T) {
	t.Parallel()
	servers := []*endpoint{judge(t, ownCluster(t, nil)), embedded(t)}
	seen := []*sightings{newSightings(), newSightings()}
	const metrics = `"metrics": [
		{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
		{"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
		{"type": "Pods", "pods": {"metric": {"name": "p", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "AverageValue", "averageValue": "10"}}},
		{"type": "Object", "object": {"describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"}, "metric": {"name": "o"}, "target": {"type": "Value", "value": "5"}}},
		{"type": "External", "external": {"metric": {"name": "e"}, "target": {"type": "AverageValue", "averageValue": "3"}}},
		{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 70}}}]`
	for _, r := range []*request{
		{method: "POST", path: oldAutoscalers, body: named(`{"spec": {"maxReplicas": 3, `+aTarget+`}}`, "old")},
		{method: "GET", path: newAutoscalers + "/old"},
		{method: "PATCH", path: oldAutoscalers + "/old", contentType: asMerge, body: `{"spec": {"targetCPUUtilizationPercentage": 50}}`},
		{method: "GET", path: newAutoscalers + "/old"},
		{method: "PATCH", path: oldAutoscalers + "/old/status", contentType: asMerge, body: `{"status": {"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 40}}`},
		{method: "GET", path: newAutoscalers + "/old"},
		{method: "POST", path: newAutoscalers, body: named(`{"spec": {"maxReplicas": 3, `+aTarget+`, "behavior": {"scaleUp": {"stabilizationWindowSeconds": 5}}, `+metrics+`}}`, "new")},
		{method: "GET", path: oldAutoscalers + "/new"},
		{method: "PATCH", path: oldAutoscalers + "/new", contentType: asMerge, body: `{"metadata": {"labels": {"l": "1"}}, "spec": {"targetCPUUtilizationPercentage": 30}}`},
		{method: "GET", path: newAutoscalers + "/new"},
		{method: "PATCH", path: newAutoscalers + "/new/status", contentType: asMerge, body: `{"status": {"desiredReplicas": 1, "conditions": [{"type": "AbleToScale", "status": "True", "reason": "R", "message": "m"}],
			"currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 55, "averageValue": "1"}}}]}}`},
		{method: "GET", path: oldAutoscalers + "/new"},
		{method: "PATCH", path: oldAutoscalers + "/new", contentType: asMerge, body: `{"metadata": {"labels": {"l": "2"}}}`},
		{method: "GET", path: newAutoscalers + "/new"},
		{method: "PATCH", path: oldAutoscalers + "/applied?fieldManager=m", contentType: "application/apply-patch+yaml",
			body: `{"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "applied"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 20, ` + aTarget + `}}`},
		{method: "GET", path: oldAutoscalers},
		{method: "GET", path: newAutoscalers},
		{method: "GET", path: oldAutoscalers + "?watch=true&timeoutSeconds=1"},
		{method: "GET", path: "/apis/autoscaling"},
		{method: "DELETE", path: oldAutoscalers + "/new"},
		{method: "GET", path: newAutoscalers + "/new"},
	} {
		if r.contentType == "" {
			r.contentType = asJSON
		}
		if diff := differs(t, servers, seen, r, "managedFields"); diff != "" { // the in-memory server does not return those of one version in another
			t.Errorf("%s %s %.300s differs:\n%s", r.method, r.path, r.body, diff)
		}
	}
}

// TestFurniture compares the initial objects of a cluster, and their effects on pods, with controllers on both sides.
func TestFurniture(t *testing.T) {
	t.Parallel()
	real := ownCluster(t, &cluster.Options{
		Controllers: cluster.UsualControllers, ServiceAccounts: true,
		APIServerArgs: []string{"--advertise-address=192.0.2.1", "--endpoint-reconciler-type=lease"},
	})
	needSameVersion(t, real)
	served, err := kopf.NewAPIServer(nil).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := served.Close(); err != nil {
			t.Error(err)
		}
	})
	servers := []*endpoint{judge(t, real), {name: "embedded", url: served.URL, client: &http.Client{Transport: &http.Transport{}}}}
	const accounts, pods, ports = "/api/v1/namespaces/made/serviceaccounts", "/api/v1/namespaces/made/pods", "/api/v1/namespaces/default/"
	for _, server := range servers {
		server.mustSend(t, &request{method: "POST", path: "/api/v1/namespaces", contentType: asJSON, body: named(`{}`, "made")})
		for _, path := range []string{accounts + "/default", ports + "services/kubernetes", ports + "endpoints/kubernetes", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
			"/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", "/apis/scheduling.k8s.io/v1/priorityclasses/system-cluster-critical"} {
			eventually(t, path+" of "+server.name, func() bool {
				got, err := server.send(t.Context(), &request{method: "GET", path: path}, newSightings())
				return err == nil && got.Code == http.StatusOK
			})
		}
	}
	seen := []*sightings{newSightings(), newSightings()}
	for _, r := range []*request{
		{method: "GET", path: accounts + "/default"},
		{method: "GET", path: ports + "services/kubernetes"},
		{method: "GET", path: ports + "endpoints/kubernetes"},
		{method: "GET", path: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"},
		{method: "GET", path: "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical"},
		{method: "GET", path: "/apis/scheduling.k8s.io/v1/priorityclasses/system-cluster-critical"},
		{method: "POST", path: pods, body: named(`{"spec": {"containers": [`+aContainer+`], "initContainers": [{"name": "c", "image": "b",
			"volumeMounts": [{"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}], "volumes": [{"name": "own", "emptyDir": {}}]}}`, "a")},
		{method: "POST", path: pods, body: named(`{"spec": {"automountServiceAccountToken": false, "containers": [`+aContainer+`]}}`, "b")},
		{method: "POST", path: accounts, body: named(`{"imagePullSecrets": [{"name": "s"}], "automountServiceAccountToken": false}`, "own")},
		{method: "POST", path: pods, body: named(`{"spec": {"serviceAccountName": "own", "containers": [`+aContainer+`]}}`, "c")},
	} {
		r.contentType = asJSON
		hidden := []string{"resourceVersion", "targetPort", "time"}
		if strings.Contains(r.path, "endpoint") {
			hidden = append(hidden, "port") // the port of the server
		}
		if diff := differs(t, servers, seen, r, hidden...); diff != "" {
			t.Errorf("%s %s %.300s differs:\n%s", r.method, r.path, r.body, diff)
		}
	}
}

// TestServices changes services through all their types on both servers.
func TestServices(t *testing.T) {
	t.Parallel()
	servers := []*endpoint{judge(t, ownCluster(t, nil)), embedded(t)}
	const services = "/api/v1/namespaces/default/services"
	put := func(name, spec string) *request {
		return &request{method: "PUT", path: services + "/" + name, body: `{"metadata": {"name": "` + name + `"}, "spec": {` + spec + `}}`}
	}
	const port, two = `"ports": [{"port": 80}]`, `"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]`
	seen := []*sightings{newSightings(), newSightings()}
	for _, r := range []*request{
		put("a", port), // it creates the object
		put("a", `"type": "NodePort", `+port),
		put("a", `"type": "NodePort", `+two),
		put("a", `"type": "NodePort", `+port),
		put("a", `"type": "LoadBalancer", `+port),
		put("a", `"type": "LoadBalancer", "externalTrafficPolicy": "Local", `+port),
		put("a", `"type": "LoadBalancer", "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": false, `+two),
		put("a", `"type": "NodePort", "externalTrafficPolicy": "Local", `+port),
		put("a", port),
		put("a", `"type": "ExternalName", "externalName": "example.com"`),
		put("a", `"type": "NodePort", `+two),
		put("a", `"type": "ExternalName", "externalName": "example.com", `+port),
		put("a", `"clusterIP": "None", "selector": {"a": "b"}, `+port),
		put("b", `"clusterIP": "None"`),
		put("b", `"clusterIP": "None", "selector": {"a": "b"}`),
		put("c", `"externalIPs": ["1.2.3.4"], `+port),
		put("c", port),
		put("d", `"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 30001}]`),
		put("e", `"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 30001}]`),
		put("d", `"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 30002}]`),
		put("e", `"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 30001}, {"name": "b", "port": 80, "protocol": "UDP"}]`),
		put("d", `"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 30001}]`),
		{method: "PATCH", path: services + "/d", body: `{"spec": {"type": "ClusterIP"}}`},
		{method: "PATCH", path: services + "/d", body: `{"spec": {"type": "ExternalName", "externalName": "example.com"}}`},
		put("f", `"type": "LoadBalancer", `+port),
		{method: "PATCH", path: services + "/f/status", body: `{"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}`},
		{method: "PATCH", path: services + "/f", body: `{"spec": {"type": "ClusterIP"}}`},
		put("g", `"ipFamilyPolicy": "PreferDualStack", `+port),
		put("g", `"ipFamilyPolicy": "SingleStack", `+port),
		put("g", port),
	} {
		if r.contentType = asJSON; r.method == "PATCH" {
			r.contentType = asMerge
		}
		if diff := differs(t, servers, seen, r); diff != "" {
			t.Errorf("%s %s %.300s differs:\n%s", r.method, r.path, r.body, diff)
		}
	}
}
