package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/kopf-go/kopf"
)

// This file creates users with few permissions, for tests of missing permissions.

// Rule is a permission of a user, as in a ClusterRole.
type Rule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// User is a user with a client certificate and permissions.
type User struct {
	Name       string
	Kubeconfig string // the path of a kubeconfig
	// ConnectionInfo is the user's connection.
	ConnectionInfo *kopf.ConnectionInfo
}

// NewUser creates a user with the given permissions in the whole cluster. Without rules, the user has the permissions of all authenticated users. If the
// user exists, the new permissions replace the old ones.
func (c *Cluster) NewUser(ctx context.Context, name string, rules ...Rule) (*User, error) {
	id, err := c.ca.Issue(name, nil, false, validity)
	if err != nil {
		return nil, err
	}
	user := &User{Name: name, Kubeconfig: c.path(name + ".kubeconfig"), ConnectionInfo: &kopf.ConnectionInfo{
		Server: c.url, CAData: c.CA(), CertificateData: id.Cert, KeyData: kopf.Secret(id.Key),
	}}
	if err := os.WriteFile(user.Kubeconfig, id.kubeconfig(c.url, c.ca), 0o600); err != nil {
		return nil, err
	}
	return user, c.SetRules(ctx, name, rules...)
}

// SetRules replaces the permissions of a user.
func (c *Cluster) SetRules(ctx context.Context, name string, rules ...Rule) error {
	const group = "/apis/rbac.authorization.k8s.io/v1/"
	if rules == nil {
		rules = []Rule{}
	}
	metadata := map[string]any{"name": "user-" + name}
	role := map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules,
	}
	binding := map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "user-" + name},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}},
	}
	return errors.Join(c.put(ctx, group+"clusterroles", role), c.put(ctx, group+"clusterrolebindings", binding))
}

// put creates or replaces an object.
func (c *Cluster) put(ctx context.Context, path string, object map[string]any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = c.Request(ctx, http.MethodPost, path, data)
	if status := (*StatusError)(nil); errors.As(err, &status) && status.Code == http.StatusConflict {
		_, err = c.Request(ctx, http.MethodPut, fmt.Sprintf("%s/%s", path, object["metadata"].(map[string]any)["name"]), data)
	}
	return err
}
