package kopf

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// This file is how others reach the in-memory API server by the network, and what limits them: in time, in number, and to those who mean
// it. The listener has a goroutine, which ends with Close; requests run on those of their connections.

// Served is an [APIServer] that listens.
type Served struct {
	// URL is where it listens, such as "http://127.0.0.1:12345".
	URL string

	server *http.Server
	done   chan struct{}
	end    context.CancelFunc
}

// Listen serves on a TCP address, such as "127.0.0.1:0" for a free port of this machine. Whoever reaches it can do
// everything, so it should be an address of this machine only, where requests by names other than localhost are refused, lest pages in a
// browser send some. Close ends it.
func (s *APIServer) Listen(address string) (*Served, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return s.serve(listener), nil
}

func (s *APIServer) serve(listener net.Listener) *Served {
	ctx, end := context.WithCancel(context.Background())
	served := &Served{URL: "http://" + listener.Addr().String(), done: make(chan struct{}), end: end}
	address, isTCP := listener.Addr().(*net.TCPAddr)
	own := isTCP && address.IP.IsLoopback()
	if isTCP && !own {
		s.opts.Logger.Warn("The embedded API server can be reached from other machines, and lets everybody do everything.", "address", address.String())
	}
	served.server = &http.Server{
		Handler: &visitors{s, own}, MaxHeaderBytes: maxHeader,
		ReadTimeout: receiveTimeout, WriteTimeout: sendTimeout, IdleTimeout: 2 * time.Minute, // watches get more time with each event
		ErrorLog:    slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	limitConnections(served.server, maxConnections)
	go func() {
		defer close(served.done)
		if err := served.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.opts.Logger.Error("The embedded API server has stopped.", "error", err)
		}
	}()
	return served
}

// Close stops listening, and ends all connections.
func (s *Served) Close() error {
	s.end()
	err := s.server.Close()
	<-s.done
	return err
}

// WriteKubeconfig writes a kubeconfig by which kubectl and others reach the listening server.
func (s *Served) WriteKubeconfig(path string) error {
	config := mapOf("apiVersion kind current-context clusters users contexts",
		"v1", "Config", "kopf",
		[]any{mapOf("name cluster", "kopf", mapOf("server", s.URL))},
		[]any{mapOf("name user", "kopf", map[string]any{})},
		[]any{mapOf("name context", "kopf", mapOf("cluster user namespace", "kopf", "kopf", "default"))},
	)
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}

// visitors hands over the requests of those who come by the network.
type visitors struct {
	server *APIServer
	own    bool // whether they are on this machine
}

// ServeHTTP answers one request.
func (h *visitors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.own && !isLocalName(r.Host) {
		h.server.refuse(w, r, &statusError{403, "Forbidden", "requests to an address of this machine must be made by that address or as localhost, not by the name " + r.Host, nil})
		return
	}
	h.server.ServeHTTP(w, r)
}

// isLocalName tells whether a host is an address or localhost: anything else is a name that somebody has made lead here.
func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(strings.Trim(host, "[]")) != nil
}
