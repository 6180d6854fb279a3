package kopf

import (
	"context"
	"fmt"
	"slices"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/kindschema"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file keeps the conditions of objects that reconcile handlers with the option Conditions are for, by the rules of kstatus.

// The conditions that are kept.
const (
	conditionReady       = "Ready"
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"
)

// maxConditionMessage is how long the message of a condition may be: that of metav1.Condition is longer, but all of it is stored on the object.
const maxConditionMessage = 1024

// locate implements [reconcileEngine].
func (engine) locate(ctx context.Context, o *observer, what *resolved, documents map[string][]byte) (warnings []string) {
	for _, rec := range what.reconciles {
		if !rec.handler.reconcile.conditions {
			continue
		}
		r := what.resource
		o.lostField(ctx, r, nil, documents) // which reads the document
		document := documents[schemaPath(r)]
		keeps, known := kindschema.Keeps(document, r.Group, r.Version, r.Kind, "status", "conditions")
		if rec.conditions = keeps || !known; !rec.conditions {
			warnings = append(warnings, fmt.Sprintf("The status of %s does not keep the field \"conditions\", so the handler %q keeps no conditions. If its definition is yours, add to the properties of its status: "+
				"conditions: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}", r.Name(), rec.handler.id))
		}
		keeps, known = kindschema.Keeps(document, r.Group, r.Version, r.Kind, "status", "observedGeneration")
		rec.generation = rec.conditions && (keeps || !known) && slices.Contains(r.Subresources, "status")
	}
	return warnings
}

// keepConditions adds the conditions of the object to the patch, by how a call has ended.
func (rec *reconciling) keepConditions(arg *Reconcile, desired *desiredSet, out outcome, err error) {
	if !rec.conditions || out.cancelled {
		return
	}
	ready, reconciling, stalled := judgeConditions(desired, out, err)
	for _, c := range []Condition{ready, reconciling, stalled} {
		c.Message = cut.Words(c.Message, maxConditionMessage)
		if slices.Contains(arg.Resource.Subresources, "status") || !hasCondition(arg.Body, c) { // or each write of the status would be another generation to observe
			arg.Patch.SetCondition(c)
		}
	}
	if rec.generation {
		arg.Patch.Set("status.observedGeneration", arg.Body.View("metadata").Int("generation"))
	}
}

// hasCondition reports whether an object has a condition, of whatever generation.
func hasCondition(b *Body, c Condition) (found bool) {
	rawjson.EachItem(b.View("status.conditions").raw, func(one []byte) bool { // what is no list has none
		found = rawjson.StringAt(one, "type") == c.Type && rawjson.StringAt(one, "status") == string(c.Status) &&
			rawjson.StringAt(one, "reason") == c.Reason && rawjson.StringAt(one, "message") == c.Message
		return !found
	})
	return found
}

// judgeConditions returns the conditions by how a call has ended.
func judgeConditions(desired *desiredSet, out outcome, err error) (ready, reconciling, stalled Condition) {
	ready = Condition{Type: conditionReady, Status: ConditionFalse, Reason: "Failed"}
	reconciling = Condition{Type: conditionReconciling, Status: ConditionFalse, Reason: "Succeeded"}
	stalled = Condition{Type: conditionStalled, Status: ConditionFalse, Reason: "Succeeded"}
	switch {
	case err != nil && out.err != nil && out.final:
		ready.Message, stalled.Message = err.Error(), err.Error()
		reconciling.Reason, stalled.Reason, stalled.Status = "Failed", "Failed", ConditionTrue
		return ready, reconciling, stalled
	case out.err != nil:
		ready.Message, reconciling.Message = err.Error(), err.Error()
		reconciling.Reason, reconciling.Status, stalled.Reason = "Retrying", ConditionTrue, "Retrying"
		return ready, reconciling, stalled
	}
	for _, c := range desired.wanted {
		if c.state.ready {
			continue
		}
		message := fmt.Sprintf("%s %s: %s", c.ref.Kind, c.ref.Name, c.state.reason)
		ready.Reason, ready.Message = "ChildNotReady", message
		reconciling.Status, reconciling.Reason, reconciling.Message = ConditionTrue, "ChildNotReady", message
		return ready, reconciling, stalled
	}
	ready.Status, ready.Reason = ConditionTrue, "Succeeded"
	return ready, reconciling, stalled
}
