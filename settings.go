package kopf

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/settingscheck"
)

// This file holds the settings of an operator: what they mean, and their defaults. They are
// data, read by the rest of the package when it needs them.

// Settings are all that can be adjusted of one operator. [NewSettings] returns them with their defaults. False and zero mean
// something here: a literal Settings{} has no limits and no timeouts, so [Operator.Run] refuses it. Start-up handlers may change
// the settings. Afterwards, they are only read. Run also refuses negative numbers and durations, and names and places of storages that
// cannot work.
type Settings struct {
	Process        ProcessSettings        // the end of the process, its debugging
	Posting        PostingSettings        // Kubernetes events about objects
	Peering        PeeringSettings        // operators alongside this one
	LeaderElection LeaderElectionSettings // several replicas of this operator
	Watching       WatchingSettings       // the streams of changes
	Queueing       QueueingSettings       // the work on objects: limits, the exit, pauses after errors
	Scanning       ScanningSettings       // the discovery of resources and namespaces
	Execution      ExecutionSettings      // the calls of handlers
	Background     BackgroundSettings     // daemons and timers
	Admission      AdmissionSettings      // webhooks
	Networking     NetworkingSettings     // requests to the API server
	Persistence    PersistenceSettings    // what is stored on the objects
	Tracing        TracingSettings        // spans
}

// ProcessSettings are about the process as a whole.
type ProcessSettings struct {
	// UltimateExitingTimeout is the time from the beginning of the exit after which
	// [Main] ends the process, whatever still runs, with a dump of all goroutines. The clean-up handlers have as long in
	// [Operator.Run], too; then their contexts end, and Run returns an error. Zero means never. Defaults to 10 minutes.
	UltimateExitingTimeout time.Duration
	// Decisions is how many decisions the operator keeps for its live page: of each look at an object, what was to be done, and for each handler, whether it was called, or the first reason why not.
	// 1,000 of them take 64 KB. While it is not zero, objects with the annotation "<prefix>/explain" also have their decisions logged, with all reasons, from [slog.LevelInfo] up: the
	// prefix is that of the [DiffBaseStorage], such as "kopf.zalando.org", and any value will do. Predicates are not called again for that, but for those of reconcile handlers. Defaults to 0.
	Decisions int
	// Page is the live page of the operator: what it is doing now, at the path / of the [Operator.LivenessEndpoint].
	Page PageSettings
	// Debug serves the paths under /debug/ of the [Operator.LivenessEndpoint], such as [net/http.DefaultServeMux] if the program
	// imports net/http/pprof. All clients of the endpoint reach it. Defaults to nil: there are no such paths.
	Debug http.Handler
	// Audit gets a record of each call of a handler that has ended, before what it leaves is stored, such as the Handle method of a [log/slog.JSONHandler]. The handler waits for it. What it returns is logged. See docs/audit.md for
	// the attributes. Defaults to nil.
	Audit func(context.Context, slog.Record) error
}

// PageSettings are about the live page, which shows browsers and programs what the operator is doing now: streams, queues, handlers, running calls, objects that are to be handled again after an error. It
// shows errors, and nothing else of what objects contain. It changes nothing. If the endpoint can be reached from other hosts, it needs a token: [Operator.Run] returns an error if there is neither a
// TokenFile nor TokenReview. See docs/live-page.md.
type PageSettings struct {
	// Enabled serves the page. The path of the [Operator.LivenessEndpoint] cannot be / then. Defaults to false.
	Enabled bool
	// TokenFile is a file with a token of at least 16 bytes. Whoever sends it may look: as a bearer token, as a password of basic authentication, or in the header X-Kopf-Token. The file is read
	// again when it changes, within 10 seconds. Defaults to none.
	TokenFile string
	// TokenReview has the API server decide about other tokens: who has the right to get the non-resource URL /kopf-page may look. The operator needs the permission to create
	// tokenreviews and subjectaccessreviews. Defaults to false.
	TokenReview bool
	// Stacks adds the stacks of running handlers to the page of an object, and has each call look up its goroutine, which takes about a microsecond. Defaults to false.
	Stacks bool
	// Hosts are the names by which the endpoint can be reached, in addition to the host of the endpoint, addresses, and localhost. Requests for other names are refused, because a web site can
	// give its own name the address of the operator. Defaults to none.
	Hosts []string
}

