// Package webhookserver serves webhooks by HTTP: it takes reviews in, within limits, and has them answered.
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
	"time"

	"github.com/kopf-go/kopf/internal/certs"
	"github.com/kopf-go/kopf/internal/httplimit"
)

// Server says how webhooks are served. Log is required.
type Server struct {
	Addr     string       // to listen on; empty for all addresses
	Port     int          // to listen on; zero for a free one
	Listener net.Listener // instead of Addr and Port, which may still be given to be announced; nil for none
	Path     string       // of all webhooks
	Host     string       // by which clients reach the server; empty for that by which this machine does
	Limits   Limits
	// Certificates are those to show. The host, as clients and as this machine know it, is added to the names.
	Certificates certs.Options
	// Authority signs the certificates, instead of each of them signing itself; nil for none.
	Authority Authority
	Log       *slog.Logger
}

// Authority is what signs the certificates of several servers.
type Authority interface {
	certs.Source
	// Start waits until there are certificates for names, and keeps them up to date until the context ends or the function is called.
	Start(ctx context.Context, names []string) (stop func(), err error)
}

// Serve listens until the context ends, and returns nil then. It announces how the server is reached and what is to be trusted when it
// listens, and again when what is to be trusted changes. It owns the goroutines of the connections.
func (s *Server) Serve(ctx context.Context, reviewer Reviewer, announce func(url string, bundle []byte)) error {
	listener := s.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(strings.Trim(s.Addr, "[]"), strconv.Itoa(s.Port))); err != nil {
			return err
		}
	}
	defer listener.Close() // again, if the server has done it
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
	failed := make(chan error, 1) // from the goroutine of the listener to this one
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
	publish := func() {
		bundle := shown.Bundle()
		announce(address, bundle)
		shown.Announced(bundle, time.Now()) // it may have taken a while
	}
	for publish(); ; {
		select {
		case err := <-failed:
			_ = server.Close() // the error of the listener is the one that matters
			return err
		case <-ctx.Done():
			return h.drain(server, end, failed)
		case <-time.After(shown.Wait(time.Now())):
		case <-shown.Changed():
		}
		if shown.Check(time.Now()) {
			publish()
		}
	}
}

// certificates returns those to show, and a function that must be called when they are not needed any more. It waits for an authority until the context ends.
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

// httpServer returns the server of connections, within the limits of a handler.
func (s *Server) httpServer(h *handler, shown *certs.Certificates) *http.Server {
	server := &http.Server{
		Handler:           h,
		TLSConfig:         shown.ServerConfig(),
		ReadTimeout:       h.limits.ReadTimeout,
		ReadHeaderTimeout: h.limits.ReadTimeout / 3,
		IdleTimeout:       2 * time.Minute, // a little longer than API servers keep connections
		MaxHeaderBytes:    h.limits.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // strangers can make it say a lot
	}
	httplimit.LimitConnections(server, h.limits.MaxConnections)
	return server
}

// drain ends the server in order: the reviews under way are answered, then cut off, and none is left.
func (h *handler) drain(server *http.Server, end context.CancelCauseFunc, failed <-chan error) error {
	limit, cancel := context.WithTimeout(context.Background(), h.limits.DrainTimeout)
	defer cancel()
	err := server.Shutdown(limit)
	<-failed // the listener is closed
	if err == nil {
		return nil
	}
	h.log.Warn("Some reviews have not finished in time; canceling them", "help", "K1012", "limit", h.limits.DrainTimeout)
	end(errors.New("the webhook server has stopped"))
	_ = server.Close() // what is left of the connections is of no use
	for began := time.Now(); h.active.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > afterDrain {
			h.log.Warn("Some reviews did not return after cancellation; abandoning them", "help", "K1016", "number", h.active.Load())
			break
		}
	}
	return nil
}

// afterDrain is how long reviews may take to end after their contexts have.
const afterDrain = 5 * time.Second

// localHost is how this machine itself reaches the server: where it listens on all addresses, that is one of them.
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

// url returns the URL of a host and a path, and of the port of an address if one is given, unless that is the default.
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
