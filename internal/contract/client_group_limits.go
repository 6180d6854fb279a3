package contract

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which requests wait when the API server, or a part of it, refuses some.

var _ = Suite("client_group_limits", func(t *testing.T, c *C) {
	for _, tt := range []struct {
		code         int
		both         bool // whether the other group is refused, too
		wait, others time.Duration
	}{
		{code: http.StatusServiceUnavailable, wait: 10 * time.Minute},
		{code: http.StatusServiceUnavailable, both: true, wait: 10 * time.Minute, others: 5 * time.Minute},
		{code: http.StatusTooManyRequests, wait: 10 * time.Minute, others: 10 * time.Minute},
	} {
		c.Run(t, fmt.Sprintf("DF-7 a %d that asks for a pause holds back whom it speaks for, both groups: %t", tt.code, tt.both), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			client, refuse := c.twoGroups()
			refuse("gadgets", tt.code, "600")
			if tt.both {
				refuse("kopfexamples", tt.code, "300")
			}
			gadget, example := c.gadget().Ref("a"), c.Ref("a")
			fails := func(ref kopf.ObjectReference) {
				c.Helper()
				if err := client.Get(c.Context(), ref, &kopf.Body{}, nil); kopf.StatusCode(err) != tt.code {
					c.Errorf("got %v", err)
				}
			}
			fails(gadget)
			if tt.both {
				fails(example)
			}
			refuse("", 0, "")
			began := time.Now()
			if got := c.takes(client, example); got.Truncate(time.Second) != tt.others {
				c.Errorf("a request of the other group has waited for %s, want %s", got, tt.others)
			}
			if c.takes(client, gadget); time.Since(began).Truncate(time.Second) != tt.wait {
				c.Errorf("a request of the same group has waited for %s, want %s", time.Since(began), tt.wait)
			}
			if got := c.takes(client, gadget); got > time.Second {
				c.Errorf("the next request has waited for %s", got)
			}
		})
	}
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		c.Run(t, fmt.Sprintf("DF-7 the refusal of a watch holds back whom it speaks for: %d", code), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			client, refuse := c.twoGroups()
			refuse("gadgets", code, "600")
			for _, err := range client.Watch(c.Context(), kopf.ObjectReference{APIVersion: c.Unique("leaf") + ".dev/v1", Kind: "Gadget"}, nil) {
				if kopf.StatusCode(err) != code {
					c.Fatalf("got %v", err)
				}
				break
			}
			refuse("", 0, "")
			want := map[int]time.Duration{http.StatusServiceUnavailable: 0, http.StatusTooManyRequests: 10 * time.Minute}[code]
			if got := c.takes(client, c.Ref("a")).Truncate(time.Second); got != want {
				c.Errorf("a request of the other group has waited for %s, want %s", got, want)
			}
			if got := c.takes(client, c.gadget().Ref("a")).Truncate(time.Second); got != 10*time.Minute-want {
				c.Errorf("a request of the same group has waited for %s, want %s", got, 10*time.Minute-want)
			}
		})
	}
	c.Run(t, "DF-7 webhook configurations are written while requests that hang are as many as there can be", func(c *C) {
		c.NotShort("the requests are many")
		c.OnlyInBubble("it takes minutes")
		c.Define(c.gadgets())
		var hanging atomic.Int64
		r := &kopf.Registry{}
		r.OnCreate(Examples, another(c, "Gadget", "hangs"), named("create"))
		r.OnValidate(Examples, accept, &kopf.AdmissionOptions{IgnoreFailures: true})
		m := c.Managed(r, func(op *kopf.Operator) { op.Settings.Networking.MaxInFlight = 2 }, wired(func(req *Request) (*http.Response, error) {
			if strings.HasSuffix(req.Path, "/hangs") {
				hanging.Add(1)
				time.Sleep(4 * time.Minute)
				return Answer(http.StatusGatewayTimeout, "Timeout", "the extension has not answered"), nil
			}
			return nil, nil
		}))
		m.hooks("Validating", 1)
		createMany(c, 5)
		c.WaitFor("the requests that hang", func() bool { return hanging.Load() == 2 })
		began := time.Now()
		m.server.announce(kopf.WebhookClientConfig{URL: "https://127.0.0.1:2/hooks/"})
		if took := time.Since(began); took > time.Second {
			c.Errorf("it has taken %s", took)
		}
		m.Wire.Cut()
		c.Pass(24 * time.Hour)
	})
})

// twoGroups returns a client with objects of two groups, and a function that refuses the requests for a resource. Without a name, it refuses none.
func (c *C) twoGroups() (client *kopf.Client, refuse func(plural string, code int, retryAfter string)) {
	c.Helper()
	c.Define(c.gadgets())
	c.gadget().Create("a", nil)
	c.Create("a", nil)
	client, wire := c.client(kopf.NetworkingSettings{RequestRate: 1000, RequestBurst: 1000})
	if c.takes(client, c.Ref("a"))+c.takes(client, c.gadget().Ref("a")) != 0 { // until the resources are discovered
		c.Error("the first requests have waited")
	}
	var over atomic.Bool
	return client, func(plural string, code int, retryAfter string) {
		if over.Store(plural == ""); plural == "" {
			return
		}
		wire.Fault(func(req *Request) (*http.Response, error) {
			if !over.Load() && strings.Contains(req.Path, "/"+plural) {
				return wishing(code, retryAfter), nil
			}
			return nil, nil
		})
	}
}

// takes returns the time that a request for an object takes.
func (c *C) takes(client *kopf.Client, ref kopf.ObjectReference) time.Duration {
	c.Helper()
	began := time.Now()
	if err := client.Get(c.Context(), ref, &kopf.Body{}, nil); err != nil {
		c.Error(err)
	}
	return time.Since(began)
}
