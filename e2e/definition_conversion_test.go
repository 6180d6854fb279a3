package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestDefinitionConversion has both servers convert objects by the same webhook.
func TestDefinitionConversion(t *testing.T) {
	t.Parallel()
	for _, review := range []string{"v1", "v1beta1"} {
		t.Run(review, func(t *testing.T) {
			webhook := httptest.NewTLSServer(http.HandlerFunc(convertHosts))
			defer webhook.Close()
			authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})
			definition := strings.NewReplacer("URL", webhook.URL+"/convert", "REVIEW", review, "CA", base64.StdEncoding.EncodeToString(authority)).Replace(hostsDefinition)
			sequences := []sequence{{"versions", append([]call{{"POST", definitionsPath, asJSON, definition, []string{"spec.names"}}}, hostCalls...)}}
			for _, way := range []string{"refuse", "silent", "few", "name", "namespace", "version", "kind", "labels", "number", "text", "metadata", "unknown", "review"} {
				sequences = append(sequences, sequence{"a webhook that is wrong: " + way, []call{
					{"POST", hostsV1, asJSON, aHost("v1", "wrong", way, `{"hostPort": "a:1"}`), []string{"spec"}},
					{"GET", hostsV2 + "/wrong", "", "", []string{"spec", "metadata.labels", "metadata.annotations", "metadata.finalizers"}},
					{"DELETE", hostsV2 + "/wrong", "", "", []string{"status"}},
					{"DELETE", hostsV1, "", "", []string{"kind"}},
				}})
			}
			compareSequences(t, judge(t, ownCluster(t, nil)), sequences)
		})
	}
}

const hostsV1, hostsV2 = "/apis/example.com/v1/namespaces/default/hosts", "/apis/example.com/v2/namespaces/default/hosts"

const hostsDefinition = `{"metadata": {"name": "hosts.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
	"names": {"plural": "hosts", "singular": "host", "kind": "Host", "listKind": "HostList"},
	"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v7", "REVIEW"], "clientConfig": {"url": "URL", "caBundle": "CA"}}},
	"versions": [
		{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
			"spec": {"type": "object", "properties": {"hostPort": {"type": "string"}, "size": {"type": "integer", "default": 1}}},
			"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}},
		{"name": "v2", "served": true, "storage": false, "subresources": {"status": {}}, "selectableFields": [{"jsonPath": ".spec.port"}], "schema": {"openAPIV3Schema": {"type": "object", "properties": {
			"spec": {"type": "object", "properties": {"host": {"type": "string"}, "port": {"type": "string"}, "size": {"type": "integer"}, "more": {"type": "string", "default": "m"}}},
			"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}
	]}}`

// aHost returns an object whose label selects an error of the webhook.
func aHost(version, name, way, spec string) string {
	return fmt.Sprintf(`{"apiVersion": "example.com/%s", "kind": "Host", "metadata": {"name": %q, "labels": {"way": %q}}, "spec": %s}`, version, name, way, spec)
}

var hostSame = []string{"apiVersion", "spec", "status", "metadata.generation", "metadata.labels"}

