package kopf

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/certs"
	"github.com/kopf-go/kopf/internal/httplimit"
	"github.com/kopf-go/kopf/internal/ngrok"
	"github.com/kopf-go/kopf/internal/webhookname"
)

// This file serves webhooks by HTTP: it takes reviews in, within limits, and has them answered. It also finds out how clusters on a
// developer's machine reach that machine, and runs tunnels to it. Serve runs on a goroutine of the operator, and owns those of the connections
// and of the tunnel; reviews are answered on those of the connections.

// WebhookServer is an [AdmissionServer] that listens on this machine. The API server must be able to connect to it: it suits
// operators in the cluster, with Host the name of their service. The zero value serves by HTTPS on all addresses and a free port, with a
// certificate that it makes itself. The fields must not be changed while it serves.
type WebhookServer struct {
	// Addr is the address to listen on, a name or an IP address. Empty means all addresses.
	Addr string
	// Port is the port to listen on. Zero means a free one.
	Port int
	// Listener is listened on instead of Addr and Port; they may still be given to be announced. It is closed at the end. Defaults to none.
	Listener net.Listener
	// Path is where the ids of handlers come after. Defaults to the root.
	Path string
	// Host is the name or IP address by which the API server reaches this server. Defaults to that of the Cluster, then to Addr, then to "localhost".
	Host string
	// Cluster is the kind of the cluster on this machine that the API server belongs to, which tells the Host. Defaults to none: it is elsewhere.
	Cluster Cluster

	// CAData is PEM with the authorities that the API server is to trust. Defaults to what is in CAFile, then to what is in
	// CertFile. Both are ignored when the server makes its own certificate: that one is to be trusted then.
	CAData []byte
	// CAFile is a file with what CAData says. Defaults to none.
	CAFile string
	// CADump is a file to write to what the API server is to trust, for other clients. Defaults to none.
	CADump string

	// CertFile and KeyFile are files of PEM with the certificate to show, with its intermediate ones, and its key. Without them, the server makes a
	// certificate that signs itself, with a key that is never stored, and replaces it in time.
	CertFile, KeyFile string
	// Password decrypts the key in KeyFile, if it is encrypted. Defaults to none.
	Password Secret
	// ExtraSANs are further names and IP addresses for the certificate that the server makes itself, besides Host and Addr. Defaults to none.
	ExtraSANs []string
	// TLSConfig is used as a base, for example to restrict ciphers. TLS 1.2 is the least in any case. If it has
	// certificates, and no CertFile is given, it is left alone. It excludes Insecure. Defaults to the defaults of Go.
	TLSConfig *tls.Config
	// Insecure is to serve plain HTTP, to be used behind something that speaks HTTPS with the API server. Defaults to false.
	Insecure bool

	// VerifyCAFile, VerifyCAPath (a folder of files) and VerifyCAData are PEM with the authorities of clients' certificates. If any is
	// given, clients need not have a certificate, but if they have one, it must be signed by one of these. Default to none.
	VerifyCAFile, VerifyCAPath string
	VerifyCAData               []byte
	// VerifyMode says whether clients must have a certificate. Defaults to no, or to [tls.VerifyClientCertIfGiven] with authorities.
	VerifyMode tls.ClientAuthType

	// FileCheckInterval is how often it is checked whether the files above have changed. Negative means never. Defaults to one minute.
	FileCheckInterval time.Duration
	// RenewalOverlap is how long the old certificate is still shown after the API server was told to trust the new one as well, so that
	// no review fails meanwhile. It makes no difference if what is to be trusted stays the same. Negative means none. Defaults to one minute.
	RenewalOverlap time.Duration

	// MaxBodyBytes is the largest body of a review. Larger ones are refused with 413. Defaults to 8 MiB.
	MaxBodyBytes int64
	// MaxHeldBytes is how large the bodies of all reviews under way may be together. Those beyond are refused with 503. Defaults to eight of the largest.
	MaxHeldBytes int64
	// MaxHeaderBytes is how large the headers of a request may be. Defaults to 64 KiB.
	MaxHeaderBytes int
	// MaxConnections is how many connections there may be. Beyond, one on which no request is under way is closed, or the new one if there
	// is none. Defaults to 1,000.
	MaxConnections int
	// ReadTimeout is how long a request may take to come, its headers a third of it. Defaults to 30 seconds.
	ReadTimeout time.Duration
	// WriteTimeout is how long an answer may take to be sent once it is ready. Defaults to 10 seconds.
	WriteTimeout time.Duration
	// DrainTimeout is how long the reviews under way are waited for at the end, before their contexts end. Defaults to 30 seconds,
	// which is as long as API servers wait at most.
	DrainTimeout time.Duration

	// Logger defaults to that of the operator.
	Logger *slog.Logger
}

