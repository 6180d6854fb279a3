// Package kstatus decides from the JSON of an object whether the object has reached the state in its spec. It has rules for built-in kinds. For all other
// kinds, it uses the conditions that Kubernetes controllers have in common.
//
// The results are those of the library kstatus, which kubectl plugins and GitOps tools use, with three differences, because callers create dependent objects
// afterwards. A Job is ready when it is complete, not when it has started. A Pod that has failed is not ready. As for "kubectl wait", a Ready condition of an
// older generation does not count. A field with a type that differs from Kubernetes counts as absent.
package kstatus

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// maxReason limits the length of reasons, which are stored for each object, and come from the objects' conditions.
const maxReason = 256

// Ready reports whether an object has reached the state in its spec, or else why not, in few words such as "Ready: 1/3". The reason is valid UTF-8 of up to 256
// bytes. Ready does not allocate for a ready object.
func Ready(group, kind string, parts Parts) (ready bool, reason string) {
	o := object{Parts: parts}
	o.conditions, _ = rawjson.Find(o.Status, "conditions")
	if reason = o.unsettled(); reason == "" {
		reason = ruleOf(groupKind{group, kind})(o)
	}
	if len(reason) > maxReason {
		reason = strings.Clone(strings.ToValidUTF8(reason[:maxReason], "")) // releases the rest of the text
	}
	return reason == "", reason
}

// Parts are the relevant parts of the JSON of an object.
type Parts struct {
	Deleting               bool // it has a deletion timestamp
	Metadata, Spec, Status []byte
}

// object is passed by value, so that it stays on the stack.
type object struct {
	Parts
	conditions []byte
}

// unsettled returns why an object of any kind is not ready, or "" if that depends on the rule of its kind.
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
		return reason == "" // the first one wins
	})
	return reason
}

// readyCondition is the rule for kinds without their own.
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

// outdated returns why a condition does not apply to the present generation, or "".
func (o object) outdated(c condition) string {
	generation, known := integer(o.Metadata, "generation")
	if observed, ok := integer(c, "observedGeneration"); ok && known && observed < generation {
		return ratio("Observed generation", observed, generation)
	}
	return ""
}

// condition is the JSON of a condition of an object.
type condition []byte

// eachCondition calls yield for each condition, in order, until yield returns false.
func (o object) eachCondition(yield func(c condition) bool) {
	_ = rawjson.EachItem(o.conditions, func(item []byte) bool { return yield(item) }) // malformed items are ignored
}

// hasCondition reports whether there is a condition with a type and a status.
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

// text returns the message of a condition, else its reason, else the given text.
func (c condition) text(otherwise string) string {
	return cmp.Or(rawjson.StringAt(c, "message"), rawjson.StringAt(c, "reason"), otherwise)
}

// isText reports whether a value is a string that is not empty.
func isText(value []byte) bool { return rawjson.IsQuoted(value) && len(value) > len(`""`) }

// textIs reports whether the value of a key is a given string.
func textIs(raw []byte, key, text string) bool {
	value, _ := rawjson.Find(raw, key)
	return rawjson.IsQuoted(value) && rawjson.QuotedIs(value, text)
}

// integer returns the integer at a path, and reports whether there is one.
func integer(raw []byte, path ...string) (n int64, ok bool) {
	value, ok := rawjson.Find(raw, path...)
	if !ok {
		return 0, false // avoids the allocated error of parsing
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
