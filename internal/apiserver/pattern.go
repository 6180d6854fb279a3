package apiserver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file knows the patterns of schemas: regular expressions in the syntax of RE2, of which nothing but whether they match is
// asked. Package regexp can do more, and with its tables would be the largest part of an operator after TLS; a test holds
// this one to it. A pattern is read-only once it is compiled.

// pattern is a compiled regular expression. It is matched in linear time, by following all ways through it at once.
type pattern struct {
	text string
	code []patternStep
}

// patternStep is one instruction: to take one character, to assert something of where it is, or to go on elsewhere.
type patternStep struct {
	op   patternOp
	set  *patternSet // of takeOne
	next int         // in the code
	also int         // in the code, of forkWay
}

type patternOp uint8

const (
	takeOne patternOp = iota
	forkWay
	goOn
	matched
	atTextBegin
	atTextEnd
	atLineBegin
	atLineEnd
	atBoundary
	noBoundary
)

// patternSet is a set of characters: the union of its parts, or all others.
type patternSet struct {
	parts   []patternPart
	negated bool
}

// patternPart is a part of a set: pairs of the first and the last character, or a class of Unicode.
type patternPart struct {
	ranges  []rune
	table   *unicode.RangeTable
	negated bool
	fold    bool // whatever the case
}

func (s *patternSet) has(r rune) bool {
	return slices.ContainsFunc(s.parts, func(p patternPart) bool { return p.has(r) }) != s.negated
}

func (p *patternPart) has(r rune) bool {
	found := p.holds(r)
	for other := unicode.SimpleFold(r); p.fold && !found && other != r; other = unicode.SimpleFold(other) {
		found = p.holds(other)
	}
	return found != p.negated
}

func (p *patternPart) holds(r rune) bool {
	for i := 0; i < len(p.ranges); i += 2 {
		if p.ranges[i] <= r && r <= p.ranges[i+1] {
			return true
		}
	}
	return p.table != nil && unicode.Is(p.table, r)
}

// String returns the text of the pattern.
func (p *pattern) String() string { return p.text }

// match tells whether the pattern matches anywhere in the text.
func (p *pattern) match(text string) bool {
	now, then := newWays(len(p.code)), newWays(len(p.code))
	before, at := rune(-1), 0
	for {
		r, size := rune(-1), 0
		if at < len(text) {
			r, size = utf8.DecodeRuneInString(text[at:])
		}
		if p.follow(now, 0, before, r) {
			return true
		}
		if size == 0 {
			return false
		}
		then.clear()
		after := rune(-1)
		if at+size < len(text) {
			after, _ = utf8.DecodeRuneInString(text[at+size:])
		}
		for _, i := range now.list {
			if step := &p.code[i]; step.op == takeOne && step.set.has(r) && p.follow(then, step.next, r, after) {
				return true
			}
		}
		now, then = then, now
		before, at = r, at+size
	}
}

// ways is a set of positions in the code.
type ways struct {
	list []int
	seen []bool
}

func newWays(n int) *ways { return &ways{make([]int, 0, n), make([]bool, n)} }

func (w *ways) clear() {
	w.list = w.list[:0]
	clear(w.seen)
}

// follow adds all positions that can be reached without another character, and tells whether the end is among them.
func (p *pattern) follow(w *ways, i int, before, after rune) bool {
	for !w.seen[i] {
		w.seen[i] = true
		w.list = append(w.list, i)
		step := &p.code[i]
		switch step.op {
		case matched:
			return true
		case takeOne:
			return false
		case forkWay:
			if p.follow(w, step.also, before, after) {
				return true
			}
		default:
			if !step.op.holds(before, after) {
				return false
			}
		}
		i = step.next
	}
	return false
}

// holds tells whether an assertion is true between two characters, which are negative at the ends of the text.
func (op patternOp) holds(before, after rune) bool {
	switch op {
	case atTextBegin:
		return before < 0
	case atTextEnd:
		return after < 0
	case atLineBegin:
		return before < 0 || before == '\n'
	case atLineEnd:
		return after < 0 || after == '\n'
	case atBoundary:
		return isWordChar(before) != isWordChar(after)
	case noBoundary:
		return isWordChar(before) == isWordChar(after)
	}
	return true
}

