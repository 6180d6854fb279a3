// Package field has the errors of fields of objects, in the words of kube-apiserver.
package field

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Error is one thing that is wrong with an object.
type Error struct {
	Reason string // such as [ReasonInvalid]
	Path   string // of the field
	Detail string // what is wrong, "" if the reason says it
	Value  any    // of the field
}

// Message returns the error in the words of kube-apiserver.
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

// shownValue returns a value as messages have it.
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

// The reasons of errors, as they stand in the causes of a refusal.
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

// Omitted is the value of an error that does not show it.
type Omitted struct{}

// NotFound is the error of a reference to what is not there.
func NotFound(path string, value any) Error {
	return Error{Reason: ReasonNotFound, Path: path, Value: value}
}

// Invalid is the error of a value that the field cannot have.
func Invalid(path string, value any, detail string) Error {
	return Error{Reason: ReasonInvalid, Path: path, Value: value, Detail: detail}
}

// Required is the error of a value that is missing.
func Required(path, detail string) Error {
	return Error{Reason: ReasonRequired, Path: path, Detail: detail}
}

// Forbidden is the error of a value that may not be set or changed.
func Forbidden(path, detail string) Error {
	return Error{Reason: ReasonForbidden, Path: path, Detail: detail}
}

// NotSupported is the error of a value that is none of those that are supported.
func NotSupported(path string, value any, detail string) Error {
	return Error{Reason: ReasonNotSupported, Path: path, Value: value, Detail: detail}
}

// Duplicate is the error of a value that may be there only once.
func Duplicate(path string, value any) Error {
	return Error{Reason: ReasonDuplicate, Path: path, Value: value}
}

// TooLong is the error of a value that is too large.
func TooLong(path string, value any, detail string) Error {
	return Error{Reason: ReasonTooLong, Path: path, Value: value, Detail: detail}
}

// TooMany is the error of a list or a map of n items that may have fewer.
func TooMany(path string, n, most int) Error {
	return Error{Reason: ReasonTooMany, Path: path, Value: json.Number(strconv.Itoa(n)), Detail: "must have at most " + Count(most, "item")}
}

// Count returns a number with a noun, which has an s unless the number is 1.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
