// Package connshare lets concurrent requests share connections. A transport of net/http dials for each of them, because it does not know yet whether the server
// supports HTTP/2, and how many streams it allows on a connection.
package connshare

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// patience is how long a request waits for another one that is dialing. That one may hang, although the next one would not.
const patience = time.Second

// Transport sends requests through another transport. Only one request at a time dials, for a limited time.
type Transport struct {
	Next http.RoundTripper
	turn chan struct{} // has an item while a request is dialing
}

// New returns a transport that wraps another one.
func New(next http.RoundTripper) *Transport {
	return &Transport{Next: next, turn: make(chan struct{}, 1)}
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends a request when no other request is dialing, or after a timeout.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case t.turn <- struct{}{}:
	default:
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case t.turn <- struct{}{}:
		case <-timer.C:
			return t.Next.RoundTrip(req)
		case <-req.Context().Done(): // the wrapped transport returns the error
			return t.Next.RoundTrip(req)
		}
	}
	release := sync.OnceFunc(func() { <-t.turn })
	defer release()
	return t.Next.RoundTrip(req.WithContext(withGotConn(req.Context(), release)))
}

// withGotConn returns a context that calls a function when the request gets its connection. [httptrace.WithClientTrace] would do the same, but its composition
// of traces calls functions by reflection, and the code for that makes a binary larger by some 20 kB.
func withGotConn(ctx context.Context, got func()) context.Context {
	var trace httptrace.ClientTrace
	if outer := httptrace.ContextClientTrace(ctx); outer != nil {
		trace = *outer
	}
	outer := trace.GotConn
	trace.GotConn = func(info httptrace.GotConnInfo) {
		if got(); outer != nil {
			outer(info)
		}
	}
	key := traceKey()
	if key == nil { // in a later version of Go; then a request holds its turn until its response
		return ctx
	}
	return context.WithValue(ctx, key, &trace)
}

// traceKey returns the key of traces in contexts, which net/http/httptrace does not export: it is what ContextClientTrace looks up.
var traceKey = sync.OnceValue(func() any {
	asked := &lookup{Context: context.Background()}
	httptrace.ContextClientTrace(asked)
	return asked.key
})

// lookup is a context that keeps the last key that was looked up in it.
type lookup struct {
	context.Context
	key any
}

func (l *lookup) Value(key any) any {
	l.key = key
	return nil
}
