package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Kinds without an effect on the embedded server have the same responses as on the real one.

// servedObjects are objects of such kinds, and a change of each. Those of resource.k8s.io are for drivers of devices.
var servedObjects = []struct{ collection, name, object, change string }{
	{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "a",
		`{"spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}]}, "validations": [{"expression": "true"}]}}`,
		`{"spec": {"failurePolicy": "Ignore"}}`},
	{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", "a", `{"spec": {"policyName": "none", "validationActions": ["Deny"]}}`, `{"spec": {"validationActions": ["Warn"]}}`},
	{"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", "a",
		`{"spec": {"failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}]},
			"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}]}}`, `{"spec": {"failurePolicy": "Ignore"}}`},
	{"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings", "a", `{"spec": {"policyName": "none"}}`, `{"spec": {"policyName": "other"}}`},
	{"/apis/apiregistration.k8s.io/v1/apiservices", "v1.served.example.com",
		`{"spec": {"group": "served.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true, "service": {"name": "a", "namespace": "default"}}}`,
		`{"spec": {"versionPriority": 10}}`},
	{"/apis/certificates.k8s.io/v1/certificatesigningrequests", "a", `{"spec": {"request": "` + signingRequest + `", "signerName": "example.com/s", "usages": ["client auth"]}}`, `{"metadata": {"labels": {"a": "b"}}}`},
	{"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "a", `{"spec": {"priorityLevelConfiguration": {"name": "workload-low"}, "matchingPrecedence": 500}}`, `{"spec": {"matchingPrecedence": 600}}`},
	{"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", "a", `{"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}}`, `{"spec": {"limited": {"nominalConcurrencyShares": 2}}}`},
	{"/apis/networking.k8s.io/v1/ipaddresses", "10.0.0.77", `{"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "a"}}}`, `{"metadata": {"labels": {"a": "b"}}}`},
	{"/apis/networking.k8s.io/v1/servicecidrs", "a", `{"spec": {"cidrs": ["10.9.0.0/16"]}}`, `{"metadata": {"labels": {"a": "b"}}}`},
	{"/apis/resource.k8s.io/v1/deviceclasses", "a", `{"spec": {}}`, `{"spec": {"selectors": [{"cel": {"expression": "true"}}]}}`},
	{"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "a", `{"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}`, `{"metadata": {"labels": {"a": "b"}}}`},
	{"/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", "a", `{"spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}}`, `{"metadata": {"labels": {"a": "b"}}}`},
	{"/apis/resource.k8s.io/v1/resourceslices", "a", `{"spec": {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}}`, `{"spec": {"pool": {"generation": 2}}}`},
	{"/apis/storage.k8s.io/v1/csidrivers", "a.example.com", `{"spec": {"attachRequired": true}}`, `{"metadata": {"labels": {"a": "b"}}}`},
	{"/apis/storage.k8s.io/v1/csinodes", "a", `{"spec": {"drivers": [{"name": "a.example.com", "nodeID": "n"}]}}`, `{"metadata": {"labels": {"a": "b"}}}`},
	{"/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities", "a", `{"storageClassName": "a", "capacity": "1Gi"}`, `{"capacity": "2Gi"}`},
	{"/apis/storage.k8s.io/v1/volumeattachments", "a", `{"spec": {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}`, `{"metadata": {"labels": {"a": "b"}}}`},
	{"/apis/storage.k8s.io/v1/volumeattributesclasses", "a", `{"driverName": "d.example.com", "parameters": {"a": "b"}}`, `{"metadata": {"labels": {"a": "b"}}}`},
}

// signingRequest is a request for a certificate of the subject "a", without its key.
const signingRequest = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIR01HNENBUUF3RERFS01BZ0dBMVVFQXd3QllUQlpNQk1HQnlxR1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQQpCTzI4aVZuYjEyL0IrY3BJMUkxSzNMQnNwMm43VWtmVk5zaFpXYTcrSTJOMTJvcnB3MHhjaUNpcitXWTlRaDRQCm5ESkNIOFVTcUtZMjZDNUUwQzQ4QnBlZ0FEQUtCZ2dxaGtqT1BRUURBZ05JQURCRkFpQjBKQlByaDRUMnB2RlQKeGZUUjM2SUVBSGVabkpUSE9xcE02UlBoUVlhNTF3SWhBSlpOWkc2RllKekNWd1k1OUNjQVhyWTV6QnVZcmQzZwpSazc4NFFJRUlWL3YKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg=="

func servedSequences() []sequence {
	var all []sequence
	for _, kind := range servedObjects {
		plural := kind.collection[strings.LastIndex(kind.collection, "/")+1:]
		one := kind.collection + "/" + kind.name
		same := []string{"apiVersion", "kind", "metadata.generation", "metadata.labels", "metadata.finalizers", "spec", "storageClassName", "driverName", "parameters"}
		switch plural {
		case "certificatesigningrequests": // of different users
			same[slices.Index(same, "spec")] = "spec.usages"
		case "volumeattributesclasses": // a controller would remove their finalizer
			same[slices.Index(same, "metadata.finalizers")] = "metadata.name"
		}
		all = append(all, sequence{plural, []call{
			{"PUT", one, asJSON, named(kind.object, kind.name), nil},
			{"POST", kind.collection, asJSON, named(kind.object, kind.name), append([]string{"status"}, same...)},
			{"POST", kind.collection, asJSON, named(kind.object, kind.name), nil},
			{"PATCH", one, asMerge, kind.change, same},
			{"GET", one, "", "", same},
			{"PUT", one, asJSON, named(kind.object, kind.name), same},
			{"PATCH", one + "/status", asMerge, `{"metadata": {"annotations": {"a": "b"}}}`, []string{"metadata.annotations"}},
			{"DELETE", one + "?dryRun=All", asJSON, "", []string{"kind"}},
			{"PATCH", one, asMerge, `{"metadata": {"finalizers": null}}`, nil},
			{"DELETE", one, asJSON, "", []string{"kind"}},
			{"GET", one, "", "", nil},
		}})
	}
	all = append(all, sequence{"approvals", []call{
		{"POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", asJSON, `{"metadata": {"name": "b"}, "spec": {"request": "` + signingRequest + `", "signerName": "example.com/s", "usages": ["client auth"]}}`, []string{"spec.usages", "spec.signerName"}},
		{"PATCH", "/apis/certificates.k8s.io/v1/certificatesigningrequests/b/approval", asMerge,
			`{"status": {"certificate": "` + signingRequest + `", "conditions": [{"type": "Approved", "status": "True", "reason": "R", "message": "m", "lastUpdateTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}, "metadata": {"labels": {"a": "b"}}}`,
			[]string{"status.conditions", "status.certificate"}},
		{"GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests/b", "", "", []string{"status.conditions", "status.certificate"}},
		{"PATCH", "/apis/certificates.k8s.io/v1/certificatesigningrequests/b/approval", asMerge,
			`{"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Other", "message": "m", "lastUpdateTime": "2026-01-02T03:04:05Z", "lastTransitionTime": null}]}}`,
			[]string{"status.conditions"}},
		{"DELETE", "/apis/certificates.k8s.io/v1/certificatesigningrequests/b", asJSON, "", []string{"kind"}},
	}}, sequence{"what is deprecated", []call{
		{"GET", "/api/v1/namespaces/default/endpoints/none", "", "", []string{warnings}},
		{"GET", "/api/v1/namespaces/default/endpoints", "", "", []string{warnings, "kind"}},
		{"GET", "/api/v1/componentstatuses", "", "", []string{warnings, "kind"}},
		{"POST", "/api/v1/componentstatuses", asJSON, `{"metadata": {"name": "a"}}`, nil},
	}}, sequence{"tokens", []call{
		{"POST", "/api/v1/namespaces/default/serviceaccounts/none/token", asJSON, `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}`, nil},
	}})
	return all
}

func TestServedKinds(t *testing.T) {
	t.Parallel()
	real := judge(t, ownCluster(t, nil))
	compareSequences(t, real, servedSequences())
	t.Run("discovery", func(t *testing.T) {
		ours := embedded(t)
		read := func(e *endpoint, path string) map[string]any {
			t.Helper()
			got, err := e.send(t.Context(), &request{method: http.MethodGet, path: path, accept: "application/json"}, newSightings())
			if err != nil {
				t.Fatal(err)
			}
			document, _ := got.Body.(map[string]any)
			return document
		}
		versions := []string{"/api/v1"}
		for _, group := range byKey(read(real, "/apis")["groups"], "name") {
			for version := range byKey(group["versions"], "groupVersion") {
				versions = append(versions, "/apis/"+version)
			}
		}
		for _, path := range versions {
			got := byKey(read(ours, path)["resources"], "name")
			for name := range byKey(read(real, path)["resources"], "name") {
				if got[name] == nil && !notServed[path+" "+name] {
					t.Errorf("%s %s is not served", path, name)
				}
			}
		}
	})
}

// notServed are the resources of the real server that require a node, or that proxy requests.
var notServed = map[string]bool{
	"/api/v1 nodes/proxy": true, "/api/v1 services/proxy": true, "/api/v1 pods/proxy": true, "/api/v1 pods/attach": true, "/api/v1 pods/exec": true,
	"/api/v1 pods/portforward": true, "/api/v1 pods/ephemeralcontainers": true, "/api/v1 pods/resize": true,
	"/apis/autoscaling/v1 horizontalpodautoscalers": true, "/apis/autoscaling/v1 horizontalpodautoscalers/status": true,
}
