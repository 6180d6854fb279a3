package main

import (
	"time"

	"github.com/kopf-go/kopf"
)

// handlers are the functions that kopf calls, with the values that they share.
type handlers struct {
	service *Service
	missing kopf.Source                // calls reconcile for databases that the service has lost
	usage   *kopf.Index[string, usage] // of all databases, by their namespaces
}

// register adds the handlers to a registry. The operator and its tests call it with services of their own.
func register(r *kopf.Registry, service *Service) {
	h := &handlers{service: service}
	h.usage = kopf.OnIndexIn(r, databases.Selector(), kopf.TypedIndex(byNamespace), nil)
	r.OnStartup(configure, nil)
	r.OnReconcile(databases.Selector(), kopf.Typed(h.reconcile), &kopf.ReconcileOptions{
		Owns:       []kopf.Selector{"secrets"},
		Conditions: true,
		Sources:    []*kopf.Source{&h.missing},
	})
	r.OnDelete(databases.Selector(), h.remove, &kopf.ChangeOptions{Backoff: 10 * time.Second})
	r.OnTimer(databases.Selector(), kopf.Typed(h.check), &kopf.TimerOptions{InitialDelay: 10 * time.Second, Interval: 10 * time.Second})
	r.OnValidate(databases.Selector(), kopf.Typed(h.validate), &kopf.AdmissionOptions{
		Operations: []kopf.Operation{kopf.OperationCreate, kopf.OperationUpdate},
	})
}
