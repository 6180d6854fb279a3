// Package examples_test builds the examples and runs them as the README says, on the API server in their own memory.
package examples_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// told is what the log of each example tells, in any order.
var told = map[string][]string{
	"01-minimal":            {"Here is a new object.", "duration=1m", "Handler 'create_fn' succeeded"},
	"02-children":           {"The child is made.", "Handler 'create' succeeded"},
	"03-exceptions":         {"this is not the time yet", "the object makes no sense", "something has gone wrong", "nobody has thought of this"},
	"04-events":             {"The events are posted.", "Handler 'create' failed temporarily: the volume is not there yet"},
	"05-handlers":           {"This is called first.", "This is called next."},
	"06-peering":            {"This operator has peers.", "Of all operators, this one handles the object.", "The guard begins."},
	"07-subhandlers":        {"item=item1 attempt=1", "item2 always needs a second attempt", "item=item2 attempt=2", "Handler 'create' succeeded"},
	"08-events":             {"An event has come.", "errors of such handlers are logged and forgotten"},
	"09-testing":            {"The item is on its way.  item=value", "Handler 'order' failed temporarily: not delivered yet"},
	"10-builtins":           {"Here is a namespace.  name=default", "Handler 'welcome' succeeded"},
	"11-filtering-handlers": {"Handler 'label_equal' succeeded", "Handler 'field_absent/spec.nosuchfield' succeeded", "Handler 'predicate' succeeded"},
	"13-hooks":              {"Settings are adjusted.", "Handler 'create' succeeded"},
	"14-daemons":            {"The object is watched.", "Listening begins.  attempt=2"},
	"15-timers":             {"A tick.  count=2", "The object rests.  field=value"},
	"16-indexing":           {"The object has company.  objects=[kopf-example-1]", "The index has an entry.  label=somevalue objects=1"},
	"99-all-at-once":        {"Something has happened.", "An item is handled.  item=item2", "Handler 'retry' succeeded", "The object is watched.", "A tick.  of-this-size=1", "Handler 'create' succeeded"},
	"17-admission":          {"Reconfiguring the validating webhook auto.kopf.dev.", "Reconfiguring the mutating webhook auto.kopf.dev."},
}

// untold is what the log must not tell.
var untold = map[string][]string{
	"11-filtering-handlers": {"label_other", "predicate_other"},
}

func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("links all examples")
	}
	folders, err := filepath.Glob("[0-9][0-9]-*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "./...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range folders {
		t.Run(name, func(t *testing.T) {
			if name == "12-embedded" {
				t.Skip("it has no command line; it is run by its own test")
			}
			if len(told[name]) == 0 {
				t.Fatal("nobody has said what the example tells")
			}
			program := filepath.Join(bin, name)
			if runtime.GOOS == "windows" {
				program += ".exe"
			}
			runExample(t, program, told[name], untold[name])
		})
	}
}

// runExample runs a program until it has told all, stops it, and looks at what it leaves.
func runExample(t *testing.T, program string, told, untold []string) {
	folder := t.TempDir()
	cmd := exec.Command(program, "run", "--embedded", "--apply", absolute(t, "crd.yaml"), "--apply", absolute(t, "obj.yaml"))
	cmd.Dir = folder
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout strings.Builder
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer deadline.Stop()
	log := until(stderr, told)
	_, kubeconfigErr := os.Stat(filepath.Join(folder, "kopf.kubeconfig"))
	stopped := cmd.Process.Signal(os.Interrupt) == nil // there is no such thing on Windows
	if !stopped {
		cmd.Process.Kill()
	}
	rest, _ := io.ReadAll(stderr) // what is missing is seen below
	log += string(rest)
	err = cmd.Wait()
	for _, phrase := range told {
		if !strings.Contains(log, phrase) {
			t.Errorf("the log does not tell %q:\n%s", phrase, log)
		}
	}
	for _, phrase := range untold {
		if strings.Contains(log, phrase) {
			t.Errorf("the log tells %q:\n%s", phrase, log)
		}
	}
	if kubeconfigErr != nil {
		t.Error(kubeconfigErr)
	}
	if !stopped {
		return
	}
	if err != nil {
		t.Errorf("the end: %v\n%s", err, log)
	}
	if want := "export KUBECONFIG=" + filepath.Join(folder, "kopf.kubeconfig") + "\n"; stdout.String() != want {
		t.Errorf("stdout: got %q, want %q", &stdout, want)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("it leaves %v behind", left)
	}
}

// until reads lines until all phrases were in them, or there are no more.
func until(r io.Reader, phrases []string) string {
	var log strings.Builder
	in := make([]byte, 1)
	line := bufio.NewWriter(&log)
	for {
		if _, err := r.Read(in); err != nil {
			break
		}
		line.WriteByte(in[0])
		if in[0] != '\n' {
			continue
		}
		line.Flush()
		missing := false
		for _, phrase := range phrases {
			missing = missing || !strings.Contains(log.String(), phrase)
		}
		if !missing {
			break
		}
	}
	line.Flush()
	return log.String()
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// TestReadme holds that the README shows the first example as it is.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("01-minimal/main.go")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`(?m)^\s*//.*\n`).ReplaceAllString(string(source), "")
	if !strings.Contains(string(readme), "```go\n"+code+"```") {
		t.Errorf("the README does not show 01-minimal without its comments:\n%s", code)
	}
	for _, file := range regexp.MustCompile(`(?:--apply|go run) (\S+)`).FindAllStringSubmatch(string(readme), -1) {
		if file[1] == "." {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", file[1])); err != nil {
			t.Errorf("a command of the README: %v", err)
		}
	}
}
