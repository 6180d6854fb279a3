// Command bench has the same jobs done by an operator of ours and by one of controller-runtime, in turns, and prints what they cost.
//
//	go run . -quick   # five minutes, to compare two states of the source
//	go run .          # all of it
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	quick := flag.Bool("quick", false, "fewer objects, fewer rounds")
	rounds := flag.Int("rounds", 3, "how often each job is done by each operator")
	only := flag.String("jobs", "", "a regular expression of the jobs to do; all by default")
	which := flag.String("operators", "", "a regular expression of the operators; all by default")
	profiles := flag.String("profiles", "", "a folder for profiles of our operator; none by default")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *profiles != "" {
		if err := os.Setenv("BENCH_PROFILES", *profiles); err != nil {
			return err
		}
	}
	dir, err := build(ctx, *profiles)
	defer os.RemoveAll(dir)
	if err != nil {
		return err
	}
	jobs := []job{backlog(1000), backlog(10_000), restart(10_000), restart(100_000), latency(1000, 50), ignored(20_000), idle()}
	if *quick {
		jobs = []job{backlog(1000), restart(10_000), latency(250, 50), ignored(20_000), idle()}
	}
	return bench(ctx, dir, matching(jobs, *only, func(j job) string { return j.name }), matching(variants, *which, func(v variant) string { return v.name }), *rounds)
}

func matching[T any](all []T, expression string, name func(T) string) []T {
	wanted := regexp.MustCompile(expression)
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !wanted.MatchString(name(x)) })
}

// bench does all jobs, and prints the medians.
func bench(ctx context.Context, dir string, jobs []job, operators []variant, rounds int) error {
	for _, j := range jobs {
		all := make([][]result, len(operators))
		for range rounds {
			for i, v := range operators { // in turns, so that what else the machine does hits all alike
				r, err := j.run(ctx, v, dir)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", j.name, v.name, err)
				}
				all[i] = append(all[i], r)
			}
		}
		fmt.Printf("\n%s\n", j.name)
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "operator\twall, ms\tCPU, ms\tCPU, µs each\tp50, ms\tp99, ms\tsettled, MiB\tpeak, MiB\trequests\t")
		for i, v := range operators {
			m := median(all[i])
			fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%s\t%s\t%.1f\t%.1f\t%s\t\n", v.name, millis(m.wall), millis(m.cpu),
				float64(m.cpu.Microseconds())/float64(j.unit), millis(m.p50), millis(m.p99), mebibytes(m.settled), mebibytes(m.peak), verbs(m.requests))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Println("\nstripped static binaries")
	for _, program := range []string{"kopf", "runtime"} {
		fmt.Printf("%s: %.1f MB\n", program, float64(sizeOf(variant{program: program}, dir))/1e6)
	}
	return nil
}

// median returns the median of each figure by itself.
func median(all []result) result {
	duration := func(of func(result) time.Duration) time.Duration {
		values := make([]time.Duration, 0, len(all))
		for _, r := range all {
			values = append(values, of(r))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	size := func(of func(result) int64) int64 {
		return int64(duration(func(r result) time.Duration { return time.Duration(of(r)) }))
	}
	return result{
		wall: duration(func(r result) time.Duration { return r.wall }), cpu: duration(func(r result) time.Duration { return r.cpu }),
		p50: duration(func(r result) time.Duration { return r.p50 }), p99: duration(func(r result) time.Duration { return r.p99 }),
		settled: size(func(r result) int64 { return r.settled }), peak: size(func(r result) int64 { return r.peak }),
		requests: all[len(all)-1].requests,
	}
}

func millis(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000)
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

func verbs(requests map[string]int) string {
	var all []string
	for verb, n := range requests {
		all = append(all, fmt.Sprintf("%s %d", verb, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
