package definitions

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"

	"github.com/kopf-go/kopf"
)

// holder has a field of a type of Kubernetes.
type holder[T any] struct {
	kopf.Meta `json:",inline"`
	Spec      struct {
		Of T `json:"of"`
	} `json:"spec"`
}

// compareType compares the schema of a type of Kubernetes with that of controller-gen.
func compareType[T any](t *testing.T, p *crd.Parser) {
	t.Helper()
	of := reflect.TypeFor[T]()
	k := kopf.DefineIn[holder[T]](&kopf.Registry{}, &kopf.Definition{
		Group: "example.com", Version: "v1", Kind: "Holder", EmbeddedObjectMeta: p.GenerateEmbeddedObjectMeta,
	})
	body, err := kopf.ParseBody(k.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	version := body.Spec().Views("versions")[0]
	got := canonical(t, version.View("schema.openAPIV3Schema.properties.spec.properties.of"))
	want := simplified(schemaOf(t, p, of.PkgPath(), of.Name()), "")
	if diff := cmp.Diff(want, simplified(got, "")); diff != "" {
		t.Errorf("DF-88 %s (-controller-gen +kopf)\n%s", of, diff)
	}
}

// alpha are fields behind feature gates, with markers that are still in motion.
var alpha = []string{"evictionResponders", "scheduling", "healthStatus"}

// lax are fields of structs that are required in spite of omitempty, where kopf requires nothing.
var lax = []string{"podCertificate", "restartPolicyRules", "exitCodes"}

// simplified removes what means nothing, and the known differences. A list without a type is atomic.
func simplified(v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		if v["x-kubernetes-list-type"] == "atomic" {
			delete(v, "x-kubernetes-list-type")
		}
		for _, field := range lax {
			if name == field {
				delete(v, "required")
			}
		}
		for key, inner := range v {
			below := key
			if key == "items" {
				below = name
			}
			v[key] = simplified(inner, below)
		}
		for _, field := range alpha {
			delete(v, field)
		}
	case []any:
		for i := range v {
			v[i] = simplified(v[i], "")
		}
	}
	return v
}

// TestKubernetesTypes compares the types of k8s.io/api that operators embed.
func TestKubernetesTypes(t *testing.T) {
	p := newParser(t)
	compareType[corev1.PodSpec](t, p)
	compareType[corev1.PodTemplateSpec](t, p)
	compareType[batchv1.JobTemplateSpec](t, p)
	compareType[batchv1.CronJobSpec](t, p)
	compareType[corev1.PersistentVolumeClaim](t, p)
	compareType[corev1.ServiceSpec](t, p)
	compareType[corev1.Affinity](t, p)
	compareType[appsv1.DeploymentSpec](t, p)
	compareType[appsv1.DaemonSetSpec](t, p)
	compareType[appsv1.StatefulSetSpec](t, p)
	compareType[networkingv1.IngressSpec](t, p)
	compareType[networkingv1.NetworkPolicySpec](t, p)
	compareType[policyv1.PodDisruptionBudgetSpec](t, p)
	compareType[rbacv1.RoleRef](t, p)
	compareType[rbacv1.Subject](t, p)
	compareType[autoscalingv2.HorizontalPodAutoscalerSpec](t, p)
	compareType[metav1.LabelSelector](t, p)
}

// TestEmbeddedObjectMeta compares templates whose metadata has fields.
func TestEmbeddedObjectMeta(t *testing.T) {
	p := newParser(t)
	p.GenerateEmbeddedObjectMeta = true
	crd.AddKnownTypes(p)
	compareType[corev1.PodTemplateSpec](t, p)
	compareType[batchv1.JobTemplateSpec](t, p)
	compareType[corev1.PersistentVolumeClaim](t, p)
}

// TestTemplateServed stores a template of pods in the embedded API server.
func TestTemplateServed(t *testing.T) {
	for _, embedded := range []bool{false, true} {
		k := kopf.DefineIn[holder[corev1.PodTemplateSpec]](&kopf.Registry{}, &kopf.Definition{
			Group: "example.com", Version: "v1", Kind: "Holder", EmbeddedObjectMeta: embedded,
		})
		server := kopf.NewAPIServer(nil)
		if err := server.Apply(k.Manifest()); err != nil {
			t.Fatal(err)
		}
		client, err := kopf.NewClient(server.ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		object := holder[corev1.PodTemplateSpec]{}
		object.Name, object.Namespace = "a", "default"
		object.APIVersion, object.Kind = "example.com/v1", "Holder"
		object.Spec.Of = corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Image: "example.com/a", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			}}},
		}
		if err := client.Create(t.Context(), &object, nil); err != nil {
			t.Fatal(err)
		}
		of := object.Spec.Of
		if port := of.Spec.Containers[0].Ports[0]; port.Protocol != corev1.ProtocolTCP {
			t.Errorf("DF-88 the protocol is %q, want the default", port.Protocol)
		}
		if kept := of.Labels["app"] == "a"; kept != embedded {
			t.Errorf("DF-88 the labels are kept: %t, with EmbeddedObjectMeta %t", kept, embedded)
		}
		again := of.Spec.Containers[0]
		object.Name, object.ResourceVersion, object.UID = "b", "", ""
		object.Spec.Of.Spec.Containers = append(of.Spec.Containers, again)
		if err := client.Create(t.Context(), &object, nil); err == nil || !strings.Contains(err.Error(), "Duplicate") {
			t.Errorf("DF-88 a second container of the same name: %v", err)
		}
	}
}
