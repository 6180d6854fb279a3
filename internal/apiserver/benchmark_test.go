package apiserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// deploymentText is a realistic deployment, with a placeholder for its name.
const deploymentText = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web-%d", "labels": {"app": "web"}},
	"spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{
		"name": "web", "image": "example.com/web:1.2.3", "ports": [{"containerPort": 8080, "name": "http"}],
		"env": [{"name": "MODE", "value": "fast"}, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
		"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
		"readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}}, "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}]
	}], "volumes": [{"name": "config", "configMap": {"name": "web"}}]}}}}`

// BenchmarkBuiltin writes objects of a built-in kind, which the server decodes by their type and completes with defaults.
func BenchmarkBuiltin(b *testing.B) {
	const path = "/apis/apps/v1/namespaces/default/deployments"
	request := func(b *testing.B, s *Server, method, path, media, body string, code int) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", media)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != code {
			b.Fatalf("%s %s: got %d, want %d: %s", method, path, w.Code, code, w.Body)
		}
	}
	b.Run("create", func(b *testing.B) {
		s := New(Options{})
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			request(b, s, http.MethodPost, path, "application/json", fmt.Sprintf(deploymentText, n), 201)
		}
	})
	b.Run("update", func(b *testing.B) {
		s := New(Options{})
		request(b, s, http.MethodPost, path, "application/json", fmt.Sprintf(deploymentText, 0), 201)
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			body := strings.Replace(fmt.Sprintf(deploymentText, 0), `"replicas": 3`, fmt.Sprintf(`"replicas": %d`, n%7+1), 1)
			request(b, s, http.MethodPut, path+"/web-0", "application/json", body, 200)
		}
	})
	b.Run("patch", func(b *testing.B) {
		s := New(Options{})
		request(b, s, http.MethodPost, path, "application/json", fmt.Sprintf(deploymentText, 0), 201)
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			body := fmt.Sprintf(`{"metadata": {"annotations": {"n": "%d"}}}`, n)
			request(b, s, http.MethodPatch, path+"/web-0", "application/merge-patch+json", body, 200)
		}
	})
}
