package contract

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves how an operator handles namespaces that it did not see come or go, and mandatory peering in namespaces that are deleted.

var _ = ClusterSuite("peering_namespaces", func(t *testing.T, c *C) {
	relisting(t, c)
	terminating(t, c)
})

// namespacePair is an operator that serves the leaf's namespace and another one.
type namespacePair struct {
	*C
	op         *Running
	l          calls
	namespaces *Kind
	space      string // the other namespace
	inside     *C     // its kinds are in the other namespace

	down    atomic.Bool // whether the operator's requests about namespaces fail
	expired atomic.Bool // whether the next watch of namespaces expires, which triggers a relist
}

// pair creates the other namespace and, if peering is mandatory, peering objects in both. The method begin starts the operator.
func (c *C) pair(mandatory bool) *namespacePair {
	p := &namespacePair{C: c, namespaces: c.Of("v1", "Namespace"), space: c.Unique("team")}
	inside := *c
	p.inside, inside.Namespace = &inside, p.space
	inside.Kind = inside.Of("kopf.dev/v1", "KopfExample")
	p.namespaces.Create(p.space, nil)
	if mandatory {
		c.meet()
		p.peering().Create("default", nil)
	}
	return p
}

// peering returns the verbs for the peering objects of the other namespace.
func (p *namespacePair) peering() *Kind { return p.inside.Of("kopf.dev/v1", "KopfPeering") }

func (p *namespacePair) begin(adjust ...func(*kopf.Operator)) {
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
		p.l.add("create %s/%s", ch.Namespace(), ch.Name())
		return nil
	}, named("create"))
	r.OnDelete(Examples, func(_ context.Context, ch *kopf.Change) error {
		p.l.add("delete %s/%s", ch.Namespace(), ch.Name())
		if ch.Retry < 5 {
			return kopf.Temporary(errOops, time.Second)
		}
		return nil
	}, named("delete"))
	p.op = p.Operator(r, append([]func(*kopf.Operator){as("one"), func(op *kopf.Operator) {
		op.Namespaces = []string{p.Namespace + "*"}
		if p.peered() {
			op.Peering = "default"
		}
	}, wired(func(req *Request) (*http.Response, error) {
		if !strings.HasPrefix(req.Path, "/api/v1/namespaces?") || strings.Contains(req.Path, "fieldSelector") {
			return nil, nil
		}
		if p.down.Load() {
			return nil, errCut
		}
		if strings.Contains(req.Path, "watch=true") && p.expired.CompareAndSwap(true, false) {
			return Answer(http.StatusGone, "Expired", "too old resource version"), nil
		}
		return nil, nil
	})}, adjust...)...)
	p.Pass(10 * time.Second)
}

func (p *namespacePair) peered() bool { return p.definitions().Exists("kopfpeerings.kopf.dev") }

// miss blocks the operator's view of namespaces during a function. Afterwards, the operator lists them again.
func (p *namespacePair) miss(something func()) {
	p.Helper()
	p.down.Store(true)
	p.op.Wire.Drop()
	p.Pass(time.Second)
	something()
	p.Pass(5 * time.Minute)
	p.expired.Store(true)
	p.down.Store(false)
	p.Pass(5 * time.Minute)
	if p.expired.Load() {
		p.Fatal("no watch was refused")
	}
}

// served reports whether the objects of the other namespace are watched.
func (p *namespacePair) served() bool {
	list := fmt.Sprintf("/apis/kopf.dev/v1/namespaces/%s/kopfexamples", p.space)
	asked := p.op.asked(list)
	p.op.Wire.Drop() // a wanted stream is opened again
	p.Pass(time.Minute)
	return p.op.asked(list) > asked
}

// works fails if an object in the leaf's namespace is not handled at once.
func (p *namespacePair) works(name string) {
	p.Helper()
	p.Create(name, nil)
	p.Pass(2 * time.Second)
	if !slices.Contains(p.l.all(), "create "+p.Namespace+"/"+name) {
		p.Errorf("%q was not handled, only %q", name, p.l.all())
	}
}

