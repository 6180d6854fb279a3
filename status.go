package kopf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/await"
	"github.com/kopf-go/kopf/internal/decision"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/inspection"
	"github.com/kopf-go/kopf/internal/livepage"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file has the command that shows the state of objects, from the data that operators have stored on them.

// status prints the state of the objects, and reports whether handlers of any of them fail.
func (i *inspecting) status(ctx context.Context) (failing bool, err error) {
	if i.args.Live {
		return false, i.liveStatus(ctx)
	}
	if err := i.discover(ctx); err != nil {
		return false, err
	}
	resources, err := i.inspected()
	for _, note := range i.inspector.notes.Messages() {
		i.say(note)
	}
	known := func(r Resource) bool { return i.served[r.Name()] != nil }
	if note := i.registry.unknownHandlers(); note != "" && !slices.ContainsFunc(resources, known) {
		i.say(note)
	}
	if err != nil {
		return false, err
	}
	if unseen := i.storingNothing(resources); i.args.Failed && len(unseen) > 0 {
		i.say("These handlers store nothing on their objects, so their failures are only in the log, in events and in metrics: " +
			strings.Join(unseen, ", ") + ". The option Conditions of reconcile handlers changes that.")
	}
	printer := &inspection.Printer{Out: i.stdout, Format: i.options.Output, WithKind: len(resources) > 1}
	if i.args.Watch {
		return false, i.watchStatus(ctx, resources, printer)
	}
	for _, r := range resources {
		err := i.eachPage(ctx, r, func(page []*Body) error {
			var all []*inspection.Status
			for _, body := range page {
				all = append(all, i.statuses(ctx, r, body)...)
			}
			failing = failing || slices.ContainsFunc(all, func(s *inspection.Status) bool { return s.Failing() })
			return printer.Page(all)
		})
		if err != nil {
			return failing, err
		}
	}
	return failing, i.endStatus(printer)
}

// liveStatus prints the current activity of the operator in its pods.
func (i *inspecting) liveStatus(ctx context.Context) error {
	namespace, err := i.namespace(ctx, Resource{Namespaced: true})
	if err != nil {
		return err
	}
	pods := &livepage.Pods{Namespace: namespace, Name: i.args.Pod, Selector: i.args.Pods, Port: i.args.PagePort, TokenFile: i.args.PageToken}
	states, err := pods.States(ctx, inspectionServer{discovering: discovering{i.client}})
	if err != nil {
		return err
	}
	if i.options.Output == "json" {
		return inspection.WriteJSON(i.stdout, map[string]any{"pods": states})
	}
	return livepage.WriteReport(i.stdout, states)
}

// endStatus ends the output, and prints a message if it is empty.
func (i *inspecting) endStatus(printer *inspection.Printer) error {
	any, err := printer.End()
	if !any && err == nil {
		i.say("No objects found.")
	}
	return err
}

// inspected returns the kinds to show: that of the arguments, or all kinds with handlers.
func (i *inspecting) inspected() ([]Resource, error) {
	if i.args.Kind != "" {
		r, err := i.resource()
		if err != nil {
			return nil, err
		}
		return []Resource{r}, nil
	}
	var all []Resource
	for _, name := range rawjson.SortedKeys(i.served) {
		if what := i.served[name]; len(what.changes)+len(what.reconciles)+len(what.tasks) > 0 {
			all = append(all, what.resource)
		}
	}
	if len(all) == 0 && i.registry.serving() {
		return nil, errors.New("no kind that has change handlers, reconcile handlers, daemons or timers is in the cluster: " +
			"apply its CRD, or name another kind, as in \"status pods\"")
	}
	if len(all) == 0 {
		return nil, errors.New("there are no handlers for any kind of the cluster: name a kind, as in \"status pods\"")
	}
	return all, nil
}

// storingNothing returns the handlers of the kinds whose failures no object shows.
func (i *inspecting) storingNothing(resources []Resource) (all []string) {
	for _, r := range resources {
		what := i.served[r.Name()]
		if what == nil {
			continue
		}
		for _, h := range slices.Concat(what.reconcileHandlers(), what.tasks) {
			if h.reconcile == nil || !h.reconcile.conditions {
				all = append(all, fmt.Sprintf("%s of %s", h.id, r.Name()))
			}
		}
	}
	return all
}

