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

	"github.com/kopf-go/kopf/internal/httplimit"
)

// Review is a review as it has come.
type Review struct {
	Body    []byte            // JSON, which is not read here
	Handler string            // what follows the root in the path, without the slash
	Header  http.Header       // of the request
	Peer    *x509.Certificate // the verified certificate of the client, nil if there is none
}

// Reviewer answers reviews, on the goroutines of their connections.
type Reviewer interface {
	// Review returns the JSON of the answer. An error that is not an [Error] is answered with the status 500.
	Review(context.Context, *Review) ([]byte, error)
}

// Error says why there is no answer to a review.
type Error struct {
	Code    int // the status of the HTTP response, from 400 to 599; anything else means 500
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Limits are what clients can make a server hold, and for how long. Zero means the default.
type Limits struct {
	MaxBodyBytes   int64         // of a review; 8 MiB by default
	MaxHeldBytes   int64         // of the bodies of all reviews under way; 8 times MaxBodyBytes by default
	MaxHeaderBytes int           // of the headers of a request; [httplimit.MaxHeaderBytes] by default
	MaxConnections int           // [httplimit.MaxConnections] by default
	ReadTimeout    time.Duration // for a request to come; 30 seconds by default
	WriteTimeout   time.Duration // for an answer to be sent; 10 seconds by default
	DrainTimeout   time.Duration // for the reviews under way at the end; 30 seconds by default
}

func (l Limits) withDefaults() Limits {
	l.MaxBodyBytes = cmp.Or(l.MaxBodyBytes, 8<<20)
	l.MaxHeldBytes = cmp.Or(l.MaxHeldBytes, 8*l.MaxBodyBytes)
	l.MaxHeaderBytes = cmp.Or(l.MaxHeaderBytes, httplimit.MaxHeaderBytes)
	l.MaxConnections = cmp.Or(l.MaxConnections, httplimit.MaxConnections)
	l.ReadTimeout = cmp.Or(l.ReadTimeout, 30*time.Second)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 10*time.Second)
	l.DrainTimeout = cmp.Or(l.DrainTimeout, 30*time.Second)
	return l
}

// handler takes reviews in, within limits, and has them answered.
type handler struct {
	limits    Limits
	root      string // of all paths: empty, or with a slash before it and none after
	reviewer  Reviewer
	log       *slog.Logger
	heldBytes atomic.Int64 // bytes of bodies
	active    atomic.Int64 // requests
}

// NewHandler returns a handler for reviews whose paths are below that one.
func NewHandler(path string, limits Limits, reviewer Reviewer, log *slog.Logger) http.Handler {
	return newHandler(path, limits, reviewer, log)
}

func newHandler(path string, limits Limits, reviewer Reviewer, log *slog.Logger) *handler {
	root := strings.TrimRight("/"+strings.Trim(path, "/"), "/")
	return &handler{limits: limits.withDefaults(), root: root, reviewer: reviewer, log: log}
}

// ServeHTTP takes a request and answers it, whatever happens.
func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h.active.Add(1)
	defer h.active.Add(-1)
	defer func() {
		if p := recover(); p != nil {
			stack := make([]byte, 64<<10)
			h.log.Error("The webhook server panicked", "help", "K1015", "panic", p, "stack", string(stack[:runtime.Stack(stack, false)]))
			h.writeError(w, &Error{http.StatusInternalServerError, "the review could not be finished: the operator has panicked; its log tells where"})
		}
	}()
	answer, err := h.answer(req)
	if err != nil {
		h.writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	h.write(w, http.StatusOK, answer)
}

// answer has a review answered.
func (h *handler) answer(req *http.Request) ([]byte, error) {
	id, ok := strings.CutPrefix(req.URL.Path, h.root)
	mediaType, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type")) // what cannot be read is not the right one
	switch {
	case !ok || id != "" && id[0] != '/':
		return nil, &Error{http.StatusNotFound, fmt.Sprintf("the path %q is not below that of the webhooks", req.URL.Path)}
	case req.Method != http.MethodPost:
		return nil, &Error{http.StatusMethodNotAllowed, fmt.Sprintf("the method is %s; reviews come by POST", req.Method)}
	case mediaType != "application/json":
		return nil, &Error{http.StatusUnsupportedMediaType, fmt.Sprintf("the content is %q; reviews are application/json", req.Header.Get("Content-Type"))}
	}
	body, err := h.read(req)
	defer h.heldBytes.Add(-int64(cap(body)))
	if err != nil {
		return nil, err
	}
	review := &Review{Body: body, Handler: strings.TrimPrefix(id, "/"), Header: req.Header}
	if req.TLS != nil && len(req.TLS.VerifiedChains) > 0 {
		review.Peer = req.TLS.VerifiedChains[0][0]
	}
	return h.reviewer.Review(req.Context(), review)
}

// firstRead is how much room a body gets before any of it has come. It grows as more comes: the header Content-Length is but a claim.
const firstRead = 16 << 10

// read reads a body. The room that it takes is counted as held, also if it fails.
func (h *handler) read(req *http.Request) (body []byte, err error) {
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
			if h.heldBytes.Add(size-int64(cap(body))) > h.limits.MaxHeldBytes {
				h.heldBytes.Add(int64(cap(body)) - size)
				return body, &Error{http.StatusServiceUnavailable, fmt.Sprintf("the reviews under way are larger than %d bytes together; try again", h.limits.MaxHeldBytes)}
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := req.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return body, tooLarge
		case err == io.EOF:
			return body, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return body, &Error{http.StatusRequestTimeout, fmt.Sprintf("the review has not come within %s", h.limits.ReadTimeout)}
		case err != nil:
			return body, &Error{http.StatusBadRequest, fmt.Sprintf("the review has broken off after %d bytes", len(body))}
		}
	}
}

// writeError answers that there is no answer, and why, in the form that API servers pass on to those who have asked.
func (h *handler) writeError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if wrong := (*Error)(nil); errors.As(err, &wrong) && wrong.Code >= 400 && wrong.Code < 600 {
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
	status, _ := json.Marshal(map[string]any{ // nothing in it can't be encoded
		"apiVersion": "v1", "kind": "Status", "metadata": struct{}{}, "status": "Failure", "message": err.Error(), "code": code,
	})
	h.write(w, code, append(status, '\n'))
}

func (h *handler) write(w http.ResponseWriter, code int, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.limits.WriteTimeout)) // both HTTP/1.1 and HTTP/2 can
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // who does not listen gets no answer
}
