// Package kopf is a framework for writing Kubernetes operators as plain Go functions. You register handlers for kinds of objects. kopf watches the objects,
// detects changes, calls your handlers, and retries them after errors. It stores its progress on the objects, so an operator survives crashes without a database.
//
// kopf is compatible with Kopf for Python, and uses only the standard library. Both store the same finalizer, annotations and status, so each can take over the
// objects of the other.
//
// # A first operator
//
// This operator handles creations, updates and deletions of the custom resource "kopfexamples", and calls a timer for each object:
//
//	package main
//
//	import (
//		"context"
//		"errors"
//		"time"
//
//		"github.com/kopf-go/kopf"
//	)
//
//	func main() {
//		kopf.OnCreate("kopfexamples", create, nil)
//		kopf.OnUpdate("kopfexamples", resize, &kopf.ChangeOptions{Field: "spec.size", Retries: 3})
//		kopf.OnDelete("kopfexamples", farewell, nil)
//		kopf.OnTimer("kopfexamples", probe, &kopf.TimerOptions{Interval: time.Minute})
//		kopf.Main()
//	}
//
//	func create(ctx context.Context, c *kopf.Change) error {
//		c.Logger.Info("Creating", "size", c.Spec().Int("size"))
//		c.Patch.Set("status.phase", "Ready")                  // a change to the object
//		c.SetResult(map[string]any{"message": "hello world"}) // a result: kopf stores it in status.create
//		return nil
//	}
//
//	func resize(ctx context.Context, c *kopf.Change) error {
//		if c.New.Int("") < 0 {
//			return kopf.Permanent(errors.New("the size is negative")) // permanent: no retry
//		}
//		c.Logger.Info("Resizing", "old", c.Old.Int(""), "new", c.New.Int(""))
//		return nil
//	}
//
//	func farewell(ctx context.Context, c *kopf.Change) error {
//		c.Logger.Info("Deleting") // a finalizer blocks the deletion: it waits for this handler
//		return nil
//	}
//
//	func probe(ctx context.Context, t *kopf.Timer) error {
//		t.Patch.Set("status.probed", time.Now().UTC().Format(time.RFC3339))
//		return nil
//	}
//
// Run it with "go run . run". It logs in as kubectl does, or in a pod as its service account. To try it without a cluster, run
// "go run . run --embedded --apply crd.yaml". That starts an embedded API server in memory, which also works with kubectl.
//
// # Index by task
//
//   - Handle changes of objects: [OnCreate], [OnUpdate], [OnDelete], [OnResume], [OnField]
//   - Reconcile child objects: [OnReconcile], [Reconcile.Desired], [Source]
//   - Observe watch events: [OnEvent]
//   - Run code in the background: [OnDaemon], [OnTimer]
//   - Look up objects in memory: [OnIndex]
//   - Review operations before they happen: [OnValidate], [OnMutate], [WebhookServer]
//   - Handle the start and end of the operator: [OnStartup], [OnCleanup], [OnLogin], [OnProbe]
//   - Select objects: [Selector], [Match], [Present], [Absent], [ChangeOptions]
//   - Read an object: [Object], [Body], [View], [Change], [Diff]
//   - Change an object: [Patch], [Condition], [Change.SetResult]
//   - Retry or fail: [Temporary], [Permanent], [ErrorsMode]
//   - Send requests: [Client], [NewClient], [APIError]
//   - Create child objects: [Adopt], [AppendOwnerReference], [Label]
//   - Keep values in memory: [Memo], [MemoOf]
//   - Post Kubernetes events: [Object.PostInfo], [Object.PostEvent]
//   - Use structs for custom resources: [Define], [Typed]
//   - Run an operator: [Main], [Operator], [Settings], [ConfigureLogging]
//   - Store state elsewhere: [ProgressStorage], [DiffBaseStorage]
//   - Test an operator: [NewRunner], [NewAPIServer], [WaitFor]
//
// Each handler receives a pointer to a struct, such as [Change], [Timer] or [Admission]. Registration panics on mistakes, and names the line.
//
// # Ordering
//
// kopf calls the handlers of one object one after another, and those of different objects concurrently. Event handlers see every watch event in order. Change
// handlers see the newest known state, in the order of registration or in the order of the operator's [Lifecycle].
//
// Formally: for one object and one operator, the end of a call of a change or event handler is synchronized before the start of the next one. So data of one
// object that only these handlers use needs no lock. Daemons and timers run alongside them.
//
// # Retries
//
// kopf calls a handler until it succeeds or fails permanently, also across restarts of the operator. It repeats a call that the end of the process has
// interrupted, and calls that finished less than Settings.Execution.FlushAfter, one second, before a crash. So you must write idempotent handlers.
//
// # Shutdown
//
// When its context is canceled, an operator shuts down gracefully. It closes its watch streams, waits for running handlers for Settings.Queueing.ExitTimeout,
// cancels their contexts, calls the clean-up handlers, and closes its connections. None of its goroutines outlives [Operator.Run].
package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/connection"
	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/exitguard"
	"github.com/kopf-go/kopf/internal/hostid"
	"github.com/kopf-go/kopf/internal/loghandler"
	"github.com/kopf-go/kopf/internal/logsampler"
	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/pauser"
	"github.com/kopf-go/kopf/internal/safecall"
)

