package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// This file knows which resources and namespaces exist, and keeps a reactor for each resource that is
// served, and a stream for each of its namespaces. Things that come and go while the operator
// runs are noticed through the streams of resource definitions and of namespaces.

var (
	definitionsResource = Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition"}
	namespacesResource  = Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}
)

// observer serves what is there of what the handlers want.
type observer struct {
	client      *Client
	settings    *Settings
	registry    *Registry
	lifecycle   Lifecycle
	log         *slog.Logger
	memo        *Memo
	events      postman
	meter       *metrics
	indices     Indices
	gate        *gate // nil without indices
	clusterwide bool
	patterns    []string
	pauses      *pausing
	peers       *peering        // nil without peers
	admission   admissionEngine // nil without handlers for it

	handlers context.Context // of the handlers
	requests context.Context // of the requests that store what the handlers have left
	patience context.Context // ends when the exit shall not wait for handlers any more

	crew    *crew
	streams sync.WaitGroup
	changed chan struct{}           // holds one token while definitions have changed since the last discovery
	fail    context.CancelCauseFunc // ends the work for an error that no other attempt can mend

	mu     sync.Mutex // guards following
	found  []Resource
	rooms  map[string]*servedRoom
	spaces map[string]bool // the namespaces that are served
	warned map[string]bool
	ended  map[string]bool // the names of the definitions that were seen to be deleted
}

// servedRoom is one served resource with its streams.
type servedRoom struct {
	reactor *reactor
	streams map[string]context.CancelFunc // by namespace, "" for all
	missed  int                           // how often discovery has not had the resource, in a row
}

// settlingReads is how often the resources are read again after a definition has changed, in growing intervals.
const settlingReads = 5

// observe discovers, serves until the context ends, and tells when the first streams are being opened.
func (o *observer) observe(ctx context.Context, ready func()) error {
	o.changed, o.crew = make(chan struct{}, 1), newCrew(o.settings.Networking.MaxInFlight)
	o.rooms, o.spaces, o.warned, o.ended = make(map[string]*servedRoom), make(map[string]bool), make(map[string]bool), make(map[string]bool)
	broken, err := o.discover(ctx)
	if err != nil {
		return err
	}
	ctx, o.fail = context.WithCancelCause(ctx)
	defer o.streams.Wait()
	defer o.fail(nil)
	if !o.settings.Scanning.Disabled {
		o.start(ctx, o.definitions())
	}
	o.begin(ctx)
	if ctx.Err() != nil {
		return loginFailure(context.Cause(ctx))
	}
	settling := 0
	if unresolved := o.adjust(ctx); unresolved {
		settling = settlingReads // a definition can be so new that discovery does not have it yet
	}
	ready()
	for attempt := 0; ; attempt++ {
		var again <-chan time.Time
		if broken || settling > 0 {
			again = time.After(min(200*time.Millisecond<<min(attempt, 10), time.Minute))
		}
		select {
		case <-ctx.Done():
			return loginFailure(context.Cause(ctx))
		case <-o.changed: // discovery follows a definition with some delay, so it is read a few times
			attempt, settling = -1, settlingReads
		case <-again:
			settling--
		}
		if broken, err = o.discover(ctx); err != nil && ctx.Err() == nil {
			o.log.Warn("The resources could not be discovered again; those known are served.", "error", err)
			broken = true
		}
		o.adjust(ctx)
	}
}

