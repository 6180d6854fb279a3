package judges

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// An operator in the style of controller-runtime tutorials: a custom resource that starts a Job repeatedly, with webhooks for defaults and validation.

const (
	taskGroup      = "tasks.example.com"
	scheduledAt    = taskGroup + "/scheduled-at"
	ownerIndex     = "owner"
	maxNameLength  = 52 // the names of Jobs are longer
	policyAllow    = "Allow"
	policyForbid   = "Forbid"
	defaultHistory = 3
)

var taskVersion = schema.GroupVersion{Group: taskGroup, Version: "v1"}

// Task is the custom resource.
type Task struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TaskSpec   `json:"spec"`
	Status            TaskStatus `json:"status,omitempty"`
}

// TaskSpec specifies the Job, and its interval.
type TaskSpec struct {
	Every             string                  `json:"every"`
	Suspend           *bool                   `json:"suspend,omitempty"`
	ConcurrencyPolicy string                  `json:"concurrencyPolicy,omitempty"`
	HistoryLimit      *int32                  `json:"historyLimit,omitempty"`
	JobTemplate       batchv1.JobTemplateSpec `json:"jobTemplate"`
}

// TaskStatus has the running Jobs.
type TaskStatus struct {
	Active             []corev1.ObjectReference `json:"active,omitempty"`
	LastScheduleTime   *metav1.Time             `json:"lastScheduleTime,omitempty"`
	ObservedGeneration int64                    `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition       `json:"conditions,omitempty"`
}

// DeepCopyObject returns a copy.
func (t *Task) DeepCopyObject() runtime.Object {
	c := *t
	t.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	t.Spec.JobTemplate.DeepCopyInto(&c.Spec.JobTemplate)
	if t.Spec.Suspend != nil {
		c.Spec.Suspend = new(*t.Spec.Suspend)
	}
	if t.Spec.HistoryLimit != nil {
		c.Spec.HistoryLimit = new(*t.Spec.HistoryLimit)
	}
	c.Status.Active = slices.Clone(t.Status.Active)
	c.Status.LastScheduleTime = t.Status.LastScheduleTime.DeepCopy()
	c.Status.Conditions = slices.Clone(t.Status.Conditions)
	return &c
}

// TaskList is a list of tasks.
type TaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Task `json:"items"`
}

// DeepCopyObject returns a copy.
func (l *TaskList) DeepCopyObject() runtime.Object {
	c := &TaskList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Task))
	}
	return c
}

// taskWebhooks default and validate.
type taskWebhooks struct{}

// Default sets the missing fields.
func (taskWebhooks) Default(_ context.Context, t *Task) error {
	t.Spec.ConcurrencyPolicy = cmp.Or(t.Spec.ConcurrencyPolicy, policyAllow)
	if t.Spec.Suspend == nil {
		t.Spec.Suspend = new(bool)
	}
	if t.Spec.HistoryLimit == nil {
		t.Spec.HistoryLimit = new(int32(defaultHistory))
	}
	return nil
}

// ValidateCreate refuses names that are too long, and invalid intervals. It warns of short ones.
func (taskWebhooks) ValidateCreate(_ context.Context, t *Task) (admission.Warnings, error) {
	var faults field.ErrorList
	if len(t.Name) > maxNameLength {
		faults = append(faults, field.TooLong(field.NewPath("metadata", "name"), t.Name, maxNameLength))
	}
	every, err := time.ParseDuration(t.Spec.Every)
	if err != nil {
		faults = append(faults, field.Invalid(field.NewPath("spec", "every"), t.Spec.Every, err.Error()))
	}
	if len(faults) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: taskGroup, Kind: "Task"}, t.Name, faults)
	}
	if every < time.Minute {
		return admission.Warnings{"spec.every: this is often"}, nil
	}
	return nil, nil
}

// ValidateUpdate is [taskWebhooks.ValidateCreate] for the new object.
func (w taskWebhooks) ValidateUpdate(ctx context.Context, _, t *Task) (admission.Warnings, error) {
	return w.ValidateCreate(ctx, t)
}

// ValidateDelete protects tasks with a label.
func (taskWebhooks) ValidateDelete(_ context.Context, t *Task) (admission.Warnings, error) {
	if t.Labels["protected"] != "" {
		return nil, fmt.Errorf("the task %s is protected", t.Name)
	}
	return nil, nil
}

// taskReconciler starts the Jobs.
type taskReconciler struct{ client.Client }

// setUp adds the reconciler and the webhooks to the manager.
func (r *taskReconciler) setUp(ctx context.Context, m ctrl.Manager) error {
	r.Client = m.GetClient()
	if err := m.GetFieldIndexer().IndexField(ctx, &batchv1.Job{}, ownerIndex, func(o client.Object) []string {
		if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "Task" {
			return []string{owner.Name}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(m).For(&Task{}).Owns(&batchv1.Job{}).Complete(r); err != nil {
		return err
	}
	return ctrl.NewWebhookManagedBy(m, &Task{}).WithDefaulter(taskWebhooks{}).WithValidator(taskWebhooks{}).Complete()
}

// Reconcile reads the Jobs of a task, reports them in its status, removes old ones, and starts the next one when it is due.
func (r *taskReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	task := &Task{}
	if err := r.Get(ctx, req.NamespacedName, task); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var jobs batchv1.JobList
	if err := r.List(ctx, &jobs, client.InNamespace(task.Namespace), client.MatchingFields{ownerIndex: task.Name}); err != nil {
		return ctrl.Result{}, err
	}
	slices.SortFunc(jobs.Items, func(a, b batchv1.Job) int { return cmp.Compare(a.Name, b.Name) })
	active, finished := splitJobs(jobs.Items)
	if err := r.report(ctx, task, jobs.Items, active); err != nil {
		return ctrl.Result{}, err
	}
	for i := range max(0, len(finished)-int(*task.Spec.HistoryLimit)) {
		if err := r.Delete(ctx, &finished[i], client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	if *task.Spec.Suspend || task.DeletionTimestamp != nil || task.Spec.ConcurrencyPolicy == policyForbid && len(active) > 0 {
		return ctrl.Result{}, nil
	}
	every, err := time.ParseDuration(task.Spec.Every)
	if err != nil {
		return ctrl.Result{}, err
	}
	if last := task.Status.LastScheduleTime; last != nil {
		if wait := time.Until(last.Add(every)); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	return ctrl.Result{RequeueAfter: every}, r.start(ctx, task)
}

func splitJobs(jobs []batchv1.Job) (active, finished []batchv1.Job) {
	for _, job := range jobs {
		done := slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
		})
		if done {
			finished = append(finished, job)
		} else {
			active = append(active, job)
		}
	}
	return active, finished
}

// report writes the status.
func (r *taskReconciler) report(ctx context.Context, task *Task, jobs, active []batchv1.Job) error {
	task.Status.Active = nil
	for _, job := range active {
		task.Status.Active = append(task.Status.Active, corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID})
	}
	for _, job := range jobs {
		at, err := time.Parse(time.RFC3339, job.Annotations[scheduledAt])
		if err != nil {
			return err
		}
		if task.Status.LastScheduleTime == nil || task.Status.LastScheduleTime.Time.Before(at) {
			task.Status.LastScheduleTime = &metav1.Time{Time: at}
		}
	}
	task.Status.ObservedGeneration = task.Generation
	meta.SetStatusCondition(&task.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Scheduled", ObservedGeneration: task.Generation})
	return r.Status().Update(ctx, task)
}

// start creates the next Job. The time determines its name, so that it is not created twice.
func (r *taskReconciler) start(ctx context.Context, task *Task) error {
	now := time.Now().UTC()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: task.Namespace, Name: fmt.Sprintf("%s-%d", task.Name, now.Unix()), Labels: task.Spec.JobTemplate.Labels,
		Annotations: map[string]string{scheduledAt: now.Format(time.RFC3339)}}, Spec: *task.Spec.JobTemplate.Spec.DeepCopy()}
	if err := ctrl.SetControllerReference(task, job, r.Scheme()); err != nil {
		return err
	}
	if err := r.Create(ctx, job); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
