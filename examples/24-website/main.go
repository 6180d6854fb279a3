// Command 24-website runs a web server for each object: its page, its pods and its address, with conditions about their readiness. In a cluster without
// nodes, the pods are never ready.
package main

import (
	"context"

	"github.com/kopf-go/kopf"
)

type m = map[string]any

func main() {
	register(kopf.DefaultRegistry())
	kopf.Main()
}

func register(g *kopf.Registry) {
	g.OnReconcile("kopfexamples", reconcile, &kopf.ReconcileOptions{
		Owns:       []kopf.Selector{"configmaps", "deployments.apps", "services"},
		Conditions: true,
	})
}

func reconcile(ctx context.Context, r *kopf.Reconcile) error {
	labels := m{"website": r.Name()}
	r.Desired(m{"apiVersion": "v1", "kind": "ConfigMap", "data": m{"index.html": r.Spec().String("html")}}, nil)
	r.Desired(m{"apiVersion": "apps/v1", "kind": "Deployment", "spec": m{
		"selector": m{"matchLabels": labels},
		"template": m{"metadata": m{"labels": labels}, "spec": m{
			"containers": []m{{"name": "web", "image": "nginx", "volumeMounts": []m{{"name": "page", "mountPath": "/usr/share/nginx/html"}}}},
			"volumes":    []m{{"name": "page", "configMap": m{"name": r.Name()}}},
		}},
	}}, nil)
	r.Desired(m{"apiVersion": "v1", "kind": "Service", "spec": m{"selector": labels, "ports": []m{{"port": 80}}}}, nil)
	r.Patch.Set("status.url", "http://"+r.Name()+"."+r.Namespace())
	return nil
}
