package installation

import (
	"encoding/json"
	"fmt"
)

// This file holds the dashboard for an operator, as a ConfigMap. The sidecar of Grafana finds it by its label.

// dashboardKind is the kind of the object with the dashboard.
const dashboardKind = "ConfigMap"

// panel is a panel of a dashboard, in the current row unless it begins another one. In expressions, "@" stands for the labels of the operator.
type panel struct {
	row, title, unit string
	queries          []query
	needs            needs
}

// query is one line of a panel, or several lines with a legend each.
type query struct{ expr, legend string }

var panels = []panel{
	{row: "Health", title: "Replicas that work", queries: []query{{`sum(1 - kopf_standby{@})`, "working"}, {`sum(kopf_standby{@})`, "standing by"}, {`sum(kopf_paused{@})`, "pausing"}}},
	{title: "Leader", queries: []query{{`leader_election_master_status{@}`, "{{instance}}"}}, needs: needsLease},
	{title: "Streams that do not work", queries: []query{{`sum by (resource) (kopf_watch_streams{@,state="wanted"} - ignoring (state) kopf_watch_streams{@,state="working"})`, "{{resource}}"}}},
	{title: "Since the last success", unit: "s", queries: []query{{`time() - max by (handler) (kopf_handler_last_success_timestamp_seconds{@})`, "{{handler}}"}}},
	{row: "Work", title: "Attempts", unit: "ops", queries: []query{{`sum by (handler) (rate(kopf_handler_attempts_total{@}[$__rate_interval]))`, "{{handler}}"}}},
	{title: "Duration of attempts", unit: "s", queries: []query{
		{`histogram_quantile(0.5, sum by (handler, le) (rate(kopf_handler_duration_seconds_bucket{@}[$__rate_interval])))`, "{{handler}} p50"},
		{`histogram_quantile(0.99, sum by (handler, le) (rate(kopf_handler_duration_seconds_bucket{@}[$__rate_interval])))`, "{{handler}} p99"},
	}},
	{title: "Longest call under way", unit: "s", queries: []query{{`max by (handler) (kopf_handler_running_seconds_max{@})`, "{{handler}}"}}},
	{title: "Queue", queries: []query{{`sum(kopf_queue_depth{@})`, "waiting or worked on"}, {`sum by (name) (workqueue_depth{@})`, "{{name}} waiting"}}},
	{title: "Oldest in the queue", unit: "s", queries: []query{{`max(kopf_queue_oldest_seconds{@})`, "oldest"}}},
	{title: "Daemons and timers", queries: []query{{`sum by (kind) (kopf_background_tasks{@})`, "{{kind}}"}}},
	{title: "Calls of reconcile handlers", unit: "ops", queries: []query{{`sum by (controller, result) (rate(controller_runtime_reconcile_total{@}[$__rate_interval]))`, "{{controller}} {{result}}"}}, needs: needsReconciling},
	{row: "Failures", title: "Attempts that fail", unit: "ops", queries: []query{{`sum by (handler, outcome) (rate(kopf_handler_attempts_total{@,outcome=~"retry|failure"}[$__rate_interval]))`, "{{handler}} {{outcome}}"}}},
	{title: "Objects in retry", queries: []query{{`sum by (resource, handler) (kopf_objects_failing{@})`, "{{resource}} {{handler}}"}}},
	{title: "Objects failed permanently", queries: []query{{`sum by (resource) (kopf_objects_failed{@})`, "{{resource}}"}}},
	{title: "Flapping objects", queries: []query{{`sum(increase(kopf_flapping_total{@}[$__rate_interval]))`, "objects"}}},
	{row: "Streams", title: "Objects", queries: []query{{`max by (resource) (kopf_objects{@})`, "{{resource}}"}}},
	{title: "Events", unit: "ops", queries: []query{{`sum by (resource, type) (rate(kopf_watch_events_total{@}[$__rate_interval]))`, "{{resource}} {{type}}"}}},
	{title: "Since the last event", unit: "s", queries: []query{{`time() - min by (resource) (kopf_watch_last_event_timestamp_seconds{@})`, "{{resource}}"}}},
	{title: "Reconnections", unit: "ops", queries: []query{{`sum by (resource) (rate(kopf_watch_restarts_total{@}[$__rate_interval]))`, "{{resource}}"}}},
	{row: "API server", title: "Requests", unit: "reqps", queries: []query{{`sum by (verb, code) (rate(kopf_api_requests_total{@}[$__rate_interval]))`, "{{verb}} {{code}}"}}},
	{title: "Duration of requests", unit: "s", queries: []query{{`histogram_quantile(0.99, sum by (verb, le) (rate(kopf_api_request_duration_seconds_bucket{@}[$__rate_interval])))`, "{{verb}} p99"}}},
	{title: "Waiting for the limits of the client", unit: "percentunit", queries: []query{{`sum(rate(kopf_api_throttled_seconds_total{@}[$__rate_interval]))`, "waiting"}}},
	{title: "Kubernetes events", unit: "ops", queries: []query{{`sum by (outcome) (rate(kopf_kubernetes_events_total{@}[$__rate_interval]))`, "{{outcome}}"}}},
	{row: "Children", title: "Children", queries: []query{{`max by (resource, state) (kopf_children{@})`, "{{resource}} {{state}}"}}, needs: needsChildren},
	{title: "Writes of children", unit: "ops", queries: []query{{`sum by (resource, verb, outcome) (rate(kopf_children_writes_total{@}[$__rate_interval]))`, "{{resource}} {{verb}} {{outcome}}"}}, needs: needsChildren},
	{row: "Process", title: "Memory", unit: "bytes", queries: []query{{`kopf_resident_memory_bytes{@}`, "{{instance}}"}}},
	{title: "Processor", unit: "short", queries: []query{{`rate(process_cpu_seconds_total{@}[$__rate_interval])`, "{{instance}}"}}},
	{title: "Goroutines", queries: []query{{`kopf_goroutines{@}`, "{{instance}}"}}},
	{title: "Uptime", unit: "s", queries: []query{{`time() - process_start_time_seconds{@}`, "{{instance}}"}}},
}

