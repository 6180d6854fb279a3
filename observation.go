package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/rawjson"
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
	events      eventRecorder
	meter       *metrics.Metrics
	indices     Indices
	gate        *gate // nil without indices
	clusterwide bool
	patterns    []string
	pauses      *pausing
	peers       *peering        // nil without peers
	admission   admissionEngine // nil without handlers for it

	handlers context.Context // of the handlers
	requests context.Context // of the requests that store what the handlers have left
	force    context.Context // ends when the exit must not wait for handlers any more

	workerLimit *workerLimit
	limit       *handlerLimit
	streams     sync.WaitGroup
	changed     chan struct{}           // holds one token while definitions have changed since the last discovery
	resumed     chan struct{}           // holds one token when a pause has ended since the last adjusting
	fail        context.CancelCauseFunc // ends the work for an error that no other attempt can mend

	mu     sync.Mutex // guards following
	found  []Resource
	wanted map[string]*resolved // what of that the handlers are for, by name
	doubts []string             // what they are for and is not there
	rooms  map[string]*servedRoom
	spaces map[string]bool // the namespaces that are served
	warned map[string]bool
	ended  map[string]bool // the names of the definitions that were seen to be deleted
}

// servedRoom is one served resource with its streams.
type servedRoom struct {
	reactor *reactor
	streams map[string]*servedStream // by namespace, "" for all
	missed  int                      // how often discovery has not had the resource, in a row
	closed  bool                     // whether it is not served any more; kept while something runs for its objects, and open again when it is served
}

// servedStream is one stream of a resource, with the source that it is to the queue.
type servedStream struct {
	source
	cancel context.CancelFunc
}

// settlingReads is how often the resources are read again after a definition has changed, in growing intervals.
const settlingReads = 5

// observe discovers, serves until the context ends, and tells when the first streams are being opened.
func (o *observer) observe(ctx context.Context, ready func()) error {
	o.changed, o.resumed = make(chan struct{}, 1), make(chan struct{}, 1)
	o.workerLimit = newWorkerLimit(o.settings.Networking.MaxInFlight)
	o.limit = newHandlerLimit(o.settings.Execution.MaxWorkers)
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
	o.streams.Go(func() { o.followPauses(ctx) })
	settling := 0
	o.admit()
	o.adjust(ctx)
	if len(o.doubts) > 0 { // which are this goroutine's to change
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
		case <-o.resumed:
			o.adjust(ctx) // what has gone during the pause is to be told
			continue
		case <-o.changed: // discovery follows a definition with some delay, so it is read a few times
			attempt, settling = -1, settlingReads
		case <-again:
			settling--
		}
		if broken, err = o.discover(ctx); err != nil && ctx.Err() == nil {
			o.log.Warn("The resources could not be discovered again; those known are served.", "error", err)
			broken = true
		}
		o.admit()
		o.adjust(ctx)
	}
}

