// Package connshare has requests that begin at the same time share connections. A transport of net/http dials for each of them, because it does not know
// yet whether the server speaks HTTP/2, and how many streams it takes on a connection.
package connshare

import (
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// patience is how long a request waits for another one that is getting a connection: that one may hang, where the next would not.
const patience = time.Second

// Transport sends requests by another transport, of which only one at a time gets a connection, as long as that does not take too long.
type Transport struct {
	Next http.RoundTripper
	turn chan struct{} // has an item while a request is getting a connection
}

// New returns a transport in front of another one.
func New(next http.RoundTripper) *Transport {
	return &Transport{Next: next, turn: make(chan struct{}, 1)}
}

// CloseIdleConnections closes those of the transport below.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends a request when it is its turn, or has waited for too long.
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
		case <-req.Context().Done(): // which the transport below finds out, too
			return t.Next.RoundTrip(req)
		}
	}
	release := sync.OnceFunc(func() { <-t.turn })
	defer release()
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { release() }})
	return t.Next.RoundTrip(req.WithContext(ctx))
}
