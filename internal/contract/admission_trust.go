package contract

import (
	"context"
	"crypto/x509"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that replicas show certificates that the stored webhooks trust, and restore those webhooks.

var _ = ClusterSuite("admission_trust", func(t *testing.T, c *C) {
	c.Run(t, "AC-51 a replica whose files change after those of a new one is trusted again", func(c *C) { proveReplaced(c, (*C).sharingReplica) })
	c.Run(t, "AC-51 a replica whose files change after those of a new leader is trusted again", func(c *C) { proveReplaced(c, (*C).electedSharing) })
	c.Run(t, "AC-51 replicas that look at their files each half an hour are trusted", proveSlowChecks)
	c.Run(t, "AC-51 a replica that stood by before the configuration was made is trusted", proveStandby)
	c.Run(t, "AC-51 a new certificate is shown behind a proxy with another bundle", proveWrapped)
	c.Run(t, "AC-51 the webhooks of another operator do not count", proveOtherKind)
	c.Run(t, "AC-51 a new bundle is written while an operator that was ready is not", proveRenewalUnready)
	c.Run(t, "DF-62 a former state of the own webhooks is an edit", proveFormerState)
	c.Run(t, "DF-62 the newest replica keeps its webhooks although it may not watch them", proveUnwatchedNewest)
	c.Run(t, "DF-62 the newest of replicas that may not watch keeps its webhooks", proveUnwatched)
	c.Run(t, "DF-62 a configuration that is deleted during a list is restored", proveDeletedDuringList)
	c.Run(t, "DF-62 a configuration that is deleted during the first write is made again", proveDeletedDuringWrite)
	c.Run(t, "AC-22 the address of a Service waits for readiness after a URL, too", proveServiceAfterURL)
	c.Run(t, "AC-22 a listener that fails before the operator is ready ends it", proveFailedListener)
})

// electedSharing starts a replica as sharingReplica does, with a leader election.
func (c *C) electedSharing(files *pairFiles, registry *kopf.Registry, adjust ...func(*kopf.Operator)) *hookReplica {
	return c.sharingReplica(files, registry, append([]func(*kopf.Operator){c.elects}, adjust...)...)
}

// proveReplaced replaces a pod after a renewal, whose files are new at once. The kubelet of the other one is later.
func proveReplaced(c *C, start func(*C, *pairFiles, *kopf.Registry, ...func(*kopf.Operator)) *hookReplica) {
	c.OnlyInBubble("files are looked at each minute")
	c.dropAllHooks()
	former, next := c.Authority("former"), c.Authority("next")
	files := []*pairFiles{c.pairFiles(), c.pairFiles()}
	formerCert, formerKey := former.Issue(hooksHost) // both pods mount one Secret
	nextCert, nextKey := next.Issue(hooksHost)
	for _, f := range files {
		f.write(formerCert, formerKey)
	}
	first := start(c, files[0], validating("a"))
	c.Pass(10 * time.Second)
	stays := start(c, files[1], validating("a"))
	c.Pass(10 * time.Second)
	first.Stop()
	files[0].write(nextCert, nextKey) // the Secret changes: the new pod has the new files at once
	again := start(c, files[0], validating("a"))
	c.Pass(time.Minute)
	if c.holder() != "" { // with an election, the new pod must lead
		stays.Stop()
		stays = start(c, files[1], validating("a"))
		c.Pass(time.Minute)
	}
	files[1].write(nextCert, nextKey)
	c.Pass(10 * time.Minute)
	for _, r := range []*hookReplica{again, stays} {
		if _, err := r.shown(c.hooksBundle()); err != nil {
			c.Errorf("ten minutes after the last files have changed, a replica is not trusted: %v", err)
		}
	}
}

func proveSlowChecks(c *C) {
	c.OnlyInBubble("it takes hours")
	c.dropAllHooks()
	former, next := c.Authority("former"), c.Authority("next")
	files := c.pairFiles()
	files.write(former.Issue(hooksHost))
	slow := func(op *kopf.Operator) {
		op.Settings.Admission.Server.(*kopf.WebhookServer).FileCheckInterval = 30 * time.Minute
	}
	start := func() *hookReplica {
		r := &hookReplica{listener: c.listener()}
		server := &kopf.WebhookServer{Listener: r.listener, Host: hooksHost, CertFile: files.cert, KeyFile: files.key}
		r.Running = c.Operator(validating("a"), func(op *kopf.Operator) {
			op.Settings.Admission.Server, op.Settings.Admission.Managed = server, c.hooksName()
			slow(op)
		})
		return r
	}
	older := start()
	c.Pass(15 * time.Minute)
	newest := start()
	c.Pass(16 * time.Minute)
	cert, key := next.Issue(hooksHost)
	files.write(cert, key) // the newest one sees it 14 minutes later, the older one 29 minutes later
	c.Pass(2 * time.Hour)
	for _, r := range []*hookReplica{newest, older} {
		if _, err := r.shown(c.hooksBundle()); err != nil {
			c.Errorf("two hours after the renewal, a replica is not trusted: %v", err)
		}
	}
}

func proveStandby(c *C) {
	c.OnlyInBubble("files are looked at each minute")
	c.dropAllHooks()
	former, next := c.Authority("former"), c.Authority("next")
	files := []*pairFiles{c.pairFiles(), c.pairFiles()}
	formerCert, formerKey := former.Issue(hooksHost)
	nextCert, nextKey := next.Issue(hooksHost)
	var all []*hookReplica
	for _, f := range files {
		f.write(formerCert, formerKey)
		all = append(all, c.sharingReplica(f, validating("a"), c.elects)) // the Lease does not exist: there is no leader for 15 seconds
	}
	c.Pass(time.Minute)
	standby, leader := 0, 1
	if len(all[0].Logs.Find("Became the leader")) > 0 {
		standby, leader = 1, 0
	}
	for moment := range 12 * 20 {
		switch moment {
		case 0:
			files[standby].write(nextCert, nextKey)
		case 4 * 20: // the files of the leader change some minutes later
			files[leader].write(nextCert, nextKey)
		}
		for i, r := range all {
			if _, err := r.shown(c.hooksBundle()); err != nil {
				c.Fatalf("after %d seconds, the replica %d (the leader is %d) is not trusted: %v", 3*moment, i, leader, err)
			}
		}
		c.Pass(3 * time.Second)
	}
}

// proxied is a server behind a proxy that clients trust by their own roots.
type proxied struct{ inner *kopf.WebhookServer }

func (p *proxied) Serve(ctx context.Context, review kopf.ReviewFunc, announce func(kopf.WebhookClientConfig)) error {
	return p.inner.Serve(ctx, review, func(conf kopf.WebhookClientConfig) {
		announce(kopf.WebhookClientConfig{URL: "https://proxy.example.com/hooks"})
	})
}

func proveWrapped(c *C) {
	c.OnlyInBubble("files are looked at each minute")
	c.dropAllHooks()
	former, next, files := c.Authority("former"), c.Authority("next"), c.pairFiles()
	files.write(former.Issue(hooksHost))
	r := &hookReplica{listener: c.listener()}
	server := &proxied{&kopf.WebhookServer{Listener: r.listener, Host: hooksHost, CertFile: files.cert, KeyFile: files.key}}
	r.Running = c.Operator(validating("a"), func(op *kopf.Operator) {
		op.Settings.Admission.Server, op.Settings.Admission.Managed = server, c.hooksName()
	})
	c.hasHooks("Validating", 1)
	cert, key := next.Issue(hooksHost)
	files.write(cert, key)
	c.Pass(10 * time.Minute)
	if _, err := r.shown(cert); err != nil {
		c.Errorf("ten minutes after the renewal: %v", err)
	}
}

func proveOtherKind(c *C) {
	c.OnlyInBubble("files are looked at each minute")
	c.dropAllHooks()
	former, next := c.Authority("former"), c.Authority("next")
	start := func(name string, registry *kopf.Registry) (*hookReplica, *pairFiles) {
		files := c.pairFiles()
		files.write(former.Issue(hooksHost))
		r := &hookReplica{listener: c.listener()}
		server := &kopf.WebhookServer{
			Listener: r.listener, Service: &kopf.ServiceReference{Namespace: c.Namespace, Name: name}, CertFile: files.cert, KeyFile: files.key,
		}
		r.Running = c.Operator(registry, func(op *kopf.Operator) {
			op.Settings.Admission.Server, op.Settings.Admission.Managed = server, c.hooksName()
		})
		c.Pass(10 * time.Second)
		return r, files
	}
	start("mutating", withMutating(&kopf.Registry{}, "m"))
	r, files := start("validating", validating("a"))
	c.hasHooks("Validating", 1)
	c.hasHooks("Mutating", 1)
	cert, key := next.Issue(hooksHost)
	files.write(cert, key)
	c.Pass(10 * time.Minute)
	if _, err := r.shown(cert); err != nil {
		c.Errorf("ten minutes after the renewal: %v", err)
	}
}

func proveRenewalUnready(c *C) {
	c.OnlyInBubble("it takes hours")
	c.dropAllHooks()
	var refused atomic.Bool
	former, next, files := c.Authority("former"), c.Authority("next"), c.pairFiles()
	host := "hooks." + c.Namespace + ".svc"
	files.write(former.Issue(hooksHost, func(t *x509.Certificate) {
		t.DNSNames, t.NotAfter = append(t.DNSNames, host), time.Now().Add(24*time.Hour)
	}))
	registry := validating("a")
	registry.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "fn"})
	r := &hookReplica{listener: c.listener()}
	server := &kopf.WebhookServer{
		Listener: r.listener, Service: &kopf.ServiceReference{Namespace: c.Namespace, Name: "hooks"}, CertFile: files.cert, KeyFile: files.key,
	}
	r.Running = c.Operator(registry, func(op *kopf.Operator) {
		op.Settings.Admission.Server, op.Settings.Admission.Managed = server, c.hooksName()
		op.Settings.Watching.ServerTimeout = time.Minute
	}, wired(func(q *Request) (*http.Response, error) {
		if path, _, _ := strings.Cut(q.Path, "?"); path != c.examplesPath() || !refused.Load() {
			return nil, nil
		}
		return Answer(http.StatusForbidden, "Forbidden", "not now"), nil
	}))
	c.hasHooks("Validating", 1)
	refused.Store(true)
	c.Pass(time.Hour)
	files.write(next.Issue(hooksHost, func(t *x509.Certificate) { t.DNSNames = append(t.DNSNames, host) }))
	c.Pass(3 * time.Minute)
	if n := strings.Count(string(c.hooksBundle()), "BEGIN CERTIFICATE"); n != 2 {
		c.Errorf("three minutes after the renewal, the webhooks have %d certificates, want the old and the new one", n)
	}
	c.Pass(24 * time.Hour)
	if _, err := r.shown(c.hooksBundle()); err != nil {
		c.Errorf("a day later, the server is not trusted: %v", err)
	}
}

