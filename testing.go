package kopf

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/discovery"
	"github.com/kopf-go/kopf/internal/namespaces"
	"github.com/kopf-go/kopf/internal/rights"
	"github.com/kopf-go/kopf/internal/testrun"
)

// This file runs operators in tests, and compares their requests with the permissions in their manifests. It uses an interface of package testing, so that no
// operator links that package.

// TB is the part of [testing.TB] that this package uses. Pass a *testing.T, *testing.B or *testing.F.
type TB interface {
	Helper()
	Name() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
	Context() context.Context
	Output() io.Writer
}

// Runnable can run in a [Runner]: an *[Operator], or a [RunFunc].
type Runnable interface {
	// Run runs until the context ends, and returns nil then.
	Run(ctx context.Context) error
}

// RunFunc is a function that a [Runner] can run.
type RunFunc func(ctx context.Context) error

// Run calls the function.
func (f RunFunc) Run(ctx context.Context) error { return f(ctx) }

// testable is implemented by operators. It returns a copy that logs to the test, unless it has its own logger, and calls ready when it is.
type testable interface {
	forTest(logger *slog.Logger, ready func()) Runnable
}

// RunnerOptions are the options of [NewRunner]. Zero values mean the defaults.
type RunnerOptions struct {
	// Timeout is the limit for the start of the operator, and later for its shutdown. Default: 1 minute.
	Timeout time.Duration
	// Level is the lowest level of the log lines in the output of the test. It has no effect if the operator has a Logger. Default: [slog.LevelInfo].
	Level slog.Level
}

// Runner is an operator that runs in the background of a test. See [NewRunner].
type Runner struct {
	t    TB
	task *testrun.Task
}

// NewRunner starts an operator for a test. It returns when the start-up handlers have ended and the operator opens its watch streams. It does not wait for the
// initial lists, the indices, or the configuration of webhooks. Use [WaitFor] for that.
//
// The Runner stops the operator at the end of the test. The test fails if the operator ends before, returns an error, or does not start or stop in time. The
// operator logs to the output of the test, unless it has a Logger. Nil options mean the defaults.
func NewRunner(t TB, operator Runnable, options *RunnerOptions) *Runner {
	t.Helper()
	o := optionsOf(options)
	ready := make(chan struct{})
	if op, ok := operator.(testable); ok {
		logger := slog.New((&LogOptions{Output: t.Output()}).handler(o.Level))
		operator = op.forTest(logger, func() { close(ready) })
	} else {
		close(ready)
	}
	r := &Runner{t, testrun.Start(t.Context(), operator, cmp.Or(o.Timeout, time.Minute))}
	t.Cleanup(r.finish)
	if err := r.task.Await(ready); err != nil {
		t.Fatalf("the operator is not ready: %v", err)
	}
	return r
}

// Context returns a context that ends with the operator, and whose cause is the reason. Use it for code that waits for the operator.
func (r *Runner) Context() context.Context { return r.task.Context() }

// Stop stops the operator, waits until it has ended, and returns its error. You can call it more than once.
func (r *Runner) Stop() error { return r.task.Stop() }

// finish stops the operator at the end of the test. It reports its error, unless the test has already received it.
func (r *Runner) finish() {
	r.t.Helper()
	if err := r.task.Finish(); err != nil {
		r.t.Errorf("the operator has failed: %v", err)
	}
}

// waitLimit limits waits whose context has no deadline; waitPause is the delay between two watches.
const (
	waitLimit = time.Minute
	waitPause = 100 * time.Millisecond
)

// WaitFor waits until an object meets a condition, such as [IsReady], and returns the object. The object is given as for [Client.Get]. The condition gets each
// observed state, and nil while the object does not exist.
//
// The error contains the argument what, such as "to be handled", and the last state, except for Secrets. Temporary errors, such as those of the network, do not
// end the wait. Refusals do. Without a deadline in the context, the limit is 1 minute. With [Runner.Context], the wait ends when the operator ends.
func WaitFor(ctx context.Context, client *Client, of any, what string, condition func(*Body) bool) (*Body, error) {
	ref, err := ReferenceOf(of)
	if err != nil {
		return nil, err
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, waitLimit, fmt.Errorf("not within %s", waitLimit))
		defer cancel()
	}
	w := objectWaiter{client: client, ref: ref, condition: condition}
	err = w.wait(ctx)
	if err == nil {
		return w.last, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
		if w.failure != nil {
			err = fmt.Errorf("%w, and the last error was: %w", err, w.failure)
		}
	}
	state := "it did not exist"
	if w.last != nil {
		state = "it was " + w.last.loggable()
	}
	return w.last, fmt.Errorf("waiting for %s %s %s: %w; %s", ref.Kind, ref, what, err, state)
}

// objectWaiter is one call of WaitFor.
type objectWaiter struct {
	client    *Client
	ref       ObjectReference
	condition func(*Body) bool
	last      *Body // nil while it does not exist
	failure   error // of the last read, which is retried; nil after a success
}

