package kopf

import (
	"testing"
	"time"
)

// The tests in this file are about what peering reads of its surroundings, which cannot be arranged from outside.

func TestKeepAliveInterval(t *testing.T) {
	tests := []struct{ lifetime, least, most time.Duration }{
		{60, 50, 55}, {12, 2, 7}, {10, 1, 5}, {5, 1, 1}, {0, 1, 1},
	}
	for _, tt := range tests {
		s := PeeringSettings{Lifetime: tt.lifetime * time.Second}
		seen := make(map[time.Duration]bool)
		for range 1000 {
			got := s.interval() / time.Second
			if seen[got] = true; got < tt.least || got > tt.most {
				t.Errorf("a lifetime of %ds: got the interval %ds", tt.lifetime, got)
			}
		}
		if !seen[tt.least] || !seen[tt.most] {
			t.Errorf("a lifetime of %ds: got only the intervals %v", tt.lifetime, seen)
		}
	}
	if got := (&PeeringSettings{Lifetime: time.Second}).interval(); got != time.Second/2 { // or the record would be dead when it is renewed
		t.Errorf("a lifetime of 1s: got the interval %s", got)
	}
}
