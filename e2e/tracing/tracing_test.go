package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/internal/pages"
)

// The names of the services in the spans.
const (
	operator  = "operator"
	apiServer = "apiserver"
)

// TestPage checks that the adapter on the page equals the one in this folder.
func TestPage(t *testing.T) {
	blocks, err := pages.Read(filepath.Join("..", "..", "docs", "tracing.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("adapter.go")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, b := range blocks {
		if b.Language == "go" && strings.Contains(b.Text, "type tracer struct") {
			compared++
			if !strings.Contains(string(source), b.Text) {
				t.Errorf("docs/tracing.md:%d: the adapter is not that of adapter.go", b.Line)
			}
		}
	}
	if compared != 1 {
		t.Errorf("the page has %d adapters, want 1", compared)
	}
}

func TestOpenTelemetry(t *testing.T) {
	w := newWorld(t)
	t.Run("OB-38 OB-40 OB-42 cycles, handlers and requests are spans, which link to the client's", func(t *testing.T) {
		attempts := 0
		r := &kopf.Registry{}
		r.OnCreate("configmaps", func(ctx context.Context, ch *kopf.Change) error {
			if attempts++; attempts == 1 {
				return errors.New("the first attempt fails")
			}
			ch.Patch.Set("data.done", "yes")
			return getDefault(ctx, ch)
		}, &kopf.ChangeOptions{ID: "retried", Backoff: time.Second, Labels: traced("user")})
		user, err := w.cluster.NewUser(t.Context(), "operator", cluster.Rule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
		if err != nil {
			t.Fatal(err)
		}
		w.run(t, user.ConnectionInfo, r)
		client := strings.Repeat("1a", 16) + "-" + strings.Repeat("2b", 8)
		w.create(t, "a", "user", "00-"+client+"-01")

		cycle := w.span(t, operator, "handle configmaps", func(s received) bool { return slices.Contains(s.links, client) })
		if cycle.parent != "" || cycle.attrs["k8s.object.name"] != "a" {
			t.Errorf("got the cycle %+v, want one of the object a in a trace of its own", cycle)
		}
		w.span(t, operator, "retried", func(s received) bool {
			return s.failed && s.events == 1 && s.parent == cycle.id && s.trace == cycle.trace
		})
		call := w.span(t, operator, "retried", func(s received) bool { return !s.failed && s.attrs["kopf.attempt"] == "2" })
		get := w.span(t, operator, "GET", func(s received) bool { return s.parent == call.id && s.trace == call.trace })
		served := w.span(t, apiServer, "", func(s received) bool { return slices.Contains(s.links, get.trace+"-"+get.id) })
		if served.trace == get.trace {
			t.Errorf("got the span %+v of the API server in the trace of the operator, want one of its own for a user without rights to trace", served)
		}
	})
	t.Run("OB-41 the API server continues the spans of members of system:masters", func(t *testing.T) {
		r := &kopf.Registry{}
		r.OnCreate("configmaps", getDefault, &kopf.ChangeOptions{ID: "masters", Labels: traced("masters")})
		w.run(t, w.cluster.ConnectionInfo(), r)
		w.create(t, "b", "masters", "")
		call := w.span(t, operator, "masters", anySpan)
		get := w.span(t, operator, "GET", func(s received) bool { return s.parent == call.id })
		w.span(t, apiServer, "", func(s received) bool { return s.trace == get.trace && s.parent == get.id })
	})
	t.Run("OB-41 reviews continue the spans of the API server", func(t *testing.T) {
		reviewed := make(chan struct{}, 1)
		r := &kopf.Registry{}
		r.OnValidate("configmaps", func(context.Context, *kopf.Admission) error {
			select {
			case reviewed <- struct{}{}:
			default:
			}
			return nil
		}, &kopf.AdmissionOptions{ID: "check", Operations: []kopf.Operation{kopf.OperationCreate}, Labels: traced("reviewed")})
		w.run(t, w.cluster.ConnectionInfo(), r)
		for i := 0; len(reviewed) == 0; i++ {
			w.create(t, fmt.Sprint("c", i), "reviewed", "")
		}
		review := w.span(t, operator, "review configmaps", anySpan)
		w.span(t, apiServer, "", func(s received) bool { return s.trace == review.trace && s.id == review.parent })
	})
}

func anySpan(received) bool { return true }

// getDefault is a handler that sends a request.
func getDefault(ctx context.Context, ch *kopf.Change) error {
	return ch.Client.Get(ctx, kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"}, nil, nil)
}

// traced are the labels of the objects of one operator.
func traced(by string) kopf.Match { return kopf.Match{"traced": by} }

// world is a control plane with operators that export their spans to one collector.
type world struct {
	cluster   *cluster.Cluster
	collector *collectorServer
}

func newWorld(t *testing.T) *world {
	w := &world{collector: newCollector(t)}
	config := filepath.Join(t.TempDir(), "tracing.yaml")
	content := "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1000000\nendpoint: " + w.collector.addr + "\n"
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.cluster, err = cluster.Start(t.Context(), &cluster.Options{APIServerArgs: []string{"--tracing-config-file=" + config}, Log: os.Stderr}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cluster.Stop)
	exporter, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(w.collector.addr), otlptracegrpc.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter, sdk.WithBatchTimeout(100*time.Millisecond)), sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", operator))))
	t.Cleanup(func() {
		if err := provider.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	otel.SetTracerProvider(provider)
	return w
}

// run runs an operator until the end of the test.
func (w *world) run(t *testing.T, info *kopf.ConnectionInfo, r *kopf.Registry) {
	t.Helper()
	settings := kopf.NewSettings()
	settings.Tracing.Tracer = newTracer()
	settings.Admission.Server, settings.Admission.Managed = &kopf.WebhookServer{Addr: "127.0.0.1"}, "tracing.kopf.dev"
	op := &kopf.Operator{Registry: r, Connection: info, Namespaces: []string{"default"}, Settings: settings, Logger: slog.New(slog.DiscardHandler)}
	kopf.NewRunner(t, kopf.RunFunc(op.Run), nil)
}

// create creates a config map for one operator, with the traceparent of a client unless that is "".
func (w *world) create(t *testing.T, name, by, traceParent string) {
	t.Helper()
	metadata := map[string]any{"name": name, "labels": map[string]any{"traced": by}}
	if traceParent != "" {
		metadata["annotations"] = map[string]any{"tracing.k8s.io/traceparent": traceParent}
	}
	w.cluster.Create(t, "/api/v1/namespaces/default/configmaps", map[string]any{"metadata": metadata})
}

// span waits for a span of a service whose name begins with a text, and that matches.
func (w *world) span(t *testing.T, service, name string, matches func(received) bool) received {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		all := w.collector.find(service, name)
		if i := slices.IndexFunc(all, matches); i >= 0 {
			return all[i]
		}
		select {
		case <-w.collector.changed:
		case <-late:
			t.Fatalf("no span %q of %s matches; there are %d of the name: %+v", name, service, len(all), all[:min(len(all), 10)])
		}
	}
}
