package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// This file reaches the in-memory API server without a network. A request runs on a goroutine that ends with it: when
// the handler is done, which is told by the body's being closed or the context's end.

// Transport is the transport to a server in the same process.
type Transport struct{ Handler http.Handler }

// errReset is what the client sees when the server drops the connection.
var errReset = errors.New("connection reset by peer")

// RoundTrip calls the handler, and returns when it has begun to answer.
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

// runHandler calls a handler, and turns its panic into an error, as the servers of net/http do.
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

// pipeWriter is the server's end of an answer. It is used by the handler's goroutine.
type pipeWriter struct {
	header http.Header
	status int
	sent   http.Header   // the header as it was when the answer has begun
	failed error         // why there was no answer
	begun  chan struct{} // closed when all of the above are set
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

// Flush has nothing to do: a pipe keeps nothing back.
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

// pipeBody is the client's end of an answer.
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
