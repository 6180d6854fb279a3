// Package controller is a controller as Kubebuilder lays it out, with its tests on the embedded server. The page docs/envtest.md shows them.
package controller

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Site is a web site, which is served by a Deployment of its own.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status,omitempty"`
}

// SiteSpec is what a site is to be.
type SiteSpec struct {
	Image    string `json:"image"`
	Replicas int32  `json:"replicas"` // the definition has a default
}

// SiteStatus is what a site is.
type SiteStatus struct {
	Checks int32 `json:"checks,omitempty"` // how many days it was checked
}

// SiteList is a list of sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

// DeepCopyObject copies the site.
func (s *Site) DeepCopyObject() runtime.Object {
	out := &Site{TypeMeta: s.TypeMeta, Spec: s.Spec, Status: s.Status}
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// DeepCopyObject copies the list.
func (l *SiteList) DeepCopyObject() runtime.Object {
	out := &SiteList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Site))
	}
	return out
}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "web.example.com", Version: "v1"}
	scheme.AddKnownTypes(version, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(scheme, version)
	return nil
}

// SiteReconciler keeps the Deployments of sites, and checks each site once a day.
type SiteReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// checkInterval is the time between two checks of a site.
const checkInterval = 24 * time.Hour

// lastCheck is the annotation of a Deployment with the time of the last check.
const lastCheck = "web.example.com/last-check"

// Reconcile creates or repairs the Deployment of a site, and counts the checks.
func (r *SiteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var site Site
	if err := r.Get(ctx, req.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	labels := map[string]string{"site": site.Name}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	var due time.Duration
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		deployment.Spec.Replicas = &site.Spec.Replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "site", Image: site.Spec.Image}}
		last, err := time.Parse(time.RFC3339, deployment.Annotations[lastCheck])
		if due = time.Until(last.Add(checkInterval)); err != nil || due <= 0 {
			metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, lastCheck, time.Now().Format(time.RFC3339))
		}
		return controllerutil.SetControllerReference(&site, deployment, r.Scheme)
	})
	if err != nil || due > 0 {
		return ctrl.Result{RequeueAfter: due}, err
	}
	site.Status.Checks++
	return ctrl.Result{RequeueAfter: checkInterval}, r.Status().Update(ctx, &site)
}

// SetupWithManager adds the reconciler to a manager.
func (r *SiteReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Site{}).Owns(&appsv1.Deployment{}).Complete(r)
}

// SiteValidator is the validating webhook of sites.
type SiteValidator struct{}

// ValidateCreate refuses sites that are too large.
func (v *SiteValidator) ValidateCreate(_ context.Context, site *Site) (admission.Warnings, error) {
	if site.Spec.Replicas > 10 {
		return nil, fmt.Errorf("%d replicas are too many", site.Spec.Replicas)
	}
	return nil, nil
}

// ValidateUpdate refuses sites that are too large.
func (v *SiteValidator) ValidateUpdate(ctx context.Context, _, site *Site) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, site)
}

// ValidateDelete allows all deletions.
func (v *SiteValidator) ValidateDelete(context.Context, *Site) (admission.Warnings, error) {
	return nil, nil
}

// SetupWithManager adds the webhook to a manager.
func (v *SiteValidator) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &Site{}).WithValidator(v).Complete()
}