// discover reads which resources there are. Groups that cannot be read keep what was known
// of them; that there are such is told, for them to be read again.
func (o *observer) discover(ctx context.Context) (broken bool, err error) {
	groups := o.registry.groups()
	if groups != nil && o.peers != nil {
		groups = append(groups, peeringGroups...)
	}
	found, failed, err := o.client.discover(ctx, groups)
	if err != nil {
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for group, err := range failed {
		o.warn(fmt.Sprintf("The API group %q cannot be read now; its resources are left as they were.", group), "error", err)
		for _, r := range o.found {
			if r.Group == group {
				found = append(found, r)
			}
		}
	}
	o.found = found
	return len(failed) > 0, nil
}

// warn warns of a thing once. The caller holds the lock.
func (o *observer) warn(message string, args ...any) {
	if !o.warned[message] {
		o.warned[message] = true
		o.log.Warn(message, args...)
	}
}

// adjust opens and closes streams so that all is served that is to be served, and no more. It tells whether
// something that the handlers want is not there.
func (o *observer) adjust(ctx context.Context) (unresolved bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peers.adjust(o.found, o.spaces)
	if o.admission != nil {
		o.admission.adjust(o.found)
	}
	served, warnings := o.registry.resolve(o.found)
	still := make(map[string]bool)
	for _, text := range warnings {
		still[text] = true
		o.warn(text)
	}
	for text := range o.warned { // what was mended and breaks again is told again
		if !still[text] {
			delete(o.warned, text)
		}
	}
	for name, room := range o.rooms {
		if served[name] != nil {
			room.missed = 0
		} else if o.missing(room) {
			o.log.Info("The resource is not served any more.", "resource", name)
			room.close()
			delete(o.rooms, name)
		}
	}
	if o.gate != nil { // no stream may open the gate before the others have begun
		o.gate.add()
		defer o.gate.done()
	}
	for name, what := range served {
		room := o.rooms[name]
		if room == nil {
			room = &servedRoom{reactor: o.react(what), streams: make(map[string]context.CancelFunc)}
			o.rooms[name] = room
		}
		room.reactor.served.Store(what)
		o.adjustStreams(ctx, room, what.resource)
	}
	return len(warnings) > 0
}

// missing tells whether a resource that discovery does not have is really not there any more. An API server that starts has none of the
// defined ones for a moment, and their objects are not to be handled as if they were new then.
func (o *observer) missing(room *servedRoom) bool {
	r := room.reactor.served.Load().resource
	room.missed++
	return room.missed >= settlingReads || o.ended[r.Plural+"."+r.Group]
}

// adjustStreams gives a room the streams of the namespaces that are served now.
func (o *observer) adjustStreams(ctx context.Context, room *servedRoom, r Resource) {
	wanted := map[string]bool{"": true}
	if r.Namespaced && !o.clusterwide {
		wanted = o.spaces
	}
	for space, cancel := range room.streams {
		if !wanted[space] {
			cancel()
			delete(room.streams, space)
			room.reactor.queue.forget(space)
		}
	}
	for space := range wanted {
		if room.streams[space] != nil {
			continue
		}
		inner, cancel := context.WithCancel(ctx)
		room.streams[space] = cancel
		o.start(inner, o.stream(room.reactor, r, space))
	}
}

// close ends the streams of a room, and forgets its objects.
func (room *servedRoom) close() {
	for _, cancel := range room.streams {
		cancel()
	}
	r := room.reactor
	r.gate.serve(r.queue, false)
	r.queue.forget("")
	r.queue.close()
}

func (o *observer) react(what *resolved) *reactor {
	counts := o.meter.resource(what.resource.Name())
	r := &reactor{
		events: o.events, meter: o.meter, counts: counts, indices: o.indices,
		client: o.client, settings: o.settings, lifecycle: o.lifecycle, log: o.log, memo: o.memo,
		handlers: o.handlers, requests: withCrew(o.requests, o.crew), outdated: o.notice, pauses: o.pauses,
	}
	r.served.Store(what)
	r.queue = newQueue(o.settings.Queueing.WorkerLimit, o.log, r.work)
	r.queue.left, r.queue.crew = r.leave, o.crew
	r.queue.meter, r.queue.known = o.meter, counts
	background, indices := o.registry.starters()
	if s, ok := indices.(interface {
		startIndexing(*indexer) indexEngine
	}); ok {
		r.indexer = s.startIndexing(&indexer{meter: o.meter, settings: o.settings, indices: o.indices, handlers: o.handlers})
	}
	if r.gate = o.gate; o.gate != nil {
		r.queue.passes, r.queue.counts = o.gate, len(what.indices) > 0
		o.gate.serve(r.queue, true)
	}
	if s, ok := background.(interface {
		start(*daemons) backgroundEngine
	}); ok {
		r.daemons = s.start(&daemons{
			events: o.events, meter: o.meter,
			settings: o.settings, client: o.client, log: o.log, indices: o.indices, requests: o.requests,
			handlers: context.WithoutCancel(o.handlers), // they are stopped one by one
			resource: func() Resource { return r.served.Load().resource },
			wake:     r.queue.wake, follow: r.queue.follow, outdated: o.notice, told: &r.told, pauses: o.pauses,
		})
	}
	return r
}

// stream makes the stream of one resource in one namespace, "" for all.
func (o *observer) stream(r *reactor, resource Resource, namespace string) *stream {
	var listing, round uint64
	what := strings.TrimSuffix(resource.Name()+" in "+namespace, " in ")
	look := r.looker()
	s := &stream{
		client: o.client, resource: resource, namespace: namespace, settings: &o.settings.Watching, logger: o.log, meter: r.counts,
		listing: func() { listing++ },
		glance:  func(t EventType, o *outline, raw []byte) bool { return look(t, o, raw, round, listing) },
		event:   func(ev RawEvent) { r.put(ev, round, listing) },
		listed:  func() { r.queue.sweep(namespace, round, listing) },
		failed:  func(error) {},
		breathe: o.crew.rest,
		admit: func(ctx context.Context) (inner context.Context, release func()) {
			o.peers.await(ctx)
			paused := false
			inner, round, release = o.pauses.await(ctx, func(blockers string) {
				paused = true
				o.log.Debug(fmt.Sprintf("Pausing the watch-stream for %s (blockers: %s).", what, blockers))
				if r.daemons != nil {
					r.daemons.pause(namespace)
				}
			})
			if paused {
				o.log.Debug("Resuming the watch-stream for " + what + ".")
			}
			return inner, release
		},
	}
	if indices := r.served.Load().indices; len(indices) > 0 {
		p := &listingPass{gate: o.gate, log: o.log, what: resource.Name(), handlers: indices}
		o.gate.add()
		sweep := s.listed
		s.refuses, s.ended = p.refused, p.listed
		s.listed = func() {
			sweep()
			p.listed()
		}
	}
	return s
}

// start runs a stream until its context ends. A login that has failed for good ends the operator.
func (o *observer) start(ctx context.Context, s *stream) {
	failed := s.failed
	s.failed = func(err error) {
		if loginFailure(err) != nil {
			o.fail(err)
		}
		failed(err)
	}
	s.meter.stream(1)
	o.streams.Go(func() {
		s.run(ctx)
		s.meter.stream(-1)
	})
}

// loginFailure returns an error if it is one of the login, nil otherwise.
func loginFailure(err error) error {
	if login := (*LoginError)(nil); errors.As(err, &login) {
		return err
	}
	return nil
}

// notice has the resources discovered again.
func (o *observer) notice() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// definitions makes the stream of resource definitions: each change, and each new
// listing, is a reason to discover again.
func (o *observer) definitions() *stream {
	first := true
	return &stream{
		client: o.client, resource: definitionsResource, settings: &o.settings.Watching, logger: o.log,
		event: func(ev RawEvent) {
			o.mu.Lock()
			if ev.Type == Deleted {
				o.ended[ev.Body.Name()] = true
			} else {
				delete(o.ended, ev.Body.Name())
			}
			o.mu.Unlock()
			if ev.Type != Listed {
				o.notice()
			}
		},
		listed: func() {
			if !first {
				o.notice()
			}
			first = false
		},
		failed: func(err error) {
			if StatusCode(err) == 403 {
				o.mu.Lock()
				defer o.mu.Unlock()
				o.warn("Resource definitions cannot be watched: new and changed ones are not noticed until a restart.", "error", err)
			}
		},
	}
}

// begin finds the namespaces to serve, unless all are.
func (o *observer) begin(ctx context.Context) {
	if o.clusterwide {
		return
	}
	if o.settings.Scanning.Disabled {
		o.takeExact("")
		return
	}
	listed := make(chan struct{})
	known := sync.OnceFunc(func() { close(listed) })
	s := &stream{
		client: o.client, resource: namespacesResource, settings: &o.settings.Watching, logger: o.log,
		event:  func(ev RawEvent) { o.namespace(ctx, ev) },
		listed: known,
		failed: func(err error) {
			if StatusCode(err) != 403 {
				return
			}
			select {
			case <-listed:
				o.mu.Lock()
				defer o.mu.Unlock()
				o.warn("Namespaces cannot be watched: those that come and go are not noticed until that is allowed.", "error", err)
			default:
				o.takeExact("Namespaces cannot be listed", "error", err)
				known()
			}
		},
	}
	o.start(ctx, s)
	select {
	case <-listed:
	case <-ctx.Done():
	}
}

// takeExact serves the patterns that are plain names, and assumes that those namespaces exist. It warns why, unless that is wanted and
// nothing is lost by it.
func (o *observer) takeExact(why string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var dropped []string
	for _, pattern := range o.patterns {
		if strings.ContainsAny(pattern, "!*?[,") {
			dropped = append(dropped, pattern)
		} else {
			o.spaces[strings.TrimSpace(pattern)] = true
		}
	}
	if why == "" && len(dropped) == 0 {
		return
	}
	o.warn(cmp.Or(why, "Namespaces are not listed, because scanning is disabled")+": patterns are not served, only exact names.",
		append(args, "dropped", dropped)...)
}

// namespace takes an event of a namespace.
func (o *observer) namespace(ctx context.Context, ev RawEvent) {
	name := ev.Body.Name()
	if !o.serves(name) {
		return
	}
	leaving := ev.Type == Deleted
	if conditions := namespaceConditions(ev.Body); !leaving && ev.Body.Deleting() && len(conditions) > 0 {
		leaving = true
		for _, c := range conditions {
			if c.Status == "True" { // something is still there to be finished
				o.log.Debug(fmt.Sprintf("Namespace %q termination is pending: %s: %s", name, c.Reason, c.Message))
				leaving = false
				break
			}
		}
	}
	o.mu.Lock()
	known := o.spaces[name]
	if leaving {
		delete(o.spaces, name)
	} else {
		o.spaces[name] = true
	}
	changed := known == leaving
	running := len(o.found) > 0 && ev.Type != Listed
	o.mu.Unlock()
	if changed && (running || known) {
		o.adjust(ctx)
	}
}

// serves tells whether the operator is for a namespace.
func (o *observer) serves(namespace string) bool {
	return o.clusterwide || slices.ContainsFunc(o.patterns, func(p string) bool { return matchNamespace(p, namespace) })
}

// admissionHost returns what admission is made with.
func (o *observer) admissionHost() *admissionHost {
	return &admissionHost{
		client: o.client, settings: o.settings, log: o.log, memo: o.memo, indices: o.indices, events: o.events, meter: o.meter,
		handlers: o.handlers, requests: o.requests, patterns: o.patterns,
	}
}

// end ends the work for an error.
func (o *observer) end(err error) { o.fail(err) }

// recall returns what is remembered of an object, nil if nothing is.
func (o *observer) recall(resource, key string) *memory {
	o.mu.Lock()
	room := o.rooms[resource]
	o.mu.Unlock()
	if room == nil {
		return nil
	}
	return room.reactor.queue.recall(key)
}

type namespaceCondition struct{ Status, Reason, Message string }

func namespaceConditions(b *Body) []namespaceCondition {
	var conditions []namespaceCondition
	raw, _ := b.find("status", "conditions")
	_ = eachItem(raw, func(item []byte) bool { // what is malformed is not there
		conditions = append(conditions, namespaceCondition{stringJSON(item, "status"), stringJSON(item, "reason"), stringJSON(item, "message")})
		return true
	})
	return conditions
}

// matchNamespace tells whether a pattern fits a namespace. It is a list of globs: the first one
// decides, a negated one then drops the name, and a plain one takes back what the first one had matched.
func matchNamespace(pattern, name string) bool {
	globs := strings.Split(pattern, ",")
	for i, g := range globs {
		globs[i] = strings.TrimSpace(g)
	}
	if strings.HasPrefix(globs[0], "!") {
		globs = append([]string{"*"}, globs...)
	}
	first := matchGlob(globs[0], name)
	matches := first
	for _, g := range globs[1:] {
		if negated, ok := strings.CutPrefix(g, "!"); ok {
			matches = matches && !matchGlob(negated, name)
		} else if matchGlob(g, name) {
			matches = first
		}
	}
	return matches
}

// matchGlob is path.Match with the shell's spelling of negated classes.
func matchGlob(glob, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(glob, "[!", "[^"), name)
	return err == nil && ok
}

