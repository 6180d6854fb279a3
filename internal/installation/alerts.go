package installation

import (
	"slices"
	"strings"
)

// This file holds the alerts for an operator, as a PrometheusRule.

// Runbook is the page that explains the alerts.
const Runbook = "https://github.com/kopf-go/kopf/blob/main/docs/runbook.md"

// alertsKind is the kind of the object with the alerts.
const alertsKind = "PrometheusRule"

// needs lists the features that an operator must have for an alert or a panel.
type needs uint8

const (
	needsLease needs = 1 << iota
	needsReconciling
	needsChildren
)

// alert is an alerting rule: its condition, how long the condition must hold, and its text. In the expression, "@" stands for the labels of the operator.
type alert struct {
	name, expr, after, severity, summary string
	needs                                needs
}

// where has the labels that identify a process.
const where = "namespace, job, instance"

var alerts = []alert{
	{
		name:  "KopfStreamDown",
		expr:  `kopf_watch_streams{@,state="wanted"} - ignoring (state) kopf_watch_streams{@,state="working"} > 0 unless on (` + where + `) kopf_paused{@} == 1`,
		after: "5m", severity: "critical", summary: "{{ $labels.instance }} does not receive changes of {{ $labels.resource }}",
	},
	{
		name:  "KopfStreamSilent",
		expr:  `time() - kopf_watch_last_event_timestamp_seconds{@} > 180`,
		after: "2m", severity: "critical", summary: "{{ $labels.instance }} has received nothing about {{ $labels.resource }} for minutes, not even a bookmark",
	},
	{
		name:  "KopfQueueStuck",
		expr:  `kopf_queue_oldest_seconds{@} > 300`,
		after: "1m", severity: "warning", summary: "An object has waited for a worker of {{ $labels.instance }} for {{ $value | humanizeDuration }}",
	},
	{
		name:  "KopfHandlerFailing",
		expr:  `kopf_objects_failing{@} > 0`,
		after: "15m", severity: "warning", summary: "The handler {{ $labels.handler }} keeps failing for {{ $value }} objects of {{ $labels.resource }}",
	},
	{
		name:  "KopfObjectsFailed",
		expr:  `kopf_objects_failed{@} > 0`,
		after: "1m", severity: "warning", summary: "A handler has failed permanently for {{ $value }} objects of {{ $labels.resource }}",
	},
	{
		name: "KopfNoSuccess",
		expr: `sum by (namespace, job, handler) (increase(kopf_handler_attempts_total{@,outcome=~"retry|failure"}[30m])) > 0
unless sum by (namespace, job, handler) (increase(kopf_handler_attempts_total{@,outcome="success"}[30m])) > 0`,
		after: "30m", severity: "critical", summary: "The handler {{ $labels.handler }} has had no success for 30 minutes, only errors",
	},
	{
		name: "KopfHandlerHangs",
		expr: `kopf_handler_running_seconds_max{@} > 600
unless on (` + where + `, handler) kopf_handler_running_seconds_max{@} <= on (` + where + `, handler) 10 * histogram_quantile(0.99, sum by (` + where + `, handler, le) (rate(kopf_handler_duration_seconds_bucket{@}[1d])))`,
		after: "1m", severity: "warning", summary: "A call of the handler {{ $labels.handler }} has run for {{ $value | humanizeDuration }}, much longer than usual",
	},
	{
		name:  "KopfFlapping",
		expr:  `increase(kopf_flapping_total{@}[15m]) > 0`,
		after: "1m", severity: "warning", summary: "{{ $labels.instance }} and another client keep changing the same fields of an object",
	},
	{
		name:  "KopfCertificateEnds",
		expr:  `kopf_certificate_expiry_timestamp_seconds{@} - time() < 7 * 86400`,
		after: "1m", severity: "warning", summary: "The certificate for {{ $labels.certificate }} of {{ $labels.instance }} expires in {{ $value | humanizeDuration }} and has not been renewed",
	},
	{
		name:  "KopfThrottled",
		expr:  `rate(kopf_api_throttled_seconds_total{@}[5m]) > 0.5`,
		after: "10m", severity: "warning", summary: "The rate limit of the client delays the requests of {{ $labels.instance }}",
	},
	{
		name:  "KopfNoLeader",
		expr:  `max by (namespace, job, name) (leader_election_master_status{@}) == 0`,
		after: "1m", severity: "critical", summary: "No replica holds the Lease {{ $labels.name }}", needs: needsLease,
	},
	{
		name:  "KopfRestarts",
		expr:  `changes(process_start_time_seconds{@}[1h]) > 2`,
		after: "0m", severity: "warning", summary: "{{ $labels.instance }} has restarted {{ $value }} times in an hour",
	},
}

// has returns the features of the operator.
func (m *Model) has() (all needs) {
	if m.Lease != "" {
		all |= needsLease
	}
	if m.Reconciling {
		all |= needsReconciling
	}
	if m.Children {
		all |= needsChildren
	}
	return all
}

// expression returns an expression with the labels of the operator.
func expression(text, labels string) string { return strings.ReplaceAll(text, "@", labels) }

// alerts returns the PrometheusRule.
func (p *plan) alerts() Object {
	var rules []Map
	for _, a := range alerts {
		if a.needs&^p.has() != 0 {
			continue
		}
		rules = append(rules, Map{
			{Key: "alert", Value: a.name},
			{Key: "expr", Value: expression(a.expr, `job="`+p.Name+`"`)},
			{Key: "for", Value: a.after},
			{Key: "labels", Value: Map{{Key: "severity", Value: a.severity}}},
			{Key: "annotations", Value: Map{{Key: "summary", Value: a.summary}, {Key: "runbook_url", Value: Runbook + "#" + strings.ToLower(a.name)}}},
		})
	}
	return Object{File: alertsFile, Value: append(p.namespaced("monitoring.coreos.com/v1", alertsKind, p.Name, p.home()),
		Entry{Key: "spec", Value: Map{{Key: "groups", Value: []Map{{{Key: "name", Value: p.Name}, {Key: "rules", Value: rules}}}}}})}
}

// Asked returns the objects of some kinds, whatever their case and plural. It creates the dashboard and the alerts only on request.
func (m *Model) Asked(kinds []string) ([]Object, error) {
	p, all := &plan{Model: m}, m.Objects()
	asked := slices.Clone(kinds)
	for i, kind := range asked {
		if means(kind, "dashboard") {
			asked[i] = dashboardKind
		} else if means(kind, "alert") {
			asked[i] = alertsKind
		}
	}
	if slices.Contains(asked, dashboardKind) {
		all = append(all, p.dashboard())
	}
	if slices.ContainsFunc(asked, func(kind string) bool { return means(kind, alertsKind) }) {
		all = append(all, p.alerts())
	}
	return Only(all, asked)
}
