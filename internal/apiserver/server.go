// Package apiserver is a Kubernetes API server that keeps everything in memory. It answers as kube-apiserver does.
//
// A request is parsed (request.go), may trigger a fault (faults.go), and is dispatched (server.go): to discovery, to the OpenAPI documents, or to
// objects.go, with the code that all verbs share. Each verb has a file. The packages below this one are independent of the server.
//
// Each request runs on the goroutine of its connection, or, in process, on one that ends with the request. The only other goroutines are those of
// listeners, and of timers that retry failed work (retry.go).
package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/openapi"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/boundedset"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/httplimit"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

// Server is an API server. It is safe for concurrent use.
type Server struct {
	opts      Options
	db        *store.Store
	collector *collector // nil if the garbage collector is disabled
	warned    boundedset.Set

	reservations reservations // of services
	retries      retries
	processing   processing

	naming  sync.Mutex      // held while the server accepts the names of CRDs, and guards following
	defined []*definedKinds // by CRD

	mu                  sync.Mutex // guards following
	served              []*kindInfo
	faults              []*Fault
	requests            []Request
	requestBytes        int // of the bodies, paths and user agents of the requests
	uid                 uint64
	services, nodePorts int                     // the number of addresses and ports that services have got
	closing             chan struct{}           // closed to end all watches
	webhooks            map[string]http.Handler // handlers in this process, by their hosts
}

// Options configure a [Server].
type Options struct {
	// Version is the reported version of Kubernetes. Default: "v1.36.3".
	Version string
	// HistoryLimit is the number of changes that are kept for watches, for each kind. Watches from an older version are refused with the code 410.
	// Default: 10,000.
	HistoryLimit int
	// BookmarkInterval is the time between the bookmarks of a watch. Default: 1 minute.
	BookmarkInterval time.Duration
	// WebhookTransport sends requests to admission and conversion webhooks. Default: [http.DefaultTransport] with the CA bundles of the configurations.
	WebhookTransport http.RoundTripper
	// DisableGarbageCollector keeps objects whose owners are gone, and creates no service accounts. Default: false.
	DisableGarbageCollector bool
	// RefuseUnsupported refuses objects with fields that have no effect on this server, instead of warning of them. Default: false.
	RefuseUnsupported bool
	// TLS enables TLS for listeners. Each listener has its own certificate authority. Default: false.
	TLS bool
	// Logger logs failures of the server itself. Default: [slog.Default].
	Logger *slog.Logger
}

// New returns a server with the objects of every cluster.
func New(opts Options) *Server {
	s := &Server{opts: opts, closing: make(chan struct{})}
	if s.opts.Version == "" {
		s.opts.Version = "v1.36.3"
	}
	if s.opts.HistoryLimit <= 0 {
		s.opts.HistoryLimit = 10_000
	}
	if s.opts.BookmarkInterval <= 0 {
		s.opts.BookmarkInterval = time.Minute
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.Default()
	}
	s.db = store.New(s.opts.HistoryLimit)
	if !s.opts.DisableGarbageCollector {
		s.collector = newCollector()
	}
	s.served = builtinKinds()
	s.furnish()
	return s
}

// kinds returns all kinds that are served.
func (s *Server) kinds() []*kindInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

func (s *Server) kindOf(apiVersion, kind string) *kindInfo {
	for _, k := range s.kinds() {
		if k.resource.Kind == kind && k.apiVersion() == apiVersion {
			return k
		}
	}
	return nil
}

// Request is a request to a [Server], as [Server.Requests] returns it.
type Request struct {
	Time        time.Time // of its arrival
	Method      string    // the HTTP method
	Path        string    // with the query
	Verb        string    // get, list, watch, create, update, patch, delete or deletecollection; "" if it is not about objects
	Resource    string    // the plural, such as "pods"
	Subresource string    // such as "status"; "" for the object itself
	Namespace   string    // "" for objects without one, and for all
	Name        string    // "" for lists and creations
	ContentType string
	UserAgent   string
	Body        []byte // as it was received
	Status      int    // the code of the response, 0 before there is one
}

// maxRequests and maxRequestBytes limit the number of kept requests, and their total size.
const (
	maxRequests     = 10_000
	maxRequestBytes = 16 << 20
)

