package kopf

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/httplimit"
	"github.com/kopf-go/kopf/internal/metrics"
)

// Here, strangers connect to each listening server. The connections are pipes, in bubbles.

// pipes is a listener in a bubble.
type pipes struct {
	conns  chan net.Conn // from those who dial
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	return here
}

// listeners are the listening servers, each with a valid path and the time limit for a request.
var listeners = []struct {
	name    string
	ask     string // a request, without the empty line at its end
	receive time.Duration
	send    time.Duration
	serve   func(t *testing.T, l net.Listener) (stop func())
}{
	{"webhooks", "POST /h HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n", 10 * time.Second, 10 * time.Second, func(t *testing.T, l net.Listener) func() {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		server := &WebhookServer{Listener: l, Insecure: true, Logger: slog.New(slog.DiscardHandler), DrainTimeout: time.Second}
		go func() {
			done <- server.Serve(ctx, func(context.Context, *ReviewRequest) ([]byte, error) { return bytes.Repeat([]byte("x"), 1<<20), nil }, func(WebhookClientConfig) {})
		}()
		return func() { cancel(); <-done }
	}},
	{"probes", "GET /metrics HTTP/1.1\r\nHost: x\r\n", 10 * time.Second, time.Minute, func(t *testing.T, l net.Listener) func() {
		p := &prober{log: slog.New(slog.DiscardHandler), meter: metrics.New(metrics.State{Goroutines: func() int { return 1 }, Paused: func() bool { return false }}, nil), run: &run{Operator: Operator{Settings: NewSettings()}}}
		if err := p.listen("http://localhost/healthz", l); err != nil {
			t.Fatal(err)
		}
		return p.stop
	}},
	{"embedded server", "GET /openapi/v2 HTTP/1.1\r\nHost: localhost\r\n", 30 * time.Second, time.Minute, func(t *testing.T, l net.Listener) func() {
		served := NewAPIServer(&APIServerOptions{Logger: slog.New(slog.DiscardHandler)}).s.Serve(l, nil)
		return func() { _ = served.Close() }
	}},
}

// untilClosed returns the time until the other end closes the connection, at most an hour, and the output until then.
func untilClosed(conn net.Conn) (time.Duration, string) {
	began := time.Now()
	_ = conn.SetReadDeadline(began.Add(time.Hour))
	text, _ := io.ReadAll(conn) // only the end matters
	_ = conn.Close()
	return time.Since(began), string(text)
}

func TestSlowClients(t *testing.T) {
	for _, s := range listeners {
		body := "{}"
		if strings.HasPrefix(s.ask, "GET") {
			body = ""
		}
		within := func(t *testing.T, what string, elapsed, limit time.Duration) {
			t.Helper()
			if elapsed > limit+time.Second {
				t.Errorf("%s: the connection is closed after %s, want %s", what, elapsed, limit)
			}
		}
		for name, client := range map[string]func(t *testing.T, l *pipes){
			"who says nothing is let go": func(t *testing.T, l *pipes) {
				elapsed, _ := untilClosed(l.dial())
				within(t, "silence", elapsed, s.receive)
			},
			"whose headers come byte by byte is let go": func(t *testing.T, l *pipes) {
				conn := l.dial()
				var sender sync.WaitGroup
				defer sender.Wait()
				sender.Go(func() {
					for _, c := range []byte(s.ask + "X: " + strings.Repeat("x", 1000)) {
						if _, err := conn.Write([]byte{c}); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				})
				elapsed, _ := untilClosed(conn)
				within(t, "slow headers", elapsed, s.receive)
			},
			"whose body does not come is let go": func(t *testing.T, l *pipes) {
				conn := l.dial()
				ask := strings.Replace(s.ask, "GET /openapi/v2", "POST /api/v1/namespaces", 1)
				ask = strings.Replace(ask, "Content-Length: 2\r\n", "", 1)
				go io.WriteString(conn, ask+"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{") // unread data blocks the pipe
				elapsed, _ := untilClosed(conn)
				within(t, "no body", elapsed, s.receive+s.send)
			},
			"who does not read the answer is let go": func(t *testing.T, l *pipes) {
				conn := l.dial()
				_, _ = io.WriteString(conn, s.ask+"\r\n"+body)
				time.Sleep(s.send + time.Second)
				_ = conn.SetReadDeadline(time.Now().Add(time.Hour))
				began := time.Now()
				if text, err := io.ReadAll(conn); err == nil && time.Since(began) > time.Second {
					t.Errorf("%d bytes come after %s", len(text), time.Since(began))
				}
			},
			"who has nothing more to say is let go": func(t *testing.T, l *pipes) {
				conn := l.dial()
				go io.WriteString(conn, s.ask+"\r\n"+body) // the response is read meanwhile
				elapsed, text := untilClosed(conn)
				if !strings.HasPrefix(text, "HTTP/1.1 ") {
					t.Errorf("the answer is %.100q", text)
				}
				within(t, "an idle connection", elapsed, 2*time.Minute)
			},
			"whose headers are large is refused": func(t *testing.T, l *pipes) {
				conn := l.dial()
				go io.WriteString(conn, s.ask+"X: "+strings.Repeat("x", 100<<10)+"\r\n\r\n"+body) // some of it is not read
				_, text := untilClosed(conn)
				if !strings.HasPrefix(text, "HTTP/1.1 431 ") {
					t.Errorf("the answer is %.100q, want 431", text)
				}
			},
		} {
			t.Run(s.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newPipes()
					defer s.serve(t, l)()
					client(t, l)
				})
			})
		}
	}
}

