package kopf

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/certs"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/ngrok"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/watchstream"
	"github.com/kopf-go/kopf/internal/webhookca"
	"github.com/kopf-go/kopf/internal/webhookconfig"
	"github.com/kopf-go/kopf/internal/webhookserver"
)

// This file sets up webhook servers. It detects how local clusters reach this machine, and runs tunnels. The replicas of an operator share an authority,
// which is kept in a Secret.

// WebhookServer is an [AdmissionServer] that listens on this machine, usually in the cluster behind a Service. The API server must be able to connect to it.
// The zero value serves HTTPS on all addresses and a free port, with a self-signed certificate. Do not change the fields while it serves.
type WebhookServer struct {
	// Addr is the address to listen on, a name or an IP address. Empty means all addresses.
	Addr string
	// Port is the port to listen on. Zero means a free one.
	Port int
	// Listener replaces Addr and Port, which then only describe the announced address. The server closes it at the end. Default: none.
	Listener net.Listener
	// Path is the prefix of URLs, before the IDs of handlers. Default: the root.
	Path string
	// Host is the name or IP address under which the API server reaches this server. Default: that of the Cluster, then Addr, then "localhost".
	Host string
	// Service is the Service in front of all replicas of the operator, which forwards to Port. Its own port defaults to 443. The server announces the Service
	// instead of a URL, because most API servers cannot resolve names of Services. Default Namespace: that of the pod, or of the context of the kubeconfig.
	// Default Path: Path. Default Host: "name.namespace.svc". It excludes Cluster. Default: none.
	Service *ServiceReference
	// Cluster is the kind of the local cluster, if the API server runs in one. It determines the Host. Default: none.
	Cluster Cluster

	// CAData is the CA bundle that the API server trusts, in PEM. Default: the content of CAFile, then that of CertFile. The server ignores CAData and CAFile
	// if it makes its own certificate, because the API server must trust that one.
	CAData []byte
	// CAFile is a file with the CA bundle. Default: none.
	CAFile string
	// CADump is a file to which the server writes the CA bundle, for other clients. Default: none.
	CADump string

	// CertFile and KeyFile are PEM files with the certificate, followed by intermediate ones, and with its key. Default: a self-signed certificate, which the
	// server renews in time, and whose key it never stores.
	CertFile, KeyFile string
	// AuthoritySecret is the Secret with the CA of all replicas of the operator. It is needed if several replicas serve the same webhooks. It is a name in the
	// namespace of the pod or of the context of the kubeconfig, or namespace/name. The replicas create and rotate it. Each replica has a key of its own, which
	// it never stores. It excludes CertFile, certificates in TLSConfig, and Insecure. Default: the Name of the [LeaderElectionSettings] with "-webhooks", in
	// the namespace of the Lease. Without a leader election: none, for a self-signed certificate.
	AuthoritySecret string
	// Password decrypts the key in KeyFile, if it is encrypted. Defaults to none.
	Password Secret
	// ExtraSANs are names and IP addresses for the self-made certificate, in addition to Host and Addr. Default: none.
	ExtraSANs []string
	// TLSConfig is a base for the TLS configuration, for example to restrict ciphers. The minimum TLS version is always 1.2. Without a CertFile, the server
	// uses its certificates, if it has any. It excludes Insecure. Default: the defaults of Go.
	TLSConfig *tls.Config
	// Insecure serves plain HTTP. Use it only behind a proxy that serves HTTPS to the API server. Default: false.
	Insecure bool

	// VerifyCAFile, VerifyCAPath (a directory of files) and VerifyCAData are the CA bundle for client certificates, in PEM. If any is set, a client needs no
	// certificate, but the server rejects certificates that these did not sign. Default: none.
	VerifyCAFile, VerifyCAPath string
	VerifyCAData               []byte
	// VerifyMode is the policy for client certificates. Default: [tls.NoClientCert], or [tls.VerifyClientCertIfGiven] with a CA bundle for clients.
	VerifyMode tls.ClientAuthType

	// FileCheckInterval is the time between checks whether these files have changed. Negative means never. Default: 1 minute.
	FileCheckInterval time.Duration
	// RenewalOverlap is the time for which the server still shows the old certificate after the API server trusts a new CA bundle, so that no review fails. The
	// bundle has the old certificates five times as long after that, for replicas whose files change later. It has
	// no effect if the CA bundle stays the same. Negative means none. Default: 1 minute.
	RenewalOverlap time.Duration

	// MaxBodyBytes is the maximum size of the body of a review. The server refuses larger ones with the code 413. Default: 8 MiB.
	MaxBodyBytes int64
	// MaxHeldBytes is the maximum size of the bodies of all running reviews together. Beyond it, the server refuses reviews that are still arriving from the
	// address with the most such bytes, and otherwise the new one with the code 503. Default: 8 times MaxBodyBytes, which is 64 MiB.
	MaxHeldBytes int64
	// MaxHeaderBytes is the maximum size of the headers of a request. Default: 64 KiB.
	MaxHeaderBytes int
	// MaxConnections is the maximum number of connections. For a further one, the server closes one without a running review, of the address with the most
	// connections. Default: 1,000.
	MaxConnections int
	// ReadTimeout is the limit for receiving a request. A third of it is the limit for the headers. Default: 10 s.
	ReadTimeout time.Duration
	// WriteTimeout is the limit for sending a response after it is ready. Default: 10 s.
	WriteTimeout time.Duration
	// DrainTimeout is the time for running reviews at the shutdown, before their contexts are canceled. Default: 15 s, so that the operator ends within the
	// 30 s that Kubernetes gives pods.
	DrainTimeout time.Duration

	// Logger defaults to that of the operator.
	Logger *slog.Logger
}