// size returns the bytes of the parts whose length a client chooses.
func (r *Request) size() int {
	return len(r.Body) + len(r.Path) + len(r.UserAgent) + len(r.ContentType)
}

// Requests returns the latest requests: at most 10,000, of at most 16 MiB together.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// note keeps a request. The returned function sets its status.
func (s *Server) note(r Request) (done func(status int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) >= maxRequests || s.requestBytes+r.size() > maxRequestBytes {
		drop := 0
		for drop < len(s.requests) && (len(s.requests)-drop > maxRequests/2 || s.requestBytes > maxRequestBytes/2) {
			s.requestBytes -= s.requests[drop].size()
			drop++
		}
		s.requests = slices.Clone(s.requests[drop:])
	}
	s.requests = append(s.requests, r)
	s.requestBytes += r.size()
	began := r.Time
	index := len(s.requests) - 1
	return func(status int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := min(index, len(s.requests)-1); i >= 0; i-- {
			if q := &s.requests[i]; q.Time.Equal(began) && q.Path == r.Path && q.Method == r.Method && q.Status == 0 {
				q.Status = status
				return
			}
		}
	}
}

// Compact drops the history, as real servers do every few minutes. Afterwards, the server refuses watches from an older version and the next pages of
// lists with the code 410.
func (s *Server) Compact() { s.db.Compact() }

// Disconnect ends all watches, as if their connections were lost.
func (s *Server) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.closing)
	s.closing = make(chan struct{})
}

// Apply creates or replaces the objects of manifests in YAML or JSON. CRDs may come together with their objects, in any order. It ignores the
// resource versions and UIDs in exports of other servers. It stops at the first refused manifest, and returns its error.
func (s *Server) Apply(manifests []byte) error {
	return s.Load([]manifest.File{{Data: manifests}})
}

// loaded is the object of a manifest.
type loaded struct {
	path   string // the path of the file
	place  string // in the file, if it has several objects
	object map[string]any
}

// Load loads files of manifests as if they were one, so that objects may precede their CRDs and their owners. Errors name the path of the file, if it
// has one.
func (s *Server) Load(files []manifest.File) error {
	var all []loaded
	for _, file := range files {
		manifests, err := yaml.ParsePlaced(file.Data)
		if err == nil {
			err = checkDuplicates(file.Data)
		}
		if err != nil {
			return inFile(file.Path, err)
		}
		for _, m := range manifests {
			if len(manifests) == 1 {
				m.Place = ""
			}
			all = append(all, loaded{file.Path, m.Place, m.Object})
		}
	}
	if len(all) == 0 && len(files) > 0 && files[0].Path != "" { // like kubectl apply, which ignores empty files among others
		return fmt.Errorf("no objects passed to apply in %s", joinPaths(files))
	}
	slices.SortStableFunc(all, func(a, b loaded) int { return cmp.Compare(loadRank(a.object), loadRank(b.object)) })
	sorted, acyclic := ownersFirst(all)
	for i, l := range sorted {
		err := s.load(l.object)
		if errors.Is(err, errNoOwner) && i >= acyclic {
			err = fmt.Errorf("its owners own each other, or the object is among them: %w", err)
		}
		if err != nil {
			return inFile(l.path, inFile(l.place, fmt.Errorf("%s: %w", describeManifest(l.object), err)))
		}
	}
	return nil
}

// joinPaths joins the paths of files for messages.
func joinPaths(files []manifest.File) string {
	paths := make([]string, len(files))
	for i, file := range files {
		paths[i] = file.Path
	}
	return strings.Join(paths, ", ")
}

