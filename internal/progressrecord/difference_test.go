package progressrecord

import "testing"

func TestDifference(t *testing.T) {
	for _, tt := range []struct{ base, text, want string }{
		{"", "", "0 0 "},
		{"", "new", "0 0 new"},
		{"abc", "abc", "3 0 "},
		{"a one z", "a two z", "2 2 two"},
		{"aa", "aaa", "2 0 a"},
		{"a b c", "", "0 0 "},
		{"x", "  ", "0 0   "},
	} {
		got := Difference([]byte(tt.base), []byte(tt.text))
		if got != tt.want {
			t.Errorf("from %q to %q: got %q, want %q", tt.base, tt.text, got, tt.want)
		}
		if text, ok := Restore([]byte(tt.base), got); !ok || string(text) != tt.text {
			t.Errorf("from %q to %q: restored %q, %t", tt.base, tt.text, text, ok)
		}
	}
}

func TestRestoreNonsense(t *testing.T) {
	for _, text := range []string{"", "1", "1 1", "x 1 y", "1 x y", "-1 0 y", "0 -1 y", "4 0 y", "0 4 y", "2 2 y"} {
		if got, ok := Restore([]byte("abc"), text); ok {
			t.Errorf("%q: got %q, want nothing", text, got)
		}
	}
}
