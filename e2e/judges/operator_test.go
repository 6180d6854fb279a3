package judges

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/kopf-go/kopf/e2e/cluster"
)

// TestOperator runs the operator of tasks on both servers.
func TestOperator(t *testing.T) {
	t.Run("real", func(t *testing.T) { testOperator(t, realServer(t, cluster.UsualControllers...)) })
	t.Run("memory", func(t *testing.T) { testOperator(t, memoryServer(t, nil)) })
}

// warnings has the warnings of the servers.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeaderWithContext keeps a warning.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

// operatorTest is the operator on one of the servers.
type operatorTest struct {
	client.Client
	warned *warnings
}

func testOperator(t *testing.T, kubeconfig string) {
	ctrl.SetLogger(logr.Discard())
	restConfig, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypes(taskVersion, &Task{}, &TaskList{})
	metav1.AddToGroupVersion(scheme, taskVersion)
	o := &operatorTest{warned: &warnings{}}
	watched := rest.CopyConfig(restConfig)
	watched.WarningHandlerWithContext = o.warned
	if o.Client, err = client.New(watched, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	o.install(t, taskDefinition)
	o.eventually(t, "the definition is established", func(ctx context.Context) (bool, error) {
		err := o.List(ctx, &TaskList{})
		return err == nil, nil
	})
	o.startManager(t, restConfig, scheme)
	t.Run("defaults", o.testDefaults)
	t.Run("validation", o.testValidation)
	t.Run("jobs", o.testJobs)
	t.Run("deletion", o.testDeletion)
}

// startManager runs the operator, and waits until its webhooks accept connections.
func (o *operatorTest) startManager(t *testing.T, restConfig *rest.Config, scheme *runtime.Scheme) {
	t.Helper()
	authority, err := cluster.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	identity, err := authority.Issue("127.0.0.1", nil, true, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(identity.Cert, identity.Key)
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	skip := true // both servers use the same names of controllers
	m, err := ctrl.NewManager(restConfig, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skip},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
		}}})})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&taskReconciler{}).setUp(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	o.eventually(t, "the webhooks are served", func(context.Context) (bool, error) {
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{InsecureSkipVerify: true}) // a connection is sufficient
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
	bundle := base64.StdEncoding.EncodeToString(authority.PEM())
	o.install(t, fmt.Sprintf(taskWebhook, "Mutating", "mutate", port, bundle, `"CREATE", "UPDATE"`))
	o.install(t, fmt.Sprintf(taskWebhook, "Validating", "validate", port, bundle, `"CREATE", "UPDATE", "DELETE"`))
	o.eventually(t, "the webhooks are asked", func(ctx context.Context) (bool, error) {
		probe := o.task("probe")
		if err := o.Create(ctx, probe, client.DryRunAll); err != nil {
			return false, err
		}
		return probe.Spec.ConcurrencyPolicy != "" && len(o.warned.take()) > 0, nil
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// install creates an object from YAML.
func (o *operatorTest) install(t *testing.T, text string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	if err := o.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a condition holds.
func (o *operatorTest) eventually(t *testing.T, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		met, err := condition(ctx)
		switch {
		case err != nil:
			t.Fatalf("%s: %v", what, err)
		case met:
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func (o *operatorTest) task(name string) *Task {
	return &Task{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: TaskSpec{Every: "1s",
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "busybox"}}}}}}}}
}

func (o *operatorTest) testDefaults(t *testing.T) {
	plain := o.task("plain")
	plain.Spec.Suspend = new(true) // no Job may run
	if err := o.Create(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	if s := plain.Spec; s.ConcurrencyPolicy != policyAllow || !*s.Suspend || *s.HistoryLimit != defaultHistory {
		t.Errorf("got %q, suspend %t, limit %d", s.ConcurrencyPolicy, *s.Suspend, *s.HistoryLimit)
	}
	if got := o.warned.take(); !slices.Contains(got, "spec.every: this is often") {
		t.Errorf("warnings %q", got)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"historyLimit": null}}`))
	if err := o.Patch(t.Context(), plain, patch); err != nil {
		t.Fatal(err)
	}
	if *plain.Spec.HistoryLimit != defaultHistory {
		t.Errorf("a change leaves the limit at %d", *plain.Spec.HistoryLimit)
	}
	full := o.task("full")
	full.Spec.ConcurrencyPolicy, full.Spec.HistoryLimit, full.Spec.Suspend = policyForbid, new(int32(0)), new(true)
	if err := o.Create(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	if s := full.Spec; s.ConcurrencyPolicy != policyForbid || !*s.Suspend || *s.HistoryLimit != 0 {
		t.Errorf("got %q, suspend %t, limit %d", s.ConcurrencyPolicy, *s.Suspend, *s.HistoryLimit)
	}
}

func (o *operatorTest) testValidation(t *testing.T) {
	wrong := o.task(strings.Repeat("n", maxNameLength+1))
	wrong.Spec.Every = "sometimes"
	err := o.Create(t.Context(), wrong)
	if !apierrors.IsInvalid(err) {
		t.Fatalf("got %v, want a refusal as invalid", err)
	}
	for _, cause := range []metav1.CauseType{metav1.CauseTypeFieldValueInvalid, metav1.CauseTypeTooLong} {
		if !apierrors.HasStatusCause(err, cause) {
			t.Errorf("%v has no cause %s", err, cause)
		}
	}
	if !strings.Contains(err.Error(), `admission webhook "validate.tasks.example.com" denied the request`) {
		t.Errorf("the webhook is not named: %v", err)
	}
	keep := o.task("keep")
	keep.Spec.Suspend, keep.Labels = new(true), map[string]string{"protected": "yes"}
	if err := o.Create(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"every": "never"}}`))
	if err := o.Patch(t.Context(), keep.DeepCopyObject().(*Task), patch); !apierrors.IsInvalid(err) {
		t.Errorf("a wrong change: %v", err)
	}
	if err := o.Delete(t.Context(), keep); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the task keep is protected") {
		t.Errorf("the deletion of a protected task: %v", err)
	}
}

