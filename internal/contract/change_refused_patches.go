package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that a refused patch of one handler affects nothing else: the object is handled, other changes are stored, and the log stays correct.

var _ = Suite("change_refused_patches", func(t *testing.T, c *C) {
	heldByDaemons(t, c)
	droppedSuccess(t, c)
	denialsAfterOutage(t, c)
	eventPatchesInOutages(t, c)
	longDeletions(t, c)
	othersPatches(t, c)
	deniedTasks(t, c)
	conflictsAtTheEnd(t, c)
	troubleAtTheEnd(t, c)
	likenessOfDenials(t, c)
	storedOnce(t, c)
	toldOnce(t, c)
	deletionsInAnswers(t, c)
	neededNoMore(t, c)
	deletionsWithoutPauses(t, c)
	rightsInDeletions(t, c)
	refusedOnce(t, c)
})

// forbiddenPatch is the response of the API server if the operator lacks the permission.
func forbiddenPatch() *http.Response {
	return Answer(403, "Forbidden", `User "me" cannot patch resource`)
}

// tooLarge returns responses of a webhook that denies a patch with a code.
func tooLarge(code int) func() *http.Response {
	return func() *http.Response { return denied(code, http.StatusText(code), "it is too large") }
}

func onStatus(r *Request) bool { return strings.HasSuffix(r.Path, "/status") }

func (c *C) statuses() *Kind { return c.Of("kopf.dev/v1", "KopfStatusExample") }

func heldByDaemons(t *testing.T, c *C) {
	for name, answer := range map[string]func() *http.Response{"403 of RBAC": forbiddenPatch, "403 of a webhook": tooLarge(403), "500 of a webhook": tooLarge(500)} {
		c.Run(t, "DF-9 an object held for a daemon alone is deleted though the patch of its creation is not taken: "+name, func(c *C) {
			c.OnlyInBubble("minutes")
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(statusExamples, func(_ context.Context, ch *kopf.Change) error {
				l.add("create")
				ch.Patch.Set("status.x", 1)
				return nil
			}, named("create"))
			r.OnDaemon(statusExamples, func(ctx context.Context, d *kopf.Daemon) error { <-ctx.Done(); return nil }, daemonID("d"))
			op := c.Operator(r)
			op.denyPatches(onStatus, answer)
			c.statuses().Create("a", nil)
			c.Pass(30 * time.Second)
			c.statuses().Delete("a")
			for _, pass := range []time.Duration{5 * time.Second, time.Minute, time.Hour, 23 * time.Hour} {
				c.Pass(pass)
				if c.statuses().Exists("a") {
					c.Errorf("%s later, it is there", pass)
				}
			}
		})
	}
}

func droppedSuccess(t *testing.T, c *C) {
	c.Run(t, "DF-9 a handler whose patch was dropped is not stored as a success", func(c *C) {
		c.OnlyInBubble("minutes")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("create")
			ch.Patch.Set("spec.x", 100)
			return nil
		}, named("create"))
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			return kopf.Temporary(errors.New("later"), time.Hour)
		}, named("other"))
		r.OnDelete(Examples, l.handler("delete"), &kopf.ChangeOptions{ID: "delete", Labels: kopf.Match{"careful": kopf.Present}})
		op := c.Operator(r)
		var code atomic.Int64
		code.Store(500)
		op.denyPatches(setsHundred, func() *http.Response { return tooLarge(int(code.Load()))() })
		c.Create("a", nil)
		c.Pass(3 * time.Second)
		code.Store(403) // now the webhook refuses permanently
		c.Patch("a", labelled("careful", "yes"))
		c.Pass(10 * time.Minute)
		if v, _ := c.Get("a").Annotation("kopf.zalando.org/create"); strings.Contains(v, `"success":true`) {
			c.Errorf("its patch was dropped, and its record is %s", v)
		}
		if lines := op.Logs.Find("'create' succeeded"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
	})
}

