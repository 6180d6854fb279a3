package kstatus

import (
	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/manifest"
)

// maxMessage is how long the message of a condition may be: that of metav1.Condition is longer, but all of it is stored on the object.
const maxMessage = 1024

// Conditions returns the conditions Ready, Reconciling and Stalled of an object whose reconciliation has ended with an error, which is final if there is no other attempt, or with nil. The
// object then waits for a child, or for nothing if that is empty.
func Conditions(failure error, final bool, waiting string) []manifest.Condition {
	ready := manifest.Condition{Type: "Ready", Status: "False", Reason: "Failed"}
	reconciling := manifest.Condition{Type: "Reconciling", Status: "False", Reason: "Succeeded"}
	stalled := manifest.Condition{Type: "Stalled", Status: "False", Reason: "Succeeded"}
	switch {
	case failure != nil && final:
		ready.Message = cut.Words(failure.Error(), maxMessage)
		reconciling.Reason = "Failed"
		stalled.Status, stalled.Reason, stalled.Message = "True", "Failed", ready.Message
	case failure != nil:
		ready.Message = cut.Words(failure.Error(), maxMessage)
		reconciling.Status, reconciling.Reason, reconciling.Message = "True", "Retrying", ready.Message
		stalled.Reason = "Retrying"
	case waiting != "":
		ready.Reason, ready.Message = "ChildNotReady", cut.Words(waiting, maxMessage)
		reconciling.Status, reconciling.Reason, reconciling.Message = "True", ready.Reason, ready.Message
	default:
		ready.Status, ready.Reason = "True", "Succeeded"
	}
	return []manifest.Condition{ready, reconciling, stalled}
}
