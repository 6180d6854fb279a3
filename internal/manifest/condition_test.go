package manifest

import (
	"regexp"
	"strings"
	"testing"
)

// The patterns of metav1.Condition.
var (
	typePattern   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
)

// TestConditionNames holds that types and reasons are what the patterns of Kubernetes allow: all texts of up to five of the characters that matter.
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

// TestConditionLimits holds the limits to those of metav1.Condition.
func TestConditionLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Condition)
		valid  bool
	}{
		"a message of characters of two bytes":   {func(c *Condition) { c.Message = strings.Repeat("ä", maxMessage) }, true},
		"a message that is longer":               {func(c *Condition) { c.Message = strings.Repeat("a", maxMessage+1) }, false},
		"a domain":                               {func(c *Condition) { c.Type = "example.com/Ready" }, true},
		"a negative generation":                  {func(c *Condition) { c.ObservedGeneration = -1 }, false},
		"a domain with an empty label":           {func(c *Condition) { c.Type = "a..b/Ready" }, false},
		"a domain with a label that ends badly":  {func(c *Condition) { c.Type = "a-.b/Ready" }, false},
		"a type with a letter that is not ASCII": {func(c *Condition) { c.Type = "Réady" }, false},
		"a status in lower case":                 {func(c *Condition) { c.Status = "true" }, false},
		"a reason with a blank":                  {func(c *Condition) { c.Reason = "Not ready" }, false},
	} {
		c := Condition{Type: "Ready", Status: "True", Reason: "Made"}
		if tt.change(&c); (c.Check() == nil) != tt.valid {
			t.Errorf("%s: got %v", name, c.Check())
		}
	}
}
