package main

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

// The in-memory API server calls the handlers like a real one, without a network and certificates.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kopf.NewAPIServer(nil)
		definition, err := os.ReadFile("../crd.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Apply(definition); err != nil {
			t.Fatal(err)
		}
		registry := new(kopf.Registry)
		registry.OnMutate("kopfexamples", complete, nil)
		registry.OnValidate("kopfexamples", check, nil)
		settings := kopf.NewSettings()
		settings.Admission = kopf.AdmissionSettings{Server: server.AdmissionServer(), Managed: "test.kopf.dev"}
		kopf.NewRunner(t, &kopf.Operator{Registry: registry, Settings: settings, Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}, nil)
		time.Sleep(time.Second) // until the configurations exist

		client, err := kopf.NewClient(server.ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		object := func(size int) map[string]any {
			return map[string]any{
				"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": "a", "namespace": "default"},
				"spec": map[string]any{"field": "value", "size": size},
			}
		}
		bad := object(-1)
		if err := client.Create(t.Context(), bad, nil); kopf.StatusCode(err) != 422 || !strings.Contains(err.Error(), "the size -1 is negative") {
			t.Errorf("a bad one: %v", err)
		}
		good := object(1)
		if err := client.Create(t.Context(), good, nil); err != nil {
			t.Fatal(err)
		}
		if duration := good["spec"].(map[string]any)["duration"]; duration != "1m" {
			t.Errorf("the duration is %v, want what was completed", duration)
		}
	})
}
