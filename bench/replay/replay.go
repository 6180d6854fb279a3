// Package replay is an API server that is never the bottleneck. It serves one kind of objects, keeps little of their state, and writes lists and events from
// templates. It supports only the requests of an operator for these objects.
package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is a replaying API server with widgets in the namespace "default".
type Server struct {
	http *httptest.Server

	mu       sync.Mutex // guards following
	widgets  []widget
	version  int
	log      []event // all changes; a watch continues from an index
	grown    chan struct{}
	handled  int
	requests map[string]int
	watched  time.Time // when the first watch of widgets began
	answered time.Duration
	seen     func(answered, recorded time.Duration)
	patches  []json.RawMessage // the first ones
	writes   int               // the number of writes for a handled object

	lease       lease
	namespaces  int // in addition to the one with the widgets
	connections int // the number of opened connections
}

// Namespaces is the prefix for names of namespaces without widgets.
const Namespaces = "bench-"

// widget is the variable state of an object.
type widget struct {
	version     int
	annotations map[string]string
	finalizers  []string
	status      json.RawMessage
	size        int // the desired size
	generation  int
	begun       time.Time     // when it was added or resized; zero for those from the start
	answered    time.Duration // the time until the status had the size, or zero
	handled     bool          // whether all writes for it are done
}

type event struct {
	typ string
	raw []byte
}

// New starts a server with count widgets. The marks, such as patches of an operator to another widget, are merged into each. Widgets with marks are handled.
// With two writes, an object is handled only if it also has an annotation.
func New(count, writes int, marks []json.RawMessage) (*Server, error) {
	s := &Server{grown: make(chan struct{}), requests: map[string]int{}, version: 1000, writes: writes}
	for i := range count {
		s.widgets = append(s.widgets, widget{version: 1, size: 3, generation: 1})
		for _, mark := range marks {
			if err := s.merge(i, mark); err != nil {
				return nil, err
			}
		}
	}
	s.log = nil
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.EnableHTTP2 = true
	s.http.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100} // the default of kube-apiserver
	s.http.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.connections++
		}
	}
	s.http.StartTLS()
	return s, nil
}

// Close stops the server.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// WriteKubeconfig writes a kubeconfig for the server.
func (s *Server) WriteKubeconfig(path string) error {
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "replay",
		"contexts": []any{map[string]any{"name": "replay", "context": map[string]any{"cluster": "replay", "user": "replay"}}},
		"users":    []any{map[string]any{"name": "replay", "user": map[string]any{"token": "none"}}},
		"clusters": []any{map[string]any{"name": "replay", "cluster": map[string]any{"server": s.http.URL, "insecure-skip-tls-verify": true}}},
	}
	data, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// Name returns the name of a widget.
func Name(i int) string { return fmt.Sprintf("widget-%06d", i) }

// Len returns the number of widgets.
func (s *Server) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.widgets)
}

// Add adds a widget.
func (s *Server) Add() {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.widgets)
	s.widgets = append(s.widgets, widget{size: 3, generation: 1, begun: time.Now()})
	s.changed(i, "ADDED")
}

// Tick changes the status of a widget, like another client.
func (s *Server) Tick(i, tick int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.merge(i, json.RawMessage(`{"status":{"tick":`+strconv.Itoa(tick)+`}}`)); err != nil {
		return err
	}
	s.changed(i, "MODIFIED")
	return nil
}

// Resize increments the desired size of a widget.
func (s *Server) Resize(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.widgets[i]
	if w.handled {
		s.handled--
	}
	w.begun, w.answered, w.handled = time.Now(), 0, false
	w.size++
	w.generation++
	s.changed(i, "MODIFIED")
}

// OnHandled calls a function for each widget that is handled from now on. It gets the times since the widget was added or resized: until the status had its
// size, and until all was written.
func (s *Server) OnHandled(f func(answered, recorded time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = f
}

// Handled returns the number of handled widgets.
func (s *Server) Handled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handled
}

// SetNamespaces sets the number of namespaces in addition to the one with the widgets.
func (s *Server) SetNamespaces(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces = count
}

// Requests returns the numbers of requests so far, by verb, and of connections. It omits requests that are not about widgets.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]int, len(s.requests))
	for verb, n := range s.requests {
		all[verb] = n
	}
	if s.namespaces > 0 {
		all["connection"] = s.connections
	}
	return all
}

// Patches returns the first patches.
func (s *Server) Patches() []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.patches)
}

