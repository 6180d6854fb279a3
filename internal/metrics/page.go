package metrics

import (
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
)

// The content types of the formats.
const (
	TextType = "text/plain; version=0.0.4; charset=utf-8"
	OpenType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// IsOpen reports whether an Accept header prefers OpenMetrics to the text format, or rates them equally.
func IsOpen(accept string) bool {
	open, text := 0.0, 0.0
	for _, kind := range strings.Split(accept, ",") {
		name, options, _ := strings.Cut(kind, ";")
		q := 1.0
		if _, value, weighed := strings.Cut(options, "q="); weighed {
			value, _, _ = strings.Cut(value, ";")
			q, _ = strconv.ParseFloat(strings.TrimSpace(value), 64) // an invalid quality counts as 0
		}
		switch strings.TrimSpace(name) {
		case "application/openmetrics-text":
			open = max(open, q)
		case "text/plain":
			text = max(text, q)
		}
	}
	return open > 0 && open >= text
}

// page is a page of metrics being written.
type page struct {
	b    []byte
	open bool // OpenMetrics, not the text format
	log  *slog.Logger
}

// row is one row of a table: the label values, and the numbers in the order of the lines. NaN omits a line.
type row struct {
	names      [3]string // for "$", "&" and "@"
	numbers    []float64
	histograms []*histogram
}

// none omits a line.
var none = math.NaN()

// table writes metric families with a line for each row. A line of the text that begins with a letter begins a family: its name, the letter of its type, and
// its help. Each other line is a sample: its labels, or "=" without labels. With a leading number, it is a histogram with that step between its buckets.
func (p *page) table(text string, rows []*row) {
	for text != "" {
		head, rest, _ := strings.Cut(text, "\n")
		name, about, _ := strings.Cut(head, " ")
		p.family(name, about[0], about[2:])
		lines := rest
		for text = rest; text != "" && (text[0] < 'a' || text[0] > 'z'); {
			_, text, _ = strings.Cut(text, "\n")
		}
		for _, r := range rows {
			for rest = lines; len(rest) > len(text); {
				var line string
				line, rest, _ = strings.Cut(rest, "\n")
				if line[0] <= '9' {
					p.histogram(name, line[1:], r, int(line[0]-'0'))
				} else if r.numbers[0] == r.numbers[0] {
					p.sample(name, "", line, "", r, r.numbers[0])
					r.numbers = r.numbers[1:]
				} else {
					r.numbers = r.numbers[1:]
				}
			}
		}
	}
}

// family writes the head of a family.
func (p *page) family(name string, kind byte, help string) {
	long := "gauge"
	switch kind {
	case 'h':
		long = "histogram"
	case 'c':
		if long = "counter"; p.open {
			name = strings.TrimSuffix(name, "_total")
		}
	}
	p.text("# HELP ", name, " ")
	p.escaped(help, p.open) // OpenMetrics escapes a help text like a label value
	p.text("\n# TYPE ", name, " ", long, "\n")
}

//go:noinline
func (p *page) text(parts ...string) {
	for _, part := range parts {
		p.b = append(p.b, part...)
	}
}

// escaped writes a label value, or a help text, in which quotes need no escape.
//
//go:noinline
func (p *page) escaped(text string, quotes bool) {
	b := p.b
	for i := range len(text) {
		c := text[i]
		if c == '\n' {
			b = append(b, "\\n"...)
			continue
		}
		if c == '\\' || c == '"' && quotes {
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	p.b = b
}

// sample writes a line with its labels, an optional bucket label, and its value.
func (p *page) sample(name, suffix, labels, bucket string, r *row, value float64) {
	p.text(name, suffix)
	if labels == "=" {
		labels = ""
	}
	for i := range len(labels) {
		if name := strings.IndexByte("$&@", labels[i]); name >= 0 {
			p.escaped(r.names[name], true)
			continue
		}
		if labels[i] == '}' && bucket != "" {
			p.text(`,le="`, bucket, `"`)
		}
		p.text(labels[i : i+1])
	}
	p.text(" ")
	p.number(value)
	p.text("\n")
}

//go:noinline
func (p *page) number(value float64) { p.b = strconv.AppendFloat(p.b, value, 'g', -1, 64) }

// histogram writes the lines of the next histogram of a row, with each step-th bucket.
func (p *page) histogram(name, labels string, r *row, step int) {
	h := r.histograms[0]
	r.histograms = r.histograms[1:]
	e, n := h.exemplar.Load(), 0.0
	for i, bound := range boundTexts {
		if n += load(&h.buckets[i]); i%step > 0 && i < len(bounds) {
			continue
		}
		if !p.open { // the text format writes whole numbers without a fraction
			bound = strings.TrimSuffix(bound, ".0")
		}
		p.sample(name, "_bucket", labels, bound, r, n)
		if e != nil && p.open && (*e).write(p, i) {
			e = nil // show it in one bucket only
		}
	}
	p.sample(name, "_sum", labels, "", r, load(&h.nanos)/1e9)
	p.sample(name, "_count", labels, "", r, n)
}

//go:noinline
func load(n *atomic.Int64) float64 { return float64(n.Load()) }

// newRow returns a row with the values of some counters, followed by the numbers.
//
//go:noinline
func newRow(name, other string, counters []atomic.Int64, numbers ...float64) *row {
	all := make([]float64, len(counters), len(counters)+len(numbers))
	for i := range counters {
		all[i] = load(&counters[i])
	}
	return &row{names: [3]string{name, other}, numbers: append(all, numbers...)}
}

// Number returns 1 for true and 0 for false.
func Number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