// Format prints where the server listens, whatever the verb. Without it, the verbs that do not fit a pointer would print the secret as it is.
func (s WebhookServer) Format(f fmt.State, _ rune) { printServer(f, s.Addr, s.Port) }

// printServer writes where a server listens.
func printServer(w io.Writer, addr string, port int) {
	_, _ = fmt.Fprintf(w, "{webhooks at %s:%d}", addr, port) // a text takes everything
}

// Cluster is the kind of a cluster on this machine.
type Cluster string

const (
	// ClusterAuto is to find out which of the others it is, by the certificate and the version of the operator's API server. If it is none of
	// them, the host is as without a cluster.
	ClusterAuto Cluster = "auto"
	// ClusterK3d is one of k3d or k3s, which reaches this machine as "host.k3d.internal".
	ClusterK3d Cluster = "k3d"
	// ClusterMinikube is one of Minikube, which reaches this machine as "host.minikube.internal".
	ClusterMinikube Cluster = "minikube"
	// ClusterDockerDesktop is that of Docker Desktop, which reaches this machine as "host.docker.internal".
	ClusterDockerDesktop Cluster = "docker-desktop"
)

// clusterHosts is how the clusters reach this machine.
var clusterHosts = map[Cluster]string{ClusterK3d: certs.K3dHost, ClusterMinikube: certs.MinikubeHost, ClusterDockerDesktop: certs.DockerHost}

// Serve listens until the context ends, and returns nil then. See [AdmissionServer].
func (s *WebhookServer) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("webhook server: %w", err)
	}
	host := clusterHosts[s.Cluster]
	if s.Cluster == ClusterAuto && s.Host == "" {
		log := cmp.Or(s.Logger, servedLogger(ctx))
		if host = detectHost(ctx, log); host == "" {
			log.Debug("The kind of the cluster is not known; running a simple webhook server.")
		}
	}
	run := &webhookRun{WebhookServer: s.withDefaults(ctx, host), review: review}
	run.root = strings.TrimRight("/"+strings.Trim(run.Path, "/"), "/")
	if err := run.serve(ctx, announce); err != nil {
		return fmt.Errorf("webhook server: %w", err)
	}
	return nil
}

func (s *WebhookServer) validate() error {
	switch {
	case s.Insecure && s.TLSConfig != nil:
		return errors.New("the fields Insecure and TLSConfig exclude each other")
	case s.Insecure && s.CertFile+s.KeyFile != "":
		return errors.New("the field Insecure and a certificate exclude each other")
	case (s.CertFile == "") != (s.KeyFile == ""):
		return fmt.Errorf("the certificate %q and the key %q are only of use together", s.CertFile, s.KeyFile)
	case s.Cluster != "" && s.Cluster != ClusterAuto && clusterHosts[s.Cluster] == "":
		return fmt.Errorf("the cluster %q is none of auto, k3d, minikube and docker-desktop", s.Cluster)
	case s.Port < 0 || s.Port > 65535:
		return fmt.Errorf("the port %d is not between 0 and 65535", s.Port)
	}
	return nil
}

