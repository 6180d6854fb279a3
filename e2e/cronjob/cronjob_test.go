package cronjob

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf"
)

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cronjobs.batch.example.com}
spec:
  scope: Namespaced
  group: batch.example.com
  names: {kind: CronJob, plural: cronjobs}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

type m = map[string]any

// lab is an in-memory API server with an operator, in virtual time.
type lab struct {
	*testing.T
	server *kopf.APIServer
	client *kopf.Client
	runner *kopf.Runner
	began  time.Time
}

// inLab runs a test in virtual time.
func inLab(t *testing.T, name string, test func(l *lab)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := &lab{T: t, server: kopf.NewAPIServer(nil), began: time.Now()}
			if err := l.server.Apply([]byte(definition)); err != nil {
				t.Fatal(err)
			}
			client, err := kopf.NewClient(l.server.ConnectionInfo(), nil)
			if err != nil {
				t.Fatal(err)
			}
			l.client = client
			l.start()
			test(l)
		})
	})
}

func (l *lab) start() {
	registry := new(kopf.Registry)
	Register(registry)
	l.runner = kopf.NewRunner(l.T, &kopf.Operator{Registry: registry, Connection: l.server.ConnectionInfo()}, nil)
}

// until lets time pass until a number of minutes after the start, and waits for the work that is due then.
func (l *lab) until(minutes float64) { // in a bubble
	time.Sleep(time.Until(l.began.Add(time.Duration(minutes*float64(time.Minute)) + 2*time.Second)))
}

func cronJob() kopf.ObjectReference {
	return kopf.ObjectReference{APIVersion: "batch.example.com/v1", Kind: "CronJob", Namespace: "default", Name: "report"}
}

func jobNamed(name string) kopf.ObjectReference {
	return kopf.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "default", Name: name}
}

// create creates a CronJob for every five minutes, unless its spec has another schedule.
func (l *lab) create(more m) { // in a bubble
	l.Helper()
	spec := m{"schedule": "*/5 * * * *", "jobTemplate": m{"metadata": m{"labels": m{"app": "report"}}, "spec": m{"template": m{"spec": m{
		"restartPolicy": "Never", "containers": []m{{"name": "report", "image": "report"}},
	}}}}}
	maps.Copy(spec, more)
	object := m{"apiVersion": "batch.example.com/v1", "kind": "CronJob", "metadata": m{"namespace": "default", "name": "report"}, "spec": spec}
	if err := l.client.Create(l.Context(), object, nil); err != nil {
		l.Fatal(err)
	}
	time.Sleep(time.Second)
}

func (l *lab) patch(of kopf.ObjectReference, subresource string, patch m) { // in a bubble
	l.Helper()
	if _, err := l.client.Patch(l.Context(), of, patch, &kopf.PatchOptions{Subresource: subresource}); err != nil {
		l.Fatal(err)
	}
	time.Sleep(time.Second)
}

// ends finishes a Job, as the Job controller does.
func (l *lab) ends(minute int, well bool) {
	l.Helper()
	now := time.Now().UTC().Format(time.RFC3339)
	condition := func(name string) m {
		return m{"type": name, "status": "True", "lastTransitionTime": now, "lastProbeTime": now, "reason": "x", "message": "x"}
	}
	status := m{"failed": 1, "startTime": now, "conditions": []m{condition("FailureTarget"), condition("Failed")}, "uncountedTerminatedPods": m{}}
	if well {
		status = m{"succeeded": 1, "startTime": now, "completionTime": now, "conditions": []m{condition("SuccessCriteriaMet"), condition("Complete")}, "uncountedTerminatedPods": m{}}
	}
	l.patch(jobNamed(l.name(minute)), "status", m{"status": status})
}

// name returns the name of the Job for a time.
func (l *lab) name(minute int) string {
	return "report-" + strconv.FormatInt(l.began.Unix()/60+int64(minute), 10)
}

// wants checks the scheduled times of the Jobs, in minutes, and the active ones in the status.
func (l *lab) wants(minutes []int, active []int) {
	l.Helper()
	var got []string
	for job, err := range l.client.List(l.Context(), kopf.ObjectReference{APIVersion: "batch/v1", Kind: "Job"}, nil) {
		if err != nil {
			l.Fatal(err)
		}
		got = append(got, job.Name())
	}
	if want := l.names(minutes); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		l.Errorf("after %s: got the Jobs %v, want %v", time.Since(l.began), got, want)
	}
	got = nil
	for _, ref := range l.get().View("status").Views("active") {
		got = append(got, ref.String("name"))
	}
	if want := l.names(active); !slices.Equal(got, want) {
		l.Errorf("after %s: got the active Jobs %v, want %v", time.Since(l.began), got, want)
	}
}

