package contract

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This suite proves that the replicas of an operator share one certificate authority for their webhooks, so that the API server trusts all of them by
// their common configuration.

var _ = ClusterSuite("webhook_authority", func(t *testing.T, c *C) {
	c.Run(t, "HA-52 replicas make one authority, and each has a certificate of its own", proveSharedAuthority)
	c.Run(t, "HA-52 no review fails while an authority is rotated", proveAuthorityRotation)
	c.Run(t, "HA-52 an authority that was written by hand is used until it is to be rotated", proveForeignAuthority)
	c.Run(t, "HA-52 a replica that starts in the middle of a rotation is trusted, and goes on with it", proveRotationContinued)
	c.Run(t, "HA-52 a Secret that is deleted is made again, and no review fails", proveDeletedAuthority)
	c.Run(t, "HA-52 something else in the Secret ends the operator, and is left alone", proveForeignSecret)
	c.Run(t, "HA-52 the Secret is in the namespace of the connection by default", proveAuthorityNamespace)
	c.Run(t, "DF-64 an authority that is not valid yet is replaced at once, with a line", proveEarlyAuthority)
	c.Run(t, "HA-52 a Secret that is left alone costs no requests", proveAuthorityAtRest)
	c.Run(t, "HA-52 the documented rights are those that are used", proveAuthorityRights)
})

// hookReplica is one of several replicas with the same webhooks.
type hookReplica struct {
	*Running
	listener *wiredListener
}

const authoritySecret = "hooks-authority"

// hookReplica starts a replica.
func (c *C) hookReplica(overlap time.Duration, adjust ...func(*kopf.WebhookServer)) *hookReplica {
	c.Helper()
	r := &hookReplica{listener: c.listener()}
	server := &kopf.WebhookServer{Listener: r.listener, Host: hooksHost, AuthoritySecret: c.Namespace + "/" + authoritySecret, RenewalOverlap: overlap}
	for _, f := range adjust {
		f(server)
	}
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "check", Persistent: true})
	r.Running = c.Operator(registry, func(op *kopf.Operator) {
		op.Settings.Admission.Server, op.Settings.Admission.Managed = server, c.hooksName()
	})
	return r
}

func (c *C) hooksName() string { return c.Unique("shared") + ".kopf.dev" }

// dropHooks deletes the configuration at the end of the leaf.
func (c *C) dropHooks() {
	c.Cleanup(func() {
		ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: c.hooksName()}
		if err := c.Client.Delete(contextWithout(c.Context()), ref, nil); kopf.IgnoreNotFound(err) != nil {
			c.Error(err)
		}
	})
}

// hooksBundle returns the CA bundle in the configuration, nil while there is none.
func (c *C) hooksBundle() []byte {
	c.Helper()
	var config kopf.Body
	ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: c.hooksName()}
	if err := c.Client.Get(c.Context(), ref, &config, nil); err != nil {
		if kopf.IgnoreNotFound(err) != nil {
			c.Fatal(err)
		}
		return nil
	}
	hooks, _ := config.Get("webhooks").([]any)
	if len(hooks) != 1 {
		c.Fatalf("there are %d webhooks, want 1", len(hooks))
	}
	text, _ := hooks[0].(map[string]any)["clientConfig"].(map[string]any)["caBundle"].(string)
	bundle, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		c.Fatal(err)
	}
	return bundle
}

// secrets is the kind of the Secret.
func (c *C) secrets() *Kind { return c.Of("v1", "Secret") }

// authorityData returns the data of the Secret, nil if there is none.
func (c *C) authorityData() map[string][]byte {
	c.Helper()
	var secret struct{ Data map[string][]byte }
	if err := c.Client.Get(c.Context(), c.secrets().Ref(authoritySecret), &secret, nil); kopf.IgnoreNotFound(err) != nil {
		c.Fatal(err)
	}
	return secret.Data
}

// shown returns the certificate of a replica, and an error unless a bundle trusts it.
func (r *hookReplica) shown(bundle []byte) (*x509.Certificate, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	conn, err := r.listener.dial(r.c.Context(), "", "")
	if err != nil {
		return nil, err
	}
	client := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: hooksHost})
	defer client.Close()
	if err := client.HandshakeContext(r.c.Context()); err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates[0], nil
}

