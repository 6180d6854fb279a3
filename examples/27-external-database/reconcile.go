package main

import (
	"context"
	"errors"
	"time"

	"github.com/kopf-go/kopf"
)

// Secret has the fields of a Secret that the operator sets.
type Secret struct {
	kopf.Meta `json:",inline"`
	Data      map[string][]byte `json:"data"`
}

// reconcile makes the database as the object describes it, and the Secret for its users.
func (h *handlers) reconcile(ctx context.Context, r *kopf.Reconcile, db *Database) error {
	instance, err := h.service.Ensure(ctx, db.UID, db.Spec.Storage)
	if err != nil {
		return err
	}
	db.Status.Phase = instance.State
	if instance.State != stateReady {
		return kopf.Temporary(errors.New("the service is still creating the database"), 2*time.Second)
	}
	db.Status.Address = instance.Address
	r.Desired(&Secret{
		Meta: kopf.Meta{APIVersion: "v1", Kind: "Secret", ObjectMeta: kopf.ObjectMeta{Name: db.Name + "-credentials"}},
		Data: map[string][]byte{"address": []byte(instance.Address), "password": []byte(instance.Password)},
	}, nil)
	return nil
}

// remove deletes the database. kopf calls it before the object goes.
func (h *handlers) remove(ctx context.Context, c *kopf.Change) error {
	return h.service.Delete(ctx, c.UID())
}
