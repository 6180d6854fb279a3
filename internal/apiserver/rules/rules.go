// Package rules validates objects of built-in kinds as kube-apiserver does, in addition to the check of their types.
package rules

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/field"
)

//go:embed rules.txt
var rulesText string

// rule is one line of the table. The head of rules.txt describes the notation.
type rule struct {
	when   []condition
	field  []string // the path of the field, none for the value itself
	each   bool     // the words apply to each item
	set    string   // the values that count as set: ? existing ones, * all, "" those that are not empty
	at     string   // the path in errors, if it differs
	words  []word
	detail string
}

// word is one requirement of a rule for a value, such as required, or enum:A,B.
type word struct {
	name   string
	args   []string
	do     function // of the word do
	format format   // of the words for formats
}

// function is a rule in Go.
type function func(n *node, detail string, args []string)

// condition is a requirement for a rule to apply.
type condition struct {
	field  []string
	set    string
	values []string // the field must have one of them; if there are none, it must be set
	not    bool
}

// ruleTable is the parsed table: the rules by the names of the sets, the formats of the names of objects by kind, and the meanings of the words.
type ruleTable struct {
	sets      map[string][]rule
	names     map[string]format
	functions map[string]function
	formats   map[string]format
}

// lazyTable is made on first use, because an initial value would take memory in every operator.
var lazyTable struct {
	once  sync.Once
	value *ruleTable
}

func table() *ruleTable {
	lazyTable.once.Do(func() { lazyTable.value = parseTable(rulesText) })
	return lazyTable.value
}

func parseTable(text string) *ruleTable {
	t := &ruleTable{sets: make(map[string][]rule), names: make(map[string]format), functions: functions(), formats: formats()}
	set := ""
	for _, line := range strings.Split(strings.ReplaceAll(text, "\n\t\t", ""), "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case words[0] == "names":
			for _, kind := range words[2:] {
				t.names[kind] = t.formats[words[1]]
			}
		case !strings.HasPrefix(line, "\t"):
			set = words[0]
			t.sets[set] = []rule{}
		default:
			t.sets[set] = append(t.sets[set], t.parseRule(line))
		}
	}
	return t
}

func (t *ruleTable) parseRule(line string) rule {
	var r rule
	line, r.detail, _ = strings.Cut(strings.TrimSpace(line), " -- ")
	if rest, ok := strings.CutPrefix(line, "["); ok {
		conditions, rest, _ := strings.Cut(rest, "] ")
		for _, c := range strings.Fields(conditions) {
			r.when = append(r.when, parseCondition(c))
		}
		line = rest
	}
	words := strings.Fields(line)
	name, set := cutMark(words[0])
	name, r.each = strings.CutSuffix(name, "[]")
	r.field, _ = parseField(name)
	r.set = set
	for _, text := range words[1:] {
		name, args, ok := strings.Cut(text, ":")
		if name == "at" {
			r.at = args
			continue
		}
		w := word{name: name, format: t.formats[name]}
		if ok {
			w.args = strings.Split(args, ",")
		}
		if name == "do" {
			w.do = t.functions[w.args[0]]
			if w.do == nil {
				panic("there is no function " + w.args[0])
			}
		}
		r.words = append(r.words, w)
	}
	return r
}

// cutMark cuts off the mark for values that count as set.
func cutMark(text string) (name, mark string) {
	for _, mark := range []string{"?", "*"} {
		if rest, ok := strings.CutSuffix(text, mark); ok {
			return rest, mark
		}
	}
	return text, ""
}

func parseField(text string) (path []string, set string) {
	text, set = cutMark(text)
	if text == "." {
		return nil, set
	}
	return strings.Split(text, "."), set
}

func parseCondition(text string) condition {
	var c condition
	text, c.not = strings.CutPrefix(text, "!")
	name, values, ok := strings.Cut(text, "=")
	if ok {
		c.values = strings.Split(values, "|")
	}
	c.field, c.set = parseField(name)
	return c
}

// holds reports whether the condition holds for the fields of a value.
func (c *condition) holds(n *node) bool {
	for _, name := range c.field {
		n = n.child(name)
	}
	holds := n.isSet(c.set)
	if c.values != nil {
		holds = holds && slices.Contains(c.values, n.text())
	}
	return holds != c.not
}