func denialsAfterOutage(t *testing.T, c *C) {
	c.Run(t, "DF-9 three denials with 503 after a long outage are not the last word", func(c *C) {
		c.OnlyInBubble("minutes")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("create")
			ch.Patch.Set("spec.x", 100)
			return nil
		}, named("create"))
		op := c.Operator(r)
		began := time.Now()
		var denials atomic.Int64
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			switch {
			case req.Method != http.MethodPatch:
			case time.Since(began) < 3*time.Hour:
				return nil, errCut // the network is down
			case setsHundred(req) && denials.Add(1) <= 3:
				return tooLarge(503)(), nil // the webhook starts
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.Pass(8 * time.Hour)
		if x := c.Get("a").Spec().Int("x"); x != 100 {
			c.Errorf("x is %d; lines %v", x, op.Logs.Find("its patch was refused"))
		}
	})
}

func eventPatchesInOutages(t *testing.T, c *C) {
	for name, fault := range map[string]func() (*http.Response, error){
		"no connection":       func() (*http.Response, error) { return nil, errCut },
		"504 Gateway Timeout": func() (*http.Response, error) { return Answer(504, "Timeout", "timed out"), nil },
		"429 TooManyRequests": func() (*http.Response, error) { return Answer(429, "TooManyRequests", "wait"), nil },
		"408 Request Timeout": func() (*http.Response, error) { return Answer(408, "Timeout", "timed out"), nil },
	} {
		for _, pass := range []time.Duration{15 * time.Second, 10 * time.Minute, 3 * time.Hour} {
			c.Run(t, fmt.Sprintf("DF-9 what a handler of raw events sets outlives an outage of %s: %s", pass, name), func(c *C) {
				c.OnlyInBubble("minutes")
				var l calls
				r := &kopf.Registry{}
				r.OnEvent(Examples, func(_ context.Context, e *kopf.WatchEvent) error {
					if l.add("event"); len(l.all()) == 1 {
						e.Patch.Set("spec.seen", true)
					}
					return nil
				}, watchedAs("event"))
				op := c.Operator(r)
				began := time.Now()
				op.Wire.Fault(func(req *Request) (*http.Response, error) {
					if req.Method == http.MethodPatch && time.Since(began) < pass {
						return fault()
					}
					return nil, nil
				})
				c.Create("a", nil)
				c.Pass(8 * time.Hour)
				if !c.Get("a").Spec().Bool("seen") {
					c.Errorf("it is lost; lines: %v", op.Logs.Find("was refused"))
				}
				if lines := op.Logs.Find("Storing the p"); len(lines) > 0 && time.Since(lines[len(lines)-1].Time) < 4*time.Hour {
					c.Errorf("it is tried to be stored after it was stored: %v", lines[len(lines)-1])
				}
			})
		}
	}
}

func longDeletions(t *testing.T, c *C) {
	c.Run(t, "DF-9 what a deletion handler sets is not lost while the deletion goes on for long", func(c *C) {
		c.OnlyInBubble("minutes")
		var l calls
		r := &kopf.Registry{}
		r.OnDelete(statusExamples, func(_ context.Context, ch *kopf.Change) error {
			l.add("backup")
			ch.Patch.Set("status.backup", "b-1")
			return nil
		}, named("backup"))
		r.OnDelete(statusExamples, func(_ context.Context, ch *kopf.Change) error {
			l.add("wait")
			if ch.Retry < 1 {
				return kopf.Temporary(errors.New("not yet"), 20*time.Minute)
			}
			l.add("backup is %s", ch.Status().String("backup"))
			return nil
		}, named("wait"))
		op := c.Operator(r)
		var granted atomic.Bool
		op.denyPatches(func(r *Request) bool { return onStatus(r) && !granted.Load() }, forbiddenPatch)
		c.statuses().Create("a", nil)
		c.Pass(5 * time.Second)
		c.statuses().Delete("a")
		c.Pass(5 * time.Second)
		granted.Store(true)
		c.Pass(time.Hour)
		if got := l.all(); got[len(got)-1] != "backup is b-1" {
			c.Errorf("the calls are %q; lines %v", got, op.Logs.Find("Dropped the patch of a handler, because it could not be stored before the end of the object"))
		}
	})
}

