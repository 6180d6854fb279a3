package e2e

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/kopf-go/kopf"
)

// The output of an operator about itself and its objects, as others read it: kubectl, and the parser of Prometheus.

func TestTelling(t *testing.T) {
	c := theCluster(t)
	client, err := kopf.NewClient(c.ConnectionInfo(), nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := &kopf.Registry{}
	node := kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"}
	registry.OnCreate("configmaps", func(ctx context.Context, ch *kopf.Change) error {
		ch.PostInfo("Tried", "the object was tried")
		ch.PostWarning("Tried", "the object was warned of")
		for range 3 {
			ch.PostInfo("Again", "the same again")
		}
		ch.PostInfo("Tried", "outside of namespaces", node)
		ch.Logger.Info("a line of the log", "size", 5)
		return nil
	}, &kopf.ChangeOptions{ID: "create", Labels: kopf.Match{"try": "telling"}})
	settings := kopf.NewSettings()
	settings.Posting.Loggers = true
	kopf.NewRunner(t, &kopf.Operator{
		Registry: registry, Settings: settings, Connection: c.ConnectionInfo(), Namespaces: []string{"default"}, Logger: slog.New(kopf.NewLogHandler(&kopf.LogOptions{Output: t.Output()})),
		LivenessEndpoint: "http://127.0.0.1/healthz", LivenessListener: listener,
	}, nil)
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"name": "telling", "namespace": "default", "labels": map[string]any{"try": "telling"}}}
	if err := client.Create(t.Context(), &object, nil); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"the object was tried", "Warning", "(x3 over", "a line of the log  size=5", "Handler 'create' succeeded."} {
		eventually(t, "kubectl describes "+text, func() bool { return strings.Contains(c.Kubectl(t, "describe", "configmap", "telling"), text) })
	}
	eventually(t, "kubectl describes what is outside of namespaces", func() bool {
		return strings.Contains(c.Kubectl(t, "get", "events", "--field-selector", "involvedObject.name=default,involvedObject.kind=Namespace"), "outside of namespaces")
	})
	t.Run("prometheus", func(t *testing.T) { wantPrometheus(t, "http://"+listener.Addr().String()+"/metrics") })
}

// wantPrometheus parses the metrics like Prometheus.
func wantPrometheus(t *testing.T, url string) {
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	if format := expfmt.ResponseFormat(resp.Header); format.FormatType() != expfmt.TypeTextPlain {
		t.Errorf("the format of %q is %v", resp.Header.Get("Content-Type"), format)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]dto.MetricType{
		"kopf_handler_attempts_total": dto.MetricType_COUNTER, "kopf_handler_retries_total": dto.MetricType_COUNTER, "kopf_handler_duration_seconds": dto.MetricType_HISTOGRAM,
		"kopf_watch_events_total": dto.MetricType_COUNTER, "kopf_watch_restarts_total": dto.MetricType_COUNTER, "kopf_watch_streams": dto.MetricType_GAUGE,
		"kopf_objects": dto.MetricType_GAUGE, "kopf_api_requests_total": dto.MetricType_COUNTER, "kopf_queue_depth": dto.MetricType_GAUGE,
		"kopf_background_tasks": dto.MetricType_GAUGE, "kopf_kubernetes_events_total": dto.MetricType_COUNTER, "kopf_logins_total": dto.MetricType_COUNTER,
		"kopf_flapping_total": dto.MetricType_COUNTER, "kopf_peers": dto.MetricType_GAUGE, "kopf_paused": dto.MetricType_GAUGE, "kopf_goroutines": dto.MetricType_GAUGE, "kopf_resident_memory_bytes": dto.MetricType_GAUGE,
		"kopf_handler_running_seconds_max": dto.MetricType_GAUGE, "kopf_handler_last_success_timestamp_seconds": dto.MetricType_GAUGE, "kopf_objects_failed": dto.MetricType_GAUGE,
		"kopf_queue_oldest_seconds": dto.MetricType_GAUGE, "kopf_api_request_duration_seconds": dto.MetricType_HISTOGRAM, "kopf_api_throttled_seconds_total": dto.MetricType_COUNTER,
		"kopf_standby": dto.MetricType_GAUGE, "kopf_build_info": dto.MetricType_GAUGE, "rest_client_requests_total": dto.MetricType_COUNTER,
		"workqueue_adds_total": dto.MetricType_COUNTER, "workqueue_retries_total": dto.MetricType_COUNTER, "workqueue_depth": dto.MetricType_GAUGE,
		"workqueue_queue_duration_seconds": dto.MetricType_HISTOGRAM, "workqueue_work_duration_seconds": dto.MetricType_HISTOGRAM,
		"workqueue_unfinished_work_seconds": dto.MetricType_GAUGE, "workqueue_longest_running_processor_seconds": dto.MetricType_GAUGE,
		"process_cpu_seconds_total": dto.MetricType_COUNTER, "process_resident_memory_bytes": dto.MetricType_GAUGE, "process_start_time_seconds": dto.MetricType_GAUGE,
	}
	for name, want := range types {
		if f := families[name]; f == nil || f.GetType() != want || f.GetHelp() == "" || len(f.GetMetric()) == 0 {
			t.Errorf("%s is %v, want a %s with a help and a value", name, f, want)
		}
		delete(families, name)
	}
	for name := range families {
		t.Errorf("the test does not know the type of %s", name)
	}
}

// TestDebugging checks that only operators that import the profiler link it.
func TestDebugging(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./examples/...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(out, []byte("net/http/pprof")) {
		t.Error(fmt.Sprint("the examples link net/http/pprof:\n", string(out)))
	}
}
