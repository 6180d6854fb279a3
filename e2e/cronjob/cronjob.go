// Package cronjob is an operator that creates Jobs by a schedule, as the CronJob controller of Kubernetes and that of the Kubebuilder book do. It uses a
// reconcile handler, although the children are a history, and not a desired state. The handler creates and deletes the Jobs itself, and finds them by an
// index. Times and changes of Jobs trigger it.
package cronjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/robfig/cron/v3"
)

// The concurrency policies.
const (
	allow   = "Allow"
	forbid  = "Forbid"
	replace = "Replace"
)

// spec is the spec of a CronJob.
type spec struct {
	Schedule                   string         `json:"schedule"`
	StartingDeadlineSeconds    *int64         `json:"startingDeadlineSeconds"`
	ConcurrencyPolicy          string         `json:"concurrencyPolicy"`
	Suspend                    bool           `json:"suspend"`
	SuccessfulJobsHistoryLimit *int           `json:"successfulJobsHistoryLimit"`
	FailedJobsHistoryLimit     *int           `json:"failedJobsHistoryLimit"`
	JobTemplate                map[string]any `json:"jobTemplate"`
}

// scheduledAt is the annotation with the scheduled time of a Job.
const scheduledAt = "batch.example.com/scheduled-at"

// job is the indexed state of a Job.
type job struct {
	ref       kopf.ObjectReference
	scheduled time.Time // its scheduled time
	state     state
}

type state int

const (
	active state = iota
	succeeded
	failed
)

// operator creates the Jobs of all CronJobs.
type operator struct {
	jobs *kopf.Index[string, job] // by the uids of their owners
}

// Register adds the operator to a registry.
func Register(g *kopf.Registry) {
	o := &operator{jobs: kopf.OnIndexIn(g, "jobs.batch", indexJob, nil)}
	g.OnReconcile("cronjobs.batch.example.com", o.reconcile, &kopf.ReconcileOptions{Owns: []kopf.Selector{"jobs.batch"}})
}

// indexJob indexes a Job by its owner, with its state.
func indexJob(_ context.Context, i *kopf.Indexing) (map[string]job, error) {
	for _, owner := range i.Meta().Views("ownerReferences") {
		if !owner.Bool("controller") || owner.String("kind") != "CronJob" {
			continue
		}
		text, _ := i.Body.Annotation(scheduledAt)
		scheduled, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return map[string]job{}, nil // another client has created it
		}
		return map[string]job{owner.String("uid"): {i.Body.Reference(), scheduled, stateOf(i.Status())}}, nil
	}
	return map[string]job{}, nil
}

// stateOf returns the state of a Job.
func stateOf(status kopf.View) state {
	for _, c := range status.Views("conditions") {
		switch {
		case c.String("status") != "True":
		case c.String("type") == "Complete":
			return succeeded
		case c.String("type") == "Failed":
			return failed
		}
	}
	return active
}

func (o *operator) reconcile(ctx context.Context, r *kopf.Reconcile) error {
	var s spec
	if err := r.Spec().Decode(&s); err != nil {
		return kopf.Permanent(err)
	}
	schedule, err := cron.ParseStandard(s.Schedule)
	if err != nil {
		r.PostWarning("InvalidSchedule", err.Error())
		return kopf.Permanent(err)
	}
	jobs := o.known(r)
	running := jobsOf(jobs, active)
	if err := errors.Join(trim(ctx, r, jobsOf(jobs, succeeded), limit(s.SuccessfulJobsHistoryLimit, 3)), trim(ctx, r, jobsOf(jobs, failed), limit(s.FailedJobsHistoryLimit, 1))); err != nil {
		return err
	}
	r.Patch.Set("status.active", references(running))
	if s.Suspend {
		return nil // the change of the spec triggers the handler again
	}
	now := time.Now()
	r.RequeueAfter(schedule.Next(now).Sub(now))
	due := missed(schedule, lastScheduled(r, jobs), now, s.StartingDeadlineSeconds)
	if due.IsZero() {
		return nil
	}
	switch policy := cmp.Or(s.ConcurrencyPolicy, allow); {
	case policy == forbid && len(running) > 0:
		return nil // its end triggers the handler again, within the starting deadline
	case policy == replace:
		if err := remove(ctx, r, running); err != nil {
			return err
		}
	}
	return start(ctx, r, &s, due)
}

