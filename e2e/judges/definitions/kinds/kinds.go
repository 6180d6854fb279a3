// Package kinds has structs with tags of kopf, and with equivalent markers of controller-gen.
package kinds

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Gallery is the kind for controller-gen.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=gal,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Replicas",type=integer,format=int32,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:selectablefield:JSONPath=`.spec.owner`
type Gallery struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GallerySpec   `json:"spec"`
	Status            GalleryStatus `json:"status,omitempty"`
}

// GallerySpec is the desired state.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.class) || has(self.class)",message="the class cannot be changed"
type GallerySpec struct {
	Common `json:",inline"`

	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	Replicas int32 `json:"replicas,omitempty" minimum:"0" maximum:"100" default:"1" column:"Replicas"`
	// +kubebuilder:validation:Enum=small;large
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the class cannot be changed"
	Class string `json:"class,omitempty" enum:"small,large" rule:"self == oldSelf" message:"the class cannot be changed"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]+$`
	Host string `json:"host" minLength:"1" maxLength:"63" pattern:"^[a-z]+$"`
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:MultipleOf=5
	Step int64 `json:"step,omitempty" exclusiveMinimum:"0" multipleOf:"5"`
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Hosts []string `json:"hosts,omitempty" minItems:"1" maxItems:"8" each:"maxLength=63" listType:"set"`
	// +listType=map
	// +listMapKey=name
	// +listMapKey=zone
	Rooms []Room `json:"rooms,omitempty" listKey:"name,zone"`
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=9
	// +mapType=atomic
	Labels map[string]string `json:"labels,omitempty" minProperties:"1" maxProperties:"9" mapType:"atomic"`
	// +nullable
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Any Anything `json:"any,omitempty"`
	// +nullable
	Note *string `json:"note,omitempty" nullable:"true"`
	// +kubebuilder:validation:Format=hostname
	Name string `json:"name,omitempty" format:"hostname"`

	// +kubebuilder:default={}
	Tuning Tuning            `json:"tuning,omitzero"`
	Rooms2 map[string]Room   `json:"rooms2,omitempty"`
	Lists  map[string][]Mode `json:"lists,omitempty"`
	Flag   bool              `json:"flag"`
	Flags  []*bool           `json:"flags,omitempty"`
	Data   []byte            `json:"data,omitempty"`

	// Go types with a smaller range than the schema of controller-gen: kopf adds the limits itself, see TD-10 in docs/deviations.md.

	// +kubebuilder:validation:Minimum=-128
	// +kubebuilder:validation:Maximum=127
	Small int8 `json:"small,omitempty"`
	// +kubebuilder:validation:Format=int64
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Number uint32 `json:"number,omitempty"`
	// +kubebuilder:validation:Minimum=0
	Large uint64 `json:"large,omitempty"`
	Plain int    `json:"plain,omitempty"`

	// Types of Kubernetes.
	Since     metav1.Time                  `json:"since,omitempty"`
	Micro     *metav1.MicroTime            `json:"micro,omitempty"`
	Every     *metav1.Duration             `json:"every,omitempty"`
	Port      intstr.IntOrString           `json:"port"`
	Size      resource.Quantity            `json:"size"`
	Limits    map[string]resource.Quantity `json:"limits,omitempty"`
	SecretRef corev1.SecretReference       `json:"secretRef" mapType:"atomic"`
	Taints    []corev1.Taint               `json:"taints,omitempty"`
}

// Common is embedded.
type Common struct {
	// +kubebuilder:validation:MaxLength=20
	Owner string `json:"owner" maxLength:"20" selectable:"true"`
}

// Room is an item.
type Room struct {
	Name string `json:"name"`
	// +kubebuilder:default=north
	Zone string `json:"zone,omitempty" default:"north"`
	// +optional
	Walls *int32 `json:"walls" required:"false"`
}

// Mode is an enum.
//
// +kubebuilder:validation:Enum=on;off
type Mode string

// Enum returns the values.
func (Mode) Enum() []string { return []string{"on", "off"} }

// Tuning has defaults.
type Tuning struct {
	// +kubebuilder:default=3
	Level int `json:"level,omitempty" default:"3"`
	// +kubebuilder:default=auto
	Mode string `json:"mode,omitempty" default:"auto"`
	// +kubebuilder:default={}
	Cache Cache `json:"cache,omitzero"`
}

// Cache has a default.
type Cache struct {
	// +kubebuilder:default=64
	Size int64 `json:"size,omitempty" default:"64"`
}

// GalleryStatus is the observed state.
type GalleryStatus struct {
	// In a status, kopf requires only fields with a tag for that, see TD-12 in docs/deviations.md.

	// +optional
	Observed int64  `json:"observed"`
	Visitors int64  `json:"visitors" required:"true"`
	Replicas int32  `json:"replicas,omitempty"`
	Selector string `json:"selector,omitempty"`
	URL      string `json:"url,omitempty" column:"URL" priority:"1"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" listKey:"type"`
}
