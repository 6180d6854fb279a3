package kopf_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf"
)

// This file tests the operator as users see it: handlers, an API server, and the objects.

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kopfexamples.kopf.dev}
spec:
  scope: Namespaced
  group: kopf.dev
  names: {kind: KopfExample, plural: kopfexamples, singular: kopfexample, shortNames: [kex]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

const finalizer = "kopf.zalando.org/KopfFinalizerMarker"

var example = kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Namespace: "default", Name: "example"}

// world is an API server with a client, in a bubble.
type world struct {
	t      *testing.T
	server *kopf.APIServer
	client *kopf.Client
}

func inWorld(t *testing.T, name string, f func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := kopf.NewAPIServer(nil)
			w := &world{t: t, server: server}
			if err := server.Apply([]byte(definition)); err != nil {
				t.Fatal(err)
			}
			var err error
			if w.client, err = kopf.NewClient(server.ConnectionInfo(), nil); err != nil {
				t.Fatal(err)
			}
			f(w)
		})
	})
}

// start runs an operator. The result stops the operator, and waits for it.
func (w *world) start(op *kopf.Operator) (stop func()) {
	w.t.Helper()
	if op.Connection == nil {
		op.Connection = w.server.ConnectionInfo()
	}
	if op.Logger == nil {
		op.Logger = slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- op.Run(ctx) }()
	synctest.Wait()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the operator has ended with %v", err)
		}
	})
}

func (w *world) create(spec map[string]any) {
	w.t.Helper()
	object := map[string]any{
		"apiVersion": example.APIVersion, "kind": example.Kind,
		"metadata": map[string]any{"name": example.Name, "namespace": example.Namespace},
		"spec":     spec,
	}
	if err := w.client.Create(w.t.Context(), object, nil); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) patch(patch string) {
	w.t.Helper()
	if _, err := w.client.Patch(w.t.Context(), example, json.RawMessage(patch), nil); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete() {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), example, nil); err != nil {
		w.t.Fatal(err)
	}
}

// get returns the object, nil if there is none.
func (w *world) get() *kopf.Body {
	w.t.Helper()
	var body kopf.Body
	switch err := w.client.Get(w.t.Context(), example, &body, nil); {
	case kopf.StatusCode(err) == http.StatusNotFound:
		return nil
	case err != nil:
		w.t.Fatal(err)
	}
	return &body
}

// settle waits for some time, and for all work in it.
func (w *world) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// calls records the order of handler calls.
type calls struct {
	mu   sync.Mutex
	list []string
}

func (c *calls) add(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, call)
}

func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	return list
}

