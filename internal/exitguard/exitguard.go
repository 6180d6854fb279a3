// Package exitguard ends a process on signals, with a time limit for its shutdown.
package exitguard

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// ExitFailure is the exit code of a failure.
const ExitFailure = 1

// Guard connects Main with its operator during shutdown. A nil guard belongs to an operator without Main.
type Guard struct {
	exiting  chan struct{}   // sent by the operator to Watch when shutdown begins
	force    context.Context // canceled by Watch: the operator must not wait for handlers any more
	hurry    context.CancelFunc
	ultimate atomic.Int64 // Settings.Process.UltimateExitingTimeout
	operates atomic.Bool  // the process runs an operator, not a command that only reads or writes something
}

// New returns a guard of a process whose shutdown has not begun.
func New() *Guard {
	g := &Guard{exiting: make(chan struct{}, 1)}
	g.force, g.hurry = context.WithCancel(context.Background())
	return g
}

// ForceContext returns a context that is canceled when shutdown must not wait any more.
func (g *Guard) ForceContext() context.Context {
	if g == nil {
		return context.Background()
	}
	return g.force
}

// Limit limits the duration of shutdown, unless the timeout is zero.
func (g *Guard) Limit(timeout time.Duration) {
	if g != nil {
		g.ultimate.Store(int64(timeout))
	}
}

// Operate records that the process runs an operator, whose shutdown takes time.
func (g *Guard) Operate() {
	if g != nil {
		g.operates.Store(true)
	}
}

// Begin reports to Watch that shutdown has begun. It never blocks.
func (g *Guard) Begin() {
	if g == nil {
		return
	}
	select {
	case g.exiting <- struct{}{}:
	default:
	}
}

// Watch handles signals until over is closed. Its parameter exit ends the process and does not return.
func (g *Guard) Watch(over <-chan struct{}, signals <-chan os.Signal, stop context.CancelFunc, exit func(code int), stderr io.Writer) {
	var ultimate <-chan time.Time
	for received := 0; ; {
		exiting := false
		select {
		case <-over:
			return
		case <-g.exiting:
			exiting = true
		case s := <-signals:
			exiting = true
			received++
			g.handleSignal(received, s, stop, exit)
		case <-ultimate:
			fmt.Fprintln(stderr, "The operator is out of time for its exit. These goroutines are still there:")
			stacks := make([]byte, 4<<20)
			_, _ = stderr.Write(stacks[:runtime.Stack(stacks, true)]) // the process ends in any case
			exit(ExitFailure)
			return
		}
		if timeout := time.Duration(g.ultimate.Load()); exiting && timeout > 0 && ultimate == nil {
			ultimate = time.After(timeout)
		}
	}
}

// handleSignal handles the first, the second or the third signal. A command that is not an operator ends silently, and on the second signal immediately.
func (g *Guard) handleSignal(number int, s os.Signal, stop context.CancelFunc, exit func(code int)) {
	if !g.operates.Load() {
		if stop(); number > 1 {
			exit(ExitFailure)
		}
		return
	}
	name := map[os.Signal]string{os.Interrupt: "SIGINT", syscall.SIGTERM: "SIGTERM"}[s]
	switch number {
	case 1:
		slog.Info("Signal " + name + " is received. Operator is stopping.")
		stop()
	case 2:
		slog.Warn("Signal "+name+" is received again. Operator does not wait for its handlers any more.", "help", "K919")
		g.hurry()
	default:
		slog.Error("Signal "+name+" is received once more. Operator exits at once.", "help", "K920")
		exit(ExitFailure)
	}
}