func proveFormerState(c *C) {
	c.OnlyInBubble("it takes hours")
	m := c.Managed(validating("a"))
	m.placed("Validating")
	ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: m.name}
	backup := &kopf.Body{}
	if err := c.Client.Get(c.Context(), ref, backup, nil); err != nil {
		c.Fatal(err)
	}
	m.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:2/hooks/"})
	c.Pass(10 * time.Second)
	want := m.hooks("Validating", 1)
	former := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"kopf.dev/webhooks": backup.Annotations()["kopf.dev/webhooks"]}},
		"webhooks": backup.Map()["webhooks"],
	}
	if _, err := c.Client.Patch(c.Context(), ref, former, nil); err != nil {
		c.Fatal(err)
	}
	c.Pass(time.Hour)
	expect(c, "the webhooks", m.hooks("Validating", 1), want)
	expect(c, "the lines", len(m.Logs.Find(restoring)), 1)
}

// unwatched refuses to list and watch the configurations.
func unwatched(op *kopf.Operator) {
	wired(func(req *Request) (*http.Response, error) {
		if req.Method == http.MethodGet && strings.Contains(req.Path, "webhookconfigurations") {
			return Answer(http.StatusForbidden, "Forbidden", "no list, no watch"), nil
		}
		return nil, nil
	})(op)
}

