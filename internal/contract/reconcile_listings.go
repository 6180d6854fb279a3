package contract

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that reconcile handlers neither go by a part of what there is, nor miss what has become of it while nothing was watched.

// through has the requests of an operator go through a function, from the first one on.
func through(trip func(q *http.Request, base http.RoundTripper) (*http.Response, error)) func(*kopf.Operator) {
	return func(op *kopf.Operator) {
		base := op.Connection.HTTPClient.Transport
		op.Connection.HTTPClient = &http.Client{Transport: tripper(func(q *http.Request) (*http.Response, error) { return trip(q, base) })}
	}
}

var _ = Suite("reconcile_listings", func(t *testing.T, c *C) {
	for _, what := range []string{"owned", "watched", "indexed"} {
		c.Run(t, "RC-19 no call is made when the operator stops before what is "+what+" was listed", func(c *C) {
			c.OnlyInBubble("the listing does not end")
			r, l, opts := &kopf.Registry{}, &calls{}, &kopf.ReconcileOptions{}
			switch what {
			case "owned":
				opts.Owns = []kopf.Selector{"configmaps"}
			case "watched":
				opts.Watches = []kopf.Watch{{Of: "configmaps"}}
			case "indexed":
				kopf.OnIndexIn(r, "configmaps", func(_ context.Context, i *kopf.Indexing) (map[string]bool, error) {
					return map[string]bool{i.Name(): true}, nil
				}, &kopf.IndexOptions{ID: "names"})
			}
			r.OnReconcile(Examples, func(_ context.Context, r *kopf.Reconcile) error {
				l.add("%s", r.Name())
				return nil
			}, opts)
			c.Create("a", nil)
			op := c.Operator(r, through(func(q *http.Request, base http.RoundTripper) (*http.Response, error) {
				if strings.HasSuffix(q.URL.Path, "/configmaps") {
					<-q.Context().Done()
					return nil, q.Context().Err()
				}
				return base.RoundTrip(q)
			}))
			c.Pass(time.Second)
			op.Stop()
			if got := l.all(); len(got) > 0 {
				c.Errorf("got the calls %v", got)
			}
		})
	}
	c.Run(t, "RC-19 a call that waits for a listing is made when that is not wanted any more", func(c *C) {
		c.OnlyInBubble("the listing fails for minutes")
		other := c.namespace("other")
		op, l := c.parenting(func(*kopf.Reconcile) error { return nil }, nil, in(other), through(func(q *http.Request, base http.RoundTripper) (*http.Response, error) {
			if strings.Contains(q.URL.Path, "/"+other+"/configmaps") {
				return Answer(http.StatusForbidden, "Forbidden", "not allowed"), nil
			}
			return base.RoundTrip(q)
		}))
		c.Create("a", nil)
		c.WaitFor("the warning", func() bool { return len(op.Logs.Find("Listing an owned or watched resource fails repeatedly")) == 1 })
		c.Pass(time.Minute)
		if n := len(l.all()); n > 0 {
			c.Errorf("got %d calls before all was listed", n)
		}
		c.undefine("Namespace", "v1", other)
		c.WaitFor("the call", func() bool { return len(l.all()) == 1 })
	})
})
