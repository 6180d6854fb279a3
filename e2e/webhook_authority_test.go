package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
)

// Replicas of an operator with one certificate authority for their webhooks, as kube-apiserver calls them: by one Service.

// balancer distributes connections to replicas in turn, like a Service.
type balancer struct {
	listener net.Listener
	mu       sync.Mutex // guards all below
	replicas []net.Addr
	turn     int
	open     []net.Conn
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: l}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			tasks.Go(func() { b.pass(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.drop()
		tasks.Wait()
	})
	return b
}

func (b *balancer) port() int { return b.listener.Addr().(*net.TCPAddr).Port }

// serve replaces the replicas for new connections.
func (b *balancer) serve(replicas ...net.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = replicas
}

// pass connects a client to the next replica.
func (b *balancer) pass(client net.Conn) {
	defer client.Close()
	b.mu.Lock()
	if len(b.replicas) == 0 {
		b.mu.Unlock()
		return
	}
	b.turn++
	replica, err := net.Dial("tcp", b.replicas[b.turn%len(b.replicas)].String())
	if err != nil {
		b.mu.Unlock()
		return
	}
	b.open = append(b.open, client, replica)
	b.mu.Unlock()
	go func() {
		_, _ = io.Copy(replica, client)
		_ = replica.Close()
	}()
	_, _ = io.Copy(client, replica)
}

// drop closes all connections, so that the next reviews begin with handshakes.
func (b *balancer) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range b.open {
		_ = conn.Close()
	}
	b.open = nil
}

// sharedReplica is one of the operators.
type sharedReplica struct {
	address net.Addr
	reviews atomic.Int64
	runner  *kopf.Runner
}

// issuer returns the issuer of a replica's certificate.
func (r *sharedReplica) issuer() string {
	conn, err := tls.Dial("tcp", r.address.String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return ""
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Issuer.CommonName
}

const sharedName = "shared-authority"

// startShared starts a replica behind a balancer.
func startShared(t *testing.T, b *balancer, info *kopf.ConnectionInfo) *sharedReplica {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &sharedReplica{address: l.Addr()}
	registry := &kopf.Registry{}
	registry.OnValidate("configmaps", func(context.Context, *kopf.Admission) error {
		r.reviews.Add(1)
		return nil
	}, &kopf.AdmissionOptions{ID: "check", Operations: []kopf.Operation{kopf.OperationCreate}, Persistent: true})
	settings := kopf.NewSettings()
	settings.Peering.Standalone, settings.Admission.Managed = true, "shared.kopf.dev"
	settings.Admission.Server = &kopf.WebhookServer{
		Listener: l, Service: &kopf.ServiceReference{Name: sharedName, Namespace: sharedName, Port: b.port()}, AuthoritySecret: sharedName + "/" + sharedName, RenewalOverlap: 4 * time.Second,
		TLSConfig: &tls.Config{NextProtos: []string{"http/1.1"}}, // so that concurrent reviews use separate connections
	}
	op := &kopf.Operator{Registry: registry, Connection: info, Namespaces: []string{sharedName}, Settings: settings}
	op.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	r.runner = kopf.NewRunner(t, kopf.RunFunc(op.Run), nil)
	eventually(t, "the certificate of the replica", func() bool { return r.issuer() != "" })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = append(b.replicas, r.address)
	return r
}

// sharedUser creates a user with the documented permissions.
func sharedUser(t *testing.T, c *cluster.Cluster) *kopf.ConnectionInfo {
	t.Helper()
	user, err := c.NewUser(t.Context(), sharedName,
		cluster.Rule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"list", "watch"}},
		cluster.Rule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list", "watch"}},
		cluster.Rule{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"}, Verbs: []string{"create", "patch", "list", "watch"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	const rights = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + sharedName
	c.Create(t, rights+"/roles", map[string]any{"metadata": map[string]any{"name": sharedName}, "rules": []any{
		map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets"}, "resourceNames": []any{sharedName}, "verbs": []any{"get", "list", "watch", "patch"}},
		map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{"create"}},
	}})
	c.Create(t, rights+"/rolebindings", map[string]any{
		"metadata": map[string]any{"name": sharedName},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": sharedName},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": sharedName}},
	})
	return user.ConnectionInfo
}

