package kopf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// This file knows the options of the command line: their names, their variables, and how they
// are read. It runs on the goroutine of the command.

// runOptions are the options of the command run, and of the others that have some of them.
type runOptions struct {
	log         LogOptions
	clusterwide bool
	namespaces  []string
	standalone  bool
	dev         bool
	priority    int
	kubeconfig  string
	context     string
	embedded    bool
	listen      string
	apply       []string
	liveness    string

	peering  string
	id       string
	lifetime int // in seconds
	message  string
}

// devPriority is the priority of operators under development: they win over deployed ones.
const devPriority = 666

func (o *runOptions) peeringPriority() int {
	if o.dev {
		return devPriority
	}
	return o.priority
}

// flagOption is an option: where it comes from, and where its value goes.
type flagOption struct {
	on        string // the commands that have it; "" means all
	short     string // such as "n", for -n
	long      string // such as "namespace", for --namespace
	variables string // such as "NAMESPACES", for KOPF_RUN_NAMESPACES or KOPF_FREEZE_NAMESPACES; the first one that is set counts
	value     string // what its value is, in the help; "" for an option without one
	repeated  bool   // several values are taken, by spaces in a variable
	hidden    bool   // it is read, so that it can be refused, and not offered
	help      string
	target    any // where its value goes, or a function that takes it
}

// of returns the options of a command in the order of the help.
func (o *runOptions) of(command string) []flagOption {
	var options []flagOption
	for _, f := range o.options() {
		if f.on == "" || strings.Contains(f.on, command) {
			options = append(options, f)
		}
	}
	return options
}

func (o *runOptions) options() []flagOption {
	return []flagOption{
		{short: "A", long: "all-namespaces", variables: "CLUSTERWIDE ALL_NAMESPACES",
			help: "the whole cluster, which is the default too", target: &o.clusterwide},
		{short: "n", long: "namespace", variables: "NAMESPACES", value: "PATTERN", repeated: true,
			help: "the namespaces of this name or pattern, as 'team-*,!team-x'", target: &o.namespaces},
		{short: "P", long: "peering", variables: "PEERING PEERING_NAME", value: "NAME",
			help: "the name of the peering object, which has to exist then", target: &o.peering},
		{on: "freeze resume", short: "i", long: "id", variables: "ID", value: "TEXT",
			help: "whose record it is; user@host by default", target: &o.id},
		{on: "freeze", short: "t", long: "lifetime", variables: "LIFETIME", value: "SECONDS",
			help: "how long the operators shall pause, if they are not resumed before", target: &o.lifetime},
		{on: "freeze", short: "m", long: "message", variables: "MESSAGE", value: "TEXT",
			help: "why; it is shown with what was done", target: &o.message},
		{on: "run", long: "standalone", variables: "STANDALONE", help: "do not look for other operators", target: &o.standalone},
		{on: "run freeze", long: "dev", variables: "DEV",
			help: fmt.Sprintf("take priority %d, to win over deployed operators", devPriority), target: &o.dev},
		{on: "run freeze", short: "p", long: "priority", variables: "PRIORITY", value: "N",
			help: "the priority among operators; the highest one works; 100 by default in freeze, else 0", target: &o.priority},
		{on: "run", short: "L", long: "liveness", variables: "LIVENESS_ENDPOINT", value: "URL",
			help: "tell here how it is, as http://0.0.0.0:8080/healthz", target: &o.liveness},
		{long: "kubeconfig", variables: "KUBECONFIG", value: "FILE",
			help: "log in with this file instead of those in $KUBECONFIG", target: &o.kubeconfig},
		{long: "context", variables: "CONTEXT", value: "NAME",
			help: "the context of the kubeconfig, instead of its current one", target: &o.context},
		{on: "run", long: "embedded", variables: "EMBEDDED", hidden: !canEmbed,
			help: "run on an API server in memory, and print how to reach it", target: &o.embedded},
		{on: "run", long: "listen", variables: "LISTEN", hidden: !canEmbed, value: "ADDRESS",
			help: "where the embedded server listens; 127.0.0.1:0, a free port, by default", target: &o.listen},
		{on: "run", long: "apply", variables: "APPLY", hidden: !canEmbed, value: "FILE", repeated: true,
			help: "load these manifests into the embedded server at the start", target: &o.apply},
		{short: "v", long: "verbose", variables: "VERBOSE", help: "log debugging messages too", target: &o.log.Verbose},
		{short: "d", long: "debug", variables: "DEBUG",
			help: "as --verbose, with the place in the source code", target: &o.log.Debug},
		{short: "q", long: "quiet", variables: "QUIET", help: "log warnings and errors only", target: &o.log.Quiet},
		{long: "log-format", variables: "LOG_FORMAT", value: "full|plain|json",
			help: "the look of log lines; full by default", target: &o.log.Format},
		{long: "log-refkey", variables: "LOG_REFKEY", value: "KEY",
			help: "the key of the object's reference in JSON; object by default", target: &o.log.RefKey},
		{long: "log-prefix", variables: "LOG_PREFIX",
			help: "begin messages with [namespace/name] in JSON too; --no-log-prefix nowhere", target: o.setPrefix},
	}
}

