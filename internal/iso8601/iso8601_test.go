package iso8601

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	day := func(h, m, s, ns int) time.Time { return time.Date(2020, 12, 31, h, m, s, ns, time.UTC) }
	tests := []struct {
		text string
		want time.Time
	}{
		{"2020-12-31T23:59:59.123456+00:00", day(23, 59, 59, 123456000)},
		{"2020-12-31T23:59:59.123456789123Z", day(23, 59, 59, 123456789)},
		{"2020-12-31T23:59:59Z", day(23, 59, 59, 0)},
		{"2020-12-31 23:59:59,5", day(23, 59, 59, 500000000)},
		{"20201231T235959.5Z", day(23, 59, 59, 500000000)},
		{"2020-12-31T23:59", day(23, 59, 0, 0)},
		{"2020-12-31T23", day(23, 0, 0, 0)},
		{"2020-12-31", day(0, 0, 0, 0)},
		{"20201231", day(0, 0, 0, 0)},
		{"2020-12", time.Date(2020, 12, 1, 0, 0, 0, 0, time.UTC)},
		{"2020", time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"2020-12-31T23:59:59.5+02:30", day(21, 29, 59, 500000000)},
		{"2020-12-31T23:59:59-0030", day(23, 59, 59, 0).Add(30 * time.Minute)},
		{"2020-12-31T22:59:59-01", day(23, 59, 59, 0)},
	}
	t.Run("CH-120 any form is read", func(t *testing.T) {
		for _, tt := range tests {
			if got, err := Parse(tt.text); err != nil || !got.Equal(tt.want) {
				t.Errorf("Parse(%q) = %s, %v, want %s", tt.text, got, err, tt.want)
			}
		}
		for _, bad := range []string{"", "x", "now", "20", "2020-13-01", "2020-02-30", "2020-00-01", "2020-12-31T24:00:00", "2020-12-31T23:60:00",
			"2020-12-31T23:59:60", "2020-12-31T", "2020-12-31T23:59:59 Z", "2020-12-31T23:59:59Zx", "1609459199"} {
			if got, err := Parse(bad); err == nil {
				t.Errorf("Parse(%q) = %s, want an error", bad, got)
			}
		}
	})
	t.Run("CH-T22 no zone is UTC", func(t *testing.T) {
		if got, err := Parse("2020-12-31T23:59:59.123456"); err != nil || !got.Equal(day(23, 59, 59, 123456000)) {
			t.Errorf("%s, %v", got, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("2020-12-31T23:59:59.123456+00:00")
	f.Add("20201231 2359,5-0330")
	f.Add("2020-1-1T10:304.5Z")
	f.Add("2020T10:3+0130")
	form := regexp.MustCompile(`^(\d{4})(?:-?(\d{1,2})(?:-?(\d{1,2}))?)?` +
		`(?:[ T](\d{2})(?::?(\d{2}))?(?::?(\d{1,2})(?:[.,](\d+))?)?(?:Z|([+-]\d{2})(?::?(\d{2}))?)?)?$`)
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text)
		m := form.FindStringSubmatch(text)
		if err != nil {
			if m != nil && m[2] == "" && m[4] == "" {
				t.Errorf("%q is a year: %v", text, err)
			}
			return
		}
		if m == nil && !strings.Contains(text, "T") {
			t.Errorf("%q is taken for %s", text, parsed)
		} else if m != nil {
			want := timeOf(m)
			if !parsed.Equal(want) {
				t.Errorf("%q is taken for %s, want %s", text, parsed, want)
			}
		}
		if again, err := Parse(parsed.UTC().Format(Layout)); parsed.Year() > 0 && parsed.UTC().Year() < 10000 &&
			parsed.UTC().Year() > 0 && (err != nil || !again.Equal(parsed.Truncate(time.Microsecond))) {
			t.Errorf("%q is %s, and written and read again %s, %v", text, parsed, again, err)
		}
	})
}

// timeOf returns the time for the parts of a valid text.
func timeOf(m []string) time.Time {
	part := func(i, otherwise int) int {
		if n, err := strconv.Atoi(m[i]); err == nil {
			return n
		}
		return otherwise
	}
	offset := time.Duration(part(8, 0))*time.Hour + time.Duration(part(9, 0))*time.Minute
	if strings.HasPrefix(m[8], "-") {
		offset = time.Duration(part(8, 0))*time.Hour - time.Duration(part(9, 0))*time.Minute
	}
	nanos, _ := strconv.Atoi((m[7] + "000000000")[:9])
	return time.Date(part(1, 0), time.Month(part(2, 1)), part(3, 1), part(4, 0), part(5, 0), part(6, 0), nanos, time.UTC).Add(-offset)
}
