package types

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/quantity"
	"github.com/kopf-go/kopf/internal/apiserver/schema"
)

// DecodeError returns the error of kube-apiserver for a value that cannot be decoded into the Go type owner, "" if it can. It replaces nulls by empty
// strings for strings.
func DecodeError(s *schema.Schema, v any, owner string) string {
	return goValueError(s, v, owner, "").String()
}

// decodingError is the reason why a value cannot be decoded into a Go type of kube-apiserver.
type decodingError struct {
	text               string // the whole message, if it has no fixed form
	word, owner, typed string // the kind of the value, the type that contains it, and the expected type
	path               string
}

func (e *decodingError) String() string {
	switch {
	case e == nil:
		return ""
	case e.text != "":
		return e.text
	}
	return fmt.Sprintf("json: cannot unmarshal %s into Go struct field %s.%s of type %s", e.word, e.owner, e.path, e.typed)
}

// goValueError returns the reason why a value called name in the type owner cannot be decoded, nil if it can.
func goValueError(s *schema.Schema, v any, owner, name string) *decodingError {
	switch {
	case s.Format == "quantity":
		return badQuantity(v)
	case v == nil || s.PreserveUnknown:
		return nil
	case s.IntOrString:
		return badIntOrString(s, v, owner, name)
	}
	switch s.Type {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			return newGoTypeError(s, v, owner, name)
		}
		if s.Additional == nil {
			owner = s.Builtin.Name
		}
		return goFieldsError(s, m, owner, name)
	case "array":
		list, ok := v.([]any)
		if !ok {
			return newGoTypeError(s, v, owner, name)
		}
		for i, e := range list {
			if e == nil && s.Items.Type == "string" {
				list[i] = ""
			}
			if why := goValueError(s.Items, e, owner, name); why != nil {
				return why
			}
		}
	default:
		if typ := schema.TypeOf(v); typ != s.Type && (s.Type != "number" || typ != "integer") {
			return newGoTypeError(s, v, owner, name)
		}
		if number, ok := v.(json.Number); ok && s.Type == "integer" && !fitsInteger(s.Format, number) {
			return newGoTypeError(s, v, owner, name)
		}
		if text, ok := v.(string); ok {
			return badText(s.Format, text)
		}
	}
	return nil
}

// goFieldsError returns the error of the first invalid key, in order.
func goFieldsError(s *schema.Schema, m map[string]any, owner, name string) *decodingError {
	var found *decodingError
	var first string
	for key, v := range m {
		inner, inside := s.Additional, name
		if inner == nil {
			if inner = s.Properties[key]; inner == nil {
				continue
			}
			inside = key
		}
		if v == nil && s.Additional != nil && inner.Type == "string" {
			m[key] = ""
		}
		why := goValueError(inner, v, owner, inside)
		if why == nil || found != nil && key > first {
			continue
		}
		if s.Additional == nil {
			why.path = strings.TrimSuffix(key+"."+why.path, ".")
		}
		first, found = key, why
	}
	return found
}

func newGoTypeError(s *schema.Schema, v any, owner, name string) *decodingError {
	word := schema.TypeOf(v)
	switch word {
	case "integer":
		word = "number"
		fallthrough
	case "number":
		if s.Type == "integer" {
			word += fmt.Sprint(" ", v)
		}
	case "boolean":
		word = "bool"
	}
	if s.Format == "date-time" {
		return &decodingError{text: "json: cannot unmarshal " + word + " into Go value of type string"}
	}
	return &decodingError{word: word, owner: owner, typed: goType(s, name)}
}

// fitsInteger reports whether a number can be decoded into an integer.
func fitsInteger(format string, number json.Number) bool {
	bits := 64
	if format == "int32" {
		bits = 32
	}
	_, err := strconv.ParseInt(number.String(), 10, bits)
	return err == nil
}

// badQuantity returns the reason why a value is no amount, nil if it is one.
func badQuantity(v any) *decodingError {
	switch v.(type) {
	case nil:
		return nil
	case string, json.Number:
		if _, err := quantity.Parse(quantityText(v)); err != nil {
			return &decodingError{text: err.Error()}
		}
		return nil
	}
	return &decodingError{text: quantity.ErrFormat.Error()}
}

// badIntOrString returns the reason why a value is neither a string nor an integer of 32 bits, nil if it is one.
func badIntOrString(s *schema.Schema, v any, owner, name string) *decodingError {
	if _, ok := v.(string); ok {
		return nil
	}
	return goValueError(&schema.Schema{Type: "integer", Format: "int32"}, v, owner, name)
}

// badText returns the reason why a text does not have a format, nil if it does.
func badText(format, text string) *decodingError {
	var err error
	switch format {
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	case "micro-time":
		_, err = time.Parse(microTime, text)
	case "byte":
		_, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil {
		return &decodingError{text: err.Error()}
	}
	return nil
}

// goType returns the Go type of a field for the errors of kube-apiserver.
func goType(s *schema.Schema, field string) string {
	switch {
	case field == "uid":
		return "types.UID"
	case s.Type == "array":
		return "[]" + goType(s.Items, "")
	case s.Type == "object" && s.Additional != nil && s.Additional.Format == "quantity":
		return "v1.ResourceList"
	case s.Type == "object" && s.Additional != nil:
		return "map[string]" + goType(s.Additional, "")
	case s.Type == "object":
		return s.Builtin.Package + "." + s.Builtin.Name
	case s.Type == "integer":
		return s.Format
	case s.Type == "number":
		return "float64"
	case s.Type == "boolean":
		return "bool"
	case s.Format == "byte":
		return "[]uint8"
	}
	return "string"
}
