package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// This file runs the code of a page in virtual time, while an object is created, changed and deleted.

// Case is a compiled block.
type Case struct {
	Text     string
	Handler  bool // Run is called as a handler
	Registry *kopf.Registry
	Run      func(ctx context.Context, c *kopf.Change, registry *kopf.Registry, server *kopf.APIServer) error
	Register func(r *kopf.Registry) // registers the handlers of the block that it does not register by itself
	Tests    []func(t *testing.T)
	Files    map[string]string // of the page, by their names
}

// definition and object are what the blocks work with.
const (
	definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kopfexamples.kopf.dev}
spec:
  scope: Namespaced
  group: kopf.dev
  names: {kind: KopfExample, plural: kopfexamples, singular: kopfexample}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
	object = `
apiVersion: kopf.dev/v1
kind: KopfExample
metadata:
  name: kopf-example-1
  namespace: default
  labels: {env: prod, tier: front}
  annotations: {example.com/class: gold}
spec: {duration: 1m, size: 1, field: value, node: node-1, items: [item1, item2], volumes: [a, b]}
`
	change = `{"metadata": {"labels": {"env": "prod", "changed": "yes"}}, "spec": {"size": 2, "field": "other", "items": ["item1", "item3"]}}`
)

var reference = kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Namespace: "default", Name: "kopf-example-1"}

// failing finds the blocks that show how to fail.
var failing = regexp.MustCompile(`kopf\.(Temporary|Permanent|Deny)\(|errors\.New\(|PostError|panic\(`)

// Run runs a block: its tests, if it has any; else its statements, and then an operator with the handlers that there are, while an object
// is created, changed and deleted. The object must go in the end, and nothing may fail unless the block shows how to.
func Run(t *testing.T, c *Case) {
	t.Chdir(t.TempDir())
	for name, text := range c.Files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kopf.SetDefaultRegistry(c.Registry) // as it was when the variables of the block were made
	for _, test := range c.Tests {
		test(t)
	}
	if len(c.Tests) > 0 {
		return
	}
	_, stop := signal.NotifyContext(t.Context(), os.Interrupt) // package os/signal begins outside of all bubbles
	defer stop()
	synctest.Test(t, func(t *testing.T) { c.run(t) })
}

func (c *Case) run(t *testing.T) {
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("panic: %v", v)
		}
	}()
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(definition)); err != nil {
		t.Fatal(err)
	}
	reached := c.begin(t, server)
	c.Register(c.Registry)
	log := &listener{}
	c.live(t, server, log)
	if !reached() {
		t.Error("the code was not reached")
	}
	for _, line := range log.lines {
		if strings.Contains(line, "No handlers are registered") { // as in many fragments
			continue
		}
		if strings.Contains(line, "Settings.Admission.Managed has no effect") { // most fragments have no admission handlers
			continue
		}
		if strings.Contains(line, "The peering of the settings has no resource") { // the server has none
			continue
		}
		if strings.Contains(line, "panic") || !failing.MatchString(c.Text) {
			t.Errorf("the log tells: %s", line)
		}
	}
}

// begin runs the statements of the block, or registers them as a handler. reached reports whether they ran.
func (c *Case) begin(t *testing.T, server *kopf.APIServer) (reached func() bool) {
	if !c.Handler {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Run(ctx, nil, c.Registry, server); err != nil && !failing.MatchString(c.Text) {
			t.Error(err)
		}
		return func() bool { return true }
	}
	var handled atomic.Bool
	once := func(ctx context.Context, change *kopf.Change) error {
		handled.Store(true)
		return c.Run(ctx, change, c.Registry, server)
	}
	c.Registry.OnCreate("kopfexamples", once, &kopf.ChangeOptions{ID: "page"})
	return handled.Load
}

// live creates, changes and deletes an object while an operator runs.
func (c *Case) live(t *testing.T, server *kopf.APIServer, log *listener) { // in a bubble
	settings := kopf.NewSettings()
	settings.Admission = kopf.AdmissionSettings{Server: server.AdmissionServer(), Managed: "pages.example.com"}
	op := &kopf.Operator{Registry: c.Registry, Settings: settings, Connection: server.ConnectionInfo(), Logger: slog.New(log)}
	runner := kopf.NewRunner(t, op, nil)
	for _, name := range slices.Sorted(maps.Keys(c.Files)) { // whose kinds the block may define
		if err := server.Apply([]byte(c.Files[name])); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := kopf.ParseManifests([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	time.Sleep(time.Minute)
	if err := client.Create(ctx, manifests[0], nil); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Minute)
	if _, err := client.Patch(ctx, reference, json.RawMessage(change), nil); err != nil {
		t.Error(err)
	}
	time.Sleep(10 * time.Minute)
	if err := client.Delete(ctx, reference, nil); err != nil {
		t.Error(err)
	}
	time.Sleep(10 * time.Minute)
	var left kopf.Body
	if err := client.Get(ctx, reference, &left, nil); kopf.StatusCode(err) != http.StatusNotFound {
		t.Errorf("the object is still there: %v %v", &left, err)
	}
	if err := runner.Stop(); err != nil {
		t.Error(err)
	}
}

// listener is a handler of logs that keeps errors.
type listener struct {
	mu    sync.Mutex // guards lines
	lines []string
}

// Enabled enables all levels.
func (l *listener) Enabled(context.Context, slog.Level) bool { return true }

// Handle keeps a record if it is an error.
func (l *listener) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return nil
	}
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s", a)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// WithAttrs returns the handler itself: attributes of loggers are not kept.
func (l *listener) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup returns the handler itself.
func (l *listener) WithGroup(string) slog.Handler { return l }
