package kopf

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/connshare"
	"github.com/kopf-go/kopf/internal/credtransport"
	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/kubeconfig"
)

// This file knows what a login returns, what HTTP clients that makes, and how to log in as the service account of a pod. It
// runs on the goroutine that needs credentials. What is in files is read again when the files change.

// Secret is a text that no log and no encoding shows: all that can be seen of it is whether it is empty. Convert it to a string to use it.
type Secret string

// hidden returns what can be seen.
func (s Secret) hidden() string {
	if s == "" {
		return ""
	}
	return "[redacted]"
}

// Format prints what can be seen, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.hidden()) }

// LogValue returns what can be seen.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.hidden()) }

// MarshalText returns what can be seen. It never fails.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.hidden()), nil }

// ConnectionInfo tells where the API server is and how to be let in. It is what login
// handlers return. The zero value of every field but Server means "not given".
type ConnectionInfo struct {
	// Server is the address of the API server, such as "https://10.0.0.1:6443", with a path prefix if it has one. It is required.
	Server string
	// CAFile and CAData (PEM, or base64 of PEM) are the authorities that the server's certificate
	// is checked against, instead of those of the system. CAFile is read again at least once a minute, and when it does not
	// fit the server's certificate, because it may be rotated.
	CAFile string
	CAData []byte
	// InsecureSkipTLSVerify switches off the check of the server's certificate and host name. Defaults to false.
	InsecureSkipTLSVerify bool
	// TLSServerName is the host name expected in the server's certificate, instead of that in Server.
	TLSServerName string
	// Username and Password are sent as basic authentication.
	Username string
	Password Secret
	// Scheme and Token are sent as the Authorization header; Scheme defaults to "Bearer".
	Scheme string
	Token  Secret
	// TokenFile is read for the token, again at least once a minute, because it may be rotated.
	TokenFile string
	// CertificateFile or CertificateData, and KeyFile or KeyData (PEM, or base64 of PEM), are the client's certificate.
	CertificateFile string
	CertificateData []byte
	KeyFile         string
	KeyData         Secret
	// ImpersonateUser, ImpersonateUID, ImpersonateGroups and ImpersonateExtra make the requests act as another client.
	ImpersonateUser, ImpersonateUID string
	ImpersonateGroups               []string
	ImpersonateExtra                map[string][]string
	// DefaultNamespace is where events about objects without a namespace are posted. Defaults to "default".
	DefaultNamespace string
	// ProxyURL is the HTTP, HTTPS or SOCKS5 proxy to go through, with its credentials if it needs them.
	ProxyURL string
	// TrustEnv tells to obey HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
	TrustEnv bool
	// Priority is which of several credentials are used: those with the highest one, at random among equals. Defaults to 0.
	Priority int
	// Expiration is the moment from which the credentials are not used any more. Zero means never.
	Expiration time.Time
	// HTTPClient makes the connections, instead of one made of the authorities, the client's certificate and the
	// proxy above. Tokens, passwords and impersonation are added to its requests where they are given.
	HTTPClient *http.Client
	// KubeContext and User are the context of the kubeconfig, and who the credentials are of. They are for the log alone, and default to
	// what can be known without them.
	KubeContext, User string
}

// user returns who the requests come from, as far as that is known.
func (i *ConnectionInfo) user() string { return cmp.Or(i.ImpersonateUser, i.Username, i.User) }

// validate refuses what can't work, before anything is sent.
func (i *ConnectionInfo) validate() error {
	server, err := url.Parse(i.Server)
	switch {
	case err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http":
		return fmt.Errorf("invalid server %q: want a URL with https or http, such as \"https://10.0.0.1:6443\"", apirequest.RedactURL(i.Server))
	case server.User != nil || server.RawQuery != "" || server.Fragment != "":
		return fmt.Errorf("invalid server %q: want a URL with a scheme, a host and a path alone", server.Redacted())
	case (i.Token != "" || i.TokenFile != "" || i.Scheme != "") && (i.Username != "" || i.Password != ""):
		return errors.New("a token and a username with a password exclude each other")
	case i.CAFile != "" && len(i.CAData) > 0:
		return errors.New("CAFile and CAData exclude each other")
	case i.CertificateFile != "" && len(i.CertificateData) > 0:
		return errors.New("CertificateFile and CertificateData exclude each other")
	case i.KeyFile != "" && len(i.KeyData) > 0:
		return errors.New("KeyFile and KeyData exclude each other")
	case i.ImpersonateUser == "" && (i.ImpersonateUID != "" || len(i.ImpersonateGroups)+len(i.ImpersonateExtra) > 0):
		return errors.New("impersonation of a uid, groups or extra needs a user too")
	case strings.ContainsAny(string(i.Token)+i.Scheme, "\r\n"):
		return errors.New("invalid token: want one without line breaks")
	}
	return i.validateProxy()
}