// trusted returns the common authority of all replicas, empty if there are several. It fails if a certificate is not trusted.
func (c *C) trusted(replicas ...*hookReplica) string {
	c.Helper()
	issuers, serials := make(map[string]bool), make(map[string]bool)
	last := ""
	for i, r := range replicas {
		cert, err := r.shown(c.hooksBundle())
		if err != nil {
			c.Fatalf("the replica %d is not trusted: %v", i, err)
		}
		last = cert.Issuer.CommonName
		issuers[last], serials[cert.SerialNumber.String()] = true, true
	}
	if len(serials) != len(replicas) {
		c.Errorf("%d replicas have %d certificates", len(replicas), len(serials))
	}
	if len(issuers) > 1 {
		return ""
	}
	return last
}

// configured waits until the configuration exists, and all replicas serve.
func (c *C) configured(replicas ...*hookReplica) {
	c.Helper()
	c.WaitFor("the configuration", func() bool { return c.hooksBundle() != nil })
	for _, r := range replicas {
		r.waitLogged(c, "Serving webhooks with certificates of the shared authority")
		c.WaitFor("the server", func() bool { _, err := r.shown(c.hooksBundle()); return err == nil })
	}
}

// oldAuthority returns the data of a Secret with an authority that expires soon, and its name.
func (c *C) oldAuthority() (data map[string]any, name string) {
	c.Helper()
	return c.authoritySecret(&x509.Certificate{Subject: pkix.Name{CommonName: "old"}, NotAfter: time.Now().Add(10 * time.Minute)}), "old"
}

// authoritySecret returns the data of a Secret with an authority.
func (c *C) authoritySecret(template *x509.Certificate) map[string]any {
	c.Helper()
	a := &Authority{c: c}
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
	a.cert, a.key = a.sign(template, nil, nil)
	private, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		c.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	return map[string]any{"ca.crt": cert, "signer.crt": cert, "signer.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
}

func proveSharedAuthority(c *C) {
	c.dropHooks()
	replicas := []*hookReplica{c.hookReplica(0), c.hookReplica(0), c.hookReplica(0)}
	c.configured(replicas...)
	if c.trusted(replicas...) == "" {
		c.Error("the replicas have several authorities")
	}
	if n := bytes.Count(c.hooksBundle(), []byte("BEGIN CERTIFICATE")); n != 1 {
		c.Errorf("%d authorities are to be trusted, want 1", n)
	}
	secret := c.secrets().Get(authoritySecret)
	if typ := secret.Get("type"); typ != "Opaque" {
		c.Errorf("the type of the Secret is %v", typ)
	}
	data := c.authorityData()
	if len(data) != 3 || !bytes.Equal(data["ca.crt"], c.hooksBundle()) {
		c.Errorf("the Secret has %d keys, and the bundle %q", len(data), data["ca.crt"])
	}
	block, _ := pem.Decode(data["signer.crt"])
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		c.Fatal(err)
	}
	if !cert.IsCA || cert.KeyUsage != x509.KeyUsageCertSign || !cert.MaxPathLenZero || cert.NotAfter.Sub(cert.NotBefore) < 360*24*time.Hour {
		c.Errorf("the authority is %+v", cert)
	}
	for _, extension := range cert.Extensions {
		if id := extension.Id.String(); (id == "2.5.29.19" || id == "2.5.29.15") && !extension.Critical { // basic constraints, key usage
			c.Errorf("the extension %s is not critical", id)
		}
	}
	created := 0 // all may try at the same time
	for _, replica := range replicas {
		for _, q := range replica.Wire.Requests("POST") {
			if strings.HasSuffix(q.Path, "/secrets") && q.Code == 201 {
				created++
			}
		}
	}
	if created != 1 {
		c.Errorf("%d Secrets were created, want one", created)
	}
}

func proveAuthorityRotation(c *C) {
	c.dropHooks()
	data, old := c.oldAuthority()
	c.secrets().Create(authoritySecret, map[string]any{"data": data})
	replicas := []*hookReplica{c.hookReplica(3 * time.Second), c.hookReplica(3 * time.Second)}
	c.configured(replicas...)
	began, both := time.Now(), false
	c.WaitFor("the next authority", func() bool {
		issuer := c.trusted(replicas...)
		both = both || issuer == old && bytes.Count(c.hooksBundle(), []byte("BEGIN CERTIFICATE")) == 2
		return issuer != old && issuer != ""
	})
	if passed := time.Since(began); !both && c.late(passed, 2*time.Second) {
		c.Error("both authorities were never to be trusted")
	}
	for range 10 {
		c.Pass(100 * time.Millisecond)
		c.trusted(replicas...)
	}
	if n := bytes.Count(c.hooksBundle(), []byte("BEGIN CERTIFICATE")); n != 2 {
		c.Errorf("%d authorities are to be trusted, want 2 until the former one expires", n)
	}
	if c.InBubble() {
		c.Pass(30 * time.Minute)
		c.trusted(replicas...)
		if n := bytes.Count(c.hooksBundle(), []byte("BEGIN CERTIFICATE")); n != 1 {
			c.Errorf("%d authorities are to be trusted when the former one has expired, want 1", n)
		}
	}
	for _, r := range replicas {
		r.Stop()
	}
}

