package kopf

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// This file knows JSON twice: as decoded values (map[string]any, []any, string,
// json.Number, bool, nil), with their equality, merging and differences; and as
// bytes that are looked into without being decoded, because most of what an API
// server sends is never asked for. It has no state and no goroutines.

// decodeJSON decodes one JSON value, and fails if anything follows it. Numbers
// stay as they were written (json.Number), so that they survive being written back.
func decodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("unexpected data after the JSON value")
	}
	return v, nil
}

// decodeObject decodes one JSON object.
func decodeObject(data []byte) (map[string]any, error) {
	v, err := decodeJSON(data)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a JSON object is expected, not %s", jsonKind(v))
	}
	return m, nil
}

// encodeJSON encodes a value compactly, object keys sorted, without the escapes
// that encoding/json adds for HTML, and without a trailing newline.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// normalizeJSON turns any value that encoding/json can encode (structs, typed
// maps, numbers of any type) into decoded JSON values.
func normalizeJSON(v any) (any, error) {
	switch v.(type) {
	case nil, bool, string:
		return v, nil
	}
	data, err := encodeJSON(v)
	if err != nil {
		return nil, err
	}
	return decodeJSON(data)
}

// jsonKind names the JSON type of a decoded value, for messages.
func jsonKind(v any) string {
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

// cloneJSON copies a decoded value deeply.
func cloneJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = cloneJSON(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = cloneJSON(e)
		}
		return l
	}
	return v
}

// equalJSON compares two decoded values by meaning: the order of keys does not
// matter, 1 equals 1.0, and true differs from 1. A null differs from an absent key.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equalJSON)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalJSON)
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
	return ok && equalNumbers(x, y)
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

// equalNumbers compares numbers of any size exactly.
func equalNumbers(x, y string) bool {
	if x == y {
		return true
	}
	a, known := decimalOf(x)
	b, alike := decimalOf(y)
	return known && alike && a == b
}

// decimal is a number in the only form that it has: 0.digits times ten to the exponent, without zeros at either end of the digits.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// decimalOf reads a number of JSON. It fails if the exponent is beyond all reason, which costs nothing.
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
		return decimal{}, digits(all) // zero has no sign
	}
	return d, digits(all)
}

// mergeJSON applies an RFC 7396 merge patch to a decoded value and returns the
// result. Maps of the target are changed in place; the patch is not.
func mergeJSON(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return cloneJSON(patch)
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = make(map[string]any, len(p))
	}
	for k, v := range p {
		if v == nil {
			delete(t, k)
		} else {
			t[k] = mergeJSON(t[k], v)
		}
	}
	return t
}