func (i *ConnectionInfo) validateProxy() error {
	if i.ProxyURL == "" {
		return nil
	}
	if proxy, err := url.Parse(i.ProxyURL); err == nil && slices.Contains([]string{"http", "https", "socks5", "socks5h"}, proxy.Scheme) {
		return nil
	}
	return fmt.Errorf("invalid proxy %q: want a URL with http, https or socks5", apirequest.RedactURL(i.ProxyURL))
}

// hasCertificate reports whether there are both a certificate of the client and its key.
func (i *ConnectionInfo) hasCertificate() bool {
	return (i.CertificateFile != "" || len(i.CertificateData) > 0) && (i.KeyFile != "" || len(i.KeyData) > 0)
}

// String tells the server and the kind of the credentials, but none of the secrets.
func (i ConnectionInfo) String() string {
	parts := []string{"no URL"} // what cannot be read could have a password anywhere
	if server, err := url.Parse(i.Server); err == nil {
		parts[0] = server.Redacted()
	}
	for _, p := range []struct {
		given bool
		text  string
	}{
		{i.Token != "", "token"},
		{i.TokenFile != "", "token file " + i.TokenFile},
		{i.Username != "", "user " + i.Username},
		{i.hasCertificate(), "certificate " + i.CertificateFile},
		{i.HTTPClient != nil, "own HTTP client"},
		{i.ImpersonateUser != "", "as " + i.ImpersonateUser},
		{i.InsecureSkipTLSVerify, "insecure"},
		{!i.Expiration.IsZero(), "until " + i.Expiration.Format(time.RFC3339)},
	} {
		if p.given {
			parts = append(parts, strings.TrimSpace(p.text))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Format prints [ConnectionInfo.String], whatever the verb, so that no secrets are printed.
func (i ConnectionInfo) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, i.String()) }

// LogValue returns [ConnectionInfo.String], so that no secrets are logged.
func (i ConnectionInfo) LogValue() slog.Value { return slog.StringValue(i.String()) }

// MarshalText returns [ConnectionInfo.String], so that no secrets are logged as a part of something else.
func (i ConnectionInfo) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// connections is how requests get theirs.
type connections bool

const (
	// alone gives each request that is under way one of its own, by HTTP/1.1.
	alone connections = false
	// sharing has requests share a few by HTTP/2, where that is offered: a server allows some hundred on each.
	sharing connections = true
)

// newTransport returns a transport without credentials but the client's certificate.
func (i *ConnectionInfo) newTransport(connectTimeout time.Duration, c connections) (*http.Transport, error) {
	connecting := &credtransport.Connecting{
		Timeout: connectTimeout, HTTP2: c == sharing, ServerName: i.TLSServerName, InsecureSkipVerify: i.InsecureSkipTLSVerify,
		Authorities: i.authorities(), ProxyFromEnv: i.TrustEnv, ProxyURL: i.ProxyURL,
	}
	if i.hasCertificate() {
		connecting.Certificate = i.clientCertificate()
	}
	return connecting.NewTransport()
}

// newHTTPClient returns a client whose requests are let in. The time to connect is limited if it is positive.
func (i *ConnectionInfo) newHTTPClient(connectTimeout time.Duration, s *credtransport.Session, c connections) (*http.Client, error) {
	client := &http.Client{CheckRedirect: credtransport.SameHost}
	if i.HTTPClient != nil {
		own := *i.HTTPClient
		client = &own
		client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
			if err := credtransport.SameHost(req, via); err != nil || i.HTTPClient.CheckRedirect == nil {
				return err
			}
			return i.HTTPClient.CheckRedirect(req, via)
		}
	} else {
		t, err := i.newTransport(connectTimeout, c)
		if err != nil {
			return nil, err
		}
		if client.Transport = t; i.CAFile != "" {
			if client.Transport, err = credtransport.NewAuthorityTransport(t, i.authorities()); err != nil {
				return nil, err
			}
		}
		if c == sharing {
			client.Transport = connshare.New(client.Transport)
		}
	}
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	authorizing := &credtransport.Transport{Next: next, Session: s, Credentials: i.credentials()}
	client.Transport = authorizing
	return client, authorizing.Check()
}

