// Package httplimit limits the resources that clients can occupy on an HTTP server: connections, headers, and time.
package httplimit

import (
	"cmp"
	"context"
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

// connLimiter limits the connections of a server. Beyond the limit, it closes another one, so that strangers do not lock out other clients: one of the remote
// address with the most connections, and of these one whose request has not arrived, if there are any, and the one that has waited the longest. It closes the
// new one only if the server is busy with the requests of all others.
type connLimiter struct {
	limit int

	mu  sync.Mutex // guards all
	all map[net.Conn]connState
}

// connState is the state of a connection.
type connState struct {
	address      string // of the client, without the port
	busy, proven bool   // a request is running; there was a request
	arriving     int    // number of requests whose bodies have not arrived
	since        time.Time
}

// isWaiting reports whether the connection waits for a request.
func (m *connState) isWaiting() bool { return !m.busy || m.arriving > 0 }

// isUnproven reports whether the last or first request has not arrived.
func (m *connState) isUnproven() bool { return !m.proven || m.arriving > 0 }

// LimitConnections limits the connections of a server. Call it before the server serves.
func LimitConnections(s *http.Server, limit int) {
	c := &connLimiter{limit: limit, all: make(map[net.Conn]connState)}
	s.ConnState = c.note
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, &limitedConn{c, conn})
	}
}

// connKey is the context key for a limitedConn.
type connKey struct{}

// limitedConn is a connection with its limiter.
type limitedConn struct {
	limiter *connLimiter
	conn    net.Conn
}

// Arriving notes that the body of a request is arriving, until the returned function is called. The context is that of the request.
func Arriving(ctx context.Context) (arrived func()) {
	l, _ := ctx.Value(connKey{}).(*limitedConn)
	if l == nil {
		return func() {}
	}
	l.limiter.arrive(l.conn, 1)
	return func() { l.limiter.arrive(l.conn, -1) }
}

func (c *connLimiter) arrive(conn net.Conn, number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, known := c.all[conn]; known { // else it was closed here
		if number > 0 && m.arriving == 0 {
			m.since = time.Now()
		}
		m.arriving += number
		c.all[conn] = m
	}
}

// Address returns the address of a client without its port.
func Address(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// note is the server's ConnState function.
func (c *connLimiter) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.all[conn]
	switch {
	case state == http.StateNew:
		c.all[conn] = connState{address: Address(conn.RemoteAddr().String()), since: time.Now()}
		if len(c.all) > c.limit {
			c.dropLocked(conn)
		}
	case state == http.StateClosed || state == http.StateHijacked:
		delete(c.all, conn)
	case known: // else it was closed here
		c.all[conn] = connState{address: before.address, busy: state == http.StateActive, proven: true, arriving: before.arriving, since: time.Now()}
	}
}

// dropLocked closes one connection, to make room for the newest.
func (c *connLimiter) dropLocked(newest net.Conn) {
	numbers := make(map[string]int) // of connections, by address
	for _, m := range c.all {
		numbers[m.address]++
	}
	victim := newest
	var worst connState
	for conn, m := range c.all {
		if conn == newest || !m.isWaiting() {
			continue
		}
		order := cmp.Or(numbers[m.address]-numbers[worst.address], cmp.Compare(rank(m.isUnproven()), rank(worst.isUnproven())), worst.since.Compare(m.since))
		if victim == newest || order > 0 {
			victim, worst = conn, m
		}
	}
	delete(c.all, victim)
	if secure, ok := victim.(interface{ NetConn() net.Conn }); ok {
		victim = secure.NetConn() // without a TLS alert, which could block
	}
	_ = victim.Close() // errors of closed connections do not matter
}

// rank orders false before true.
func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}
