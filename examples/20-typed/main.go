// Command 20-typed works with structs for its kind and for the child. The CRD comes from the struct, so there is no manifest and no generated code.
package main

import (
	"context"

	"github.com/kopf-go/kopf"
)

// Website is a served page.
type Website struct {
	kopf.Meta `json:",inline"`
	Spec      WebsiteSpec   `json:"spec"`
	Status    WebsiteStatus `json:"status,omitzero"`
}

// WebsiteSpec is the desired state.
type WebsiteSpec struct {
	HTML     string `json:"html" doc:"The page." maxLength:"65536"`
	Replicas int32  `json:"replicas,omitempty" doc:"How many pods serve it." minimum:"0" maximum:"100" default:"1" column:"Replicas"`
	Class    string `json:"class,omitempty" enum:"small,large" rule:"self == oldSelf" message:"the class cannot be changed"`
}

// WebsiteStatus is the observed state.
type WebsiteStatus struct {
	URL        string           `json:"url,omitempty" column:"URL"`
	Bytes      int              `json:"bytes,omitempty"`
	Conditions []kopf.Condition `json:"conditions,omitempty" listKey:"type"`
}

// ConfigMap is the child of a website. The types of k8s.io/api work in the same way.
type ConfigMap struct {
	kopf.Meta `json:",inline"`
	Data      map[string]string `json:"data"`
}

// Install also creates the CRD in a cluster. Omit it if your operator must not change CRDs.
var websites = kopf.Define[Website](&kopf.Definition{Group: "example.com", Version: "v1", ShortNames: []string{"web"}, Description: "A page that is served.", Install: true})

func main() {
	register(kopf.DefaultRegistry())
	kopf.Main()
}

func register(r *kopf.Registry) {
	r.OnReconcile(websites.Selector(), kopf.Typed(reconcile), &kopf.ReconcileOptions{Owns: []kopf.Selector{"configmaps"}})
}

func reconcile(ctx context.Context, r *kopf.Reconcile, site *Website) error {
	r.Desired(&ConfigMap{
		Meta: kopf.Meta{APIVersion: "v1", Kind: "ConfigMap"},
		Data: map[string]string{"index.html": site.Spec.HTML},
	}, nil)
	site.Status.URL = "http://" + site.Name + "." + site.Namespace
	site.Status.Bytes = len(site.Spec.HTML)
	site.Status.Conditions = []kopf.Condition{{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Written"}}
	return nil
}
