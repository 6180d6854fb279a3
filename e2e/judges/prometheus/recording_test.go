// Package prometheus tests the metrics, the dashboard and the alerts of an operator with Prometheus: with its parsers, and with its query engine.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// page is a page of an operator's metrics at one time.
type page struct {
	at         time.Time
	text, open []byte
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sites.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Site, plural: sites, singular: site}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// sites returns the handlers of an operator that uses many features.
func sites() *kopf.Registry {
	r := &kopf.Registry{}
	outcome := func(o *kopf.Object) error {
		switch o.Spec().String("mood") {
		case "failing":
			return kopf.Temporary(errors.New("not yet"), 2*time.Minute)
		case "failed":
			return kopf.Permanent(errors.New("never"))
		}
		return nil
	}
	change := func(_ context.Context, c *kopf.Change) error {
		time.Sleep(20 * time.Millisecond) // the duration of the handler
		c.PostInfo("Handled", "once more")
		return outcome(&c.Object)
	}
	r.OnCreate("sites.example.com", change, &kopf.ChangeOptions{ID: "create"})
	r.OnUpdate("sites.example.com", change, &kopf.ChangeOptions{ID: "update"})
	r.OnDelete("sites.example.com", change, &kopf.ChangeOptions{ID: "delete"})
	r.OnDaemon("sites.example.com", func(ctx context.Context, _ *kopf.Daemon) error { <-ctx.Done(); return nil }, &kopf.DaemonOptions{ID: "watch", WithoutFinalizer: true})
	r.OnTimer("sites.example.com", func(_ context.Context, t *kopf.Timer) error { return outcome(&t.Object) }, &kopf.TimerOptions{ID: "probe", Interval: time.Minute, WithoutFinalizer: true})
	r.OnReconcile("sites.example.com", func(_ context.Context, rec *kopf.Reconcile) error {
		for i := range int(rec.Spec().Int("size")) {
			rec.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("%s-%d", rec.Name(), i)}, "data": map[string]any{"size": rec.Spec().String("mood")}}, nil)
		}
		rec.RequeueAfter(5 * time.Minute)
		return outcome(&rec.Object)
	}, &kopf.ReconcileOptions{ID: "reconcile", Owns: []kopf.Selector{"configmaps"}})
	return r
}

// pipe is a listener with in-memory connections.
type pipe struct {
	connections chan net.Conn
	once        sync.Once
	done        chan struct{}
}

func newPipe() *pipe { return &pipe{connections: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error { p.once.Do(func() { close(p.done) }); return nil }

func (p *pipe) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.connections <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// scrape requests a page.
func scrape(t *testing.T, client *http.Client, accept, wantType string) []byte {
	t.Helper()
	req, err := http.NewRequest("GET", "http://operator/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if kind := resp.Header.Get("Content-Type"); err != nil || !strings.HasPrefix(kind, wantType) {
		t.Fatalf("got the type %s, %v", kind, err)
	}
	return body
}

// prometheusAccepts is the Accept header of Prometheus.
const prometheusAccepts = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"

// step is the time between two pages.
const step = 30 * time.Second

// record runs an operator in a synctest bubble, calls a function at each step, and returns the pages.
func record(t *testing.T, registry *kopf.Registry, steps int, do func(ctx context.Context, step int, client *kopf.Client)) (pages []page) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := kopf.NewAPIServer(&kopf.APIServerOptions{Logger: slog.New(slog.DiscardHandler)})
		if err := server.Apply([]byte(definition)); err != nil {
			t.Fatal(err)
		}
		p := newPipe()
		settings := kopf.NewSettings()
		settings.Peering.Standalone = true
		settings.LeaderElection.Name = "web"
		settings.Posting.Enabled = true
		op := &kopf.Operator{
			Registry: registry, Settings: settings, Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler), LivenessEndpoint: "http://0.0.0.0:8080/healthz", LivenessListener: p,
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- op.Run(ctx) }()
		client, err := kopf.NewClient(server.ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DialContext: p.dial, DisableKeepAlives: true}
		scraper := &http.Client{Transport: transport}
		for i := range steps {
			do(ctx, i, client)
			time.Sleep(step)
			pages = append(pages, page{time.Now(), scrape(t, scraper, "", "text/plain; version=0.0.4"), scrape(t, scraper, prometheusAccepts, "application/openmetrics-text; version=1.0.0")})
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return pages
}

// busy creates, changes and deletes sites.
func busy(t *testing.T) func(ctx context.Context, step int, client *kopf.Client) {
	return func(ctx context.Context, step int, client *kopf.Client) {
		name := fmt.Sprintf("site-%d", step%10)
		ref := kopf.ObjectReference{APIVersion: "example.com/v1", Kind: "Site", Namespace: "default", Name: name}
		mood := []string{"well", "well", "failing", "failed"}[step%4]
		object := map[string]any{"apiVersion": "example.com/v1", "kind": "Site", "metadata": map[string]any{"name": name, "namespace": "default"}, "spec": map[string]any{"mood": mood, "size": 1 + step%3}}
		if step%40 >= 30 {
			if err := client.Delete(ctx, ref, nil); err != nil && kopf.StatusCode(err) != 404 {
				t.Error(err)
			}
			return
		}
		if err := client.Apply(ctx, object, &kopf.WriteOptions{FieldManager: "judge", Force: true}); err != nil {
			t.Error(err)
		}
	}
}
