package pages

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kopf-go/kopf"
)

// tools are the programs that the pages may ask a reader to run, with those of their commands that are used.
var tools = map[string][]string{
	"go":      {"run", "build", "test", "get", "mod", "doc", "tool", "vet"},
	"kubectl": {"apply", "get", "describe", "delete", "patch", "edit", "logs", "create", "label", "annotate", "rollout", "scale", "wait", "auth", "explain", "set", "config", "port-forward"},
	"docker":  {"build", "push", "run", "buildx", "save"},
	"make":    nil, // looked up in the Makefile
	"git":     {"clone", "checkout"},
	"kind":    {"create", "load", "delete"},
	"gofmt":   nil,
	"cd":      nil, "mkdir": nil, "curl": nil, "export": nil, "cat": nil, "for": nil, "done": nil, "source": nil, "openssl": nil, "cosign": nil, "trivy": nil, "helm": nil, "kustomize": nil, "sha256sum": nil,
}

// operators are how the pages call an operator's own command line.
var operators = regexp.MustCompile(`(?:\bmyoperator|\bgo run (?:\.|\./examples/\S+)|\./operator|/operator) (.*)`)

// TestShell holds that commands in the pages are those of programs that have them, and that an operator's own commands have the options that are given.
func TestShell(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	all := blocks(t, "sh", "console", "bash", "shell")
	for _, b := range all {
		for _, line := range b.Commands() {
			words := strings.Fields(line)
			for len(words) > 0 && strings.Contains(words[0], "=") {
				words = words[1:] // a variable for the command
			}
			if m := operators.FindStringSubmatch(line); m != nil && !strings.Contains(line, "cd bench") {
				if complaint := checkOperator(t, strings.Fields(m[1])); complaint != "" {
					t.Errorf("%s:%d: %s: %s", b.File, b.Line, line, complaint)
				}
			}
			if len(words) < 2 || words[0] == "myoperator" {
				continue
			}
			if words[0] == ".ci/run" {
				if complaint := checkSections(t, words[1:]); complaint != "" {
					t.Errorf("%s:%d: %s: %s", b.File, b.Line, line, complaint)
				}
				continue
			}
			commands, known := tools[words[0]]
			if words[0] == "make" && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(words[1])+`:`).Match(makefile) {
				t.Errorf("%s:%d: there is no target %s in the Makefile", b.File, b.Line, words[1])
			}
			if !known || len(commands) > 0 && !slices.Contains(commands, words[1]) {
				t.Errorf("%s:%d: nobody knows the command %q", b.File, b.Line, words[0]+" "+words[1])
			}
			for _, word := range words {
				word = strings.TrimPrefix(word, "./")
				if !strings.HasPrefix(word, "examples/") && !strings.HasPrefix(word, "docs/") {
					continue
				}
				if _, err := os.Stat(filepath.Join(root, word)); err != nil {
					t.Errorf("%s:%d: %v", b.File, b.Line, err)
				}
			}
		}
	}
	if len(all) < 10 {
		t.Errorf("only %d blocks of commands", len(all))
	}
}

// checkSections looks for sections of the checks in their script.
func checkSections(t *testing.T, names []string) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^  "` + regexp.QuoteMeta(name) + `:\d+:`).Match(script) {
			return "there is no section " + name
		}
	}
	return ""
}

var optionWord = regexp.MustCompile(`^--?[a-zA-Z][\w-]*`)

// own are commands that programs in the pages have themselves.
var own = []string{"fake"}

// checkOperator looks for the options in the help of the command.
func checkOperator(t *testing.T, args []string) string {
	t.Helper()
	command := "run"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command = args[0]
	}
	if slices.Contains(own, command) {
		return ""
	}
	var stdout, stderr bytes.Buffer
	if code := kopf.Command(t.Context(), []string{"help", command}, &stdout, &stderr); code != 0 {
		return strings.TrimSpace(stderr.String())
	}
	for _, arg := range args {
		option := optionWord.FindString(arg)
		if option == "" {
			continue
		}
		if !regexp.MustCompile(`(^|[\s,])` + regexp.QuoteMeta(option) + `\b`).MatchString(stdout.String()) {
			return "there is no option " + option
		}
	}
	return ""
}

// TestYAML holds that YAML in the pages can be read, and that an API server accepts the objects in it.
func TestYAML(t *testing.T) {
	all := blocks(t, "yaml")
	servers := make(map[string]*kopf.APIServer) // one for each page
	for _, b := range all {
		if strings.HasPrefix(b.Excuse(), "not compiled") || b.Name() != "" { // files are applied where the code of their page is run
			continue
		}
		objects, err := kopf.ParseManifests([]byte(b.Text))
		if err != nil && strings.Contains(err.Error(), "an object is expected, not") {
			continue // a part of an object
		}
		if err != nil {
			t.Errorf("%s:%d: %v", b.File, b.Line, err)
		}
		if len(objects) == 0 || objects[0]["kind"] == nil || objects[0]["apiVersion"] == nil {
			continue
		}
		if servers[b.File] == nil {
			servers[b.File] = newServer(t)
		}
		if err := servers[b.File].Apply([]byte(b.Text)); err != nil {
			t.Errorf("%s:%d: %v", b.File, b.Line, err)
		}
	}
	if len(all) < 5 {
		t.Errorf("only %d blocks of YAML", len(all))
	}
}

// newServer returns a server that knows the kinds of the examples.
func newServer(t *testing.T) *kopf.APIServer {
	t.Helper()
	server := kopf.NewAPIServer(nil)
	for _, file := range []string{"crd.yaml", "peering.yaml"} {
		data, err := os.ReadFile(filepath.Join(root, "examples", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Apply(data); err != nil {
			t.Fatal(err)
		}
	}
	return server
}
