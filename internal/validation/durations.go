package validation

import (
	"fmt"
	"time"
)

// NotNegative returns an error about negative values of the named options.
func NotNegative(options []string, values ...time.Duration) error {
	for i, value := range values {
		if value < 0 {
			return fmt.Errorf("invalid option %s %s: want no negative duration", options[i], value)
		}
	}
	return nil
}
