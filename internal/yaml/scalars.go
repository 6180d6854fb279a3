package yaml

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file reads YAML scalars: their notations (plain, quoted, block), and their values (a number, a boolean, null or a string). It keeps no state.

// yamlTag is the prefix that "!!" stands for in tags.
const yamlTag = "tag:yaml.org,2002:"

// plainStart reads a plain scalar up to the end of its line. It checks the first character.
func (r *reader) plainStart(flow bool) string {
	c := r.at(0)
	switch {
	case r.eof():
		r.fail(r.pos, "a value is expected")
	case c == '\t':
		r.fail(r.pos, "a tab can't be used for indentation")
	case strings.IndexByte(",[]{}#&*!|>'\"%@`", c) >= 0, strings.IndexByte("-?:", c) >= 0 && r.blank(1):
		r.fail(r.pos, "a value can't begin with %q; put it in quotes", c)
	}
	return r.plainLine(flow)
}

// plainLine reads the part of a plain scalar on this line, without trailing white space.
func (r *reader) plainLine(flow bool) string {
	start := r.pos
scan:
	for ; r.pos < len(r.src); r.skip(1) {
		switch c := r.src[r.pos]; c {
		case '\n', lineSeparator, paragraphSeparator:
			break scan
		case ':':
			if r.blank(1) || flow && strings.IndexByte(",[]{}", r.at(1)) >= 0 {
				break scan
			}
		case '#':
			if r.pos > start && r.blank(-1) || r.pos == start {
				break scan
			}
		case ',', '[', ']', '{', '}', '?':
			if flow {
				break scan
			}
		}
	}
	text := strings.TrimRight(r.src[start:r.pos], " \t")
	r.pos = start + len(text)
	return text
}

// skipBreaks skips the end of the line, empty lines, and white space. It returns the line breaks.
func (r *reader) skipBreaks() string {
	var found []byte
	for {
		r.skipSpaces()
		if !isBreak(r.at(0)) {
			return string(found)
		}
		found = append(found, r.at(0))
		r.skip(1)
	}
}

// fold returns the text that line breaks between words mean. A separator is never folded.
func fold(found string) string {
	if found == "\n" {
		return " "
	}
	return separators.Replace(strings.TrimPrefix(found[:1], "\n") + found[1:])
}

// plainRest appends the continuation lines of a plain scalar in a block, which are indented by more than parent.
func (r *reader) plainRest(first string, parent int) string {
	var b strings.Builder
	b.WriteString(first)
	for {
		end := r.pos
		found := r.skipBreaks()
		line := r.src[r.pos-r.column(r.pos) : r.pos]
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if found == "" || r.eof() || r.marker() || r.at(0) == '#' || indent <= parent {
			r.pos = end
			return b.String()
		}
		text := r.plainLine(false)
		if text == "" {
			r.pos = end
			return b.String()
		}
		stop := r.pos
		if r.skipSpaces(); r.indicator(':') {
			r.fail(r.pos, "a mapping can't begin here: the lines above are a part of its key")
		}
		r.pos = stop
		b.WriteString(fold(found))
		b.WriteString(text)
	}
}

// plainFlowRest appends the continuation lines of a plain scalar in brackets.
func (r *reader) plainFlowRest(first string) string {
	var b strings.Builder
	b.WriteString(first)
	for {
		end := r.pos
		found := r.skipBreaks()
		if found == "" || r.eof() || r.marker() {
			r.pos = end
			return b.String()
		}
		text := r.plainLine(true)
		if text == "" {
			r.pos = end
			return b.String()
		}
		b.WriteString(fold(found))
		b.WriteString(text)
	}
}

// quotedBreak folds the line ends in a quoted scalar. It drops the white space before them, which begins after solid bytes of b.
func (r *reader) quotedBreak(b []byte, solid, start int) []byte {
	b = append(b[:solid], fold(r.skipBreaks())...)
	r.refuseMarker(start)
	return b
}

func (r *reader) refuseMarker(start int) {
	if r.marker() {
		r.fail(start, "the quote is not closed")
	}
}

// quoted reads '…', in which only quotes are doubled, or "…" with its escapes, which include those of JSON.
func (r *reader) quoted() string {
	start, quote := r.pos, r.at(0)
	var b []byte
	solid := 0
	for r.skip(1); !r.eof(); {
		switch c := r.at(0); {
		case c == '\'' && c == quote && r.at(1) == '\'':
			b = append(b, '\'')
			solid = len(b)
			r.skip(2)
		case c == quote:
			r.skip(1)
			return string(b)
		case c == '\\' && quote == '"' && isBreak(r.at(1)): // the line continues
			r.skip(1)
			b = append(b, separators.Replace(r.skipBreaks()[1:])...)
			r.refuseMarker(start)
			solid = len(b)
		case c == '\\' && quote == '"':
			b = r.escape(b)
			solid = len(b)
		case isBreak(c):
			b = r.quotedBreak(b, solid, start)
			solid = len(b)
		default:
			b = append(b, c)
			if c != ' ' && c != '\t' {
				solid = len(b)
			}
			r.skip(1)
		}
	}
	r.fail(start, "the quote is not closed")
	return ""
}

