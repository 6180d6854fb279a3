package kstatus

import (
	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/manifest"
)

// maxMessage is the maximum length of a condition message. That of metav1.Condition is longer, but the message is stored on the object.
const maxMessage = 1024

// Conditions returns the conditions Ready, Reconciling and Stalled of an object after a reconciliation, which returned an error or nil. A final error has no
// retry. Without an error, the object may be waiting for a child.
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
