package kopf

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/embedded"
)

func TestRunOptions(t *testing.T) {
	tests := []struct {
		name string
		args string
		env  map[string]string
		want runOptions
	}{
		{name: "OP-53 all namespaces", args: "-A", want: runOptions{clusterwide: true}},
		{name: "OP-53 namespaces", args: "-n a --namespace=b,!c -nd", want: runOptions{namespaces: []string{"a", "b,!c", "d"}}},
		{name: "OP-53 others", args: "--standalone --priority 5", want: runOptions{standalone: true, priority: 5}},
		{name: "OP-51 levels", args: "-v --debug -q", want: runOptions{log: LogOptions{Verbose: true, Debug: true, Quiet: true}}},
		{name: "OP-51 formats", args: "--log-format JSON --log-refkey ref --log-prefix",
			want: runOptions{log: LogOptions{Format: LogJSON, RefKey: "ref", Prefix: true}}},
		{name: "OP-51 no prefix", args: "--no-log-prefix", want: runOptions{log: LogOptions{NoPrefix: true}}},
		{name: "several letters", args: "-Avp5", want: runOptions{clusterwide: true, log: LogOptions{Verbose: true}, priority: 5}},
		{name: "the end of options", args: "-A --", want: runOptions{clusterwide: true}},
		{name: "off", args: "--standalone=no", want: runOptions{}},
		{name: "embedded", args: "--embedded --apply a --apply b --listen 127.0.0.1:1",
			want: runOptions{embedded: true, apply: []string{"a", "b"}, listen: "127.0.0.1:1"}},
		{name: "kubeconfig", args: "--kubeconfig f --context c", want: runOptions{kubeconfig: "f", context: "c"}},
		{name: "OP-58 variables", env: map[string]string{"KOPF_RUN_NAMESPACES": "a b", "KOPF_RUN_STANDALONE": "1", "KOPF_RUN_DEV": "yes",
			"KOPF_RUN_PRIORITY": "7", "KOPF_RUN_LOG_FORMAT": "plain"},
			want: runOptions{namespaces: []string{"a", "b"}, standalone: true, dev: true, priority: 7, log: LogOptions{Format: LogPlain}}},
		{name: "OP-58 options beat variables", args: "-n x --priority 1 --standalone=false",
			env:  map[string]string{"KOPF_RUN_NAMESPACES": "a b", "KOPF_RUN_PRIORITY": "7", "KOPF_RUN_STANDALONE": "true"},
			want: runOptions{namespaces: []string{"x"}, priority: 1}},
		{name: "OP-59 legacy variable", args: "-n x", env: map[string]string{"KOPF_RUN_NAMESPACE": "a b"},
			want: runOptions{namespaces: []string{"x", "a b"}}},
		{name: "OP-53 the peering", args: "-P main", want: runOptions{peering: "main"}},
		{name: "OP-58 the peering", env: map[string]string{"KOPF_RUN_PEERING": "main"}, want: runOptions{peering: "main"}},
		{name: "OP-58 the peering otherwise", env: map[string]string{"KOPF_RUN_PEERING_NAME": "main"}, want: runOptions{peering: "main"}},
		{name: "OP-T50 first spelling", env: map[string]string{"KOPF_RUN_CLUSTERWIDE": "true"}, want: runOptions{clusterwide: true}},
		{name: "OP-T50 second spelling", env: map[string]string{"KOPF_RUN_ALL_NAMESPACES": "true"}, want: runOptions{clusterwide: true}},
		{name: "OP-T50 -A beats inherited namespaces", args: "-A",
			env: map[string]string{"KOPF_RUN_NAMESPACE": "a", "KOPF_RUN_NAMESPACES": "b"}, want: runOptions{clusterwide: true}},
		{name: "OP-T50 -n beats an inherited -A", args: "-n a", env: map[string]string{"KOPF_RUN_CLUSTERWIDE": "true"},
			want: runOptions{namespaces: []string{"a"}}},
		{name: "embedded beats an inherited kubeconfig", args: "--embedded", env: map[string]string{"KOPF_RUN_KUBECONFIG": "f"},
			want: runOptions{embedded: true, kubeconfig: "f"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			skipEmbedded(t, tt.args)
			var got runOptions
			if _, err := got.parse("run", strings.Fields(tt.args), func(name string) string { return tt.env[name] }); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(runOptions{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// skipEmbedded skips a test with options that this build refuses.
func skipEmbedded(t *testing.T, args string) {
	t.Helper()
	if !embedded.Included && (strings.Contains(args, "--embedded") || strings.Contains(args, "--listen") || strings.Contains(args, "--apply")) {
		t.Skip("built without the embedded server")
	}
}

func TestRunOptionsDev(t *testing.T) {
	t.Run("OP-54 dev beats the priority", func(t *testing.T) {
		o := runOptions{dev: true, priority: 1000}
		if got := o.peeringPriority(); got != 666 {
			t.Errorf("got %d, want 666", got)
		}
	})
}

func TestRunOptionsMisused(t *testing.T) {
	tests := []struct {
		name string
		args string
		env  map[string]string
		want string
	}{
		{name: "OP-55 both scopes", args: "-A -n a", want: `not both -A and the namespaces ["a"]`},
		{name: "OP-55 both scopes by variables", env: map[string]string{"KOPF_RUN_CLUSTERWIDE": "1", "KOPF_RUN_NAMESPACE": "a"}, want: "not both"},
		{name: "unknown option", args: "--nope=1", want: `unknown option "--nope"`},
		{name: "unknown letter", args: "-Az", want: `unknown option "-z"`},
		{name: "no value", args: "--priority", want: "--priority needs a value: N"},
		{name: "no value for a letter", args: "-p", want: "-p needs a value: N"},
		{name: "empty value", args: "--namespace=", want: `option --namespace="": expected a text`},
		{name: "bad number", args: "-p high", want: `option --priority="high": expected a whole number`},
		{name: "bad boolean", args: "--dev=maybe", want: `option --dev="maybe": expected true or false`},
		{name: "bad format", args: "--log-format xml", want: `unknown log format "xml": expected full, plain or json`},
		{name: "bad variable", env: map[string]string{"KOPF_RUN_DEV": "maybe"}, want: `variable KOPF_RUN_DEV="maybe": expected true or false`},
		{name: "an argument", args: "handlers.py", want: `unexpected argument "handlers.py"`},
		{name: "apply without embedded", args: "--apply f", want: "--apply loads manifests into the embedded server"},
		{name: "listen without embedded", args: "--listen f", want: "--listen is where the embedded server listens"},
		{name: "embedded with a cluster", args: "--embedded --context c", want: "do not go together with --embedded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			skipEmbedded(t, tt.args)
			_, err := new(runOptions).parse("run", strings.Fields(tt.args), func(name string) string { return tt.env[name] })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestRunHelp(t *testing.T) {
	for command := range purposes {
		help := helpOf(command)
		for _, f := range new(runOptions).of(command) {
			if strings.Contains(help, "--"+f.Long) == f.Hidden {
				t.Errorf("the help of %s has --%s: %t", command, f.Long, f.Hidden)
			}
		}
		for line := range strings.Lines(help) {
			if len(line) > 120 {
				t.Errorf("a line of the help is too long for a terminal: %s", line)
			}
		}
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
		{name: "OP-43 wrong option", args: "run --nope", code: 2, stderr: `unknown option "--nope"`},
		{name: "OP-43 wrong option without a command", args: "--nope", code: 2, stderr: `unknown option "--nope"`},
		{name: "OP-43 wrong command", args: "fly", code: 2, stderr: `unknown command "fly": expected run, freeze, resume, completion, version or help`},
		{name: "OP-50 help on freeze", args: "freeze --help", stdout: "--lifetime SECONDS"},
		{name: "OP-50 help on resume", args: "help resume", stdout: "Usage: "},
		{name: "OP-43 freeze without a name", args: "freeze -t 60", code: 2, stderr: "freeze needs the name of the peering object"},
		{name: "OP-43 freeze without a time", args: "freeze -P x", code: 2, stderr: "freeze needs to know for how long"},
		{name: "OP-43 resume without a name", args: "resume", code: 2, stderr: "resume needs the name of the peering object"},
		{name: "OP-43 resume has no lifetime", args: "resume -P x -t 5", code: 2, stderr: `unknown option "-t"`},
		{name: "OP-43 an unknown shell", args: "completion tcsh", code: 2, stderr: "expected bash, zsh or fish"},
		{name: "completion", args: "completion bash", stdout: "complete "},
		{name: "OP-43 missing file", args: "run --embedded --apply nope.yaml", code: 1, stderr: "Operator has failed: open nope.yaml: "},
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

func FuzzRunOptions(f *testing.F) {
	f.Add("-Avp5 --namespace=a --apply x --embedded")
	f.Add("--no-log-prefix -- -")
	f.Fuzz(func(t *testing.T, line string) {
		var o runOptions
		if _, err := o.parse("run", strings.Split(line, " "), func(string) string { return "" }); err == nil && o.clusterwide && len(o.namespaces) > 0 {
			t.Errorf("%q gives both scopes", line)
		}
	})
}
