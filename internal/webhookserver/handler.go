package webhookserver

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/httplimit"
)

// Review is a received review.
type Review struct {
	Body    []byte            // JSON, not parsed
	Handler string            // path after the root, without the slash
	Header  http.Header       // of the request
	Peer    *x509.Certificate // verified client certificate; nil for none
}

// Reviewer responds to reviews, on the goroutines of their connections.
type Reviewer interface {
	// Review returns the JSON of the response. The status code of an error that is not an [Error] is 500.
	Review(context.Context, *Review) ([]byte, error)
}

// Error is the failure to review.
type Error struct {
	Code    int // HTTP status code, from 400 to 599; 500 for other values
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Limits are the limits for clients. Zero means the default.
type Limits struct {
	MaxBodyBytes   int64         // of a review; default: 8 MiB
	MaxHeldBytes   int64         // of the bodies of all running reviews; default: 8 times MaxBodyBytes
	MaxHeaderBytes int           // of the headers of a request; default: [httplimit.MaxHeaderBytes]
	MaxConnections int           // default: [httplimit.MaxConnections]
	ReadTimeout    time.Duration // to receive a request; default: 10 seconds
	WriteTimeout   time.Duration // to send a response; default: 10 seconds
	DrainTimeout   time.Duration // for running reviews at shutdown; default: 15 seconds
}

func (l Limits) withDefaults() Limits {
	l.MaxBodyBytes = cmp.Or(l.MaxBodyBytes, 8<<20)
	l.MaxHeldBytes = cmp.Or(l.MaxHeldBytes, 8*l.MaxBodyBytes)
	l.MaxHeaderBytes = cmp.Or(l.MaxHeaderBytes, httplimit.MaxHeaderBytes)
	l.MaxConnections = cmp.Or(l.MaxConnections, httplimit.MaxConnections)
	l.ReadTimeout = cmp.Or(l.ReadTimeout, 10*time.Second)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 10*time.Second)
	l.DrainTimeout = cmp.Or(l.DrainTimeout, 15*time.Second)
	return l
}

// handler receives reviews, within limits, and passes them to the reviewer.
type handler struct {
	limits    Limits
	root      string // of all paths: "", or with a leading slash and without a trailing one
	reviewer  Reviewer
	log       *slog.Logger
	held      heldBytes
	active    atomic.Int64 // requests
	reviewing atomic.Int64 // requests that have arrived whole
}

// NewHandler returns a handler for reviews with paths below the given one.
func NewHandler(path string, limits Limits, reviewer Reviewer, log *slog.Logger) http.Handler {
	return newHandler(path, limits, reviewer, log)
}

func newHandler(path string, limits Limits, reviewer Reviewer, log *slog.Logger) *handler {
	root := strings.TrimRight("/"+strings.Trim(path, "/"), "/")
	return &handler{limits: limits.withDefaults(), root: root, reviewer: reviewer, log: log}
}

// ServeHTTP handles a request, and recovers from panics.
func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h.active.Add(1)
	defer h.active.Add(-1)
	defer func() {
		if p := recover(); p != nil {
			stack := make([]byte, 64<<10)
			h.log.Error("The webhook server panicked", "panic", p, "stack", string(stack[:runtime.Stack(stack, false)]), "help", "K1015")
			h.writeError(w, &Error{http.StatusInternalServerError, "the review could not be finished: the operator has panicked; its log tells where"})
		}
	}()
	body := &heldBody{address: httplimit.Address(req.RemoteAddr), since: time.Now(), abort: func() {
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // HTTP/1.1 and HTTP/2 support it
	}}
	defer h.held.release(body)
	review, err := h.receive(req, body)
	if err != nil {
		h.held.release(body) // the client may not read the answer
		h.writeError(w, err)
		return
	}
	h.reviewing.Add(1)
	defer h.reviewing.Add(-1)
	answer, err := h.reviewer.Review(req.Context(), review)
	if err != nil {
		h.writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	h.write(w, http.StatusOK, answer)
}

// receive reads a review.
func (h *handler) receive(req *http.Request, into *heldBody) (*Review, error) {
	id, ok := strings.CutPrefix(req.URL.Path, h.root)
	mediaType, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type")) // an invalid type is rejected below
	switch {
	case !ok || id != "" && id[0] != '/':
		return nil, &Error{http.StatusNotFound, fmt.Sprintf("the path %q is not below that of the webhooks", req.URL.Path)}
	case req.Method != http.MethodPost:
		return nil, &Error{http.StatusMethodNotAllowed, fmt.Sprintf("the method is %s; reviews come by POST", req.Method)}
	case mediaType != "application/json":
		return nil, &Error{http.StatusUnsupportedMediaType, fmt.Sprintf("the content is %q; reviews are application/json", req.Header.Get("Content-Type"))}
	}
	body, err := h.read(req, into)
	if err != nil {
		return nil, err
	}
	review := &Review{Body: body, Handler: strings.TrimPrefix(id, "/"), Header: req.Header}
	if req.TLS != nil && len(req.TLS.VerifiedChains) > 0 {
		review.Peer = req.TLS.VerifiedChains[0][0]
	}
	return review, nil
}

// firstRead is the initial size of the buffer for a body. It grows with the received bytes, because clients choose the Content-Length.
const firstRead = 16 << 10

// read reads a body.
func (h *handler) read(req *http.Request, into *heldBody) (body []byte, err error) {
	defer httplimit.Arriving(req.Context())()
	defer h.held.arrived(into)
	limit := h.limits.MaxBodyBytes
	tooLarge := &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf("the review is larger than %d bytes", limit)}
	if req.ContentLength > limit {
		return nil, tooLarge
	}
	for {
		if len(body) == cap(body) {
			size := min(max(2*int64(cap(body)), firstRead), limit+1)
			if claimed := req.ContentLength + 1; claimed > int64(cap(body)) {
				size = min(size, claimed)
			}
			if !h.held.grow(into, size, h.limits.MaxHeldBytes) {
				return nil, &Error{http.StatusServiceUnavailable, fmt.Sprintf("the reviews under way are larger than %d bytes together; try again", h.limits.MaxHeldBytes)}
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := req.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, tooLarge
		case err == io.EOF:
			return body, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &Error{http.StatusRequestTimeout, fmt.Sprintf("the review has not come within %s", h.limits.ReadTimeout)}
		case err != nil:
			return nil, &Error{http.StatusBadRequest, fmt.Sprintf("the review has broken off after %d bytes", len(body))}
		}
	}
}

// writeError responds with an error, in the form that API servers pass on to their clients.
func (h *handler) writeError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if wrong := (*Error)(nil); errtype.As(err, &wrong) && wrong.Code >= 400 && wrong.Code < 600 {
		code = wrong.Code
	}
	h.log.Debug("Refused a review", "code", code, "error", err)
	w.Header().Set("Content-Type", "application/json")
	switch code {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	status, _ := json.Marshal(map[string]any{ // cannot fail for these types
		"apiVersion": "v1", "kind": "Status", "metadata": struct{}{}, "status": "Failure", "message": err.Error(), "code": code,
	})
	h.write(w, code, append(status, '\n'))
}

func (h *handler) write(w http.ResponseWriter, code int, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.limits.WriteTimeout)) // HTTP/1.1 and HTTP/2 support it
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body)                      // the client has disconnected
	_ = http.NewResponseController(w).Flush() // a shutdown does not wait for buffered bytes
}
