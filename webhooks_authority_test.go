package kopf

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/proof"
)

// This file tests the authority that the servers of several replicas share. It replaces elections: one replica is the holder, the others follow.

// replicas are webhook servers, and the configuration with which an API server verifies them.
type replicas struct {
	t      *testing.T
	server *APIServer
	log    *bytes.Buffer
	logs   sync.Mutex // guards log
	all    []*replica

	mu     sync.Mutex // guards following
	holder *replica   // nil for none
	each   bool       // whether each replica holds, as without an election
	bundle []byte     // in the configuration
}

func newReplicas(t *testing.T) *replicas {
	c := &replicas{t: t, server: NewAPIServer(&APIServerOptions{BookmarkInterval: 1 << 60, DisableGarbageCollector: true}), log: &bytes.Buffer{}}
	t.Cleanup(c.checkLog)
	return c
}

func (c *replicas) Write(p []byte) (int, error) {
	c.logs.Lock()
	defer c.logs.Unlock()
	return c.log.Write(p)
}

func (c *replicas) text() string {
	c.logs.Lock()
	defer c.logs.Unlock()
	return c.log.String()
}

// checkLog checks that the log contains no private key.
func (c *replicas) checkLog() {
	text := c.text()
	for _, word := range append(c.secrets(), "PRIVATE KEY", "UFJJVkFURSBLRVk") {
		if strings.Contains(text, word) {
			c.t.Errorf("a private key is in the log")
		}
	}
}

// secrets are parts of the private keys in the Secret, in all encodings.
func (c *replicas) secrets() []string {
	var words []string
	for key, value := range c.data() {
		if strings.HasSuffix(key, ".key") && len(value) > 0 {
			lines := strings.Split(string(value), "\n")
			words = append(words, lines[1], base64.StdEncoding.EncodeToString(value)[40:80])
		}
	}
	return words
}

// replica is one of the servers.
type replica struct {
	*replicas
	listener *replicaListener
	settings WebhookServer
	sharing  webhookSharing
	stop     func() error
	done     chan struct{} // closed when the server has returned the error
	err      error

	announced []byte // guarded by mu
	written   bool
	cut       bool          // whether its requests fail
	delay     time.Duration // of its announcements
}

// RoundTrip implements [http.RoundTripper].
func (r *replica) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	cut := r.cut
	r.mu.Unlock()
	if cut {
		return nil, errors.New("the network is down")
	}
	return r.server.ConnectionInfo().HTTPClient.Transport.RoundTrip(req)
}

const secretNamespace = "default"

// start starts another replica, and returns at once.
func (c *replicas) start(change ...func(*replica)) *replica {
	c.t.Helper()
	r := &replica{replicas: c, listener: newReplicaListener(), done: make(chan struct{})}
	r.settings = WebhookServer{Listener: r.listener, Host: "hooks.ns.svc"}
	r.sharing = webhookSharing{secret: "hooks", namespace: secretNamespace, replica: r}
	for _, f := range change {
		f(r)
	}
	info := c.server.ConnectionInfo()
	info.HTTPClient = &http.Client{Transport: r}
	client, err := NewClient(info, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	client.source.Watching.ServerTimeout, client.source.Watching.InactivityTimeout = 0, 0
	log := slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug}))
	client.log = log
	ctx, cancel := context.WithCancel(withOperator(c.t.Context(), client, log, r.sharing))
	go func() {
		defer close(r.done)
		r.err = r.settings.Serve(ctx, nil, r.announce)
	}()
	r.stop = func() error {
		cancel()
		return r.end()
	}
	c.t.Cleanup(client.close)
	c.t.Cleanup(func() { _ = r.stop() })
	c.all = append(c.all, r)
	return r
}

// startHolder starts another replica as the holder.
func (c *replicas) startHolder() {
	c.t.Helper()
	c.start(func(r *replica) { c.elect(r) })
}

// end waits until the server has returned.
func (r *replica) end() error {
	<-r.done
	return r.err
}

// Holds implements [webhookca.Replica].
func (r *replica) Holds() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.each || r.holder == r
}

