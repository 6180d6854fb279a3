package kopf

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/cli"
	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/livepage"
)

// skipEmbedded skips a test with options that this build refuses.
func skipEmbedded(t *testing.T, args string) {
	t.Helper()
	if !embedded.Included && (strings.Contains(args, "--embedded") || strings.Contains(args, "--listen") || strings.Contains(args, "--apply")) {
		t.Skip("built without the embedded server")
	}
	if !livepage.Included && strings.Contains(args, "--page") {
		t.Skip("built without the live page")
	}
}

func TestCommand(t *testing.T) {
	tests := []struct {
		name, args     string
		code           int
		stdout, stderr string
	}{
		{name: "OP-50 help", args: "--help", stdout: "Commands:"},
		{name: "OP-50 help on run", args: "run --help", stdout: "--all-namespaces"},
		{name: "OP-50 help on run, otherwise", args: "help run", stdout: "--all-namespaces"},
		{name: "OP-50 version", args: "--version", stdout: "kopf " + Version},
		{name: "OP-43 wrong option", args: "run --nope", code: 2, stderr: `unknown flag "--nope"`},
		{name: "OP-43 wrong option without a command", args: "--nope", code: 2, stderr: `unknown flag "--nope"`},
		{name: "OP-43 wrong command", args: "fly", code: 2, stderr: `unknown command "fly": want run, freeze, resume, `},
		{name: "OP-50 help on freeze", args: "freeze --help", stdout: "--lifetime DURATION"},
		{name: "OP-50 help on resume", args: "help resume", stdout: "Usage:\n"},
		{name: "OP-43 freeze without a name", args: "freeze -t 60", code: 2, stderr: "freeze needs the name of the peering object"},
		{name: "OP-43 freeze without a time", args: "freeze -P x", code: 2, stderr: "freeze needs a duration"},
		{name: "OP-43 resume without a name", args: "resume", code: 2, stderr: "resume needs the name of the peering object"},
		{name: "OP-43 resume has no lifetime", args: "resume -P x -t 5", code: 2, stderr: `unknown flag "-t"`},
		{name: "OP-43 an unknown shell", args: "completion tcsh", code: 2, stderr: "want bash, zsh or fish"},
		{name: "completion", args: "completion bash", stdout: "complete "},
		{name: "completion of a word", args: "__complete ver", stdout: "version\t"},
		{name: "help on nothing", args: "help nosuch", code: 2, stderr: `unknown command "nosuch": want run, `},
		{name: "OP-43 missing file", args: "run --embedded --apply nope.yaml", code: 2, stderr: "--apply: "},
		{name: "OP-43 both scopes", args: "run -A -n a", code: 2, stderr: "exclude each other"},
		{name: "OP-43 bad priority", args: "run -p high", code: 2, stderr: "want a whole number"},
		{name: "OP-43 bad lifetime", args: "freeze -P x -t soon", code: 2, stderr: "want a duration"},
		{name: "OP-43 bad pattern", args: "run -n [a", code: 2, stderr: "invalid part"},
		{name: "OP-43 bad format", args: "run --log-format xml", code: 2, stderr: "want full, plain or json"},
		{name: "OP-43 bad liveness", args: "run --liveness localhost:8080", code: 2, stderr: "want a URL with http"},
		{name: "OP-43 bad address", args: "run --embedded --listen 6443", code: 2, stderr: "want an address"},
		{name: "OP-43 a path of the live page", args: "run --page -L http://127.0.0.1:18099/", code: 2, stderr: "is one of the live page"},
		{name: "OP-43 a page for all", args: "run --page -L http://0.0.0.0:18099/healthz", code: 2, stderr: "can be reached from other hosts at 0.0.0.0:18099"},
		{name: "OP-43 no token of the page", args: "run --page --page-token go.sum.none -L http://127.0.0.1:18099/healthz", code: 2, stderr: "the token of the live page: "},
		{name: "OP-43 bad version", args: "version -o yaml", code: 2, stderr: "want json"},
		{name: "OP-43 a file that is no kubeconfig", args: "resume -P x --kubeconfig cli_test.go", code: 1, stderr: "kubeconfig cli_test.go: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			skipEmbedded(t, tt.args)
			defer slog.SetDefault(slog.Default())
			var stdout, stderr bytes.Buffer
			if code := Command(t.Context(), strings.Fields(tt.args), &stdout, &stderr); code != tt.code {
				t.Errorf("code: got %d, want %d", code, tt.code)
			}
			if !strings.Contains(stdout.String(), tt.stdout) || (tt.stdout == "") != (stdout.Len() == 0) {
				t.Errorf("stdout: got %q, want %q in it", &stdout, tt.stdout)
			}
			if !strings.Contains(stderr.String(), tt.stderr) || (tt.stderr == "") != (stderr.Len() == 0) {
				t.Errorf("stderr: got %q, want %q in it", &stderr, tt.stderr)
			}
		})
	}
}

