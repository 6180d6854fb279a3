// Command operator is the operator that the fault bench runs, disconnects, and kills. Its handlers use many features, fail at random, and record each call
// in a journal. With the argument "credential" it is the credential plugin of its own kubeconfig.
package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/chaos/journal"
)

func main() {
	dir := os.Getenv("CHAOS_DIR")
	if len(os.Args) > 1 && os.Args[1] == "credential" {
		credential(dir)
		return
	}
	run, _ := strconv.Atoi(os.Getenv("CHAOS_RUN"))
	book, err := journal.NewWriter(os.Getenv("CHAOS_JOURNAL"), run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	seed := os.Getenv("CHAOS_SEED")
	o := &operator{dir: dir, book: book, seed: seed, run: run, families: strings.Split(os.Getenv("CHAOS_FAMILIES"), ","),
		mine: &mine{book: book, seed: seed, calm: calmFile(dir)}, daemons: map[string]bool{}, seen: map[string]int64{}}
	if os.Getenv("CHAOS_ROLE") == "tenant" {
		o.registerTenant()
	} else {
		o.register()
		o.registerGardens()
	}
	kopf.Main()
}

// credential prints the credentials that the bench provides, or fails if the bench requests that.
func credential(dir string) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "credentials.sock"))
	}}}
	resp, err := client.Get("http://bench/credential")
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	if err == nil {
		_, err = io.Copy(os.Stdout, resp.Body)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// kind is the handled kind, in its preferred version.
const kind = "widgets.chaos.example.com"

type operator struct {
	dir, seed string
	run       int      // the number of this process
	families  []string // the tested families of faults
	book      *journal.Writer
	mine      *mine
	holder    kopf.HandlerArgument
	colors    *kopf.Index[string, string]

	mu      sync.Mutex // guards all below
	fence   uint64     // of the term, 0 without the Lease
	calls   int64
	tickets int64
	daemons map[string]bool  // the objects with a running daemon
	seen    map[string]int64 // the latest values of the objects in the event handler
}

func (o *operator) has(family string) bool { return slices.Contains(o.families, family) }

func (o *operator) register() {
	kopf.OnStartup(o.startup, nil)
	kopf.OnStartup(o.open, &kopf.ActivityOptions{ID: "open"})
	kopf.OnStartedLeading(o.led(journal.Leading), nil)
	kopf.OnStoppedLeading(o.led(journal.Standing), nil)
	o.colors = kopf.OnIndex(kind, o.color, nil)
	kopf.OnEvent(kind, o.watch, nil)
	kopf.OnCreate(kind, o.handler("make", o.create), &kopf.ChangeOptions{ID: "make", Backoff: 300 * time.Millisecond})
	kopf.OnCreate(kind, o.handler("fragile", nil), &kopf.ChangeOptions{ID: "fragile", Backoff: 200 * time.Millisecond, Retries: 3})
	kopf.OnUpdate(kind, o.handler("picky", nil), &kopf.ChangeOptions{ID: "picky", Backoff: 300 * time.Millisecond, When: o.chosen})
	kopf.OnUpdate(kind, o.handler("change", o.create), &kopf.ChangeOptions{ID: "change", Backoff: 300 * time.Millisecond})
	kopf.OnField(kind, "spec.value", o.handler("value", nil), &kopf.ChangeOptions{ID: "value", Backoff: 300 * time.Millisecond, Interruptible: true})
	kopf.OnResume(kind, o.handler("resume", nil), &kopf.ChangeOptions{ID: "resume", Backoff: 300 * time.Millisecond, Labels: kopf.Match{"resume": "yes"}})
	kopf.OnDelete(kind, o.handler("unmake", o.remove), &kopf.ChangeOptions{ID: "unmake", Backoff: 300 * time.Millisecond})
	kopf.OnDaemon(kind, o.daemon, &kopf.DaemonOptions{ID: "daemon", Labels: kopf.Match{"daemon": "yes"}, Backoff: 500 * time.Millisecond, CancellationTimeout: 5 * time.Second})
	kopf.OnTimer(kind, o.tick, &kopf.TimerOptions{ID: "tick", Labels: kopf.Match{"timer": "yes"}, Backoff: 500 * time.Millisecond, Interval: 2 * time.Second})
}

// startup shortens the delays, so that a run of minutes has as many of them as a day.
func (o *operator) startup(_ context.Context, a *kopf.Activity) error {
	o.holder = a
	s := a.Settings
	s.Networking.RequestTimeout = 20 * time.Second
	s.Networking.ErrorBackoffs = []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}
	s.Watching.InactivityTimeout = 15 * time.Second
	s.Watching.ServerTimeout = 40 * time.Second
	s.Watching.PageSize = 50
	s.Queueing.ErrorDelays = []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}
	s.Peering.Lifetime = 10 * time.Second
	s.Background.ExitTimeout = 2 * time.Second
	s.LeaderElection.LeaseDuration, s.LeaderElection.RenewDeadline, s.LeaderElection.RetryPeriod = 9*time.Second, 6*time.Second, time.Second
	o.store(&s.Persistence)
	o.book.Write(journal.Entry{Event: journal.Started})
	return nil
}

