package contract

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/await"
)

// This suite proves what happens to webhooks and their configurations when an operator stops.

var _ = ClusterSuite("admission_shutdown", func(t *testing.T, c *C) {
	c.Run(t, "DF-62 a replica that stops leaves the webhooks to those with the same authority", proveReplicaStop)
	c.Run(t, "DF-62 a replica that stops leaves the webhooks to those with the same certificate", proveReplicaStopWithFiles)
	c.Run(t, "DF-62 an operator that was replaced leaves the webhooks to its successor", proveReplacedStop)
	c.Run(t, "DF-62 a replica without handlers of a kind removes their webhooks, and an older one does not restore them", proveDroppedKind)
	c.Run(t, "DF-62 the webhooks of the replica that started last stay, whichever one writes last", proveLastStarted)
	c.Run(t, "DF-62 replicas that go on replace the webhooks of a failed update", proveFailedUpdate)
	c.Run(t, "DF-62 two operators with one name for their webhooks name each other", proveSameHooksName)
	c.Run(t, "DF-62 webhooks that another client removes, edits or deletes are restored, with a line", proveRestoredHooks)
	c.Run(t, "DF-62 a client that insists is answered less and less often", proveInsistingClient)
	c.Run(t, "DF-62 an operator goes on while its webhooks cannot be restored, and tries again", proveRefusedRestoring)
	c.Run(t, "DF-62 the first edit after an outage of the API server is restored at once", proveEditAfterRefusals)
	c.Run(t, "DF-62 a refused write is tried again at once, also after a client that insists", proveRefusalAfterEdits)
	c.Run(t, "DF-62 webhooks of a kind that has no handlers are removed after an outage", proveRefusedEmptying)
	c.Run(t, "DF-63 the next replica leads while requests to the webhooks of the former one do not arrive", proveHalfRequestAtStop)
	c.Run(t, "DF-63 the next replica leads while the former one answers a review, and then clean-up handlers have run", proveReviewAtStop)
	c.Run(t, "DF-63 clean-up handlers do not wait for requests that do not arrive", proveHalfRequestAtCleaning)
	c.Run(t, "DF-67 a replica that stops answers reviews until they go to the others", func(c *C) { proveShutdownDelay(c) })
	c.Run(t, "DF-94 a configuration that is refused again and again does not delay the end", proveStopAmidRefusals)
})

// proveStopAmidRefusals stops operators at any moment of a write that is refused with 503 and repeated.
func proveStopAmidRefusals(c *C) {
	c.OnlyInBubble("the retries take more than a minute")
	for after := time.Duration(0); after < 70*time.Second; after += 1700 * time.Millisecond {
		registry := &kopf.Registry{}
		registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a"})
		registry.OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: "m"})
		m := c.Managed(registry, func(op *kopf.Operator) {
			op.Connection.HTTPClient.Transport.(*Wire).Fault(func(req *Request) (*http.Response, error) {
				if strings.Contains(req.Path, "webhookconfigurations") {
					return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
				}
				return nil, nil
			})
		})
		c.Pass(after)
		began := time.Now()
		_ = m.Err() // that of the write, which fails after all attempts
		if passed := time.Since(began); passed > 5*time.Second {
			c.Errorf("stopped after %s, the operator took %s", after, passed)
		}
	}
}

// answering starts an operator with a server and a handler that is not persistent.
func (c *C) answering(server *kopf.WebhookServer, adjust ...func(*kopf.Operator)) *Running {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "check", IgnoreFailures: true})
	return c.Operator(registry, append(adjust, func(op *kopf.Operator) {
		op.Settings.Admission.Server, op.Settings.Admission.Managed = server, c.hooksName()
	})...)
}

// sharedHooks returns the number of webhooks in the common configuration of replicas.
func (c *C) sharedHooks() int {
	hooks := c.Of(registration, "ValidatingWebhookConfiguration")
	hooks.clusterwide = true
	if !hooks.Exists(c.hooksName()) {
		return 0
	}
	return len(asList(hooks.Get(c.hooksName()).Map()["webhooks"]))
}

