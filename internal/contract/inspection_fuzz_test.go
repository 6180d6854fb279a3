package contract

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kopf-go/kopf"
)

// FuzzStatusObjects runs the commands for objects with arbitrary annotations, statuses, names and finalizers. They succeed, and print no control
// characters for terminals.
func FuzzStatusObjects(f *testing.F) {
	f.Add("a", "kopf.zalando.org/create", `{"started":"2020-01-01T00:00:00Z","retries":1,"success":false,"failure":true,"message":"oops"}`, `{"spec":{}}`, []byte(`{"kopf":{"progress":{"create":{}}}}`), false)
	f.Add("\x1b[2J", "\x1b]0;x\a/kopf-managed", "\x9b", "{", []byte(`{"conditions":[{"type":"Ready","status":"False","reason":"\u001b[31m","message":"\u0000\u009b"}, 5, null]}`), true)
	f.Add("b", "my.example.com/kopf-managed", "yes", `[]`, []byte(`[]`), true)
	f.Add("c", "kopf.zalando.org/x", `{"message":"\u001b[31m","delayed":"9999-12-31T23:59:59Z","started":null,"subrefs":["create","x/y","\u0000"],"retries":1e99}`, `{"metadata":5,"spec":[1]}`, []byte(`{"kopf":{"progress":{"\u001b":{"message":5},"x":[]},"last-handled-configuration":"{}"}}`), false)
	f.Add("d", "kopf.zalando.org/handling-state", `{"message":"none 5 5 {}"}`, `null`, []byte(`null`), true)
	server := newServer(f)
	base := server.ConnectionInfo()
	f.Fuzz(func(t *testing.T, name, key, value, essence string, status []byte, deleting bool) {
		if !json.Valid(status) || !utf8.Valid(status) {
			t.Skip("no JSON")
		}
		meta := map[string]any{"name": name, "namespace": leafNamespace, "uid": key, "resourceVersion": "5", "finalizers": []string{key}, "creationTimestamp": value,
			"annotations": map[string]string{key: value, "kopf.zalando.org/create": value, diffBase: essence, "my.example.com/kopf-managed": "yes", "my.example.com/last-handled-configuration": essence}}
		if deleting {
			meta["deletionTimestamp"] = "2020-01-01T00:00:00Z"
		}
		object := map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": meta, "spec": map[string]any{key: value}, "status": json.RawMessage(status)}
		info := *base
		c := &C{TB: t, Namespace: leafNamespace, judge: &Judge{}, info: &info}
		l := c.listing(1, func(int) any { return object })
		single := tripper(func(req *http.Request) (*http.Response, error) {
			if strings.HasSuffix(req.URL.Path, "/kopfexamples/x") {
				resp := Answer(http.StatusOK, "", "")
				return withBody(resp, encoded(object)), nil
			}
			return l.RoundTrip(req)
		})
		info.HTTPClient = &http.Client{Transport: single}
		logger := slog.Default()
		defer slog.SetDefault(logger)
		for _, r := range []*kopf.Registry{c.one(), c.handlersFor(nil)} {
			for _, args := range []string{"status kex", "status kex -o wide", "status kex -o json", "status kex -o yaml", "status kex --failed", "explain kex x", "explain kex x -o json", "explain kex x --event deleted"} {
				code, stdout, stderr := c.inspect(t.Context(), r, append(strings.Fields(args), "-n", leafNamespace)...)
				if code != 0 {
					t.Fatalf("%s: got the exit code %d: %s", args, code, stderr)
				}
				c.plain(stdout + stderr)
			}
		}
	})
}
