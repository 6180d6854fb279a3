package contract

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which one of several replicas writes the webhooks, and that the API server trusts all of them.

var _ = ClusterSuite("admission_order", func(t *testing.T, c *C) {
	c.Run(t, "DF-62 a failed update with the first handler of a kind leaves no webhooks", proveFailedKind)
	c.Run(t, "DF-62 a pod of the former version that starts again leaves no webhooks of a dropped kind", proveDroppedKindAgain)
	c.Run(t, "DF-62 replicas that go on replace the webhooks of a replica that was killed", proveKilledReplica)
	c.Run(t, "DF-62 replicas that go on restore the webhooks of a replica that was killed", proveKilledReplicaEdited)
	c.Run(t, "DF-62 a replica that works keeps its webhooks during a slow update", proveSlowUpdate)
	c.Run(t, "DF-62 a mark of another cluster is an edit", proveForeignMark)
	c.Run(t, "DF-62 a configuration without handlers of the other kind stays missing", proveMissingKind)
	c.Run(t, "HA-52 an authority is rotated although the newest replica was killed", proveRotationAfterKill)
	c.Run(t, "HA-52 an authority is rotated although each replica is the newest one of one configuration", proveRotationOfTwo)
	c.Run(t, "AC-51 a new certificate of the same authority is shown while writes are refused", proveRenewalWhileRefused)
	c.Run(t, "AC-51 the API server trusts all replicas although their files change at different times", proveRenewalOfTwo)
	c.Run(t, "AC-22 webhooks behind a Service are written when the operator is ready", proveReadyBeforeHooks)
	c.Run(t, "AC-22 an operator that does not become ready says that it writes no webhooks", proveNeverReady)
})

// withMutating adds mutating handlers to a registry.
func withMutating(registry *kopf.Registry, ids ...kopf.HandlerID) *kopf.Registry {
	for _, id := range ids {
		registry.OnMutate(Examples, accept, &kopf.AdmissionOptions{ID: id, IgnoreFailures: true})
	}
	return registry
}

// sharingReplica starts a replica with the common configurations and a shared certificate.
func (c *C) sharingReplica(files *pairFiles, registry *kopf.Registry, adjust ...func(*kopf.Operator)) *hookReplica {
	c.Helper()
	r := &hookReplica{listener: c.listener()}
	server := &kopf.WebhookServer{Listener: r.listener, Host: hooksHost, CertFile: files.cert, KeyFile: files.key}
	r.Running = c.Operator(registry, append(adjust, func(op *kopf.Operator) {
		op.Settings.Admission.Server, op.Settings.Admission.Managed = server, c.hooksName()
	})...)
	return r
}

// kindHooks returns the number of webhooks in the common configuration of a kind, 0 if it is missing.
func (c *C) kindHooks(kind string) int {
	hooks := c.Of(registration, kind+"WebhookConfiguration")
	hooks.clusterwide = true
	if !hooks.Exists(c.hooksName()) {
		return 0
	}
	return len(asList(hooks.Get(c.hooksName()).Map()["webhooks"]))
}

// hasHooks waits until a configuration has some number of webhooks, and keeps it for a moment.
func (c *C) hasHooks(kind string, number int) {
	c.Helper()
	c.WaitFor("the webhooks", func() bool { return c.kindHooks(kind) == number })
	c.Pass(time.Second)
	if n := c.kindHooks(kind); n != number {
		c.Errorf("there are %d webhooks, want %d", n, number)
	}
}

// dropAllHooks deletes both configurations at the end of the leaf.
func (c *C) dropAllHooks() {
	c.dropHooks()
	c.Cleanup(func() {
		ref := kopf.ObjectReference{APIVersion: registration, Kind: "MutatingWebhookConfiguration", Name: c.hooksName()}
		if err := c.Client.Delete(contextWithout(c.Context()), ref, nil); kopf.IgnoreNotFound(err) != nil {
			c.Error(err)
		}
	})
}

func (c *C) sharedFiles() *pairFiles {
	files := c.pairFiles()
	files.write(c.Authority("a").Issue(hooksHost))
	return files
}

func proveFailedKind(c *C) {
	c.dropAllHooks()
	files := c.sharedFiles()
	older := c.sharingReplica(files, validating("a"))
	c.hasHooks("Validating", 1)
	newer := c.sharingReplica(files, withMutating(validating("a"), "m"))
	c.hasHooks("Mutating", 1)
	newer.Stop()
	c.hasHooks("Mutating", 0)
	older.Stop()
}