// withDefaults returns a copy in which nothing is left out that has a default.
func (s *WebhookServer) withDefaults(ctx context.Context, host string) *WebhookServer {
	o := *s
	o.Host = cmp.Or(o.Host, host)
	o.FileCheckInterval = cmp.Or(o.FileCheckInterval, time.Minute)
	o.RenewalOverlap = cmp.Or(o.RenewalOverlap, time.Minute)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, 8<<20)
	o.MaxHeldBytes = cmp.Or(o.MaxHeldBytes, 8*o.MaxBodyBytes)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, httplimit.MaxHeaderBytes)
	o.MaxConnections = cmp.Or(o.MaxConnections, httplimit.MaxConnections)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 30*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 30*time.Second)
	if o.Logger == nil {
		o.Logger = servedLogger(ctx)
	}
	return &o
}

// webhookRun is a server while it serves.
type webhookRun struct {
	*WebhookServer
	review    ReviewFunc
	root      string       // of all paths: empty, or with a slash before it and none after
	heldBytes atomic.Int64 // bytes of bodies
	active    atomic.Int64 // requests
}

func (r *webhookRun) serve(ctx context.Context, announce func(WebhookClientConfig)) error {
	listener := r.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(strings.Trim(r.Addr, "[]"), strconv.Itoa(r.Port))); err != nil {
			return err
		}
	}
	defer listener.Close() // again, if the server has done it
	local := r.localHost(listener.Addr())
	shown, err := certs.Start(r.certificates(local), time.Now())
	if err != nil {
		return err
	}
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	server := &http.Server{
		Handler:           r,
		TLSConfig:         shown.ServerConfig(),
		ReadTimeout:       r.ReadTimeout,
		ReadHeaderTimeout: r.ReadTimeout / 3,
		IdleTimeout:       2 * time.Minute, // a little longer than API servers keep connections
		MaxHeaderBytes:    r.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(r.Logger.Handler(), slog.LevelDebug), // strangers can make it say a lot
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	httplimit.LimitConnections(server, r.MaxConnections)
	failed := make(chan error, 1) // from the goroutine of the listener to this one
	go func() {
		if r.Insecure {
			failed <- server.Serve(listener)
		} else {
			failed <- server.ServeTLS(listener, "", "")
		}
	}()
	address := r.url(cmp.Or(r.Host, local), listener.Addr())
	r.Logger.Debug("Listening for webhooks at " + r.url(listener.Addr().String(), nil))
	r.Logger.Debug("Accessing the webhooks at " + address)
	announce(WebhookClientConfig{URL: address, CABundle: shown.Bundle()})
	for {
		select {
		case err := <-failed:
			_ = server.Close() // the error of the listener is the one that matters
			return err
		case <-ctx.Done():
			return r.drain(server, end, failed)
		case <-time.After(shown.Wait(time.Now())):
			if shown.Check(time.Now()) {
				announce(WebhookClientConfig{URL: address, CABundle: shown.Bundle()})
				shown.ScheduleSwitch(time.Now()) // it may have taken a while
			}
		}
	}
}

// certificates returns where the certificates come from, with the name by which this machine reaches the server.
func (r *webhookRun) certificates(local string) certs.Options {
	return certs.Options{
		CertFile: r.CertFile, KeyFile: r.KeyFile, Password: string(r.Password), CAFile: r.CAFile, CADump: r.CADump, CAData: r.CAData,
		VerifyCAFile: r.VerifyCAFile, VerifyCAPath: r.VerifyCAPath, VerifyCAData: r.VerifyCAData, VerifyMode: r.VerifyMode,
		TLSConfig: r.TLSConfig, Insecure: r.Insecure, Names: append([]string{cmp.Or(r.Host, local), local}, r.ExtraSANs...),
		CheckInterval: r.FileCheckInterval, RenewalOverlap: r.RenewalOverlap, Log: r.Logger,
	}
}

