package kopf

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/safecall"
)

// This file holds the errors by which handlers decide about their retries, and
// those that the framework makes in their place. They are data: nothing here
// logs, sleeps or retries.

const (
	// DefaultRetryDelay is the delay after a temporary error that has none of its own: one minute.
	DefaultRetryDelay = time.Minute
	// Immediately is the delay of a temporary error for an attempt as soon as possible.
	Immediately time.Duration = -1
)

// TemporaryError tells that a handler has failed for now, and is to be called
// again after Delay. It is made by [Temporary] and found by [errors.As].
type TemporaryError struct {
	Err   error         // what went wrong; nil if the handler just waits
	Delay time.Duration // the pause before the next attempt; zero means [DefaultRetryDelay], negative none
}

// Temporary returns err as a [TemporaryError] with the given delay. Zero means [DefaultRetryDelay], and [Immediately] no
// delay; attempts that follow each other without one are slowed down after [ExecutionSettings.QuickRetries].
func Temporary(err error, delay time.Duration) error {
	return &TemporaryError{Err: err, Delay: delay}
}

// Error returns the text of the wrapped error.
func (e *TemporaryError) Error() string { return safecall.ErrorText(e.Err, "temporary error") }

// Unwrap returns the wrapped error.
func (e *TemporaryError) Unwrap() error { return e.Err }

// PermanentError tells that a handler has failed permanently: it is not called
// again for this change of the object. A timer is called again when the object changes, a daemon never.
// It is made by [Permanent] and found by [errors.As].
type PermanentError struct {
	Err error // what went wrong
}

// Permanent returns err as a [PermanentError].
func Permanent(err error) error { return &PermanentError{Err: err} }

// Error returns the text of the wrapped error.
func (e *PermanentError) Error() string { return safecall.ErrorText(e.Err, "permanent error") }

// Unwrap returns the wrapped error.
func (e *PermanentError) Unwrap() error { return e.Err }

// HandlerTimeoutError is the failure of a handler whose total time, over all its
// attempts, has reached its Timeout option. It is a kind of [PermanentError].
type HandlerTimeoutError struct {
	ID      HandlerID     // the handler
	Runtime time.Duration // the time since its first attempt became possible
	Err     error         // the error of the last attempt, if there was one
}

// Error tells the handler and its runtime.
func (e *HandlerTimeoutError) Error() string {
	return fmt.Sprintf("handler %q is out of time after %s", e.ID, e.Runtime)
}

// Unwrap returns the error of the last attempt.
func (e *HandlerTimeoutError) Unwrap() error { return e.Err }

// As makes errors.As find a [PermanentError] in it.
func (e *HandlerTimeoutError) As(target any) bool { return asPermanent(e, target) }

// HandlerRetriesError is the failure of a handler that has used up the attempts
// of its Retries option. It is a kind of [PermanentError].
type HandlerRetriesError struct {
	ID      HandlerID // the handler
	Retries int       // the attempts that were made
	Err     error     // the error of the last attempt, if there was one
}

// Error tells the handler and the number of its attempts.
func (e *HandlerRetriesError) Error() string {
	return fmt.Sprintf("handler %q has used up its %d attempts", e.ID, e.Retries)
}

// Unwrap returns the error of the last attempt.
func (e *HandlerRetriesError) Unwrap() error { return e.Err }

// As makes errors.As find a [PermanentError] in it.
func (e *HandlerRetriesError) As(target any) bool { return asPermanent(e, target) }

// ErrSuperseded is the cause, as of [context.Cause], for which the context of an Interruptible handler has ended: the object was deleted or
// changed while the handler was running.
var ErrSuperseded = errors.New("the object was changed or deleted meanwhile")

// LoginError tells that no usable credentials for the API server were found, or that it refused
// all of them, and what was looked for and where.
type LoginError struct {
	Message string // what was looked for, and where
	Err     error  // the cause, if there is one
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

// ErrorsMode says what becomes of a handler whose error is neither temporary nor permanent. Zero means the default.
type ErrorsMode int

const (
	// ErrorsTemporary calls the handler again after its Backoff. It is the default for all but handlers of raw events and
	// indices.
	ErrorsTemporary ErrorsMode = iota + 1
	// ErrorsPermanent fails the handler permanently.
	ErrorsPermanent
	// ErrorsIgnored takes the error for a success.
	ErrorsIgnored
)

// ReviewError tells that a review cannot be answered because of what it is. The API server then obeys the failure policy of the webhook.
type ReviewError struct {
	Code    int    // the status of the HTTP response, such as 404
	Message string // what is wrong, in plain text
}

// Error returns the message.
func (e *ReviewError) Error() string { return e.Message }

// APIError is a refusal by the API server.
type APIError struct {
	Code       int           // of HTTP
	Reason     string        // a word for programs, such as "NotFound"
	Message    string        // a sentence for people
	Causes     []ErrorCause  // what is wrong with which field
	RetryAfter time.Duration // how long the server wants us to wait, at most 10 minutes; zero if it said nothing
	Method     string        // of the request
	Path       string        // of the request
	Header     http.Header   // of the answer; nil if the error came as an event of a watch
	Name       string        // of the object that the refusal is about; may be empty
}

// ErrorCause is one thing that the API server, or an admission webhook, has found to be wrong with an object.
type ErrorCause struct {
	Reason  string `json:"reason,omitempty"`  // one word, such as "FieldValueInvalid"; the Type of a metav1.StatusCause
	Message string `json:"message,omitempty"` // what is wrong, to be read
	Field   string `json:"field,omitempty"`   // the path of the field, such as "spec.size"; may be empty
}

// Error tells the request and the answer.
func (e *APIError) Error() string {
	return fmt.Sprintf("%s %s: %d %s: %s", e.Method, e.Path, e.Code, e.Reason, e.Message)
}

// StatusCode returns the HTTP code of the [APIError] in err's chain, 0 if there is none.
//
//go:noinline
func StatusCode(err error) int {
	if e := (*APIError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// IgnoreNotFound returns nil for an error that says that an object does not exist, such as that of a deletion, and else the error.
func IgnoreNotFound(err error) error {
	if StatusCode(err) == http.StatusNotFound {
		return nil
	}
	return err
}

// IgnoreAlreadyExists returns nil for an error that says that an object exists already, such as that of a creation, and else the error.
func IgnoreAlreadyExists(err error) error {
	if e := (*APIError)(nil); errors.As(err, &e) && e.Code == http.StatusConflict && e.Reason == "AlreadyExists" {
		return nil
	}
	return err
}

// denied reports whether an admission webhook or a policy has refused the request, both of which choose the code as they like.
func (e *APIError) denied() bool { return apirequest.IsDenial(e.Message) }

// AdmissionError denies an operation with a code. It is made by [Deny] and found by [errors.As].
type AdmissionError struct {
	Message string       // what the user reads
	Code    int          // the status of the HTTP response to the user, from 400 to 599; zero means 500
	Causes  []ErrorCause // what is wrong with which field, for programs; may be empty
}

// Deny returns an [AdmissionError], with any causes. Zero means the code 500. Other codes below 400 or above 599 are refused: API servers do not pass them on, and the
// error that is returned instead says so, and denies as well.
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