// Watched returns the start of the first watch of widgets, and the server's time for responses until then.
func (s *Server) Watched() (time.Time, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watched, s.answered
}

// changed gives a widget a new version and appends the event. The caller holds the lock.
func (s *Server) changed(i int, typ string) {
	s.version++
	s.widgets[i].version = s.version
	s.log = append(s.log, event{typ, s.encode(nil, i)})
	close(s.grown)
	s.grown = make(chan struct{})
}

// merge merges a patch into a widget. The caller holds the lock, or has the only reference.
func (s *Server) merge(i int, patch []byte) error {
	var change struct {
		Metadata struct {
			Annotations map[string]*string `json:"annotations"`
			Finalizers  *[]string          `json:"finalizers"`
		} `json:"metadata"`
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return err
	}
	w := &s.widgets[i]
	for key, value := range change.Metadata.Annotations {
		if value == nil {
			delete(w.annotations, key)
			continue
		}
		if w.annotations == nil {
			w.annotations = map[string]string{}
		}
		w.annotations[key] = *value
	}
	if change.Metadata.Finalizers != nil {
		w.finalizers = *change.Metadata.Finalizers
	}
	if change.Status != nil {
		status, err := mergeJSON(w.status, change.Status)
		if err != nil {
			return err
		}
		w.status = status
	}
	s.note(w)
	return nil
}

// note updates the progress of a widget.
func (s *Server) note(w *widget) {
	var status struct {
		Size    int  `json:"size"`
		Handled bool `json:"handled"`
	}
	if w.handled || w.status == nil || json.Unmarshal(w.status, &status) != nil || !status.Handled || status.Size != w.size {
		return
	}
	if w.answered == 0 {
		w.answered = time.Since(w.begun)
	}
	if s.writes > 1 && len(w.annotations) == 0 {
		return
	}
	w.handled = true
	s.handled++
	if s.seen != nil {
		s.seen(w.answered, time.Since(w.begun))
	}
}