// Operator serves the handlers of a registry. Its zero value serves the default registry in the whole cluster, with the default settings and the
// credentials of the environment. Several operators can run in one process. They share only the values that you give to more than one of them.
type Operator struct {
	// Registry contains the handlers. Default: [DefaultRegistry].
	Registry *Registry
	// Settings are the settings of the operator. Each run has a copy of them, which [Configure] and the start-up handlers change. kopf does not change the
	// field. The copy includes kopf's own storages and webhook servers. It shares those of your own types, and the listener of a server. Default:
	// [NewSettings].
	Settings *Settings
	// Namespaces are names or patterns of the namespaces to serve, such as "team-*" or "*,!kube-*". The first comma-separated part of a pattern selects
	// namespaces. Later parts refine it: "!glob" excludes, and "glob" includes again. Default: the whole cluster.
	Namespaces []string
	// Clusterwide serves the whole cluster, as the zero value without Namespaces does. It excludes Namespaces.
	Clusterwide bool
	// Memo is the operator's memo, which kopf copies for each object. Default: an empty one.
	Memo *Memo
	// Identity distinguishes this operator from others. It is the key of its records in peering objects, and in the JSON lines of its log. With leader
	// election, it is the first part of the holder of the Lease, before "_" and eight random digits. The peering records then have the name of the Lease
	// instead. Default: the environment variable POD_ID. If that is empty: the user, the host, the time and a random part, such as
	// "me@laptop/20260102150405/x2k". kopf does not change the field.
	Identity string
	// Peering is the name of the peering object, and requires its existence, whatever Settings.Peering says. Default: the values of Settings.Peering.
	Peering string
	// Logger receives all messages. Default: [slog.Default].
	Logger *slog.Logger
	// Lifecycle selects the handlers of a change to call in one cycle. Default: [AllAtOnce].
	Lifecycle Lifecycle
	// Connection is the address of the API server with credentials. kopf then does not log in. Default: the login handlers, or the built-in login.
	Connection *ConnectionInfo
	// Kubeconfig and KubeContext configure the built-in login: the files instead of those in $KUBECONFIG, and the context instead of the current one.
	Kubeconfig, KubeContext string
	// LivenessEndpoint is the URL of the health endpoint, such as "http://0.0.0.0:8080/healthz". Its path serves the results of the probes. The same server
	// serves readiness at /readyz, metrics at /metrics, and the endpoints of Settings.Process.Debug under /debug/. The host defaults to localhost, which only
	// this host can reach, and the port to 80. Default: no server.
	LivenessEndpoint string
	// LivenessListener accepts the connections for LivenessEndpoint, of which kopf then uses only the path. kopf closes it at shutdown. Default: a new
	// listener for the host and port.
	LivenessListener net.Listener
	// Ready is called once, when the start-up handlers have finished, the resources are discovered, and kopf opens the watch streams. It does not wait for
	// the initial list, the indices or the webhook configurations. Default: no function.
	Ready func()

	guard *exitguard.Guard // of Main, nil without it
	flags []givenSetting   // of the command line
	local bool             // whether the API server is the embedded one of the command line
}

// Run runs an operator with all defaults until the context is canceled. It returns an error if the operator cannot start or continue. See [Operator.Run].
func Run(ctx context.Context) error { return new(Operator).Run(ctx) }

