package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// bench runs jobs, and prints and collects their results.
type bench struct {
	dir       string // contains the programs
	rounds    int
	alone     bool // whether all operators are those of kopf
	operators []variant
	idle      map[string]int64         // the settled memory of idle operators, by their name
	restarted map[string]time.Duration // CPU times of restarts, by the operator's name and the number of objects
	findings  []finding
}

// finding is the result of one job.
type finding struct {
	place, job string
	text       string // about it, for the page
	command    string // runs the job again
	tables     []table
	verdicts   []verdict
	charts     []chart
}

// do runs groups of jobs at a place. Within a group, an operator runs all jobs before the next operator, so that a job may continue with the objects of
// another.
func (b *bench) do(ctx context.Context, p place, groups [][]job) error {
	for _, jobs := range groups {
		if len(jobs) > 0 && jobs[0].kopfOnly && !b.alone {
			some := *b
			some.alone = true
			some.operators = slices.DeleteFunc(slices.Clone(b.operators), func(v variant) bool { return v.program != "kopf" && v.program != "base" || v.writes > 1 })
			if len(some.operators) == 0 {
				continue
			}
			if err := some.do(ctx, p, [][]job{jobs}); err != nil {
				return err
			}
			b.findings = some.findings
			continue
		}
		medians, err := b.rounded(ctx, p, jobs)
		if err != nil {
			return err
		}
		for i, j := range jobs {
			b.complete(j, medians[i])
			if err := b.tell(p, j, medians[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// rounded returns the medians of all rounds, by job and operator.
func (b *bench) rounded(ctx context.Context, p place, jobs []job) ([][]result, error) {
	all := make([][][]result, len(jobs))
	for i := range all {
		all[i] = make([][]result, len(b.operators))
	}
	for round := range b.rounds {
		for k, v := range b.operators { // in turns, so that other load on the machine affects all alike
			for i, j := range jobs {
				fmt.Fprintf(os.Stderr, "%s, %s, round %d of %d: %s\n", p.name(), j.name, round+1, b.rounds, v.name)
				r, err := j.run(ctx, p, v, b.dir)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", j.name, v.name, err)
				}
				all[i][k] = append(all[i][k], r)
			}
		}
	}
	medians := make([][]result, len(jobs))
	for i := range jobs {
		for k := range b.operators {
			medians[i] = append(medians[i], median(all[i][k]))
		}
	}
	return medians, nil
}

// complete computes results from two jobs: the memory of an object, and the cost of another order of keys.
func (b *bench) complete(j job, medians []result) {
	for k, v := range b.operators {
		restarted := fmt.Sprint(v.name, ", ", j.count)
		if j.kind == restarting && !j.reordered {
			b.restarted[restarted] = medians[k].cpu
		}
		if ordinary := b.restarted[restarted]; j.reordered && ordinary > 0 {
			medians[k].reordered = float64(medians[k].cpu) / float64(ordinary)
		}
		if j.kind == resting || j.kind == unparented {
			b.idle[v.name] = medians[k].settled
		}
		if empty := b.idle[v.name]; (isBig(j) || j.pages > 0) && empty > 0 {
			medians[k].perObject = (medians[k].settled - empty) / int64(j.unit)
		}
	}
}

// tell prints the result of a job.
func (b *bench) tell(p place, j job, medians []result) error {
	place := p.name()
	if j.args != nil {
		place = replicasName
	}
	f := finding{place: place, job: j.name, command: command(p, j), tables: []table{measured(j, b.operators, medians)}, verdicts: judge(j, p.name(), b.operators, medians)}
	for _, with := range []string{"runtime", "base"} {
		if t := ratios(b.operators, medians, with); len(t.rows) > 0 {
			f.tables = append(f.tables, t)
		}
	}
	b.findings = append(b.findings, f)
	return f.print()
}

// command returns a command that runs a job again.
func command(p place, j job) string {
	c := fmt.Sprintf("go run . -jobs '^%s$'", j.name)
	switch {
	case p.name() == websitesName:
		c += " -websites"
	case j.shared:
		c += " -big"
	case p.name() == realName:
		c += " -server real"
	}
	return c
}

func (f finding) print() error {
	fmt.Printf("\n%s: %s\n", f.place, f.job)
	tables := f.tables
	if len(f.verdicts) > 0 {
		tables = append(tables, verdicts(f.verdicts))
	}
	for _, t := range tables {
		fmt.Println()
		if err := t.text(os.Stdout); err != nil {
			return err
		}
	}
	return nil
}

// binaries reports the sizes of the programs.
func (b *bench) binaries() error {
	t := table{header: []string{"program", "MB"}}
	v := verdict{operator: "kopf", target: "binary of the first example, as it is shipped", limit: none, most: "≤ 9.0 MB"}
	for _, program := range []struct{ file, name string }{{"minimal", "the first example, without the embedded server"}, {"embedded", "the first example"}, {"kopf", "our operator of this bench, without it"}, {"runtime", "that of controller-runtime"}} {
		info, err := os.Stat(filepath.Join(b.dir, program.file))
		if err != nil {
			return err
		}
		t.rows = append(t.rows, []string{program.name, fmt.Sprintf("%.2f", float64(info.Size())/1e6)})
		if program.file == "minimal" {
			v.measured, v.met = fmt.Sprintf("%.2f MB", float64(info.Size())/1e6), info.Size() <= 9_000_000
		}
	}
	f := finding{place: "build", job: "stripped static binaries", command: "go run . -jobs '^idle$'", tables: []table{t}, verdicts: []verdict{v}}
	b.findings = append(b.findings, f)
	return f.print()
}
