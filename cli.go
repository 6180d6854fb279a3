package kopf

import (
	"cmp"
	"context"
	_ "embed" // the page about messages
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kopf-go/kopf/internal/cli"
	"github.com/kopf-go/kopf/internal/cliflag"
	"github.com/kopf-go/kopf/internal/embedded"
	"github.com/kopf-go/kopf/internal/exitguard"
	"github.com/kopf-go/kopf/internal/heaptrim"
	"github.com/kopf-go/kopf/internal/hostid"
	"github.com/kopf-go/kopf/internal/kubeconfig"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/peers"
)

// troubleshooting is the page that explains the codes of log messages.
//
//go:embed docs/troubleshooting.md
var troubleshooting string

// Main runs [Command] with the arguments of the process, and exits with its exit code. It is the last call of an operator's own main.
//
// The first SIGINT or SIGTERM starts a graceful shutdown, the second one skips the grace periods of running handlers, and the third one exits at
// once. In any case, the process ends Settings.Process.UltimateExitingTimeout after the beginning of the shutdown, with a dump of all goroutines.
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
	go heaptrim.Run(ctx) // the start takes much more memory than the rest; docs/performance.md has the savings
	code := c.execute(ctx, os.Args[1:])
	close(over)
	<-done
	os.Exit(code)
}

// Command runs one command of an operator's command line, with the handlers of the default registry. The commands are "run" (the default), "freeze",
// "resume", "status", "explain", "manifests", "explain-rights", "completion", "version" and "help". Command returns the exit code: 0 for success, including the
// cancellation of ctx, 1 for a failure, 2 for wrong usage, and 3 for "status --failed --exit-code" with failing handlers. It writes errors to stderr, and failures
// of "run" to the log. It configures the logging of the process, and reads the environment variables KOPF_RUN_…, KOPF_FREEZE_… and KOPF_RESUME_….
func Command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return (&command{stdout: stdout, stderr: stderr, stdin: os.Stdin}).execute(ctx, args)
}

// command is one run of the command line.
type command struct {
	stdout, stderr io.Writer
	stdin          io.Reader
	guard          *exitguard.Guard // nil if the command does not own the process
}

// execute runs the command in the arguments, and returns the exit code.
func (c *command) execute(ctx context.Context, args []string) int {
	line := &cli.Line{Program: os.Args[0], Version: Version, Getenv: os.Getenv, Environ: os.Environ(), Stdin: c.stdin, Codes: troubleshooting, Namespaces: listNamespaces}
	call, err := line.Parse(ctx, args)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0 // it was canceled before the start
	case err != nil:
		fmt.Fprintln(c.stderr, err)
		return cli.ExitUsage
	case call.Text != "":
		fmt.Fprint(c.stdout, call.Text)
		return 0
	}
	if o := &call.Options; livepage.Included && o.Page {
		if err := checkPage(DefaultRegistry(), o.Liveness, o.PageToken, o.PageAuth); err != nil {
			fmt.Fprintln(c.stderr, line.Misuse(call, err))
			return cli.ExitUsage
		}
	}
	if call.Command == "manifests" || call.Command == "explain-rights" {
		return c.install(ctx, call, line.Name())
	}
	if call.Command == "status" || call.Command == "explain" {
		return c.inspect(ctx, call, line.Name())
	}
	logger := ConfigureLogging(logOptions(&call.Options, c.stderr))
	for _, name := range slices.Sorted(maps.Keys(call.Misspelled)) {
		logger.Warn("An environment variable belongs to no flag, and has no effect", "variable", name,
			"hint", "did you mean "+call.Misspelled[name]+"?", "help", "K926")
	}
	if call.Command == "run" {
		if err := ended(&call.Options, c.serve(ctx, call, logger)); err != nil {
			logger.Error("Operator has failed: "+cli.OneLine(err), "help", "K909")
			return exitguard.ExitFailure
		}
	} else if err := ended(&call.Options, c.changePeering(ctx, call, logger)); err != nil {
		fmt.Fprintf(c.stderr, "%s %s: %s\n", line.Name(), call.Command, cli.OneLine(err))
		return exitguard.ExitFailure
	}
	return 0
}

