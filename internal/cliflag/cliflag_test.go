package cliflag

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// values are the targets of the test options.
type values struct {
	All    bool
	Names  []string
	File   string
	Number int
	Level  level
	Prefix string
	Time   time.Duration
}

// level is a type with UnmarshalText.
type level int

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "high" {
		return errors.New("want high")
	}
	*l = 1
	return nil
}

func (v *values) options() []Option {
	return []Option{
		{Group: "Things", Short: "A", Long: "all", Variables: "ALL EVERY", Help: "Take all", Target: &v.All},
		{Group: "Things", Short: "n", Long: "name", Variables: "NAMES", Value: "NAME", Repeated: true, Help: "Take one", Target: &v.Names,
			Values: func() []Candidate {
				return []Candidate{{"arn:a/b@c", "of " + v.File}, {"two words", ""}, {"two\nlines", ""}, {"plain", "a\n\ttab"}}
			}},
		{Group: "Others", Long: "file", Variables: "FILE", Value: "FILE", Help: "Read it", Files: true, Target: &v.File},
		{Group: "Things", Short: "p", Long: "number", Variables: "NUMBER", Value: "a very long description", Default: "7",
			Help: "Count to it, and then go on until it is enough for all of us", Target: &v.Number},
		{Group: "Secrets", Commands: "run go", Long: "level", Variables: "LEVEL", Value: "LEVEL", Hidden: true, Help: "Climb to it", Target: &v.Level},
		{Group: "Others", Long: "prefix", Negatable: true, Help: "Begin with it", Target: func(value string) error {
			v.Prefix = value
			return nil
		}},
		{Group: "Others", Short: "t", Long: "time", Variables: "TIME", Value: "DURATION", Help: "Wait for it", Target: &v.Time},
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
		{name: "a duration", args: "-t 1h30m", want: values{Time: 90 * time.Minute}},
		{name: "seconds", args: "--time 60", want: values{Time: time.Minute}},
		{name: "a letter that is true with an equals sign", args: "-A=false", want: values{}},
		{name: "repeated", args: "-n a --name=b -nc --name d", want: values{Names: []string{"a", "b", "c", "d"}}},
		{name: "the last one counts", args: "--file a --file b", want: values{File: "b"}},
		{name: "false", args: "-A --all=No", want: values{}},
		{name: "a value that looks like an option", args: "--file=--all -n=-A", want: values{File: "--all", Names: []string{"-A"}}},
		{name: "values that begin with a dash", args: "-p -5 --file --other -n -", want: values{Number: -5, File: "--other", Names: []string{"-"}}},
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
		{args: "--nope=1", want: `unknown flag "--nope"`},
		{args: "-Az", want: `unknown flag "-z"`},
		{args: "-a", want: `unknown flag "-a": did you mean "-A"?`},
		{args: "-name=x", want: `unknown flag "-name": did you mean "--name"?`},
		{args: "--no-all", want: `unknown flag "--no-all"`},
		{args: "--nmae", want: `unknown flag "--nmae": did you mean "--name"?`},
		{args: "--NAME=x", want: `unknown flag "--NAME": did you mean "--name"?`},
		{args: "--num", want: `unknown flag "--num": did you mean "--number"?`},
		{args: "--n", want: `unknown flag "--n": did you mean "--name", "--number" or "--no-prefix"?`},
		{args: "--no-prefx", want: `unknown flag "--no-prefx": did you mean "--no-prefix"?`},
		{args: "--leve", want: `unknown flag "--leve"`},
		{args: "--hlep", want: `unknown flag "--hlep": did you mean "--help"?`},
		{args: "--no-prefix=yes", want: "flag --no-prefix takes no value"},
		{args: "--file", want: "flag --file needs a value: FILE"},
		{args: "--file --all", want: `flag --file needs a value: FILE; "--all" is another flag, unless you write --file=--all`},
		{args: "--file --name=x", want: `flag --file needs a value: FILE; "--name=x" is another flag, unless you write --file=--name=x`},
		{args: "--file -A", want: `flag --file needs a value: FILE; "-A" is another flag, unless you write --file=-A`},
		{args: "-n --no-prefix", want: `flag -n needs a value: NAME; "--no-prefix" is another flag, unless you write -n=--no-prefix`},
		{args: "-n -h", want: `flag -n needs a value: NAME; "-h" is another flag, unless you write -n=-h`},
		{args: "-An", want: "flag -n needs a value: NAME"},
		{args: "--name=", want: `invalid value "" for -n, --name: want a text that is not empty`},
		{args: "--level https://me:hunter2@host/p?q=hunter2", want: `invalid value "https://host/p" for --level: want high`},
		{args: "-p high", want: `invalid value "high" for -p, --number: want a whole number`},
		{args: "--all=maybe", want: `invalid value "maybe" for -A, --all: want true or false`},
		{args: "-A=4", want: `invalid value "4" for -A, --all: want true or false`},
		{args: "--level low", want: `invalid value "low" for --level: want high`},
		{args: "-t soon", want: `invalid value "soon" for -t, --time: want a duration such as 90s, 10m or 1h30m, or a number of seconds`},
		{args: "-t 1.5", want: `invalid value "1.5" for -t, --time: want a duration such as 90s, 10m or 1h30m, or a number of seconds`},
		{args: "-t 9223372037", want: `invalid value "9223372037" for -t, --time: want less than 292 years`},
		{variable: "maybe", want: `invalid value "maybe" for the environment variable X_EVERY: want true or false`},
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

func TestMisspelled(t *testing.T) {
	got := Misspelled(new(values).options(), "X_", []string{
		"X_NUMBR=1", "X_LVEEL=high", "X_FILE=f", "X_ALLE=", "X_PORT=tcp://10.0.0.1:80", "X_PORT_80_TCP_ADDR=10.0.0.1",
		"X_SERVICE_HOST=10.0.0.1", "X_TIM=1", "NUMBR=1", "HOME",
	})
	want := map[string]string{"X_NUMBR": "X_NUMBER", "X_LVEEL": "X_LEVEL", "X_TIM": "X_TIME"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOf(t *testing.T) {
	options := new(values).options()
	for command, want := range map[string]int{"run": 7, "go": 7, "ru": 6, "stop": 6} {
		if got := len(Of(options, command)); got != want {
			t.Errorf("%s has %d options, want %d", command, got, want)
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
