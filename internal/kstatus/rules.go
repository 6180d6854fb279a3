package kstatus

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// groupKind is a kind in all versions.
type groupKind struct{ group, kind string }

// ruleOf returns the rule of a kind, which returns why an object is not ready, or "". It is not a map, because the linker could not remove that from programs
// without a call.
func ruleOf(gk groupKind) func(object) string {
	switch gk {
	case groupKind{"", "ConfigMap"}, groupKind{"", "Secret"}, groupKind{"batch", "CronJob"}, groupKind{"policy", "PodDisruptionBudget"}:
		return always
	case groupKind{"", "PersistentVolumeClaim"}:
		return claim
	case groupKind{"", "Pod"}:
		return pod
	case groupKind{"", "Service"}:
		return service
	case groupKind{"apps", "DaemonSet"}, groupKind{"extensions", "DaemonSet"}:
		return daemonSet
	case groupKind{"apps", "Deployment"}, groupKind{"extensions", "Deployment"}:
		return deployment
	case groupKind{"apps", "ReplicaSet"}, groupKind{"extensions", "ReplicaSet"}:
		return replicaSet
	case groupKind{"apps", "StatefulSet"}:
		return statefulSet
	case groupKind{"batch", "Job"}:
		return job
	case groupKind{"apiextensions.k8s.io", "CustomResourceDefinition"}:
		return definition
	}
	return readyCondition
}

// always is the rule for kinds that are ready when their controller, if any, has observed them.
func always(object) string { return "" }

// below returns a reason if there are fewer than required.
func below(what string, have, want int64) string {
	if have >= want {
		return ""
	}
	return ratio(what, have, want)
}

// above returns a reason if there are still too many Pods.
func above(have, want int64) string {
	if have <= want {
		return ""
	}
	return "Pending termination: " + strconv.FormatInt(have-want, 10)
}

// unless returns the reason if the condition is false.
func unless(holds bool, reason string) string {
	if holds {
		return ""
	}
	return reason
}

// replicas returns the requested number of replicas.
func (o object) replicas() int64 { return integerOr(1, o.Spec, "replicas") }

// count returns a number in the status.
func (o object) count(key string) int64 { return integerOr(0, o.Status, key) }

// deployment waits for the rollout. The controller sets the Progressing condition only for Deployments with a deadline. The largest int32 means no deadline.
func deployment(o object) string {
	deadline := integerOr(math.MaxInt32, o.Spec, "progressDeadlineSeconds")
	rolledOut, available, late := deadline == math.MaxInt32, false, false
	o.eachCondition(func(c condition) bool {
		rolledOut = rolledOut || c.is("Progressing", "True") && textIs(c, "reason", "NewReplicaSetAvailable")
		available = available || c.is("Available", "True")
		late = late || textIs(c, "type", "Progressing") && textIs(c, "reason", "ProgressDeadlineExceeded")
		return true
	})
	want, updated := o.replicas(), o.count("updatedReplicas")
	return cmp.Or(
		unless(!late, "ProgressDeadlineExceeded"),
		below("Replicas", o.count("replicas"), want),
		below("Updated", updated, want),
		above(o.count("replicas"), want),
		below("Available", o.count("availableReplicas"), updated),
		below("Ready", o.count("readyReplicas"), want),
		unless(rolledOut, "Rollout in progress"),
		unless(available, "Not available"),
	)
}

func replicaSet(o object) string {
	want := o.replicas()
	return cmp.Or(
		unless(!o.hasCondition("ReplicaFailure", "True"), "Pods cannot be created or deleted"),
		below("Labeled", o.count("fullyLabeledReplicas"), want),
		below("Available", o.count("availableReplicas"), want),
		below("Ready", o.count("readyReplicas"), want),
		above(o.count("replicas"), want),
	)
}

// statefulSet waits for the rollout. With the OnDelete strategy, users perform the rollout. With a partition, it ends there.
func statefulSet(o object) string {
	strategy, _ := rawjson.Find(o.Spec, "updateStrategy")
	if textIs(strategy, "type", "OnDelete") {
		return ""
	}
	want := o.replicas()
	if reason := cmp.Or(
		below("Replicas", o.count("replicas"), want),
		below("Ready", o.count("readyReplicas"), want),
		above(o.count("replicas"), want),
	); reason != "" {
		return reason
	}
	if partition := integerOr(-1, strategy, "rollingUpdate", "partition"); partition != -1 {
		return below("Updated", o.count("updatedReplicas"), want-partition)
	}
	current, _ := rawjson.Find(o.Status, "currentRevision")
	updated, _ := rawjson.Find(o.Status, "updateRevision")
	return cmp.Or(
		below("Current", o.count("currentReplicas"), want),
		unless(sameText(current, updated), "Rollout in progress"),
	)
}

