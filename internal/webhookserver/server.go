// Package webhookserver serves webhooks over HTTP: it receives reviews, within limits, and passes them to a reviewer.
package webhookserver

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/certs"
	"github.com/kopf-go/kopf/internal/httplimit"
)

// Server has the settings of a webhook server. Log is required.
type Server struct {
	Addr     string       // to listen on; "" for all addresses
	Port     int          // to listen on; zero for a free one
	Listener net.Listener // instead of Addr and Port, which are then only announced; nil for none
	Path     string       // of all webhooks
	Host     string       // by which clients reach the server; "" for the one by which this machine does
	Limits   Limits
	// Certificates are the certificate options. The server adds its host, as seen by clients and by this machine, to the names.
	Certificates certs.Options
	// Authority signs the certificates, which are otherwise self-signed; nil for none.
	Authority Authority
	Force     context.Context // ends when the shutdown must not wait for reviews; nil if it always does
	Log       *slog.Logger
}

// Authority signs the certificates of several servers.
type Authority interface {
	certs.Source
	// Start waits until there are certificates for the names, and renews them until the context ends or stop is called.
	Start(ctx context.Context, names []string) (stop func(), err error)
}

// Serve listens until the context ends, and then returns nil. It announces its URL and its CA bundle when it listens, and again when the CA bundle changes. It
// owns the goroutines of the connections.
//
// The function announce returns when the clients trust the needed certificates of the bundle, or when its context ends, such as because there is another bundle.
func (s *Server) Serve(ctx context.Context, reviewer Reviewer, announce func(ctx context.Context, url string, bundle, needed []byte)) error {
	listener := s.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(strings.Trim(s.Addr, "[]"), strconv.Itoa(s.Port))); err != nil {
			return err
		}
	}
	defer listener.Close() // the server may have closed it already
	local := s.localHost(listener.Addr())
	host := cmp.Or(s.Host, local)
	options := s.Certificates
	options.Names = slices.Concat([]string{host, local}, options.Names)
	shown, stop, err := s.certificates(ctx, options)
	if err != nil || shown == nil {
		stop()
		return err
	}
	defer stop()
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	h := newHandler(s.Path, s.Limits, reviewer, s.Log)
	server := s.httpServer(h, shown)
	server.BaseContext = func(net.Listener) context.Context { return base }
	failed := make(chan error, 1) // from the listener's goroutine to this one
	go func() {
		if s.Certificates.Insecure {
			failed <- server.Serve(listener)
		} else {
			failed <- server.ServeTLS(listener, "", "")
		}
	}()
	address := s.url(host, h.root, listener.Addr())
	s.Log.Debug("Listening for webhooks at " + s.url(listener.Addr().String(), h.root, nil))
	s.Log.Debug("Accessing the webhooks at " + address)
	p := &publication{returned: make(chan struct{}, 1), announce: func(ctx context.Context, bundle, needed []byte) { announce(ctx, address, bundle, needed) }}
	for p.publish(ctx, shown); ; {
		select {
		case <-p.returned:
			if p.next(ctx) {
				shown.Announced(p.bundle, time.Now())
			}
			continue
		case err := <-failed:
			p.end()
			_ = server.Close() // the error of the listener matters
			return err
		case <-ctx.Done():
			defer p.stop()
			return h.drain(cmp.Or(s.Force, context.Background()), server, end, failed)
		case <-time.After(shown.Wait(time.Now())):
		case <-shown.Changed():
		}
		if shown.Check(time.Now()) {
			p.publish(ctx, shown)
		}
	}
}

// publication announces CA bundles, one after the other. Announcements may take long, so each one has a goroutine.
type publication struct {
	announce func(ctx context.Context, bundle, needed []byte)
	returned chan struct{}      // holds a token when announce has returned
	bundle   []byte             // the last one to announce
	needed   []byte             // what clients must trust of it
	waiting  bool               // the bundle is to be announced when announce has returned
	cancel   context.CancelFunc // of the announcement; nil while there is none
	task     sync.WaitGroup
}

// publish announces the bundle of certificates instead of the former one.
func (p *publication) publish(ctx context.Context, shown *certs.Certificates) {
	p.bundle, p.needed, p.waiting = shown.Bundle(), shown.Needed(), true
	if p.cancel != nil {
		p.cancel()
		return
	}
	p.begin(ctx)
}

func (p *publication) begin(ctx context.Context) {
	bundle, needed := p.bundle, p.needed
	p.waiting = false
	ctx, p.cancel = context.WithCancel(ctx)
	p.task.Go(func() {
		p.announce(ctx, bundle, needed)
		p.returned <- struct{}{}
	})
}

