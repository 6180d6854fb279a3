package eventsink

import (
	"strconv"
	"testing"
	"time"
)

func TestCorrelate(t *testing.T) {
	start := time.Unix(1000, 0)
	about := Event{Object: Object{Name: "a"}, Reason: "R", Message: "m"}
	t.Run("a repetition within ten minutes of the last one is counted", func(t *testing.T) {
		c := newCorrelator()
		if repeated, allowed := c.correlate(about, start); repeated != nil || !allowed {
			t.Errorf("correlate() of a new event = %v, %v, want nil, true", repeated, allowed)
		}
		c.add(about, &postedEvent{Name: "p", Count: 1, At: start})
		for i, at := range []time.Duration{9 * time.Minute, 18 * time.Minute} {
			repeated, _ := c.correlate(about, start.Add(at))
			if repeated == nil || repeated.Count != i+2 || repeated.Name != "p" {
				t.Fatalf("correlate() after %s = %+v, want p with the count %d", at, repeated, i+2)
			}
		}
		if repeated, _ := c.correlate(about, start.Add(29*time.Minute)); repeated != nil {
			t.Errorf("correlate() 11 minutes after the last one = %+v, want nil", repeated)
		}
		other := about
		other.Message = "n"
		if repeated, _ := c.correlate(other, start); repeated != nil {
			t.Errorf("correlate() of another message = %+v, want nil", repeated)
		}
	})
	t.Run("an object has 25 events at once, and one in five minutes then", func(t *testing.T) {
		c := newCorrelator()
		allowed := 0
		for i := range 30 {
			if _, ok := c.correlate(Event{Object: Object{Name: "a"}, Message: strconv.Itoa(i)}, start); ok {
				allowed++
			}
		}
		if allowed != 25 {
			t.Errorf("%d events were allowed at once, want 25", allowed)
		}
		if _, ok := c.correlate(Event{Object: Object{Name: "b"}}, start); !ok {
			t.Error("no event is allowed about another object")
		}
		for _, at := range []struct {
			after time.Duration
			want  bool
		}{{4 * time.Minute, false}, {5 * time.Minute, true}, {6 * time.Minute, false}} {
			if _, ok := c.correlate(about, start.Add(at.after)); ok != at.want {
				t.Errorf("after %s, an event is allowed: %t, want %t", at.after, ok, at.want)
			}
		}
	})
	t.Run("the memory is bounded", func(t *testing.T) {
		c := newCorrelator()
		for i := range 3 * maxRemembered {
			e := Event{Object: Object{Name: strconv.Itoa(i)}}
			c.correlate(e, start)
			c.add(e, &postedEvent{Count: 1, At: start})
		}
		if len(c.posted) > maxRemembered || len(c.buckets) > maxRemembered {
			t.Errorf("%d events and %d objects are remembered, want at most %d", len(c.posted), len(c.buckets), maxRemembered)
		}
	})
}
