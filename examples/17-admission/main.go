// Command 17-admission shows how to deny operations, to warn of them, and to complete objects, before they are stored. The operator serves the webhooks, and
// registers them with the API server.
package main

import (
	"context"
	"fmt"

	"github.com/kopf-go/kopf"
)

func main() {
	kopf.OnStartup(configure, nil)
	kopf.OnMutate("kopfexamples", complete, &kopf.AdmissionOptions{Operations: []kopf.Operation{kopf.OperationCreate}})
	kopf.OnValidate("kopfexamples", check, nil)
	kopf.OnValidate("kopfexamples", checkStatus, &kopf.AdmissionOptions{Subresource: "status"})
	kopf.Main()
}

// configure serves on this machine. In a cluster, use a WebhookServer with the Service of the operator.
func configure(ctx context.Context, a *kopf.Activity) error {
	if a.Settings.Admission.Server == nil { // a test has set its own
		a.Settings.Admission.Server = &kopf.WebhookServer{Cluster: kopf.ClusterAuto, Addr: "127.0.0.1"}
		a.Settings.Admission.Managed = "auto.kopf.dev"
	}
	return nil
}

func complete(ctx context.Context, a *kopf.Admission) error {
	if !a.Body.Has("spec.duration") {
		a.Patch.Set("spec.duration", "1m")
	}
	return nil
}

func check(ctx context.Context, a *kopf.Admission) error {
	if a.Spec().String("field") == "" {
		a.Warn("The field is empty; soon it will have to be set.")
	}
	if size := a.Spec().Int("size"); size < 0 {
		return kopf.Deny(fmt.Sprintf("the size %d is negative", size), 422)
	}
	return nil
}

func checkStatus(ctx context.Context, a *kopf.Admission) error {
	if ready := a.Status().Int("ready"); ready > a.Spec().Int("size") {
		return kopf.Deny(fmt.Sprintf("more are ready than there are: %d", ready), 422)
	}
	return nil
}
