package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/table"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// listed is the form of objects in a response: unchanged, as a table, or their metadata only.
type listed int

const (
	asObjects listed = iota
	asTable
	asMetadata
	asOneMetadata // not for lists
)

// form returns the form that the client accepts.
func (a *apiRequest) form() (listed, error) {
	accept := a.raw.Header.Get("Accept")
	if accept == "" {
		return asObjects, nil
	}
	for _, media := range strings.Split(accept, ",") {
		name, params, err := mime.ParseMediaType(media)
		if err != nil || name != "application/json" && name != "*/*" && name != "application/*" {
			continue
		}
		as := params["as"]
		if as == "" {
			return asObjects, nil
		}
		if v := params["v"]; params["g"] != "meta.k8s.io" || v != "v1" && v != "v1beta1" {
			continue
		}
		switch as {
		case "Table":
			return asTable, nil
		case "PartialObjectMetadata":
			return asOneMetadata, nil
		case "PartialObjectMetadataList":
			return asMetadata, nil
		}
	}
	if a.kind.crd == nil {
		return 0, apierrors.New(406, "NotAcceptable", "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf", map[string]any{})
	}
	return 0, apierrors.New(406, "NotAcceptable", "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf", nil)
}

// list answers with the selected objects.
func (a *apiRequest) list(w http.ResponseWriter, r *http.Request) error {
	form, err := a.form()
	if err != nil {
		return err
	}
	sel, err := a.selection()
	if err != nil {
		return err
	}
	limit, err := a.number("limit")
	if err != nil {
		return err
	}
	if a.query.Get("resourceVersion") == "0" && a.query.Get("continue") == "" {
		limit = 0 // unpaged, as from the cache of a real server
	}
	items, version, from, err := a.page(limit > 0)
	if err != nil {
		return err
	}
	if form == asOneMetadata {
		name := "*unstructured.UnstructuredList"
		if a.kind.crd == nil {
			name = "*core." + a.kind.listKind
		}
		return apierrors.New(406, "NotAcceptable", "you requested PartialObjectMetadata, but the requested object is a list ("+name+")", nil)
	}
	chosen, last, err := a.choose(sel, items[from:], int(limit))
	if err != nil {
		return err
	}
	if paged := a.query.Get("continue") != ""; last >= 0 && !paged {
		a.server.db.Keep(a.kind.collection(), version, items)
	} else if last < 0 && paged {
		a.server.db.Release(a.kind.collection(), version)
	}
	meta := a.listMeta(version)
	if form != asObjects {
		delete(meta, "continue")
	}
	a.continueAt(sel, meta, version, items[from:], last)
	a.server.write(w, r, 200, a.answer(form, chosen, meta))
	return nil
}

// continueAt adds the token for the next page to the metadata of a list, if there is one. The page begins at an index of the items.
func (a *apiRequest) continueAt(sel *selection, meta map[string]any, version uint64, items []*store.Item, rest int) {
	if rest < 0 {
		return
	}
	meta["continue"] = encodeContinue(version, items[rest].Key)
	if sel.byContent() {
		return
	}
	remaining := int64(0)
	for _, item := range items[rest:] {
		if sel.places(item) {
			remaining++
		}
	}
	meta["remainingItemCount"] = remaining
}

// choose returns the selected objects up to the limit, and the index of the next item, -1 if there is none.
func (a *apiRequest) choose(sel *selection, items []*store.Item, limit int) (chosen []*store.Item, rest int, err error) {
	size := len(items) // the size of the batches that a webhook converts
	if a.kind.conversion != nil && limit > 0 {
		size = limit
	}
	for from := 0; from < len(items); from += size {
		batch := items[from:min(from+size, len(items))]
		shown, err := sel.converted(batch)
		if err != nil {
			return nil, 0, err
		}
		for i, item := range shown {
			if !sel.has(item) {
				continue
			}
			if limit > 0 && len(chosen) == limit {
				return chosen, from + i, nil
			}
			chosen = append(chosen, item)
		}
	}
	return chosen, -1, nil
}

// listMeta returns the metadata of a list. Lists of custom resources always have a continue token,
// which may be empty.
func (a *apiRequest) listMeta(version uint64) map[string]any {
	meta := map[string]any{"resourceVersion": strconv.FormatUint(version, 10)}
	if a.kind.crd != nil {
		meta["continue"] = ""
	}
	return meta
}

