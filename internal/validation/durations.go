package validation

import (
	"fmt"
	"time"
)

// NotNegative returns what is wrong with the options of these names and values, which may be zero, but not negative.
func NotNegative(options []string, values ...time.Duration) error {
	for i, value := range values {
		if value < 0 {
			return fmt.Errorf("invalid option %s %s: want no negative duration", options[i], value)
		}
	}
	return nil
}
