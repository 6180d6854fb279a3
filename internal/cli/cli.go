// Package cli implements the command line of operators: commands, flags, help, and usage errors. It executes only commands that print something.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/cliflag"
	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/manifest"
)

// ExitUsage is the exit code of wrong usage.
const ExitUsage = 2

// Line is the command line of an operator.
type Line struct {
	Program string                   // path of the program
	Version string                   // of kopf
	Getenv  func(name string) string // as [os.Getenv]
	Environ []string                 // as of [os.Environ]
	Stdin   io.Reader
	Codes   string // the page that explains the codes of messages

	// Namespaces lists the namespaces of the cluster, for completion, or returns nil if it cannot do that immediately.
	Namespaces func(*Options) []string
}

// Call is the parsed command line: a text to print, or a command to run.
type Call struct {
	Text    string
	Command string // run, freeze or resume
	Options
	Given map[string]bool // the options on the command line or in the environment
	// Misspelled has the environment variables that belong to no option, with the one that was
	// probably meant.
	Misspelled map[string]string
	Inspect    InspectOptions // of status and explain
	install    *InstallOptions
}

// errNoEmbed is the error for flags that need the embedded API server, in a build without it.
var errNoEmbed = errors.New("this operator was built with the tag noembed, which leaves out the embedded API server: " +
	"build it without the tag, or run it on a cluster, without --embedded, --listen and --apply")

// Parse parses the arguments, the environment variables for missing options, and the named manifests. Its errors are of type [UsageError], except that of the
// context.
func (l *Line) Parse(ctx context.Context, args []string) (*Call, error) {
	call := &Call{}
	program := l.commands(call)
	name, rest := program.Split(args)
	if len(args) > 0 {
		switch args[0] {
		case "--help", "-h":
			name, rest = "help", args[1:]
		case "--version":
			name, rest = "version", args[1:]
		}
	}
	if name == cliflag.CompleteCommand {
		var text strings.Builder
		l.readConnection(call, program, rest)
		program.WriteCandidates(&text, rest)
		call.Text = text.String()
		return call, nil
	}
	command, err := program.Command(name)
	if err != nil {
		return nil, &UsageError{err, program.Name, ""}
	}
	if name == "freeze" {
		call.Priority = freezePriority
	}
	call.Command = name
	if isInspection(name) {
		return l.parseInspection(ctx, call, program, command, rest)
	}
	given, rest, help, err := cliflag.Parse(command.Options, rest)
	switch {
	case err != nil:
		return nil, &UsageError{err, program.Name, name}
	case help:
		call.Text = program.CommandHelp(command)
		return call, nil
	}
	if err := l.finish(ctx, call, program, command.Options, given, rest); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, &UsageError{err, program.Name, name}
	}
	return call, nil
}