func isWordChar(r rune) bool { return r >= 0 && wordChars.has(r) }

var wordChars = patternPart{ranges: []rune("09AZaz__")}

// compilePattern compiles a regular expression in the syntax of https://golang.org/s/re2syntax.
func compilePattern(text string) (*pattern, error) {
	if !utf8.ValidString(text) {
		return nil, patternError("invalid UTF-8", text)
	}
	p := &patternParser{text: text, rest: text}
	node, err := p.alternation()
	if err != nil {
		return nil, err
	}
	if p.rest != "" { // nothing else ends an alternation early
		return nil, patternError("unexpected )", text)
	}
	c := &pattern{text: text}
	c.emit(node)
	c.add(patternStep{op: matched})
	return c, nil
}

// patternError is the refusal of a pattern.
func patternError(what, where string) error {
	return fmt.Errorf("error parsing regexp: %s: `%s`", what, where)
}

// patternNode is a part of a pattern: one step, or what its parts are together.
type patternNode struct {
	kind     patternKind
	step     patternStep
	parts    []*patternNode
	min, max int // of repeated; max is negative without a limit
}

type patternKind uint8

const (
	single patternKind = iota
	sequence
	alternatives
	repeated
)

// add appends a step, and returns its place.
func (p *pattern) add(s patternStep) int {
	p.code = append(p.code, s)
	return len(p.code) - 1
}

// emit appends the code of a node, which goes on at what is appended next.
func (p *pattern) emit(n *patternNode) {
	switch n.kind {
	case single:
		i := p.add(n.step)
		p.code[i].next = i + 1
	case sequence:
		for _, part := range n.parts {
			p.emit(part)
		}
	case alternatives:
		var ends []int
		for _, part := range n.parts[:len(n.parts)-1] {
			fork := p.add(patternStep{op: forkWay})
			p.code[fork].next = fork + 1
			p.emit(part)
			ends = append(ends, p.add(patternStep{op: goOn}))
			p.code[fork].also = len(p.code)
		}
		p.emit(n.parts[len(n.parts)-1])
		for _, end := range ends {
			p.code[end].next = len(p.code)
		}
	case repeated:
		p.emitRepeated(n)
	}
}

func (p *pattern) emitRepeated(n *patternNode) {
	for range n.min {
		p.emit(n.parts[0])
	}
	if n.max < 0 {
		fork := p.add(patternStep{op: forkWay})
		p.code[fork].next = fork + 1
		p.emit(n.parts[0])
		p.add(patternStep{op: goOn, next: fork})
		p.code[fork].also = len(p.code)
		return
	}
	var forks []int
	for range n.max - n.min {
		fork := p.add(patternStep{op: forkWay})
		p.code[fork].next = fork + 1
		forks = append(forks, fork)
		p.emit(n.parts[0])
	}
	for _, fork := range forks {
		p.code[fork].also = len(p.code)
	}
}

// repeats tells whether a node is repeated no more often than so many times, with all repetitions in it and around it.
func (n *patternNode) repeats(most int) bool {
	if n.kind == repeated {
		count := n.max
		if count == 0 {
			return true
		}
		if count < 0 {
			count = n.min
		}
		if count > most {
			return false
		}
		if count > 0 {
			most /= count
		}
	}
	return !slices.ContainsFunc(n.parts, func(part *patternNode) bool { return !part.repeats(most) })
}

// patternParser reads a regular expression.
type patternParser struct {
	text, rest string
	flags      patternFlags
	depth      int
}

type patternFlags struct{ fold, multiline, dotall bool }

// The limits of package regexp.
const (
	maxPatternDepth  = 1000
	maxPatternRepeat = 1000
)

