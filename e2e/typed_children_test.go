package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// This file declares children by the structs of k8s.io/api. Their JSON contains unintended fields: "creationTimestamp": null, "status": {}, "strategy": {},
// "resources": {}, and null for missing lists.

func TestTypedChildren(t *testing.T) {
	t.Run("RC-T1 structs of client libraries make no needless writes, in memory", func(t *testing.T) { testTypedChildren(t, kopf.NewAPIServer(nil).ConnectionInfo()) })
	t.Run("RC-T1 structs of client libraries make no needless writes, on kube-apiserver", func(t *testing.T) { testTypedChildren(t, clientInfo(theCluster(t))) })
}

// clientInfo returns the administrator's connection, with an HTTP client whose transport a test can wrap.
func clientInfo(c *cluster.Cluster) *kopf.ConnectionInfo {
	info := c.ConnectionInfo()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(info.CAData)
	info.CAData = nil
	info.HTTPClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	return info
}

// typedChildren returns the children of an object, as Go structs.
func typedChildren(text string) []any {
	labels := map[string]string{"app": "typed"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/main:" + text, Env: []corev1.EnvVar{{Name: "TEXT", Value: text}}, Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m")}},
			}, {Name: "side", Image: "example.com/side"}},
			NodeSelector: map[string]string{}, SecurityContext: &corev1.PodSecurityContext{}, Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	job := template
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	minimum, replicas := intstr.FromInt32(1), int32(1)
	kind := func(apiVersion, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
	}
	meta := metav1.ObjectMeta{Name: "typed"}
	return []any{
		&corev1.ConfigMap{TypeMeta: kind("v1", "ConfigMap"), ObjectMeta: meta, Data: map[string]string{"text": text}},
		&corev1.Service{TypeMeta: kind("v1", "Service"), ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}},
		appsv1.Deployment{TypeMeta: kind("apps/v1", "Deployment"), ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}},
		&batchv1.CronJob{TypeMeta: kind("batch/v1", "CronJob"), ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: job}}}},
		&rbacv1.Role{TypeMeta: kind("rbac.authorization.k8s.io/v1", "Role"), ObjectMeta: meta}, // its rules are null
		&policyv1.PodDisruptionBudget{TypeMeta: kind("policy/v1", "PodDisruptionBudget"), ObjectMeta: meta, // its status has zeros
			Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &minimum, Selector: &metav1.LabelSelector{MatchLabels: labels}}},
	}
}

// typedOperator declares typed children of the Secret "owner" in a namespace, and counts its writes.
type typedOperator struct {
	t      *testing.T
	runner *kopf.Runner
	source kopf.Source
	calls  atomic.Int64

	mu     sync.Mutex // guards writes
	writes []string
}

func startTyped(t *testing.T, info *kopf.ConnectionInfo, namespace string, children func() []any) *typedOperator {
	o := &typedOperator{t: t}
	r := &kopf.Registry{}
	r.OnReconcile("secrets", func(_ context.Context, r *kopf.Reconcile) error {
		for _, child := range children() {
			r.Desired(child, nil)
		}
		o.calls.Add(1)
		return nil
	}, &kopf.ReconcileOptions{
		ID: "typed", Labels: kopf.Match{"typed": "owner"}, Sources: []*kopf.Source{&o.source},
		Owns: []kopf.Selector{"configmaps", "services", "deployments.apps", "cronjobs.batch", "roles.rbac.authorization.k8s.io", "poddisruptionbudgets.policy"},
	})
	info, base := new(*info), info.HTTPClient
	client := *base
	client.Transport = &countingTransport{base.Transport, o}
	info.HTTPClient = &client
	o.runner = kopf.NewRunner(t, &kopf.Operator{Registry: r, Connection: info, Namespaces: []string{namespace}}, nil)
	return o
}

// countingTransport records writes.
type countingTransport struct {
	base http.RoundTripper
	o    *typedOperator
}

func (c *countingTransport) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Method != http.MethodGet && !strings.HasSuffix(q.URL.Path, "/events") {
		body := []byte(nil)
		if q.GetBody != nil {
			if r, err := q.GetBody(); err == nil {
				body, _ = io.ReadAll(r) // only for a message
			}
		}
		c.o.mu.Lock()
		c.o.writes = append(c.o.writes, q.Method+" "+q.URL.Path+" "+string(body))
		c.o.mu.Unlock()
	}
	return c.base.RoundTrip(q)
}