func (l *lab) names(minutes []int) (names []string) {
	for _, minute := range minutes {
		names = append(names, l.name(minute))
	}
	return names
}

func (l *lab) get() *kopf.Body {
	l.Helper()
	body := new(kopf.Body)
	if err := l.client.Get(l.Context(), cronJob(), body, nil); err != nil {
		l.Fatal(err)
	}
	return body
}

func TestSchedule(t *testing.T) {
	inLab(t, "a Job is made at each time, and nothing is requested between them", func(l *lab) {
		l.create(nil)
		l.until(4)
		l.wants(nil, nil)
		l.until(5)
		l.wants([]int{5}, []int{5})
		if got, want := l.get().Status().String("lastScheduleTime"), l.began.Add(5*time.Minute).UTC().Format(time.RFC3339); got != want {
			l.Errorf("got the time %s, want %s", got, want)
		}
		job := new(kopf.Body)
		if err := l.client.Get(l.Context(), jobNamed(l.name(5)), job, nil); err != nil {
			l.Fatal(err)
		}
		if app, _ := job.Label("app"); app != "report" || len(job.View("metadata").Views("ownerReferences")) != 1 {
			l.Errorf("got the Job %v", job.Map())
		}
		l.ends(5, true)
		l.wants([]int{5}, nil)
		before := len(l.server.Requests())
		l.until(9)
		for _, q := range l.server.Requests()[before:] {
			if q.Verb != "watch" {
				l.Errorf("got the request %s %s between two times", q.Verb, q.Path)
			}
		}
		l.until(10)
		l.wants([]int{5, 10}, []int{10})
	})
	inLab(t, "another schedule counts at once", func(l *lab) {
		l.create(nil)
		l.until(1)
		l.patch(cronJob(), "", m{"spec": m{"schedule": "*/2 * * * *"}})
		l.until(2)
		l.wants([]int{2}, []int{2})
	})
	inLab(t, "an invalid schedule is reported, and a valid one mends it", func(l *lab) {
		l.create(m{"schedule": "each now and then"})
		l.until(20)
		l.wants(nil, nil)
		told := false
		for event, err := range l.client.List(l.Context(), kopf.ObjectReference{APIVersion: "v1", Kind: "Event"}, nil) {
			told = told || err == nil && event.View("").String("reason") == "InvalidSchedule"
		}
		if !told {
			l.Error("no event tells of it")
		}
		l.patch(cronJob(), "", m{"spec": m{"schedule": "*/5 * * * *"}})
		l.until(25)
		l.wants([]int{20, 25}, []int{20, 25})
	})
	inLab(t, "its Jobs go with it", func(l *lab) {
		l.create(nil)
		l.until(10)
		l.wants([]int{5, 10}, []int{5, 10})
		if err := l.client.Delete(l.Context(), cronJob(), nil); err != nil {
			l.Fatal(err)
		}
		l.until(30)
		for job := range l.client.List(l.Context(), kopf.ObjectReference{APIVersion: "batch/v1", Kind: "Job"}, nil) {
			l.Errorf("there is still the Job %s", job.Name())
		}
	})
}

