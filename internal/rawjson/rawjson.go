// Package rawjson reads and changes JSON as bytes, without decoding it, because operators use little of what an API server sends. Decoded values are
// map[string]any, []any, string, [encoding/json.Number], bool and nil.
//
// The functions expect valid JSON. On invalid JSON, they stop early and never panic. The decoder reports the error, if the value is decoded at all. The
// functions keep no state but a cache of types, and are safe for concurrent use.
//
// [ListPage] and [ReadFrames] read responses of an API server while they arrive. They hold no second copy of a page or its objects. For an object of which only
// the header is used, there is no other cost.
package rawjson

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrMalformed is wrapped by the errors of all functions on bytes, and ErrTruncated by the errors about data that ends too early.
var (
	ErrMalformed = errors.New("malformed JSON")
	ErrTruncated = fmt.Errorf("%w: it breaks off", ErrMalformed)
)

// SkipSpace returns the index of the first byte at or after i that is not white space.
func SkipSpace(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ' ', '\t', '\r', '\n':
			i++
		default:
			return i
		}
	}
	return i
}

// The functions below find the bytes of a word that are equal to, or less than, a byte, with arithmetic on the whole word. They set the highest bit of such
// bytes. Bits above the lowest one set may be wrong.
const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// equalBytes marks the bytes of w that equal c.
func equalBytes(w uint64, c byte) uint64 {
	x := w ^ lowBits*uint64(c)
	return (x - lowBits) &^ x & highBits
}

// skipString returns the index after the string that starts at data[i] == '"'.
func skipString(data []byte, i int) (int, error) {
	for i++; i+8 <= len(data); {
		w := binary.LittleEndian.Uint64(data[i:])
		found := equalBytes(w, '"') | equalBytes(w, '\\')
		if found == 0 {
			i += 8
			continue
		}
		if i += bits.TrailingZeros64(found) / 8; data[i] == '"' {
			return i + 1, nil
		}
		i += 2
	}
	for ; i < len(data); i++ {
		switch data[i] {
		case '"':
			return i + 1, nil
		case '\\':
			i++
		}
	}
	return 0, ErrTruncated
}

// SkipValue returns the index after the JSON value that starts at data[i].
func SkipValue(data []byte, i int) (int, error) {
	if i >= len(data) {
		return 0, ErrTruncated
	}
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
		return skipNested(data, i)
	}
	start := i
	for i < len(data) {
		switch data[i] {
		case ',', '}', ']', ' ', '\t', '\r', '\n', ':', '"', '{', '[':
			if i == start {
				return 0, ErrMalformed
			}
			return i, nil
		}
		i++
	}
	return i, nil
}

// skipNested skips an object or a list by counting brackets outside of strings.
func skipNested(data []byte, i int) (int, error) {
	depth := 0
	for i < len(data) {
		switch data[i] {
		case '"':
			end, err := skipString(data, i)
			if err != nil {
				return 0, err
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		}
		i++
	}
	return 0, ErrTruncated
}

// EachMember calls yield for each member of the object in raw, with the quoted key and the bytes of the value, in order, until yield returns false. Other
// values have no members.
func EachMember(raw []byte, yield func(quoted, value []byte) bool) error {
	w := MemberReader{Data: raw, At: SkipSpace(raw, 0)}
	if w.At >= len(raw) || raw[w.At] != '{' {
		return nil
	}
	for w.Next() {
		end, err := SkipValue(raw, w.At)
		if err != nil {
			return err
		}
		if !yield(w.Key.Of(raw), raw[w.At:end]) {
			return nil
		}
		w.At = end
	}
	return w.Err
}

// EachItem calls yield with the bytes of each item of the list in raw, in order, until yield returns false. Other values have no items.
func EachItem(raw []byte, yield func(value []byte) bool) error {
	i := SkipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '[' {
		return nil
	}
	i = SkipSpace(raw, i+1)
	for i < len(raw) && raw[i] != ']' {
		end, err := SkipValue(raw, i)
		if err != nil {
			return err
		}
		if !yield(raw[i:end]) {
			return nil
		}
		if i = SkipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i = SkipSpace(raw, i+1)
		}
	}
	if i >= len(raw) {
		return ErrMalformed
	}
	return nil
}

// QuotedIs reports whether the quoted JSON string, of valid UTF-8, decodes to key.
func QuotedIs(quoted []byte, key string) bool {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == key
	}
	return Unquote(quoted) == key
}

