package main

import (
	"context"
	"errors"

	"github.com/kopf-go/kopf"
)

// check asks the service for the state of the database, and reports it in a condition.
func (h *handlers) check(ctx context.Context, t *kopf.Timer, db *Database) error {
	health := kopf.Condition{Type: "Healthy", Status: kopf.ConditionTrue, Reason: "Answered"}
	instance, err := h.service.Get(ctx, db.UID)
	switch {
	case errors.Is(err, errNotFound):
		health.Status, health.Reason, health.Message = kopf.ConditionFalse, "Missing", "the service does not have the database"
		h.missing.Trigger(t.Body.Reference())
	case err != nil:
		health.Status, health.Reason, health.Message = kopf.ConditionUnknown, "ServiceUnavailable", "the service does not answer"
	case instance.State != stateReady:
		health.Status, health.Reason, health.Message = kopf.ConditionFalse, "NotReady", "the database is in the state "+instance.State
	}
	t.Patch.SetCondition(health)
	return nil
}
