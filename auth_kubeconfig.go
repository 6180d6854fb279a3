package kopf

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/kubeconfig"
)

// This file makes a login of the kubeconfig that kubectl would use. It runs on the goroutine of the login.

// LoginWithKubeconfig logs in as kubectl does, with the current context of the kubeconfig: with certificates, tokens,
// passwords, or what an exec plugin gives. It returns nil where there is no kubeconfig. Errors name the files.
func LoginWithKubeconfig(ctx context.Context, l *Login) (*ConnectionInfo, error) {
	files := kubeconfig.Find(l.Kubeconfig)
	if len(files.Found) == 0 {
		if l.Kubeconfig != "" {
			return nil, &LoginError{Message: "kubeconfig: " + strings.Join(files.Missing, ", ")}
		}
		return nil, nil
	}
	from := "kubeconfig " + strings.Join(files.Found, string(filepath.ListSeparator))
	config, err := kubeconfig.Read(files.Found)
	if e := (*kubeconfig.Error)(nil); errors.As(err, &e) {
		return nil, &LoginError{Message: strings.TrimSpace("kubeconfig " + e.File), Err: e.Err}
	}
	info, err := login(ctx, l, config)
	if err != nil {
		return nil, &LoginError{Message: from, Err: err}
	}
	return info, nil
}

// login makes the connection information of a context.
func login(ctx context.Context, l *Login, k *kubeconfig.Config) (*ConnectionInfo, error) {
	chosen, err := k.Choose(l.Context)
	if err != nil {
		return nil, err
	}
	cluster := chosen.Cluster
	info := &ConnectionInfo{
		Server: cluster.Server, TLSServerName: cluster.TLSServerName, Insecure: cluster.Insecure, ProxyURL: cluster.ProxyURL,
		DefaultNamespace: chosen.Namespace, TrustEnv: l.TrustEnv, Priority: kubeconfigPriority,
	}
	info.CAFile, info.CAData = dataOrFile(cluster.CAFile, cluster.CAData)
	if err := addUser(ctx, l, info, &chosen); err != nil {
		return nil, fmt.Errorf("the user %q: %w", chosen.UserName, err)
	}
	if !strings.Contains(info.Server, "://") { // as kubectl completes it
		scheme := "http://"
		if info.Insecure || info.CAFile != "" || len(info.CAData) > 0 || info.hasCertificate() {
			scheme = "https://"
		}
		info.Server = scheme + info.Server
	}
	return info, info.validate()
}

// dataOrFile returns the file of something, or its data, which win.
func dataOrFile(file, data string) (string, []byte) {
	if data != "" {
		return "", []byte(data)
	}
	return file, nil
}

// addUser adds the credentials of a user.
func addUser(ctx context.Context, l *Login, info *ConnectionInfo, chosen *kubeconfig.Choice) error {
	u := chosen.User
	info.CertificateFile, info.CertificateData = dataOrFile(u.CertificateFile, u.CertificateData)
	info.KeyFile, info.KeyData = dataOrFile(u.KeyFile, u.KeyData)
	info.Token, info.TokenFile = u.Token, u.TokenFile
	info.Username, info.Password = u.Username, u.Password
	info.ImpersonateUser, info.ImpersonateUID = u.As, u.AsUID
	info.ImpersonateGroups, info.ImpersonateExtra = u.AsGroups, u.AsUserExtra
	known := u.Token != "" || u.TokenFile != "" || u.Username != ""
	if u.AuthProvider != nil && !known {
		info.Token = u.AuthProvider.Config["access-token"]
		l.logger().Warn("auth-provider is no longer supported; only its access token is used, as it is",
			"provider", u.AuthProvider.Name, "token", info.Token != "")
	}
	if u.Exec == nil || known { // as in kubectl, what is written down comes first
		return nil
	}
	return addPlugin(ctx, l, info, chosen)
}

// addPlugin runs the exec plugin of a user and adds the credentials that it returns.
func addPlugin(ctx context.Context, l *Login, info *ConnectionInfo, chosen *kubeconfig.Choice) error {
	plugin := chosen.User.Exec
	interactive, err := plugin.Check()
	if err != nil {
		return err
	}
	var cluster *kubeconfig.ExecCluster
	if plugin.ProvideClusterInfo {
		ca, err := info.authorities()
		if err != nil {
			return err
		}
		cluster = &kubeconfig.ExecCluster{
			Server: info.Server, TLSServerName: info.TLSServerName, Insecure: info.Insecure,
			CAData: base64.StdEncoding.EncodeToString(ca), ProxyURL: info.ProxyURL, Config: chosen.Cluster.ExecExtension(),
		}
	}
	started := time.Now()
	status, err := plugin.Credentials(ctx, cluster, interactive)
	if err != nil {
		return err
	}
	l.logger().Debug("the exec plugin has given credentials", "command", plugin.Command, "took", time.Since(started))
	info.Token = status.Token
	if status.CertificateData != "" {
		info.CertificateFile, info.CertificateData = "", []byte(status.CertificateData)
		info.KeyFile, info.KeyData = "", []byte(status.KeyData)
	}
	if status.Expiration != nil {
		info.Expiration = *status.Expiration
	}
	return nil
}