// PostingSettings are about the Kubernetes events that operators post about objects.
type PostingSettings struct {
	// Enabled makes the operator post events. Defaults to true.
	Enabled bool
	// Loggers makes the operator post the messages of objects' loggers as events, too. Defaults to false.
	Loggers bool
	// Level is the lowest level to post. Defaults to [slog.LevelInfo].
	Level slog.Level
	// ReportingComponent names the operator in events. Defaults to "kopf".
	ReportingComponent string
	// ReportingInstance names the instance of the operator in events. Defaults to "dev".
	ReportingInstance string
	// EventNamePrefix begins the generated names of events. Defaults to "kopf-event-".
	EventNamePrefix string
}

// PeeringSettings are about operators that give way to each other.
type PeeringSettings struct {
	// Name is the name of the peering object. Defaults to "default".
	Name string
	// Priority is the own priority; the higher one works, all others pause. Defaults to 0.
	Priority int
	// Lifetime is how long the own record counts as alive after its last update, rounded up to whole seconds. An operator that
	// could not renew its record in that time pauses until it can. Zero writes no record: peers do not see this operator.
	// Defaults to 1 minute.
	Lifetime time.Duration
	// Mandatory tells to pause until the peering object exists. In a namespace that is being deleted, it need not. Defaults to false.
	Mandatory bool
	// Standalone switches peering off. Defaults to false.
	Standalone bool
	// Stealth silences the log lines of successful keep-alives. Defaults to false.
	Stealth bool
	// Clusterwide tells to use the cluster-wide kind of peering objects. It is set
	// by the operator to its own scope before the start-up handlers run.
	Clusterwide bool
}

// LeaderElectionSettings are about several replicas of one operator, of which one works at a time: the leader, which holds a Lease. The others
// stand by: their watch streams are open and their indices are filled, and no handlers of objects are called. Set the Name to switch it on. The
// Lease needs the permissions to get, create and update leases of the group coordination.k8s.io. Electors of client-go and managers of controller-runtime
// compete for the same Lease. See https://kubernetes.io/docs/concepts/architecture/leases/.
//
// [NewSettings] has the defaults. LeaseDuration must be longer than RenewDeadline, and that longer than 1.2 times RetryPeriod, or the operator does not start.
type LeaderElectionSettings struct {
	// Name is the name of the Lease, the same for all replicas of one operator and for nothing else. Empty means that there is no election: each replica works, and
	// no Lease is used. Defaults to empty.
	Name string
	// Namespace is where the Lease is. Defaults to that of the pod, or of the kubeconfig's context, then to "default".
	Namespace string
	// LeaseDuration is how long a replica that stands by waits after the last renewal that it has seen before it takes the Lease. After a crash of the leader, no replica works
	// for at most this time and 1.2 times RetryPeriod. It is rounded up to whole seconds. Defaults to 15 s.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader works after the beginning of its last successful renewal. Then it stands by again. Defaults to 10 s.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals by the leader, and between two looks at the Lease by another replica, which takes up to a fifth more. Each is one request.
	// Defaults to 2 s.
	RetryPeriod time.Duration
}

// WatchingSettings are about the streams of changes from the API server.
type WatchingSettings struct {
	// ServerTimeout is how long the API server is asked to keep a watch open; it is rounded up to whole seconds. Zero
	// leaves it to the server. Defaults to 0.
	ServerTimeout time.Duration
	// ClientTimeout is the longest life of one watch on our side. Zero means no limit. Defaults to 0.
	ClientTimeout time.Duration
	// ConnectTimeout limits the connecting for a watch. Zero means as in
	// [NetworkingSettings]. Defaults to 0.
	ConnectTimeout time.Duration
	// ReconnectBackoff is the pause before a watch is opened again; it grows while
	// watches end without an event, up to a minute, and up to 10 s while the server does not answer at all. Defaults to 100 ms.
	ReconnectBackoff time.Duration
	// InactivityTimeout is the silence, without even a bookmark, after which a watch is taken for dead. Zero means never. Defaults to 70 s.
	InactivityTimeout time.Duration
	// PageSize is the number of objects that one request of a listing asks for. Zero means all at once, unlike
	// [ListOptions.PageSize]. Defaults to 500.
	PageSize int
}