func mergeJSON(old, patch []byte) ([]byte, error) {
	var a, b any
	if len(old) > 0 {
		if err := json.Unmarshal(old, &a); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(patch, &b); err != nil {
		return nil, err
	}
	return json.Marshal(merged(a, b))
}

func merged(a, b any) any {
	change, ok := b.(map[string]any)
	if !ok {
		return b
	}
	all, ok := a.(map[string]any)
	if !ok {
		all = map[string]any{}
	}
	for key, v := range change {
		if v == nil {
			delete(all, key)
		} else {
			all[key] = merged(all[key], v)
		}
	}
	return all
}

// Spec returns the spec of a widget.
func Spec(size int) string { return `{"size":` + strconv.Itoa(size) + `,` + unsized }

const unsized = `"description":"A widget as people have them: some text that explains it at a length that is usual for such a thing, a list of parts, and options.",` +
	`"items":[` + item + `,` + item + `,` + item + `,` + item + `,` + item + `,` + item + `,` + item + `,` + item + `],` +
	`"options":{"color":"red","finish":"matt","material":"steel","packing":"box","priority":"normal","region":"north"}}`

const item = `{"name":"part-of-a-widget","value":"a value of some length, as they are","count":7}`

const managed = `[{"manager":"bench","operation":"Update","apiVersion":"bench.kopf.dev/v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1",` +
	`"fieldsV1":{"f:spec":{".":{},"f:description":{},"f:items":{},"f:options":{".":{},"f:color":{},"f:finish":{},"f:material":{},"f:packing":{},"f:priority":{},"f:region":{}},"f:size":{}}}}]`

// encode appends the JSON of a widget.
func (s *Server) encode(b []byte, i int) []byte {
	w := &s.widgets[i]
	b = append(b, `{"apiVersion":"bench.kopf.dev/v1","kind":"Widget","metadata":{`...)
	if len(w.annotations) > 0 {
		annotations, _ := json.Marshal(w.annotations) // texts alone
		b = append(append(append(b, `"annotations":`...), annotations...), ',')
	}
	if len(w.finalizers) > 0 {
		finalizers, _ := json.Marshal(w.finalizers)
		b = append(append(append(b, `"finalizers":`...), finalizers...), ',')
	}
	b = fmt.Appendf(b, `"creationTimestamp":"2026-01-01T00:00:00Z","generation":%d,"managedFields":%s,"name":"%s","namespace":"default","resourceVersion":"%d","uid":"00000000-0000-4000-8000-%012d"},"spec":{"size":%d,%s`,
		w.generation, managed, Name(i), w.version, i, w.size, unsized)
	if w.status != nil {
		b = append(append(b, `,"status":`...), w.status...)
	}
	return append(b, '}')
}

const widgets = "/apis/bench.kopf.dev/v1/widgets"

// fixed are the constant responses.
var fixed = map[string]string{
	// The kind keeps all fields.
	"/openapi/v3/apis/bench.kopf.dev/v1": `{"openapi":"3.0.0","info":{"title":"Widgets","version":"v1"},"paths":{},"components":{"schemas":{"dev.kopf.bench.v1.Widget":` +
		`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-group-version-kind":[{"group":"bench.kopf.dev","kind":"Widget","version":"v1"}]}}}}`,
	"/version":                   `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`,
	"/api":                       `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]}`,
	"/apis":                      `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + group + `,` + definitions + `]}`,
	"/apis/bench.kopf.dev":       group,
	"/apis/apiextensions.k8s.io": definitions,
	"/api/v1":                    `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"events","namespaced":true,"kind":"Event","verbs":["create"]},{"name":"namespaces","namespaced":false,"kind":"Namespace","verbs":["get","list","watch"]}]}`,
	"/apis/bench.kopf.dev/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"bench.kopf.dev/v1","resources":[` +
		`{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":["create","delete","get","list","patch","update","watch"]},` +
		`{"name":"widgets/status","singularName":"","namespaced":true,"kind":"Widget","verbs":["get","patch","update"]}]}`,
	"/apis/apiextensions.k8s.io/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apiextensions.k8s.io/v1","resources":[` +
		`{"name":"customresourcedefinitions","singularName":"customresourcedefinition","namespaced":false,"kind":"CustomResourceDefinition","verbs":["get","list","watch"]}]}`,
}

const (
	group       = `{"name":"bench.kopf.dev","versions":[{"groupVersion":"bench.kopf.dev/v1","version":"v1"}],"preferredVersion":{"groupVersion":"bench.kopf.dev/v1","version":"v1"}}`
	definitions = `{"name":"apiextensions.k8s.io","versions":[{"groupVersion":"apiextensions.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apiextensions.k8s.io/v1","version":"v1"}}`
)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	path, query := strings.TrimSuffix(r.URL.Path, "/"), r.URL.Query()
	watch := query.Get("watch") == "true" || query.Get("watch") == "1"
	w.Header().Set("Content-Type", "application/json")
	if text, ok := fixed[path]; ok {
		io.WriteString(w, text)
		s.spent(began)
		return
	}
	name, inside := strings.CutPrefix(path, "/apis/bench.kopf.dev/v1/namespaces/default/widgets/")
	switch {
	case path == widgets && watch:
		s.count("watch", began)
		s.watch(w, r)
	case path == widgets:
		s.count("list", began)
		s.list(w, query.Get("limit"), query.Get("continue"))
		s.spent(began)
	case inside && r.Method == http.MethodGet:
		s.count("get", began)
		s.get(w, name)
	case inside && r.Method == http.MethodPatch:
		s.count("patch", began)
		s.patch(w, r, name)
	case strings.HasPrefix(path, leases):
		s.serveLease(w, r)
	case path == "/api/v1/namespaces/default/events" && r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"kind":"Event","apiVersion":"v1"}`)
	case path == "/api/v1/namespaces" && !watch:
		s.listNamespaces(w)
	case watch: // there are no objects
		if strings.HasSuffix(path, "/widgets") {
			s.count("watch", began)
		}
		w.WriteHeader(http.StatusOK)
		if query.Get("sendInitialEvents") == "true" {
			kind := `"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1"`
			if strings.HasSuffix(path, "/widgets") {
				kind = `"kind":"Widget","apiVersion":"bench.kopf.dev/v1"`
			}
			io.WriteString(w, `{"type":"BOOKMARK","object":{`+kind+`,"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
		}
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodGet && (strings.Count(path, "/") == 4 || strings.HasSuffix(path, "/widgets")): // a list without objects
		if strings.HasSuffix(path, "/widgets") {
			s.count("list", began)
		}
		io.WriteString(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		s.spent(began)
	default:
		s.count("unknown", began)
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"the replaying server knows nothing of that"}`)
	}
}

