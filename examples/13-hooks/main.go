// Command 13-hooks shows the handlers of the operator itself: its start and its end, its login, and its probes. To see
// what the probes tell: --liveness=http://127.0.0.1:8080/healthz
package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnStartup(startup, nil)
	kopf.OnCleanup(cleanup, nil)
	kopf.OnLogin(login, nil)
	kopf.OnProbe(now, nil)
	kopf.OnProbe(handled, &kopf.ProbeOptions{Timeout: time.Second})
	kopf.OnCreate("kopfexamples", create, nil)
	kopf.Main()
}

func startup(ctx context.Context, a *kopf.Activity) error {
	a.Settings.Execution.DefaultBackoff = 10 * time.Second
	a.Memo().Store("count", new(atomic.Int64)) // which the memos of all objects share
	a.Logger.Info("Settings are adjusted.")
	return nil
}

func cleanup(ctx context.Context, a *kopf.Activity) error {
	a.Logger.Info("This is the end.")
	return nil
}

// login is called at the start, and whenever the API server does not accept the credentials any more.
func login(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
	l.Logger.Info("Here is how to log in.")
	return kopf.LoginWithKubeconfig(ctx, l)
}

func now(ctx context.Context, p *kopf.Probe) (any, error) {
	return time.Now().Format(time.RFC3339), nil
}

func handled(ctx context.Context, p *kopf.Probe) (any, error) {
	count, _ := p.Memo().Load("count")
	return count.(*atomic.Int64).Load(), nil
}

func create(ctx context.Context, c *kopf.Change) error {
	count, _ := c.Memo().Load("count")
	count.(*atomic.Int64).Add(1)
	return nil
}
