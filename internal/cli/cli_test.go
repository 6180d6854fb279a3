package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/manifest"
)

// parse parses space-separated arguments of a program with a name of typical length.
func parse(t testing.TB, args string, env map[string]string) (*Call, error) {
	t.Helper()
	l := &Line{
		Program: "/usr/bin/myoperator.exe", Version: "1.2.3", Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader("kind: X"),
		Namespaces: func(o *Options) []string { return []string{"default", "of-" + o.Kubeconfig + o.Context} },
	}
	return l.Parse(t.Context(), strings.Fields(args))
}

// skipEmbedded skips a test with options that this build rejects.
func skipEmbedded(t *testing.T, args string) {
	t.Helper()
	if !embedded.Included && (strings.Contains(args, "--embedded") || strings.Contains(args, "--listen") || strings.Contains(args, "--apply")) {
		t.Skip("built without the embedded server")
	}
}

func TestOptions(t *testing.T) {
	tests := []struct {
		name    string
		command string // default: run
		args    string
		env     map[string]string
		want    Options
	}{
		{name: "nothing"},
		{name: "OP-53 all namespaces", args: "-A", want: Options{Clusterwide: true}},
		{name: "OP-53 namespaces", args: "-n a --namespace=b,!c -nd", want: Options{Namespaces: []string{"a", "b,!c", "d"}}},
		{name: "OP-53 others", args: "--standalone --priority 5", want: Options{Standalone: true, Priority: 5}},
		{name: "OP-51 levels", args: "-v --debug", want: Options{Verbose: true, Debug: true}},
		{name: "OP-51 the quiet level", args: "-q", want: Options{Quiet: true}},
		{name: "OP-52 a verbose line in a quiet environment", args: "-v", env: map[string]string{"KOPF_RUN_QUIET": "1"}, want: Options{Verbose: true, Quiet: true}},
		{name: "OP-54 developers in an environment with a priority", args: "--dev", env: map[string]string{"KOPF_RUN_PRIORITY": "5"}, want: Options{Dev: true, Priority: 5}},
		{name: "a standalone line in an environment with a peering", args: "--standalone", env: map[string]string{"KOPF_RUN_PEERING": "main"}, want: Options{Standalone: true, Peering: "main"}},
		{name: "opposites that are off", args: "-v -q=false --dev=false -p 5 --standalone=false -P main", want: Options{Verbose: true, Priority: 5, Peering: "main"}},
		{name: "HA-4 the namespace of a Lease that a start-up handler names", args: "--leader-elect-namespace ops", want: Options{LeaderElectNamespace: "ops"}},
		{name: "OP-51 formats", args: "--log-format JSON --log-refkey ref --log-prefix", want: Options{LogFormat: "json", LogRefKey: "ref", LogPrefix: true}},
		{name: "OP-51 no prefix", args: "--no-log-prefix", want: Options{NoPrefix: true}},
		{name: "several letters", args: "-Avp5", want: Options{Clusterwide: true, Verbose: true, Priority: 5}},
		{name: "the end of options", args: "-A --", want: Options{Clusterwide: true}},
		{name: "off", args: "--standalone=no"},
		{name: "embedded", args: "--embedded --listen 127.0.0.1:1 --apply -",
			want: Options{Embedded: true, Apply: []string{"-"}, Listen: "127.0.0.1:1", Manifests: []manifest.File{{Path: "standard input", Data: []byte("kind: X")}}}},
		{name: "addresses", args: "--embedded --listen [::1]:0 -L http://:8080", want: Options{Embedded: true, Listen: "[::1]:0", Liveness: "http://:8080"}},
		{name: "TLS", args: "--embedded --listen https://127.0.0.1:0", want: Options{Embedded: true, Listen: "https://127.0.0.1:0"}},
		{name: "hosts", args: "--embedded --listen LocalHost:80 -L http://localhost/healthz", want: Options{Embedded: true, Listen: "LocalHost:80", Liveness: "http://localhost/healthz"}},
		{name: "empty values", args: "--liveness= --peering= --kubeconfig= --log-refkey="},
		{name: "kubeconfig", args: "--kubeconfig f --context c", want: Options{Kubeconfig: "f", Context: "c"}},
		{name: "OP-58 variables", env: map[string]string{"KOPF_RUN_NAMESPACES": "a b", "KOPF_RUN_STANDALONE": "1", "KOPF_RUN_DEV": "yes",
			"KOPF_RUN_PRIORITY": "7", "KOPF_RUN_LOG_FORMAT": "plain"},
			want: Options{Namespaces: []string{"a", "b"}, Standalone: true, Dev: true, Priority: 7, LogFormat: "plain"}},
		{name: "OP-58 options beat variables", args: "-n x --priority 1 --standalone=false",
			env:  map[string]string{"KOPF_RUN_NAMESPACES": "a b", "KOPF_RUN_PRIORITY": "7", "KOPF_RUN_STANDALONE": "true"},
			want: Options{Namespaces: []string{"x"}, Priority: 1}},
		{name: "OP-58 options beat wrong variables", args: "--priority 1", env: map[string]string{"KOPF_RUN_PRIORITY": "high"}, want: Options{Priority: 1}},
		{name: "OP-59 legacy variable", args: "-n x", env: map[string]string{"KOPF_RUN_NAMESPACE": "a,b*"}, want: Options{Namespaces: []string{"x", "a,b*"}}},
		{name: "OP-53 the peering", args: "-P main", want: Options{Peering: "main"}},
		{name: "OP-58 the peering", env: map[string]string{"KOPF_RUN_PEERING": "main"}, want: Options{Peering: "main"}},
		{name: "OP-58 the peering otherwise", env: map[string]string{"KOPF_RUN_PEERING_NAME": "main"}, want: Options{Peering: "main"}},
		{name: "OP-T50 first spelling", env: map[string]string{"KOPF_RUN_CLUSTERWIDE": "true"}, want: Options{Clusterwide: true}},
		{name: "OP-T50 second spelling", env: map[string]string{"KOPF_RUN_ALL_NAMESPACES": "true"}, want: Options{Clusterwide: true}},
		{name: "OP-T50 first spelling of the liveness", env: map[string]string{"KOPF_RUN_LIVENESS_ENDPOINT": "http://a"}, want: Options{Liveness: "http://a"}},
		{name: "OP-T50 second spelling of the liveness", env: map[string]string{"KOPF_RUN_LIVENESS": "http://a"}, want: Options{Liveness: "http://a"}},
		{name: "OP-T50 -A beats inherited namespaces", args: "-A",
			env: map[string]string{"KOPF_RUN_NAMESPACE": "a", "KOPF_RUN_NAMESPACES": "b"}, want: Options{Clusterwide: true}},
		{name: "OP-T50 -n beats an inherited -A", args: "-n a", env: map[string]string{"KOPF_RUN_CLUSTERWIDE": "true"}, want: Options{Namespaces: []string{"a"}}},
		{name: "embedded beats an inherited kubeconfig", args: "--embedded", env: map[string]string{"KOPF_RUN_KUBECONFIG": "f"},
			want: Options{Embedded: true, Kubeconfig: "f"}},
		{name: "OP-60 seconds", command: "freeze", args: "-P main -t 600 -i me -m why",
			want: Options{Peering: "main", Lifetime: 10 * time.Minute, Priority: 100, ID: "me", Message: "why"}},
		{name: "OP-60 a duration", command: "freeze", args: "-P main --lifetime 1h30m -p 7", want: Options{Peering: "main", Lifetime: 90 * time.Minute, Priority: 7}},
		{name: "OP-60 variables", command: "freeze", env: map[string]string{"KOPF_FREEZE_PEERING": "main", "KOPF_FREEZE_LIFETIME": "60", "KOPF_RUN_NAMESPACE": "a"},
			want: Options{Peering: "main", Lifetime: time.Minute, Priority: 100}},
		{name: "OP-61 variables", command: "resume", env: map[string]string{"KOPF_RESUME_PEERING": "main", "KOPF_RESUME_ID": "me"}, want: Options{Peering: "main", ID: "me"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			skipEmbedded(t, tt.args)
			if tt.command == "" {
				tt.command = "run"
			}
			got, err := parse(t, tt.command+" "+tt.args, tt.env)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Options); diff != "" || got.Command != tt.command || got.Text != "" {
				t.Errorf("got the command %q and the text %q, (-want +got)\n%s", got.Command, got.Text, diff)
			}
			if tt.command != "run" {
				return
			}
			implied, err := parse(t, tt.args, tt.env)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got.Options, implied.Options); diff != "" || implied.Command != got.Command {
				t.Errorf("without a command: got %s, (-with it +without)\n%s", implied.Command, diff)
			}
		})
	}
}

