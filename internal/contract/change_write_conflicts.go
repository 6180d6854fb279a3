package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what happens to the operator's patches when other clients write to the same objects, and when the API server or a webhook refuses them.

var _ = Suite("change_write_conflicts", func(t *testing.T, c *C) {
	refusalForms(t, c)
	mistakenRefusals(t, c)
	replacedLists(t, c)
	repeatedRefusals(t, c)
	flushesAgain(t, c)
	busyDeletions(t, c)
})

// statusExamples selects the KopfStatusExamples.
const statusExamples kopf.Selector = "kopfstatusexamples.v1.kopf.dev"

// denied is the response of a webhook that refuses with a code and a reason.
func denied(code int, reason, text string) *http.Response {
	return Answer(code, reason, `admission webhook "policy.example.com" denied the request: `+text)
}

// denyPatches has the patches refused as long as the function returns true.
func (op *Running) denyPatches(while func(*Request) bool, answer func() *http.Response) {
	op.Wire.Fault(func(req *Request) (*http.Response, error) {
		if req.Method == http.MethodPatch && while(req) {
			return answer(), nil
		}
		return nil, nil
	})
}

// loud returns the log lines of an object above the level of information.
func (l *Logs) loud(name string) (lines []Line) {
	for _, line := range l.All() {
		if line.Level > slog.LevelInfo && line.Object.Name == name {
			lines = append(lines, line)
		}
	}
	return lines
}

// refusalForms checks how the API server itself refuses patches, which the other tests rely on.
func refusalForms(t *testing.T, c *C) {
	test := func(path string, value any) kopf.PatchOperation {
		return kopf.PatchOperation{Op: "test", Path: path, Value: value}
	}
	harmless := kopf.PatchOperation{Op: "add", Path: "/spec/y", Value: 1}
	c.Run(t, "DF-4 how the API server refuses a patch", func(c *C) {
		c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/one"}}, "spec": map[string]any{"x": 1}})
		for _, try := range []struct {
			what, name, subresource string
			patch                   any
			code                    int
			causes                  bool
			about                   string
		}{
			{"of another uid", "a", "", []kopf.PatchOperation{test("/metadata/uid", "other"), harmless}, 422, false, ""},
			{"of another version", "a", "", []kopf.PatchOperation{test("/metadata/resourceVersion", "1"), harmless}, 422, false, ""},
			{"with a test beyond the end of a list", "a", "", []kopf.PatchOperation{test("/metadata/finalizers/1", "example.com/one"), harmless}, 422, false, ""},
			{"with a test below what is not there", "a", "", []kopf.PatchOperation{test("/status/x", nil), harmless}, 422, false, ""},
			{"with a test that what is there is not", "a", "", []kopf.PatchOperation{test("/spec", nil), harmless}, 422, false, ""},
			{"that removes what is not there", "a", "", []kopf.PatchOperation{{Op: "remove", Path: "/spec/y"}}, 422, false, ""},
			{"of an object that is not there", "b", "", []kopf.PatchOperation{harmless}, 404, false, "b"},
			{"of a subresource that is not there", "a", "status", []kopf.PatchOperation{harmless}, 404, false, "a"},
			{"with a label that is none", "a", "", map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "no label!"}}}, 422, true, "a"},
			{"that merges another uid", "a", "", map[string]any{"metadata": map[string]any{"uid": "other"}}, 0, true, "a"},
			{"with tests that all hold", "a", "", []kopf.PatchOperation{test("/metadata/deletionTimestamp", nil), test("/status", nil), test("/metadata/finalizers/0", "example.com/one"),
				{Op: "remove", Path: "/metadata/finalizers/0"}, {Op: "add", Path: "/status", Value: map[string]any{"x": 1}}}, 200, false, ""},
		} {
			kind := kopf.MergePatch
			if _, ok := try.patch.([]kopf.PatchOperation); ok {
				kind = kopf.JSONPatch
			}
			_, err := c.Client.Patch(c.Context(), c.Ref(try.name), try.patch, &kopf.PatchOptions{Type: kind, Subresource: try.subresource})
			var api *kopf.APIError
			switch {
			case try.code == 200 && err == nil:
			case !errors.As(err, &api):
				c.Errorf("a patch %s: %v", try.what, err)
			case try.code == 0: // 409 or 422, depending on the kind of the object
				if api.Code != 409 && (api.Code != 422 || !slices.ContainsFunc(api.Causes, func(e kopf.ErrorCause) bool { return e.Field == "metadata.uid" })) {
					c.Errorf("a patch %s: got %d, %q with the causes %v", try.what, api.Code, api.Message, api.Causes)
				}
			case api.Code != try.code || len(api.Causes) > 0 != try.causes || api.Name != try.about:
				c.Errorf("a patch %s: got %d about %q, %q with the causes %v", try.what, api.Code, api.Name, api.Message, api.Causes)
			}
		}
		if b := c.Get("a"); len(b.Finalizers()) > 0 || b.Status().Int("x") != 1 {
			c.Errorf("got the object %s", b.LogValue())
		}
	})
}