// sameText reports whether two values are equal strings. Other values count as empty.
func sameText(a, b []byte) bool {
	if !isText(a) || !isText(b) {
		return !isText(a) && !isText(b)
	}
	return string(a) == string(b) || rawjson.Unquote(a) == rawjson.Unquote(b)
}

// daemonSet requires that the controller has observed the object, because all numbers are zero otherwise.
func daemonSet(o object) string {
	_, created := integer(o.Metadata, "generation")
	_, observed := integer(o.Status, "observedGeneration")
	want, scheduled := integer(o.Status, "desiredNumberScheduled")
	if !created || !observed || !scheduled || want == -1 {
		return "Not observed"
	}
	return cmp.Or(
		below("Current", o.count("currentNumberScheduled"), want),
		below("Updated", o.count("updatedNumberScheduled"), want),
		below("Available", o.count("numberAvailable"), want),
		below("Ready", o.count("numberReady"), want),
	)
}

func claim(o object) string {
	if textIs(o.Status, "phase", "Bound") {
		return ""
	}
	return "Phase: " + cmp.Or(rawjson.StringAt(o.Status, "phase"), "none")
}

// service waits only for the cluster IP, because load balancers depend on the provider.
func service(o object) string {
	address, _ := rawjson.Find(o.Spec, "clusterIP")
	return unless(isText(address) || !textIs(o.Spec, "type", "LoadBalancer"), "No cluster IP")
}

// pod waits until a Pod is ready, or has succeeded.
func pod(o object) string {
	phase, _ := rawjson.Find(o.Status, "phase")
	switch {
	case textIs(o.Status, "phase", "Succeeded"):
		return ""
	case textIs(o.Status, "phase", "Running"):
		return runningPod(o)
	case !isText(phase):
		return "Not observed"
	case o.isUnschedulable():
		return "Unschedulable"
	}
	return "Phase: " + rawjson.Unquote(phase)
}

func (o object) isUnschedulable() bool {
	found := false
	o.eachCondition(func(c condition) bool {
		found = c.is("PodScheduled", "False") && textIs(c, "reason", "Unschedulable")
		return !found
	})
	return found && textIs(o.Status, "phase", "Pending")
}

func runningPod(o object) string {
	if o.hasCondition("Ready", "True") {
		return ""
	}
	var crashing []string
	statuses, _ := rawjson.Find(o.Status, "containerStatuses")
	_ = rawjson.EachItem(statuses, func(container []byte) bool { // malformed items are ignored
		waiting, _ := rawjson.Find(container, "state", "waiting")
		if textIs(waiting, "reason", "CrashLoopBackOff") {
			crashing = append(crashing, rawjson.StringAt(container, "name"))
		}
		return len(crashing) < maxReason // more would not fit into the reason
	})
	if crashing == nil {
		return "Not ready"
	}
	return "CrashLoopBackOff: " + strings.Join(crashing, ",")
}

// job waits for the completion.
func job(o object) string {
	complete, failed := o.hasCondition("Complete", "True"), o.hasCondition("Failed", "True")
	if complete && !failed {
		return ""
	}
	started, _ := rawjson.Find(o.Status, "startTime")
	want := integerOr(integerOr(1, o.Spec, "parallelism"), o.Spec, "completions")
	switch {
	case failed:
		return ratio("Failed", o.count("failed"), want)
	case !isText(started):
		return "Not started"
	}
	return ratio("Succeeded", o.count("succeeded"), want)
}

// definition waits until the API server serves the kind.
func definition(o object) string {
	reason := "Not established"
	o.eachCondition(func(c condition) bool {
		switch {
		case c.is("NamesAccepted", "False"):
			reason = c.text("Names not accepted")
		case c.is("Established", "False") && !textIs(c, "reason", "Installing"):
			reason = c.text(reason)
		case c.is("Established", "True"):
			reason = ""
		default:
			return true
		}
		return false
	})
	return reason
}
