package kopf_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/kopf-go/kopf"
)

// BenchmarkScrape reads the metrics of an operator with one object, and with 10,000, all of which are under handling.
func BenchmarkScrape(b *testing.B) {
	for _, objects := range []int{1, 10_000} {
		b.Run(fmt.Sprint("objects=", objects), func(b *testing.B) {
			server := kopf.NewAPIServer(nil)
			if err := server.Apply([]byte(definition)); err != nil {
				b.Fatal(err)
			}
			client, err := kopf.NewClient(server.ConnectionInfo(), nil)
			if err != nil {
				b.Fatal(err)
			}
			for i := range objects {
				object := map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": fmt.Sprint("object-", i), "namespace": "default"}}
				if err := client.Create(b.Context(), object, nil); err != nil {
					b.Fatal(err)
				}
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			begun, registry := make(chan struct{}, objects), &kopf.Registry{}
			registry.OnCreate("kopfexamples", func(ctx context.Context, c *kopf.Change) error {
				begun <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}, &kopf.ChangeOptions{ID: "create"})
			op := &kopf.Operator{Registry: registry, Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler),
				LivenessEndpoint: "http://127.0.0.1/healthz", LivenessListener: listener, Settings: kopf.NewSettings()}
			op.Settings.Queueing.ExitTimeout = 1
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- op.Run(ctx) }()
			for range objects {
				<-begun
			}
			size := 0
			for b.Loop() {
				resp, err := http.Get("http://" + listener.Addr().String() + "/metrics")
				if err != nil {
					b.Fatal(err)
				}
				page, err := io.ReadAll(resp.Body)
				if err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close() // it was read
				size = len(page)
			}
			b.ReportMetric(float64(size), "B/page")
			cancel()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		})
	}
}