func proveDroppedKindAgain(c *C) {
	c.dropAllHooks()
	files := c.sharedFiles()
	first := c.sharingReplica(files, withMutating(validating("a"), "m"))
	c.hasHooks("Mutating", 1)
	c.sharingReplica(files, validating("a"))
	c.hasHooks("Mutating", 0)
	first.Stop()
	again := c.sharingReplica(files, withMutating(validating("a"), "m"))
	c.hasHooks("Mutating", 1)
	again.Stop()
	c.hasHooks("Mutating", 0)
}

// kill stops a replica whose last writes are refused, so that it leaves its mark as if it was killed.
func (r *hookReplica) kill() {
	r.Wire.Fault(func(req *Request) (*http.Response, error) {
		if req.Method == http.MethodGet || !strings.Contains(req.Path, "webhookconfigurations") {
			return nil, nil
		}
		return Answer(http.StatusForbidden, "Forbidden", "not now"), nil
	})
	r.Stop()
}

func proveKilledReplica(c *C) {
	c.OnlyInBubble("the others wait for minutes")
	c.dropAllHooks()
	files := c.sharedFiles()
	older := c.sharingReplica(files, validating("a"))
	other := c.sharingReplica(files, validating("a"))
	c.Pass(time.Second)
	newest := c.sharingReplica(files, withMutating(validating("a", "b"), "m"))
	c.hasHooks("Validating", 2)
	c.hasHooks("Mutating", 1)
	newest.kill()
	if len(newest.Logs.Find("Leaving the webhook configuration to other replicas failed")) != 2 {
		c.Error("the failed end is not logged")
	}
	c.Pass(4 * time.Minute)
	c.hasHooks("Validating", 1)
	c.hasHooks("Mutating", 0)
	c.Pass(time.Hour)
	silent := "The replica that wrote the webhook configuration last does not answer; the others replace its webhooks"
	expect(c, "the lines", len(older.Logs.Find(silent))+len(other.Logs.Find(silent)), 2) // one for each configuration
}

func proveKilledReplicaEdited(c *C) {
	c.OnlyInBubble("the others wait for minutes")
	c.dropAllHooks()
	files := c.sharedFiles()
	c.sharingReplica(files, validating("a"))
	newest := c.sharingReplica(files, validating("a"))
	c.hasHooks("Validating", 1)
	newest.kill()
	ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: c.hooksName()}
	if _, err := c.Client.Patch(c.Context(), ref, map[string]any{"webhooks": []any{}}, nil); err != nil {
		c.Fatal(err)
	}
	c.Pass(4 * time.Minute)
	c.hasHooks("Validating", 1)
}

func proveSlowUpdate(c *C) {
	c.OnlyInBubble("it takes hours")
	c.dropAllHooks()
	files := c.sharedFiles()
	for range 3 {
		c.sharingReplica(files, withMutating(validating("a"), "m"))
		c.Pass(time.Second)
	}
	newest := c.sharingReplica(files, validating("a", "b"))
	c.hasHooks("Validating", 2)
	c.hasHooks("Mutating", 0)
	writes := func() (n int) {
		for _, r := range newest.Wire.Writes() {
			if strings.Contains(r.Path, "webhookconfigurations") && r.Body != "{}" {
				n++
				if strings.Contains(r.Path, "validating") && strings.Count(r.Body, `"sideEffects"`) != 2 {
					c.Errorf("the newest replica writes %s", r.Body)
				}
			}
		}
		return n
	}
	before := writes()
	for range 24 {
		c.Pass(10 * time.Minute)
		expect(c, "the validating webhooks", c.kindHooks("Validating"), 2)
		expect(c, "the mutating webhooks", c.kindHooks("Mutating"), 0)
	}
	if n := writes() - before; n > 4*24 { // for both configurations; two replicas may ask at the same moment
		c.Errorf("%d answers in four hours", n)
	}
}