func mistakenRefusals(t *testing.T, c *C) {
	refusals := map[string]func() *http.Response{
		"404 about something else": func() *http.Response { return denied(404, "NotFound", `configmaps "y" not found`) },
		"404 about the object":     func() *http.Response { return missing("a") },
		"404 of a kind":            func() *http.Response { return denied(404, "NotFound", "could not find the requested resource") },
		"403 that names the uid":   func() *http.Response { return denied(403, "Forbidden", "path: /metadata.uid is not in the inventory") },
		"409 that names the UID":   func() *http.Response { return denied(409, "Conflict", "the UID of the owner is not known yet") },
		"409 as the storage says it": func() *http.Response {
			return Answer(409, "Conflict", "Precondition failed: UID in precondition: 1, UID in object meta: 2")
		},
		"413 of a proxy":               func() *http.Response { return Answer(413, "RequestEntityTooLarge", "limit is 1") },
		"500 that names the field uid": func() *http.Response { return denied(500, "InternalError", "metadata.uid") },
	}
	for name, answer := range refusals {
		c.Run(t, "DF-4 an object that is refused for a minute is handled later: "+name, func(c *C) {
			c.OnlyInBubble("it takes a minute")
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(Examples, l.handler("create"), named("create"))
			r.OnUpdate(Examples, l.handler("update"), named("update"))
			r.OnDelete(Examples, l.handler("delete"), named("delete"))
			op := c.Operator(r)
			minute := time.Now().Add(time.Minute)
			op.denyPatches(func(*Request) bool { return time.Now().Before(minute) }, answer)
			c.Create("a", sized(1))
			c.Pass(10 * time.Minute)
			if _, stored := c.Get("a").Annotation(diffBase); !stored {
				c.Fatalf("ten minutes later, it is not handled; calls: %q, requests: %d", l.all(), len(op.Wire.Writes()))
			}
			if len(op.Logs.loud("a")) == 0 || len(op.Wire.Writes()) > 30 {
				c.Errorf("the log has %d lines about the refusals, and %d requests were sent", len(op.Logs.loud("a")), len(op.Wire.Writes()))
			}
			c.Patch("a", sized(2))
			c.Pass(time.Minute)
			if l.count("update") != 1 {
				c.Errorf("got the calls %q", l.all())
			}
			later := time.Now().Add(time.Minute)
			op.denyPatches(func(*Request) bool { return time.Now().Before(later) }, answer)
			c.Delete("a")
			c.Pass(10 * time.Minute)
			if c.Exists("a") || l.count("delete") != 1 {
				c.Errorf("ten minutes after its deletion, it is there: %t; calls: %q", c.Exists("a"), l.all())
			}
		})
	}
	c.Run(t, "DF-4 a newer event of an object that was taken for gone has it handled", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		op := c.Operator(r)
		var once, confirmed atomic.Bool
		op.Wire.Fault(func(req *Request) (*http.Response, error) { // as a server that was restored from a backup would
			if req.Method == http.MethodPatch && once.CompareAndSwap(false, true) || req.Method == http.MethodGet && strings.HasSuffix(req.Path, "/a") && confirmed.CompareAndSwap(false, true) {
				return missing("a"), nil
			}
			return nil, nil
		})
		c.Create("a", sized(1))
		c.WaitFor("the line", func() bool { return len(op.Logs.Find("because the object is gone")) == 1 })
		if !confirmed.Load() {
			c.Error("the object was not asked for")
		}
		c.Patch("a", sized(2))
		c.handled("a")
	})
	c.Run(t, "DF-4 an object of a kind that is not served for a minute is not gone", func(c *C) {
		c.OnlyInBubble("it takes a minute")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		op := c.Operator(r)
		minute := time.Now().Add(time.Minute)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if strings.HasSuffix(req.Path, "/a") && time.Now().Before(minute) {
				return Answer(404, "NotFound", "the server could not find the requested resource"), nil
			}
			return nil, nil
		})
		c.Create("a", sized(1))
		c.Pass(10 * time.Minute)
		c.handled("a")
		c.expect(&l, "create create 0")
	})
	c.Run(t, "DF-4 the patch of a timer is not lost by a refusal that names another object", func(c *C) {
		c.OnlyInBubble("it takes a minute")
		r := &kopf.Registry{}
		r.OnTimer(Examples, func(_ context.Context, tm *kopf.Timer) error {
			tm.Patch.Set("status.ticked", true)
			return nil
		}, &kopf.TimerOptions{ID: "tick", Idle: time.Second})
		op := c.Operator(r)
		c.Create("a", nil)
		c.Pass(500 * time.Millisecond)
		minute := time.Now().Add(time.Minute)
		op.denyPatches(func(*Request) bool { return time.Now().Before(minute) }, refusals["404 about something else"])
		c.Pass(10 * time.Minute)
		if !c.Get("a").Status().Bool("ticked") {
			c.Error("ten minutes later, what the timer has set is not there")
		}
	})
	c.Run(t, "CH-187 the patch of an object that has a namesake by now is dropped, and is not taken for a bad one", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("create")
			if l.count("create") == 1 { // the operator does not see it before its patch
				c.Delete("a")
				c.Create("a", nil)
			}
			return nil
		}, named("create"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.expect(&l, "create", "create") // for a while before the second one, there is no object
		c.handled("a")
		op.waitLogged(c, "Dropping changes, because the object is gone")
		if got := warned(op, ""); len(got) > 0 {
			c.Errorf("it warns of %v", got)
		}
	})
	c.Run(t, "DF-36 a namesake is not taken for the object that is asked for", func(c *C) {
		c.OnlyInBubble("the stream is held up")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("create %d", ch.Spec().Int("x"))
			ch.Patch.Set("status.x", ch.Spec().Int("x"))
			return nil
		}, named("create"))
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("update %d", ch.Spec().Int("x"))
			return nil
		}, named("update"))
		op := c.Operator(r)
		var down, held atomic.Bool
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if down.Load() && strings.Contains(req.Path, "kopfexamples?") {
				return nil, errCut
			}
			if held.Load() && req.Method == http.MethodPatch && held.CompareAndSwap(true, false) {
				down.Store(true) // from now on, the stream shows nothing
				op.Wire.Drop()
			}
			return nil, nil
		})
		c.Create("a", sized(1))
		c.handled("a")
		c.Pass(time.Minute)
		held.Store(true)
		c.Patch("a", sized(2))
		c.Pass(time.Second)
		c.Delete("a")
		c.Create("a", sized(3))
		c.Pass(10 * time.Minute)
		if got := l.all(); !slices.Equal(got, []string{"create 1", "update 2"}) {
			c.Errorf("while the stream is down, the calls are %q", got)
		}
		down.Store(false)
		c.Pass(10 * time.Minute)
		if got := l.all(); !slices.Equal(got, []string{"create 1", "update 2", "create 3"}) || c.Get("a").Status().Int("x") != 3 {
			c.Errorf("got the calls %q, and the object %s", got, c.Get("a").LogValue())
		}
	})
}

