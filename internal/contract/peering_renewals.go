package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that an operator renews its peering record during all other waiting, and that it does not work while it cannot.

var _ = ClusterSuite("peering_renewals", func(t *testing.T, c *C) {
	renewing(t, c)
	lapsing(t, c)
	shortLived(t, c)
	burying(t, c)
})

// leader gives an operator the identity "one", and a higher priority than others.
func leader(op *kopf.Operator) { op.Identity, op.Settings.Peering.Priority = "one", 10 }

// writesRecord reports whether a request writes to a peering object.
func writesRecord(req *Request) bool {
	return req.Method == http.MethodPatch && strings.Contains(req.Path, "kopfpeerings/")
}

// gaps returns the longest time between two successful records of an operator.
func gaps(op *Running) (longest time.Duration) {
	var last time.Time
	for _, r := range peered(op) {
		if r.Code != http.StatusOK {
			continue
		}
		if !last.IsZero() {
			longest = max(longest, r.Time.Sub(last))
		}
		last = r.Time
	}
	return longest
}

// another returns a handler that requests an object of a resource of other servers.
func another(c *C, kind, name string) kopf.ChangeFunc {
	return func(ctx context.Context, ch *kopf.Change) error {
		ref := c.Of(c.Unique("leaf")+".dev/v1", kind).Ref(name)
		return ch.Client.Get(ctx, ref, &kopf.Body{}, nil)
	}
}