// Run runs the operator until the context is canceled, and then returns nil. It returns an error if the operator cannot start or continue: a failed
// start-up or clean-up handler, a failed login, or an API server that does not answer.
//
// At the start, kopf calls the start-up handlers, logs in, discovers the resources, and opens the watch streams. At shutdown, kopf closes the streams, and
// waits for running handlers for Settings.Queueing.ExitTimeout before it cancels their contexts. Then it calls the clean-up handlers, for
// Settings.Process.UltimateExitingTimeout at most.
//
// No goroutine outlives Run, except functions of yours that ignore their contexts. kopf logs their names a few seconds after it has canceled them.
func (o *Operator) Run(ctx context.Context) error {
	r, err := o.prepare()
	if err != nil {
		return err
	}
	if starting, ok := ctx.Value(startingKey{}).(*Registry); ok && starting.base == r.Registry.base {
		return errors.New("a start-up handler cannot run another operator with the same registry: " +
			"give that operator its own Registry")
	}
	return r.run(ctx)
}

// forTest returns a copy of the operator for a [Runner].
func (o *Operator) forTest(logger *slog.Logger, ready func()) Runnable {
	tested := *o
	tested.record()
	if tested.Logger == nil {
		tested.Logger = logger
	}
	tested.Ready = func() {
		if o.Ready != nil {
			o.Ready()
		}
		ready()
	}
	if err := o.defineInMemory(); err != nil {
		return RunFunc(func(context.Context) error { return err })
	}
	return &tested
}

// defineInMemory adds the defined kinds to an embedded API server, unless it already has definitions of them.
func (o *Operator) defineInMemory() error {
	if o.Connection == nil || o.Connection.HTTPClient == nil {
		return nil
	}
	server, ok := o.Connection.HTTPClient.Transport.(interface{ Define(definition []byte) error })
	if !ok {
		return nil
	}
	for _, d := range cmp.Or(o.Registry, DefaultRegistry()).definitions() {
		if err := server.Define(d); err != nil {
			return err
		}
	}
	return nil
}

// run is one run of an operator. It has a copy of it with the defaults.
type run struct {
	Operator
	client  *Client
	indices Indices
	peers   *peering   // nil before the login, and without peers
	events  *eventSink // nil before the login
	meter   *metrics.Metrics
	pauser  *pauser.Pauser
	leader  *leadership  // nil before the login, and without an election
	probes  *prober      // nil without an endpoint
	reviews reviewRunner // nil without admission handlers
	begun   bool         // whether it has logged its start

	configured int // the number of functions of Configure that were called

	orphans atomic.Int64 // functions that ignore their canceled contexts; the Lease is not released while there are any
}

func (o *Operator) prepare() (*run, error) {
	r := &run{Operator: *o}
	if r.Registry == nil {
		r.Registry = DefaultRegistry()
	}
	if r.Settings == nil {
		r.Settings = NewSettings()
	} else if reflect.ValueOf(*r.Settings).IsZero() {
		return nil, errors.New("the settings of the operator are all zero, which switches limits and timeouts off: begin with NewSettings()")
	} else {
		r.Settings = r.Settings.clone()
	}
	if r.Memo == nil {
		r.Memo = &Memo{}
	}
	r.Identity = cmp.Or(r.Identity, hostid.Identity())
	r.Logger = cmp.Or(r.Logger, slog.Default()).With(operatorKey, loghandler.JSONOnly(r.Identity))
	if r.Lifecycle == nil {
		r.Lifecycle = AllAtOnce
	}
	if r.Clusterwide && len(r.Namespaces) > 0 {
		return nil, fmt.Errorf("an operator serves either the whole cluster or the namespaces %q, not both", r.Namespaces)
	}
	warnings, err := namespaces.Check(r.Namespaces)
	if err != nil {
		return nil, err
	}
	for _, warning := range warnings {
		r.Logger.Warn(warning, "help", "K124")
	}
	r.Clusterwide = len(r.Namespaces) == 0
	if err := r.configure(); err != nil {
		return nil, err
	}
	r.Registry = r.Registry.forRun()
	r.indices = newIndices(r.Registry)
	r.pauser = &pauser.Pauser{}
	r.meter = newMetrics(r.Registry, r.pauser, r.Logger)
	r.client = r.newClient()
	return r, nil
}

