package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/httplimit"
)

// This file is how others reach the in-memory API server by the network, and what limits them: in time, in number, and to those who mean
// it. The listener has a goroutine, which ends with Close; requests run on those of their connections.

// Listener is a [Server] that listens.
type Listener struct {
	// URL is where it listens, such as "http://127.0.0.1:12345".
	URL string

	server *http.Server
	done   chan struct{}
	end    context.CancelFunc
}

// Listen serves on a TCP address, such as "127.0.0.1:0" for a free port of this machine. Whoever reaches it can do
// everything, so it should be an address of this machine only, where requests by names other than localhost are refused. Requests that
// pages of other origins make a browser send are refused at any address. Close ends it.
func (s *Server) Listen(address string) (*Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return s.Serve(listener), nil
}

func (s *Server) Serve(listener net.Listener) *Listener {
	ctx, end := context.WithCancel(context.Background())
	served := &Listener{URL: "http://" + listener.Addr().String(), done: make(chan struct{}), end: end}
	address, isTCP := listener.Addr().(*net.TCPAddr)
	own := isTCP && address.IP.IsLoopback()
	if isTCP && !own {
		s.opts.Logger.Warn("The embedded API server can be reached from other machines, and lets everybody do everything.", "address", address.String())
	}
	served.server = &http.Server{
		Handler: &networkHandler{s, own}, MaxHeaderBytes: httplimit.MaxHeaderBytes,
		ReadTimeout: httplimit.ReceiveTimeout, WriteTimeout: httplimit.SendTimeout, IdleTimeout: 2 * time.Minute, // watches get more time with each event
		ErrorLog:    slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	httplimit.LimitConnections(served.server, httplimit.MaxConnections)
	go func() {
		defer close(served.done)
		if err := served.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.opts.Logger.Error("The embedded API server has stopped.", "error", err)
		}
	}()
	return served
}

// Close stops listening, and ends all connections.
func (l *Listener) Close() error {
	l.end()
	err := l.server.Close()
	<-l.done
	return err
}

// WriteKubeconfig writes a kubeconfig by which kubectl and others reach the listening server. A file that is there is replaced by a new one
// of the user of this process, and so is a symbolic link: the file that it leads to stays as it is.
func (l *Listener) WriteKubeconfig(path string) error {
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "kopf",
		"clusters": []any{map[string]any{"name": "kopf", "cluster": map[string]any{"server": l.URL}}},
		"users":    []any{map[string]any{"name": "kopf", "user": map[string]any{}}},
		"contexts": []any{map[string]any{"name": "kopf", "context": map[string]any{"cluster": "kopf", "user": "kopf", "namespace": "default"}}},
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return replaceFile(path, append(data, '\n'))
}

// replaceFile puts a new file in the place of whatever is there. No other user can read it, and no other process has opened it. It appears as a whole or not at all.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".kopf-*") // which makes a file that was not there, with the mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the other error is the one that matters
	}
	return err
}

// RunningServer returns the address in the kubeconfig of an embedded server, "" if there is no such server any more.
func RunningServer(kubeconfig []byte) string {
	var config struct {
		Clusters []struct{ Cluster struct{ Server string } }
	}
	if json.Unmarshal(kubeconfig, &config) != nil || len(config.Clusters) != 1 {
		return ""
	}
	address := config.Clusters[0].Cluster.Server
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	resp, err := client.Get(address + "/version")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var version struct{ GitVersion string }
	if json.NewDecoder(resp.Body).Decode(&version) != nil || version.GitVersion == "" {
		return "" // another program has the port by now
	}
	return address
}

// networkHandler hands over the requests of those who come by the network.
type networkHandler struct {
	server *Server
	own    bool // whether they are on this machine
}

// ServeHTTP answers one request.
func (h *networkHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.own && !isLocalName(r.Host) {
		h.server.refuse(w, r, apierrors.New(403, "Forbidden", "requests to an address of this machine must be made by that address or as localhost, not by the name "+r.Host, nil))
		return
	}
	if fromOtherOrigin(r) {
		h.server.refuse(w, r, apierrors.New(403, "Forbidden", "requests by pages of other origins are refused, such as of "+cmp.Or(r.Header.Get("Origin"), "an unknown one"), nil))
		return
	}
	h.server.ServeHTTP(w, r)
}

// fromOtherOrigin reports whether a browser sends the request on behalf of a page that does not come from this server. Browsers send some
// requests that write without asking the server first. Others than browsers send neither of the headers.
func fromOtherOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // an old browser, or none
		origin := r.Header.Get("Origin")
		page, err := url.Parse(origin)
		return origin != "" && (err != nil || page.Scheme != "http" || !strings.EqualFold(page.Host, r.Host))
	}
	return true
}

// isLocalName tells whether a host is an address or localhost: anything else is a name that somebody has made lead here.
func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(strings.Trim(host, "[]")) != nil
}