func renewing(t *testing.T, c *C) {
	c.Run(t, "DF-7 the record is renewed while requests that hang are as many as there can be", func(c *C) {
		c.NotShort("the requests are many")
		c.OnlyInBubble("it takes minutes")
		c.meet()
		c.Define(c.gadgets())
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, another(c, "Gadget", "hangs"), named("create"))
		op := c.Operator(r, leader, func(op *kopf.Operator) { op.Settings.Networking.MaxInFlight = 8 }, wired(func(req *Request) (*http.Response, error) {
			if strings.HasSuffix(req.Path, "/hangs") {
				time.Sleep(4 * time.Minute)
				return Answer(http.StatusGatewayTimeout, "Timeout", "the extension has not answered"), nil
			}
			return nil, nil
		}))
		second := c.Operator(worker(&l), as("two"))
		c.Pass(time.Second) // until the operators have seen each other
		createMany(c, 20)
		c.Pass(10 * time.Minute)
		if n := len(l.all()); n > 0 || len(second.Logs.Find("Resuming operations")) > 0 {
			c.Errorf("the operator of the lower priority has handled %d objects while the other one lived", n)
		}
		if gap := gaps(op); gap > 56*time.Second {
			c.Errorf("the record was not renewed for %s", gap)
		}
		if got := op.Logs.Find("Pausing the watch-stream"); len(got) > 0 {
			c.Errorf("the operator has paused: %v", got)
		}
		op.Wire.Cut()
		c.Pass(24 * time.Hour) // until the requests end
	})
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		c.Run(t, fmt.Sprintf("DF-7 the record is renewed while other requests are held back: %d", code), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			c.meet()
			c.Define(c.gadgets())
			var l, rival calls
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("create"), named("create"))
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				err := d.Client.Get(ctx, c.gadget().Ref("extension"), &kopf.Body{}, nil)
				return kopf.Temporary(errors.Join(errOops, err), time.Minute)
			}, daemonID("daemon"))
			op := c.Operator(r, leader, wired(func(req *Request) (*http.Response, error) {
				if strings.Contains(req.Path, "extension") {
					return wishing(code, "600"), nil
				}
				return nil, nil
			}))
			c.Operator(worker(&rival), as("two"))
			c.Pass(time.Second) // until the operators have seen each other
			c.Create("a", nil)
			c.Pass(time.Minute)
			c.Create("b", nil)
			c.Pass(5 * time.Minute)
			if got := rival.all(); len(got) > 0 {
				c.Errorf("the operator of the lower priority has handled %q while the other one lived", got)
			}
			if gap := gaps(op); gap > 56*time.Second {
				c.Errorf("the record was not renewed for %s", gap)
			}
			if stored, all := c.Get("b").Annotation(diffBase); (stored != "") != (code == http.StatusServiceUnavailable) || !all == (stored != "") {
				c.Errorf("the other object was handled meanwhile: %t", stored != "")
			}
		})
	}
	c.Run(t, "DF-7 the record is renewed at the usual time though the server asks for a longer pause", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		c.meet()
		var refused atomic.Int64
		op := c.Operator(worker(&calls{}), leader, wired(func(req *Request) (*http.Response, error) {
			if writesRecord(req) && len(req.Body) > 0 && refused.Add(1) == 3 {
				return wishing(http.StatusServiceUnavailable, "3"), nil
			}
			return nil, nil
		}))
		c.Pass(5 * time.Minute)
		all := peered(op)
		if wait := all[3].Time.Sub(all[2].Time); wait != 3*time.Second {
			c.Errorf("the refused record was written again after %s, want the 3s that the server has wished for", wait)
		}
		if got := op.Logs.Find("Pausing the watch-stream"); len(got) > 0 {
			c.Errorf("the operator has paused: %v", got)
		}
	})
	c.Run(t, "DF-7 peers are listed again while requests that hang are as many as there can be", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		k := c.meet()
		c.Define(c.gadgets())
		r := &kopf.Registry{}
		r.OnCreate(Examples, another(c, "Gadget", "hangs"), named("create"))
		var expired atomic.Bool
		op := c.Operator(r, leader, func(op *kopf.Operator) {
			op.Settings.Networking.MaxInFlight = 2
			op.Settings.Peering.Lifetime = time.Hour
		}, wired(func(req *Request) (*http.Response, error) {
			if strings.HasSuffix(req.Path, "/hangs") {
				time.Sleep(4 * time.Minute)
				return Answer(http.StatusGatewayTimeout, "Timeout", "the extension has not answered"), nil
			}
			if strings.Contains(req.Path, "/kopfpeerings?") && strings.Contains(req.Path, "watch=true") && expired.CompareAndSwap(false, true) {
				return Answer(http.StatusGone, "Expired", "too old resource version"), nil
			}
			return nil, nil
		}))
		createMany(c, 5)
		c.Pass(time.Minute)
		k.sit("boss", rival(100, 3600))
		expired.Store(false)
		op.Wire.Drop()
		c.Pass(10 * time.Second)
		if got := op.Logs.Find("Pausing operations in favour of boss"); len(got) != 1 {
			c.Error("the peers were not looked at")
		}
		op.Wire.Cut()
		c.Pass(24 * time.Hour)
	})
	c.Run(t, "DF-7 no record is left that was being written when the operator ended", func(c *C) {
		c.OnlyInBubble("requests are held")
		peers := c.meet()
		var slow *slowWriter
		op := c.Operator(worker(&calls{}), leader, func(op *kopf.Operator) {
			slow = &slowWriter{next: op.Connection.HTTPClient.Transport}
			op.Connection.HTTPClient = &http.Client{Transport: slow}
		})
		c.WaitFor("the record", func() bool { return slices.Equal(peers.seats("default"), []string{"one"}) })
		slow.delay.Store(int64(time.Second))
		c.WaitFor("the next writing", func() bool { return slow.begun.Load() })
		op.Stop()
		c.Pass(time.Minute)
		if got := peers.seats("default"); len(got) > 0 {
			c.Errorf("the records %q are left", got)
		}
	})
	c.Run(t, "DF-7 the record is written as soon as there is an object for it", func(c *C) {
		c.OnlyInBubble("the intervals are long")
		k := c.peeringKind("kopf.dev", "Namespaced", nil)
		op := c.Operator(worker(&calls{}), leader)
		c.Pass(10 * time.Second)
		k.Create("default", nil)
		c.Pass(2 * time.Second)
		c.same("the records", []string{"one"}, k.seats("default"))
		if got := op.Logs.Find("Pausing the watch-stream"); len(got) > 0 {
			c.Errorf("the operator has paused: %v", got)
		}
	})
	c.Run(t, "DF-7 an operator works on when a peering object comes back long after the own record would have expired", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		k := c.meet()
		op := c.Operator(worker(&calls{}), leader)
		c.Pass(10 * time.Second)
		k.Delete("default")
		c.Pass(10 * time.Minute)
		k.Create("default", nil)
		c.Pass(5 * time.Second)
		c.same("the records", []string{"one"}, k.seats("default"))
		for _, line := range append(op.Logs.Find("Pausing the watch-stream"), op.Logs.Find("Pausing, because our record could not be renewed in time and others may take over")...) {
			c.Errorf("got the line %v", line)
		}
	})
	c.Run(t, "DF-7 an object that was replaced is not missed when its deletion is reported late", func(c *C) {
		c.OnlyInBubble("it needs exact times")
		k := c.meet()
		op := c.Operator(worker(&calls{}), leader, mandatory, func(op *kopf.Operator) {
			op.Settings.Peering.Lifetime = 3 * time.Second // renewed every second
			base := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
				resp, err := base.RoundTrip(req)
				if err == nil && strings.Contains(req.URL.Path, "kopfpeerings") && strings.Contains(req.URL.RawQuery, "watch=true") {
					resp.Body = late(resp.Body)
				}
				return resp, err
			})}
		})
		c.Pass(5*time.Second - streamLag/2)
		k.Delete("default")
		time.Sleep(streamLag / 8)
		k.Create("default", nil)
		c.Pass(5 * time.Second)
		c.same("the records", []string{"one"}, k.seats("default"))
		if got := op.Logs.Find("Pausing the watch-stream"); len(got) > 0 {
			c.Errorf("the operator has paused: %v", got)
		}
	})
	c.Run(t, "DF-7 the record is renewed with new credentials as soon as there are such", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		c.meet()
		var logins calls // the times when they have ended
		r := worker(&calls{})
		var login func() (*kopf.ConnectionInfo, error)
		r.OnLogin(func(ctx context.Context, _ *kopf.Login) (*kopf.ConnectionInfo, error) {
			if len(logins.all()) > 0 {
				select {
				case <-time.After(20 * time.Second): // it is slow
				case <-ctx.Done():
				}
			}
			logins.add("%d", time.Now().Unix())
			return login()
		}, id("login"))
		op := c.Operator(r, leader, func(op *kopf.Operator) {
			info := *op.Connection
			op.Connection = nil
			login = func() (*kopf.ConnectionInfo, error) {
				fresh := info
				fresh.Expiration = time.Now().Add(90 * time.Second)
				return &fresh, nil
			}
		})
		c.Pass(30 * time.Minute)
		late, all := 0, peered(op)
		for i := 1; i < len(all); i++ {
			if all[i].Time.Sub(all[i-1].Time) < 56*time.Second {
				continue
			}
			if late++; logins.count(fmt.Sprint(all[i].Time.Unix())) == 0 {
				c.Errorf("the record was renewed at %s, and not when a login had ended", all[i].Time)
			}
		}
		if n := len(logins.all()); n < 10 || late == 0 {
			c.Errorf("there were %d logins, of which %d were waited for", n, late)
		}
	})
}