func proveForeignMark(c *C) {
	m := c.Managed(validating("a"))
	want := m.placed("Validating")
	ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: m.name}
	restored := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"kopf.dev/webhooks": "0123456789abcdef 999999999999 https://old-cluster.example.com"}},
		"webhooks": []any{},
	}
	if _, err := c.Client.Patch(c.Context(), ref, restored, nil); err != nil {
		c.Fatal(err)
	}
	c.WaitFor("the line", func() bool { return len(m.Logs.Find(restoring)) == 1 })
	expect(c, "the webhooks", m.hooks("Validating", 1), want)
	m.Stop()
}

func proveMissingKind(c *C) {
	m := c.Managed(validating("a"))
	m.hooks("Validating", 1)
	c.Pass(2 * time.Second)
	expect(c, "the lines about edits", len(m.Logs.Find(restoring)), 0)
	if n := len(m.Wire.Requests(http.MethodPatch)); n > 3+1 { // three for its own, one look at the other one
		c.Errorf("%d requests", n)
	}
	m.Stop()
}

// replicasOfOldAuthority starts replicas that share an authority of four hours.
func (c *C) replicasOfOldAuthority(number int, registry func() *kopf.Registry, adjust ...func(*kopf.Operator)) []*hookReplica {
	c.dropAllHooks()
	data := c.authoritySecret(&x509.Certificate{Subject: pkix.Name{CommonName: "old"}, NotBefore: time.Now(), NotAfter: time.Now().Add(4 * time.Hour)})
	c.secrets().Create(authoritySecret, map[string]any{"data": data})
	var all []*hookReplica
	for range number {
		r := &hookReplica{listener: c.listener()}
		server := &kopf.WebhookServer{Listener: r.listener, Host: hooksHost, AuthoritySecret: c.Namespace + "/" + authoritySecret}
		r.Running = c.Operator(registry(), append(adjust, func(op *kopf.Operator) {
			op.Settings.Admission.Server, op.Settings.Admission.Managed = server, c.hooksName()
		})...)
		all = append(all, r)
		c.Pass(time.Second)
	}
	return all
}

func proveRotationAfterKill(c *C) {
	c.OnlyInBubble("an authority lives for hours")
	all := c.replicasOfOldAuthority(3, func() *kopf.Registry { return validating("a") })
	c.Pass(10 * time.Second)
	all[2].kill()
	for range 5 * 60 {
		c.Pass(time.Minute)
		c.trusted(all[:2]...)
	}
	if name := c.trusted(all[:2]...); name == "old" {
		c.Error("the authority was not rotated")
	}
}

func proveRotationOfTwo(c *C) {
	c.OnlyInBubble("an authority lives for hours")
	var slow atomic.Bool
	all := c.replicasOfOldAuthority(2, func() *kopf.Registry { return withMutating(validating("a"), "m") }, func(op *kopf.Operator) {
		op.Connection.HTTPClient.Transport.(*Wire).Fault(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "mutatingwebhookconfigurations") && req.Method == http.MethodPatch && slow.CompareAndSwap(false, true) {
				time.Sleep(5 * time.Second) // so that the first replica is the later one here
			}
			return nil, nil
		})
	})
	c.Pass(3*time.Hour + 30*time.Minute)
	if name := c.trusted(all...); name == "old" {
		c.Error("half an hour before its end, the old authority still signs")
	}
}

func proveRenewalWhileRefused(c *C) {
	c.OnlyInBubble("files are looked at each minute")
	c.dropAllHooks()
	ca, files := c.Authority("ca"), c.pairFiles()
	renew := func() {
		files.write(ca.Issue(hooksHost, func(t *x509.Certificate) { t.NotAfter = time.Now().Add(90 * time.Minute) }))
	}
	renew()
	r := &hookReplica{listener: c.listener()}
	server := &kopf.WebhookServer{Listener: r.listener, Host: hooksHost, CertFile: files.cert, KeyFile: files.key, CAData: ca.PEM}
	r.Running = c.Operator(validating("a"), func(op *kopf.Operator) {
		op.Settings.Admission.Server, op.Settings.Admission.Managed = server, c.hooksName()
	})
	c.hasHooks("Validating", 1)
	r.Wire.Fault(func(req *Request) (*http.Response, error) {
		if req.Method != http.MethodPatch || !strings.Contains(req.Path, "webhookconfigurations") {
			return nil, nil
		}
		return Answer(http.StatusForbidden, "Forbidden", "not now"), nil
	})
	ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: c.hooksName()}
	edit := []map[string]any{{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 7}}
	if _, err := c.Client.Patch(c.Context(), ref, edit, &kopf.PatchOptions{Type: kopf.JSONPatch}); err != nil {
		c.Fatal(err)
	}
	for range 6 {
		c.Pass(time.Hour)
		if cert, err := r.shown(c.hooksBundle()); err != nil || time.Now().After(cert.NotAfter) {
			c.Fatalf("the certificate is not valid: %v", err)
		}
		renew()
	}
}

