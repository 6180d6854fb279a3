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

// This file reads the tags of a field, and puts what they say into a schema.

// The tags that belong to schemas. Constraints can also be in the tag "each".
var (
	others      = []string{"doc", "default", "example", "required", "column", "priority", "selectable", "each"}
	constraints = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format", "enum", "minItems", "maxItems",
		"minProperties", "maxProperties", "nullable", "type", "rule", "message", "listKey", "listType", "mapType",
	}
)

// tags are the tags of a field, or of the items of one.
type tags struct {
	values map[string]string // of ours
	each   map[string]string // of the items; nil without the tag
	json   string
	inJSON bool // whether there is a tag json
}

// has reports whether there is a tag.
func (t tags) has(name string) bool {
	_, ok := t.values[name]
	return ok
}

// items returns the tags of the items.
func (t tags) items() tags { return tags{values: t.each} }

// readTags reads the tag of a field. Other packages' tags are left alone.
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

// quotedEnd returns the index after the quoted text at the beginning, -1 if there is none.
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

// checkJSON returns what encoding/json would ignore in the tag json.
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

// synonym returns what is to be written instead of a name that others have for what our tags say, "" for other names.
func synonym(name string) string {
	return map[string]string{
		"description": `"doc"`, "desc": `"doc"`, "docs": `"doc"`, "min": `"minimum", "minLength" or "minItems"`, "max": `"maximum", "maxLength" or "maxItems"`, "minlen": `"minLength"`, "maxlen": `"maxLength"`,
		"enums": `"enum"`, "regex": `"pattern"`, "regexp": `"pattern"`, "rules": `"rule"`, "immutable": `rule:"self == oldSelf"`, "optional": `required:"false"`, "listmapkey": `"listKey"`,
		"jsn": `"json"`, "jso": `"json"`, "jason": `"json"`, "jsons": `"json"`,
	}[name]
}

// meant returns what was meant by the name of a tag that is none of ours: one with its letters in another order or in upper case, or with dashes, or, if it is of at least five letters,
// with one more, one less or another one. It is "" for the names of others.
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

// letters returns the letters of a name in lower case and in their order, which are the same for names with some in the wrong place, such as "minLenght".
func letters(name string) string {
	all := []byte(strings.ToLower(name))
	slices.Sort(all)
	return string(all)
}

// readEach reads the constraints of items, as in "maxLength=63,pattern=^[a-z]+$". Values can have commas: a constraint begins with its name.
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

// check returns which tags do not go together.
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

// fits returns the types of the values that a tag is for, nil for any.
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

// apply puts the constraints into a schema, each once and directly, in the order of their names.
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

// putWord puts the constraints that are words.
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

// enumOf returns the values of an enum, each once.
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

// number reads a number in JSON.
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

// checkBounds returns which bounds leave nothing between them.
func checkBounds(schema map[string]any) error {
	for _, pair := range [][2]string{{"minimum", "maximum"}, {"minLength", "maxLength"}, {"minItems", "maxItems"}, {"minProperties", "maxProperties"}} {
		low, high := pair[0], pair[1]
		from, some := schema[low].(json.Number)
		to, both := schema[high].(json.Number)
		a, _ := from.Float64() // they were read as numbers
		b, _ := to.Float64()
		if some && both && a > b {
			return fmt.Errorf("the tag %s:%q is above %s:%q", low, from, high, to)
		}
	}
	return nil
}
