package manifest

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// The patterns of metav1.Condition.
var (
	typePattern   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)
	reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
)

// TestConditionNames compares types and reasons with the Kubernetes patterns, for all texts of up to five relevant characters.
func TestConditionNames(t *testing.T) {
	const alphabet = "aZ0-_./,:é \n"
	var check func(text string, depth int)
	check = func(text string, depth int) {
		if got, want := isConditionType(text), typePattern.MatchString(text); got != want {
			t.Errorf("type %q: got %t, want %t", text, got, want)
		}
		if got, want := isConditionReason(text), reasonPattern.MatchString(text); got != want {
			t.Errorf("reason %q: got %t, want %t", text, got, want)
		}
		if depth > 0 {
			for _, r := range alphabet {
				check(text+string(r), depth-1)
			}
		}
	}
	check("", 5)
}

// TestConditionLimits checks the limits of metav1.Condition, and that errors name the value and the expectation.
func TestConditionLimits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Condition)
		err    string // beginning and end
	}{
		{"a message of characters of two bytes", func(c *Condition) { c.Message = strings.Repeat("ä", maxMessage) }, ""},
		{"a domain", func(c *Condition) { c.Type = "example.com/Ready" }, ""},
		{"a long type", func(c *Condition) { c.Type = strings.Repeat("a", maxType) }, ""},
		{"a long domain", func(c *Condition) { c.Type = strings.Repeat("a", maxType-2) + "/B" }, ""},
		{"a type that is longer", func(c *Condition) { c.Type = strings.Repeat("a", maxType+1) }, `invalid type "aaa … of a condition: want at most 316 characters, not 317`},
		{"no type", func(c *Condition) { c.Type = "" }, `invalid type "" of a condition: want a word in CamelCase, such as Ready, … perhaps with a domain before it`},
		{"a domain with an empty label", func(c *Condition) { c.Type = "a..b/Ready" }, `invalid type "a..b/Ready" … `},
		{"a domain with a label that ends badly", func(c *Condition) { c.Type = "a-.b/Ready" }, `invalid type "a-.b/Ready" … `},
		{"a type with a letter that is not ASCII", func(c *Condition) { c.Type = "Réady" }, `invalid type "Réady" … `},
		{"a status in lower case", func(c *Condition) { c.Status = "true" }, `invalid status "true" of the condition Ready: … want True, False or Unknown`},
		{"a reason with a blank", func(c *Condition) { c.Reason = "Not ready" }, `invalid reason "Not ready" of the condition Ready: want a word … such as MinimumReplicasAvailable`},
		{"a long reason", func(c *Condition) { c.Reason = strings.Repeat("a", maxReason) }, ""},
		{"a reason that is longer", func(c *Condition) { c.Reason = strings.Repeat("a", maxReason+1) }, `invalid reason "aaa … of the condition Ready: want at most 1024 characters, not 1025`},
		{"a negative generation", func(c *Condition) { c.ObservedGeneration = -1 }, `invalid observedGeneration -1 of the condition Ready: … or 0`},
	} {
		c := Condition{Type: "Ready", Status: "True", Reason: "Made"}
		tt.change(&c)
		got := ""
		if err := c.Check(); err != nil {
			got = err.Error()
		}
		begin, end, _ := strings.Cut(tt.err, " … ")
		if (got == "") != (tt.err == "") || !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) || len(got) > 300 {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.err)
		}
	}
}

// TestSetConditionTimes checks that a transition requires a status that differs from the present and the stored one.
func TestSetConditionTimes(t *testing.T) {
	const old, since = "2020-01-01T00:00:00Z", "2030-01-02T03:04:05Z"
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, stored, before, after, want string }{
		{"a new condition", "", "", "True", since},
		{"the same status", "True", "True", "True", old},
		{"another status", "True", "True", "False", since},
		{"the stored status again", "True", "False", "True", old},
		{"another status than both", "True", "False", "Unknown", since},
		{"gone in the meantime", "True", "", "True", old},
		{"made in the meantime", "", "True", "True", old},
	} {
		list := func(status string) []any {
			if status == "" {
				return nil
			}
			return []any{map[string]any{"type": "Ready", "status": status, "lastTransitionTime": old, "observedGeneration": json.Number("1")}}
		}
		object := map[string]any{"status": map[string]any{"conditions": list(tt.before)}}
		if err := SetCondition(object, list(tt.stored), Condition{Type: "Ready", Status: tt.after, Reason: "R", LastTransitionTime: at}); err != nil {
			t.Fatal(err)
		}
		want := []any{map[string]any{"type": "Ready", "status": tt.after, "reason": "R", "message": "", "lastTransitionTime": tt.want}}
		if diff := cmp.Diff(any(want), rawjson.AsMap(object["status"])["conditions"]); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.name, diff)
		}
	}
}