// Format prints the address of the server, for all verbs. Without it, verbs that do not fit a pointer would print the Password.
func (s WebhookServer) Format(f fmt.State, _ rune) { printServer(f, s.Addr, s.Port) }

// printServer writes the address of a server.
func printServer(w io.Writer, addr string, port int) {
	_, _ = fmt.Fprintf(w, "{webhooks at %s:%d}", addr, port) // writers of fmt do not fail
}

// Cluster is a kind of local cluster, which reaches this machine by a host name of its own. See [WebhookServer].
type Cluster string

const (
	// ClusterAuto detects the kind of the cluster by the certificate and the version of the API server. If it is none of the others, the Host is as without a
	// Cluster.
	ClusterAuto Cluster = "auto"
	// ClusterK3d is a cluster of k3d or k3s, which reaches this machine as "host.k3d.internal".
	ClusterK3d Cluster = "k3d"
	// ClusterMinikube is a cluster of Minikube, which reaches this machine as "host.minikube.internal".
	ClusterMinikube Cluster = "minikube"
	// ClusterDockerDesktop is the cluster of Docker Desktop, which reaches this machine as "host.docker.internal".
	ClusterDockerDesktop Cluster = "docker-desktop"
)

// clusterHosts are the names by which the clusters reach this machine.
var clusterHosts = map[Cluster]string{ClusterK3d: certs.K3dHost, ClusterMinikube: certs.MinikubeHost, ClusterDockerDesktop: certs.DockerHost}

// Serve serves webhooks until the context is canceled, and returns nil then. It fails if it cannot listen, or cannot read its files. See [AdmissionServer].
func (s *WebhookServer) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("webhook server: %w", err)
	}
	host := clusterHosts[s.Cluster]
	if s.Cluster == ClusterAuto && s.Host == "" {
		log := cmp.Or(s.Logger, servedLogger(ctx))
		if host = detectHost(ctx, log); host == "" {
			log.Debug("The kind of the cluster is unknown; running a plain webhook server")
		}
	}
	service, err := s.service(ctx)
	if err != nil {
		return fmt.Errorf("webhook server: %w", err)
	}
	server, err := s.server(ctx, host, service)
	if err != nil {
		return fmt.Errorf("webhook server: %w", err)
	}
	op, _ := ctx.Value(servedKey{}).(servedOperator)
	err = server.Serve(ctx, reviewer(review), func(ctx context.Context, url string, bundle, needed []byte) {
		if service != nil {
			url = ""
		}
		announce(WebhookClientConfig{URL: url, Service: service, CABundle: bundle})
		if reviews := op.sharing.reviews; reviews != nil {
			reviews.awaitPublished(ctx, bundle, needed)
		}
	})
	if err != nil {
		return fmt.Errorf("webhook server: %w", err)
	}
	return nil
}

