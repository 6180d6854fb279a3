package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// figure is one of the compared figures.
type figure struct {
	name string
	of   func(r result) float64
}

var (
	cpu        = figure{"CPU", func(r result) float64 { return float64(r.cpu) }}
	wall       = figure{"wall", func(r result) float64 { return float64(r.wall) }}
	p50        = figure{"p50", func(r result) float64 { return float64(r.p50) }}
	p99        = figure{"p99", func(r result) float64 { return float64(r.p99) }}
	serverCPU  = figure{"server CPU", func(r result) float64 { return float64(r.server) }}
	recorded50 = figure{"recorded p50", func(r result) float64 { return float64(r.recorded.p50) }}
	recorded99 = figure{"recorded p99", func(r result) float64 { return float64(r.recorded.p99) }}
	settled    = figure{"settled", func(r result) float64 { return float64(r.settled) }}
	peak       = figure{"peak", func(r result) float64 { return float64(r.peak) }}
)

var compared = []figure{cpu, serverCPU, wall, p50, p99, recorded50, recorded99, settled, peak}

// comparison is one operator of kopf, or the requests alone, and the operators for comparison: those of one other program, with as many writes.
type comparison struct {
	subject int
	others  []int
	name    string
}

// comparisons pairs the operators of a program with those of another one.
func comparisons(names []variant, with string) []comparison {
	var all []comparison
	for i, v := range names {
		if v.program != "kopf" && v.program != "client" {
			continue
		}
		c := comparison{subject: i}
		for k, w := range names {
			if w.program == with && w.writes == v.writes {
				c.others = append(c.others, k)
			}
		}
		if len(c.others) == 0 {
			continue
		}
		c.name = v.name + " to " + names[c.others[0]].name
		if with == "runtime" {
			c.name = v.name + " to the best of controller-runtime"
		}
		all = append(all, c)
	}
	return all
}

// ratio returns the figure of the subject divided by the best of the others, 0 if one of them is missing.
func (c comparison) ratio(f figure, medians []result) float64 {
	best := 0.0
	for _, k := range c.others {
		if x := f.of(medians[k]); x > 0 && (best == 0 || x < best) {
			best = x
		}
	}
	if best == 0 {
		return 0
	}
	return f.of(medians[c.subject]) / best
}

// ratios returns a table of all ratios to another program's operators.
func ratios(names []variant, medians []result, with string) table {
	t := table{header: []string{"ratio of"}}
	for _, f := range compared {
		t.header = append(t.header, f.name)
	}
	for _, c := range comparisons(names, with) {
		row := []string{c.name}
		for _, f := range compared {
			row = append(row, number(c.ratio(f, medians), "%.2f"))
		}
		t.rows = append(t.rows, row)
	}
	return t.withoutEmpty()
}

// target is the target for a figure in a job.
type target struct {
	kind  kind
	only  func(j job) bool // nil for all jobs of the kind
	where string           // the place, empty for all
	name  string
	most  float64
	// of is the figure: relative to that of controller-runtime, or, if absolute is set, in the unit of the format.
	of       figure
	absolute bool
	format   string
	writes   int // 0 for any number
}

const big = 100_000

func isBig(j job) bool { return j.count >= big && j.kind == restarting }

func isOrderly(j job) bool { return j.orderly }

func isReordered(j job) bool { return j.reordered }

