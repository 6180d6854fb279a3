// Command bench runs the same jobs with operators of kopf and of controller-runtime in turns, and prints their costs.
//
//	go run . -quick                # five minutes, for a first look
//	go run . -quick -base COMMIT   # five minutes, to compare kopf now with kopf at a commit
//	go run .                       # on a replaying API server
//	go run . -server real          # on a real control plane
//	go run . -sweep                # how the costs grow
//	go run . -trace                # where the time of an object goes
//	go run . -big                  # 100,000 objects on a real control plane
//	go run . -websites             # operators that create other objects
//	go run . -write ../docs        # all of it, and the page about it
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the options of the command line.
type options struct {
	quick           bool
	rounds          int
	jobs, operators *regexp.Regexp
	server          string
	sweep, big      bool
	trace, websites bool
	profiles, base  string
	write           string
}

func run() error {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "fewer and smaller jobs")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each job is done by each operator")
	only := flag.String("jobs", "", "a regular expression of the jobs to do; all by default")
	which := flag.String("operators", "", "a regular expression of the operators; all by default")
	flag.StringVar(&o.server, "server", replayName, "where the jobs are done: replay or real")
	flag.BoolVar(&o.sweep, "sweep", false, "show how the costs grow, and nothing else")
	flag.BoolVar(&o.trace, "trace", false, "show where the time of an object goes on a real control plane, and nothing else")
	flag.BoolVar(&o.big, "big", false, "show what 100,000 objects cost on a real control plane, and nothing else")
	flag.BoolVar(&o.websites, "websites", false, "show what operators cost that make other objects, and nothing else")
	flag.StringVar(&o.profiles, "profiles", "", "a folder for profiles of our operator; none by default")
	flag.StringVar(&o.base, "base", "", "a commit: compares our operator with what it was then, and with no other one")
	flag.StringVar(&o.write, "write", "", "a folder for a page about all that there is, on both servers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if o.jobs, err = regexp.Compile(*only); err != nil {
		return err
	}
	if o.operators, err = regexp.Compile(*which); err != nil {
		return err
	}
	if o.rounds < 1 {
		return fmt.Errorf("%d rounds are not enough: one is the least", o.rounds)
	}
	if o.server != replayName && o.server != realName {
		return fmt.Errorf("there is no server %q, only %q and %q", o.server, replayName, realName)
	}
	if o.profiles != "" {
		if err := os.Setenv("BENCH_PROFILES", o.profiles); err != nil {
			return err
		}
	}
	return o.bench(ctx)
}

// bench builds the operators, and runs the jobs.
func (o *options) bench(ctx context.Context) error {
	operators := variants
	if o.base != "" {
		commit, err := shortCommit(ctx, o.base)
		if err != nil {
			return err
		}
		operators = based(commit)
	}
	dir, err := build(ctx, o.profiles, o.base)
	defer os.RemoveAll(dir)
	if err != nil {
		return err
	}
	some := matching(operators, o.operators, func(v variant) string { return v.name })
	if len(some) == 0 {
		return fmt.Errorf("there is no operator with a name like %q", o.operators)
	}
	b := &bench{dir: dir, rounds: o.rounds, operators: some, idle: map[string]int64{}, restarted: map[string]time.Duration{}}
	if o.write != "" || !o.sweep && !o.big && !o.trace && !o.websites && o.server == replayName {
		if err := o.onReplay(ctx, b); err != nil {
			return err
		}
	}
	if o.write != "" || !o.sweep && !o.trace && !o.websites && (o.big || o.server == realName) {
		if err := o.onReal(ctx, b); err != nil {
			return err
		}
	}
	if o.write != "" || o.websites {
		if err := o.onWebsites(ctx, b); err != nil {
			return err
		}
	}
	if o.write != "" || o.trace {
		if err := o.tracing(ctx, b); err != nil {
			return err
		}
	}
	if o.write != "" || o.sweep {
		if err := o.sweeping(ctx, b); err != nil {
			return err
		}
	}
	if o.write != "" {
		return b.write(ctx, o.write)
	}
	return nil
}

// onReplay runs the jobs on replaying servers, one for each job.
func (o *options) onReplay(ctx context.Context, b *bench) error {
	jobs := []job{idle(), backlog(1000), backlog(10_000), restart(10_000), restart(50_000), restartReordered(50_000), restart(big), latency(500, 50), ignored(20_000), storm(10_000, 10_000, 1000), namespaced(200), restartHuge(10 * big),
		standingBy(big), takingOver(big), handingOver("hand-overs while idle over 1000", 20, 1000, 0, syscall.SIGTERM),
		handingOver("hand-overs amid 200 changes a second over 10000", 10, 10_000, 200, syscall.SIGTERM), handingOver("hand-overs after kill -9 over 1000", 3, 1000, 0, syscall.SIGKILL)}
	if o.quick {
		jobs = []job{idle(), backlog(1000), restart(10_000), latency(250, 50), ignored(20_000)}
	}
	if jobs = o.wanted(jobs); len(jobs) == 0 {
		return fmt.Errorf("there is no job with a name like %q", o.jobs)
	}
	if slices.ContainsFunc(jobs, isBig) && jobs[0].kind != resting { // the memory per object is relative to an operator without objects
		jobs = append([]job{idle()}, jobs...)
	}
	var groups [][]job
	for _, j := range jobs {
		groups = append(groups, []job{j})
	}
	if err := b.do(ctx, &replaying{marks: map[string][]json.RawMessage{}}, groups); err != nil {
		return err
	}
	return b.binaries()
}

// onReal runs the jobs on a real server. Jobs that use the same objects run one after the other.
func (o *options) onReal(ctx context.Context, b *bench) error {
	groups := [][]job{{backlog(3000), ignored(3000)}, {backlog(10_000), restart(10_000), storm(10_000, 2000, 100)}, {latency(500, 25), latency(1000, 50)}}
	if o.quick {
		groups = [][]job{{backlog(1000), ignored(2000), restart(1000)}, {latency(100, 25)}}
	}
	p, err := startReal(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	if o.big {
		groups = nil
	}
	for _, jobs := range groups {
		if err := b.do(ctx, p, [][]job{o.wanted(jobs)}); err != nil {
			return fmt.Errorf("%w\n%s", err, p.cluster.Logs())
		}
	}
	if !o.big && o.write == "" {
		return nil
	}
	some := *b // each once, with the same objects for all
	some.rounds, some.operators = 1, slices.DeleteFunc(slices.Clone(b.operators), func(v variant) bool { return v.writes > 1 || v.workers == 1 })
	if err := some.do(ctx, p, [][]job{o.wanted([]job{shared(restart(big)), shared(storm(big, 5000, 1000))})}); err != nil {
		return fmt.Errorf("%w\n%s", err, p.cluster.Logs())
	}
	b.findings = some.findings
	return nil
}

// shared returns a job with objects that another operator has handled.
func shared(j job) job {
	j.shared = true
	return j
}

func (o *options) sweeping(ctx context.Context, b *bench) error {
	some := *b
	some.operators = slices.DeleteFunc(slices.Clone(b.operators), func(v variant) bool { return !inSweeps(v) })
	err := some.sweep(ctx, &replaying{marks: map[string][]json.RawMessage{}}, sweeps(o.quick))
	b.findings = some.findings
	return err
}

func (o *options) wanted(jobs []job) []job {
	return matching(jobs, o.jobs, func(j job) string { return j.name })
}

func matching[T any](all []T, wanted *regexp.Regexp, name func(T) string) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !wanted.MatchString(name(x)) })
}