// missing is the response of the API server about a missing object.
func missing(name string) *http.Response { return notFound("kopfexamples", "kopf.dev", name) }

func notFound(plural, group, name string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":404,"reason":"NotFound",`+
		`"message":"%s \"%s\" not found","details":{"name":%q,"group":%q,"kind":%q}}`, strings.TrimSuffix(plural+"."+group, "."), name, name, group, plural)
	resp := Answer(http.StatusNotFound, "NotFound", "")
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return resp
}

// conditions returns a list of conditions, from types and statuses.
func conditions(pairs ...string) map[string]any {
	var all []any
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, map[string]any{"type": pairs[i], "status": pairs[i+1]})
	}
	return map[string]any{"status": map[string]any{"conditions": all}}
}

func conditionsOf(b *kopf.Body) string {
	list, _ := b.Get("status.conditions").([]any)
	var parts []string
	for _, item := range list {
		m, _ := item.(map[string]any)
		parts = append(parts, fmt.Sprint(m["type"], "=", m["status"]))
	}
	return strings.Join(parts, ",")
}

func replacedLists(t *testing.T, c *C) {
	// prepare creates an object with a status, and has the handler run once for a change of it.
	prepare := func(c *C, k *Kind, status map[string]any, handler kopf.ChangeFunc) *Running {
		s := Examples
		if k.kind == "KopfStatusExample" {
			s = statusExamples
		}
		r := &kopf.Registry{}
		r.OnCreate(s, func(context.Context, *kopf.Change) error { return nil }, named("create"))
		r.OnUpdate(s, handler, &kopf.ChangeOptions{ID: "update", Field: "spec.x"})
		k.Create("a", sized(1))
		k.setStatus(status)
		op := c.Operator(r)
		c.WaitFor("the creation", func() bool { _, ok := k.Get("a").Annotation(diffBase); return ok })
		k.Patch("a", sized(2))
		return op
	}
	settled := func(c *C, k *Kind) *kopf.Body {
		var body *kopf.Body
		c.WaitFor("the end", func() bool {
			body = k.Get("a")
			text, _ := body.Annotation(diffBase)
			return strings.Contains(text, `"x":2`)
		})
		return body
	}
	for _, kind := range []string{"KopfExample", "KopfStatusExample"} {
		c.Run(t, "DF-2 a list is replaced as a whole, though another client has inserted an item: "+kind, func(c *C) {
			k := c.Of("kopf.dev/v1", kind)
			op := prepare(c, k, conditions("Ready", "False"), func(ctx context.Context, ch *kopf.Change) error {
				k.setStatus(conditions("Theirs", "Unknown", "Ready", "False"))
				ch.Patch.Set("status.conditions", conditions("Ready", "True")["status"].(map[string]any)["conditions"])
				return nil
			})
			if got := conditionsOf(settled(c, k)); got != "Ready=True" {
				c.Errorf("got the conditions %s by the patches %q", got, patches(op))
			}
		})
		c.Run(t, "DF-2 a map that came meanwhile is merged with what a handler sets: "+kind, func(c *C) {
			k := c.Of("kopf.dev/v1", kind)
			prepare(c, k, map[string]any{"status": map[string]any{"x": 1}}, func(ctx context.Context, ch *kopf.Change) error {
				k.setStatus(map[string]any{"status": map[string]any{"deep": map[string]any{"theirs": 1}}})
				ch.Patch.Set("status.deep.ours", 2)
				return nil
			})
			if b := settled(c, k); b.Status().Int("deep.theirs") != 1 || b.Status().Int("deep.ours") != 2 {
				c.Errorf("got the status %v", b.Status().Map())
			}
		})
		for _, slow := range []bool{false, true} {
			c.Run(t, fmt.Sprintf("DF-8 what a handler sets is set, though it was so when the handler was called: %s, slow %t", kind, slow), func(c *C) {
				k := c.Of("kopf.dev/v1", kind)
				phase := func(p string) map[string]any { return map[string]any{"status": map[string]any{"phase": p}} }
				prepare(c, k, phase("Ready"), func(ctx context.Context, ch *kopf.Change) error {
					k.setStatus(phase("Broken"))
					time.Sleep(100 * time.Millisecond)
					if slow {
						c.Pass(2 * time.Second)
					}
					ch.Patch.Set("status.phase", "Ready")
					return nil
				})
				settled(c, k)
				c.Pass(time.Second)
				if got := k.Get("a").Status().String("phase"); got != "Ready" {
					c.Errorf("got the phase %q", got)
				}
			})
		}
	}
}

