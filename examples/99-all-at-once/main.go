// Command 99-all-at-once combines most of the other examples in one operator.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kopf-go/kopf"
)

// sizes are the objects by the length of their lists.
var sizes *kopf.Index[int, string]

func main() {
	kopf.OnStartup(configure, nil)
	kopf.OnProbe(alive, nil)
	sizes = kopf.OnIndex("kopfexamples", index, nil)
	kopf.OnEvent("kopfexamples", see, nil)
	kopf.OnCreate("kopfexamples", create, nil)
	kopf.OnCreate("kopfexamples", retry, &kopf.ChangeOptions{Retries: 3, Backoff: time.Second})
	kopf.OnResume("kopfexamples", resume, nil)
	kopf.OnField("kopfexamples", "spec.field", field, nil)
	kopf.OnDelete("kopfexamples", remove, nil)
	kopf.OnDaemon("kopfexamples", watch, &kopf.DaemonOptions{CancellationTimeout: time.Second})
	kopf.OnTimer("kopfexamples", tick, &kopf.TimerOptions{Interval: time.Second})
	kopf.Main()
}

func configure(ctx context.Context, a *kopf.Activity) error {
	a.Settings.Posting.Level = slog.LevelDebug
	return nil
}

func alive(ctx context.Context, p *kopf.Probe) (any, error) { return time.Now().Unix(), nil }

func index(ctx context.Context, i *kopf.Indexing) (map[int]string, error) {
	return map[int]string{len(i.Spec().Strings("items")): i.Name()}, nil
}

func see(ctx context.Context, e *kopf.WatchEvent) error {
	e.Logger.Info("Something has happened.", "type", e.Type)
	return nil
}

func create(ctx context.Context, c *kopf.Change) error {
	for _, item := range c.Spec().Strings("items") {
		c.Subhandler(kopf.HandlerID(item), func(ctx context.Context, sub *kopf.Change) error {
			sub.Logger.Info("An item is handled.", "item", item)
			return nil
		}, nil)
	}
	c.PostInfo("Made", "The object is here.")
	c.SetResult(map[string]any{"message": fmt.Sprintf("%d items", len(c.Spec().Strings("items")))})
	return nil
}

func retry(ctx context.Context, c *kopf.Change) error {
	if c.Retry < 2 {
		return errors.New("not yet")
	}
	return nil
}

func resume(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("The object was here before.")
	return nil
}

func field(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("The field has changed.", "old", c.Old.String(""), "new", c.New.String(""))
	return nil
}

func remove(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("The object goes.")
	return nil
}

func watch(ctx context.Context, d *kopf.Daemon) error {
	d.Logger.Info("The object is watched.")
	<-ctx.Done()
	return nil
}

func tick(ctx context.Context, t *kopf.Timer) error {
	size := len(t.Spec().Strings("items"))
	t.Logger.Info("A tick.", "of-this-size", len(sizes.Get(t, size)))
	return nil
}