// neverPaused fails if the operator has paused since its start.
func (p *namespacePair) neverPaused() {
	p.Helper()
	for _, line := range p.op.Logs.Find("Pausing the watch-stream") {
		p.Errorf("%s: %s", line.Time.Format(time.TimeOnly), line.Message)
	}
}

func relisting(t *testing.T, c *C) {
	c.Run(t, "DF-15 a namespace that went while the stream of namespaces was down is not served any more", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		p := c.pair(false)
		p.begin()
		if !p.served() {
			c.Fatal("the namespace is not served")
		}
		p.miss(func() { p.namespaces.Delete(p.space) })
		if p.served() {
			c.Error("the namespace that is gone is still served")
		}
		p.works("a")
		p.namespaces.Create(p.space, nil)
		p.inside.Create("b", nil)
		c.WaitFor("the handling in the new namespace", func() bool { return p.l.count("create "+p.space+"/b") == 1 })
	})
	c.Run(t, "DF-15 a namespace that came while the stream of namespaces was down is served", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		p := c.pair(false)
		p.namespaces.Delete(p.space)
		p.begin()
		p.miss(func() {
			p.namespaces.Create(p.space, nil)
			p.inside.Create("b", nil)
		})
		c.expect(&p.l, "create "+p.space+"/b")
	})
	c.Run(t, "BG-86 a namespace that goes while its objects are indexed for the first time keeps no handler waiting", func(c *C) {
		c.OnlyInBubble("nothing shows that the operator has given up the namespace")
		p := c.pair(false)
		p.inside.Create("indexed", nil)
		c.Create("a", nil)
		var once sync.Once
		indexing, goOn := make(chan struct{}), make(chan struct{})
		r := &kopf.Registry{}
		kopf.OnIndexIn(r, Examples, func(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
			if i.Namespace() == p.space {
				once.Do(func() { close(indexing) })
				<-goOn
			}
			return nil, nil
		}, nil)
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			p.l.add("create %s/%s", ch.Namespace(), ch.Name())
			return nil
		}, named("create"))
		c.Operator(r, func(op *kopf.Operator) { op.Namespaces = []string{p.Namespace + "*", p.space + "*"} }, wired(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, p.space+"/kopfexamples?") && strings.Contains(req.Path, "watch=true") {
				return nil, errCut // the deletion of the object is not seen
			}
			return nil, nil
		}))
		<-indexing
		p.namespaces.Delete(p.space)
		c.Pass(10 * time.Second)
		close(goOn)
		c.expect(&p.l, "create "+p.Namespace+"/a")
	})
	c.Run(t, "DF-15 a listing that breaks off takes no namespace away", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		p := c.pair(false)
		var breaks atomic.Bool
		var broken atomic.Int64
		p.begin(func(op *kopf.Operator) { op.Settings.Watching.PageSize = 1 }, wired(func(req *Request) (*http.Response, error) {
			if breaks.Load() && strings.HasPrefix(req.Path, "/api/v1/namespaces?") && strings.Contains(req.Path, "continue=") {
				broken.Add(1)
				return Answer(http.StatusForbidden, "Forbidden", "no second page"), nil
			}
			return nil, nil
		}))
		breaks.Store(true)
		p.expired.Store(true)
		p.op.Wire.Drop()
		p.Pass(time.Minute)
		if broken.Load() == 0 || !p.served() {
			c.Errorf("%d listings have broken off, and the namespace is not served any more", broken.Load())
		}
		breaks.Store(false)
		p.Pass(5 * time.Minute)
		if !p.served() {
			c.Error("the namespace is not served after a whole listing")
		}
	})
	c.Run(t, "DF-15 what was served without the right to list namespaces is given up when a listing does not have it", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		p := c.pair(false)
		p.namespaces.Delete(p.space)
		var allowed atomic.Bool
		p.begin(func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace, p.space} }, wired(func(req *Request) (*http.Response, error) {
			if strings.HasPrefix(req.Path, "/api/v1/namespaces?") && !allowed.Load() {
				return Answer(http.StatusForbidden, "Forbidden", "no"), nil
			}
			return nil, nil
		}))
		if !p.served() {
			c.Fatal("the exact name is not served without the right to list namespaces")
		}
		allowed.Store(true)
		p.Pass(5 * time.Minute)
		if p.served() {
			c.Error("the namespace that is not there is still served")
		}
		p.works("a")
	})
}