// The size of panels; three fit into a row.
const panelWidth, panelHeight = 8, 7

// dashboard returns the ConfigMap with the dashboard.
func (p *plan) dashboard() Object {
	data, err := json.MarshalIndent(p.dashboardJSON(), "", "  ")
	if err != nil {
		panic(fmt.Sprintf("kopf: a dashboard cannot be encoded: %v", err)) // all values can be encoded
	}
	o := p.namespaced("v1", dashboardKind, p.Name+"-dashboard", p.home())
	meta := o[2].Value.(Map)
	meta[len(meta)-1].Value = append(p.labels(), Entry{Key: "grafana_dashboard", Value: "1"})
	return Object{File: dashboardFile, Value: append(o, Entry{Key: "data", Value: Map{{Key: p.Name + ".json", Value: string(data) + "\n"}}})}
}

// dashboardJSON returns the dashboard in the format of Grafana.
func (p *plan) dashboardJSON() map[string]any {
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${datasource}"}
	labels := `job="` + p.Name + `",namespace=~"$namespace"`
	var all []any
	x, y, row := 0, 0, ""
	for _, one := range panels {
		if one.row != "" {
			row = one.row
		}
		if one.needs&^p.has() != 0 {
			continue
		}
		if row != "" {
			if x > 0 {
				x, y = 0, y+panelHeight
			}
			all = append(all, object{"type": "row", "title": row, "id": len(all) + 1, "collapsed": false, "panels": []any{}, "gridPos": object{"x": 0, "y": y, "w": 3 * panelWidth, "h": 1}})
			y, row = y+1, ""
		}
		var targets []any
		for i, q := range one.queries {
			targets = append(targets, object{"datasource": source, "expr": expression(q.expr, labels), "legendFormat": q.legend, "refId": string(rune('A' + i))})
		}
		all = append(all, object{
			"type": "timeseries", "title": one.title, "id": len(all) + 1, "datasource": source, "targets": targets,
			"fieldConfig": object{"defaults": object{"unit": one.unit, "min": 0}, "overrides": []any{}}, "gridPos": object{"x": x, "y": y, "w": panelWidth, "h": panelHeight},
		})
		if x += panelWidth; x == 3*panelWidth {
			x, y = 0, y+panelHeight
		}
	}
	variable := object{"name": "namespace", "type": "query", "datasource": source, "includeAll": true, "multi": true, "refresh": 2, "current": object{"text": "All", "value": "$__all"}, "query": object{"query": `label_values(kopf_build_info{job="` + p.Name + `"}, namespace)`, "refId": "A"}}
	return object{
		"title": p.Name, "uid": "kopf-" + p.Name[:min(len(p.Name), 35)], "tags": []any{"kopf"}, "schemaVersion": 39, "editable": true, "refresh": "30s", "time": object{"from": "now-6h", "to": "now"},
		"templating": object{"list": []any{object{"name": "datasource", "type": "datasource", "query": "prometheus"}, variable}}, "panels": all,
	}
}
