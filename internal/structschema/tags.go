package structschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file reads the tags of a field, and adds them to a schema.

// The tags for schemas. Constraints can also be in the tag "each".
var (
	others      = []string{"doc", "default", "example", "required", "column", "priority", "selectable", "each"}
	constraints = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format", "enum", "minItems", "maxItems",
		"minProperties", "maxProperties", "nullable", "type", "rule", "message", "listKey", "listType", "mapType",
	}
)

// tags are the tags of a field, or of its items.
type tags struct {
	values map[string]string // of this package, by name
	each   map[string]string // of the items; nil without the tag
	json   string
	inJSON bool // there is a json tag
}

// has reports whether a tag is present.
func (t tags) has(name string) bool {
	_, ok := t.values[name]
	return ok
}

// items returns the tags of the items.
func (t tags) items() tags { return tags{values: t.each} }

// readTags parses the tag of a field. It ignores the tags of other packages.
func readTags(tag string) (t tags, err error) {
	t.values = make(map[string]string)
	for tag = strings.TrimLeft(tag, " "); tag != ""; tag = strings.TrimLeft(tag, " ") {
		name, rest, ok := strings.Cut(tag, ":")
		end := quotedEnd(rest)
		if !ok || name == "" || strings.ContainsAny(name, " \"") || end < 0 {
			return t, fmt.Errorf("invalid tag %q: want name:\"value\", separated by spaces", tag)
		}
		value, err := strconv.Unquote(rest[:end])
		if err != nil {
			return t, fmt.Errorf("invalid tag %s:%s: %w", name, rest[:end], err)
		}
		if err := t.add(name, value); err != nil {
			return t, err
		}
		tag = rest[end:]
	}
	return t, t.check()
}

