package kopf

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver"
	"github.com/kopf-go/kopf/internal/webhookserver"
)

// APIServer is an embedded, in-memory Kubernetes API server. Use it to try, demonstrate and test operators without a cluster. It is an [http.Handler] that
// answers operators and kubectl as kube-apiserver does. docs/embedded-server.md lists its limits. It has no users, and allows every request.
//
// Create it with [NewAPIServer]. It is safe for concurrent use. In tests with [testing/synctest], create it inside the bubble, and connect with
// [APIServer.ConnectionInfo].
type APIServer struct{ s *apiserver.Server }

// APIServerOptions are the options of [NewAPIServer]. Zero values mean the defaults.
type APIServerOptions struct {
	// Version is the reported version of Kubernetes. Default: "v1.36.3".
	Version string
	// HistoryLimit is the number of changes of one kind that the server remembers for watches. It refuses watches from earlier resource versions with the code
	// 410. Default: 10,000. The changes of all kinds together have at most 64 MiB.
	HistoryLimit int
	// BookmarkInterval is the time between the bookmarks of a watch that requests them. Default: 1 minute.
	BookmarkInterval time.Duration
	// WebhookTransport sends the requests to admission and conversion webhooks. Default: [http.DefaultTransport] with the CA bundles of the configurations.
	WebhookTransport http.RoundTripper
	// DisableGarbageCollector turns off what kube-controller-manager does: the server keeps dependents of deleted owners, and makes no service accounts.
	// Default: false.
	DisableGarbageCollector bool
	// RefuseUnsupported makes the server refuse unsupported features, such as CEL rules, instead of returning a warning. Default: false.
	RefuseUnsupported bool
	// TLS serves TLS and HTTP/2 in [APIServer.Listen], with a new authority each time: see [APIServerListener.ConnectionInfo]. Default: false.
	TLS bool
	// Logger logs internal errors of the server. Default: [slog.Default].
	Logger *slog.Logger
}

// NewAPIServer returns an embedded API server with the namespaces of every cluster. It knows the kinds that [Define] has added to the default registry, except
// those that RefuseUnsupported refuses. Nil options mean the defaults.
func NewAPIServer(opts *APIServerOptions) *APIServer {
	if opts == nil {
		opts = &APIServerOptions{}
	}
	s := apiserver.New(apiserver.Options(*opts))
	for _, d := range DefaultRegistry().definitions() {
		_ = s.Apply(d) // it is refused again when the kind is used
	}
	return &APIServer{s}
}

// ServeHTTP answers one request. It makes the server an [http.Handler].
func (s *APIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.s.ServeHTTP(w, r) }

// ConnectionInfo returns a connection to the server within the process, without a network.
func (s *APIServer) ConnectionInfo() *ConnectionInfo {
	return &ConnectionInfo{Server: "http://apiserver.local", HTTPClient: &http.Client{Transport: &apiserver.Transport{Handler: s.s}}}
}

// Apply creates or replaces the objects of manifests in YAML or JSON. Definitions of custom resources can come together with their objects. It ignores UIDs and
// resource versions, so an export of a cluster will do. It stops at the first refused manifest, and returns the error, with its place and its name.
func (s *APIServer) Apply(manifests []byte) error { return s.s.Apply(manifests) }

// Compact forgets the history of changes, as clusters do every few minutes. The server then refuses watches from earlier resource versions, and further pages
// of lists, with the code 410.
func (s *APIServer) Compact() { s.s.Compact() }

// Disconnect ends all watches at once, as if their connections were lost.
func (s *APIServer) Disconnect() { s.s.Disconnect() }

// APIServerRequest is a recorded request to an [APIServer]. See [APIServer.Requests].
type APIServerRequest struct {
	Time        time.Time // of its arrival
	Method      string    // of HTTP
	Path        string    // with the query
	Verb        string    // get, list, watch, create, update, patch, delete or deletecollection; "" if it is not about objects
	Resource    string    // the plural, such as "pods"
	Subresource string    // such as "status"; "" for the object itself
	Namespace   string    // "" for objects without one, and for all
	Name        string    // "" for lists and creations
	ContentType string
	UserAgent   string
	Body        []byte // as received
	Status      int    // the code of the response, 0 before it
}

