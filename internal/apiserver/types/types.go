// Package types has the types of the built-in kinds: their fields, the merge strategies of their lists, and their numbers in Protocol Buffers. The
// tables are parsed on first use, and are read-only afterwards.
//
// See https://kubernetes.io/docs/reference/kubernetes-api/
package types

import (
	_ "embed"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/schema"
)

//go:embed types.txt
var typesText string

// Type is a named type: a structure, or a scalar.
type Type struct {
	name     string // the last part of the full name
	FullName string // the name in OpenAPI documents
	Scalar   string // the type in OpenAPI, "" for structs
	Format   string
	Atomic   bool
	Fields   []Field
	byName   map[string]*Field
	always   []*Field // the fields that are never omitted
	// Defaulted are the fields with a default.
	Defaulted []*Field
	Schema    *schema.Schema
	// Numbered are the fields by their numbers in Protocol Buffers. One without a name has the
	// fields of an embedded message.
	Numbered map[uint64]*Field
}

// Field is one field of a struct.
type Field struct {
	Name      string
	Type      string // a word of [ScalarWord], or the name of a type
	Ref       *Type  // the type of that name, nil for scalar words
	List, Map bool   // the field holds a list or a map of the type, or, with both, a map of lists
	Required  bool
	ByKeys    bool              // the items of the list are identified by Keys, or, without Keys, by their whole values
	Keys      []string          // of the items
	Merge     bool              // strategic merge patches merge the list
	MergeKey  string            // of the items, "" for scalars
	Retain    bool              // clients write $retainKeys for the field
	Replace   bool              // strategic merge patches replace the field
	MapType   string            // atomic or granular, if it differs from the type
	inJSON    bool              // the field is stored as JSON
	Default   string            // in JSON, strings without quotes unless they are empty; "" if there is none
	Value     any               // the value of Default
	number    string            // in Protocol Buffers, "" if there is none; two with a dot where the field is in an embedded message
	Pointer   bool              // the field may be unset, which differs from empty
	Always    bool              // the field is never omitted
	Embedded  map[uint64]*Field // the fields of an embedded message, by number
}

// ScalarWord returns the OpenAPI type and format of a word of the table, and reports whether it is
// a scalar.
func ScalarWord(word string) (typ, format string, scalar bool) {
	switch word {
	case "", "string":
		return "string", "", true
	case "bytes":
		return "string", "byte", true
	case "bool":
		return "boolean", "", true
	case "int":
		return "integer", "int32", true
	case "long":
		return "integer", "int64", true
	case "number":
		return "number", "double", true
	}
	return "", "", false
}

// table has all types by their full names and by their short names. If two types have the same short name, that of the second one has its group in front.
func table() map[string]*Type {
	lazyTable.once.Do(func() { lazyTable.value = makeTable() })
	return lazyTable.value
}

// lazyTable is made on first use, by a function, because an initial value would take memory in every operator.
var lazyTable struct {
	once  sync.Once
	value map[string]*Type
}

func makeTable() map[string]*Type {
	all := make(map[string]*Type)
	room := ""
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(typesText), "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t"):
			lines[len(lines)-1] += " " + line
		default:
			lines = append(lines, line)
		}
	}
	for _, line := range lines {
		words := strings.Fields(line)
		if words[0] == "package" {
			room = words[1]
			continue
		}
		t := &Type{FullName: room + "." + strings.TrimSuffix(words[0], "*"), Atomic: strings.HasSuffix(words[0], "*")}
		t.name = strings.TrimSuffix(words[0], "*")
		if len(words) > 1 && words[1] == "=" {
			t.Scalar, t.Format, _ = strings.Cut(words[2], ":")
		} else {
			t.Fields = parseFieldsOf(words[1:])
		}
		all[t.FullName] = t
		if group := strings.Split(room, "."); all[t.name] == nil {
			all[t.name] = t
		} else {
			all[group[len(group)-2]+"."+t.name] = t
		}
	}
	linkTypes(all)
	return all
}

// parseFieldsOf parses the fields of a type. The head of types.txt describes the notation.
func parseFieldsOf(words []string) []Field {
	fields := make([]Field, 0, len(words))
	for _, word := range words {
		var f Field
		word, f.Default, _ = strings.Cut(word, "=")
		word, f.MapType = cutMark(word, "*", "atomic", f.MapType)
		word, f.MapType = cutMark(word, "?", "granular", f.MapType)
		if rest, ok := strings.CutSuffix(word, "%"); ok {
			word, f.Replace = rest, true
		}
		if rest, ok := strings.CutSuffix(word, "+"); ok {
			word, f.Retain = rest, true
		}
		word, f.MergeKey, f.Merge = strings.Cut(word, "@")
		if rest, keys, ok := strings.Cut(word, "#"); ok {
			word, f.ByKeys = rest, true
			f.Keys = strings.FieldsFunc(keys, func(c rune) bool { return c == ',' })
		}
		f.Name, f.Type, _ = strings.Cut(word, ":")
		if i := strings.IndexAny(f.Name, "./|"); i > 0 {
			sign := f.Name[i:]
			f.number = strings.TrimLeft(sign, "./|")
			sign = strings.TrimSuffix(sign, f.number)
			f.Pointer, f.Always, f.Name = strings.Contains(sign, "/"), strings.Contains(sign, "|"), f.Name[:i]
		}
		f.Name, f.Required = strings.CutSuffix(f.Name, "!")
		f.Type, f.Map = strings.CutPrefix(f.Type, "{}")
		f.Type, f.List = strings.CutPrefix(f.Type, "[]")
		fields = append(fields, f)
	}
	return fields
}