// port returns the port of the settings, 0 for any. The server may be nil, as that in a server of
// another type.
func (s *WebhookServer) port() int {
	if s == nil {
		return 0
	}
	return s.Port
}

// serviceName returns the name of the Service of the settings, "" for none.
func (s *WebhookServer) serviceName() string {
	if s == nil || s.Service == nil {
		return ""
	}
	return s.Service.Name
}

// authoritySecret returns the Secret of the settings, "" for the default.
func (s *WebhookServer) authoritySecret() string {
	if s == nil {
		return ""
	}
	return s.AuthoritySecret
}

// clonable is a server of kopf.
type clonable interface{ clone() AdmissionServer }

// cloneAdmissionServer returns a copy of a server of kopf, and shares those of other types. These may embed a server of kopf,
// whose copy would lose the outer type. It names no types, so that operators without webhooks do not link them.
func cloneAdmissionServer(server AdmissionServer) AdmissionServer {
	if c, ok := server.(clonable); ok && !reflect.ValueOf(server).IsZero() {
		if own := c.clone(); reflect.TypeOf(own) == reflect.TypeOf(server) {
			return own
		}
	}
	return server
}

func (s *WebhookServer) clone() AdmissionServer {
	return cloned(s, func(s *WebhookServer) {
		s.Service, s.TLSConfig = cloned(s.Service, nil), s.TLSConfig.Clone()
		s.CAData, s.VerifyCAData = slices.Clone(s.CAData), slices.Clone(s.VerifyCAData)
		s.ExtraSANs = slices.Clone(s.ExtraSANs)
	})
}

func (t *WebhookNgrokTunnel) clone() AdmissionServer { return cloned(t, nil) }

func (t *WebhookAutoTunnel) clone() AdmissionServer { return cloned(t, nil) }

// locally returns a server with its port, path and limits for the embedded API server of the command line. It returns nil if this one needs no change.
func (s *WebhookServer) locally() AdmissionServer {
	if s == nil || s.Service == nil && s.Cluster == "" && s.Host == "" && s.AuthoritySecret == "" &&
		s.CertFile+s.CAFile+s.VerifyCAFile+s.VerifyCAPath == "" && s.VerifyCAData == nil {
		return nil
	}
	local := *s
	local.Service, local.Cluster, local.Host, local.AuthoritySecret = nil, "", "", ""
	local.CertFile, local.KeyFile, local.Password, local.CAFile, local.CAData = "", "", "", "", nil
	local.VerifyCAFile, local.VerifyCAPath, local.VerifyCAData, local.VerifyMode = "", "", nil, 0
	return &local
}

func (s *WebhookServer) validate() error {
	options := s.certificates(nil)
	switch {
	case s.Insecure && s.TLSConfig != nil:
		return errors.New("the fields Insecure and TLSConfig exclude each other")
	case s.Insecure && s.CertFile+s.KeyFile != "":
		return errors.New("the field Insecure and a certificate exclude each other")
	case s.AuthoritySecret != "" && !options.MakesOwn():
		return errors.New("the field AuthoritySecret excludes CertFile, certificates in TLSConfig, and Insecure")
	case (s.CertFile == "") != (s.KeyFile == ""):
		return fmt.Errorf("the certificate %q and the key %q are only of use together", s.CertFile, s.KeyFile)
	case s.Cluster != "" && s.Cluster != ClusterAuto && clusterHosts[s.Cluster] == "":
		return fmt.Errorf("the cluster %q is none of auto, k3d, minikube and docker-desktop", s.Cluster)
	case s.Port < 0 || s.Port > 65535:
		return fmt.Errorf("the port %d is not between 0 and 65535", s.Port)
	case s.Service != nil && s.Service.Name == "":
		return errors.New("the Service has no name")
	case s.Service != nil && s.Cluster != "":
		return errors.New("the fields Service and Cluster exclude each other")
	case s.Service != nil && s.Port == 0 && s.Listener == nil:
		return fmt.Errorf("the Service %q needs a fixed Port to pass connections on to", s.Service.Name)
	case s.Service != nil && (s.Service.Port < 0 || s.Service.Port > 65535):
		return fmt.Errorf("the port %d of the Service %q is not between 0 and 65535", s.Service.Port, s.Service.Name)
	}
	return nil
}

