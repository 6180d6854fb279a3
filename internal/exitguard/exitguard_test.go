package exitguard

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestExitGuard(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.DiscardHandler))
	type call struct{ stopped, hurried, exited bool }
	// after runs the guard until it has done what the signals and the time tell.
	after := func(t *testing.T, ultimate time.Duration, beginning bool, signals ...os.Signal) (got call, stderr string) {
		guard := New()
		guard.Limit(ultimate)
		ctx, stop := context.WithCancel(t.Context())
		over, done := make(chan struct{}), make(chan struct{})
		incoming := make(chan os.Signal, 3)
		var output bytes.Buffer
		go func() {
			defer close(done)
			guard.Watch(over, incoming, stop, func(int) { got.exited = true }, &output)
		}()
		if beginning {
			guard.Begin()
			guard.Begin() // never waits
		}
		for _, s := range signals {
			incoming <- s
		}
		time.Sleep(time.Hour)
		close(over)
		<-done
		got.stopped = ctx.Err() != nil
		got.hurried = guard.ForceContext().Err() != nil
		stop()
		return got, output.String()
	}
	tests := []struct {
		name      string
		ultimate  time.Duration
		beginning bool
		signals   []os.Signal
		want      call
	}{
		{name: "no signal", ultimate: time.Minute, want: call{}},
		{name: "OP-T6 first signal", signals: []os.Signal{os.Interrupt}, want: call{stopped: true}},
		{name: "OP-T6 second signal", signals: []os.Signal{os.Interrupt, syscall.SIGTERM}, want: call{stopped: true, hurried: true}},
		{name: "OP-T6 third signal", signals: []os.Signal{os.Interrupt, os.Interrupt, os.Interrupt},
			want: call{stopped: true, hurried: true, exited: true}},
		{name: "OP-42 out of time after a signal", ultimate: time.Minute, signals: []os.Signal{syscall.SIGTERM},
			want: call{stopped: true, exited: true}},
		{name: "OP-42 out of time after a failure", ultimate: time.Minute, beginning: true, want: call{exited: true}},
		{name: "OP-T4 in time", ultimate: 2 * time.Hour, signals: []os.Signal{syscall.SIGTERM}, want: call{stopped: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, stderr := after(t, tt.ultimate, tt.beginning, tt.signals...)
				if got != tt.want {
					t.Errorf("got %+v, want %+v", got, tt.want)
				}
				if dumped := strings.Contains(stderr, "goroutine "); dumped != (tt.want.exited && len(tt.signals) < 3) {
					t.Errorf("a dump of the goroutines: %t", dumped)
				}
			})
		})
	}
}

func TestSignalsOfCommands(t *testing.T) {
	for _, operates := range []bool{false, true} {
		var log bytes.Buffer
		func() {
			defer slog.SetDefault(slog.Default())
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			guard := New()
			if operates {
				guard.Limit(time.Minute)
			}
			guard.handleSignal(1, os.Interrupt, func() {}, nil)
		}()
		if got := strings.Contains(log.String(), "Operator is stopping"); got != operates {
			t.Errorf("an operator runs: %v, and the log is %q", operates, log.String())
		}
	}
}
