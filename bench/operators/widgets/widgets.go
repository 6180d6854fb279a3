// Package widgets has the Go types of the bench's kind for controller-runtime.
package widgets

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddTo registers the types.
func AddTo(scheme *runtime.Scheme) {
	version := schema.GroupVersion{Group: "bench.kopf.dev", Version: "v1"}
	scheme.AddKnownTypes(version, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, version)
}

// Widget is the kind of the objects.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec   `json:"spec,omitempty"`
	Status            WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec is the desired state.
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

// WidgetStatus is the observed state.
type WidgetStatus struct {
	Size               int                `json:"size,omitempty"`
	Handled            bool               `json:"handled,omitempty"`
	Tick               int                `json:"tick,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Items = slices.Clone(w.Spec.Items)
	c.Spec.Options = maps.Clone(w.Spec.Options)
	c.Status.Conditions = slices.Clone(w.Status.Conditions)
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