// credentials returns what lets requests in.
func (i *ConnectionInfo) credentials() credtransport.Credentials {
	return credtransport.Credentials{
		Token: string(i.Token), TokenFile: i.TokenFile, Scheme: i.Scheme, Username: i.Username, Password: string(i.Password),
		ImpersonateUser: i.ImpersonateUser, ImpersonateUID: i.ImpersonateUID, ImpersonateGroups: i.ImpersonateGroups, ImpersonateExtra: i.ImpersonateExtra,
	}
}

// authorities returns what the server's certificate is checked against; without any PEM, that is the system's.
func (i *ConnectionInfo) authorities() credtransport.Authorities {
	return credtransport.Authorities{Data: i.CAData, File: i.CAFile}
}

// clientCertificate returns where the client's certificate comes from.
func (i *ConnectionInfo) clientCertificate() *credtransport.CertificateSource {
	return &credtransport.CertificateSource{CertificateData: i.CertificateData, CertificateFile: i.CertificateFile, KeyData: []byte(i.KeyData), KeyFile: i.KeyFile}
}

// The priorities and handler ids of the built-in logins.
const (
	kubeconfigPriority     = 10
	serviceAccountPriority = 20
	kubeconfigLogin        = "login_with_kubeconfig"
	serviceAccountLogin    = "login_with_service_account"
)

// Login is what a login handler gets. The operator's indices are not in it: they are filled by what a login makes possible.
type Login struct {
	Attempt
	// Logger logs under the name of the activity.
	Logger *slog.Logger
	// Settings are the operator's.
	Settings *Settings
	// Param is the Param option of the handler.
	Param any
	// Kubeconfig names the files that [LoginWithKubeconfig] reads, separated as in the variable KUBECONFIG.
	// Defaults to that variable, then to ~/.kube/config.
	Kubeconfig string
	// KubeContext is the context of the kubeconfig to use. Defaults to its current one.
	KubeContext string
	// TrustEnv is copied to the results of the built-in logins. Defaults to false.
	TrustEnv bool

	memo              *Memo
	serviceAccountDir string // defaults to that of pods
}

// Memo returns the operator's memo.
func (l *Login) Memo() *Memo {
	if l.memo == nil { // of a login that was made by hand
		l.memo = &Memo{}
	}
	return l.memo
}

func (l *Login) logger() *slog.Logger {
	if l.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.Logger
}

func (l *Login) serviceAccountFile(name string) string {
	dir := l.serviceAccountDir
	if dir == "" {
		dir = "/var/run/secrets/kubernetes.io/serviceaccount"
	}
	return filepath.Join(dir, name)
}

// LoginWithServiceAccount logs in as the service account of the pod. It returns nil where there is no token of one.
// The token is read again when it rotates. The address is taken from the variables KUBERNETES_SERVICE_HOST and
// KUBERNETES_SERVICE_PORT, and is https://kubernetes.default.svc without them.
func LoginWithServiceAccount(ctx context.Context, l *Login) (*ConnectionInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	info := &ConnectionInfo{
		Server:    "https://kubernetes.default.svc",
		TokenFile: l.serviceAccountFile("token"),
		TrustEnv:  l.TrustEnv,
		Priority:  serviceAccountPriority,
	}
	token, err := credtransport.ReadToken(info.TokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, &LoginError{Message: "log in as the service account", Err: err}
	}
	info.User = credtransport.TokenUser(token)
	if host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"); host != "" && port != "" {
		info.Server = "https://" + net.JoinHostPort(host, port)
	}
	if ca := l.serviceAccountFile("ca.crt"); credtransport.FileExists(ca) {
		info.CAFile = ca
	}
	if namespace, err := os.ReadFile(l.serviceAccountFile("namespace")); err == nil {
		info.DefaultNamespace = strings.TrimSpace(string(namespace))
	}
	return info, nil
}