// service returns the Service to announce, nil for none.
func (s *WebhookServer) service(ctx context.Context) (*ServiceReference, error) {
	if s.Service == nil {
		return nil, nil
	}
	service := *s.Service
	service.Path = cmp.Or(service.Path, s.Path)
	if service.Namespace != "" {
		return &service, nil
	}
	if client := servedClient(ctx); client != nil {
		info, err := client.ConnectionInfo(ctx)
		if err != nil {
			return nil, err
		}
		service.Namespace = info.DefaultNamespace
	}
	if service.Namespace == "" {
		return nil, fmt.Errorf("the Service %q has no namespace, because the connection has none: give it one", service.Name)
	}
	return &service, nil
}

// server returns the server with these fields, the host of the cluster, and the Service in front of it.
func (s *WebhookServer) server(ctx context.Context, host string, service *ServiceReference) (*webhookserver.Server, error) {
	log := cmp.Or(s.Logger, servedLogger(ctx))
	certificates := s.certificates(log)
	if client := servedClient(ctx); client != nil {
		certificates.Meter = client.meter
	}
	if service != nil {
		host = service.Name + "." + service.Namespace + ".svc"
		certificates.Names = append(slices.Clone(certificates.Names), host)
	}
	server := &webhookserver.Server{
		Addr: s.Addr, Port: s.Port, Listener: s.Listener, Path: s.Path, Host: cmp.Or(s.Host, host), Log: log,
		Limits: webhookserver.Limits{
			MaxBodyBytes: s.MaxBodyBytes, MaxHeldBytes: s.MaxHeldBytes, MaxHeaderBytes: s.MaxHeaderBytes, MaxConnections: s.MaxConnections,
			ReadTimeout: s.ReadTimeout, WriteTimeout: s.WriteTimeout, DrainTimeout: s.DrainTimeout,
		},
		Certificates: certificates,
	}
	shared, err := s.authority(ctx, &server.Certificates)
	secret := ""
	if shared != nil {
		server.Authority, secret = shared, shared.Namespace+"/"+shared.Name
	}
	if op, _ := ctx.Value(servedKey{}).(servedOperator); op.sharing.reviews != nil {
		op.sharing.reviews.describe(server.Limits.ToEnd(), shared != nil || s.hasCertificate(), secret)
		server.Force = op.sharing.reviews.force
	}
	return server, err
}

// hasCertificate reports whether a certificate is given, which replicas can share.
func (s *WebhookServer) hasCertificate() bool {
	options := s.certificates(nil)
	return !s.Insecure && !options.MakesOwn()
}

func (s *WebhookServer) certificates(log *slog.Logger) certs.Options {
	return certs.Options{
		CertFile: s.CertFile, KeyFile: s.KeyFile, Password: string(s.Password), CAFile: s.CAFile, CADump: s.CADump, CAData: s.CAData,
		VerifyCAFile: s.VerifyCAFile, VerifyCAPath: s.VerifyCAPath, VerifyCAData: s.VerifyCAData, VerifyMode: s.VerifyMode,
		TLSConfig: s.TLSConfig, Insecure: s.Insecure, Names: s.ExtraSANs,
		CheckInterval: cmp.Or(s.FileCheckInterval, time.Minute), RenewalOverlap: cmp.Or(s.RenewalOverlap, time.Minute), Log: log,
	}
}