// followPauses has the streams adjusted after each pause.
func (o *observer) followPauses(ctx context.Context) {
	for ctx.Err() == nil {
		paused := false
		inner, _, release := o.pauses.await(ctx, func(string) { paused = true })
		if paused {
			select {
			case o.resumed <- struct{}{}:
			default:
			}
		}
		<-inner.Done()
		release()
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
	for _, r := range o.found { // which no other goroutine changes
		if failed[r.Group] != nil {
			found = append(found, r)
		}
	}
	wanted, doubts := o.registry.resolve(found) // without the lock, because it calls functions of users
	for name, what := range wanted {
		what.counts = o.meter.Resource(name)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for group, err := range failed {
		o.warn(fmt.Sprintf("The API group %q cannot be read now; its resources are left as they were.", group), "error", err)
	}
	o.found, o.wanted, o.doubts = found, wanted, doubts
	return len(failed) > 0, nil
}

// admit tells admission which resources there are.
func (o *observer) admit() {
	if o.admission != nil {
		o.admission.adjust(o.found)
	}
}

// warn warns of a thing once. The caller holds the lock.
func (o *observer) warn(message string, args ...any) {
	if !o.warned[message] {
		o.warned[message] = true
		o.log.Warn(message, args...)
	}
}

// adjust opens and closes streams so that all is served that is to be served, and no more.
func (o *observer) adjust(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peers.adjust(o.found, o.spaces)
	still := make(map[string]bool)
	for _, text := range o.doubts {
		still[text] = true
		o.warn(text)
	}
	for text := range o.warned { // what was mended and breaks again is told again
		if !still[text] {
			delete(o.warned, text)
		}
	}
	if o.gate != nil { // no stream may open the gate before the others have begun
		o.gate.add()
		defer o.gate.done()
	}
	o.moveRooms()
	for name, room := range o.rooms {
		if o.wanted[name] != nil {
			room.missed = 0
			continue
		}
		if !room.closed && o.missing(room) {
			o.log.Info("The resource is not served any more.", "resource", name)
			room.close()
		}
		if room.closed {
			o.leaveRoom(name, room)
		}
	}
	for name, what := range o.wanted {
		room := o.rooms[name]
		if room == nil {
			room = &servedRoom{reactor: o.react(what), streams: make(map[string]*servedStream)}
			o.rooms[name] = room
		}
		room.reactor.served.Store(what)
		room.open()
		o.adjustStreams(ctx, room, what.resource)
	}
}

// leaveRoom takes a room away that is closed and has nothing left to do. If its definition was deleted, so were its objects.
func (o *observer) leaveRoom(name string, room *servedRoom) {
	if r := room.reactor.served.Load().resource; o.ended[r.Plural+"."+r.Group] && !o.pauses.paused() {
		room.reactor.queue.conclude("", o.pauses.now())
	}
	if room.idle() {
		delete(o.rooms, name)
	}
}

// moveRooms has the resources that are served in another version than before keep what is known of their objects: these are the same.
func (o *observer) moveRooms() {
	for _, name := range slices.Sorted(maps.Keys(o.wanted)) {
		if o.rooms[name] != nil {
			continue
		}
		what := o.wanted[name]
		for _, before := range slices.Sorted(maps.Keys(o.rooms)) {
			room := o.rooms[before]
			r := room.reactor.served.Load().resource
			if o.wanted[before] != nil || r.Group != what.resource.Group || r.Plural != what.resource.Plural {
				continue
			}
			o.log.Info("The resource is served in another version now.", "resource", name, "before", before)
			room.endStreams()
			room.reactor.queue.move(what.resource.APIVersion(), what.resource.Kind, what.counts)
			delete(o.rooms, before)
			o.rooms[name] = room
			break
		}
	}
}

// missing tells whether a resource is really not to be served any more. An API server that starts has none of the defined ones for a moment,
// and their objects are not to be handled as if they were new then.
func (o *observer) missing(room *servedRoom) bool {
	r := room.reactor.served.Load().resource
	if slices.ContainsFunc(o.found, func(f Resource) bool { return f.Name() == r.Name() }) {
		return true // it is there, but no handler is for it
	}
	room.missed++
	return room.missed >= settlingReads || o.ended[r.Plural+"."+r.Group]
}

// adjustStreams gives a room the streams of the namespaces that are served now.
func (o *observer) adjustStreams(ctx context.Context, room *servedRoom, r Resource) {
	wanted := map[string]bool{"": true}
	if r.Namespaced && !o.clusterwide {
		wanted = o.spaces
	}
	for space, s := range room.streams {
		if !wanted[space] {
			s.cancel()
			room.reactor.queue.end(&s.source)
			delete(room.streams, space)
			room.forget(space)
		}
	}
	if !wanted[""] && !o.pauses.paused() {
		for _, space := range room.reactor.queue.leftNamespaces(wanted) { // which are gone
			room.reactor.queue.conclude(space, o.pauses.now())
		}
	}
	for space := range wanted {
		if room.streams[space] != nil {
			continue
		}
		inner, cancel := context.WithCancel(ctx)
		s := &servedStream{source: source{namespace: space}, cancel: cancel}
		room.streams[space] = s
		o.start(inner, o.stream(room.reactor, r, &s.source))
	}
}

// endStreams ends the streams of a room. What they still bring does not count.
func (room *servedRoom) endStreams() {
	for _, s := range room.streams {
		s.cancel()
		room.reactor.queue.end(&s.source)
	}
	clear(room.streams)
}

// close ends the streams of a room, and forgets its objects.
func (room *servedRoom) close() {
	r := room.reactor
	room.endStreams()
	r.gate.serve(r.queue, false)
	room.forget("")
	room.closed = true
}

// forget forgets the objects of a namespace, or all. Handlers of events hear of those that turn out to be gone.
func (room *servedRoom) forget(namespace string) {
	room.reactor.queue.forget(namespace, len(room.reactor.served.Load().events) > 0)
}

// open takes a room into use, perhaps once more.
func (room *servedRoom) open() {
	r := room.reactor
	r.gate.serve(r.queue, true)
	room.closed = false
}

// idle tells whether nothing runs any more for the objects of a room that is closed.
func (room *servedRoom) idle() bool {
	r := room.reactor
	return r.queue.empty() && (r.daemons == nil || r.daemons.idle())
}

func (o *observer) react(what *resolved) *reactor {
	r := &reactor{
		events: o.events, meter: o.meter, indices: o.indices, began: time.Now().Add(-1), // a time of zero means never
		client: o.client, settings: o.settings, lifecycle: o.lifecycle, log: o.log, memo: o.memo,
		handlers: o.handlers, requests: withWorkerLimit(o.requests, o.workerLimit), outdated: o.notice, pauses: o.pauses, limit: o.limit,
	}
	r.served.Store(what)
	r.queue = newQueue(o.settings.Queueing.WorkerLimit, o.log, r.work)
	r.queue.left, r.queue.workerLimit = r.leave, o.workerLimit
	r.queue.meter, r.queue.known = o.meter, what.counts
	background, indices := o.registry.starters()
	if s, ok := indices.(interface {
		startIndexing(*indexer) indexEngine
	}); ok {
		r.indexer = s.startIndexing(&indexer{meter: o.meter, settings: o.settings, indices: o.indices, handlers: o.handlers})
	}
	if r.gate = o.gate; o.gate != nil {
		r.queue.passes, r.queue.counts = o.gate, len(what.indices) > 0
	}
	if s, ok := background.(interface {
		start(*daemons) backgroundEngine
	}); ok {
		r.daemons = s.start(&daemons{
			events: o.events, meter: o.meter,
			settings: o.settings, client: o.client, log: o.log, indices: o.indices, requests: o.requests,
			handlers: context.WithoutCancel(o.handlers), // they are stopped one by one
			resource: func() Resource { return r.served.Load().resource },
			track:    func(b *Body) *Essence { return r.served.Load().track(b, o.settings) },
			limit:    o.limit,
			wake:     r.queue.wake, follow: r.queue.follow, outdated: o.notice, told: &r.told, pauses: o.pauses,
		})
	}
	return r
}

// stream makes the stream of one resource, which is a source to its queue.
func (o *observer) stream(r *reactor, resource Resource, from *source) *stream {
	var round uint64
	namespace := from.namespace
	what := strings.TrimSuffix(resource.Name()+" in "+namespace, " in ")
	look := r.looker(from)
	s := &stream{
		client: o.client, resource: resource, namespace: namespace, settings: &o.settings.Watching, logger: o.log, meter: r.served.Load().counts,
		listing:  func() { r.queue.begin(from) },
		glance:   func(t EventType, o *rawjson.Header, raw []byte) bool { return look(t, o, raw, round) },
		event:    func(ev RawEvent) { r.put(ev, from, round) },
		listed:   func() { r.queue.sweep(from, round) },
		restored: func() { r.queue.restore(from) },
		failed:   func(error) {},
		throttle: o.workerLimit.waitBacklog,
		admit: func(ctx context.Context) (inner context.Context, release func()) {
			if r.daemons != nil && o.pauses.paused() { // which does not wait for the look at the peers of other namespaces
				r.daemons.pause(namespace)
			}
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
	s.meter.Add(metrics.Streams, 1)
	o.streams.Go(func() {
		s.run(ctx)
		s.meter.Add(metrics.Streams, -1)
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
	known, found := make(map[string]bool), make(map[string]bool) // the names of all, and of those in the newest listing
	return &stream{
		client: o.client, resource: definitionsResource, settings: &o.settings.Watching, logger: o.log,
		listing: func() { found = make(map[string]bool) },
		event: func(ev RawEvent) {
			o.mu.Lock()
			name := ev.Body.Name()
			if ev.Type == Deleted {
				o.ended[name] = true
				delete(known, name)
				delete(found, name)
			} else {
				delete(o.ended, name)
				known[name], found[name] = known[name] || ev.Type != Listed, true
			}
			o.mu.Unlock()
			if ev.Type != Listed {
				o.notice()
			}
		},
		listed: func() {
			o.mu.Lock()
			for name := range known {
				if !found[name] {
					o.ended[name] = true
				}
			}
			known = found
			o.mu.Unlock()
			if !first {
				o.notice()
			}
			first = false
		},
		failed: func(err error) {
			if StatusCode(err) == 403 {
				o.mu.Lock()
				defer o.mu.Unlock()
				o.warn("Resource definitions cannot be watched: new and changed ones are not noticed until the right to do so is granted.", "error", err)
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
	listed, found := make(chan struct{}), make(map[string]bool)
	known := sync.OnceFunc(func() { close(listed) })
	s := &stream{
		client: o.client, resource: namespacesResource, settings: &o.settings.Watching, logger: o.log,
		listing: func() { found = make(map[string]bool) },
		event: func(ev RawEvent) {
			name := ev.Body.Name()
			if !o.serves(name) {
				return
			}
			if ev.Body.Deleting() {
				o.peers.reconsider(name)
			}
			if ev.Type != Listed {
				o.namespace(ctx, ev)
			} else if !o.leaving(ev) {
				found[name] = true
			}
		},
		listed: func() {
			changed := o.relist(found)
			select {
			case <-listed:
				if changed {
					o.adjust(ctx)
				}
			default:
				o.warnUnmatched(found)
				known()
			}
		},
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

// warnUnmatched warns if the first listing of namespaces has none that a pattern matches.
func (o *observer) warnUnmatched(found map[string]bool) {
	if len(found) == 0 {
		o.log.Warn("No namespace matches the patterns; waiting until one does", "patterns", o.patterns)
	}
}

// relist serves the namespaces that a whole listing has found and no others, and reports whether that is a change.
func (o *observer) relist(found map[string]bool) (changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed = !maps.Equal(o.spaces, found)
	o.spaces = found
	return changed
}

// namespace takes a change of a namespace that the operator is for.
func (o *observer) namespace(ctx context.Context, ev RawEvent) {
	name, leaving := ev.Body.Name(), o.leaving(ev)
	o.mu.Lock()
	changed := o.spaces[name] == leaving
	if leaving {
		delete(o.spaces, name)
	} else {
		o.spaces[name] = true
	}
	o.mu.Unlock()
	if changed {
		o.adjust(ctx)
	}
}

// leaving reports whether a namespace is gone, or is being deleted and has nothing left to be finished.
func (o *observer) leaving(ev RawEvent) bool {
	conditions := namespaceConditions(ev.Body)
	if ev.Type == Deleted || !ev.Body.Deleting() || len(conditions) == 0 {
		return ev.Type == Deleted
	}
	for _, c := range conditions {
		if c.Status == "True" { // something is still there to be finished
			o.log.Debug(fmt.Sprintf("Namespace %q termination is pending: %s: %s", ev.Body.Name(), c.Reason, c.Message))
			return false
		}
	}
	return true
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

// memoryOf returns what is remembered of an object, nil if nothing is.
func (o *observer) memoryOf(resource, key string) *memory {
	o.mu.Lock()
	room := o.rooms[resource]
	o.mu.Unlock()
	if room == nil {
		return nil
	}
	return room.reactor.queue.memoryOf(key)
}

type namespaceCondition struct{ Status, Reason, Message string }

func namespaceConditions(b *Body) []namespaceCondition {
	var conditions []namespaceCondition
	raw, _ := b.find("status", "conditions")
	_ = rawjson.EachItem(raw, func(item []byte) bool { // what is malformed is not there
		conditions = append(conditions, namespaceCondition{rawjson.StringAt(item, "status"), rawjson.StringAt(item, "reason"), rawjson.StringAt(item, "message")})
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
			if name := strings.TrimPrefix(g, "!"); !strings.ContainsAny(name, "*?[") && !namesNamespace(name) {
				return nil, fmt.Errorf("invalid namespace %q: want a name of at most 63 lower-case letters, digits and \"-\", or a glob such as \"team-*\"", name)
			}
			first := strings.TrimSpace(strings.Split(pattern, ",")[0])
			if i > 0 && !negated && !strings.ContainsAny(first, "*?[!") && !matchGlob(first, g) {
				doubts = append(doubts, fmt.Sprintf("In the namespace pattern %q, the part %q never matches: the first part decides. To serve several namespaces, give several patterns.", pattern, g))
			}
		}
	}
	return doubts, nil
}

// namesNamespace reports whether a namespace can have the name: a label as in RFC 1123.
func namesNamespace(name string) bool {
	strange := func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-') }
	return name != "" && len(name) <= 63 && strings.IndexFunc(name, strange) < 0 && name[0] != '-' && name[len(name)-1] != '-'
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
	if left := drainQueues(o.force, queues, grace); len(left) > 0 {
		o.log.Warn("Some handlers have not finished in time; their contexts end now.", "objects", left, "timeout", grace)
		endHandlers()
		drainQueues(o.force, queues, max(grace, time.Second))
	}
	for _, e := range engines {
		e.stop(OperatorExiting)
	}
	for _, e := range engines { // which abandon what does not end in time
		if left := e.wait(o.force); len(left) > 0 {
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
