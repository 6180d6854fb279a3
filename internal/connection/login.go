package connection

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/credtransport"
	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/kubeconfig"
)

// The priorities and handler ids of the built-in logins.
const (
	KubeconfigPriority     = 10
	ServiceAccountPriority = 20
	KubeconfigLogin        = "login_with_kubeconfig"
	ServiceAccountLogin    = "login_with_service_account"
)

// Options say where the built-in logins find credentials.
type Options struct {
	Kubeconfig        string // paths, in the form of KUBECONFIG; default: KUBECONFIG, then ~/.kube/config
	KubeContext       string // default: the current one
	ServiceAccountDir string // default: the directory in pods
	TrustEnv          bool   // copied to the results
	Log               *slog.Logger

	pluginTimeout time.Duration // default: see pluginLimit
}

// The time limits of one run of an exec plugin. An interactive one may wait for a person.
const (
	pluginTimeout            = time.Minute
	interactivePluginTimeout = 10 * time.Minute
)

// pluginLimit returns the time limit of one run of an exec plugin.
func (o *Options) pluginLimit(interactive bool) time.Duration {
	if interactive {
		return interactivePluginTimeout
	}
	return cmp.Or(o.pluginTimeout, pluginTimeout)
}

func (o *Options) serviceAccountFile(name string) string {
	dir := o.ServiceAccountDir
	if dir == "" {
		dir = "/var/run/secrets/kubernetes.io/serviceaccount"
	}
	return filepath.Join(dir, name)
}

// LoginWithServiceAccount logs in as the service account of the pod. It returns nil without a token file. The token is read again when it rotates. The address
// comes from the environment variables KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. Without them, it is https://kubernetes.default.svc.
func LoginWithServiceAccount(ctx context.Context, o *Options) (*Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	info := &Info{
		Server:    "https://kubernetes.default.svc",
		TokenFile: o.serviceAccountFile("token"),
		TrustEnv:  o.TrustEnv,
		Priority:  ServiceAccountPriority,
	}
	token, err := credtransport.ReadToken(info.TokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, &Error{Message: "log in as the service account", Err: err}
	}
	info.User = credtransport.TokenUser(token)
	if host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"); host != "" && port != "" {
		info.Server = "https://" + net.JoinHostPort(host, port)
	}
	if ca := o.serviceAccountFile("ca.crt"); credtransport.FileExists(ca) {
		info.CAFile = ca
	}
	if namespace, err := os.ReadFile(o.serviceAccountFile("namespace")); err == nil {
		info.DefaultNamespace = strings.TrimSpace(string(namespace))
	}
	return info, nil
}