// reviewer answers reviews with the function of an operator.
type reviewer ReviewFunc

// Review implements [webhookserver.Reviewer].
func (review reviewer) Review(ctx context.Context, r *webhookserver.Review) ([]byte, error) {
	answer, err := review(ctx, (*ReviewRequest)(r))
	if wrong := (*ReviewError)(nil); errtype.As(err, &wrong) {
		err = &webhookserver.Error{Code: wrong.Code, Message: err.Error()}
	}
	return answer, err
}

// WebhookNgrokTunnel is an [AdmissionServer] for development with remote clusters, which reach it through a tunnel by ngrok. It listens on this machine only.
// Anyone who knows the public address can send reviews. See https://ngrok.com.
type WebhookNgrokTunnel struct {
	// Addr and Port are the address of the local server. They default to 127.0.0.1 and a free port.
	Addr string
	Port int
	// Path is the prefix of URLs, before the IDs of handlers. Defaults to the root.
	Path string
	// Token is the token of an account at ngrok. Defaults to that of ngrok's own configuration.
	Token Secret
	// Region is the location of the tunnel's public end, such as "eu". Defaults to ngrok's choice.
	Region string
	// Binary is the program. Defaults to "ngrok" in the PATH.
	Binary string
	// Logger defaults to that of the operator.
	Logger *slog.Logger
}

// Format prints the same as [WebhookServer.Format].
func (t WebhookNgrokTunnel) Format(f fmt.State, _ rune) { printServer(f, t.Addr, t.Port) }

// Serve runs the local server and ngrok until the context is canceled, and returns nil then. If ngrok ends, it starts ngrok again, and announces the new
// address. It fails if it cannot start ngrok, or if there is no first tunnel within half a minute.
func (t *WebhookNgrokTunnel) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	log := cmp.Or(t.Logger, servedLogger(ctx))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	local := make(chan string, 1) // the URL of the local server
	served := make(chan error, 1) // the result of the local server
	server := &WebhookServer{Addr: cmp.Or(t.Addr, "127.0.0.1"), Port: t.Port, Path: t.Path, Insecure: true, Logger: t.Logger}
	go func() {
		served <- server.Serve(ctx, review, func(c WebhookClientConfig) { local <- c.URL })
	}()
	select {
	case err := <-served:
		return err
	case address := <-local:
		tunnelled := make(chan error, 1) // the result of the tunnel
		program := &ngrok.Tunnel{Binary: cmp.Or(t.Binary, "ngrok"), Token: string(t.Token), Region: t.Region, Log: log}
		go func() {
			tunnelled <- program.Keep(ctx, address, func(url string) { announce(WebhookClientConfig{URL: url}) })
		}()
		select {
		case err := <-tunnelled:
			stop()
			return cmp.Or(err, <-served)
		case err := <-served:
			stop()
			return cmp.Or(err, <-tunnelled)
		}
	}
}

// WebhookAutoTunnel is an [AdmissionServer] for development. It is a [WebhookServer] with [ClusterAuto] if it detects a local cluster, and a
// [WebhookNgrokTunnel] otherwise. The former uses only Addr, Port, Path and Logger.
type WebhookAutoTunnel WebhookNgrokTunnel

// Format prints the same as [WebhookServer.Format].
func (t WebhookAutoTunnel) Format(f fmt.State, _ rune) { printServer(f, t.Addr, t.Port) }

// Serve listens until the context ends, and returns nil then. See [AdmissionServer].
func (t *WebhookAutoTunnel) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	log := cmp.Or(t.Logger, servedLogger(ctx))
	host := detectHost(ctx, log)
	if host == "" {
		log.Debug("The kind of the cluster is unknown; using an ngrok tunnel")
		return (*WebhookNgrokTunnel)(t).Serve(ctx, review, announce)
	}
	server := &WebhookServer{Addr: t.Addr, Port: t.Port, Path: t.Path, Host: host, Logger: t.Logger}
	return server.Serve(ctx, review, announce)
}

