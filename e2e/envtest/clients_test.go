package controller

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-go/kopf"
)

// TestExistingCluster has envtest use the server by a kubeconfig.
func TestExistingCluster(t *testing.T) {
	served, err := kopf.NewAPIServer(&kopf.APIServerOptions{TLS: true}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	path := filepath.Join(t.TempDir(), "kopf.kubeconfig")
	if err := served.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	t.Setenv("USE_EXISTING_CLUSTER", "true")
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("config", "crd", "bases")}}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != served.URL || len(env.CRDs) != 1 {
		t.Errorf("envtest uses %s with %d definitions, want %s with 1", cfg.Host, len(env.CRDs), served.URL)
	}
	if err := env.Stop(); err != nil {
		t.Error(err)
	}
}

func TestInformer(t *testing.T) {
	server := kopf.NewAPIServer(nil)
	info := server.ConnectionInfo()
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: info.Server, Transport: info.HTTPClient.Transport})
	if err != nil {
		t.Fatal(err)
	}
	maps := clientset.CoreV1().ConfigMaps("default")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	lister := factory.Core().V1().ConfigMaps().Lister()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	if _, err := lister.ConfigMaps("default").Get("a"); err != nil {
		t.Error(err)
	}
}
