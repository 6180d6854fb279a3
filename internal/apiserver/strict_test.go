package apiserver

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

// TestDecodingOfWebhookPatches has a webhook add unknown fields. The server drops them before it fills in defaults, as it does with fields from
// clients. The volume has no source then, and gets the default one.
func TestDecodingOfWebhookPatches(t *testing.T) {
	patch := base64.StdEncoding.EncodeToString([]byte(`[{"op": "add", "path": "/spec/volumes/-", "value": {"name": "data", "source": {"kind": "none"}}}]`))
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct{ Request struct{ UID string } }
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
			"response": {"uid": %q, "allowed": true, "patchType": "JSONPatch", "patch": %q}}`, review.Request.UID, patch)
	}))
	defer hook.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	s := New(Options{})
	post := func(path, body string) string {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		if w.Code != 201 {
			t.Fatalf("%s: got %d: %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	post("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", fmt.Sprintf(`{"metadata": {"name": "volumes"}, "webhooks": [{
		"name": "volumes.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": %q, "caBundle": %q},
		"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]}`,
		hook.URL, base64.StdEncoding.EncodeToString(authority)))
	pod := post("/api/v1/namespaces/default/pods", `{"metadata": {"name": "one"}, "spec": {"containers": [{"name": "main", "image": "main"}]}}`)
	if want := `{"emptyDir":{},"name":"data"}`; !strings.Contains(pod, want) {
		t.Errorf("got %s, want the volume %s in it", pod, want)
	}
}
