package contract

import (
	"context"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how the webhooks of replicas with an election work, in 7-availability.md. Each replica serves them, only the holder writes the
// configuration, and the configuration trusts all replicas.

var _ = ClusterSuite("leader_election_webhooks", func(t *testing.T, c *C) {
	c.Run(t, "HA-52 replicas with an election share an authority that is named after the Lease, and the holder writes", func(c *C) {
		c.dropHooks()
		start := func() *hookReplica {
			r := &hookReplica{listener: c.listener()}
			registry := &kopf.Registry{}
			registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "check"})
			registry.OnCreate(Examples, func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "create"})
			r.Running = c.Replica(registry, func(op *kopf.Operator) {
				op.Settings.Admission.Server = &kopf.WebhookServer{Listener: r.listener, Host: hooksHost, RenewalOverlap: -1}
				op.Settings.Admission.Managed = c.hooksName()
			})
			return r
		}
		a := start()
		c.leads(a.Running)
		c.WaitFor("the configuration", func() bool { return c.hooksBundle() != nil })
		b := start()
		if !c.secrets().Exists(leaseName + "-webhooks") {
			c.Fatal("there is no Secret of the name of the Lease")
		}
		c.WaitFor("the certificate of the one that stands by", func() bool { _, err := b.shown(c.hooksBundle()); return err == nil })
		c.trusted(a, b)
		if writes := b.Wire.Requests("POST", "PUT", "PATCH", "DELETE"); len(writes) > 0 {
			c.Errorf("the replica that stands by has written: %v", writes)
		}
		bundle := string(c.hooksBundle())
		a.Stop()
		if now := string(c.hooksBundle()); now != bundle {
			c.Error("the end of the leader has changed the configuration")
		}
		if _, err := b.shown(c.hooksBundle()); err != nil {
			c.Errorf("the replica that stands by is not trusted after the end of the leader: %v", err)
		}
		c.leads(b.Running)
		c.WaitFor("the configuration by the next leader", func() bool {
			for _, r := range b.Wire.Requests("PATCH") {
				if r.Code == 200 {
					return true
				}
			}
			return false
		})
		c.Pass(time.Second)
		c.trusted(b)
	})
	for name, tt := range map[string]struct {
		server   kopf.WebhookServer
		warnings int
	}{
		"an address":             {kopf.WebhookServer{}, 1},
		"a Service":              {kopf.WebhookServer{Service: &kopf.ServiceReference{Name: "web", Namespace: "default"}}, 0},
		"a host, perhaps of all": {kopf.WebhookServer{Host: hooksHost}, 0},
	} {
		c.Run(t, "HA-52 webhooks that only the leader can answer are told at the start: "+name, func(c *C) {
			c.OnlyInBubble("a Service would have to exist")
			c.dropHooks()
			registry := &kopf.Registry{}
			registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "check"})
			server := tt.server
			server.Listener = c.listener()
			op := c.Replica(registry, func(op *kopf.Operator) {
				op.Settings.Admission.Server, op.Settings.Admission.Managed = &server, c.hooksName()
			})
			c.leads(op)
			if lines := op.Logs.Find("The webhooks are at the address of one replica"); len(lines) != tt.warnings {
				c.Errorf("got the warnings %v, want %d", lines, tt.warnings)
			}
			op.Stop()
			c.dropHooks()
		})
	}
	c.Run(t, "HA-52 a replica that leads again replaces what another one has written meanwhile", func(c *C) {
		c.dropHooks()
		listener := c.listener()
		registry := &kopf.Registry{}
		registry.OnValidate(Examples, accept, &kopf.AdmissionOptions{ID: "check"})
		op := c.Replica(registry, func(op *kopf.Operator) {
			op.Settings.Admission.Server = &kopf.WebhookServer{Listener: listener, Host: hooksHost}
			op.Settings.Admission.Managed = c.hooksName()
		})
		c.leads(op)
		c.WaitFor("the configuration", func() bool { return c.hooksBundle() != nil })
		bundle := string(c.hooksBundle())
		c.intrude(5)
		c.loses(op, 1)
		hook := map[string]any{
			"name": "check." + c.hooksName(), "sideEffects": "None", "admissionReviewVersions": []any{"v1"},
			"clientConfig": map[string]any{"url": "https://" + hooksHost + ":1/another", "caBundle": "YW5vdGhlcg=="},
		}
		configuration := kopf.ObjectReference{APIVersion: registration, Kind: "ValidatingWebhookConfiguration", Name: c.hooksName()}
		if _, err := c.Client.Patch(c.Context(), configuration, map[string]any{"webhooks": []any{hook}}, nil); err != nil {
			c.Fatal(err)
		}
		c.leadsAgain(op, 2)
		c.WaitFor("the own configuration", func() bool { return string(c.hooksBundle()) == bundle })
	})
})
