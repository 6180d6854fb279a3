// Package kstatus judges from the JSON of an object whether the object has become what its spec asks for. Built-in kinds have rules of their own,
// all others are judged by the conditions that Kubernetes controllers have in common.
//
// The judgment is that of the library kstatus, which kubectl plugins and GitOps tools use, with three differences, because it is asked before
// something else is made that needs the object: a Job is ready when it is complete, not when it has started, a Pod that has failed is not ready, and
// a condition Ready of an older generation says nothing of this one, as for "kubectl wait".
// A field of a type that it does not have in Kubernetes counts as absent.
package kstatus

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// maxReason bounds the reasons, which are kept for each object, and come from the objects' conditions.
const maxReason = 256

// Ready reports whether an object has become what its spec asks for, and if not, why, in few words such as "Ready: 1/3". The reason is a text of
// valid UTF-8, of up to 256 bytes. A ready object costs no allocation.
func Ready(group, kind string, parts Parts) (ready bool, reason string) {
	o := object{Parts: parts}
	o.conditions, _ = rawjson.Find(o.Status, "conditions")
	if reason = o.unsettled(); reason == "" {
		reason = ruleOf(groupKind{group, kind})(o)
	}
	if len(reason) > maxReason {
		reason = strings.Clone(strings.ToValidUTF8(reason[:maxReason], "")) // without the rest behind it
	}
	return reason == "", reason
}

// Parts are those parts of the JSON of an object that the judgment is about.
type Parts struct {
	Deleting               bool // whether it has a deletion timestamp
	Metadata, Spec, Status []byte
}

// object is passed by value, so that it stays on the stack.
type object struct {
	Parts
	conditions []byte
}

// unsettled returns why an object of any kind is not ready, "" if that is for its kind to say.
func (o object) unsettled() string {
	if o.Deleting {
		return "Terminating"
	}
	generation, known := integer(o.Metadata, "generation")
	if observed, ok := integer(o.Status, "observedGeneration"); ok && known && observed != generation {
		return ratio("Observed generation", observed, generation)
	}
	reason := ""
	o.eachCondition(func(c condition) bool {
		for _, abnormal := range [...]string{"Reconciling", "Stalled"} {
			if c.is(abnormal, "True") {
				reason = c.text(abnormal)
			}
		}
		return reason == "" // the first of them counts
	})
	return reason
}

// readyCondition is the rule for kinds that have none of their own.
func readyCondition(o object) string {
	reason := ""
	o.eachCondition(func(c condition) bool {
		if c.is("Ready", "True") {
			reason = o.outdated(c)
			return false
		}
		if c.is("Ready", "False") || c.is("Ready", "Unknown") {
			reason = c.text("Not ready")
		}
		return reason == ""
	})
	return reason
}

// outdated returns why a condition says nothing of the object as it is now, "" if it does.
func (o object) outdated(c condition) string {
	generation, known := integer(o.Metadata, "generation")
	if observed, ok := integer(c, "observedGeneration"); ok && known && observed < generation {
		return ratio("Observed generation", observed, generation)
	}
	return ""
}

// condition is the JSON of one of the conditions of an object.
type condition []byte

// eachCondition calls yield with the conditions in their order until it returns false.
func (o object) eachCondition(yield func(c condition) bool) {
	_ = rawjson.EachItem(o.conditions, func(item []byte) bool { return yield(item) }) // what is malformed is not there
}

// hasCondition reports whether one of the conditions has that type and status.
func (o object) hasCondition(conditionType, status string) bool {
	found := false
	o.eachCondition(func(c condition) bool {
		found = c.is(conditionType, status)
		return !found
	})
	return found
}

func (c condition) is(conditionType, status string) bool {
	return textIs(c, "type", conditionType) && textIs(c, "status", status)
}

// text returns what a condition says to people, or else to programs, or else what the caller has to say about it.
func (c condition) text(otherwise string) string {
	return cmp.Or(rawjson.StringAt(c, "message"), rawjson.StringAt(c, "reason"), otherwise)
}

// isText reports whether a value is a string that is not empty.
func isText(value []byte) bool { return rawjson.IsQuoted(value) && len(value) > len(`""`) }

// textIs reports whether the value of a key is a string with that text.
func textIs(raw []byte, key, text string) bool {
	value, _ := rawjson.Find(raw, key)
	return rawjson.IsQuoted(value) && rawjson.QuotedIs(value, text)
}

// integer returns the whole number at a path, and whether there is one.
func integer(raw []byte, path ...string) (n int64, ok bool) {
	value, ok := rawjson.Find(raw, path...)
	if !ok {
		return 0, false // without the error that parsing would allocate
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}

// integerOr is integer with a default.
func integerOr(otherwise int64, raw []byte, path ...string) int64 {
	if n, ok := integer(raw, path...); ok {
		return n
	}
	return otherwise
}

// ratio returns a reason such as "Ready: 1/3".
func ratio(what string, have, want int64) string {
	return what + ": " + strconv.FormatInt(have, 10) + "/" + strconv.FormatInt(want, 10)
}
