package readiness

import (
	"testing"

	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		name, group, kind, object string
		want                      bool
	}{
		{"a config map", "", "ConfigMap", `{"data":{}}`, true},
		{"being deleted", "", "ConfigMap", `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`, false},
		{"a new pod", "", "Pod", `{"status":{"phase":"Pending"}}`, false},
		{"a running pod", "", "Pod", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}}`, false},
		{"a ready pod", "", "Pod", `{"status":{"phase":"Running","conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"True"}]}}`, true},
		{"a pod that is done", "", "Pod", `{"status":{"phase":"Succeeded","conditions":[{"type":"Ready","status":"False"}]}}`, true},
		{"a new deployment", "apps", "Deployment", `{"metadata":{"generation":1},"spec":{"replicas":2}}`, false},
		{"an outdated deployment", "apps", "Deployment", `{"metadata":{"generation":2},"spec":{"replicas":1},"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":1}}`, false},
		{"a deployment on its way", "apps", "Deployment", `{"metadata":{"generation":2},"spec":{"replicas":1},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":1,"availableReplicas":1}}`, false},
		{"a ready deployment", "apps", "Deployment", `{"metadata":{"generation":2},"status":{"observedGeneration":2,"replicas":1,"updatedReplicas":1,"availableReplicas":1}}`, true},
		{"a deployment of none", "apps", "Deployment", `{"metadata":{"generation":2},"spec":{"replicas":0},"status":{"observedGeneration":2}}`, true},
		{"a kind of the same name in another group", "example.com", "Deployment", `{"spec":{"replicas":2}}`, true},
		{"a daemon set", "apps", "DaemonSet", `{"status":{"observedGeneration":1,"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":1}}`, false},
		{"a ready daemon set", "apps", "DaemonSet", `{"status":{"observedGeneration":1,"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":2}}`, true},
		{"a stateful set", "apps", "StatefulSet", `{"spec":{"replicas":2},"status":{"observedGeneration":1,"readyReplicas":2,"updatedReplicas":1,"currentRevision":"a","updateRevision":"b"}}`, false},
		{"a ready stateful set", "apps", "StatefulSet", `{"spec":{"replicas":2},"status":{"observedGeneration":1,"readyReplicas":2,"updatedReplicas":2,"currentRevision":"b","updateRevision":"b"}}`, true},
		{"a partitioned stateful set", "apps", "StatefulSet", `{"spec":{"replicas":2,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1}}},"status":{"observedGeneration":1,"readyReplicas":2,"updatedReplicas":1,"currentRevision":"a","updateRevision":"b"}}`, true},
		{"a stateful set that waits for deletions", "apps", "StatefulSet", `{"spec":{"updateStrategy":{"type":"OnDelete"}},"status":{"observedGeneration":1,"readyReplicas":1,"currentRevision":"a","updateRevision":"b"}}`, true},
		{"a replica set", "apps", "ReplicaSet", `{"spec":{"replicas":1},"status":{"observedGeneration":1}}`, false},
		{"a job", "batch", "Job", `{"status":{"active":1}}`, false},
		{"a complete job", "batch", "Job", `{"status":{"conditions":[{"type":"Complete","status":"True"}]}}`, true},
		{"a failed job", "batch", "Job", `{"status":{"conditions":[{"type":"Failed","status":"True"}]}}`, false},
		{"a claim", "", "PersistentVolumeClaim", `{"status":{"phase":"Pending"}}`, false},
		{"a bound claim", "", "PersistentVolumeClaim", `{"status":{"phase":"Bound"}}`, true},
		{"a service", "", "Service", `{"spec":{"type":"ClusterIP"}}`, true},
		{"a load balancer", "", "Service", `{"spec":{"type":"LoadBalancer"},"status":{"loadBalancer":{}}}`, false},
		{"a load balancer with an address", "", "Service", `{"spec":{"type":"LoadBalancer"},"status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.1"}]}}}`, true},
		{"a definition", "apiextensions.k8s.io", "CustomResourceDefinition", `{"status":{"conditions":[{"type":"NamesAccepted","status":"True"}]}}`, false},
		{"a custom resource", "example.com", "Widget", `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`, false},
		{"a ready custom resource", "example.com", "Widget", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, true},
		{"a condition of an older generation", "example.com", "Widget", `{"metadata":{"generation":5},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":4}]}}`, false},
		{"a condition of this generation", "example.com", "Widget", `{"metadata":{"generation":5},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":5}]}}`, true},
		{"an available one of an older generation", "example.com", "Widget", `{"metadata":{"generation":5},"status":{"conditions":[{"type":"Available","status":"True","observedGeneration":4}]}}`, false},
		{"a job that was complete in an older generation", "batch", "Job", `{"metadata":{"generation":5},"status":{"conditions":[{"type":"Complete","status":"True","observedGeneration":4}]}}`, false},
		{"nonsense", "apps", "Deployment", `{"metadata":[],"spec":"x","status":{"observedGeneration":"x","conditions":{}}}`, false},
	} {
		content, err := rawjson.DecodeObject([]byte(tt.object))
		if err != nil {
			t.Fatal(err)
		}
		if got := Of(tt.group, tt.kind, content); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}
