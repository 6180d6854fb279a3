package main

import (
	"context"
	"os"
	"time"

	"github.com/kopf-go/kopf"
)

// configure serves the webhooks: in a pod behind a Service, elsewhere on this machine.
func configure(ctx context.Context, a *kopf.Activity) error {
	a.Settings.Queueing.ExitTimeout = 20 * time.Second // of the 30 that a pod has to end
	switch {
	case a.Settings.Admission.Server != nil: // a test has set its own
		return nil
	case os.Getenv("KUBERNETES_SERVICE_HOST") != "":
		a.Settings.Admission.Server = &kopf.WebhookServer{Port: 9443, Service: &kopf.ServiceReference{Name: "databases"}}
	default:
		a.Settings.Admission.Server = &kopf.WebhookServer{Cluster: kopf.ClusterAuto, Addr: "127.0.0.1"}
	}
	a.Settings.Admission.Managed = "databases.example.com"
	return nil
}