// page returns the list for the request, its version, and the index of the first item of the page. A list with a limit
// has exactly the given version, too: all its pages must have it.
func (a *apiRequest) page(limited bool) ([]*store.Item, uint64, int, error) {
	name := a.kind.collection()
	token, match := a.query.Get("continue"), a.query.Get("resourceVersionMatch")
	if token == "" {
		items, version := a.server.db.List(name)
		if want := a.query.Get("resourceVersion"); want != "" && want != "0" {
			v, err := parseVersion(want)
			if err != nil {
				return nil, 0, 0, apierrors.BadRequest("invalid resource version: %v", err)
			}
			if v > version {
				return nil, 0, 0, tooLarge(v, version)
			}
			if match == "Exact" || match == "" && limited {
				old, ok := a.server.db.At(name, v)
				if !ok {
					return nil, 0, 0, apierrors.New(410, "Expired", "The resourceVersion for the provided list is too old.", nil)
				}
				return old, v, 0, nil
			}
		}
		return items, version, 0, nil
	}
	version, start, err := decodeContinue(token)
	if err != nil {
		return nil, 0, 0, apierrors.BadRequest("invalid continue token: continue key is not valid: %v", err)
	}
	if given := a.query.Get("resourceVersion"); given != "" && given != "0" {
		return nil, 0, 0, apierrors.BadRequest("specifying resource version is not allowed when using continue")
	}
	items, ok := a.server.db.Snapshot(name, version)
	if !ok {
		items, ok = a.server.db.At(name, version)
	}
	if !ok {
		return nil, 0, 0, apierrors.New(410, "Expired", "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.", nil)
	}
	for i, item := range items {
		if item.Key >= start {
			return items, version, i, nil
		}
	}
	return items, version, len(items), nil
}

// parseVersion parses the resourceVersion of a request.
func parseVersion(text string) (uint64, error) {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion: Invalid value: %q: %w", text, err)
	}
	return version, nil
}

// tooLarge refuses a request for a future version.
func tooLarge(version, now uint64) error {
	return apierrors.New(504, "Timeout", fmt.Sprintf("Timeout: Too large resource version: %d, current: %d", version, now),
		map[string]any{"causes": []any{map[string]any{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}}, "retryAfterSeconds": json.Number("1")})
}

// answer returns a list in a form.
func (a *apiRequest) answer(form listed, items []*store.Item, meta map[string]any) any {
	switch form {
	case asTable:
		rows := a.kind.tableOf(a.decoded(items), a.query.Get("includeObject"))
		rows["metadata"] = meta
		return rows
	case asMetadata, asOneMetadata:
		var list []any // null if it is empty
		for _, object := range a.decoded(items) {
			list = append(list, table.Partial(object))
		}
		return map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "items": list}
	}
	head, _ := rawjson.Encode(meta) // it has strings and numbers only
	b := []byte(`{"apiVersion":"` + a.kind.apiVersion() + `","items":[`)
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, a.listItem(item.Raw)...)
	}
	b = append(b, `],"kind":"`+a.kind.listKind+`","metadata":`...)
	b = append(append(b, head...), '}')
	return json.RawMessage(b)
}

// listItem returns an object as an item of a list. Items of built-in kinds have neither apiVersion nor kind.
func (a *apiRequest) listItem(raw []byte) []byte {
	if a.kind.crd != nil {
		return a.sent(raw)
	}
	raw = a.sent(raw)
	o := rawjson.ParseObject(raw)
	o.Delete("apiVersion")
	o.Delete("kind")
	return o.AppendTo(make([]byte, 0, len(raw)))
}

// sent returns an object in the version of the request. If the kind has a webhook, it has converted the object already.
func (a *apiRequest) sent(raw []byte) []byte {
	switch {
	case a.kind.isNewEvents():
		return newEvent(raw)
	case a.kind.isOldAutoscaler():
		return oldAutoscaler(raw)
	case a.kind.crd == nil, a.kind.conversion != nil:
		return raw
	case a.kind.schema == nil || a.kind.versions == 1 && a.kind.storage == a.kind.apiVersion() && versionOf(raw) > a.kind.since:
		return withAPIVersion(raw, a.kind.apiVersion())
	}
	object := unstructured.View(raw).Map() // another schema may have been in effect when it was stored
	a.kind.complement(object)
	object["apiVersion"] = a.kind.apiVersion()
	a.kind.schema.Prune(object)
	raw, _ = rawjson.Encode(object) // it was JSON
	return raw
}

// versionOf returns the version of an object.
func versionOf(raw []byte) uint64 {
	version, _ := strconv.ParseUint(rawjson.StringAt(raw, "metadata", "resourceVersion"), 10, 64) // the store has set it
	return version
}

func (a *apiRequest) decoded(items []*store.Item) []map[string]any {
	all := make([]map[string]any, len(items))
	for i, item := range items {
		all[i] = unstructured.View(a.sent(item.Raw)).Map()
	}
	return all
}