// metadataList requests only the metadata.
const metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// eachPage passes on the objects of a kind, page by page.
func (i *inspecting) eachPage(ctx context.Context, r Resource, take func([]*Body) error) error {
	namespace, err := i.namespace(ctx, r)
	if err != nil {
		return err
	}
	if i.args.Name != "" {
		body, err := i.client.object(ctx, r, namespace, i.args.Name)
		if err != nil {
			return err
		}
		return take([]*Body{body})
	}
	meta, accept, query := r.typeMeta(), "", url.Values{"limit": {"500"}}
	if i.args.Selector != "" {
		query.Set("labelSelector", i.args.Selector)
	}
	if i.metadataSuffices(r) {
		accept = metadataList
	}
	for {
		var items []*Body
		inStatus := false
		page := &rawjson.ListPage{Take: func(o *rawjson.Header, raw []byte) error {
			managed, known := rawjson.Find(raw, "metadata", "managedFields")
			inStatus = inStatus || accept != "" && (!known || markers.Manages(managed, "", "status", defaultName))
			b := listedBody(o, raw, meta)
			b.apiVersion, b.kind = meta.apiVersion, meta.kind
			items = append(items, b)
			return nil
		}}
		err := i.client.do(ctx, &request{method: http.MethodGet, path: r.URL(url.PathEscape(namespace), "", ""), query: query, accept: accept, read: page.Read})
		if inStatus && err == nil {
			accept = "" // repeats the page with whole objects
			continue
		}
		if err == nil {
			err = take(items)
		}
		if err != nil || page.Next == "" {
			return err
		}
		query.Set("continue", page.Next)
	}
}

// metadataSuffices reports whether the annotations of a kind show failing handlers, because this program stores its records there.
func (i *inspecting) metadataSuffices(r Resource) bool {
	what := i.served[r.Name()]
	if _, chosen := i.ownPrefix(); chosen {
		return false
	}
	return i.args.Failed && what != nil && len(what.reconciles) == 0
}

// ownRecords returns the records in the storage of this operator that are in no annotation under its prefix, by handler.
func ownRecords(storage ProgressStorage, ids []HandlerID, body *Body) []byte {
	switch s := storage.(type) {
	case *AnnotationsProgressStorage:
		return nil
	case *SmartProgressStorage:
		storage = s.status()
	}
	if s, ok := storage.(*StatusProgressStorage); ok {
		all, _ := body.find(statusField(s.Field, s.Name, "progress")...)
		return all
	}
	records := make(map[HandlerID]*ProgressRecord)
	for len(ids) > 0 {
		id := ids[0]
		ids = ids[1:]
		if r, _ := storage.Fetch(id, body); r != nil && records[id] == nil {
			records[id] = r
			for _, sub := range r.Subrefs {
				ids = append(ids, HandlerID(sub))
			}
		}
	}
	encoded, err := json.Marshal(records)
	if err != nil {
		return nil // it never fails
	}
	return encoded
}

// statuses returns the states of all operators with data on an object.
func (i *inspecting) statuses(ctx context.Context, r Resource, body *Body) (all []*inspection.Status) {
	prefixes := i.prefixesOn(body)
	for _, prefix := range prefixes {
		s := i.statusOf(ctx, r, body, prefix)
		if s.OneOfSeveral = len(prefixes) > 1; !i.args.Failed || s.Failing() {
			all = append(all, s)
		}
	}
	return all
}

// statusOf returns the state of one operator for an object.
func (i *inspecting) statusOf(ctx context.Context, r Resource, body *Body, prefix string) *inspection.Status {
	ref, what := body.Reference(), i.handled(r, body, prefix)
	s := &inspection.Status{Object: inspection.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}, Operator: prefix, Created: body.CreationTimestamp()}
	var ids []string
	var own []HandlerID
	for _, h := range what.changes {
		id := string(h.id)
		own = append(own, h.id)
		if body.kind == "ReplicaSet" {
			id = markers.ReplicaSetID(id, body.of(body.owners))
		}
		ids = append(ids, id)
	}
	if prefixes := prefixesOf(what.persistence.ProgressStorage); len(prefixes) > 0 {
		prefix = prefixes[0]
	}
	s.AddRecords(body.Annotations(), ownRecords(what.persistence.ProgressStorage, own, body), prefix, ids, waitingMessage)
	c := i.inspector.cycle(what, body, false)
	c.compareWithBase()
	c.retrack()
	f := inspection.Facts{Stored: c.states.before != nil, Deleting: body.Deleting()}
	f.Changed = f.Stored && !f.Deleting && !c.states.before.Equal(c.states.essence)
	if f.Deleting {
		s.Finalizers = body.Finalizers()
	}
	if len(what.changes) > 0 {
		if c.decided = c.decide(); c.reason() != "" {
			c.prepareHandling()
			c.collectHandlers()
			s.All = len(c.topHandlers())
		}
	}
	if c.decided.Kind != decision.Skip { // otherwise, the handlers do not match the object any more
		s.AddFailures(failuresOn(body, what.persistence.ProgressStorage, c.states.stored))
	}
	s.Problems = append(s.Problems, i.inspector.notes.Messages()...)
	p := i.pausedBy(ctx, body.namespace)
	if s.PausedFor = p.By; p.Err != nil && !p.Reported {
		i.say(p.Err.Error())
		p.Reported = true
	}
	s.Conclude(f)
	i.conclude(r, body, s)
	return s
}

