// Package iso8601 parses times in any ISO 8601 form, and defines the written form.
package iso8601

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Layout is the layout of stored, posted and logged times: with six fractional digits, and the offset of UTC.
const Layout = "2006-01-02T15:04:05.000000-07:00"

// Parse parses a time as leniently as Kopf for Python: in basic and extended forms, from the year alone to fractional seconds, with T or a space. The default
// zone is UTC (CH-T22).
func Parse(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	r := reader{rest: text}
	year, ok := r.number("", 4, 4)
	month, hasMonth := r.number("-", 1, 2)
	day := 1
	if hasMonth {
		day = r.numberOr(1, "-", 1, 2)
	} else {
		month = 1
	}
	var hour, minute, second, nanos, offset int
	if ok && r.any(" T") {
		if hour, ok = r.number("", 2, 2); ok {
			minute = r.numberOr(0, ":", 2, 2)
			second, nanos = r.seconds()
			offset = r.zone()
		}
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.FixedZone("", offset))
	if !ok || r.rest != "" || t.Month() != time.Month(month) || t.Day() != day || minute > 59 || second > 59 {
		return time.Time{}, fmt.Errorf("a time is expected, not %q", text)
	}
	return t, nil
}

// reader parses the rest of a time, part by part. A missing part is no error, because the next one may follow.
type reader struct{ rest string }

// any reads one of the characters.
func (r *reader) any(chars string) bool {
	found := r.rest != "" && strings.IndexByte(chars, r.rest[0]) >= 0
	if found {
		r.rest = r.rest[1:]
	}
	return found
}

// number reads a number of digits, after an optional mark.
func (r *reader) number(mark string, least, most int) (int, bool) {
	rest := strings.TrimPrefix(r.rest, mark)
	n := 0
	for n < most && n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	if n < least {
		return 0, false
	}
	r.rest = rest[n:]
	value, err := strconv.Atoi(rest[:n])
	return value, err == nil
}

func (r *reader) numberOr(otherwise int, mark string, least, most int) int {
	if value, ok := r.number(mark, least, most); ok {
		return value
	}
	return otherwise
}

// seconds reads seconds with a fraction of any length.
func (r *reader) seconds() (second, nanos int) {
	second, ok := r.number(":", 1, 2)
	before := r.rest
	if !ok || !r.any(".,") {
		return second, 0
	}
	fraction := r.rest[:len(r.rest)-len(strings.TrimLeft(r.rest, "0123456789"))]
	if fraction == "" {
		r.rest = before
		return second, 0
	}
	r.rest = r.rest[len(fraction):]
	nanos, _ = strconv.Atoi((fraction + "000000000")[:9]) // only digits
	return second, nanos
}

// zone reads the offset from UTC in seconds.
func (r *reader) zone() int {
	sign := strings.HasPrefix(r.rest, "-")
	before := r.rest
	if r.any("Z") || !r.any("+-") {
		return 0
	}
	hours, ok := r.number("", 2, 2)
	if !ok {
		r.rest = before
		return 0
	}
	offset := hours*3600 + r.numberOr(0, ":", 2, 2)*60
	if sign {
		return -offset
	}
	return offset
}
