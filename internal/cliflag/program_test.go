package cliflag

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// program is the program of the tests.
func program(v *values) *Program {
	return &Program{
		Name: "my-app", About: "A program.\n\nIt does things, and it goes on to do them until the lines of its help are too long for a terminal.",
		Prefix: "X_", Default: "run",
		Examples: []Example{{"Run it", "{} run"}, {"Paint it, in one color of the many that there are", "{} paint \\\n    red"}},
		Commands: []Command{
			{Name: "run", Args: "[flags]", Short: "Run it", About: "Run it.", Options: v.options(), Examples: []Example{{"Run it all", "{} run -A"}}},
			{Name: "paint", Args: "[color]", Short: "Paint it", About: "Paint it in a color.", Words: []Candidate{{"red", "As roses"}, {"green", ""}}},
			{Name: "help", Short: "Print this", About: "Print this."},
		},
	}
}

func TestHelp(t *testing.T) {
	const want = `A program.

It does things, and it goes on to do them until the lines of its help are too
long for a terminal.

Usage:
  my-app [command] [flags]

Commands:
  run         Run it (default)
  paint       Paint it
  help        Print this

Examples:
  # Run it
  my-app run

  # Paint it, in one color of the many that there are
  my-app paint \
      red

Run "my-app help COMMAND" for the flags and examples of a command.
`
	if diff := cmp.Diff(want, program(new(values)).Help()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCommandHelp(t *testing.T) {
	const run = `Run it.

Usage:
  my-app run [flags]

Examples:
  # Run it all
  my-app run -A

Things:
  -A, --all                   Take all
  -n, --name NAME             Take one (repeatable)
  -p, --number a very long description
                              Count to it, and then go on until it is enough for
                              all of us (default 7)

Others:
      --file FILE             Read it
      --prefix, --no-prefix   Begin with it
  -t, --time DURATION         Wait for it

Environment:
  Each flag can also be set by an environment variable, such as X_RUN_LOG_FORMAT
  for --log-format. A flag beats its environment variable. Separate several
  values in one variable, such as X_RUN_NAMESPACES, by spaces.
`
	const paint = "Paint it in a color.\n\nUsage:\n  my-app paint [color]\n"
	p := program(new(values))
	for name, want := range map[string]string{"run": run, "paint": paint} {
		c, err := p.Command(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, p.CommandHelp(c)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	p := program(new(values))
	for name, want := range map[string]string{
		"rum":     `unknown command "rum": did you mean "run"?`,
		"RUN":     `unknown command "RUN": did you mean "run"?`,
		"rnu":     `unknown command "rnu": did you mean "run"?`,
		"r":       `unknown command "r": did you mean "run"?`,
		"piant":   `unknown command "piant": did you mean "paint"?`,
		"version": `unknown command "version": want run, paint or help`,
		"":        `unknown command "": want run, paint or help`,
	} {
		if _, err := p.Command(name); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", name, err, want)
		}
	}
}

func TestSuggest(t *testing.T) {
	names := strings.Fields("log-format log-prefix log-refkey no-log-prefix verbose namespace all-namespaces")
	for word, want := range map[string]string{
		"log":        "log-format log-prefix log-refkey",
		"no":         "no-log-prefix",
		"logformat":  "log-format",
		"log_format": "log-format",
		"namespaces": "namespace",
		"verbsoe":    "verbose",
		"xyz":        "",
		"":           "",
		"log-xxxxxx": "",
		"logrefix":   "log-prefix",
	} {
		if got := strings.Join(Suggest(word, names), " "); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