// proveEarlyAuthority starts a replica with an authority that another one has made, whose clock is two days fast.
func proveEarlyAuthority(c *C) {
	c.dropHooks()
	c.secrets().Create(authoritySecret, map[string]any{"data": c.authoritySecret(&x509.Certificate{
		Subject: pkix.Name{CommonName: "early"}, NotBefore: time.Now().Add(48 * time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
	})})
	replicas := []*hookReplica{c.hookReplica(-1), c.hookReplica(-1)}
	c.configured(replicas...)
	if issuer := c.trusted(replicas...); issuer == "early" || issuer == "" {
		c.Errorf("the authority is %q", issuer)
	}
	lines := append(replicas[0].Logs.Find("Replaced the authority of the webhooks, which was not valid yet"),
		replicas[1].Logs.Find("Replaced the authority of the webhooks, which was not valid yet")...)
	if len(lines) != 1 || lines[0].Attrs["notBefore"] == "" || lines[0].Attrs["now"] == "" {
		c.Errorf("got the lines %v", lines)
	}
}

func proveForeignAuthority(c *C) {
	c.dropHooks()
	ca := c.Authority("mine")
	private, err := x509.MarshalPKCS8PrivateKey(ca.key)
	if err != nil {
		c.Fatal(err)
	}
	c.secrets().Create(authoritySecret, map[string]any{"data": map[string]any{
		"ca.crt": ca.PEM, "signer.crt": ca.PEM, "signer.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), "note": []byte("mine"),
	}})
	r := c.hookReplica(0)
	c.configured(r)
	if got := c.trusted(r); got != "mine" || !bytes.Equal(c.hooksBundle(), ca.PEM) {
		c.Errorf("the certificate is by %q; to be trusted is %q", got, c.hooksBundle())
	}
	if !c.InBubble() {
		return
	}
	const day = 24 * time.Hour
	c.Pass(day)
	r.Crash()
	c.Pass(300 * day) // longer than an authority of kopf is used
	r = c.hookReplica(0)
	c.configured(r)
	c.Pass(3 * day)
	if got := c.trusted(r); got != "mine" || string(c.authorityData()["note"]) != "mine" {
		c.Errorf("the certificate is by %q", got)
	}
}

func proveRotationContinued(c *C) {
	c.dropHooks()
	data, old := c.oldAuthority()
	c.secrets().Create(authoritySecret, map[string]any{"data": data})
	first := c.hookReplica(time.Hour) // it does not reach the second step
	c.configured(first)
	c.WaitFor("the first step", func() bool { return c.authorityData()["next.crt"] != nil })
	c.WaitFor("trust in both", func() bool { return bytes.Count(c.hooksBundle(), []byte("BEGIN CERTIFICATE")) == 2 })
	first.Crash()
	second := c.hookReplica(time.Second)
	c.configured(second)
	c.WaitFor("the second step", func() bool { return c.trusted(second) != old })
	if c.authorityData()["next.crt"] != nil {
		c.Error("there is still a next authority")
	}
}

func proveDeletedAuthority(c *C) {
	c.dropHooks()
	replicas := []*hookReplica{c.hookReplica(2 * time.Second), c.hookReplica(2 * time.Second)}
	c.configured(replicas...)
	first := c.trusted(replicas...)
	c.secrets().Delete(authoritySecret)
	c.WaitFor("another authority", func() bool {
		issuer := c.trusted(replicas...)
		return issuer != first && issuer != ""
	})
	if c.authorityData() == nil {
		c.Error("there is no Secret")
	}
}

func proveForeignSecret(c *C) {
	c.dropHooks()
	c.secrets().Create(authoritySecret, map[string]any{"data": map[string]any{"password": []byte("hunter2")}})
	version := c.secrets().Get(authoritySecret).ResourceVersion()
	r := c.hookReplica(0)
	<-r.runner.Context().Done()
	err := r.Err()
	want := fmt.Sprintf(`the Secret %q has something else than an authority for webhooks in it: the key "ca.crt": it is missing or empty`, c.Namespace+"/"+authoritySecret)
	if err == nil || !strings.Contains(err.Error(), want) {
		c.Errorf("the error is %v, want %s", err, want)
	}
	if got := c.secrets().Get(authoritySecret).ResourceVersion(); got != version {
		c.Error("the Secret was written to")
	}
	for _, line := range r.Logs.All() {
		if strings.Contains(fmt.Sprint(line), "hunter2") {
			c.Errorf("the log has the content of the Secret: %+v", line)
		}
	}
}

func proveAuthorityNamespace(c *C) {
	c.dropHooks()
	serve := func(change func(*kopf.Operator)) *Running {
		registry := &kopf.Registry{}
		registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "check"})
		return c.Operator(registry, func(op *kopf.Operator) {
			op.Settings.Admission.Server = &kopf.WebhookServer{Listener: c.listener(), Host: hooksHost, AuthoritySecret: authoritySecret}
			change(op)
		})
	}
	serve(func(op *kopf.Operator) { op.Connection.DefaultNamespace = c.Namespace })
	c.WaitFor("the Secret", func() bool { return c.authorityData() != nil })
	lost := serve(func(op *kopf.Operator) { op.Connection.DefaultNamespace = "" })
	<-lost.runner.Context().Done()
	if err := lost.Err(); err == nil || !strings.Contains(err.Error(), `has no namespace, because the connection has none`) {
		c.Errorf("the error is %v", err)
	}
}

