package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/validation"
)

// Condition is a condition in the status of an object, with the fields of metav1.Condition.
type Condition struct {
	Type, Status, Reason, Message string
	ObservedGeneration            int64     // 0 for the generation of the object, or NoGeneration
	LastTransitionTime            time.Time // zero for now
}

// NoGeneration is the generation of a condition without one.
const NoGeneration = -1

// The limits of metav1.Condition.
const (
	maxType    = 316
	maxReason  = 1024
	maxMessage = 32768
)

// maxQuoted is the maximum length of a quoted value in an error, in bytes.
const maxQuoted = 100

// isConditionType reports whether a text is a word with an optional domain. A regular expression would be shorter, but add nearly two percent to an operator's
// binary, which has no others.
func isConditionType(text string) bool {
	domain, word, found := strings.Cut(text, "/")
	if !found {
		return validation.IsName(text, "-_.")
	}
	return validation.IsDNSSubdomain(domain) && validation.IsName(word, "-_.")
}

// isConditionReason reports whether a text is a word that begins with a letter. It may contain "," and ":".
func isConditionReason(text string) bool {
	letter := func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
	strange := func(r rune) bool { return !letter(r) && !('0' <= r && r <= '9') && !strings.ContainsRune("_,:", r) }
	return text != "" && letter(rune(text[0])) && strings.IndexFunc(text, strange) < 0 && !strings.ContainsAny(text[len(text)-1:], ",:")
}

// ConditionMessage returns a text as the message of a condition, shortened if metav1.Condition does not allow its length.
func ConditionMessage(text string) string {
	if utf8.RuneCountInString(text) <= maxMessage {
		return text
	}
	return cut.Middle(text, maxMessage)
}

// Check returns an error for a condition that metav1.Condition does not allow.
func (c *Condition) Check() error {
	switch {
	case !isConditionType(c.Type):
		return fmt.Errorf("invalid type %q of a condition: want a word in CamelCase, such as Ready, perhaps with a domain before it", cut.Middle(c.Type, maxQuoted))
	case len(c.Type) > maxType:
		return fmt.Errorf("invalid type %q of a condition: want at most %d characters, not %d", cut.Middle(c.Type, maxQuoted), maxType, len(c.Type))
	case !slices.Contains([]string{"True", "False", "Unknown"}, c.Status):
		return fmt.Errorf("invalid status %q of the condition %s: want True, False or Unknown", cut.Middle(c.Status, maxQuoted), c.Type)
	case !isConditionReason(c.Reason):
		return fmt.Errorf("invalid reason %q of the condition %s: want a word in CamelCase, such as MinimumReplicasAvailable", cut.Middle(c.Reason, maxQuoted), c.Type)
	case len(c.Reason) > maxReason:
		return fmt.Errorf("invalid reason %q of the condition %s: want at most %d characters, not %d", cut.Middle(c.Reason, maxQuoted), c.Type, maxReason, len(c.Reason))
	case c.ObservedGeneration < 0:
		return fmt.Errorf("invalid observedGeneration %d of the condition %s: want the generation of an object, or 0", c.ObservedGeneration, c.Type)
	}
	return nil
}

// ConditionsError means that the conditions of an object are no list.
type ConditionsError struct{ kind string }

func (e *ConditionsError) Error() string {
	return fmt.Sprintf("invalid status.conditions: want a list, not %s", e.kind)
}