// conclude adds the state in the conditions, if the kind has reconcile handlers, or if its handlers are unknown.
func (i *inspecting) conclude(r Resource, body *Body, s *inspection.Status) {
	known := i.served[r.Name()]
	byConditions := s.State == inspection.Unknown
	if known != nil {
		byConditions = len(known.reconciles) > 0 && (byConditions || s.State == inspection.Handled)
	}
	if byConditions && readConditions(r, body, s) && known != nil {
		for _, h := range known.reconcileHandlers() {
			if h.reconcile.conditions {
				s.Reconciles = append(s.Reconciles, string(h.id))
			}
		}
	}
}

// readConditions adds the state in the conditions of an object, and reports whether they have one.
func readConditions(r Resource, body *Body, s *inspection.Status) bool {
	generation := body.Metadata().Int("generation")
	if !r.hasStatus() { // the status then counts in the generation, too
		generation = 0
	}
	conditions, _ := body.find("status", "conditions")
	return s.FromConditions(inspection.ConditionsIn(conditions), generation)
}

// watchStatus prints the states of objects, and their changes, until the context ends.
func (i *inspecting) watchStatus(ctx context.Context, resources []Resource, printer *inspection.Printer) error {
	if printer.Format == "json" {
		printer.Format = "lines"
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex // guards the state shared by the watches
	var watches sync.WaitGroup
	for _, r := range resources {
		watches.Go(func() {
			w := &statusWatch{inspecting: i, resource: r, printer: printer, shown: make(map[string]inspection.Digest)}
			for ctx.Err() == nil {
				if err := w.follow(ctx, &mu); err != nil {
					stop(err)
				}
			}
		})
	}
	watches.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// statusWatch watches the objects of one kind.
type statusWatch struct {
	*inspecting
	resource Resource
	printer  *inspection.Printer
	shown    map[string]inspection.Digest // of the last output for an object, by its UID
	failing  bool                         // whether the failure was printed
}

// follow watches until the server ends the watch, which is no error. It reports a failure once.
func (w *statusWatch) follow(ctx context.Context, mu *sync.Mutex) error {
	namespace, err := w.namespace(ctx, w.resource)
	if err != nil {
		return err
	}
	query := url.Values{}
	if w.args.Selector != "" {
		query.Set("labelSelector", w.args.Selector)
	}
	if w.args.Name != "" {
		query.Set("fieldSelector", apirequest.NameSelector(w.args.Name))
	}
	began := time.Now()
	err = w.client.watch(ctx, w.resource, namespace, query, func(ev RawEvent) error {
		mu.Lock()
		defer mu.Unlock()
		w.failing = false
		return w.show(ctx, ev)
	})
	code := StatusCode(err)
	switch {
	case ctx.Err() != nil:
		return nil
	case code >= 400 && code < 500 && code != http.StatusGone && code != http.StatusTooManyRequests, errtype.As(err, new(*LoginError)), errors.Is(err, errUnprinted):
		return err
	case err != nil && code != http.StatusGone:
		w.sayFailure(mu, err)
	}
	_ = await.Sleep(ctx, max(time.Until(began.Add(time.Second)), retryAfterOf(err))) // for servers that end watches at once
	return nil
}

// sayFailure prints that watching fails, once until the next event.
func (w *statusWatch) sayFailure(mu *sync.Mutex, err error) {
	mu.Lock()
	defer mu.Unlock()
	if !w.failing {
		w.say(fmt.Sprintf("Watching %s failed; trying again: %v", w.resource.Name(), err))
	}
	w.failing = true
}

// errUnprinted means that the output is closed.
var errUnprinted = errors.New("the output cannot be written")

// show prints the changes of an event.
func (w *statusWatch) show(ctx context.Context, ev RawEvent) error {
	if ev.Body == nil {
		return nil
	}
	key := ev.Body.key()
	if ev.Type == Deleted {
		delete(w.shown, key)
		return nil
	}
	all := w.statuses(ctx, w.resource, ev.Body)
	said := inspection.DigestOf(all)
	if w.shown[key] == said {
		return nil
	}
	w.shown[key] = said
	if err := w.printer.Page(all); err != nil {
		return fmt.Errorf("%w: %w", errUnprinted, err)
	}
	return nil
}
