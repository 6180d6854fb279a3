// The operator of the bench, made with controller-runtime: it reconciles each new widget, and each whose size changes, and leaves a result in its
// status. It is set up as its documentation advises for many objects: typed, with nothing kept that is not needed, and no limit on the client.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-go/kopf/bench/operators/trace"
)

// Widget is the kind of the objects.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec   `json:"spec,omitempty"`
	Status            WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec is what is wanted.
type WidgetSpec struct {
	Size        int               `json:"size,omitempty"`
	Description string            `json:"description,omitempty"`
	Items       []Item            `json:"items,omitempty"`
	Options     map[string]string `json:"options,omitempty"`
}

// Item is a part of a widget.
type Item struct {
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`
	Count int    `json:"count,omitempty"`
}

// WidgetStatus is what was done.
type WidgetStatus struct {
	Size    int  `json:"size,omitempty"`
	Handled bool `json:"handled,omitempty"`
	Tick    int  `json:"tick,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Items = slices.Clone(w.Spec.Items)
	c.Spec.Options = maps.Clone(w.Spec.Options)
	return &c
}

// WidgetList is a list of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = make([]Widget, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*Widget)
	}
	return &c
}

type reconciler struct {
	client.Client
	writes int
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var w Widget
	if err := r.Get(ctx, req.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if w.Status.Handled && w.Status.Size == w.Spec.Size {
		return ctrl.Result{}, nil
	}
	trace.Called(w.Name)
	if seen := strconv.Itoa(w.Spec.Size); r.writes > 1 && w.Annotations["bench.kopf.dev/seen"] != seen {
		before := w.DeepCopyObject().(*Widget)
		if w.Annotations == nil {
			w.Annotations = map[string]string{}
		}
		w.Annotations["bench.kopf.dev/seen"] = seen
		if err := r.Patch(ctx, &w, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	before := w.DeepCopyObject().(*Widget)
	w.Status.Size, w.Status.Handled = w.Spec.Size, true
	return ctrl.Result{}, r.Status().Patch(ctx, &w, client.MergeFrom(before))
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
	version := schema.GroupVersion{Group: "bench.kopf.dev", Version: "v1"}
	scheme.AddKnownTypes(version, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, version)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS = -1
	caching := cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
	if count, err := strconv.Atoi(os.Getenv("BENCH_NAMESPACES")); err == nil && count > 0 {
		caching.DefaultNamespaces = map[string]cache.Config{}
		for i := range count {
			caching.DefaultNamespaces[fmt.Sprintf("bench-%03d", i)] = cache.Config{}
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Cache: caching})
	if err != nil {
		return err
	}
	workers, err := strconv.Atoi(os.Getenv("BENCH_WORKERS"))
	if err != nil {
		workers = 1
	}
	writes, err := strconv.Atoi(os.Getenv("BENCH_WRITES"))
	if err != nil {
		writes = 1
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&Widget{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(&reconciler{mgr.GetClient(), writes})
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
