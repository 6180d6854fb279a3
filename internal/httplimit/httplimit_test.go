package httplimit

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// stub is a connection that records its closing.
type stub struct {
	net.Conn
	address string
	closed  bool
}

func (s *stub) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(s.address), Port: 1} }

func (s *stub) Close() error {
	s.closed = true
	return nil
}

func TestConnectionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &connLimiter{limit: 3, all: map[net.Conn]connState{}}
		conns := make([]*stub, 9)
		note := func(i int, states ...http.ConnState) {
			for _, state := range states {
				time.Sleep(time.Second)
				if conns[i] == nil {
					conns[i] = &stub{address: "10.0.0.1"}
				}
				c.note(conns[i], state)
			}
		}
		check := func(want ...int) {
			t.Helper()
			var got []int
			for i, conn := range conns {
				if conn != nil && conn.closed {
					got = append(got, i)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || len(c.all) > 3 {
				t.Errorf("closed are %v, want %v; %d are left", got, want, len(c.all))
			}
		}
		note(0, http.StateNew, http.StateActive, http.StateIdle)
		note(1, http.StateNew)
		note(2, http.StateNew, http.StateActive)
		check()
		note(3, http.StateNew) // the one without any request is closed
		check(1)
		note(3, http.StateActive, http.StateIdle)
		note(1, http.StateActive, http.StateClosed) // closed already
		note(4, http.StateNew, http.StateActive)    // the one that has been idle the longest is closed
		check(0, 1)
		note(3, http.StateActive)
		note(5, http.StateNew) // all others are busy
		check(0, 1, 5)
		note(2, http.StateClosed)
		note(6, http.StateNew, http.StateActive)
		check(0, 1, 5)
		c.arrive(conns[4], 1)
		time.Sleep(time.Second)
		c.arrive(conns[6], 1)
		note(7, http.StateNew) // the request that has been arriving the longest is closed
		check(0, 1, 4, 5)
		c.arrive(conns[6], -1)
		note(7, http.StateActive)
		note(8, http.StateNew) // all requests have arrived
		check(0, 1, 4, 5, 8)
	})
}

func TestConnectionsOfAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &connLimiter{limit: 6, all: map[net.Conn]connState{}}
		note := func(address string, states ...http.ConnState) *stub {
			conn := &stub{address: address}
			for _, state := range states {
				time.Sleep(time.Second)
				c.note(conn, state)
			}
			return conn
		}
		server := note("10.0.0.1", http.StateNew, http.StateActive, http.StateIdle)
		connecting := note("10.0.0.1", http.StateNew)
		for range 10 {
			note("10.0.0.2", http.StateNew, http.StateActive, http.StateIdle)
			c.arrive(note("10.0.0.2", http.StateNew, http.StateActive), 1)
		}
		if server.closed || connecting.closed {
			t.Errorf("many connections of one address have closed those of another one: %t, %t", server.closed, connecting.closed)
		}
	})
}
