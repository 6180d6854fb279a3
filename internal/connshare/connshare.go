// Package connshare lets concurrent requests share connections. A transport of net/http dials for each of them, because it does not know yet whether the server
// supports HTTP/2, and how many streams it allows on a connection.
package connshare

import (
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
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { release() }})
	return t.Next.RoundTrip(req.WithContext(ctx))
}