// ownersFirst sorts objects so that owners precede their dependents, and keeps the order otherwise. The objects from the index acyclic on are part of
// a cycle of owners, or depend on one.
func ownersFirst(all []loaded) (sorted []loaded, acyclic int) {
	identity := func(object, named map[string]any) [3]string {
		return [3]string{unstructured.Text(object, "apiVersion"), unstructured.Text(object, "kind"), unstructured.Text(named, "name")}
	}
	for len(all) > 0 {
		left := make(map[[3]string]bool)
		for _, l := range all {
			left[identity(l.object, rawjson.AsMap(l.object["metadata"]))] = true
		}
		var later []loaded
		for _, l := range all {
			owners, _ := rawjson.AsMap(l.object["metadata"])["ownerReferences"].([]any)
			waits := slices.ContainsFunc(owners, func(o any) bool { owner := rawjson.AsMap(o); return left[identity(owner, owner)] })
			if waits {
				later = append(later, l)
			} else {
				sorted = append(sorted, l)
			}
		}
		if len(later) == len(all) {
			return append(sorted, later...), len(sorted)
		}
		all = later
	}
	return sorted, len(sorted)
}

// describeManifest describes the object of a manifest by its kind and its name, as far as it has them.
func describeManifest(object map[string]any) string {
	text := "manifest"
	if kind := unstructured.Text(object, "kind"); kind != "" {
		text += " of the " + kind
	}
	if name := unstructured.Text(rawjson.AsMap(object["metadata"]), "name"); name != "" {
		text += fmt.Sprintf(" %q", name)
	}
	return text
}

