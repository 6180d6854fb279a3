package contract

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves that kopf ignores a deleted object, whatever else happens at the moment of the deletion.

var _ = Suite("change_late_events", func(t *testing.T, c *C) {
	c.Run(t, "a daemon that ends while its object goes is not started again", func(c *C) {
		c.OnlyInBubble("the two have to meet")
		var l calls
		var once sync.Once
		going := make(chan struct{})
		r := &kopf.Registry{}
		r.OnDaemon(Examples, func(ctx context.Context, d *kopf.Daemon) error {
			l.add("begins")
			select {
			case <-going:
				return nil
			case <-ctx.Done():
				l.add("stopped")
				return nil
			}
		}, &kopf.DaemonOptions{ID: "d", WithoutFinalizer: true})
		r.OnEvent(Examples, func(ctx context.Context, e *kopf.WatchEvent) error {
			if e.Type == kopf.Deleted {
				once.Do(func() { close(going) })
				time.Sleep(time.Second) // until the daemon has ended, and the operator has processed its object again
			}
			return nil
		}, watchedAs("event"))
		op := c.Operator(r)
		c.Create("a", nil)
		c.WaitFor("the daemon", func() bool { return len(l.all()) > 0 })
		c.Delete("a")
		c.Pass(time.Minute)
		op.Stop()
		c.expect(&l, "begins")
	})
})
