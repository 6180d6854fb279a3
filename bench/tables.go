package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table is a table of figures, with names in the first column.
type table struct {
	header []string
	rows   [][]string
}

// withoutEmpty returns the table without its empty columns.
func (t table) withoutEmpty() table {
	var kept []int
	for i := range t.header {
		if slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != none }) {
			kept = append(kept, i)
		}
	}
	pick := func(row []string) []string {
		var some []string
		for _, i := range kept {
			some = append(some, row[i])
		}
		return some
	}
	smaller := table{header: pick(t.header)}
	for _, row := range t.rows {
		smaller.rows = append(smaller.rows, pick(row))
	}
	return smaller
}

// text writes the table for a terminal.
func (t table) text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{t.header}, t.rows...) {
		fmt.Fprintln(tw, strings.Join(row, "\t")+"\t")
	}
	return tw.Flush()
}

// markdown returns the table for a page.
func (t table) markdown() string {
	var b strings.Builder
	line := func(row []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | ")) }
	line(t.header)
	b.WriteString("|---|" + strings.Repeat("--:|", len(t.header)-1) + "\n")
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// none replaces figures that a job does not measure.
const none = "–"

func millis(d time.Duration) string {
	if d == 0 {
		return none
	}
	return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000)
}

func mebibytes(n int64) string {
	if n == 0 {
		return none
	}
	return fmt.Sprintf("%.1f", float64(n)/(1<<20))
}

func number(x float64, format string) string {
	if x == 0 {
		return none
	}
	return fmt.Sprintf(format, x)
}

func verbs(requests map[string]int) string {
	var all []string
	for verb, n := range requests {
		if n != 0 {
			all = append(all, fmt.Sprintf("%s %d", verb, n))
		}
	}
	if len(all) == 0 {
		return none
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// measured returns a table with the results of a job for each operator.
func measured(j job, names []variant, medians []result) table {
	t := table{header: []string{"operator", "wall, ms", "CPU, ms", "CPU, µs each", "server CPU, ms", "etcd CPU, ms", "p50, ms", "p99, ms", "recorded p50, ms", "recorded p99, ms", "settled, MiB", "peak, MiB", "B per object", "requests", "requests each"}}
	for i, v := range names {
		r := medians[i]
		each, cpuEach := 0.0, 0.0
		if slices.Contains([]kind{handling, answering, storming, parenting, repairing}, j.kind) {
			each = r.requestsEach(j)
		}
		if j.unit > 1 {
			cpuEach = float64(r.cpu) / float64(j.unit) / 1e3
		}
		t.rows = append(t.rows, []string{v.name, millis(r.wall), millis(r.cpu), number(cpuEach, "%.1f"), millis(r.server), millis(r.etcd), millis(r.p50), millis(r.p99), millis(r.recorded.p50), millis(r.recorded.p99),
			mebibytes(r.settled), mebibytes(r.peak), number(float64(r.perObject), "%.0f"), verbs(r.requests), number(each, "%.2f")})
	}
	return t.withoutEmpty()
}

// listedFromEtcd is the number of objects that the server has read from etcd for lists, instead of from its watch cache.
const listedFromEtcd = "listed from etcd"

// requestsEach returns the number of requests for each object, without lists and watches.
func (r result) requestsEach(j job) float64 { return changes(r) / float64(j.unit) }

// changes returns the number of requests without lists and watches.
func changes(r result) float64 {
	sum := 0
	for verb, n := range r.requests {
		if verb != "list" && verb != "watch" && verb != listedFromEtcd {
			sum += n
		}
	}
	return float64(sum)
}
