package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver"
	"github.com/kopf-go/kopf/internal/cliflag"
	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/exitguard"
	"github.com/kopf-go/kopf/internal/hostid"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/peerrecord"
)

// The exit codes of failures and of wrong usage.
const (
	exitUsage = 2
)

// Main runs the command line of an operator with the handlers of the default registry, as [Command]
// does with the arguments of the process, and exits. It is the last call of an operator's own main.
//
// The first SIGINT or SIGTERM stops the operator in good order, the second one skips the grace
// periods of the handlers that still run, and the third one exits at once. Settings.Process.UltimateExitingTimeout
// after the beginning of its exit, the operator ends in any case, with a dump of all goroutines.
func Main() {
	c := &command{stdout: os.Stdout, stderr: os.Stderr, guard: exitguard.New()}
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		c.guard.Watch(over, signals, stop, func(code int) { os.Exit(code) }, os.Stderr)
	}()
	code := c.execute(ctx, os.Args[1:])
	close(over)
	<-done
	os.Exit(code)
}

// Command runs one command of an operator's command line, with the handlers of the default registry:
// "run", which is also what no command means, "freeze", "resume", "completion", "version" or "help". It returns the exit code: 0 after the
// operator was stopped by the end of ctx, 1 after a failure, 2 for wrong usage, both with a line on
// stderr that says why. It configures the logging of the process, and reads the variables KOPF_RUN_…,
// KOPF_FREEZE_… and KOPF_RESUME_….
func Command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return (&command{stdout: stdout, stderr: stderr}).execute(ctx, args)
}

// command is one call of the command line.
type command struct {
	stdout, stderr io.Writer
	guard          *exitguard.Guard // nil if it is not the process's own
}