// Written implements [webhookca.Replica].
func (r *replica) Written() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written
}

func (r *replica) announce(config WebhookClientConfig) {
	r.mu.Lock()
	delay := r.delay
	r.mu.Unlock()
	time.Sleep(delay)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announced, r.written = config.CABundle, false
	r.writeLocked()
}

// writeLocked writes the configuration, as the operator of the holder does.
func (r *replica) writeLocked() {
	if r.announced != nil && (r.each || r.holder == r) {
		r.bundle, r.written = r.announced, true
	}
}

// elect makes a replica the holder; nil for none.
func (c *replicas) elect(r *replica) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder = r; r != nil {
		r.writeLocked()
	}
}

// crash ends a replica without a shutdown.
func (r *replica) crash() {
	r.mu.Lock()
	if r.holder == r {
		r.holder = nil
	}
	r.mu.Unlock()
	_ = r.stop()
	for i, other := range r.all {
		if other == r {
			r.all = append(r.all[:i:i], r.all[i+1:]...)
		}
	}
}

// shown returns the certificate of a replica, or an error if it is not trusted.
func (r *replica) shown() (*x509.Certificate, error) {
	r.mu.Lock()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.bundle)
	r.mu.Unlock()
	conn, err := r.listener.dial()
	if err != nil {
		return nil, err
	}
	client := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: "hooks.ns.svc"})
	defer client.Close()
	if err := client.HandshakeContext(r.t.Context()); err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates[0], nil
}

// check verifies all replicas as the API server does, and returns their authorities.
func (c *replicas) check(when string) map[string]int {
	c.t.Helper()
	synctest.Wait()
	issuers := make(map[string]int)
	serials := make(map[string]bool)
	for i, r := range c.all {
		cert, err := r.shown()
		if err != nil {
			c.t.Fatalf("%s, at %s: the replica %d is not trusted: %v", when, time.Now(), i, err)
		}
		issuers[cert.Issuer.CommonName]++
		serials[cert.SerialNumber.String()] = true
	}
	if len(serials) != len(c.all) {
		c.t.Errorf("%s: there are %d certificates of %d replicas", when, len(serials), len(c.all))
	}
	return issuers
}

// one is check for a single authority.
func (c *replicas) one(when string) string {
	c.t.Helper()
	issuers := c.check(when)
	for name := range issuers {
		if len(issuers) == 1 {
			return name
		}
	}
	c.t.Fatalf("%s: the authorities are %v", when, issuers)
	return ""
}

// pass waits, and checks all replicas repeatedly.
func (c *replicas) pass(d, step time.Duration) {
	c.t.Helper()
	step = max(step, d/time.Duration(proof.Rounds(30, 1000))) // each look takes a handshake with each replica
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(step, time.Until(end)))
		c.check("meanwhile")
	}
}

// data returns the data of the Secret, nil if there is none.
func (c *replicas) data() map[string][]byte {
	info := c.server.ConnectionInfo()
	resp, err := info.HTTPClient.Get(info.Server + "/api/v1/namespaces/" + secretNamespace + "/secrets/hooks")
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var secret struct{ Data map[string][]byte }
	if err := json.NewDecoder(resp.Body).Decode(&secret); err != nil {
		c.t.Fatal(err)
	}
	return secret.Data
}

// put creates a Secret, or changes its keys; nil removes one.
func (c *replicas) put(data map[string][]byte) {
	c.t.Helper()
	values := make(map[string]any)
	for key, value := range data {
		if values[key] = value; value == nil {
			values[key] = nil
		}
	}
	client := c.client()
	ref := ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: secretNamespace, Name: "hooks"}
	_, err := client.Patch(c.t.Context(), ref, map[string]any{"data": values}, nil)
	if StatusCode(err) == http.StatusNotFound {
		maps.DeleteFunc(values, func(_ string, value any) bool { return value == nil })
		secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "hooks", "namespace": secretNamespace}, "data": values}
		err = client.Create(c.t.Context(), secret, nil)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *replicas) client() *Client {
	c.t.Helper()
	client, err := NewClient(c.server.ConnectionInfo(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.close)
	return client
}

func (c *replicas) remove() {
	c.t.Helper()
	ref := ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: secretNamespace, Name: "hooks"}
	if err := c.client().Delete(c.t.Context(), ref, nil); err != nil {
		c.t.Fatal(err)
	}
}

