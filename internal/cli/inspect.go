package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/cliflag"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/validation"
)

// The commands that report on objects.
const (
	commandStatus  = "status"
	commandExplain = "explain"
)

// ExitFailed is the exit code of the command status if handlers fail, and the check was requested.
const ExitFailed = 3

// isInspection reports whether a command reports on objects.
func isInspection(command string) bool { return command == commandStatus || command == commandExplain }

// InspectOptions are the options of the commands that report on objects.
type InspectOptions struct {
	Kind, Name string // "" for all

	Namespace     string // of the objects; "" for that of the context
	AllNamespaces bool
	Prefix        string // of the operator's annotations; "" for all

	// Of status.
	Selector string
	Watch    bool
	Failed   bool
	ExitCode bool

	Live      bool   // show the activity of the running operator instead of objects
	Pod       string // "" for all pods with the labels
	Pods      string
	PagePort  int
	PageToken string // file name

	// Of explain.
	File, Old      string // with objects
	Event          string // created, updated, deleted or resumed
	Definitions    []string
	Serves         []string // patterns of served namespaces
	ServiceAccount string   // "namespace/name"
}

const (
	groupObjects  = "Objects"
	groupLive     = "Running operator"
	groupOperator = "Operator"
)

// inspection returns the options of the commands in the order of the help.
func (c *Call) inspection(command string) []cliflag.Option {
	i, o := &c.Inspect, &c.Options
	all := []cliflag.Option{
		{Group: groupObjects, Short: "n", Long: "namespace", Value: "NAMESPACE", Help: "Look at objects in NAMESPACE", Default: "the context's", Target: checked(&i.Namespace, checkNamespace)},
		{Group: groupObjects, Commands: commandStatus, Short: "A", Long: "all-namespaces", Help: "Look at objects in all namespaces", Target: &i.AllNamespaces},
		{Group: groupObjects, Commands: commandStatus, Short: "l", Long: "selector", Value: "SELECTOR", Help: "Show only objects matching SELECTOR, such as app=web", Target: &i.Selector},
		{Group: groupObjects, Commands: commandStatus, Long: "failed", Help: "Show only objects with failing handlers", Target: &i.Failed},
		{Group: groupLive, Commands: commandStatus, Long: "live", Help: "Show what the pods of the operator are doing, not objects", Target: &i.Live},
		{Group: groupLive, Commands: commandStatus, Long: "pods", Value: "SELECTOR", Help: "Ask the pods matching SELECTOR", Default: i.Pods, Target: &i.Pods},
		{Group: groupLive, Commands: commandStatus, Long: "pod", Value: "NAME", Help: "Ask the pod NAME", Target: &i.Pod},
		{Group: groupLive, Commands: commandStatus, Long: "page-port", Value: "N", Help: "Ask the pods at port N", Default: strconv.Itoa(i.PagePort), Target: &i.PagePort},
		{Group: groupLive, Commands: commandStatus, Long: "page-token", Value: "FILE", Files: true, Help: "Send the token in FILE to the live page", Target: &i.PageToken},
		{Group: groupObjects, Commands: commandExplain, Short: "f", Long: "file", Value: "FILE", Files: true, Help: "Read the object from FILE or -, without a cluster", Target: &i.File},
		{Group: groupObjects, Commands: commandExplain, Long: "old", Value: "FILE", Files: true, Help: "Assume that the object was last handled as in FILE", Target: &i.Old},
		{Group: groupObjects, Commands: commandExplain, Long: "event", Value: "EVENT", Help: "Assume EVENT: created, updated, deleted or resumed", Default: "updated",
			Target: choice(&i.Event, "created", "updated", "deleted", "resumed"), Values: choices(
				cliflag.Candidate{Value: "created", Help: "As if it was never handled"},
				cliflag.Candidate{Value: "updated", Help: "As it is"},
				cliflag.Candidate{Value: "deleted", Help: "As if its deletion was requested"},
				cliflag.Candidate{Value: "resumed", Help: "As the operator finds it when it starts"})},
		{Group: groupObjects, Commands: commandExplain, Long: "definitions", Value: "PATH", Repeated: true, Files: true, Help: "With --file, read CRDs from a file or a folder", Target: &i.Definitions},
		{Group: groupOperator, Long: "prefix", Value: "PREFIX", Help: "Read only annotations with PREFIX", Default: "any", Target: checked(&i.Prefix, checkPrefix)},
		{Group: groupOperator, Commands: commandExplain, Long: "serves", Value: "PATTERN", Repeated: true, Help: "Assume that the operator serves namespaces like PATTERN", Target: func(pattern string) error {
			served := Options{Namespaces: i.Serves}
			err := served.addNamespace(pattern)
			i.Serves = served.Namespaces
			return err
		}},
		{Group: groupOperator, Short: "P", Long: "peering", Value: "NAME", Help: "Check whether the peering object NAME pauses it", Target: o.setPeering},
		{Group: groupOperator, Short: "p", Long: "priority", Value: "N", Help: "Assume that the operator has priority N", Default: "0", Target: &o.Priority},
		{Group: groupOperator, Commands: commandExplain, Long: "leader-elect", Value: "NAME", Help: "Check which replica holds the Lease NAME", Target: o.setLeaderElect},
		{Group: groupOperator, Commands: commandExplain, Long: "leader-elect-namespace", Value: "NAMESPACE", Help: "Look for the Lease in NAMESPACE", Default: "the context's", Target: o.setLeaderElectNamespace},
		{Group: groupOperator, Commands: commandExplain, Long: "service-account", Value: "NAMESPACE/NAME", Help: "Check the permissions of this service account", Target: checked(&i.ServiceAccount, checkServiceAccount)},
	}
	for _, option := range o.connection() {
		option.Commands, option.Variables = "", ""
		all = append(all, option)
	}
	output, values := "Set the format to text or json", []string{"text", "json"}
	if command == commandStatus {
		output, values = "Set the format to table, wide, json or yaml", []string{"table", "wide", "json", "yaml"}
	}
	all = append(all,
		cliflag.Option{Group: groupOutput, Short: "o", Long: "output", Value: "FORMAT", Help: output, Default: values[0], Target: choice(&o.Output, values...)},
		cliflag.Option{Group: groupOutput, Commands: commandStatus, Short: "w", Long: "watch", Help: "Watch objects, and print them again when they change", Target: &i.Watch},
		cliflag.Option{Group: groupOutput, Commands: commandStatus, Long: "exit-code", Help: fmt.Sprintf("With --failed, exit with code %d if there are any", ExitFailed), Target: &i.ExitCode})
	return cliflag.Of(all, command)
}