func othersPatches(t *testing.T, c *C) {
	for _, code := range []int{403, 500} {
		c.Run(t, fmt.Sprintf("DF-9 a denial with %d of what one deletion handler sets does not drop what another one sets", code), func(c *C) {
			c.OnlyInBubble("minutes")
			r := &kopf.Registry{}
			r.OnDelete(Examples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("spec.x", 100); return nil }, named("bad"))
			r.OnDelete(Examples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("spec.cleaned", true); return nil }, named("good"))
			op := c.Operator(r)
			op.denyPatches(setsHundred, tooLarge(code))
			c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/other"}}})
			c.held("a")
			c.Pass(time.Minute)
			c.Delete("a")
			c.Pass(time.Hour)
			if holds(c.Get("a")) {
				c.Error("it is held")
			}
			if !c.Get("a").Spec().Bool("cleaned") {
				c.Errorf("what the good handler sets is lost; lines %v", op.Logs.Find("Dropp"))
			}
		})
	}
}

func deniedTasks(t *testing.T, c *C) {
	for _, code := range []int{403, 404, 409, 429, 500, 503} {
		c.Run(t, fmt.Sprintf("DF-9 a denial with %d of what a timer sets once does not keep its next calls from storing theirs", code), func(c *C) {
			c.OnlyInBubble("hours")
			r := &kopf.Registry{}
			n := 0
			r.OnTimer(Examples, func(_ context.Context, tm *kopf.Timer) error {
				if n++; n == 1 {
					tm.Patch.Set("spec.x", 100)
				} else {
					tm.Patch.Set("spec.ticks", n)
				}
				return nil
			}, &kopf.TimerOptions{ID: "tick", Interval: 10 * time.Second})
			op := c.Operator(r)
			op.denyPatches(setsHundred, tooLarge(code))
			c.Create("a", nil)
			c.Pass(time.Hour)
			if got := c.Get("a").Spec().Int("ticks"); got < 10 {
				c.Errorf("an hour and %d calls later, the ticks are %d; %d requests were denied", n, got, len(op.Wire.Writes()))
			}
		})
		c.Run(t, fmt.Sprintf("DF-9 a denial with %d of what a daemon sets at its end does not keep its object", code), func(c *C) {
			c.OnlyInBubble("minutes")
			r := &kopf.Registry{}
			r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
				<-ctx.Done()
				d.Patch.Set("spec.x", 100)
				return nil
			}, daemonID("d"))
			op := c.Operator(r)
			op.denyPatches(setsHundred, tooLarge(code))
			c.Create("a", nil)
			c.held("a")
			c.Pass(time.Minute)
			c.Delete("a")
			began := time.Now()
			c.Pass(3 * time.Second)
			if c.Exists("a") {
				c.gone("a")
				c.Errorf("it has gone after %s only", time.Since(began).Round(time.Second))
			}
		})
	}
}

func conflictsAtTheEnd(t *testing.T, c *C) {
	c.Run(t, "DF-9 a conflict with another finalizer delays a deletion by no more than conflicts do", func(c *C) {
		c.OnlyInBubble("hours")
		r := &kopf.Registry{}
		r.OnCreate(statusExamples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("status.x", 1); return nil }, named("create"))
		r.OnDelete(statusExamples, func(_ context.Context, ch *kopf.Change) error { return nil }, named("delete"))
		op := c.Operator(r)
		op.denyPatches(onStatus, forbiddenPatch)
		k := c.statuses()
		k.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/other"}}})
		c.Pass(3 * time.Hour)
		var once atomic.Bool
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && strings.Contains(req.Body, "finalizers") && once.CompareAndSwap(false, true) {
				_, err := c.Client.Patch(c.Context(), k.Ref("a"), []kopf.PatchOperation{{Op: "remove", Path: "/metadata/finalizers/0"}}, &kopf.PatchOptions{Type: kopf.JSONPatch})
				if err != nil {
					c.Error(err)
				}
			}
			return nil, nil
		})
		k.Delete("a")
		began := time.Now()
		c.WaitFor("the end", func() bool { return !k.Exists("a") })
		if took := time.Since(began); took > time.Minute {
			c.Errorf("it took %s; the other finalizer was met: %t", took, once.Load())
		}
	})
}

