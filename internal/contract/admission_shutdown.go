package contract

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what happens to webhooks and their configurations when an operator stops.

var _ = ClusterSuite("admission_shutdown", func(t *testing.T, c *C) {
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
