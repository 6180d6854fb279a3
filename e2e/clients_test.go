package e2e

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kopf-go/kopf"
)

// The client of kopf with the real server, and client-go with the embedded server. client-go uses the address and the credentials of a handler's client,
// with both servers.

// connections are the tested servers.
func connections(t *testing.T) map[string]*kopf.ConnectionInfo {
	t.Helper()
	return map[string]*kopf.ConnectionInfo{
		"kube-apiserver": theCluster(t).ConnectionInfo(),
		"embedded":       kopf.NewAPIServer(nil).ConnectionInfo(),
	}
}

func TestClient(t *testing.T) {
	for name, info := range connections(t) {
		t.Run(name, func(t *testing.T) {
			client, err := kopf.NewClient(info, nil)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for namespace, err := range client.List(t.Context(), kopf.ObjectReference{APIVersion: "v1", Kind: "Namespace"}, &kopf.ListOptions{PageSize: 1}) {
				if err != nil {
					t.Fatal(err)
				}
				found = found || namespace.Name() == "default"
			}
			if !found {
				t.Error("the namespace default is not listed")
			}
			ref := kopf.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "nothing"}
			if err := client.Get(t.Context(), ref, &kopf.Body{}, nil); kopf.StatusCode(err) != http.StatusNotFound {
				t.Errorf("got %v, want a refusal with 404", err)
			}
		})
	}
}

func TestClientGo(t *testing.T) {
	for name, info := range connections(t) {
		t.Run(name, func(t *testing.T) {
			registry := &kopf.Registry{}
			done := make(chan error, 1)
			registry.OnCreate("configmaps", func(ctx context.Context, c *kopf.Change) error {
				err := useClientGo(ctx, c)
				select {
				case done <- err:
				default:
				}
				return err
			}, &kopf.ChangeOptions{ID: "create", Labels: kopf.Match{"try": "client-go"}, Retries: 1})
			kopf.NewRunner(t, &kopf.Operator{Registry: registry, Connection: info, Namespaces: []string{"default"}, Logger: slog.New(slog.DiscardHandler)}, nil)

			client, err := kopf.NewClient(info, nil)
			if err != nil {
				t.Fatal(err)
			}
			object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
				"name": "parent", "namespace": "default", "labels": map[string]any{"try": "client-go"}}}
			if err := client.Create(t.Context(), &object, nil); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the handler was not called within a minute")
			}
		})
	}
}

// useClientGo is a handler that uses client-go: it creates an object, waits until an informer has it, and changes and deletes it.
func useClientGo(ctx context.Context, c *kopf.Change) error {
	info, err := c.Client.ConnectionInfo(ctx)
	if err != nil {
		return err
	}
	config := &rest.Config{Host: info.Server}
	config.ContentType = "application/json" // the embedded server speaks no protocol buffers
	clientset, err := kubernetes.NewForConfigAndClient(config, c.Client.HTTPClient())
	if err != nil {
		return err
	}
	maps := clientset.CoreV1().ConfigMaps(c.Namespace())
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(c.Namespace()))
	lister := factory.Core().V1().ConfigMaps().Lister()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer stop()
	factory.WaitForCacheSync(ctx.Done())
	if _, err := lister.ConfigMaps(c.Namespace()).Get("child"); err != nil {
		return err
	}
	child, err := maps.Get(ctx, "child", metav1.GetOptions{})
	if err != nil {
		return err
	}
	child.Data["a"] = "2"
	if _, err := maps.Update(ctx, child, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "child", metav1.DeleteOptions{}); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for { // until the informer reports the deletion
		all, err := lister.List(labels.Everything())
		if err != nil {
			return err
		}
		gone := true
		for _, one := range all {
			gone = gone && one.Name != "child"
		}
		if gone {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
