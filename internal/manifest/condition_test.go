package manifest

import (
	"regexp"
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