// Requests returns the recorded requests in order: the last 10,000, of at most 16 MiB together.
func (s *APIServer) Requests() []APIServerRequest {
	requests := s.s.Requests()
	all := make([]APIServerRequest, len(requests))
	for i, r := range requests {
		all[i] = APIServerRequest(r)
	}
	return all
}

// APIServerFault describes requests that an [APIServer] fails on purpose. Empty fields match all requests. See [APIServer.Fail].
type APIServerFault struct {
	Verb        string // get, list, watch, create, update, patch, delete or deletecollection
	Resource    string // the plural
	Subresource string
	Namespace   string
	Name        string
	After       int // number of matching requests that succeed first
	Times       int // number of requests that fail then; zero means all

	Status     int           // refuse with this code
	Reason     string        // the reason in the refusal. Defaults to the usual one for the code
	Message    string        // the message in the refusal. Defaults to one that says that the failure is intended
	RetryAfter time.Duration // the Retry-After header of the refusal, in whole seconds
	HTML       bool          // refuse with a page, as proxies do
	Delay      time.Duration // time to wait before the response
	Drop       bool          // drop the connection without doing anything
	DropAfter  bool          // carry out the request, and drop the connection without a response
	Stall      bool          // of watches: accept, and never send anything
	Gone       bool          // of watches: accept, and send an error event with the code 410
	Cut        bool          // of watches: break off in the middle of the first event
}

// Fail makes matching requests fail until you call the returned function. If several faults match a request, the first one counts.
func (s *APIServer) Fail(f APIServerFault) (remove func()) { return s.s.Fail(apiserver.Fault(f)) }

// APIServerListener serves an [APIServer] on a TCP address. See [APIServer.Listen].
type APIServerListener struct {
	// URL is the address of the server, such as "http://127.0.0.1:12345". It begins with https if [APIServerOptions].TLS is set.
	URL string

	listener *apiserver.Listener
}

// Listen serves the server on a TCP address, such as "127.0.0.1:0" for a free local port. Clients have all permissions, so use a local address. There, the
// server refuses host names other than localhost. It refuses requests from web pages of other origins at every address. Call Close at the end.
func (s *APIServer) Listen(address string) (*APIServerListener, error) {
	listener, err := s.s.Listen(address)
	if err != nil {
		return nil, err
	}
	return &APIServerListener{URL: listener.URL, listener: listener}, nil
}

// ConnectionInfo returns a connection over the network: the URL and, with TLS, the CA of the certificate.
func (s *APIServerListener) ConnectionInfo() *ConnectionInfo {
	return &ConnectionInfo{Server: s.URL, CAData: s.listener.CA}
}

// Close stops listening, and ends all connections.
func (s *APIServerListener) Close() error { return s.listener.Close() }

// WriteKubeconfig writes a kubeconfig for kubectl and other clients of the server. It replaces an existing file by a new file of the current user. It also
// replaces a symbolic link, and does not change the target of the link.
func (s *APIServerListener) WriteKubeconfig(path string) error {
	return s.listener.WriteKubeconfig(path)
}

// AdmissionServer returns an [AdmissionServer] for one operator in the same process. The API server passes reviews to it directly, without a network and
// certificates, so that it also works in a bubble of testing/synctest.
//
//	server := kopf.NewAPIServer(nil)
//	settings.Admission = kopf.AdmissionSettings{Server: server.AdmissionServer(), Managed: "example.com"}
func (s *APIServer) AdmissionServer() AdmissionServer { return &processWebhooks{s} }

type processWebhooks struct{ server *APIServer }

// Serve takes reviews until the context ends, and returns when the last one is answered. See [AdmissionServer].
func (p *processWebhooks) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	url, end := p.server.s.HandleReviews(webhookserver.NewHandler("", webhookserver.Limits{}, reviewer(review), servedLogger(ctx)))
	defer end()
	announce(WebhookClientConfig{URL: url})
	<-ctx.Done()
	return nil
}
