package peerrecord

import (
	"math"
	"testing"
	"time"
)

func FuzzReadPeer(f *testing.F) {
	f.Add([]byte(`{"priority":1,"lifetime":60,"lastseen":"2020-12-31T23:59:59.123456+00:00"}`))
	f.Add([]byte(`{"priority":1e400,"lifetime":-1,"lastseen":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Read(raw)
		if err == nil && (p.Lifetime < 0 || p.Raw != string(raw)) {
			t.Errorf("%q is read as %+v", raw, p)
		}
	})
}

func TestRecord(t *testing.T) {
	for lifetime, want := range map[time.Duration]int64{time.Second: 1, 90500 * time.Millisecond: 91, math.MaxInt64: math.MaxInt64 / int64(time.Second)} {
		record, _ := Record(7, lifetime).(map[string]any)
		if record["lifetime"] != want || record["priority"] != 7 {
			t.Errorf("a lifetime of %s: got the record %v, want %d seconds", lifetime, record, want)
		}
	}
	for _, lifetime := range []time.Duration{0, -1, math.MinInt64} {
		if record := Record(7, lifetime); record != nil {
			t.Errorf("a lifetime of %s: got the record %v, want none", lifetime, record)
		}
	}
	if got := SafeLifetime(math.MaxInt64); got < math.MaxInt64-2*time.Second {
		t.Errorf("the longest lifetime is safe for %s", got)
	}
}

func TestInterval(t *testing.T) {
	tests := []struct{ lifetime, least, most time.Duration }{
		{60, 50, 55}, {12, 2, 7}, {10, 1, 5}, {5, 1, 1}, {0, 1, 1},
	}
	for _, tt := range tests {
		seen := make(map[time.Duration]bool)
		for range 1000 {
			got := Interval(tt.lifetime*time.Second) / time.Second
			if seen[got] = true; got < tt.least || got > tt.most {
				t.Errorf("a lifetime of %ds: got the interval %ds", tt.lifetime, got)
			}
		}
		if !seen[tt.least] || !seen[tt.most] {
			t.Errorf("a lifetime of %ds: got only the intervals %v", tt.lifetime, seen)
		}
	}
	for range 100 { // the longest possible lifetime
		if got := Interval(math.MaxInt64); got < math.MaxInt64-12*time.Second {
			t.Errorf("the longest lifetime: got the interval %s", got)
		}
	}
	if got := Interval(time.Second); got != time.Second/2 { // else the record would have expired before its renewal
		t.Errorf("a lifetime of 1s: got the interval %s", got)
	}
}
