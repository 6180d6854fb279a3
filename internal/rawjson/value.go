package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file handles decoded values (map[string]any, []any, string, json.Number, bool, nil): decoding, encoding, comparing, merging.

// Decode decodes one JSON value. It returns an error if anything follows. Numbers keep their notation (json.Number), so that encoding does not change them.
func Decode(data []byte) (any, error) {
	if v, ok := decodeScalar(data); ok {
		return v, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if rest := data[d.InputOffset():]; len(bytes.TrimLeft(rest, " \t\r\n")) > 0 {
		return nil, errors.New("unexpected data after the JSON value")
	}
	return v, nil
}

// decodeScalar decodes scalars in plain notation, the common case, without the cost of a decoder.
func decodeScalar(data []byte) (v any, ok bool) {
	switch {
	case IsQuoted(data):
		if IsPlain(data) {
			return string(data[1 : len(data)-1]), true
		}
		text := AppendUnquoted(make([]byte, 0, len(data)), data)
		return string(text), len(text) > 0
	case string(data) == "null":
		return nil, true
	case string(data) == "true", string(data) == "false":
		return data[0] == 't', true
	case len(data) > 0 && data[0] != '0' && IsDigits(string(data)) || string(data) == "0":
		return json.Number(data), true
	}
	return nil, false
}

// DecodeObject decodes one JSON object.
func DecodeObject(data []byte) (map[string]any, error) {
	v, err := Decode(data)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a JSON object is expected, not %s", KindOf(v))
	}
	return m, nil
}

// Encode encodes a value compactly, with sorted keys, without HTML escapes, and without a trailing newline.
func Encode(v any) ([]byte, error) {
	if b, ok := appendValue(make([]byte, 0, 256), v, 0); ok {
		return b, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// appendValue appends an encoded value, and reports whether it could. Encode uses encoding/json for unusual strings, and for values that may contain
// themselves.
func appendValue(b []byte, v any, depth int) ([]byte, bool) {
	ok := true
	if depth > maxNesting {
		return nil, false
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), true
	case bool:
		return strconv.AppendBool(b, v), true
	case string:
		return appendPlain(b, v)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, ok = appendValue(b, item, depth+1); !ok {
				return nil, false
			}
		}
		return append(b, ']'), v != nil
	case map[string]any:
		b = append(b, '{')
		for i, key := range SortedKeys(v) {
			if i > 0 {
				b = append(b, ',')
			}
			if b, ok = appendPlain(b, key); !ok {
				return nil, false
			}
			if b, ok = appendValue(append(b, ':'), v[key], depth+1); !ok {
				return nil, false
			}
		}
		return append(b, '}'), v != nil
	case json.Number:
		return append(b, v...), len(v) > 0 && v[0] != '0' && IsDigits(string(v))
	}
	return nil, false
}

// appendPlain appends a JSON string, and reports whether it could: only for printable ASCII and characters with a short escape.
func appendPlain(b []byte, s string) ([]byte, bool) {
	b = append(slices.Grow(b, len(s)+2), '"')
	for {
		n := 0
		for n < len(s) && s[n] >= ' ' && s[n] < 0x7f && s[n] != '"' && s[n] != '\\' {
			n++
		}
		b, s = append(b, s[:n]...), s[n:]
		if s == "" {
			return append(b, '"'), true
		}
		switch c := s[0]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			return nil, false
		}
		s = s[1:]
	}
}

// Normalize converts any value that encoding/json can encode (structs, typed maps, numbers of any type) to decoded JSON values. It replaces text that is not
// UTF-8, as encoding/json does.
func Normalize(v any) (any, error) {
	normal, _, err := NormalizeText(v)
	return normal, err
}

// NormalizeText is [Normalize], and reports whether it has replaced text that is not UTF-8. The escape of U+FFFD in the JSON of a value's own encoder counts as
// such text, because encoding/json writes it for that.
func NormalizeText(v any) (normal any, replaced bool, err error) {
	switch v := v.(type) {
	case nil, bool:
		return v, false, nil
	case string:
		text := ValidText(v)
		return text, text != v, nil
	case json.RawMessage:
		if json.Valid(v) {
			normal, err = Decode(v)
			return normal, !utf8.Valid(v), err
		}
	}
	data, err := Encode(v)
	if err != nil {
		return nil, false, err
	}
	normal, err = Decode(data)
	return normal, hasReplacement(data), err
}

// ValidText returns a text with U+FFFD for each byte that is not UTF-8, as encoding/json encodes it.
func ValidText(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}