// writes are the requests to change the Secret, including failed ones.
func (c *replicas) writes() []string {
	var all []string
	for _, r := range c.server.Requests() {
		if r.Method != http.MethodGet {
			all = append(all, fmt.Sprint(r.Method, " ", r.Status))
		}
	}
	return all
}

// count returns how many lines of the log contain a text.
func (c *replicas) count(text string) int { return strings.Count(c.text(), text) }

// replicaListener accepts pipes, which work in bubbles.
type replicaListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newReplicaListener() *replicaListener {
	return &replicaListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *replicaListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *replicaListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *replicaListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (l *replicaListener) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-time.After(time.Second):
		return nil, errors.New("the server does not accept connections yet")
	}
}

// sharedTest runs a test in a bubble.
func sharedTest(t *testing.T, name string, test func(c *replicas)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(newReplicas(t)) })
	})
}

const (
	day           = 24 * time.Hour
	authorityLife = 365 * day
	rotation      = 275 * day // after the beginning of an authority
)

func TestSharedAuthority(t *testing.T) {
	sharedTest(t, "HA-52 three replicas that start at once make one authority", func(c *replicas) {
		c.each = true
		for range 3 {
			c.start()
		}
		c.one("at the start")
		created := 0
		for _, w := range c.writes() {
			if w == "POST 201" {
				created++
			} else if w != "POST 409" {
				t.Errorf("an unexpected write: %s", w)
			}
		}
		if created != 1 || c.count("Created the authority of the webhooks") != 1 || c.count("Serving webhooks with certificates of the shared authority") != 3 {
			t.Errorf("the writes are %v; the log:\n%s", c.writes(), c.text())
		}
	})
	sharedTest(t, "HA-52 reviews are trusted at every moment of years", testAuthorityLife)
	sharedTest(t, "HA-52 replicas without an election rotate together", func(c *replicas) {
		c.each = true
		c.start()
		c.start()
		first := c.one("at first")
		time.Sleep(rotation - time.Minute)
		c.pass(4*time.Minute, time.Second)
		if c.one("after the rotation") == first {
			t.Error("the authority was not rotated")
		}
		if n := c.count("Rotated the authority"); n != 1 {
			t.Errorf("it was rotated %d times", n)
		}
	})
	sharedTest(t, "HA-52 each step is continued by the next holder", testAuthorityCrashes)
	sharedTest(t, "HA-52 a replica that cannot reach the API server for long is trusted", testAuthorityOutage)
	sharedTest(t, "HA-52 the next authority does not sign before the configuration was written", testAuthorityUnwritten)
	sharedTest(t, "HA-14 a standby waits, and writes nothing", func(c *replicas) {
		r := c.start()
		time.Sleep(time.Hour)
		if writes := c.writes(); len(writes) > 0 || r.announced != nil {
			t.Errorf("the writes are %v", writes)
		}
		if c.count("Waiting for the leader to create the authority of the webhooks") != 1 {
			t.Errorf("the log is\n%s", c.text())
		}
		holder := c.start()
		time.Sleep(2 * time.Second) // the time to become the leader
		c.elect(holder)
		time.Sleep(2 * time.Second)
		c.one("with a holder")
		if c.count("Waiting for the leader to create the authority of the webhooks") != 1 {
			t.Errorf("the leader waits for itself:\n%s", c.text())
		}
		c.elect(nil)
		time.Sleep(rotation + time.Hour)
		c.one("without a holder for long")
		if writes := c.writes(); len(writes) != 1 {
			t.Errorf("the writes are %v, want the creation alone", writes)
		}
	})
}

