package certs

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apirequest"
)

// The names that containers of these clusters use for the host machine.
const (
	K3dHost      = "host.k3d.internal"
	MinikubeHost = "host.minikube.internal"
	DockerHost   = "host.docker.internal"
)

// ClusterHost returns the host name for the kind of cluster that a certificate of an API server indicates, or "".
func ClusterHost(cert *x509.Certificate) string {
	if cert == nil {
		return ""
	}
	subject := append([]string{cert.Subject.CommonName}, cert.Subject.Organization...)
	issuer := cert.Issuer.CommonName
	switch {
	case slices.Contains(subject, "k3s"), strings.HasPrefix(issuer, "k3s-"):
		return K3dHost
	case slices.Contains(subject, "minikube"), issuer == "minikubeCA":
		return MinikubeHost
	case slices.Contains(cert.DNSNames, "docker-for-desktop"):
		return DockerHost
	}
	return ""
}

// DetectHost returns the name that the cluster uses for this machine, from the certificate and the version of the API server, or "".
func DetectHost(ctx context.Context, client *http.Client, server string) (string, error) {
	cert, version, err := askVersion(ctx, client, server)
	if err != nil {
		return "", err
	}
	host := ClusterHost(cert)
	if host == "" && strings.Contains(version, "+k3s") {
		host = K3dHost
	}
	return host, nil
}

// askVersion returns the certificate of the API server, or nil without TLS, and its version.
func askVersion(ctx context.Context, client *http.Client, server string) (*x509.Certificate, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(server, "/")+"/version", nil)
	if err != nil {
		return nil, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", apirequest.PlainError(err)
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