// IsNull reports whether the value is absent or null.
func IsNull(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// Unquote decodes a quoted JSON string, or returns "" for another value. It replaces invalid Unicode with U+FFFD, as encoding/json does.
func Unquote(quoted []byte) string {
	if IsQuoted(quoted) && IsPlain(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	return string(AppendUnquoted(nil, quoted))
}

// Key is [Unquote] for a key. It does not allocate for the keys that most objects have.
func Key(quoted []byte) string {
	for _, known := range [...]string{"apiVersion", "kind", "metadata", "spec", "status", "data", "labels", "annotations", "kopf"} {
		if len(quoted) == len(known)+2 && string(quoted[1:len(quoted)-1]) == known {
			return known
		}
	}
	return Unquote(quoted)
}

// IsQuoted reports whether the bytes begin and end with a quote.
func IsQuoted(raw []byte) bool {
	return len(raw) > 1 && raw[0] == '"' && raw[len(raw)-1] == '"'
}

// AppendUnquoted appends a decoded JSON string. It appends nothing for another value.
func AppendUnquoted(b, quoted []byte) []byte {
	if !IsQuoted(quoted) {
		return b
	}
	before, rest := len(b), quoted[1:len(quoted)-1]
	for len(rest) > 0 {
		n := plainPrefix(rest)
		b, rest = append(b, rest[:n]...), rest[n:]
		if len(rest) == 0 {
			break
		}
		r, size := nextRune(rest)
		if size == 0 {
			return b[:before]
		}
		b, rest = utf8.AppendRune(b, r), rest[size:]
	}
	return b
}

// plainPrefix returns the length of the prefix that needs no decoding, and no escapes in AppendString.
func plainPrefix(s []byte) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		if special := equalBytes(w, '\\') | equalBytes(w, '"') | equalBytes(w, 0x7f) | (w-lowBits*' ')&^w&highBits | w&highBits; special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c == '\\' || c == '"' || c < ' ' || c >= 0x7f {
			break
		}
	}
	return i
}

// IsPlain reports whether a quoted string needs no decoding, and no escapes in AppendString.
func IsPlain(quoted []byte) bool { return plainPrefix(quoted[1:len(quoted)-1]) == len(quoted)-2 }

// PlainText returns the text of a quoted string that needs no decoding, or nil.
func PlainText(quoted []byte) []byte {
	if !IsQuoted(quoted) || !IsPlain(quoted) {
		return nil
	}
	return quoted[1 : len(quoted)-1]
}