// next follows the return of an announcement. It reports whether the bundle was announced, and announces
// it otherwise.
func (p *publication) next(ctx context.Context) (announced bool) {
	p.stop()
	if p.waiting {
		p.begin(ctx)
		return false
	}
	return true
}

// end ends an announcement. It may return later.
func (p *publication) end() {
	if p.cancel != nil {
		p.cancel()
	}
}

// stop ends an announcement, and waits for its return.
func (p *publication) stop() {
	p.end()
	p.task.Wait()
	p.cancel = nil
}

// certificates returns the certificates, and a function to stop their renewal. It waits for an authority until the context ends.
func (s *Server) certificates(ctx context.Context, options certs.Options) (shown *certs.Certificates, stop func(), err error) {
	stop = func() {}
	if s.Authority != nil {
		release, err := s.Authority.Start(ctx, options.Names)
		if ctx.Err() != nil {
			err = nil
		}
		if release == nil {
			return nil, stop, err
		}
		options.Source, stop = s.Authority, release
	}
	shown, err = certs.Start(options, time.Now())
	return shown, stop, err
}

// httpServer returns the HTTP server, with the limits of a handler.
func (s *Server) httpServer(h *handler, shown *certs.Certificates) *http.Server {
	server := &http.Server{
		Handler:           h,
		TLSConfig:         shown.ServerConfig(),
		ReadTimeout:       h.limits.ReadTimeout,
		ReadHeaderTimeout: h.limits.ReadTimeout / 3,
		IdleTimeout:       2 * time.Minute, // a little longer than API servers keep connections
		MaxHeaderBytes:    h.limits.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // clients can cause many lines
	}
	httplimit.LimitConnections(server, h.limits.MaxConnections)
	return server
}

// drain shuts the server down: it waits for running reviews, then cancels them, and waits for their end. It does not wait for requests that do not arrive.
func (h *handler) drain(force context.Context, server *http.Server, end context.CancelCauseFunc, failed <-chan error) error {
	limit, cancel := context.WithTimeout(force, h.limits.DrainTimeout)
	defer cancel()
	reviewed, stopWaiting := context.WithCancel(limit)
	defer stopWaiting()
	go h.awaitReviews(reviewed, stopWaiting)
	err := server.Shutdown(reviewed)
	<-failed // the listener is closed
	if err == nil {
		return nil
	}
	if h.reviewing.Load() > 0 {
		h.log.Warn("Some reviews have not finished in time; canceling them", "limit", h.limits.DrainTimeout, "help", "K1012")
	}
	end(errors.New("the webhook server has stopped"))
	_ = server.Close() // errors of closed connections do not matter
	for began := time.Now(); h.active.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > afterDrain {
			h.log.Warn("Some reviews did not return after cancellation; abandoning them", "number", h.active.Load(), "help", "K1016")
			break
		}
	}
	return nil
}

// arrivalTime is the time at shutdown for requests to arrive whole.
const arrivalTime = time.Second

// awaitReviews waits until no review runs, after a time for requests that are arriving, or until the context ends.
func (h *handler) awaitReviews(ctx context.Context, done context.CancelFunc) {
	defer done()
	for wait := arrivalTime; await.Sleep(ctx, wait) == nil; wait = 10 * time.Millisecond {
		if h.reviewing.Load() == 0 {
			return
		}
	}
}

// afterDrain is how long reviews may run after their contexts are canceled.
const afterDrain = 5 * time.Second

// ToEnd returns the time in which a server with these limits ends.
func (l Limits) ToEnd() time.Duration { return l.withDefaults().DrainTimeout + afterDrain }

// localHost returns the address for this machine itself: one of them if the server listens on all addresses.
func (s *Server) localHost(listening net.Addr) string {
	tcp, _ := listening.(*net.TCPAddr)
	host := strings.Trim(s.Addr, "[]")
	if host == "" && s.Listener != nil && tcp != nil {
		host = tcp.IP.String()
	}
	ip := net.ParseIP(host)
	switch {
	case host == "":
		return "localhost"
	case ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		return "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		return "::1"
	}
	return host
}

// url returns the URL for a host and a path, with the port of an address if given, unless it is the default.
func (s *Server) url(host, path string, listening net.Addr) string {
	u := url.URL{Scheme: "https", Host: host, Path: path}
	usual := 443
	if s.Certificates.Insecure {
		u.Scheme, usual = "http", 80
	}
	if listening == nil {
		return u.String()
	}
	port := s.Port
	if tcp, ok := listening.(*net.TCPAddr); ok && (port == 0 || s.Listener == nil) {
		port = tcp.Port
	}
	u.Host = net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port))
	if port == usual || port == 0 {
		u.Host = strings.TrimSuffix(u.Host, ":"+strconv.Itoa(port))
	}
	return u.String()
}