// testJobs runs three Jobs of a task, one after the other.
func (o *operatorTest) testJobs(t *testing.T) {
	task := o.task("work")
	task.Spec.ConcurrencyPolicy, task.Spec.HistoryLimit = policyForbid, new(int32(1))
	if err := o.Create(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	var finished string
	for range 3 {
		o.eventually(t, "another Job is active", func(ctx context.Context) (bool, error) {
			err := o.Get(ctx, client.ObjectKeyFromObject(task), task)
			return len(task.Status.Active) == 1 && task.Status.Active[0].Name != finished, err
		})
		finished = task.Status.Active[0].Name
		o.finish(t, task, finished)
	}
	o.eventually(t, "the task is suspended", func(ctx context.Context) (bool, error) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"suspend": true}}`))
		err := o.Patch(ctx, task, patch)
		return err == nil && task.Status.ObservedGeneration == task.Generation, err
	})
	for _, job := range o.jobs(t, task) {
		o.finish(t, task, job.Name)
	}
	o.eventually(t, "one Job is left of the history", func(ctx context.Context) (bool, error) {
		err := o.Get(ctx, client.ObjectKeyFromObject(task), task)
		return len(task.Status.Active) == 0 && len(o.jobs(t, task)) == 1, err
	})
	if !meta.IsStatusConditionTrue(task.Status.Conditions, "Ready") || task.Status.LastScheduleTime == nil {
		t.Errorf("status %+v", task.Status)
	}
}

// jobs returns the Jobs of a task.
func (o *operatorTest) jobs(t *testing.T, task *Task) []batchv1.Job {
	t.Helper()
	var all batchv1.JobList
	if err := o.List(t.Context(), &all, client.InNamespace(task.Namespace)); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all.Items, func(j batchv1.Job) bool { return !metav1.IsControlledBy(&j, task) })
}

// finish sets the status of a Job, like the controller of Jobs.
func (o *operatorTest) finish(t *testing.T, task *Task, name string) {
	t.Helper()
	job := &batchv1.Job{}
	if err := o.Get(t.Context(), client.ObjectKey{Namespace: task.Namespace, Name: name}, job); err != nil {
		if apierrors.IsNotFound(err) { // removed from the history in the meantime
			return
		}
		t.Fatal(err)
	}
	if _, finished := splitJobs([]batchv1.Job{*job}); len(finished) > 0 {
		return
	}
	if !metav1.IsControlledBy(job, task) || job.Annotations[scheduledAt] == "" || job.Spec.Template.Spec.Containers[0].Image != "busybox" {
		t.Errorf("the Job is %+v", job)
	}
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &job.CreationTimestamp, &now, 1
	for _, typ := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: typ, Status: corev1.ConditionTrue, LastTransitionTime: now, LastProbeTime: now})
	}
	if err := o.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

// testDeletion deletes a task with its Jobs.
func (o *operatorTest) testDeletion(t *testing.T) {
	task := &Task{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"}}
	if err := o.Get(t.Context(), client.ObjectKeyFromObject(task), task); err != nil {
		t.Fatal(err)
	}
	if err := o.Delete(t.Context(), task, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	o.eventually(t, "the task and its Jobs are gone", func(ctx context.Context) (bool, error) {
		err := o.Get(ctx, client.ObjectKeyFromObject(task), &Task{})
		return apierrors.IsNotFound(err) && len(o.jobs(t, task)) == 0, client.IgnoreNotFound(err)
	})
}

const taskDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tasks.tasks.example.com}
spec:
  group: tasks.example.com
  scope: Namespaced
  names: {plural: tasks, singular: task, kind: Task, listKind: TaskList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [every, jobTemplate]
            properties:
              every: {type: string}
              suspend: {type: boolean}
              concurrencyPolicy: {type: string, enum: [Allow, Forbid]}
              historyLimit: {type: integer, format: int32, minimum: 0}
              jobTemplate: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// taskWebhook is a webhook configuration. Its placeholders are the kind, the verb in its name and path, the port, the CA bundle, and the operations.
const taskWebhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: %[1]sWebhookConfiguration
metadata: {name: %[2]s-tasks}
webhooks:
- name: %[2]s.tasks.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig:
    url: https://127.0.0.1:%[3]d/%[2]s-tasks-example-com-v1-task
    caBundle: %[4]s
  rules:
  - {apiGroups: [tasks.example.com], apiVersions: [v1], operations: [%[5]s], resources: [tasks]}
`