// known returns the Jobs of the object, sorted by time.
func (o *operator) known(r *kopf.Reconcile) []job {
	jobs := slices.Clone(o.jobs.Get(r, r.UID()))
	slices.SortFunc(jobs, func(a, b job) int { return a.scheduled.Compare(b.scheduled) })
	return jobs
}

func jobsOf(jobs []job, s state) []job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return j.state != s })
}

func limit(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return *n
}

// references returns the references to active Jobs for the status.
func references(jobs []job) []any {
	refs := []any{}
	for _, j := range jobs {
		refs = append(refs, map[string]any{"apiVersion": j.ref.APIVersion, "kind": j.ref.Kind, "name": j.ref.Name, "namespace": j.ref.Namespace, "uid": j.ref.UID})
	}
	return refs
}

// trim deletes the oldest Jobs that exceed the limit of the history.
func trim(ctx context.Context, r *kopf.Reconcile, jobs []job, limit int) error {
	return remove(ctx, r, jobs[:max(0, len(jobs)-limit)])
}

func remove(ctx context.Context, r *kopf.Reconcile, jobs []job) error {
	var failures []error
	for _, j := range jobs {
		failures = append(failures, kopf.IgnoreNotFound(r.Client.Delete(ctx, j.ref, &kopf.DeleteOptions{Propagation: "Background", UID: j.ref.UID})))
	}
	return errors.Join(failures...)
}

// lastScheduled returns the scheduled time of the latest Job, or the creation time of the object if there is none. The status comes from the last call, and
// the index may be older than that.
func lastScheduled(r *kopf.Reconcile, jobs []job) time.Time {
	last, err := time.Parse(time.RFC3339, r.Status().String("lastScheduleTime"))
	if err != nil {
		last, _ = time.Parse(time.RFC3339, r.Meta().String("creationTimestamp")) // set by the server
	}
	if len(jobs) > 0 && jobs[len(jobs)-1].scheduled.After(last) {
		last = jobs[len(jobs)-1].scheduled
	}
	return last
}

// missed returns the latest scheduled time in the past without a Job; zero if there is none, or if its deadline is over.
func missed(schedule cron.Schedule, last, now time.Time, deadline *int64) (due time.Time) {
	if deadline != nil {
		if earliest := now.Add(-time.Duration(*deadline) * time.Second); earliest.After(last) {
			last = earliest.Add(-time.Nanosecond) // which makes the deadline itself early enough
		}
	}
	for at := schedule.Next(last); !at.After(now); at = schedule.Next(at) {
		due = at
	}
	return due
}

// start creates the Job for a time. The time determines its name, so that it cannot be created twice.
func start(ctx context.Context, r *kopf.Reconcile, s *spec, due time.Time) error {
	metadata, _ := s.JobTemplate["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	annotations := map[string]any{scheduledAt: due.UTC().Format(time.RFC3339)}
	if more, ok := metadata["annotations"].(map[string]any); ok {
		for key, value := range more {
			annotations[key] = value
		}
	}
	object := map[string]any{"apiVersion": "batch/v1", "kind": "Job", "spec": s.JobTemplate["spec"],
		"metadata": map[string]any{"name": fmt.Sprintf("%s-%d", r.Name(), due.Unix()/60), "labels": labels, "annotations": annotations}}
	if err := kopf.Adopt(r.Body, object, &kopf.HierarchyOptions{Strict: true}); err != nil {
		return kopf.Permanent(err)
	}
	if err := kopf.IgnoreAlreadyExists(r.Client.Create(ctx, object, nil)); err != nil {
		return err
	}
	r.Patch.Set("status.lastScheduleTime", due.UTC().Format(time.RFC3339))
	return nil
}