func TestDev(t *testing.T) {
	t.Run("OP-54 dev beats the priority", func(t *testing.T) {
		o := Options{Dev: true, Priority: 1000}
		if got := o.PeeringPriority(); got != 666 {
			t.Errorf("got %d, want 666", got)
		}
	})
}

func TestMisused(t *testing.T) {
	const onRun = "Run \"myoperator run --help\" for usage and examples."
	empty := t.TempDir()
	commands := "run, freeze, resume, status, explain, manifests, explain-rights, completion, version or help"
	if !embedded.Included {
		commands = "run, freeze, resume, completion, version or help"
	}
	const duration = "want a duration such as 90s, 10m or 1h30m, or a number of seconds"
	tests := []struct {
		name, args string
		env        map[string]string
		want       string
		hint       string // default: onRun
	}{
		{name: "OP-55 both scopes", args: "run -A -n a", want: `-A, --all-namespaces and the namespaces ["a"] exclude each other: use one of them`},
		{name: "OP-55 both scopes by variables", args: "run", env: map[string]string{"KOPF_RUN_CLUSTERWIDE": "1", "KOPF_RUN_NAMESPACE": "a"},
			want: `-A, --all-namespaces and the namespaces ["a"] exclude each other: use one of them`},
		{name: "OP-52 quiet and verbose", args: "-v -q", want: "-q, --quiet excludes -v, --verbose and -d, --debug: use one of them"},
		{name: "OP-52 quiet and debugging", args: "freeze -P x -t 60 -qd", want: "-q, --quiet excludes -v, --verbose and -d, --debug: use one of them",
			hint: `Run "myoperator freeze --help" for usage and examples.`},
		{name: "OP-54 two priorities", args: "--dev --priority 5", want: "--dev is a priority of its own, and excludes -p, --priority: use one of them"},
		{name: "two words about peers", args: "--standalone --peering x", want: "--standalone ignores other operators, and excludes -P, --peering: use one of them"},
		{name: "HA-4 a boolean for the name of the Lease", args: "--leader-elect=True",
			want: `invalid value "True" for --leader-elect: want the name of the Lease that all replicas share, not true or false; leave the flag out for no election`},
		{name: "HA-4 a number for the name of the Lease", args: "run", env: map[string]string{"KOPF_RUN_LEADER_ELECT": "1"},
			want: `invalid value "1" for the environment variable KOPF_RUN_LEADER_ELECT: want the name of the Lease that all replicas share, not true or false; leave the flag out for no election`},
		{name: "HA-4 an option for the name of the Lease", args: "--leader-elect --verbose",
			want: `flag --leader-elect needs a value: NAME; "--verbose" is another flag, unless you write --leader-elect=--verbose`},
		{name: "HA-4 a long name of a Lease", args: "--leader-elect " + strings.Repeat("a", 254),
			want: `invalid value "` + strings.Repeat("a", 254) + `" for --leader-elect: want the name of a Lease: at most 253 lower-case letters, digits, "-" and "."; leave the flag out for no election`},
		{name: "HA-4 a long name of a namespace", args: "--leader-elect-namespace " + strings.Repeat("a", 64),
			want: `invalid value "` + strings.Repeat("a", 64) + `" for --leader-elect-namespace: want the name of a namespace: at most 63 lower-case letters, digits and "-"`},
		{name: "unknown command", args: "fly", want: `unknown command "fly": want ` + commands, hint: `Run "myoperator help" for the commands.`},
		{name: "nearly a command", args: "runn -A", want: `unknown command "runn": did you mean "run"?`, hint: `Run "myoperator help" for the commands.`},
		{name: "unknown option", args: "--nope=1", want: `unknown flag "--nope"`},
		{name: "nearly an option", args: "--verbos", want: `unknown flag "--verbos": did you mean "--verbose"?`},
		{name: "the beginning of options", args: "run --log", want: `unknown flag "--log": did you mean "--log-format", "--log-refkey" or "--log-prefix"?`},
		{name: "an option of another command", args: "resume -P x -t 5", want: `unknown flag "-t"`, hint: `Run "myoperator resume --help" for usage and examples.`},
		{name: "unknown letter", args: "-Az", want: `unknown flag "-z"`},
		{name: "no value", args: "--priority", want: "flag --priority needs a value: N"},
		{name: "empty value", args: "--namespace=", want: `invalid value "" for -n, --namespace: want a name or a pattern, such as team-*`},
		{name: "bad pattern", args: "-n [a", want: `invalid value "[a" for -n, --namespace: invalid part "[a" of the namespace pattern "[a": want a name, or a glob such as "team-*"`},
		{name: "bad name", args: "--namespace A", want: `invalid value "A" for -n, --namespace: invalid namespace "A": want a name of at most 63 lower-case letters, digits and "-", or a glob such as "team-*"`},
		{name: "bad legacy variable", env: map[string]string{"KOPF_RUN_NAMESPACE": "[a"}, args: "run",
			want: `invalid value "[a" for the environment variable KOPF_RUN_NAMESPACE: invalid part "[a" of the namespace pattern "[a": want a name, or a glob such as "team-*"`},
		{name: "bad number", args: "-p high", want: `invalid value "high" for -p, --priority: want a whole number`},
		{name: "bad boolean", args: "--dev=maybe", want: `invalid value "maybe" for --dev: want true or false`},
		{name: "a verbosity as kubectl has it", args: "-v=4", want: `invalid value "4" for -v, --verbose: want true or false`},
		{name: "bad format", args: "--log-format xml", want: `invalid value "xml" for --log-format: want full, plain or json`},
		{name: "bad variable", args: "run", env: map[string]string{"KOPF_RUN_LOG_FORMAT": "xml"}, want: `invalid value "xml" for the environment variable KOPF_RUN_LOG_FORMAT: want full, plain or json`},
		{name: "an argument", args: "run handlers.py", want: `unexpected argument "handlers.py": handlers are compiled in, and run takes flags only`},
		{name: "bad peering", args: "-P a/b", want: `invalid value "a/b" for -P, --peering: want the name of an object: at most 253 lower-case letters, digits, "-" and "."`},
		{name: "liveness without a scheme", args: "--liveness :8080", want: `invalid value ":8080" for -L, --liveness: want a URL with http, such as http://0.0.0.0:8080/healthz`},
		{name: "liveness of another scheme", args: "-L tcp://0.0.0.0:8080", want: `invalid value "tcp://0.0.0.0:8080" for -L, --liveness: want a URL with http, such as http://0.0.0.0:8080/healthz`},
		{name: "liveness with a bad port", args: "-L http://a:65536", want: `invalid value "http://a:65536" for -L, --liveness: want a port up to 65535`},
		{name: "liveness with a query", args: "-L http://a/healthz?x=1",
			want: `invalid value "http://a/healthz" for -L, --liveness: want a path without a query and without a fragment, such as http://0.0.0.0:8080/healthz`},
		{name: "liveness with a fragment", args: "-L http://a/healthz#f",
			want: `invalid value "http://a/healthz" for -L, --liveness: want a path without a query and without a fragment, such as http://0.0.0.0:8080/healthz`},
		{name: "freeze with an empty id", args: "freeze -P x -t 60 --id=", want: `invalid value "" for -i, --id: want the key of a record; leave the flag out for the default`,
			hint: `Run "myoperator freeze --help" for usage and examples.`},
		{name: "bad liveness in a variable", args: "run", env: map[string]string{"KOPF_RUN_LIVENESS_ENDPOINT": "http:x"},
			want: `invalid value "http:x" for the environment variable KOPF_RUN_LIVENESS_ENDPOINT: want a URL with http, such as http://0.0.0.0:8080/healthz`},
		{name: "address without a port", args: "--embedded --listen localhost", want: `invalid value "localhost" for --listen: want an address such as 127.0.0.1:6443, or https://127.0.0.1:6443 for TLS`},
		{name: "an empty address", args: "--embedded --listen=", want: `invalid value "" for --listen: want an address such as 127.0.0.1:6443, or https://127.0.0.1:6443 for TLS`},
		{name: "address with a bad port", args: "--embedded --listen localhost:http", want: `invalid value "localhost:http" for --listen: want an address such as 127.0.0.1:6443, or https://127.0.0.1:6443 for TLS`},
		{name: "address with a bad host", args: "--embedded --listen a_b:1", want: `invalid value "a_b:1" for --listen: want an address such as 127.0.0.1:6443, or https://127.0.0.1:6443 for TLS`},
		{name: "apply without embedded", args: "--apply f", want: "--apply loads manifests into the embedded API server: it needs --embedded"},
		{name: "address with another scheme", args: "--embedded --listen http://localhost:1", want: `invalid value "http://localhost:1" for --listen: want an address such as 127.0.0.1:6443, or https://127.0.0.1:6443 for TLS`},
		{name: "listen without embedded", args: "--listen :1", want: "--listen is the address of the embedded API server: it needs --embedded"},
		{name: "embedded with a cluster", args: "--embedded --context c", want: "--kubeconfig and --context are for a cluster: they do not go together with --embedded"},
		{name: "a missing file", args: "--embedded --apply " + filepath.Join(empty, "x.yaml"),
			want: "--apply: " + missing(t, filepath.Join(empty, "x.yaml"))},
		{name: "a missing file in a variable", args: "--embedded", env: map[string]string{"KOPF_RUN_APPLY": filepath.Join(empty, "x.yaml")},
			want: "the environment variable KOPF_RUN_APPLY: " + missing(t, filepath.Join(empty, "x.yaml"))},
		{name: "an empty folder", args: "--embedded --apply " + empty,
			want: "--apply: no manifests in the folder " + empty + ": want files that end in .yaml, .yml or .json"},
		{name: "standard input twice", args: "--embedded --apply - --apply -", want: "--apply: standard input (-) can be read only once"},
		{name: "freeze without a name", args: "freeze -t 60", want: "freeze needs the name of the peering object: --peering NAME",
			hint: `Run "myoperator freeze --help" for usage and examples.`},
		{name: "freeze without a time", args: "freeze -P x", want: "freeze needs a duration: --lifetime DURATION, at least 1s",
			hint: `Run "myoperator freeze --help" for usage and examples.`},
		{name: "freeze for too short a time", args: "freeze -P x -t 999ms", want: "freeze needs a duration: --lifetime DURATION, at least 1s",
			hint: `Run "myoperator freeze --help" for usage and examples.`},
		{name: "a bad duration", args: "freeze -P x -t soon", want: `invalid value "soon" for -t, --lifetime: ` + duration,
			hint: `Run "myoperator freeze --help" for usage and examples.`},
		{name: "a bad duration in a variable", args: "freeze -P x", env: map[string]string{"KOPF_FREEZE_LIFETIME": "1 hour"},
			want: `invalid value "1 hour" for the environment variable KOPF_FREEZE_LIFETIME: ` + duration, hint: `Run "myoperator freeze --help" for usage and examples.`},
		{name: "resume without a name", args: "resume", want: "resume needs the name of the peering object: --peering NAME",
			hint: `Run "myoperator resume --help" for usage and examples.`},
		{name: "help on nothing", args: "help nosuch", want: `unknown command "nosuch": want ` + commands, hint: `Run "myoperator help" for the commands.`},
		{name: "help on too much", args: "help run freeze", want: `unexpected argument "freeze": help takes the name of one command, or one code`, hint: `Run "myoperator help" for the commands.`},
		{name: "an unknown shell", args: "completion tcsh", want: `unknown shell "tcsh": want bash, zsh or fish`,
			hint: `Run "myoperator completion --help" for usage and examples.`},
		{name: "no shell", args: "completion", want: "completion needs the name of one shell: bash, zsh or fish",
			hint: `Run "myoperator completion --help" for usage and examples.`},
		{name: "two shells", args: "completion bash zsh", want: "completion needs the name of one shell: bash, zsh or fish",
			hint: `Run "myoperator completion --help" for usage and examples.`},
		{name: "a version with an argument", args: "version 1", want: `unexpected argument "1": version takes flags only`,
			hint: `Run "myoperator version --help" for usage and examples.`},
		{name: "a version with an unknown option", args: "--version --foo", want: `unknown flag "--foo"`,
			hint: `Run "myoperator version --help" for usage and examples.`},
		{name: "a version of another format", args: "version -o yaml", want: `invalid value "yaml" for -o, --output: want json`,
			hint: `Run "myoperator version --help" for usage and examples.`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			skipEmbedded(t, tt.args)
			call, err := parse(t, tt.args, tt.env)
			if tt.hint == "" {
				tt.hint = onRun
			}
			if want := "myoperator: " + tt.want + "\n" + tt.hint; err == nil || err.Error() != want {
				t.Errorf("got %+v and the error\n%v, want\n%s", call, err, want)
			}
			if e := (*UsageError)(nil); !errors.As(err, &e) {
				t.Errorf("got an error of the type %T", err)
			}
		})
	}
}