// DefaultLogin is the login of an operator without login handlers: with a kubeconfig, and as a service account. It returns an error if neither succeeds.
func DefaultLogin(ctx context.Context, o *Options) (map[string]*Info, error) {
	infos := map[string]*Info{}
	var failures []error
	for _, login := range []struct {
		id  string
		run func(context.Context, *Options) (*Info, error)
	}{
		{KubeconfigLogin, LoginWithKubeconfig},
		{ServiceAccountLogin, LoginWithServiceAccount},
	} {
		info, err := login.run(ctx, o)
		if info != nil && err == nil {
			err = unusable(login.id, info.checkFiles())
		}
		if err != nil {
			failures = append(failures, err)
		} else if info != nil {
			infos[login.id] = info
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case len(infos) > 0:
		for _, err := range failures {
			o.Log.Warn("One of two logins failed; using the other", "error", err, "help", "K906")
		}
		return infos, nil
	}
	if len(failures) > 0 {
		return nil, &Error{Message: "no login", Err: errors.Join(failures...)}
	}
	tried := append(kubeconfig.Find(o.Kubeconfig).Missing, o.serviceAccountFile("token")+" does not exist")
	remedy := ": pass --kubeconfig"
	if embedded.Included {
		remedy += ", or try run --embedded"
	}
	return nil, &Error{Message: "no login: " + strings.Join(tried, ", ") + remedy}
}

// LoginWithKubeconfig logs in as kubectl does, with the current context of the kubeconfig: with a certificate, a token, a password, or an exec plugin. It
// returns nil without a kubeconfig. Errors name the files.
func LoginWithKubeconfig(ctx context.Context, o *Options) (*Info, error) {
	files := kubeconfig.Find(o.Kubeconfig)
	if len(files.Found) == 0 {
		if o.Kubeconfig != "" {
			return nil, &Error{Message: "kubeconfig: " + strings.Join(files.Missing, ", ")}
		}
		return nil, nil
	}
	from := "kubeconfig " + strings.Join(files.Found, string(filepath.ListSeparator))
	config, err := kubeconfig.Read(files.Found)
	if e := (*kubeconfig.Error)(nil); errtype.As(err, &e) {
		return nil, &Error{Message: strings.TrimSpace("kubeconfig " + e.File), Err: e.Err}
	}
	info, err := login(ctx, o, config)
	if err != nil {
		return nil, &Error{Message: from, Err: err}
	}
	return info, nil
}

// login returns the connection information of a context.
func login(ctx context.Context, o *Options, k *kubeconfig.Config) (*Info, error) {
	chosen, err := k.Choose(o.KubeContext)
	if err != nil {
		return nil, err
	}
	cluster := chosen.Cluster
	info := &Info{
		Server: cluster.Server, TLSServerName: cluster.TLSServerName, InsecureSkipTLSVerify: cluster.Insecure, ProxyURL: cluster.ProxyURL,
		DefaultNamespace: chosen.Namespace, TrustEnv: o.TrustEnv, Priority: KubeconfigPriority,
		KubeContext: chosen.Name, User: chosen.UserName,
	}
	info.CAFile, info.CAData = kubeconfig.DataOrFile(cluster.CAFile, cluster.CAData)
	if err := addUser(ctx, o, info, &chosen); err != nil {
		return nil, fmt.Errorf("the user %q: %w", chosen.UserName, err)
	}
	if !strings.Contains(info.Server, "://") { // kubectl completes it in the same way
		scheme := "http://"
		if info.InsecureSkipTLSVerify || info.CAFile != "" || len(info.CAData) > 0 || info.hasCertificate() {
			scheme = "https://"
		}
		info.Server = scheme + info.Server
	}
	return info, info.Validate()
}

// addUser adds the credentials of a user.
func addUser(ctx context.Context, o *Options, info *Info, chosen *kubeconfig.Choice) error {
	u := chosen.User
	info.CertificateFile, info.CertificateData = kubeconfig.DataOrFile(u.CertificateFile, u.CertificateData)
	keyFile, key := kubeconfig.DataOrFile(u.KeyFile, u.KeyData)
	info.KeyFile, info.KeyData = keyFile, string(key)
	info.Token, info.TokenFile = u.Token, u.TokenFile
	info.Username, info.Password = u.Username, u.Password
	info.ImpersonateUser, info.ImpersonateUID = u.As, u.AsUID
	info.ImpersonateGroups, info.ImpersonateExtra = u.AsGroups, u.AsUserExtra
	known := u.Token != "" || u.TokenFile != "" || u.Username != ""
	if u.AuthProvider != nil && !known {
		info.Token = u.AuthProvider.Config["access-token"]
		o.Log.Warn("The auth-provider of the kubeconfig is not supported; using its access token, which is not renewed: configure an exec plugin",
			"provider", u.AuthProvider.Name, "token", info.Token != "", "help", "K907")
	}
	if u.Exec == nil || known { // as in kubectl, credentials in the file take precedence
		return nil
	}
	return addPlugin(ctx, o, info, chosen)
}

// addPlugin runs the exec plugin of a user, and adds the returned credentials.
func addPlugin(ctx context.Context, o *Options, info *Info, chosen *kubeconfig.Choice) error {
	plugin := chosen.User.Exec
	interactive, err := plugin.Check()
	if err != nil {
		return err
	}
	var cluster *kubeconfig.ExecCluster
	if plugin.ProvideClusterInfo {
		ca, err := info.authorities().PEM()
		if err != nil {
			return err
		}
		cluster = &kubeconfig.ExecCluster{
			Server: info.Server, TLSServerName: info.TLSServerName, Insecure: info.InsecureSkipTLSVerify,
			CAData: base64.StdEncoding.EncodeToString(ca), ProxyURL: info.ProxyURL, Config: chosen.Cluster.ExecExtension(),
		}
	}
	started := time.Now()
	limit := o.pluginLimit(interactive)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %s", limit))
	defer cancel()
	status, err := plugin.Credentials(ctx, cluster, interactive)
	if err != nil {
		return err
	}
	o.Log.Debug("Exec plugin returned credentials", "command", plugin.Command, "took", time.Since(started))
	info.Token = status.Token
	if status.CertificateData != "" {
		info.CertificateFile, info.CertificateData = "", []byte(status.CertificateData)
		info.KeyFile, info.KeyData = "", status.KeyData
	}
	switch now := time.Now(); {
	case status.Expiration == nil:
	case now.Before(*status.Expiration):
		info.Expiration = *status.Expiration
	default: // perhaps the clock of this machine is wrong: the API server decides
		o.Log.Warn("Credentials of the exec plugin seem to have expired; using them until the API server refuses them",
			"command", plugin.Command, "expiration", *status.Expiration, "now", now, "help", "K924")
	}
	return nil
}
