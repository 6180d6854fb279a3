// Command demo runs the first example of the README with its embedded API server, and kubectl next to it. It draws the output of both as an animated SVG.
//
//	go run ./demo ../docs/demo.svg
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./demo FILE.svg")
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := draw(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// commands are the lines in the second terminal.
var commands = []string{
	"kubectl get kopfexamples",
	"sed s/example-1/example-2/ examples/obj.yaml | kubectl apply -f -",
	"kubectl get kopfexamples",
	"go run ./examples/01-minimal explain kopfexamples kopf-example-2",
}

// operator is the command in the first terminal.
const operator = "go run ./examples/01-minimal run --embedded --apply examples/crd.yaml --apply examples/obj.yaml"

func draw(ctx context.Context, file string) error {
	bin, err := cluster.Binaries(ctx, os.Stderr)
	if err != nil {
		return err
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	r := &recording{root: root, env: append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(root, "kopf.kubeconfig"))}
	if err := r.record(ctx); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(r.svg()), 0o644)
}

// recording is the output of two terminals.
type recording struct {
	root  string
	env   []string
	mu    sync.Mutex // guards the terminals
	panes [2][]line
}

// line is one line of a terminal, with the step in which it was printed.
type line struct {
	step  int
	text  string
	typed bool
}

func (r *recording) add(pane, step int, text string, typed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.panes[pane] = append(r.panes[pane], line{step, text, typed})
}

// has reports whether the operator has printed a text.
func (r *recording) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.panes[0] {
		if strings.Contains(l.text, text) {
			return true
		}
	}
	return false
}

// record runs the operator until the commands are done.
func (r *recording) record(ctx context.Context) error {
	binary, err := r.build(ctx)
	if err != nil {
		return err
	}
	defer os.Remove(binary)
	ctx, stop := context.WithCancel(ctx)
	cmd := r.command(ctx, strings.Replace(operator, "go run ./examples/01-minimal", "exec "+binary, 1))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StderrPipe()
	if err != nil {
		stop()
		return err
	}
	r.add(0, 0, operator, true)
	if err := cmd.Start(); err != nil {
		stop()
		return err
	}
	var read sync.WaitGroup
	now := make(chan int, 1)
	now <- 0
	read.Go(func() { r.follow(out, now) })
	defer func() {
		stop()
		read.Wait()
		_ = cmd.Wait() // it was interrupted
	}()
	if err := errors.Join(r.wait(ctx, "Operator started"), r.wait(ctx, "kopf-example-1] Creation is processed")); err != nil {
		return err
	}
	for i, command := range commands {
		<-now
		now <- i + 1
		r.add(1, i+1, command, true)
		text, err := r.command(ctx, command).Output()
		if err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
		for l := range strings.Lines(string(text)) {
			r.add(1, i+1, strings.TrimRight(l, "\n"), false)
		}
		if strings.Contains(command, "apply") {
			if err := r.wait(ctx, "kopf-example-2] Creation is processed"); err != nil {
				return err
			}
		}
	}
	return nil
}

// build builds the operator, because "go run" would not pass on the signal that stops it.
func (r *recording) build(ctx context.Context) (binary string, err error) {
	file, err := os.CreateTemp("", "kopf-demo-")
	if err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	if out, err := r.command(ctx, "go build -o "+file.Name()+" ./examples/01-minimal").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the operator: %w\n%s", err, out)
	}
	return file.Name(), nil
}

func (r *recording) command(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env, cmd.WaitDelay = r.root, r.env, 10*time.Second
	return cmd
}

var prefix = regexp.MustCompile(`^\S+ \S+ \[(\w+) *\] `)

// follow records the lines of the operator's log that are about objects, and the one about its start.
func (r *recording) follow(out io.Reader, now chan int) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text := prefix.ReplaceAllString(lines.Text(), "$1 ")
		if !strings.Contains(text, "Operator started") && !strings.Contains(text, "Embedded API server") && !strings.Contains(text, "[default/") {
			continue
		}
		step := <-now
		now <- step
		text, _, _ = strings.Cut(text, "  command=")
		r.add(0, step, text, false)
	}
}

func (r *recording) wait(ctx context.Context, text string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(2 * time.Minute); !r.has(text); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("the operator has not logged %q within two minutes", text)
		}
	}
	return nil
}
