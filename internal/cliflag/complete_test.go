package cliflag

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asProgram is an environment variable that makes this test binary act as the completed program.
const asProgram = "CLIFLAG_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		if len(os.Args) < 2 || os.Args[1] != CompleteCommand {
			fmt.Println("the program has been started")
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, "a message that no completion shows")
		program(new(values)).WriteCandidates(os.Stdout, os.Args[2:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestComplete(t *testing.T) {
	const options = "--all --name --file --number --prefix --no-prefix --time --help"
	tests := []struct {
		typed, want string // words separated by spaces
		files       bool
	}{
		{typed: "", want: "run paint help"},
		{typed: "p", want: "paint"},
		{typed: "x", want: ""},
		{typed: "run ", want: options},
		{typed: "run --n", want: "--name --number --no-prefix"},
		{typed: "--n", want: "--name --number --no-prefix"},
		{typed: "--all --n", want: "--name --number --no-prefix"},
		{typed: "run -", want: options},
		{typed: "run --all --file x -n a -", want: "--name --number --prefix --no-prefix --time --help"},
		{typed: "run -An a --no-prefix --number=5 -", want: "--name --file --time --help"},
		{typed: "run --name ", want: "arn:a/b@c two words two\nlines plain"},
		{typed: "run -n pl", want: "plain"},
		{typed: "run -An pl", want: "plain"},
		{typed: "run -nplain --a", want: "--all"},
		{typed: "run --name=pl", want: "--name=plain"},
		{typed: "run --no-prefix=", want: ""},
		{typed: "run --nope=", want: ""},
		{typed: "run --nope -z --a", want: "--all"},
		{typed: "run --number ", want: ""},
		{typed: "run --number x --a", want: "--all"},
		{typed: "run --level ", want: ""},
		{typed: "run --level=", want: ""},
		{typed: "run --lev", want: ""},
		{typed: "run --file x", want: "", files: true},
		{typed: "run --file=x", want: "", files: true},
		{typed: "run -- --a", want: ""},
		{typed: "run x --a", want: ""},
		{typed: "paint ", want: "red green"},
		{typed: "paint g", want: "green"},
		{typed: "paint -", want: "--help"},
		{typed: "nope ", want: ""},
	}
	for _, tt := range tests {
		t.Run(tt.typed, func(t *testing.T) {
			got, files := program(new(values)).Complete(strings.Split(tt.typed, " "))
			var words []string
			for _, c := range got {
				words = append(words, c.Value)
			}
			if strings.Join(words, " ") != tt.want || files != tt.files {
				t.Errorf("got %q and files: %t, want %q and files: %t", words, files, tt.want, tt.files)
			}
		})
	}
	if got, _ := program(new(values)).Complete(nil); len(got) != 3 {
		t.Errorf("without any word: got %v", got)
	}
}

func TestWriteCandidates(t *testing.T) {
	for typed, want := range map[string]string{
		"paint ":                  "red\tAs roses\ngreen\n:\n",
		"run --file my --name ar": "arn:a/b@c\tof my\n:\n", // it uses the words before
		"run --name ":             "arn:a/b@c\tof\ntwo words\nplain\ta tab\n:\n",
		"run --file ":             ":files\n",
		"nope ":                   ":\n",
	} {
		var b strings.Builder
		program(new(values)).WriteCandidates(&b, strings.Split(typed, " "))
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", typed, diff)
		}
	}
}

func TestCompletion(t *testing.T) {
	p := program(new(values))
	for shell, want := range map[string]string{
		"tcsh": `unknown shell "tcsh": want bash, zsh or fish`,
		"":     `unknown shell "": want bash, zsh or fish`,
		"bsh":  `unknown shell "bsh": did you mean "bash" or "zsh"?`,
	} {
		if _, err := p.Completion(shell); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", shell, err, want)
		}
	}
	p.Name = "it's 2"
	for shell, want := range map[string]string{"bash": `complete -F _kopf_it_s_2 'it'\''s 2'`, "zsh": `compdef _kopf_it_s_2 'it'\''s 2'`, "fish": `complete -c 'it\'s 2' -f`} {
		script, err := p.Completion(shell)
		if err != nil || !strings.Contains(script, want) {
			t.Errorf("%s: got %v and\n%s\nwant %s in it", shell, err, script, want)
		}
	}
}

