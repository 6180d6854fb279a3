package installation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file writes YAML. The output is deterministic, in the usual style, and YAML 1.1 and 1.2 parsers read the same values from it.

// Map is an object with ordered keys.
type Map []Entry

// Entry is a key of a [Map] with its value.
type Entry struct {
	Key     string
	Value   any
	Comment string // lines before it
	If      string // enclosing template action, such as "with .Values.resources"
}

// Item is a list item with a comment or a condition.
type Item struct {
	Value   any
	Comment string
	If      string
}

// Expression is a template expression without its braces.
type Expression string

// writer writes YAML, or a template for it.
type writer struct {
	b        strings.Builder
	template bool // escape braces in texts
}

// YAML encodes a value as YAML: a [Map], a map[string]any, a list, a string, a number, a boolean or nil. It writes a []string on one line.
func YAML(value any) string { return write(value, false) }

// write writes a value, or a template for it.
func write(value any, template bool) string {
	w := &writer{template: template}
	if scalar, ok := w.scalar(value, 0); ok {
		w.b.WriteString(scalar + "\n")
	} else {
		w.block(value, 0)
	}
	return w.b.String()
}

// first are the keys that precede all others in unordered maps.
var first = []string{"apiVersion", "kind", "metadata", "name", "namespace"}

// ordered returns the entries of a map in order.
func ordered(value any) (Map, bool) {
	switch value := value.(type) {
	case Map:
		return value, true
	case map[string]any:
		m := make(Map, 0, len(value))
		for _, key := range first {
			if v, ok := value[key]; ok {
				m = append(m, Entry{Key: key, Value: v})
			}
		}
		for _, key := range rawjson.SortedKeys(value) {
			if !slices.Contains(first, key) {
				m = append(m, Entry{Key: key, Value: value[key]})
			}
		}
		return m, true
	}
	return nil, false
}

// block writes a map or a list that is not empty.
func (w *writer) block(value any, indent int) {
	if m, ok := ordered(value); ok {
		w.entries(m, indent, false)
		return
	}
	for _, item := range list(value) {
		w.before(item.Comment, item.If, indent)
		w.b.WriteString(strings.Repeat(" ", indent) + "-")
		w.item(item.Value, indent)
		w.after(item.If)
	}
}

// entries writes the entries of a map. The first one may continue a line.
func (w *writer) entries(m Map, indent int, begun bool) {
	for i, e := range m {
		w.before(e.Comment, e.If, indent)
		if i > 0 || !begun {
			w.b.WriteString(strings.Repeat(" ", indent))
		}
		w.b.WriteString(w.key(e.Key) + ":")
		w.value(e.Value, indent)
		w.after(e.If)
	}
}

// before writes the lines before an entry.
func (w *writer) before(comment, condition string, indent int) {
	if condition != "" {
		w.b.WriteString("{{- " + condition + " }}\n")
	}
	for line := range strings.SplitSeq(comment, "\n") {
		if comment != "" {
			w.b.WriteString(strings.Repeat(" ", indent) + "# " + w.escaped(printable(line)) + "\n")
		}
	}
}

func (w *writer) after(condition string) {
	if condition != "" {
		w.b.WriteString("{{- end }}\n")
	}
}

// value writes a value after the colon of its key. Lists in maps are indented like maps.
func (w *writer) value(value any, indent int) {
	if scalar, ok := w.scalar(value, indent+2); ok {
		w.b.WriteString(" " + scalar + "\n")
		return
	}
	w.b.WriteByte('\n')
	w.block(value, indent+2)
}

// item writes an item after its dash. A map begins on the same line.
func (w *writer) item(value any, indent int) {
	m, ok := ordered(value)
	if !ok || len(m) == 0 || m[0].If != "" || m[0].Comment != "" {
		w.value(value, indent)
		return
	}
	w.b.WriteByte(' ')
	w.entries(m, indent+2, true)
}

