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
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	type call struct{ stopped, hurried, exited bool }
	// after runs the guard until it has handled the signals and the timeout.
	after := func(t *testing.T, operates bool, ultimate time.Duration, beginning bool, signals ...os.Signal) (got call, stderr string) { // in a bubble
		guard := New()
		guard.Limit(ultimate)
		if operates {
			guard.Operate()
		}
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
			guard.Begin() // never blocks
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
		command   bool // the process is not an operator
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
		{name: "OB-1 first signal to a command", command: true, signals: []os.Signal{os.Interrupt}, want: call{stopped: true}},
		{name: "OB-1 second signal to a command", command: true, signals: []os.Signal{os.Interrupt, os.Interrupt}, want: call{stopped: true, exited: true}},
		{name: "OP-T4 in time", ultimate: 2 * time.Hour, signals: []os.Signal{syscall.SIGTERM}, want: call{stopped: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log.Reset()
				got, stderr := after(t, !tt.command, tt.ultimate, tt.beginning, tt.signals...)
				if got != tt.want {
					t.Errorf("got %+v, want %+v", got, tt.want)
				}
				if logged := strings.Contains(log.String(), "Operator is stopping."); logged != (len(tt.signals) > 0 && !tt.command) {
					t.Errorf("got the log %q", log.String())
				}
				if dumped := strings.Contains(stderr, "goroutine "); dumped != (tt.want.exited && tt.ultimate > 0) {
					t.Errorf("a dump of the goroutines: %t", dumped)
				}
			})
		})
	}
}
