// Package httplimit limits the resources that clients can occupy on an HTTP server: connections, headers, and time.
package httplimit

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// The limits of all servers of an operator.
const (
	MaxConnections = 1000             // of a server
	MaxHeaderBytes = 64 << 10         // of the headers of a request
	SendTimeout    = time.Minute      // for each part of a response, by default
	ReceiveTimeout = 30 * time.Second // for a request, by default
)

// connLimiter limits the connections of a server. Beyond the limit, it closes an idle connection: one that never had a request, if there are any, and the one
// that has been idle the longest. If all are busy, it closes the new one.
type connLimiter struct {
	limit int

	mu  sync.Mutex // guards all
	all map[net.Conn]connState
}

// connState is the state of a connection.
type connState struct {
	busy, proven bool // a request is running; there was a request
	since        time.Time
}

// LimitConnections limits the connections of a server. Call it before the server serves.
func LimitConnections(s *http.Server, limit int) {
	c := &connLimiter{limit: limit, all: make(map[net.Conn]connState)}
	s.ConnState = c.note
}

// note is the server's ConnState function.
func (c *connLimiter) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.all[conn]
	switch {
	case state == http.StateNew:
		c.all[conn] = connState{since: time.Now()}
		if len(c.all) > c.limit {
			c.dropLocked()
		}
	case state == http.StateClosed || state == http.StateHijacked:
		delete(c.all, conn)
	case known: // else it was closed here
		c.all[conn] = connState{busy: state == http.StateActive, proven: true, since: time.Now()}
	}
}

func (c *connLimiter) dropLocked() {
	var victim net.Conn
	var worst connState
	for conn, m := range c.all {
		if !m.busy && (victim == nil || worst.proven && !m.proven || worst.proven == m.proven && m.since.Before(worst.since)) {
			victim, worst = conn, m
		}
	}
	delete(c.all, victim)
	if secure, ok := victim.(interface{ NetConn() net.Conn }); ok {
		victim = secure.NetConn() // without a TLS alert, which could block
	}
	_ = victim.Close() // errors of closed connections do not matter
}
