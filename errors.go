package kopf

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/safecall"
)

// The special delays of [Temporary].
const (
	// DefaultRetryDelay is the delay after a temporary error with a zero delay: one minute.
	DefaultRetryDelay = time.Minute
	// Immediately is the delay of a temporary error that requests a retry as soon as possible.
	Immediately time.Duration = -1
)

// TemporaryError means that a handler has failed for now. kopf retries it after the Delay. [Temporary] creates it, and [errors.As] finds it.
type TemporaryError struct {
	Err   error         // the cause, nil if the handler only waits
	Delay time.Duration // the delay before the next attempt, zero means [DefaultRetryDelay], negative means none
}

// Temporary returns err as a [TemporaryError] with the given delay. Zero means [DefaultRetryDelay], and [Immediately] means no delay. kopf throttles
// retries without a delay after [ExecutionSettings.QuickRetries] attempts.
func Temporary(err error, delay time.Duration) error {
	return &TemporaryError{Err: err, Delay: delay}
}

// Error returns the text of the wrapped error.
func (e *TemporaryError) Error() string { return safecall.ErrorText(e.Err, "temporary error") }

// Unwrap returns the wrapped error.
func (e *TemporaryError) Unwrap() error { return e.Err }

// PermanentError means that a handler has failed permanently. kopf does not call it again for this change of the object. It calls a timer again when the
// object changes, and a daemon never. [Permanent] creates it, and [errors.As] finds it.
type PermanentError struct {
	Err error // the cause
}

// Permanent returns err as a [PermanentError].
func Permanent(err error) error { return &PermanentError{Err: err} }

// Error returns the text of the wrapped error.
func (e *PermanentError) Error() string { return safecall.ErrorText(e.Err, "permanent error") }

// Unwrap returns the wrapped error.
func (e *PermanentError) Unwrap() error { return e.Err }

// HandlerTimeoutError means that all attempts of a handler together have exceeded its Timeout option, or would do so with the next attempt. It is also a
// [PermanentError].
type HandlerTimeoutError struct {
	ID      HandlerID     // the handler
	Runtime time.Duration // the time since the first attempt was due
	Timeout time.Duration // the option
	Delay   time.Duration // before the next attempt, which would have been too late; 0 for none
	Err     error         // the error of the last attempt, nil if there was none
}

// Error returns a text with the handler and its runtime.
func (e *HandlerTimeoutError) Error() string {
	text := fmt.Sprintf("handler %q is out of time after %s", e.ID, e.Runtime)
	if e.Runtime >= e.Timeout {
		return text
	}
	return fmt.Sprintf("%s, because the next attempt in %s would exceed its Timeout of %s", text, e.Delay, e.Timeout)
}

// Unwrap returns the error of the last attempt.
func (e *HandlerTimeoutError) Unwrap() error { return e.Err }

// As makes [errors.As] find a [PermanentError] in it.
func (e *HandlerTimeoutError) As(target any) bool { return asPermanent(e, target) }

// HandlerRetriesError means that a handler has used up the attempts of its Retries option. It is also a [PermanentError].
type HandlerRetriesError struct {
	ID      HandlerID // the handler
	Retries int       // the number of attempts
	Err     error     // the error of the last attempt, nil if there was none
}

// Error returns a text with the handler and the number of its attempts.
func (e *HandlerRetriesError) Error() string {
	return fmt.Sprintf("handler %q has used up its %d attempts", e.ID, e.Retries)
}

// Unwrap returns the error of the last attempt.
func (e *HandlerRetriesError) Unwrap() error { return e.Err }

// As makes [errors.As] find a [PermanentError] in it.
func (e *HandlerRetriesError) As(target any) bool { return asPermanent(e, target) }

// ErrSuperseded is the cause of the canceled context of an Interruptible handler. [context.Cause] returns it after the object was deleted or changed
// during the call.
var ErrSuperseded = errors.New("the object was changed or deleted meanwhile")

// LoginError means that kopf has found no credentials for the API server, or that the API server has rejected all of them.
type LoginError struct {
	Message string // the credentials that kopf looked for, and the places
	Err     error  // the cause, nil if there is none
}

// Error returns the message with its cause.
func (e *LoginError) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *LoginError) Unwrap() error { return e.Err }

func asPermanent(err error, target any) bool {
	p, ok := target.(**PermanentError)
	if ok {
		*p = &PermanentError{Err: err}
	}
	return ok
}

// ErrorsMode is the treatment of errors that are neither temporary nor permanent. Zero means the default.
type ErrorsMode int

