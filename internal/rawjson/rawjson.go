// Package rawjson reads and changes JSON in its bytes, without decoding it, because most of what an API server sends is never
// asked for. What is decoded is map[string]any, []any, string, [encoding/json.Number], bool and nil.
//
// The functions expect JSON as encoding/json accepts it. On anything else they stop early and never panic; the error is left to
// the decoding, if there is one. None of them keeps state, and all may be called by several goroutines.
//
// [ListPage] and [ReadFrames] read the answers of an API server while they come in: neither a page of a list nor its objects are there twice,
// and an object of which only the header is looked at costs nothing but that.
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

// ErrMalformed is wrapped by the errors of all functions on bytes, and ErrTruncated by those about bytes that end too early.
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

// The bytes of a word that are equal to a byte, or less, are found with arithmetic on the whole word. A bit is the highest one of such a
// byte; those above the lowest bit may be wrong.
const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// equalBytes marks the bytes of w that are c.
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

// EachMember calls yield with the quoted key and the bytes of the value of each member
// of the object in raw, in order, until yield returns false. A value that is
// not an object has no members.
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

// EachItem calls yield with the bytes of each item of the list in raw, in
// order, until yield returns false. A value that is not a list has no items.
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

// QuotedIs reports whether the quoted JSON string, of valid UTF-8, means key.
func QuotedIs(quoted []byte, key string) bool {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == key
	}
	return Unquote(quoted) == key
}

// IsNull reports whether there is no value, or a null.
func IsNull(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// Unquote returns the text of a quoted JSON string, "" if it is not one. What is no
// Unicode text in it is replaced by U+FFFD, as encoding/json does.
func Unquote(quoted []byte) string {
	if IsQuoted(quoted) && IsPlain(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	return string(AppendUnquoted(nil, quoted))
}

// Key is [Unquote] of a key, without an allocation for those that most objects have.
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

// AppendUnquoted appends the text of a quoted JSON string, nothing if it is not one.
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

// plainPrefix returns how many of the bytes mean themselves in a JSON string and are written as
// AppendString writes them.
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

// IsPlain reports whether all of a quoted string is a plain prefix.
func IsPlain(quoted []byte) bool { return plainPrefix(quoted[1:len(quoted)-1]) == len(quoted)-2 }

// PlainText returns the text of a quoted string that means itself, nothing of others.
func PlainText(quoted []byte) []byte {
	if !IsQuoted(quoted) || !IsPlain(quoted) {
		return nil
	}
	return quoted[1 : len(quoted)-1]
}

// Text returns what a quoted string means, without a copy where that is possible.
func Text(quoted []byte) []byte {
	if IsPlain(quoted) {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(Unquote(quoted))
}

// nextRune returns the character that a JSON string goes on with, and how many bytes mean it, 0 if none
// may stand there.
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

// unicodeEscape returns the code of the \uXXXX that s begins with, -1 if it begins with anything else.
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

// Find returns the bytes of the value at a path of keys. It walks objects only.
func Find(raw []byte, path ...string) ([]byte, bool) {
	for _, key := range path {
		var found []byte
		_ = EachMember(raw, func(quoted, value []byte) bool { // a malformed rest has no such key
			if QuotedIs(quoted, key) {
				found = value // the last of equal keys wins, as when decoding
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

// StringAt returns the string at a path of keys, "" where there is none.
func StringAt(raw []byte, path ...string) string {
	v, _ := Find(raw, path...)
	return Unquote(v)
}

// JoinPath returns the path of keys. See [SplitPath].
func JoinPath(keys []string) string {
	escaped := make([]string, len(keys))
	for i, key := range keys {
		escaped[i] = strings.ReplaceAll(strings.ReplaceAll(key, `\`, `\\`), ".", `\.`)
	}
	return strings.Join(escaped, ".")
}

// SplitPath returns the keys of a path, which are joined by dots. A dot or a backslash inside of a key is preceded by a backslash.
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

// ScalarAt returns the text at a path of keys, "" where there is none. Numbers and booleans are returned as they are written.
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

// IntAt returns the whole number at a path of keys, also if it is written as 1.0 or 1e3. It is 0 where there is none or it does not fit.
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

// FloatAt returns the number at a path of keys, or the text of one, 0 where there is none, and an infinity where it does not fit. What only Go takes for a
// number, such as "inf", "0x10" and "1_0", is none.
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

// StringsAt returns the strings of the list at a path of keys, nil where there is none.
func StringsAt(raw []byte, path ...string) []string {
	list, _ := Find(raw, path...)
	var all []string
	_ = EachItem(list, func(value []byte) bool { // what is malformed is not there
		all = append(all, Unquote(value))
		return true
	})
	return all
}

// ValueAt returns the decoded value at a path of keys, nil where there is none.
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

// Keys returns the keys of the object in raw in their order.
func Keys(raw []byte) []string {
	var keys []string
	_ = EachMember(raw, func(quoted, _ []byte) bool { // what is malformed is not there
		keys = append(keys, Unquote(quoted))
		return true
	})
	return keys
}

// Map returns the decoded object in raw, never nil: it is empty if there is no object.
func Map(raw []byte) map[string]any {
	m, err := DecodeObject(raw)
	if err != nil {
		return map[string]any{}
	}
	return m
}

// AppendString appends s as a JSON string in pure ASCII: everything else is
// written as \uXXXX, as the original does in stored annotations. Like [Lookup], it is not copied to its callers.
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

// appendEscaped appends one character as it stands in a JSON string in pure ASCII.
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

// AppendCompact appends the JSON value in raw without white space and in pure ASCII, the
// order of keys and the spelling of numbers kept.
func AppendCompact(b, raw []byte) []byte {
	start := 0 // of what is to be copied as it is
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

// appendRecoded appends the rest, from raw[i] on, of a string as AppendString would write it, and
// returns the index of its closing quote's successor. It gives up at what may not stand in a string.
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

// EntryAt returns the text of a member, and whether there is one.
func EntryAt(stanza []byte, key string) (string, bool) {
	v, ok := Find(stanza, key)
	if !ok || IsNull(v) {
		return "", false
	}
	return Unquote(v), true
}

// StringMap returns the texts of an object by their keys.
func StringMap(raw []byte) map[string]string {
	m := make(map[string]string)
	_ = EachMember(raw, func(quoted, value []byte) bool { // what is malformed is not there
		m[Unquote(quoted)] = Unquote(value)
		return true
	})
	return m
}

// RawMembers returns the bytes of the members of an object by their keys.
func RawMembers(raw []byte) map[string][]byte {
	m := make(map[string][]byte)
	_ = EachMember(raw, func(quoted, value []byte) bool { // what is malformed is not there
		m[Key(quoted)] = value
		return true
	})
	return m
}

// DecodeOrNil decodes a value, nil if it cannot be decoded.
func DecodeOrNil(raw []byte) any {
	if IsQuoted(raw) && IsPlain(raw) {
		return string(raw[1 : len(raw)-1])
	}
	v, _ := Decode(raw) // malformed is nil, as absent
	return v
}