var targets = []target{
	{kind: handling, name: "CPU per object", of: cpu, most: 0.45},
	{kind: handling, where: "replay", name: "wall time", of: wall, most: 0.6},
	{kind: handling, where: "real", name: "wall time", of: wall, most: 1},
	{kind: handling, where: "real", name: "CPU of the server", of: serverCPU, most: 1.1},
	{kind: handling, writes: 1, name: "requests per object", absolute: true, most: 1, format: "%.2f"},
	{kind: handling, writes: 2, name: "requests per object", absolute: true, most: 2, format: "%.2f"},
	{kind: storming, name: "CPU per change", of: cpu, most: 0.75},
	{kind: storming, name: "recorded p99", of: recorded99, most: 1},
	{kind: storming, where: "real", name: "CPU of the server", of: serverCPU, most: 1.1},
	{kind: restarting, name: "CPU", of: cpu, most: 0.25},
	{kind: restarting, only: isBig, name: "settled memory", of: settled, most: 0.2},
	{kind: restarting, only: isBig, name: "memory per object", of: figure{of: func(r result) float64 { return float64(r.perObject) }}, absolute: true, most: 400, format: "%.0f B"},
	{kind: restarting, only: isBig, name: "peak memory", of: peak, most: 0.3},
	{kind: restarting, only: isReordered, name: "CPU compared with states as kopf writes them", of: figure{of: func(r result) float64 { return r.reordered }}, absolute: true, most: 1.3, format: "%.2f"},
	{kind: parenting, name: "CPU per website", of: cpu, most: 0.5},
	{kind: parenting, name: "requests per website", absolute: true, most: 4, format: "%.2f"},
	{kind: reparenting, name: "CPU", of: cpu, most: 0.5},
	{kind: reparenting, name: "settled memory", of: settled, most: 0.2},
	{kind: reparenting, name: "requests except lists", of: figure{of: changes}, absolute: true, most: 3, format: "%.0f"}, // for each kind, one apply may be needed to learn its fields
	{kind: reparentingPages, name: "CPU", of: cpu, most: 0.5},
	{kind: reparentingPages, name: "settled memory", of: settled, most: 0.2},
	{kind: reparentingPages, name: "settled memory", of: figure{of: func(r result) float64 { return float64(r.settled) / (1 << 20) }}, absolute: true, most: 60, format: "%.0f MiB"},
	{kind: reparentingPages, name: "memory per page, with a share of its owner", of: figure{of: func(r result) float64 { return float64(r.perObject) }}, absolute: true, most: 400, format: "%.0f B"},
	{kind: reparentingPages, name: "requests except lists", of: figure{of: changes}, absolute: true, most: 1, format: "%.0f"},
	{kind: repairing, name: "CPU per change", of: cpu, most: 0.5},
	{kind: repairing, name: "p50", of: p50, most: 0.5},
	{kind: repairing, name: "p99", of: p99, most: 0.5},
	{kind: repairing, name: "requests per change", absolute: true, most: 1.01, format: "%.2f"}, // including applies to learn fields
	{kind: answering, name: "recorded p50", of: recorded50, most: 1},
	{kind: answering, name: "recorded p99", of: recorded99, most: 1},
	{kind: ignoring, name: "CPU per change", of: cpu, most: 0.3},
	{kind: resting, name: "settled memory", of: figure{of: func(r result) float64 { return float64(r.settled) / (1 << 20) }}, absolute: true, most: 10, format: "%.1f MiB"},
	{kind: huge, name: "wall time", of: figure{of: func(r result) float64 { return r.wall.Seconds() }}, absolute: true, most: 60, format: "%.1f s"},
	{kind: huge, name: "settled memory", of: figure{of: func(r result) float64 { return float64(r.settled) / (1 << 20) }}, absolute: true, most: 400, format: "%.0f MiB"},
	{kind: takeover, name: "from the Lease to the first patch", of: figure{of: func(r result) float64 { return float64(r.wall) / float64(time.Millisecond) }}, absolute: true, most: 100, format: "%.1f ms"},
	{kind: handover, only: isOrderly, name: "longest hand-over", of: figure{of: func(r result) float64 { return r.p99.Seconds() }}, absolute: true, most: 3, format: "%.2f s"},
	{kind: handover, only: isOrderly, name: "median hand-over", of: figure{of: func(r result) float64 { return r.p50.Seconds() }}, absolute: true, most: 1.5, format: "%.2f s"},
	{kind: handover, only: func(j job) bool { return !isOrderly(j) }, name: "longest hand-over", of: figure{of: func(r result) float64 { return r.p99.Seconds() }}, absolute: true, most: 17.5, format: "%.2f s"},
	{kind: resting, name: "from start to the first watch", of: figure{of: func(r result) float64 { return float64(r.wall) / float64(time.Millisecond) }}, absolute: true, most: 20, format: "%.1f ms"},
}

