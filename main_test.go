package kopf_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// The tests in this file run operators as processes: the test binary itself, with an environment variable. They test signals and the exit, which need
// separate processes.

// operatorVariable makes the test binary an operator; its value selects the behavior of the handler.
const operatorVariable = "KOPF_TEST_OPERATOR"

func init() {
	behaviour := os.Getenv(operatorVariable)
	if behaviour == "" {
		return
	}
	kopf.OnStartup(func(ctx context.Context, a *kopf.Activity) error {
		a.Settings.Queueing.ExitTimeout = time.Hour
		if behaviour == "endless" {
			a.Settings.Process.UltimateExitingTimeout = 100 * time.Millisecond
		}
		return nil
	}, &kopf.ActivityOptions{ID: "configure"})
	kopf.OnCleanup(func(ctx context.Context, a *kopf.Activity) error {
		a.Logger.Info("Cleaning up.")
		return nil
	}, &kopf.ActivityOptions{ID: "clean"})
	kopf.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
		c.Logger.Info("Working.")
		switch behaviour {
		case "obedient":
			<-ctx.Done()
			return ctx.Err()
		case "stubborn", "endless":
			select {}
		}
		return nil
	}, &kopf.ChangeOptions{ID: "work"})
	kopf.Main()
}

func TestSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals")
	}
	if testing.Short() {
		t.Skip("runs processes")
	}
	const first, second = "is received. Operator is stopping.", "does not wait for its handlers any more."
	tests := []struct {
		name, behaviour string
		steps           []string // lines of the log, each followed by a signal
		code            int
		log             []string // further lines of the log
		unlogged        string
	}{
		{name: "OP-36 the first signal stops", behaviour: "quick", steps: []string{"succeeded"}, log: []string{first, "Cleaning up."}},
		{name: "OP-T6 the second signal ends the waiting for handlers", behaviour: "obedient", steps: []string{"Working.", first},
			log: []string{second, "Handler 'work' was cancelled", "Cleaning up."}},
		{name: "OP-T6 the second signal does not wait for those who ignore it", behaviour: "stubborn", steps: []string{"Working.", first},
			log: []string{second, "abandoning", "Cleaning up."}},
		{name: "OP-T6 the third signal exits at once", behaviour: "stubborn", steps: []string{"Working.", first, second},
			code: 1, log: []string{"exits at once."}, unlogged: "Cleaning up."},
		{name: "OP-42 UltimateExitingTimeout limits the exit", behaviour: "endless", steps: []string{"Working."},
			code: 1, log: []string{"out of time", "goroutine "}, unlogged: "Cleaning up."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log, code := runProcess(t, tt.behaviour, tt.steps)
			if code != tt.code {
				t.Errorf("the exit code: got %d, want %d", code, tt.code)
			}
			for _, phrase := range tt.log {
				if !strings.Contains(log, phrase) {
					t.Errorf("the log does not tell %q", phrase)
				}
			}
			if tt.unlogged != "" && strings.Contains(log, tt.unlogged) {
				t.Errorf("the log tells %q", tt.unlogged)
			}
			if t.Failed() {
				t.Log(log)
			}
		})
	}
}

// runProcess runs an operator, sends it a signal after each of the steps appears in its log, and returns the log and the exit code.
func runProcess(t *testing.T, behaviour string, steps []string) (log string, code int) {
	t.Helper()
	crd, err := filepath.Abs("examples/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "run", "--embedded", "--apply", crd, "--apply", filepath.Join(filepath.Dir(crd), "obj.yaml"))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), operatorVariable+"="+behaviour)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	lines := bufio.NewReader(io.TeeReader(stderr, &output))
	for i, step := range steps {
		for line := ""; !strings.Contains(line, step); {
			if line, err = lines.ReadString('\n'); err != nil {
				t.Fatalf("the log has ended before %q:\n%s", step, &output)
			}
		}
		if err := cmd.Process.Signal([]os.Signal{syscall.SIGTERM, os.Interrupt}[i%2]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code has the result
	return output.String(), cmd.ProcessState.ExitCode()
}