// setStatus changes the status of the object "a", by a merge patch.
func (k *Kind) setStatus(status map[string]any) {
	k.c.Helper()
	if k.kind == "KopfStatusExample" {
		k.PatchStatus("a", status)
	} else {
		k.Patch("a", status)
	}
}

func repeatedRefusals(t *testing.T, c *C) {
	forbidden := func(req *Request) bool { return strings.Contains(req.Body, `"forbidden":true`) }
	for _, how := range []string{"merged", "transformed"} {
		c.Run(t, "DF-9 a patch that a webhook refuses with 422 and no causes fails its handler: "+how, func(c *C) {
			var l calls
			r := &kopf.Registry{}
			r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
				l.add("create")
				if how == "merged" {
					ch.Patch.Set("spec.forbidden", true)
				} else {
					ch.Patch.Transform(func(object map[string]any) error { object["spec"] = map[string]any{"forbidden": true}; return nil })
				}
				return nil
			}, named("create"))
			op := c.Operator(r, func(op *kopf.Operator) {
				op.Connection.HTTPClient.Transport.(*Wire).Fault(func(req *Request) (*http.Response, error) {
					if forbidden(req) {
						if how == "merged" { // concurrent writes cause no conflict
							c.Patch("a", map[string]any{"status": map[string]any{"by": "others"}})
						}
						return denied(422, "Invalid", "spec.forbidden must not be set"), nil
					}
					return nil, nil
				})
			})
			c.Create("a", nil)
			c.handled("a")
			c.Pass(time.Second)
			c.expect(&l, "create")
			if n, asked := len(op.Wire.Writes()), len(op.askedFor("a")); n > 3 || asked > 2 {
				c.Errorf("got %d patches, and the object was asked for %d times: %q", n, asked, patches(op))
			}
			if lines := op.Logs.Find("failed permanently: its patch was refused"); len(lines) != 1 || lines[0].Level != slog.LevelError {
				c.Errorf("got the lines %v", lines)
			}
		})
	}
	for _, answer := range []*http.Response{
		denied(422, "Invalid", "no"), denied(409, "Conflict", "no"), denied(403, "Forbidden", "no"), denied(400, "BadRequest", "no"), Answer(413, "RequestEntityTooLarge", "no"),
	} {
		c.Run(t, fmt.Sprintf("DF-9 what the framework itself may not store is tried less and less often, and is logged: %d", answer.StatusCode), func(c *C) {
			c.OnlyInBubble("it takes an hour")
			r := &kopf.Registry{}
			r.OnCreate(Examples, ready, named("create"))
			r.OnDelete(Examples, ready, named("delete"))
			op := c.Operator(r)
			code := answer.StatusCode
			op.denyPatches(func(*Request) bool { return true }, func() *http.Response { return denied(code, "Invalid", "no") })
			c.Create("a", nil)
			c.Pass(time.Hour)
			if n, asked := len(op.Wire.Writes()), len(op.askedFor("a")); n < 8 || n > 30 || asked > n {
				c.Errorf("in an hour, %d patches were sent, and the object was asked for %d times", n, asked)
			}
			if lines := op.Logs.loud("a"); len(lines) == 0 {
				c.Error("nothing was logged")
			}
		})
	}
	c.Run(t, "DF-9 conflicts with a success in between are not told of", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		r.OnUpdate(Examples, func(_ context.Context, ch *kopf.Change) error {
			x := ch.Spec().Int("x")
			ch.Patch.Transform(func(object map[string]any) error { object["status"] = map[string]any{"x": x}; return nil })
			return nil
		}, &kopf.ChangeOptions{ID: "update", Field: "spec.x"})
		op := c.Operator(r)
		var beaten atomic.Int64
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && strings.Contains(req.Body, `"/status`) && beaten.Add(1)%2 == 1 { // in each first attempt
				c.Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"beat": fmt.Sprint(beaten.Load())}}})
			}
			return nil, nil
		})
		c.Create("a", sized(0))
		c.handled("a")
		for x := 1; x <= 8; x++ {
			c.Patch("a", sized(x))
			c.WaitFor("the status", func() bool { return c.Get("a").Status().Int("x") == int64(x) })
		}
		if lines := op.Logs.loud("a"); len(lines) > 0 || beaten.Load() < 16 {
			c.Errorf("of %d attempts, the log has %v", beaten.Load(), lines)
		}
	})
	c.Run(t, "DF-9 a transformation that always meets changes of others is repeated less and less often, and is logged", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Patch.Transform(func(object map[string]any) error { object["spec"] = map[string]any{"done": true}; return nil })
			return nil
		}, named("create"))
		op := c.Operator(r)
		var n atomic.Int64
		var always atomic.Bool
		always.Store(true)
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && always.Load() { // another client always wins the race
				_, err := c.Client.Patch(contextWithout(c.Context()), c.Ref("a"), map[string]any{"status": map[string]any{"beat": n.Add(1)}}, nil)
				return nil, err
			}
			return nil, nil
		})
		c.Create("a", nil)
		c.Pass(time.Hour)
		if n := len(op.Wire.Writes()); n < 60 || n > 200 {
			c.Errorf("%d patches were sent in an hour", n)
		}
		if n := len(op.askedFor("a")); n > len(op.Wire.Writes()) {
			c.Errorf("the object was asked for %d times", n)
		}
		if lines := op.Logs.loud("a"); len(lines) != 1 || lines[0].Attrs["conflicts"] != "5" {
			c.Errorf("got the lines %v", lines)
		}
		always.Store(false)
		c.Pass(time.Minute)
		if !c.handled("a").Spec().Bool("done") {
			c.Error("the transformation is lost")
		}
	})
}