// lookupJSON walks objects, and objects only, by keys.
func lookupJSON(v any, path ...string) (any, bool) {
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

// The rest of the file reads JSON as bytes. The functions expect JSON as
// encoding/json accepts it; on anything else they stop early, never panic, and
// the error is left to whoever decodes the value for real.

var (
	errJSON = errors.New("malformed JSON")
	errCut  = fmt.Errorf("%w: it breaks off", errJSON)
)

// skipSpace returns the index of the first byte at or after i that is not white space.
func skipSpace(data []byte, i int) int {
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
	return 0, errCut
}

// skipValue returns the index after the JSON value that starts at data[i].
func skipValue(data []byte, i int) (int, error) {
	if i >= len(data) {
		return 0, errCut
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
				return 0, errJSON
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
	return 0, errCut
}

// eachMember calls yield with the quoted key and the bytes of the value of each member
// of the object in raw, in order, until yield returns false. A value that is
// not an object has no members.
func eachMember(raw []byte, yield func(quoted, value []byte) bool) error {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return nil
	}
	i = skipSpace(raw, i+1)
	for i < len(raw) && raw[i] != '}' {
		if raw[i] != '"' {
			return errJSON
		}
		keyEnd, err := skipString(raw, i)
		if err != nil {
			return err
		}
		key := raw[i:keyEnd]
		if i = skipSpace(raw, keyEnd); i >= len(raw) || raw[i] != ':' {
			return errJSON
		}
		i = skipSpace(raw, i+1)
		end, err := skipValue(raw, i)
		if err != nil {
			return err
		}
		if !yield(key, raw[i:end]) {
			return nil
		}
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	if i >= len(raw) {
		return errJSON
	}
	return nil
}

// eachItem calls yield with the bytes of each item of the list in raw, in
// order, until yield returns false. A value that is not a list has no items.
func eachItem(raw []byte, yield func(value []byte) bool) error {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '[' {
		return nil
	}
	i = skipSpace(raw, i+1)
	for i < len(raw) && raw[i] != ']' {
		end, err := skipValue(raw, i)
		if err != nil {
			return err
		}
		if !yield(raw[i:end]) {
			return nil
		}
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	if i >= len(raw) {
		return errJSON
	}
	return nil
}

// quotedIs tells whether the quoted JSON string, of valid UTF-8, means key.
func quotedIs(quoted []byte, key string) bool {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == key
	}
	return unquote(quoted) == key
}

// isNull tells whether there is no value, or a null.
func isNull(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// unquote returns the text of a quoted JSON string, "" if it is not one. What is no
// Unicode text in it is replaced by U+FFFD, as encoding/json does.
func unquote(quoted []byte) string {
	if isQuoted(quoted) && plainString(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	return string(appendUnquoted(nil, quoted))
}

// keyOf is [unquote] of a key, without an allocation for those that most objects have.
func keyOf(quoted []byte) string {
	for _, known := range [...]string{"apiVersion", "kind", "metadata", "spec", "status", "data", "labels", "annotations", "kopf"} {
		if len(quoted) == len(known)+2 && string(quoted[1:len(quoted)-1]) == known {
			return known
		}
	}
	return unquote(quoted)
}

func isQuoted(raw []byte) bool {
	return len(raw) > 1 && raw[0] == '"' && raw[len(raw)-1] == '"'
}

// appendUnquoted appends the text of a quoted JSON string, nothing if it is not one.
func appendUnquoted(b, quoted []byte) []byte {
	if !isQuoted(quoted) {
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
// appendString writes them.
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

// plainString tells whether all of a quoted string is a plain prefix.
func plainString(quoted []byte) bool { return plainPrefix(quoted[1:len(quoted)-1]) == len(quoted)-2 }

// textOf returns what a quoted string means, without a copy where that is possible.
func textOf(quoted []byte) []byte {
	if plainString(quoted) {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(unquote(quoted))
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

// findJSON returns the bytes of the value at a path of keys. It walks objects only.
func findJSON(raw []byte, path ...string) ([]byte, bool) {
	for _, key := range path {
		var found []byte
		_ = eachMember(raw, func(quoted, value []byte) bool { // a malformed rest has no such key
			if quotedIs(quoted, key) {
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

// stringJSON returns the string at a path of keys, "" where there is none.
func stringJSON(raw []byte, path ...string) string {
	v, _ := findJSON(raw, path...)
	return unquote(v)
}

// appendString appends s as a JSON string in pure ASCII: everything else is
// written as \uXXXX, as the original does in stored annotations.
//
//go:noinline
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		b = appendEscaped(b, r)
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

// appendCompact appends the JSON value in raw without white space and in pure ASCII, the
// order of keys and the spelling of numbers kept.
func appendCompact(b, raw []byte) []byte {
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

// appendRecoded appends the rest, from raw[i] on, of a string as appendString would write it, and
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

// object is a JSON object that keeps the order of its members, and the bytes
// of those that nobody has changed.
type object struct {
	members []member
	few     [4]member // room for the members of most objects, so that they cost one allocation
}

// member is a key with either the bytes of its value or, once something below it was
// changed, the object it holds.
type member struct {
	key    string
	raw    []byte
	nested *object
}

func newObject() *object {
	o := &object{}
	o.members = o.few[:0]
	return o
}

// parseObject reads the members of the object in raw; there are none in any other value.
func parseObject(raw []byte) *object {
	o := newObject()
	_ = eachMember(raw, func(quoted, value []byte) bool { // what is malformed is not there
		o.put(keyOf(quoted), value)
		return true
	})
	return o
}

func (o *object) index(key string) int {
	return slices.IndexFunc(o.members, func(m member) bool { return m.key == key })
}

// put sets a member, in its old place if there is one.
func (o *object) put(key string, raw []byte) {
	if i := o.index(key); i >= 0 {
		o.members[i] = member{key: key, raw: raw}
		return
	}
	o.members = append(o.members, member{key: key, raw: raw})
}

func (o *object) drop(key string) {
	if i := o.index(key); i >= 0 {
		o.members = slices.Delete(o.members, i, i+1)
	}
}

// open returns the object under key to be changed, nil if there is none.
func (o *object) open(key string) *object {
	i := o.index(key)
	if i < 0 {
		return nil
	}
	m := &o.members[i]
	if m.nested == nil {
		if len(m.raw) == 0 || m.raw[0] != '{' {
			return nil
		}
		m.nested, m.raw = parseObject(m.raw), nil
	}
	return m.nested
}

// set puts the bytes of a value at a path, making the objects on the way. It tells
// whether it could: a value that is not an object stands in the way otherwise.
func (o *object) set(raw []byte, path ...string) bool {
	for _, key := range path[:len(path)-1] {
		next := o.open(key)
		if next == nil {
			if o.index(key) >= 0 {
				return false
			}
			next = newObject()
			o.members = append(o.members, member{key: key, nested: next})
		}
		o = next
	}
	o.put(path[len(path)-1], raw)
	return true
}

// remove takes the value at a path away, together with the parents that are empty then, and tells whether
// that changed anything. As in the original, the parents go also if they were empty before.
func (o *object) remove(path ...string) bool {
	if len(path) == 0 || o.index(path[0]) < 0 {
		return false
	}
	if len(path) == 1 {
		o.drop(path[0])
		return true
	}
	next := o.open(path[0])
	if next == nil {
		return false
	}
	changed := next.remove(path[1:]...)
	if len(next.members) == 0 {
		o.drop(path[0])
		return true
	}
	return changed
}

// hollow tells whether there is an empty object or a null under key.
func (o *object) hollow(key string) bool {
	i := o.index(key)
	if i < 0 {
		return false
	}
	m := &o.members[i]
	if m.nested != nil {
		return len(m.nested.members) == 0
	}
	return isNull(m.raw) || len(m.raw) > 1 && m.raw[0] == '{' && m.raw[skipSpace(m.raw, 1)] == '}'
}

// flat returns the bytes of the value under key.
func (o *object) flat(key string) ([]byte, bool) {
	i := o.index(key)
	if i < 0 {
		return nil, false
	}
	m := &o.members[i]
	if m.nested != nil {
		m.raw, m.nested = m.nested.appendTo(nil), nil
	}
	return m.raw, true
}

// size returns about how many bytes appendTo appends.
func (o *object) size() int {
	n := 2
	for _, m := range o.members {
		n += len(m.key) + len(m.raw) + 4
		if m.nested != nil {
			n += m.nested.size()
		}
	}
	return n
}

// appendTo appends the object as compact JSON in pure ASCII.
func (o *object) appendTo(b []byte) []byte {
	b = append(b, '{')
	for i, m := range o.members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, m.key), ':')
		if m.nested != nil {
			b = m.nested.appendTo(b)
		} else {
			b = appendCompact(b, m.raw)
		}
	}
	return append(b, '}')
}

// mapOf makes a map of values and of their keys, which are separated by spaces. It says less than a literal about which value is whose, and
// is for short ones: of a literal, the compiler makes code for each of its members, wherever a function with it is inlined.
func mapOf(keys string, values ...any) map[string]any {
	m := make(map[string]any, len(values))
	for _, v := range values {
		var key string
		key, keys, _ = strings.Cut(keys, " ")
		m[key] = v
	}
	return m
}