// alternation reads up to the end or a closing parenthesis. Flags that are set in it end with it.
func (p *patternParser) alternation() (*patternNode, error) {
	defer func(flags patternFlags) { p.flags = flags }(p.flags)
	all := &patternNode{kind: alternatives}
	for {
		part, err := p.sequence()
		if err != nil {
			return nil, err
		}
		all.parts = append(all.parts, part)
		if !strings.HasPrefix(p.rest, "|") {
			return all, nil
		}
		p.rest = p.rest[1:]
	}
}

func (p *patternParser) sequence() (*patternNode, error) {
	all := &patternNode{kind: sequence}
	repeat := "" // the rest from where a repetition ended the one before
	for p.rest != "" && p.rest[0] != '|' && p.rest[0] != ')' {
		from := p.rest
		if min, max, ok := p.repetition(); ok {
			if err := p.repeat(all, from, repeat, min, max); err != nil {
				return nil, err
			}
			repeat = from
			continue
		}
		repeat = ""
		nodes, err := p.atom()
		if err != nil {
			return nil, err
		}
		all.parts = append(all.parts, nodes...)
	}
	return all, nil
}

// repetition reads an operator such as "*" or "{2,3}". What does not look like one is taken literally.
func (p *patternParser) repetition() (min, max int, ok bool) {
	switch p.rest[0] {
	case '*':
		min, max = 0, -1
	case '+':
		min, max = 1, -1
	case '?':
		min, max = 0, 1
	case '{':
		return p.counted()
	default:
		return 0, 0, false
	}
	p.rest = p.rest[1:]
	return min, max, true
}

func (p *patternParser) counted() (min, max int, ok bool) {
	inside, after, found := strings.Cut(p.rest[1:], "}")
	first, last, two := strings.Cut(inside, ",")
	if min, ok = patternCount(first); !found || !ok {
		return 0, 0, false
	}
	switch {
	case !two:
		max = min
	case last == "":
		max = -1
	default:
		if max, ok = patternCount(last); !ok {
			return 0, 0, false
		}
	}
	p.rest = after
	return min, max, true
}

// patternCount reads a count; one that is too large is any that is.
func patternCount(text string) (int, bool) {
	if text == "" || len(text) > 1 && text[0] == '0' || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		n = maxPatternRepeat + 1
	}
	return n, true
}

// repeat repeats the last part of a sequence by the operator between from and the rest; another one may have ended right there.
func (p *patternParser) repeat(all *patternNode, from, another string, min, max int) error {
	op := from[:len(from)-len(p.rest)]
	if min > maxPatternRepeat || max > maxPatternRepeat || max >= 0 && min > max {
		return patternError("invalid repeat count", op)
	}
	p.rest = strings.TrimPrefix(p.rest, "?")
	if another != "" {
		return patternError("invalid nested repetition operator", another[:len(another)-len(p.rest)])
	}
	if len(all.parts) == 0 {
		return patternError("missing argument to repetition operator", from[:len(from)-len(p.rest)])
	}
	last := &all.parts[len(all.parts)-1]
	*last = &patternNode{kind: repeated, parts: []*patternNode{*last}, min: min, max: max}
	if (min > 1 || max > 1) && !(*last).repeats(maxPatternRepeat) {
		return patternError("invalid repeat count", from[:len(from)-len(p.rest)])
	}
	return nil
}

// atom reads one character, class, assertion or group; flags are nothing by themselves.
func (p *patternParser) atom() ([]*patternNode, error) {
	switch p.rest[0] {
	case '(':
		return p.group()
	case '[':
		set, err := p.class()
		return taking(set), err
	case '\\':
		return p.escaped()
	}
	r, size := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	switch {
	case r == '.' && p.flags.dotall:
		return taking(&patternSet{negated: true}), nil
	case r == '.':
		return taking(&patternSet{negated: true, parts: []patternPart{{ranges: []rune("\n\n")}}}), nil
	case r == '^' && p.flags.multiline:
		return asserting(atLineBegin), nil
	case r == '^':
		return asserting(atTextBegin), nil
	case r == '$' && p.flags.multiline:
		return asserting(atLineEnd), nil
	case r == '$':
		return asserting(atTextEnd), nil
	}
	return p.literal(r), nil
}

