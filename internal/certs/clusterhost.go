package certs

import (
	"crypto/x509"
	"slices"
	"strings"
)

// The names by which containers of these clusters reach their machine.
const (
	K3dHost      = "host.k3d.internal"
	MinikubeHost = "host.minikube.internal"
	DockerHost   = "host.docker.internal"
)

// ClusterHost tells what kind of cluster a certificate of an API server is usual for.
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
