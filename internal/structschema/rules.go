package structschema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file handles rules in CEL, as far as they can be checked without CEL, and values in tags.

// addRules adds rules to a schema.
func (b *builder) addRules(schema map[string]any, rules []Rule, at place) error {
	if len(rules) == 0 {
		return nil
	}
	all, _ := schema["x-kubernetes-validations"].([]any)
	for _, r := range rules {
		if strings.TrimSpace(r.Rule) == "" {
			return errors.New("a rule is empty: want an expression in CEL")
		}
		if at.unmatched && isTransition(r.Rule) {
			return fmt.Errorf("the rule %q names oldSelf in a list whose items have no keys: want the tag listKey on the list", r.Rule)
		}
		v, err := rawjson.Normalize(r)
		if err != nil {
			return err
		}
		all = append(all, v)
	}
	schema["x-kubernetes-validations"] = all
	if maximum := unboundedBy(schema); maximum != "" {
		b.kind.Warnings = append(b.kind.Warnings, fmt.Sprintf("%s has a rule, but no %s: the API server may refuse the rule because it could cost too much", at.path, maximum))
	} else if at.unbounded != "" {
		b.kind.Warnings = append(b.kind.Warnings, fmt.Sprintf("%s has a rule, but %s has no maximum: the API server may refuse the rule because it could cost too much", at.path, at.unbounded))
	}
	return nil
}

// unboundedBy returns the missing limit of the values of a schema, or "" if they cannot be large.
func unboundedBy(schema map[string]any) string {
	limit := ""
	switch {
	case schema["type"] == "array":
		limit = "maxItems"
	case schema["type"] == "object" && schema["additionalProperties"] != nil:
		limit = "maxProperties"
	case schema["type"] == "string" && schema["enum"] == nil && !slices.Contains([]any{"date", "date-time", "duration"}, schema["format"]):
		limit = "maxLength"
	}
	if schema[limit] != nil {
		return ""
	}
	return limit
}

// guards are the rules against the removal of the immutable fields of a struct. Only the struct can have these rules.
type guards struct {
	rules  []Rule
	chains []chain
	fixed  string // message, if the value itself is immutable
	is     bool   // the value itself is immutable
}

// chain leads from a struct to an immutable field.
type chain struct {
	links   []link
	message string
}

type link struct {
	name     string // escaped for CEL
	optional bool
}

// isTransition reports whether a rule uses the old value.
func isTransition(rule string) bool {
	isPart := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	return slices.Contains(strings.FieldsFunc(rule, func(r rune) bool { return !isPart(r) }), "oldSelf")
}

// isImmutable reports whether a rule makes a field immutable.
func isImmutable(rule string) bool {
	rule = strings.Join(strings.Fields(rule), "")
	return rule == "self==oldSelf" || rule == "oldSelf==self"
}

// rule records whether the tags make the value immutable, and adds the rules of the struct to its schema.
func (g *guards) rule(schema map[string]any, t tags) {
	if isImmutable(t.values["rule"]) {
		g.is, g.fixed = true, t.values["message"]
	}
	all, _ := schema["x-kubernetes-validations"].([]any)
	for _, r := range g.rules {
		v, _ := rawjson.Normalize(r) // strings, so there is no error
		all = append(all, v)
	}
	if g.rules = nil; len(all) > 0 {
		schema["x-kubernetes-validations"] = all
	}
}

// add adds the rules of the struct against the removal of a field, or of the fields below it.
func (g *guards) add(name string, stays bool, inner guards) error {
	chains := inner.chains
	if inner.is {
		chains = []chain{{message: inner.fixed}} // a removal below it changes it
	}
	if len(chains) == 0 {
		return nil
	}
	escaped, err := celName(name)
	if err != nil {
		return err
	}
	for _, c := range chains {
		c.links = append([]link{{escaped, !stays}}, c.links...)
		g.chains = append(g.chains, c)
		if stays {
			continue
		}
		var terms []string
		path := "oldSelf"
		for i, l := range c.links {
			if path += "." + l.name; l.optional || i == 0 {
				terms = append(terms, "!has("+path+")")
			}
		}
		g.rules = append(g.rules, Rule{Rule: strings.Join(append(terms, "has(self."+escaped+")"), " || "), Message: c.message})
	}
	return nil
}

// celWords are the reserved words of CEL.
var celWords = []string{
	"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
}

// celName returns the name of a field in CEL. See
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-expression
func celName(name string) (string, error) {
	if slices.Contains(celWords, name) {
		return "__" + name + "__", nil
	}
	escaped := strings.NewReplacer("__", "__underscores__", ".", "__dot__", "-", "__dash__", "/", "__slash__").Replace(name)
	if strings.Trim(escaped, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" || strings.ContainsAny(escaped[:min(1, len(escaped))], "0123456789") {
		return "", fmt.Errorf("the name %q cannot be in a rule: want letters, digits and \"_\", \".\", \"-\" or \"/\"", name)
	}
	return escaped, nil
}

// putValues adds the values of the tags "default" and "example" to a schema. They must be valid for the schema and for the type.
func putValues(node map[string]any, t reflect.Type, g tags) error {
	for _, name := range []string{"example", "default"} {
		text, ok := g.values[name]
		if !ok {
			continue
		}
		value, err := valueOf(node, text)
		if err == nil {
			err = cmp.Or(checkValue(node, value), fitsType(value, t))
		}
		if err != nil {
			return fmt.Errorf("invalid tag %s:%q: %w", name, text, err)
		}
		node[name] = value
	}
	return nil
}

// valueOf parses a value of a schema, from a string or from JSON.
func valueOf(node map[string]any, text string) (any, error) {
	if node["type"] == "string" {
		return text, nil
	}
	value, err := rawjson.Decode([]byte(text))
	n, isNumber := value.(json.Number)
	_, isText := value.(string)
	switch {
	case node["x-kubernetes-int-or-string"] == true && (err != nil || !isText && !(isNumber && schema.IsWhole(n))):
		return text, nil
	case err != nil && node["type"] == "boolean":
		return nil, errors.New("want true or false")
	case err != nil && (node["type"] == "integer" || node["type"] == "number"):
		return nil, errors.New("want a number")
	case err != nil:
		return nil, fmt.Errorf("want JSON: %w", err)
	case value == nil:
		return nil, errors.New("want a value")
	}
	return value, nil
}

// fitsType returns an error if a Go type cannot hold a value.
func fitsType(value any, t reflect.Type) error {
	data, err := rawjson.Encode(value)
	if err != nil {
		return err
	}
	return Decode(data, reflect.New(t).Interface(), false)
}

// checkValue validates a value against a schema.
func checkValue(node map[string]any, value any) error {
	holder := map[string]any{"type": "object", "properties": map[string]any{"value": node}}
	s, err := schema.Compile(holder)
	if err != nil {
		return err
	}
	object := map[string]any{"value": rawjson.Clone(value)}
	if unknown := s.Prune(object); len(unknown) > 0 {
		return fmt.Errorf("want no field %q, which the schema does not have", unknown[0])
	}
	s.ApplyDefaults(object)
	if faults := s.Validate(object, nil); len(faults) > 0 {
		return errors.New(faults[0].Message())
	}
	return nil
}