// taking is the step over a character of a set.
func taking(set *patternSet) []*patternNode {
	return []*patternNode{{step: patternStep{op: takeOne, set: set}}}
}

func asserting(op patternOp) []*patternNode { return []*patternNode{{step: patternStep{op: op}}} }

func (p *patternParser) literal(r rune) []*patternNode {
	return taking(&patternSet{parts: []patternPart{{ranges: []rune{r, r}, fold: p.flags.fold}}})
}

// group reads a group, or flags for the rest of the one around.
func (p *patternParser) group() ([]*patternNode, error) {
	if p.depth++; p.depth > maxPatternDepth {
		return nil, patternError("expression nests too deeply", p.text)
	}
	defer func() { p.depth-- }()
	flags := p.flags
	if strings.HasPrefix(p.rest, "(?") {
		alone, err := p.prefix(&flags)
		if err != nil {
			return nil, err
		}
		if alone {
			p.flags = flags
			return nil, nil
		}
	} else {
		p.rest = p.rest[1:]
	}
	outer := p.flags
	p.flags = flags
	node, err := p.alternation()
	p.flags = outer
	if err != nil {
		return nil, err
	}
	if p.rest == "" {
		return nil, patternError("missing closing )", p.text)
	}
	p.rest = p.rest[1:]
	return []*patternNode{node}, nil
}

// prefix reads what begins a group after "(?": a name, or flags, which may stand alone.
func (p *patternParser) prefix(flags *patternFlags) (alone bool, err error) {
	whole := p.rest
	for _, begin := range []string{"(?P<", "(?<"} {
		if !strings.HasPrefix(whole, begin) || len(whole) == len(begin) {
			continue
		}
		name, after, ok := strings.Cut(whole[len(begin):], ">")
		if !ok {
			return false, patternError("invalid named capture", whole)
		}
		capture := whole[:len(whole)-len(after)]
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isWordChar(r) }) {
			return false, patternError("invalid named capture", capture)
		}
		p.rest = after
		return false, nil
	}
	on, any := true, false // any tells whether a flag was seen since the beginning or the minus
	for i, r := range whole[2:] {
		p.rest = whole[2+i+utf8.RuneLen(r):]
		switch r {
		case 'i':
			flags.fold, any = on, true
		case 'm':
			flags.multiline, any = on, true
		case 's':
			flags.dotall, any = on, true
		case 'U':
			any = true // which way is tried first does not matter
		case '-':
			if !on {
				return false, patternError("invalid or unsupported Perl syntax", whole[:len(whole)-len(p.rest)])
			}
			on, any = false, false
		case ':', ')':
			if !on && !any {
				return false, patternError("invalid or unsupported Perl syntax", whole[:len(whole)-len(p.rest)])
			}
			return r == ')', nil
		default:
			return false, patternError("invalid or unsupported Perl syntax", whole[:len(whole)-len(p.rest)])
		}
	}
	return false, patternError("invalid or unsupported Perl syntax", whole)
}

// escaped reads what begins with a backslash outside of classes.
func (p *patternParser) escaped() ([]*patternNode, error) {
	if len(p.rest) > 1 {
		switch p.rest[1] {
		case 'A', 'b', 'B', 'z':
			op := map[byte]patternOp{'A': atTextBegin, 'b': atBoundary, 'B': noBoundary, 'z': atTextEnd}[p.rest[1]]
			p.rest = p.rest[2:]
			return asserting(op), nil
		case 'Q':
			text, after, _ := strings.Cut(p.rest[2:], `\E`)
			p.rest = after
			var all []*patternNode
			for _, r := range text {
				all = append(all, p.literal(r)...)
			}
			return all, nil
		}
	}
	part, ok, err := p.classEscape()
	if err != nil {
		return nil, err
	}
	if ok {
		return taking(&patternSet{parts: []patternPart{part}}), nil
	}
	r, err := p.escapedChar()
	return p.literal(r), err
}

