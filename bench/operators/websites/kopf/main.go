// The operator of websites, with kopf. Each widget wants a page, a web server and its address, and reports them in its status.
package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/kopf-go/kopf"
	_ "github.com/kopf-go/kopf/bench/operators/profile"
	"github.com/kopf-go/kopf/bench/operators/websites"
)

type m = map[string]any

func main() {
	opts := &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps", "deployments.apps", "services"}, Conditions: true}
	fn := reconcile
	if websites.Pages() > 0 {
		opts, fn = &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps"}}, reconcilePages
	}
	kopf.OnReconcile("widgets.bench.kopf.dev", fn, opts)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	kopf.Main()
}

func reconcile(ctx context.Context, r *kopf.Reconcile) error {
	labels := m{"website": r.Name()}
	r.Desired(m{"apiVersion": "v1", "kind": "ConfigMap", "data": m{"index.html": websites.Page(r.Spec().Int("size"))}}, nil)
	r.Desired(m{"apiVersion": "apps/v1", "kind": "Deployment", "spec": m{
		"replicas": r.Spec().Int("size"),
		"selector": m{"matchLabels": labels},
		"template": m{"metadata": m{"labels": labels}, "spec": m{
			"containers": []m{{"name": "web", "image": "nginx", "volumeMounts": []m{{"name": "page", "mountPath": "/usr/share/nginx/html"}}}},
			"volumes":    []m{{"name": "page", "configMap": m{"name": r.Name()}}},
		}},
	}}, nil)
	r.Desired(m{"apiVersion": "v1", "kind": "Service", "spec": m{"clusterIP": "None", "selector": labels, "ports": []m{{"port": 80}}}}, nil)
	return record(r)
}

// reconcilePages wants only pages.
func reconcilePages(ctx context.Context, r *kopf.Reconcile) error {
	for i := range websites.Pages() {
		r.Desired(m{"apiVersion": "v1", "kind": "ConfigMap", "metadata": m{"name": fmt.Sprint(r.Name(), "-", i)}, "data": m{"index.html": websites.Page(r.Spec().Int("size"))}}, nil)
	}
	return record(r)
}

func record(r *kopf.Reconcile) error {
	r.Patch.Set("status.size", r.Spec().Int("size"))
	r.Patch.Set("status.handled", true)
	return nil
}
