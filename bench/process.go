package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kopf-go/kopf/bench/replay"
)

// variant is an operator of the bench, with its settings.
type variant struct {
	name    string
	program string // "kopf", "runtime", "client" or "base"
	workers int
	writes  int // the number of requests for each object
	args    []string
}

// quiet has kopf log as little as the other operator.
var quiet = []string{"run", "--quiet"}

var variants = []variant{
	{"kopf", "kopf", 0, 1, quiet},
	{"kopf, two writes", "kopf", 0, 2, quiet},
	{"controller-runtime, 16 workers", "runtime", 16, 1, nil},
	{"controller-runtime, 16 workers, two writes", "runtime", 16, 2, nil},
	{"controller-runtime, 1 worker", "runtime", 1, 1, nil},
	{"requests alone", "client", 16, 1, nil}, // the lower limit of an operator
	{"requests alone, two writes", "client", 16, 2, nil},
}

// based returns variants of kopf now and at a commit.
func based(commit string) []variant {
	return []variant{variants[0], {"kopf at " + commit, "base", 0, 1, quiet}, variants[1], {"kopf at " + commit + ", two writes", "base", 0, 2, quiet}}
}

// build compiles the operators as they would be shipped, and returns their folder. Those of kopf write profiles if requested.
func build(ctx context.Context, profiles, base string) (string, error) {
	dir, err := os.MkdirTemp("", "kopf-bench-")
	if err != nil {
		return "", err
	}
	tags := []string{"-tags=noembed"} // as operators are shipped
	if profiles != "" {
		tags = []string{"-tags=noembed,profile"}
	}
	for _, program := range []string{"kopf", "runtime", "client"} {
		if err := compile(ctx, filepath.Join(dir, program), append(tags, "./operators/"+program)...); err != nil {
			return dir, err
		}
	}
	for _, program := range []string{"kopf", "runtime", "client"} {
		if err := compile(ctx, filepath.Join(dir, websitesName, program), append(tags, "./operators/websites/"+program)...); err != nil {
			return dir, err
		}
	}
	if err := compile(ctx, filepath.Join(dir, "minimal"), "-C=..", "-tags=noembed", "./examples/01-minimal"); err != nil { // as it is shipped
		return dir, err
	}
	if err := compile(ctx, filepath.Join(dir, "embedded"), "-C=..", "./examples/01-minimal"); err != nil {
		return dir, err
	}
	if base == "" {
		return dir, nil
	}
	return dir, buildBase(ctx, dir, base)
}

// compile builds a program. The arguments may begin with a folder for the build.
func compile(ctx context.Context, path string, args ...string) error {
	var folder []string
	if strings.HasPrefix(args[0], "-C") { // the go command requires it first
		folder, args = args[:1], args[1:]
	}
	args = slices.Concat([]string{"build"}, folder, []string{"-trimpath", "-ldflags=-s -w", "-o", path}, args)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", path, err, out)
	}
	return nil
}

// operator is a running operator.
type operator struct {
	cmd     *exec.Cmd
	started time.Time
	stderr  bytes.Buffer
	ended   chan struct{} // closed when it has ended
	err     error         // the result after that
}

func (v variant) start(dir, kubeconfig string, namespaces int) (*operator, error) {
	args := v.args
	if namespaces > 0 && slices.Contains(args, "run") {
		args = append(slices.Clone(args), "--namespace="+replay.Namespaces+"*")
	}
	o := &operator{cmd: exec.Command(filepath.Join(dir, v.program), args...), ended: make(chan struct{})}
	o.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "BENCH_WORKERS="+strconv.Itoa(v.workers), "BENCH_WRITES="+strconv.Itoa(v.writes), "BENCH_NAMESPACES="+strconv.Itoa(namespaces))
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

// stop shuts the operator down. It kills the operator if that takes too long.
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
	_ = o.cmd.Process.Kill() // it fails if the process has ended
	<-o.ended
}

func (o *operator) cpu() time.Duration { return cpuTime(o.cmd.Process.Pid) }

// cpuTime returns the CPU time of a process, from its clock in the kernel: /proc only has hundredths of a second.
func cpuTime(pid int) time.Duration {
	const scheduled = 2 // CPUCLOCK_SCHED, the kind of clock with nanoseconds
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
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

// calm is the time without CPU usage after which an operator counts as idle.
const calm = 2500 * time.Millisecond

// settle waits until the operator is idle, or until a timeout.
func (o *operator) settle(ctx context.Context) error {
	const noise = 10 * time.Millisecond
	last, since := time.Duration(-1), time.Now()
	for limit := time.Now().Add(5 * time.Minute); time.Now().Before(limit); {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		if o.dead() {
			return fmt.Errorf("it has ended by itself: %w\n%s", o.err, &o.stderr)
		}
		if now := o.cpu(); now > last+noise {
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
