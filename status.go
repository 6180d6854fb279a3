package kopf

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/inspection"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file has the command that tells how far operators are with objects, from what they have stored on them.

// status prints how far the objects are, and reports whether handlers of any of them fail.
func (i *inspecting) status(ctx context.Context) (failing bool, err error) {
	if err := i.discover(ctx); err != nil {
		return false, err
	}
	resources, err := i.inspected()
	if err != nil {
		return false, err
	}
	for _, note := range i.inspector.notes.Messages() {
		i.say(note)
	}
	printer := &inspection.Printer{Out: i.stdout, Format: i.options.Output, WithKind: len(resources) > 1}
	if i.asked.Watch {
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

// endStatus ends what was printed, and says if that was nothing.
func (i *inspecting) endStatus(printer *inspection.Printer) error {
	any, err := printer.End()
	if !any && err == nil {
		i.say("No objects found.")
	}
	return err
}

// inspected returns the kinds that are told of: the one that was named, or all that there are handlers of objects for.
func (i *inspecting) inspected() ([]Resource, error) {
	if i.asked.Kind != "" {
		r, err := i.resource()
		return []Resource{r}, err
	}
	var all []Resource
	for _, name := range rawjson.SortedKeys(i.served) {
		if what := i.served[name]; len(what.changes)+len(what.reconciles)+len(what.tasks) > 0 {
			all = append(all, what.resource)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there are no handlers for any kind of the cluster: name a kind, as in \"status pods\"")
	}
	return all, nil
}

// metadataList asks for metadata alone.
const metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// eachPage hands over the objects of a kind, page by page.
func (i *inspecting) eachPage(ctx context.Context, r Resource, take func([]*Body) error) error {
	namespace, err := i.namespace(ctx, r)
	if err != nil {
		return err
	}
	if i.asked.Name != "" {
		body, err := i.client.object(ctx, r, namespace, i.asked.Name)
		if err != nil {
			return err
		}
		return take([]*Body{body})
	}
	meta, accept, query := r.typeMeta(), "", url.Values{"limit": {"500"}}
	if i.asked.Selector != "" {
		query.Set("labelSelector", i.asked.Selector)
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
			accept = "" // the same page again, as a whole
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

// metadataSuffices reports whether the annotations of a kind tell whether handlers fail: this program stores its records there.
func (i *inspecting) metadataSuffices(r Resource) bool {
	what := i.served[r.Name()]
	return i.asked.Failed && what != nil && len(what.reconciles) == 0
}

// statuses returns how far the operators are that have stored something on an object.
func (i *inspecting) statuses(ctx context.Context, r Resource, body *Body) (all []*inspection.Status) {
	for _, prefix := range i.prefixesOn(body) {
		if s := i.statusOf(ctx, r, body, prefix); !i.asked.Failed || s.Failing() {
			all = append(all, s)
		}
	}
	return all
}

// statusOf returns how far one operator is with an object.
func (i *inspecting) statusOf(ctx context.Context, r Resource, body *Body, prefix string) *inspection.Status {
	ref, what := body.Reference(), i.handled(r, body, prefix)
	s := &inspection.Status{Object: inspection.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}, Operator: prefix, Created: body.CreationTimestamp()}
	records := i.records(what, body, prefix, s)
	c := i.inspector.cycle(what, body, false)
	c.compareWithBase()
	c.retrack()
	f := inspection.Facts{Stored: c.states.before != nil, Deleting: body.Deleting()}
	f.Changed = f.Stored && !f.Deleting && !c.states.before.Equal(c.states.essence)
	if f.Deleting {
		s.Finalizers = body.Finalizers()
	}
	if len(records) > 0 && len(what.changes) > 0 {
		if c.decided = c.decide(); c.reason() != "" {
			c.prepareHandling()
			c.collectHandlers()
			s.All = len(c.topHandlers())
		}
	}
	s.Problems = append(s.Problems, i.inspector.notes.Messages()...)
	if paused, err := i.pausedFor(ctx, body.namespace); err != nil {
		s.Problems = append(s.Problems, err.Error())
	} else {
		s.PausedFor = paused
	}
	s.Conclude(f)
	i.conclude(r, body, s)
	return s
}

// conclude adds what reconcile handlers tell by conditions, if the kind has such handlers, or if it is not known which ones it has.
func (i *inspecting) conclude(r Resource, body *Body, s *inspection.Status) {
	known := i.served[r.Name()]
	byConditions := s.State == inspection.Unknown
	if known != nil {
		byConditions = len(known.reconciles) > 0 && (byConditions || s.State == inspection.Handled)
	}
	generation := body.Metadata().Int("generation")
	if !slices.Contains(r.Subresources, "status") { // where the status counts as well
		generation = 0
	}
	if byConditions {
		s.FromConditions(conditionsOf(body), generation)
	}
}

// records adds the records of handlers to a status.
func (i *inspecting) records(what *resolved, body *Body, prefix string, s *inspection.Status) map[string]bool {
	seen := make(map[string]bool) // the keys and ids that were read
	add := func(id string, record *ProgressRecord, err error) {
		switch {
		case err != nil:
			s.Problems = append(s.Problems, "the record of "+id+" is damaged: "+err.Error())
		case record != nil:
			s.Handlers = append(s.Handlers, statusOfRecord(id, record))
			seen[id] = true
		}
	}
	storage := what.persistence.ProgressStorage
	fetch := func(id string) (record *ProgressRecord) {
		for _, key := range annotationKeys(prefix, id, body, false) {
			seen[key] = true
		}
		if !seen[id] {
			var err error
			record, err = storage.Fetch(HandlerID(id), body)
			add(id, record, err)
		}
		return record
	}
	for _, h := range what.changes {
		if record := fetch(string(h.id)); record != nil {
			for _, ref := range record.Subrefs {
				if ref != string(handlingID) {
					fetch(ref)
				}
			}
		}
	}
	annotations := body.Annotations()
	for _, key := range rawjson.SortedKeys(annotations) {
		name, ours := strings.CutPrefix(key, prefix+"/")
		if !ours || seen[key] || markers.IsReserved(name) || !strings.HasPrefix(strings.TrimSpace(annotations[key]), "{") {
			continue
		}
		record, err := parseRecord(annotations[key])
		add(name, record, err)
	}
	progress, _ := body.find("status", defaultName, "progress")
	for id := range (View{raw: progress}).Map() {
		if !seen[id] && id != string(handlingID) {
			record, err := storage.Fetch(HandlerID(id), body)
			add(id, record, err)
		}
	}
	slices.SortFunc(s.Handlers, func(a, b inspection.HandlerStatus) int { return strings.Compare(a.ID, b.ID) })
	return seen
}

// statusOfRecord tells what a record says.
func statusOfRecord(id string, r *ProgressRecord) inspection.HandlerStatus {
	h := inspection.HandlerStatus{ID: id, State: inspection.Handling, Purpose: string(r.Purpose), Attempts: r.Retries}
	if !r.Started.IsZero() {
		h.Started = &r.Started
	}
	if r.Message != nil && *r.Message != waitingMessage {
		h.Error = *r.Message
	}
	switch {
	case r.Success:
		h.State = inspection.Handled
	case r.Failure:
		h.State = inspection.Failed
	case h.Error != "":
		h.State = inspection.Retrying
	}
	if !r.finished() && !r.Delayed.IsZero() {
		h.Next = &r.Delayed
	}
	return h
}

// conditionsOf returns the conditions of an object.
func conditionsOf(body *Body) (all []inspection.Condition) {
	raw, _ := body.find("status", "conditions")
	_ = rawjson.EachItem(raw, func(item []byte) bool { // what is malformed is not there
		v := View{raw: item}
		all = append(all, inspection.Condition{Type: v.String("type"), Status: v.String("status"), Reason: v.String("reason"), Message: v.String("message"), ObservedGeneration: v.Int("observedGeneration")})
		return true
	})
	return all
}

// pausedFor returns for whom an operator pauses in a namespace. It asks once.
func (i *inspecting) pausedFor(ctx context.Context, namespace string) (by string, err error) {
	if by, known := i.pauses[namespace]; known {
		return by, nil
	}
	if by, err = i.pausedBy(ctx, namespace); err != nil {
		return "", err
	}
	if i.pauses == nil {
		i.pauses = make(map[string]string)
	}
	i.pauses[namespace] = by
	return by, nil
}

// watchStatus prints the objects as they are, and again when that changes, until the context ends.
func (i *inspecting) watchStatus(ctx context.Context, resources []Resource, printer *inspection.Printer) error {
	if printer.Format == "json" {
		printer.Format = "lines"
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex // guards all that the watches share
	var watches sync.WaitGroup
	for _, r := range resources {
		watches.Go(func() {
			w := &statusWatch{inspecting: i, resource: r, printer: printer, shown: make(map[string]string)}
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
	shown    map[string]string // what was last printed of an object, by its uid
}

// follow watches until the server ends that, which is no error.
func (w *statusWatch) follow(ctx context.Context, mu *sync.Mutex) error {
	namespace, err := w.namespace(ctx, w.resource)
	if err != nil {
		return err
	}
	query := url.Values{}
	if w.asked.Selector != "" {
		query.Set("labelSelector", w.asked.Selector)
	}
	if w.asked.Name != "" {
		query.Set("fieldSelector", "metadata.name="+w.asked.Name)
	}
	began := time.Now()
	err = w.client.watch(ctx, w.resource, namespace, query, func(ev RawEvent) error {
		mu.Lock()
		defer mu.Unlock()
		return w.show(ctx, ev)
	})
	if StatusCode(err) >= 400 && StatusCode(err) < 500 && StatusCode(err) != http.StatusGone {
		return err
	}
	if time.Since(began) < time.Second && ctx.Err() == nil { // of a server that ends it at once
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// show prints what an event has changed.
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
	said := inspection.Fingerprint(all)
	if w.shown[key] == said {
		return nil
	}
	w.shown[key] = said
	return w.printer.Page(all)
}