// busy is an operator with handlers of all kinds, which record their calls.
type busy struct {
	*Running
	mu      sync.Mutex
	stopped kopf.StopReason // the reason of the daemon's last stop
	calls   []time.Time
}

func (b *busy) note() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, time.Now())
}

// between counts the calls between two times.
func (b *busy) between(from, to time.Time) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range b.calls {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

func (b *busy) reason() kopf.StopReason {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

// busyOperator starts an operator, with two objects that it has handled.
func (c *C) busyOperator(adjust ...func(*kopf.Operator)) *busy {
	b := &busy{}
	r := &kopf.Registry{}
	r.OnCreate(Examples, func(context.Context, *kopf.Change) error {
		b.note()
		return nil
	}, named("create"))
	r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error { // it is retried every second
		b.note()
		return kopf.Temporary(errOops, time.Second)
	}, named("update"))
	r.OnEvent(Examples, func(context.Context, *kopf.WatchEvent) error {
		b.note()
		return nil
	}, watchedAs("event"))
	r.OnTimer(Examples, func(context.Context, *kopf.Timer) error {
		b.note()
		return nil
	}, &kopf.TimerOptions{ID: "timer", Interval: 500 * time.Millisecond})
	r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
		for ctx.Err() == nil {
			b.note()
			if !d.Sleep(500 * time.Millisecond) {
				b.mu.Lock()
				b.stopped = d.StopReason()
				b.mu.Unlock()
				return nil
			}
		}
		return nil
	}, daemonID("daemon"))
	b.Running = c.Operator(r, append([]func(*kopf.Operator){leader}, adjust...)...)
	c.Create("a", nil)
	c.Create("b", nil)
	c.Pass(2 * time.Second)
	c.Patch("b", sized(1))
	c.Pass(2 * time.Second)
	return b
}