// Text decodes a quoted string, without a copy if possible.
func Text(quoted []byte) []byte {
	if IsPlain(quoted) {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(Unquote(quoted))
}

// nextRune returns the next character of a JSON string, and the number of bytes that encode it, or 0 if they are invalid.
func nextRune(s []byte) (rune, int) {
	switch c := s[0]; {
	case c == '"' || c < ' ':
		return 0, 0
	case c != '\\':
		return utf8.DecodeRune(s)
	case len(s) < 2:
		return 0, 0
	}
	switch c := s[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	r := unicodeEscape(s)
	if r < 0 {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		if pair := utf16.DecodeRune(r, unicodeEscape(s[6:])); pair != utf8.RuneError {
			return pair, 12
		}
		return utf8.RuneError, 6
	}
	return r, 6
}

// unicodeEscape returns the code of the \uXXXX at the start of s, or -1.
func unicodeEscape(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	r := rune(0)
	for _, c := range s[2:6] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 + rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 + rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}

// Find returns the bytes of the value at a path of keys. It descends into objects only.
func Find(raw []byte, path ...string) ([]byte, bool) {
	for _, key := range path {
		var found []byte
		_ = EachMember(raw, func(quoted, value []byte) bool { // malformed data has no such key
			if QuotedIs(quoted, key) {
				found = value // the last of equal keys wins, as in decoding
			}
			return true
		})
		if found == nil {
			return nil, false
		}
		raw = found
	}
	return bytes.TrimSpace(raw), len(raw) > 0
}

// StringAt returns the string at a path of keys, or "".
func StringAt(raw []byte, path ...string) string {
	v, _ := Find(raw, path...)
	return Unquote(v)
}

// JoinPath joins keys to a path. See [SplitPath].
func JoinPath(keys []string) string {
	escaped := make([]string, len(keys))
	for i, key := range keys {
		escaped[i] = strings.ReplaceAll(strings.ReplaceAll(key, `\`, `\\`), ".", `\.`)
	}
	return strings.Join(escaped, ".")
}

// SplitPath splits a path at its dots. A backslash escapes a dot or a backslash in a key.
func SplitPath(p string) []string {
	if p == "" {
		return nil
	}
	if strings.IndexByte(p, '\\') < 0 {
		return strings.Split(p, ".")
	}
	keys, key := []string(nil), []byte(nil)
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\' && i+1 < len(p):
			i++
			key = append(key, p[i])
		case c == '.':
			keys, key = append(keys, string(key)), nil
		default:
			key = append(key, c)
		}
	}
	return append(keys, string(key))
}

// ScalarAt returns the string at a path of keys, or "". It returns numbers and booleans as written.
func ScalarAt(raw []byte, path ...string) string {
	v, _ := Find(raw, path...)
	switch {
	case len(v) == 0, v[0] == '{', v[0] == '[', v[0] == 'n':
		return ""
	case v[0] == '"':
		return Unquote(v)
	}
	return string(v)
}

// IntAt returns the integer at a path of keys, even if written as 1.0 or 1e3. It returns 0 if there is none, or if it does not fit.
func IntAt(raw []byte, path ...string) int64 {
	text := ScalarAt(raw, path...)
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return n
	}
	d, ok := decimalOf(text)
	if !ok {
		return 0
	}
	return d.int64()
}

// FloatAt returns the number at a path of keys, or in a string there. It returns 0 if there is none, and an infinity if it does not fit. Notations that only Go
// accepts, such as "inf", "0x10" and "1_0", are not numbers.
func FloatAt(raw []byte, path ...string) float64 {
	text := ScalarAt(raw, path...)
	if strings.Trim(text, "0123456789+-.eE") != "" {
		return 0
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return f
}

// StringsAt returns the strings of the list at a path of keys, or nil.
func StringsAt(raw []byte, path ...string) []string {
	list, _ := Find(raw, path...)
	var all []string
	_ = EachItem(list, func(value []byte) bool { // malformed items are ignored
		all = append(all, Unquote(value))
		return true
	})
	return all
}

// ValueAt returns the decoded value at a path of keys, or nil.
func ValueAt(raw []byte, path ...string) any {
	v, ok := Find(raw, path...)
	if !ok {
		return nil
	}
	value, err := Decode(v)
	if err != nil {
		return nil
	}
	return value
}

// Keys returns the keys of the object in raw, in order.
func Keys(raw []byte) []string {
	var keys []string
	_ = EachMember(raw, func(quoted, _ []byte) bool { // malformed members are ignored
		keys = append(keys, Unquote(quoted))
		return true
	})
	return keys
}

// Map returns the decoded object in raw, or an empty map for another value.
func Map(raw []byte) map[string]any {
	m, err := DecodeObject(raw)
	if err != nil {
		return map[string]any{}
	}
	return m
}

// AppendString appends s as a JSON string in pure ASCII, with \uXXXX for other characters, as Kopf for Python stores annotations. Like [Lookup], it is not
// inlined.
//
//go:noinline
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		plain := i
		for i < len(s) && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\' {
			i++
		}
		if b = append(b, s[plain:i]...); i < len(s) {
			r, size := utf8.DecodeRuneInString(s[i:])
			b, i = appendEscaped(b, r), i+size
		}
	}
	return append(b, '"')
}

// appendEscaped appends one character of a JSON string in pure ASCII.
func appendEscaped(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	}
	switch {
	case r >= ' ' && r < 0x7f:
		return append(b, byte(r))
	case r > 0xffff:
		hi, lo := utf16.EncodeRune(r)
		return appendEscaped(appendEscaped(b, hi), lo)
	}
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// AppendCompact appends the JSON value in raw without white space and in pure ASCII. It keeps the order of keys and the notation of numbers.
func AppendCompact(b, raw []byte) []byte {
	start := 0 // of the bytes to copy unchanged
	for i := 0; i < len(raw); {
		switch raw[i] {
		case ' ', '\t', '\r', '\n':
			b = append(b, raw[start:i]...)
			i++
			start = i
		case '"':
			i++
			if i += plainPrefix(raw[i:]); i < len(raw) && raw[i] != '"' {
				b = append(b, raw[start:i]...)
				b, i = appendRecoded(b, raw, i)
				start = i
			} else {
				i++
			}
		default:
			i++
		}
	}
	return append(b, raw[min(start, len(raw)):]...)
}

// appendRecoded appends the rest of a string, from raw[i] on, as AppendString writes it, and returns the index after its closing quote. It stops at invalid
// characters.
func appendRecoded(b, raw []byte, i int) ([]byte, int) {
	for i < len(raw) && raw[i] != '"' {
		n := plainPrefix(raw[i:])
		b, i = append(b, raw[i:i+n]...), i+n
		if i == len(raw) || raw[i] == '"' {
			break
		}
		r, size := nextRune(raw[i:])
		if size == 0 {
			return append(b, raw[i:]...), len(raw)
		}
		b, i = appendEscaped(b, r), i+size
	}
	if i < len(raw) {
		b, i = append(b, '"'), i+1
	}
	return b, i
}

// EntryAt returns the string of a member, and reports whether the member exists.
func EntryAt(stanza []byte, key string) (string, bool) {
	v, ok := Find(stanza, key)
	if !ok || IsNull(v) {
		return "", false
	}
	return Unquote(v), true
}

// StringMap returns the string members of an object.
func StringMap(raw []byte) map[string]string {
	m := make(map[string]string)
	_ = EachMember(raw, func(quoted, value []byte) bool { // malformed members are ignored
		m[Unquote(quoted)] = Unquote(value)
		return true
	})
	return m
}

// RawMembers returns the bytes of the members of an object by key.
func RawMembers(raw []byte) map[string][]byte {
	m := make(map[string][]byte)
	_ = EachMember(raw, func(quoted, value []byte) bool { // malformed members are ignored
		m[Key(quoted)] = value
		return true
	})
	return m
}

// DecodeOrNil decodes a value, or returns nil for malformed JSON.
func DecodeOrNil(raw []byte) any {
	if IsQuoted(raw) && IsPlain(raw) {
		return string(raw[1 : len(raw)-1])
	}
	v, _ := Decode(raw) // malformed counts as absent
	return v
}