// QueueingSettings are about the workers of objects.
type QueueingSettings struct {
	// WorkerLimit is the number of objects of one resource that are handled at the same time; those
	// that wait for a delay do not count. Zero means no limit of its own: see [NetworkingSettings.MaxInFlight] for how many objects
	// of all resources are worked on. Defaults to 0.
	WorkerLimit int
	// ExitTimeout is how long the handlers may go on at the exit before
	// their contexts end. Zero means not at all. Defaults to 2 s.
	ExitTimeout time.Duration
	// ErrorDelays are the pauses of an object after errors that are not of its handlers,
	// such as refused patches; the last one repeats. Empty means no pauses.
	// Defaults to 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610 s.
	ErrorDelays []time.Duration
	// FightRounds limits update conflicts: how many times in a row the operator changes a field that another client changes back. A
	// field that the operator changes only because of its own change counts, too. Only changes within 10 seconds of the one before
	// count. Beyond the limit, kopf warns in the log, in an event and in the metrics, and slows the handling of the object down.
	// Zero disables the detection. Defaults to 20.
	FightRounds int
	// FightPause is the longest pause of such an object. The first pause is one second, and each further one is twice as long. After
	// the pause, the newest state of the object is handled, and nothing is lost. Zero means no pauses. Defaults to 1 minute.
	FightPause time.Duration
}

// ScanningSettings are about the discovery of resources and namespaces.
type ScanningSettings struct {
	// Disabled tells not to watch resource definitions and namespaces, but to work with those of the start. Defaults to false.
	Disabled bool
}

// ExecutionSettings are about the calling of handlers.
type ExecutionSettings struct {
	// DefaultBackoff is the pause after an arbitrary error of a handler without a Backoff of its own. Defaults to 1 minute.
	DefaultBackoff time.Duration
	// QuickRetries is how many attempts of a handler that fails may follow each other within less than a second, as with a [TemporaryError] without
	// a delay. After those, it is a second at least, and twice as long each time, up to a minute, so that a handler that always fails
	// at once does not overload the API server. Longer delays are as the handler wants them. Zero means no limit. Defaults to 10.
	QuickRetries int
	// FlushAfter is how long the outcome of a finished handler may wait to be stored
	// while other handlers of the object run. Zero stores each at once. Defaults to 1 s.
	FlushAfter time.Duration
	// MaxWorkers is the number of handlers of changes and events, and of timers, that run at the same time, of all objects together. The others wait for
	// their turn, and are called for the newest state of the object; handlers of events get the state of their event. Sub-handlers run in the place of their parent. Daemons,
	// indices, admission handlers and activities do not count. Zero means no limit. Defaults to 0.
	MaxWorkers int
}

// BackgroundSettings are about daemons and timers.
type BackgroundSettings struct {
	// CancellationPolling is how often it is logged that a daemon is still exiting, for daemons
	// without a CancellationPolling of their own. Zero means the default, 1 minute.
	CancellationPolling time.Duration
	// InstantExitTimeout is how long a daemon that is asked to stop may take before anything is logged or stored about
	// it. Defaults to 100 ms.
	InstantExitTimeout time.Duration
	// ExitTimeout is how long daemons without a CancellationTimeout are waited for when the operator stops. Zero means no limit. Defaults to 5 s.
	ExitTimeout time.Duration
}

// NetworkingSettings are about the requests to the API server.
type NetworkingSettings struct {
	// RequestTimeout limits one attempt of a request that is not a watch. Zero means no limit. Defaults to 5 minutes.
	RequestTimeout time.Duration
	// ConnectTimeout limits the connecting of such a request. Zero leaves it to RequestTimeout. Defaults to 0.
	ConnectTimeout time.Duration
	// ErrorBackoffs are the pauses between the attempts of one request after network errors,
	// 429, and 5xx. Empty means no retries. Defaults to 1, 1, 2, 3, 5, 8, 13, 21 s.
	ErrorBackoffs []time.Duration
	// EnforceRetryAfter makes requests wait exactly as long as the server asks for, also if
	// the own pause is longer. Defaults to false.
	EnforceRetryAfter bool
	// TrustEnv tells the built-in logins to obey HTTP_PROXY, HTTPS_PROXY and NO_PROXY. Defaults to false.
	TrustEnv bool
	// MaxInFlight limits the requests under way at the same time, watches apart. As many objects are worked on at the same time, in
	// addition to those whose handlers run or that wait for something. Zero means no limit of requests, and 64 objects. Defaults
	// to 64.
	MaxInFlight int
	// RequestRate limits the requests per second, watches apart. Zero means no limit, and no common pause after answers with 429 and
	// 503: each request then waits for itself alone. Defaults to 1,000. The page docs/client.md says which requests wait after
	// which answer.
	RequestRate int
	// RequestBurst is how many requests are saved up while fewer than RequestRate are made. They let a new operator handle what it
	// finds at full speed. Zero counts as 1. Defaults to 20,000.
	RequestBurst int
}

