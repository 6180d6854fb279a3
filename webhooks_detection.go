package kopf

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// This file knows how clusters on a developer's machine reach that machine, and finds out in which of them the API server is. It
// runs on the goroutine of a server's Serve.

// WebhookK3dServer is a [WebhookServer] for a cluster of k3d or k3s on this machine: Host defaults to "host.k3d.internal".
type WebhookK3dServer WebhookServer

// Format prints what [WebhookServer.Format] does.
func (s WebhookK3dServer) Format(f fmt.State, _ rune) { printServer(f, s.Addr, s.Port) }

// Serve listens until the context ends, and returns nil then. See [AdmissionServer].
func (s *WebhookK3dServer) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	return (*WebhookServer)(s).serveAs(ctx, k3dHost, review, announce)
}

// WebhookMinikubeServer is a [WebhookServer] for a cluster of Minikube on this machine: Host defaults to "host.minikube.internal".
type WebhookMinikubeServer WebhookServer

// Format prints what [WebhookServer.Format] does.
func (s WebhookMinikubeServer) Format(f fmt.State, _ rune) { printServer(f, s.Addr, s.Port) }

// Serve listens until the context ends, and returns nil then. See [AdmissionServer].
func (s *WebhookMinikubeServer) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	return (*WebhookServer)(s).serveAs(ctx, minikubeHost, review, announce)
}

// WebhookDockerDesktopServer is a [WebhookServer] for the cluster of Docker Desktop on this machine: Host defaults to "host.docker.internal".
type WebhookDockerDesktopServer WebhookServer

// Format prints what [WebhookServer.Format] does.
func (s WebhookDockerDesktopServer) Format(f fmt.State, _ rune) { printServer(f, s.Addr, s.Port) }

// Serve listens until the context ends, and returns nil then. See [AdmissionServer].
func (s *WebhookDockerDesktopServer) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	return (*WebhookServer)(s).serveAs(ctx, dockerHost, review, announce)
}

// WebhookAutoServer is a [WebhookServer] for development: Host defaults to that of the kind of cluster on this machine that the
// operator's API server belongs to, if it is one of k3d, k3s, Minikube and Docker Desktop. It is never reachable from elsewhere by tunnels.
type WebhookAutoServer WebhookServer

// Format prints what [WebhookServer.Format] does.
func (s WebhookAutoServer) Format(f fmt.State, _ rune) { printServer(f, s.Addr, s.Port) }

// Serve listens until the context ends, and returns nil then. See [AdmissionServer].
func (s *WebhookAutoServer) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	log := cmp.Or(s.Logger, servedLogger(ctx))
	host := detectHost(ctx, log)
	if host == "" {
		log.Debug("The kind of the cluster is not known; running a simple webhook server.")
	}
	return (*WebhookServer)(s).serveAs(ctx, host, review, announce)
}

// WebhookAutoTunnel is for development: a [WebhookAutoServer] if the kind of the cluster is detected, else a [WebhookNgrokTunnel]. Of its
// fields, only Addr, Port, Path and Logger are used for the former.
type WebhookAutoTunnel WebhookNgrokTunnel

// Format prints what [WebhookServer.Format] does.
func (w WebhookAutoTunnel) Format(f fmt.State, _ rune) { printServer(f, w.Addr, w.Port) }

// Serve listens until the context ends, and returns nil then. See [AdmissionServer].
func (w *WebhookAutoTunnel) Serve(ctx context.Context, review ReviewFunc, announce func(WebhookClientConfig)) error {
	log := cmp.Or(w.Logger, servedLogger(ctx))
	host := detectHost(ctx, log)
	if host == "" {
		log.Debug("The kind of the cluster is not known; using an ngrok tunnel.")
		return (*WebhookNgrokTunnel)(w).Serve(ctx, review, announce)
	}
	server := &WebhookServer{Addr: w.Addr, Port: w.Port, Path: w.Path, Logger: w.Logger}
	return server.serveAs(ctx, host, review, announce)
}

// The names by which containers of these clusters reach their machine.
const (
	k3dHost      = "host.k3d.internal"
	minikubeHost = "host.minikube.internal"
	dockerHost   = "host.docker.internal"
)

// detectHost returns by which name the operator's API server reaches this machine, and nothing if that is not known or cannot be found out.
func detectHost(ctx context.Context, log *slog.Logger) string {
	client := servedClient(ctx)
	if client == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cert, version, err := askVersion(ctx, client)
	if err != nil {
		log.Warn("The kind of the cluster cannot be detected.", "error", err)
		return ""
	}
	host := hostOfCertificate(cert)
	if host == "" && strings.Contains(version, "+k3s") {
		host = k3dHost
	}
	if host != "" {
		log.Debug("The kind of the cluster is detected: its API server reaches this machine as " + host)
	}
	return host
}

// askVersion returns the certificate of the API server, nil if it has none, and its version.
func askVersion(ctx context.Context, client *Client) (*x509.Certificate, string, error) {
	info, err := client.ConnectionInfo(ctx)
	if err != nil {
		return nil, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(info.Server, "/")+"/version", nil)
	if err != nil {
		return nil, "", err
	}
	resp, err := client.HTTPClient().Do(req)
	if err != nil {
		return nil, "", plainError(err)
	}
	defer resp.Body.Close()
	var cert *x509.Certificate
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		cert = resp.TLS.PeerCertificates[0]
	}
	var version struct{ GitVersion string }
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(data, &version)
	}
	if err != nil && cert == nil {
		return nil, "", fmt.Errorf("the version of the API server: %w", err)
	}
	return cert, version.GitVersion, nil
}

// hostOfCertificate tells what kind of cluster a certificate of an API server is usual for.
func hostOfCertificate(cert *x509.Certificate) string {
	if cert == nil {
		return ""
	}
	subject := append([]string{cert.Subject.CommonName}, cert.Subject.Organization...)
	issuer := cert.Issuer.CommonName
	switch {
	case slices.Contains(subject, "k3s"), strings.HasPrefix(issuer, "k3s-"):
		return k3dHost
	case slices.Contains(subject, "minikube"), issuer == "minikubeCA":
		return minikubeHost
	case slices.Contains(cert.DNSNames, "docker-for-desktop"):
		return dockerHost
	}
	return ""
}
