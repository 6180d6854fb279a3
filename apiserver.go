package kopf

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver"
	"github.com/kopf-go/kopf/internal/webhookserver"
)

// APIServer is a Kubernetes API server that keeps everything in memory: to try an operator, to demonstrate it,
// and to test it without a cluster. It is an [http.Handler] that understands what operators and kubectl send, and answers as
// kube-apiserver does; what it lacks is told in docs/embedded-server.md. It knows no users and lets everybody in.
//
// Make it with [NewAPIServer]. It is safe for concurrent use. In tests with [testing/synctest], make it
// inside of the bubble and reach it by [APIServer.ConnectionInfo].
type APIServer struct{ s *apiserver.Server }

// APIServerOptions adjust an [APIServer]. Zero values mean the defaults.
type APIServerOptions struct {
	// Version is the version of Kubernetes that it claims to be. Defaults to "v1.36.3".
	Version string
	// HistoryLimit is how many changes of one kind are remembered for watches that go on from an older version; those that come
	// too late are refused with the code 410. Defaults to 10,000. Of large objects fewer are remembered: 64 MiB of all kinds together.
	HistoryLimit int
	// BookmarkInterval is the time between the bookmarks of a watch that wants them. Defaults to 1 minute.
	BookmarkInterval time.Duration
	// WebhookTransport makes the requests to admission and conversion webhooks. Defaults to [http.DefaultTransport] with the
	// authorities that the configurations name.
	WebhookTransport http.RoundTripper
	// DisableGarbageCollector is to do without what kube-controller-manager does: dependents of owners that are gone stay, and there are no service accounts. Defaults to false.
	DisableGarbageCollector bool
	// RefuseUnsupported is to refuse what has no effect on this server, such as rules in CEL, instead of warning of it. Defaults to false.
	RefuseUnsupported bool
	// TLS is to listen with TLS and HTTP/2, each time with an authority of its own, which [APIServerListener.ConnectionInfo] has. Defaults to false.
	TLS bool
	// Logger takes what goes wrong in the server itself. Defaults to [slog.Default].
	Logger *slog.Logger
}

// NewAPIServer makes a server with the namespaces that every cluster has. It knows the kinds that are defined in the default registry, see [Define], but for those that
// RefuseUnsupported refuses. Options may be nil.
func NewAPIServer(opts *APIServerOptions) *APIServer {
	if opts == nil {
		opts = &APIServerOptions{}
	}
	s := apiserver.New(apiserver.Options(*opts))
	for _, d := range DefaultRegistry().definitions() {
		_ = s.Apply(d) // it is refused again where the kind is used
	}
	return &APIServer{s}
}

// ServeHTTP answers one request.
func (s *APIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.s.ServeHTTP(w, r) }

// ConnectionInfo returns how to reach the server within the process, without a network.
func (s *APIServer) ConnectionInfo() *ConnectionInfo {
	return &ConnectionInfo{Server: "http://apiserver.local", HTTPClient: &http.Client{Transport: &apiserver.Transport{Handler: s.s}}}
}

// Apply loads manifests, in YAML or JSON, any number of them in one text: what exists is replaced, all else is created. Resource
// definitions can come together with objects of theirs. An export of another server will do: versions and uids in it are passed over. It stops at the first manifest that is refused.
func (s *APIServer) Apply(manifests []byte) error { return s.s.Apply(manifests) }

// Compact forgets the history, as real servers do every few minutes: watches that go on from an older version are
// refused with the code 410, and the next pages of lists too.
func (s *APIServer) Compact() { s.s.Compact() }

// Disconnect ends all watches at once, as if their connections were lost.
func (s *APIServer) Disconnect() { s.s.Disconnect() }

// APIServerRequest is a request that an [APIServer] has got.
type APIServerRequest struct {
	Time        time.Time // of its arrival
	Method      string    // of HTTP
	Path        string    // with the query
	Verb        string    // get, list, watch, create, update, patch, delete or deletecollection; "" if it is not about objects
	Resource    string    // the plural, such as "pods"
	Subresource string    // such as "status"; "" for the object itself
	Namespace   string    // "" for objects without one, and for all
	Name        string    // "" for listings, and for creations
	ContentType string
	UserAgent   string
	Body        []byte // as it came
	Status      int    // the code of the answer, 0 while there is none
}

// Requests returns the requests so far, or the last ones: at most 10,000, of at most 16 MiB together.
func (s *APIServer) Requests() []APIServerRequest {
	requests := s.s.Requests()
	all := make([]APIServerRequest, len(requests))
	for i, r := range requests {
		all[i] = APIServerRequest(r)
	}
	return all
}

// APIServerFault tells an [APIServer] to fail some requests. Empty fields fit all requests.
type APIServerFault struct {
	Verb        string // get, list, watch, create, update, patch, delete or deletecollection
	Resource    string // the plural
	Subresource string
	Namespace   string
	Name        string
	After       int // how many fitting requests go well before
	Times       int // how many fail then; zero means all

	Status     int           // refuse with this code
	Reason     string        // the reason in the refusal. Defaults to the usual one for the code
	Message    string        // the message in the refusal. Defaults to one that says that it was asked for
	RetryAfter time.Duration // the wish sent with the refusal, in whole seconds
	HTML       bool          // refuse with a page, as proxies do
	Delay      time.Duration // answer that much later
	Drop       bool          // drop the connection without doing anything
	DropAfter  bool          // do what is asked, and drop the connection without answering
	Stall      bool          // of watches: accept, and never send anything
	Gone       bool          // of watches: accept, and send an error event with the code 410
	Cut        bool          // of watches: break off in the middle of the first event
}

// Fail makes requests fail from now on, until the returned function is called. Of several faults that fit, the first
// one counts.
func (s *APIServer) Fail(f APIServerFault) (remove func()) { return s.s.Fail(apiserver.Fault(f)) }

// APIServerListener is an [APIServer] that listens.
type APIServerListener struct {
	// URL is where it listens, such as "http://127.0.0.1:12345", or with https if [APIServerOptions].TLS is set.
	URL string

	listener *apiserver.Listener
}

// Listen serves on a TCP address, such as "127.0.0.1:0" for a free port of this machine. Whoever reaches it can do
// everything, so it should be an address of this machine only, where requests by names other than localhost are refused. Requests that
// pages of other origins make a browser send are refused at any address. Close ends it.
func (s *APIServer) Listen(address string) (*APIServerListener, error) {
	listener, err := s.s.Listen(address)
	if err != nil {
		return nil, err
	}
	return &APIServerListener{URL: listener.URL, listener: listener}, nil
}

// ConnectionInfo returns how to reach the listening server over the network: its URL and, with TLS, the authority of its certificate.
func (s *APIServerListener) ConnectionInfo() *ConnectionInfo {
	return &ConnectionInfo{Server: s.URL, CAData: s.listener.CA}
}

// Close stops listening, and ends all connections.
func (s *APIServerListener) Close() error { return s.listener.Close() }

// WriteKubeconfig writes a kubeconfig by which kubectl and others reach the listening server. A file that is there is replaced by a new one
// of the user of this process, and so is a symbolic link: the file that it leads to stays as it is.
func (s *APIServerListener) WriteKubeconfig(path string) error {
	return s.listener.WriteKubeconfig(path)
}

// AdmissionServer returns a server of webhooks for one operator in the same process: the API server hands the reviews over as it would
// send them, with no network and no certificates, so that it works in a bubble of testing/synctest, too.
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
