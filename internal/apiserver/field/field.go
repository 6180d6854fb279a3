// Package field has the errors of fields of objects, with the messages of kube-apiserver.
package field

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Error is the error in one field of an object.
type Error struct {
	Reason string // such as [ReasonInvalid]
	Path   string // of the field
	Detail string // the error, "" if the reason is sufficient
	Value  any    // of the field
}

// Message returns the error with the wording of kube-apiserver.
func (e Error) Message() string {
	what, shown := "Invalid value", true
	switch e.Reason {
	case ReasonRequired:
		what, shown = "Required value", false
	case ReasonForbidden:
		what, shown = "Forbidden", false
	case ReasonTooLong:
		what, shown = "Too long", false
	case ReasonTooMany:
		what = "Too many"
	case ReasonNotSupported:
		what = "Unsupported value"
	case ReasonDuplicate:
		what = "Duplicate value"
	case ReasonNotFound:
		what = "Not found"
	}
	if _, omitted := e.Value.(Omitted); omitted {
		shown = false
	}
	text := e.Path + ": " + what
	if shown {
		text += ": " + shownValue(e.Value)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// shownValue formats a value for messages.
func shownValue(value any) string {
	if text, ok := value.(string); ok {
		return strconv.Quote(text)
	}
	if raw, ok := value.(json.RawMessage); ok {
		return string(raw)
	}
	data, err := rawjson.Encode(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}

// The reasons of errors, as in the causes of a response.
const (
	ReasonInvalid      = "FieldValueInvalid"
	ReasonTypeInvalid  = "FieldValueTypeInvalid"
	ReasonRequired     = "FieldValueRequired"
	ReasonForbidden    = "FieldValueForbidden"
	ReasonNotSupported = "FieldValueNotSupported"
	ReasonDuplicate    = "FieldValueDuplicate"
	ReasonNotFound     = "FieldValueNotFound"
	ReasonTooLong      = "FieldValueTooLong"
	ReasonTooMany      = "FieldValueTooMany"
)

// Omitted is the value of an error whose message does not contain it.
type Omitted struct{}

// NotFound is the error of a reference to a missing object.
func NotFound(path string, value any) Error {
	return Error{Reason: ReasonNotFound, Path: path, Value: value}
}

// Invalid is the error of a value that the field does not allow.
func Invalid(path string, value any, detail string) Error {
	return Error{Reason: ReasonInvalid, Path: path, Value: value, Detail: detail}
}

// Required is the error of a missing value.
func Required(path, detail string) Error {
	return Error{Reason: ReasonRequired, Path: path, Detail: detail}
}

// Forbidden is the error of a value that must not be set or changed.
func Forbidden(path, detail string) Error {
	return Error{Reason: ReasonForbidden, Path: path, Detail: detail}
}

// NotSupported is the error of a value that is not in the list of supported ones.
func NotSupported(path string, value any, detail string) Error {
	return Error{Reason: ReasonNotSupported, Path: path, Value: value, Detail: detail}
}

// Duplicate is the error of a value that must occur only once.
func Duplicate(path string, value any) Error {
	return Error{Reason: ReasonDuplicate, Path: path, Value: value}
}

// TooLong is the error of a value that is too large.
func TooLong(path string, value any, detail string) Error {
	return Error{Reason: ReasonTooLong, Path: path, Value: value, Detail: detail}
}

// TooMany is the error of a list or a map with n items, more than the maximum.
func TooMany(path string, n, most int) Error {
	return Error{Reason: ReasonTooMany, Path: path, Value: json.Number(strconv.Itoa(n)), Detail: "must have at most " + Count(most, "item")}
}

// Count returns a number with a noun, in the plural unless the number is 1.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