// TestMisspelledVariables checks that a variable whose name is almost right is mentioned, and no other one.
func TestMisspelledVariables(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	for name, value := range map[string]string{"LOGFORMAT": "json", "PORT": "tcp://10.0.0.1:80", "NAMESPACE": "x"} {
		t.Setenv("KOPF_RESUME_"+name, value)
		t.Setenv("KOPF_RUN_"+name, value)
	}
	var stderr bytes.Buffer
	Command(t.Context(), []string{"resume", "-P", "x", "--kubeconfig", "cli_test.go"}, io.Discard, &stderr)
	for text, want := range map[string]int{
		"variable=KOPF_RESUME_LOGFORMAT hint=\"did you mean KOPF_RESUME_LOG_FORMAT?\" help=K926": 1,
		"did you mean KOPF_RESUME_NAMESPACES?":                                                   1, "belongs to no flag": 2, "KOPF_RUN": 0, "PORT": 0,
	} {
		if got := strings.Count(stderr.String(), text); got != want {
			t.Errorf("%q: got %d times, want %d in\n%s", text, got, want, &stderr)
		}
	}
	stderr.Reset()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Command(ctx, []string{"run", "--kubeconfig", "cli_test.go"}, io.Discard, &stderr)
	if text := stderr.String(); strings.Count(text, "belongs to no flag") != 1 || !strings.Contains(text, "KOPF_RUN_LOG_FORMAT?") {
		t.Errorf("got\n%s", text)
	}
}

// TestEndedEmbeddedServer checks that the error names the kubeconfig that a killed embedded server has left.
func TestEndedEmbeddedServer(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	for name, want := range map[string]bool{"kopf.kubeconfig": true, "config": false} {
		path := filepath.Join(t.TempDir(), name)
		text := `{"clusters":[{"cluster":{"server":"http://127.0.0.1:1"},"name":"kopf"}],"contexts":[{"context":{"cluster":"kopf"},"name":"kopf"}],"current-context": "kopf"}`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"status pods", "explain pods", "resume -P x"} {
			var stderr bytes.Buffer
			code := Command(t.Context(), append(strings.Fields(command), "--kubeconfig", path), io.Discard, &stderr)
			hint := "the kubeconfig " + path + " is of an embedded server that does not run any more"
			if got := strings.Contains(stderr.String(), hint); code != 1 || got != want {
				t.Errorf("%s, %s: got %d, %s", name, command, code, &stderr)
			}
		}
	}
}

func TestCommandStandardInput(t *testing.T) {
	skipEmbedded(t, "--embedded")
	defer slog.SetDefault(slog.Default())
	t.Chdir(t.TempDir())
	var stdout, stderr bytes.Buffer
	c := &command{stdout: &stdout, stderr: &stderr, stdin: strings.NewReader("kind: Thing\nmetadata: {name: one}")}
	if code := c.execute(t.Context(), []string{"run", "--embedded", "--apply", "-"}); code != 1 || stdout.Len() > 0 {
		t.Errorf("got the exit code %d and the output %q", code, &stdout)
	}
	if want := `Operator has failed: standard input: manifest of the Thing "one": apiVersion is missing`; !strings.Contains(stderr.String(), want) {
		t.Errorf("got %q, want %q in it", &stderr, want)
	}
}

// endOn ends a context when a text is written in one piece.
type endOn struct {
	bytes.Buffer
	text string
	end  func()
}

func (w *endOn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		w.end()
	}
	return w.Buffer.Write(p)
}

// TestEmbeddedAddress checks that the log has the address of the embedded server for other clients.
func TestEmbeddedAddress(t *testing.T) {
	skipEmbedded(t, "--embedded")
	defer slog.SetDefault(slog.Default())
	defer SetDefaultRegistry(DefaultRegistry())
	SetDefaultRegistry(&Registry{})
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stderr := &endOn{text: "Operator started", end: cancel}
	if code := Command(ctx, []string{"run", "--embedded", "--no-log-prefix"}, io.Discard, stderr); code != 0 {
		t.Fatalf("got the exit code %d\n%s", code, stderr)
	}
	_, address, _ := strings.Cut(stderr.String(), " server=")
	address, _, _ = strings.Cut(address, "\n")
	if want := "Operator started  version=" + Version + " server=" + address + " "; !strings.HasPrefix(address, "http://127.0.0.1:") || !strings.Contains(stderr.String(), want) {
		t.Errorf("want %q in\n%s", want, stderr)
	}
}

