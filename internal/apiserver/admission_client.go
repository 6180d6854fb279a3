package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// webhook is one webhook of a configuration.
type webhook struct {
	name    string
	url     string
	service map[string]any // if there is no URL
	ca      string         // in base64
	timeout time.Duration
	ignore  bool   // whether failures are ignored
	effects bool   // whether it may have side effects, so that it must not be called in dry runs
	again   bool   // whether it wants to be called again if others have changed the object after it
	version string // of the object that it gets
	spec    map[string]any
}

func newWebhook(hook map[string]any) *webhook {
	client := rawjson.AsMap(hook["clientConfig"])
	h := &webhook{spec: hook, timeout: 10 * time.Second, ignore: hook["failurePolicy"] == "Ignore", again: hook["reinvocationPolicy"] == "IfNeeded"}
	h.name = unstructured.Text(hook, "name")
	h.url = unstructured.Text(client, "url")
	h.service = rawjson.AsMap(client["service"])
	h.ca = unstructured.Text(client, "caBundle")
	h.effects = hook["sideEffects"] != "None" && hook["sideEffects"] != "NoneOnDryRun"
	if seconds := validation.Number(unstructured.Word(hook["timeoutSeconds"])); seconds > 0 {
		h.timeout = time.Duration(seconds) * time.Second
	}
	return h
}

func decodeBase64(text string) ([]byte, error) { return base64.StdEncoding.DecodeString(text) }

// maxReview is the largest response of a webhook, in bytes.
const maxReview = 10 << 20

// call sends a review on a connection of its own, and returns the response.
func (w *webhook) call(ctx context.Context, s *Server, review map[string]any) (map[string]any, error) {
	data, err := w.post(ctx, s, review)
	if err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	return w.response(data)
}

// post sends a review, and returns the body of the response.
func (w *webhook) post(ctx context.Context, s *Server, review map[string]any) ([]byte, error) {
	body, err := rawjson.Encode(review)
	if err != nil {
		return nil, err
	}
	address, err := w.address(s)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	request.Header.Set("User-Agent", "kube-apiserver-admission")
	transport, err := w.transport(s)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxReview))
	if err == nil && (answer.StatusCode < 200 || answer.StatusCode > 206) {
		if media := answer.Header.Get("Content-Type"); media != "" && !strings.HasPrefix(media, "text/") {
			err = badAnswer(answer.StatusCode, data, "unknown")
		} else {
			err = badAnswer(answer.StatusCode, data, strings.TrimSpace(string(data)))
		}
	}
	return data, err
}

// response decodes the response in a body.
func (w *webhook) response(data []byte) (map[string]any, error) {
	review, err := rawjson.DecodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	if kind, version := unstructured.Word(review["kind"]), unstructured.Word(review["apiVersion"]); kind != "AdmissionReview" || version != "admission.k8s.io/v1" {
		return nil, fmt.Errorf("received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got %s, Kind=%s", version, kind)
	}
	response := rawjson.AsMap(review["response"])
	if response == nil {
		return nil, errors.New("received invalid webhook response: webhook response was absent")
	}
	return response, nil
}

// address returns the URL of the webhook. Only Services with an external name can be reached, because this server has no cluster network.
func (w *webhook) address(s *Server) (string, error) {
	timeout := fmt.Sprintf("timeout=%ds", int(w.timeout.Seconds()))
	if w.url == "" {
		host, port, path := w.serviceHost()
		at := fmt.Sprintf("https://%s:%s/%s?%s", host, port, strings.TrimPrefix(path, "/"), timeout)
		if w.externalName(s) != "" {
			return at, nil
		}
		name := unstructured.Word(w.service["name"])
		why := fmt.Sprintf("service %q not found", name)
		if s.db.Get("services.", unstructured.Word(w.service["namespace"])+"/"+name) != nil {
			why = fmt.Sprintf("no endpoints available for service %q", name)
		}
		return "", &url.Error{Op: "Post", URL: at, Err: errors.New(why)}
	}
	u, err := url.Parse(w.url)
	if err != nil {
		return "", err
	}
	u.RawQuery = timeout
	return u.String(), nil
}

