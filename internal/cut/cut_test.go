package cut

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEnd(t *testing.T) {
	long := strings.Repeat("ž", 1000)
	if got := End(long, 1024); len(got) > 1024 || !strings.HasSuffix(got, "ž…") {
		t.Errorf("got %d bytes that end with %q", len(got), got[len(got)-8:])
	}
	if got := End("short", 1024); got != "short" {
		t.Errorf("got %q", got)
	}
	if got := End("caf\xe9", 1024); got != "caf\ufffd" {
		t.Errorf("got %q", got)
	}
}

func TestMiddle(t *testing.T) {
	got := Middle(strings.Repeat("a", 600)+strings.Repeat("z", 600), 1024)
	if want := strings.Repeat("a", 511) + "..." + strings.Repeat("z", 510); got != want {
		t.Errorf("got %q", got)
	}
}

func TestWords(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", 1000), strings.Repeat("é ", 500), strings.Repeat(" ", 400), "a" + strings.Repeat(" ", 300)} {
		got := Words(text, 256)
		if n := utf8.RuneCountInString(got); n > 256 || n < min(len(text), 256) && strings.TrimSpace(text) != "" && !strings.HasSuffix(got, "…") {
			t.Errorf("%q is cut to %q", text, got)
		}
	}
}

// FuzzCut shortens arbitrary texts for annotations, events and logs.
func FuzzCut(f *testing.F) {
	f.Add("ééé", 5)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < len("…") || limit > 1<<20 {
			t.Skip()
		}
		got := End(text, limit)
		if len(got) > limit || !utf8.ValidString(got) || utf8.ValidString(text) && len(text) <= limit && got != text {
			t.Errorf("%q is cut to %q, at most %d bytes", text, got, limit)
		}
		for name, got := range map[string]string{"Bytes": Bytes(text, limit), "Middle": Middle(text, limit)} {
			if len(got) > limit || utf8.ValidString(text) && (!utf8.ValidString(got) || len(text) <= limit && got != text) {
				t.Errorf("%s cuts %q to %q, at most %d bytes", name, text, got, limit)
			}
		}
		if got := Runes(text, limit); utf8.RuneCountInString(got) > limit || !strings.HasPrefix(text, got) {
			t.Errorf("%q is cut to %q, at most %d characters", text, got, limit)
		}
	})
}