// hasReplacement reports whether encoded JSON has text that is not UTF-8, as in a [json.RawMessage], or the escape that encoding/json writes for such text. It
// writes a valid U+FFFD without an escape.
func hasReplacement(data []byte) bool {
	const escape = `\ufffd`
	return !utf8.Valid(data) || bytes.Contains(data, []byte(escape)) && bytes.Contains(bytes.ReplaceAll(data, []byte(`\\`), nil), []byte(escape))
}

// PathOfText returns the keys of the first text in a decoded value, or the first key, that contains a text.
func PathOfText(v any, text string) (path []string, found bool) {
	switch v := v.(type) {
	case string:
		return nil, strings.Contains(v, text)
	case []any:
		for i, item := range v {
			if path, found := PathOfText(item, text); found {
				return append([]string{strconv.Itoa(i)}, path...), true
			}
		}
	case map[string]any:
		for _, key := range SortedKeys(v) {
			if strings.Contains(key, text) {
				return []string{key}, true
			}
			if path, found := PathOfText(v[key], text); found {
				return append([]string{key}, path...), true
			}
		}
	}
	return nil, false
}

// PathOfUnencodable returns the keys of the first value below maps and lists that encoding/json cannot encode. It returns the first keys of a long path, which
// a map that contains itself may have.
func PathOfUnencodable(v any) (path []string) {
	const maxKeys = 20
	for len(path) < maxKeys {
		key, inner, found := firstUnencodable(v)
		if !found {
			return path
		}
		path, v = append(path, key), inner
	}
	return path
}

func firstUnencodable(v any) (key string, inner any, found bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range SortedKeys(v) {
			if _, err := Encode(v[key]); err != nil {
				return key, v[key], true
			}
		}
	case []any:
		for i, item := range v {
			if _, err := Encode(item); err != nil {
				return strconv.Itoa(i), item, true
			}
		}
	}
	return "", nil, false
}

// EscapeHTML escapes the characters of HTML in JSON, as encoding/json does by default. API servers test values of a JSON patch by comparing the text of their
// own encoder, which escapes them.
func EscapeHTML(data []byte) []byte {
	if !bytes.ContainsAny(data, "<>&\u2028\u2029") {
		return data
	}
	var b bytes.Buffer
	json.HTMLEscape(&b, data)
	return b.Bytes()
}

// NormalizeObject is [Normalize] for objects. It copies maps and lists directly, which is much faster.
func NormalizeObject(v any) (any, error) {
	if plain, ok := copyPlain(v, 0); ok {
		return plain, nil
	}
	return Normalize(v)
}

// copyPlain returns the result of Normalize for the usual types of values in objects, without encoding. It reports false if the value contains another type.
func copyPlain(v any, depth int) (any, bool) {
	if depth >= maxNesting {
		return nil, false
	}
	switch v := v.(type) {
	case nil, bool:
		return v, true
	case string:
		return v, utf8.ValidString(v)
	case int:
		return json.Number(strconv.Itoa(v)), true
	case int64:
		return json.Number(strconv.FormatInt(v, 10)), true
	case json.Number:
		return v, IsDigits(string(v)) && v[0] != '0'
	case map[string]any:
		return copyPlainMap(v, depth)
	case map[string]string:
		return copyPlainMap(v, depth)
	case []any:
		return copyPlainList(v, depth)
	case []map[string]any:
		return copyPlainList(v, depth)
	case []string:
		return copyPlainList(v, depth)
	}
	return nil, false
}

func copyPlainMap[V any](m map[string]V, depth int) (any, bool) {
	if m == nil {
		return nil, true
	}
	all := make(map[string]any, len(m))
	for key, value := range m {
		item, ok := copyPlain(value, depth+1)
		if !ok || !utf8.ValidString(key) {
			return nil, false
		}
		all[key] = item
	}
	return all, true
}

func copyPlainList[V any](list []V, depth int) (any, bool) {
	if list == nil {
		return nil, true
	}
	all := make([]any, len(list))
	for i, value := range list {
		item, ok := copyPlain(value, depth+1)
		if !ok {
			return nil, false
		}
		all[i] = item
	}
	return all, true
}

// maxNesting limits the depth of values. Deeper values may contain themselves, which encoding/json detects.
const maxNesting = 1000

// IsNormal reports whether a value is decoded JSON with valid text, which encodes to the same.
func IsNormal(v any) bool { return isNormal(v, 0) }

