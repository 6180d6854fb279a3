package kopf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/settingscheck"
)

// Settings are all settings of one operator. [NewSettings] returns them with their defaults. Start with those, because false and zero have a meaning: a
// literal Settings{} has no limits and no timeouts, so [Operator.Run] refuses it. [Configure] sets them for all commands of the program. Start-up handlers may
// also change them, in the copy of the run. Afterwards, kopf only reads them. Run also refuses negative numbers and durations, and invalid names and fields of
// storages.
type Settings struct {
	Process        ProcessSettings        // the process: shutdown, live page, debugging
	Posting        PostingSettings        // Kubernetes events about objects
	Peering        PeeringSettings        // other operators of the same objects
	LeaderElection LeaderElectionSettings // replicas of this operator
	Watching       WatchingSettings       // watch streams
	Queueing       QueueingSettings       // the work queue: limits, grace period, delays after errors
	Scanning       ScanningSettings       // discovery of resources and namespaces
	Execution      ExecutionSettings      // calls of handlers
	Background     BackgroundSettings     // daemons and timers
	Admission      AdmissionSettings      // webhooks
	Networking     NetworkingSettings     // requests to the API server
	Persistence    PersistenceSettings    // data on the objects
	Tracing        TracingSettings        // spans
}

// ProcessSettings are about the process as a whole.
type ProcessSettings struct {
	// UltimateExitingTimeout is the time from the beginning of the shutdown after which [Main] ends the process in any case, with a dump of all goroutines.
	// In [Operator.Run], it limits the clean-up handlers: kopf then cancels their contexts, and Run returns an error. Zero means never. Default: 10 minutes.
	UltimateExitingTimeout time.Duration
	// Decisions is the number of recent decisions about objects that the operator keeps for its live page. A decision has what kopf did with the object, and
	// for each handler, whether it was called, or the first reason why not. 1,000 of them take 64 KB. kopf calls no predicates again for that, except those of
	// reconcile handlers. Unless it is zero, kopf also logs the decisions about objects with the annotation "<prefix>/explain", with all reasons, from
	// [slog.LevelInfo] up. The prefix is that of the [DiffBaseStorage], such as "kopf.zalando.org", and the annotation may have any value. Default: 0.
	Decisions int
	// Page is the live page of the operator, at the path / of the [Operator.LivenessEndpoint].
	Page PageSettings
	// Debug is the HTTP handler for the paths under /debug/ of the [Operator.LivenessEndpoint], such as [net/http.DefaultServeMux] if the program imports
	// net/http/pprof. All clients of the endpoint can reach it. Default: nil, no such paths.
	Debug http.Handler
	// Audit receives a record of each finished call of a handler, before kopf stores the results, such as the Handle method of a [log/slog.JSONHandler]. The
	// handler waits for it. kopf logs the error that it returns. See docs/audit.md for the attributes. Default: nil.
	Audit func(context.Context, slog.Record) error
}

// PageSettings are about the live page, which shows the current activity of the operator to browsers and programs: watch streams, queues, handlers, running
// calls, and objects to retry. It shows errors, but no other contents of objects. It is read-only. If other hosts can reach the endpoint, the page needs a
// TokenFile or TokenReview. Otherwise, [Operator.Run] returns an error. See docs/live-page.md.
type PageSettings struct {
	// Enabled serves the page. The path of the [Operator.LivenessEndpoint] must not be / then. Default: false.
	Enabled bool
	// TokenFile is a file with a token of at least 16 bytes. Clients with that token may see the page. They send it as a bearer token, as the password of
	// basic authentication, or in the header X-Kopf-Token. kopf reads the file again within 10 seconds after a change. Default: none.
	TokenFile string
	// TokenReview lets the API server decide about other tokens: users with the permission to get the non-resource URL /kopf-page may see the page. The
	// operator needs the permission to create tokenreviews and subjectaccessreviews. Default: false.
	TokenReview bool
	// Stacks adds the stacks of running handlers to the page of an object. Each call then looks up its goroutine, which takes about a microsecond. Default:
	// false.
	Stacks bool
	// Hosts are more host names by which clients reach the endpoint, in addition to its own host, IP addresses, and localhost. kopf refuses requests for
	// other names, because a web site can point its own name at the address of the operator. Default: none.
	Hosts []string
}

