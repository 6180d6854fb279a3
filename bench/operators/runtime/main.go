// The operator of the bench, with controller-runtime. It reconciles each new or resized widget, and writes a result to its status. Its setup follows the
// documentation for many objects: typed, with a minimal cache, and without a rate limit of the client.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-go/kopf/bench/operators/trace"
	"github.com/kopf-go/kopf/bench/operators/widgets"
)

type reconciler struct {
	client.Client
	writes int
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var w widgets.Widget
	if err := r.Get(ctx, req.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if w.Status.Handled && w.Status.Size == w.Spec.Size {
		return ctrl.Result{}, nil
	}
	trace.Called(w.Name)
	if seen := strconv.Itoa(w.Spec.Size); r.writes > 1 && w.Annotations["bench.kopf.dev/seen"] != seen {
		before := w.DeepCopyObject().(*widgets.Widget)
		if w.Annotations == nil {
			w.Annotations = map[string]string{}
		}
		w.Annotations["bench.kopf.dev/seen"] = seen
		if err := r.Patch(ctx, &w, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	before := w.DeepCopyObject().(*widgets.Widget)
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
	widgets.AddTo(scheme)
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
	err = ctrl.NewControllerManagedBy(mgr).For(&widgets.Widget{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(&reconciler{mgr.GetClient(), writes})
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