// staysAfter stops a replica, and expects that the webhook of the other ones stays.
func (c *C) staysAfter(op *Running) {
	c.Helper()
	op.Stop()
	c.Pass(time.Second)
	if n := c.sharedHooks(); n != 1 {
		c.Errorf("%d webhooks are left, although a replica answers reviews", n)
	}
}

func proveReplicaStop(c *C) {
	c.dropHooks()
	start := func() *Running {
		return c.answering(&kopf.WebhookServer{Listener: c.listener(), Host: hooksHost, AuthoritySecret: c.Namespace + "/" + authoritySecret})
	}
	a := start()
	c.WaitFor("the webhook", func() bool { return c.sharedHooks() == 1 })
	b := start()
	b.waitLogged(c, "Serving webhooks with certificates of the shared authority")
	c.staysAfter(a)
	c.staysAfter(b) // another one may have started meanwhile
}

func proveReplicaStopWithFiles(c *C) {
	c.dropHooks()
	files := c.pairFiles()
	files.write(c.Authority("a").Issue("a"))
	start := func() *Running {
		return c.answering(&kopf.WebhookServer{Listener: c.listener(), Host: hooksHost, CertFile: files.cert, KeyFile: files.key})
	}
	a := start()
	c.WaitFor("the webhook", func() bool { return c.sharedHooks() == 1 })
	start()
	c.staysAfter(a)
}

func proveReplacedStop(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
	a := c.Managed(registry)
	a.hooks("Validating", 1)
	b := c.Managed(registry, func(op *kopf.Operator) { op.Settings.Admission.Managed = a.name })
	b.name = a.name
	b.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:2/hooks/"})
	c.Pass(time.Second)
	a.Stop()
	hook := a.hooks("Validating", 1)[0]
	expect(c, "the address", hook["clientConfig"].(map[string]any)["url"], any("https://127.0.0.1:2/hooks/a"))
	b.Stop()
	b.hooks("Validating", 0)
}

func proveDroppedKind(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
	both := &kopf.Registry{}
	both.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
	both.OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: "m", IgnoreFailures: true})
	older := c.Managed(both)
	older.hooks("Mutating", 1)
	newer := c.Managed(registry, func(op *kopf.Operator) { op.Settings.Admission.Managed = older.name })
	older.hooks("Mutating", 0)
	c.Pass(2 * time.Second)
	older.hooks("Mutating", 0)
	older.Stop()
	c.Pass(time.Second)
	older.hooks("Mutating", 0)
	if n := len(older.Logs.Find(restoring)); n > 0 {
		c.Errorf("the older replica has restored webhooks %d times", n)
	}
	newer.Stop()
}

// validating returns a registry with validating handlers.
func validating(ids ...kopf.HandlerID) *kopf.Registry {
	registry := &kopf.Registry{}
	for _, id := range ids {
		registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: id, IgnoreFailures: true})
	}
	return registry
}

// another starts an operator with the same configurations, as after an update.
func (m *managed) another(registry *kopf.Registry) *managed {
	m.c.Helper()
	other := m.c.Managed(registry, func(op *kopf.Operator) { op.Settings.Admission.Managed = m.name })
	other.name = m.name
	return other
}

// stays expects that a configuration goes on to have some number of webhooks.
func (m *managed) stays(number int) {
	m.c.Helper()
	m.hooks("Validating", number)
	m.c.Pass(2 * time.Second)
	m.hooks("Validating", number)
}