func (o *runOptions) setPrefix(value string) error {
	on, err := parseBool(value)
	o.log.Prefix, o.log.NoPrefix = on, !on
	return err
}

func parseBool(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "1", "t", "true", "y", "yes", "on":
		return true, nil
	case "0", "f", "false", "n", "no", "off":
		return false, nil
	}
	return false, errors.New("expected true or false")
}

// set stores the value where it goes.
func (f *flagOption) set(value string) (err error) {
	switch target := f.target.(type) {
	case *bool:
		*target, err = parseBool(value)
	case *int:
		n, bad := strconv.Atoi(value)
		if bad != nil {
			return errors.New("expected a whole number")
		}
		*target = n
	case *string:
		*target = value
	case *[]string:
		if value == "" {
			return errors.New("expected a text that is not empty")
		}
		*target = append(*target, value)
	case *LogFormat:
		err = target.UnmarshalText([]byte(value))
	case func(string) error:
		err = target(value)
	}
	return err
}

// parse reads the arguments of a command, and for options that are not there, the variables; env is os.Getenv. It tells
// whether help is wanted instead of a run.
func (o *runOptions) parse(command string, args []string, env func(string) string) (help bool, err error) {
	options := o.of(command)
	given := make(map[string]bool) // by the long names of the options
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--help" || arg == "-h":
			return true, nil
		case strings.HasPrefix(arg, "--") && len(arg) > 2:
			args, err = parseLong(options, given, arg, args)
		case strings.HasPrefix(arg, "-") && len(arg) > 1 && arg != "--":
			args, err = parseShort(options, given, arg, args)
		case arg == "--" && len(args) == 0:
		default:
			err = fmt.Errorf("unexpected argument %q: handlers are compiled in, and %s takes options only", arg, command)
		}
		if err != nil {
			return false, err
		}
	}
	if err := o.parseVariables(command, options, given, env); err != nil {
		return false, err
	}
	return false, o.check(command, given)
}