// finish parses the arguments after the options of a command, and the environment variables.
func (l *Line) finish(ctx context.Context, call *Call, program *cliflag.Program, options []cliflag.Option, given map[string]bool, rest []string) (err error) {
	switch call.Command {
	case "help":
		call.Text, err = l.help(program, rest)
		return err
	case "completion":
		if len(rest) != 1 {
			return errors.New("completion needs the name of one shell: bash, zsh or fish")
		}
		call.Text, err = program.Completion(rest[0])
		return err
	case "version":
		if len(rest) > 0 {
			return fmt.Errorf("unexpected argument %q: version takes flags only", rest[0])
		}
		call.Text, err = l.versionText(call.Output)
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q: handlers are compiled in, and %s takes flags only", rest[0], call.Command)
	}
	if err := l.readVariables(call, options, given); err != nil {
		return err
	}
	if err := call.check(given); err != nil {
		return err
	}
	paths, source := call.Apply, "--apply"
	if isInstallation(call.Command) {
		paths, source = call.install.Definitions, "--definitions"
	}
	if call.Manifests, err = manifest.ReadFiles(ctx, paths, l.Stdin); err != nil {
		if source == "--apply" && !given["apply"] {
			source = "the environment variable KOPF_RUN_APPLY"
		}
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

// help returns the help of the named command, the explanation of a code, or the help of the program.
func (l *Line) help(program *cliflag.Program, names []string) (string, error) {
	switch len(names) {
	case 0:
		return program.Help(), nil
	case 1:
		if isCode.MatchString(names[0]) {
			return explainCode(l.Codes, names[0])
		}
		command, err := program.Command(names[0])
		if err != nil {
			return "", err
		}
		return program.CommandHelp(command), nil
	}
	return "", fmt.Errorf("unexpected argument %q: help takes the name of one command, or one code", names[1])
}

// readVariables reads the environment variables for missing options.
func (l *Line) readVariables(call *Call, options []cliflag.Option, given map[string]bool) error {
	// -A also overrides namespaces in the environment, and the reverse.
	everywhere := given["all-namespaces"] && call.Clusterwide
	read := map[string]bool{"all-namespaces": given["namespace"], "namespace": everywhere}
	for name := range given {
		read[name] = true
	}
	prefix := "KOPF_" + strings.ToUpper(call.Command) + "_"
	if err := cliflag.ParseVariables(options, read, prefix, l.Getenv); err != nil {
		return err
	}
	call.Given, call.Misspelled = read, cliflag.Misspelled(options, prefix, l.Environ)
	const legacy = "KOPF_RUN_NAMESPACE"
	delete(call.Misspelled, legacy)
	if pattern := l.Getenv(legacy); call.Command == "run" && pattern != "" && !everywhere {
		return cliflag.Invalid(pattern, "the environment variable "+legacy, call.addNamespace(pattern))
	}
	return nil
}

// readConnection reads the environment variables about the cluster, for completion. Options on the command line override them.
func (l *Line) readConnection(call *Call, program *cliflag.Program, words []string) {
	command, _ := program.Split(words)
	for _, o := range call.connection() { // one by one, so that one error does not affect the others
		_ = cliflag.ParseVariables([]cliflag.Option{o}, map[string]bool{}, "KOPF_"+strings.ToUpper(command)+"_", l.Getenv)
	}
}

// check returns an error about conflicting flags. --embedded takes precedence over environment variables with another cluster. Most other flags conflict only
// if both are on the command line.
func (c *Call) check(given map[string]bool) error {
	switch {
	case c.Clusterwide && len(c.Namespaces) > 0:
		return fmt.Errorf("-A, --all-namespaces and the namespaces %q exclude each other: use one of them", c.Namespaces)
	case given["quiet"] && c.Quiet && (given["verbose"] && c.Verbose || given["debug"] && c.Debug):
		return errors.New("-q, --quiet excludes -v, --verbose and -d, --debug: use one of them")
	case given["dev"] && c.Dev && given["priority"]:
		return errors.New("--dev is a priority of its own, and excludes -p, --priority: use one of them")
	case given["standalone"] && c.Standalone && given["peering"] && c.Peering != "":
		return errors.New("--standalone ignores other operators, and excludes -P, --peering: use one of them")
	case isInstallation(c.Command):
		return c.install.checkInstall()
	case c.Command != "run" && c.Peering == "":
		return fmt.Errorf("%s needs the name of the peering object: --peering NAME", c.Command)
	case c.Command == "freeze" && c.Lifetime < time.Second:
		return errors.New("freeze needs a duration: --lifetime DURATION, at least 1s")
	case c.Page && c.Liveness == "":
		page := "--page"
		if !given["page"] {
			page = "the environment variable KOPF_RUN_PAGE"
		}
		return fmt.Errorf("the live page of %s uses the liveness endpoint: it needs --liveness URL", page)
	case !c.Page && (c.PageToken != "" || c.PageAuth || c.PageStacks):
		return errors.New("--page-token, --page-auth and --page-stacks are about the live page: they need --page")
	case !embedded.Included && (c.Embedded || c.Listen != "" || len(c.Apply) > 0):
		return errNoEmbed
	case given["embedded"] && c.Embedded && (given["kubeconfig"] || given["context"]):
		return errors.New("--kubeconfig and --context are for a cluster: they do not go together with --embedded")
	case !c.Embedded && len(c.Apply) > 0:
		return errors.New("--apply loads manifests into the embedded API server: it needs --embedded")
	case !c.Embedded && c.Listen != "":
		return errors.New("--listen is the address of the embedded API server: it needs --embedded")
	}
	return nil
}

// UsageError is a usage error. Its text begins with the name of the program, and refers to the help.
type UsageError struct {
	Err     error
	program string
	command string // "" if unknown
}

// Misuse returns a usage error of a command whose flags were parsed.
func (l *Line) Misuse(call *Call, err error) error { return &UsageError{err, l.Name(), call.Command} }

func (e *UsageError) Error() string {
	text := e.program + ": " + e.Err.Error()
	switch {
	case errors.Is(e.Err, errNoEmbed): // the help has nothing to add
		return text
	case e.command == "" || e.command == "help":
		return fmt.Sprintf("%s\nRun \"%s help\" for the commands.", text, e.program)
	}
	return fmt.Sprintf("%s\nRun \"%s %s --help\" for usage and examples.", text, e.program, e.command)
}

func (e *UsageError) Unwrap() error { return e.Err }

// OneLine returns the text of an error that may join several ones.
func OneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}

// Name returns the name of the program.
func (l *Line) Name() string { return strings.TrimSuffix(filepath.Base(l.Program), ".exe") }