// PostingSettings are about the Kubernetes events that operators post about objects.
type PostingSettings struct {
	// Enabled posts Kubernetes events. Default: true.
	Enabled bool
	// Loggers also posts the log lines about objects as events. Default: false.
	Loggers bool
	// Level is the lowest level of log lines to post. Default: [slog.LevelInfo].
	Level slog.Level
	// ReportingComponent is the name of the operator in events, a qualified name. Default: "kopf".
	ReportingComponent string
	// ReportingInstance is the name of the operator's instance in events, of at most 128 bytes. Default: "dev".
	ReportingInstance string
	// EventNamePrefix is the beginning of the generated names of events. Default: "kopf-event-".
	EventNamePrefix string
}

// PeeringSettings are about operators that pause for each other.
type PeeringSettings struct {
	// Name is the name of the peering object. Default: "default".
	Name string
	// Priority is the priority of this operator. The highest one works, the others pause. Default: 0.
	Priority int
	// Lifetime is how long the operator's record is valid after its last renewal, rounded up to whole seconds. An operator that cannot renew its record in
	// that time pauses until it can. Zero writes no record, so other operators do not see this one. Default: 1 minute.
	Lifetime time.Duration
	// Mandatory pauses the operator until the peering object exists, except in a namespace that is being deleted. Default: false.
	Mandatory bool
	// Standalone disables peering. Default: false.
	Standalone bool
	// Stealth omits the log lines of successful renewals. Default: false.
	Stealth bool
	// Clusterwide selects the cluster-scoped kind of peering objects. kopf sets it to the operator's scope before start-up handlers run.
	Clusterwide bool
}

// named reports whether the settings name a peering object. One with the default name may be missing.
func (s *PeeringSettings) named() bool { return s.Name != NewSettings().Peering.Name }

// LeaderElectionSettings are about several replicas of one operator. One of them works at a time: the leader, which holds a Lease. The others are on standby:
// their watch streams are open and their indices are filled, but kopf calls no handlers of objects. Set the Name to enable it. The operator needs the
// permissions to get, create and update leases of the group coordination.k8s.io. Electors of client-go and managers of controller-runtime compete for the
// same Lease. See https://kubernetes.io/docs/concepts/architecture/leases/.
//
// [NewSettings] has the defaults. LeaseDuration must be longer than RenewDeadline, and RenewDeadline longer than 1.2 times RetryPeriod. Otherwise, the
// operator does not start.
type LeaderElectionSettings struct {
	// Name is the name of the Lease. All replicas of one operator share it, and nothing else may use it. Empty disables the election: each replica works,
	// without a Lease. Default: empty.
	Name string
	// Namespace is the namespace of the Lease. Default: that of the pod, or of the kubeconfig's context, or "default".
	Namespace string
	// LeaseDuration is how long another replica waits after the last renewal that it has seen before it takes the Lease. After a crash of the leader, no
	// replica works for at most this time and 1.2 times RetryPeriod. It is rounded up to whole seconds. Default: 15 s.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader works after the beginning of its last successful renewal. Then it returns to standby. Default: 10 s.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals by the leader. Other replicas read the Lease that often, plus a random delay of up to a fifth of it. Each
	// time takes one request. Default: 2 s.
	RetryPeriod time.Duration
}