// TestLogOptions checks that the command line has all log formats, and passes them on unchanged.
func TestLogOptions(t *testing.T) {
	var output bytes.Buffer
	for i, format := range logFormats {
		got := logOptions(&cli.Options{LogFormat: format}, &output)
		if want := (&LogOptions{Format: LogFormat(i), Output: &output}); !cmp.Equal(want, got, cmp.AllowUnexported(bytes.Buffer{})) {
			t.Errorf("%s: got %+v", format, got)
		}
		call, err := (&cli.Line{Program: "x", Getenv: func(string) string { return "" }}).Parse(t.Context(), []string{"--log-format", format})
		if err != nil || call.LogFormat != format {
			t.Errorf("%s: got %+v, %v", format, call, err)
		}
	}
	all := &cli.Options{Verbose: true, Debug: true, Quiet: true, LogRefKey: "ref", LogPrefix: true, NoPrefix: true}
	want := &LogOptions{Verbose: true, Debug: true, Quiet: true, RefKey: "ref", Prefix: true, NoPrefix: true, Output: &output}
	if got := logOptions(all, &output); !cmp.Equal(want, got, cmp.AllowUnexported(bytes.Buffer{})) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestCompletedNamespaces checks that shell completion lists the namespaces of the cluster quickly or not at all, and runs no operator.
func TestCompletedNamespaces(t *testing.T) {
	nowhere := &ConnectionInfo{Server: "http://127.0.0.1:1"} // an address without a listener
	for _, tt := range []struct {
		name  string
		typed []string
		login func(ctx context.Context) (*ConnectionInfo, error)
		want  string
		took  time.Duration // at least
	}{
		{name: "a cluster", typed: []string{"run", "-n", "kube-"},
			want: "kube-node-lease\tA namespace of the cluster\nkube-public\tA namespace of the cluster\nkube-system\tA namespace of the cluster\n:\n"},
		{name: "the embedded server", typed: []string{"run", "--embedded", "-n", ""}, want: ":\n"},
		{name: "no cluster", typed: []string{"freeze", "--namespace="}, want: ":\n",
			login: func(context.Context) (*ConnectionInfo, error) { return nowhere, nil }},
		{name: "no login", typed: []string{"-n", ""}, want: ":\n",
			login: func(context.Context) (*ConnectionInfo, error) { return nil, Permanent(context.Canceled) }},
		{name: "a login that takes long", typed: []string{"-n", ""}, want: ":\n", took: completionTimeout,
			login: func(context.Context) (*ConnectionInfo, error) { // in a bubble
				time.Sleep(time.Minute)
				return nowhere, nil
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.typed[1] == "--embedded" {
				skipEmbedded(t, "--embedded")
			}
			before, logger := DefaultRegistry(), slog.Default()
			defer SetDefaultRegistry(before)
			synctest.Test(t, func(t *testing.T) {
				info := NewAPIServer(nil).ConnectionInfo()
				r := &Registry{}
				r.OnStartup(func(context.Context, *Activity) error {
					t.Error("a start-up handler is called")
					return nil
				}, &ActivityOptions{ID: "start"})
				r.OnLogin(func(ctx context.Context, _ *Login) (*ConnectionInfo, error) {
					if tt.login != nil {
						return tt.login(ctx)
					}
					return info, nil
				}, &ActivityOptions{ID: "login"})
				SetDefaultRegistry(r)
				var stdout, stderr bytes.Buffer
				began := time.Now()
				code := Command(t.Context(), append([]string{"__complete"}, tt.typed...), &stdout, &stderr)
				if took := time.Since(began); took < tt.took || took > completionTimeout {
					t.Errorf("it has taken %s", took)
				}
				if code != 0 || stdout.String() != tt.want || stderr.Len() > 0 {
					t.Errorf("got the exit code %d, %q and %q on stderr, want %q", code, &stdout, &stderr, tt.want)
				}
				if slog.Default() != logger {
					t.Error("it has configured the logging")
				}
				time.Sleep(2 * time.Minute) // for abandoned goroutines
			})
		})
	}
}