// missing returns the error about a missing file, which depends on the operating system.
func missing(t *testing.T, path string) string {
	_, err := os.Stat(path)
	if err == nil {
		t.Fatal(path, "exists")
	}
	return err.Error()
}

func TestStoppedWhileReading(t *testing.T) {
	skipEmbedded(t, "--embedded")
	ctx, stop := context.WithCancel(t.Context())
	in, _ := io.Pipe() // like a terminal without input
	l := &Line{Program: "myoperator", Getenv: func(string) string { return "" }, Stdin: reader(func(p []byte) (int, error) {
		stop()
		return in.Read(p)
	})}
	_, err := l.Parse(ctx, []string{"run", "--embedded", "--apply", "-"})
	if e := (*UsageError)(nil); !errors.Is(err, context.Canceled) || errors.As(err, &e) {
		t.Errorf("got the error %v", err)
	}
}

type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// TestHelp checks that all ways to print the help of a command agree, and that the help has all options, fits a terminal, and has a uniform style.
func TestHelp(t *testing.T) {
	program := (&Line{Program: "myoperator", Getenv: os.Getenv}).commands(&Call{})
	for _, c := range program.Commands {
		t.Run(c.Name, func(t *testing.T) {
			text := printed(t, "help "+c.Name)
			for _, args := range []string{c.Name + " --help", c.Name + " -h"} {
				if diff := cmp.Diff(text, printed(t, args)); diff != "" {
					t.Errorf("help and %s differ:\n%s", args, diff)
				}
			}
			checkLines(t, text)
			for _, o := range c.Options {
				if strings.Contains(text, "--"+o.Long) == o.Hidden {
					t.Errorf("the help has --%s: %t", o.Long, o.Hidden)
				}
				if !begins(o.Help) || strings.ContainsAny(o.Help, ";") || strings.HasSuffix(o.Help, ".") || len(o.Help) > 60 || o.Group == "" {
					t.Errorf("--%s, under %q: %q", o.Long, o.Group, o.Help)
				}
			}
			if !begins(c.Short) || len(c.Short) > 60 || !strings.HasSuffix(c.About, ".") {
				t.Errorf("%q, %q", c.Short, c.About)
			}
			if n := len(c.Examples); n == 0 && c.Name != "help" || n != strings.Count(text, "  # ") {
				t.Errorf("there are %d examples", n)
			}
		})
	}
	text := printed(t, "help")
	checkLines(t, text)
	for _, args := range []string{"--help", "-h"} {
		if diff := cmp.Diff(text, printed(t, args)); diff != "" {
			t.Errorf("help and %s differ:\n%s", args, diff)
		}
	}
	for _, want := range []string{"A Kubernetes operator", "Commands:\n  run         Run the operator", "Examples:\n  # "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the help:\n%s", want, text)
		}
	}
}

