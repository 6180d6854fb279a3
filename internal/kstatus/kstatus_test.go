package kstatus

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// verdict is the expected result for an object: it is ready if the reason is "".
type verdict struct{ name, object, reason string }

// TestReady has a table for each kind with a rule, by group and kind, and one for all kinds with the key "/Any".
func TestReady(t *testing.T) {
	for groupAndKind, table := range map[string][]verdict{
		"/Any": {
			{"exists", `{}`, ""},
			{"has white space", " {\n\"metadata\" : { \"deletionTimestamp\" : \"2030-01-01T00:00:00Z\" } }\n", "Terminating"},
			{"being deleted", `{"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z","generation":2},"status":{"observedGeneration":1}}`, "Terminating"},
			{"deletion is null", `{"metadata":{"deletionTimestamp":null}}`, ""},
			{"generation not observed", `{"metadata":{"generation":2},"status":{"observedGeneration":1}}`, "Observed generation: 1/2"},
			{"generation observed", `{"metadata":{"generation":2},"status":{"observedGeneration":2}}`, ""},
			{"no observed generation", `{"metadata":{"generation":2},"status":{}}`, ""},
			{"no generation", `{"status":{"observedGeneration":2}}`, ""},
			{"the last of equal keys", `{"metadata":{"generation":2,"generation":3},"status":{"observedGeneration":3}}`, ""},
			{"reconciling", `{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Reconciling","status":"True","reason":"R","message":"m"}]}}`, "m"},
			{"stalled before reconciling", `{"status":{"conditions":[{"type":"Stalled","status":"True","reason":"R"},{"type":"Reconciling","status":"True","message":"m"}]}}`, "R"},
			{"stalled without a word", `{"status":{"conditions":[{"type":"Stalled","status":"True"}]}}`, "Stalled"},
			{"not reconciling", `{"status":{"conditions":[{"type":"Reconciling","status":"False"},{"type":"Stalled","status":"Unknown"}]}}`, ""},
			{"ready", `{"status":{"conditions":[{"type":"Ready","status":"True","message":"m"}]}}`, ""},
			{"ready in an older generation", `{"metadata":{"generation":5},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":4}]}}`, "Observed generation: 4/5"},
			{"ready in this generation", `{"metadata":{"generation":5},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":5}]}}`, ""},
			{"not ready in an older generation", `{"metadata":{"generation":5},"status":{"conditions":[{"type":"Ready","status":"False","message":"m","observedGeneration":4}]}}`, "m"},
			{"ready without a generation", `{"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":4}]}}`, ""},
			{"not ready", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"R","message":"waits for \"x\""}]}}`, `waits for "x"`},
			{"ready is unknown", `{"status":{"conditions":[{"type":"Ready","status":"Unknown","message":""}]}}`, "Not ready"},
			{"ready is another word", `{"status":{"conditions":[{"type":"Ready","status":"Perhaps"}]}}`, ""},
			{"escaped", `{"status":{"\u0063onditions":[{"t\u0079pe":"\u0052eady","status":"Fals\u0065","message":"\u00e9"}]}}`, "é"},
			{"conditions of another type", `{"status":{"conditions":{"Ready":{"status":"False"}}}}`, ""},
			{"a status of another type", `{"status":"Ready"}`, ""},
			{"items of another type", `{"status":{"conditions":[1,null,"Ready",["Ready"],{"type":1,"status":true},{"type":"Ready","status":"False"}]}}`, "Not ready"},
			{"a long message", `{"status":{"conditions":[{"type":"Ready","status":"False","message":"a` + strings.Repeat("é", maxReason) + `"}]}}`, "a" + strings.Repeat("é", maxReason/2-1)},
		},
		"/ConfigMap": {
			{"exists", `{"data":{}}`, ""},
			{"has no condition Ready", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, ""},
			{"being deleted", `{"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z"}}`, "Terminating"},
		},
		"/Secret":       {{"exists", `{"data":{}}`, ""}},
		"batch/CronJob": {{"exists", `{"spec":{"schedule":"* * * * *"}}`, ""}},
		"policy/PodDisruptionBudget": {
			{"observed", `{"metadata":{"generation":1},"status":{"observedGeneration":1}}`, ""},
			{"not observed", `{"metadata":{"generation":1},"status":{"observedGeneration":0}}`, "Observed generation: 0/1"},
		},
		"/PersistentVolumeClaim": {
			{"bound", `{"status":{"phase":"Bound"}}`, ""},
			{"pending", `{"status":{"phase":"Pending"}}`, "Phase: Pending"},
			{"new", `{}`, "Phase: none"},
		},
		"/Service": {
			{"of the cluster", `{"spec":{"clusterIP":"10.0.0.1"}}`, ""},
			{"without an address", `{"spec":{"type":"ExternalName"}}`, ""},
			{"load balancer", `{"spec":{"type":"LoadBalancer","clusterIP":"10.0.0.1"}}`, ""},
			{"load balancer without an address", `{"spec":{"type":"LoadBalancer","clusterIP":""}}`, "No cluster IP"},
		},
		"/Pod": {
			{"new", `{"status":{}}`, "Not observed"},
			{"pending", `{"status":{"phase":"Pending"}}`, "Phase: Pending"},
			{"unschedulable", `{"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}`, "Unschedulable"},
			{"gated", `{"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"SchedulingGated"}]}}`, "Phase: Pending"},
			{"running", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}}`, "Not ready"},
			{"ready", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, ""},
			{"crashing", `{"status":{"phase":"Running","containerStatuses":[{"name":"a","state":{"waiting":{"reason":"CrashLoopBackOff"}}},{"name":"b","state":{"running":{}}},
				{"name":"c","state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`, "CrashLoopBackOff: a,c"},
			{"succeeded", `{"status":{"phase":"Succeeded"}}`, ""},
			{"failed", `{"status":{"phase":"Failed"}}`, "Phase: Failed"},
			{"unknown", `{"status":{"phase":"Unknown"}}`, "Phase: Unknown"},
		},
		"batch/Job": {
			{"new", `{"spec":{"completions":3}}`, "Not started"},
			{"running", `{"spec":{"completions":3},"status":{"startTime":"2030-01-01T00:00:00Z","active":1,"succeeded":1}}`, "Succeeded: 1/3"},
			{"running in parallel", `{"spec":{"parallelism":2},"status":{"startTime":"2030-01-01T00:00:00Z"}}`, "Succeeded: 0/2"},
			{"complete", `{"status":{"startTime":"2030-01-01T00:00:00Z","conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}`, ""},
			{"failed", `{"status":{"failed":7,"conditions":[{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"True"}]}}`, "Failed: 7/1"},
			{"not complete", `{"status":{"conditions":[{"type":"Complete","status":"False"},{"type":"Failed","status":"False"}]}}`, "Not started"},
		},
		"apps/Deployment": {
			{"new", `{"spec":{"replicas":3}}`, "Replicas: 0/3"},
			{"one replica is the default", `{}`, "Replicas: 0/1"},
			{"updating", `{"spec":{"replicas":3},"status":{"replicas":3,"updatedReplicas":1,"availableReplicas":3,"readyReplicas":3}}`, "Updated: 1/3"},
			{"old ones", `{"spec":{"replicas":3},"status":{"replicas":4,"updatedReplicas":3,"availableReplicas":3,"readyReplicas":3}}`, "Pending termination: 1"},
			{"not available", `{"spec":{"replicas":3},"status":{"replicas":3,"updatedReplicas":3,"availableReplicas":2,"readyReplicas":3}}`, "Available: 2/3"},
			{"not ready", `{"spec":{"replicas":3},"status":{"replicas":3,"updatedReplicas":3,"availableReplicas":3,"readyReplicas":1}}`, "Ready: 1/3"},
			{"without its condition", `{"spec":{"replicas":0}}`, "Not available"},
			{"available", `{"spec":{"replicas":0},"status":{"conditions":[{"type":"Available","status":"True"}]}}`, ""},
			{"with a deadline", `{"spec":{"replicas":0,"progressDeadlineSeconds":600},"status":{"conditions":[{"type":"Available","status":"True"}]}}`, "Rollout in progress"},
			{"rolled out", `{"spec":{"replicas":0,"progressDeadlineSeconds":600},"status":{"conditions":[{"type":"Available","status":"True"},
				{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`, ""},
			{"with no deadline", `{"spec":{"replicas":0,"progressDeadlineSeconds":2147483647},"status":{"conditions":[{"type":"Available","status":"True"}]}}`, ""},
			{"late", `{"spec":{"replicas":3},"status":{"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}}`, "ProgressDeadlineExceeded"},
			{"numbers of another type", `{"spec":{"replicas":"3"},"status":{"replicas":1.0}}`, "Replicas: 0/1"},
		},
		"apps/ReplicaSet": {
			{"failing", `{"status":{"conditions":[{"type":"ReplicaFailure","status":"True"}]}}`, "Pods cannot be created or deleted"},
			{"new", `{"spec":{"replicas":2}}`, "Labeled: 0/2"},
			{"not available", `{"spec":{"replicas":2},"status":{"fullyLabeledReplicas":2,"availableReplicas":1}}`, "Available: 1/2"},
			{"not ready", `{"spec":{"replicas":2},"status":{"fullyLabeledReplicas":2,"availableReplicas":2,"readyReplicas":1}}`, "Ready: 1/2"},
			{"too many", `{"spec":{"replicas":0},"status":{"replicas":2}}`, "Pending termination: 2"},
			{"ready", `{"status":{"replicas":1,"fullyLabeledReplicas":1,"availableReplicas":1,"readyReplicas":1}}`, ""},
		},
		"apps/StatefulSet": {
			{"rolled out by hand", `{"spec":{"updateStrategy":{"type":"OnDelete"}}}`, ""},
			{"new", `{"spec":{"replicas":2}}`, "Replicas: 0/2"},
			{"not ready", `{"spec":{"replicas":2},"status":{"replicas":2,"readyReplicas":1}}`, "Ready: 1/2"},
			{"too many", `{"spec":{"replicas":1},"status":{"replicas":2,"readyReplicas":2}}`, "Pending termination: 1"},
			{"before the partition", `{"spec":{"replicas":3,"updateStrategy":{"rollingUpdate":{"partition":1}}},"status":{"replicas":3,"readyReplicas":3,"updatedReplicas":1}}`, "Updated: 1/2"},
			{"at the partition", `{"spec":{"replicas":3,"updateStrategy":{"rollingUpdate":{"partition":1}}},"status":{"replicas":3,"readyReplicas":3,"updatedReplicas":2}}`, ""},
			{"old ones", `{"status":{"replicas":1,"readyReplicas":1,"currentReplicas":0}}`, "Current: 0/1"},
			{"two revisions", `{"status":{"replicas":1,"readyReplicas":1,"currentReplicas":1,"currentRevision":"a","updateRevision":"b"}}`, "Rollout in progress"},
			{"one revision", `{"status":{"replicas":1,"readyReplicas":1,"currentReplicas":1,"currentRevision":"a","updateRevision":"\u0061"}}`, ""},
			{"no revision", `{"status":{"replicas":1,"readyReplicas":1,"currentReplicas":1,"updateRevision":null}}`, ""},
		},
		"apps/DaemonSet": {
			{"new", `{"metadata":{"generation":1}}`, "Not observed"},
			{"without a generation", `{"status":{"observedGeneration":1,"desiredNumberScheduled":0}}`, "Not observed"},
			{"without a number", `{"metadata":{"generation":1},"status":{"observedGeneration":1}}`, "Not observed"},
			{"too few", daemons(`"desiredNumberScheduled":3,"currentNumberScheduled":2`), "Current: 2/3"},
			{"updating", daemons(`"desiredNumberScheduled":3,"currentNumberScheduled":3,"updatedNumberScheduled":1`), "Updated: 1/3"},
			{"not available", daemons(`"desiredNumberScheduled":3,"currentNumberScheduled":3,"updatedNumberScheduled":3`), "Available: 0/3"},
			{"not ready", daemons(`"desiredNumberScheduled":3,"currentNumberScheduled":3,"updatedNumberScheduled":3,"numberAvailable":3,"numberReady":2`), "Ready: 2/3"},
			{"ready", daemons(`"desiredNumberScheduled":1,"currentNumberScheduled":1,"updatedNumberScheduled":1,"numberAvailable":1,"numberReady":1`), ""},
			{"without nodes", daemons(`"desiredNumberScheduled":0`), ""},
		},
		"apiextensions.k8s.io/CustomResourceDefinition": {
			{"new", `{}`, "Not established"},
			{"names in conflict", `{"status":{"conditions":[{"type":"NamesAccepted","status":"False","message":"m"},{"type":"Established","status":"False"}]}}`, "m"},
			{"installing", `{"status":{"conditions":[{"type":"Established","status":"False","reason":"Installing","message":"m"}]}}`, "Not established"},
			{"failed", `{"status":{"conditions":[{"type":"Established","status":"False","reason":"R"}]}}`, "R"},
			{"established", `{"status":{"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}]}}`, ""},
		},
		"example.com/Deployment": {{"is no Deployment of Kubernetes", `{"spec":{"replicas":3}}`, ""}},
		"extensions/Deployment":  {{"new", `{"spec":{"replicas":3}}`, "Replicas: 0/3"}},
	} {
		group, kind, _ := strings.Cut(groupAndKind, "/")
		t.Run("RC-57 "+groupAndKind, func(t *testing.T) {
			for _, tt := range table {
				ready, reason := Ready(group, kind, parts([]byte(tt.object)))
				if ready != (tt.reason == "") || reason != tt.reason {
					t.Errorf("%s: got %t, %q, want %q", tt.name, ready, reason, tt.reason)
				}
			}
		})
	}
}

// parts returns the parts of an object, as far as they are not malformed.
func parts(object []byte) Parts {
	var h rawjson.Header
	_ = h.Scan(object)
	return Parts{Deleting: !rawjson.IsNull(h.DeletionTimestamp.Of(object)), Metadata: h.Metadata.Of(object), Spec: h.Spec.Of(object), Status: h.Status.Of(object)}
}

// daemons returns a DaemonSet that its controller has observed, with the given numbers.
func daemons(numbers string) string {
	return `{"metadata":{"generation":2},"status":{"observedGeneration":2,` + numbers + `}}`
}

// readyObjects has a ready object of each kind, by group and kind.
var readyObjects = map[groupKind]string{
	{"", "ConfigMap"}:                 `{"data":{"a":"b"}}`,
	{"", "PersistentVolumeClaim"}:     `{"status":{"phase":"Bound"}}`,
	{"", "Pod"}:                       `{"status":{"phase":"Running","conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"True"}]}}`,
	{"", "Secret"}:                    `{"data":{"a":"Yg=="}}`,
	{"", "Service"}:                   `{"spec":{"type":"LoadBalancer","clusterIP":"10.0.0.1"}}`,
	{"apps", "DaemonSet"}:             daemons(`"desiredNumberScheduled":1,"currentNumberScheduled":1,"updatedNumberScheduled":1,"numberAvailable":1,"numberReady":1`),
	{"apps", "Deployment"}:            `{"metadata":{"generation":3},"spec":{"replicas":2,"progressDeadlineSeconds":600,"template":{"spec":{"containers":[{"name":"a","image":"a:1"}]}}},"status":{"observedGeneration":3,"replicas":2,"updatedReplicas":2,"availableReplicas":2,"readyReplicas":2,"conditions":[{"type":"Available","status":"True","reason":"MinimumReplicasAvailable"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`,
	{"apps", "ReplicaSet"}:            `{"spec":{"replicas":2},"status":{"replicas":2,"fullyLabeledReplicas":2,"availableReplicas":2,"readyReplicas":2}}`,
	{"apps", "StatefulSet"}:           `{"spec":{"replicas":2},"status":{"replicas":2,"readyReplicas":2,"currentReplicas":2,"currentRevision":"a","updateRevision":"a"}}`,
	{"batch", "CronJob"}:              `{"spec":{"schedule":"* * * * *"}}`,
	{"batch", "Job"}:                  `{"spec":{"completions":2},"status":{"startTime":"2030-01-01T00:00:00Z","succeeded":2,"conditions":[{"type":"Complete","status":"True"}]}}`,
	{"policy", "PodDisruptionBudget"}: `{"metadata":{"generation":3},"status":{"observedGeneration":3}}`,
	{"apiextensions.k8s.io", "CustomResourceDefinition"}: `{"status":{"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}]}}`,
	{"example.com", "Database"}:                          `{"metadata":{"generation":3},"status":{"observedGeneration":3,"conditions":[{"type":"Ready","status":"True"}]}}`,
}

// TestReadyAllocations checks that ready objects, the common case, cause no allocations.
func TestReadyAllocations(t *testing.T) {
	for gk, text := range readyObjects {
		object := parts([]byte(text))
		if ready, reason := Ready(gk.group, gk.kind, object); !ready {
			t.Errorf("%s is not ready: %s", gk.kind, reason)
		}
		if n := testing.AllocsPerRun(100, func() { Ready(gk.group, gk.kind, object) }); n != 0 {
			t.Errorf("%s: got %v allocations, want none", gk.kind, n)
		}
	}
}

func BenchmarkReady(b *testing.B) {
	for _, gk := range []groupKind{{"apps", "Deployment"}, {"", "Pod"}, {"example.com", "Database"}} {
		b.Run(gk.kind, func(b *testing.B) {
			object := parts([]byte(readyObjects[gk]))
			b.ReportAllocs()
			for b.Loop() {
				Ready(gk.group, gk.kind, object)
			}
		})
	}
}

// FuzzReady checks arbitrary objects.
func FuzzReady(f *testing.F) {
	for gk, object := range readyObjects {
		f.Add(gk.group, gk.kind, object)
	}
	f.Add("", "Pod", `{"status":{"phase":"Running","containerStatuses":[{"name":"a","state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`)
	f.Add("", "Thing", `{"status":{"conditions":[{"type":"R\u0065ady","status":"False","message":"\ud800"}]}}`)
	f.Add("", "Thing", `{"status":{"conditions":[{"type":"`)
	f.Fuzz(func(t *testing.T, group, kind, text string) {
		object := []byte(text)
		ready, reason := Ready(group, kind, parts(object))
		if ready != (reason == "") || len(reason) > maxReason || !utf8.ValidString(reason) {
			t.Fatalf("got %t, %q", ready, reason)
		}
		decoded, err := rawjson.DecodeObject(object)
		if err != nil || !utf8.Valid(object) {
			return
		}
		encoded, err := rawjson.Encode(decoded)
		if err != nil {
			t.Fatal(err)
		}
		if _, again := Ready(group, kind, parts(encoded)); again != reason {
			t.Fatalf("got %q, and of the object as kopf writes it %q", reason, again)
		}
	})
}
