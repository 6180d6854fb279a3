package contract

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves the messages of an operator's log, which users search for.

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var _ = SerialSuite("logging", func(t *testing.T, c *C) {
	c.Run(t, "OP-120 what is configured in a start-up handler comes too late", func(c *C) {
		before := slog.Default()
		defer slog.SetDefault(before)
		var first, second lockedBuffer
		kopf.ConfigureLogging(&kopf.LogOptions{Output: &first})
		r := &kopf.Registry{}
		r.OnStartup(func(context.Context, *kopf.Activity) error {
			kopf.ConfigureLogging(&kopf.LogOptions{Output: &second, Verbose: true})
			return nil
		}, id("startup"))
		r.OnCreate(Examples, func(_ context.Context, ch *kopf.Change) error {
			ch.Logger.Info("hello")
			return nil
		}, named("create"))
		op := c.Operator(r, func(op *kopf.Operator) { op.Logger = nil })
		c.Create("a", nil)
		c.handled("a")
		op.Stop()
		if !strings.Contains(first.String(), "hello") || strings.Contains(first.String(), "[DEBUG]") || strings.Contains(second.String(), "hello") {
			c.Errorf("the first log:\n%s\nthe second one:\n%s", &first, &second)
		}
	})
	c.Run(t, "OP-121 the phrases that alerts look for are those of the original", func(c *C) {
		c.OnlyInBubble("the delays are long")
		r := &kopf.Registry{}
		fails := func(errs ...error) kopf.ChangeFunc { return new(calls).handler("x", errs...) }
		r.OnResume(Examples, fails(), named("resume"))
		r.OnCreate(Examples, fails(kopf.Temporary(errors.New("T"), time.Second)), named("create"))
		r.OnUpdate(Examples, fails(kopf.Permanent(errors.New("P"))), named("update"))
		r.OnUpdate(Examples, fails(errors.New("A")), &kopf.ChangeOptions{ID: "again", Backoff: time.Second})
		r.OnUpdate(Examples, fails(errors.New("S")), &kopf.ChangeOptions{ID: "stops", Errors: kopf.ErrorsPermanent})
		r.OnUpdate(Examples, fails(errors.New("I")), &kopf.ChangeOptions{ID: "ignores", Errors: kopf.ErrorsIgnored})
		r.OnDelete(Examples, fails(), named("delete"))
		r.OnDaemon(Examples, func(context.Context, *kopf.Daemon) error { return nil }, &kopf.DaemonOptions{ID: "daemon"})
		r.OnTimer(Examples, func(context.Context, *kopf.Timer) error { return nil }, &kopf.TimerOptions{ID: "timer", Interval: time.Hour})
		kopf.OnIndexIn(r, Examples, func(context.Context, *kopf.Indexing) (map[string]string, error) { return nil, nil }, &kopf.IndexOptions{ID: "index"})
		r.OnStartup(func(context.Context, *kopf.Activity) error { return nil }, id("startup"))
		first := c.Operator(r)
		c.Create("a", nil)
		c.handled("a")
		first.Stop()
		op := c.Operator(r)
		c.WaitFor("the resuming", func() bool { return len(op.Logs.Find("Resuming is processed")) == 1 })
		c.Patch("a", spec(map[string]any{"x": 1}))
		c.WaitFor("the update", func() bool { return len(op.Logs.Find("Updating is processed")) == 1 })
		c.Delete("a")
		c.WaitFor("the end", func() bool { return len(op.Logs.Find("Deleted, really deleted")) == 1 })
		for phrase, want := range map[string]slog.Level{
			"Creation is in progress": slog.LevelDebug, "Updating is in progress": slog.LevelDebug, "Deletion is in progress": slog.LevelDebug, "Resuming is in progress": slog.LevelDebug,
			"Creation is processed: 1 succeeded; 0 failed": slog.LevelInfo, "Updating is processed: 2 succeeded; 2 failed": slog.LevelInfo,
			"Deletion is processed: 1 succeeded; 0 failed": slog.LevelInfo, "Handler 'create' is invoked": slog.LevelDebug, "Handler 'create' succeeded": slog.LevelInfo,
			"Handler 'create' failed temporarily": slog.LevelWarn, "Handler 'update' failed permanently": slog.LevelError,
			"Handler 'again' failed with an exception and will try again in 1": slog.LevelWarn,
			"Handler 'stops' failed with an exception and will stop now":       slog.LevelError,
			"Handler 'ignores' failed with an exception and will ignore it":    slog.LevelWarn,
			"Adding the finalizer": slog.LevelDebug, "Deleted, really deleted": slog.LevelDebug,
			"Activity 'startup' is invoked": slog.LevelDebug, "Activity 'startup' succeeded": slog.LevelInfo, "Daemon 'daemon' is invoked": slog.LevelDebug,
			"Timer 'timer' is invoked": slog.LevelDebug, "Indexer 'index' is invoked": slog.LevelDebug,
		} {
			lines := append(first.Logs.Find(phrase), op.Logs.Find(phrase)...)
			if len(lines) == 0 {
				c.Errorf("the log does not tell %q", phrase)
			} else if lines[0].Level != want {
				c.Errorf("%q has the level %s, want %s", phrase, lines[0].Level, want)
			}
		}
	})
	c.Run(t, "OP-T39 there is one default for prefixes, and objects without a name go by what it will begin with", func(c *C) {
		body := c.body(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "ns", "generateName": "web-"}})
		before := slog.Default()
		defer slog.SetDefault(before)
		for name, make := range map[string]func(o *kopf.LogOptions) *slog.Logger{
			"as the command line":   kopf.ConfigureLogging,
			"as embedded operators": func(o *kopf.LogOptions) *slog.Logger { return slog.New(kopf.NewLogHandler(o)) },
		} {
			for format, want := range map[kopf.LogFormat]string{
				kopf.LogPlain: "[ns/web-] hello\n",
				kopf.LogJSON:  `{"message":"hello","object":{"apiVersion":"v1","kind":"Pod","name":"web-","uid":"","namespace":"ns"},"severity":"info"}` + "\n",
			} {
				var b lockedBuffer
				handler := make(&kopf.LogOptions{Output: &b, Format: format}).With("object", body.Reference()).Handler()
				record := slog.NewRecord(time.Time{}, slog.LevelInfo, "hello", 0)
				if err := handler.Handle(c.Context(), record); err != nil {
					c.Fatal(err)
				}
				if got := b.String(); got != want {
					c.Errorf("%s, %s: got %s, want %s", name, format, got, want)
				}
			}
		}
	})
})
