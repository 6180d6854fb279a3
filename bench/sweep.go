package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// sweep is a job in several sizes.
type sweep struct {
	name  string
	size  string // describes the sizes
	sizes []int
	job   func(size int) job
	most  map[string]int // the largest size for a program's operators, if it is limited
	drawn []drawn
}

// drawn is a plotted figure.
type drawn struct {
	file, title, unit string
	of                func(r result) float64
}

// sweeps returns all sweeps. The numbers of requests are in the tables only.
func sweeps(quick bool) []sweep {
	over := sweep{
		name: "starting over more and more objects", size: "objects", sizes: []int{1000, 10_000, big, 5 * big}, job: restart, most: map[string]int{"runtime": big},
		drawn: []drawn{
			{"restart-cpu", "CPU of a start over handled objects", "CPU, s", func(r result) float64 { return r.cpu.Seconds() }},
			{"restart-memory", "Memory after a start over handled objects", "settled, MiB", func(r result) float64 { return float64(r.settled) / (1 << 20) }},
		},
	}
	ignore := sweep{
		name: "ignoring more and more changes", size: "changes a second", sizes: []int{10, 100, 1000, 5000}, job: func(rate int) job { return changing(rate, 4*time.Second) },
		drawn: []drawn{{"ignoring", "Ignoring changes of 1000 objects", "CPU, % of a core", func(r result) float64 { return 100 * r.cpu.Seconds() / r.wall.Seconds() }}},
	}
	handle := sweep{
		name: "handling 1000 changes a second over more and more objects", size: "objects", sizes: []int{1000, 10_000, big, 5 * big},
		job: func(objects int) job { return storm(objects, 5000, 1000) }, most: map[string]int{"runtime": big},
		drawn: []drawn{
			{"storm-cpu", "CPU of 1000 changes a second to be handled", "CPU, % of a core", func(r result) float64 { return 100 * r.cpu.Seconds() / r.wall.Seconds() }},
			{"storm-p99", "From a change until it is handled, 99 % of them", "p99, ms", func(r result) float64 { return float64(r.recorded.p99.Microseconds()) / 1000 }},
		},
	}
	if quick {
		over.sizes, ignore.sizes, handle.sizes = over.sizes[:2], ignore.sizes[1:3], handle.sizes[:2]
	}
	return []sweep{over, ignore, handle}
}

// sweep runs the sweeps, each job once: straight lines show that their points are no outliers.
func (b *bench) sweep(ctx context.Context, p place, all []sweep) error {
	for _, s := range all {
		results := make([][]result, len(b.operators))
		for _, size := range s.sizes {
			for i, v := range b.operators {
				if most, ok := s.most[v.program]; ok && size > most {
					continue
				}
				j := s.job(size)
				fmt.Fprintf(os.Stderr, "%s, %s: %s\n", p.name(), j.name, v.name)
				r, err := j.run(ctx, p, v, b.dir)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", j.name, v.name, err)
				}
				results[i] = append(results[i], r)
			}
		}
		f := finding{place: "sweep", job: s.name, command: "go run . -sweep", tables: []table{s.table(b.operators, results)}, charts: s.charts(b.operators, results)}
		b.findings = append(b.findings, f)
		if err := f.print(); err != nil {
			return err
		}
	}
	return nil
}

func (s sweep) table(names []variant, results [][]result) table {
	t := table{header: []string{"operator", s.size}}
	for _, d := range s.drawn {
		t.header = append(t.header, d.unit)
	}
	t.header = append(t.header, "requests")
	for i, v := range names {
		for k, r := range results[i] {
			row := []string{v.name, fmt.Sprint(s.sizes[k])}
			for _, d := range s.drawn {
				row = append(row, number(d.of(r), "%.2f"))
			}
			t.rows = append(t.rows, append(row, verbs(r.requests)))
		}
	}
	return t
}

func (s sweep) charts(names []variant, results [][]result) []chart {
	var all []chart
	for _, d := range s.drawn {
		c := chart{file: "performance-" + d.file + ".svg", title: d.title, x: s.size, y: d.unit}
		for i, v := range names {
			l := line{name: v.name}
			for k, r := range results[i] {
				l.points = append(l.points, point{float64(s.sizes[k]), d.of(r)})
			}
			c.lines = append(c.lines, l)
		}
		all = append(all, c)
	}
	return all
}

// inSweeps reports whether an operator takes part. One operator of controller-runtime represents all of them, because the numbers of workers and of writes
// do not matter without work.
func inSweeps(v variant) bool { return v.program == "kopf" || v.workers > 1 && v.writes == 1 }
