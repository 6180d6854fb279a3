package managedfields

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/schema"
	"github.com/kopf-go/kopf/internal/apiserver/types"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// fieldType is the type of a field by its schema, which is nil if it is unknown.
type fieldType struct {
	schema *schema.Schema
	root   bool // whether it is a whole object
	keeps  bool // whether a parent keeps unknown fields: then kube-apiserver treats them as known here, too, and prunes them later
}

// atomic reports whether the whole value has one manager.
func (t fieldType) atomic() bool { return t.schema != nil && t.schema.MapType == "atomic" }

// set reports whether the items of a list are identified by their whole values.
func (t fieldType) set() bool { return t.schema != nil && t.schema.ListType == "set" }

// keys returns the keys by which the items of a list are identified, nil if there are none.
func (t fieldType) keys() []string {
	if t.schema == nil || t.schema.ListType != "map" {
		return nil
	}
	return t.schema.ListKeys
}

// field returns the type of a field, and reports whether the type declares it by name.
func (t fieldType) field(key string) (fieldType, bool) {
	switch {
	case t.root && key == "metadata":
		return typeOfSchema(types.Named("ObjectMeta").Schema), true
	case t.root && (key == "apiVersion" || key == "kind"):
		return fieldType{}, true
	case t.schema == nil:
		return fieldType{}, false
	}
	if child := t.schema.Properties[key]; child != nil {
		return t.below(child), true
	}
	if t.schema.Additional != nil {
		return t.below(t.schema.Additional), false
	}
	return fieldType{}, false
}

// item returns the type of the items of a list.
func (t fieldType) item() fieldType {
	if t.schema != nil && t.schema.Items != nil {
		return t.below(t.schema.Items)
	}
	return fieldType{}
}

// below returns the type of a value within a value of the type.
func (t fieldType) below(s *schema.Schema) fieldType {
	child := typeOfSchema(s)
	child.keeps = t.keeps || t.schema.PreserveUnknown
	return child
}

// associative reports whether the items of a list are separate fields.
func (t fieldType) associative() bool { return t.set() || len(t.keys()) > 0 }

// step returns the step of an item of a list, and reports whether it has one.
func (t fieldType) step(item any) (string, bool) {
	if t.set() {
		data, err := json.Marshal(item) // escaped for HTML, as in kube-apiserver
		return "v:" + string(data), err == nil
	}
	m := rawjson.AsMap(item)
	key := make(map[string]any)
	inner := t.item().schema
	for _, k := range t.keys() {
		if v, ok := m[k]; ok {
			key[k] = v
		} else if inner != nil && inner.Properties[k] != nil {
			if p := inner.Properties[k]; p.HasDefault {
				key[k] = p.Default
			} else if inner.Builtin != nil { // Go types have zero values
				key[k] = map[string]any{"string": "", "integer": json.Number("0")}[p.Type]
			}
		}
	}
	if len(key) == 0 {
		return "", false
	}
	data, err := json.Marshal(key)
	return "k:" + string(data), err == nil
}

// steps returns the steps of the items of a list, and the items by their steps. Updates may lead to several items with the same keys. It reports
// whether all items have a step.
func (t fieldType) steps(list []any) (order []string, items map[string][]any, ok bool) {
	items = make(map[string][]any, len(list))
	for _, item := range list {
		step, fine := t.step(item)
		if !fine {
			return nil, nil, false
		}
		items[step] = append(items[step], item)
		order = append(order, step)
	}
	return order, items, true
}

// TypeError returns the path and the reason why an object does not fit the type of its kind, "" if it fits. With twins, items with equal keys are allowed.
func (o Options) TypeError(object map[string]any, twins bool) string {
	return o.rootType().typeError(object, twins)
}

