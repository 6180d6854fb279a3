package table

import (
	_ "embed"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file parses the columns of built-in kinds from columns.txt, which describes its notation.

//go:embed columns.txt
var columnsText string

func builtinColumns() map[string][]Column {
	lazyColumns.once.Do(func() { lazyColumns.value = parseColumns(columnsText) })
	return lazyColumns.value
}

// lazyColumns is made on first use, by a function, because an initial value would take memory in every operator.
var lazyColumns struct {
	once  sync.Once
	value map[string][]Column
}

var (
	nameColumn = Column{name: "Name", typ: "string", format: "name", path: ".metadata.name"}
	ageColumn  = Column{name: "Age", typ: "date", path: ".metadata.creationTimestamp"}
)

// Columns returns the columns of a kind: those of its CRD, if any, or those of a built-in kind with a plural.
func Columns(plural string, custom bool, defined []Column) []Column {
	switch {
	case defined != nil:
		return append([]Column{nameColumn}, defined...)
	case custom:
		return []Column{nameColumn, ageColumn}
	}
	if columns := builtinColumns()[plural]; columns != nil {
		return columns
	}
	created := Column{name: "Created At", typ: "date", cell: parseTemplate("{metadata.creationTimestamp}")}
	return []Column{nameColumn, created}
}

func parseColumns(text string) map[string][]Column {
	all := map[string][]Column{}
	plural, named := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		column, ok := strings.CutPrefix(line, "\t")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case ok:
			c := parseColumn(column)
			if c.name == nameColumn.name {
				c.format, named = nameColumn.format, true
			}
			all[plural] = append(all[plural], c)
		default:
			all[plural] = withName(all[plural], named)
			plural, named = line, false
		}
	}
	all[plural] = withName(all[plural], named)
	return all
}

func withName(columns []Column, named bool) []Column {
	if named {
		return columns
	}
	return append([]Column{nameColumn}, columns...)
}

func parseColumn(text string) Column {
	head, cell, _ := strings.Cut(text, ": ")
	c := Column{typ: "string", cell: parseTemplate(cell)}
	c.name, c.priority = head, 0
	if name, wide := strings.CutPrefix(c.name, "*"); wide {
		c.name, c.priority = name, 1
	}
	if name, ok := strings.CutSuffix(c.name, " name"); ok {
		c.name, c.format = name, nameColumn.format
	}
	for _, typ := range []string{"integer", "boolean"} {
		if name, ok := strings.CutSuffix(c.name, " "+typ); ok {
			c.name, c.typ = name, typ
		}
	}
	return c
}

// template is the notation of a cell.
type template []expression

// expression is a piece of a template: literal text, or an expression in braces.
type expression struct {
	text     string
	function string
	paths    []string
}

func parseTemplate(text string) template {
	parsed := template{}
	for text != "" {
		literal, rest, ok := strings.Cut(text, "{")
		if literal != "" {
			parsed = append(parsed, expression{text: literal})
		}
		if !ok {
			break
		}
		var inner string
		inner, text, _ = strings.Cut(rest, "}")
		var e expression
		if call, isCall := strings.CutPrefix(inner, "@"); isCall {
			e.function, inner, _ = strings.Cut(call, " ")
		}
		e.paths = strings.Split(inner, "|")
		parsed = append(parsed, e)
	}
	return parsed
}

// fill returns the cell of an object.
func (t template) fill(o unstructured.View, now time.Time) any {
	if len(t) == 1 && t[0].function != "" {
		return t[0].value(o, now)
	}
	var text strings.Builder
	for _, e := range t {
		if v := e.value(o, now); v != nil {
			s, _ := unstructured.Cell(v).(string)
			text.WriteString(s)
		}
	}
	return text.String()
}

func (e *expression) value(o unstructured.View, now time.Time) any {
	switch {
	case e.function != "":
		return call(e.function, valueAt(o, e.paths[0]), now)
	case e.paths == nil:
		return e.text
	}
	for _, path := range e.paths {
		if literal, ok := strings.CutPrefix(path, "="); ok {
			return literal
		}
		if text := o.String(path); text != "" {
			return text
		}
	}
	return ""
}

func valueAt(o unstructured.View, path string) any {
	if path == "." {
		return o.Get("")
	}
	return rawjson.ValueAt(o, rawjson.SplitPath(path)...)
}
