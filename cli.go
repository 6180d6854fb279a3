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
	"strings"
	"syscall"
	"time"

	"github.com/kopf-go/kopf/internal/cli"
	"github.com/kopf-go/kopf/internal/cliflag"
	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/exitguard"
	"github.com/kopf-go/kopf/internal/heaptrim"
	"github.com/kopf-go/kopf/internal/hostid"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/peerrecord"
)

// Main runs the command line of an operator with the handlers of the default registry, as [Command]
// does with the arguments of the process, and exits. It is the last call of an operator's own main.
//
// The first SIGINT or SIGTERM stops the operator in good order, the second one skips the grace
// periods of the handlers that still run, and the third one exits at once. Settings.Process.UltimateExitingTimeout
// after the beginning of its exit, the operator ends in any case, with a dump of all goroutines.
func Main() {
	c := &command{stdout: os.Stdout, stderr: os.Stderr, stdin: os.Stdin, guard: exitguard.New()}
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		c.guard.Watch(over, signals, stop, func(code int) { os.Exit(code) }, os.Stderr)
	}()
	go heaptrim.Run(ctx) // the start takes much more than what follows; docs/performance.md has what it saves
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
	return (&command{stdout: stdout, stderr: stderr, stdin: os.Stdin}).execute(ctx, args)
}

// command is one call of the command line.
type command struct {
	stdout, stderr io.Writer
	stdin          io.Reader
	guard          *exitguard.Guard // nil if it is not the process's own
}

// execute runs the command in the arguments, and returns the exit code.
func (c *command) execute(ctx context.Context, args []string) int {
	line := &cli.Line{Program: os.Args[0], Version: Version, Getenv: os.Getenv, Stdin: c.stdin, Namespaces: listNamespaces}
	call, err := line.Parse(ctx, args)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0 // it was stopped before it could start
	case err != nil:
		fmt.Fprintln(c.stderr, err)
		return cli.ExitUsage
	case call.Text != "":
		fmt.Fprint(c.stdout, call.Text)
		return 0
	}
	if embedded.Included && (call.Command == "manifests" || call.Command == "explain-rights") {
		return c.install(ctx, call, line.Name())
	}
	if embedded.Included && (call.Command == "status" || call.Command == "explain") {
		return c.inspect(ctx, call, line.Name())
	}
	logger := ConfigureLogging(logOptions(&call.Options, c.stderr))
	if call.Command == "run" {
		if err := c.serve(ctx, &call.Options, logger); err != nil {
			logger.Error("Operator has failed: " + cli.OneLine(err))
			return exitguard.ExitFailure
		}
	} else if err := c.changePeering(ctx, call, logger); err != nil {
		fmt.Fprintf(c.stderr, "%s %s: %s\n", line.Name(), call.Command, cli.OneLine(err))
		return exitguard.ExitFailure
	}
	return 0
}

// logOptions returns the options of the log.
func logOptions(o *cli.Options, output io.Writer) *LogOptions {
	log := &LogOptions{Verbose: o.Verbose, Debug: o.Debug, Quiet: o.Quiet, RefKey: o.LogRefKey, Prefix: o.LogPrefix, NoPrefix: o.NoPrefix, Output: output}
	_ = log.Format.UnmarshalText([]byte(o.LogFormat)) // which leaves the default if there is none
	return log
}

// serve runs the operator, and its embedded server if that was asked for.
func (c *command) serve(ctx context.Context, o *cli.Options, logger *slog.Logger) (err error) {
	settings := NewSettings()
	settings.Peering.Standalone = o.Standalone
	settings.Peering.Priority = o.PeeringPriority()
	settings.LeaderElection.Name, settings.LeaderElection.Namespace = o.LeaderElect, o.LeaderElectNamespace
	settings.Process.Page = PageSettings{Enabled: o.Page, TokenFile: o.PageToken, TokenReview: o.PageAuth, Stacks: o.PageStacks}
	op := &Operator{
		Settings: settings, Namespaces: o.Namespaces, Clusterwide: o.Clusterwide, Logger: logger,
		Kubeconfig: o.Kubeconfig, KubeContext: o.Context, Peering: o.Peering, LivenessEndpoint: o.Liveness,
	}
	if c.guard != nil {
		c.guard.Limit(settings.Process.UltimateExitingTimeout)
		op.guard = c.guard
	}
	if !embedded.Included || !o.Embedded {
		return op.Run(ctx)
	}
	server, err := embedded.Start(cmp.Or(o.Listen, embedded.DefaultAddress), DefaultRegistry().definitions(), o.Manifests)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	export := "export KUBECONFIG=" + cliflag.Quoted(server.Kubeconfig, `'\''`)
	logger.Info("Embedded API server is running. To use kubectl with it, run the command in another terminal", "command", export, "server", server.URL)
	fmt.Fprintln(c.stdout, export) // and nothing else, for eval
	op.Connection = (&APIServer{server.API}).ConnectionInfo()
	op.Connection.Server = server.URL // which the log tells, although no request of the operator goes over the network
	return op.Run(ctx)
}

