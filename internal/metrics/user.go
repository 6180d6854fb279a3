package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kopf-go/kopf/internal/cut"
)

// This file holds the metrics that users register. They belong to the process: each operator in it shows them.

// The limits of a user's metric.
const (
	maxLabels = 8
	maxSeries = 1000
	maxValue  = 128 // bytes of a label value
	maxBounds = 50
)

// Other is the value of all labels of the series that collects everything beyond the limit of series.
const Other = "other"

// users holds the metrics of users, nil if there are none. It is an interface, so that the linker omits the code from programs without them.
var users atomic.Pointer[userPage]

// userPage writes the metrics of users to a page.
type userPage interface {
	write(p *page)
	// textOnly reports whether some metrics exist only in the text format.
	textOnly() bool
}

// registry holds the metrics of users.
type registry struct {
	mu      sync.Mutex // guards following
	names   map[string]string
	all     []*Family
	writers []*writer
}

// registered is the registry of the process.
var registered = &registry{names: make(map[string]string)}

func (g *registry) announce() {
	var page userPage = g
	users.Store(&page)
}

// Type is the type of a metric.
type Type string

// The types of metrics.
const (
	Counter   Type = "c"
	Gauge     Type = "g"
	Histogram Type = "h"
)

// Family is a user's metric, with a series for each combination of label values.
type Family struct {
	name, help string
	kind       Type
	labels     []string
	bounds     []float64 // of a histogram

	mu     sync.Mutex // guards following
	series map[string]*userSeries
}

// userSeries is one series: a number, or the bucket counts and the sum of a histogram.
type userSeries struct {
	values  []string
	number  float64
	buckets []float64
}