// execute runs the command in the arguments, and returns the exit code.
func (c *command) execute(ctx context.Context, args []string) int {
	name, rest := "run", args
	if len(args) > 0 && (!strings.HasPrefix(args[0], "-") || args[0] == "--help" || args[0] == "-h" || args[0] == "--version") {
		name, rest = args[0], args[1:]
	}
	switch name {
	case "run":
		return c.run(ctx, rest)
	case "freeze", "resume":
		return c.changePeering(ctx, name, rest)
	case "completion":
		return c.completion(rest)
	case "version", "--version":
		fmt.Fprintf(c.stdout, "kopf %s (%s, %s/%s)\n", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return 0
	case "help", "--help", "-h":
		if len(rest) > 0 && purposes[rest[0]] != "" {
			fmt.Fprint(c.stdout, helpOf(rest[0]))
		} else {
			fmt.Fprintf(c.stdout, commandsHelp, program())
		}
		return 0
	}
	return c.misused("run", fmt.Errorf("unknown command %q: expected run, freeze, resume, completion, version or help", name))
}

// errNoEmbed is the answer of a build without the embedded server to the options that need it.
var errNoEmbed = errors.New("this operator was built with the tag noembed, which leaves the embedded server out: " +
	"build it without the tag, or run it on a cluster, without --embedded, --listen and --apply")

const commandsHelp = `Usage: %[1]s [command] [options]

Commands:
  run         run the operator until it is told to stop; what no command means
  freeze      let the operators of a peering object pause for a while
  resume      let them go on
  completion  print what completes these commands in bash, zsh or fish
  version     print the version of the framework
  help        print this, or with a command's name, the options of that command

Run "%[1]s run --help" for the options of run.
`

// misused says what is wrong with the command line.
func (c *command) misused(name string, err error) int {
	fmt.Fprintf(c.stderr, "%s: %v\n", program(), err)
	if err != errNoEmbed { // about which the help has nothing to add
		fmt.Fprintf(c.stderr, "Run \"%s help\" for the commands, and \"%s %s --help\" for the options.\n", program(), program(), name)
	}
	return exitUsage
}

// run runs the operator.
func (c *command) run(ctx context.Context, args []string) int {
	var o runOptions
	help, err := o.parse("run", args, os.Getenv)
	if err != nil {
		return c.misused("run", err)
	}
	if help {
		fmt.Fprint(c.stdout, helpOf("run"))
		return 0
	}
	o.log.Output = c.stderr
	logger := ConfigureLogging(&o.log)
	if err := c.serve(ctx, &o, logger); err != nil {
		logger.Error("Operator has failed: " + oneLine(err))
		return exitguard.ExitFailure
	}
	return 0
}

// oneLine returns the text of an error that may be several ones.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}

// serve runs the operator, and its embedded server if that was asked for.
func (c *command) serve(ctx context.Context, o *runOptions, logger *slog.Logger) error {
	settings := NewSettings()
	settings.Peering.Standalone = o.standalone
	settings.Peering.Priority = o.peeringPriority()
	op := &Operator{
		Settings: settings, Namespaces: o.namespaces, Clusterwide: o.clusterwide, Logger: logger,
		Kubeconfig: o.kubeconfig, KubeContext: o.context, Peering: o.peering, LivenessEndpoint: o.liveness,
	}
	if c.guard != nil {
		c.guard.Limit(settings.Process.UltimateExitingTimeout)
		op.guard = c.guard
	}
	if !embedded.Included || !o.embedded {
		return op.Run(ctx)
	}
	return c.embed(ctx, o, op)
}

// completion prints the script for a shell.
func (c *command) completion(args []string) int {
	var commands []cliflag.Command
	for _, name := range []string{"run", "freeze", "resume", "completion", "version", "help"} { // in the order of the help
		cmd := cliflag.Command{Name: name}
		if name == "completion" {
			cmd.Words = []string{"bash", "zsh", "fish"}
		} else if purposes[name] != "" {
			cmd.Options = new(runOptions).of(name)
		}
		commands = append(commands, cmd)
	}
	script, err := cliflag.Completion(strings.Join(args, " "), program(), commands)
	if err != nil {
		return c.misused("run", err)
	}
	fmt.Fprint(c.stdout, script)
	return 0
}

// program is the name that the operator was called by.
func program() string { return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") }

// helpOf returns the help of a command: what it does, and its options.
func helpOf(command string) string {
	return cliflag.CommandHelp(program(), command, purposes[command], "KOPF_", new(runOptions).of(command))
}

// purposes are what the commands with options do.
var purposes = map[string]string{
	"run": "Run the operator until SIGINT or SIGTERM.",
	"freeze": `Let all operators of a peering object pause that have a lower priority, by a record in it
that is not renewed. They go on after its lifetime, or when it is removed by resume.`,
	"resume": "Remove the record that freeze has written, so that the operators go on.",
}

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

// of returns the options of a command in the order of the help.
func (o *runOptions) of(command string) []cliflag.Option { return cliflag.Of(o.options(), command) }

// options are those of all commands, in the order of the help.
func (o *runOptions) options() []cliflag.Option {
	return []cliflag.Option{
		{Short: "A", Long: "all-namespaces", Variables: "CLUSTERWIDE ALL_NAMESPACES",
			Help: "the whole cluster, which is the default too", Target: &o.clusterwide},
		{Short: "n", Long: "namespace", Variables: "NAMESPACES", Value: "PATTERN", Repeated: true,
			Help: "the namespaces of this name or pattern, as 'team-*,!team-x'", Target: &o.namespaces},
		{Short: "P", Long: "peering", Variables: "PEERING PEERING_NAME", Value: "NAME",
			Help: "the name of the peering object, which has to exist then", Target: &o.peering},
		{Commands: "freeze resume", Short: "i", Long: "id", Variables: "ID", Value: "TEXT",
			Help: "whose record it is; user@host by default", Target: &o.id},
		{Commands: "freeze", Short: "t", Long: "lifetime", Variables: "LIFETIME", Value: "SECONDS",
			Help: "how long the operators shall pause, if they are not resumed before", Target: &o.lifetime},
		{Commands: "freeze", Short: "m", Long: "message", Variables: "MESSAGE", Value: "TEXT",
			Help: "why; it is shown with what was done", Target: &o.message},
		{Commands: "run", Long: "standalone", Variables: "STANDALONE", Help: "do not look for other operators", Target: &o.standalone},
		{Commands: "run freeze", Long: "dev", Variables: "DEV",
			Help: fmt.Sprintf("take priority %d, to win over deployed operators", devPriority), Target: &o.dev},
		{Commands: "run freeze", Short: "p", Long: "priority", Variables: "PRIORITY", Value: "N",
			Help: "the priority among operators; the highest one works; 100 by default in freeze, else 0", Target: &o.priority},
		{Commands: "run", Short: "L", Long: "liveness", Variables: "LIVENESS_ENDPOINT", Value: "URL",
			Help: "tell here how it is, as http://0.0.0.0:8080/healthz", Target: &o.liveness},
		{Long: "kubeconfig", Variables: "KUBECONFIG", Value: "FILE",
			Help: "log in with this file instead of those in $KUBECONFIG", Target: &o.kubeconfig},
		{Long: "context", Variables: "CONTEXT", Value: "NAME",
			Help: "the context of the kubeconfig, instead of its current one", Target: &o.context},
		{Commands: "run", Long: "embedded", Variables: "EMBEDDED", Hidden: !embedded.Included,
			Help: "run on an API server in memory, and print how to reach it", Target: &o.embedded},
		{Commands: "run", Long: "listen", Variables: "LISTEN", Hidden: !embedded.Included, Value: "ADDRESS",
			Help: "where the embedded server listens; 127.0.0.1:0, a free port, by default", Target: &o.listen},
		{Commands: "run", Long: "apply", Variables: "APPLY", Hidden: !embedded.Included, Value: "FILE", Repeated: true,
			Help: "load these manifests into the embedded server at the start", Target: &o.apply},
		{Short: "v", Long: "verbose", Variables: "VERBOSE", Help: "log debugging messages too", Target: &o.log.Verbose},
		{Short: "d", Long: "debug", Variables: "DEBUG",
			Help: "as --verbose, with the place in the source code", Target: &o.log.Debug},
		{Short: "q", Long: "quiet", Variables: "QUIET", Help: "log warnings and errors only", Target: &o.log.Quiet},
		{Long: "log-format", Variables: "LOG_FORMAT", Value: "full|plain|json",
			Help: "the look of log lines; full by default", Target: &o.log.Format},
		{Long: "log-refkey", Variables: "LOG_REFKEY", Value: "KEY",
			Help: "the key of the object's reference in JSON; object by default", Target: &o.log.RefKey},
		{Long: "log-prefix", Variables: "LOG_PREFIX", Negatable: true,
			Help: "begin messages with [namespace/name] in JSON too; --no-log-prefix nowhere", Target: o.setPrefix},
	}
}

func (o *runOptions) setPrefix(value string) error {
	on, err := cliflag.ParseBool(value)
	o.log.Prefix, o.log.NoPrefix = on, !on
	return err
}

// parse reads the arguments of a command, and for options that are not there, the variables; env is os.Getenv. It reports
// whether help is wanted instead of a run.
func (o *runOptions) parse(command string, args []string, env func(string) string) (help bool, err error) {
	options := o.of(command)
	given, rest, help, err := cliflag.Parse(options, args)
	if help || err != nil {
		return help, err
	}
	if len(rest) > 0 {
		return false, fmt.Errorf("unexpected argument %q: handlers are compiled in, and %s takes options only", rest[0], command)
	}
	// -A also beats namespaces in the environment, and the other way around.
	everywhere := given["all-namespaces"] && o.clusterwide
	given["all-namespaces"] = given["all-namespaces"] || given["namespace"]
	given["namespace"] = given["namespace"] || everywhere
	if err := cliflag.ParseVariables(options, given, "KOPF_"+strings.ToUpper(command)+"_", env); err != nil {
		return false, err
	}
	if pattern := env("KOPF_RUN_NAMESPACE"); command == "run" && pattern != "" && !everywhere {
		o.namespaces = append(o.namespaces, pattern)
	}
	return false, o.check(command, given)
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
	case !embedded.Included && (o.embedded || o.listen != "" || len(o.apply) > 0):
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

// changePeering runs freeze or resume.
func (c *command) changePeering(ctx context.Context, name string, args []string) int {
	o := runOptions{priority: 100}
	help, err := o.parse(name, args, os.Getenv)
	if err != nil {
		return c.misused(name, err)
	}
	if help {
		fmt.Fprint(c.stdout, helpOf(name))
		return 0
	}
	o.log.Output = c.stderr
	settings := NewSettings()
	settings.Networking.ErrorBackoffs = nil // there is a person who waits
	op := &Operator{Settings: settings, Namespaces: o.namespaces, Logger: ConfigureLogging(&o.log), Kubeconfig: o.kubeconfig, KubeContext: o.context}
	r, err := op.prepare()
	if err == nil {
		err = r.connect()
	}
	if err == nil {
		defer r.client.close()
		t := &peeringCommand{run: r, command: c, options: &o, verb: name}
		err = t.writeAll(ctx)
	}
	if err != nil {
		fmt.Fprintf(c.stderr, "%s %s: %s\n", program(), name, oneLine(err))
		return exitguard.ExitFailure
	}
	return 0
}

// peeringCommand is one call of freeze or resume.
type peeringCommand struct {
	*run
	command *command
	options *runOptions
	verb    string
	id      string
	done    int
}

// writeAll writes into all peering objects of the name that there are, or removes from them.
func (p *peeringCommand) writeAll(ctx context.Context) error {
	if p.id = p.options.id; p.id == "" {
		if p.id = os.Getenv("POD_ID"); p.id == "" {
			p.id = hostid.UserAtHost()
		} else {
			fmt.Fprintf(p.command.stderr, "The record is that of the pod, %q, and so of its operator, if there is one: --id gives it another name.\n", p.id)
		}
	}
	found, broken, err := p.client.discover(ctx, peeringGroups)
	for _, group := range broken {
		err = errors.Join(err, group)
	}
	if err != nil {
		return err
	}
	namespaces, err := p.namespaces(ctx)
	if err != nil {
		return err
	}
	exists := false
	var failures []error
	for _, r := range found {
		if !isPeering(r, p.Clusterwide) {
			continue
		}
		exists = true
		for _, namespace := range namespaces {
			if err := p.writeOne(ctx, r, namespace); err != nil {
				failures = append(failures, err)
			}
		}
	}
	if !exists {
		return errors.New("there is no resource of peering objects in the cluster")
	}
	if p.done == 0 && len(failures) == 0 {
		failures = append(failures, fmt.Errorf("no peering object %q was found", p.options.peering))
	}
	return errors.Join(failures...)
}

// writeOne does it in one object. A missing one is no failure: it may be elsewhere.
func (p *peeringCommand) writeOne(ctx context.Context, r Resource, namespace string) error {
	name := p.options.peering
	where := strings.TrimSuffix(fmt.Sprintf("%s %q in %s", r.Name(), name, namespace), " in ")
	body, err := p.client.object(ctx, r, namespace, name)
	if StatusCode(err) == 404 {
		fmt.Fprintf(p.command.stderr, "There is no %s.\n", where)
		return nil
	} else if err != nil {
		return err
	}
	var record any
	what := "is removed from"
	if p.verb == "freeze" {
		lifetime := time.Duration(p.options.lifetime) * time.Second
		record = peerrecord.Record(p.options.peeringPriority(), lifetime)
		what = fmt.Sprintf("with priority %d is in force for %s in", p.options.peeringPriority(), lifetime)
	} else if !body.Has(Path("status", p.id)) {
		return fmt.Errorf("there is no record of %q in %s, only of %q", p.id, where, body.Status().Keys())
	}
	if _, err := writePeering(ctx, p.client, r, namespace, name, "", map[string]any{p.id: record}); err != nil {
		return err
	}
	p.done++
	if p.options.message != "" {
		where += ": " + p.options.message
	}
	fmt.Fprintf(p.command.stdout, "The record of %q %s %s.\n", p.id, what, strings.TrimSuffix(where, "."))
	return nil
}

// namespaces returns those in which the peering objects are; it lists them only if there are patterns.
func (p *peeringCommand) namespaces(ctx context.Context) ([]string, error) {
	if p.Clusterwide {
		return []string{""}, nil
	}
	if !namespaces.IsPattern(strings.Join(p.Namespaces, "")) {
		return p.Namespaces, nil
	}
	var names []string
	err := p.client.list(ctx, namespacesResource, "", map[string][]string{}, p.Settings.Watching.PageSize, false, func(b *Body) bool {
		for _, pattern := range p.Namespaces {
			if namespaces.Match(pattern, b.name) {
				names = append(names, b.name)
				break
			}
		}
		return true
	})
	return names, err
}

// embed starts the embedded server, loads the manifests, runs the operator on it, and takes all away again.
func (c *command) embed(ctx context.Context, o *runOptions, op *Operator) (err error) {
	manifests, err := manifest.ReadFiles(o.apply) // before anything is started for them
	if err != nil {
		return err
	}
	server := NewAPIServer(nil)
	for _, m := range manifests {
		if err := server.Apply(m.Data); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	served, err := server.Listen(cmp.Or(o.listen, "127.0.0.1:0"))
	if err != nil {
		return fmt.Errorf("the embedded server: %w", err)
	}
	defer func() { err = errors.Join(err, served.Close()) }()
	path, err := filepath.Abs(embeddedKubeconfig)
	if err != nil {
		return err
	}
	remove, err := writeKubeconfig(served, path)
	if err != nil {
		return err
	}
	defer remove()
	fmt.Fprintf(c.stdout, "export KUBECONFIG=%s\n", path)
	op.Connection = server.ConnectionInfo()
	return op.Run(ctx)
}

// embeddedKubeconfig is where the embedded server's kubeconfig is written. The name is always the same, so that documentation can
// name it for commands in another terminal.
const embeddedKubeconfig = "kopf.kubeconfig"

// writeKubeconfig writes the kubeconfig of a server, and returns a function that removes the file again. It does not overwrite a file of another
// origin, nor that of a server that still runs, whose users would reach the wrong one.
func writeKubeconfig(served *APIServerListener, path string) (remove func(), err error) {
	if err := apiserver.CheckKubeconfig(path); err != nil {
		return nil, err
	}
	if err := served.WriteKubeconfig(path); err != nil {
		return nil, err
	}
	return apiserver.RemoveUnchanged(path)
}