// led records whether this process is the leader.
func (o *operator) led(event string) kopf.ActivityFunc {
	return func(_ context.Context, a *kopf.Activity) error {
		o.mu.Lock()
		o.fence = a.Fence()
		if event == journal.Standing {
			o.fence = 0
		}
		o.mu.Unlock()
		o.book.Write(journal.Entry{Event: event, Fence: a.Fence()})
		return nil
	}
}

// open starts the socket for the bench.
func (o *operator) open(context.Context, *kopf.Activity) error { return o.listen() }

// chosen is a predicate that matches all objects, and sometimes panics. After a panic, the handler does not match the object.
func (o *operator) chosen(*kopf.Change) bool {
	if o.has("storages") {
		o.mine.may(journal.PredicatePanic, predicatePanics)
	}
	return true
}

// fate is the random outcome of a call.
type fate int

const (
	succeeds fate = iota
	succeedsSlowly
	succeedsLate
	failsTemporarily
	failsForGood
	failsSomehow
	panics
)

// fate depends only on the seed and the call. It is success at the end of a run.
func (o *operator) fate(handler, uid string, value int64, retry int) fate {
	if o.mine.calm() {
		return succeeds
	}
	h := fnv.New32a()
	fmt.Fprint(h, o.seed, handler, uid, value, retry)
	switch n := h.Sum32() % 100; {
	case n < 58:
		return succeeds
	case n < 60 && handler != "daemon" && handler != "tick": // the bench does not wait for those
		return succeedsLate
	case n < 70:
		return succeedsSlowly
	case n < 82:
		return failsTemporarily
	case n < 92:
		return failsSomehow
	case n < 96:
		return panics
	}
	return failsForGood
}

// lateness is longer than the time after which an absent resource counts as removed.
const lateness = 9 * time.Second

var errChance = errors.New("so chance has it")

// meet applies a fate.
func meet(ctx context.Context, f fate) error {
	switch f {
	case succeedsSlowly:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	case succeedsLate: // ignoring its context
		time.Sleep(lateness) // the duration of the handler
	case failsTemporarily:
		return kopf.Temporary(errChance, 400*time.Millisecond)
	case failsForGood:
		return kopf.Permanent(errChance)
	case failsSomehow:
		return errChance
	case panics:
		panic(errChance)
	}
	return nil
}

// call records one call of a handler, from its start to its end.
func (o *operator) call(ctx context.Context, e journal.Entry, fn func() error) (err error) {
	o.mu.Lock()
	o.calls++
	e.Call = o.calls
	o.mu.Unlock()
	e.Event = journal.Begun
	o.book.Write(e)
	e.Event = journal.Failed
	defer func() {
		var temporary *kopf.TemporaryError
		var permanent *kopf.PermanentError
		switch {
		case errors.As(err, &temporary):
			e.Event = journal.Temporary
		case errors.As(err, &permanent):
			e.Event = journal.Permanent
		case err != nil && ctx.Err() != nil:
			e.Event = journal.Cut
		}
		o.book.Write(e)
	}()
	if err = fn(); err == nil {
		e.Event = journal.Done
	}
	return err
}

func entry(handler string, ob *kopf.Object, retry int) journal.Entry {
	return journal.Entry{Handler: handler, UID: ob.UID(), Name: ob.Name(), Retry: retry, Value: ob.Spec().Int("value"), Version: ob.Meta().String("resourceVersion"), Fence: ob.Fence()}
}

// handler returns a change handler that applies its fate after its work.
func (o *operator) handler(id string, work kopf.ChangeFunc) kopf.ChangeFunc {
	return func(ctx context.Context, c *kopf.Change) error {
		e := entry(id, &c.Object, c.Retry)
		e.Reason, e.Old = string(c.Reason), c.Old.Int("spec.value")
		if id == "value" { // for a field, it is the value itself
			e.Old = c.Old.Int("")
		}
		outcome := o.fate(id, e.UID, e.Value, c.Retry)
		e.Deaf = outcome == succeedsLate
		return o.call(ctx, e, func() error {
			if work != nil {
				if err := work(ctx, c); err != nil {
					return err
				}
			}
			c.SetResult(e.Value)
			return meet(ctx, outcome)
		})
	}
}