// renewed returns the time of the last successful write of the record.
func (b *busy) renewed() (last time.Time) {
	for _, r := range peered(b.Running) {
		if r.Code == http.StatusOK {
			last = r.Time
		}
	}
	return last
}

func lapsing(t *testing.T, c *C) {
	for name, answer := range map[string]func(*C, *Request) (*http.Response, error){
		"all is refused": func(*C, *Request) (*http.Response, error) {
			return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
		},
		"the right to it is gone": func(_ *C, req *Request) (*http.Response, error) {
			if !writesRecord(req) {
				return nil, nil
			}
			return Answer(http.StatusForbidden, "Forbidden", "no"), nil
		},
		"the connection is lost": func(*C, *Request) (*http.Response, error) { return nil, errCut },
		"nothing is answered": func(c *C, req *Request) (*http.Response, error) {
			if !writesRecord(req) {
				return nil, nil
			}
			time.Sleep(10 * time.Minute) // regardless of the context
			return nil, errCut
		},
		"the server asks for a pause": func(_ *C, req *Request) (*http.Response, error) {
			if !writesRecord(req) {
				return nil, nil
			}
			return wishing(http.StatusTooManyRequests, "10"), nil
		},
	} {
		c.Run(t, "DF-7 an operator that could not renew its record in time works no more until it could: "+name, func(c *C) {
			c.OnlyInBubble("it takes minutes")
			k := c.meet()
			var broken atomic.Bool
			b := c.busyOperator(wired(func(req *Request) (*http.Response, error) {
				if !broken.Load() {
					return nil, nil
				}
				return answer(c, req)
			}))
			var l calls
			second := c.Operator(worker(&l), as("two"))
			c.paused(second, 1)
			c.Pass(2 * time.Minute)
			broken.Store(true)
			last := b.renewed()
			expires := last.Add(time.Minute)
			c.Pass(time.Until(expires) - 2*time.Second)
			if n := b.between(time.Now().Add(-2*time.Second), time.Now()); n < 6 {
				c.Errorf("there were %d calls in two seconds while the record was alive", n)
			}
			c.Pass(5 * time.Minute)
			c.Create("c", nil)
			if b.renewed() != last {
				c.Fatal("the record was renewed")
			}
			if n := b.between(expires, time.Now()); n > 0 {
				c.Errorf("there were %d calls after the record had expired", n)
			}
			if reason := b.reason(); reason != kopf.StopOperatorPausing {
				c.Errorf("the daemon was stopped with the reason %s", reason)
			}
			if got := b.Logs.Find("Pausing, because our record could not be renewed in time and others may take over"); len(got) != 1 || got[0].Level.String() != "WARN" || !got[0].Time.Before(expires) {
				c.Errorf("got the lines %v", got)
			}
			c.WaitFor("the other one", func() bool { return slices.Contains(l.all(), "c") })
			broken.Store(false)
			c.WaitFor("the record", func() bool { return b.renewed().After(last) })
			c.Pass(2 * time.Second)
			back := b.renewed()
			c.Pass(5 * time.Second)
			if n := b.between(back, time.Now()); n < 6 {
				c.Errorf("there were %d calls after the record was renewed", n)
			}
			if n := b.between(expires, back); n > 0 {
				c.Errorf("there were %d calls before the record was renewed", n)
			}
			if got := b.Logs.Find("Renewed our record in the peering object"); len(got) != 1 || got[0].Level.String() != "INFO" {
				c.Errorf("got the lines %v", got)
			}
			c.same("the records", []string{"one", "two"}, k.seats("default"))
		})
	}
	c.Run(t, "DF-7 an operator works again when its record is renewed, though the watch stream shows that before the answer comes", func(c *C) {
		c.OnlyInBubble("it needs exact times")
		c.meet()
		var broken atomic.Bool
		b := c.busyOperator(wired(func(req *Request) (*http.Response, error) {
			if broken.Load() && writesRecord(req) {
				return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "not now"), nil
			}
			return nil, nil
		}), func(op *kopf.Operator) {
			base := op.Connection.HTTPClient.Transport
			op.Connection.HTTPClient = &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
				resp, err := base.RoundTrip(req)
				if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "kopfpeerings/") {
					time.Sleep(time.Second)
				}
				return resp, err
			})}
		})
		broken.Store(true)
		c.paused(b.Running, 1)
		last := b.renewed()
		broken.Store(false)
		c.WaitFor("the record", func() bool { return b.renewed().After(last) })
		c.Pass(3 * time.Second)
		back := time.Now()
		c.Pass(5 * time.Second)
		if n := b.between(back, time.Now()); n < 6 {
			c.Errorf("there were %d calls after the record was renewed", n)
		}
	})
	c.Run(t, "DF-7 an operator that cannot write its first record waits for it", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		c.meet()
		var l calls
		var broken atomic.Bool
		broken.Store(true)
		c.Operator(worker(&l), leader, wired(func(req *Request) (*http.Response, error) {
			if broken.Load() && writesRecord(req) {
				return Answer(http.StatusInternalServerError, "InternalError", "no"), nil
			}
			return nil, nil
		}))
		c.idles(&l, "a")
		c.Pass(5 * time.Minute)
		c.idles(&l, "b")
		broken.Store(false)
		c.Pass(3 * time.Second)
		c.WaitFor("both", func() bool { return len(l.all()) == 2 })
	})
	c.Run(t, "DF-7 an operator whose record was removed, and that cannot write it again, works no more", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		k := c.meet()
		var broken atomic.Bool
		b := c.busyOperator(wired(func(req *Request) (*http.Response, error) {
			if broken.Load() && writesRecord(req) {
				return Answer(http.StatusForbidden, "Forbidden", "no"), nil
			}
			return nil, nil
		}))
		broken.Store(true)
		k.sit("one", nil)
		c.Pass(2 * time.Second)
		from := time.Now()
		c.Pass(5 * time.Minute)
		if n := b.between(from, time.Now()); n > 0 {
			c.Errorf("there were %d calls", n)
		}
		broken.Store(false)
		c.Pass(time.Minute)
		if b.between(from, time.Now()) == 0 {
			c.Error("it does not work again")
		}
	})
	c.Run(t, "DF-7 an operator without peering objects needs no record", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		k := c.meet()
		var broken atomic.Bool
		b := c.busyOperator(wired(func(req *Request) (*http.Response, error) {
			if broken.Load() && writesRecord(req) {
				return Answer(http.StatusServiceUnavailable, "ServiceUnavailable", "no"), nil
			}
			return nil, nil
		}))
		k.Delete("default")
		c.Pass(time.Second)
		broken.Store(true)
		c.Pass(10 * time.Minute)
		if n := b.between(time.Now().Add(-2*time.Second), time.Now()); n < 6 {
			c.Errorf("there were %d calls in two seconds", n)
		}
	})
	c.Run(t, "DF-7 daemons pause with the rest though the peers of another namespace cannot be looked at", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		k := c.meet()
		space := c.Unique("team")
		b := c.busyOperator(func(op *kopf.Operator) { op.Namespaces = []string{c.Namespace + "*"} }, wired(func(req *Request) (*http.Response, error) {
			if strings.Contains(req.Path, "/"+space+"/kopfpeerings") {
				return Answer(http.StatusInternalServerError, "InternalError", "no"), nil
			}
			return nil, nil
		}))
		c.Of("v1", "Namespace").Create(space, nil)
		c.Pass(time.Second)
		k.sit("boss", rival(100, 3600))
		c.Pass(2 * time.Second)
		from := time.Now()
		c.Pass(time.Minute)
		if n := b.between(from, time.Now()); n > 0 {
			c.Errorf("there were %d calls in the pause", n)
		}
		if reason := b.reason(); reason != kopf.StopOperatorPausing {
			c.Errorf("the daemon was stopped with the reason %s", reason)
		}
	})
}

