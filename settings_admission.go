package kopf

import (
	"context"
	"crypto/x509"
	"net/http"
)

// This file holds what the engine of admission and the servers of webhooks agree on: the settings, the interface of a
// server, and what goes through it. It is data; a server calls a ReviewFunc on goroutines of its own.

// AdmissionSettings are about admission webhooks.
type AdmissionSettings struct {
	// Server receives the reviews from the API server. It is required if there are admission handlers. Defaults to none.
	Server AdmissionServer
	// Managed names both a ValidatingWebhookConfiguration and a MutatingWebhookConfiguration, which the operator makes
	// and keeps up to date. Empty means that the configurations are made by hand. Defaults to empty.
	Managed string
}

// AdmissionServer receives the reviews of the API server, or of whatever stands between, and has them answered.
type AdmissionServer interface {
	// Serve serves until the context ends, and returns nil then. It calls review for each review that it receives, and announce with
	// how the API server reaches it: first when it listens, and again whenever its address or its CA changes. The operator's
	// context also tells the servers of this package how to reach the API server, and where to log; one that wraps them passes it on.
	Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error
}

// ReviewFunc answers a review with the JSON of an AdmissionReview. It can be called on several goroutines at once. An error is
// a [*ReviewError] if the review itself was wrong; any other error means that it could not be answered.
type ReviewFunc func(ctx context.Context, r *ReviewRequest) ([]byte, error)

// ReviewRequest is one request of the API server to an [AdmissionServer].
type ReviewRequest struct {
	// Body is the JSON of an AdmissionReview with a request.
	Body []byte
	// Handler is the id of the handler that is asked for, and empty for all handlers of the resource.
	Handler string
	// Header holds the headers of the HTTP request. It may be nil.
	Header http.Header
	// Peer is the verified certificate of the client, nil if there is none.
	Peer *x509.Certificate
}

// ReviewError tells that a review cannot be answered because of what it is. The API server then obeys the failure policy of the webhook.
type ReviewError struct {
	Code    int    // the status of the HTTP response, such as 404
	Message string // what is wrong, in plain text
}

// Error returns the message.
func (e *ReviewError) Error() string { return e.Message }

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