// drain ends the server in order: the reviews under way are answered, then cut off, and none is left.
func (r *webhookRun) drain(server *http.Server, end context.CancelCauseFunc, failed <-chan error) error {
	limit, cancel := context.WithTimeout(context.Background(), r.DrainTimeout)
	defer cancel()
	err := server.Shutdown(limit)
	<-failed // the listener is closed
	if err == nil {
		return nil
	}
	r.Logger.Warn("Reviews are cut off at the end, because they took too long.", "limit", r.DrainTimeout)
	end(errors.New("the webhook server has stopped"))
	_ = server.Close() // what is left of the connections is of no use
	for began := time.Now(); r.active.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > afterDrain {
			r.Logger.Warn("Reviews are left behind, because they do not end with their contexts.", "number", r.active.Load())
			break
		}
	}
	return nil
}

// afterDrain is how long reviews may take to end when they are told to.
const afterDrain = 5 * time.Second

// localHost is how this machine itself reaches the server: where it listens on all addresses, that is one of them.
func (r *webhookRun) localHost(listening net.Addr) string {
	tcp, _ := listening.(*net.TCPAddr)
	host := strings.Trim(r.Addr, "[]")
	if host == "" && r.Listener != nil && tcp != nil {
		host = tcp.IP.String()
	}
	ip := net.ParseIP(host)
	switch {
	case host == "":
		return "localhost"
	case ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		return "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		return "::1"
	}
	return host
}

// url returns the URL of a host, and of the port of an address if one is given, unless that is the default.
func (r *webhookRun) url(host string, listening net.Addr) string {
	u := url.URL{Scheme: "https", Host: host, Path: r.root}
	usual := 443
	if r.Insecure {
		u.Scheme, usual = "http", 80
	}
	if listening == nil {
		return u.String()
	}
	port := r.Port
	if tcp, ok := listening.(*net.TCPAddr); ok && (port == 0 || r.Listener == nil) {
		port = tcp.Port
	}
	u.Host = net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port))
	if port == usual || port == 0 {
		u.Host = strings.TrimSuffix(u.Host, ":"+strconv.Itoa(port))
	}
	return u.String()
}

// ServeHTTP takes a request and answers it, whatever happens.
func (r *webhookRun) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.active.Add(1)
	defer r.active.Add(-1)
	defer func() {
		if p := recover(); p != nil {
			stack := make([]byte, 64<<10)
			r.Logger.Error("A review has made the webhook server panic.", "panic", p, "stack", string(stack[:runtime.Stack(stack, false)]))
			r.writeError(w, &ReviewError{Code: http.StatusInternalServerError, Message: "the review could not be finished: the operator has panicked; its log tells where"})
		}
	}()
	answer, err := r.answer(req)
	if err != nil {
		r.writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	r.write(w, http.StatusOK, answer)
}

// answer has a review answered.
func (r *webhookRun) answer(req *http.Request) ([]byte, error) {
	id, ok := strings.CutPrefix(req.URL.Path, r.root)
	mediaType, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type")) // what cannot be read is not the right one
	switch {
	case !ok || id != "" && id[0] != '/':
		return nil, &ReviewError{http.StatusNotFound, fmt.Sprintf("the path %q is not below that of the webhooks", req.URL.Path)}
	case req.Method != http.MethodPost:
		return nil, &ReviewError{http.StatusMethodNotAllowed, fmt.Sprintf("the method is %s; reviews come by POST", req.Method)}
	case mediaType != "application/json":
		return nil, &ReviewError{http.StatusUnsupportedMediaType, fmt.Sprintf("the content is %q; reviews are application/json", req.Header.Get("Content-Type"))}
	}
	body, err := r.read(req)
	defer r.heldBytes.Add(-int64(cap(body)))
	if err != nil {
		return nil, err
	}
	review := &ReviewRequest{Body: body, Handler: strings.TrimPrefix(id, "/"), Header: req.Header}
	if req.TLS != nil && len(req.TLS.VerifiedChains) > 0 {
		review.Peer = req.TLS.VerifiedChains[0][0]
	}
	return r.review(req.Context(), review)
}

// firstRead is how much room a body gets before any of it has come. It grows as more comes: the header Content-Length is but a claim.
const firstRead = 16 << 10

