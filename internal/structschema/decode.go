package structschema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// maxShown is the maximum length of a value in an error, in bytes.
const maxShown = 100

// Decode decodes an object into the struct at a pointer, with [json.Number] in interfaces. Names of fields are case-sensitive. Errors name the field, and
// show its value unless conceal is set.
func Decode(raw []byte, pointer any, conceal bool) error {
	raw = rawjson.ExactNames(raw, pointer)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err := d.Decode(pointer)
	if err == nil {
		return nil
	}
	path, value, inner := locate("", raw, reflect.TypeOf(pointer).Elem())
	if inner != nil {
		err = inner
	}
	switch mismatch := (*json.UnmarshalTypeError)(nil); {
	case errtype.As(err, &mismatch) && conceal:
		err = fmt.Errorf("want %s, got something else", mismatch.Type)
	case errtype.As(err, &mismatch):
		err = fmt.Errorf("want %s, got %s", mismatch.Type, shorten(string(bytes.TrimSpace(value))))
	case conceal:
		err = errors.New("invalid value")
	default:
		err = errors.New(shorten(err.Error()))
	}
	if path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// shorten truncates a long text.
func shorten(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + fmt.Sprintf("… (%d bytes)", len(text))
}

// locate returns the path and the bytes of the innermost value that does not fit its type, and the error.
func locate(path string, raw []byte, t reflect.Type) (at string, value []byte, err error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	target := reflect.New(t)
	if err = json.Unmarshal(raw, target.Interface()); err == nil {
		return path, raw, nil
	}
	_, own := target.Interface().(json.Unmarshaler)
	_, text := target.Interface().(encoding.TextUnmarshaler)
	if own || text {
		return path, raw, err
	}
	inner := func(below string, value []byte, t reflect.Type) bool {
		deeper, bad, failure := locate(below, value, t)
		if failure != nil {
			at, raw, err = deeper, bad, failure
		}
		return failure == nil
	}
	at = path
	switch t.Kind() {
	case reflect.Struct:
		fields, _ := fieldsOf(t, 0, place{}) // Of reports invalid fields
		_ = rawjson.EachMember(raw, func(quoted, value []byte) bool {
			name := rawjson.Unquote(quoted)
			for _, f := range fields {
				if strings.EqualFold(f.name, name) && !inner(strings.TrimPrefix(path+"."+f.name, "."), value, f.typ) {
					return false
				}
			}
			return true
		})
	case reflect.Map:
		_ = rawjson.EachMember(raw, func(quoted, value []byte) bool { return inner(path+"."+rawjson.Unquote(quoted), value, t.Elem()) })
	case reflect.Slice, reflect.Array:
		i := -1
		_ = rawjson.EachItem(raw, func(value []byte) bool {
			i++
			return inner(fmt.Sprintf("%s[%d]", path, i), value, t.Elem())
		})
	}
	return at, raw, err
}
