package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that no decision is used after its state has become outdated: decisions about peers after a restore, about delayed handlers and
// timers, about outcomes that could not be stored, and about deletions that other clients complete.

var _ = Suite("stress_stale_states", func(t *testing.T, c *C) {
	for _, next := range []int{2000, 500} { // the former is for comparison
		c.Run(t, fmt.Sprintf("DF-30 peers are noticed after the API server was restored from a backup: version %d after 1000", next), func(c *C) {
			c.OnlyInBubble("the answers are made up")
			c.meet()
			peerings := &cannedPeerings{namespace: c.Namespace, version: 1000, records: map[string]any{"boss": rival(100, 60)}}
			var l calls
			op := c.Operator(worker(&l), as("one"), wired(peerings.answer))
			c.Pass(10 * time.Second)
			c.idles(&l, "before") // boss runs
			if len(op.Logs.Find("Pausing operations in favour of boss")) == 0 {
				c.Fatal("it does not pause")
			}
			peerings.restore(next) // the backup is from before boss, which no longer runs
			c.Pass(time.Hour)
			if len(op.Logs.Find("Resuming operations")) == 0 {
				c.Errorf("an hour after the restore, and after the end of boss, the operator pauses still; it knows no record of boss that is younger than an hour")
			}
		})
	}

	c.Run(t, "DF-6 no handler begins for an object that has gone while it waited for its turn", func(c *C) {
		c.OnlyInBubble("it takes an hour")
		var l calls
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("%s", ch.Name())
			if ch.Name() == "a" {
				time.Sleep(time.Hour)
			}
			return nil
		}, named("create"))
		c.Operator(r, maxWorkers(1))
		c.Create("a", nil)
		c.Pass(time.Second)
		c.Create("b", nil)
		c.Pass(time.Second)
		c.Delete("b")
		c.gone("b")
		c.Pass(2 * time.Hour)
		c.expect(&l, "a")
	})

	c.Run(t, "DF-12 handlers whose outcome could not be stored are not called again when the last handled state is removed", func(c *C) {
		c.OnlyInBubble("the pauses are long")
		var l calls
		var refusing atomic.Bool
		r := &kopf.Registry{}
		r.OnCreate(Examples, func(context.Context, *kopf.Change) error { l.add("create"); return nil }, named("create"))
		r.OnUpdate(Examples, func(context.Context, *kopf.Change) error { l.add("update"); return nil }, named("update"))
		c.Operator(r, func(op *kopf.Operator) { op.Settings.Networking.ErrorBackoffs = nil }, wired(func(req *Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && refusing.Load() {
				return Answer(500, "InternalError", "etcd has no leader"), nil
			}
			return nil, nil
		}))
		c.Create("a", nil)
		c.handled("a")
		c.Pass(time.Minute)
		c.expect(&l, "create")
		refusing.Store(true)
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.Pass(time.Minute)
		c.expect(&l, "create", "update")
		c.Patch("a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{diffBase: nil}}}) // the creation is handled again
		c.Pass(30 * time.Minute)
		refusing.Store(false)
		c.Pass(time.Hour)
		c.expect(&l, "create", "update", "create")
	})

	for _, slowed := range []bool{false, true} {
		c.Run(t, fmt.Sprintf("DF-7 a group that is not served holds back no other group, after one 429: %t", slowed), func(c *C) {
			c.OnlyInBubble("it takes minutes")
			c.Define(c.gadgets())
			c.gadget().Create("a", nil)
			c.Create("a", nil)
			client, wire := c.client(kopf.NetworkingSettings{RequestRate: 1000, RequestBurst: 1000})
			c.takes(client, c.Ref("a"))
			c.takes(client, c.gadget().Ref("a"))
			var once atomic.Bool
			wire.Fault(func(req *Request) (*http.Response, error) {
				switch {
				case strings.Contains(req.Path, "/kopfexamples") && once.CompareAndSwap(false, true):
					return wishing(429, "1"), nil
				case strings.Contains(req.Path, "/gadgets"):
					return Answer(503, "ServiceUnavailable", "the extension is down"), nil
				}
				return nil, nil
			})
			if slowed {
				_ = client.Get(c.Context(), c.Ref("a"), &kopf.Body{}, nil) // it gets the code 429
			} else {
				once.Store(true)
			}
			for range 8 {
				_ = client.Get(c.Context(), c.gadget().Ref("a"), &kopf.Body{}, nil)
			}
			if got := c.takes(client, c.Ref("a")); got > 5*time.Second {
				c.Errorf("a request of the group that is well has waited for %s", got)
			}
		})
	}

	for _, lag := range []time.Duration{0, 500 * time.Millisecond} {
		c.Run(t, fmt.Sprintf("DF-8 what a handler sets is set, though another client changed it meanwhile and the stream is late by %s", lag), func(c *C) {
			c.OnlyInBubble("the stream is late")
			r := &kopf.Registry{}
			r.OnUpdate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				c.Patch("a", map[string]any{"status": map[string]any{"phase": "Broken"}})
				time.Sleep(100 * time.Millisecond)
				ch.Patch.Set("status.phase", "Ready")
				return nil
			}, named("update"))
			c.Operator(r, slowly(lag, nil))
			c.Create("a", map[string]any{"status": map[string]any{"phase": "Ready"}})
			c.Pass(time.Minute)
			c.Patch("a", spec(map[string]any{"x": 1}))
			c.Pass(time.Hour)
			if got := c.Get("a").Status().String("phase"); got != "Ready" {
				c.Errorf("an hour later, the phase is %q", got)
			}
		})
	}

	c.Run(t, "DF-4 a handler of the deletion is tried again while the object ends without finalizers, as pods do", func(c *C) {
		c.OnlyInBubble("the answers are made up")
		var mu sync.Mutex
		version, annotations := 900, map[string]any{}
		body := func() string {
			data, _ := json.Marshal(map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{
				"name": "a", "namespace": c.Namespace, "uid": "u", "resourceVersion": strconv.Itoa(version), "creationTimestamp": "2020-01-01T00:00:00Z",
				"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3600, "annotations": annotations}})
			return string(data)
		}
		var l calls
		r := &kopf.Registry{}
		r.OnDelete(Examples, func(ctx context.Context, ch *kopf.Change) error {
			l.add("delete")
			if ch.Retry == 0 {
				return kopf.Temporary(errors.New("not yet"), 10*time.Second)
			}
			return nil
		}, &kopf.ChangeOptions{ID: "delete", WithoutFinalizer: true})
		c.Operator(r, wired(func(req *Request) (*http.Response, error) {
			if !strings.Contains(req.Path, "/kopfexamples") {
				return nil, nil
			}
			if strings.Contains(req.Path, "watch=true") {
				for range 600 {
					mu.Lock()
					if !strings.Contains(req.Path, fmt.Sprintf("resourceVersion=%d", version)) {
						defer mu.Unlock()
						return document(`{"type":"MODIFIED","object":` + body() + "}\n"), nil
					}
					mu.Unlock()
					time.Sleep(100 * time.Millisecond)
				}
				return document(""), nil
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case req.Method == http.MethodPatch:
				var patch struct {
					Metadata struct{ Annotations map[string]any }
				}
				if err := json.Unmarshal([]byte(req.Body), &patch); err != nil {
					return nil, err
				}
				for k, v := range patch.Metadata.Annotations {
					if annotations[k] = v; v == nil {
						delete(annotations, k)
					}
				}
				version++
				return document(body()), nil
			case strings.Contains(req.Path, "/kopfexamples/"):
				return document(body()), nil
			}
			return document(fmt.Sprintf(`{"kind":"KopfExampleList","apiVersion":"kopf.dev/v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, body())), nil
		}))
		c.Pass(10 * time.Minute)
		c.expect(&l, "delete", "delete")
	})

	c.Run(t, "DF-3 a peering object that comes again while its namespace is asked for is judged at once", func(c *C) {
		c.OnlyInBubble("it takes minutes")
		k := c.meet()
		var l calls
		var slow atomic.Bool
		var asked atomic.Int64
		c.Operator(worker(&l), as("one"), mandatory, wired(func(req *Request) (*http.Response, error) {
			if slow.Load() && strings.HasPrefix(req.Path, "/api/v1/namespaces?fieldSelector=metadata.name") {
				asked.Add(1)
				time.Sleep(3 * time.Second)
			}
			return nil, nil
		}))
		c.Pass(2 * time.Second)
		slow.Store(true)
		own := k.Get("default").Status().Map()["one"]
		k.Delete("default")
		c.WaitFor("the question", func() bool { return asked.Load() > 0 })
		k.Create("default", map[string]any{"status": map[string]any{"one": own, "boss": rival(100, 3600)}}) // as kubectl replace --force does
		c.Pass(5 * time.Second)
		c.idles(&l, "a")
		c.Pass(30 * time.Second)
		c.idles(&l, "b")
	})

	for _, next := range []int{2000, 500} { // the former is for comparison
		c.Run(t, fmt.Sprintf("DF-30 rivals that come after the API server was restored from a backup are noticed: version %d after 1000", next), func(c *C) {
			c.OnlyInBubble("the answers are made up")
			c.meet()
			peerings := &cannedPeerings{namespace: c.Namespace, version: 1000, records: map[string]any{}}
			var l calls
			c.Operator(worker(&l), as("one"), wired(peerings.answer))
			c.Pass(10 * time.Second)
			c.works(&l, "before")
			peerings.restore(next)
			c.Pass(5 * time.Minute)
			peerings.write(map[string]any{"boss": rival(100, 36000)}) // boss starts
			c.Pass(5 * time.Minute)
			c.idles(&l, "after")
		})
	}

	for _, limit := range []int{0, 1} { // the former is for comparison
		c.Run(t, fmt.Sprintf("DF-18 what a timer could not store is stored while it waits for its turn, MaxWorkers %d", limit), func(c *C) {
			c.OnlyInBubble("it takes hours")
			var refusing atomic.Bool
			refusing.Store(true)
			r := &kopf.Registry{}
			r.OnTimer(Examples, func(ctx context.Context, t *kopf.Timer) error {
				if t.Name() == "a" && !t.Status().Bool("done") {
					t.Patch.Set("status.done", true)
				}
				return nil
			}, &kopf.TimerOptions{ID: "timer", Interval: 10 * time.Second, WithoutFinalizer: true})
			r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
				select {
				case <-ctx.Done():
				case <-time.After(3 * time.Hour):
				}
				return nil
			}, &kopf.ChangeOptions{ID: "create", When: func(ch *kopf.Change) bool { return ch.Name() == "b" }})
			c.Operator(r, maxWorkers(limit), func(op *kopf.Operator) {
				op.Settings.Networking.ErrorBackoffs = nil
				op.Settings.Queueing.ErrorDelays = []time.Duration{20 * time.Second}
			}, wired(func(req *Request) (*http.Response, error) {
				if refusing.Load() && req.Method == http.MethodPatch && strings.HasSuffix(req.Path, "/a") {
					return Answer(500, "InternalError", "etcd has no leader"), nil
				}
				return nil, nil
			}))
			c.Create("a", nil)
			c.Pass(15 * time.Second)
			c.Create("b", nil)
			c.Pass(time.Second)
			refusing.Store(false)
			c.Pass(time.Hour)
			if !c.isDone("a") {
				c.Error("an hour after the API server works again, what the timer has set is not stored")
			}
		})
	}
})

// cannedPeerings answers the requests for peering objects instead of the API server. There is one object, and its watches fail, so that an operator
// lists it repeatedly.
type cannedPeerings struct {
	namespace string
	mu        sync.Mutex
	restored  bool // from a backup: it refuses versions from before
	version   int
	records   map[string]any // the status of the object
}

// restore returns to a state without records, as after a restore from a backup.
func (p *cannedPeerings) restore(version int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restored, p.version, p.records = true, version, map[string]any{}
}

// write merges records into the status of the object. nil removes a record.
func (p *cannedPeerings) write(records map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, record := range records {
		if p.records[id] = record; record == nil {
			delete(p.records, id)
		}
	}
	p.version++
}

func (p *cannedPeerings) answer(req *Request) (*http.Response, error) {
	if !strings.Contains(req.Path, "/kopfpeerings") {
		return nil, nil
	}
	if req.Method == http.MethodPatch {
		var patch struct{ Status map[string]any }
		if err := json.Unmarshal([]byte(req.Body), &patch); err != nil {
			return nil, err
		}
		p.write(patch.Status)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	data, err := json.Marshal(map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": map[string]any{
		"name": "default", "namespace": p.namespace, "uid": "p", "resourceVersion": strconv.Itoa(p.version)}, "status": p.records})
	switch {
	case err != nil:
		return nil, err
	case req.Method == http.MethodPatch:
		return document(string(data)), nil
	case strings.Contains(req.Path, "watch=true"):
		if p.restored && strings.Contains(req.Path, "resourceVersion=10") {
			return Answer(410, "Expired", "too old resource version"), nil
		}
		return Answer(503, "ServiceUnavailable", "later"), nil
	}
	return document(fmt.Sprintf(`{"kind":"KopfPeeringList","apiVersion":"kopf.dev/v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, p.version, data)), nil
}
