// Package yaml reads YAML as the Kubernetes tools do: with the words of YAML 1.1 (yes, off, 0777), and without values that JSON cannot represent.
//
// The reader is a recursive descent parser. An error is kept and moves to the end of the text, so that all callers return.
package yaml

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// The limits of one file.
const (
	maxDepth   = 10_000  // nested collections, as in encoding/json
	maxAliased = 400_000 // nodes from aliases
)

// Manifest is an object of a file, with its place there, such as "document 2" or
// "document 1: items[3]".
type Manifest struct {
	Object map[string]any
	Place  string
}

// ParseManifests reads the objects of a YAML file with one or more documents, or of a JSON file, in their order. The items of a list (kind: List and the like)
// replace the list. Empty documents are skipped. A document that is not an object is an error. Numbers are [encoding/json.Number]. Syntax errors name the line
// and the column.
func ParseManifests(data []byte) (objects []map[string]any, err error) {
	all, err := ParsePlaced(data)
	for _, m := range all {
		objects = append(objects, m.Object)
	}
	return objects, err
}

// ParsePlaced is [ParseManifests] with the places of the objects, for messages.
func ParsePlaced(data []byte) (all []Manifest, err error) {
	docs, err := Parse(data, false)
	for i, doc := range docs {
		if doc == nil {
			continue
		}
		if all, err = appendManifests(all, doc, fmt.Sprintf("document %d", i+1)); err != nil {
			return nil, err
		}
	}
	return all, err
}

// Parse reads JSON with the JSON decoder, because JSON has larger numbers than YAML. With redact, errors name only the place, because the text can be a secret.
func Parse(data []byte, redact bool) ([]any, error) {
	if i := rawjson.SkipSpace(data, 0); i < len(data) && data[i] == '{' {
		if v, err := rawjson.Decode(data); err == nil {
			return []any{v}, nil
		}
	}
	return parse(data, redact)
}