func proveLastStarted(c *C) {
	older := c.Managed(validating("a"))
	older.hooks("Validating", 1)
	newer := older.another(validating("a", "b"))
	newer.hooks("Validating", 2)
	older.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:2/hooks/"})
	newer.stays(2)
	ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: older.name}
	if err := c.Client.Delete(c.Context(), ref, nil); err != nil {
		c.Fatal(err)
	}
	newer.stays(2)
	unmarked := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"kopf.dev/webhooks": nil}}, "webhooks": []any{},
	}
	if _, err := c.Client.Patch(c.Context(), ref, unmarked, nil); err != nil {
		c.Fatal(err)
	}
	newer.stays(2)
	rolledBack := older.another(validating("a"))
	newer.stays(1)
	newer.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:2/hooks/"})
	newer.stays(1)
	rolledBack.Stop()
	newer.stays(2)
	newer.Stop()
	older.stays(1)
}

func proveFailedUpdate(c *C) {
	c.dropHooks()
	start := func(ids ...kopf.HandlerID) *Running {
		return c.Operator(validating(ids...), func(op *kopf.Operator) {
			op.Settings.Admission.Server = &kopf.WebhookServer{
				Listener: c.listener(), Host: hooksHost, AuthoritySecret: c.Namespace + "/" + authoritySecret,
			}
			op.Settings.Admission.Managed = c.hooksName()
		})
	}
	older := start("a")
	c.WaitFor("the webhook", func() bool { return c.sharedHooks() == 1 })
	newer := start("a", "b")
	c.WaitFor("the other webhooks", func() bool { return c.sharedHooks() == 2 })
	newer.Stop()
	c.WaitFor("the webhook of the older replica", func() bool { return c.sharedHooks() == 1 })
	c.staysAfter(older)
}

const otherOperator = "Another operator writes the same webhook configuration; the one that starts last replaces the webhooks of the other"

func proveSameHooksName(c *C) {
	service := func(name string) kopf.WebhookClientConfig {
		return kopf.WebhookClientConfig{Service: &kopf.ServiceReference{Namespace: "ns", Name: name}}
	}
	one := c.Managed(validating("a"))
	one.server.announce(service("one"))
	other := one.another(validating("b", "c"))
	other.server.announce(service("other"))
	c.WaitFor("the line", func() bool { return len(one.Logs.Find(otherOperator)) > 0 })
	other.server.announce(service("other"))
	other.stays(2)
	lines := one.Logs.Find(otherOperator)
	if last := lines[len(lines)-1]; last.Level != slog.LevelWarn || last.Attrs["other"] != "Service ns/other" {
		c.Errorf("got the line %+v", last)
	}
	other.Stop()
	one.stays(1)
	if n := len(one.Logs.Find(otherOperator)); n > 2 { // one for the first address of the other operator
		c.Errorf("%d lines are logged", n)
	}
}

const restoring = "Another client has changed the webhook configuration; restoring it"

func proveRestoredHooks(c *C) {
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
	m := c.Managed(registry)
	want := m.placed("Validating")
	ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: m.name}
	edit := func(hooks ...any) func() error {
		return func() error {
			_, err := c.Client.Patch(c.Context(), ref, map[string]any{"webhooks": hooks}, nil)
			return err
		}
	}
	selecting := maps.Clone(want[0])
	selecting["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{"a": "b"}}
	for i, change := range []func() error{
		edit(), edit(selecting), edit(want[0], renamed(selecting, "b."+m.name)),
		func() error { return c.Client.Delete(c.Context(), ref, nil) },
	} {
		if err := change(); err != nil {
			c.Fatal(err)
		}
		c.WaitFor("the line", func() bool { return len(m.Logs.Find(restoring)) == i+1 })
		c.WaitFor("the webhook", func() bool { return cmp.Equal(m.hooks("Validating", 1), want) })
	}
	c.Pass(time.Second)
	expect(c, "the lines", len(m.Logs.Find(restoring)), 4)
	for _, r := range m.Wire.Writes() { // permissions for a POST cannot be limited to a name
		if strings.Contains(r.Path, "webhookconfigurations") && r.Method != http.MethodPatch {
			c.Errorf("a configuration is written by %s", r.Method)
		}
	}
	m.Stop()
	m.hooks("Validating", 0)
}

