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
	closed bool
}

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
					conns[i] = &stub{}
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
		note(4, http.StateNew, http.StateActive)    // the new one is idle, and the only one that was never busy
		check(1, 4)
		note(0, http.StateActive)
		note(3, http.StateActive)
		note(5, http.StateNew) // all others are busy
		check(1, 4, 5)
		note(2, http.StateClosed)
		note(6, http.StateNew, http.StateActive)
		check(1, 4, 5)
	})
}
