// Package readiness tells from the status of objects whether they do what their specs ask for, as "kubectl wait" and "kubectl rollout status" do.
package readiness

import (
	"encoding/json"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Of reports whether an object is ready. One of a kind that is not known is, unless it has a condition Ready or Available that is not true.
func Of(group, kind string, content map[string]any) bool {
	metadata := rawjson.AsMap(content["metadata"])
	o := object{spec: rawjson.AsMap(content["spec"]), status: rawjson.AsMap(content["status"]), metadata: metadata}
	if metadata["deletionTimestamp"] != nil {
		return false
	}
	if o.outdated(o.status) {
		return false
	}
	if ready, known := o.ready(group, kind); known {
		return ready
	}
	for _, name := range []string{"Ready", "Available"} {
		if status, ok := o.conditionStatus(name); ok {
			return status == "True"
		}
	}
	return true
}

// ready reports whether an object of a kind whose readiness is more than a condition is ready, and whether the kind is one of those.
func (o object) ready(group, kind string) (ready, known bool) {
	switch [2]string{group, kind} {
	case [2]string{"", "Pod"}:
		return o.text("phase") == "Succeeded" || o.condition("Ready"), true
	case [2]string{"", "Namespace"}:
		return o.text("phase") == "Active", true
	case [2]string{"", "PersistentVolume"}:
		return o.text("phase") == "Bound" || o.text("phase") == "Available", true
	case [2]string{"", "PersistentVolumeClaim"}:
		return o.text("phase") == "Bound", true
	case [2]string{"", "ReplicationController"}, [2]string{"apps", "ReplicaSet"}:
		return replicaSet(o), true
	case [2]string{"", "Service"}:
		return service(o), true
	case [2]string{"apps", "Deployment"}:
		return deployment(o), true
	case [2]string{"apps", "DaemonSet"}:
		return daemonSet(o), true
	case [2]string{"apps", "StatefulSet"}:
		return statefulSet(o), true
	case [2]string{"batch", "Job"}:
		return o.condition("Complete") || o.condition("SuccessCriteriaMet"), true
	case [2]string{"apiextensions.k8s.io", "CustomResourceDefinition"}:
		return o.condition("Established"), true
	case [2]string{"apiregistration.k8s.io", "APIService"}:
		return o.condition("Available"), true
	}
	return false, false
}

// object is a decoded object.
type object struct{ metadata, spec, status map[string]any }

func (o object) text(field string) string {
	text, _ := o.status[field].(string)
	return text
}

// count returns a number of the status, zero if it is missing.
func (o object) count(field string) int64 {
	n, _ := number(o.status[field])
	return n
}

// replicas returns how many are wanted.
func (o object) replicas() int64 {
	if n, ok := number(o.spec["replicas"]); ok {
		return n
	}
	return 1
}

func (o object) condition(name string) bool {
	status, _ := o.conditionStatus(name)
	return status == "True"
}

// outdated reports whether a status or a condition says that it is about an older spec than that of now.
func (o object) outdated(observed map[string]any) bool {
	seen, ok := number(observed["observedGeneration"])
	newest, known := number(o.metadata["generation"])
	return ok && known && seen < newest
}

// conditionStatus returns the status of a condition, and whether there is such a condition. That of an outdated one is unknown, as for "kubectl wait".
func (o object) conditionStatus(name string) (status string, ok bool) {
	list, _ := o.status["conditions"].([]any)
	for _, item := range list {
		if c := rawjson.AsMap(item); c["type"] == any(name) {
			if o.outdated(c) {
				return "Unknown", true
			}
			status, _ = c["status"].(string)
			return status, true
		}
	}
	return "", false
}

func number(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

func service(o object) bool {
	if o.spec["type"] != any("LoadBalancer") {
		return true
	}
	ingress, _ := rawjson.AsMap(o.status["loadBalancer"])["ingress"].([]any)
	return len(ingress) > 0
}

func deployment(o object) bool {
	updated := o.count("updatedReplicas")
	return observed(o) && updated >= o.replicas() && o.count("replicas") <= updated && o.count("availableReplicas") >= updated
}

func daemonSet(o object) bool {
	wanted := o.count("desiredNumberScheduled")
	return observed(o) && o.count("updatedNumberScheduled") >= wanted && o.count("numberAvailable") >= wanted
}

func replicaSet(o object) bool { return observed(o) && o.count("readyReplicas") >= o.replicas() }

func statefulSet(o object) bool {
	strategy := rawjson.AsMap(o.spec["updateStrategy"])
	partition, _ := number(rawjson.AsMap(strategy["rollingUpdate"])["partition"])
	if !observed(o) || o.count("readyReplicas") < o.replicas() || o.count("updatedReplicas") < o.replicas()-partition && strategy["type"] != any("OnDelete") {
		return false
	}
	return partition > 0 || strategy["type"] == any("OnDelete") || o.text("currentRevision") == o.text("updateRevision")
}

// observed reports whether a controller has written a status.
func observed(o object) bool {
	_, ok := number(o.status["observedGeneration"])
	return ok
}