// settled triggers the handler twice, so that the earlier calls have made all their writes. It returns the writes since the last time.
func (o *typedOperator) settled() (writes []string) {
	o.t.Helper()
	for range 2 {
		n := o.calls.Load()
		o.source.TriggerAll()
		eventually(o.t, "another call", func() bool { return o.calls.Load() > n })
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	writes, o.writes = o.writes, nil
	return writes
}

func testTypedChildren(t *testing.T, info *kopf.ConnectionInfo) {
	const namespace = "typed-children"
	client, err := kopf.NewClient(info, nil)
	if err != nil {
		t.Fatal(err)
	}
	create := func(object map[string]any) {
		t.Helper()
		if err := client.Create(t.Context(), object, nil); err != nil {
			t.Fatal(err)
		}
	}
	create(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}})
	create(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "owner", "namespace": namespace, "labels": map[string]any{"typed": "owner"}}})
	var text atomic.Value
	text.Store("one")
	children := func() []any { return typedChildren(text.Load().(string)) }
	get := func(apiVersion, kind string) *kopf.Body {
		t.Helper()
		var b kopf.Body
		if err := client.Get(t.Context(), kopf.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: "typed"}, &b, nil); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	o := startTyped(t, info, namespace, children)
	eventually(t, "the first call", func() bool { return o.calls.Load() > 0 })
	if writes := o.settled(); len(writes) < len(children()) || len(writes) > 2*len(children()) {
		t.Errorf("got %d writes for %d children:\n%s", len(writes), len(children()), strings.Join(writes, "\n"))
	}
	quiet := func(when string) {
		t.Helper()
		if writes := o.settled(); len(writes) > 0 {
			t.Errorf("got %d writes %s:\n%s", len(writes), when, strings.Join(writes, "\n"))
		}
	}
	quiet("while nothing has changed")
	for _, child := range children() {
		ref, err := kopf.ReferenceOf(child)
		if err != nil {
			t.Fatal(err)
		}
		if entry := fmt.Sprint(appliedEntry(get(ref.APIVersion, ref.Kind))); entry == "<nil>" || strings.Contains(entry, "f:status") {
			t.Errorf("%s: got the entry %s", ref.Kind, entry)
		}
	}
	if err := o.runner.Stop(); err != nil {
		t.Error(err)
	}
	o = startTyped(t, info, namespace, children)
	eventually(t, "the first call after the restart", func() bool { return o.calls.Load() > 0 })
	kinds := make(map[string]bool)
	for _, write := range o.settled() { // one apply of a kind shows its atomic maps, such as selectors
		if path := strings.Fields(write)[1]; kinds[path] {
			t.Errorf("got two writes to %s after a restart", path)
		} else {
			kinds[path] = true
		}
	}
	for _, kind := range []string{"configmaps", "cronjobs", "roles"} {
		for path := range kinds {
			if strings.Contains(path, "/"+kind+"/") {
				t.Errorf("got a write to %s after a restart", path)
			}
		}
	}
	quiet("after that")
	text.Store("two")
	o.settled()
	if got := get("v1", "ConfigMap").View("data").String("text"); got != "two" {
		t.Errorf("got the text %s after a change", got)
	}
	quiet("after a change")
	for kind, patch := range map[string]map[string]any{
		"apps/v1 Deployment": {"spec": map[string]any{"replicas": 3}},
		"batch/v1 CronJob":   {"spec": map[string]any{"schedule": "1 1 1 1 *"}},
		"v1 ConfigMap":       {"data": map[string]any{"text": "theirs"}},
	} {
		apiVersion, kind, _ := strings.Cut(kind, " ")
		before := get(apiVersion, kind)
		theirs, err := client.Patch(t.Context(), before.Reference(), patch, nil)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of the drift of the "+kind, func() bool {
			now := get(apiVersion, kind)
			return now.ResourceVersion() != theirs.ResourceVersion() && now.Spec().Int("replicas") == before.Spec().Int("replicas") &&
				now.Spec().String("schedule") == before.Spec().String("schedule") && now.View("data").String("text") == before.View("data").String("text")
		})
		if writes := o.settled(); len(writes) != 1 {
			t.Errorf("got %d writes for the drift of the %s, want 1:\n%s", len(writes), kind, strings.Join(writes, "\n"))
		}
	}
	quiet("at the end")
}

// appliedEntry returns the operator's applied fields in the managed fields of an object.
func appliedEntry(b *kopf.Body) any {
	entries, _ := b.Get("metadata.managedFields").([]any)
	for _, entry := range entries {
		if e, ok := entry.(map[string]any); ok && e["manager"] == "kopf-secrets" && e["operation"] == "Apply" {
			return e["fieldsV1"]
		}
	}
	return nil
}