// configure sets the settings that Configure, the fields of the operator, and the flags give, in the order of rising precedence.
func (r *run) configure() error {
	var err error
	if r.configured, err = r.Registry.configure(r.Settings); err != nil {
		return err
	}
	r.Settings.Peering.Clusterwide = r.Clusterwide
	if r.Peering != "" {
		r.Settings.Peering.Mandatory = true
		const flag = "--peering (Operator.Peering)"
		r.flags = append(slices.Clone(r.flags),
			given(flag, "Peering.Name", r.Peering, func(s *Settings) *string { return &s.Peering.Name }),
			given(flag, "Peering.Standalone", false, func(s *Settings) *bool { return &s.Peering.Standalone }),
		)
	}
	for _, f := range r.flags {
		f.set(r.Settings)
	}
	return nil
}

func (r *run) run(ctx context.Context) error {
	r.Logger.Debug("Starting operator", "version", Version)
	began, started := time.Now(), false
	defer r.Registry.base.warnLateSettings(r.Logger, r.configured)()
	err := r.listen()
	if err == nil {
		started, err = r.activity(ctx, kindStartup, "startup", r.client)
	}
	if err == nil {
		r.warnOverridden()
		err = r.serve(ctx)
	}
	r.probes.stop()
	if ctx.Err() != nil && err != nil { // a canceled operator reports no other errors
		if !errors.Is(err, context.Canceled) {
			r.Logger.Warn("Operator was stopped before it could start", "error", err, "help", "K908")
		}
		err = nil
	}
	r.guard.Begin()
	if started {
		err = errors.Join(err, r.cleanup(ctx))
	}
	r.leader.announceEnd()
	r.events.stop(r.guard.ForceContext())
	r.peers.stop() // after the last work that peers could take over
	r.leader.stop()
	if r.reviews != nil {
		r.reviews.wait() // last, because other replicas can take over meanwhile
	}
	r.client.close()
	if r.begun || err == nil { // otherwise only the error is logged
		r.Logger.Info("Operator stopped", "uptime", time.Since(began).Round(time.Millisecond),
			"succeeded", r.meter.Total(metrics.Success), "retried", r.meter.Total(metrics.Retry), "failed", r.meter.Total(metrics.Failure))
	}
	return err
}

// warnOverridden warns of flags that have no effect, because the start-up handlers have changed their settings.
func (r *run) warnOverridden() {
	for _, f := range r.flags {
		if !f.holds(r.Settings) {
			r.Logger.Warn("A start-up handler has changed a setting that a flag gives, so the flag has no effect", "flag", f.flag, "setting", f.name,
				"hint", "set it in a function of Configure, which flags override", "help", "K925")
		}
	}
}

// listen opens the health endpoint. It does so before slow start-up handlers, so that the kubelet does not restart the operator.
func (r *run) listen() error {
	if r.LivenessEndpoint == "" {
		return nil
	}
	log := r.Logger.With("activity", "probe")
	r.probes = &prober{log: log, meter: r.meter, run: r}
	return r.probes.listen(r.LivenessEndpoint, r.LivenessListener)
}

func (r *run) callProbe(ctx context.Context, h *handler) (any, error) {
	log := handlerLogger(r.Logger.With("activity", "probe"), h.id)
	return h.activities.probe(ctx, &Probe{Settings: r.Settings, Logger: log, Client: r.client, Indices: r.indices, Param: h.param, memo: r.Memo})
}

