// Package cli is the command line of operators: its commands and flags, their help, and the checks of their usage. It executes only the commands that print
// something.
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
	Program string                   // the path that it was called by
	Version string                   // of the framework
	Getenv  func(name string) string // as [os.Getenv]
	Stdin   io.Reader

	// Namespaces lists those of the cluster, for the completion; nil if it cannot at once.
	Namespaces func(*Options) []string
}

// Call is the parsed command line: a text to print, or a command to run.
type Call struct {
	Text    string
	Command string // run, freeze or resume
	Options
	Inspect InspectOptions // of status and explain
	install installer      // nil in builds without it
}

// installer is the options of the commands that say what an installation needs. It is an interface so that builds without these commands are linked without them.
type installer interface {
	checkInstall() error
	definitionFiles() []string
}

// errNoEmbed is the error of a build without the embedded API server for flags and commands that need it.
var errNoEmbed = errors.New("this operator was built with the tag noembed, which leaves out the embedded API server and the commands manifests, status and explain: " +
	"build it without the tag, or run it on a cluster, without --embedded, --listen and --apply")

// Parse reads the arguments, the variables for options that are not there, and the manifests that they name. Its errors are of the type [UsageError], but
// for that of the context.
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
		if !embedded.Included && (isInstallation(name) || isInspection(name)) {
			err = errNoEmbed
		}
		return nil, &UsageError{err, program.Name, ""}
	}
	if name == "freeze" {
		call.Priority = freezePriority
	}
	call.Command = name
	if embedded.Included && isInspection(name) {
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

// finish reads what follows the options of a command, and the variables.
func (l *Line) finish(ctx context.Context, call *Call, program *cliflag.Program, options []cliflag.Option, given map[string]bool, rest []string) (err error) {
	switch call.Command {
	case "help":
		call.Text, err = help(program, rest)
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
	if !embedded.Included { // which leaves the code out
		return nil
	}
	paths, source := call.Apply, "--apply"
	if isInstallation(call.Command) {
		paths, source = call.install.definitionFiles(), "--definitions"
	}
	if call.Manifests, err = manifest.ReadFiles(ctx, paths, l.Stdin); err != nil {
		if source == "--apply" && !given["apply"] {
			source = "the environment variable KOPF_RUN_APPLY"
		}
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

// help returns the help of the command that is named, or of the program.
func help(program *cliflag.Program, names []string) (string, error) {
	switch len(names) {
	case 0:
		return program.Help(), nil
	case 1:
		command, err := program.Command(names[0])
		if err != nil {
			return "", err
		}
		return program.CommandHelp(command), nil
	}
	return "", fmt.Errorf("unexpected argument %q: help takes the name of one command", names[1])
}

// readVariables reads the variables of options that are not given.
func (l *Line) readVariables(call *Call, options []cliflag.Option, given map[string]bool) error {
	// -A also beats namespaces in the environment, and the other way around.
	everywhere := given["all-namespaces"] && call.Clusterwide
	read := map[string]bool{"all-namespaces": given["namespace"], "namespace": everywhere}
	for name := range given {
		read[name] = true
	}
	if err := cliflag.ParseVariables(options, read, "KOPF_"+strings.ToUpper(call.Command)+"_", l.Getenv); err != nil {
		return err
	}
	const legacy = "KOPF_RUN_NAMESPACE"
	if pattern := l.Getenv(legacy); call.Command == "run" && pattern != "" && !everywhere {
		return cliflag.Invalid(pattern, "the environment variable "+legacy, call.addNamespace(pattern))
	}
	return nil
}

// readConnection reads the variables by which the completion finds the cluster. Options on the line will beat them.
func (l *Line) readConnection(call *Call, program *cliflag.Program, words []string) {
	command, _ := program.Split(words)
	for _, o := range call.connection() { // one by one, as a wrong one is no reason to go without the other
		_ = cliflag.ParseVariables([]cliflag.Option{o}, nil, "KOPF_"+strings.ToUpper(command)+"_", l.Getenv)
	}
}

// check returns an error about flags that conflict. --embedded takes precedence over environment variables with another cluster. Most other flags
// conflict only if both are on the command line, because one person has written that.
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
	case embedded.Included && isInstallation(c.Command):
		return c.install.checkInstall()
	case c.Command != "run" && c.Peering == "":
		return fmt.Errorf("%s needs the name of the peering object: --peering NAME", c.Command)
	case c.Command == "freeze" && c.Lifetime < time.Second:
		return errors.New("freeze needs a duration: --lifetime DURATION, at least 1s")
	case c.Page && c.Liveness == "":
		return errors.New("--page uses the liveness endpoint: it needs --liveness URL")
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

// UsageError is wrong usage. Its text has the name of the program before it, and where to read on.
type UsageError struct {
	Err     error
	program string
	command string // empty if it is unknown
}

func (e *UsageError) Error() string {
	text := e.program + ": " + e.Err.Error()
	switch {
	case errors.Is(e.Err, errNoEmbed): // about which the help has nothing to add
		return text
	case e.command == "" || e.command == "help":
		return fmt.Sprintf("%s\nRun \"%s help\" for the commands.", text, e.program)
	}
	return fmt.Sprintf("%s\nRun \"%s %s --help\" for usage and examples.", text, e.program, e.command)
}

func (e *UsageError) Unwrap() error { return e.Err }

// OneLine returns the text of an error that may be several ones.
func OneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}

// Name returns the name of the program.
func (l *Line) Name() string { return strings.TrimSuffix(filepath.Base(l.Program), ".exe") }
