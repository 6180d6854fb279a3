package validation

import (
	"strings"
	"testing"
	"time"
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

func TestDurations(t *testing.T) {
	if err := Durations([]string{"A", "B"}, 0, time.Millisecond); err != nil {
		t.Error(err)
	}
	for wrong, want := range map[time.Duration]string{
		-2:                    "invalid option B -2ns: want no negative duration",
		5:                     "invalid option B 5ns: want at least 1ms (did you mean 5*time.Second?)",
		999 * time.Nanosecond: "invalid option B 999ns: want at least 1ms (did you mean 999*time.Second?)",
		time.Microsecond:      "invalid option B 1µs: want at least 1ms",
	} {
		if err := Durations([]string{"A", "B", "C"}, 0, wrong, -3); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestFieldManager(t *testing.T) {
	for name, valid := range map[string]bool{
		"": true, "a b": true, "é": true, strings.Repeat("x", 128): true,
		"a\n": false, "a\tb": false, "\u200b": false, "\xff": true, strings.Repeat("x", 129): false, strings.Repeat("é", 65): false,
	} {
		if err := FieldManager(name); (err == nil) != valid {
			t.Errorf("%q: got %v", name, err)
		}
	}
}
