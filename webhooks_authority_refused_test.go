package kopf

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/webhookca"
)

// This file tests a shared authority that the API server refuses, or whose Secret has wrong contents.

// wrongAuthority is a wrong content of the Secret.
type wrongAuthority struct {
	name string
	data func(t *testing.T, good map[string][]byte) map[string][]byte
	want string
}

func wrongAuthorities() []wrongAuthority {
	return []wrongAuthority{
		{"others' data", func(_ *testing.T, good map[string][]byte) map[string][]byte {
			for _, key := range webhookca.Keys() {
				good[key] = nil
			}
			good["password"] = []byte("hunter2")
			return good
		}, `the key "ca.crt": it is missing or empty`},
		{"no bundle", func(_ *testing.T, good map[string][]byte) map[string][]byte { good["ca.crt"] = nil; return good }, `the key "ca.crt": it is missing or empty`},
		{"no PEM", func(_ *testing.T, good map[string][]byte) map[string][]byte {
			good["ca.crt"] = []byte("hunter2")
			return good
		}, `the key "ca.crt": it is not PEM of certificates`},
		{"no signer", func(_ *testing.T, good map[string][]byte) map[string][]byte { good["signer.crt"] = nil; return good }, `the key "signer.crt": it is missing or empty`},
		{"no key", func(_ *testing.T, good map[string][]byte) map[string][]byte { good["signer.key"] = nil; return good }, `the key "signer.key": it is missing or empty`},
		{"half of a next one", func(_ *testing.T, good map[string][]byte) map[string][]byte {
			good["next.crt"] = good["signer.crt"]
			return good
		}, `the key "next.key": it is missing or empty`},
		{"another key", func(t *testing.T, good map[string][]byte) map[string][]byte {
			good["signer.key"] = strangers(t)["signer.key"]
			return good
		}, `the key "signer.key": it is no private key of the certificate in "signer.crt"`},
		{"another signer", func(t *testing.T, good map[string][]byte) map[string][]byte {
			other := strangers(t)
			good["signer.crt"], good["signer.key"] = other["signer.crt"], other["signer.key"]
			return good
		}, `the key "signer.crt": the certificate is not among those of "ca.crt"`},
		{"a certificate of a server", func(t *testing.T, good map[string][]byte) map[string][]byte {
			a, err := webhookca.Parse(good)
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := a.Issue([]string{"a"}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			good["ca.crt"] = append(good["ca.crt"], pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Leaf.Raw})...)
			return good
		}, `the key "ca.crt": there is a certificate in it that is not of an authority`},
	}
}

func TestSharedAuthorityRefused(t *testing.T) {
	for _, tt := range wrongAuthorities() {
		sharedTest(t, "HA-52 at the start, "+tt.name+" is an error", func(c *replicas) {
			c.put(tt.data(c.t, strangers(c.t)))
			before, writes := c.data(), len(c.writes())
			for _, holds := range []bool{false, true} {
				c.each = holds
				err := c.start().end()
				if err == nil || !strings.Contains(err.Error(), `webhook server: the Secret "default/hooks" has something else than an authority for webhooks in it: `+tt.want) {
					t.Errorf("the error is %v", err)
				}
			}
			if diff := cmp.Diff(before, c.data()); diff != "" || len(c.writes()) != writes {
				t.Errorf("the Secret was written to (-want +got)\n%s", diff)
			}
			c.all = nil
		})
		sharedTest(t, "HA-52 later, "+tt.name+" changes nothing", func(c *replicas) {
			c.startHolder()
			synctest.Wait()
			c.start()
			first, good := c.one("at first"), c.data()
			c.put(tt.data(c.t, c.data()))
			writes := len(c.writes())
			c.pass(20*day, 6*time.Hour)
			if got := c.one("with wrong content"); got != first || len(c.writes()) != writes {
				t.Errorf("it is %s instead of %s; there were %d writes", got, first, len(c.writes())-writes)
			}
			if n := c.count("Keeping the authority of the webhooks failed"); n != 2 {
				t.Errorf("there are %d lines of it in the log, want one of each replica", n)
			}
			for _, key := range webhookca.Keys() {
				if _, ok := good[key]; !ok {
					good[key] = nil
				}
			}
			c.put(good)
			c.pass(time.Minute, time.Second)
			if n := c.count("Keeping the authority of the webhooks works again"); n != 2 {
				t.Errorf("the end of it is %d times in the log", n)
			}
		})
	}
}

// strangers returns the data of an unknown authority.
func strangers(t *testing.T) map[string][]byte {
	t.Helper()
	c := &replicas{t: t, server: NewAPIServer(nil), log: &bytes.Buffer{}, each: true}
	r := c.start()
	synctest.Wait()
	data := c.data()
	r.crash()
	return data
}

