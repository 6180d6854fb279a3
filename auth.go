package kopf

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/kopf-go/kopf/internal/connection"
)

// Secret is a string that logs and encodings hide. They show only whether it is empty. Convert it to a string to use it.
type Secret string

// hidden returns the visible form of the secret.
func (s Secret) hidden() string {
	if s == "" {
		return ""
	}
	return "[redacted]"
}

// Format prints the Secret without its text, for all verbs.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.hidden()) }

// LogValue returns the Secret without its text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.hidden()) }

// MarshalText encodes the Secret without its text. It never fails.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.hidden()), nil }

// ConnectionInfo has the address of the API server and the credentials. Login handlers return it. Only Server is required. Zero fields are unset.
type ConnectionInfo struct {
	// Server is the address of the API server, such as "https://10.0.0.1:6443", with its path prefix if there is one. It is required.
	Server string
	// CAFile and CAData (PEM, or base64 of PEM) are the CA bundle for the certificate of the API server. Default: that of the system. kopf reads CAFile at
	// least once a minute, and when the certificate does not match, because it may be rotated.
	CAFile string
	CAData []byte
	// InsecureSkipTLSVerify disables the verification of the certificate and the host name. Default: false.
	InsecureSkipTLSVerify bool
	// TLSServerName is the expected host name in the certificate. Default: that in Server.
	TLSServerName string
	// Username and Password are credentials for HTTP basic authentication.
	Username string
	Password Secret
	// Scheme and Token make the header Authorization. Default scheme: "Bearer".
	Scheme string
	Token  Secret
	// TokenFile is a file with the token. kopf reads it at least once a minute, because it may be rotated.
	TokenFile string
	// CertificateFile or CertificateData, with KeyFile or KeyData (PEM, or base64 of PEM), are the client certificate.
	CertificateFile string
	CertificateData []byte
	KeyFile         string
	KeyData         Secret
	// ImpersonateUser, ImpersonateUID, ImpersonateGroups and ImpersonateExtra make the requests act as another client.
	ImpersonateUser, ImpersonateUID string
	ImpersonateGroups               []string
	ImpersonateExtra                map[string][]string
	// DefaultNamespace is the namespace for Kubernetes events about cluster-scoped objects. Default: "default".
	DefaultNamespace string
	// ProxyURL is the URL of an HTTP, HTTPS or SOCKS5 proxy, with credentials if it needs them.
	ProxyURL string
	// TrustEnv enables the environment variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
	TrustEnv bool
	// Priority ranks credentials if there are several. kopf uses one of those with the highest priority, at random. Default: 0.
	Priority int
	// Expiration is the time after which kopf does not use the credentials. Zero means never.
	Expiration time.Time
	// HTTPClient makes the connections. It replaces the CA bundle, the client certificate and the proxy. kopf still adds tokens, passwords and impersonation to
	// the requests.
	HTTPClient *http.Client
	// KubeContext and User are the context of the kubeconfig and the name of the user, for logs only. Default: what kopf finds out.
	KubeContext, User string
}

// info returns a copy for the connection package.
func (i *ConnectionInfo) info() *connection.Info {
	used := new(connection.Info)
	copyFields(used, i)
	return used
}

// login returns the connection as the result of a login.
func (i *ConnectionInfo) login(context.Context) (map[string]*connection.Info, error) {
	return map[string]*connection.Info{"connection": i.info()}, nil
}

// connectionInfo converts the result of a login, nil for none.
func connectionInfo(used *connection.Info) *ConnectionInfo {
	if used == nil {
		return nil
	}
	info := new(ConnectionInfo)
	copyFields(info, used)
	return info
}

// copyFields copies a struct to one of the same shape that may have other string types.
func copyFields(to, from any) {
	target, source := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for i := range source.NumField() {
		target.Field(i).Set(source.Field(i).Convert(target.Field(i).Type()))
	}
}

// String returns the server and the kind of the credentials, without secrets.
func (i ConnectionInfo) String() string { return i.info().String() }

// Format prints [ConnectionInfo.String], whatever the verb, so that no secrets are printed.
func (i ConnectionInfo) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, i.String()) }

// LogValue returns [ConnectionInfo.String], so that no secrets are logged.
func (i ConnectionInfo) LogValue() slog.Value { return slog.StringValue(i.String()) }

// MarshalText returns [ConnectionInfo.String], so that no secrets are logged as a part of something else.
func (i ConnectionInfo) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// Login is the argument of login handlers. It has no indices, because kopf fills them after the login.
type Login struct {
	Attempt
	// Logger adds the name of the activity to log lines.
	Logger *slog.Logger
	// Settings are the settings of the operator.
	Settings *Settings
	// Param is the Param option of the handler.
	Param any
	// Kubeconfig has the files for [LoginWithKubeconfig], separated as in the environment variable KUBECONFIG. Default: that variable, then ~/.kube/config.
	Kubeconfig string
	// KubeContext is the context in the kubeconfig. Default: its current context.
	KubeContext string
	// TrustEnv is copied to the results of the built-in logins. Defaults to false.
	TrustEnv bool

	memo              *Memo
	serviceAccountDir string // defaults to that of pods
}

// Memo returns the memo of the operator, from which the memos of objects are copied.
func (l *Login) Memo() *Memo {
	if l.memo == nil { // of a hand-made argument
		l.memo = &Memo{}
	}
	return l.memo
}

// options returns the sources of credentials.
func (l *Login) options() *connection.Options {
	log := l.Logger
	if log == nil { // of a hand-made argument
		log = slog.New(slog.DiscardHandler)
	}
	return &connection.Options{Kubeconfig: l.Kubeconfig, KubeContext: l.KubeContext, ServiceAccountDir: l.serviceAccountDir, TrustEnv: l.TrustEnv, Log: log}
}

// LoginWithServiceAccount returns the credentials of the service account of the pod, or nil if there is no token. kopf reads the token again when it rotates.
// The address is that of the environment variables KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, or https://kubernetes.default.svc.
func LoginWithServiceAccount(ctx context.Context, l *Login) (*ConnectionInfo, error) {
	info, err := connection.LoginWithServiceAccount(ctx, l.options())
	return connectionInfo(info), loginError(err)
}

// LoginWithKubeconfig returns the credentials of the kubeconfig, as kubectl uses them: certificates, tokens, passwords, or those of an exec plugin. It returns
// nil if there is no kubeconfig. Errors name the files.
func LoginWithKubeconfig(ctx context.Context, l *Login) (*ConnectionInfo, error) {
	info, err := connection.LoginWithKubeconfig(ctx, l.options())
	return connectionInfo(info), loginError(err)
}

// loginError converts the failure of a login to a [LoginError], and returns other errors unchanged.
func loginError(err error) error {
	if failed, ok := err.(*connection.Error); ok {
		return (*LoginError)(failed)
	}
	return err
}
