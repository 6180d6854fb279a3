package cliflag

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// values are what the options of the tests set.
type values struct {
	All    bool
	Names  []string
	File   string
	Number int
	Level  level
	Prefix string
}

// level is a type that reads itself.
type level int

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "high" {
		return errors.New("expected high")
	}
	*l = 1
	return nil
}

func (v *values) options() []Option {
	return []Option{
		{Short: "A", Long: "all", Variables: "ALL EVERY", Help: "take all", Target: &v.All},
		{Short: "n", Long: "name", Variables: "NAMES", Value: "NAME", Repeated: true, Help: "take one", Target: &v.Names},
		{Long: "file", Variables: "FILE", Value: "FILE", Help: "read it", Target: &v.File},
		{Short: "p", Long: "number", Variables: "NUMBER", Value: "a very long description", Help: "count to it", Target: &v.Number},
		{Commands: "run go", Long: "level", Variables: "LEVEL", Value: "LEVEL", Hidden: true, Help: "climb to it", Target: &v.Level},
		{Long: "prefix", Negatable: true, Target: func(value string) error {
			v.Prefix = value
			return nil
		}},
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, args string
		env        map[string]string
		want       values
		rest       []string
		help       bool
	}{
		{name: "nothing"},
		{name: "letters", args: "-Ap5", want: values{All: true, Number: 5}},
		{name: "letters with a value in the next argument", args: "-Ap 5", want: values{All: true, Number: 5}},
		{name: "a letter with an equals sign", args: "-p=5", want: values{Number: 5}},
		{name: "repeated", args: "-n a --name=b -nc --name d", want: values{Names: []string{"a", "b", "c", "d"}}},
		{name: "the last one counts", args: "--file a --file b", want: values{File: "b"}},
		{name: "false", args: "-A --all=No", want: values{}},
		{name: "a value that looks like an option", args: "--file --all", want: values{File: "--all"}},
		{name: "an empty value", args: "--file=", want: values{}},
		{name: "a type of its own", args: "--level high", want: values{Level: 1}},
		{name: "a function", args: "--prefix", want: values{Prefix: "true"}},
		{name: "negated", args: "--no-prefix", want: values{Prefix: "false"}},
		{name: "help", args: "-A --help -z", want: values{All: true}, help: true, rest: []string{"-z"}},
		{name: "an argument", args: "-A x -z", want: values{All: true}, rest: []string{"x", "-z"}},
		{name: "a dash", args: "-A -", want: values{All: true}, rest: []string{"-"}},
		{name: "the end of options", args: "-A --", want: values{All: true}},
		{name: "more after the end of options", args: "-A -- -z", want: values{All: true}, rest: []string{"--", "-z"}},
		{name: "variables", env: map[string]string{"X_NAMES": "a b", "X_NUMBER": "7", "X_EVERY": "yes"},
			want: values{All: true, Names: []string{"a", "b"}, Number: 7}},
		{name: "the first variable counts", env: map[string]string{"X_ALL": "no", "X_EVERY": "yes"}},
		{name: "an option beats its variable", args: "-n x --all=false", env: map[string]string{"X_NAMES": "a b", "X_ALL": "1"},
			want: values{Names: []string{"x"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got values
			given, rest, help, err := Parse(got.options(), strings.Fields(tt.args))
			if err == nil {
				err = ParseVariables(got.options(), given, "X_", func(name string) string { return tt.env[name] })
			}
			if err != nil || help != tt.help {
				t.Errorf("got help %t and error %v, want %t and none", help, err, tt.help)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("values (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.rest, rest); diff != "" {
				t.Errorf("rest (-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		args, variable, want string
	}{
		{args: "--nope=1", want: `unknown option "--nope"`},
		{args: "-Az", want: `unknown option "-z"`},
		{args: "--no-all", want: `unknown option "--no-all"`},
		{args: "--no-prefix=yes", want: `unknown option "--no-prefix"`},
		{args: "--file", want: "option --file needs a value: FILE"},
		{args: "-An", want: "option -n needs a value: NAME"},
		{args: "--name=", want: `option --name="": expected a text that is not empty`},
		{args: "-p high", want: `option --number="high": expected a whole number`},
		{args: "--all=maybe", want: `option --all="maybe": expected true or false`},
		{args: "--level low", want: `option --level="low": expected high`},
		{variable: "maybe", want: `variable X_EVERY="maybe": expected true or false`},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			var v values
			given, _, _, err := Parse(v.options(), strings.Fields(tt.args))
			if err == nil {
				err = ParseVariables(v.options(), given, "X_", func(name string) string {
					return map[string]string{"X_EVERY": tt.variable}[name]
				})
			}
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestOf(t *testing.T) {
	options := new(values).options()
	for command, want := range map[string]int{"run": 6, "go": 6, "ru": 5, "stop": 5} {
		if got := len(Of(options, command)); got != want {
			t.Errorf("%s has %d options, want %d", command, got, want)
		}
	}
}

func TestHelp(t *testing.T) {
	const want = `  -A, --all                     take all
  -n, --name NAME               take one; repeatable
      --file FILE               read it
  -p, --number a very long description
                                count to it
`
	got := Help(new(values).options()[:5])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestCompletion has the shells that there are complete words.
func TestCompletion(t *testing.T) {
	commands := []Command{
		{Name: "run", Options: new(values).options()},
		{Name: "paint", Words: []string{"red", "green"}},
		{Name: "help"},
	}
	scripts := make(map[string]string)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := Completion(shell, "my-app", commands)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"run", "paint", "help", "number", "red green"} {
			if !strings.Contains(script, word) {
				t.Errorf("%s cannot complete %q:\n%s", shell, word, script)
			}
		}
		if strings.Contains(script, "level") {
			t.Errorf("%s completes a hidden option:\n%s", shell, script)
		}
		scripts[shell] = script
	}
	if _, err := Completion("tcsh", "my-app", commands); err == nil {
		t.Error("there is a completion for tcsh")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	for typed, want := range map[string]string{
		"my-app":            "run paint help",
		"my-app p":          "paint",
		"my-app run --n":    "--name --number",
		"my-app paint":      "paint",
		"my-app paint gr":   "green",
		"my-app help --all": "",
	} {
		words := strings.Fields(typed)
		if len(words) == 1 {
			words = append(words, "")
		}
		ask := `COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); ` + "_kopf_my_app; echo ${COMPREPLY[*]}"
		out, err := exec.Command(bash, append([]string{"-c", scripts["bash"] + ask, "bash"}, words...)...).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: got %q (%v), want %q", typed, got, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-Avp5 --name=a --no-prefix -- -")
	f.Add("--prefix -n - --help")
	f.Fuzz(func(t *testing.T, line string) {
		var v values
		args := strings.Split(line, " ")
		given, rest, help, err := Parse(v.options(), args)
		if v.All && !given["all"] || len(v.Names) > 0 && !given["name"] {
			t.Errorf("%q sets options that are not given: %v", line, given)
		}
		if len(rest) > len(args) || err == nil && !help && len(rest) > 0 && strings.HasPrefix(rest[0], "-") && rest[0] != "-" && rest[0] != "--" {
			t.Errorf("%q leaves %q", line, rest)
		}
	})
}