// begins reports whether a text begins with a capitalized word.
func begins(text string) bool {
	return text != "" && text[0] >= 'A' && text[0] <= 'Z'
}

// printed returns the text that a command line prints.
func printed(t *testing.T, args string) string {
	t.Helper()
	call, err := parse(t, args, nil)
	if err != nil || call.Text == "" {
		t.Fatalf("%s: got %+v, %v", args, call, err)
	}
	return call.Text
}

func checkLines(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); len(line) > 80 || strings.TrimRight(line, " ") != line {
			t.Errorf("a line of %d columns: %q", len(line), line)
		}
	}
}

func TestCompletion(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	const config = `{current-context: dev, contexts: [{name: dev, context: {cluster: kind}}, {name: "arn:prod", context: {cluster: eks}}]}`
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	const contexts = "dev\tCluster kind (current)\narn:prod\tCluster eks\n:\n"
	tests := []struct {
		name, typed string // words separated by spaces
		env         map[string]string
		want        string
	}{
		{name: "log formats", typed: "run --log-format=p", want: "--log-format=plain\tObject, message and attributes\n:\n"},
		{name: "output formats", typed: "version -o ", want: "json\tOne JSON object\n:\n"},
		{name: "shells", typed: "completion b", want: "bash\tFor ~/.bashrc\n:\n"},
		{name: "commands", typed: "help fr", want: "freeze\tPause the operators of a peering object for a while\n:\n"},
		{name: "the hidden command", typed: "_", want: ":\n"},
		{name: "files", typed: "--kubeconfig ", want: ":files\n"},
		{name: "contexts", typed: "run --kubeconfig " + kubeconfig + " --context ", want: contexts},
		{name: "contexts of a variable", typed: "freeze --context ", env: map[string]string{"KOPF_FREEZE_KUBECONFIG": kubeconfig}, want: contexts},
		{name: "contexts of the variable of another command", typed: "resume --context ", env: map[string]string{"KOPF_FREEZE_KUBECONFIG": kubeconfig}, want: ":\n"},
		{name: "contexts of a file that is none", typed: "--kubeconfig nowhere --context ", want: ":\n"},
		{name: "namespaces", typed: "run --context x -n ", env: map[string]string{"KOPF_RUN_CONTEXT": "y", "KOPF_RUN_KUBECONFIG": "f", "KOPF_RUN_PRIORITY": "high"},
			want: "default\tA namespace of the cluster\nof-fx\tA namespace of the cluster\n:\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
			l := &Line{Program: "myoperator", Getenv: func(name string) string { return tt.env[name] },
				Namespaces: func(o *Options) []string { return []string{"default", "of-" + o.Kubeconfig + o.Context} }}
			call, err := l.Parse(t.Context(), append([]string{"__complete"}, strings.Split(tt.typed, " ")...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, call.Text); diff != "" || call.Command != "" {
				t.Errorf("got the command %q, (-want +got)\n%s", call.Command, diff)
			}
		})
	}
	t.Run("the options of the embedded server", func(t *testing.T) {
		text := printed(t, "__complete run --e") + printed(t, "__complete run --l") + printed(t, "__complete run --a")
		for _, option := range []string{"--embedded", "--listen", "--apply"} {
			if strings.Contains(text, option) != embedded.Included {
				t.Errorf("%s is offered: %t", option, !embedded.Included)
			}
		}
	})
}

func FuzzRunOptions(f *testing.F) {
	f.Add("-Avp5 --namespace=a --embedded")
	f.Add("--no-log-prefix -- -")
	f.Add("freeze -P x -t 1h")
	f.Add("__complete run -An --kubeconfig= -")
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "apply") { // it reads files
			return
		}
		l := &Line{Program: "myoperator", Getenv: func(string) string { return "" }, Namespaces: func(*Options) []string { return nil }}
		call, err := l.Parse(t.Context(), strings.Split(line, " "))
		if (err == nil) != (call != nil) {
			t.Errorf("%q: got %+v and %v", line, call, err)
		}
		if err == nil && call.Clusterwide && len(call.Namespaces) > 0 && call.Text == "" {
			t.Errorf("%q gives both scopes", line)
		}
	})
}