// classEscape reads an escape that stands for several characters, if it is one.
func (p *patternParser) classEscape() (part patternPart, ok bool, err error) {
	if len(p.rest) < 2 {
		return part, false, nil
	}
	part.fold = p.flags.fold
	switch p.rest[1] {
	case 'd', 'D':
		part.ranges = []rune("09")
	case 's', 'S':
		part.ranges = []rune("\t\n\f\r  ")
	case 'w', 'W':
		part.ranges = wordChars.ranges
	case 'p', 'P':
		return p.unicodeClass()
	default:
		return part, false, nil
	}
	part.negated = p.rest[1] < 'a'
	p.rest = p.rest[2:]
	return part, true, nil
}

// unicodeClasses are those classes of characters that patterns can name. Those of scripts are not among them.
var unicodeClasses = []struct {
	name  string
	table *unicode.RangeTable
}{
	{"L", unicode.L}, {"Ll", unicode.Ll}, {"Lm", unicode.Lm}, {"Lo", unicode.Lo}, {"Lt", unicode.Lt}, {"Lu", unicode.Lu},
	{"M", unicode.M}, {"N", unicode.N}, {"Nd", unicode.Nd}, {"P", unicode.P}, {"S", unicode.S}, {"Z", unicode.Z}, {"Zs", unicode.Zs},
}

// unicodeClass reads an escape such as \pL or \p{^Lu}.
func (p *patternParser) unicodeClass() (part patternPart, ok bool, err error) {
	_, size := utf8.DecodeRuneInString(p.rest[2:])
	name, after := p.rest[2:2+size], p.rest[2+size:]
	if name == "{" {
		if name, after, ok = strings.Cut(after, "}"); !ok {
			return part, false, patternError("invalid character class range", p.rest)
		}
	}
	escape := p.rest[:len(p.rest)-len(after)]
	part.fold, part.negated = p.flags.fold, p.rest[1] == 'P'
	if inverse, found := strings.CutPrefix(name, "^"); found {
		name, part.negated = inverse, !part.negated
	}
	p.rest = after
	if name == "Any" {
		part.ranges = []rune{0, unicode.MaxRune}
		return part, true, nil
	}
	for _, c := range unicodeClasses {
		if c.name == name {
			part.table = c.table
			return part, true, nil
		}
	}
	return part, false, patternError("invalid character class range", escape)
}

// escapedChar reads an escape that stands for one character.
func (p *patternParser) escapedChar() (rune, error) {
	whole := p.rest
	if len(whole) == 1 {
		return 0, patternError("trailing backslash at end of expression", "")
	}
	c, size := utf8.DecodeRuneInString(whole[1:])
	p.rest = whole[1+size:]
	if i := strings.IndexByte("afnrtv", byte(c)); c < utf8.RuneSelf && i >= 0 {
		return rune("\a\f\n\r\t\v"[i]), nil
	}
	switch {
	case c >= '0' && c <= '7':
		if r, ok := p.octal(c); ok {
			return r, nil
		}
	case c == 'x':
		if r, ok := p.hexadecimal(); ok {
			return r, nil
		}
	case c < utf8.RuneSelf && !(isWordChar(c) && c != '_'):
		return c, nil
	}
	return 0, patternError("invalid escape sequence", whole[:len(whole)-len(p.rest)])
}

// octal reads up to two more digits; a single one that is not zero would refer back, which is not supported.
func (p *patternParser) octal(c rune) (rune, bool) {
	isOctal := func() bool { return p.rest != "" && p.rest[0] >= '0' && p.rest[0] <= '7' }
	if c != '0' && !isOctal() {
		return 0, false
	}
	r := c - '0'
	for i := 0; i < 2 && isOctal(); i++ {
		r = r*8 + rune(p.rest[0]-'0')
		p.rest = p.rest[1:]
	}
	return r, true
}