// list returns the items of a list.
func list(value any) (items []Item) {
	switch value := value.(type) {
	case []Item:
		return value
	case []any:
		for _, v := range value {
			items = append(items, Item{Value: v})
		}
	case []Map:
		for _, v := range value {
			items = append(items, Item{Value: v})
		}
	}
	return items
}

// scalar returns the text of a value that fits on the line of its key.
func (w *writer) scalar(value any, indent int) (text string, ok bool) {
	switch value := value.(type) {
	case nil:
		return "null", true
	case string:
		return w.text(value, indent), true
	case Expression:
		return "{{ " + string(value) + " }}", true
	case bool:
		return strconv.FormatBool(value), true
	case int, int32, int64, uint64:
		return fmt.Sprint(value), true
	case float64, json.Number:
		data, err := rawjson.Encode(value)
		if err != nil { // not a JSON number
			return w.quoted(fmt.Sprint(value)), true
		}
		return string(data), true
	}
	if words, ok := value.([]string); ok {
		return w.words(words), true
	}
	if m, isMap := ordered(value); isMap {
		return "{}", len(m) == 0
	}
	return "[]", len(list(value)) == 0
}

// words writes a list of short strings on one line.
func (w *writer) words(words []string) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = w.quoted(word)
		if isPlain(word) && !strings.ContainsAny(word, ",?:") {
			texts[i] = w.escaped(word)
		}
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

func (w *writer) key(key string) string {
	if isPlain(key) && len(key) < 100 { // a key of more than 1,024 characters would need a "?"
		return key
	}
	return w.quoted(key)
}

// text writes a string: plain if unambiguous, as a block if it has lines, and otherwise in quotes.
func (w *writer) text(text string, indent int) string {
	if isPlain(text) {
		return w.escaped(text)
	}
	if !isBlock(text) {
		return w.quoted(text)
	}
	chomping := "-"
	if strings.HasSuffix(text, "\n") {
		chomping = ""
	}
	var b strings.Builder
	b.WriteString("|" + chomping)
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteByte('\n')
		if line != "" {
			b.WriteString(strings.Repeat(" ", indent) + w.escaped(line))
		}
	}
	return b.String()
}

// isPlain reports whether a string needs no quotes. It reports false for any text that some YAML version reads as a number, a boolean or a date.
func isPlain(text string) bool {
	if text == "" || slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(text)) {
		return false
	}
	if c := text[0]; !isLetter(c) && c != '/' && c != '_' {
		return false
	}
	for i := range len(text) {
		c := text[i]
		ok := isLetter(c) || c >= '0' && c <= '9' || strings.IndexByte(" -_./@()+=;?!'\",*<>^%$&|~", c) >= 0 || c == ':' && i+1 < len(text) && text[i+1] != ' '
		if !ok {
			return false
		}
	}
	return text[len(text)-1] != ' '
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// isBlock reports whether a string can be written as a block, and should.
func isBlock(text string) bool {
	body := strings.TrimSuffix(text, "\n")
	if !strings.Contains(body, "\n") || !utf8.ValidString(text) || strings.HasSuffix(body, "\n") || strings.HasPrefix(text, "\n") || strings.HasPrefix(text, " ") {
		return false
	}
	for line := range strings.SplitSeq(body, "\n") {
		if strings.TrimRight(line, " ") != line || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...") || strings.IndexFunc(line, notPrintable) >= 0 {
			return false
		}
	}
	return true
}

func notPrintable(r rune) bool { return !unicode.IsPrint(r) || r == '\uFEFF' }

// printable returns a text for a comment.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if notPrintable(r) {
			return '?'
		}
		return r
	}, text)
}

// quoted writes a string in double quotes.
func (w *writer) quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case !notPrintable(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
	return w.escaped(b.String())
}

// escaped returns template text that produces the text.
func (w *writer) escaped(text string) string {
	if !w.template {
		return text
	}
	return strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
}