// completionTimeout limits how long a shell waits for the names of namespaces.
const completionTimeout = 1500 * time.Millisecond

// listNamespaces returns the names of the namespaces for the completion in a shell, nil if they cannot be had at once. It runs no handlers but those of logins.
func listNamespaces(o *cli.Options) []string {
	if o.Embedded {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	found := make(chan []string, 1)
	go func() { // the process does not wait for logins that ignore their contexts
		quiet := cli.Options{Kubeconfig: o.Kubeconfig, Context: o.Context, Namespaces: []string{"*"}}
		var names []string
		_ = connected(&quiet, slog.New(slog.DiscardHandler), func(r *run) (err error) { // an error has no place in a shell's completion
			names, err = (&peeringCommand{run: r}).namespaces(ctx)
			return err
		})
		found <- names
	}()
	select {
	case names := <-found:
		return names
	case <-ctx.Done():
		return nil
	}
}

// connected calls a function with an operator that has a client, and does not run.
func connected(o *cli.Options, logger *slog.Logger, do func(*run) error) error {
	settings := NewSettings()
	settings.Networking.ErrorBackoffs = nil // there is a person who waits
	op := &Operator{Settings: settings, Namespaces: o.Namespaces, Logger: logger, Kubeconfig: o.Kubeconfig, KubeContext: o.Context}
	r, err := op.prepare()
	if err == nil {
		err = r.connect()
	}
	if err != nil {
		return err
	}
	defer r.client.close()
	return do(r)
}

// changePeering runs freeze or resume.
func (c *command) changePeering(ctx context.Context, call *cli.Call, logger *slog.Logger) error {
	return connected(&call.Options, logger, func(r *run) error {
		return (&peeringCommand{run: r, command: c, options: &call.Options, verb: call.Command}).writeAll(ctx)
	})
}

// peeringCommand is one call of freeze or resume.
type peeringCommand struct {
	*run
	command *command
	options *cli.Options
	verb    string
	id      string
	done    int
}

// writeAll writes into all peering objects of the name that there are, or removes from them.
func (p *peeringCommand) writeAll(ctx context.Context) error {
	if p.id = p.options.ID; p.id == "" {
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
			if err := p.writeOne(ctx, Resource(r), namespace); err != nil {
				failures = append(failures, err)
			}
		}
	}
	if !exists {
		return errors.New("there is no resource of peering objects in the cluster")
	}
	if p.done == 0 && len(failures) == 0 {
		failures = append(failures, fmt.Errorf("no peering object %q was found", p.options.Peering))
	}
	return errors.Join(failures...)
}

// writeOne does it in one object. A missing one is no failure: it may be elsewhere.
func (p *peeringCommand) writeOne(ctx context.Context, r Resource, namespace string) error {
	name := p.options.Peering
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
		record = peerrecord.Record(p.options.PeeringPriority(), p.options.Lifetime)
		what = fmt.Sprintf("with priority %d is in force for %s in", p.options.PeeringPriority(), peerrecord.WholeSeconds(p.options.Lifetime))
	} else if !body.Has(Path("status", p.id)) {
		return fmt.Errorf("there is no record of %q in %s, only of %q", p.id, where, body.Status().Keys())
	}
	if _, err := writePeering(ctx, p.client, r, namespace, name, "", map[string]any{p.id: record}); err != nil {
		return err
	}
	p.done++
	if p.options.Message != "" {
		where += ": " + p.options.Message
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
