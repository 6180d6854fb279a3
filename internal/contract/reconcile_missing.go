package contract

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that a desired child is made again whatever hides its deletion.

// whileApplying calls functions once while the operator applies a config map: before the request, and
// after the response of the server, which the operator has not seen yet.
func whileApplying(name string, before, after func()) func(*kopf.Operator) {
	var once atomic.Bool
	return through(func(q *http.Request, base http.RoundTripper) (*http.Response, error) {
		if q.Method != http.MethodPatch || !strings.HasSuffix(q.URL.Path, "/configmaps/"+name) || once.Swap(true) {
			return base.RoundTrip(q)
		}
		if before != nil {
			before()
		}
		resp, err := base.RoundTrip(q)
		if after != nil {
			after()
		}
		return resp, err
	})
}

var _ = Suite("reconcile_missing", func(t *testing.T, c *C) {
	c.Run(t, "RC-10 a child that goes while its watch has expired and others are applied is made again", func(c *C) {
		c.OnlyInBubble("watches are made to expire")
		var op *Running
		op, _ = c.parenting(bySize, nil, whileApplying("a-1", func() {
			time.Sleep(time.Second) // until the stream has shown it
			expired(op, "configmaps", func() { c.configMaps().Delete("a-0") })
			time.Sleep(10 * time.Second) // until the list has shown that
		}, nil))
		c.Create("a", spec(map[string]any{"size": 2}))
		c.Pass(time.Hour)
		if !c.configMaps().Exists("a-0") {
			c.Error("the child is missing")
		}
	})
})
