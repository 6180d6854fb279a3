package e2e

import "testing"

// TestPaths compares the responses to rare paths, methods and parameters.
func TestPaths(t *testing.T) {
	const (
		ns      = "/api/v1/namespaces/paths"
		cm      = ns + "/configmaps"
		initial = cm + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=1"
	)
	calls := []call{
		{"POST", "/api/v1/namespaces", asJSON, `{"metadata":{"name":"paths"}}`, nil},
		{"POST", cm, asJSON, `{"metadata":{"name":"a"}}`, nil},
	}
	for _, path := range []string{
		"/version/", "/version", "/api", "/apis", "/api/v1", "/api/v2", "/apis/apps", "/apis/apps/v1", "/apis/apps/v2", "/apis/apps/v1/nothing", "/apis/apps/v2/deployments",
		"/apis/apps/v1/namespaces/paths", "/apis/unknown.example.com", "/apis/unknown.example.com/v1", "/apis/unknown.example.com/v1/nothing", "/api/v1/bindings", "/api/v1/bindings/a", cm + "/a/b/c", cm + "/a/status",
		ns + "/bindings/a", "/apis/authentication.k8s.io/v1/tokenreviews/a", "/apis/authorization.k8s.io/v1/localsubjectaccessreviews", "/api/v1/configmaps/a", "/apis/apps/v1/deployments/a/scale",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			calls = append(calls, call{method, path, "", "", []string{"message", "reason", "kind"}})
		}
		calls = append(calls, call{"HEAD", path, "", "", []string{onlyCode}})
	}
	for _, name := range []string{"%2e", "%2e%2e", "a%25b", "a%2Fb", "A", "%C3%A9", "a%20b"} {
		for _, method := range []string{"GET", "DELETE"} {
			calls = append(calls, call{method, cm + "/" + name, "", "", []string{"message"}})
		}
		calls = append(calls, call{"PATCH", cm + "/" + name, asMerge, `{}`, []string{"message"}})
	}
	for _, query := range []string{"limit=", "limit=x", "limit=1.5", "limit=99999999999999999999", "timeoutSeconds=", "timeoutSeconds=99999999999999999999"} {
		calls = append(calls, call{"GET", cm + "?" + query, "", "", []string{"message"}}, call{"GET", initial + "&" + query, "", "", []string{"message"}})
	}
	for _, query := range []string{"", "&resourceVersion=0", "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", "&fieldSelector=metadata.name=none"} {
		calls = append(calls, call{"GET", initial + query, "", "", []string{"type", "object.metadata.annotations"}})
	}
	for _, body := range []string{`{"apiVersion":5,"metadata":{"name":"b"}}`, `{"kind":5,"metadata":{"name":"b"}}`, `{"kind":{},"metadata":{"name":"b"}}`} {
		calls = append(calls, call{"POST", cm, asJSON, body, []string{onlyCode}}, call{"PUT", cm + "/a", asJSON, body, []string{onlyCode}})
	}
	calls = append(calls, call{"POST", cm, asJSON, `{"metadata":{"name":"b","generation":-1}}`, []string{causes}})
	for _, patch := range []string{`{"kind":"Secret"}`, `{"kind":5}`, `{"kind":null}`, `{"apiVersion":"v2"}`, `{"apiVersion":""}`} {
		calls = append(calls, call{"PATCH", cm + "/a?dryRun=All", "application/strategic-merge-patch+json", patch, []string{onlyCode}})
	}
	calls = append(calls, call{"PATCH", cm + "/a", "application/strategic-merge-patch+json", `{"metadata":{"managedFields":[]},"data":{"a":"b"}}`, []string{"metadata.managedFields"}})
	compareSequences(t, judge(t, plainCluster(t)), []sequence{{"paths", calls}})
}
