// Package types has the types that the built-in kinds are made of: their fields, which of these come in lists that are merged by keys, and
// which have one manager as a whole. The tables are read when they are first needed, and only read from then on.
//
// See https://kubernetes.io/docs/reference/kubernetes-api/
package types

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/schema"
)

//go:embed types.txt
var typesText string

// Type is a type with a name of its own: a structure, or a scalar.
type Type struct {
	name     string // the last part of the full name
	FullName string // as OpenAPI documents name it
	Scalar   string // the type in OpenAPI, "" of structures
	Format   string
	Atomic   bool
	fields   []Field
	Schema   *schema.Schema
	// numbered are the fields by their numbers in Protocol Buffers, with nothing but more fields where a message has another one embedded.
	Numbered map[uint64]*Field
}

// Field is one field of a structure.
type Field struct {
	Name      string
	Type      string // a word of ScalarWord, or the name of a type
	Ref       *Type
	List, Map bool // whether there are many of the type, in a list, or by keys, or a list for each key
	Required  bool
	ByKeys    bool     // a list whose items are told apart by keys, or, without keys, by all they are
	Keys      []string // of these items
	Merge     bool     // whether strategic merge patches merge the list
	MergeKey  string   // of the items, "" for scalars
	retain    bool     // whether clients write $retainKeys for it
	replace   bool     // whether strategic merge patches replace it as a whole
	mapType   string   // atomic or granular, if it differs from what the type is
	fallback  string   // the default, "" if there is none
	number    string   // in Protocol Buffers, "" if there is none; two with a dot where the field is in an embedded message
	Explicit  bool     // whether Protocol Buffers tell it even if it is empty
	Embedded  map[uint64]*Field
	// Description is that of a field in a [Description].
	Description string
}

// ScalarWord tells how the word for a scalar is named in OpenAPI, and whether it is one.
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

// table are all types, by their full names, and by their short ones (with the group, where two have the same).
var table = sync.OnceValue(func() map[string]*Type {
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
			t.fields = parseFieldsOf(words[1:])
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
})

func parseFieldsOf(words []string) []Field {
	fields := make([]Field, 0, len(words))
	for _, word := range words {
		var f Field
		word, f.fallback, _ = strings.Cut(word, "=")
		word, f.mapType = cutMark(word, "*", "atomic", f.mapType)
		word, f.mapType = cutMark(word, "?", "granular", f.mapType)
		if rest, ok := strings.CutSuffix(word, "%"); ok {
			word, f.replace = rest, true
		}
		if rest, ok := strings.CutSuffix(word, "+"); ok {
			word, f.retain = rest, true
		}
		word, f.MergeKey, f.Merge = strings.Cut(word, "@")
		if rest, keys, ok := strings.Cut(word, "#"); ok {
			word, f.ByKeys = rest, true
			f.Keys = strings.FieldsFunc(keys, func(c rune) bool { return c == ',' })
		}
		f.Name, f.Type, _ = strings.Cut(word, ":")
		if i := strings.IndexAny(f.Name, "./"); i > 0 {
			f.Name, f.number, f.Explicit = f.Name[:i], f.Name[i+1:], f.Name[i] == '/'
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

// linkTypes makes a schema of each type. Some types contain themselves, so all schemas exist before any is filled.
func linkTypes(all map[string]*Type) {
	for _, t := range all {
		t.Schema = &schema.Schema{Type: "object", Properties: make(map[string]*schema.Schema, len(t.fields)), Builtin: &schema.BuiltinRules{Name: t.name}}
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
		for i := range t.fields {
			f := &t.fields[i]
			if _, _, scalar := ScalarWord(f.Type); !scalar {
				f.Ref = all[f.Type]
			}
			t.Schema.Properties[f.Name] = f.schemaOf()
			if f.number != "" {
				t.Numbered = f.addTo(t.Numbered, f.number)
			}
		}
	}
}

// addTo adds the field to those of a message, or of a message that is embedded there.
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

// scalarSchema is the schema of a named type without fields. Quantities are also written as numbers.
func scalarSchema(name, typ, format string) schema.Schema {
	switch {
	case name == "Quantity" || typ == "any":
		return schema.Schema{PreserveUnknown: true}
	case format == "int-or-string":
		return schema.Schema{IntOrString: true}
	}
	return schema.Schema{Type: typ, Format: format, PreserveUnknown: typ == "object"}
}

// schemaOf returns the schema of a field. What is required is left out, as the types of kube-apiserver do not know it either.
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
	case f.mapType != "" || f.replace || f.retain:
		own := *one
		s = &own
	}
	switch {
	case f.ByKeys && len(f.Keys) > 0:
		s.ListType, s.ListKeys = "map", f.Keys
	case f.ByKeys:
		s.ListType = "set"
	}
	if f.mapType != "" {
		s.MapType = f.mapType
	}
	if f.fallback != "" && !f.List && !f.Map && f.Ref == nil && one.Type == "string" {
		s.Default, s.HasDefault = f.fallback, true
	}
	if f.Merge || f.replace {
		s.Builtin = &schema.BuiltinRules{Name: f.Type, Merge: f.Merge, MergeKey: f.MergeKey, Replace: f.replace}
	}
	return s
}

// OfKind returns the type of a built-in kind, nil if it is not known.
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
	}
	return Named(room + "." + version + "." + kind)
}

// Named returns the type of a name: a full one, or a short one, with the group before it where two types have the same. It returns nil if there is
// none.
func Named(name string) *Type { return table()[name] }