func proveAuthorityAtRest(c *C) {
	c.OnlyInBubble("a day must pass")
	c.dropHooks()
	replicas := []*hookReplica{c.hookReplica(0), c.hookReplica(0)}
	c.configured(replicas...)
	about := func() (n int) {
		for _, r := range replicas {
			for _, q := range r.Wire.Requests() {
				if strings.Contains(q.Path, "/secrets") && !strings.Contains(q.Path, "watch=true") {
					n++
				}
			}
		}
		return n
	}
	before := about()
	c.Pass(24 * time.Hour)
	if n := about() - before; n != 0 {
		c.Errorf("there were %d requests about the Secret in a day", n)
	}
	for _, r := range replicas {
		for _, q := range r.Wire.Requests() {
			if strings.Contains(q.Path, "/secrets?") && strings.Contains(q.Path, "watch=true") && !strings.Contains(q.Path, "fieldSelector=metadata.name%3D"+authoritySecret) {
				c.Errorf("other Secrets are watched, too: %s", q.Path)
			}
		}
		if lines := r.Logs.Find("authority"); len(lines) > 3 {
			c.Errorf("the log lines are %+v", lines)
		}
		for _, line := range r.Logs.All() {
			if line.Level >= slog.LevelWarn {
				c.Errorf("a warning: %+v", line)
			}
		}
	}
}

func proveAuthorityRights(c *C) {
	c.dropHooks()
	replicas := []*hookReplica{c.hookReplica(time.Second), c.hookReplica(time.Second)}
	c.configured(replicas...)
	first := c.trusted(replicas...)
	c.secrets().Delete(authoritySecret)
	c.WaitFor("another authority", func() bool { return c.trusted(replicas...) != first })
	used := make(map[string]bool)
	for _, r := range replicas {
		for _, q := range r.Wire.Requests() {
			path, query, _ := strings.Cut(q.Path, "?")
			switch _, name, about := strings.Cut(path, "/secrets"); {
			case !about:
			case q.Method == "GET" && name == "" && strings.Contains(query, "watch=true"):
				used["watch"] = true
			case q.Method == "GET" && name == "":
				used["list"] = true
			default:
				used[map[string]string{"GET": "get", "POST": "create", "PATCH": "patch"}[q.Method]] = true
			}
		}
	}
	given := make(map[string]bool)
	for _, body := range c.manifest("webhooks/rbac.yaml") {
		rules, _ := body.Get("rules").([]any)
		for _, rule := range rules {
			if r := rule.(map[string]any); slices.Contains(r["resources"].([]any), any("secrets")) {
				for _, verb := range r["verbs"].([]any) {
					given[verb.(string)] = true
				}
			}
		}
	}
	if diff := cmp.Diff(given, used); diff != "" {
		c.Errorf("the rights that are documented and used (-want +got)\n%s", diff)
	}
}
