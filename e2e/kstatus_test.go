package e2e

import (
	"cmp"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf/internal/kstatus"
	"github.com/kopf-go/kopf/internal/rawjson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatuslib "sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// This file compares the readiness of objects with the library kstatus, which defines it.

// TestKstatus evaluates random objects by both. They may differ in documented ways: kopf waits for the completion of Jobs, treats failed Pods and Jobs as
// not ready, and ignores a condition Ready of an older generation.
func TestKstatus(t *testing.T) {
	const objects = 5000
	for i, kind := range kstatusKinds {
		t.Run("RC-57 "+kind.apiVersion+" "+kind.kind, func(t *testing.T) {
			c := statusComparison{random: rand.New(rand.NewPCG(57, uint64(i))), kind: kind}
			for range objects {
				c.judge(t)
			}
			t.Logf("%d ready, %d not, of which %d are ready for kstatus", c.ready, objects-c.ready, c.differ)
			if c.ready < objects/50 || c.ready > objects*49/50 || (c.differ > objects/50) != kind.differs() {
				t.Error("the objects are too much alike, or differ without a reason")
			}
		})
	}
}

// kstatusKind specifies random objects of a kind: numbers, texts, and the types and reasons of conditions, in addition to the fields of all kinds.
type kstatusKind struct {
	apiVersion, kind string
	numbers          []string            // paths
	texts            map[string][]string // by path; an empty one is omitted
	conditions       map[string][]string // their reasons by their types
}

// differs reports whether many objects of the kind must be current for the library, and not ready for kopf.
func (k kstatusKind) differs() bool {
	_, judged := k.conditions["Ready"]
	return k.apiVersion == "batch/v1" && k.kind == "Job" || k.apiVersion == "v1" && k.kind == "Pod" || judged
}

var kstatusKinds = []kstatusKind{
	{apiVersion: "v1", kind: "ConfigMap"},
	{apiVersion: "v1", kind: "Secret"},
	{apiVersion: "v1", kind: "Namespace", texts: map[string][]string{"status.phase": {"Active", "Terminating"}}, conditions: map[string][]string{"Ready": nil}},
	{apiVersion: "v1", kind: "PersistentVolumeClaim", texts: map[string][]string{"status.phase": {"", "Pending", "Bound", "Lost"}}},
	{apiVersion: "v1", kind: "Service", texts: map[string][]string{
		"spec.type": {"", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}, "spec.clusterIP": {"", "None", "10.0.0.1"},
	}},
	{apiVersion: "v1", kind: "Pod", texts: map[string][]string{"status.phase": {"", "Pending", "Running", "Running", "Succeeded", "Failed", "Unknown"}},
		conditions: map[string][]string{"Ready": nil, "PodScheduled": {"Unschedulable", "SchedulingGated"}, "Initialized": nil}},
	deploymentOf("apps/v1"), deploymentOf("apps/v1beta2"), deploymentOf("extensions/v1beta1"), deploymentOf("example.com/v1"),
	replicaSetOf("apps/v1"), replicaSetOf("extensions/v1beta1"),
	daemonSetOf("apps/v1"), daemonSetOf("extensions/v1beta1"),
	{apiVersion: "apps/v1", kind: "StatefulSet", numbers: []string{"spec.replicas", "status.replicas", "status.readyReplicas", "status.currentReplicas", "status.updatedReplicas", "spec.updateStrategy.rollingUpdate.partition"},
		texts: map[string][]string{"spec.updateStrategy.type": {"", "RollingUpdate", "RollingUpdate", "RollingUpdate", "OnDelete"}, "status.currentRevision": {"", "a", "a", "a", "b"}, "status.updateRevision": {"", "a", "a", "a", "b"}}},
	{apiVersion: "batch/v1", kind: "CronJob"},
	{apiVersion: "batch/v1", kind: "Job", numbers: []string{"spec.parallelism", "spec.completions", "status.succeeded", "status.active", "status.failed"},
		texts: map[string][]string{"status.startTime": {"", "2030-01-02T03:04:05Z"}}, conditions: map[string][]string{"Complete": nil, "Failed": nil, "Suspended": nil, "SuccessCriteriaMet": nil}},
	{apiVersion: "policy/v1", kind: "PodDisruptionBudget", numbers: []string{"status.disruptionsAllowed"}, conditions: map[string][]string{"DisruptionAllowed": nil}},
	{apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", conditions: map[string][]string{"NamesAccepted": nil, "Established": {"Installing", "InitialNamesAccepted"}}},
	{apiVersion: "example.com/v1", kind: "Database", texts: map[string][]string{"status.phase": {"", "Pending", "Running"}}, conditions: map[string][]string{"Ready": nil, "Available": nil}},
	{apiVersion: "example.com/v1", kind: "Pod", conditions: map[string][]string{"Ready": nil}},
	{apiVersion: "example.com/v1", kind: "Job", conditions: map[string][]string{"Ready": nil, "Complete": nil}},
}

func deploymentOf(apiVersion string) kstatusKind {
	return kstatusKind{
		apiVersion: apiVersion, kind: "Deployment",
		numbers:    []string{"spec.replicas", "spec.progressDeadlineSeconds", "status.replicas", "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas"},
		conditions: map[string][]string{"Available": nil, "Progressing": {"NewReplicaSetAvailable", "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded"}},
	}
}

func replicaSetOf(apiVersion string) kstatusKind {
	return kstatusKind{
		apiVersion: apiVersion, kind: "ReplicaSet",
		numbers:    []string{"spec.replicas", "status.replicas", "status.readyReplicas", "status.availableReplicas", "status.fullyLabeledReplicas"},
		conditions: map[string][]string{"ReplicaFailure": nil},
	}
}

func daemonSetOf(apiVersion string) kstatusKind {
	return kstatusKind{
		apiVersion: apiVersion, kind: "DaemonSet",
		numbers: []string{"status.desiredNumberScheduled", "status.currentNumberScheduled", "status.updatedNumberScheduled", "status.numberAvailable", "status.numberReady"},
	}
}

// statusComparison creates objects of a kind and compares the results for them.
type statusComparison struct {
	random        *rand.Rand
	kind          kstatusKind
	ready, differ int
}

func (c *statusComparison) judge(t *testing.T) {
	t.Helper()
	raw, err := json.Marshal(c.object())
	if err != nil {
		t.Fatal(err)
	}
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	gk := object.GroupVersionKind().GroupKind()
	var h rawjson.Header
	if err := h.Scan(raw); err != nil {
		t.Fatal(err)
	}
	ready, reason := kstatus.Ready(gk.Group, gk.Kind, kstatus.Parts{Deleting: !rawjson.IsNull(h.DeletionTimestamp.Of(raw)), Metadata: h.Metadata.Of(raw), Spec: h.Spec.Of(raw), Status: h.Status.Of(raw)})
	want, err := kstatuslib.Compute(&object)
	isCurrent := err == nil && want.Status == kstatuslib.CurrentStatus
	begins, differs := "", false
	switch {
	case err != nil:
		begins = "Phase: " // the library does not know it
	case !isCurrent:
		begins = reasonOf(want)
	default:
		begins, differs = documentedDifference(&object)
	}
	if ready != (isCurrent && !differs) || ready != (reason == "") || !strings.HasPrefix(reason, begins[:min(len(begins), longestReason)]) {
		t.Fatalf("%s\ngot %t, %q, want %q by %+v, %v", raw, ready, reason, begins, want, err)
	}
	if ready {
		c.ready++
	}
	if differs {
		c.differ++
	}
}

// longestReason is the maximum length of a reason, in bytes.
const longestReason = 256

// documentedDifference returns the reason why an object is not ready for kopf although it is current for the library, and whether there is one.
func documentedDifference(object *unstructured.Unstructured) (reason string, differs bool) {
	switch gk := object.GroupVersionKind().GroupKind().String(); {
	case gk == "Pod":
		if phase, _, _ := unstructured.NestedString(object.Object, "status", "phase"); phase == "Failed" {
			return "Phase: Failed", true
		}
	case gk == "Job.batch" && hasTrue(object, "Failed"):
		return "Failed: ", true
	case gk == "Job.batch" && !hasTrue(object, "Complete"):
		return "Succeeded: ", true
	case slices.Contains(judgedByReady, gk) && isOutdated(object):
		return "Observed generation: ", true
	}
	return "", false
}

// judgedByReady are the compared kinds whose condition Ready matters.
var judgedByReady = []string{"Namespace", "Deployment.example.com", "Database.example.com", "Pod.example.com", "Job.example.com"}

// isOutdated reports whether the condition Ready is True, of an older generation.
func isOutdated(object *unstructured.Unstructured) bool {
	generation, known, _ := unstructured.NestedInt64(object.Object, "metadata", "generation")
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return known && slices.ContainsFunc(conditions, func(item any) bool {
		c, _ := item.(map[string]any)
		observed, ok := c["observedGeneration"].(int64)
		return c["type"] == any("Ready") && c["status"] == any("True") && ok && observed < generation
	})
}

// hasTrue reports whether a condition is True.
func hasTrue(object *unstructured.Unstructured, conditionType string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(item any) bool {
		c, _ := item.(map[string]any)
		return c["type"] == any(conditionType) && c["status"] == any("True")
	})
}

// reasonOf returns the prefix of kopf's reason, given the library's result for an object that is not current.
func reasonOf(result *kstatuslib.Result) string {
	if result.Status == kstatuslib.TerminatingStatus {
		return "Terminating"
	}
	condition := result.Conditions[0]
	switch condition.Reason {
	case "LessReplicas", "LessReady", "LessUpdated", "LessAvailable", "LessCurrent", "LessLabelled", "PartitionRollout", "ExtraPods":
		return strings.Replace(strings.ToUpper(result.Message[:1])+result.Message[1:], "Labelled", "Labeled", 1)
	case "JobFailed":
		_, numbers, _ := strings.Cut(result.Message, "failed: ")
		return "Failed: " + numbers
	case "ContainerCrashLooping":
		_, names, _ := strings.Cut(result.Message, ": ")
		return "CrashLoopBackOff: " + names
	}
	ours, ok := map[string]string{
		"LatestGenerationNotObserved": "Observed generation: ",
		"NoGeneration":                "Not observed",
		"NoObservedGeneration":        "Not observed",
		"NoDesiredNumber":             "Not observed",
		"ProgressDeadlineExceeded":    "ProgressDeadlineExceeded",
		"ReplicaSetNotAvailable":      "Rollout in progress",
		"DeploymentNotAvailable":      "Not available",
		"RevisionMismatch":            "Rollout in progress",
		"ReplicaFailure":              "Pods cannot be created or deleted",
		"NotBound":                    "Phase: ",
		"NoIPAssigned":                "No cluster IP",
		"PodNotObserved":              "Not observed",
		"PodRunningNotReady":          "Not ready",
		"PodNotScheduled":             "Unschedulable",
		"PodUnschedulable":            "Unschedulable",
		"PodPending":                  "Phase: Pending",
		"JobNotStarted":               "Not started",
		"Installing":                  "Not established",
	}[condition.Reason]
	if ok {
		return ours
	}
	return cmp.Or(result.Message, condition.Reason) // from a condition of the object
}

// object returns a random object. Most numbers are equal, because otherwise no object would ever be ready.
func (c *statusComparison) object() map[string]any {
	object := map[string]any{"apiVersion": c.kind.apiVersion, "kind": c.kind.kind, "metadata": map[string]any{"name": "x", "labels": map[string]any{"status": "x"}}}
	if c.random.IntN(10) > 0 {
		object["status"] = map[string]any{}
	}
	number, steady := c.random.Int64N(4), c.random.IntN(30)+1
	for _, path := range append([]string{"metadata.generation", "status.observedGeneration"}, c.kind.numbers...) {
		c.set(object, path, c.number(number, steady, !strings.Contains(strings.ToLower(path), "generation")))
	}
	for _, path := range slices.Sorted(maps.Keys(c.kind.texts)) { // for the same objects in each run
		values := c.kind.texts[path]
		if text := values[c.random.IntN(len(values))]; text != "" {
			c.set(object, path, text)
		} else if c.random.IntN(3) == 0 {
			c.set(object, path, "")
		}
	}
	if c.random.IntN(15) == 0 {
		c.set(object, "metadata.deletionTimestamp", "2030-01-02T03:04:05Z")
	}
	c.set(object, "metadata.creationTimestamp", time.Now().Add(-time.Duration(c.random.IntN(60))*time.Second).UTC().Format(time.RFC3339))
	if c.random.IntN(10) > 0 {
		c.set(object, "status.conditions", c.conditions())
	}
	if c.kind.kind == "Pod" && c.random.IntN(2) == 0 {
		c.set(object, "status.containerStatuses", c.containers())
	}
	return object
}

// number returns a number, or in a few places a value of another type that the library replaces by its default.
func (c *statusComparison) number(usual int64, steady int, mayBeOdd bool) any {
	switch {
	case c.random.IntN(steady) > 0:
		return usual
	case c.random.IntN(10) == 0:
		return nil
	case mayBeOdd && c.random.IntN(10) == 0:
		return []any{"2", 2.5, true, []any{}, map[string]any{}, json.Number("2.0"), json.Number("2e0")}[c.random.IntN(7)]
	case c.random.IntN(10) == 0:
		return []any{int64(-1), int64(1<<31 - 1), int64(1<<63 - 1)}[c.random.IntN(3)]
	}
	return c.random.Int64N(5)
}

// set sets a field. It omits the field if the value is nil, and fields of the status if there is none.
func (c *statusComparison) set(object map[string]any, path string, value any) {
	keys := strings.Split(path, ".")
	if keys[0] == "status" && object["status"] == nil || value == nil {
		return
	}
	for _, key := range keys[:len(keys)-1] {
		next, ok := object[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[key] = next
		}
		object = next
	}
	object[keys[len(keys)-1]] = value
}

// conditions returns conditions of different types, in any order.
func (c *statusComparison) conditions() []any {
	reasons := map[string][]string{"Other": nil}
	maps.Copy(reasons, c.kind.conditions)
	for _, conditionType := range []string{"Reconciling", "Stalled"} {
		if c.random.IntN(8) == 0 {
			reasons[conditionType] = nil
		}
	}
	types := slices.Sorted(maps.Keys(reasons))
	c.random.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
	list := []any{}
	for _, conditionType := range types {
		condition := map[string]any{"type": conditionType, "status": []any{"True", "True", "True", "True", "False", "Unknown", "Maybe"}[c.random.IntN(7)]}
		if words := append([]string{"", "Waiting"}, reasons[conditionType]...); c.random.IntN(4) > 0 {
			condition["reason"] = words[c.random.IntN(len(words))]
		}
		if c.random.IntN(2) == 0 {
			condition["message"] = []string{"", `the "volume" is not bound`, "é\n😀", strings.Repeat("x", 500)}[c.random.IntN(4)]
		}
		if c.random.IntN(4) == 0 {
			condition["observedGeneration"] = c.random.Int64N(4)
		}
		if c.random.IntN(8) > 0 {
			list = append(list, condition)
		}
	}
	return list
}

// containers returns statuses of containers, some of which crash.
func (c *statusComparison) containers() []any {
	list := []any{}
	for _, name := range []string{"a", "b", "c"}[:c.random.IntN(4)] {
		state := []map[string]any{{}, {"running": map[string]any{}}, {"waiting": map[string]any{}}, {"waiting": map[string]any{"reason": "ContainerCreating"}}, {"waiting": map[string]any{"reason": "CrashLoopBackOff"}}}
		list = append(list, map[string]any{"name": name, "state": state[c.random.IntN(len(state))]})
	}
	return list
}
