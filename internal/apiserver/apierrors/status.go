// Package apierrors has the refusals of requests, in the words of kube-apiserver.
package apierrors

import "fmt"

// StatusError is a refusal, as kube-apiserver words it.
type StatusError struct {
	Code    int            // of HTTP
	Reason  string         // such as NotFound; it may be empty
	Message string         // for people
	Details map[string]any // nil if there are none
}

// New returns a refusal. Details may be nil.
func New(code int, reason, message string, details map[string]any) *StatusError {
	return &StatusError{Code: code, Reason: reason, Message: message, Details: details}
}

// Error returns the message.
func (e *StatusError) Error() string { return e.Message }

// Object returns the refusal as the object of the kind Status that is sent.
func (e *StatusError) Object() map[string]any {
	s := map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": e.Message, "reason": e.Reason, "code": e.Code,
	}
	if e.Reason == "" {
		delete(s, "reason")
	}
	if e.Details != nil {
		s["details"] = e.Details
	}
	return s
}

// BadRequest refuses a request that cannot be understood.
func BadRequest(format string, args ...any) *StatusError {
	return New(400, "BadRequest", fmt.Sprintf(format, args...), nil)
}

// PatchRejected refuses a patch that cannot be applied, in the general words that kube-apiserver
// has for it.
func PatchRejected() *StatusError {
	return New(422, "Invalid", "the server rejected our request due to an error in our request", map[string]any{})
}

// Internal reports a failure that is not the client's fault.
func Internal(err error) *StatusError {
	return New(500, "InternalError", "Internal error occurred: "+err.Error(), map[string]any{"causes": []any{map[string]any{"message": err.Error()}}})
}

// Cause returns one of the causes in the details of a refusal.
func Cause(reason, message, field string) any {
	return map[string]any{"reason": reason, "message": message, "field": field}
}
