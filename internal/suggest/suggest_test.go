package suggest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	resources := []string{"pods", "po", "configmaps", "cm", "kopfexamples", "KopfExample", "kex", "deployments", "daemonsets", "jobs", "cronjobs"}
	for _, tt := range []struct {
		word string
		want string
	}{
		{"kopfexmples", "kopfexamples"},   // left out
		{"kopfexaamples", "kopfexamples"}, // twice
		{"kopfexamlpes", "kopfexamples"},  // exchanged
		{"kopfexumplas", "kopfexamples"},  // two replaced
		{"KopfExampel", "KopfExample"},    // a kind
		{"kopfexample", "KopfExample"},    // equal except for case
		{"CONFIGMAP", "configmaps"},       // upper case
		{"pds", "pods"},                   // one error in three letters
		{"pdo", "po"},                     // one letter too many
		{"job", "jobs"},                   // a singular
		{"kopfxmpls", ""},                 // three errors
		{"kopf", ""},                      // the beginning of a word
		{"px", ""},                        // too short for an error
		{"widgets", ""},                   // two errors in seven letters
		{"dæmonsets", "daemonsets"},       // two errors in nine
		{"cm", "cm"},                      // the word itself
		{"", ""},                          // nothing
		{"services", ""},                  // another word
		{"démonsets", "daemonsets"},       // letters of several bytes
		{strings.Repeat("x", 1000), ""},   // too long
		{"deploymentsdeploymentsdeplo", ""},
	} {
		if got := Nearest(tt.word, resources); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.word, got, tt.want)
		}
	}
	if got := Nearest("pods", nil); got != "" {
		t.Errorf("got %q among none", got)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "a", 0}, {"", "abc", 3}, {"abc", "", 3}, {"ab", "ba", 1}, {"abc", "cab", 2}, {"kitten", "sitting", 3},
		{"abcd", "abxd", 1}, {"ca", "abc", 3}, {"flaw", "lawn", 2}, {"abcdef", "uvwxyz", 6}, {"über", "uber", 1},
	} {
		for _, limit := range []int{1, 2, 3, 10} {
			want := min(tt.want, limit)
			if got := Distance(tt.a, tt.b, limit); got != want {
				t.Errorf("%q and %q: got %d up to %d, want %d", tt.a, tt.b, got, limit, want)
			}
			if got := Distance(tt.b, tt.a, limit); got != want {
				t.Errorf("%q and %q: got %d up to %d, want %d", tt.b, tt.a, got, limit, want)
			}
		}
	}
}