// Register adds a metric. Its first argument is the place in the source that registers it. A histogram without bounds uses those of durations in seconds.
// Register returns an error if the name or a label is invalid, or if the name is taken.
func Register(where string, kind Type, name, help string, upper []float64, labels []string) (*Family, error) {
	f := &Family{name: name, help: strings.ToValidUTF8(help, "\uFFFD"), kind: kind, labels: slices.Clone(labels), bounds: slices.Clone(upper), series: make(map[string]*userSeries)}
	if kind == Histogram && len(upper) == 0 {
		f.bounds = bounds[:]
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	g := registered
	g.mu.Lock()
	defer g.mu.Unlock()
	names := f.names()
	for _, n := range names {
		if other, taken := g.names[n]; taken {
			return nil, fmt.Errorf("invalid name %q: a metric that was registered at %s has the name %q", name, other, n)
		}
	}
	for _, n := range names {
		g.names[n] = where
	}
	if len(labels) == 0 {
		f.of(nil)
	}
	g.all = append(g.all, f)
	g.announce()
	return f, nil
}

// check validates the names and the bounds.
func (f *Family) check() error {
	switch {
	case !isName(f.name, true):
		return fmt.Errorf("invalid name %q: want letters, digits, underscores and colons, and no digit first", f.name)
	case (f.kind == Counter) != strings.HasSuffix(f.name, "_total"):
		return fmt.Errorf("invalid name %q: want counters, and nothing else, to end with _total", f.name)
	case len(f.labels) > maxLabels:
		return fmt.Errorf("invalid labels %q of %q: want at most %d", f.labels, f.name, maxLabels)
	case len(f.bounds) > maxBounds:
		return fmt.Errorf("invalid buckets of %q: want at most %d", f.name, maxBounds)
	}
	for _, name := range f.names() {
		if isOurs(name) || strings.HasPrefix(name, "kopf_") {
			return fmt.Errorf("invalid name %q: the operator has the metrics kopf_…, and one of the name %q", f.name, name)
		}
	}
	for i, label := range f.labels {
		if !isName(label, false) || strings.HasPrefix(label, "__") || label == "le" || slices.Contains(f.labels[:i], label) {
			return fmt.Errorf("invalid label %q of %q: want letters, digits and underscores, with no digit and not two underscores first, not \"le\", and no label twice", label, f.name)
		}
	}
	for i, b := range f.bounds {
		if b-b != 0 || i > 0 && b <= f.bounds[i-1] {
			return fmt.Errorf("invalid bucket %v of %q: want numbers, each higher than the one before", b, f.name)
		}
	}
	return nil
}

// names returns the names that the metric uses on a page.
func (f *Family) names() []string {
	switch f.kind {
	case Counter:
		return []string{f.name, strings.TrimSuffix(f.name, "_total")}
	case Histogram:
		return []string{f.name, f.name + "_bucket", f.name + "_sum", f.name + "_count"}
	}
	return []string{f.name}
}

// isName reports whether a text is a valid metric name, or, without colons, a valid label name.
func isName(name string, colons bool) bool {
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || colons && c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// isOurs reports whether the operator itself uses the name.
func isOurs(name string) bool {
	for _, text := range [...]string{handlerFamilies, failingFamilies, resourceFamilies, requestFamilies, methodFamilies, verbFamilies, operatorFamilies, controllerFamilies, childFamilies} {
		for line := range strings.SplitSeq(text, "\n") {
			known, about, _ := strings.Cut(line, " ")
			suffix, same := strings.CutPrefix(name, known)
			if known != "" && same && (suffix == "" || about[0] == 'h' && (suffix == "_bucket" || suffix == "_sum" || suffix == "_count")) {
				return true
			}
		}
	}
	return false
}

// Add adds a number to the series with these label values. A counter ignores negative numbers.
func (f *Family) Add(n float64, values []string) {
	if n-n != 0 || f.kind == Counter && n < 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(values).number += n
}

// Set sets the number of the series with these label values.
func (f *Family) Set(n float64, values []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(values).number = n
}

// Observe adds an observation to a histogram.
func (f *Family) Observe(n float64, values []string) {
	if n-n != 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.of(values)
	i, _ := slices.BinarySearch(f.bounds, n)
	s.buckets[i]++
	s.number += n
}

// of returns the series with the given label values. It returns the series of [Other] if there are too many series, or if the number of values is wrong.
func (f *Family) of(values []string) *userSeries {
	var key []byte
	short := make([]string, len(values))
	for i, v := range values {
		short[i] = cut.End(strings.ToValidUTF8(v, "\uFFFD"), maxValue)
		key = append(append(strconv.AppendInt(key, int64(len(short[i])), 10), ':'), short[i]...)
	}
	s := f.series[string(key)]
	if s != nil && len(values) == len(f.labels) {
		return s
	}
	others := slices.Repeat([]string{Other}, len(f.labels))
	if surplus := len(f.series) >= maxSeries || len(values) != len(f.labels); surplus && !slices.Equal(short, others) {
		return f.of(others)
	}
	s = &userSeries{values: short}
	if f.kind == Histogram {
		s.buckets = make([]float64, len(f.bounds)+1)
	}
	f.series[string(key)] = s
	return s
}

// write writes the metrics of users to a page.
func (g *registry) write(p *page) {
	g.mu.Lock()
	all, writers := g.all, g.writers
	taken := make(map[string]bool, len(g.names)) // names that are on the page
	for name := range g.names {
		taken[name] = true
	}
	g.mu.Unlock()
	for _, f := range all {
		f.write(p)
	}
	for _, w := range writers {
		w.write(p, taken)
	}
}

func (g *registry) textOnly() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.writers) > 0
}

func (f *Family) write(p *page) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.family(f.name, f.kind[0], f.help)
	keys := make([]string, 0, len(f.series))
	for key := range f.series {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		s := f.series[key]
		if f.kind != Histogram {
			f.line(p, "", "", s, s.number)
			continue
		}
		n := 0.0
		for i, count := range s.buckets {
			n += count
			bound := "+Inf"
			if i < len(f.bounds) {
				if bound = strconv.FormatFloat(f.bounds[i], 'g', -1, 64); p.open && !strings.ContainsAny(bound, ".e") {
					bound += ".0"
				}
			}
			f.line(p, "_bucket", bound, s, n)
		}
		f.line(p, "_sum", "", s, s.number)
		f.line(p, "_count", "", s, n)
	}
}

// line writes a line of a series.
func (f *Family) line(p *page, suffix, bound string, s *userSeries, n float64) {
	p.text(f.name, suffix)
	separator := "{"
	for i, label := range f.labels {
		p.text(separator, label, `="`)
		p.escaped(s.values[i], true)
		p.text(`"`)
		separator = ","
	}
	if bound != "" {
		p.text(separator, `le="`, bound, `"`)
		separator = ","
	}
	if separator == "," {
		p.text("}")
	}
	p.text(" ")
	p.number(n)
	p.text("\n")
}