func shortLived(t *testing.T, c *C) {
	for _, lifetime := range []time.Duration{time.Millisecond, time.Second, 1500 * time.Millisecond, 2 * time.Second, 3 * time.Second, 10 * time.Second} {
		c.Run(t, "DF-7 a record that lives short is renewed before it has to be missed: "+lifetime.String(), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			c.meet()
			var l calls
			op := c.Operator(worker(&l), leader, func(op *kopf.Operator) { op.Settings.Peering.Lifetime = lifetime })
			c.Pass(10 * time.Minute)
			c.works(&l, "a")
			if got := op.Logs.Find("Pausing the watch-stream"); len(got) > 0 {
				c.Errorf("the operator has paused %d times: %v", len(got), got[0])
			}
			if n := len(peered(op)); n > 1300 {
				c.Errorf("the record was written %d times in 10 minutes", n)
			}
		})
	}
}

func burying(t *testing.T, c *C) {
	c.Run(t, "OP-90 a record that is renewed at the last moment is not removed", func(c *C) {
		c.OnlyInBubble("it is a race")
		k := c.meet()
		var renewed atomic.Bool
		k.sit("late", rival(20, 20))
		op := c.Operator(worker(&calls{}), leader, wired(func(req *Request) (*http.Response, error) {
			if writesRecord(req) && strings.Contains(req.Body, `"late":null`) && renewed.CompareAndSwap(false, true) {
				k.sit("late", rival(20, 20))
			}
			return nil, nil
		}))
		c.Pass(30 * time.Second)
		c.same("the records", []string{"late", "one"}, k.seats("default"))
		c.Pass(30 * time.Second)
		c.same("the records", []string{"one"}, k.seats("default"))
		if got := op.Logs.Find("Removing"); !renewed.Load() || len(got) > 0 {
			c.Errorf("got %v", got)
		}
	})
	c.Run(t, "DF-7 the record is removed at the end also if it could not be renewed any more", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		k := c.meet()
		var broken atomic.Bool
		op := c.Operator(worker(&calls{}), leader, wired(func(req *Request) (*http.Response, error) {
			if broken.Load() && writesRecord(req) {
				return Answer(http.StatusTooManyRequests, "TooManyRequests", "no"), nil
			}
			return nil, nil
		}))
		c.Pass(40 * time.Second)
		broken.Store(true)
		c.Pass(18 * time.Second)
		broken.Store(false)
		op.Stop()
		c.same("the records", []string(nil), k.seats("default"))
	})
}

// slowWriter delays requests that write records. Like a server, it completes them even if they are canceled.
type slowWriter struct {
	next  http.RoundTripper
	delay atomic.Int64 // in nanoseconds; removals of a record have no delay
	begun atomic.Bool
}

func (w *slowWriter) RoundTrip(req *http.Request) (*http.Response, error) {
	delay := time.Duration(w.delay.Load())
	if delay == 0 || req.Method != http.MethodPatch || !strings.Contains(req.URL.Path, "kopfpeerings/") {
		return w.next.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	late := req.Clone(context.WithoutCancel(req.Context()))
	late.Body = io.NopCloser(bytes.NewReader(body))
	if !bytes.Contains(body, []byte(`"priority"`)) {
		return w.next.RoundTrip(late)
	}
	type outcome struct {
		resp *http.Response
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		w.begun.Store(true)
		time.Sleep(delay) // the delay of a slow API server
		resp, err := w.next.RoundTrip(late)
		done <- outcome{resp, err}
	}()
	select {
	case o := <-done:
		return o.resp, o.err
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}