// yamlEscapes are the one-letter escapes and their meanings.
var yamlEscapes = [...]struct {
	letter byte
	text   string
}{
	{'0', "\x00"}, {'a', "\a"}, {'b', "\b"}, {'t', "\t"}, {'\t', "\t"}, {'n', "\n"}, {'v', "\v"}, {'f', "\f"}, {'r', "\r"}, {'e', "\x1b"},
	{' ', " "}, {'"', `"`}, {'/', "/"}, {'\\', `\`}, {'N', "\u0085"}, {'_', "\u00a0"}, {'L', "\u2028"}, {'P', "\u2029"}, {'\'', "'"},
}

// escape appends the meaning of the escape at this place.
func (r *reader) escape(b []byte) []byte {
	start, c := r.pos, r.at(1)
	for _, e := range yamlEscapes {
		if e.letter == c {
			r.skip(2)
			return append(b, e.text...)
		}
	}
	digits := 0
	switch c {
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		r.fail(start, `the escape \%c is unknown`, c)
		return b
	}
	r.skip(2)
	char := r.hex(digits)
	if utf16.IsSurrogate(char) && c == 'u' { // JSON writes characters beyond 16 bits as two escapes
		if r.at(0) == '\\' && r.at(1) == 'u' {
			before := r.pos
			r.skip(2)
			if char = utf16.DecodeRune(char, r.hex(4)); char == utf8.RuneError {
				r.pos = before
			}
		}
	} else if !utf8.ValidRune(char) {
		r.fail(start, "there is no character %X", char)
	}
	return utf8.AppendRune(b, char)
}

// hex reads a hexadecimal number with a number of digits.
func (r *reader) hex(digits int) rune {
	if r.pos+digits <= len(r.src) {
		if n, err := strconv.ParseUint(r.src[r.pos:r.pos+digits], 16, 32); err == nil {
			r.skip(digits)
			return rune(min(n, math.MaxInt32))
		}
	}
	r.fail(r.pos, "%d hexadecimal digits are expected", digits)
	return utf8.RuneError
}

// blockScalar reads the lines under "|" or ">", which are indented by more than parent.
func (r *reader) blockScalar(parent int) string {
	folded := r.at(0) == '>'
	chomp, indent := r.blockHeader()
	if indent > 0 {
		indent += max(parent, 0)
	} else {
		indent = r.blockIndent(parent + 1)
	}
	var b strings.Builder
	last, spaced := "", false // the break of the last line with text, and whether that line begins with white space
	var empty []byte          // the breaks of the empty lines since
	for _, line := range r.blockLines(indent) {
		text := strings.TrimRight(line, breaks)
		if text == "" {
			empty = append(empty, line...)
			continue
		}
		further := text[0] == ' ' || text[0] == '\t'
		if !folded || spaced || further || last != "\n" {
			b.WriteString(last)
		} else if len(empty) == 0 {
			b.WriteByte(' ')
		}
		b.Write(empty)
		b.WriteString(text)
		last, empty, spaced = line[len(text):], empty[:0], further
	}
	if chomp != '-' {
		b.WriteString(last)
	}
	if chomp == '+' {
		b.Write(empty)
	}
	return separators.Replace(b.String())
}

// blockHeader reads the line of the indicator: the handling of line ends at the end, and the indentation, if given.
func (r *reader) blockHeader() (chomp byte, indent int) {
	for {
		r.skip(1)
		switch c := r.at(0); {
		case (c == '+' || c == '-') && chomp == 0:
			chomp = c
		case c >= '1' && c <= '9' && indent == 0:
			indent = int(c - '0')
		default:
			r.endOfLine()
			if !r.eof() {
				r.skip(1)
			}
			return chomp, indent
		}
	}
}

// blockIndent finds the indentation of a block: that of its first line with text, or of a longer empty line before it.
func (r *reader) blockIndent(least int) int {
	indent := least
	for i := r.pos; i < len(r.src); i++ {
		start := i
		for i < len(r.src) && r.src[i] == ' ' {
			i++
		}
		indent = max(indent, i-start)
		if i < len(r.src) && !isBreak(r.src[i]) {
			if r.src[i] == '\t' && i-start < least {
				r.fail(i, "a tab can't be used for indentation")
			}
			break
		}
	}
	return indent
}

// blockLines reads the lines of a block without their indentation, each with its line break, which the last line of a text may not have.
func (r *reader) blockLines(indent int) (lines []string) {
	for !r.eof() && !r.marker() {
		start := r.pos
		for r.pos < start+indent && r.at(0) == ' ' {
			r.skip(1)
		}
		if r.pos < start+indent && !r.eof() && !isBreak(r.at(0)) {
			if r.at(0) == '\t' {
				r.fail(r.pos, "a tab can't be used for indentation")
			}
			r.pos = min(start, r.pos)
			return lines
		}
		text := r.pos
		r.skipLine()
		r.skip(1)
		lines = append(lines, r.src[text:r.pos])
	}
	return lines
}

// tag reads a tag, and returns its full form.
func (r *reader) tag() string {
	start := r.pos
	if r.at(1) == '<' {
		n := strings.IndexByte(r.src[r.pos:], '>')
		if n < 0 {
			r.fail(start, "the tag is not closed")
			return ""
		}
		r.skip(n + 1)
		return r.src[start+2 : r.pos-1]
	}
	for r.skip(1); !r.blank(0) && strings.IndexByte(",[]{}", r.at(0)) < 0; {
		r.skip(1)
	}
	tag := r.src[start:r.pos]
	handle, name := "!", tag[1:]
	if i := strings.IndexByte(name, '!'); i >= 0 {
		handle, name = tag[:i+2], name[i+1:]
	}
	if unescaped, err := url.PathUnescape(name); err == nil {
		name = unescaped
	}
	prefix, ok := r.handles[handle]
	switch {
	case ok:
	case handle == "!":
		prefix = "!"
	case handle == "!!":
		prefix = yamlTag
	default:
		r.fail(start, "the handle of the tag %q is not declared by %%TAG", tag)
	}
	return prefix + name
}

// scalar returns the value of a scalar.
func (r *reader) scalar(text string, plain bool, props yamlProps) any {
	v, err := yamlMeaning(text, plain, props.tag)
	if err != nil {
		r.fail(max(props.pos, r.pos-len(text)), "%v", err)
	}
	return v
}

// yamlWord returns the value of a plain word that is not a string.
func yamlWord(word string) (meaning any, known bool) {
	switch word {
	case "", "~", "null", "Null", "NULL":
		return nil, true
	case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
		return true, true
	case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
		return false, true
	}
	return nil, false
}

// yamlMeaning returns the value of a scalar's text, with its tag, if any.
func yamlMeaning(text string, plain bool, tag string) (any, error) {
	kind, known := strings.CutPrefix(tag, yamlTag)
	if tag == "" && !plain || tag != "" && !known || kind == "str" || kind == "timestamp" {
		return text, nil
	}
	var v any = text
	if word, ok := yamlWord(text); ok {
		v = word
	} else if n, ok := yamlNumber(text); ok {
		v = n
	}
	_, isNumber := v.(json.Number)
	switch _, isBool := v.(bool); kind {
	case "":
		if isYAMLInf(text) {
			return nil, fmt.Errorf("%s is not a number in JSON", text)
		}
		return v, nil
	case "null":
		known = v == nil
	case "bool":
		known = isBool
	case "int":
		known = isNumber && !isYAMLFloat(text) || isInt(text)
	case "float":
		known = isNumber
	case "binary":
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("the value of !!binary is not base64: %w", err)
		}
		return string(data), nil
	default:
		return text, nil
	}
	if !known {
		return nil, fmt.Errorf("a value of !!%s is expected", kind)
	}
	return v, nil
}

func isYAMLInf(text string) bool {
	switch strings.TrimLeft(text, "+-") {
	case ".inf", ".Inf", ".INF":
		return len(text) <= 5
	case ".nan", ".NaN", ".NAN":
		return len(text) == 4
	}
	return false
}

// isInt and isYAMLFloat report whether a text is a decimal number. An integer may contain underscores.
func isInt(text string) bool {
	return rawjson.IsDigits(strings.ReplaceAll(unsigned(text), "_", "0"))
}

func isYAMLFloat(text string) bool {
	mantissa, exponent, powered := unsigned(text), "", false
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		mantissa, exponent, powered = mantissa[:i], mantissa[i+1:], true
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	return rawjson.IsDigits(whole+fraction) && (!powered || rawjson.IsDigits(unsigned(exponent)))
}

// unsigned removes the sign of a number.
func unsigned(text string) string {
	if text != "" && (text[0] == '+' || text[0] == '-') {
		return text[1:]
	}
	return text
}

// yamlNumber parses a plain text as a number. Numbers with a leading zero are octal.
func yamlNumber(text string) (json.Number, bool) {
	if text == "" || strings.IndexByte("+-.0123456789", text[0]) < 0 {
		return "", false
	}
	digits := text
	if text[0] != '.' {
		digits = strings.ReplaceAll(text, "_", "")
	}
	if n, err := strconv.ParseInt(digits, 0, 64); err == nil {
		return json.Number(strconv.FormatInt(n, 10)), true
	}
	if n, err := strconv.ParseUint(digits, 0, 64); err == nil {
		return json.Number(strconv.FormatUint(n, 10)), true
	}
	if !isYAMLFloat(digits) {
		return "", false
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return "", false
	}
	short, err := json.Marshal(f)
	if err != nil {
		return "", false
	}
	if json.Valid([]byte(digits)) && !rawjson.EqualNumbers(digits, string(short)) {
		return json.Number(digits), true // a float would lose digits
	}
	return json.Number(short), true
}

// yamlKeyName returns a key as a string, in the form that Kubernetes tools use.
func yamlKeyName(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			f, err := v.Float64()
			return strconv.FormatFloat(f, 'g', -1, 32), err
		}
		return string(v), nil
	}
	return "", fmt.Errorf("a key must be a string, a number or a boolean, not %s", rawjson.KindOf(v))
}