// detectHost returns the name by which the operator's API server reaches this machine, "" if it is unknown.
func detectHost(ctx context.Context, log *slog.Logger) string {
	client := servedClient(ctx)
	if client == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	host := ""
	info, err := client.ConnectionInfo(ctx)
	if err == nil {
		host, err = certs.DetectHost(ctx, client.HTTPClient(), info.Server)
	}
	if err != nil {
		log.Warn("Detecting the kind of the cluster failed", "error", err, "help", "K1013")
		return ""
	}
	if host != "" {
		log.Debug("Detected the kind of the cluster", "host", host)
	}
	return host
}

// servedKey is the context key for a servedOperator.
type servedKey struct{}

// servedOperator is the operator of an admission server. The zero value is of a server without one.
type servedOperator struct {
	client  *Client
	log     *slog.Logger
	sharing webhookSharing
}

// withOperator returns a context for [AdmissionServer.Serve], with the client, the logger, and the shared authority for the servers of this package.
func withOperator(ctx context.Context, client *Client, log *slog.Logger, sharing webhookSharing) context.Context {
	return context.WithValue(ctx, servedKey{}, servedOperator{client, log, sharing})
}

// servedClient returns the client of the operator in the context, nil if there is none.
func servedClient(ctx context.Context) *Client {
	op, _ := ctx.Value(servedKey{}).(servedOperator)
	return op.client
}

// servedLogger returns the logger of the operator in the context, or the default logger.
func servedLogger(ctx context.Context) *slog.Logger {
	if op, _ := ctx.Value(servedKey{}).(servedOperator); op.log != nil {
		return op.log
	}
	return slog.Default()
}

// asClient converts the configuration for the webhookconfig package, with the Secret that the
// replicas share, if there is one.
func (c *WebhookClientConfig) asClient(secret string) webhookconfig.Client {
	return webhookconfig.Client{
		URL: c.URL, Service: (*webhookconfig.Service)(c.Service), CABundle: c.CABundle, Secret: secret,
	}
}

// WebhookClientConfig describes how the API server reaches an [AdmissionServer]: by its URL, or by a Service.
// See https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/validating-webhook-configuration-v1/.
type WebhookClientConfig struct {
	URL      string            // such as "https://host:port/path"
	Service  *ServiceReference // nil with a URL
	CABundle []byte            // PEM; nil if the API server's own trust is enough
}

// ServiceReference identifies the Service in front of an [AdmissionServer].
type ServiceReference struct {
	Namespace, Name string // of the service
	Path            string // before the handlers' ids; may be empty
	Port            int    // zero means the default of the API server, 443
}

// webhookSharing is the state that the replicas of an operator share for their webhook servers.
type webhookSharing struct {
	secret, namespace string            // of the Secret with the authority, for servers without an AuthoritySecret; empty for none
	replica           webhookca.Replica // the operator itself
	reviews           *reviewServer     // of the operator
}

// Holds implements [webhookca.Replica]. Without an election, each replica writes the shared state.
func (s *reviewServer) Holds() bool { return s.leader == nil || s.leader.number() != 0 }

// sharing returns the shared state. With an election, it has an authority that is named after the Lease.
func (s *reviewServer) sharing() webhookSharing {
	shared := webhookSharing{replica: s, reviews: s}
	if s.leader != nil {
		shared.secret, shared.namespace = s.leader.ref.Name+"-webhooks", s.leader.ref.Namespace
	}
	return shared
}

// describe notes how long the server may take to end, whether other replicas may serve the same webhooks, and the Secret that they share.
func (s *reviewServer) describe(grace time.Duration, replicated bool, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grace, s.replicated, s.secret = grace, replicated, secret
}

// Written implements [webhookca.Replica].
func (s *reviewServer) Written() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clientConfig != nil && s.publishedLocked(s.clientConfig.CABundle)
}