func troubleAtTheEnd(t *testing.T, c *C) {
	c.Run(t, "DF-9 a short trouble of the API server delays the deletion of an object with old errors no more than that of others", func(c *C) {
		c.OnlyInBubble("hours")
		r := &kopf.Registry{}
		r.OnCreate(statusExamples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("status.x", 1); return nil }, named("create"))
		r.OnDelete(statusExamples, func(_ context.Context, ch *kopf.Change) error { return nil }, named("delete"))
		op := c.Operator(r)
		op.denyPatches(onStatus, forbiddenPatch)
		k := c.statuses()
		k.Create("a", nil)
		c.Pass(3 * time.Hour)
		began := time.Now()
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && time.Since(began) < 5*time.Second {
				return Answer(409, "Conflict", "the server is busy"), nil
			}
			return nil, nil
		})
		k.Delete("a")
		c.WaitFor("the end", func() bool { return !k.Exists("a") })
		if took := time.Since(began); took > time.Minute {
			c.Errorf("it took %s", took)
		}
	})
}

func likenessOfDenials(t *testing.T, c *C) {
	c.Run(t, "DF-9 a webhook that fails with the text of a policy is trouble, and no denial", func(c *C) {
		c.OnlyInBubble("minutes")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("spec.x", 100); return nil }, named("create"))
		op := c.Operator(r)
		began := time.Now()
		op.denyPatches(func(r *Request) bool { return setsHundred(r) && time.Since(began) < 10*time.Minute }, func() *http.Response {
			return Answer(500, "InternalError", `Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: an error on the server ("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no") has prevented the request from succeeding`)
		})
		c.Create("a", nil)
		c.Pass(2 * time.Hour)
		if x := c.Get("a").Spec().Int("x"); x != 100 {
			c.Errorf("x is %d; lines %v", x, op.Logs.Find("its patch was refused"))
		}
	})
}

func storedOnce(t *testing.T, c *C) {
	c.Run(t, "DF-9 what was stored of a handler is not stored again over what others change later", func(c *C) {
		c.OnlyInBubble("minutes")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error { l.add("create"); ch.Patch.Set("spec.x", 5); return nil }, named("create"))
		op := c.Operator(r)
		op.denyPatches(func(r *Request) bool { return strings.Contains(r.Body, "kopf.zalando.org/") }, tooLarge(403))
		c.Create("a", nil)
		c.Pass(time.Minute)
		c.Patch("a", sized(7))
		c.Pass(time.Hour)
		if x := c.Get("a").Spec().Int("x"); x != 7 {
			c.Errorf("x is %d; calls %q", x, l.all())
		}
	})
}

func toldOnce(t *testing.T, c *C) {
	c.Run(t, "DF-9 a refusal is logged once, and is true", func(c *C) {
		c.OnlyInBubble("minutes")
		r := &kopf.Registry{}
		r.OnEvent(statusExamples, func(_ context.Context, e *kopf.WatchEvent) error { e.Patch.Set("status.seen", true); return nil }, watchedAs("event"))
		r.OnCreate(statusExamples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("status.x", 1); return nil }, named("create"))
		op := c.Operator(r)
		var granted atomic.Bool
		op.denyPatches(func(r *Request) bool { return onStatus(r) && !granted.Load() }, forbiddenPatch)
		c.statuses().Create("a", nil)
		c.Pass(time.Hour)
		granted.Store(true)
		c.Pass(time.Hour)
		if lines := op.Logs.Find("Handler 'event' failed permanently"); len(lines) > 1 {
			c.Errorf("%d lines, of %v; it is stored at last: %t", len(lines), lines[0].Message, c.statuses().Get("a").Status().Bool("seen"))
		}
	})
}

