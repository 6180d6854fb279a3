package kopf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// This file knows the commands of an operator's command line, and the signals that end them. A command
// runs on the goroutine of its caller; in Main alone, one more goroutine waits for signals.

// The exit codes of failures and of wrong usage.
const (
	exitFailure = 1
	exitUsage   = 2
)

// Main runs the command line of an operator with the handlers of the default registry, as [Command]
// does with the arguments of the process, and exits. It is the last call of an operator's own main.
//
// The first SIGINT or SIGTERM stops the operator in good order, the second one skips the grace
// periods of the handlers that still run, and the third one exits at once. Settings.Process.UltimateExitingTimeout
// after the beginning of its exit, the operator ends in any case, with a dump of all goroutines.
func Main() {
	c := &command{stdout: os.Stdout, stderr: os.Stderr, guard: newExitGuard()}
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		c.guard.watch(over, signals, stop, func(code int) { os.Exit(code) }, os.Stderr)
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

// exitGuard is what Main and its operator tell each other about the exit. A nil guard is that of an
// operator without Main.
type exitGuard struct {
	exiting  chan struct{}   // from the operator to watch: the exit has begun
	force    context.Context // ended by watch: the operator must not wait for handlers any more
	hurry    context.CancelFunc
	ultimate atomic.Int64 // Settings.Process.UltimateExitingTimeout
}

func newExitGuard() *exitGuard {
	g := &exitGuard{exiting: make(chan struct{}, 1)}
	g.force, g.hurry = context.WithCancel(context.Background())
	return g
}

// forceContext returns the context that ends when the exit must not wait any more.
func (g *exitGuard) forceContext() context.Context {
	if g == nil {
		return context.Background()
	}
	return g.force
}

// limit limits the time of the exit, unless it is zero.
func (g *exitGuard) limit(timeout time.Duration) {
	if g != nil {
		g.ultimate.Store(int64(timeout))
	}
}

// begin tells that the exit has begun. It never waits.
func (g *exitGuard) begin() {
	if g == nil {
		return
	}
	select {
	case g.exiting <- struct{}{}:
	default:
	}
}

// watch does what signals tell until over is closed. The last of it, exit, does not return.
func (g *exitGuard) watch(over <-chan struct{}, signals <-chan os.Signal, stop context.CancelFunc, exit func(code int), stderr io.Writer) {
	var ultimate <-chan time.Time
	for received := 0; ; {
		exiting := false
		select {
		case <-over:
			return
		case <-g.exiting:
			exiting = true
		case s := <-signals:
			exiting = true
			received++
			g.obey(received, s, stop, exit)
		case <-ultimate:
			fmt.Fprintln(stderr, "The operator is out of time for its exit. These goroutines are still there:")
			stacks := make([]byte, 4<<20)
			_, _ = stderr.Write(stacks[:runtime.Stack(stacks, true)]) // there is nobody left to tell
			exit(exitFailure)
			return
		}
		if timeout := time.Duration(g.ultimate.Load()); exiting && timeout > 0 && ultimate == nil {
			ultimate = time.After(timeout)
		}
	}
}

// obey does what the first, the second or the third signal tells.
func (g *exitGuard) obey(number int, s os.Signal, stop context.CancelFunc, exit func(code int)) {
	name := map[os.Signal]string{os.Interrupt: "SIGINT", syscall.SIGTERM: "SIGTERM"}[s]
	switch number {
	case 1:
		slog.Info("Signal " + name + " is received. Operator is stopping.")
		stop()
	case 2:
		slog.Warn("Signal " + name + " is received again. Operator does not wait for its handlers any more.")
		g.hurry()
	default:
		slog.Error("Signal " + name + " is received once more. Operator exits at once.")
		exit(exitFailure)
	}
}

// command is one call of the command line.
type command struct {
	stdout, stderr io.Writer
	guard          *exitGuard // nil if it is not the process's own
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
		return exitFailure
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
		Kubeconfig: o.kubeconfig, Context: o.context, Peering: o.peering, LivenessEndpoint: o.liveness,
	}
	if c.guard != nil {
		c.guard.limit(settings.Process.UltimateExitingTimeout)
		op.guard = c.guard
	}
	if !o.embedded {
		return op.Run(ctx)
	}
	return c.embed(ctx, o, op)
}