// expiringAuthority returns the data of a Secret whose authority has ten minutes left, so that it is rotated at once.
func expiringAuthority(t *testing.T) map[string]any {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "expiring"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10 * time.Minute),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return map[string]any{"ca.crt": cert, "signer.crt": cert, "signer.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
}

// sharedSecret is the path of the Secrets.
const sharedSecret = "/api/v1/namespaces/" + sharedName + "/secrets"

func TestSharedAuthority(t *testing.T) {
	h := &hooked{t: t, c: theCluster(t), namespace: sharedName}
	h.c.Create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": sharedName}})
	info := sharedUser(t, h.c)
	h.c.Create(t, "/api/v1/namespaces/"+sharedName+"/services", map[string]any{
		"metadata": map[string]any{"name": sharedName}, "spec": map[string]any{"type": "ExternalName", "externalName": "localhost"},
	})
	h.c.Create(t, sharedSecret, map[string]any{"metadata": map[string]any{"name": sharedName}, "data": expiringAuthority(t)})
	t.Cleanup(func() {
		if _, err := h.c.Request(context.WithoutCancel(t.Context()), http.MethodDelete, validating+"/shared.kopf.dev", nil); err != nil {
			t.Error(err)
		}
	})
	b := newBalancer(t)
	replicas := []*sharedReplica{startShared(t, b, info), startShared(t, b, info)}
	if t.Failed() {
		return
	}
	eventually(t, "the first reviews", func() bool { return h.try() == nil && replicas[0].reviews.Load()+replicas[1].reviews.Load() > 0 })
	began := replicas[0].issuer() + " " + replicas[1].issuer()
	if began != "expiring expiring" {
		t.Errorf("the replicas begin with certificates by %s", began)
	}
	rounds(t, h, b, replicas, "expiring")
	rotated := replicas[0].issuer()
	// A user deletes the Secret, and another authority follows.
	if _, err := h.c.Request(t.Context(), http.MethodDelete, sharedSecret+"/"+sharedName, nil); err != nil {
		t.Fatal(err)
	}
	rounds(t, h, b, replicas, rotated)
	data, err := h.c.Request(t.Context(), http.MethodGet, sharedSecret+"/"+sharedName, nil)
	if err != nil {
		t.Fatal(err)
	}
	var secret struct {
		Type string
		Data map[string][]byte
	}
	if err := json.Unmarshal(data, &secret); err != nil || secret.Type != "Opaque" || len(secret.Data) != 3 {
		t.Errorf("the Secret is a %s with %d keys, %v", secret.Type, len(secret.Data), err)
	}
	for _, r := range replicas {
		if err := r.runner.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// rounds reviews config maps, each time by new connections, until an authority has been rotated and a while longer. No review may fail.
func rounds(t *testing.T, h *hooked, b *balancer, replicas []*sharedReplica, from string) {
	t.Helper()
	after, total := 0, 0
	for began := time.Now(); after < 5; {
		if time.Since(began) > time.Minute {
			t.Fatalf("the authority %s was not rotated within a minute", from)
		}
		if replicas[0].issuer() != from && replicas[1].issuer() != from {
			after++
		}
		before := []int64{replicas[0].reviews.Load(), replicas[1].reviews.Load()}
		var writers sync.WaitGroup
		for range 6 {
			writers.Go(func() {
				for range 5 {
					if err := h.try(); err != nil {
						t.Errorf("a review failed %s after the beginning: %v", time.Since(began), err)
					}
				}
			})
		}
		writers.Wait()
		total++
		for i, r := range replicas {
			if r.reviews.Load() == before[i] {
				t.Logf("the replica %d had no review in a round", i)
			}
		}
		if t.Failed() {
			return
		}
		b.drop()
		time.Sleep(50 * time.Millisecond) // real time, in which the API server updates its view
	}
	for i, r := range replicas {
		if r.reviews.Load() < 50 {
			t.Errorf("the replica %d had %d reviews only", i, r.reviews.Load())
		}
	}
	t.Logf("%d rounds; %d and %d reviews so far", total, replicas[0].reviews.Load(), replicas[1].reviews.Load())
}
