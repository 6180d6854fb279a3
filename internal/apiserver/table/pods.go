package table

import (
	"fmt"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file has the cells of pods and jobs.

func callForPods(function string, v any, now time.Time) (cell any, ok bool) {
	switch function {
	case "podReady":
		s := newPodSummary(v)
		return fmt.Sprintf("%d/%d", s.ready, s.containers), true
	case "podStatus":
		return newPodSummary(v).status, true
	case "podRestarts":
		s := newPodSummary(v)
		if s.restarts == 0 || s.lastRestart == "" {
			return fmt.Sprint(s.restarts), true
		}
		return fmt.Sprintf("%d (%s ago)", s.restarts, age(s.lastRestart, now)), true
	case "podIP":
		if ips := items(v); len(ips) > 0 {
			return or(unstructured.Word(ips[0]["ip"]), none), true
		}
		return none, true
	case "readinessGates":
		return readinessGates(v), true
	case "jobStatus":
		return jobStatus(v), true
	case "completions":
		return completions(v), true
	case "jobDuration":
		return jobDuration(v, now), true
	}
	return nil, false
}

// podSummary summarizes the containers of a pod for a table.
type podSummary struct {
	status            string
	ready, containers int
	restarts          int64
	lastRestart       string
}

func newPodSummary(pod any) *podSummary {
	status := at(pod, "status")
	s := &podSummary{status: or(unstructured.Word(at(status, "reason")), unstructured.Word(at(status, "phase"))), containers: count(at(pod, "spec.containers"))}
	for _, c := range items(at(status, "conditions")) {
		if c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated" {
			s.status = "SchedulingGated"
		}
	}
	sidecars := s.sidecars(pod)
	if !s.initialize(pod, sidecars) || isTrue(status, "Initialized") {
		s.restarts, s.lastRestart = 0, ""
		for _, c := range items(at(status, "initContainerStatuses")) {
			if sidecars[unstructured.Word(c["name"])] {
				s.restarted(c)
			}
		}
		s.run(status)
	}
	s.end(pod)
	return s
}

// sidecars returns the names of the initial containers that keep running, and counts them with the others.
func (s *podSummary) sidecars(pod any) map[string]bool {
	names := map[string]bool{}
	for _, c := range items(at(pod, "spec.initContainers")) {
		if c["restartPolicy"] == "Always" {
			names[unstructured.Word(c["name"])] = true
			s.containers++
		}
	}
	return names
}

func (s *podSummary) restarted(c map[string]any) {
	s.restarts += unstructured.Whole(c["restartCount"])
	s.lastRestart = max(s.lastRestart, unstructured.Word(at(c, "lastState.terminated.finishedAt")))
}

// initialize evaluates the initial containers, and reports whether one of them is unfinished.
func (s *podSummary) initialize(pod any, sidecars map[string]bool) (unfinished bool) {
	for i, c := range items(at(pod, "status.initContainerStatuses")) {
		s.restarted(c)
		terminated := at(c, "state.terminated")
		waiting := unstructured.Word(at(c, "state.waiting.reason"))
		switch {
		case terminated != nil && unstructured.Whole(at(terminated, "exitCode")) == 0:
			continue
		case sidecars[unstructured.Word(c["name"])] && c["started"] == true:
			if c["ready"] == true {
				s.ready++
			}
			continue
		case terminated != nil:
			s.status = "Init:" + exitReason(terminated)
		case waiting != "" && waiting != "PodInitializing":
			s.status = "Init:" + waiting
		default:
			s.status = fmt.Sprintf("Init:%d/%d", i, count(at(pod, "spec.initContainers")))
		}
		return true
	}
	return false
}

func exitReason(terminated any) string {
	if reason := unstructured.Word(at(terminated, "reason")); reason != "" {
		return reason
	}
	if signal := unstructured.Whole(at(terminated, "signal")); signal != 0 {
		return fmt.Sprintf("Signal:%d", signal)
	}
	return fmt.Sprintf("ExitCode:%d", unstructured.Whole(at(terminated, "exitCode")))
}

// run evaluates the containers. Earlier ones take precedence.
func (s *podSummary) run(status any) {
	running, failure := false, ""
	statuses := items(at(status, "containerStatuses"))
	for i := len(statuses) - 1; i >= 0; i-- {
		c := statuses[i]
		s.restarted(c)
		terminated := at(c, "state.terminated")
		waiting := unstructured.Word(at(c, "state.waiting.reason"))
		switch {
		case waiting != "":
			s.status = waiting
		case terminated != nil:
			s.status = exitReason(terminated)
			if unstructured.Whole(at(terminated, "exitCode")) != 0 {
				failure = s.status
			}
		case c["ready"] == true && at(c, "state.running") != nil:
			running = true
			s.ready++
		}
	}
	if s.status != "Completed" {
		return
	}
	switch {
	case running && isTrue(status, "Ready"):
		s.status = "Running"
	case failure != "":
		s.status = failure
	case running:
		s.status = "NotReady"
	}
}

func (s *podSummary) end(pod any) {
	if at(pod, "metadata.deletionTimestamp") == nil {
		return
	}
	phase := unstructured.Word(at(pod, "status.phase"))
	switch {
	case at(pod, "status.reason") == "NodeLost":
		s.status = "Unknown"
	case phase != "Succeeded" && phase != "Failed":
		s.status = "Terminating"
	}
}

func readinessGates(pod any) string {
	gates, passed := items(at(pod, "spec.readinessGates")), 0
	if len(gates) == 0 {
		return none
	}
	for _, gate := range gates {
		if isTrue(at(pod, "status"), unstructured.Word(gate["conditionType"])) {
			passed++
		}
	}
	return fmt.Sprintf("%d/%d", passed, len(gates))
}

func jobStatus(job any) string {
	status := at(job, "status")
	deleted := at(job, "metadata.deletionTimestamp") != nil
	switch {
	case isTrue(status, "Complete"):
		return "Complete"
	case isTrue(status, "Failed"):
		return "Failed"
	case deleted:
		return "Terminating"
	}
	for _, typ := range []string{"Suspended", "FailureTarget", "SuccessCriteriaMet"} {
		if isTrue(status, typ) {
			return typ
		}
	}
	return "Running"
}

func completions(job any) string {
	succeeded := unstructured.Whole(at(job, "status.succeeded"))
	if n, ok := rawjson.Lookup(job, "spec", "completions"); ok && n != nil {
		return fmt.Sprintf("%d/%d", succeeded, unstructured.Whole(n))
	}
	if parallel := unstructured.Whole(at(job, "spec.parallelism")); parallel > 1 {
		return fmt.Sprintf("%d/1 of %d", succeeded, parallel)
	}
	return fmt.Sprintf("%d/1", succeeded)
}

func jobDuration(status any, now time.Time) string {
	began := unstructured.Word(at(status, "startTime"))
	if began == "" {
		return ""
	}
	if done, err := time.Parse(time.RFC3339, strings.TrimSpace(unstructured.Word(at(status, "completionTime")))); err == nil {
		now = done
	}
	return age(began, now)
}