var hostCalls = []call{
	{"GET", hostsV2, "", "", []string{"kind", settles}},
	{"POST", hostsV1, asJSON, aHost("v1", "a", "", `{"hostPort": "a:1"}`), hostSame},
	{"GET", hostsV2 + "/a", "", "", hostSame},
	{"POST", hostsV2, asJSON, aHost("v2", "b", "", `{"host": "b", "port": "2", "nope": 1}`), append(hostSame, warnings)},
	{"POST", hostsV2, asJSON, aHost("v2", "b", "refuse", `{"host": "b", "port": "2"}`), hostSame},
	{"POST", hostsV2 + "?dryRun=All", asJSON, aHost("v2", "dry", "", `{"host": "b", "port": "2"}`), hostSame},
	{"GET", hostsV1 + "/b", "", "", hostSame},
	{"PATCH", hostsV2 + "/a", asMerge, `{"spec": {"port": "3"}}`, hostSame},
	{"PATCH", hostsV2 + "/a", "application/json-patch+json", `[{"op": "replace", "path": "/spec/host", "value": "c"}]`, hostSame},
	{"PATCH", hostsV1 + "/a", asMerge, `{"spec": {"size": 2}}`, hostSame},
	{"PATCH", hostsV2 + "/a/status", asMerge, `{"status": {"ready": true}}`, hostSame},
	{"GET", hostsV1 + "/a", "", "", hostSame},
	{"PUT", hostsV2 + "/a", asJSON, aHost("v2", "a", "", `{"host": "c"}`), hostSame},
	{"PATCH", hostsV2 + "/c?fieldManager=m", asApply, aHost("v2", "c", "", `{"host": "c", "port": "5"}`), hostSame},
	{"PATCH", hostsV2 + "/c?fieldManager=m", asApply, aHost("v2", "c", "", `{"host": "c", "port": "6"}`), hostSame},
	{"GET", hostsV1 + "/c", "", "", hostSame},
	{"GET", hostsV2 + "?fieldSelector=spec.port%3D6", "", "", []string{"apiVersion", "kind"}},
	{"GET", hostsV1 + "?fieldSelector=spec.port%3D6", "", "", nil},
	{"GET", hostsV2, "", "", []string{"apiVersion", "kind"}},
	{"PATCH", hostsV1 + "/a", asMerge, `{"metadata": {"finalizers": ["example.com/f"]}}`, hostSame},
	{"DELETE", hostsV2 + "/a", "", "", hostSame},
	{"PATCH", hostsV2 + "/a", asMerge, `{"metadata": {"finalizers": null}}`, hostSame},
	{"DELETE", hostsV2, "", "", []string{"kind"}},
	{"GET", hostsV1 + "/b", "", "", nil},
}

// convertHosts is a webhook that splits the field hostPort of version v1 into host and port of version v2.
func convertHosts(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion string
		Request    struct {
			UID, DesiredAPIVersion string
			Objects                []map[string]any
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := map[string]any{"uid": review.Request.UID, "result": map[string]any{"status": "Success"}}
	answer := map[string]any{"kind": "ConversionReview", "apiVersion": review.APIVersion, "response": response}
	for _, object := range review.Request.Objects {
		object["apiVersion"] = review.Request.DesiredAPIVersion
		spec, _ := object["spec"].(map[string]any)
		delete(spec, "more")
		if host, port, ok := strings.Cut(fmt.Sprint(spec["hostPort"]), ":"); ok && review.Request.DesiredAPIVersion == "example.com/v2" {
			spec["host"], spec["port"] = host, port
			delete(spec, "hostPort")
		} else if spec["host"] != nil {
			spec["hostPort"] = fmt.Sprint(spec["host"], ":", spec["port"])
			delete(spec, "host")
			delete(spec, "port")
		}
		meta, _ := object["metadata"].(map[string]any)
		labels, _ := meta["labels"].(map[string]any)
		convertWrongly(answer, object, fmt.Sprint(labels["way"]))
	}
	if response["convertedObjects"] == nil {
		response["convertedObjects"] = review.Request.Objects
	}
	_ = json.NewEncoder(w).Encode(answer) // ignore a disconnected client
}

// convertWrongly makes a response invalid in one way.
func convertWrongly(answer, object map[string]any, way string) {
	response, meta := answer["response"].(map[string]any), object["metadata"].(map[string]any)
	switch way {
	case "refuse":
		response["result"] = map[string]any{"status": "Failure", "message": "no such host"}
	case "silent":
		response["result"] = map[string]any{"status": "Failure"}
	case "few":
		response["convertedObjects"] = []any{}
	case "name", "namespace":
		meta[way] = "other"
	case "version":
		object["apiVersion"] = "example.com/v3"
	case "kind":
		object["kind"] = "Other"
	case "labels":
		meta["labels"] = map[string]any{"a b": "c"}
	case "number":
		meta["labels"] = map[string]any{"a": 1}
	case "text":
		meta["annotations"] = "a"
	case "metadata":
		meta["finalizers"], meta["annotations"] = []any{"example.com/f"}, map[string]any{"a": "b"}
	case "unknown":
		object["spec"].(map[string]any)["unknown"] = true
	case "review":
		answer["kind"] = "Review"
	}
}
