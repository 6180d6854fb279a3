package kopf

import (
	"fmt"
	"io"

	"github.com/kopf-go/kopf/internal/metrics"
)

// This file has the metrics of users, which the operator shows beside its own.

// Counter is a metric that only grows, such as a number of e-mails sent. Each combination of the values of its labels is a series of its own.
type Counter struct{ family *metrics.Family }

// Gauge is a metric that goes up and down, such as the length of a queue. Each combination of the values of its labels is a series of its own.
type Gauge struct{ family *metrics.Family }

// Histogram is a metric of how often values came that are at most as high as its buckets, such as durations. Each combination of the values of its labels is a series of its own.
type Histogram struct{ family *metrics.Family }

// NewCounter registers a counter, which all operators of the process show at /metrics. The name ends with "_total", as in "emails_sent_total", and the help says in a sentence what is counted. The labels are at
// most 8 names, such as "provider". Their values must be few: of more than 1,000 series, the others count as one whose labels are all "other", and so does a wrong number of values.
// It panics if a name is bad, or if there is a metric of that name. Its methods can be called on all goroutines.
func NewCounter(name, help string, labels ...string) *Counter {
	return &Counter{registerMetric(metrics.Counter, name, help, nil, labels)}
}

// NewGauge registers a gauge, with a name such as "outbox_length". All else is as in [NewCounter].
func NewGauge(name, help string, labels ...string) *Gauge {
	return &Gauge{registerMetric(metrics.Gauge, name, help, nil, labels)}
}

// NewHistogram registers a histogram, with a name such as "backup_size_bytes", and the upper bounds of its buckets in rising order, at most 50. Without any, they are those of durations in seconds, from 0.005 to
// 300. All else is as in [NewCounter].
func NewHistogram(name, help string, buckets []float64, labels ...string) *Histogram {
	return &Histogram{registerMetric(metrics.Histogram, name, help, buckets, labels)}
}

func registerMetric(kind metrics.Type, name, help string, buckets []float64, labels []string) *metrics.Family {
	where := callSite()
	f, err := metrics.Register(where, kind, name, help, buckets, labels)
	if err != nil {
		panic(fmt.Sprintf("kopf: metric at %s: %v", where, err))
	}
	return f
}

// Add adds a number to the series with these values of the labels. Negative numbers, NaN and infinite ones are ignored.
func (c *Counter) Add(n float64, values ...string) { c.family.Add(n, values) }

// Add adds a number, which can be negative, to the series with these values of the labels.
func (g *Gauge) Add(n float64, values ...string) { g.family.Add(n, values) }

// Set makes the number of the series with these values of the labels another one.
func (g *Gauge) Set(n float64, values ...string) { g.family.Set(n, values) }

// Observe counts a value in the series with these values of the labels. NaN and infinite values are ignored.
func (h *Histogram) Observe(n float64, values ...string) { h.family.Observe(n, values) }

// WriteMetrics has a function called for each page of metrics, which writes more of them, in the text format of Prometheus, such as those of another library. What it writes is checked until a page was fine. Before that, and
// when the function fails, the page is without it, and the log says what is wrong, with the line. Metrics that the operator has itself are left out. The page is in the text format then, also if OpenMetrics is asked for.
// The function can be called on any goroutine, and never twice at the same time. It may write 1 MiB.
func WriteMetrics(write func(io.Writer) error) { metrics.RegisterWriter(callSite(), write) }