// ended adds a hint to an error if the kubeconfig is that of an embedded server that was killed, so that the file was left.
func ended(o *cli.Options, err error) error {
	if o.Embedded || !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	for _, path := range kubeconfig.Find(o.Kubeconfig).Found {
		if filepath.Base(path) == embedded.KubeconfigName {
			return fmt.Errorf("%w: the kubeconfig %s is of an embedded server that does not run any more: "+
				"start it again, or unset KUBECONFIG", err, path)
		}
	}
	return err
}

// logOptions returns the options of the log.
func logOptions(o *cli.Options, output io.Writer) *LogOptions {
	log := &LogOptions{Verbose: o.Verbose, Debug: o.Debug, Quiet: o.Quiet, RefKey: o.LogRefKey, Prefix: o.LogPrefix, NoPrefix: o.NoPrefix, Output: output}
	_ = log.Format.UnmarshalText([]byte(o.LogFormat)) // the default remains if there is none
	return log
}

// serve runs the operator, and its embedded API server with --embedded.
func (c *command) serve(ctx context.Context, call *cli.Call, logger *slog.Logger) (err error) {
	o := &call.Options
	op := &Operator{
		Namespaces: o.Namespaces, Clusterwide: o.Clusterwide, Logger: logger, flags: flagSettings(call),
		Kubeconfig: o.Kubeconfig, KubeContext: o.Context, Peering: o.Peering, LivenessEndpoint: o.Liveness,
	}
	if o.Standalone {
		op.Peering = ""
	}
	if c.guard != nil {
		c.guard.Operate()
		c.guard.Limit(NewSettings().Process.UltimateExitingTimeout)
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
	fmt.Fprintln(c.stdout, export) // alone on stdout, for the shell's eval
	op.Connection = (&APIServer{server.API}).ConnectionInfo()
	op.local = true
	op.Connection.Server = server.URL // for the log only: the operator's requests do not use the network
	return op.Run(ctx)
}

// flagSettings returns the settings that flags or environment variables give. The flag --peering needs no entry, because [Operator.Peering] is one.
func flagSettings(call *cli.Call) (all []givenSetting) {
	o := &call.Options
	add := func(flag string, setting givenSetting) {
		if call.Given[flag] {
			all = append(all, setting)
		}
	}
	priority := func(s *Settings) *int { return &s.Peering.Priority }
	standalone := func(s *Settings) *bool { return &s.Peering.Standalone }
	add("priority", given("--priority", "Peering.Priority", o.PeeringPriority(), priority))
	if o.Dev {
		add("dev", given("--dev", "Peering.Priority", o.PeeringPriority(), priority))
	}
	add("standalone", given("--standalone", "Peering.Standalone", o.Standalone, standalone))
	add("leader-elect", given("--leader-elect", "LeaderElection.Name", o.LeaderElect, func(s *Settings) *string { return &s.LeaderElection.Name }))
	add("leader-elect-namespace", given("--leader-elect-namespace", "LeaderElection.Namespace", o.LeaderElectNamespace,
		func(s *Settings) *string { return &s.LeaderElection.Namespace }))
	add("page", given("--page", "Process.Page.Enabled", o.Page, func(s *Settings) *bool { return &s.Process.Page.Enabled }))
	add("page-token", given("--page-token", "Process.Page.TokenFile", o.PageToken, func(s *Settings) *string { return &s.Process.Page.TokenFile }))
	add("page-auth", given("--page-auth", "Process.Page.TokenReview", o.PageAuth, func(s *Settings) *bool { return &s.Process.Page.TokenReview }))
	add("page-stacks", given("--page-stacks", "Process.Page.Stacks", o.PageStacks, func(s *Settings) *bool { return &s.Process.Page.Stacks }))
	return all
}

// completionTimeout limits how long a shell waits for the names of namespaces.
const completionTimeout = 1500 * time.Millisecond

// listNamespaces returns the names of the namespaces for shell completion, nil if they are not available quickly. It runs login handlers only.
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
		_ = connected(&quiet, slog.New(slog.DiscardHandler), func(r *run) (err error) { // completion has no place for errors
			names, err = r.givenNamespaces(ctx)
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

// prepared returns an operator with its settings for a command, without its start-up handlers. It does not run.
func prepared(o *cli.Options, logger *slog.Logger) (*run, error) {
	op := &Operator{Namespaces: o.Namespaces, Logger: logger, Kubeconfig: o.Kubeconfig, KubeContext: o.Context}
	r, err := op.prepare()
	if err == nil {
		err = r.Settings.validate(r.Registry.snapshot())
	}
	if err != nil {
		return nil, err
	}
	r.Settings.Networking.ErrorBackoffs = nil // a person waits for the command
	return r, nil
}

// connected calls a function with an operator that has a client, but does not run.
func connected(o *cli.Options, logger *slog.Logger, do func(*run) error) error {
	r, err := prepared(o, logger)
	if err == nil {
		err = r.connect()
	}
	if err != nil {
		return err
	}
	defer r.client.close()
	return do(r)
}

// changePeering runs freeze or resume in all existing peering objects of the name.
func (c *command) changePeering(ctx context.Context, call *cli.Call, logger *slog.Logger) error {
	o := &call.Options
	change := &peers.Command{Name: o.Peering, ID: o.ID, Freeze: call.Command == "freeze", Priority: o.PeeringPriority(), Lifetime: o.Lifetime, Message: o.Message, Out: c.stdout, Err: c.stderr}
	return connected(o, logger, func(r *run) error {
		if change.ID == "" {
			if change.ID = os.Getenv("POD_ID"); change.ID == "" {
				change.ID = hostid.UserAtHost()
			} else {
				fmt.Fprintf(c.stderr, "The record is that of the pod, %q, and so of its operator, if there is one: --id gives it another name.\n", change.ID)
			}
		}
		places, err := r.peeringPlaces(ctx, change.Name)
		if err != nil {
			return err
		}
		return change.Run(ctx, places)
	})
}

// peeringPlaces returns the possible places of peering objects with a name.
func (r *run) peeringPlaces(ctx context.Context, name string) (places []peers.Place, err error) {
	found, broken, err := r.client.discover(ctx, peeringGroups)
	for _, group := range broken {
		err = errors.Join(err, group)
	}
	if err != nil {
		return nil, err
	}
	namespaces, err := r.givenNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	exists, settings := false, *r.Settings
	settings.Peering.Name = name
	for _, kind := range found {
		if !isPeering(kind, r.Clusterwide) {
			continue
		}
		exists = true
		for _, namespace := range namespaces {
			object := &peeringServer{&peering{client: r.client, settings: &settings}, Resource(kind), namespace}
			places = append(places, peers.Place{Resource: kind.Name(), Namespace: namespace, Object: object})
		}
	}
	if !exists {
		return nil, errors.New("there is no resource of peering objects in the cluster")
	}
	return places, nil
}

// givenNamespaces returns the namespaces of the command line. It lists namespaces only to resolve patterns.
func (r *run) givenNamespaces(ctx context.Context) (names []string, err error) {
	if r.Clusterwide {
		return []string{""}, nil
	}
	if !namespaces.IsPattern(strings.Join(r.Namespaces, "")) {
		return r.Namespaces, nil
	}
	err = r.client.list(ctx, namespacesResource, "", map[string][]string{}, r.Settings.Watching.PageSize, false, func(b *Body) bool {
		if slices.ContainsFunc(r.Namespaces, func(pattern string) bool { return namespaces.Match(pattern, b.name) }) {
			names = append(names, b.name)
		}
		return true
	})
	return names, err
}
