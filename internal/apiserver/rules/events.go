package rules

import (
	"fmt"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func eventFunctions() map[string]function {
	return map[string]function{"event": event, "newEvent": newEvent, "newEventUpdate": newEventUpdate}
}

// of returns a field of an event by its name in events.k8s.io, or by its name in the core group, depending on the event's group.
func (n *node) of(newName, coreName string) *node {
	if n.has("involvedObject") && coreName != "" {
		return n.child(coreName)
	}
	return n.child(newName)
}

// event checks an event of either group. Most paths are those of the core group.
func event(n *node, _ string, _ []string) {
	namespace := n.string("metadata.namespace")
	about := n.of("regarding", "involvedObject")
	own := about.child("namespace")
	own.path = "involvedObject.namespace"
	const mismatch = "does not match event.namespace"
	if n.child("eventTime").text() == "" {
		if own.text() == "" && namespace != "" && namespace != "default" || own.text() != "" && own.text() != namespace {
			own.invalidText(mismatch)
		}
		return
	}
	if own.text() == "" && namespace != "default" && namespace != "kube-system" {
		own.invalidText(mismatch)
	}
	controller := n.of("reportingController", "reportingComponent")
	if controller.text() == "" {
		controller.required("")
	}
	controller.format(QualifiedName)
	for _, limited := range []*node{n.child("reportingInstance"), n.child("action"), n.child("reason")} {
		if limited.text() == "" {
			limited.required("")
		}
		limited.checkLength(128)
	}
	note := n.of("note", "message")
	note.path = "message"
	note.checkLength(1024)
}

func (n *node) checkLength(most int) {
	if len(n.text()) > most {
		n.report(field.Invalid(n.path, "", fmt.Sprintf("can have at most %d characters", most)))
	}
}

// newEvent checks a new event of events.k8s.io. The paths are those of the core group.
func newEvent(n *node, _ string, _ []string) {
	n.checkSeries()
	if n.child("eventTime").text() == "" {
		n.report(field.Required("eventTime", ""))
	}
	if kind := n.string("type"); kind != "Normal" && kind != "Warning" {
		n.report(field.Invalid("type", "", "has invalid value: "+kind))
	}
	for _, f := range [][2]string{{"deprecatedFirstTimestamp", "firstTimestamp"}, {"deprecatedLastTimestamp", "lastTimestamp"}, {"deprecatedCount", "count"}, {"deprecatedSource", "source"}} {
		if !isEmpty(n.child(f[0]).value) {
			n.report(field.Invalid(f[1], "", "needs to be unset"))
		}
	}
}

func (n *node) checkSeries() {
	series := n.child("series")
	if series.value == nil {
		return
	}
	if series.child("count").number() < 2 {
		n.report(field.Invalid("series.count", "", "should be at least 2"))
	}
	if series.string("lastObservedTime") == "" {
		n.report(field.Required("series.lastObservedTime", ""))
	}
}

// newEventUpdate refuses changes to all fields except the series.
func newEventUpdate(n *node, _ string, _ []string) {
	if series := n.child("series"); !rawjson.Equal(series.value, series.old) {
		n.checkSeries()
	}
	for _, f := range [][2]string{{"regarding", "involvedObject"}, {"reason", "reason"}, {"note", "message"}, {"deprecatedSource", "source"},
		{"deprecatedFirstTimestamp", "firstTimestamp"}, {"deprecatedLastTimestamp", "lastTimestamp"}, {"deprecatedCount", "count"}, {"reason", "reason"}, {"type", "type"},
		{"eventTime", "eventTime"}, {"action", "action"}, {"related", "related"}, {"reportingController", "reportingController"}, {"reportingInstance", "reportingInstance"}} {
		now := n.child(f[0])
		now.path = f[1]
		now.checkImmutable("")
	}
}