// shell runs the completion script in a shell, between two other scripts, and returns the sorted output. The program is in the PATH.
func shell(t *testing.T, name, before, after string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(err)
	}
	completion, err := program(new(values)).Completion(name)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "my-app")); err != nil {
		t.Skip(err)
	}
	for _, file := range []string{"xa.yaml", "xb.yaml", "other"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "other")
	if err := os.WriteFile(file, []byte(before+completion+after), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := map[string][]string{"bash": {"--norc"}, "zsh": {"-f"}, "fish": {"--no-config"}}[name]
	cmd := exec.Command(path, append(append(flags, file), args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' || r == '|' })
	slices.Sort(found)
	return strings.Join(found, "|")
}

// TestBash completes lines in bash. The words are those that bash has split.
func TestBash(t *testing.T) {
	tests := []struct {
		line, words string // separated by "|"
		want        string // replacement of the last word, separated by "|"
	}{
		{"my-app ", "my-app|", "help|paint|run"},
		{"my-app p", "my-app|p", "paint"},
		{"my-app run --n", "my-app|run|--n", "--name|--no-prefix|--number"},
		{"my-app  run   --nu", "my-app|run|--nu", "--number"},
		{"my-app --nu", "my-app|--nu", "--number"},
		{"./my-app --nu", "./my-app|--nu", "--number"},
		{"~/my-app --nu", "~/my-app|--nu", "--number"},
		{"my-app paint ", "my-app|paint|", "green|red"},
		{"my-app help x", "my-app|help|x", ""},
		{"my-app run --name ", "my-app|run|--name|", `arn:a/b@c|plain|two\ words`},
		{"my-app run --name=", "my-app|run|--name|=", `arn:a/b@c|plain|two\ words`},
		{"my-app run --name=", "my-app|run|--name|=|", `arn:a/b@c|plain|two\ words`},
		{"my-app run --name=pl", "my-app|run|--name|=|pl", "plain"},
		{"my-app run --name=pl", "my-app|run|--name=pl", "--name=plain"}, // without "=" in COMP_WORDBREAKS
		{"my-app run --name arn", "my-app|run|--name|arn", "arn:a/b@c"},
		{"my-app run --name arn:", "my-app|run|--name|arn|:", "a/b@c"},
		{"my-app run --name arn:a/b@", "my-app|run|--name|arn|:|a/b|@", "c"},
		{"my-app run --name arn:a/", "my-app|run|--name|arn|:|a/", "a/b@c"},
		{`my-app run --name "pl`, `my-app|run|--name|"pl`, "plain"},
		{`my-app run --name 'two words' --nu`, `my-app|run|--name|'two words'|--nu`, "--number"},
		{"my-app run --file x", "my-app|run|--file|x", "xa.yaml|xb.yaml"},
		{"my-app run --file=x", "my-app|run|--file|=|x", "xa.yaml|xb.yaml"},
		{"my-app run --number ", "my-app|run|--number|", ""},
	}
	const ask = `
COMP_LINE=$1 COMP_POINT=${#1} IFS='|'
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_kopf_my_app
echo "${COMPREPLY[*]}"
`
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			got := shell(t, "bash", "", ask, append([]string{tt.line}, strings.Split(tt.words, "|")...)...)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("in the middle of a line", func(t *testing.T) {
		got := shell(t, "bash", "", strings.Replace(ask, "COMP_POINT=${#1}", "COMP_POINT=8", 1), "my-app paint red", "my-app", "paint")
		if got != "paint" {
			t.Errorf("got %q, want paint", got)
		}
	})
	t.Run("a program that is not there", func(t *testing.T) {
		if got := shell(t, "bash", "", ask, "nowhere ", "nowhere", ""); got != "" {
			t.Errorf("got %q, want nothing", got)
		}
	})
}

// TestZsh completes lines with the zsh function. The completion system itself would need a terminal.
func TestZsh(t *testing.T) {
	const stubs = `
compdef() { : }
compset() { : }
_files() { print -r -- "files" }
_describe() {
  local name=${argv[-1]}
  print -rl -- "${(@P)name}"
}
`
	const ask = `
words=("$@") CURRENT=$# PREFIX="${argv[-1]}"
_kopf_my_app
`
	for typed, want := range map[string]string{
		"my-app|":              "help:Print this|paint:Paint it|run:Run it",
		"my-app|p":             "paint:Paint it",
		"my-app|run|--nu":      "--number:Count to it, and then go on until it is enough for all of us",
		"my-app|run|--name|a":  `arn\:a/b@c:of`,
		"my-app|run|--name=pl": "--name=plain:a tab",
		"my-app|run|--file|x":  "files",
		"my-app|run|--number|": "",
		"my-app|paint|g":       "green",
		"~/my-app|paint|g":     "green",
	} {
		t.Run(typed, func(t *testing.T) {
			if got := shell(t, "zsh", stubs, ask, strings.Split(typed, "|")...); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestFish completes lines in fish.
func TestFish(t *testing.T) {
	for line, want := range map[string]string{
		"my-app ":               "help\tPrint this|paint\tPaint it|run\tRun it",
		"my-app p":              "paint\tPaint it",
		"my-app run --nu":       "--number\tCount to it, and then go on until it is enough for all of us",
		"my-app run --name=pl":  "--name=plain\ta tab",
		"my-app run --name a":   "arn:a/b@c\tof",
		"my-app run --number ":  "",
		"my-app paint gr":       "green",
		"my-app run --file xa":  "xa.yaml",
		"my-app run --file=xa":  "--file=xa.yaml",
		"my-app run --time 5 x": "",
	} {
		t.Run(line, func(t *testing.T) {
			got := shell(t, "fish", "", "\ncomplete -C $argv[1]\n", line)
			if strings.Contains(line, "--file") { // fish may describe files
				got, _, _ = strings.Cut(got, "\t")
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