// read reads a body. The room that it takes is counted as held, also if it fails.
func (r *webhookRun) read(req *http.Request) (body []byte, err error) {
	tooLarge := &ReviewError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the review is larger than %d bytes", r.MaxBodyBytes)}
	if req.ContentLength > r.MaxBodyBytes {
		return nil, tooLarge
	}
	for {
		if len(body) == cap(body) {
			size := min(max(2*int64(cap(body)), firstRead), r.MaxBodyBytes+1)
			if claimed := req.ContentLength + 1; claimed > int64(cap(body)) {
				size = min(size, claimed)
			}
			if r.heldBytes.Add(size-int64(cap(body))) > r.MaxHeldBytes {
				r.heldBytes.Add(int64(cap(body)) - size)
				return body, &ReviewError{http.StatusServiceUnavailable, fmt.Sprintf("the reviews under way are larger than %d bytes together; try again", r.MaxHeldBytes)}
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := req.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > r.MaxBodyBytes:
			return body, tooLarge
		case err == io.EOF:
			return body, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return body, &ReviewError{http.StatusRequestTimeout, fmt.Sprintf("the review has not come within %s", r.ReadTimeout)}
		case err != nil:
			return body, &ReviewError{http.StatusBadRequest, fmt.Sprintf("the review has broken off after %d bytes", len(body))}
		}
	}
}

// writeError answers that there is no answer, and why, in the form that API servers pass on to those who have asked.
func (r *webhookRun) writeError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if wrong := (*ReviewError)(nil); errors.As(err, &wrong) && wrong.Code >= 400 && wrong.Code < 600 {
		code = wrong.Code
	}
	r.Logger.Debug("A review is refused.", "code", code, "error", err)
	w.Header().Set("Content-Type", "application/json")
	switch code {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	status, _ := json.Marshal(map[string]any{ // nothing in it can't be encoded
		"apiVersion": "v1", "kind": "Status", "metadata": struct{}{}, "status": "Failure", "message": err.Error(), "code": code,
	})
	r.write(w, code, append(status, '\n'))
}

func (r *webhookRun) write(w http.ResponseWriter, code int, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(r.WriteTimeout)) // both HTTP/1.1 and HTTP/2 can
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // who does not listen gets no answer
}

// WebhookNgrokTunnel is an [AdmissionServer] for development against clusters that cannot connect to this machine: it listens on this
// machine alone, and the public address of a tunnel by ngrok is announced. Everyone who knows that address can send reviews. See https://ngrok.com.
type WebhookNgrokTunnel struct {
	// Addr and Port are where the local server listens. They default to 127.0.0.1 and a free port.
	Addr string
	Port int
	// Path is where the ids of handlers come after. Defaults to the root.
	Path string
	// Token is the token of an account at ngrok. Defaults to that of ngrok's own configuration.
	Token Secret
	// Region is where the tunnel ends, such as "eu". Defaults to ngrok's choice.
	Region string
	// Binary is the program. Defaults to "ngrok" in the PATH.
	Binary string
	// Logger defaults to that of the operator.
	Logger *slog.Logger
}

// Format prints what [WebhookServer.Format] does.
func (t WebhookNgrokTunnel) Format(f fmt.State, _ rune) { printServer(f, t.Addr, t.Port) }