// create creates a child of the object, records that, and delegates the items to sub-handlers.
func (o *operator) create(ctx context.Context, c *kopf.Change) error {
	child := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": c.Name(), "namespace": c.Namespace(), "labels": map[string]any{"of": c.UID()}},
		"data": map[string]any{"value": strconv.FormatInt(c.Spec().Int("value"), 10)}}
	if err := c.Client.Apply(ctx, child, &kopf.WriteOptions{Force: true}); err != nil {
		return fmt.Errorf("the child is not made: %w", err)
	}
	o.ticket(ctx, c)
	o.book.Write(journal.Entry{Event: journal.Posted, UID: c.UID(), Name: c.Name()})
	c.PostInfo("Made", "The child is made.")
	for _, item := range c.Spec().Strings("items") {
		c.Subhandler(kopf.HandlerID(item), func(ctx context.Context, c *kopf.Change) error {
			id := string(c.Reason) // each parent handles only one reason
			e := entry(map[string]string{"create": "make/", "update": "change/"}[id]+item, &c.Object, c.Retry)
			e.Reason, e.Old = id, c.Old.Int("spec.value")
			outcome := o.fate(e.Handler, e.UID, e.Value, c.Retry)
			e.Deaf = outcome == succeedsLate
			return o.call(ctx, e, func() error { return meet(ctx, outcome) })
		}, &kopf.ChangeOptions{Backoff: 300 * time.Millisecond})
	}
	return nil
}

// ticket creates an object with a generated name, and sends a request to an extension that may be down. Neither must succeed.
func (o *operator) ticket(ctx context.Context, c *kopf.Change) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if o.has("creations") {
		o.mu.Lock()
		o.tickets++
		call := fmt.Sprintf("%d-%d", o.run, o.tickets)
		o.mu.Unlock()
		ticket := map[string]any{"apiVersion": "chaos.example.com/v1", "kind": "Ticket",
			"metadata": map[string]any{"generateName": c.Name() + "-", "namespace": c.Namespace(), "annotations": map[string]any{"chaos.example.com/call": call}}}
		if err := c.Client.Create(ctx, ticket, nil); err == nil {
			o.book.Write(journal.Entry{Event: journal.Created, UID: c.UID(), Name: c.Name(), Note: call})
		}
	}
	if o.has("extensions") && c.Spec().Int("value")%4 == 0 {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = c.Client.Get(ctx, kopf.ObjectReference{APIVersion: "extension.example.com/v1", Kind: "Thing", Namespace: c.Namespace(), Name: "thing"}, &map[string]any{}, nil)
	}
}

// remove deletes the child.
func (o *operator) remove(ctx context.Context, c *kopf.Change) error {
	err := c.Client.Delete(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.Namespace(), Name: c.Name()}, nil)
	var refused *kopf.APIError
	if errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		return nil
	}
	return err
}

// color indexes objects by color.
func (o *operator) color(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
	return map[string]string{i.Spec().String("color"): i.UID()}, nil
}

// watch keeps the latest values.
func (o *operator) watch(_ context.Context, e *kopf.WatchEvent) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Type == kopf.Deleted {
		delete(o.seen, e.UID())
	} else {
		o.seen[e.UID()] = e.Spec().Int("value")
	}
	return nil
}

// daemon runs at most once for each object.
func (o *operator) daemon(ctx context.Context, d *kopf.Daemon) error {
	e := entry("daemon", &d.Object, d.Retry)
	return o.call(ctx, e, func() error {
		o.mu.Lock()
		again := o.daemons[e.UID]
		o.daemons[e.UID] = true
		o.mu.Unlock()
		if again {
			o.book.Write(journal.Entry{Event: journal.Wrong, UID: e.UID, Name: e.Name, Note: "two daemons run for one object"})
		}
		defer func() {
			o.mu.Lock()
			delete(o.daemons, e.UID)
			o.mu.Unlock()
		}()
		for round := 0; ; round++ {
			if !d.Sleep(time.Second) {
				return nil
			}
			if err := meet(ctx, o.fate("daemon", e.UID, int64(round), d.Retry)); err != nil && !errors.As(err, new(*kopf.PermanentError)) {
				return err
			}
		}
	})
}

// tick writes to the object in one of several calls.
func (o *operator) tick(ctx context.Context, t *kopf.Timer) error {
	e := entry("tick", &t.Object, t.Retry)
	return o.call(ctx, e, func() error {
		if err := meet(ctx, o.fate("tick", e.UID, time.Now().UnixNano(), t.Retry)); err != nil && !errors.As(err, new(*kopf.PermanentError)) {
			return err
		}
		if now := time.Now().Unix(); now%5 == 0 {
			t.Patch.SetPath(now, "status", "tick")
		} else if now%5 == 1 && o.has("storages") {
			t.Patch.Transform(func(object map[string]any) error { o.transform(object, now); return nil })
		}
		return nil
	})
}

// transform sets a time in the status, and sometimes panics.
func (o *operator) transform(object map[string]any, now int64) {
	o.mine.may(journal.TransformPanic, transformPanics)
	status, ok := object["status"].(map[string]any)
	if !ok {
		status = map[string]any{}
		object["status"] = status
	}
	status["transformed"] = now
}

// census returns the state of the operator.
func (o *operator) census() *journal.Census {
	c := journal.TakeCensus()
	for color, objects := range o.colors.All(o.holder) {
		for _, uid := range objects {
			c.Colors[uid] = append(c.Colors[uid], color)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.Copy(c.Daemons, o.daemons)
	maps.Copy(c.Seen, o.seen)
	c.Fence = o.fence
	return c
}