// appendManifests appends an object, or the items of a list, which may be lists, too.
func appendManifests(all []Manifest, value any, place string) ([]Manifest, error) {
	m, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: an object is expected, not %s", place, rawjson.KindOf(value))
	}
	kind, _ := m["kind"].(string)
	items, ok := m["items"].([]any)
	if !ok || !strings.HasSuffix(kind, "List") {
		return append(all, Manifest{m, place}), nil
	}
	for i, item := range items {
		var err error
		if all, err = appendManifests(all, item, fmt.Sprintf("%s: items[%d]", place, i)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// parse returns the value of each document that is not empty.
func parse(data []byte, redact bool) ([]any, error) {
	text, err := yamlText(data)
	if err != nil {
		return nil, err
	}
	r := &reader{src: text, redact: redact}
	var docs []any
	for r.nextDocument() {
		if v, ok := r.document(); ok {
			docs = append(docs, v)
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return docs, nil
}

// YAML 1.1 has three line breaks beyond ASCII. The next line is a line end like any other. A value keeps its separators. In the text
// that is parsed, control characters stand for them, which are not allowed in YAML, so that each line break is one byte.
const (
	lineSeparator      = '\x1c' // U+2028
	paragraphSeparator = '\x1d' // U+2029
	breaks             = "\n\x1c\x1d"
)

var (
	foreignBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\x1c", "\u2029", "\x1d")
	separators    = strings.NewReplacer("\x1c", "\u2028", "\x1d", "\u2029")
)

func isBreak(c byte) bool { return c == '\n' || c == lineSeparator || c == paragraphSeparator }

// yamlText converts a file to text: UTF-8 without a byte order mark, and with a byte for each line break.
func yamlText(data []byte) (string, error) {
	if len(data) >= 2 && data[0]^data[1] == 0xff^0xfe { // UTF-16, as some Windows shells write it
		var order binary.ByteOrder = binary.LittleEndian
		if data[0] == 0xfe {
			order = binary.BigEndian
		}
		if data[0] >= 0xfe && data[1] >= 0xfe {
			units := make([]uint16, 0, len(data)/2)
			for i := 2; i+1 < len(data); i += 2 {
				units = append(units, order.Uint16(data[i:]))
			}
			data = []byte(string(utf16.Decode(units)))
		}
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	for i, c := range text {
		problem := ""
		switch {
		case c == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			problem = "the text is not UTF-8"
		case c < ' ' && c != '\n' && c != '\r' && c != '\t', c >= 0x7f && c < 0xa0 && c != 0x85, c == 0xfffe || c == 0xffff:
			problem = fmt.Sprintf("the control character %q must be escaped", c)
		}
		if problem != "" {
			before := foreignBreaks.Replace(text[:i])
			return "", yamlError(before, len(before), "%s", problem)
		}
	}
	return foreignBreaks.Replace(text), nil
}

// yamlError returns a syntax error at a place of the text.
func yamlError(text string, pos int, format string, args ...any) error {
	before := text[:pos]
	line, start := 1, 0
	for i := range len(before) {
		if isBreak(before[i]) {
			line, start = line+1, i+1
		}
	}
	column := utf8.RuneCountInString(before[start:]) + 1
	return fmt.Errorf("line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
}

// reader reads the documents of one text.
type reader struct {
	src       string
	redact    bool // errors omit the text
	pos       int
	err       error                 // first error; then pos is at the end of the text
	anchors   map[string]yamlAnchor // of this document
	handles   map[string]string     // of its %TAG directives
	columnPos int                   // last argument of column
	line      int                   // start of its line
	depth     int                   // of collections
	count     int                   // of nodes, including those from aliases
	aliased   int                   // of nodes from aliases
}

// yamlAnchor is a value that aliases repeat.
type yamlAnchor struct {
	value any
	size  int  // in nodes
	open  bool // its value is not complete yet
}

// yamlProps are the properties before a value.
type yamlProps struct {
	anchor, tag string
	pos         int
}

func (p yamlProps) given() bool { return p.anchor != "" || p.tag != "" }

// fail records the first error, and moves to the end of the text.
func (r *reader) fail(pos int, format string, args ...any) {
	if r.err == nil {
		r.err = yamlError(r.src, min(pos, len(r.src)), format, args...)
	}
	r.pos = len(r.src)
}

// at returns the byte at an offset from here, or 0 beyond the end. It is not inlined because its many callers would make the binary kilobytes larger. The same
// holds for skip and blank.
//
//go:noinline
func (r *reader) at(offset int) byte {
	if i := r.pos + offset; i < len(r.src) {
		return r.src[i]
	}
	return 0
}

// skip advances by n bytes, but not beyond the end, where an error may have moved to.
//
//go:noinline
func (r *reader) skip(n int) { r.pos = min(r.pos+n, len(r.src)) }

func (r *reader) eof() bool { return r.pos >= len(r.src) }

// blank reports whether the byte at an offset is white space or the end.
//
//go:noinline
func (r *reader) blank(offset int) bool {
	switch r.at(offset) {
	case ' ', '\t', '\n', lineSeparator, paragraphSeparator:
		return true
	}
	return r.pos+offset >= len(r.src)
}

// indicator reports whether c is here, followed by white space.
func (r *reader) indicator(c byte) bool { return r.at(0) == c && r.blank(1) }

// column returns the distance of a place from the start of its line. It looks back only to its last argument, so that long lines do not take quadratic time.
func (r *reader) column(pos int) int {
	if pos < r.columnPos {
		r.columnPos, r.line = 0, 0
	}
	if n := strings.LastIndexAny(r.src[r.columnPos:pos], breaks); n >= 0 {
		r.line = r.columnPos + n + 1
	}
	r.columnPos = pos
	return pos - r.line
}

// indentation returns the column here if there are only spaces before it, or -1.
func (r *reader) indentation() int {
	i := r.pos
	for i > 0 && r.src[i-1] == ' ' {
		i--
	}
	if i > 0 && !isBreak(r.src[i-1]) {
		return -1
	}
	return r.pos - i
}

// marker reports whether "---" or "..." begins the line here.
func (r *reader) marker() bool {
	if r.pos > 0 && !isBreak(r.src[r.pos-1]) || !r.blank(3) {
		return false
	}
	return strings.HasPrefix(r.src[r.pos:], "---") || strings.HasPrefix(r.src[r.pos:], "...")
}

// skipSpaces skips spaces and tabs.
func (r *reader) skipSpaces() {
	for c := r.at(0); c == ' ' || c == '\t'; c = r.at(0) {
		r.skip(1)
	}
}

// skipBlank skips white space, comments and line ends.
func (r *reader) skipBlank() {
	for {
		start := r.pos
		r.skipSpaces()
		switch {
		case r.at(0) == '#':
			r.skipLine()
		case isBreak(r.at(0)):
		default:
			if before := strings.TrimRight(r.src[start:r.pos], " "); before != "" && !r.eof() && (start == 0 || isBreak(r.src[start-1])) {
				r.fail(r.pos-1, "a tab can't be used for indentation")
			}
			return
		}
		if r.eof() {
			return
		}
		r.skip(1)
	}
}

// skipLine moves to the end of the line.
func (r *reader) skipLine() {
	if n := strings.IndexAny(r.src[r.pos:], breaks); n >= 0 {
		r.skip(n)
	} else {
		r.pos = len(r.src)
	}
}

// nextDocument skips the directives of a document. It reports whether there is a document.
func (r *reader) nextDocument() bool {
	r.anchors, r.handles = map[string]yamlAnchor{}, map[string]string{}
	directives := false
	for r.err == nil {
		if r.src[r.pos:] != "" && strings.HasPrefix(r.src[r.pos:], "\ufeff") {
			r.skip(len("\ufeff"))
		}
		r.skipBlank()
		switch {
		case r.eof():
			if directives {
				r.fail(r.pos, "a document (---) is expected after the directives")
			}
			return false
		case r.at(0) == '%' && r.column(r.pos) == 0:
			r.directive()
			directives = true
		case r.marker() && r.at(0) == '.':
			if directives {
				r.fail(r.pos, "a document (---) is expected after the directives")
			}
			r.skip(3)
			r.endOfLine()
		case directives && !r.marker():
			r.fail(r.pos, "a document (---) is expected after the directives")
		default:
			return true
		}
	}
	return false
}

// directive reads a line that begins with %. It ignores unknown directives.
func (r *reader) directive() {
	start := r.pos
	r.skipLine()
	words := strings.Fields(r.src[start:r.pos])
	for i, w := range words {
		if strings.HasPrefix(w, "#") {
			words = words[:i]
			break
		}
	}
	switch words[0] {
	case "%YAML":
		if len(words) != 2 || !strings.HasPrefix(words[1], "1.") {
			r.fail(start, "%%YAML 1.1 or 1.2 is expected, not %q", strings.Join(words, " "))
		}
	case "%TAG":
		if len(words) != 3 || !strings.HasPrefix(words[1], "!") || !strings.HasSuffix(words[1], "!") {
			r.fail(start, "%%TAG with a handle and a prefix is expected, not %q", strings.Join(words, " "))
			return
		}
		r.handles[words[1]] = words[2]
	}
}

// endOfLine expects only a comment in the rest of the line.
func (r *reader) endOfLine() {
	r.skipSpaces()
	if r.at(0) == '#' {
		r.skipLine()
	}
	if !r.eof() && !isBreak(r.at(0)) {
		r.fail(r.pos, "unexpected %s", r.here())
	}
}

// document reads one document, which may be empty.
func (r *reader) document() (v any, ok bool) {
	if r.marker() {
		r.skip(3)
	}
	r.skipBlank()
	if r.eof() || r.marker() {
		return nil, false
	}
	v = r.block(-1, false, false)
	if r.skipBlank(); !r.eof() && !r.marker() {
		r.fail(r.pos, "unexpected %s; a new document begins with ---", r.here())
	}
	return v, true
}

// here quotes the text at this place, for a message.
func (r *reader) here() string {
	text := r.src[r.pos:]
	if n := strings.IndexAny(text, breaks); n >= 0 {
		text = text[:n]
	}
	switch {
	case text == "":
		return "end of the text"
	case r.redact:
		return "what is there"
	}
	if runes := []rune(text[:min(len(text), 80)]); len(runes) > 20 {
		return fmt.Sprintf("%q", string(runes[:20])+"…")
	}
	return fmt.Sprintf("%q", text)
}

// nest increments the depth, and fails beyond the limit. The caller undoes it with r.depth--.
func (r *reader) nest() {
	if r.depth++; r.depth > maxDepth {
		r.fail(r.pos, "more than %d values are nested", maxDepth)
	}
}

// below reports whether the text here, on its own line, belongs to a value of a parent at a column. The indicator of a block scalar may be at the column of the
// parent. With dashes, as after "key:", a sequence there belongs to it, too.
func (r *reader) below(parent int, dashes bool) bool {
	if r.eof() || r.marker() {
		return false
	}
	in := r.indentation()
	atParent := dashes && r.indicator('-') || r.at(0) == '|' || r.at(0) == '>'
	return in > parent || in < 0 || in == parent && atParent
}

// block reads a value after an indicator, or at the start of a document. It returns nil if there is none. Continuation lines are indented by more than parent.
// If the value is compact, a collection may begin on the line of the indicator.
func (r *reader) block(parent int, compact, dashes bool) any {
	r.nest()
	defer func() { r.depth-- }()
	r.skipBlank()
	if !r.below(parent, dashes) {
		return nil
	}
	compact = r.indentation() >= 0 || compact && r.src[r.pos-1] != '\t'
	var outer yamlProps
	start := r.pos
	inner := r.props()
	if inner.given() {
		r.skipBlank()
		if r.eof() || r.indentation() >= 0 { // the properties are on a line above the value
			outer, inner = inner, yamlProps{}
			if !r.below(parent, dashes) {
				return r.keep(outer, r.count, r.scalar("", true, outer))
			}
			compact, start = true, r.pos
			if inner = r.props(); inner.given() {
				if r.skipBlank(); r.eof() || r.indentation() >= 0 {
					r.fail(inner.pos, "a value can't have two anchors or tags")
				}
			}
		}
	}
	return r.content(parent, compact, start, outer, inner)
}

// content reads the value here. The outer properties are on a line above it. The inner ones, from start on, precede it on its line. They belong to its first
// key if it is a mapping.
func (r *reader) content(parent int, compact bool, start int, outer, inner yamlProps) any {
	before := r.count
	r.hold(outer)
	sequence, explicit := r.indicator('-'), r.indicator('?')
	switch c := r.at(0); {
	case (sequence || explicit) && (!compact || inner.given()):
		r.fail(r.pos, "%q must begin a line", c)
	case sequence:
		return r.keep(outer, before, r.sequence(r.column(start), parent))
	case explicit:
		return r.keep(outer, before, r.mapping(r.column(start), nil))
	case c == '|' || c == '>':
		props := r.merged(outer, inner)
		return r.keep(props, before, r.scalar(r.blockScalar(parent), false, props))
	}
	r.hold(inner)
	key := r.propertied(inner)
	end := r.pos
	if r.skipSpaces(); r.indicator(':') {
		if !compact || strings.ContainsAny(r.src[start:end], breaks) {
			r.fail(r.pos, "a mapping can't begin here")
		}
		first := r.finishKey(key, inner, before, start)
		r.skip(1)
		return r.keep(outer, before, r.mapping(r.column(start), &first))
	}
	r.pos = end
	props := r.merged(outer, inner)
	if key.plain {
		key.text = r.plainRest(key.text, parent)
	}
	return r.finish(key, props, before)
}

// merged returns the properties of a value that is not a mapping.
func (r *reader) merged(outer, inner yamlProps) yamlProps {
	if outer.anchor != "" && inner.anchor != "" || outer.tag != "" && inner.tag != "" {
		r.fail(inner.pos, "a value can't have two anchors or tags")
	}
	if outer.anchor == "" {
		outer.anchor = inner.anchor
	}
	if outer.tag == "" {
		outer.tag = inner.tag
	}
	outer.pos = max(outer.pos, inner.pos)
	return outer
}

// hold rejects aliases to an anchor while its value is being read.
func (r *reader) hold(props yamlProps) {
	if props.anchor != "" {
		r.anchors[props.anchor] = yamlAnchor{open: true}
	}
}

// keep stores a value for the aliases to its anchor. The argument before is the number of nodes before it.
func (r *reader) keep(props yamlProps, before int, v any) any {
	r.count++
	if props.anchor != "" {
		r.anchors[props.anchor] = yamlAnchor{value: v, size: r.count - before}
	}
	return v
}

// yamlAtom is a value that can be a key: a scalar as text, or the value of an alias or of brackets.
type yamlAtom struct {
	value                any
	text                 string
	isText, plain, alias bool
}

// atom reads a value that can be a key. It reads a plain scalar up to the end of its line.
func (r *reader) atom(flow bool) (a yamlAtom) {
	switch c := r.at(0); c {
	case '*':
		a.alias, a.value = true, r.alias()
	case '"', '\'':
		a.isText, a.text = true, r.quoted()
	case '[', '{':
		a.value = r.flowCollection()
	default:
		a.isText, a.plain, a.text = true, true, r.plainStart(flow)
	}
	return a
}

// propertied reads a value in a block that can be a key. A key can have properties and nothing else.
func (r *reader) propertied(props yamlProps) yamlAtom {
	if props.given() && r.indicator(':') {
		return yamlAtom{isText: true, plain: true}
	}
	return r.atom(false)
}

// finish returns the value of an atom with its properties. The argument before is the number of nodes before it.
func (r *reader) finish(a yamlAtom, props yamlProps, before int) any {
	switch {
	case a.alias && props.given():
		r.fail(props.pos, "an alias can't have an anchor or a tag")
	case a.isText:
		return r.keep(props, before, r.scalar(a.text, a.plain, props))
	}
	return r.keep(props, before, a.value)
}

// yamlKey is the key of an entry of a mapping.
type yamlKey struct {
	name  string
	merge bool
	pos   int
}

// finishKey makes a key from an atom and its properties.
func (r *reader) finishKey(a yamlAtom, props yamlProps, before, pos int) yamlKey {
	merge := a.isText && a.text == "<<" && (a.plain && (props.tag == "" || props.tag == "!") || props.tag == yamlTag+"merge")
	return yamlKey{name: r.keyName(r.finish(a, props, before), pos), merge: merge, pos: pos}
}

// keyName converts a key to a string, as JSON requires.
func (r *reader) keyName(v any, pos int) string {
	name, err := yamlKeyName(v)
	if err != nil {
		r.fail(pos, "%v", err)
	}
	return name
}

// entries collects the entries of a mapping.
type yamlEntries struct {
	values map[string]any
	given  map[string]bool // keys that are written in the mapping, not merged
}

// put adds an entry. An entry that is written in the mapping replaces a merged one, as in the Kubernetes tools.
func (r *reader) put(e *yamlEntries, key yamlKey, v any) {
	if key.merge {
		r.mergeInto(e, v, key.pos)
		return
	}
	if e.given[key.name] {
		r.fail(key.pos, "the key %q is given twice", key.name)
	}
	if e.values == nil {
		e.values, e.given = map[string]any{}, map[string]bool{}
	}
	e.values[key.name], e.given[key.name] = v, true
}

// mergeInto merges the value of the key << into a mapping.
func (r *reader) mergeInto(e *yamlEntries, v any, pos int) {
	maps, ok := v.([]any)
	if !ok {
		maps = []any{v}
	}
	if e.values == nil {
		e.values, e.given = map[string]any{}, map[string]bool{}
	}
	for i := len(maps) - 1; i >= 0; i-- { // the first one wins
		m, ok := maps[i].(map[string]any)
		if !ok {
			r.fail(pos, "the key << needs a mapping or a list of mappings, not %s", rawjson.KindOf(maps[i]))
		}
		for k, v := range m {
			e.values[k] = v
		}
	}
}

func (e *yamlEntries) object() map[string]any {
	if e.values == nil {
		return map[string]any{}
	}
	return e.values
}

// next moves to the next entry of a block collection at a column, and reports whether there is one.
func (r *reader) next(column int) bool {
	r.skipBlank()
	if r.eof() || r.marker() {
		return false
	}
	in := r.indentation()
	switch {
	case in < 0:
		r.fail(r.pos, "unexpected %s after a value", r.here())
	case in > column:
		r.fail(r.pos, "unexpected indentation of %s", r.here())
	}
	return in == column && r.err == nil
}

// sequence reads the items that begin with dashes at a column. If the parent has the same column, text without a dash there belongs to the parent.
func (r *reader) sequence(column, parent int) any {
	items := []any{}
	for {
		r.skip(1) // the dash
		items = append(items, r.block(column, true, false))
		if !r.next(column) {
			return items
		}
		if !r.indicator('-') {
			if column > parent {
				r.fail(r.pos, "an item of a sequence (- …) is expected, not %s", r.here())
			}
			return items
		}
	}
}

// mapping reads the entries with keys at a column. The caller may have read the first key already, with its colon.
func (r *reader) mapping(column int, first *yamlKey) any {
	var entries yamlEntries
	for {
		key, explicit := yamlKey{}, false
		switch {
		case first != nil:
			key, first = *first, nil
		case r.indicator('?'):
			key, explicit = r.explicitKey(column), true
		default:
			key = r.implicitKey()
		}
		var v any
		if !explicit {
			v = r.block(column, false, true)
		} else if r.skipBlank(); !r.eof() && r.indentation() == column && r.indicator(':') {
			r.skip(1)
			v = r.block(column, true, true)
		}
		r.put(&entries, key, v)
		if !r.next(column) {
			return entries.object()
		}
	}
}

// explicitKey reads a key after "?".
func (r *reader) explicitKey(column int) yamlKey {
	r.skip(1)
	start := r.pos
	return yamlKey{name: r.keyName(r.block(column, true, true), start), pos: start}
}

// implicitKey reads a key and its colon on one line.
func (r *reader) implicitKey() yamlKey {
	start := r.pos
	props := r.props()
	r.skipSpaces()
	if r.indicator('-') {
		r.fail(r.pos, "a key is expected, not %s", r.here())
	}
	before := r.count
	r.hold(props)
	key := r.finishKey(r.propertied(props), props, before, start)
	end := r.pos
	if r.skipSpaces(); !r.indicator(':') || strings.ContainsAny(r.src[start:end], breaks) {
		r.pos = min(start, len(r.src))
		r.fail(r.pos, "a key and a colon are expected, not %s", r.here())
	}
	r.skip(1)
	return key
}

// props reads the anchor and the tag before a value.
func (r *reader) props() yamlProps {
	p := yamlProps{pos: r.pos}
	for {
		switch c := r.at(0); {
		case c == '&' && p.anchor == "":
			r.skip(1)
			p.anchor = r.name()
		case c == '!' && p.tag == "":
			p.tag = r.tag()
		case c == '&' || c == '!':
			r.fail(r.pos, "a value can't have two anchors or tags")
			return p
		default:
			return p
		}
		end := r.pos
		if r.skipSpaces(); r.at(0) != '&' && r.at(0) != '!' {
			r.pos = end
			return p
		}
	}
}

// name reads the name of an anchor or an alias.
func (r *reader) name() string {
	start := r.pos
	for !r.blank(0) && strings.IndexByte(",[]{}", r.at(0)) < 0 && !r.indicator(':') {
		r.skip(1)
	}
	name := r.src[start:r.pos]
	if name == "" {
		r.fail(start, "a name is expected after %q", r.src[start-1:start])
	}
	return name
}

// alias repeats the value of an anchor, as a copy: the result shares nothing.
func (r *reader) alias() any {
	start := r.pos
	r.skip(1)
	name := r.name()
	a, ok := r.anchors[name]
	switch {
	case r.err != nil:
		return nil
	case !ok:
		r.fail(start, "there is no anchor %q before", name)
	case a.open:
		r.fail(start, "the anchor %q contains itself", name)
	}
	r.count += a.size
	if r.aliased += a.size; r.aliased > maxAliased {
		r.fail(start, "aliases stand for more than %d values", maxAliased)
		return nil
	}
	return rawjson.Clone(a.value)
}

// flowCollection reads a collection in brackets. The indentation of its lines does not matter.
func (r *reader) flowCollection() any {
	r.nest()
	defer func() { r.depth-- }()
	start, isMap, end := r.pos, r.at(0) == '{', byte(']')
	if isMap {
		end = '}'
	}
	r.skip(1)
	items, entries := []any{}, yamlEntries{}
	for {
		if r.skipFlow(start); r.at(0) == end || r.eof() {
			break
		}
		key, v, pair := r.flowEntry(isMap, start)
		switch {
		case isMap:
			r.put(&entries, key, v)
		case pair:
			single := yamlEntries{}
			r.put(&single, key, v)
			items = append(items, single.object())
			r.count++
		default:
			items = append(items, v)
		}
		if r.skipFlow(start); r.at(0) == ',' {
			r.skip(1)
		} else if r.at(0) != end {
			r.fail(r.pos, "a comma or %q is expected, not %s", end, r.here())
		}
	}
	r.skip(1)
	if isMap {
		return entries.object()
	}
	return items
}

// skipFlow moves to the next text inside of brackets.
func (r *reader) skipFlow(start int) {
	for {
		r.skipSpaces()
		switch {
		case r.marker():
			r.fail(start, "the bracket is not closed")
		case r.at(0) == '#':
			r.skipLine()
		case isBreak(r.at(0)):
			r.skip(1)
		default:
			if r.eof() {
				r.fail(start, "the bracket is not closed")
			}
			return
		}
	}
}

// flowEntry reads a value in brackets, or a key and its value. In braces, all entries have keys.
func (r *reader) flowEntry(isMap bool, start int) (key yamlKey, v any, pair bool) {
	pos, before := r.pos, r.count
	if r.at(0) == '?' {
		pair = true
		r.skip(1)
		r.skipFlow(start)
	} else if strings.IndexByte(",]}", r.at(0)) >= 0 {
		r.fail(pos, "a value is expected, not %q", r.at(0))
	}
	a, props := r.flowAtom(start)
	end := r.pos
	r.skipFlow(start)
	if colon := r.at(0) == ':'; colon || pair || isMap {
		if colon && !pair && strings.ContainsAny(r.src[pos:r.pos], breaks) {
			r.fail(r.pos, "a key and its colon must be on one line")
		}
		key = r.finishKey(a, props, before, pos)
		if colon {
			r.skip(1)
			r.skipFlow(start)
			before = r.count
			a, props = r.flowAtom(start)
			v = r.finish(a, props, before)
		}
		return key, v, true
	}
	r.pos = end
	return key, r.finish(a, props, before), false
}

// flowAtom reads a value in brackets with its properties. Without a value, it is empty.
func (r *reader) flowAtom(start int) (yamlAtom, yamlProps) {
	props := r.props()
	r.skipFlow(start)
	if r.eof() || strings.IndexByte(",]}:", r.at(0)) >= 0 {
		return yamlAtom{isText: true, plain: true}, props
	}
	r.hold(props)
	a := r.atom(true)
	if a.plain {
		a.text = r.plainFlowRest(a.text)
	}
	return a, props
}
