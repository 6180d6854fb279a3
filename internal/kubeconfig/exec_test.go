package kubeconfig

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzExecCredential parses the output of a plugin. Errors must not contain it, because it can be a secret.
func FuzzExecCredential(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"hunter2hunter2"}}`))
	f.Add([]byte(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":["hunter2hunter2"]}}`))
	f.Add([]byte(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientKeyData":"hunter2hunter2","expirationTimestamp":"hunter2hunter2"}}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Secret","status":{"token":"hunter2hunter2"}}`))
	f.Add([]byte("hunter2hunter2"))
	f.Fuzz(func(t *testing.T, output []byte) {
		e := &ExecConfig{APIVersion: execGroup + "v1"}
		status, err := e.parse(output)
		if err == nil && status.Token == "" && (status.CertificateData == "" || status.KeyData == "") {
			t.Errorf("%q gives no credentials and no error", output)
		}
		var kinds struct{ Kind, APIVersion string }
		_ = json.Unmarshal(output, &kinds) // without fields, there is nothing to check
		if err != nil && strings.Contains(err.Error(), "hunter2") && !strings.Contains(kinds.Kind+kinds.APIVersion, "hunter2") {
			t.Errorf("%q is told: %v", output, err)
		}
	})
}

func TestExecCredentialDepth(t *testing.T) {
	for _, nested := range []string{"[", `{"a":`} {
		if _, err := (&ExecConfig{}).parse([]byte(strings.Repeat(nested, 100_000))); err == nil {
			t.Errorf("a hundred thousand %s are taken", nested)
		}
	}
}
