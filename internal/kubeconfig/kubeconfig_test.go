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

func TestFieldNames(t *testing.T) {
	c, err := Parse([]byte("current-context: a\nCurrent-Context: b\nusers: [{name: u, user: {token: right, Token: wrong}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.CurrentContext != "a" || c.Users[0].User.Token != "right" {
		t.Errorf("got the context %q and the token %q, want those with exact names", c.CurrentContext, c.Users[0].User.Token)
	}
	e := &ExecConfig{APIVersion: "client.authentication.k8s.io/v1"}
	status, err := e.parse([]byte(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"right","Token":"wrong"}}`))
	if err != nil || status.Token != "right" {
		t.Errorf("got %+v, %v, want the token of the exact name", status, err)
	}
}