// wait reads and watches the object. It retries temporary errors.
func (w *objectWaiter) wait(ctx context.Context) error {
	if _, err := w.client.path(ctx, http.MethodGet, w.ref, ""); err != nil {
		return err // a retry would not help
	}
	for {
		met, err := w.observe(ctx)
		passes := StatusCode(err) == http.StatusGone || (&request{method: http.MethodGet}).repeatable(err)
		if met || err != nil && !passes {
			return err
		}
		if ctx.Err() == nil { // otherwise it is the error of the ended context
			w.failure = err
		}
		pause := max(waitPause, min(retryAfterOf(err), apirequest.MaxRetryAfter))
		if err := await.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// observe watches the object until it meets the condition, or the watch ends.
func (w *objectWaiter) observe(ctx context.Context) (met bool, err error) {
	if met, err := w.poll(ctx); met || err != nil {
		return met, err
	}
	options := &ListOptions{Namespace: w.ref.Namespace, FieldSelector: apirequest.NameSelector(w.ref.Name)}
	if w.last != nil {
		options.ResourceVersion = w.last.ResourceVersion()
	}
	for event, err := range w.client.Watch(ctx, w.ref, options) {
		if err != nil {
			return false, err
		}
		if w.met(event) {
			return true, nil
		}
	}
	return false, nil
}

func (w *objectWaiter) poll(ctx context.Context) (met bool, err error) {
	var body Body
	switch err := w.client.Get(ctx, w.ref, &body, nil); {
	case StatusCode(err) == http.StatusNotFound:
		w.last = nil
	case err != nil:
		return false, err
	default:
		w.last = &body
	}
	return w.condition(w.last), nil
}

func (w *objectWaiter) met(event RawEvent) bool {
	w.last = event.Body
	if event.Type == Deleted {
		w.last = nil
	}
	return w.condition(w.last)
}

// recordings are the recorded requests of all Runners since the last call of CheckRights.
var recordings struct {
	mu  sync.Mutex // guards following
	all []*recording
}

// recording has the requests of one operator.
type recording struct {
	requests *rights.Recorder
	operator *Operator
}

// record records the requests of an operator, unless it makes its own connections.
func (o *Operator) record() {
	if o.Connection == nil || o.Connection.HTTPClient == nil {
		return
	}
	info, client := *o.Connection, *o.Connection.HTTPClient
	recorder := &rights.Recorder{Base: client.Transport}
	if recorder.Base == nil {
		recorder.Base = http.DefaultTransport
	}
	if server, err := url.Parse(info.Server); err == nil {
		recorder.Prefix = strings.TrimRight(server.Path, "/")
	}
	client.Transport, info.HTTPClient = recorder, &client
	if o.Settings == nil {
		o.Settings = NewSettings()
	}
	if o.Registry == nil {
		o.Registry = DefaultRegistry()
	}
	o.Connection = &info
	recordings.mu.Lock()
	defer recordings.mu.Unlock()
	recordings.all = append(recordings.all, &recording{recorder, o})
}

// CheckRights compares the requests of operators in tests with the permissions that the command "manifests" prints for their handlers and settings. It covers
// each [Runner] since the last call, so call it in a test that runs after all others. The test fails for each request without a permission, with the line to
// add. It also fails for each permission of a handler or of [Needs] that no operator has used, unless -run or -skip may leave tests out. The verbs of a handler
// for a kind count together, so one of them suffices. Those of [Needs] count one by one.
//
// It knows only operators whose Connection has an HTTPClient, such as those of [APIServer.ConnectionInfo] and [Client.HTTPClient].
func CheckRights(t TB) {
	t.Helper()
	recordings.mu.Lock()
	all := recordings.all
	recordings.all = nil
	recordings.mu.Unlock()
	var comparison rights.Comparison
	builtin, err := builtinResources(nil)
	if err != nil {
		t.Errorf("the kinds of Kubernetes cannot be read: %v", err)
	}
	var said []string // the problems of a registry, once for all its operators
	for _, r := range all {
		for _, message := range r.compare(builtin, &comparison) {
			if !slices.Contains(said, message) {
				said = append(said, message)
				t.Errorf("%s", message)
			}
		}
	}
	if len(all) == 0 {
		t.Errorf("no requests were recorded: run operators by NewRunner before, with a Connection such as that of APIServer.ConnectionInfo")
	}
	if rights.SomeLeftOut(os.Args) {
		return
	}
	for _, message := range comparison.Unneeded() {
		t.Errorf("%s", message)
	}
}

// compare compares the requests of one operator with its permissions, and returns the differences.
func (r *recording) compare(builtin []discovery.Resource, comparison *rights.Comparison) (messages []string) {
	op := r.operator
	found, _, err := discovery.Read(context.Background(), r.requests, nil)
	if err != nil {
		messages = append(messages, "the recorded discovery cannot be read: "+err.Error())
	}
	needed := op.Registry.rights(op.Settings, discovery.Added(builtin, found), len(op.Namespaces) > 0).Needed()
	for _, problem := range needed.Problems {
		messages = append(messages, problem.Error())
	}
	set := &rights.Set{Rights: needed.Rights}
	if !namespaces.IsPattern(strings.Join(op.Namespaces, "")) { // patterns need the permissions in all namespaces
		set.Namespaces = op.Namespaces
	}
	return append(messages, comparison.Add(set, r.requests.Requests())...)
}