// inFile adds a path, or a place in the file, to an error, unless it is empty.
func inFile(path string, err error) error {
	if path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// loadRank puts namespaces and CRDs first, because other objects need them. It puts webhooks last, because their operator may not run yet.
func loadRank(object map[string]any) int {
	switch object["kind"] {
	case "Namespace", "CustomResourceDefinition":
		return 0
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		return 2
	}
	return 1
}

// errNotServed returns the error about a manifest of an unknown kind.
func errNotServed(apiVersion, kind string) error {
	switch {
	case apiVersion == "" && kind == "":
		return errors.New("apiVersion and kind are missing")
	case apiVersion == "":
		return errors.New("apiVersion is missing")
	case kind == "":
		return errors.New("kind is missing")
	}
	hint := ""
	if group, _, _ := strings.Cut(apiVersion, "/"); strings.Contains(group, ".") { // as for all CRDs
		hint = ": apply its CustomResourceDefinition before it, or with it"
	}
	return fmt.Errorf("no kind %q in %q is served%s", kind, apiVersion, hint)
}

func (s *Server) load(object map[string]any) error {
	for _, key := range []string{"apiVersion", "kind"} {
		if _, isText := object[key].(string); !isText && object[key] != nil {
			return fmt.Errorf("%s: a text is expected, not %s", key, rawjson.KindOf(object[key]))
		}
	}
	apiVersion := unstructured.Text(object, "apiVersion")
	kind := unstructured.Text(object, "kind")
	k := s.kindOf(apiVersion, kind)
	if k == nil {
		return errNotServed(apiVersion, kind)
	}
	meta := rawjson.AsMap(object["metadata"])
	delete(meta, "resourceVersion") // of another server
	delete(meta, "uid")
	k.forgetServer(object)
	r := &apiRequest{server: s, kind: k, verb: "create", manager: "kopf", ctx: context.Background()}
	r.name = unstructured.Text(meta, "name")
	if r.namespace, _ = meta["namespace"].(string); k.resource.Namespaced && r.namespace == "" {
		r.namespace = "default"
	}
	if err := r.checkGoType(object); err != nil {
		return err
	}
	if unknown := k.unknownFields(object); len(unknown) > 0 {
		s.opts.Logger.Warn("A manifest has unknown fields, which are dropped", "kind", kind, "name", r.name, "fields", unknown, "help", "K1201")
	}
	if err := s.adopt(object, r.namespace); err != nil {
		return err
	}
	var err error = k.alreadyExists(r.name)
	if r.name == "" || s.db.Get(k.collection(), r.key()) == nil { // otherwise a service would conflict with its own address
		_, _, err = r.createObject(rawjson.Clone(object).(map[string]any), false)
	}
	if e := (*apierrors.StatusError)(nil); errtype.As(err, &e) && e.Reason == "AlreadyExists" {
		r.verb = "update"
		_, err = r.changeObject(func(live map[string]any) (map[string]any, error) {
			replacement := rawjson.Clone(object).(map[string]any)
			k.keepServer(live, replacement)
			if meta := rawjson.AsMap(replacement["metadata"]); meta != nil { // updates of custom resources require it
				meta["resourceVersion"] = rawjson.AsMap(live["metadata"])["resourceVersion"]
			}
			return replacement, nil
		})
	}
	return err
}

// adopt replaces the uids of an object's owners by those on this server, because manifests have uids of another server. It refuses an object whose
// owners do not exist, because the garbage collector would delete it at once.
func (s *Server) adopt(object map[string]any, namespace string) error {
	owners, _ := rawjson.AsMap(object["metadata"])["ownerReferences"].([]any)
	missing, present := "", false
	for _, o := range owners {
		owner := rawjson.AsMap(o)
		kind, name := unstructured.Text(owner, "kind"), unstructured.Text(owner, "name")
		k := s.kindOf(unstructured.Text(owner, "apiVersion"), kind)
		if k == nil {
			return nil // the garbage collector ignores unknown owners
		}
		if item := s.db.Get(k.collection(), k.keyIn(namespace, name)); item != nil {
			owner["uid"] = rawjson.StringAt(item.Raw, "metadata", "uid")
			present = true
			continue
		}
		missing = fmt.Sprintf("its owner, the %s %q, does not exist", kind, name)
		if elsewhere := s.namespaceOf(k, name); k.resource.Namespaced && elsewhere != "" {
			missing = fmt.Sprintf("its owner, the %s %q, is in the namespace %q, and not in that of the object", kind, name, elsewhere)
		}
	}
	if missing != "" && !present && s.collector != nil {
		return fmt.Errorf("%s: %w", missing, errNoOwner)
	}
	return nil
}

// errNoOwner is the reason for refusing an object without an existing owner.
var errNoOwner = errors.New("the garbage collector would delete the object")

// namespaceOf returns a namespace that contains an object with a kind and a name, "" if there is none.
func (s *Server) namespaceOf(k *kindInfo, name string) string {
	items, _ := s.db.List(k.collection())
	for _, i := range items {
		if i.Name == name {
			return i.Namespace
		}
	}
	return ""
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Audit-Id", s.newUID())
	header.Set("Cache-Control", "no-cache, private")
	a, err := s.parse(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	counted := &countingWriter{ResponseWriter: w, stream: r.ProtoMajor == 2}
	counted.setDeadline(time.Time{})
	done := s.note(a.request())
	defer func() { done(counted.status) }()
	if s.fault(counted, r, a) {
		return
	}
	if err := s.checkImpersonation(counted, r); err != nil {
		s.refuse(counted, r, err)
		return
	}
	s.dispatch(counted, r, a)
	if a.fault != nil && a.fault.DropAfter {
		panic(http.ErrAbortHandler)
	}
}

// dispatch answers a request by its path.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, a *apiRequest) {
	switch {
	case a.kind != nil:
		a.serve(w, r)
	case a.parts[0] == "api" || a.parts[0] == "apis":
		s.dispatchGroups(w, r, a.parts)
	case a.parts[0] == "openapi":
		s.openAPI(w, r, a.parts)
	case strings.TrimSuffix(r.URL.Path, "/") == "/version":
		if r.Method != http.MethodGet {
			s.refuse(w, r, errMethod())
			return
		}
		major, minor, _ := strings.Cut(strings.TrimPrefix(s.opts.Version, "v"), ".")
		minor, _, _ = strings.Cut(minor, ".")
		s.write(w, r, 200, map[string]any{
			"major": major, "minor": minor, "gitVersion": s.opts.Version, "gitTreeState": "clean", "platform": "in-memory",
			"compiler": "gc", "goVersion": "", "gitCommit": "", "buildDate": "",
		})
	case slices.Contains([]string{"healthz", "livez", "readyz"}, a.parts[0]):
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, "ok") // ignore a disconnected client
	case r.URL.Path == "/":
		s.write(w, r, 200, map[string]any{"paths": []any{"/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"}})
	default:
		s.unknownPath(w)
	}
}