// verdict is the result of a target.
type verdict struct {
	operator, target, measured, most string
	limit                            string // the figure of the requests alone, or none
	met                              bool
}

func (v verdict) word() string {
	if v.met {
		return "met"
	}
	return "missed"
}

// judge compares the figures of a job with their targets.
func judge(j job, where string, names []variant, medians []result) []verdict {
	var all []verdict
	for _, t := range targets {
		if t.kind != j.kind || t.only != nil && !t.only(j) || t.where != "" && t.where != where {
			continue
		}
		for i, v := range names {
			if v.program != "kopf" || t.writes != 0 && t.writes != v.writes {
				continue
			}
			if t.absolute {
				of := t.of.of
				if of == nil {
					of = func(r result) float64 { return r.requestsEach(j) }
				}
				x, limit := of(medians[i]), none
				for k, w := range names {
					if w.program == "client" && w.writes == v.writes && of(medians[k]) != 0 {
						limit = fmt.Sprintf(t.format, of(medians[k]))
					}
				}
				all = append(all, verdict{
					operator: v.name, target: t.name, measured: fmt.Sprintf(t.format, x), limit: limit, most: "≤ " + fmt.Sprintf(t.format, t.most), met: x <= t.most,
				})
				continue
			}
			all = append(all, compare(t, i, names, medians)...)
		}
	}
	return all
}

// compare compares one operator of kopf, and its requests alone, with those of controller-runtime.
func compare(t target, subject int, names []variant, medians []result) (all []verdict) {
	limit := none
	for _, c := range comparisons(names, "runtime") {
		x := c.ratio(t.of, medians)
		if v := names[c.subject]; v.program == "client" && v.writes == names[subject].writes && x != 0 {
			limit = fmt.Sprintf("%.2f of controller-runtime", x)
		}
	}
	for _, c := range comparisons(names, "runtime") {
		if x := c.ratio(t.of, medians); c.subject == subject && x != 0 {
			all = append(all, verdict{
				operator: names[subject].name, target: t.name, measured: fmt.Sprintf("%.2f of controller-runtime", x), limit: limit,
				most: fmt.Sprintf("≤ %.2f", t.most), met: math.Round(x*100) <= math.Round(t.most*100), // as it is shown
			})
		}
	}
	return all
}

func verdicts(all []verdict) table {
	t := table{header: []string{"target", "operator", "measured", "requests alone", "goal", ""}}
	for _, v := range all {
		t.rows = append(t.rows, []string{v.target, v.operator, v.measured, v.limit, v.most, v.word()})
	}
	return t.withoutEmpty()
}

// median returns the median of each figure separately.
func median(all []result) result {
	duration := func(of func(result) time.Duration) time.Duration {
		values := make([]time.Duration, 0, len(all))
		for _, r := range all {
			values = append(values, of(r))
		}
		slices.Sort(values)
		return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	}
	size := func(of func(result) int64) int64 {
		return int64(duration(func(r result) time.Duration { return time.Duration(of(r)) }))
	}
	return result{
		wall: duration(func(r result) time.Duration { return r.wall }), cpu: duration(func(r result) time.Duration { return r.cpu }),
		p50: duration(func(r result) time.Duration { return r.p50 }), p99: duration(func(r result) time.Duration { return r.p99 }),
		server: duration(func(r result) time.Duration { return r.server }), etcd: duration(func(r result) time.Duration { return r.etcd }),
		recorded: tail{duration(func(r result) time.Duration { return r.recorded.p50 }), duration(func(r result) time.Duration { return r.recorded.p99 })},
		settled:  size(func(r result) int64 { return r.settled }), peak: size(func(r result) int64 { return r.peak }),
		requests: all[len(all)-1].requests,
	}
}
