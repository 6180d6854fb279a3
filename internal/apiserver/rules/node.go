package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// run is one check of an object.
type run struct {
	faults   []field.Error
	warnings []string
	update   bool
}

// node is a value within the checked object.
type node struct {
	value, old any // old is the value in the live object, nil in lists
	path       string
	index      int // in a list
	parent     *node
	run        *run
	siblings   siblings // its items, as of the last comparison
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// child returns the field of an object. It returns a node even for a missing field.
func (n *node) child(name string) *node {
	c := &node{path: join(n.path, name), parent: n, run: n.run}
	c.value = rawjson.AsMap(n.value)[name]
	c.old = rawjson.AsMap(n.old)[name]
	return c
}

// at returns the field at a path of names, separated by dots.
func (n *node) at(path string) *node {
	for _, name := range strings.Split(path, ".") {
		n = n.child(name)
	}
	return n
}

// items returns the items of a list.
func (n *node) items() []*node {
	list, _ := n.value.([]any)
	all := make([]*node, len(list))
	for i, v := range list {
		all[i] = &node{value: v, path: fmt.Sprintf("%s[%d]", n.path, i), index: i, parent: n, run: n.run}
	}
	return all
}

// entries returns the values of a map, sorted by key for the tests. kube-apiserver has no order.
func (n *node) entries() []*node {
	m := rawjson.AsMap(n.value)
	var all []*node
	for _, key := range rawjson.SortedKeys(m) {
		all = append(all, &node{value: m[key], path: n.path + "[" + key + "]", parent: n, run: n.run})
	}
	return all
}

// key returns the key of an entry.
func (n *node) key() string { return strings.TrimSuffix(n.path[len(n.parent.path)+1:], "]") }

// above returns the nearest parent whose path ends with the name, nil if there is none.
func (n *node) above(name string) *node {
	for ; n != nil; n = n.parent {
		if n.path == name || strings.HasSuffix(n.path, "."+name) {
			return n
		}
	}
	return nil
}

// siblings are the items of a list. They are kept to compare each item with those before it.
type siblings struct {
	values []any
	items  []*node
}

// before returns the siblings before an item.
func (n *node) before() []*node {
	if n.parent == nil {
		return nil
	}
	list, _ := n.parent.value.([]any)
	if len(list) == 0 { // it is a member of an object
		return nil
	}
	if kept := n.parent.siblings; len(kept.values) != len(list) || &kept.values[0] != &list[0] {
		n.parent.siblings = siblings{list, n.parent.items()}
	}
	return n.parent.siblings.items[:n.index]
}

func (n *node) isSet(mark string) bool {
	switch mark {
	case "*":
		return true
	case "?":
		return n.value != nil
	}
	return !isEmpty(n.value)
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case bool:
		return !v
	case json.Number:
		return v == "0"
	}
	return rawjson.IsEmpty(v)
}

// text returns a scalar as text, "" if it is missing.
func (n *node) text() string {
	switch v := n.value.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	}
	return ""
}

// number returns a number, 0 if it is missing.
func (n *node) number() int64 {
	number, _ := n.value.(json.Number)
	i, _ := number.Int64()
	return i
}

// texts returns the strings of a list.
func (n *node) texts() []string {
	var all []string
	for _, item := range n.items() {
		all = append(all, item.text())
	}
	return all
}

// string returns the text of a field.
func (n *node) string(path string) string { return n.at(path).text() }

// has reports whether a field exists, even if it is empty.
func (n *node) has(path string) bool { return n.at(path).value != nil }

func (n *node) report(e field.Error) { n.run.faults = append(n.run.faults, e) }

func (n *node) invalid(detail string) { n.report(field.Invalid(n.path, n.value, detail)) }

// invalidText reports a text, also a missing one.
func (n *node) invalidText(detail string) { n.report(field.Invalid(n.path, n.text(), detail)) }

// invalidNumber reports a number, also a missing one.
func (n *node) invalidNumber(detail string) {
	n.report(field.Invalid(n.path, json.Number(strconv.FormatInt(n.number(), 10)), detail))
}

func (n *node) forbidden(detail string) { n.report(field.Forbidden(n.path, detail)) }

func (n *node) required(detail string) { n.report(field.Required(n.path, detail)) }

func (n *node) checkEnum(values []string) {
	if !slices.Contains(values, n.text()) {
		n.unsupported(values...)
	}
}

// unsupported reports a value that is not in the list of supported ones.
func (n *node) unsupported(values ...string) {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	shown := n.value
	if shown == nil {
		shown = ""
	}
	n.report(field.NotSupported(n.path, shown, "supported values: "+strings.Join(quoted, ", ")))
}

// checkUnique reports a field of an item that has the same value in an earlier item.
func (n *node) checkUnique() {
	item, name := n.parent, n.path[strings.LastIndex(n.path, ".")+1:]
	for _, other := range item.before() {
		if rawjson.Equal(other.child(name).value, n.value) {
			n.report(field.Duplicate(n.path, n.value))
			return
		}
	}
}

func (n *node) checkImmutable(detail string) {
	if detail == "" {
		detail = "field is immutable"
	}
	if n.run.update && !same(n.value, n.old) {
		n.invalid(detail)
	}
}

// same reports whether kube-apiserver treats two values as equal. An empty list or map equals a missing one.
func same(a, b any) bool {
	if rawjson.IsEmpty(a) && rawjson.IsEmpty(b) {
		return true
	}
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if isMap && both {
		for _, key := range rawjson.UnionKeys(x, y) {
			if !same(x[key], y[key]) {
				return false
			}
		}
		return true
	}
	l, isList := a.([]any)
	m, both := b.([]any)
	if isList && both {
		return slices.EqualFunc(l, m, same)
	}
	return rawjson.Equal(a, b)
}

// checkOneOf checks that exactly one of some fields is set, or at most one, and applies its set. Each is written as field/set, or field/set/path.
func (n *node) checkOneOf(fields []string, what string, required bool) {
	found := false
	for _, text := range fields {
		parts := strings.Split(text, "/")
		f := n.child(parts[0])
		if f.value == nil {
			continue
		}
		if found {
			f.forbidden("may not specify more than 1 " + what)
			continue
		}
		found = true
		if len(parts) > 2 {
			f.path = join(n.path, parts[2])
		}
		f.apply(parts[1])
	}
	if !found && required {
		n.required("must specify a " + what)
	}
}

// fieldOf returns the field of an argument of the word oneof.
func fieldOf(text string) string {
	name, _, _ := strings.Cut(text, "/")
	return name
}