// serve logs in, and serves until the context ends.
func (r *run) serve(ctx context.Context) error {
	registry, end := r.Registry.begin(r.Logger)
	defer end()
	r.meter.Extend(described(registry.snapshot())) // start-up handlers may have registered some
	r.serveLocally()
	if err := r.Settings.validate(registry.snapshot()); err != nil {
		return err
	}
	for _, text := range append(r.Settings.warnings(registry.snapshot()), r.ownAddress(registry)...) {
		r.Logger.Warn(text, "help", "K921")
	}
	if !registry.serving() {
		r.Logger.Warn("No handlers are registered for objects, so the operator does nothing; call functions such as OnCreate before it runs", "help", "K101")
	}
	if p := &r.Settings.Peering; !p.Standalone && r.Clusterwide && !p.Clusterwide {
		return errors.New("invalid Settings.Peering.Clusterwide false: want true, because an operator of the whole cluster has no namespaces for peering objects")
	}
	r.warnOfFields()
	err := r.connect()
	if err == nil {
		err = r.leader.locate(ctx)
	}
	if err == nil {
		err = r.prepareKinds(ctx, registry.defined)
	}
	if err != nil {
		return err
	}
	r.indices = r.indices.extended(registry)
	r.probes.begin(r.Registry.activities(kindProbe))
	handlers, endHandlers := context.WithCancel(context.WithoutCancel(ctx))
	defer endHandlers()
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	o := &observer{
		environment: environment{client: r.client, settings: r.Settings, lifecycle: r.Lifecycle, log: r.Logger, memo: r.Memo, events: r.events, meter: r.meter, handlers: handlers, indices: r.indices, pauser: r.pauser, leader: r.leader, namespaces: r.Namespaces, replica: r.Identity, looks: decision.NewLooks(r.Settings.Process.Decisions)}, registry: registry,
		clusterwide: r.Clusterwide, requests: requests,
		force: r.guard.ForceContext(),
	}
	if err := o.servePage(r); err != nil {
		return err
	}
	if posting := &r.Settings.Posting; !posting.Enabled || !posting.Loggers { // otherwise each line would be posted
		o.successes = logsampler.New(r.Logger)
	}
	if !r.Settings.Peering.Standalone {
		r.peers = (&peering{
			client: r.client, settings: r.Settings, log: r.Logger, identity: r.peerIdentity(), meter: r.meter, pauser: o.pauser,
			leader: r.leader, operator: o, force: r.guard.ForceContext(),
		}).start(ctx)
		o.peers = r.peers
	}
	if h := registry.first(func(h *handler) bool { return h.reconcile != nil }); h != nil {
		o.reconciler = h.reconcile.engine.runner(o)
		defer o.reconciler.begin(registry)()
	}
	if len(r.indices.data) > 0 || registry.first((*handler).followsOthers) != nil {
		o.barrier = &syncBarrier{}
	}
	if h := registry.first(func(h *handler) bool { return h.admission != nil }); h != nil {
		if o.admission, err = h.admission.runner(registry, o); err != nil {
			return err
		}
		r.reviews = o.admission
	}
	err = o.observe(ctx, func() { r.begin(ctx, o) })
	defer o.successes.Stop()
	r.guard.Begin()
	r.probes.stop()
	if ctx.Err() != nil {
		r.Logger.Debug("Stopping operator")
	}
	return errors.Join(err, r.leader.failed(), o.stop(endHandlers, endRequests))
}

// serveLocally replaces an admission server that is reachable only in a cluster by one for the
// embedded API server. It keeps servers of other types than kopf's, which may embed one of kopf.
func (r *run) serveLocally() {
	server, ok := r.Settings.Admission.Server.(interface{ locally() AdmissionServer })
	if !ok || !r.local {
		return
	}
	if local := server.locally(); reflect.TypeOf(local) == reflect.TypeOf(r.Settings.Admission.Server) {
		r.Settings.Admission.Server = local
		r.Logger.Info("Serving webhooks to the embedded API server on this machine, without the Service, host and certificates for a cluster")
	}
}

// ownAddress warns of webhooks at an address of the leader alone: no other replica answers reviews
// there. A Host that is set may be that of a load balancer.
func (r *run) ownAddress(registry *Registry) []string {
	server, ok := r.Settings.Admission.Server.(*WebhookServer)
	admits := registry.first(func(h *handler) bool { return h.admission != nil }) != nil
	if !ok || server == nil || server.Service != nil || server.Host != "" || !admits ||
		r.Settings.Admission.Managed == "" || r.Settings.LeaderElection.Name == "" {
		return nil
	}
	return []string{"The webhooks are at the address of one replica, although there is a leader election: when the leader is gone, " +
		"the API server refuses the writes of all clients until another replica leads; " +
		"set the Service of the WebhookServer, or a Host that all replicas share"}
}

// peerIdentity returns the key of the operator's records in peering objects. All replicas share one record, which the leader maintains.
func (r *run) peerIdentity() string {
	if r.leader != nil {
		return r.leader.leaseName() // with its namespace, because names are unique only there
	}
	return r.Identity
}

// begin logs the start, and calls the function Ready.
func (r *run) begin(ctx context.Context, o *observer) {
	r.begun = true
	r.logStart(ctx, o)
	r.leader.start(ctx, o)
	r.meter.Ready.Store(true)
	if r.Ready != nil {
		_, _ = r.await(ctx, "The function Ready", func() (any, error) { // it returns no error
			r.Ready()
			return nil, nil
		})
	}
}

// versionTimeout limits the wait for the version of the API server, which is only logged.
const versionTimeout = time.Second