func (c *calls) handler(name string, errs ...error) kopf.ChangeFunc {
	return func(ctx context.Context, change *kopf.Change) error {
		c.add(fmt.Sprintf("%s %s %d", name, change.Reason, change.Retry))
		if change.Retry < len(errs) {
			return errs[change.Retry]
		}
		change.SetResult(map[string]any{"done": name})
		return nil
	}
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestLife(t *testing.T) {
	inWorld(t, "an object is created, changed, resumed and deleted", func(w *world) {
		var c calls
		r := &kopf.Registry{}
		r.OnCreate("kopfexamples", c.handler("create"), &kopf.ChangeOptions{ID: "create"})
		r.OnUpdate("kopfexamples", c.handler("update"), &kopf.ChangeOptions{ID: "update"})
		r.OnResume("kopfexamples", c.handler("resume"), &kopf.ChangeOptions{ID: "resume"})
		r.OnDelete("kopfexamples", c.handler("delete"), &kopf.ChangeOptions{ID: "delete"})
		r.OnField("kopfexamples", "spec.size", c.handler("field"), &kopf.ChangeOptions{ID: "field"})
		stop := w.start(&kopf.Operator{Registry: r})
		w.create(map[string]any{"size": 1})
		w.settle(10 * time.Second)
		want(t, "calls of the creation", c.take(), []string{"create create 0", "field create 0"})
		want(t, "finalizers", w.get().Finalizers(), []string{finalizer})
		want(t, "result", w.get().Status().String("create.done"), "create")

		w.patch(`{"spec":{"size":2}}`)
		w.settle(10 * time.Second)
		want(t, "calls of the update", c.take(), []string{"update update 0", "field update 0"})
		w.patch(`{"metadata":{"labels":{"a":"b"}}}`)
		w.settle(10 * time.Second)
		want(t, "calls of another update", c.take(), []string{"update update 0"})

		stop()
		stop = w.start(&kopf.Operator{Registry: r})
		w.settle(10 * time.Second)
		want(t, "calls of the resuming", c.take(), []string{"resume resume 0"})

		w.delete()
		w.settle(10 * time.Second)
		want(t, "calls of the deletion", c.take(), []string{"delete delete 0"})
		if body := w.get(); body != nil {
			t.Errorf("the object is still there: %v", body.Map())
		}
		stop()
	})
}

func TestRetries(t *testing.T) {
	inWorld(t, "errors are retried, and go on after a restart", func(w *world) {
		var c calls
		r := &kopf.Registry{}
		oops := errors.New("oops")
		r.OnCreate("kopfexamples", c.handler("first"), &kopf.ChangeOptions{ID: "first"})
		r.OnCreate("kopfexamples", c.handler("second", kopf.Temporary(oops, 30*time.Second), oops, oops), &kopf.ChangeOptions{ID: "second", Backoff: time.Minute})
		stop := w.start(&kopf.Operator{Registry: r})
		w.create(map[string]any{"size": 1})
		w.settle(29 * time.Second)
		want(t, "calls at first", c.take(), []string{"first create 0", "second create 0"})
		w.settle(2 * time.Second)
		want(t, "calls after the delay", c.take(), []string{"second create 1"})
		stop()
		w.settle(30 * time.Second)
		stop = w.start(&kopf.Operator{Registry: r})
		w.settle(25 * time.Second)
		want(t, "calls after the restart, before the backoff", c.take(), []string(nil))
		w.settle(5 * time.Second)
		want(t, "calls after the backoff", c.take(), []string{"second create 2"})
		w.settle(2 * time.Minute)
		want(t, "calls at last", c.take(), []string{"second create 3"})
		for key := range w.get().Annotations() {
			if key != "kopf.zalando.org/last-handled-configuration" {
				t.Errorf("the annotation %q is left", key)
			}
		}
		stop()
	})
}

func TestBudget(t *testing.T) {
	for _, test := range []struct {
		name   string
		status bool // whether the handlers have results
		remove bool // whether there is a deletion handler
		want   [3]int
	}{
		{"without results", false, false, [3]int{1, 1, 0}},
		{"with results in a status subresource", true, false, [3]int{2, 2, 0}},
		{"with a finalizer", false, true, [3]int{2, 1, 1}},
	} {
		inWorld(t, test.name, func(w *world) {
			r := &kopf.Registry{}
			handle := func(ctx context.Context, c *kopf.Change) error {
				if test.status {
					c.SetResult(map[string]any{"at": c.Retry, "size": c.Spec().Int("size")})
				}
				return nil
			}
			r.OnCreate("kopfexamples", handle, &kopf.ChangeOptions{ID: "create"})
			r.OnUpdate("kopfexamples", handle, &kopf.ChangeOptions{ID: "update"})
			if test.remove {
				r.OnDelete("kopfexamples", handle, &kopf.ChangeOptions{ID: "delete"})
			}
			own := w.counting()
			stop := w.start(&kopf.Operator{Registry: r, Connection: own.info})
			w.create(map[string]any{"size": 1})
			w.settle(time.Minute)
			created := own.take()
			w.patch(`{"spec":{"size":2}}`)
			w.settle(time.Minute)
			updated := own.take()
			stop()
			stop = w.start(&kopf.Operator{Registry: r, Connection: own.info})
			w.settle(time.Minute)
			want(t, "requests of a restart", own.take(), 0)
			w.delete()
			w.settle(time.Minute)
			want(t, "requests", [3]int{created, updated, own.take()}, test.want)
			stop()
		})
	}
}

// counter counts the write requests of an operator.
type counter struct {
	info  *kopf.ConnectionInfo
	base  http.RoundTripper
	count atomic.Int64
}

func (w *world) counting() *counter {
	info := *w.server.ConnectionInfo()
	c := &counter{base: info.HTTPClient.Transport}
	info.HTTPClient = &http.Client{Transport: c}
	c.info = &info
	return c
}

func (c *counter) take() int { return int(c.count.Swap(0)) }

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		c.count.Add(1)
	}
	return c.base.RoundTrip(r)
}

// BenchmarkHandling handles one creation after another: the event, the handler, and the patch.
func BenchmarkHandling(b *testing.B) {
	server := kopf.NewAPIServer(nil)
	if err := server.Apply([]byte(definition)); err != nil {
		b.Fatal(err)
	}
	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		b.Fatal(err)
	}
	patched := make(chan struct{}, 1)
	info := *server.ConnectionInfo()
	base := info.HTTPClient.Transport
	info.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		if r.Method == http.MethodPatch {
			patched <- struct{}{}
		}
		return resp, err
	})}
	r := &kopf.Registry{}
	r.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "create"})
	ready := make(chan struct{})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	op := &kopf.Operator{Registry: r, Connection: &info, Logger: slog.New(slog.DiscardHandler), Ready: func() { close(ready) }}
	go func() { done <- op.Run(ctx) }()
	<-ready
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		object := map[string]any{
			"apiVersion": example.APIVersion, "kind": example.Kind,
			"metadata": map[string]any{"name": fmt.Sprint("example-", i), "namespace": "default"},
			"spec":     map[string]any{"size": i, "text": strings.Repeat("x", 1000)},
		}
		if err := client.Create(ctx, object, nil); err != nil {
			b.Fatal(err)
		}
		<-patched
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAdmissionKeepsItsName shows that an operator removes the configuration that it has written, even if its settings name another one by then. A later
// operator may share and change the settings.
func TestAdmissionKeepsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kopf.NewAPIServer(nil)
		r := &kopf.Registry{}
		r.OnValidate("configmaps", func(ctx context.Context, a *kopf.Admission) error { return nil }, &kopf.AdmissionOptions{ID: "check"})
		settings := kopf.NewSettings()
		settings.Peering.Standalone = true
		settings.Admission = kopf.AdmissionSettings{Server: server.AdmissionServer(), Managed: "one.kopf.dev"}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- (&kopf.Operator{Registry: r, Settings: settings, Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
		}()
		synctest.Wait()
		get := func() string {
			w := httptest.NewRecorder()
			server.ServeHTTP(w, httptest.NewRequest("GET", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/one.kopf.dev", nil))
			data, _ := io.ReadAll(w.Body)
			return string(data)
		}
		if !strings.Contains(get(), `"check.one.kopf.dev"`) {
			t.Fatal("it is not there: " + get())
		}
		settings.Admission.Managed = "two.kopf.dev" // for the next operator
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if strings.Contains(get(), `"check.one.kopf.dev"`) {
			t.Fatal("the webhook of the stopped operator is left behind: " + get())
		}
	})
}
