package validation

import (
	"strings"
	"testing"
)

func TestIsQualifiedName(t *testing.T) {
	long := strings.Repeat("x", 63)
	for text, want := range map[string]bool{
		"x": true, "example.com/x": true, "example.com/X_y.z-1": true, long: true, "a/" + long: true, strings.Repeat("x.", 126) + "x/x": true,
		"": false, "/x": false, "x/": false, "x/y/z": false, "Example.com/x": false, "x y": false, "-x": false, long + "x": false, strings.Repeat("x.", 127) + "x/x": false,
	} {
		if got := IsQualifiedName(text); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}

func TestNotNegative(t *testing.T) {
	if err := NotNegative([]string{"A", "B"}, 0, 1); err != nil {
		t.Error(err)
	}
	err := NotNegative([]string{"A", "B", "C"}, 0, -2, -3)
	if want := "invalid option B -2ns: want no negative duration"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
