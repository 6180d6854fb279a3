// Command cmd runs the fault bench and prints its results:
//
//	go run ./chaos/cmd -seed 7 -minutes 3
//	go run ./chaos/cmd -seeds 10 -minutes 3 -write ../docs/reliability.md
//
// Its exit code is 1 if there were violations.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos"
)

func main() {
	seed := flag.Uint64("seed", 1, "the first seed")
	seeds := flag.Uint64("seeds", 1, "how many seeds are tried")
	minutes := flag.Float64("minutes", 1, "how long things go wrong with each of them")
	objects := flag.Int("objects", 300, "how many objects there are at a time, at most")
	parallel := flag.Int("parallel", 1, "how many seeds are tried at the same time")
	replicas := flag.Int("replicas", 1, "how many replicas of the operator there are; several stand for a Lease")
	only := flag.String("only", "", "the sorts of faults that are tried, all by default, those of replicas only if there are several: "+strings.Join(chaos.Families(), ","))
	write := flag.String("write", "", "a page whose section between the marks is replaced with the tables")
	keep := flag.Bool("keep", false, "leave the folders of runs with violations behind, for their logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	reports := make([]*chaos.Report, *seeds)
	errs := make([]error, *seeds)
	var group sync.WaitGroup
	place := make(chan struct{}, *parallel)
	var output sync.Mutex
	for i := range reports {
		place <- struct{}{}
		group.Go(func() {
			defer func() { <-place }()
			options := chaos.Options{Seed: *seed + uint64(i), Duration: time.Duration(*minutes * float64(time.Minute)), Objects: *objects, Replicas: *replicas,
				Log: os.Stderr, Keep: *keep}
			if *only != "" {
				options.Families = strings.Split(*only, ",")
			}
			reports[i], errs[i] = chaos.Run(ctx, options)
			if errs[i] == nil {
				output.Lock()
				defer output.Unlock()
				writeProblems(reports[i])
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	wrong := false
	for _, report := range reports {
		wrong = wrong || len(report.Missing) > 0 || len(report.Violations) > 0
	}
	chaos.WriteTable(os.Stdout, reports)
	if *write != "" {
		if err := replace(*write, reports); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if wrong {
		os.Exit(1)
	}
}

// writeProblems writes the violations of a run, and the faults that it lacked.
func writeProblems(report *chaos.Report) {
	if len(report.Missing) > 0 {
		fmt.Printf("seed %d: these faults have not happened: %q\n", report.Seed, report.Missing)
	}
	if len(report.Violations) > 0 {
		report.WriteViolations(os.Stdout)
	}
}

// The marks of the section that is replaced.
const begin, end = "<!-- the tables of the fault bench -->\n", "<!-- the end of the tables -->\n"

func replace(path string, reports []*chaos.Report) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, found := strings.Cut(string(page), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has not the lines %q and %q", path, begin, end)
	}
	var tables bytes.Buffer
	chaos.WriteTable(&tables, reports)
	return os.WriteFile(path, []byte(head+begin+"\n"+tables.String()+"\n"+end+tail), 0o644)
}