// WatchingSettings are about lists and watch streams.
type WatchingSettings struct {
	// ServerTimeout is the duration of a watch stream that kopf requests from the API server, rounded up to whole seconds. Zero leaves it to the server.
	// Default: 0.
	ServerTimeout time.Duration
	// ClientTimeout is the longest duration of a watch stream on the side of kopf. Zero means no limit. Default: 0.
	ClientTimeout time.Duration
	// ConnectTimeout is the time to connect for a watch stream. Zero means the same as for other requests, see [NetworkingSettings]. Default: 0.
	ConnectTimeout time.Duration
	// ReconnectBackoff is the delay before kopf opens a watch stream again. It grows up to a minute while streams end without events. It grows only up to 10 s
	// while the server does not answer, or a proxy answers 502, 503 or 504. Default: 100 ms.
	ReconnectBackoff time.Duration
	// InactivityTimeout is the time without data, including bookmarks, after which kopf reconnects a watch stream. Zero means never. Default: 70 s.
	InactivityTimeout time.Duration
	// PageSize is the number of objects in one page of a list. Zero means all objects in one request, unlike [ListOptions.PageSize]. Default: 500.
	PageSize int
}

// QueueingSettings are about the work queue and its workers.
type QueueingSettings struct {
	// WorkerLimit is the number of objects of one kind that kopf handles at the same time. Objects that wait for a delay do not count. Zero means no limit
	// per kind, but [NetworkingSettings.MaxInFlight] still limits the objects of all kinds. Default: 0.
	WorkerLimit int
	// ExitTimeout is the grace period of handlers at shutdown, after which kopf cancels their contexts. Zero cancels them at once. Default: 2 s.
	ExitTimeout time.Duration
	// ErrorDelays are the delays of an object after errors outside its handlers, such as rejected patches. The last one repeats. Empty means no delays.
	// Default: 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610 s.
	ErrorDelays []time.Duration
	// FlappingRounds is the number of consecutive times that another client may change a field back before kopf treats it as an update conflict. A field that
	// the operator changes only because of its own change counts, too. Only changes within 10 seconds of the previous one count. Beyond the limit, kopf warns
	// in the log, in an event and in the metrics, and slows the handling of the object down. Zero disables the detection. Default: 20.
	FlappingRounds int
	// FlappingPause is the longest delay of such an object. The first delay is one second, and each further one is twice as long. After the delay, kopf handles
	// the newest state of the object, so nothing is lost. Zero means no delays. Default: 1 minute.
	FlappingPause time.Duration
}

// ScanningSettings are about the discovery of resources and namespaces.
type ScanningSettings struct {
	// Disabled serves only the kinds and namespaces that exist at the start. kopf then does not watch CRDs and namespaces. Default: false.
	Disabled bool
}

// ExecutionSettings are about the calls of handlers.
type ExecutionSettings struct {
	// DefaultBackoff is the delay after an arbitrary error of a handler that has no Backoff. Default: 1 minute.
	DefaultBackoff time.Duration
	// QuickRetries is how many attempts of a failing handler may follow each other within less than a second, as with a [TemporaryError] without a delay.
	// Then the delay is at least one second, and doubles up to a minute, so that the handler does not overload the API server. Longer delays of handlers stay
	// as they are. Zero means no limit. Default: 10.
	QuickRetries int
	// FlushAfter is how long kopf may wait to store the result of a finished handler while other handlers of the object run. Zero stores each result at once.
	// Default: 1 s.
	FlushAfter time.Duration
	// MaxWorkers is the number of change handlers, event handlers and timers that run at the same time, for all objects together. The others wait, and get
	// the newest state of the object. Event handlers get the state of their event. Sub-handlers run in the place of their parent. Daemons, indices, admission
	// handlers and activities do not count. Zero means no limit. Default: 0.
	MaxWorkers int
}

// BackgroundSettings are about daemons and timers.
type BackgroundSettings struct {
	// CancellationPolling is how often kopf logs that a daemon is still stopping, for daemons without a CancellationPolling. Zero means the default, 1
	// minute.
	CancellationPolling time.Duration
	// InstantExitTimeout is how long a daemon may take to stop before kopf logs or stores anything about it. Default: 100 ms.
	InstantExitTimeout time.Duration
	// ExitTimeout is how long kopf waits at shutdown for daemons without a CancellationTimeout. Zero means no limit. Default: 5 s.
	ExitTimeout time.Duration
}