// SetCondition sets a condition in the status of an object, and replaces the one with its type. The transition time changes only with the status. If the status
// has changed only temporarily, the time of the stored condition applies.
func SetCondition(object map[string]any, stored []any, c Condition) error {
	status := rawjson.AsMap(object["status"])
	if status == nil {
		status = map[string]any{}
	}
	list, ok := status["conditions"].([]any)
	if !ok && status["conditions"] != nil {
		return &ConditionsError{rawjson.KindOf(status["conditions"])}
	}
	list = slices.Clone(list)
	at := c.index(list)
	if at < 0 {
		at, list = len(list), append(list, map[string]any{})
	}
	now := maps.Clone(rawjson.AsMap(list[at]))
	now["lastTransitionTime"] = c.since(now, stored)
	now["type"], now["status"], now["reason"], now["message"] = c.Type, c.Status, c.Reason, c.Message
	delete(now, "observedGeneration") // it belongs to the writer before
	generation := rawjson.AsMap(object["metadata"])["generation"]
	switch {
	case c.ObservedGeneration > 0:
		now["observedGeneration"] = json.Number(strconv.FormatInt(c.ObservedGeneration, 10))
	case c.ObservedGeneration == 0 && generation != nil:
		now["observedGeneration"] = generation
	}
	list[at] = now
	status["conditions"] = list
	object["status"] = status
	return nil
}

// ChangedConditions returns the new and the changed conditions, to be set, and the indices of the removed ones. It resets derived fields that were not changed:
// the generation, and, if the status has changed, the transition time.
func ChangedConditions(before, now []Condition) (changed []Condition, gone []int) {
	find := func(all []Condition, name string) int {
		return slices.IndexFunc(all, func(o Condition) bool { return o.Type == name })
	}
	for i, old := range before {
		if find(now, old.Type) < 0 {
			gone = append(gone, i)
		}
	}
	for _, c := range now {
		if i := find(before, c.Type); i >= 0 {
			old := before[i]
			if old == c {
				continue
			}
			if c.ObservedGeneration == old.ObservedGeneration {
				c.ObservedGeneration = 0
			}
			if c.Status != old.Status && c.LastTransitionTime.Equal(old.LastTransitionTime) {
				c.LastTransitionTime = time.Time{}
			}
		}
		changed = append(changed, c)
	}
	return changed, gone
}

// IsIn reports whether [SetCondition] would change nothing in a JSON list of conditions, for a generation in JSON.
func (c *Condition) IsIn(conditions []byte, generation string) (is bool) {
	if c.ObservedGeneration > 0 {
		generation = strconv.FormatInt(c.ObservedGeneration, 10)
	} else if c.ObservedGeneration == NoGeneration {
		generation = ""
	}
	_ = rawjson.EachItem(conditions, func(item []byte) bool { // well-formed, as it came from the API server
		if rawjson.StringAt(item, "type") != c.Type {
			return true
		}
		is = rawjson.StringAt(item, "status") == c.Status && rawjson.StringAt(item, "reason") == c.Reason && hasText(item, "message", c.Message) &&
			rawjson.StringAt(item, "lastTransitionTime") != "" && rawjson.ScalarAt(item, "observedGeneration") == generation
		return false
	})
	return is
}

// hasText reports whether a member of an object is a string, which may be empty.
func hasText(object []byte, key, text string) bool {
	value, _ := rawjson.Find(object, key)
	return rawjson.IsQuoted(value) && rawjson.Unquote(value) == text
}

// index returns the index of the condition with the same type, or -1.
func (c *Condition) index(conditions []any) int {
	return slices.IndexFunc(conditions, func(item any) bool { return rawjson.AsMap(item)["type"] == any(c.Type) })
}

// since returns the time of the last transition: that of the present or the stored condition with the same status, or else that of this condition.
func (c *Condition) since(present map[string]any, stored []any) any {
	if since := present["lastTransitionTime"]; since != nil && present["status"] == any(c.Status) {
		return since
	}
	if at := c.index(stored); at >= 0 {
		before := rawjson.AsMap(stored[at])
		if since := before["lastTransitionTime"]; since != nil && before["status"] == any(c.Status) {
			return since
		}
	}
	if c.LastTransitionTime.IsZero() {
		return time.Now().UTC().Format(time.RFC3339)
	}
	return c.LastTransitionTime.UTC().Format(time.RFC3339)
}
