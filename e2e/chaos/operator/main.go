// Command operator is what the fault bench runs, cuts off, and kills. Its handlers do a little of everything, fail at random, and tell
// of each call in a journal. With the argument "credential" it is the credential plugin of its own kubeconfig.
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
	"strconv"
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
	book, err := journal.NewWriter(filepath.Join(dir, "journal"), run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	o := &operator{dir: dir, book: book, seed: os.Getenv("CHAOS_SEED"), daemons: map[string]bool{}, seen: map[string]int64{}}
	o.register()
	kopf.Main()
}

// credential prints what the bench wants the operator to log in with, or fails as it wants.
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

// kind is what the operator is for.
const kind = "widgets.v1.chaos.example.com"

type operator struct {
	dir, seed string
	book      *journal.Writer
	holder    kopf.Holder
	colors    *kopf.Index[string, string]

	mu      sync.Mutex // guards all below
	calls   int64
	daemons map[string]bool  // the objects whose daemon runs
	seen    map[string]int64 // the values of the objects as the handler of events has seen them last
}

func (o *operator) register() {
	kopf.OnStartup(o.startup, nil)
	o.colors = kopf.OnIndex(kind, o.color, nil)
	kopf.OnEvent(kind, o.watch, nil)
	kopf.OnCreate(kind, o.handler("make", o.create), &kopf.ChangeOptions{ID: "make", Backoff: 300 * time.Millisecond})
	kopf.OnCreate(kind, o.handler("fragile", nil), &kopf.ChangeOptions{ID: "fragile", Backoff: 200 * time.Millisecond, Retries: 3})
	kopf.OnUpdate(kind, o.handler("change", o.create), &kopf.ChangeOptions{ID: "change", Backoff: 300 * time.Millisecond})
	kopf.OnField(kind, "spec.value", o.handler("value", nil), &kopf.ChangeOptions{ID: "value", Backoff: 300 * time.Millisecond})
	kopf.OnResume(kind, o.handler("resume", nil), &kopf.ChangeOptions{ID: "resume", Backoff: 300 * time.Millisecond, Labels: kopf.Match{"resume": "yes"}})
	kopf.OnDelete(kind, o.handler("unmake", o.remove), &kopf.ChangeOptions{ID: "unmake", Backoff: 300 * time.Millisecond})
	kopf.OnDaemon(kind, o.daemon, &kopf.DaemonOptions{ID: "daemon", Labels: kopf.Match{"daemon": "yes"}, Backoff: 500 * time.Millisecond, CancellationTimeout: 5 * time.Second})
	kopf.OnTimer(kind, o.tick, &kopf.TimerOptions{ID: "tick", Labels: kopf.Match{"timer": "yes"}, Backoff: 500 * time.Millisecond, Interval: 2 * time.Second})
}

// startup shortens the pauses, so that a run of minutes meets as many of them as a day does.
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
	o.book.Write(journal.Entry{Event: journal.Started})
	return o.listen()
}

// fates are what becomes of a call, by chance.
type fate int

const (
	succeeds fate = iota
	succeedsSlowly
	failsTemporarily
	failsForGood
	failsSomehow
	panics
)

// fate depends on nothing but the seed and the call, and is success when the bench is to come to its end.
func (o *operator) fate(handler, uid string, value int64, retry int) fate {
	if _, err := os.Stat(filepath.Join(o.dir, "calm")); err == nil {
		return succeeds
	}
	h := fnv.New32a()
	fmt.Fprint(h, o.seed, handler, uid, value, retry)
	switch n := h.Sum32() % 100; {
	case n < 60:
		return succeeds
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

var errChance = errors.New("so chance has it")

// meet lets a fate happen.
func meet(ctx context.Context, f fate) error {
	switch f {
	case succeedsSlowly:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
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

// call writes of one call of a handler, from its beginning to its end.
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
	return journal.Entry{Handler: handler, UID: ob.UID(), Name: ob.Name(), Retry: retry, Value: ob.Spec().Int("value"), Version: ob.Meta().String("resourceVersion")}
}

// handler makes a handler of changes that meets its fate after its work.
func (o *operator) handler(id string, work kopf.ChangeFunc) kopf.ChangeFunc {
	return func(ctx context.Context, c *kopf.Change) error {
		e := entry(id, &c.Object, c.Retry)
		e.Reason = string(c.Reason)
		return o.call(ctx, e, func() error {
			if work != nil {
				if err := work(ctx, c); err != nil {
					return err
				}
			}
			c.SetResult(e.Value)
			return meet(ctx, o.fate(id, e.UID, e.Value, c.Retry))
		})
	}
}

// create makes a child of the object, says so, and leaves the items to sub-handlers.
func (o *operator) create(ctx context.Context, c *kopf.Change) error {
	child := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": c.Name(), "namespace": c.Namespace(), "labels": map[string]any{"of": c.UID()}},
		"data": map[string]any{"value": strconv.FormatInt(c.Spec().Int("value"), 10)}}
	if err := c.Client.Apply(ctx, child, &kopf.WriteOptions{Force: true}); err != nil {
		return fmt.Errorf("the child is not made: %w", err)
	}
	o.book.Write(journal.Entry{Event: journal.Posted, UID: c.UID(), Name: c.Name()})
	c.PostInfo("Made", "The child is made.")
	for _, item := range c.Spec().Strings("items") {
		c.Subhandler(kopf.HandlerID(item), func(ctx context.Context, c *kopf.Change) error {
			id := string(c.Reason) // the parents are called for one reason each
			e := entry(map[string]string{"create": "make/", "update": "change/"}[id]+item, &c.Object, c.Retry)
			e.Reason = id
			return o.call(ctx, e, func() error { return meet(ctx, o.fate(e.Handler, e.UID, e.Value, c.Retry)) })
		}, &kopf.ChangeOptions{Backoff: 300 * time.Millisecond})
	}
	return nil
}

// remove takes the child away.
func (o *operator) remove(ctx context.Context, c *kopf.Change) error {
	err := c.Client.Delete(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.Namespace(), Name: c.Name()}, nil)
	var refused *kopf.APIError
	if errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		return nil
	}
	return err
}

// color is the index by the colour of the object.
func (o *operator) color(_ context.Context, i *kopf.Indexing) (map[string]string, error) {
	return map[string]string{i.Spec().String("color"): i.UID()}, nil
}

// watch keeps what it sees.
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

// daemon is there once for each object at most.
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
			if d.Stopped.Wait(time.Second) {
				return nil
			}
			if err := meet(ctx, o.fate("daemon", e.UID, int64(round), d.Retry)); err != nil && !errors.As(err, new(*kopf.PermanentError)) {
				return err
			}
		}
	})
}

// tick writes to the object each few times.
func (o *operator) tick(ctx context.Context, t *kopf.Timer) error {
	e := entry("tick", &t.Object, t.Retry)
	return o.call(ctx, e, func() error {
		if err := meet(ctx, o.fate("tick", e.UID, time.Now().UnixNano(), t.Retry)); err != nil && !errors.As(err, new(*kopf.PermanentError)) {
			return err
		}
		if now := time.Now().Unix(); now%5 == 0 {
			t.Patch.SetPath(now, "status", "tick")
		}
		return nil
	})
}

// census is what the operator knows of itself.
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
	return c
}
