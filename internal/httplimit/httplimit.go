// Package httplimit limits what a client can make an HTTP server hold: connections, headers, and time.
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
	MaxHeaderBytes = 64 << 10         // bytes of the headers of a request
	SendTimeout    = time.Minute      // for each part of an answer, where nothing else is said
	ReceiveTimeout = 30 * time.Second // for a request, where nothing else is said
)

// connLimiter limits the connections of a server. Of those beyond the limit, one is closed on which no request is under way: one that never had a
// request, if there are such, and the one that is quiet for longest. If all are busy, it is the new one.
type connLimiter struct {
	limit int

	mu  sync.Mutex // guards all
	all map[net.Conn]connState
}

// connState is a connection.
type connState struct {
	busy, proven bool // whether a request is under way, or was
	since        time.Time
}

// LimitConnections limits the connections of a server. It is to be called before the server serves.
func LimitConnections(s *http.Server, limit int) {
	c := &connLimiter{limit: limit, all: make(map[net.Conn]connState)}
	s.ConnState = c.note
}

// note is the server's ConnState: a connection has a new state.
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
	case known: // or it was dropped
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
		victim = secure.NetConn() // without a farewell, which could take a while
	}
	_ = victim.Close() // whoever is at its other end
}
