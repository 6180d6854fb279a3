package quantity

import (
	"errors"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "0.0": "0", "-0": "0", "1": "1", "1000": "1k", "1000m": "1", "0.5": "500m", "1.5": "1500m", "1024Mi": "1Gi", "1.5Gi": "1536Mi",
		"1e3": "1e3", "1000e0": "1e3", "1E": "1E", "100m": "100m", "0.1Ki": "102400m", "512": "512", "1Ki": "1Ki", "8Ki": "8Ki", "1023": "1023",
		"0.0000000001": "1n", "-1.5": "-1500m", "9Ei": "9223372036854775807", "+5": "+5", "005": "005", "1.500": "1.500", "12.": "12.", "2048Ki": "2Mi",
		"1e-3": "1e-3", "2000000u": "2",
	} {
		q, err := Parse(text)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
		} else if got := q.String(); got != want {
			t.Errorf("Parse(%q) = %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]error{"": ErrFormat, "a": ErrFormat, "1x": ErrFormat, "1.2.3": ErrFormat, "1kk": errSuffix, "1Xi": ErrFormat, "1ee": errSuffix, "--1": errSuffix} {
		if _, err := Parse(text); !errors.Is(err, want) {
			t.Errorf("Parse(%q): %v, want %v", text, err, want)
		}
	}
}

func TestCmp(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"1", "1000m", 0}, {"1Ki", "1k", 1}, {"-1", "0", -1}, {"1n", "0", 1}, {"0.5Gi", "512Mi", 0}} {
		a, _ := Parse(tt.a) // they are valid
		b, _ := Parse(tt.b)
		if got := a.Cmp(b); got != tt.want {
			t.Errorf("%s compared with %s: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("1.5Gi")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		if err != nil || q.nanos.CmpAbs(nanos(1e18)) >= 0 { // larger amounts have no suffix
			return
		}
		again, err := Parse(q.String())
		if err != nil || again.Cmp(q) != 0 {
			t.Errorf("%q becomes %q, which is another amount: %v", text, q, err)
		}
	})
}