func deletionsInAnswers(t *testing.T, c *C) {
	c.Run(t, "DF-9 the deletion ends a pause though an answer has shown it first", func(c *C) {
		c.OnlyInBubble("hours")
		k := c.statuses()
		r := &kopf.Registry{}
		n := 0
		r.OnEvent(statusExamples, func(_ context.Context, e *kopf.WatchEvent) error { n++; e.Patch.Set("status.n", n); return nil }, watchedAs("event"))
		r.OnCreate(statusExamples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("spec.x", 100); return nil }, named("create"))
		r.OnDelete(statusExamples, func(_ context.Context, ch *kopf.Change) error { return nil }, named("delete"))
		op := c.Operator(r)
		var going atomic.Bool
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && onStatus(req) && going.CompareAndSwap(true, false) {
				k.Delete("a")
			}
			if req.Method == http.MethodPatch && setsHundred(req) && !onStatus(req) {
				return forbiddenPatch(), nil
			}
			return nil, nil
		})
		k.Create("a", nil)
		c.Pass(3 * time.Hour)
		began := time.Now()
		going.Store(true)
		k.Patch("a", sized(1))
		c.WaitFor("the deletion", func() bool { return !going.Load() })
		waited := time.Since(began)
		c.WaitFor("the end", func() bool { return !k.Exists("a") })
		if took := time.Since(began) - waited; took > time.Minute {
			c.Errorf("it took %s", took)
		}
	})
}

func neededNoMore(t *testing.T, c *C) {
	for name, answer := range map[string]func() *http.Response{"403 of RBAC": forbiddenPatch, "500 of a webhook": tooLarge(500)} {
		c.Run(t, "DF-9 an object that no handler needs to hold any more is let go though the patch of its creation is not taken: "+name, func(c *C) {
			c.OnlyInBubble("minutes")
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(statusExamples, func(_ context.Context, ch *kopf.Change) error {
				l.add("create")
				ch.Patch.Set("status.x", 1)
				return nil
			}, named("create"))
			r.OnDelete(statusExamples, l.handler("delete"), &kopf.ChangeOptions{ID: "delete", Labels: kopf.Match{"careful": kopf.Present}})
			op := c.Operator(r)
			op.denyPatches(onStatus, answer)
			c.statuses().Create("a", labelled("careful", "yes"))
			c.Pass(5 * time.Second)
			c.statuses().Patch("a", unlabelled("careful"))
			c.statuses().Delete("a")
			for _, pass := range []time.Duration{5 * time.Second, time.Minute, time.Hour, 23 * time.Hour} {
				c.Pass(pass)
				if c.statuses().Exists("a") {
					c.Errorf("%s later, it is there, with the finalizers %q", pass, c.statuses().Get("a").Finalizers())
				}
			}
		})
		c.Run(t, "DF-9 an object with a slow daemon is let go though the patch of its creation is not taken: "+name, func(c *C) {
			c.OnlyInBubble("minutes")
			r := &kopf.Registry{}
			r.OnCreate(statusExamples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("status.x", 1); return nil }, named("create"))
			r.OnDaemon(statusExamples, func(ctx context.Context, d *kopf.Daemon) error { <-ctx.Done(); time.Sleep(3 * time.Second); return nil }, daemonID("d"))
			op := c.Operator(r)
			op.denyPatches(onStatus, answer)
			c.statuses().Create("a", nil)
			c.Pass(30 * time.Second)
			c.statuses().Delete("a")
			for _, pass := range []time.Duration{10 * time.Second, time.Minute, time.Hour, 23 * time.Hour} {
				c.Pass(pass)
				if c.statuses().Exists("a") {
					c.Errorf("%s later, it is there", pass)
				}
			}
		})
	}
}