func testAuthorityLife(c *replicas) {
	t := c.t
	c.startHolder()
	synctest.Wait()
	c.start()
	c.start()
	began, years := time.Now(), proof.Rounds(2, 3)
	issuer := c.one("at first")
	for year := 1; year <= years; year++ {
		c.pass(time.Until(began.Add(time.Duration(year)*rotation-time.Minute)), 5*day)
		if got := c.one("before the rotation"); got != issuer {
			t.Fatalf("the authority was rotated too early, to %s", got)
		}
		c.elect(c.all[year%3]) // each has its turn
		c.pass(4*time.Minute, 3*time.Second)
		next := c.one("after the rotation")
		if next == issuer {
			t.Fatalf("the authority was not rotated after %s", time.Since(began))
		}
		issuer = next
		late := c.start() // without knowledge of the rotation
		synctest.Wait()
		if got := c.one("with a new replica"); got != issuer {
			t.Errorf("the new replica has a certificate by %s, want %s", got, issuer)
		}
		late.crash()
		if n := bytes.Count(c.bundle, []byte("BEGIN")); n != 2 {
			t.Errorf("%d authorities are trusted after the rotation, want 2", n)
		}
	}
	c.pass(100*day, 5*day)
	if n := bytes.Count(c.bundle, []byte("BEGIN")); n != 1 {
		t.Errorf("%d authorities are trusted when the former one has expired, want 1", n)
	}
	if n := c.count("Added the next authority"); n != years {
		t.Errorf("there were %d rotations", n)
	}
	for _, key := range []string{"next.crt", "next.key"} {
		if _, ok := c.data()[key]; ok {
			t.Errorf("the key %s is left in the Secret", key)
		}
	}
}

// testAuthorityUnwritten makes the API server refuse the configuration for a while, and then a new holder write it slowly.
func testAuthorityUnwritten(c *replicas) {
	t := c.t
	c.startHolder()
	synctest.Wait()
	next := c.start()
	first := c.one("at first")
	c.mu.Lock()
	c.holder.delay = 20 * time.Minute
	c.mu.Unlock()
	time.Sleep(rotation - time.Minute)
	for range 20 {
		c.pass(time.Minute, 10*time.Second)
		if got := c.one("before the configuration is written"); got != first {
			t.Fatalf("%s signs already", got)
		}
	}
	c.mu.Lock()
	c.holder = next // without writes so far
	c.mu.Unlock()
	c.pass(10*time.Minute, 10*time.Second)
	if got := c.one("before the new holder has written the configuration"); got != first {
		t.Fatalf("%s signs already", got)
	}
	c.elect(next)
	c.pass(2*time.Minute, time.Second)
	if got := c.one("after that"); got == first {
		t.Error("the authority was not rotated")
	}
}

// testAuthorityOutage runs a replica for months without the API server.
func testAuthorityOutage(c *replicas) {
	t := c.t
	c.startHolder()
	synctest.Wait()
	lost := c.start()
	first := c.one("at first")
	time.Sleep(rotation - day)
	c.mu.Lock()
	lost.cut = true
	c.mu.Unlock()
	c.server.Disconnect()
	c.pass(2*day, time.Hour)
	if n := len(c.check("after the rotation")); n != 2 {
		t.Errorf("there are %d authorities, want that the lost replica still has the former one", n)
	}
	c.pass(time.Duration(proof.Rounds(10, 40))*day, day)
	if n, m := c.count("level=ERROR"), c.count("level=WARN"); n != 1 || m < 1 || m > 2 { // the end of the streams may be one of them
		t.Errorf("the outage is in the log %d and %d times", n, m)
	}
	c.mu.Lock()
	lost.cut = false
	c.mu.Unlock()
	c.pass(5*time.Minute, time.Second)
	if got := c.one("when all are back"); got == first {
		t.Error("the former authority still signs")
	}
	c.pass(10*day, time.Hour) // the authority expires meanwhile
}