func isNormal(v any, depth int) bool {
	if depth >= maxNesting {
		return false
	}
	switch v := v.(type) {
	case nil, bool:
		return true
	case string:
		return utf8.ValidString(v)
	case json.Number:
		if IsDigits(string(v)) && v[0] != '0' {
			return true
		}
		_, err := Encode(v)
		return err == nil && v != ""
	case []any:
		return v != nil && !slices.ContainsFunc(v, func(item any) bool { return !isNormal(item, depth+1) })
	case map[string]any:
		for key, item := range v {
			if !utf8.ValidString(key) || !isNormal(item, depth+1) {
				return false
			}
		}
		return v != nil
	}
	return false
}

// EqualNormalized compares two values of any types by their JSON. A value that cannot be encoded counts as null.
func EqualNormalized(a, b any) bool {
	x, _ := Normalize(a)
	y, _ := Normalize(b)
	return Equal(x, y)
}

// KindOf names the JSON type of a decoded value, for messages.
func KindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number, float64, int, int64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("%T", v)
}

// Clone copies a decoded value deeply.
func Clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = Clone(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = Clone(e)
		}
		return l
	}
	return v
}

// Equal compares two decoded values by meaning. The order of keys does not matter, 1 equals 1.0, true differs from 1, and null differs from an absent key.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, Equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case nil:
		return b == nil
	case bool, string:
		return a == b
	}
	x, ok := numberText(a)
	if !ok {
		return false
	}
	y, ok := numberText(b)
	return ok && EqualNumbers(x, y)
}

func numberText(v any) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	}
	return "", false
}

// EqualNumbers compares numbers of any size exactly.
func EqualNumbers(x, y string) bool {
	if x == y {
		return true
	}
	a, known := decimalOf(x)
	b, alike := decimalOf(y)
	return known && alike && a == b
}

// decimal is the normal form of a number: 0.digits times ten to the exponent, without zeros at either end of the digits.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// decimalOf parses a JSON number. It rejects absurdly large exponents.
func decimalOf(x string) (d decimal, ok bool) {
	x, d.negative = strings.CutPrefix(x, "-")
	if i := strings.IndexAny(x, "eE"); i >= 0 {
		n, err := strconv.Atoi(x[i+1:])
		if err != nil {
			return decimal{}, false
		}
		x, d.exponent = x[:i], n
	}
	whole, fraction, _ := strings.Cut(x, ".")
	all := whole + fraction
	significant := strings.TrimLeft(all, "0")
	d.exponent += len(whole) - (len(all) - len(significant))
	if d.digits = strings.TrimRight(significant, "0"); d.digits == "" {
		return decimal{}, IsDigits(all) // zero has no sign
	}
	return d, IsDigits(all)
}

// maxInt64Digits is the number of digits of the largest int64.
const maxInt64Digits = 19

// int64 returns the number, or 0 if it has a fraction or does not fit.
func (d decimal) int64() int64 {
	zeros := d.exponent - len(d.digits)
	if zeros < 0 || d.exponent > maxInt64Digits {
		return 0
	}
	text := d.digits + strings.Repeat("0", zeros)
	if d.negative {
		text = "-" + text
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0 // ParseInt returns the nearest number
	}
	return n
}

// MoveMember moves a member from an object to a new object, and returns that.
func MoveMember(object map[string]any, key string) map[string]any {
	value, ok := object[key]
	delete(object, key)
	if !ok {
		return map[string]any{}
	}
	return map[string]any{key: value}
}

// Lookup returns the value at a path of keys. It descends into objects only. It is not inlined because its many callers would make the binary kilobytes larger.
//
//go:noinline
func Lookup(v any, path ...string) (any, bool) {
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[key]; !ok {
			return nil, false
		}
	}
	return v, true
}

// IsDigits reports whether a text is one or more ASCII digits.
func IsDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// AsMap returns the value if it is a map, and nil otherwise. It is not inlined because that makes the binary smaller.
//
//go:noinline
func AsMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// IsEmpty reports whether a decoded value is null, an empty object or an empty list.
func IsEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// SortedKeys returns the sorted keys of a map.
func SortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m)) // slices.Sorted does not know the length
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// UnionKeys returns the sorted keys of both maps.
func UnionKeys[V any](a, b map[string]V) []string {
	keys := make([]string, 0, len(a)+len(b))
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// IsHollow reports whether a value is a map that contains nothing but such maps.
func IsHollow(v any) bool {
	m, ok := v.(map[string]any)
	for _, value := range m {
		ok = ok && IsHollow(value)
	}
	return ok
}
