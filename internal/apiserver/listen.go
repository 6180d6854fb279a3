package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// Listener is a [Server] that listens on a TCP address. It has one goroutine, which ends with Close.
type Listener struct {
	// URL is where it listens, such as "http://127.0.0.1:12345".
	URL string
	// CA is the certificate authority of its certificate, in PEM; nil without TLS.
	CA []byte

	server *http.Server
	done   chan struct{}
	end    context.CancelFunc
}

// Listen serves on a TCP address, such as "127.0.0.1:0" for a free port of this machine, until Close is called. There are no users: all clients have
// all permissions. Use an address of this machine only. At such an address, Listen refuses requests by host names other than localhost. At all
// addresses, it refuses requests that browsers send for pages of other origins. It returns an error if it cannot listen.
func (s *Server) Listen(address string) (*Listener, error) {
	switch scheme, rest, found := strings.Cut(address, "://"); {
	case found && strings.EqualFold(scheme, "https"):
		return nil, fmt.Errorf("invalid address %q: want a host and a port without a scheme, such as %q, and APIServerOptions.TLS for https", address, cmp.Or(rest, "127.0.0.1:0"))
	case found:
		return nil, fmt.Errorf("invalid address %q: want a host and a port without a scheme, such as %q", address, cmp.Or(rest, "127.0.0.1:0"))
	case address == "": // it would listen on a free port of all addresses
		return nil, errors.New(`invalid address "": want a host and a port, such as "127.0.0.1:0" for a free port of this machine`)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if !s.opts.TLS {
		return s.Serve(listener, nil), nil
	}
	host, _, _ := net.SplitHostPort(address) // it was valid for Listen
	authority, err := newAuthority(host, listener.Addr())
	if err != nil {
		_ = listener.Close() // return the first error
		return nil, err
	}
	return s.Serve(listener, authority), nil
}

// Serve serves on a listener until Close is called. With an authority, it serves TLS and HTTP/2, so that many watches share a connection. See
// [Server.Listen].
func (s *Server) Serve(listener net.Listener, authority *authority) *Listener {
	ctx, end := context.WithCancel(context.Background())
	served := &Listener{URL: "http://" + listener.Addr().String(), done: make(chan struct{}), end: end}
	address, isTCP := listener.Addr().(*net.TCPAddr)
	own := isTCP && address.IP.IsLoopback()
	if isTCP && !own {
		s.opts.Logger.Warn("The embedded API server can be reached from other machines, and authenticates no request", "address", address.String(), "help", "K1205")
	}
	served.server = &http.Server{
		Handler: &networkHandler{s, own}, MaxHeaderBytes: httplimit.MaxHeaderBytes,
		ReadTimeout: httplimit.ReceiveTimeout, WriteTimeout: httplimit.SendTimeout, IdleTimeout: 2 * time.Minute, // each event of a watch extends it
		ErrorLog:    slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	serve := served.server.Serve
	if authority != nil {
		served.URL, served.CA = "https://"+listener.Addr().String(), authority.pem
		served.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{authority.leaf}, MinVersion: tls.VersionTLS12}
		serve = func(l net.Listener) error { return served.server.ServeTLS(l, "", "") }
	}
	httplimit.LimitConnections(served.server, httplimit.MaxConnections)
	go func() {
		defer close(served.done)
		if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.opts.Logger.Error("The embedded API server has stopped", "error", err)
		}
	}()
	return served
}

// Close stops listening, and closes all connections.
func (l *Listener) Close() error {
	l.end()
	err := l.server.Close()
	<-l.done
	return err
}

// WriteKubeconfig writes a kubeconfig for the listening server. It replaces an existing file by a new one that belongs to the user of this process.
// It replaces a symbolic link itself, not its target. It returns an error if it cannot write the file.
func (l *Listener) WriteKubeconfig(path string) error {
	_, err := l.PutKubeconfig(path)
	return err
}

// PutKubeconfig is WriteKubeconfig, and returns a function that removes the file if it is unchanged: another operator in the same folder may have
// written its own file since.
func (l *Listener) PutKubeconfig(path string) (remove func(), err error) {
	cluster, user := map[string]any{"server": l.URL}, map[string]any{}
	if l.CA != nil {
		cluster["certificate-authority-data"] = l.CA // JSON encodes it in base64
		user["token"] = "anybody"                    // kubectl asks for a user name without a token, and this server ignores tokens
	}
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "kopf",
		"clusters": []any{map[string]any{"name": "kopf", "cluster": cluster}},
		"users":    []any{map[string]any{"name": "kopf", "user": user}},
		"contexts": []any{map[string]any{"name": "kopf", "context": map[string]any{"cluster": "kopf", "user": "kopf", "namespace": "default"}}},
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	own := append(data, '\n')
	return func() {
		if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, own) {
			_ = os.Remove(path) // its server does not run in any case
		}
	}, replaceFile(path, own)
}

// replaceFile replaces the file at a path atomically. Other users cannot read the new file, and no other process has it open.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".kopf-*") // a new file, with the mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // return the first error
	}
	return err
}

// CheckKubeconfig returns an error if the kubeconfig of an embedded server must not be written to a path. The file there may have another origin, or
// it may belong to a server that still runs, whose users would then reach the wrong server.
func CheckKubeconfig(path string) error {
	stat, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	old, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && stat.Mode().IsRegular() { // its server ended in the meantime
		return nil
	}
	if !stat.Mode().IsRegular() || err != nil || !bytes.Contains(old, []byte(`"current-context": "kopf"`)) {
		return fmt.Errorf("%s is not of an embedded server: it is in the way, and will not be overwritten", path)
	}
	if url := RunningServer(old); url != "" {
		return fmt.Errorf("%s belongs to the embedded server at %s, which is running: stop it, or start this one in another folder", path, url)
	}
	return nil
}

// RunningServer returns the URL in the kubeconfig of an embedded server, "" if that server has ended.
func RunningServer(kubeconfig []byte) string {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
	}
	if json.Unmarshal(kubeconfig, &config) != nil || len(config.Clusters) != 1 {
		return ""
	}
	address := config.Clusters[0].Cluster.Server
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.Clusters[0].Cluster.CA)
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	client := &http.Client{Transport: transport, Timeout: time.Second}
	resp, err := client.Get(address + "/version")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var version struct{ GitVersion string }
	if json.NewDecoder(resp.Body).Decode(&version) != nil || version.GitVersion == "" {
		return "" // another program uses the port
	}
	return address
}

// networkHandler refuses requests that do not come from a client of the user, and passes on all others.
type networkHandler struct {
	server *Server
	own    bool // whether it listens on a loopback address only
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

// fromOtherOrigin reports whether a browser sends the request for a page of another origin. Browsers send some writing requests without a preflight.
// Other clients send neither of the headers.
func fromOtherOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // an old browser, or another client
		origin := r.Header.Get("Origin")
		page, err := url.Parse(origin)
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		return origin != "" && (err != nil || page.Scheme != scheme || !strings.EqualFold(page.Host, r.Host))
	}
	return true
}

// isLocalName reports whether a host is an IP address or localhost. Other names may be DNS entries of an attacker.
func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(strings.Trim(host, "[]")) != nil
}