// askedFor returns the requests for one object.
func (op *Running) askedFor(name string) (all []Request) {
	for _, req := range op.Wire.Requests(http.MethodGet) {
		if strings.HasSuffix(req.Path, "/"+name) {
			all = append(all, req)
		}
	}
	return all
}

func flushesAgain(t *testing.T, c *C) {
	const long = 2 * time.Hour
	work := func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	abrupt := func(op *kopf.Operator) { op.Settings.Queueing.ExitTimeout = 0 }
	for _, how := range []string{"a conflict", "refusals for a minute and a half"} {
		c.Run(t, "DF-12 what has finished is stored while another handler runs, after "+how, func(c *C) {
			c.OnlyInBubble("it takes hours")
			var l calls
			registry := func() *kopf.Registry {
				r := &kopf.Registry{}
				r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
					l.add("first")
					if how == "a conflict" {
						ch.Patch.Transform(func(object map[string]any) error { object["spec"] = map[string]any{"x": 1}; return nil })
						c.Patch("a", map[string]any{"status": map[string]any{"by": "others"}})
					}
					return nil
				}, named("first"))
				r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return work(ctx, long) }, named("second"))
				return r
			}
			op := c.Operator(registry(), abrupt)
			minute := time.Now().Add(90 * time.Second)
			op.denyPatches(func(*Request) bool { return how != "a conflict" && time.Now().Before(minute) }, func() *http.Response { return Answer(500, "InternalError", "oops") })
			c.Create("a", nil)
			if c.Pass(5 * time.Second); how != "a conflict" {
				c.Pass(3 * time.Minute)
			}
			if got := records(c.Get("a")); !slices.Contains(got, "first") {
				c.Errorf("of the first handler, nothing is stored, only %q", got)
			}
			if n := len(op.Wire.Writes()); n > 30 {
				c.Errorf("%d patches were sent", n)
			}
			c.Pass(30 * time.Minute)
			op.Crash()
			c.Operator(registry(), abrupt)
			c.Pass(long + time.Minute)
			if n := l.count("first"); n != 1 {
				c.Errorf("the first handler was called %d times", n)
			}
			c.handled("a")
		})
	}
	c.Run(t, "DF-12 what finishes after a flush that has failed is stored a second later, and a handler after that is called", func(c *C) {
		c.OnlyInBubble("it takes hours")
		var l calls
		r := &kopf.Registry{}
		for _, h := range []struct {
			id   kopf.HandlerID
			time time.Duration
		}{{"a", 0}, {"b", time.Minute}, {"c", time.Hour}, {"d", 0}} {
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				err := work(ctx, h.time)
				l.add("%s", h.id)
				return err
			}, named(h.id))
		}
		op := c.Operator(r)
		began := time.Now()
		op.denyPatches(func(*Request) bool { return time.Since(began) < 55*time.Second }, func() *http.Response { return Answer(403, "Forbidden", "oops") })
		c.Create("a", nil)
		c.Pass(61*time.Second + 100*time.Millisecond)
		if got := records(c.Get("a")); !slices.Contains(got, "b") || !slices.Contains(got, "a") {
			c.Errorf("a second after the second handler, there are the records %q", got)
		}
		c.Pass(2 * time.Hour)
		c.expect(&l, "a", "b", "c", "d")
		c.handled("a")
	})
	c.Run(t, "DF-12 what has finished before a pause after an error is stored while the next handler runs", func(c *C) {
		c.OnlyInBubble("it takes hours")
		r := &kopf.Registry{}
		for i, d := range []time.Duration{0, 5 * time.Second, time.Hour} {
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return work(ctx, d) }, named(kopf.HandlerID(fmt.Sprint("h", i))))
		}
		op := c.Operator(r)
		began := time.Now()
		op.denyPatches(func(*Request) bool { return time.Since(began) < 5500*time.Millisecond }, func() *http.Response { return Answer(403, "Forbidden", "oops") })
		c.Create("a", nil)
		c.Pass(8 * time.Second)
		if got := records(c.Get("a")); !slices.Contains(got, "h0") || !slices.Contains(got, "h1") {
			c.Errorf("there are the records %q", got)
		}
	})
	c.Run(t, "DF-12 a flush that fails when the last handler returns is not repeated without an end", func(c *C) {
		c.OnlyInBubble("the times are exact")
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("first"))
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return work(ctx, 2*time.Second) }, named("second"))
		op := c.Operator(r)
		began := time.Now()
		op.denyPatches(func(*Request) bool { return time.Since(began) < 40*time.Second }, func() *http.Response { // not during the shutdown, which does not wait for it
			time.Sleep(5 * time.Second) // longer than the duration of the second handler
			return Answer(403, "Forbidden", "oops")
		})
		c.Create("a", nil)
		c.Pass(time.Minute)
		if n := len(op.Logs.Find("Processing of the object failed")); n == 0 {
			c.Errorf("the handling did not end; %d patches were sent", len(op.Wire.Writes()))
		}
	})
	c.Run(t, "DF-12 what sub-handlers have done is stored while their parent runs on, after a flush that has failed", func(c *C) {
		c.OnlyInBubble("it takes hours")
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			for _, id := range []kopf.HandlerID{"one", "two"} {
				ch.Subhandler(id, func(context.Context, *kopf.Change) error { return nil }, nil)
			}
			_ = ch.Execute(ctx) // canceled by the refusal
			return work(ctx, time.Hour)
		}, named("parent"))
		op := c.Operator(r)
		minute := time.Now().Add(30 * time.Second)
		op.denyPatches(func(*Request) bool { return time.Now().Before(minute) }, func() *http.Response { return Answer(403, "Forbidden", "oops") })
		c.Create("a", nil)
		c.Pass(10 * time.Minute)
		if got := records(c.Get("a")); !slices.Contains(got, "parent.one") {
			c.Errorf("there are the records %q", got)
		}
	})
	c.Run(t, "DF-36 each handler that finishes is stored a second later, not only the first", func(c *C) {
		c.OnlyInBubble("it takes hours")
		r := &kopf.Registry{}
		times := []time.Duration{0, 10 * time.Second, time.Minute, time.Hour}
		for i, d := range times {
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error { return work(ctx, d) }, named(kopf.HandlerID(fmt.Sprint("h", i))))
		}
		c.Operator(r)
		c.Create("a", nil)
		began, end := time.Now(), 1100*time.Millisecond
		for i, d := range times[:3] {
			end += d
			c.Pass(end - time.Since(began))
			if got := c.Get("a").Annotations()[fmt.Sprint("kopf.zalando.org/h", i)]; !strings.Contains(got, `"success":true`) {
				c.Errorf("a second after the handler h%d, its record is %q", i, got)
			}
		}
	})
}