func proveUnwatchedNewest(c *C) {
	c.OnlyInBubble("it takes minutes")
	c.dropAllHooks()
	files := c.sharedFiles()
	older := c.sharingReplica(files, validating("a"))
	c.hasHooks("Validating", 1)
	c.sharingReplica(files, validating("a", "b"), unwatched)
	c.hasHooks("Validating", 2)
	c.Pass(10 * time.Minute)
	expect(c, "the webhooks during a slow update", c.kindHooks("Validating"), 2)
	older.Stop()
	c.Pass(time.Hour)
	expect(c, "the webhooks after the update", c.kindHooks("Validating"), 2)
}

func proveUnwatched(c *C) {
	c.OnlyInBubble("it takes minutes")
	older := c.Managed(validating("a"), unwatched)
	older.hooks("Validating", 1)
	newest := c.Managed(validating("a", "b"), unwatched, func(op *kopf.Operator) { op.Settings.Admission.Managed = older.name })
	newest.name = older.name
	newest.hooks("Validating", 2)
	older.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:2/hooks/"})
	c.Pass(10 * time.Minute)
	newest.hooks("Validating", 2)
}

func proveDeletedDuringList(c *C) {
	c.OnlyInBubble("it takes an hour")
	var once atomic.Bool
	m := c.Managed(validating("a"), wired(func(q *Request) (*http.Response, error) {
		if q.Method == http.MethodGet && strings.Contains(q.Path, "/validatingwebhookconfigurations") && once.CompareAndSwap(false, true) {
			time.Sleep(10 * time.Second) // the slow list
		}
		if q.Method == http.MethodPatch {
			time.Sleep(time.Second) // so that the write is carried out during the list
		}
		return nil, nil
	}))
	m.placed("Validating")
	if began := time.Now(); began.Second() > 7 {
		c.Fatalf("the write took until %s", began)
	}
	ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: m.name}
	c.Pass(2 * time.Second)
	if err := c.Client.Delete(c.Context(), ref, nil); err != nil {
		c.Fatal(err)
	}
	c.Pass(time.Hour)
	if !once.Load() {
		c.Fatal("nothing was delayed")
	}
	hooks := c.Of(registration, "ValidatingWebhookConfiguration")
	hooks.clusterwide = true
	if !hooks.Exists(m.name) {
		c.Error("an hour later, the configuration is missing")
	}
}

