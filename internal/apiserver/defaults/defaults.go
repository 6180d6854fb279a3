// Package defaults sets the fields that kube-apiserver itself sets in objects of built-in kinds: the defaults, and the fields of new objects.
//
// See https://kubernetes.io/docs/reference/kubernetes-api/
package defaults

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/rawjson"
)

//go:embed defaults.txt
var defaultsText string

// Fill fills in the missing fields of an object of a type, and those of the objects in it.
func Fill(t *types.Type, object map[string]any) {
	if t != nil {
		theTable().fill(t, object)
	}
}

// Initialize sets the fields that the server controls in a new object of a type, such as its status. It replaces values from the client.
func Initialize(t *types.Type, object map[string]any) {
	if t == nil {
		return
	}
	for _, r := range theTable().initial[t] {
		r.apply(object)
	}
}

// table is the parsed table of defaults.
type table struct {
	rules   map[*types.Type][]rule
	initial map[*types.Type][]rule // for new objects
}

// rule is one line: actions, and their conditions, which must all hold.
type rule struct {
	conditions []condition
	actions    []action
}

// condition is a condition about a field.
type condition struct {
	path   []string
	op     string // "", "!", "=", "!=" or "only"
	values []any
}

// action changes a field.
type action struct {
	each   [][]string // the lists whose items have the field, from the outside in
	path   []string
	op     string   // "=", ":=", "+=" or "-"
	value  any      // the new value, unless it comes from another field
	source []string // the other field, nil if there is none
	call   string   // the function of the other field, "" if it is copied
}

// function returns a function of the table, nil if there is none of that name. A map of them would take memory in every operator.
func function(name string) func(any) any {
	switch name {
	case "pullPolicy":
		return pullPolicy
	case "qosClass":
		return qosClass
	case "now":
		return now
	case "schedulingGated":
		return schedulingGated
	}
	return nil
}

// theTable returns the table.
func theTable() *table {
	lazyTable.once.Do(func() { lazyTable.value = parse(defaultsText) })
	return lazyTable.value
}

// lazyTable is made on first use, by a function, because an initial value would take memory in every operator.
var lazyTable struct {
	once  sync.Once
	value *table
}

// parse parses the table. The head of the table describes the notation.
func parse(text string) *table {
	t := &table{rules: make(map[*types.Type][]rule), initial: make(map[*types.Type][]rule)}
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t"):
			lines[len(lines)-1] += line
		default:
			lines = append(lines, line)
		}
	}
	for _, line := range lines {
		words := strings.Fields(line)
		rules := t.rules
		if words[0] == "new" {
			rules, words = t.initial, words[1:]
		}
		typ := types.Named(words[0])
		if typ == nil {
			panic("no type " + words[0]) // the table is wrong
		}
		rules[typ] = append(rules[typ], parseRule(words[1:]))
	}
	return t
}

func parseRule(words []string) (r rule) {
	if words[0] == "if" {
		end := slices.IndexFunc(words, func(w string) bool { return strings.HasSuffix(w, ":") })
		for _, word := range words[1 : end+1] {
			r.conditions = append(r.conditions, parseCondition(strings.TrimSuffix(word, ":")))
		}
		words = words[end+1:]
	}
	for _, word := range words {
		r.actions = append(r.actions, parseAction(word))
	}
	return r
}

func parseCondition(word string) condition {
	if name, ok := strings.CutPrefix(word, "only:"); ok {
		return condition{path: []string{name}, op: "only"}
	}
	if path, ok := strings.CutPrefix(word, "!"); ok {
		return condition{path: strings.Split(path, "."), op: "!"}
	}
	left, right, ok := strings.Cut(word, "=")
	if !ok {
		return condition{path: strings.Split(word, ".")}
	}
	c := condition{op: "="}
	if path, ok := strings.CutSuffix(left, "!"); ok {
		left, c.op = path, "!="
	}
	c.path = strings.Split(left, ".")
	for _, text := range strings.Split(right, "|") {
		c.values = append(c.values, types.ParseValue(text))
	}
	return c
}