// Serve runs the local server and the program until the context ends, and returns nil then. The program is started again if
// it ends, with a new address to announce. It fails if the program cannot be started, or if there is no tunnel after half a minute at first.
func (t *WebhookNgrokTunnel) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	log := cmp.Or(t.Logger, servedLogger(ctx))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	local := make(chan string, 1) // the URL of the local server, from its goroutine to this one
	served := make(chan error, 1) // how the local server has ended, likewise
	server := &WebhookServer{Addr: cmp.Or(t.Addr, "127.0.0.1"), Port: t.Port, Path: t.Path, Insecure: true, Logger: t.Logger}
	go func() {
		served <- server.Serve(ctx, review, func(c WebhookClientConfig) { local <- c.URL })
	}()
	select {
	case err := <-served:
		return err
	case address := <-local:
		tunnelled := make(chan error, 1) // how the tunnel has ended, from its goroutine to this one
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

// WebhookAutoTunnel is for development: a [WebhookServer] with [ClusterAuto] if the kind of the cluster is detected, else a [WebhookNgrokTunnel]. Of its
// fields, only Addr, Port, Path and Logger are used for the former.
type WebhookAutoTunnel WebhookNgrokTunnel

// Format prints what [WebhookServer.Format] does.
func (t WebhookAutoTunnel) Format(f fmt.State, _ rune) { printServer(f, t.Addr, t.Port) }

// Serve listens until the context ends, and returns nil then. See [AdmissionServer].
func (t *WebhookAutoTunnel) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	log := cmp.Or(t.Logger, servedLogger(ctx))
	host := detectHost(ctx, log)
	if host == "" {
		log.Debug("The kind of the cluster is not known; using an ngrok tunnel.")
		return (*WebhookNgrokTunnel)(t).Serve(ctx, review, announce)
	}
	server := &WebhookServer{Addr: t.Addr, Port: t.Port, Path: t.Path, Host: host, Logger: t.Logger}
	return server.Serve(ctx, review, announce)
}

// detectHost returns by which name the operator's API server reaches this machine, and nothing if that is not known or cannot be found out.
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
		log.Warn("The kind of the cluster cannot be detected.", "error", err)
		return ""
	}
	if host != "" {
		log.Debug("The kind of the cluster is detected: its API server reaches this machine as " + host)
	}
	return host
}

// servedKey is the key of contexts for a servedOperator.
type servedKey struct{}

type servedOperator struct {
	client *Client
	log    *slog.Logger
}

// withOperator returns a context for [AdmissionServer.Serve], from which the servers of this package take the way to the
// API server and the logger.
func withOperator(ctx context.Context, client *Client, log *slog.Logger) context.Context {
	return context.WithValue(ctx, servedKey{}, servedOperator{client, log})
}

// servedClient returns the client of the operator that a server serves, nil if there is none.
func servedClient(ctx context.Context) *Client {
	op, _ := ctx.Value(servedKey{}).(servedOperator)
	return op.client
}

// servedLogger returns the logger of the operator that a server serves, the default one if there is none.
func servedLogger(ctx context.Context) *slog.Logger {
	if op, _ := ctx.Value(servedKey{}).(servedOperator); op.log != nil {
		return op.log
	}
	return slog.Default()
}

// forHandler returns the way to the handler with the path, as JSON.
func (c *WebhookClientConfig) forHandler(path string) map[string]any {
	config := map[string]any{}
	if c.URL != "" {
		config["url"] = strings.TrimRight(c.URL, "/") + "/" + webhookname.EscapePath(path)
	}
	if s := c.Service; s != nil {
		service := map[string]any{"namespace": s.Namespace, "name": s.Name, "path": strings.TrimRight(s.Path, "/") + "/" + webhookname.ServicePath(path)}
		if s.Port != 0 {
			service["port"] = s.Port
		}
		config["service"] = service
	}
	if len(c.CABundle) > 0 {
		config["caBundle"] = base64.StdEncoding.EncodeToString(c.CABundle)
	}
	return config
}

// WebhookClientConfig tells the API server how to reach an [AdmissionServer]: either by its URL or by a service in the cluster.
// See https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/validating-webhook-configuration-v1/.
type WebhookClientConfig struct {
	URL      string            // such as "https://host:port/path"
	Service  *ServiceReference // nil with a URL
	CABundle []byte            // PEM; nil if the API server's own trust is enough
}

// ServiceReference names a service in the cluster that stands before an [AdmissionServer].
type ServiceReference struct {
	Namespace, Name string // of the service
	Path            string // before the handlers' ids; may be empty
	Port            int    // zero means the default of the API server, 443
}