// encodeContinue returns the continue token for a key. Tokens are opaque to clients.
func encodeContinue(version uint64, key string) string {
	return strings.ReplaceAll(strconv.FormatUint(version, 36)+"."+key, "/", "~")
}

func decodeContinue(token string) (version uint64, key string, err error) {
	head, key, ok := strings.Cut(token, ".")
	if version, err = strconv.ParseUint(head, 36, 64); err == nil && !ok {
		err = errors.New("a dot is expected")
	}
	return version, strings.ReplaceAll(key, "~", "/"), err
}

// watch sends the changes of the selected objects until the client or the server ends it. It reads the history at its own pace.
func (a *apiRequest) watch(w http.ResponseWriter, r *http.Request) error {
	sel, err := a.selection()
	if err != nil {
		return err
	}
	form, err := a.form()
	if err != nil {
		return err
	}
	timeout, err := a.number("timeoutSeconds")
	if err != nil {
		return err
	}
	ctx := r.Context()
	if timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(timeout)*time.Second)
		defer cancel()
	}
	o := &watching{apiRequest: a, sel: sel, form: form, writer: w, bookmarks: a.flag("allowWatchBookmarks")}
	a.server.mu.Lock()
	o.closing = a.server.closing
	a.server.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := o.begin(); err != nil {
		return err
	}
	o.follow(ctx)
	return nil
}

// watching is one watch.
type watching struct {
	*apiRequest
	sel       *selection
	form      listed
	writer    http.ResponseWriter
	bookmarks bool
	closing   <-chan struct{}
	version   uint64 // of the last event, or the version to begin after
	columns   bool   // whether the columns of a table were sent
	cut       bool   // whether the client is gone
}

// begin accepts the watch. It sends the existing objects if the watch has no version to begin after.
func (w *watching) begin() error {
	want := w.query.Get("resourceVersion")
	initial := want == "" || want == "0"
	var err error
	if w.query.Has("sendInitialEvents") {
		initial = w.flag("sendInitialEvents")
	}
	var from uint64 // the minimum version
	if want != "" && want != "0" {
		if from, err = parseVersion(want); err != nil {
			return apierrors.New(500, "", err.Error(), nil)
		}
		if !initial {
			w.version = from
		}
	}
	if f := w.fault; f != nil && f.Gone {
		w.begun()
		w.gone()
		return nil
	}
	// List before the client learns that the watch has begun, and makes changes.
	var items []*store.Item
	var version uint64
	switch {
	case initial:
		items, version = w.server.db.List(w.kind.collection())
	case want == "" || want == "0":
		w.version = w.server.db.Now()
	}
	w.begun()
	if w.version > 0 && w.version < w.kind.began {
		w.gone()
		w.cut = true
		return nil
	}
	if !initial {
		return nil
	}
	if from > version {
		w.fail(tooLarge(from, version))
		return nil
	}
	chosen, _, err := w.choose(w.sel, items, 0)
	if err != nil {
		w.fail(err)
		return nil
	}
	for _, item := range chosen {
		w.send(store.Added, item)
	}
	w.flush()
	w.version = version
	if w.bookmarks { // even if the client did not set sendInitialEvents
		w.mark(map[string]any{"k8s.io/initial-events-end": "true"})
	}
	return nil
}

func (w *watching) begun() {
	w.writer.WriteHeader(200)
	w.flush()
}

// flush sends the events written so far.
func (w *watching) flush() {
	if f, ok := w.writer.(http.Flusher); ok {
		f.Flush()
	}
}

// follow sends changes as they happen.
func (w *watching) follow(ctx context.Context) {
	bookmarks := time.NewTicker(w.server.opts.BookmarkInterval)
	defer bookmarks.Stop()
	stall := w.fault != nil && w.fault.Stall
	ended, ending := w.kind.ended, (<-chan time.Time)(nil)
	for !w.cut {
		steps, _, next, known := w.server.db.Since(w.kind.collection(), w.version)
		if stall {
			steps, known = nil, true
		}
		if !known {
			w.gone()
			return
		}
		var again <-chan time.Time
		for _, step := range steps {
			if err := w.step(step); err != nil { // the webhook for conversions failed: the watch waits for it
				again = time.After(conversionRetry)
				next = nil
				break
			}
			w.version = step.Now.Version
		}
		if len(steps) > 0 {
			w.flush()
		}
		select {
		case <-ctx.Done():
			return
		case <-ended:
			ended, ending = nil, time.After(endingDelay)
		case <-ending:
			return
		case <-w.closing:
			panic(http.ErrAbortHandler)
		case <-next:
		case <-again:
		case <-bookmarks.C:
			if w.bookmarks && !stall {
				w.idle()
			}
		}
	}
}

// endingDelay is how long a watch continues after its kind is no longer served in the same form, as in kube-apiserver.
const endingDelay = time.Second

