package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kopf-go/kopf"
)

// This file is the reconcile handler: a garden wants a config map for each of its plants.

// gardens has a fixed version, while the preferred version of its group changes with the widgets.
const gardens = "gardens.v1.chaos.example.com"

// The backoffs. A child with another controller is an error as long as it has that.
const (
	minPause = 300 * time.Millisecond
	maxPause = 2 * time.Second
)

// registerGardens registers the handlers for runs in which other clients change the children.
func (o *operator) registerGardens() {
	if o.has("children") {
		kopf.OnReconcile(gardens, o.garden, &kopf.ReconcileOptions{ID: "garden", Owns: []kopf.Selector{"configmaps"}, Backoff: minPause, MaxBackoff: maxPause})
	}
}

func (o *operator) garden(ctx context.Context, r *kopf.Reconcile) error {
	plants := r.Spec().Strings("plants")
	if len(plants) == 0 {
		r.NoChildren()
	}
	for _, plant := range plants {
		r.Desired(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": r.Name() + "-" + plant, "labels": map[string]any{"garden": r.Name()}},
			"data":     map[string]any{"value": fmt.Sprint(r.Spec().Int("value"))}}, nil)
	}
	outcome := o.fate("garden", r.UID(), r.Spec().Int("value"), r.Retry)
	if outcome == failsForGood { // otherwise nothing would reach the desired state until the next change
		outcome = failsSomehow
	}
	return meet(ctx, outcome)
}
