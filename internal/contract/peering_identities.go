package contract

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves which identities operators have in the peering, in 4-operator-and-kits.md. It changes environment variables.

var _ = SerialSuite("peering_identities", func(t *testing.T, c *C) {
	c.Run(t, "OP-82 the identity is that of the pod, or made of the user, the host, the time and chance", func(c *C) {
		k := c.meet()
		c.Setenv("POD_ID", "pod-1")
		op := c.Operator(&kopf.Registry{})
		c.WaitFor("the record", func() bool { return slices.Equal(k.seats("default"), []string{"pod-1"}) })
		op.Stop()
		c.Setenv("POD_ID", "")
		c.Setenv("LOGNAME", "")
		c.Setenv("USER", "somebody")
		now := time.Now().UTC()
		c.Operator(&kopf.Registry{})
		c.WaitFor("the record", func() bool { return len(k.seats("default")) == 1 })
		got := k.seats("default")[0]
		m := regexp.MustCompile(`^somebody@[^/]+/(\d{14})/[a-z0-9]{3}$`).FindStringSubmatch(got)
		if m == nil {
			c.Fatalf("got the identity %q", got)
		}
		if at, err := time.Parse("20060102150405", m[1]); err != nil || at.Sub(now).Abs() > 30*time.Second {
			c.Errorf("got the identity %q, want the time in it to be about %s", got, now)
		}
	})
	c.Run(t, "OP-T29 an empty POD_ID is none", func(c *C) {
		k := c.meet()
		c.Setenv("POD_ID", "")
		c.Operator(&kopf.Registry{})
		c.WaitFor("the record", func() bool { return len(k.seats("default")) == 1 })
		if got := k.seats("default")[0]; got == "" || !strings.Contains(got, "@") {
			c.Errorf("got the identity %q", got)
		}
	})
	for identity, wait := range map[string]time.Duration{"": time.Minute, "the same": 0} {
		c.Run(t, fmt.Sprintf("an operator that was killed waits until its own record expires, unless it has its identity: %q", identity), func(c *C) {
			c.OnlyInBubble("the times are exact")
			c.Setenv("POD_ID", "")
			c.meet()
			var l calls
			op := c.Operator(worker(&l), as(identity))
			seen := time.Now()
			c.Pass(time.Second) // until its record is written
			op.Crash()
			c.Operator(worker(&l), as(identity))
			c.works(&l, "a")
			if waited := time.Since(seen).Truncate(10 * time.Second); waited != wait {
				c.Errorf("the next operator has waited for %s, want %s", waited, wait)
			}
		})
	}
})