// placed waits until the first write of the only webhook is complete, and returns it. A configuration is created
// before the operator takes its place in the order of starts by another request.
func (m *managed) placed(kind string) []map[string]any {
	m.c.Helper()
	m.c.WaitFor("the mark", func() bool {
		body := &kopf.Body{}
		ref := kopf.ObjectReference{APIVersion: registration, Kind: kind + "WebhookConfiguration", Name: m.name}
		if err := m.c.Client.Get(m.c.Context(), ref, body, nil); err != nil {
			return false
		}
		mark := strings.Fields(body.Annotations()["kopf.dev/webhooks"])
		return len(mark) == 3 && mark[1] != "0"
	})
	return m.hooks(kind, 1)
}

// renamed returns a webhook with another name.
func renamed(hook map[string]any, name string) map[string]any {
	hook = maps.Clone(hook)
	hook["name"] = name
	return hook
}

func proveInsistingClient(c *C) {
	c.OnlyInBubble("it takes hours")
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
	m := c.Managed(registry)
	m.hooks("Validating", 1)
	ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: m.name}
	for range 3600 {
		if _, err := c.Client.Patch(c.Context(), ref, map[string]any{"webhooks": []any{}}, nil); err != nil {
			c.Fatal(err)
		}
		c.Pass(time.Second)
	}
	if n := len(m.Logs.Find(restoring)); n < 12 || n > 25 {
		c.Errorf("the webhooks were restored %d times in an hour", n)
	}
	m.hooks("Validating", 1)
}

// refuseHooks makes an API server refuse writes of a configuration, until the returned function is called.
func (m *managed) refuseHooks(plural string, code int) (end func()) {
	var ended atomic.Bool
	m.Wire.Fault(func(req *Request) (*http.Response, error) {
		if ended.Load() || req.Method == http.MethodGet || !strings.Contains(req.Path, "/"+plural) {
			return nil, nil
		}
		return Answer(code, http.StatusText(code), "not now"), nil
	})
	return func() { ended.Store(true) }
}

const hooksRefused = "Writing a webhook configuration failed; retrying"

func proveRefusedRestoring(c *C) {
	c.OnlyInBubble("the retries take minutes")
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusForbidden} {
		registry := &kopf.Registry{}
		registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
		m := c.Managed(registry)
		m.hooks("Validating", 1)
		end := m.refuseHooks("validatingwebhookconfigurations", code)
		ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: m.name}
		if _, err := c.Client.Patch(c.Context(), ref, map[string]any{"webhooks": []any{}}, nil); err != nil {
			c.Fatal(err)
		}
		c.Pass(30 * time.Minute)
		m.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:2/hooks/"})
		c.Pass(30 * time.Minute)
		expect(c, "the lines about the failure", len(m.Logs.Find(hooksRefused)), 1)
		expect(c, "the lines about the edit", len(m.Logs.Find(restoring)), 1)
		end()
		c.Pass(10 * time.Minute)
		address := m.hooks("Validating", 1)[0]["clientConfig"].(map[string]any)["url"]
		expect(c, "the address", address, any("https://127.0.0.1:2/hooks/a"))
		expect(c, "the lines about the end", len(m.Logs.Find("Writing the webhook configuration works again")), 1)
		m.Stop()
		m.hooks("Validating", 0)
	}
}

// emptyHooks removes all validating webhooks, as another client can.
func (m *managed) emptyHooks() {
	m.c.Helper()
	ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: m.name}
	if _, err := m.c.Client.Patch(m.c.Context(), ref, map[string]any{"webhooks": []any{}}, nil); err != nil {
		m.c.Fatal(err)
	}
}

// restores waits until the webhook is there again, and checks that it was missing for seconds only.
func (m *managed) restores() {
	m.c.Helper()
	began := time.Now()
	m.hooks("Validating", 1)
	if took := time.Since(began); took > 10*time.Second {
		m.c.Errorf("the webhooks were missing for %s", took)
	}
}

