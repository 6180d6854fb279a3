// Command 13-hooks shows the handlers of the operator itself: its startup and cleanup, its login, and its probes. To see the results of the probes:
// --liveness=http://127.0.0.1:8080/healthz
package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnStartup(startup, nil)
	kopf.OnStartup(connect, nil)
	kopf.OnCleanup(cleanup, nil)
	kopf.OnLogin(login, nil)
	kopf.OnProbe(now, nil)
	kopf.OnProbe(handled, &kopf.ProbeOptions{Timeout: time.Second})
	kopf.OnCreate("kopfexamples", create, nil)
	kopf.Main()
}

// count is the number of handled objects. It is in the operator's memo. The memos of all objects start as a copy of that.
type count struct{ *atomic.Int64 }

func startup(ctx context.Context, a *kopf.Activity) error {
	a.Settings.Execution.DefaultBackoff = 10 * time.Second
	kopf.MemoOf[count](a).Int64 = new(atomic.Int64)
	a.Logger.Info("Settings are adjusted.")
	return nil
}

// connect is retried until it succeeds. The operator does nothing before that.
func connect(ctx context.Context, a *kopf.Activity) error {
	if a.Retry < 2 {
		return kopf.Temporary(errors.New("the database is still asleep"), 100*time.Millisecond)
	}
	return nil
}

func cleanup(ctx context.Context, a *kopf.Activity) error {
	a.Logger.Info("This is the end.", "handled", kopf.MemoOf[count](a).Load())
	return nil
}

// login is called at the start, when the returned credentials expire, and when the API server no longer accepts them.
func login(ctx context.Context, l *kopf.Login) (*kopf.ConnectionInfo, error) {
	info, err := kopf.LoginWithKubeconfig(ctx, l)
	if info != nil {
		info.Expiration = time.Now().Add(time.Hour)
		l.Logger.Info("Here is how to log in.", "server", info.Server)
	}
	return info, err
}

func now(ctx context.Context, p *kopf.Probe) (any, error) {
	return time.Now().Format(time.RFC3339), nil
}

func handled(ctx context.Context, p *kopf.Probe) (any, error) {
	return kopf.MemoOf[count](p).Load(), nil
}

func create(ctx context.Context, c *kopf.Change) error {
	kopf.MemoOf[count](c).Add(1)
	return nil
}