// TestWatchesOutliveTimeouts shows that time limits do not end a healthy watch.
func TestWatchesOutliveTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		server := NewAPIServer(&APIServerOptions{Logger: slog.New(slog.DiscardHandler)})
		served := server.s.Serve(l, nil)
		defer served.Close()
		conn := l.dial()
		_, _ = io.WriteString(conn, "GET /api/v1/namespaces?watch=1&resourceVersion=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		lines := bufio.NewReader(conn)
		for seen := 0; seen < 4; {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			seen += strings.Count(line, `"ADDED"`)
		}
		go func() {
			time.Sleep(20 * time.Minute)
			_ = server.Apply([]byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"late"}}`))
		}()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal("the watch has ended: ", err)
			}
			if strings.Contains(line, `"late"`) {
				break
			}
		}
		conn.Close()
	})
}

// TestProfilesOutliveTimeouts shows that time limits of other paths do not end slow responses below /debug/.
func TestProfilesOutliveTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		settings := NewSettings()
		settings.Process.Debug = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(3 * time.Minute):
				fmt.Fprint(w, "a profile")
			case <-r.Context().Done():
			}
		})
		p := &prober{log: slog.New(slog.DiscardHandler), run: &run{Operator: Operator{Settings: settings}}}
		if err := p.listen("http://localhost/healthz", l); err != nil {
			t.Fatal(err)
		}
		defer p.stop()
		p.begin(p.handlers)
		conn := l.dial()
		go io.WriteString(conn, "GET /debug/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if elapsed, text := untilClosed(conn); !strings.HasSuffix(text, "a profile") && !strings.Contains(text, "a profile") {
			t.Errorf("after %s: %q", elapsed, text)
		}
	})
}

func TestManyClients(t *testing.T) {
	for _, s := range listeners {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPipes()
				defer s.serve(t, l)()
				var open atomic.Int64
				for range httplimit.MaxConnections + 50 {
					conn := l.dial()
					open.Add(1)
					go func() {
						_, _ = io.Copy(io.Discard, conn) // until it is closed
						open.Add(-1)
					}()
				}
				synctest.Wait()
				if got := open.Load(); got > httplimit.MaxConnections {
					t.Errorf("%d connections are open", got)
				}
				time.Sleep(time.Second) // all others are idle for longer
				conn := l.dial()
				body := ""
				if strings.HasPrefix(s.ask, "POST") {
					body = "{}"
				}
				go io.WriteString(conn, s.ask+"Connection: close\r\n\r\n"+body) // the response is read meanwhile
				if _, text := untilClosed(conn); !strings.HasPrefix(text, "HTTP/1.1 200 ") {
					t.Errorf("among many who say nothing, the answer is %.100q", text)
				}
			})
		})
	}
}

func TestOldTLS(t *testing.T) {
	ca := newAuthority(t)
	pair := func() tls.Certificate {
		cert, key := ca.pair(t, "server.test")
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}()
	for _, base := range []*tls.Config{nil, {}, {MinVersion: tls.VersionTLS10}, {Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS13}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		listening, done := make(chan struct{}), make(chan error, 1)
		go func() {
			server := &WebhookServer{Listener: l, TLSConfig: base, Logger: slog.New(slog.DiscardHandler)}
			done <- server.Serve(ctx, func(context.Context, *ReviewRequest) ([]byte, error) { return nil, errors.New("no") }, func(WebhookClientConfig) { close(listening) })
		}()
		<-listening
		for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
			conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, ServerName: "server.test"})
			if (err == nil) != want {
				t.Errorf("with %+v, a client with %s: %v", base, tls.VersionName(version), err)
			}
			if err == nil {
				_ = conn.Close()
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true} {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.NotFoundHandler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
		go server.Serve(l) // until it is closed
		for _, info := range []*ConnectionInfo{{CAData: ca.pem(), TLSServerName: "server.test"}, {InsecureSkipTLSVerify: true}} {
			info.Server = "https://" + l.Addr().String()
			if _, err := fetch(t, info); (err == nil) != want {
				t.Errorf("a server with %s: %v", tls.VersionName(version), err)
			}
		}
		_ = server.Close()
	}
}
