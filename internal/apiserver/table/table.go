// Package table prints objects in tables, as kube-apiserver does for kubectl get.
package table

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Column is one column of a table.
type Column struct {
	name, typ, format, description, path string
	priority                             int
	cell                                 template // instead of the path, for built-in kinds
}

// DefinedColumns returns the additionalPrinterColumns of a version of a CRD, nil if there are none.
func DefinedColumns(crdVersion map[string]any) []Column {
	list, _ := crdVersion["additionalPrinterColumns"].([]any)
	var all []Column
	for _, v := range list {
		m := rawjson.AsMap(v)
		c := Column{name: unstructured.Text(m, "name"), typ: unstructured.Text(m, "type"), format: unstructured.Text(m, "format"), description: unstructured.Text(m, "description"), path: unstructured.Text(m, "jsonPath")}
		if n, ok := m["priority"].(json.Number); ok {
			c.priority, _ = strconv.Atoi(n.String())
		}
		if c.description == "" {
			c.description = "Custom resource definition column (in JSONPath format): " + c.path
		}
		all = append(all, c)
	}
	return all
}

// New returns a table of objects. Depending on includeObject, each row has the metadata of its
// object, the whole object, or neither.
func New(columns []Column, objects []map[string]any, includeObject string, now time.Time) map[string]any {
	definitions := []any{}
	for _, c := range columns {
		definitions = append(definitions, map[string]any{"name": c.name, "type": c.typ, "format": c.format, "description": c.description, "priority": c.priority})
	}
	rows := []any{}
	for _, object := range objects {
		raw, err := rawjson.Encode(object)
		if err != nil {
			continue // it was JSON
		}
		view := unstructured.View(raw)
		cells := []any{}
		for _, c := range columns {
			cells = append(cells, c.value(view, now))
		}
		row := map[string]any{"cells": cells}
		switch includeObject {
		case "None":
			row["object"] = nil
		case "Object":
			row["object"] = object
		default:
			row["object"] = Partial(object)
		}
		rows = append(rows, row)
	}
	return map[string]any{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{}, "columnDefinitions": definitions, "rows": rows}
}

// value returns the cell of an object.
func (c *Column) value(o unstructured.View, now time.Time) any {
	if c.cell != nil {
		return c.cell.fill(o, now)
	}
	found := unstructured.JSONPath(o.Get(""), c.path)
	if len(found) == 0 || found[0] == nil {
		return nil
	}
	switch v := found[0]; c.typ {
	case "date":
		text, _ := v.(string)
		return age(text, now)
	case "integer", "number":
		if n, ok := v.(json.Number); ok {
			return n
		}
		return nil
	case "boolean":
		if b, ok := v.(bool); ok {
			return b
		}
		return nil
	default:
		return unstructured.Cell(v)
	}
}

// age returns the time since a timestamp in the format of kubectl.
func age(timestamp string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return "<invalid>"
	}
	return humanDuration(now.Sub(t))
}

// humanDuration returns a duration in the format of kubectl.
func humanDuration(d time.Duration) string {
	seconds, minutes, hours := int(d.Seconds()), int(d.Minutes()), int(d.Hours())
	days := hours / 24
	n, unit, rest, small := days/365, "y", 0, ""
	switch {
	case seconds < -1:
		return "<invalid>"
	case seconds < 0:
		n, unit = 0, "s"
	case seconds < 120:
		n, unit = seconds, "s"
	case minutes < 10:
		n, unit, rest, small = minutes, "m", seconds%60, "s"
	case minutes < 180:
		n, unit = minutes, "m"
	case hours < 8:
		n, unit, rest, small = hours, "h", minutes%60, "m"
	case hours < 48:
		n, unit = hours, "h"
	case days < 8:
		n, unit, rest, small = days, "d", hours%24, "h"
	case days < 365*2:
		n, unit = days, "d"
	case days < 365*8:
		rest, small = days%365, "d"
	}
	text := strconv.Itoa(n) + unit
	if rest > 0 {
		text += strconv.Itoa(rest) + small
	}
	return text
}

// Partial returns an object with only its metadata.
func Partial(object map[string]any) map[string]any {
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]}
}