func checkPrefix(prefix string) error {
	if !validation.IsDNSSubdomain(prefix) {
		return errors.New("want the prefix of annotations, such as kopf.zalando.org")
	}
	return nil
}

func checkServiceAccount(account string) error {
	namespace, name, ok := strings.Cut(account, "/")
	if !ok || !validation.IsNamespaceName(namespace) || !validation.IsObjectName(name) {
		return errors.New("want the namespace and the name of a service account, such as default/website-operator")
	}
	return nil
}

// inspectionCommands returns the commands with their options.
func (c *Call) inspectionCommands() []cliflag.Command {
	return []cliflag.Command{{
		Options: c.inspection(commandStatus),
		Name:    commandStatus, Args: "[flags] [KIND [NAME]]", Short: "Show the progress and errors of handlers on objects",
		About: "Show which objects are handled, which fail with which error, and when the next attempt is. The command reads only what operators have stored on the objects, so no operator has to run. " +
			"Without a kind, it shows all kinds that this operator has handlers for.",
		Examples: []cliflag.Example{
			{About: "Show all objects of this operator", Command: "{} status -A"},
			{About: "Show one object, with a line for each handler", Command: "{} status websites home -o wide"},
			{About: "Fail in a script if handlers fail", Command: "{} status -A --failed --exit-code"},
		},
	}, {
		Options: c.inspection(commandExplain),
		Name:    commandExplain, Args: "[flags] KIND [NAME]", Short: "Explain which handlers kopf calls for an object, and why",
		About: "Explain what this operator does with an object in its current state: for each handler, whether it is called, or the first reason why not. The command calls predicates, but no handlers, and changes nothing. " +
			"Without a name, it lists the handlers of the kind.",
		Examples: []cliflag.Example{
			{About: "Explain why a handler is not called", Command: "{} explain websites home"},
			{About: "Explain a change before it is made, without a cluster", Command: "{} explain --file new.yaml --old old.yaml"},
			{About: "Show the handlers of a kind", Command: "{} explain websites"},
		},
	}}
}

// parseInspection parses the arguments of the commands. Options may follow the kind and the name.
func (l *Line) parseInspection(ctx context.Context, call *Call, program *cliflag.Program, command *cliflag.Command, args []string) (*Call, error) {
	var words []string
	call.Given = map[string]bool{}
	for {
		given, rest, help, err := cliflag.Parse(command.Options, args)
		maps.Copy(call.Given, given)
		if err != nil {
			return nil, &UsageError{err, program.Name, call.Command}
		}
		if help {
			call.Text = program.CommandHelp(command)
			return call, nil
		}
		if len(rest) == 0 {
			break
		}
		words, args = append(words, rest[0]), rest[1:]
	}
	err := call.nameInspected(words)
	if err == nil {
		call.Manifests, err = manifest.ReadFiles(ctx, call.Inspect.Definitions, l.Stdin)
	}
	if err != nil && ctx.Err() == nil {
		err = &UsageError{err, program.Name, call.Command}
	}
	return call, err
}

