package contract

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that operators do nothing before they have read their peering objects, and start to work immediately afterwards.

var _ = ClusterSuite("peering_unseen", func(t *testing.T, c *C) {
	deniedPeeringRecords(t, c)
	replacedPeering(t, c)
	repeatedPeering(t, c)
	vanishedPeeringNamespaces(t, c)
	firstPeeringNamespaces(t, c)
	namedPeerings(t, c)
})

func deniedPeeringRecords(t *testing.T, c *C) {
	for _, code := range []int{403, 404, 429, 500} {
		c.Run(t, fmt.Sprintf("OP-97 a mandatory operator whose record is denied with %d works", code), func(c *C) {
			c.OnlyInBubble("hours")
			var l calls
			c.meet()
			c.Operator(worker(&l), as("me"), mandatory, wired(func(req *Request) (*http.Response, error) {
				if req.Method == http.MethodPatch && strings.Contains(req.Path, "kopfpeerings") {
					return tooLarge(code)(), nil
				}
				return nil, nil
			}))
			c.Create("a", nil)
			c.Pass(time.Hour)
			if len(l.all()) != 1 {
				c.Errorf("calls %q", l.all())
			}
		})
	}
}

func replacedPeering(t *testing.T, c *C) {
	c.Run(t, "OP-97 a mandatory operator does not work before it has looked at the peering object of another group that replaces the first one", func(c *C) {
		c.OnlyInBubble("late answers")
		var l calls
		k := c.meet()
		op := c.Operator(worker(&l), as("me"), mandatory)
		c.works(&l, "a")
		k.sit("boss", rival(1, 36000))
		c.paused(op, 1)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "zalando.org") && strings.Contains(req.Path, "kopfpeerings") {
				time.Sleep(10 * time.Second)
			}
			return nil, nil
		})
		second := c.peeringKind("zalando.org", "Namespaced", nil)
		second.Create("default", map[string]any{"status": map[string]any{"boss": rival(1, 36000)}})
		definitions := &Kind{c: c, apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", clusterwide: true}
		definitions.Delete("kopfpeerings.kopf.dev")
		c.Create("b", nil)
		c.Pass(time.Hour)
		c.expect(&l, "a")
	})
}

func repeatedPeering(t *testing.T, c *C) {
	c.Run(t, "OP-97 a mandatory operator waits, works and waits as its resource comes and goes", func(c *C) {
		c.OnlyInBubble("hours")
		var l calls
		c.Operator(worker(&l), as("me"), mandatory)
		definitions := &Kind{c: c, apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", clusterwide: true}
		for i := range 4 {
			name := fmt.Sprint("a", i)
			c.Create(name, nil)
			c.Pass(10 * time.Minute)
			if n := len(l.all()); n != i {
				c.Errorf("round %d: %d calls without the resource", i, n)
			}
			k := c.meet()
			c.Pass(10 * time.Minute)
			if n := len(l.all()); n != i+1 {
				c.Errorf("round %d: %d calls with the object", i, n)
			}
			k.Delete("default")
			definitions.Delete("kopfpeerings.kopf.dev")
			c.Pass(10 * time.Minute)
		}
	})
}

func vanishedPeeringNamespaces(t *testing.T, c *C) {
	c.Run(t, "OP-97 a mandatory operator of several namespaces is not blocked by one that vanishes before it is looked at", func(c *C) {
		c.OnlyInBubble("late answers")
		var l calls
		spaces := c.Of("v1", "Namespace")
		spaces.Create("leaf2", nil)
		op := c.Operator(worker(&l), as("me"), mandatory, func(op *kopf.Operator) { op.Namespaces = []string{"leaf*"} })
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "leaf2/kopfpeerings") {
				time.Sleep(10 * time.Minute)
				return nil, errCut
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.Pass(time.Minute)
		c.meet()
		c.Pass(5 * time.Second)
		c.expect(&l)
		spaces.Delete("leaf2")
		c.Pass(time.Hour)
		c.expect(&l, "a")
	})
}

func firstPeeringNamespaces(t *testing.T, c *C) {
	c.Run(t, "OP-97 a mandatory operator without namespaces does not work in the first one before it has looked at its object", func(c *C) {
		c.OnlyInBubble("late answers")
		var l calls
		c.meet()
		op := c.Operator(worker(&l), as("me"), mandatory, func(op *kopf.Operator) { op.Namespaces = []string{"other*"} })
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "kopfpeerings") {
				time.Sleep(10 * time.Second)
			}
			return nil, nil
		})
		c.Pass(time.Minute)
		c.Of("v1", "Namespace").Create("other1", nil)
		other := *c
		other.Namespace = "other1"
		k := *c.Kind
		k.c = &other
		k.Create("a", nil)
		c.Pass(time.Hour)
		c.expect(&l)
	})
}

// namedPeerings proves that a peering which cannot work is reported at the start, even if the operator does not wait for it.
func namedPeerings(t *testing.T, c *C) {
	named := func(name string) func(*kopf.Operator) {
		return func(op *kopf.Operator) { op.Settings.Peering.Name = name }
	}
	const noKind, noObject = "The peering of the settings has no resource; working as without peers", "The peering object of the settings does not exist; working as without peers until it exists"
	c.Run(t, "DF-80 a peering object that the settings name, without its kind, is warned of, and the operator works", func(c *C) {
		c.noPeering()
		for name, want := range map[string]int{"ours": 1, "default": 0} {
			var l calls
			op := c.Operator(worker(&l), as("me"), named(name))
			c.works(&l, "a-"+name)
			if got := len(op.Logs.Find(noKind)); got != want {
				c.Errorf("%s: got %d warnings, want %d", name, got, want)
			}
			op.Stop()
		}
	})
	c.Run(t, "DF-80 a peering object that the settings name, and that does not exist, is warned of, until it exists", func(c *C) {
		k := c.meet()
		for name, want := range map[string]int{"ours": 1, "default": 0} {
			var l calls
			op := c.Operator(worker(&l), as("me"), named(name))
			c.works(&l, "a-"+name)
			if got := len(op.Logs.Find(noObject)); got != want {
				c.Errorf("%s: got %d warnings, want %d", name, got, want)
			}
			if name == "ours" {
				k.Create("ours", nil)
				k.Patch("ours", map[string]any{"status": map[string]any{"boss": rival(1, 36000)}})
				c.paused(op, 1)
			}
			op.Stop()
		}
	})
}
