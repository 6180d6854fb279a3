package apiserver

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// caller sends requests to a server.
type caller struct {
	*testing.T
	server *Server
}

// call sends a request, and returns the answer. The test fails if the code is in another class than that of success.
func (c caller) call(method, path, body string) unstructured.View {
	c.Helper()
	code, answer := c.send(method, path, body)
	if code >= 300 {
		c.Fatalf("%s %s %s: %d %s", method, path, body, code, answer)
	}
	return answer
}

func (c caller) send(method, path, body string) (int, unstructured.View) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if method == "PATCH" {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	c.server.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// want compares a part of an object with JSON.
func (c caller) want(object unstructured.View, path, want string) {
	c.Helper()
	value, err := rawjson.Decode([]byte(want))
	if err != nil {
		c.Fatal(err)
	}
	if diff := cmp.Diff(value, object.Get(path)); diff != "" {
		c.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestServiceAddresses(t *testing.T) {
	c := caller{t, New(Options{})}
	const services = "/api/v1/namespaces/default/services"
	c.want(c.call("GET", services+"/kubernetes", ""), "spec.clusterIPs", `["10.96.0.1"]`)
	one := c.call("POST", services, `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`)
	c.want(one, "spec", `{"clusterIP":"10.96.1.0","clusterIPs":["10.96.1.0"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",
		"ports":[{"port":80,"protocol":"TCP","targetPort":80}],"sessionAffinity":"None","type":"ClusterIP"}`)
	for _, tt := range []struct{ what, body, path, want string }{
		{"a replacement keeps the address", `{"metadata":{"name":"a"},"spec":{"type":"NodePort","ports":[{"name":"a","port":80}]}}`, "spec.clusterIPs", `["10.96.1.0"]`},
		{"and the port", `{"metadata":{"name":"a"},"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"name":"a","port":80},{"name":"b","port":81}]}}`, "spec.ports",
			`[{"name":"a","nodePort":30086,"port":80,"protocol":"TCP","targetPort":80},{"name":"b","nodePort":30087,"port":81,"protocol":"TCP","targetPort":81}]`},
		{"which another type does not have", `{"metadata":{"name":"a"},"spec":{"ports":[{"name":"a","nodePort":30086,"port":80},{"name":"b","nodePort":30087,"port":81}]}}`, "spec.ports",
			`[{"name":"a","port":80,"protocol":"TCP","targetPort":80},{"name":"b","port":81,"protocol":"TCP","targetPort":81}]`},
		{"nor has it an address", `{"metadata":{"name":"a"},"spec":{"type":"ExternalName","externalName":"example.com"}}`, "spec", `{"externalName":"example.com","sessionAffinity":"None","type":"ExternalName"}`},
		{"until it gets a new one", `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`, "spec.clusterIP", `"10.96.1.1"`},
	} {
		t.Log(tt.what)
		c.want(c.call("PUT", services+"/a", tt.body), tt.path, tt.want)
	}
	c.call("POST", services, `{"metadata":{"name":"asks"},"spec":{"type":"NodePort","clusterIP":"10.96.1.2","ports":[{"port":80,"nodePort":30089}]}}`)
	c.want(c.call("POST", services, `{"metadata":{"name":"next"},"spec":{"ports":[{"port":80}]}}`), "spec.clusterIP", `"10.96.1.3"`)
	c.want(c.call("POST", services, `{"metadata":{"name":"headless"},"spec":{"clusterIP":"None"}}`), "spec.ipFamilies", `["IPv4","IPv6"]`)
	for body, message := range map[string]string{
		`{"metadata":{"name":"r"},"spec":{"clusterIP":"10.96.1.2","ports":[{"port":80}]}}`:                    `failed to allocate IP 10.96.1.2: provided IP is already allocated`,
		`{"metadata":{"name":"r"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30089}]}}`:         `spec.ports[0].nodePort: Invalid value: 30089: provided port is already allocated`,
		`{"metadata":{"name":"r"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":80}]}}`:            `The range of valid ports is 30000-32767`,
		`{"metadata":{"name":"r"},"spec":{"ipFamilyPolicy":"RequireDualStack","ports":[{"port":80}]}}`:        `this cluster is not configured for dual-stack services`,
		`{"metadata":{"name":"r"},"spec":{"ipFamilies":["IPv6"],"clusterIP":"fd00::1","ports":[{"port":1}]}}`: `spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster`,
	} {
		if code, answer := c.send("POST", services, body); code != 422 || !strings.Contains(string(answer), message) {
			t.Errorf("%s: got %d %s, want the message %q", body, code, answer, message)
		}
	}
}

func TestWhatTheServerSets(t *testing.T) {
	c := caller{t, New(Options{DisableGarbageCollector: true})}
	const template = `"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b"}]}}`
	pods, sets := "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/daemonsets"

	pod := c.call("POST", pods, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	c.want(pod, "spec.priority", `0`)
	c.want(pod, "spec.preemptionPolicy", `"PreemptLowerPriority"`)
	c.want(pod, "spec.serviceAccountName", `null`)
	c.want(pod, "status", `{"phase":"Pending","qosClass":"BestEffort"}`)
	if items, _ := c.call("GET", pods+"?fieldSelector=status.phase%3DPending", "").Get("items").([]any); len(items) != 1 {
		t.Errorf("%d pods are pending, want 1", len(items))
	}
	if fields := string(pod.View("metadata.managedFields")); strings.Contains(fields, "f:priority") || !strings.Contains(fields, "f:dnsPolicy") {
		t.Errorf("the creator has the defaults, and not what plugins set: %s", fields)
	}
	c.want(c.call("PATCH", pods+"/a", `{"spec":{"activeDeadlineSeconds":5}}`), "metadata.generation", `2`)
	if code, answer := c.send("POST", pods, `{"metadata":{"name":"b"},"spec":{"priorityClassName":"none","containers":[{"name":"a","image":"b"}]}}`); code != 403 || !strings.Contains(string(answer), "no PriorityClass with name none was found") {
		t.Errorf("a class that there is not: %d %s", code, answer)
	}
	c.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"usual"},"value":7,"globalDefault":true}`)
	c.want(c.call("POST", pods, `{"metadata":{"name":"c"},"spec":{"containers":[{"name":"a","image":"b"}]}}`), "spec.priorityClassName", `"usual"`)

	job := c.call("POST", "/apis/batch/v1/namespaces/default/jobs", `{"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"b"}]}}}}`)
	uid := job.String("metadata.uid")
	c.want(job, "spec.selector", `{"matchLabels":{"batch.kubernetes.io/controller-uid":"`+uid+`"}}`)
	c.want(job, "metadata.labels", `{"batch.kubernetes.io/controller-uid":"`+uid+`","batch.kubernetes.io/job-name":"j","controller-uid":"`+uid+`","job-name":"j"}`)

	c.want(c.call("POST", sets, `{"metadata":{"name":"d"},"spec":{`+template+`}}`), "metadata.annotations", `{"deprecated.daemonset.template.generation":"1"}`)
	c.want(c.call("PATCH", sets+"/d", `{"spec":{"minReadySeconds":1}}`), "metadata.annotations", `{"deprecated.daemonset.template.generation":"1"}`)
	changed := c.call("PATCH", sets+"/d", `{"spec":{"template":{"spec":{"hostname":"h"}}}}`)
	c.want(changed, "metadata.annotations", `{"deprecated.daemonset.template.generation":"2"}`)
	c.want(changed, "metadata.generation", `3`)
	c.want(c.call("POST", "/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"d"},"spec":{`+template+`}}`), "status", `{}`)
	c.want(c.call("PATCH", "/apis/apps/v1/namespaces/default/deployments/d", `{"metadata":{"annotations":{"a":"b"}}}`), "metadata.generation", `2`)

	node := c.call("POST", "/api/v1/nodes", `{"metadata":{"name":"n"},"status":{"capacity":{"cpu":"4"}}}`)
	c.want(node, "spec.taints", `[{"effect":"NoSchedule","key":"node.kubernetes.io/not-ready"}]`)
	c.want(node, "status.allocatable", `{"cpu":"4"}`)
}

// TestStorageInUse deletes claims and volumes. They remain as long as they are in use, and permanently without controllers.
func TestStorageInUse(t *testing.T) {
	const claims, pods, volumes = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/namespaces/default/pods", "/api/v1/persistentvolumes"
	for _, disabled := range []bool{false, true} {
		c := caller{t, New(Options{DisableGarbageCollector: disabled})}
		gone := func(path string, want bool) {
			t.Helper()
			if code, _ := c.send("GET", path, ""); (code == 404) != want {
				t.Errorf("without controllers %v: GET %s is answered with %d", disabled, path, code)
			}
		}
		for _, name := range []string{"used", "free"} {
			claim := c.call("POST", claims, `{"metadata":{"name":"`+name+`"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
			c.want(claim, "metadata.finalizers", `["kubernetes.io/pvc-protection"]`)
			c.want(claim, "status", `{"phase":"Pending"}`)
		}
		c.call("POST", pods, `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"a","image":"b"}],"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"used"}}]}}`)
		c.call("DELETE", claims+"/used", "")
		c.call("DELETE", claims+"/free", "")
		gone(claims+"/used", false)
		gone(claims+"/free", !disabled)
		c.call("DELETE", pods+"/p", "")
		gone(claims+"/used", !disabled)

		c.call("POST", volumes, `{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/a"}}}`)
		c.call("PATCH", volumes+"/v/status", `{"status":{"phase":"Bound"}}`)
		c.call("DELETE", volumes+"/v", "")
		gone(volumes+"/v", false)
		c.call("PATCH", volumes+"/v/status", `{"status":{"phase":"Released"}}`)
		gone(volumes+"/v", !disabled)
	}
}

func TestDefaultClasses(t *testing.T) {
	c := caller{t, New(Options{})}
	const claims, ingresses = "/api/v1/namespaces/default/persistentvolumeclaims", "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
	const backend = `"defaultBackend":{"service":{"name":"a","port":{"number":80}}}`
	c.want(c.call("POST", ingresses, `{"metadata":{"name":"a"},"spec":{`+backend+`}}`), "spec.ingressClassName", `null`)
	c.call("POST", "/apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"s","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"example.com/p"}`)
	c.call("POST", "/apis/networking.k8s.io/v1/ingressclasses", `{"metadata":{"name":"i","annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}},"spec":{"controller":"example.com/c"}}`)
	for name, want := range map[string]string{`"storageClassName":"",`: `""`, "": `"s"`} {
		claim := c.call("POST", claims, `{"metadata":{"generateName":"c"},"spec":{`+name+`"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
		c.want(claim, "spec.storageClassName", want)
	}
	c.want(c.call("POST", ingresses, `{"metadata":{"name":"b"},"spec":{`+backend+`}}`), "spec.ingressClassName", `"i"`)
	c.want(c.call("POST", ingresses, `{"metadata":{"name":"c","annotations":{"kubernetes.io/ingress.class":"x"}},"spec":{`+backend+`}}`), "spec.ingressClassName", `null`)
}

func TestServiceAccounts(t *testing.T) {
	c := caller{t, New(Options{})}
	const accounts = "/api/v1/namespaces/made/serviceaccounts"
	c.call("POST", "/api/v1/namespaces", `{"metadata":{"name":"made"}}`)
	first := c.call("GET", accounts+"/default", "").String("metadata.uid")
	c.call("DELETE", accounts+"/default", "")
	if again := c.call("GET", accounts+"/default", "").String("metadata.uid"); again == first {
		t.Error("the account that was deleted is there")
	}
	pod := c.call("POST", "/api/v1/namespaces/made/pods", `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	c.want(pod, "spec.serviceAccountName", `"default"`)
	mounts, _ := rawjson.AsMap(pod.Get("spec.containers").([]any)[0])["volumeMounts"].([]any)
	if len(mounts) != 1 {
		t.Errorf("the container has the mounts %v, want that of the token", mounts)
	}
	c.call("DELETE", "/api/v1/namespaces/made", "")
	if code, _ := c.send("GET", "/api/v1/namespaces/made", ""); code != 404 {
		t.Errorf("the namespace is there: %d", code)
	}
	bare := caller{t, New(Options{DisableGarbageCollector: true})}
	if code, _ := bare.send("GET", "/api/v1/namespaces/default/serviceaccounts/default", ""); code != 404 {
		t.Errorf("there is a service account without controllers: %d", code)
	}
}

func TestAutoscalerVersions(t *testing.T) {
	c := caller{t, New(Options{})}
	const older, newer = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	const target = `"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}`
	c.want(c.call("POST", older, `{"metadata":{"name":"a"},"spec":{`+target+`}}`), "spec.targetCPUUtilizationPercentage", `80`)
	c.want(c.call("PATCH", older+"/a", `{"spec":{"targetCPUUtilizationPercentage":50}}`), "spec", `{"minReplicas":1,"targetCPUUtilizationPercentage":50,`+target+`}`)
	c.want(c.call("GET", newer+"/a", ""), "spec", `{"minReplicas":1,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}],`+target+`}`)

	const pods, behavior = `{"type":"Pods","pods":{"metric":{"name":"p"},"target":{"type":"AverageValue","averageValue":"10"}}}`, `{"scaleUp":{"stabilizationWindowSeconds":5}}`
	before := c.call("POST", newer, `{"metadata":{"name":"b"},"spec":{"metrics":[`+pods+`],"behavior":`+behavior+`,`+target+`}}`)
	seen := c.call("GET", older+"/b", "")
	c.want(seen, "metadata.annotations", `{"autoscaling.alpha.kubernetes.io/metrics":"[{\"type\":\"Pods\",\"pods\":{\"metricName\":\"p\",\"targetAverageValue\":\"10\"}}]",
		"autoscaling.alpha.kubernetes.io/behavior":"{\"ScaleUp\":{\"StabilizationWindowSeconds\":5,\"SelectPolicy\":\"Max\",\"Policies\":[{\"Type\":\"Pods\",\"Value\":4,\"PeriodSeconds\":15},{\"Type\":\"Percent\",\"Value\":100,\"PeriodSeconds\":15}],\"Tolerance\":null},\"ScaleDown\":{\"StabilizationWindowSeconds\":null,\"SelectPolicy\":\"Max\",\"Policies\":[{\"Type\":\"Percent\",\"Value\":100,\"PeriodSeconds\":15}],\"Tolerance\":null}}"}`)
	c.call("PUT", older+"/b", string(seen))
	after := c.call("GET", newer+"/b", "")
	if diff := cmp.Diff(before.Get("spec"), after.Get("spec")); diff != "" {
		t.Errorf("a client of the first version has changed the spec (-before +after):\n%s", diff)
	}
	c.want(after, "metadata.annotations", `null`)
}

// TestLoadExports loads objects that were exported from another server.
func TestLoadExports(t *testing.T) {
	c := caller{t, New(Options{})}
	const service, job = "/api/v1/namespaces/default/services/kubernetes", "/apis/batch/v1/namespaces/default/jobs/j"
	for range 2 {
		if err := c.server.Apply([]byte(`
apiVersion: v1
kind: Service
metadata: {name: kubernetes, labels: {a: b}}
spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 443}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j, labels: {controller-uid: old, batch.kubernetes.io/controller-uid: old, job-name: j, batch.kubernetes.io/job-name: j}}
spec:
  selector: {matchLabels: {batch.kubernetes.io/controller-uid: old}}
  template:
    metadata: {labels: {controller-uid: old, batch.kubernetes.io/controller-uid: old, job-name: j, batch.kubernetes.io/job-name: j}}
    spec: {restartPolicy: Never, containers: [{name: a, image: b}]}
`)); err != nil {
			t.Fatal(err)
		}
		c.want(c.call("GET", service, ""), "metadata.labels", `{"a":"b"}`)
		c.want(c.call("GET", service, ""), "spec.clusterIPs", `["10.96.0.1"]`)
		object := c.call("GET", job, "")
		uid := object.String("metadata.uid")
		c.want(object, "spec.selector", `{"matchLabels":{"batch.kubernetes.io/controller-uid":"`+uid+`"}}`)
		c.want(object, "metadata.labels", `{"batch.kubernetes.io/controller-uid":"`+uid+`","batch.kubernetes.io/job-name":"j","controller-uid":"`+uid+`","job-name":"j"}`)
	}
}
