package metrics

import (
	"strconv"
	"time"
)

// exemplar is one observed duration of a histogram, with its trace ID.
type exemplar struct {
	trace   string
	seconds float64
	at      time.Time
}

// exemplars adds an exemplar to the line of a bucket, and reports whether it falls into the bucket.
type exemplars interface {
	write(p *page, bucket int) bool
}

// Traced records the trace ID of an attempt, before its end, so that OpenMetrics pages link long durations to traces.
func (c Call) Traced(trace string) {
	if h := c.handler; h != nil {
		now := time.Now()
		var e exemplars = &exemplar{trace, now.Sub(c.begun).Seconds(), now}
		h.durations.exemplar.Store(&e)
	}
}

func (e *exemplar) write(p *page, bucket int) bool {
	if bucket < len(bounds) && e.seconds > bounds[bucket] {
		return false
	}
	p.b = p.b[:len(p.b)-1]
	p.text(` # {trace_id="`)
	p.escaped(e.trace, true)
	p.text(`"} `)
	p.number(e.seconds)
	p.text(" ")
	p.b = strconv.AppendFloat(p.b, seconds(e.at), 'f', 3, 64)
	p.text("\n")
	return true
}
