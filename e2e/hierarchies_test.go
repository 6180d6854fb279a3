package e2e

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-go/kopf"
)

// children returns objects in the types of common libraries.
func children() map[string]any {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
	}
	job := template
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	return map[string]any{
		"ConfigMap": &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"a": "b"}},
		"Deployment": &appsv1.Deployment{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
			Spec:     appsv1.DeploymentSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}, Template: template},
		},
		"Job":     &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, Spec: batchv1.JobSpec{Template: job}},
		"Secret":  &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"a": "b"}}},
		"Service": map[string]any{"apiVersion": "v1", "kind": "Service", "spec": map[string]any{"ports": []any{map[string]any{"port": 80}}}},
	}
}

// TestChildren adopts objects in types of other libraries. The garbage collector of a real cluster then deletes them with their owner.
func TestChildren(t *testing.T) {
	c := theCluster(t)
	c.Create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": "children"}})
	registry := &kopf.Registry{}
	registry.OnCreate("configmaps", func(ctx context.Context, ch *kopf.Change) error {
		for kind, child := range children() {
			if err := ch.Adopt(child, &kopf.HierarchyOptions{Nested: []kopf.FieldPath{"spec.template"}}); err != nil {
				return kopf.Permanent(err)
			}
			if err := ch.Client.Create(ctx, child, nil); err != nil && kopf.StatusCode(err) != http.StatusConflict {
				return err
			}
			ch.Logger.Info("A child is made.", "kind", kind)
		}
		ch.Patch.Set("data.done", "yes")
		return nil
	}, &kopf.ChangeOptions{ID: "create", When: func(ch *kopf.Change) bool { return ch.Name() == "owner" }})
	kopf.NewRunner(t, &kopf.Operator{Registry: registry, Connection: c.ConnectionInfo(), Namespaces: []string{"children"}, Logger: slog.New(slog.DiscardHandler)}, nil)
	client, err := kopf.NewClient(c.ConnectionInfo(), nil)
	if err != nil {
		t.Fatal(err)
	}
	owner := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"name": "owner", "namespace": "children", "labels": map[string]any{"team": "a"}}}
	if err := client.Create(t.Context(), owner, nil); err != nil {
		t.Fatal(err)
	}
	ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "children", Name: "owner"}
	object, err := kopf.WaitFor(t.Context(), client, ref, "to be handled", func(b *kopf.Body) bool { return b.View("data").Has("done") })
	if err != nil {
		t.Fatal(err)
	}
	made := func() map[string][]*kopf.Body {
		all := map[string][]*kopf.Body{}
		for kind, version := range map[string]string{"ConfigMap": "v1", "Deployment": "apps/v1", "Job": "batch/v1", "Secret": "v1", "Service": "v1"} {
			for body, err := range client.List(t.Context(), kopf.ObjectReference{APIVersion: version, Kind: kind}, &kopf.ListOptions{Namespace: "children", LabelSelector: "team=a"}) {
				if err != nil {
					t.Fatal(err)
				}
				if body.Name() != "owner" {
					all[kind] = append(all[kind], body)
				}
			}
		}
		return all
	}
	all := made()
	for kind := range children() {
		if len(all[kind]) != 1 {
			t.Errorf("there are %d children of the kind %s, want 1", len(all[kind]), kind)
			continue
		}
		child := all[kind][0]
		owners, _ := child.Get("metadata.ownerReferences").([]any)
		if len(owners) != 1 || owners[0].(map[string]any)["uid"] != object.UID() {
			t.Errorf("%s: got the owners %v", kind, owners)
		}
		if child.Namespace() != "children" || len(child.Name()) <= len("owner-") {
			t.Errorf("%s: it is %s/%s", kind, child.Namespace(), child.Name())
		}
		if child.Has("spec.template") && child.View("spec.template.metadata.labels").String("team") != "a" {
			t.Errorf("%s: the template has the labels %v", kind, child.Get("spec.template.metadata.labels"))
		}
	}
	if err := client.Delete(t.Context(), ref, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of all children", func() bool { return len(made()) == 0 })
}