// testAuthorityCrashes crashes the holder before and after each of its writes, during a rotation, and before the next authority is trusted.
func testAuthorityCrashes(c *replicas) {
	t := c.t
	c.startHolder()
	synctest.Wait()
	c.start()
	first := c.one("at first")
	crash := func() {
		c.holder.crash()
		c.start()
		time.Sleep(30 * time.Second) // without a holder
		c.check("without a holder")
		c.elect(c.all[0])
	}
	time.Sleep(rotation - time.Minute)
	for _, fault := range []APIServerFault{{Drop: true}, {DropAfter: true}} {
		fault.Verb, fault.Resource, fault.Times = "patch", "secrets", 1
		defer c.server.Fail(fault)()
	}
	c.pass(time.Minute, time.Second)
	for i := 0; c.data()["next.crt"] == nil; i++ {
		c.pass(time.Second, time.Second)
		if i > 600 {
			t.Fatal("there is no next authority")
		}
	}
	for range 3 { // each restarts the count
		crash()
		c.pass(50*time.Second, time.Second)
		if got := c.one("before the next authority signs"); got != first {
			t.Fatalf("%s signs already", got)
		}
	}
	c.pass(2*time.Minute, time.Second)
	if got := c.one("after the rotation"); got == first {
		t.Error("the authority was not rotated")
	}
	crash()
	c.pass(time.Minute, time.Second)
	if n := c.count("Added the next authority"); n > 1 {
		t.Errorf("%d next authorities were made", n)
	}
}

func TestSharedAuthorityDeleted(t *testing.T) {
	sharedTest(t, "HA-52 a deleted Secret is made again, and another authority takes over when it is trusted", func(c *replicas) {
		c.startHolder()
		synctest.Wait()
		c.start()
		first := c.one("at first")
		c.remove()
		c.pass(50*time.Second, time.Second)
		if got := c.one("a while after the deletion"); got != first {
			t.Errorf("%s signs before it can be trusted", got)
		}
		c.pass(time.Minute, time.Second)
		if got := c.one("later"); got == first {
			t.Error("the authority of the deleted Secret still signs")
		}
	})
	sharedTest(t, "HA-52 a standby makes no Secret when it is deleted", func(c *replicas) {
		c.startHolder()
		holder := c.holder
		synctest.Wait()
		c.start()
		first := c.one("at first")
		holder.crash()
		c.remove()
		c.pass(time.Hour, time.Minute)
		if c.data() != nil {
			t.Error("there is a Secret")
		}
		c.elect(c.all[0])
		c.pass(10*time.Second, time.Second)
		if got := c.one("with a holder"); got != first || c.data() == nil {
			t.Errorf("the authority is %s, want %s", got, first)
		}
	})
}

func TestSharedAuthorityReplaced(t *testing.T) {
	sharedTest(t, "HA-52 without any memory of it, another authority is made", func(c *replicas) {
		c.startHolder()
		synctest.Wait()
		first := c.one("at first")
		c.holder.crash()
		c.remove()
		c.startHolder()
		synctest.Wait()
		if got := c.one("anew"); got == first || bytes.Count(c.bundle, []byte("BEGIN")) != 1 {
			t.Errorf("the authority is %s", got)
		}
	})
	sharedTest(t, "HA-52 an authority that has expired is replaced at once", func(c *replicas) {
		c.startHolder()
		synctest.Wait()
		c.start()
		first := c.one("at first")
		for len(c.all) > 0 {
			c.all[0].crash()
		}
		time.Sleep(authorityLife + day)
		standby := c.start()
		time.Sleep(time.Minute)
		if standby.announced != nil {
			t.Error("a standby serves with an authority that has expired")
		}
		c.startHolder()
		time.Sleep(time.Second)
		if got := c.one("a year later"); got == first || bytes.Count(c.bundle, []byte("BEGIN")) != 1 {
			t.Errorf("the authority is %s", got)
		}
	})
	sharedTest(t, "HA-52 an empty Secret is filled", func(c *replicas) {
		c.put(nil)
		c.startHolder()
		synctest.Wait()
		c.one("at first")
		if got := fmt.Sprint(c.writes()[2:]); got != "[PATCH 200]" {
			t.Errorf("the writes are %s", got)
		}
	})
}