func (s *Server) listNamespaces(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []string
	for i := range s.namespaces {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"%s%03d","uid":"%d","resourceVersion":"1"}}`, Namespaces, i, i))
	}
	fmt.Fprintf(w, `{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%s]}`, strings.Join(items, ","))
}

func (s *Server) count(verb string, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[verb]++
	if verb == "watch" && s.watched.IsZero() {
		s.watched = began
	}
}

// spent adds the time of a response before the first watch.
func (s *Server) spent(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched.IsZero() {
		s.answered += time.Since(began)
	}
}

// list writes all widgets, or a page of them.
func (s *Server) list(w http.ResponseWriter, limit, token string) {
	from, _ := strconv.Atoi(token) // the first page has none
	size, err := strconv.Atoi(limit)
	s.mu.Lock()
	to, version, rest := len(s.widgets), s.version, ""
	s.mu.Unlock()
	if err == nil && size > 0 && from+size < to {
		to = from + size
		rest = fmt.Sprintf(`,"continue":"%d"`, to)
	}
	b := fmt.Appendf(nil, `{"apiVersion":"bench.kopf.dev/v1","kind":"WidgetList","metadata":{"resourceVersion":"%d"%s},"items":[`, version, rest)
	for i := from; i < to; i++ {
		if i > from {
			b = append(b, ',')
		}
		s.mu.Lock()
		b = s.encode(b, i)
		s.mu.Unlock()
		if len(b) > 256<<10 {
			w.Write(b)
			b = b[:0]
		}
	}
	w.Write(append(b, `]}`...))
}

// watch writes all changes after a version, or first all widgets if the client requests them.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w).Flush
	w.WriteHeader(http.StatusOK)
	flush()
	s.mu.Lock()
	next := len(s.log)
	if from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion")); err == nil && from > 0 {
		next -= min(next, s.version-from) // each change is one version
	}
	count := len(s.widgets)
	s.mu.Unlock()
	var b []byte
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for i := range count {
			s.mu.Lock()
			b = append(s.encode(append(b, `{"type":"ADDED","object":`...), i), "}\n"...)
			s.mu.Unlock()
			if len(b) > 256<<10 {
				w.Write(b)
				b = b[:0]
			}
		}
		b = fmt.Appendf(b, `{"type":"BOOKMARK","object":{"kind":"Widget","apiVersion":"bench.kopf.dev/v1","metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", s.version)
		w.Write(b)
		flush()
	}
	for {
		s.mu.Lock()
		events, grown := s.log[next:], s.grown
		s.mu.Unlock()
		b = b[:0]
		for _, ev := range events {
			b = append(append(append(append(append(b, `{"type":"`...), ev.typ...), `","object":`...), ev.raw...), "}\n"...)
		}
		next += len(events)
		if len(b) > 0 {
			if _, err := w.Write(b); err != nil {
				return
			}
			flush()
		}
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}

// get writes one widget.
func (s *Server) get(w http.ResponseWriter, name string) {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "widget-"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || i < 0 || i >= len(s.widgets) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Write(s.encode(nil, i))
}

// patch changes a widget, and returns its new state.
func (s *Server) patch(w http.ResponseWriter, r *http.Request, name string) {
	name, _, _ = strings.Cut(name, "/") // the status changes in the same way
	i, err := strconv.Atoi(strings.TrimPrefix(name, "widget-"))
	body, failed := io.ReadAll(r.Body)
	if r.Header.Get("Content-Type") == "application/json-patch+json" && failed == nil {
		body, failed = mergeable(body)
	} else if r.Header.Get("Content-Type") != "application/merge-patch+json" {
		failed = errors.New("the replaying server takes merge patches and JSON patches")
	}
	if err != nil || failed != nil {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i >= len(s.widgets) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if err := s.merge(i, body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if len(s.patches) < 10 {
		s.patches = append(s.patches, body)
	}
	s.changed(i, "MODIFIED")
	s.lease.worked()
	w.Write(s.log[len(s.log)-1].raw)
}

// mergeable converts a JSON patch to an equivalent merge patch, for the operations of operators in a status.
func mergeable(body []byte) ([]byte, error) {
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return nil, err
	}
	var all any = map[string]any{}
	for _, o := range operations {
		if o.Op == "test" { // names are unique here
			continue
		}
		value := o.Value // nil for a removal
		keys := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
		for _, key := range slices.Backward(keys) {
			value = map[string]any{strings.NewReplacer("~1", "/", "~0", "~").Replace(key): value}
		}
		all = overlaid(all, value)
	}
	return json.Marshal(all)
}

// overlaid merges two patches.
func overlaid(a, b any) any {
	all, isMap := a.(map[string]any)
	more, ok := b.(map[string]any)
	if !isMap || !ok {
		return b
	}
	for key, v := range more {
		all[key] = overlaid(all[key], v)
	}
	return all
}
