package healthz

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/metrics"
)

// TestLoopback warns of an endpoint that the kubelet cannot reach, in a pod only.
func TestLoopback(t *testing.T) {
	for _, tt := range []struct {
		pod, endpoint string
		warned        bool
	}{
		{"10.0.0.1", "http://localhost:0/healthz", true},
		{"10.0.0.1", "http://127.0.0.1:0", true},
		{"10.0.0.1", "http://0.0.0.0:0/", false},
		{"", "http://127.0.0.1:0/healthz", false},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", tt.pod)
		var log strings.Builder
		s := &Server{
			Meter: metrics.New(metrics.State{}, nil),
			Log:   slog.New(slog.NewTextHandler(&log, nil)),
		}
		if err := s.Listen(tt.endpoint, nil); err != nil {
			t.Fatal(err)
		}
		s.Stop()
		if got := strings.Contains(log.String(), "help=K1101"); got != tt.warned {
			t.Errorf("in the pod %q, at %s, the log is %q", tt.pod, tt.endpoint, log.String())
		}
	}
}