func proveDeletedDuringWrite(c *C) {
	c.dropAllHooks()
	files := c.sharedFiles()
	first := c.sharingReplica(files, validating("a"))
	c.hasHooks("Validating", 1)
	first.Stop() // its webhooks stay
	ref := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: c.hooksName()}
	var once atomic.Bool
	again := c.sharingReplica(files, validating("a"), wired(func(q *Request) (*http.Response, error) {
		if q.Method == http.MethodPatch && strings.Contains(q.Path, "/validatingwebhook") && q.Body != "{}" && once.CompareAndSwap(false, true) {
			return nil, c.Client.Delete(c.Context(), ref, nil)
		}
		return nil, nil
	}))
	c.Pass(10 * time.Second)
	if !once.Load() {
		c.Fatal("nothing was deleted")
	}
	if n := c.kindHooks("Validating"); n != 1 {
		c.Errorf("there are %d webhooks", n)
	}
	again.Stop()
}

func proveServiceAfterURL(c *C) {
	c.OnlyInBubble("it takes minutes")
	registry := validating("a")
	registry.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error { return nil }, &kopf.EventOptions{ID: "fn"})
	m := c.Managed(registry, wired(func(q *Request) (*http.Response, error) {
		if path, _, _ := strings.Cut(q.Path, "?"); path != c.examplesPath() {
			return nil, nil
		}
		return Answer(http.StatusInternalServerError, "InternalError", "not now"), nil
	}))
	m.placed("Validating") // with the URL
	go m.server.announce(kopf.WebhookClientConfig{Service: &kopf.ServiceReference{Namespace: "ns", Name: "one"}})
	c.Pass(time.Second)
	m.emptyHooks() // anything that makes it write
	c.Pass(time.Minute)
	if hook := m.hooks("Validating", 1)[0]; hook["clientConfig"].(map[string]any)["service"] != nil {
		c.Errorf("the operator is not ready, and the webhooks have %v", hook["clientConfig"])
	}
}

func proveFailedListener(c *C) {
	c.OnlyInBubble("it takes minutes")
	r, _ := c.behindService(func() bool { return true })
	c.Pass(2 * time.Second)
	_ = r.listener.Close()
	c.Pass(10 * time.Minute)
	if r.runner.Context().Err() == nil {
		c.Error("the operator runs without its webhook server")
	}
	_ = r.Err()
}
