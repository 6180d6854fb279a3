package namespaces

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// FuzzNamespacePattern compares patterns of plain names with a simple implementation, and checks the meaning of negations.
func FuzzNamespacePattern(f *testing.F) {
	f.Add("team-*,!team-x", "team-y")
	f.Add("!a , b,!c", "b")
	f.Add("[!a]?", "bc")
	f.Add("[", "a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		_, err := Check([]string{pattern})
		got := Match(pattern, name)
		if err != nil || strings.TrimSpace(pattern) != pattern {
			return
		}
		if !strings.HasPrefix(pattern, "!") && Match(pattern+",!*", name) {
			if ok := !strings.Contains(name, "/"); ok { // no name has one
				t.Errorf("%q and nothing fits %q", pattern, name)
			}
		}
		if strings.ContainsAny(pattern, `*?[]\,!`) {
			return
		}
		if got != (pattern == name) {
			t.Errorf("%q fits %q: %t", pattern, name, got)
		}
		if !strings.Contains(name, "/") && Match("!"+pattern, name) == got {
			t.Errorf("both %q and its negation are %t of %q", pattern, got, name)
		}
	})
}

func TestCheck(t *testing.T) {
	t.Run("AC-101 patterns that can fit no namespace are refused, as upper and lower case differ", func(t *testing.T) {
		for pattern, ok := range map[string]bool{
			"team-*": true, "team-?,!team-[!a-c]": true, "[^a]*": true, `a\*`: true, "web_*": false, "TEAM-*": false, "team-*,!Team-a": false, "team.*": false, "é*": false, "a b*": false, "web_": false,
		} {
			if _, err := Check([]string{pattern}); (err == nil) != ok {
				t.Errorf("%q: got %v", pattern, err)
			}
		}
		if Match("TEAM-*", "team-a") {
			t.Error("TEAM-* fits team-a")
		}
	})
}

// TestWarnings removes parts of patterns: a warning that a part has no effect means that the pattern matches the same names without it.
func TestWarnings(t *testing.T) {
	parts, names := []string{"a", "ab", "a*", "?", "*", "[!a]", "!a", "!a*", "!?"}, []string{"a", "b", "aa", "ab", "ba"}
	var patterns [][]string
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				patterns = append(patterns, []string{a, b}, []string{a, b, c})
			}
		}
	}
	warned := 0
	for _, pattern := range patterns {
		text := strings.Join(pattern, ",")
		warnings, err := Check([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(pattern) && len(warnings) > 0; i++ {
			warning := fmt.Sprintf("the part %q has no effect", pattern[i])
			if slices.Index(pattern[1:], pattern[i]) != i-1 || !strings.Contains(warnings[0], warning) {
				continue
			}
			warned++
			without := strings.Join(slices.Delete(slices.Clone(pattern), i, i+1), ",")
			for _, name := range names {
				if Match(text, name) != Match(without, name) {
					t.Errorf("got a warning of %q in %q, which decides about %q", pattern[i], text, name)
				}
			}
		}
	}
	if warned < 100 {
		t.Errorf("got only %d warnings", warned)
	}
}
