package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// variant is an operator of the bench, in one of its settings.
type variant struct {
	name    string
	program string // "kopf" or "runtime"
	workers int
	writes  int // of requests for each object
	args    []string
}

// quiet has our operator log as little as the other one.
var quiet = []string{"run", "--quiet"}

var variants = []variant{
	{"kopf", "kopf", 0, 1, quiet},
	{"kopf, two writes", "kopf", 0, 2, quiet},
	{"controller-runtime, 16 workers", "runtime", 16, 1, nil},
	{"controller-runtime, 16 workers, two writes", "runtime", 16, 2, nil},
	{"controller-runtime, 1 worker", "runtime", 1, 1, nil},
}

// build compiles both operators as they would be shipped, but for ours writing profiles if wanted, and returns the folder with them.
func build(ctx context.Context, profiles string) (string, error) {
	dir, err := os.MkdirTemp("", "kopf-bench-")
	if err != nil {
		return "", err
	}
	for _, program := range []string{"kopf", "runtime"} {
		args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, program)}
		if profiles != "" {
			args = append(args, "-tags=profile")
		}
		cmd := exec.CommandContext(ctx, "go", append(args, "./operators/"+program)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("%s: %w\n%s", program, err, out)
		}
	}
	return dir, nil
}

// operator is a running operator.
type operator struct {
	cmd     *exec.Cmd
	started time.Time
	stderr  bytes.Buffer
	ended   chan struct{} // closed when it has ended
	err     error         // then: why
}

func (v variant) start(dir, kubeconfig string) (*operator, error) {
	o := &operator{cmd: exec.Command(filepath.Join(dir, v.program), v.args...), ended: make(chan struct{})}
	o.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "BENCH_WORKERS="+strconv.Itoa(v.workers), "BENCH_WRITES="+strconv.Itoa(v.writes))
	o.cmd.Stderr = &o.stderr
	o.started = time.Now()
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(o.ended)
		o.err = o.cmd.Wait()
	}()
	return o, nil
}

// stop ends the operator in good order, or at once if that takes too long.
func (o *operator) stop() error {
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		<-o.ended
		return fmt.Errorf("it has ended by itself: %w\n%s", o.err, &o.stderr)
	}
	timer := time.AfterFunc(time.Minute, o.kill)
	defer timer.Stop()
	<-o.ended
	if o.err != nil {
		return fmt.Errorf("it ended with %w\n%s", o.err, &o.stderr)
	}
	return nil
}

func (o *operator) kill() {
	_ = o.cmd.Process.Kill() // which fails if it has ended
	<-o.ended
}

// clockTick is the unit of times in /proc: USER_HZ, which is 100 on all that Go runs on.
const clockTick = 10 * time.Millisecond

// cpu returns the time that the operator has spent on processors.
func (o *operator) cpu() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", o.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick
}

// memory returns the resident memory now and at its peak, in bytes.
func (o *operator) memory() (now, peak int64) {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.cmd.Process.Pid))
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.Fields(value + " 0")[0], 10, 64)
		switch key {
		case "VmRSS":
			now = n << 10
		case "VmHWM":
			peak = n << 10
		}
	}
	return now, peak
}

// settle waits until the operator has done nothing for a while, or for too long.
func (o *operator) settle(ctx context.Context) error {
	const calm = 1500 * time.Millisecond
	last, since := time.Duration(-1), time.Now()
	for limit := time.Now().Add(5 * time.Minute); time.Now().Before(limit); {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		if o.dead() {
			return fmt.Errorf("it has ended by itself: %w\n%s", o.err, &o.stderr)
		}
		if now := o.cpu(); now > last+clockTick {
			last, since = now, time.Now()
		}
		if time.Since(since) >= calm {
			return nil
		}
	}
	return errors.New("the operator does not come to rest")
}

func (o *operator) dead() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