func proveRenewalOfTwo(c *C) {
	c.OnlyInBubble("files are looked at each minute")
	for _, first := range []int{0, 1} {
		c.dropAllHooks()
		former, next := c.Authority("former"), c.Authority("next")
		files := []*pairFiles{c.pairFiles(), c.pairFiles()}
		cas := []string{c.TempDir() + "/ca.crt", c.TempDir() + "/ca.crt"}
		write := func(i int, ca *Authority) {
			c.writeFile(cas[i], ca.PEM)
			files[i].write(ca.Issue(hooksHost))
		}
		var all []*hookReplica
		for i := range files {
			write(i, former)
			r := &hookReplica{listener: c.listener()}
			server := &kopf.WebhookServer{Listener: r.listener, Host: hooksHost, CertFile: files[i].cert, KeyFile: files[i].key, CAFile: cas[i]}
			r.Running = c.Operator(validating("a"), func(op *kopf.Operator) {
				op.Settings.Admission.Server, op.Settings.Admission.Managed = server, c.hooksName()
			})
			all = append(all, r)
			c.Pass(10 * time.Second)
		}
		write(first, next)
		for moment := range 15 * 20 {
			if moment == 3*20 {
				write(1-first, next) // by another kubelet
			}
			c.trusted(all...)
			c.Pass(3 * time.Second)
		}
		if name := c.trusted(all...); name != "next" {
			c.Errorf("the certificates are by %q in the end", name)
		}
		if n := strings.Count(string(c.hooksBundle()), "BEGIN CERTIFICATE"); n != 1 {
			c.Errorf("%d authorities are trusted in the end, want 1", n)
		}
		for _, r := range all {
			r.Stop()
		}
	}
}

// behindService starts an operator with webhooks behind a Service. Its lists of objects fail while the function
// says so.
func (c *C) behindService(fails func() bool) (*hookReplica, *pipe) {
	c.dropAllHooks()
	registry := validating("a")
	registry.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "fn"})
	p, r := newPipe(), &hookReplica{listener: c.listener()}
	server := &kopf.WebhookServer{
		Listener: r.listener, Service: &kopf.ServiceReference{Namespace: c.Namespace, Name: "hooks"}, AuthoritySecret: c.Namespace + "/" + authoritySecret,
	}
	r.Running = c.Operator(registry, probed(p, "http://0.0.0.0/healthz"), func(op *kopf.Operator) {
		op.Settings.Admission.Server, op.Settings.Admission.Managed = server, c.hooksName()
	}, wired(func(q *Request) (*http.Response, error) {
		if path, _, _ := strings.Cut(q.Path, "?"); path != c.examplesPath() || !fails() {
			return nil, nil
		}
		return Answer(http.StatusInternalServerError, "InternalError", "not now"), nil
	}))
	return r, p
}

func proveReadyBeforeHooks(c *C) {
	var ready atomic.Bool
	r, p := c.behindService(func() bool { return !ready.Load() })
	c.Pass(2 * time.Second)
	if code := p.ask("GET", "/readyz").code; code == http.StatusOK {
		c.Fatal("the operator is ready without a list")
	}
	expect(c, "the webhooks before the operator is ready", c.kindHooks("Validating"), 0)
	ready.Store(true)
	c.WaitFor("the readiness", func() bool { return p.ask("GET", "/readyz").code == http.StatusOK })
	c.hasHooks("Validating", 1)
	expect(c, "the lines", len(r.Logs.Find(notReady)), 0)
}

const notReady = "The operator is not ready yet; writing its webhook configurations when it is"

func proveNeverReady(c *C) {
	c.OnlyInBubble("it takes an hour")
	r, _ := c.behindService(func() bool { return true })
	c.Pass(time.Hour)
	expect(c, "the webhooks", c.kindHooks("Validating"), 0)
	expect(c, "the lines", len(r.Logs.Find(notReady)), 1)
	r.Stop()
}