// quotedEnd returns the index after the quoted text at the beginning, or -1.
func quotedEnd(text string) int {
	if !strings.HasPrefix(text, `"`) {
		return -1
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

func (t *tags) add(name, value string) (err error) {
	switch isJSON := name == "json"; {
	case isJSON && t.inJSON || t.has(name):
		return fmt.Errorf("the tag %q is there twice", name)
	case isJSON:
		t.json, t.inJSON = value, true
		return nil
	case !slices.Contains(others, name) && !slices.Contains(constraints, name):
		if want := meant(name); want != "" {
			return fmt.Errorf("invalid tag %q: want %s", name, want)
		}
		return nil
	}
	t.values[name] = value
	if name == "each" {
		t.each, err = readEach(value)
	}
	return err
}

// checkJSON returns an error for parts of a json tag that encoding/json would ignore.
func (t *tags) checkJSON(name string, options []string, embedded bool) error {
	isSign := func(r rune) bool {
		return strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !isSign(r) }) {
		return fmt.Errorf("invalid name %q in the tag json: encoding/json takes letters, digits and some signs only", name)
	}
	for _, option := range options {
		switch {
		case option == "string":
			return errors.New(`the option "string" of the tag json is not supported: want a string type`)
		case option == "inline" && !embedded:
			return errors.New(`the option "inline" of the tag json does not fit: want it on an embedded struct`)
		case !slices.Contains([]string{"", "omitempty", "omitzero", "inline"}, option):
			return fmt.Errorf("invalid tag json:%q: encoding/json has no option %q: want omitempty or omitzero", t.json, option)
		}
	}
	return nil
}

// synonym returns the tag of this package with the meaning of a name that other packages use, or "".
func synonym(name string) string {
	return map[string]string{
		"description": `"doc"`, "desc": `"doc"`, "docs": `"doc"`, "min": `"minimum", "minLength" or "minItems"`, "max": `"maximum", "maxLength" or "maxItems"`, "minlen": `"minLength"`, "maxlen": `"maxLength"`,
		"enums": `"enum"`, "regex": `"pattern"`, "regexp": `"pattern"`, "rules": `"rule"`, "printcolumn": `"column"`, "printercolumn": `"column"`, "immutable": `rule:"self == oldSelf"`, "optional": `required:"false"`, "listmapkey": `"listKey"`,
		"jsn": `"json"`, "jso": `"json"`, "jason": `"json"`, "jsons": `"json"`,
	}[name]
}

// meant returns the tag that a misspelled name stands for, or "". A name counts as misspelled if its letters are in another order, in upper case, or have
// dashes. A name of at least five letters may also have one letter more, less or different.
func meant(name string) string {
	plain := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	for _, k := range slices.Concat(others, constraints, []string{"json"}) {
		if letters(k) == letters(plain) || len(k) >= 5 && oneApart(strings.ToLower(k), plain) {
			return strconv.Quote(k)
		}
	}
	return synonym(plain)
}

// oneApart reports whether two texts differ by one letter.
func oneApart(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return max(len(a), len(b)) == 1
}

// letters returns the sorted lower-case letters of a name. They are equal for names with misplaced letters, such as "minLenght".
func letters(name string) string {
	all := []byte(strings.ToLower(name))
	slices.Sort(all)
	return string(all)
}

// readEach parses the constraints of items, such as "maxLength=63,pattern=^[a-z]+$". Values may contain commas: the next constraint begins with a known name.
func readEach(value string) (map[string]string, error) {
	all := make(map[string]string)
	last := ""
	for i, part := range strings.Split(value, ",") {
		name, rest, ok := strings.Cut(part, "=")
		_, again := all[name]
		switch isName := ok && slices.Contains(constraints, name); {
		case isName && again:
			return nil, fmt.Errorf("invalid tag each:%q: %q is there twice", value, name)
		case isName:
			last, all[name] = name, rest
		case ok && meant(name) != "" && !slices.Contains(others, name):
			return nil, fmt.Errorf("invalid tag each:%q: %q is no constraint: want %s", value, name, meant(name))
		case i == 0 || ok && meant(name) != "":
			return nil, fmt.Errorf("invalid tag each:%q: want constraints as in \"minLength=1,maxLength=63\"", value)
		default:
			all[last] += "," + part
		}
	}
	return all, nil
}

// check returns an error for tags that exclude each other.
func (t *tags) check() error {
	for _, values := range []map[string]string{t.values, t.each} {
		if _, ok := values["message"]; ok && values["rule"] == "" {
			return errors.New(`the tag "message" needs the tag "rule"`)
		}
	}
	if t.has("priority") && !t.has("column") {
		return errors.New(`the tag "priority" needs the tag "column"`)
	}
	for _, name := range []string{"required", "selectable"} {
		if v, ok := t.values[name]; ok && v != "true" && v != "false" {
			return fmt.Errorf("invalid tag %s:%q: want true or false", name, v)
		}
	}
	return nil
}

// fits returns the types of values that a tag applies to, or nil for any.
func fits(name string) []string {
	switch name {
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return []string{"integer", "number"}
	case "minLength", "maxLength", "pattern":
		return []string{"string"}
	case "format", "enum":
		return []string{"string", "integer", "number"}
	case "minItems", "maxItems", "listKey", "listType":
		return []string{"array"}
	case "minProperties", "maxProperties", "mapType":
		return []string{"object"}
	}
	return nil
}

// apply adds the constraints to a schema, ordered by name.
func (t tags) apply(schema map[string]any) error {
	typ := typeOf(schema)
	for _, name := range rawjson.SortedKeys(t.values) {
		value := t.values[name]
		if types := fits(name); types != nil && !slices.Contains(types, typ) && !(schema["x-kubernetes-int-or-string"] == true && slices.Contains(types, "string")) {
			return fmt.Errorf("the tag %q does not fit: want it on %s, got %s", name, strings.Join(types, " or "), typ)
		}
		if err := put(schema, name, value); err != nil {
			return fmt.Errorf("invalid tag %s:%q: %w", name, value, err)
		}
	}
	return checkBounds(schema)
}

// typeOf returns the type of the values of a schema.
func typeOf(schema map[string]any) string {
	if typ, ok := schema["type"].(string); ok {
		return typ
	}
	return "any value"
}

func put(schema map[string]any, name, value string) error {
	switch name {
	case "doc":
		schema["description"] = value
	case "minimum", "maximum", "multipleOf":
		return putNumber(schema, name, value)
	case "exclusiveMinimum", "exclusiveMaximum":
		if err := putNumber(schema, map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}[name], value); err != nil {
			return err
		}
		schema[name] = true
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return errors.New("want a whole number that is not negative")
		}
		schema[name] = json.Number(strconv.FormatUint(n, 10))
	case "pattern":
		if _, err := regexp.Compile(value); err != nil {
			return err
		}
		schema[name] = value
	case "nullable":
		if value != "true" && value != "false" {
			return errors.New("want true or false")
		}
		if value == "true" {
			schema[name] = true
		}
	case "type":
		if value != schema["type"] {
			return fmt.Errorf("want %v, the type of the field in Go", schema["type"])
		}
	default:
		return putWord(schema, name, value)
	}
	return nil
}