func cutMark(word, mark, value, otherwise string) (string, string) {
	if rest, ok := strings.CutSuffix(word, mark); ok {
		return rest, value
	}
	return word, otherwise
}

// linkTypes creates a schema for each type. Some types contain themselves, so all schemas exist before any is filled.
func linkTypes(all map[string]*Type) {
	for _, t := range all {
		t.Schema = &schema.Schema{Type: "object", Properties: make(map[string]*schema.Schema, len(t.Fields)), Builtin: &schema.BuiltinRules{Name: t.name, Package: t.goPackage()}}
		if t.Atomic {
			t.Schema.MapType = "atomic"
		}
		if t.Scalar != "" {
			*t.Schema = scalarSchema(t.name, t.Scalar, t.Format)
		}
	}
	for full, t := range all {
		if full != t.FullName {
			continue
		}
		t.byName = make(map[string]*Field, len(t.Fields))
		for i := range t.Fields {
			f := &t.Fields[i]
			f.inJSON = strings.Contains(t.FullName, ".apiextensions.")
			if _, _, scalar := ScalarWord(f.Type); !scalar {
				f.Ref = all[strings.TrimSuffix(t.FullName, t.name)+f.Type]
			}
			if _, _, scalar := ScalarWord(f.Type); !scalar && f.Ref == nil {
				f.Ref = all[f.Type]
			}
			t.Schema.Properties[f.Name] = f.schemaOf()
			if t.byName[f.Name] = f; f.Always {
				t.always = append(t.always, f)
			}
			if f.Default != "" {
				f.Value = ParseValue(f.Default)
				t.Defaulted = append(t.Defaulted, f)
			}
			if f.number != "" {
				t.Numbered = f.addTo(t.Numbered, f.number)
			}
		}
	}
}

// Field returns the field of a name, nil if there is none.
func (t *Type) Field(name string) *Field { return t.byName[name] }

// ParseValue parses a value in a table: JSON, or a text without quotes.
func ParseValue(text string) any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return text
	}
	return v
}

// addTo adds the field to the fields of a message, or of a message that is embedded in it.
func (f *Field) addTo(fields map[uint64]*Field, number string) map[uint64]*Field {
	if fields == nil {
		fields = make(map[uint64]*Field)
	}
	first, rest, embedded := strings.Cut(number, ".")
	n, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		panic(err) // the table is wrong
	}
	if !embedded {
		fields[n] = f
		return fields
	}
	if fields[n] == nil {
		fields[n] = &Field{}
	}
	fields[n].Embedded = f.addTo(fields[n].Embedded, rest)
	return fields
}

// scalarSchema returns the schema of a named scalar. A quantity may be a number, too.
func scalarSchema(name, typ, format string) schema.Schema {
	switch {
	case name == "Quantity":
		return schema.Schema{PreserveUnknown: true, Format: "quantity"}
	case name == "MicroTime":
		return schema.Schema{Type: typ, Format: "micro-time"}
	case typ == "any":
		return schema.Schema{PreserveUnknown: true}
	case format == "int-or-string":
		return schema.Schema{IntOrString: true}
	}
	return schema.Schema{Type: typ, Format: format, PreserveUnknown: typ == "object"}
}

// schemaOf returns the schema of a field. It has no required fields, as in the types of kube-apiserver.
func (f *Field) schemaOf() *schema.Schema {
	one := &schema.Schema{}
	one.Type, one.Format, _ = ScalarWord(f.Type)
	if f.Ref != nil {
		one = f.Ref.Schema
	}
	s := one
	switch {
	case f.List && f.Map:
		s = &schema.Schema{Type: "object", Additional: &schema.Schema{Type: "array", Items: one, ListType: "atomic"}}
	case f.List:
		s = &schema.Schema{Type: "array", Items: one, ListType: "atomic"}
	case f.Map:
		s = &schema.Schema{Type: "object", Additional: one}
	case f.MapType != "" || f.Replace || f.Retain:
		own := *one
		s = &own
	}
	switch {
	case f.ByKeys && len(f.Keys) > 0:
		s.ListType, s.ListKeys = "map", f.Keys
	case f.ByKeys:
		s.ListType = "set"
	}
	if f.MapType != "" {
		s.MapType = f.MapType
	}
	if f.Default != "" && f.Default != `""` && !f.List && !f.Map && f.Ref == nil && one.Type == "string" {
		s.Default, s.HasDefault = f.Default, true
	}
	if f.Merge || f.Replace {
		s.Builtin = &schema.BuiltinRules{Name: f.Type, Merge: f.Merge, MergeKey: f.MergeKey, Replace: f.Replace}
		if f.Ref != nil {
			s.Builtin.Package = f.Ref.goPackage()
		}
	}
	return s
}

// goPackage returns the name of the type's Go package.
func (t *Type) goPackage() string {
	words := strings.Split(t.FullName, ".")
	return words[len(words)-2]
}

// OfKind returns the type of a built-in kind, nil if the table does not have it.
func OfKind(group, version, kind string) *Type {
	first, _, _ := strings.Cut(group, ".")
	room := "io.k8s.api." + first
	switch group {
	case "":
		room = "io.k8s.api.core"
	case "meta.k8s.io":
		room = "io.k8s.apimachinery.pkg.apis.meta"
	case "apiextensions.k8s.io":
		room = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions"
	case "apiregistration.k8s.io":
		room = "io.k8s.kube-aggregator.pkg.apis.apiregistration"
	}
	return Named(room + "." + version + "." + kind)
}

// Named returns the type with a full or a short name, such as Pod, or events.Event for the second
// type of that name. It returns nil if there is none.
func Named(name string) *Type { return table()[name] }
