package validation

import (
	"fmt"
	"time"
)

// Durations returns an error about values of the named options that are negative, or that lack their unit.
func Durations(options []string, values ...time.Duration) error {
	for i, value := range values {
		if value < 0 {
			return fmt.Errorf("invalid option %s %s: want no negative duration", options[i], value)
		}
		if err := Interval(value); err != nil {
			return fmt.Errorf("invalid option %s %w", options[i], err)
		}
	}
	return nil
}

// Interval returns an error for a positive duration below a millisecond, which is a number without its unit.
func Interval(d time.Duration) error {
	switch {
	case d <= 0 || d >= time.Millisecond:
		return nil
	case d < time.Microsecond:
		return fmt.Errorf("%s: want at least 1ms (did you mean %d*time.Second?)", d, d)
	}
	return fmt.Errorf("%s: want at least 1ms", d)
}
