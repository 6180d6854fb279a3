// The operator of websites, with controller-runtime. Each widget wants a page, a web server and its address, and reports them in its status. Its setup is
// that of the bench's other operator, and it sends no request without a change.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-go/kopf/bench/operators/websites"
	"github.com/kopf-go/kopf/bench/operators/widgets"
)

type reconciler struct {
	client.Client
	scheme *runtime.Scheme
	pages  int
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var w widgets.Widget
	if err := r.Get(ctx, req.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !w.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	before := w.DeepCopyObject().(*widgets.Widget)
	if r.pages > 0 {
		for i := range r.pages {
			if err := r.page(ctx, &w, fmt.Sprint(w.Name, "-", i)); err != nil {
				return ctrl.Result{}, err
			}
		}
	} else if err := r.website(ctx, &w); err != nil {
		return ctrl.Result{}, err
	}
	w.Status.Size, w.Status.Handled = w.Spec.Size, true
	if equality.Semantic.DeepEqual(before.Status, w.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Patch(ctx, &w, client.MergeFrom(before))
}

// website creates the children of a website, and the condition about their readiness.
func (r *reconciler) website(ctx context.Context, w *widgets.Widget) error {
	pods := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace}}
	if err := errors.Join(r.page(ctx, w, w.Name), r.pods(ctx, w, pods), r.address(ctx, w)); err != nil {
		return err
	}
	w.Status.ObservedGeneration = w.Generation
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Progressing", ObservedGeneration: w.Generation}
	if pods.Status.ObservedGeneration == pods.Generation && pods.Status.ReadyReplicas == int32(w.Spec.Size) {
		ready.Status, ready.Reason = metav1.ConditionTrue, "Available"
	}
	meta.SetStatusCondition(&w.Status.Conditions, ready)
	return nil
}

func (r *reconciler) page(ctx context.Context, w *widgets.Widget, name string) error {
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		page.Data = map[string]string{"index.html": websites.Page(int64(w.Spec.Size))}
		return controllerutil.SetControllerReference(w, page, r.scheme)
	})
	return err
}

// pods keeps the defaults of the server. A container that is replaced as a whole would be updated permanently.
func (r *reconciler) pods(ctx context.Context, w *widgets.Widget, pods *appsv1.Deployment) error {
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, pods, func() error {
		labels, replicas := map[string]string{"website": w.Name}, int32(w.Spec.Size)
		pods.Spec.Replicas = &replicas
		if pods.CreationTimestamp.IsZero() { // it is immutable
			pods.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		}
		template := &pods.Spec.Template
		template.Labels = labels
		if len(template.Spec.Containers) != 1 {
			template.Spec.Containers = make([]corev1.Container, 1)
		}
		container := &template.Spec.Containers[0]
		container.Name, container.Image = "web", "nginx"
		container.VolumeMounts = []corev1.VolumeMount{{Name: "page", MountPath: "/usr/share/nginx/html"}}
		if len(template.Spec.Volumes) != 1 || template.Spec.Volumes[0].ConfigMap == nil {
			template.Spec.Volumes = []corev1.Volume{{Name: "page", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}}
		}
		template.Spec.Volumes[0].ConfigMap.Name = w.Name
		return controllerutil.SetControllerReference(w, pods, r.scheme)
	})
	return err
}

func (r *reconciler) address(ctx context.Context, w *widgets.Widget) error {
	address := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, address, func() error {
		address.Spec.ClusterIP = corev1.ClusterIPNone
		address.Spec.Selector = map[string]string{"website": w.Name}
		if len(address.Spec.Ports) != 1 {
			address.Spec.Ports = make([]corev1.ServicePort, 1)
		}
		address.Spec.Ports[0].Port = 80
		return controllerutil.SetControllerReference(w, address, r.scheme)
	})
	return err
}

func main() {
	if err := run(); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

func run() error {
	ctrl.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	widgets.AddTo(scheme)
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS = -1
	workers, err := strconv.Atoi(os.Getenv("BENCH_WORKERS"))
	if err != nil {
		workers = 1
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields()}})
	if err != nil {
		return err
	}
	r := &reconciler{mgr.GetClient(), scheme, websites.Pages()}
	b := ctrl.NewControllerManagedBy(mgr).For(&widgets.Widget{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).Owns(&corev1.ConfigMap{})
	if r.pages == 0 {
		b = b.Owns(&appsv1.Deployment{}).Owns(&corev1.Service{})
	}
	if err := b.WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(r); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