func parseAction(word string) (a action) {
	left, right, ok := strings.Cut(word, "=")
	a.op = "="
	switch {
	case !ok:
		left, a.op = strings.TrimPrefix(word, "-"), "-"
	case strings.HasSuffix(left, ":"), strings.HasSuffix(left, "+"):
		left, a.op = left[:len(left)-1], left[len(left)-1:]+"="
	}
	parts := strings.Split(left, "[].")
	for _, list := range parts[:len(parts)-1] {
		a.each = append(a.each, strings.Split(list, "."))
	}
	a.path = strings.Split(parts[len(parts)-1], ".")
	name, argument, called := strings.Cut(strings.TrimSuffix(right, ")"), "(")
	switch {
	case strings.HasPrefix(right, "@"):
		a.source = strings.Split(right[1:], ".")
	case called && function(name) != nil:
		a.call, a.source = name, strings.Split(argument, ".")
	default:
		a.value = types.ParseValue(right)
	}
	return a
}

// fill fills in the defaults of an object, and of the objects in it.
func (t *table) fill(typ *types.Type, object map[string]any) {
	for _, r := range t.rules[typ] {
		r.apply(object)
	}
	for _, f := range typ.Defaulted {
		fillField(f, object)
	}
	for key, v := range object {
		f := typ.Field(key)
		if f == nil || f.Ref == nil {
			continue
		}
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				t.fillAny(f.Ref, item)
			}
		case map[string]any:
			if !f.Map {
				t.fill(f.Ref, v)
			} else {
				for _, item := range v {
					t.fillAny(f.Ref, item)
				}
			}
		}
	}
}

// fillField fills in the default that the table of types has for a field. It omits empty defaults if the encoding omits them, too.
func fillField(f *types.Field, object map[string]any) {
	if object[f.Name] != nil && (f.Pointer || object[f.Name] != "") {
		return
	}
	if f.Pointer || !isEmpty(f.Value) {
		object[f.Name] = rawjson.Clone(f.Value)
	}
}

func (t *table) fillAny(typ *types.Type, v any) {
	if object := rawjson.AsMap(v); object != nil {
		t.fill(typ, object)
	}
}

func (r rule) apply(object map[string]any) {
	for _, c := range r.conditions {
		if !c.holds(object) {
			return
		}
	}
	for _, a := range r.actions {
		a.apply(object, a.each)
	}
}

func (c condition) holds(object map[string]any) bool {
	if c.op == "only" {
		for key, v := range object {
			if v != nil && key != c.path[0] {
				return false
			}
		}
		return true
	}
	v, _ := rawjson.Lookup(object, c.path...)
	switch c.op {
	case "!":
		return v == nil || v == ""
	case "=":
		return slices.ContainsFunc(c.values, func(value any) bool { return rawjson.Equal(v, value) })
	case "!=":
		return v != nil && !rawjson.Equal(v, c.values[0])
	}
	return v != nil
}

// apply changes the field in an object, or in the items of the lists.
func (a action) apply(object map[string]any, each [][]string) {
	if len(each) > 0 {
		v, _ := rawjson.Lookup(object, each[0]...)
		list, _ := v.([]any)
		for _, item := range list {
			if o := rawjson.AsMap(item); o != nil {
				a.apply(o, each[1:])
			}
		}
		return
	}
	value := a.value
	if a.source != nil {
		value, _ = rawjson.Lookup(object, a.source...)
	}
	if a.call != "" {
		value = function(a.call)(value)
	} else if value == nil && a.source != nil {
		return
	}
	last := len(a.path) - 1
	holder := object
	for _, key := range a.path[:last] {
		if holder[key] == nil && a.op != "-" {
			holder[key] = make(map[string]any)
		}
		if holder = rawjson.AsMap(holder[key]); holder == nil {
			return // it is no object, which is refused elsewhere
		}
	}
	a.set(holder, a.path[last], value)
}

func (a action) set(object map[string]any, key string, value any) {
	switch old := object[key]; {
	case a.op == "-":
		delete(object, key)
	case a.op == "+=":
		addEntries(object, key, rawjson.AsMap(value))
	case old == nil, a.op == ":=" && isEmpty(old):
		object[key] = rawjson.Clone(value)
	}
}

// addEntries adds the missing entries to the map at a key.
func addEntries(object map[string]any, key string, entries map[string]any) {
	target, ok := object[key].(map[string]any)
	if !ok && object[key] != nil || len(entries) == 0 {
		return
	}
	if target == nil {
		target = make(map[string]any)
		object[key] = target
	}
	for name, v := range entries {
		if _, ok := target[name]; !ok {
			target[name] = rawjson.Clone(v)
		}
	}
}

// isEmpty reports whether the Go types of Kubernetes cannot distinguish a value from a missing one.
func isEmpty(v any) bool {
	return rawjson.IsEmpty(v) || v == "" || v == json.Number("0")
}
