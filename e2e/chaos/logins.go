package chaos

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"
)

// This file gives the operator its credentials, which expire soon: alternating tokens and certificates.

// The credentials expire so soon that it happens many times in each run.
const (
	credentialLife = 20 * time.Second
	pluginFailure  = 8 // one in so many calls of the plugin fails
)

type logins struct {
	authority *cluster.Authority
	counts    *tally
	server    *http.Server

	mu     sync.Mutex // guards all below
	given  int
	tokens map[string]time.Time // when they expire
	steady bool                 // no more failures and expirations
}

// newLogins listens in dir for the credential plugin.
func newLogins(dir string, authority *cluster.Authority, counts *tally) (*logins, error) {
	listener, err := net.Listen("unix", filepath.Join(dir, "credentials.sock"))
	if err != nil {
		return nil, err
	}
	l := &logins{authority: authority, counts: counts, tokens: map[string]time.Time{}}
	l.server = &http.Server{Handler: l}
	go func() { _ = l.server.Serve(listener) }() // until it is closed
	return l, nil
}

func (l *logins) stop() { _ = l.server.Close() }

// calm makes credentials valid permanently from now on.
func (l *logins) calm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steady = true
}

// ServeHTTP answers the plugin with an ExecCredential. See https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
func (l *logins) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given++
	if !l.steady && l.given%pluginFailure == 0 {
		l.counts.add(failedPlugin)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	life := credentialLife
	if l.steady {
		life = time.Hour
	}
	expires := time.Now().Add(life)
	status := map[string]any{}
	if l.given%3 != 0 { // in most cases, the plugin gets their expiration
		status["expirationTimestamp"] = expires.UTC().Format(time.RFC3339)
	}
	if l.given%2 == 0 {
		id, err := l.authority.Issue("operator", []string{"system:masters"}, false, life)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		status["clientCertificateData"], status["clientKeyData"] = string(id.Cert), string(id.Key)
	} else {
		token := rand.Text()
		l.tokens[token] = expires
		status["token"] = token
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}) // the plugin fails then
}

// accepted reports whether a request has a token or a certificate that is valid now.
func (l *logins) accepted(r *http.Request) bool {
	now := time.Now()
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return now.Before(r.TLS.PeerCertificates[0].NotAfter)
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	l.mu.Lock()
	defer l.mu.Unlock()
	expires, ok := l.tokens[token]
	return ok && now.Before(expires)
}

// kubeconfig returns the operator's kubeconfig, with the proxy and the plugin.
func kubeconfig(url, ca, plugin string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: chaos
contexts: [{name: chaos, context: {cluster: chaos, user: chaos}}]
clusters: [{name: chaos, cluster: {server: %q, certificate-authority: %q}}]
users:
- name: chaos
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: %q, args: [credential], interactiveMode: Never}
`, url, ca, plugin)
}
