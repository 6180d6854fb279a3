// Package table prints objects in tables, as kube-apiserver does for kubectl get.
package table

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Column is one column of a table.
type Column struct {
	name, typ, format, description, path string
	priority                             int
	show                                 func(object unstructured.View, now time.Time) any // instead of the path, for built-in kinds
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

var nameColumn = Column{name: "Name", typ: "string", format: "name", path: ".metadata.name"}

var ageColumn = Column{name: "Age", typ: "date", path: ".metadata.creationTimestamp"}

// Columns returns the columns of a kind: those that its CRD defines, if any, or those of a built-in
// kind with a plural.
func Columns(plural string, custom bool, defined []Column) []Column {
	switch {
	case defined != nil:
		return append([]Column{nameColumn}, defined...)
	case custom:
		return []Column{nameColumn, ageColumn}
	}
	last := ageColumn
	special, known := builtinColumns(plural)
	if !known {
		last.name, last.show = "Created At", func(o unstructured.View, _ time.Time) any { return o.String("metadata.creationTimestamp") }
		return []Column{nameColumn, last}
	}
	all := []Column{nameColumn}
	for _, name := range strings.FieldsFunc(special, func(c rune) bool { return c == ',' }) {
		name, number := strings.CutSuffix(name, "#")
		c := Column{name: name, typ: "string", show: func(o unstructured.View, _ time.Time) any { return builtinCell(plural+" "+name, o) }}
		if number {
			c.typ = "integer"
		}
		all = append(all, c)
	}
	last.show = showAge
	return append(all, last)
}

func showAge(o unstructured.View, now time.Time) any {
	return age(o.String("metadata.creationTimestamp"), now)
}

// builtinColumns returns the columns between the name and the age of a common kind, separated by
// commas. A # marks a column of numbers.
func builtinColumns(plural string) (names string, known bool) {
	switch plural {
	case "namespaces":
		return "Status", true
	case "configmaps":
		return "Data#", true
	case "secrets":
		return "Type,Data#", true
	case "serviceaccounts":
		return "", true
	case "leases":
		return "Holder", true
	case "pods":
		return "Ready,Status,Restarts", true
	case "deployments":
		return "Ready,Up-to-date#,Available#", true
	case "replicasets":
		return "Desired#,Current#,Ready#", true
	case "statefulsets":
		return "Ready", true
	case "jobs":
		return "Status,Completions,Duration", true
	case "services":
		return "Type,Cluster-IP,External-IP,Port(s)", true
	case "events":
		return "Last Seen,Type,Reason,Object,Message", true
	}
	return "", false
}

// builtinCell returns the cell of an object in one of [builtinColumns].
func builtinCell(column string, o unstructured.View) any {
	switch column {
	case "namespaces Status":
		return o.String("status.phase")
	case "configmaps Data", "secrets Data":
		return o.View("data").Len() + o.View("binaryData").Len()
	case "secrets Type", "events Type":
		return o.String("type")
	case "leases Holder":
		return o.String("spec.holderIdentity")
	case "pods Ready":
		return podReady(o)
	case "pods Status":
		if o.Has("metadata.deletionTimestamp") {
			return "Terminating"
		}
		return or(o.String("status.reason"), o.String("status.phase"))
	case "pods Restarts":
		return "0"
	case "deployments Ready", "statefulsets Ready":
		return fmt.Sprintf("%d/%d", o.Int("status.readyReplicas"), o.Int("spec.replicas"))
	case "deployments Up-to-date":
		return o.Int("status.updatedReplicas")
	case "deployments Available":
		return o.Int("status.availableReplicas")
	case "replicasets Desired":
		return o.Int("spec.replicas")
	case "replicasets Current":
		return o.Int("status.replicas")
	case "replicasets Ready":
		return o.Int("status.readyReplicas")
	case "jobs Status":
		return "Running"
	case "jobs Completions":
		return fmt.Sprintf("%d/%d", o.Int("status.succeeded"), max(o.Int("spec.completions"), 1))
	case "services Type":
		return or(o.String("spec.type"), "ClusterIP")
	case "services Cluster-IP":
		return or(o.String("spec.clusterIP"), "<none>")
	case "services External-IP":
		return "<none>"
	case "services Port(s)":
		return servicePorts(o)
	case "events Reason":
		return o.String("reason")
	case "events Object":
		return strings.ToLower(o.String("involvedObject.kind")) + "/" + o.String("involvedObject.name")
	case "events Message":
		return strings.TrimSpace(o.String("message"))
	}
	return "" // the duration of a job, and when an event was last seen
}

func or(first, second string) string {
	if first != "" {
		return first
	}
	return second
}

func podReady(o unstructured.View) any {
	ready := 0
	statuses, _ := o.Get("status.containerStatuses").([]any)
	for _, s := range statuses {
		if rawjson.AsMap(s)["ready"] == true {
			ready++
		}
	}
	containers, _ := o.Get("spec.containers").([]any)
	return fmt.Sprintf("%d/%d", ready, len(containers))
}

func servicePorts(o unstructured.View) any {
	var all []string
	ports, _ := o.Get("spec.ports").([]any)
	for _, p := range ports {
		port := rawjson.AsMap(p)
		protocol := unstructured.Text(port, "protocol")
		all = append(all, fmt.Sprintf("%v/%s", port["port"], or(protocol, "TCP")))
	}
	return or(strings.Join(all, ","), "<none>")
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
	if c.show != nil {
		return c.show(o, now)
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

// age returns the time since a timestamp in the form of kubectl.
func age(timestamp string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return "<invalid>"
	}
	d := now.Sub(t)
	seconds, minutes, hours := int(d.Seconds()), int(d.Minutes()), int(d.Hours())
	days := hours / 24
	n, unit, rest, small := days/365, "y", 0, ""
	switch {
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

// Partial returns an object with its metadata alone.
func Partial(object map[string]any) map[string]any {
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]}
}