// logStart logs the version, the place and the scope of the operator.
func (r *run) logStart(ctx context.Context, o *observer) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	attrs := []any{"version", Version}
	if info, err := r.client.ConnectionInfo(ctx); err == nil {
		attrs = append(attrs, "server", info.Server, "serverVersion", cmp.Or(r.client.serverVersion(ctx), "unknown"))
		if info.KubeContext != "" {
			attrs = append(attrs, "context", info.KubeContext)
		}
		if user := info.info().UserName(); user != "" {
			attrs = append(attrs, "user", user)
		}
		o.nameCluster(info)
	}
	scope := "all"
	if len(r.Namespaces) > 0 {
		scope = strings.Join(r.Namespaces, ",")
	}
	resources, peers := o.servedNames()
	attrs = append(attrs, "namespaces", scope, "resources", strings.Join(resources, ","), "handlers", len(r.Registry.snapshot()), "peering", peers)
	r.Logger.Info("Operator started", attrs...)
}

// nameCluster stores a name of the cluster for the live page.
func (o *observer) nameCluster(info *ConnectionInfo) {
	name := info.KubeContext
	if server, err := url.Parse(info.Server); name == "" && err == nil {
		name = server.Host
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cluster = name
}

// prepareKinds installs or compares the defined kinds.
func (r *run) prepareKinds(ctx context.Context, kinds []definedKind) error {
	for _, k := range kinds {
		if err := k.prepare(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// connect creates the parts that depend on settings, which start-up handlers may have changed.
func (r *run) connect() error {
	r.guard.Limit(r.Settings.Process.UltimateExitingTimeout)
	if info := r.Connection; info != nil {
		if err := info.info().Validate(); err != nil {
			return err
		}
	}
	r.Settings.Persistence.untracked = r.Settings.Tracing.untracked()
	r.leader = newLeadership(r)
	r.client = r.client.renewed().fenced(r.leader)
	r.events = newEventSink(&r.Settings.Posting, r.client, r.Logger, r.meter)
	return nil
}

// newClient returns the client of the start-up handlers, which logs in at its first request. It shares its credentials with the operator's client.
func (r *run) newClient() *Client {
	login := r.login
	if info := r.Connection; info != nil {
		login = info.login
	}
	what := "Initial authentication"
	c := newLoginClient(func(ctx context.Context) (map[string]*connection.Info, error) { // one call at a time
		r.meter.LoggedIn.Store(false)
		r.Logger.Info(what + " has been initiated.")
		found, err := login(ctx)
		if err != nil && r.meter.Load(metrics.Logins) == 0 {
			r.Logger.Debug("Initial authentication has failed.", "error", err) // the operator then ends with the error, which is logged once
		} else if err != nil {
			r.Logger.Warn("Re-authentication has failed.", "error", err, "help", "K922")
		}
		if err != nil {
			return nil, err
		}
		r.Logger.Info(what + " has finished.")
		what = "Re-authentication"
		r.meter.LoggedIn.Store(true)
		r.meter.Add(metrics.Logins, 1)
		for _, info := range found {
			r.meter.SetCertificate(metrics.ForClient, info.Certificate())
		}
		return found, nil
	}, r.Settings, r.Logger)
	c.meter = r.meter
	return c
}

// login gets credentials from the login handlers, or from the environment if there are none.
func (r *run) login(ctx context.Context) (map[string]*connection.Info, error) {
	l := Login{
		Logger: r.Logger, Settings: r.Settings, memo: r.Memo,
		Kubeconfig: r.Kubeconfig, KubeContext: r.KubeContext, TrustEnv: r.Settings.Networking.TrustEnv,
	}
	handlers := r.Registry.activities(kindLogin)
	if len(handlers) == 0 {
		return r.defaultLogin(ctx, l.options())
	}
	results, err := r.attempts(ctx, handlers, "login", func(ctx context.Context, h *handler, a Attempt) (any, error) {
		own := l
		own.Attempt, own.Param, own.Logger = a, h.param, handlerLogger(l.Logger, h.id)
		return h.activities.login(ctx, &own)
	})
	found := make(map[string]*connection.Info)
	for id, value := range results {
		if info, _ := value.(*ConnectionInfo); info != nil {
			found[string(id)] = info.info()
		}
	}
	if err == nil && len(found) == 0 {
		err = errors.New("no credentials were retrieved from the login handlers")
	}
	return found, err
}

// maxLoginDelay limits the growing delays between the attempts of a built-in login.
const maxLoginDelay = time.Minute

// defaultLogin logs in without login handlers. A failure of the first login ends the operator,
// because it is hardly temporary. Later ones can be: a file is just being replaced, or the network
// of an exec plugin is down. kopf retries these, as it retries login handlers.
func (r *run) defaultLogin(ctx context.Context, o *connection.Options) (map[string]*connection.Info, error) {
	for delay := time.Second; ; delay = min(2*delay, maxLoginDelay) {
		found, err := connection.DefaultLogin(ctx, o)
		if err == nil || ctx.Err() != nil || r.meter.Load(metrics.Logins) == 0 {
			return found, loginError(err)
		}
		r.Logger.Warn("Re-authentication has failed; retrying it", "error", err, "delay", delay, "help", "K923")
		if await.Sleep(ctx, delay) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// forcedCleanupTime is the time for clean-up handlers after the second signal.
const forcedCleanupTime = 2 * time.Second

// forcedRequestTime is the time after the second signal for a request that gives something up: the
// Lease, or the own record in a peering object. A server that works answers within it.
const forcedRequestTime = 250 * time.Millisecond

// cleanup runs the clean-up handlers within a time limit.
func (r *run) cleanup(ctx context.Context) error {
	force := r.guard.ForceContext()
	ctx, cancel := await.EndAfter(context.WithoutCancel(ctx), force, forcedCleanupTime)
	defer cancel()
	limit := r.Settings.Process.UltimateExitingTimeout
	if limit > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, limit)
		defer end()
	}
	_, err := r.activity(ctx, kindCleanup, "cleanup", r.client.withoutFence())
	switch {
	case ctx.Err() == nil || err == nil:
	case force.Err() != nil:
		err = fmt.Errorf("the clean-up handlers have not finished in %s after the second signal: %w", forcedCleanupTime, err)
	default:
		err = fmt.Errorf("the clean-up handlers have not finished in %s: %w", limit, err)
	}
	return err
}

// activity runs the handlers of one activity until all are finished. It reports whether any has succeeded, or there are none. It fails if one of them has
// failed permanently.
func (r *run) activity(ctx context.Context, kind handlerKind, name string, client *Client) (worked bool, err error) {
	handlers := r.Registry.activities(kind)
	worked = len(handlers) == 0
	for called := handlers[:0:0]; len(handlers) > 0 && err == nil; { // they may register others
		if len(called) > mostNestedHandlers {
			return worked, fmt.Errorf("the %s handlers register one another without an end, the last one at %s", name, handlers[0].registered.where)
		}
		var succeeded bool
		succeeded, err = r.callActivities(ctx, handlers, name, client)
		worked, called = worked || succeeded, append(called, handlers...)
		handlers = slices.DeleteFunc(r.Registry.activities(kind), func(h *handler) bool { return h.isIn(called) })
	}
	return worked, err
}

// mostNestedHandlers limits the handlers that the handlers of an activity register.
const mostNestedHandlers = 1000

// callActivities calls handlers of an activity, and reports whether any has succeeded.
func (r *run) callActivities(ctx context.Context, handlers []*handler, name string, client *Client) (bool, error) {
	log := r.Logger.With("activity", name)
	succeeded, err := r.attempts(ctx, handlers, name, func(ctx context.Context, h *handler, a Attempt) (any, error) {
		return nil, h.activities.activity(ctx, &Activity{Attempt: a, Settings: r.Settings, Logger: handlerLogger(log, h.id), Client: client, Indices: r.indices, Param: h.param, fence: r.leader.number(), memo: r.Memo})
	})
	return len(succeeded) > 0, err
}

// attempts calls handlers one after another, with retries, until each has succeeded or failed permanently. It returns the results and the failures.
func (r *run) attempts(ctx context.Context, handlers []*handler, name string, once func(context.Context, *handler, Attempt) (any, error)) (map[HandlerID]any, error) {
	r.meter.Extend(described(handlers)) // handlers may have registered some
	type state struct {
		*handler
		record ProgressRecord
	}
	var pending []*state
	for _, h := range handlers {
		pending = append(pending, &state{handler: h, record: ProgressRecord{Started: time.Now()}})
	}
	succeeded := make(map[HandlerID]any)
	var failures []error
	for len(pending) > 0 {
		var left []*state
		wait := time.Duration(-1)
		for _, s := range pending {
			p := progress{handler: s.handler, record: &s.record}
			due, delay := p.due(time.Now())
			if due {
				value, o := r.attemptActivity(ctx, s.handler, &s.record, name, once)
				switch {
				case o.cancelled:
					return succeeded, errors.Join(append(failures, ctx.Err())...)
				case o.final && o.err != nil:
					failures = append(failures, fmt.Errorf("%s handler '%s': %w", name, s.id, o.err))
				case o.final:
					succeeded[s.id] = value
				}
				_, delay = p.due(time.Now())
			}
			if !s.record.finished() {
				left = append(left, s)
				if wait < 0 || delay < wait {
					wait = delay
				}
			}
		}
		pending = left
		if len(pending) > 0 && await.Sleep(ctx, max(wait, 0)) != nil {
			return succeeded, errors.Join(append(failures, ctx.Err())...)
		}
	}
	return succeeded, errors.Join(failures...)
}

// startingKey is the key of the run's registry in the contexts of start-up handlers.
type startingKey struct{}

// turnDelay is the delay until another look whether the start-up handler of another run is done. A
// run looks instead of waiting, because another synctest bubble cannot wake it.
const turnDelay = 100 * time.Millisecond

// turnWarning is how long a run waits before it warns.
const turnWarning = 10 * time.Second

// awaitTurn waits until no other run with the operator's registry calls a start-up handler.
func (r *run) awaitTurn(ctx context.Context) (end func(succeeded bool), err error) {
	for waited := time.Duration(0); ; waited += turnDelay {
		if end := r.Registry.beginAttempt(); end != nil {
			return end, nil
		}
		if waited == turnWarning {
			r.Logger.Warn("Waiting for a start-up handler of another operator with the same registry",
				"hint", "give each operator its own Registry", "help", "K927")
		}
		if err := await.Sleep(ctx, turnDelay); err != nil {
			return nil, err
		}
	}
}

// attemptActivity makes one attempt of an activity handler, unless its limits forbid it.
func (r *run) attemptActivity(ctx context.Context, h *handler, record *ProgressRecord, name string, once func(context.Context, *handler, Attempt) (any, error)) (value any, o outcome) {
	if h.kind == kindStartup {
		end, err := r.awaitTurn(ctx)
		if err != nil {
			return nil, outcome{cancelled: true}
		}
		defer func() { end(o.final && o.err == nil) }()
		if ctx = context.WithValue(ctx, startingKey{}, r.Registry); record.Retries == 0 {
			record.Started = time.Now()
		}
	}
	call := call{
		handler: h, noun: "Activity", log: r.Logger, meter: r.meter.Handler(string(h.id), false), settings: r.Settings, replica: r.Identity,
		retries: record.Retries, started: record.Started,
	}
	if h.kind == kindStartedLeading {
		call.leader = r.leader
	}
	o, err := call.invoke(ctx, func(ctx context.Context, a Attempt) (err error) {
		inner, cancel := h.withDeadline(ctx, record.Started)
		defer cancel()
		value, err = r.await(ctx, fmt.Sprintf("The handler of the %s '%s'", name, h.id), func() (any, error) { return once(inner, h, a) })
		if err != nil && ctx.Err() != nil {
			return &cancelledError{err}
		}
		return err
	})
	if !o.cancelled {
		record.apply(o, time.Now())
	}
	if err == nil {
		r.Logger.InfoContext(ctx, "Activity '"+string(h.id)+"' succeeded.", handlerAttr(h.id))
	}
	return value, o
}

// activityGracePeriod is how long a function of the user may run after its context has ended.
const activityGracePeriod = 2 * time.Second

// await calls a function of the user on a goroutine, and waits for it. It abandons the function some time after the end of ctx.
func (r *run) await(ctx context.Context, what string, run func() (any, error)) (any, error) {
	var value any
	var err error
	var task sync.WaitGroup
	var settled atomic.Bool // whether it has returned, or is abandoned
	task.Go(func() {
		err = safecall.Do(func() (failed error) {
			value, failed = run()
			return failed
		})
		if settled.Swap(true) {
			r.orphans.Add(-1)
		}
	})
	if !await.For(ctx, &task, activityGracePeriod) && !settled.Swap(true) {
		r.orphans.Add(1)
		r.Logger.Error("A function did not return after cancellation; abandoning it", "function", what, "help", "K917")
		return nil, context.Cause(ctx)
	}
	task.Wait()
	return value, err
}

// Version is the version of kopf.
const Version = "0.1.0"

// ender ends the operator.
type ender interface {
	end(error)
}