// idle sends a bookmark if there is no change to send.
func (w *watching) idle() {
	steps, now, _, known := w.server.db.Since(w.kind.collection(), w.version)
	if known && len(steps) == 0 && now >= w.version { // otherwise it is a future version
		w.version = now
		w.mark(nil)
	}
}

// step sends one change, in view of the selectors. An object that begins to match is added, and one that stops matching is deleted.
func (w *watching) step(step store.Change) error {
	now, before := step.Now, step.Before
	if !w.sel.places(now) {
		return nil
	}
	if w.kind.conversion != nil {
		both := []*store.Item{now}
		if before != nil && w.sel.byContent() {
			both = append(both, before)
		}
		shown, err := w.converted(both...)
		if err != nil {
			return err
		}
		if now = shown[0]; len(shown) > 1 {
			before = shown[1]
		}
	}
	is, was := step.Type != store.Deleted && w.sel.has(now), w.sel.has(before)
	switch {
	case is && was:
		w.send(store.Modified, now)
	case is:
		w.send(store.Added, now)
	case was && step.Type == store.Deleted:
		w.send(store.Deleted, now)
	case was: // it stopped matching: send its last matching state, with the version of the change
		object := rawjson.ParseObject(before.Raw)
		object.Set(rawjson.AppendString(nil, strconv.FormatUint(now.Version, 10)), "metadata", "resourceVersion")
		w.send(store.Deleted, &store.Item{Raw: object.AppendTo(nil)})
	}
	return nil
}

func (w *watching) send(typ store.ChangeType, i *store.Item) {
	raw := w.sent(i.Raw)
	switch w.form {
	case asTable:
		rows := w.kind.tableOf([]map[string]any{unstructured.View(raw).Map()}, w.query.Get("includeObject"))
		rows["metadata"] = map[string]any{"resourceVersion": rawjson.StringAt(raw, "metadata", "resourceVersion")}
		if w.columns {
			rows["columnDefinitions"] = nil
		}
		w.columns = true
		raw, _ = rawjson.Encode(rows) // it is JSON
	case asMetadata, asOneMetadata:
		raw, _ = rawjson.Encode(table.Partial(unstructured.View(raw).Map())) // it is JSON
	}
	w.frame(typ, raw)
}

func (w *watching) frame(typ store.ChangeType, raw []byte) {
	frame := make([]byte, 0, len(raw)+40)
	frame = append(append(frame, `{"type":"`...), typ...)
	frame = append(append(append(frame, `","object":`...), raw...), "}\n"...)
	if f := w.fault; f != nil && f.Cut {
		w.writer.Write(frame[:len(frame)/2]) // ignore a disconnected client
		w.flush()
		panic(http.ErrAbortHandler)
	}
	if _, err := w.writer.Write(frame); err != nil {
		w.cut = true
	}
}

// mark sends a bookmark.
func (w *watching) mark(annotations map[string]any) {
	meta := map[string]any{"resourceVersion": strconv.FormatUint(w.version, 10)}
	if annotations != nil {
		meta["annotations"] = annotations
	}
	object := map[string]any{"kind": w.kind.resource.Kind, "apiVersion": w.kind.apiVersion(), "metadata": meta}
	switch w.form {
	case asMetadata, asOneMetadata:
		object = table.Partial(object)
	case asTable:
		rows := w.kind.tableOf([]map[string]any{object}, w.query.Get("includeObject"))
		rows["columnDefinitions"] = nil
		rows["metadata"] = map[string]any{"resourceVersion": meta["resourceVersion"]}
		object = rows
	}
	raw, _ := rawjson.Encode(object) // it is JSON
	w.frame("BOOKMARK", raw)
	w.flush()
}

// gone ends the watch with an error event, because its version is older than the history.
func (w *watching) gone() {
	w.fail(apierrors.New(410, "Expired", fmt.Sprintf("too old resource version: %d (%d)", w.version, w.server.db.Now()), nil))
}

// fail ends the watch with an error event.
func (w *watching) fail(err error) {
	e := (*apierrors.StatusError)(nil)
	if !errtype.As(err, &e) {
		e = apierrors.Internal(err)
	}
	raw, _ := rawjson.Encode(e.Object()) // it is JSON
	w.frame("ERROR", raw)
	w.flush()
	w.cut = true
}

// withAPIVersion returns an object with another version of its group.
func withAPIVersion(raw []byte, apiVersion string) []byte {
	if rawjson.StringAt(raw, "apiVersion") == apiVersion {
		return raw
	}
	o := rawjson.ParseObject(raw)
	o.Put("apiVersion", rawjson.AppendString(nil, apiVersion))
	return o.AppendTo(make([]byte, 0, len(raw)+16))
}