// apply checks a value by the rules of a set.
func (n *node) apply(set string) {
	rules, ok := table().sets[set]
	if !ok {
		panic("there is no set of rules " + set)
	}
	for i := range rules {
		if r := &rules[i]; !slices.ContainsFunc(r.when, func(c condition) bool { return !c.holds(n) }) {
			r.check(n)
		}
	}
}

// check checks the field of a value by one rule.
func (r *rule) check(n *node) {
	found := n
	for _, name := range r.field {
		found = found.child(name)
	}
	if r.at != "" {
		moved := *found
		moved.path = join(n.path, r.at)
		found = &moved
	}
	if !r.each {
		r.judge(found)
		return
	}
	for _, item := range found.items() {
		r.judge(item)
	}
}

// judge checks a value by the words of the rule, until one reports an error.
func (r *rule) judge(n *node) {
	for _, w := range r.words {
		before := len(n.run.faults)
		w.check(n, r)
		if len(n.run.faults) > before {
			return
		}
	}
}

func (w *word) check(n *node, r *rule) {
	switch {
	case w.name[0] >= 'A' && w.name[0] <= 'Z':
		if r.set != "?" || n.value != nil {
			n.apply(w.name)
		}
	case w.name == "do":
		if r.set == "*" || r.field == nil || n.value != nil {
			w.do(n, r.detail, w.args[1:])
		}
	case w.name == "required":
		if !n.isSet(r.set) {
			n.report(field.Required(n.path, r.detail))
		}
	case w.name == "immutable":
		n.checkImmutable(r.detail)
	case r.field != nil && !n.isSet(r.set):
	case w.name == "warn":
		n.warn(r.detail)
	case w.name == "note":
		n.warnPlainly(r.detail)
	case w.name == "forbidden":
		n.report(field.Forbidden(n.path, r.detail))
	case w.name == "invalid" && n.value == nil:
		n.invalidText(r.detail)
	case w.name == "invalid":
		n.invalid(r.detail)
	case w.name == "oneof" || w.name == "mostone":
		n.checkOneOf(w.args, r.detail, w.name == "oneof")
	case w.name == "enum":
		n.checkEnum(w.args)
	case w.name == "unique":
		n.checkUnique()
	case w.format != nil:
		n.format(w.format)
	default:
		n.checkSize(w, r.detail)
	}
}

// Validate returns the errors in an object of a built-in kind, except in its metadata. The live object is nil for creations.
func Validate(group, kind, subresource string, live, object map[string]any) []field.Error {
	set := setOf(group, kind)
	verb := "create"
	switch {
	case live == nil:
	case subresource == "status" || subresource == "finalize":
		verb = subresource
	default:
		verb = "update"
	}
	sets := table().sets
	if _, ok := sets[set+"."+verb]; ok {
		set += "." + verb
	} else if _, ok := sets[set]; !ok || verb == "status" || verb == "finalize" {
		return nil
	}
	run := &run{}
	n := &node{value: object, run: run}
	if live != nil {
		n.old, run.update = live, true
	}
	n.apply(set)
	return run.faults
}

// ValidateAddresses validates the addresses of a service. This check comes before the service gets the addresses that it does not request. The object
// live is nil for a new one.
func ValidateAddresses(live, object map[string]any) []field.Error {
	run := &run{}
	n := &node{value: object, run: run}
	if live != nil {
		n.old, run.update = live, true
	}
	n.child("spec").apply("ClusterIPs")
	return run.faults
}

// setOf returns the name of the set of a kind. If two kinds have the same name, one of them has its group in front.
func setOf(group, kind string) string {
	if group == "events.k8s.io" {
		return "events." + kind
	}
	return kind
}

// CheckName validates the name of an object of a built-in kind. A prefix may end with a dash.
func CheckName(kind, name string, prefix bool) []string {
	wrong, ok := table().names[kind]
	if !ok {
		wrong = Subdomain
	}
	if prefix && len(name) > 1 && strings.HasSuffix(name, "-") {
		name = name[:len(name)-2] + "a"
	}
	return wrong(name)
}
