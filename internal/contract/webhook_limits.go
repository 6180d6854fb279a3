package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that unknown clients of a webhook server cannot make it use much memory. The limits are for the whole process, including the senders.

var _ = SerialSuite("webhook_limits", func(t *testing.T, c *C) {
	c.Run(t, "AC-12 who claims to send much gets little room", proveClaims)
	c.Run(t, "AC-12 who sends without end is stopped", proveEndless)
	c.Run(t, "AC-12 who sends much at once, many times, is refused beyond a limit", proveCrowd)
	c.Run(t, "DF-68 two thousand half requests lock nobody out", proveHalfRequests)
	c.Run(t, "DF-68 large reviews that do not end lock nobody out", proveHeldHalves)
	c.Run(t, "DF-68 a review that does not arrive within seconds is refused", proveLateArrival)
	c.Run(t, "AC-12 who sends no HTTP is let go, and others are served", proveNoise)
})

// heap returns the number of used bytes after a garbage collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the content of pools is freed after two
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// allocated returns the number of bytes allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func proveClaims(c *C) {
	const senders = 200
	s := c.Serves(echo, plainServer(nil))
	before := heap()
	for range senders {
		conn, err := s.listener.dial(c.Context(), "", "")
		if err != nil {
			c.Fatal(err)
		}
		defer conn.Close()
		head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", 8<<20)
		if _, err := io.WriteString(conn, head+strings.Repeat("x", 1000)); err != nil {
			c.Fatal(err)
		}
	}
	c.Pass(time.Second)
	each := (int64(heap()) - int64(before)) / senders
	c.Logf("%d bytes for each of %d senders that claim to send 8 MiB", each, senders)
	if each > 64<<10 {
		c.Errorf("each sender takes %d bytes, want 64 KiB at most", each)
	}
}

// endless is a body without end, which counts the bytes read.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.read.Add(int64(len(p))) > 1<<30 {
		return 0, errors.New("nobody has stopped it")
	}
	return len(p), nil
}

func proveEndless(c *C) {
	s := c.Serves(echo, plainServer(nil))
	body := &endless{}
	before := allocated()
	resp, err := s.Client(s.Last()).Post(s.Last().URL, "application/json", body)
	if err != nil {
		c.Fatal(err)
	}
	_ = resp.Body.Close()
	took := allocated() - before
	c.Logf("%d bytes allocated, %d read of a body without end", took, body.read.Load())
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		c.Errorf("got %d, want 413", resp.StatusCode)
	}
	if took > 32<<20 || body.read.Load() > 32<<20 { // kernel buffers take some
		c.Errorf("%d bytes were allocated, and %d read", took, body.read.Load())
	}
	before = allocated()
	code, _ := s.Post("", strings.Repeat("x", 8<<20+1)) // this one has a Content-Length
	if took := allocated() - before; code != 413 || took > 10<<20 {
		c.Errorf("got %d after %d bytes", code, took)
	}
}

// proveCrowd sends forty reviews of 8 MiB at once, while none is answered.
func proveCrowd(c *C) {
	const crowd = 40
	leave := make(chan struct{})
	var inside atomic.Int64
	s := c.Serves(func(_ context.Context, r *kopf.ReviewRequest) ([]byte, error) {
		inside.Add(1)
		<-leave
		runtime.KeepAlive(r.Body)
		return []byte("{}"), nil
	}, plainServer(nil))
	body := bytes.Repeat([]byte("x"), 8<<20)
	var refused, taken atomic.Int64
	var senders sync.WaitGroup
	before := heap()
	for range crowd {
		senders.Go(func() {
			resp, err := s.Client(s.Last()).Post(s.Last().URL, "application/json", bytes.NewReader(body))
			if err != nil {
				refused.Add(1) // the response came while the body was still being sent
				return
			}
			_ = resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusOK:
				taken.Add(1)
			case http.StatusServiceUnavailable:
				refused.Add(1)
			default:
				c.Errorf("got %d", resp.StatusCode)
			}
		})
	}
	c.WaitFor("all to be inside or refused", func() bool { return inside.Load()+refused.Load() == crowd })
	took := int64(heap()) - int64(before)
	c.Logf("%d bytes held for %d reviews of 8 MiB, %d refused", took, inside.Load(), refused.Load())
	if took > 80<<20 || inside.Load() > 8 || inside.Load() == 0 {
		c.Errorf("%d bytes are held for %d reviews, want 64 MiB for 8 at most", took, inside.Load())
	}
	close(leave)
	senders.Wait()
	if taken.Load() != inside.Load() {
		c.Errorf("%d of %d reviews were answered", taken.Load(), inside.Load())
	}
}

// half sends a request whose body lacks a byte. It may fail, if the server closes the connection.
func (s *Served) half(size int) net.Conn {
	s.c.Helper()
	conn, err := s.listener.dial(s.c.Context(), "", "")
	if err != nil {
		s.c.Fatal(err)
	}
	s.c.Cleanup(func() { _ = conn.Close() })
	head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", size)
	_, _ = io.WriteString(conn, head+strings.Repeat("x", size-1))
	return conn
}

func proveHalfRequests(c *C) {
	s := c.Serves(echo, plainServer(nil))
	known := s.Client(s.Last())
	review := func(client *http.Client, when string) {
		if code, _, err := post(client, s.Last().URL, "{}"); code != http.StatusOK {
			c.Errorf("%s, a review gets %d %v", when, code, err)
		}
	}
	review(known, "before")
	for i := range 2000 {
		s.half(10)
		if i%500 == 499 {
			when := fmt.Sprintf("after %d half requests", i+1)
			review(known, when)
			review(s.Client(s.Last()), when)
		}
	}
}

func proveHeldHalves(c *C) {
	s := c.Serves(echo, plainServer(nil))
	for range 9 {
		s.half(8 << 20)
	}
	c.Pass(1500 * time.Millisecond)
	if code, text := s.Post("", strings.Repeat("x", 1<<20)); code != http.StatusOK {
		c.Errorf("a review gets %d %s", code, told(code, text))
	}
}

func proveLateArrival(c *C) {
	c.OnlyInBubble("it takes ten seconds")
	s := c.Serves(echo, plainServer(nil))
	began := time.Now()
	answer, _ := io.ReadAll(s.half(10))
	if took := time.Since(began); took > 11*time.Second || !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) {
		c.Errorf("got %q after %s", answer, took)
	}
}

func proveNoise(c *C) {
	s := c.Serves(echo, secureServer(nil))
	for _, noise := range []string{"\x00\x01\x02\x03\x04\x05\x06\x07", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("\xff", 64<<10), "\x16\x03\x01\xff\xff" + strings.Repeat("a", 1<<10)} {
		conn, err := s.listener.dial(c.Context(), "", "")
		if err != nil {
			c.Fatal(err)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, noise) // the server may refuse it before its end
		if !c.InBubble() {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		answer, err := io.ReadAll(conn)
		if err == nil && bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
			c.Errorf("%.20q is answered with %q", noise, answer)
		}
		_ = conn.Close()
		if code, _ := s.Post("", "{}"); code != 200 {
			c.Errorf("after %.20q, another one got %d", noise, code)
		}
	}
}