// NetworkingSettings are about the requests to the API server.
type NetworkingSettings struct {
	// RequestTimeout is the time of one attempt of a request, except watch streams. Zero means no limit. Default: 5 minutes.
	RequestTimeout time.Duration
	// ConnectTimeout is the time to connect for such a request. Zero leaves it to RequestTimeout. Default: 0.
	ConnectTimeout time.Duration
	// ErrorBackoffs are the delays between the attempts of one request after network errors, 429, and 5xx. Empty means no retries. Default: 1, 1, 2, 3, 5, 8,
	// 13, 21 s.
	ErrorBackoffs []time.Duration
	// EnforceRetryAfter makes requests wait exactly as long as the Retry-After header says, even if kopf's own delay is longer. Default: false.
	EnforceRetryAfter bool
	// TrustEnv lets the built-in logins use HTTP_PROXY, HTTPS_PROXY and NO_PROXY. Default: false.
	TrustEnv bool
	// MaxInFlight is the number of requests in flight, except watch streams. kopf also works on that many objects at a time, in addition to those whose
	// handlers run or that wait for something. Zero means no limit of requests, and 64 objects. Default: 64.
	MaxInFlight int
	// RequestRate is the rate limit in requests per second, except watch streams. Zero means no rate limit, and no common delay after 429 and 503: each
	// request then waits on its own. The page docs/client.md specifies which requests wait after which answer. Default: 1,000.
	RequestRate int
	// RequestBurst is the number of requests that may exceed the rate after a quiet time. It lets a new operator handle the existing objects at full speed.
	// Zero counts as 1. Default: 20,000.
	RequestBurst int
}

// PersistenceSettings are about the data that kopf stores on the objects.
type PersistenceSettings struct {
	// Finalizer blocks the deletion of objects until delete handlers are done. It is a qualified name, with a domain. Default:
	// "kopf.zalando.org/KopfFinalizerMarker".
	Finalizer string
	// LegacyFinalizers are finalizers of earlier versions of the operator, or of operators that this one replaces. kopf removes them from all objects, so
	// Finalizer cannot be one of them. Default: none.
	LegacyFinalizers []string
	// Storage is where kopf stores its data on the object: [InAnnotations], or [InStatus], which takes one request instead of two in most cases. Default:
	// InAnnotations.
	Storage Storage
	// ProgressStorage is the storage of handler progress. Default: [SmartProgressStorage]. The field Storage has no effect on other types.
	ProgressStorage ProgressStorage
	// DiffBaseStorage is the storage of the last-handled configuration. Default: [SmartDiffBaseStorage]. The field Storage has no effect on other types.
	DiffBaseStorage DiffBaseStorage
	// IgnoreCopies ignores stored data that was copied from another object, such as from an export or a backup, so that kopf calls the create handlers for
	// the copy. It takes one more annotation on each object, "<prefix>/handled-uid", or a field of the status next to the stored data. Data without that is
	// valid for the object that has it. Default: false.
	IgnoreCopies bool
	// ConsistencyTimeout is how long kopf waits for its own patch on a silent watch stream before it reads the object, and goes on with the handlers. Zero
	// means not to wait, and not to read. Default: 5 s.
	ConsistencyTimeout time.Duration

	untracked string // an annotation whose changes are ignored; "" for none: set before the operator observes
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
			ExitTimeout:    2 * time.Second,
			ErrorDelays:    seconds(1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610),
			FlappingRounds: 20,
			FlappingPause:  time.Minute,
		},
		Tracing:   TracingSettings{Ratio: 1, Annotation: "tracing.k8s.io/traceparent"},
		Execution: ExecutionSettings{DefaultBackoff: time.Minute, QuickRetries: 10, FlushAfter: time.Second},
		Background: BackgroundSettings{
			CancellationPolling: time.Minute, InstantExitTimeout: 100 * time.Millisecond, ExitTimeout: 5 * time.Second,
		},
		Admission: AdmissionSettings{ShutdownDelay: 5 * time.Second},
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