// PersistenceSettings are about what is stored on the objects.
type PersistenceSettings struct {
	// Finalizer blocks the deletion of objects until their deletion handlers are done. It is a qualified name, with a domain.
	// Defaults to "kopf.zalando.org/KopfFinalizerMarker".
	Finalizer string
	// LegacyFinalizers are those that earlier versions of the operator have used, or operators that this one takes the
	// place of. They are removed from all objects that have them, so Finalizer cannot be one of them. Defaults to none.
	LegacyFinalizers []string
	// Storage is where what is stored is kept: [InAnnotations], or [InStatus], which takes one request instead of two in most cases. Defaults to InAnnotations.
	Storage Storage
	// ProgressStorage keeps the progress of handlers. Defaults to [SmartProgressStorage]; the Storage means nothing to others.
	ProgressStorage ProgressStorage
	// DiffBaseStorage keeps the last handled state. Defaults to [SmartDiffBaseStorage]; the Storage means nothing to others.
	DiffBaseStorage DiffBaseStorage
	// IgnoreCopies tells to pass over what is stored on an object if it was stored on another one, whose annotations have
	// come with a copy, such as from an export or a backup: then the copy is created, as any new object. It takes an annotation more on each
	// object, "<prefix>/handled-uid", or a field of the status next to the state; what is stored without that counts for the object that it is on. Defaults to false.
	IgnoreCopies bool
	// ConsistencyTimeout is how long to wait until an own patch comes back in the stream, and for how long the stream may bring nothing at all
	// meanwhile; then the object is asked for, before handlers run. Zero means not to wait, and not to ask. Defaults to 5 s.
	ConsistencyTimeout time.Duration

	untracked []FieldPath // besides those that the storages ignore: set before the operator observes
}

// NewSettings returns the default settings.
func NewSettings() *Settings {
	return &Settings{
		Process: ProcessSettings{UltimateExitingTimeout: 10 * time.Minute},
		Posting: PostingSettings{
			Enabled:            true,
			ReportingComponent: "kopf",
			ReportingInstance:  "dev",
			EventNamePrefix:    "kopf-event-",
		},
		Peering:        PeeringSettings{Name: "default", Lifetime: time.Minute},
		LeaderElection: LeaderElectionSettings{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
		Watching: WatchingSettings{
			ReconnectBackoff:  100 * time.Millisecond,
			InactivityTimeout: 70 * time.Second,
			PageSize:          500,
		},
		Queueing: QueueingSettings{
			ExitTimeout: 2 * time.Second,
			ErrorDelays: seconds(1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610),
			FightRounds: 20,
			FightPause:  time.Minute,
		},
		Tracing:   TracingSettings{Ratio: 1, Annotation: "tracing.k8s.io/traceparent"},
		Execution: ExecutionSettings{DefaultBackoff: time.Minute, QuickRetries: 10, FlushAfter: time.Second},
		Background: BackgroundSettings{
			CancellationPolling: time.Minute, InstantExitTimeout: 100 * time.Millisecond, ExitTimeout: 5 * time.Second,
		},
		Networking: NetworkingSettings{
			RequestTimeout: 5 * time.Minute,
			ErrorBackoffs:  seconds(1, 1, 2, 3, 5, 8, 13, 21),
			MaxInFlight:    64,
			RequestRate:    1000,
			RequestBurst:   20000,
		},
		Persistence: PersistenceSettings{
			Finalizer:          "kopf.zalando.org/KopfFinalizerMarker",
			ProgressStorage:    &SmartProgressStorage{},
			DiffBaseStorage:    &SmartDiffBaseStorage{},
			ConsistencyTimeout: 5 * time.Second,
		},
	}
}

// validate returns what is wrong with the settings, as the start-up handlers have left them, for those handlers.
func (s *Settings) validate(handlers []*handler) error {
	return errors.Join(slices.Concat(settingscheck.Numbers(s, "Peering.Priority"), s.Persistence.validate(handlers), settingscheck.LeaderElection(s.LeaderElection).Errors(), settingscheck.Ratio("Tracing.Ratio", s.Tracing.Ratio))...)
}

func seconds(counts ...int) []time.Duration {
	all := make([]time.Duration, len(counts))
	for i, n := range counts {
		all[i] = time.Duration(n) * time.Second
	}
	return all
}

// AdmissionSettings are about admission webhooks.
type AdmissionSettings struct {
	// Server receives the reviews from the API server. It is required if there are admission handlers. Defaults to none.
	Server AdmissionServer
	// Managed names both a ValidatingWebhookConfiguration and a MutatingWebhookConfiguration, which the operator makes
	// and keeps up to date. Empty means that the configurations are made by hand. Defaults to empty.
	Managed string
}