func proveEditAfterRefusals(c *C) {
	c.OnlyInBubble("the retries take minutes")
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
	m := c.Managed(registry)
	m.hooks("Validating", 1)
	end := m.refuseHooks("validatingwebhookconfigurations", http.StatusServiceUnavailable)
	m.emptyHooks()
	c.Pass(30 * time.Minute)
	end()
	m.hooks("Validating", 1)
	c.Pass(4 * time.Minute)
	m.emptyHooks()
	m.restores()
}

func proveRefusalAfterEdits(c *C) {
	c.OnlyInBubble("it takes an hour")
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
	m := c.Managed(registry)
	m.hooks("Validating", 1)
	for range 3600 {
		m.emptyHooks()
		c.Pass(time.Second)
	}
	m.hooks("Validating", 1)
	end := m.refuseHooks("validatingwebhookconfigurations", http.StatusForbidden)
	m.emptyHooks()
	c.WaitFor("the refusal", func() bool { return len(m.Logs.Find(hooksRefused)) > 0 })
	end()
	m.restores()
}

func proveRefusedEmptying(c *C) {
	c.OnlyInBubble("the retries take minutes")
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "a", IgnoreFailures: true})
	c.Define(map[string]any{
		"apiVersion": registration, "kind": "MutatingWebhookConfiguration", "metadata": map[string]any{"name": c.Unique("hooks") + ".kopf.dev"},
		"webhooks": []any{map[string]any{
			"name": "old.kopf.dev", "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "failurePolicy": "Ignore",
			"clientConfig": map[string]any{"url": "https://localhost:1/"},
		}},
	})
	var ended atomic.Bool
	m := c.Managed(registry, func(op *kopf.Operator) {
		op.Connection.HTTPClient.Transport.(*Wire).Fault(func(req *Request) (*http.Response, error) {
			if ended.Load() || !strings.Contains(req.Path, "/mutatingwebhookconfigurations") {
				return nil, nil
			}
			return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
		})
	})
	m.hooks("Validating", 1)
	c.Pass(10 * time.Minute)
	m.hooks("Mutating", 1)
	ended.Store(true)
	c.Pass(10 * time.Minute)
	m.hooks("Mutating", 0)
}

// electedReplica starts a replica with a webhook server, whose reviews are answered by a function.
func (c *C) electedReplica(review kopf.AdmissionFunc, adjust ...func(*kopf.Registry)) *hookReplica {
	r := &hookReplica{listener: c.listener()}
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, review, &kopf.AdmissionOptions{ID: "check", IgnoreFailures: true})
	for _, f := range adjust {
		f(registry)
	}
	r.Running = c.Replica(registry, func(op *kopf.Operator) {
		op.Settings.Admission.Server = &kopf.WebhookServer{Listener: r.listener, Host: hooksHost, RenewalOverlap: -1}
		op.Settings.Admission.Managed = c.hooksName()
	})
	return r
}

// sendHalf sends the first half of a request, as a stranger can.
func (c *C) sendHalf(l *wiredListener) {
	c.Helper()
	conn, err := l.dial(c.Context(), "", "")
	if err != nil {
		c.Fatal(err)
	}
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	c.Cleanup(func() { _ = conn.Close() })
	const half = "POST /check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
	if _, err := io.WriteString(secure, half); err != nil {
		c.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }() // pipes have no buffers
}

// review sends a review to a replica over a new connection.
func (c *C) review(r *hookReplica) error {
	conf := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: hooksHost}
	conf.RootCAs.AppendCertsFromPEM(c.hooksBundle())
	transport := &http.Transport{DialContext: r.listener.dial, TLSClientConfig: conf}
	defer transport.CloseIdleConnections()
	code, text, err := post(&http.Client{Transport: transport}, "https://"+hooksHost+"/check", string(c.reviewOf(nil)))
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("got %d %s", code, text)
	}
	return err
}

