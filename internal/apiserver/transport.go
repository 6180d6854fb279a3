package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Transport sends requests to a server in the same process, without a network. The handler of a request runs on a goroutine. The goroutine ends when
// the handler returns, after the body was closed or the context of the request has ended.
type Transport struct{ Handler http.Handler }

// Define applies a CRD, unless the server has one of that name.
func (t *Transport) Define(definition []byte) error {
	server, ok := t.Handler.(*Server)
	path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + rawjson.StringAt(definition, "metadata", "name")
	request, err := http.NewRequest(http.MethodGet, "http://apiserver.local"+path, nil)
	if !ok || err != nil {
		return err
	}
	answer, err := t.RoundTrip(request)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return server.Apply(definition)
}

// errReset is the error of the client if the server drops the connection.
var errReset = errors.New("connection reset by peer")

// RoundTrip calls the handler, and returns when the response has begun.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	in := r.WithContext(ctx)
	in.Header = r.Header.Clone()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.RequestURI = r.URL.RequestURI()
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	reader, writer := io.Pipe()
	w := &pipeWriter{header: make(http.Header), begun: make(chan struct{}), pipe: writer}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.end(runHandler(t.Handler, w, in))
		in.Body.Close()
	}()
	stop := context.AfterFunc(ctx, func() { reader.CloseWithError(context.Cause(ctx)) })
	select {
	case <-w.begun:
	case <-ctx.Done():
	}
	if err := r.Context().Err(); err != nil || w.failed != nil {
		reader.Close()
		cancel()
		stop()
		<-done
		return nil, errors.Join(err, w.failed)
	}
	body := &pipeBody{ReadCloser: reader, end: func() {
		stop()
		cancel()
		reader.Close()
		<-done
	}}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: -1, Request: r,
	}, nil
}

// runHandler calls a handler, and converts its panic to an error, as the servers of net/http do.
func runHandler(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if v := recover(); v == http.ErrAbortHandler {
			err = errReset
		} else if v != nil {
			err = fmt.Errorf("the handler has panicked: %v", v)
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

// pipeWriter is the server's end of a response. Only the goroutine of the handler uses it.
type pipeWriter struct {
	header http.Header
	status int
	sent   http.Header   // the header when the response began
	failed error         // the reason why there is no response
	begun  chan struct{} // closed when all fields above are set
	pipe   *io.PipeWriter
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	if w.sent == nil {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	}
}

func (w *pipeWriter) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(data)
}

// Flush does nothing, since a pipe has no buffer.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

func (w *pipeWriter) end(err error) {
	if err != nil && w.sent == nil {
		w.failed = err
		w.sent = http.Header{}
		close(w.begun)
	}
	w.WriteHeader(http.StatusOK)
	w.pipe.CloseWithError(err)
}

// pipeBody is the client's end of a response.
type pipeBody struct {
	io.ReadCloser
	once sync.Once
	end  func()
}

// Close ends the request, and waits for its handler.
func (b *pipeBody) Close() error {
	b.once.Do(b.end)
	return nil
}