// authority returns the authority that signs the server's certificates, nil if they are self-signed.
func (s *WebhookServer) authority(ctx context.Context, options *certs.Options) (*webhookca.Keeper, error) {
	op, _ := ctx.Value(servedKey{}).(servedOperator)
	if !options.MakesOwn() {
		return nil, nil
	}
	namespace, name := op.sharing.namespace, op.sharing.secret
	if s.AuthoritySecret != "" {
		var err error
		if namespace, name, err = webhookca.Split(s.AuthoritySecret); err != nil {
			return nil, err
		}
	}
	if name == "" {
		return nil, nil
	}
	if op.client == nil {
		return nil, fmt.Errorf("the Secret %q cannot be read without an operator: pass its context on to Serve", name)
	}
	if namespace == "" {
		info, err := op.client.ConnectionInfo(ctx)
		if err != nil {
			return nil, err
		}
		if namespace = info.DefaultNamespace; namespace == "" {
			return nil, fmt.Errorf("the Secret %q has no namespace, because the connection has none: name it in AuthoritySecret, as in \"my-namespace/%s\"", name, name)
		}
	}
	return &webhookca.Keeper{
		Store: &secretStore{op.client, namespace, name}, Namespace: namespace, Name: name, Replica: op.sharing.replica,
		Overlap: max(options.RenewalOverlap, 0), Log: options.Log,
	}, nil
}

// secretStore stores the authority in a Secret. Its requests skip all limits, because others may be waiting for the webhooks.
type secretStore struct {
	client          *Client
	namespace, name string
}

func (s *secretStore) resource() Resource {
	return Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
}

func (s *secretStore) path(name string) string {
	return s.resource().path(s.namespace, name, "")
}

// Read implements [webhookca.Store]. The caller retries its requests. See [Client.object] for the list.
func (s *secretStore) Read(ctx context.Context) (webhookca.Secret, error) {
	ctx = unlimited(ctx)
	body, err := s.client.body(ctx, &request{method: http.MethodGet, path: s.path(s.name), once: true})
	if forbidden := (*APIError)(nil); errtype.As(err, &forbidden) && forbidden.Code == http.StatusForbidden {
		if body, err = s.client.listObject(ctx, s.resource(), s.namespace, s.name, forbidden); StatusCode(err) == http.StatusForbidden {
			err = forbidden
		}
	}
	if StatusCode(err) == http.StatusNotFound {
		return webhookca.Secret{}, nil
	} else if err != nil {
		return webhookca.Secret{}, err
	}
	return webhookca.ParseSecret(body.version, body.raw)
}

// Create implements [webhookca.Store].
func (s *secretStore) Create(ctx context.Context, data webhookca.Data) error {
	object, err := data.Secret(s.namespace, s.name)
	if err != nil {
		return err
	}
	return s.write(ctx, &request{method: http.MethodPost, path: s.path(""), contentType: "application/json", body: object})
}

// Update implements [webhookca.Store].
func (s *secretStore) Update(ctx context.Context, version string, data webhookca.Data) error {
	patch, err := data.Patch(version)
	if err != nil {
		return err
	}
	return s.write(ctx, &request{method: http.MethodPatch, path: s.path(s.name), contentType: string(MergePatch), body: patch})
}

func (s *secretStore) write(ctx context.Context, r *request) error {
	r.once = true
	_, err := s.client.body(unlimited(ctx), r)
	return err
}

// Follow implements [webhookca.Store].
func (s *secretStore) Follow(ctx context.Context, f webhookca.Follower) {
	s.client.stream(s.resource(), s.namespace, s.name, &secretHandler{follower: f}).Run(ctx)
}

// Code implements [webhookca.Store].
func (s *secretStore) Code(err error) int { return StatusCode(err) }

// secretHandler notifies of changes, and keeps no contents.
type secretHandler struct {
	watchstream.Ignore
	follower webhookca.Follower
}

func (h *secretHandler) OnEvent(string, *rawjson.Header, []byte) { h.follower.NoteChange(nil) }
func (h *secretHandler) OnListed(string)                         { h.follower.NoteChange(nil) }
func (h *secretHandler) OnStatus(err error)                      { h.follower.NoteChange(err) }