// timedStop stops an operator, and returns a channel that gets the duration.
func timedStop(op *Running) <-chan time.Duration {
	began, passed := time.Now(), make(chan time.Duration, 1)
	go func() {
		_ = op.Err()
		passed <- time.Since(began)
	}()
	return passed
}

func proveHalfRequestAtStop(c *C) {
	c.dropHooks()
	a := c.electedReplica(accept)
	c.leads(a.Running)
	b := c.electedReplica(accept)
	c.WaitFor("the webhook", func() bool { return c.sharedHooks() == 1 })
	c.sendHalf(a.listener)
	began := time.Now()
	passed := timedStop(a.Running)
	c.leads(b.Running)
	if took := time.Since(began); c.late(took, 5*time.Second) {
		c.Errorf("the next replica leads after %s", took)
	}
	if took := <-passed; c.late(took, 10*time.Second) {
		c.Errorf("the end took %s", took)
	}
}

func proveReviewAtStop(c *C) {
	c.OnlyInBubble("the review takes long")
	c.dropHooks()
	asked := make(chan struct{})
	var l calls
	a := c.electedReplica(func(ctx context.Context, _ *kopf.Admission) error {
		close(asked)
		return await.Sleep(ctx, 12*time.Second)
	}, func(r *kopf.Registry) {
		r.OnCleanup(func(context.Context, *kopf.Activity) error {
			l.add("cleanup")
			return nil
		}, &kopf.ActivityOptions{ID: "cleanup"})
	})
	c.leads(a.Running)
	b := c.electedReplica(accept)
	c.WaitFor("the webhook", func() bool { return c.sharedHooks() == 1 })
	answered := make(chan error, 1)
	go func() { answered <- c.review(a) }()
	<-asked
	began := time.Now()
	passed := timedStop(a.Running)
	c.leads(b.Running)
	if took := time.Since(began); took > 5*time.Second {
		c.Errorf("the next replica leads after %s", took)
	}
	c.expect(&l, "cleanup")
	if err := <-answered; err != nil {
		c.Errorf("the review: %v", err)
	}
	if took := <-passed; took > 13*time.Second {
		c.Errorf("the end took %s", took)
	}
}

func proveHalfRequestAtCleaning(c *C) {
	c.dropHooks()
	registry := &kopf.Registry{}
	registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "check", IgnoreFailures: true})
	cleaned := make(chan struct{})
	registry.OnCleanup(func(context.Context, *kopf.Activity) error {
		close(cleaned)
		return nil
	}, &kopf.ActivityOptions{ID: "cleanup"})
	l := c.listener()
	op := c.Operator(registry, func(op *kopf.Operator) {
		op.Settings.Admission.Server, op.Settings.Admission.Managed = &kopf.WebhookServer{Listener: l}, c.hooksName()
	})
	c.WaitFor("the webhook", func() bool { return c.sharedHooks() == 1 })
	c.sendHalf(l)
	began := time.Now()
	passed := timedStop(op)
	<-cleaned
	if took := time.Since(began); c.late(took, 2*time.Second) {
		c.Errorf("the clean-up handler has run after %s", took)
	}
	<-passed
	if n := c.sharedHooks(); n != 0 {
		c.Errorf("%d webhooks are left", n)
	}
}

func proveShutdownDelay(c *C) {
	c.dropHooks()
	a := c.electedReplica(accept)
	c.leads(a.Running)
	c.WaitFor("the webhook", func() bool { return c.sharedHooks() == 1 })
	c.WaitFor("the server", func() bool { return c.review(a) == nil })
	began := time.Now()
	passed := timedStop(a.Running)
	for time.Since(began) < 4*time.Second { // of five; a review may take long on a busy machine
		if err := c.review(a); err != nil {
			c.Fatalf("after %s, a review fails: %v", time.Since(began), err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if took := <-passed; took < 5*time.Second || c.late(took, 7*time.Second) {
		c.Errorf("the end took %s", took)
	}
	if c.sharedHooks() != 1 {
		c.Error("the webhook is gone")
	}
}
