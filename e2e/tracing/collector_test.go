package tracing

import (
	"context"
	"encoding/hex"
	"net"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
)

// received is a span that a collector has received.
type received struct {
	service, name     string
	trace, id, parent string // in hexadecimal digits; "" without a parent
	links             []string
	attrs             map[string]string
	events            int
	failed            bool
}

// collectorServer receives spans by OTLP, as an OpenTelemetry Collector does.
type collectorServer struct {
	collector.UnimplementedTraceServiceServer
	addr    string
	changed chan struct{} // has a value after more spans were received
	mu      sync.Mutex    // guards spans
	spans   []received
}

// newCollector starts a server that runs until the end of the test.
func newCollector(t *testing.T) *collectorServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collectorServer{addr: listener.Addr().String(), changed: make(chan struct{}, 1)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

// Export implements the service.
func (c *collectorServer) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.GetResourceSpans() {
		service := texts(resource.GetResource().GetAttributes())["service.name"]
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				got := received{
					service: service, name: s.GetName(), trace: hex.EncodeToString(s.GetTraceId()), id: hex.EncodeToString(s.GetSpanId()),
					parent: hex.EncodeToString(s.GetParentSpanId()), attrs: texts(s.GetAttributes()), events: len(s.GetEvents()), failed: s.GetStatus().GetCode() == 2,
				}
				for _, link := range s.GetLinks() {
					got.links = append(got.links, hex.EncodeToString(link.GetTraceId())+"-"+hex.EncodeToString(link.GetSpanId()))
				}
				c.spans = append(c.spans, got)
			}
		}
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// find returns the spans of a service whose names begin with a text.
func (c *collectorServer) find(service, name string) []received {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []received
	for _, s := range c.spans {
		if s.service == service && strings.HasPrefix(s.name, name) {
			all = append(all, s)
		}
	}
	return all
}

// texts returns the attributes with string values, by their keys.
func texts(attrs []*common.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, a := range attrs {
		all[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return all
}
