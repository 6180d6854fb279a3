package kopf

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// This file knows what a login returns, and how to log in as the service account of a pod. It
// runs on the goroutine of whoever needs credentials.

// ConnectionInfo tells where the API server is and how to be let in. It is what login
// handlers return. The zero value of every field but Server means "not given".
type ConnectionInfo struct {
	// Server is the address of the API server, with a path prefix if it has one.
	Server string
	// CAFile and CAData (PEM, or base64 of PEM) are the authorities that the server's certificate
	// is checked against, instead of those of the system.
	CAFile string
	CAData []byte
	// Insecure switches off the check of the server's certificate and host name.
	Insecure bool
	// TLSServerName is the host name expected in the server's certificate, instead of that in Server.
	TLSServerName string
	// Username and Password are sent as basic authentication.
	Username, Password string
	// Scheme and Token are sent as the Authorization header; Scheme defaults to "Bearer".
	Scheme, Token string
	// TokenFile is read for the token, again at least once a minute, because it may be rotated.
	TokenFile string
	// CertificateFile or CertificateData, and KeyFile or KeyData (PEM, or base64 of PEM), are the client's certificate.
	CertificateFile string
	CertificateData []byte
	KeyFile         string
	KeyData         []byte
	// ImpersonateUser, ImpersonateUID, ImpersonateGroups and ImpersonateExtra make the requests act as somebody else.
	ImpersonateUser, ImpersonateUID string
	ImpersonateGroups               []string
	ImpersonateExtra                map[string][]string
	// DefaultNamespace is where events about objects without a namespace are posted. Defaults to "default".
	DefaultNamespace string
	// ProxyURL is the HTTP or HTTPS proxy to go through, with its credentials if it needs them.
	ProxyURL string
	// TrustEnv tells to obey HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
	TrustEnv bool
	// Priority tells which of several credentials are used: those with the highest one.
	Priority int
	// Expiration is the moment from which the credentials are not used any more. Zero means never.
	Expiration time.Time
	// HTTPClient is used as it is, instead of one made of all the other fields but Server.
	HTTPClient *http.Client
}

// Login is what a login handler gets.
type Login struct {
	Logger *slog.Logger
	// Kubeconfig names the files that [LoginWithKubeconfig] reads, separated as in the variable KUBECONFIG.
	// Defaults to that variable, then to ~/.kube/config.
	Kubeconfig string
	// Context is the context of the kubeconfig to use. Defaults to its current one.
	Context string
	// TrustEnv is copied to the result of the built-in logins.
	TrustEnv bool
}

// LoginWithKubeconfig logs in as kubectl does. It returns nil where there is no kubeconfig.
func LoginWithKubeconfig(ctx context.Context, l *Login) (*ConnectionInfo, error) {
	return nil, nil
}

// LoginWithServiceAccount logs in as the service account of the pod. It returns nil outside of pods.
func LoginWithServiceAccount(ctx context.Context, l *Login) (*ConnectionInfo, error) {
	return nil, nil
}

// defaultLogin is the login of an operator without login handlers.
func defaultLogin(ctx context.Context, l *Login) (map[string]*ConnectionInfo, error) {
	return nil, &LoginError{Message: "no login"}
}