// clone returns a copy for one run of an operator, which changes it. Other runs may have the same
// settings. Storages and servers of other packages stay shared, because kopf cannot copy them.
func (s *Settings) clone() *Settings {
	own := *s
	for _, list := range []*[]time.Duration{&own.Queueing.ErrorDelays, &own.Networking.ErrorBackoffs} {
		*list = slices.Clone(*list)
	}
	for _, list := range []*[]string{&own.Process.Page.Hosts, &own.Persistence.LegacyFinalizers} {
		*list = slices.Clone(*list)
	}
	p := &own.Persistence
	p.ProgressStorage = cloneProgressStorage(p.ProgressStorage)
	p.DiffBaseStorage = cloneDiffBaseStorage(p.DiffBaseStorage)
	own.Admission.Server = cloneAdmissionServer(own.Admission.Server)
	return &own
}

// cloned returns a copy of a value, in which own replaces the lists; nil for none.
func cloned[T any](value *T, own func(*T)) *T {
	if value == nil {
		return nil
	}
	c := *value
	if own != nil {
		own(&c)
	}
	return &c
}

// validate returns the errors in the settings for these handlers, after the start-up handlers.
func (s *Settings) validate(handlers []*handler) error {
	return errors.Join(slices.Concat(settingscheck.Numbers(s, "Peering.Priority"), s.Persistence.validate(handlers), settingscheck.LeaderElection(s.LeaderElection).Errors(), settingscheck.Ratio("Tracing.Ratio", s.Tracing.Ratio), settingscheck.Posting(s.Posting.ReportingComponent, s.Posting.ReportingInstance, s.Posting.EventNamePrefix))...)
}

// warnings returns warnings about settings that are probably mistakes for these handlers.
func (s *Settings) warnings(handlers []*handler) []string {
	election, defaults := settingscheck.LeaderElection(s.LeaderElection), NewSettings().LeaderElection
	all := append(s.Persistence.checked().Warnings(), election.Warnings(settingscheck.LeaderElection(defaults))...)
	if s.Peering.Standalone && s.Peering.Mandatory {
		all = append(all, "Settings.Peering.Mandatory has no effect, because Settings.Peering.Standalone disables peering")
	}
	if page := s.Process.Page; !page.Enabled && !reflect.ValueOf(page).IsZero() {
		all = append(all, "Settings.Process.Page has no effect, because the page is not enabled")
	}
	admits := slices.ContainsFunc(handlers, func(h *handler) bool { return h.admission != nil })
	if managed := s.Admission.Managed; managed != "" && !admits {
		all = append(all, fmt.Sprintf("Settings.Admission.Managed has no effect, because there are no admission handlers: "+
			"webhook configurations %q of an earlier version stay, and may refuse writes", managed))
	}
	return all
}

// givenSetting is the value of a setting that a flag gives. It takes precedence over [Configure].
type givenSetting struct {
	flag, name string
	set        func(*Settings)
	holds      func(*Settings) bool
}

// given returns the value that a flag gives for the setting with a name.
func given[T comparable](flag, name string, value T, setting func(*Settings) *T) givenSetting {
	return givenSetting{flag, name,
		func(s *Settings) { *setting(s) = value },
		func(s *Settings) bool { return *setting(s) == value },
	}
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
	// Server receives the admission reviews from the API server. Admission handlers require it. Default: none.
	Server AdmissionServer
	// Managed is the name of a ValidatingWebhookConfiguration and a MutatingWebhookConfiguration, which the operator creates and keeps up to date. Empty
	// means that you maintain them yourself. Default: empty.
	Managed string
	// ShutdownDelay is the time after the signal to stop for which one of several replicas still answers reviews. The API server and its proxies take a while
	// to send them to the other replicas. The Lease is released meanwhile. Default: 5 s. Zero means none.
	ShutdownDelay time.Duration
}