// nameInspected sets the kind and the name of the objects.
func (c *Call) nameInspected(words []string) error {
	i := &c.Inspect
	if kind, name, ok := strings.Cut(strings.Join(words, " "), "/"); ok && len(words) == 1 { // as in kubectl
		words = []string{kind, name}
	}
	switch {
	case len(words) > 2:
		return fmt.Errorf("unexpected argument %q: want a kind and a name", words[2])
	case slices.Contains(words, ""):
		return errors.New("invalid argument \"\": want a kind and a name")
	}
	if len(words) > 0 {
		i.Kind = words[0]
	}
	if len(words) > 1 {
		i.Name = words[1]
	}
	return c.checkInspection()
}

// Flags that have an effect only in some uses of the commands.
var (
	ofCluster = []string{"namespace", "peering", "priority", "leader-elect", "leader-elect-namespace", "service-account", "kubeconfig", "context"}
	ofObject  = []string{"event", "serves", "peering", "priority", "leader-elect", "leader-elect-namespace", "service-account"}
	ofStored  = []string{"prefix", "peering", "priority"}
	ofPods    = []string{"pod", "pods", "page-port", "page-token"}
)

// anyGiven reports whether any of the flags is on the command line.
func (c *Call) anyGiven(flags []string) bool {
	return slices.ContainsFunc(flags, func(flag string) bool { return c.Given[flag] })
}

// flagList returns the flags for an error.
func flagList(flags []string) string {
	last := len(flags) - 1
	return "--" + strings.Join(flags[:last], ", --") + " and --" + flags[last]
}

// checkInspection returns an error about conflicting options, and about those without effect.
func (c *Call) checkInspection() error {
	i := &c.Inspect
	switch {
	case c.Command == commandExplain && i.Kind == "" && i.File == "":
		return errors.New("explain needs a kind, as in \"explain websites home\", or an object: --file FILE")
	case i.File != "" && i.Kind != "":
		return fmt.Errorf("unexpected argument %q: the object is read from --file %s", i.Kind, i.File)
	case i.Old != "" && i.File == "" && i.Name == "":
		return errors.New("--old needs an object to compare: give its name, or --file FILE")
	case i.File == "-" && i.Old == "-":
		return errors.New("--file and --old cannot both be standard input")
	case i.Old != "" && i.Event == "created":
		return errors.New("--old assumes that the object was handled before, and --event created that it was not: use one of them")
	case i.File != "" && c.anyGiven(ofCluster):
		return fmt.Errorf("--file explains an object without a cluster: it does not go together with %s", flagList(ofCluster))
	case c.Command == commandExplain && i.File == "" && i.Name == "" && c.anyGiven(ofObject):
		return fmt.Errorf("without a name, explain lists the handlers of a kind: %s need the name of an object", flagList(ofObject))
	case len(i.Definitions) > 0 && i.File == "":
		return errors.New("--definitions is for objects without a cluster: it needs --file FILE")
	case i.AllNamespaces && i.Namespace != "":
		return fmt.Errorf("-A, --all-namespaces and the namespace %q exclude each other: use one of them", i.Namespace)
	case i.AllNamespaces && i.Name != "":
		return fmt.Errorf("-A, --all-namespaces does not go together with the name %q", i.Name)
	case i.Selector != "" && i.Name != "":
		return fmt.Errorf("-l, --selector does not go together with the name %q", i.Name)
	case i.Live && i.Kind != "":
		return fmt.Errorf("unexpected argument %q: --live shows what the operator is doing, not objects", i.Kind)
	case i.Live && (c.Output == "yaml" || c.Output == "wide"):
		return fmt.Errorf("invalid value %q for -o, --output: with --live, want table or json", c.Output)
	case i.Live && (i.AllNamespaces || i.Selector != "" || i.Failed || i.Watch || i.ExitCode):
		return errors.New("--live shows what the operator is doing, not objects: it does not go together with -A, -l, -w, --failed and --exit-code")
	case i.Live && c.anyGiven(ofStored):
		return fmt.Errorf("--live shows what the operator is doing, not objects: it does not go together with %s", flagList(ofStored))
	case c.Command == commandStatus && !i.Live && c.anyGiven(ofPods):
		return fmt.Errorf("%s are about the running operator: they need --live", flagList(ofPods))
	case i.PagePort < 1 || i.PagePort > 65535:
		return fmt.Errorf("invalid value %d for --page-port: want a port, from 1 to 65535", i.PagePort)
	case i.ExitCode && !i.Failed:
		return errors.New("--exit-code reports whether there are objects with failing handlers: it needs --failed")
	case i.Watch && i.ExitCode:
		return errors.New("--watch runs until you stop it, and does not go together with --exit-code")
	case i.Watch && c.Output == "yaml":
		return errors.New("--watch prints a table or json, not yaml")
	}
	return nil
}