// serviceHost returns the host, the port and the path of a Service.
func (w *webhook) serviceHost() (host, port, path string) {
	name, namespace := unstructured.Word(w.service["name"]), unstructured.Word(w.service["namespace"])
	return name + "." + namespace + ".svc", cmp.Or(unstructured.Word(w.service["port"]), "443"), unstructured.Word(w.service["path"])
}

// externalName returns the external name of the webhook's Service, "" if there is no such Service, or it has another type.
func (w *webhook) externalName(s *Server) string {
	stored := s.db.Get("services.", unstructured.Word(w.service["namespace"])+"/"+unstructured.Word(w.service["name"]))
	if stored == nil {
		return ""
	}
	spec := rawjson.AsMap(stored.Object()["spec"])
	if spec["type"] != "ExternalName" {
		return ""
	}
	return unstructured.Text(spec, "externalName")
}

// transport returns the transport of the options, or one that trusts the CA bundle of the
// configuration.
func (w *webhook) transport(s *Server) (http.RoundTripper, error) {
	if handler := s.webhookHere(w.url); handler != nil {
		return &Transport{handler}, nil
	}
	if s.opts.WebhookTransport != nil {
		return s.opts.WebhookTransport, nil
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if host := w.externalName(s); w.url == "" && host != "" {
		_, port, _ := w.serviceHost()
		t.Proxy, t.DialContext = nil, func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(host, port))
		}
	}
	if w.ca != "" {
		bundle, err := decodeBase64(w.ca)
		if err != nil {
			return nil, fmt.Errorf("the authorities of the webhook %q are no base64: %w", w.name, err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	return t, nil
}

// hasCertificate reports whether a CA bundle has certificates.
func hasCertificate(bundle []byte) bool { return x509.NewCertPool().AppendCertsFromPEM(bundle) }

// HandleReviews serves webhooks by a handler in this process, at the URL that it returns. The function end stops that, and returns when the last
// review is answered.
func (s *Server) HandleReviews(handler http.Handler) (url string, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.webhooks == nil {
		s.webhooks = make(map[string]http.Handler)
	}
	host := fmt.Sprintf("webhooks-%d.in-memory", len(s.webhooks)+1)
	served := &closableHandler{handler: handler}
	s.webhooks[host] = served
	return "https://" + host, served.close
}

// closableHandler handles requests until it is closed.
type closableHandler struct {
	handler http.Handler
	active  sync.WaitGroup

	mu     sync.Mutex // guards following
	closed bool
}

func (c *closableHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.enter() {
		panic(http.ErrAbortHandler) // as if no server listened
	}
	defer c.active.Done()
	c.handler.ServeHTTP(w, r)
}

// enter counts a request, unless the handler is closed.
func (c *closableHandler) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.active.Add(1)
	}
	return !c.closed
}

// close waits for the running requests.
func (c *closableHandler) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.active.Wait()
}

// webhookHere returns the handler in this process that serves a webhook, nil if there is none.
func (s *Server) webhookHere(address string) http.Handler {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.webhooks[u.Host]
}

// badAnswer returns the error of a response without a review: its message, if it is a Status, or a text.
func badAnswer(code int, body []byte, text string) error {
	status, err := rawjson.DecodeObject(body)
	switch {
	case err == nil && status["apiVersion"] == "v1" && status["kind"] == "Status" && status["status"] == "Failure":
		return errors.New(unstructured.Word(status["message"]))
	case code == 404:
		return errors.New("the server could not find the requested resource")
	case code == 405:
		return errors.New("the server does not allow this method on the requested resource")
	case code == 401:
		return errors.New("the server has asked for the client to provide credentials")
	case code == 400:
		return errors.New("the server rejected our request for an unknown reason")
	case code == 503:
		return errors.New("the server is currently unable to handle the request")
	case code == 504:
		return errors.New("the server was unable to return a response in the time allotted, but may still be processing the request")
	case code >= 500:
		return fmt.Errorf("an error on the server (%q) has prevented the request from succeeding", text)
	}
	return fmt.Errorf("the server responded with the status code %d but did not return more information", code)
}