func terminating(t *testing.T, c *C) {
	for _, first := range []string{"the peering object", "the namespace"} {
		c.Run(t, "DF-3 the deletion of a namespace never pauses a mandatorily peered operator, "+first+" goes first", func(c *C) {
			c.OnlyInBubble("it takes minutes")
			p := c.pair(true)
			// The other resource has the delayed events.
			slow := map[string]string{"the peering object": "/api/v1/namespaces", "the namespace": "/kopfpeerings"}[first]
			p.begin(func(op *kopf.Operator) {
				base := op.Connection.HTTPClient.Transport
				op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
					resp, err := base.RoundTrip(req)
					if err == nil && strings.HasSuffix(req.URL.Path, slow) && strings.Contains(req.URL.RawQuery, "watch=true") {
						resp.Body = late(resp.Body)
					}
					return resp, err
				})}
			})
			p.inside.Create("a", nil)
			c.expect(&p.l, "create "+p.space+"/a")
			p.namespaces.Delete(p.space)
			p.works("b")
			c.WaitFor("the end of the namespace", func() bool { return !p.namespaces.Exists(p.space) })
			c.Pass(5 * time.Minute)
			if n := p.l.count("delete " + p.space + "/a"); n != 6 {
				c.Errorf("the deletion handler was called %d times, want 6", n)
			}
			p.works("c")
			p.neverPaused()
		})
	}
	c.Run(t, "DF-3 the deletion of a namespace never pauses it though a write of the own record fails at the same time", func(c *C) {
		c.OnlyInBubble("it needs exact times")
		p := c.pair(true)
		var holds, waits, ends atomic.Bool
		p.begin(wired(func(req *Request) (*http.Response, error) {
			switch {
			case holds.Load() && writesRecord(req) && strings.Contains(req.Path, p.space):
				waits.Store(true)
				for !ends.Load() { // the response comes after the deletion of the object
					time.Sleep(100 * time.Millisecond)
				}
				holds.Store(false)
				return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
			case ends.Load() && strings.Contains(req.Path, "fieldSelector"):
				time.Sleep(3 * time.Second)
			}
			return nil, nil
		}))
		p.inside.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
		holds.Store(true)
		c.WaitFor("a write of the record", waits.Load)
		p.namespaces.Delete(p.space)
		c.Pass(time.Second)
		ends.Store(true)
		c.Pass(5 * time.Minute)
		if holds.Load() {
			c.Error("no write has failed")
		}
		p.works("b")
		p.neverPaused()
	})
	for _, gone := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("DF-3 nor if that happens while the stream of namespaces is down, and the namespace goes: %t", gone), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			p := c.pair(true)
			p.begin()
			if !gone {
				p.inside.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
			}
			c.Pass(time.Second)
			p.miss(func() {
				p.namespaces.Delete(p.space)
				c.Pass(10 * time.Minute)
				p.works("b")
			})
			if p.namespaces.Exists(p.space) == gone {
				c.Fatal("it is otherwise")
			}
			p.works("c")
			p.neverPaused()
		})
	}
	c.Run(t, "DF-3 an operator that starts meanwhile works", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		p := c.pair(true)
		p.inside.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
		p.namespaces.Delete(p.space)
		c.Pass(time.Second)
		if p.peering().Exists("default") || !p.namespaces.Exists(p.space) {
			c.Fatal("it is otherwise")
		}
		p.begin()
		p.works("b")
		p.miss(func() { // and a list contains another one of the kind
			p.namespaces.Create(p.Unique("third"), nil)
			inside := *p.inside
			inside.Namespace = p.Unique("third")
			inside.Of("kopf.dev/v1", "KopfExample").Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
			p.namespaces.Delete(p.Unique("third"))
		})
		p.works("c")
		p.neverPaused()
	})
	c.Run(t, "DF-3 what is missing in a namespace that stays pauses it, until the namespace is deleted", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		p := c.pair(true)
		p.begin()
		p.inside.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
		c.Pass(time.Second)
		p.peering().Delete("default")
		c.paused(p.op, 1)
		c.idles(&p.l, "b")
		began := time.Now()
		p.namespaces.Delete(p.space)
		c.WaitFor("the handling", func() bool { return p.l.count("create "+c.Namespace+"/b") == 1 })
		if took := time.Since(began); took > 2*time.Second {
			c.Errorf("it has taken %s", took)
		}
	})
	c.Run(t, "DF-3 a namespace that has come back needs the object again", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		p := c.pair(true)
		p.begin()
		p.miss(func() {
			p.namespaces.Delete(p.space)
			c.Pass(2 * time.Minute)
			p.works("b")
			p.namespaces.Create(p.space, nil)
			c.Pass(2 * time.Minute)
		})
		c.idles(&p.l, "c")
		p.peering().Create("default", nil)
		c.WaitFor("the handling", func() bool { return p.l.count("create "+c.Namespace+"/c") == 1 })
	})
	for _, code := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		c.Run(t, fmt.Sprintf("DF-3 while the server does not tell of the namespace, what is missing pauses: %d", code), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			p := c.pair(true)
			var refused atomic.Bool
			refused.Store(true)
			p.beginBlind(func(req *Request) (*http.Response, error) {
				if refused.Load() {
					return Answer(code, http.StatusText(code), "no"), nil
				}
				return nil, nil
			})
			p.namespaces.Delete(p.space)
			c.paused(p.op, 1)
			c.idles(&p.l, "b")
			refused.Store(false)
			began := time.Now()
			c.WaitFor("the handling", func() bool { return p.l.count("create "+c.Namespace+"/b") == 1 })
			if took := time.Since(began); took > time.Minute || code == http.StatusInternalServerError && took > 5*time.Second {
				c.Errorf("it has taken %s", took)
			}
		})
	}
	for _, gone := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("DF-3 the right to get the namespace does, and it goes: %t", gone), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			p := c.pair(true)
			p.beginBlind(func(req *Request) (*http.Response, error) {
				if strings.Contains(req.Path, "?") {
					return Answer(http.StatusForbidden, "Forbidden", "no"), nil
				}
				return nil, nil
			})
			if !gone {
				p.inside.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/held"}}})
			}
			p.namespaces.Delete(p.space)
			c.Pass(10 * time.Minute)
			p.works("b")
			p.neverPaused()
			if gone {
				p.namespaces.Create(p.space, nil)
				c.Pass(time.Minute)
				c.idles(&p.l, "c")
			}
		})
	}
}

// beginBlind starts the operator without a stream of namespaces. The function answers its requests about namespaces.
func (p *namespacePair) beginBlind(answer func(req *Request) (*http.Response, error)) {
	p.Helper()
	p.begin(wired(func(req *Request) (*http.Response, error) {
		if path, _, _ := strings.Cut(req.Path, "?"); path == "/api/v1/namespaces" || path == "/api/v1/namespaces/"+p.space {
			return answer(req)
		}
		return nil, nil
	}), func(op *kopf.Operator) {
		op.Namespaces = []string{p.Namespace, p.space}
		op.Settings.Scanning.Disabled = true
	})
}