func TestConcurrency(t *testing.T) {
	inLab(t, "Allow lets Jobs run at the same time", func(l *lab) {
		l.create(nil)
		l.until(15)
		l.wants([]int{5, 10, 15}, []int{5, 10, 15})
		l.ends(10, true)
		l.wants([]int{5, 10, 15}, []int{5, 15})
	})
	inLab(t, "Forbid makes no Job while one runs, and the latest that was missed when it has ended", func(l *lab) {
		l.create(m{"concurrencyPolicy": "Forbid"})
		l.until(17)
		l.wants([]int{5}, []int{5})
		l.ends(5, true)
		l.wants([]int{5, 15}, []int{15})
	})
	inLab(t, "Forbid with a deadline makes none that is too late", func(l *lab) {
		l.create(m{"concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 60})
		l.until(12)
		l.ends(5, true)
		l.wants([]int{5}, nil)
		l.until(15)
		l.wants([]int{5, 15}, []int{15})
	})
	inLab(t, "Replace deletes the one that runs", func(l *lab) {
		l.create(m{"concurrencyPolicy": "Replace"})
		l.until(5)
		l.wants([]int{5}, []int{5})
		l.until(10)
		l.wants([]int{10}, []int{10})
		l.ends(10, true)
		l.until(15)
		l.wants([]int{10, 15}, []int{15})
	})
}

func TestMissed(t *testing.T) {
	away := func(l *lab, minutes float64) { // in a bubble
		l.runner.Stop()
		l.until(minutes)
		l.start()
		time.Sleep(2 * time.Second)
	}
	inLab(t, "after a time without the operator, the latest is made", func(l *lab) {
		l.create(nil)
		l.until(5)
		away(l, 23)
		l.wants([]int{5, 20}, []int{5, 20})
		l.until(25)
		l.wants([]int{5, 20, 25}, []int{5, 20, 25})
	})
	inLab(t, "within the deadline, it is made as well", func(l *lab) {
		l.create(m{"startingDeadlineSeconds": 240})
		away(l, 23)
		l.wants([]int{20}, []int{20})
	})
	inLab(t, "after the deadline, it is not", func(l *lab) {
		l.create(m{"startingDeadlineSeconds": 120})
		away(l, 23)
		l.wants(nil, nil)
		l.until(25)
		l.wants([]int{25}, []int{25})
	})
	inLab(t, "a restart makes none twice", func(l *lab) {
		l.create(nil)
		l.until(5)
		for range 3 {
			away(l, time.Since(l.began).Minutes())
		}
		l.wants([]int{5}, []int{5})
	})
}

func TestSuspend(t *testing.T) {
	inLab(t, "no Job is made meanwhile, those that run go on, and the latest is made up for", func(l *lab) {
		l.create(nil)
		l.until(5)
		l.patch(cronJob(), "", m{"spec": m{"suspend": true}})
		l.until(22)
		l.wants([]int{5}, []int{5})
		l.ends(5, true)
		l.wants([]int{5}, nil)
		l.patch(cronJob(), "", m{"spec": m{"suspend": false}})
		l.wants([]int{5, 20}, []int{20})
	})
}

func TestHistory(t *testing.T) {
	inLab(t, "three that have succeeded and one that has failed are left", func(l *lab) {
		l.create(nil)
		for minute := 5; minute <= 40; minute += 5 {
			l.until(float64(minute))
			l.ends(minute, minute%10 != 0 || minute == 40)
		}
		l.wants([]int{25, 30, 35, 40}, nil)
	})
	inLab(t, "limits of the spec count, and those of none", func(l *lab) {
		l.create(m{"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0})
		l.until(15)
		l.ends(5, true)
		l.ends(10, false)
		l.wants([]int{5, 15}, []int{15})
		l.ends(15, true)
		l.wants([]int{15}, nil)
	})
	inLab(t, "a Job that another client deletes is not active any more, and is not made again", func(l *lab) {
		l.create(nil)
		l.until(5)
		if err := l.client.Delete(l.Context(), jobNamed(l.name(5)), &kopf.DeleteOptions{Propagation: "Background"}); err != nil {
			l.Fatal(err)
		}
		l.until(9)
		l.wants(nil, nil)
	})
	inLab(t, "Jobs of others are left alone", func(l *lab) {
		other := m{"apiVersion": "batch/v1", "kind": "Job", "metadata": m{"namespace": "default", "name": "other", "labels": m{"app": "report"}},
			"spec": m{"template": m{"spec": m{"restartPolicy": "Never", "containers": []m{{"name": "x", "image": "x"}}}}}}
		if err := l.client.Create(l.Context(), other, nil); err != nil {
			l.Fatal(err)
		}
		l.create(m{"concurrencyPolicy": "Replace"})
		l.until(10)
		if err := l.client.Get(l.Context(), jobNamed("other"), new(kopf.Body), nil); err != nil {
			l.Error(err)
		}
		if got := l.get().View("status").Views("active"); len(got) != 1 || !strings.HasPrefix(got[0].String("name"), "report-") {
			l.Errorf("got the active Jobs %v", got)
		}
	})
}