// hexadecimal reads two digits, or any number of them in braces. What it reads of what is wrong belongs to the complaint.
func (p *patternParser) hexadecimal() (rune, bool) {
	next := func() (rune, int) {
		r, size := utf8.DecodeRuneInString(p.rest)
		p.rest = p.rest[size:]
		return r, strings.IndexRune("0123456789abcdef", unicode.ToLower(r))
	}
	if p.rest == "" {
		return 0, false
	}
	c, digit := next()
	if c != '{' {
		if p.rest == "" {
			return 0, false
		}
		_, low := next()
		return rune(digit<<4 + low), digit >= 0 && low >= 0
	}
	value := 0
	for n := 0; p.rest != ""; n++ {
		c, digit = next()
		if c == '}' {
			return rune(value), n > 0
		}
		if value = value<<4 + digit; digit < 0 || value > unicode.MaxRune {
			return 0, false
		}
	}
	return 0, false
}

// class reads a set of characters in brackets.
func (p *patternParser) class() (*patternSet, error) {
	whole := p.rest
	p.rest = p.rest[1:]
	set := &patternSet{}
	if strings.HasPrefix(p.rest, "^") {
		set.negated = true
		p.rest = p.rest[1:]
	}
	for first := true; p.rest == "" || p.rest[0] != ']' || first; first = false {
		if p.rest == "" {
			return nil, patternError("missing closing ]", whole)
		}
		part, ok, err := p.namedClass()
		if err == nil && !ok && p.rest[0] == '\\' {
			part, ok, err = p.classEscape()
		}
		if err == nil && !ok {
			part, err = p.span(whole)
		}
		if err != nil {
			return nil, err
		}
		set.parts = append(set.parts, part)
	}
	p.rest = p.rest[1:]
	return set, nil
}

// posixClasses are the classes that are named in brackets.
var posixClasses = []struct{ name, ranges string }{
	{"alnum", "09AZaz"}, {"alpha", "AZaz"}, {"ascii", "\x00\x7f"}, {"blank", "\t\t  "}, {"cntrl", "\x00\x1f\x7f\x7f"}, {"digit", "09"},
	{"graph", "!~"}, {"lower", "az"}, {"print", " ~"}, {"punct", "!/:@[`{~"}, {"space", "\t\r  "}, {"upper", "AZ"}, {"word", "09AZaz__"}, {"xdigit", "09AFaf"},
}

// namedClass reads a class such as [:alpha:] or [:^alpha:], if it is one.
func (p *patternParser) namedClass() (part patternPart, ok bool, err error) {
	if !strings.HasPrefix(p.rest, "[:") {
		return part, false, nil
	}
	name, after, found := strings.Cut(p.rest[2:], ":]")
	if !found {
		return part, false, nil
	}
	whole := p.rest[:len(p.rest)-len(after)]
	inverse, negated := strings.CutPrefix(name, "^")
	for _, c := range posixClasses {
		if c.name == inverse {
			p.rest = after
			return patternPart{ranges: []rune(c.ranges), negated: negated, fold: p.flags.fold}, true, nil
		}
	}
	return part, false, patternError("invalid character class range", whole)
}

// span reads one character of a class, or a range of them.
func (p *patternParser) span(class string) (part patternPart, err error) {
	whole := p.rest
	low, err := p.classChar(class)
	if err != nil {
		return part, err
	}
	high := low
	if len(p.rest) > 1 && p.rest[0] == '-' && p.rest[1] != ']' {
		p.rest = p.rest[1:]
		if high, err = p.classChar(class); err != nil {
			return part, err
		}
		if high < low {
			return part, patternError("invalid character class range", whole[:len(whole)-len(p.rest)])
		}
	}
	return patternPart{ranges: []rune{low, high}, fold: p.flags.fold}, nil
}

func (p *patternParser) classChar(class string) (rune, error) {
	if p.rest == "" {
		return 0, patternError("missing closing ]", class)
	}
	if p.rest[0] == '\\' {
		return p.escapedChar()
	}
	r, size := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	return r, nil
}