// parseLong reads "--name", "--no-name", "--name=value", or "--name" with its value in the next
// argument, and returns the arguments left.
func parseLong(options []flagOption, given map[string]bool, arg string, rest []string) ([]string, error) {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
	if name == "no-log-prefix" && !hasValue {
		name, value, hasValue = "log-prefix", "false", true
	}
	i := slices.IndexFunc(options, func(f flagOption) bool { return f.long == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown option %q", "--"+name)
	}
	f := options[i]
	switch {
	case hasValue:
	case f.value == "":
		value = "true"
	case len(rest) == 0:
		return nil, fmt.Errorf("option --%s needs a value: %s", name, f.value)
	default:
		value, rest = rest[0], rest[1:]
	}
	return rest, f.parse(given, value)
}

// parseShort reads "-n value", "-nvalue", or several letters as in "-Av", and returns the
// arguments left.
func parseShort(options []flagOption, given map[string]bool, arg string, rest []string) ([]string, error) {
	for letters := arg[1:]; letters != ""; {
		letter := letters[:1]
		letters = letters[1:]
		i := slices.IndexFunc(options, func(f flagOption) bool { return f.short == letter })
		if i < 0 {
			return nil, fmt.Errorf("unknown option %q", "-"+letter)
		}
		f, value := options[i], "true"
		switch {
		case f.value == "":
		case letters != "":
			value, letters = strings.TrimPrefix(letters, "="), ""
		case len(rest) == 0:
			return nil, fmt.Errorf("option -%s needs a value: %s", letter, f.value)
		default:
			value, rest = rest[0], rest[1:]
		}
		if err := f.parse(given, value); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// parse takes the value of an option on the command line.
func (f *flagOption) parse(given map[string]bool, value string) error {
	given[f.long] = true
	if err := f.set(value); err != nil {
		return fmt.Errorf("option --%s=%q: %w", f.long, value, err)
	}
	return nil
}

// parseVariables takes the options from the environment that were not given on the command line. -A on
// the command line also beats namespaces in the environment, and the other way around.
func (o *runOptions) parseVariables(command string, options []flagOption, given map[string]bool, env func(string) string) error {
	all, some := given["all-namespaces"], given["namespace"]
	for _, f := range options {
		if given[f.long] || f.long == "namespace" && all && o.clusterwide || f.long == "all-namespaces" && some {
			continue
		}
		for _, variable := range strings.Fields(f.variables) {
			variable = "KOPF_" + strings.ToUpper(command) + "_" + variable
			text := env(variable)
			if text == "" {
				continue
			}
			values := []string{text}
			if f.repeated {
				values = strings.Fields(text)
			}
			for _, value := range values {
				if err := f.set(value); err != nil {
					return fmt.Errorf("variable %s=%q: %w", variable, value, err)
				}
			}
			break
		}
	}
	if pattern := env("KOPF_RUN_NAMESPACE"); command == "run" && pattern != "" && !(all && o.clusterwide) {
		o.namespaces = append(o.namespaces, pattern)
	}
	return nil
}

// check finds the options that do not go together. What the environment says of another cluster, --embedded beats.
func (o *runOptions) check(command string, given map[string]bool) error {
	switch {
	case o.clusterwide && len(o.namespaces) > 0:
		return fmt.Errorf("either all namespaces or some of them can be served: not both -A and the namespaces %q", o.namespaces)
	case command != "run" && o.peering == "":
		return fmt.Errorf("%s needs the name of the peering object: --peering NAME", command)
	case command == "freeze" && o.lifetime <= 0:
		return errors.New("freeze needs to know for how long: --lifetime SECONDS, at least 1")
	case !canEmbed && (o.embedded || o.listen != "" || len(o.apply) > 0):
		return errNoEmbed
	case given["embedded"] && o.embedded && (given["kubeconfig"] || given["context"]):
		return errors.New("--kubeconfig and --context are for a cluster: they do not go together with --embedded")
	case !o.embedded && len(o.apply) > 0:
		return errors.New("--apply loads manifests into the embedded server: it needs --embedded")
	case !o.embedded && o.listen != "":
		return errors.New("--listen is where the embedded server listens: it needs --embedded")
	}
	return nil
}

// program is the name that the operator was called by.
func program() string { return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") }

// helpOf returns what a person wants to know about a command and its options.
func helpOf(command string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s %s [options]\n\n%s\n\nOptions:\n", program(), command, purposes[command])
	for _, f := range new(runOptions).of(command) {
		if f.hidden {
			continue
		}
		names := "    --" + f.long
		if f.short != "" {
			names = "-" + f.short + ", --" + f.long
		}
		if f.value != "" {
			names += " " + f.value
		}
		help := f.help
		if f.repeated {
			help += "; repeatable"
		}
		if len(names) < 30 {
			fmt.Fprintf(&b, "  %-30s%s\n", names, help)
		} else {
			fmt.Fprintf(&b, "  %s\n%32s%s\n", names, "", help)
		}
	}
	b.WriteString(strings.ReplaceAll(`
Every option can come from a variable too, such as KOPF_RUN_LOG_FORMAT for
--log-format; an option beats its variable. Several values in one variable, such as
KOPF_RUN_NAMESPACES, are separated by spaces.
`, "RUN", strings.ToUpper(command)))
	return b.String()
}

// purposes are what the commands with options do.
var purposes = map[string]string{
	"run": "Run the operator until SIGINT or SIGTERM.",
	"freeze": `Let all operators of a peering object pause that have a lower priority, by a record in it
that is not renewed. They go on after its lifetime, or when it is removed by resume.`,
	"resume": "Remove the record that freeze has written, so that the operators go on.",
}