// dispatchGroups answers a request about groups and versions, or about a path with an unknown resource.
func (s *Server) dispatchGroups(w http.ResponseWriter, r *http.Request, parts []string) {
	ofServer := parts[0] == "api" || len(parts) > 1 && slices.ContainsFunc(s.kinds(), func(k *kindInfo) bool { return k.crd == nil && k.resource.Group == parts[1] })
	version := 2 // the number of parts up to the version
	if parts[0] == "apis" {
		version = 3
	}
	found := len(parts) < version || len(parts) == version &&
		slices.ContainsFunc(s.kinds(), func(k *kindInfo) bool { return k.apiVersion() == strings.Join(parts[1:], "/") })
	switch {
	case !found && ofServer:
		s.refuse(w, r, errNoResource())
	case !found:
		s.unknownPath(w)
	case ofServer && r.Method != http.MethodGet && (parts[0] == "api" || len(parts) == version):
		s.refuse(w, r, errMethod())
	default:
		s.discovery(w, r, parts)
	}
}

func errMethod() error {
	return apierrors.New(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", map[string]any{})
}

func errNoResource() error {
	return apierrors.New(404, "NotFound", "the server could not find the requested resource", map[string]any{})
}

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request, parts []string) {
	kinds := openAPIKinds(s.kinds())
	switch {
	case len(parts) == 2 && parts[1] == "v2":
		if accept := r.Header.Get("Accept"); accept != "" && !strings.Contains(accept, "json") && !strings.Contains(accept, "*/*") {
			w.Header().Set("Content-Type", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
			w.Write(openapi.EmptyV2) // ignore a disconnected client
			return
		}
		s.write(w, r, 200, openapi.V2(kinds))
	case len(parts) == 2 && parts[1] == "v3":
		s.write(w, r, 200, openapi.V3Index(kinds))
	case len(parts) > 3 && parts[1] == "v3":
		if doc := openapi.V3(kinds, strings.Join(parts[2:], "/")); doc != nil {
			s.write(w, r, 200, doc)
		} else {
			s.unknownPath(w)
		}
	default:
		s.unknownPath(w)
	}
}

// unknownPath answers requests with unknown paths, as kube-apiserver does.
func (s *Server) unknownPath(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(404)
	io.WriteString(w, "404 page not found\n") // ignore a disconnected client
}

// refuse answers with an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := (*apierrors.StatusError)(nil)
	if !errtype.As(err, &e) {
		e = apierrors.Internal(err)
	}
	if seconds, _ := e.Details["retryAfterSeconds"].(json.Number); seconds != "" && seconds != "0" {
		w.Header().Set("Retry-After", seconds.String())
	}
	s.write(w, r, e.Code, e.Object())
}

// write answers with a JSON value.
func (s *Server) write(w http.ResponseWriter, r *http.Request, code int, v any) {
	var data []byte
	var err error
	if raw, ok := v.(json.RawMessage); ok {
		data = raw
	} else if data, err = rawjson.Encode(v); err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	if pretty := r.URL.Query().Get("pretty"); pretty == "true" || pretty == "1" {
		var b bytes.Buffer
		if json.Indent(&b, data, "", "  ") == nil {
			data = b.Bytes()
		}
	}
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	w.WriteHeader(code)
	w.Write(data) // ignore a disconnected client
	w.Write([]byte("\n"))
}

// newUID returns a unique ID. It is not random, so that tests are reproducible.
func (s *Server) newUID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uid++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(s.uid*2654435761), s.uid)
}

// countingWriter keeps the status of a response, and limits the time for sending each part of it.
type countingWriter struct {
	http.ResponseWriter
	status int
	stream bool // whether it is an HTTP/2 stream
}

// setDeadline sets the deadline for sending the current part. Connections of HTTP/1 need a deadline for their last bytes, too, and an expired one
// does no harm between two parts. An expired deadline ends a stream of HTTP/2, so streams must not have one between two parts.
func (w *countingWriter) setDeadline(at time.Time) {
	if timed, ok := w.ResponseWriter.(interface{ SetWriteDeadline(time.Time) error }); ok && (w.stream || !at.IsZero()) {
		_ = timed.SetWriteDeadline(at) // if it fails, writing fails as well
	}
}

func (w *countingWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = 200
	}
	w.setDeadline(time.Now().Add(httplimit.SendTimeout))
	return w.ResponseWriter.Write(data)
}

// Flush sends the response so far.
func (w *countingWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
		w.setDeadline(time.Time{})
	}
}