// defaultLogin is the login of an operator without login handlers: with the kubeconfig and as the service account. It
// fails if neither is there, and names the files, or what is wrong with the one that is there.
func defaultLogin(ctx context.Context, l *Login) (map[string]*ConnectionInfo, error) {
	infos := map[string]*ConnectionInfo{}
	var failures []error
	for _, login := range []struct {
		id  string
		run func(context.Context, *Login) (*ConnectionInfo, error)
	}{
		{kubeconfigLogin, LoginWithKubeconfig},
		{serviceAccountLogin, LoginWithServiceAccount},
	} {
		info, err := login.run(ctx, l)
		if err != nil {
			failures = append(failures, err)
		}
		if info != nil {
			infos[login.id] = info
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case len(infos) > 0:
		for _, err := range failures {
			l.logger().Warn("One of two logins failed; using the other", "error", err)
		}
		return infos, nil
	}
	if len(failures) > 0 {
		return nil, &LoginError{Message: "no login", Err: errors.Join(failures...)}
	}
	tried := append(kubeconfig.Find(l.Kubeconfig).Missing, l.serviceAccountFile("token")+" does not exist")
	remedy := ": pass --kubeconfig"
	if embedded.Included {
		remedy += ", or try --embedded"
	}
	return nil, &LoginError{Message: "no login: " + strings.Join(tried, ", ") + remedy}
}

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
	chosen, err := k.Choose(l.KubeContext)
	if err != nil {
		return nil, err
	}
	cluster := chosen.Cluster
	info := &ConnectionInfo{
		Server: cluster.Server, TLSServerName: cluster.TLSServerName, InsecureSkipTLSVerify: cluster.Insecure, ProxyURL: cluster.ProxyURL,
		DefaultNamespace: chosen.Namespace, TrustEnv: l.TrustEnv, Priority: kubeconfigPriority,
		KubeContext: chosen.Name, User: chosen.UserName,
	}
	info.CAFile, info.CAData = kubeconfig.DataOrFile(cluster.CAFile, cluster.CAData)
	if err := addUser(ctx, l, info, &chosen); err != nil {
		return nil, fmt.Errorf("the user %q: %w", chosen.UserName, err)
	}
	if !strings.Contains(info.Server, "://") { // as kubectl completes it
		scheme := "http://"
		if info.InsecureSkipTLSVerify || info.CAFile != "" || len(info.CAData) > 0 || info.hasCertificate() {
			scheme = "https://"
		}
		info.Server = scheme + info.Server
	}
	return info, info.validate()
}

// addUser adds the credentials of a user.
func addUser(ctx context.Context, l *Login, info *ConnectionInfo, chosen *kubeconfig.Choice) error {
	u := chosen.User
	info.CertificateFile, info.CertificateData = kubeconfig.DataOrFile(u.CertificateFile, u.CertificateData)
	keyFile, key := kubeconfig.DataOrFile(u.KeyFile, u.KeyData)
	info.KeyFile, info.KeyData = keyFile, Secret(key)
	info.Token, info.TokenFile = Secret(u.Token), u.TokenFile
	info.Username, info.Password = u.Username, Secret(u.Password)
	info.ImpersonateUser, info.ImpersonateUID = u.As, u.AsUID
	info.ImpersonateGroups, info.ImpersonateExtra = u.AsGroups, u.AsUserExtra
	known := u.Token != "" || u.TokenFile != "" || u.Username != ""
	if u.AuthProvider != nil && !known {
		info.Token = Secret(u.AuthProvider.Config["access-token"])
		l.logger().Warn("The auth-provider of the kubeconfig is not supported; using its access token, which is not renewed: configure an exec plugin",
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
	status, err := plugin.Credentials(ctx, cluster, interactive)
	if err != nil {
		return err
	}
	l.logger().Debug("Exec plugin returned credentials", "command", plugin.Command, "took", time.Since(started))
	info.Token = Secret(status.Token)
	if status.CertificateData != "" {
		info.CertificateFile, info.CertificateData = "", []byte(status.CertificateData)
		info.KeyFile, info.KeyData = "", Secret(status.KeyData)
	}
	if status.Expiration != nil {
		info.Expiration = *status.Expiration
	}
	return nil
}