// checkNamespaces tells what is wrong with patterns of namespaces, and what is probably not meant.
func checkNamespaces(patterns []string) (doubts []string, err error) {
	for _, pattern := range patterns {
		for i, g := range strings.Split(pattern, ",") {
			g = strings.TrimSpace(g)
			negated := strings.HasPrefix(g, "!")
			if _, err := path.Match(strings.ReplaceAll(strings.TrimPrefix(g, "!"), "[!", "[^"), ""); err != nil || g == "" || g == "!" {
				return nil, fmt.Errorf("the namespace pattern %q has the bad part %q: a name or a glob is expected, such as \"team-*\"", pattern, g)
			}
			first := strings.TrimSpace(strings.Split(pattern, ",")[0])
			if i > 0 && !negated && !strings.ContainsAny(first, "*?[!") && !matchGlob(first, g) {
				doubts = append(doubts, fmt.Sprintf("In the namespace pattern %q, the part %q never matches: the first part decides. To serve several namespaces, give several patterns.", pattern, g))
			}
		}
	}
	return doubts, nil
}

// stop ends the work on all objects: what is under way may finish in the time that the settings give, then
// the contexts of the handlers end, and those who ignore that are named. It returns why admission could not go on, if that was so.
func (o *observer) stop(endHandlers, endRequests context.CancelFunc) (err error) {
	o.mu.Lock()
	var queues []*queue
	var engines []backgroundEngine
	for _, room := range o.rooms {
		room.reactor.queue.close()
		queues = append(queues, room.reactor.queue)
		if room.reactor.daemons != nil {
			engines = append(engines, room.reactor.daemons)
		}
	}
	o.mu.Unlock()
	grace := o.settings.Queueing.ExitTimeout
	if left := drainQueues(o.patience, queues, grace); len(left) > 0 {
		o.log.Warn("Some handlers have not finished in time; their contexts end now.", "objects", left, "timeout", grace)
		endHandlers()
		drainQueues(o.patience, queues, max(grace, time.Second))
	}
	for _, e := range engines {
		e.stop(OperatorExiting)
	}
	for _, e := range engines { // which abandon what does not end in time
		if left := e.wait(o.patience); len(left) > 0 {
			o.log.Error("Some daemons have not ended in time; they are left behind.", "daemons", left)
		}
	}
	if o.admission != nil { // last, because all that was done until now may have been reviewed
		err = o.admission.stop()
	}
	endHandlers()
	endRequests()
	if left := drainQueues(context.Background(), queues, time.Second); len(left) > 0 {
		o.log.Error("Some handlers ignore that their contexts have ended; they are left behind.", "objects", left)
	}
	return err
}

// drainQueues waits for the workers of all queues, and returns the objects of those that did not end in time.
func drainQueues(ctx context.Context, queues []*queue, timeout time.Duration) []string {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var left []string
	for _, q := range queues {
		left = append(left, q.wait(ctx)...)
	}
	return left
}