func deletionsWithoutPauses(t *testing.T, c *C) {
	for name, answer := range map[string]func() *http.Response{"403 of RBAC": forbiddenPatch, "500 of a webhook": tooLarge(500)} {
		c.Run(t, "DF-9 an object is deleted without pauses after errors though what was set may not be stored: "+name, func(c *C) {
			c.OnlyInBubble("hours")
			var l calls
			r := &kopf.Registry{}
			r.OnDelete(statusExamples, func(_ context.Context, ch *kopf.Change) error {
				l.add("delete")
				ch.Patch.Set("status.x", 1)
				return nil
			}, named("delete"))
			op := c.Operator(r, func(op *kopf.Operator) { op.Settings.Queueing.ErrorDelays = []time.Duration{} })
			op.denyPatches(onStatus, answer)
			k := c.statuses()
			k.Create("a", nil)
			c.WaitFor("the finalizer", func() bool { return holds(k.Get("a")) })
			k.Delete("a")
			c.Pass(time.Hour)
			for i := range 50 {
				if k.Exists("a") {
					k.Patch("a", sized(i))
					c.Pass(time.Second)
				}
			}
			if k.Exists("a") {
				c.Errorf("an hour and 50 events later, it is there; calls %q; %d lines", l.all(), len(op.Logs.Find("Processing of the object failed")))
			}
		})
	}
}

func rightsInDeletions(t *testing.T, c *C) {
	for _, errs := range []bool{true, false} {
		c.Run(t, fmt.Sprintf("DF-9 what a deletion handler sets waits for the right to store it while another one runs (errors before: %t)", errs), func(c *C) {
			c.OnlyInBubble("hours")
			r := &kopf.Registry{}
			if errs {
				r.OnCreate(statusExamples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("status.x", 1); return nil }, named("create"))
			}
			r.OnDelete(statusExamples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("status.backup", "b-1"); return nil }, named("backup"))
			r.OnDelete(statusExamples, func(_ context.Context, ch *kopf.Change) error { time.Sleep(time.Hour); return nil }, named("long"))
			op := c.Operator(r)
			var granted atomic.Bool
			op.denyPatches(func(r *Request) bool { return onStatus(r) && !granted.Load() }, forbiddenPatch)
			k := c.statuses()
			k.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/other"}}})
			c.Pass(5 * time.Second)
			k.Delete("a")
			c.Pass(5 * time.Second)
			granted.Store(true)
			c.Pass(3 * time.Hour)
			if got := k.Get("a").Status().String("backup"); got != "b-1" {
				c.Errorf("it is %q; lines %v", got, op.Logs.Find("Dropped the patch of a handler, because it could not be stored before the end of the object"))
			}
		})
	}
}

func refusedOnce(t *testing.T, c *C) {
	c.Run(t, "DF-9 what a deletion handler sets is stored though it is refused once", func(c *C) {
		c.OnlyInBubble("the requests are counted")
		r := &kopf.Registry{}
		r.OnDelete(statusExamples, func(_ context.Context, ch *kopf.Change) error { ch.Patch.Set("status.backup", "b-1"); return nil }, named("backup"))
		op := c.Operator(r)
		var refused atomic.Int64
		op.denyPatches(func(r *Request) bool { return onStatus(r) && refused.Add(1) <= 2 }, forbiddenPatch) // together with all else, and separately
		k := c.statuses()
		k.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/other"}}})
		c.WaitFor("the finalizer", func() bool { return holds(k.Get("a")) })
		k.Delete("a")
		c.WaitFor("the end of the handling", func() bool { return !holds(k.Get("a")) })
		if got := k.Get("a").Status().String("backup"); got != "b-1" {
			c.Errorf("it is %q; lines %v", got, op.Logs.Find("Dropped the patch of a handler, because it could not be stored before the end of the object"))
		}
	})
}