// typeError is [Options.TypeError] for a value. The error begins with the path below the value.
func (t fieldType) typeError(v any, twins bool) string {
	s := t.schema
	if v == nil || s == nil && !t.root || s != nil && s.IntOrString && s.Builtin == nil { // a custom resource is validated later
		return ""
	}
	switch v := v.(type) {
	case map[string]any:
		if s != nil && (s.IntOrString || s.Type != "object" && s.Type != "") {
			return ": expected " + expected(s) + ", got a map"
		}
		return t.fieldsError(v, twins)
	case []any:
		if s != nil && (s.IntOrString || s.Type != "array" && s.Type != "") {
			return ": expected " + expected(s) + ", got a list"
		}
		return t.itemsError(v, twins)
	default:
		if s != nil && !s.FitsScalar(v) {
			return ": expected " + expected(s) + ", got " + shown(s, v)
		}
	}
	return ""
}

// fieldsError returns the error of the first invalid key, in order. It does not sort the keys, most of which are valid.
func (t fieldType) fieldsError(m map[string]any, twins bool) string {
	first, found := "", ""
	for key, v := range m {
		child, known := t.field(key)
		why := ": field not declared in schema"
		if known || t.open() {
			why = child.typeError(v, twins)
		}
		if why != "" && (found == "" || key < first) {
			first, found = key, "."+key+why
		}
	}
	return found
}

func (t fieldType) itemsError(list []any, twins bool) string {
	seen := make(map[string]bool)
	for i, e := range list {
		place := "[" + strconv.Itoa(i) + "]"
		if t.associative() {
			step, ok := t.step(e)
			if !ok {
				return fmt.Sprintf(": element %d: associative list with keys %s", i, t.keyless(e))
			}
			if seen[step] && !twins {
				return ": duplicate entries for key " + element(step)
			}
			seen[step] = true
			place = element(step)
		}
		if why := t.item().typeError(e, twins); why != "" {
			return place + why
		}
	}
	return ""
}

// expected returns the name of a type in errors.
func expected(s *schema.Schema) string {
	switch s.Type {
	case "object":
		return "map"
	case "array":
		return "list"
	case "integer", "number":
		return "numeric (int or float)"
	}
	return s.Type
}

// shown returns a scalar of a wrong type, or the type of one that is not a number.
func shown(s *schema.Schema, v any) string {
	_, isText := v.(string)
	_, isBool := v.(bool)
	switch numeric := s.Type == "integer" || s.Type == "number"; {
	case numeric && isText:
		return "string"
	case numeric && isBool:
		return "bool"
	}
	return fmt.Sprint(v)
}

// keyless returns the error of an item that has none of the keys.
func (t fieldType) keyless(item any) string {
	if item == nil {
		return "may not have a null element"
	}
	return fmt.Sprintf("has an element that omits all key fields %q (and doesn't have default values for any key fields)", t.keys())
}

// element returns the step of an item for errors.
func element(step string) string {
	value, ok := strings.CutPrefix(step, "v:")
	if ok {
		return "[=" + value + "]"
	}
	keys, err := rawjson.DecodeObject([]byte(strings.TrimPrefix(step, "k:")))
	if err != nil {
		return "[" + step + "]"
	}
	var parts []string
	for _, name := range rawjson.SortedKeys(keys) {
		data, _ := json.Marshal(keys[name]) // it was JSON
		parts = append(parts, name+"="+string(data))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// open reports whether a map of the type can have undeclared keys.
func (t fieldType) open() bool {
	s := t.schema
	return s == nil || t.keeps || s.PreserveUnknown || s.AnyAdditional || s.Additional != nil || len(s.Properties) == 0
}

func typeOfSchema(s *schema.Schema) fieldType { return fieldType{schema: s, root: s.Embedded} }

// rootType returns the type of the object.
func (o Options) rootType() fieldType {
	s := o.Schema
	if t := o.goType(); t != nil {
		s = t.Schema
	}
	return fieldType{schema: s, root: true}
}

// nothing returns the state before a creation: an object with the fields that are never omitted for built-in kinds, nil for custom resources.
func (o Options) nothing() map[string]any {
	t := o.goType()
	if t == nil {
		return nil
	}
	object := make(map[string]any)
	t.Decode(object)
	return object
}

// goType returns the type of an object of a built-in kind, nil for custom resources.
func (o Options) goType() *types.Type {
	if o.Schema != nil {
		return nil
	}
	group, version, ok := strings.Cut(o.APIVersion, "/")
	if !ok {
		group, version = "", o.APIVersion
	}
	return types.OfKind(group, version, o.Kind)
}
