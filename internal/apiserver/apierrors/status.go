// Package apierrors has the errors of requests, with the messages of kube-apiserver.
package apierrors

import "fmt"

// StatusError is an error with a message of kube-apiserver.
type StatusError struct {
	Code    int            // the HTTP status
	Reason  string         // a reason such as NotFound; it may be empty
	Message string         // for people
	Details map[string]any // nil if there are none
}

// New returns an error. Details may be nil.
func New(code int, reason, message string, details map[string]any) *StatusError {
	return &StatusError{Code: code, Reason: reason, Message: message, Details: details}
}

// Error returns the message.
func (e *StatusError) Error() string { return e.Message }

// Object returns the error as an object of the kind Status, which is the body of the response.
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

// BadRequest refuses a malformed request.
func BadRequest(format string, args ...any) *StatusError {
	return New(400, "BadRequest", fmt.Sprintf(format, args...), nil)
}

// PatchRejected refuses a patch that cannot be applied, with the generic message of kube-apiserver.
func PatchRejected() *StatusError {
	return New(422, "Invalid", "the server rejected our request due to an error in our request", map[string]any{})
}

// Internal reports a failure that is not the client's fault.
func Internal(err error) *StatusError {
	return New(500, "InternalError", "Internal error occurred: "+err.Error(), map[string]any{"causes": []any{map[string]any{"message": err.Error()}}})
}

// Cause returns one of the causes in the details of an error.
func Cause(reason, message, field string) any {
	return map[string]any{"reason": reason, "message": message, "field": field}
}