func busyDeletions(t *testing.T, c *C) {
	for _, every := range []time.Duration{100 * time.Millisecond, time.Second} {
		for _, how := range []string{"nothing", "merges", "transforms"} {
			c.Run(t, fmt.Sprintf("DF-11 an object is deleted while others write to it each %s, and its handler changes: %s", every, how), func(c *C) {
				c.OnlyInBubble("each request takes its time")
				var l calls
				r := &kopf.Registry{}
				r.OnCreate(Examples, l.handler("create"), named("create"))
				r.OnDelete(Examples, func(_ context.Context, ch *kopf.Change) error {
					l.add("delete")
					switch how {
					case "merges":
						ch.Patch.Set("status.deleted", true)
					case "transforms":
						ch.Patch.Transform(func(object map[string]any) error { object["spec"].(map[string]any)["deleted"] = true; return nil })
					}
					return nil
				}, named("delete"))
				op := c.Operator(r)
				c.Create("a", sized(1))
				c.handled("a")
				op.Wire.Fault(func(req *Request) (*http.Response, error) {
					if req.Method == http.MethodPatch {
						time.Sleep(every + every/10) // a slow webhook
					}
					return nil, nil
				})
				before := len(op.Wire.Writes())
				stop := c.writeEvery(every)
				c.Delete("a")
				c.Pass(2 * time.Minute)
				if c.Exists("a") {
					c.Errorf("two minutes after its deletion, the object is still there; calls: %q", l.all())
				}
				stop()
				if n := len(op.Wire.Writes()) - before; n > 10 {
					c.Errorf("%d patches were sent", n)
				}
				if n := l.count("delete"); n != 1 {
					c.Errorf("the handler was called %d times", n)
				}
			})
		}
	}
	c.Run(t, "DF-11 an object is deleted while others write to it as fast as they can", func(c *C) {
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, l.handler("create"), named("create"))
		r.OnDelete(Examples, func(_ context.Context, ch *kopf.Change) error {
			l.add("delete")
			ch.Patch.Set("status.deleted", true)
			return nil
		}, named("delete"))
		op := c.Operator(r)
		c.Create("a", sized(1))
		c.handled("a")
		before := len(op.Wire.Writes())
		for range 4 {
			defer c.writeEvery(time.Millisecond)()
		}
		c.Delete("a")
		c.gone("a")
		if n := len(op.Wire.Writes()) - before; n > 10 || l.count("delete") != 1 {
			c.Errorf("%d patches were sent, and the calls are %q", n, l.all())
		}
	})
	c.Run(t, "DF-11 the finalizer goes from among those of others, who change theirs meanwhile", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		r.OnDelete(Examples, ready, named("delete"))
		op := c.Operator(r)
		finalizers := func(all ...any) map[string]any { return map[string]any{"metadata": map[string]any{"finalizers": all}} }
		c.Create("a", finalizers("example.com/one", "example.com/two"))
		c.handled("a")
		var once atomic.Bool
		op.Wire.Fault(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && strings.Contains(req.Body, `/metadata/finalizers/2`) && once.CompareAndSwap(false, true) {
				_, err := c.Client.Patch(contextWithout(c.Context()), c.Ref("a"), finalizers("example.com/two", finalizer), nil)
				return nil, err
			}
			return nil, nil
		})
		c.Delete("a")
		c.WaitFor("the end of the finalizer", func() bool { return slices.Equal(c.Get("a").Finalizers(), []string{"example.com/two"}) })
		if !once.Load() {
			c.Error("no other client was quicker")
		}
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		c.gone("a")
	})
	c.Run(t, "DF-11 the finalizer is not added to an object that is deleted meanwhile, and that is no error", func(c *C) {
		r := &kopf.Registry{}
		r.OnCreate(Examples, ready, named("create"))
		r.OnDelete(Examples, ready, named("delete"))
		op := c.Operator(r, func(op *kopf.Operator) {
			var once atomic.Bool
			op.Connection.HTTPClient.Transport.(*Wire).Fault(func(req *Request) (*http.Response, error) {
				if req.Method == http.MethodPatch && once.CompareAndSwap(false, true) {
					return nil, c.Client.Delete(contextWithout(c.Context()), c.Ref("a"), nil)
				}
				return nil, nil
			})
		})
		c.Create("a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/one"}}})
		c.WaitFor("the deletion", func() bool { return c.Get("a").Deleting() })
		c.Pass(2 * time.Second)
		if got := c.Get("a").Finalizers(); !slices.Equal(got, []string{"example.com/one"}) {
			c.Errorf("got the finalizers %q", got)
		}
		if lines := op.Logs.loud("a"); len(lines) > 0 {
			c.Errorf("got the lines %v", lines)
		}
		c.Patch("a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		c.gone("a")
	})
}

// writeEvery has another client change the status of the object "a" repeatedly, until stop is called or the object is gone.
func (c *C) writeEvery(d time.Duration) (stop func()) {
	var ended sync.WaitGroup
	done := make(chan struct{})
	ctx := contextWithout(c.Context())
	ended.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(d):
			}
			if _, err := c.Client.Patch(ctx, c.Ref("a"), map[string]any{"status": map[string]any{"beat": n}}, nil); err != nil {
				return
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}
