// Package protobuf decodes the Protocol Buffers by which kubectl and client-go send objects of built-in kinds.
//
// See https://protobuf.dev/programming-guides/encoding/ and https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
package protobuf

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// magic is the prefix of the Protocol Buffers of Kubernetes.
const magic = "k8s\x00"

var errMalformed = errors.New("malformed protocol buffers")

// Decode decodes an object in the envelope of Kubernetes. It returns an error if the data is malformed, or if the kind is not built in.
func Decode(data []byte) (map[string]any, error) {
	rest, ok := strings.CutPrefix(string(data), magic)
	if !ok {
		return nil, fmt.Errorf("%w: they do not begin as those of Kubernetes do", errMalformed)
	}
	var apiVersion, kind string
	var raw []byte
	err := eachField([]byte(rest), func(n, _ uint64, value []byte) error {
		switch n {
		case 1:
			return eachField(value, func(n, _ uint64, text []byte) error {
				switch n {
				case 1:
					apiVersion = string(text)
				case 2:
					kind = string(text)
				}
				return nil
			})
		case 2:
			raw = value
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	t := types.OfKind(group, version, kind)
	if t == nil {
		t = types.Named(kind) // all groups have options
	}
	if t == nil || t.Numbered == nil {
		return nil, fmt.Errorf("protocol buffers of the kind %q are not understood here: send JSON", kind)
	}
	object, err := decodeMessage(t.Numbered, raw, 0)
	if err != nil {
		return nil, err
	}
	object["apiVersion"], object["kind"] = apiVersion, kind
	return object, nil
}

// eachField calls visit with the number and the value of each field: a number, or bytes.
func eachField(data []byte, visit func(field, number uint64, value []byte) error) error {
	for len(data) > 0 {
		key, n := varint(data)
		if n == 0 {
			return errMalformed
		}
		data = data[n:]
		var number uint64
		var value []byte
		switch key & 7 {
		case 0:
			if number, n = varint(data); n == 0 {
				return errMalformed
			}
			data = data[n:]
		case 1, 5:
			size := 8
			if key&7 == 5 {
				size = 4
			}
			if len(data) < size {
				return errMalformed
			}
			for i, b := range data[:size] {
				number |= uint64(b) << (8 * i)
			}
			data = data[size:]
		case 2:
			size, n := varint(data)
			if n == 0 || size > uint64(len(data)-n) {
				return errMalformed
			}
			value, data = data[n:n+int(size)], data[n+int(size):]
		default:
			return errMalformed
		}
		if err := visit(key>>3, number, value); err != nil {
			return err
		}
	}
	return nil
}

// varint decodes a number, and returns its length in bytes, 0 if it is malformed.
func varint(data []byte) (v uint64, n int) {
	for i, b := range data {
		if i == 10 {
			return 0, 0
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// maxDepth is the maximum depth of messages. Schemas in CRDs take two for each level.
const maxDepth = 200

// decodeMessage decodes the fields of a message, and skips unknown ones.
func decodeMessage(fields map[uint64]*types.Field, data []byte, depth int) (map[string]any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: they are nested too deep", errMalformed)
	}
	object := make(map[string]any)
	err := eachField(data, func(n, number uint64, value []byte) error {
		f, known := fields[n]
		if !known {
			return nil
		}
		v, err := decodeField(f, number, value, depth)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", f.Name, err)
		case f.Embedded != nil: // its fields belong to the message
			maps.Copy(object, rawjson.AsMap(v))
		case f.List && !f.Map:
			list, _ := object[f.Name].([]any)
			object[f.Name] = append(list, v)
		case f.Map && object[f.Name] != nil:
			maps.Copy(rawjson.AsMap(object[f.Name]), rawjson.AsMap(v))
		case f.Pointer || f.Always || !isZero(v) || f.Ref != nil && !isTime(f):
			object[f.Name] = v
		}
		return nil
	})
	return object, err
}

// isZero reports whether a value is the zero value of a field.
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case json.Number:
		return v == "0"
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// isTime reports whether the field is a time, which is encoded as zero if it is unset.
func isTime(f *types.Field) bool { return f.Type == "Time" || f.Type == "MicroTime" }

// decodeField decodes one value of a field: a number, or bytes.
func decodeField(f *types.Field, number uint64, value []byte, depth int) (any, error) {
	switch {
	case f.Embedded != nil:
		return decodeMessage(f.Embedded, value, depth+1)
	case f.Map:
		return decodeEntry(f, value, depth)
	}
	switch f.Type {
	case "", "string":
		return string(value), nil
	case "bytes":
		return base64.StdEncoding.EncodeToString(value), nil
	case "int", "long":
		return json.Number(strconv.FormatInt(int64(number), 10)), nil
	case "bool":
		return number != 0, nil
	case "number":
		data, err := json.Marshal(math.Float64frombits(number))
		return json.Number(data), err
	case "Time", "MicroTime":
		return decodeTime(f.Type == "MicroTime", value)
	case "Quantity":
		return textOf(value, 1)
	case "IntOrString":
		return decodeIntOrString(value)
	case "JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray":
		return decodeSchemaOr(f.Type, value, depth)
	case "FieldsV1", "RawExtension", "JSON":
		text, err := textOf(value, 1)
		if err != nil || text == "" {
			return nil, err
		}
		return rawjson.Decode([]byte(text))
	}
	return decodeMessage(f.Ref.Numbered, value, depth+1)
}

// decodeEntry decodes one entry of a map. Its value may be a message that contains only a list.
func decodeEntry(f *types.Field, value []byte, depth int) (any, error) {
	decode := decodeList
	if !f.List {
		one := &types.Field{Type: f.Type, Ref: f.Ref}
		decode = func(number uint64, part []byte) (any, error) { return decodeField(one, number, part, depth+1) }
	}
	key := ""
	entry, err := decode(0, nil)
	if err != nil {
		return nil, err
	}
	err = eachField(value, func(n, number uint64, part []byte) (err error) {
		switch n {
		case 1:
			key = string(part)
		case 2:
			entry, err = decode(number, part)
		}
		return err
	})
	return map[string]any{key: entry}, err
}

// decodeList decodes a message that contains only a list of strings.
func decodeList(_ uint64, message []byte) (any, error) {
	list := []any{}
	err := eachField(message, func(n, _ uint64, value []byte) error {
		if n == 1 {
			list = append(list, string(value))
		}
		return nil
	})
	return list, err
}

// decodeSchemaOr decodes a field of a CRD that is a schema or an alternative: a boolean, or a list of schemas or of strings.
func decodeSchemaOr(typ string, message []byte, depth int) (any, error) {
	var schema any
	var list []any
	allows := false
	err := eachField(message, func(n, number uint64, value []byte) (err error) {
		switch {
		case n == 1 && typ == "JSONSchemaPropsOrBool":
			allows = number != 0
		case n == 2 && typ == "JSONSchemaPropsOrStringArray":
			list = append(list, string(value))
		case n <= 2:
			one, err := decodeMessage(types.Named("JSONSchemaProps").Numbered, value, depth+1)
			if err != nil {
				return err
			}
			if n == 2 && typ == "JSONSchemaPropsOrArray" {
				list = append(list, one)
			} else {
				schema = one
			}
		}
		return nil
	})
	switch {
	case len(list) > 0:
		return list, err
	case schema != nil || typ != "JSONSchemaPropsOrBool":
		return schema, err
	}
	return allows, err
}

// textOf returns one string field of a message.
func textOf(message []byte, field uint64) (string, error) {
	text := ""
	err := eachField(message, func(n, _ uint64, value []byte) error {
		if n == field {
			text = string(value)
		}
		return nil
	})
	return text, err
}

// decodeIntOrString decodes a number or a string.
func decodeIntOrString(message []byte) (any, error) {
	var typ, number uint64
	text := ""
	err := eachField(message, func(n, v uint64, value []byte) error {
		switch n {
		case 1:
			typ = v
		case 2:
			number = v
		case 3:
			text = string(value)
		}
		return nil
	})
	if typ == 1 {
		return text, err
	}
	return json.Number(strconv.FormatInt(int64(number), 10)), err
}

// decodeTime decodes a time, with seconds or with microseconds.
func decodeTime(fine bool, message []byte) (any, error) {
	var seconds, nanos uint64
	err := eachField(message, func(n, v uint64, _ []byte) error {
		switch n {
		case 1:
			seconds = v
		case 2:
			nanos = v
		}
		return nil
	})
	if err != nil || len(message) == 0 {
		return nil, err
	}
	t := time.Unix(int64(seconds), int64(uint32(nanos))).UTC()
	if fine {
		return t.Format("2006-01-02T15:04:05.000000Z"), nil
	}
	return unstructured.Timestamp(t), nil
}
