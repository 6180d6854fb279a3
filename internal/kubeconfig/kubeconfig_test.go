package kubeconfig

import "testing"

func TestTypeErrors(t *testing.T) {
	for text, want := range map[string]string{
		"contexts:\n- name: a\n  context: 5\n":              "contexts.context: object is expected, not number",
		"clusters:\n- name: a\n  cluster: {server: 5}\n":    "clusters.cluster.server: string is expected, not number",
		"users:\n- name: a\n  user:\n    exec: x\n":         "users.user.exec: object is expected, not string",
		"users:\n- name: a\n  user: {as-groups: x}\n":       "users.user.as-groups: list is expected, not string",
		"contexts: {name: a}\n":                             "contexts: list is expected, not object",
		"clusters:\n- cluster: {extensions: [{name: 1}]}\n": "clusters.cluster.extensions.name: string is expected, not number",
	} {
		if _, err := Parse([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