// putWord adds a constraint with a word as its value.
func putWord(node map[string]any, name, value string) error {
	choices := map[string][]string{"listType": {"set", "atomic"}, "mapType": {"atomic", "granular"}}[name]
	items := rawjson.AsMap(node["items"])
	switch {
	case choices != nil && !slices.Contains(choices, value):
		return fmt.Errorf("want %s", strings.Join(choices, " or "))
	case name == "listType" && value == "set" && items["type"] == "object" && items["x-kubernetes-map-type"] != "atomic":
		return errors.New("the items are structs or maps, which are no set: want the tag listKey")
	case name == "listType" && value == "set" && items["nullable"] == true:
		return errors.New("the items can be null: want items of a set that cannot")
	case name == "listType":
		node["x-kubernetes-list-type"] = value
	case name == "mapType":
		node["x-kubernetes-map-type"] = value
	case name == "format":
		if typ, _ := node["type"].(string); !schema.KnownFormat(typ, value) {
			return errors.New("want a format that API servers know, such as date-time, hostname or ipv4")
		}
		node["format"] = value
	case name == "enum" && strings.TrimSpace(value) == "":
		return errors.New("want values, separated by commas")
	case name == "enum":
		values, err := enumOf(node, strings.Split(value, ","))
		if err != nil {
			return err
		}
		node["enum"] = values
	}
	return nil
}

// enumOf returns the distinct values of an enum.
func enumOf(schema map[string]any, texts []string) (values []any, err error) {
	for _, text := range texts {
		text = strings.TrimSpace(text)
		var v any = text
		if schema["type"] != "string" {
			if v, err = number(text, schema["type"] == "integer"); err != nil {
				return nil, err
			}
		}
		if slices.Contains(values, v) {
			return nil, fmt.Errorf("%q is there twice", text)
		}
		values = append(values, v)
	}
	return values, nil
}

func putNumber(schema map[string]any, name, value string) error {
	if _, ok := schema[name]; ok && name != "multipleOf" {
		return errors.New("want one bound only, inclusive or exclusive")
	}
	n, err := number(value, schema["type"] == "integer")
	if err != nil {
		return err
	}
	if f, _ := n.Float64(); name == "multipleOf" && f <= 0 {
		return errors.New("want a number above zero")
	}
	schema[name] = n
	return nil
}

// number parses a JSON number.
func number(text string, whole bool) (json.Number, error) {
	v, err := rawjson.Decode([]byte(text))
	n, ok := v.(json.Number)
	if err != nil || !ok {
		return "", fmt.Errorf("want a number, got %q", text)
	}
	if _, err := strconv.ParseInt(text, 10, 64); whole && err != nil {
		return "", fmt.Errorf("want a whole number, got %q", text)
	}
	if _, err := n.Float64(); err != nil {
		return "", fmt.Errorf("want a smaller number than %q", text)
	}
	return n, nil
}

// checkBounds returns an error if no value can satisfy the bounds.
func checkBounds(schema map[string]any) error {
	for _, pair := range [][2]string{{"minimum", "maximum"}, {"minLength", "maxLength"}, {"minItems", "maxItems"}, {"minProperties", "maxProperties"}} {
		low, high := pair[0], pair[1]
		from, some := schema[low].(json.Number)
		to, both := schema[high].(json.Number)
		a, _ := from.Float64() // validated before
		b, _ := to.Float64()
		if some && both && a > b {
			return fmt.Errorf("the tag %s:%q is above %s:%q", low, from, high, to)
		}
	}
	return nil
}