const (
	// ErrorsTemporary retries the handler after its Backoff. It is the default for all handlers except event handlers and indices.
	ErrorsTemporary ErrorsMode = iota + 1
	// ErrorsPermanent fails the handler permanently.
	ErrorsPermanent
	// ErrorsIgnored counts the error as a success.
	ErrorsIgnored
)

// ReviewError means that kopf cannot answer an admission review because the review is invalid. The API server then follows the failure policy of the
// webhook.
type ReviewError struct {
	Code    int    // the HTTP status code of the response, such as 404
	Message string // the problem, in plain text
}

// Error returns the message.
func (e *ReviewError) Error() string { return e.Message }

// APIError is an error response of the API server.
type APIError struct {
	Code       int           // the HTTP status code
	Reason     string        // the reason for programs, such as "NotFound"
	Message    string        // the message for people
	Causes     []ErrorCause  // the invalid fields
	RetryAfter time.Duration // the delay that the server requests, at most 10 minutes, zero if there is none
	Method     string        // the HTTP method of the request
	Path       string        // the path of the request
	Header     http.Header   // the header of the response, nil if the error came as a watch event
	Name       string        // the name of the object that the server rejects, may be empty
}

// ErrorCause is one problem of an object that the API server or an admission webhook has found.
type ErrorCause struct {
	Reason  string `json:"reason,omitempty"`  // a word such as "FieldValueInvalid", the Type of a metav1.StatusCause
	Message string `json:"message,omitempty"` // the problem, for people
	Field   string `json:"field,omitempty"`   // the path of the field, such as "spec.size", may be empty
}

// Error returns a text with the request and the response.
func (e *APIError) Error() string {
	return fmt.Sprintf("%s %s: %d %s: %s", e.Method, e.Path, e.Code, e.Reason, e.Message)
}

// StatusCode returns the HTTP status code of the [APIError] in err's chain, or 0 if there is none.
//
//go:noinline
func StatusCode(err error) int {
	if e := (*APIError)(nil); errtype.As(err, &e) {
		return e.Code
	}
	return 0
}

// IgnoreNotFound returns nil if err means that an object does not exist, for example after Delete. Otherwise it returns err.
func IgnoreNotFound(err error) error {
	if StatusCode(err) == http.StatusNotFound {
		return nil
	}
	return err
}

// Unchanged is the error of a reconcile handler that has succeeded without declaring all its
// children: kopf leaves all of them as they are, and neither applies nor deletes any. Return it,
// for example, while a value that the children need does not exist yet. kopf does not retry.
// Joined with another error, or inside of a temporary or permanent one, it counts as that error.
var Unchanged error = unchangedError{}

type unchangedError struct{}

func (unchangedError) Error() string {
	return "kopf.Unchanged, which only reconcile handlers may return"
}

// isUnchanged reports whether an error is [Unchanged], or wraps nothing else. A joined, temporary or
// permanent error asks for more than that.
func isUnchanged(err error) bool {
	for err != nil && err != Unchanged {
		switch err.(type) {
		case *TemporaryError, *PermanentError:
			return false
		}
		err = errors.Unwrap(err)
	}
	return err != nil
}

// IgnoreAlreadyExists returns nil if err means that an object already exists, for example after Create. Otherwise it returns err.
func IgnoreAlreadyExists(err error) error {
	if e := (*APIError)(nil); errtype.As(err, &e) && e.Code == http.StatusConflict && e.Reason == "AlreadyExists" {
		return nil
	}
	return err
}

// denied reports whether an admission webhook or a policy has refused the request. Both can use any code.
func (e *APIError) denied() bool { return apirequest.IsDenial(e.Message) }

// AdmissionError denies an operation with a code. [Deny] creates it, and [errors.As] finds it.
type AdmissionError struct {
	Message string       // the message for the user
	Code    int          // the HTTP status code for the user, from 400 to 599, zero means 500
	Causes  []ErrorCause // the invalid fields, for programs, may be empty
}

// Deny returns an [AdmissionError] with an HTTP status code and any causes. Zero means the code 500. For other codes below 400 or above 599, which API
// servers do not pass on, Deny returns a different error, which names the invalid code and also denies the operation.
func Deny(message string, code int, causes ...ErrorCause) error {
	if code != 0 && (code < 400 || code > 599) {
		return fmt.Errorf("invalid code %d of a denial: want 400 to 599 (%s)", code, message)
	}
	return &AdmissionError{Message: message, Code: code, Causes: causes}
}

// Error returns the message.
func (e *AdmissionError) Error() string {
	if e.Message == "" {
		return "the operation is denied"
	}
	return e.Message
}
