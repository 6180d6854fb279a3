package kopf_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/kopf-go/kopf"
)

// printTracer prints the spans of the handler below. There are others, of objects and of requests.
type printTracer struct{}

// Start implements [kopf.Tracer].
func (printTracer) Start(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, kopf.Span) {
	return ctx, printSpan{name}
}

// printSpan is a span of a printTracer.
type printSpan struct{ name string }

// End implements [kopf.Span].
func (s printSpan) End(err error) {
	if s.name == "paint" {
		fmt.Println("the span", s.name, "ended with the error", err)
	}
}

// TraceParent implements [kopf.Span]. An adapter to OpenTelemetry returns the header "traceparent" of its span here.
func (printSpan) TraceParent() string { return "" }

func paint(ctx context.Context, c *kopf.Change) error {
	c.Patch.Set("metadata.labels.color", "green")
	return nil
}

func ExampleTracer() {
	registry := new(kopf.Registry)
	registry.OnCreate("configmaps", paint, nil)
	settings := kopf.NewSettings()
	settings.Tracing.Tracer = printTracer{}

	server := kopf.NewAPIServer(nil) // embedded. For a cluster, leave the Connection out
	if err := server.Apply([]byte(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: a}}`)); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error)
	go func() {
		operator := &kopf.Operator{Registry: registry, Settings: settings, Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}
		ended <- operator.Run(ctx)
	}()

	client, err := kopf.NewClient(server.ConnectionInfo(), nil)
	if err != nil {
		log.Fatal(err)
	}
	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}
	painted := func(b *kopf.Body) bool { return b.Labels()["color"] == "green" }
	if _, err := kopf.WaitFor(ctx, client, ref, "to be painted", painted); err != nil {
		log.Fatal(err)
	}

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// the span paint ended with the error <nil>
}