func TestSharedAuthorityForbidden(t *testing.T) {
	sharedTest(t, "HA-52 without rights, the start fails with the rule to add", func(c *replicas) {
		c.each = true
		for verb, want := range map[string]string{
			"get":    `read the Secret "default/hooks" with the authority of the webhooks: `,
			"create": `create the Secret "default/hooks" with the authority of the webhooks: `,
		} {
			allow, also := c.server.Fail(APIServerFault{Verb: verb, Resource: "secrets", Status: 403}), func() {}
			if verb == "get" {
				also = c.server.Fail(APIServerFault{Verb: "list", Resource: "secrets", Status: 403})
			}
			err := c.start().end()
			rule := "add the rule {apiGroups: [\"\"], resources: [secrets], resourceNames: [hooks], verbs: [get, list, watch, patch]} to a Role in the namespace \"default\""
			if verb == "create" {
				rule = "add the rule {apiGroups: [\"\"], resources: [secrets], verbs: [create]} to a Role in the namespace \"default\""
			}
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), rule) {
				t.Errorf("%s: the error is %v", verb, err)
			}
			allow()
			also()
		}
	})
	sharedTest(t, "HA-52 without the right to watch, the Secret is read each minute", func(c *replicas) {
		defer c.server.Fail(APIServerFault{Verb: "watch", Resource: "secrets", Status: 403})()
		defer c.server.Fail(APIServerFault{Verb: "list", Resource: "secrets", Status: 403})()
		holder := c.start()
		standby := c.start()
		c.elect(holder)
		time.Sleep(10 * time.Second) // a standby reads more often while there is none
		first := c.one("at first")
		c.remove()
		c.pass(5*time.Minute, time.Second)
		if got := c.one("after the rotation"); got == first {
			t.Error("the former authority still signs")
		}
		_ = standby.stop()
		reads := 0
		for _, r := range c.server.Requests() {
			if r.Verb == "get" {
				reads++
			}
		}
		if reads > 40 {
			t.Errorf("there were %d reads in 5 minutes", reads)
		}
		c.all = c.all[:1]
	})
}

func TestSharedAuthorityForbiddenLater(t *testing.T) {
	sharedTest(t, "HA-52 a lack of rights later is logged once, and what is due is done when they are back", func(c *replicas) {
		c.startHolder()
		synctest.Wait()
		first := c.one("at first")
		allow := c.server.Fail(APIServerFault{Verb: "patch", Resource: "secrets", Status: 403})
		time.Sleep(rotation - time.Hour)
		c.pass(2*day, time.Hour)
		lines := c.count("Keeping the authority of the webhooks failed; going on with what is known")
		if got := c.one("without rights"); got != first || lines != 1 || c.count("resourceNames: [hooks]") != 1 {
			t.Errorf("the authority is %s; %d lines:\n%s", got, lines, c.text())
		}
		attempts := 0
		for _, w := range c.writes() {
			if w == "PATCH 403" {
				attempts++
			}
		}
		if most := 2 * 24 * 60; attempts > most {
			t.Errorf("there were %d attempts in two days, want at most one a minute", attempts)
		}
		allow()
		c.pass(5*time.Minute, time.Second)
		if got := c.one("with rights"); got == first || c.count("Keeping the authority of the webhooks works again") != 1 {
			t.Errorf("the authority is %s", got)
		}
	})
	sharedTest(t, "HA-52 an API server that is down is waited for", func(c *replicas) {
		c.each = true
		back := c.server.Fail(APIServerFault{Resource: "secrets", Status: 503})
		c.start()
		time.Sleep(time.Hour)
		back()
		c.pass(2*time.Minute, 2*time.Minute)
	})
}

func TestSharedAuthorityNames(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*replica)
		want   string
	}{
		{"a certificate in files", func(r *replica) { r.settings.CertFile, r.settings.KeyFile = "a", "b" }, "the field AuthoritySecret excludes CertFile, certificates in TLSConfig, and Insecure"},
		{"plain HTTP", func(r *replica) { r.settings.Insecure = true }, "the field AuthoritySecret excludes"},
		{"a certificate in the configuration of TLS", func(r *replica) { r.settings.TLSConfig = &tls.Config{Certificates: []tls.Certificate{{}}} }, "the field AuthoritySecret excludes"},
		{"a name that is none", func(r *replica) { r.settings.AuthoritySecret = "A_B" }, `the Secret "A_B" is neither a name nor a namespace and a name, as in "default/my-operator-webhooks"`},
		{"no name", func(r *replica) { r.settings.AuthoritySecret = "default/" }, `the Secret "default/" is neither`},
		{"no namespace before the slash", func(r *replica) { r.settings.AuthoritySecret = "/hooks" }, `the Secret "/hooks" is neither`},
		{"no namespace at all", func(*replica) {}, `the Secret "own" has no namespace, because the connection has none: name it in AuthoritySecret, as in "my-namespace/own"`},
	} {
		sharedTest(t, "HA-52 "+tt.name+" is refused", func(c *replicas) {
			err := c.start(func(r *replica) {
				r.settings.AuthoritySecret = "own"
				tt.change(r)
			}).end()
			if err == nil || !strings.Contains(err.Error(), "webhook server: "+tt.want) {
				t.Errorf("the error is %v, want %s", err, tt.want)
			}
		})
	}
	sharedTest(t, "HA-52 the default of the operator is only for certificates that the server makes", func(c *replicas) {
		r := c.start(func(r *replica) { r.settings.Insecure = true })
		synctest.Wait()
		if _, err := r.listener.dial(); err != nil {
			t.Error(err)
		}
		if n := len(c.server.Requests()); n != 0 {
			t.Errorf("there were %d requests", n)
		}
	})
	sharedTest(t, "HA-52 without an operator, no Secret can be read", func(*replicas) {
		s := WebhookServer{Listener: newReplicaListener(), AuthoritySecret: "default/hooks"}
		err := s.Serve(t.Context(), nil, nil)
		if err == nil || !strings.Contains(err.Error(), `the Secret "hooks" cannot be read without an operator: pass its context on to Serve`) {
			t.Errorf("the error is %v", err)
		}
	})
	sharedTest(t, "HA-52 the end of the context ends the waiting", func(c *replicas) {
		r := c.start()
		time.Sleep(time.Minute)
		if err := r.stop(); err != nil {
			t.Errorf("the error is %v, want none", err)
		}
	})
}
