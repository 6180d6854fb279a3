package controller

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-go/kopf"
)

func TestDailyChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kopf.NewAPIServer(nil)
		definition, err := os.ReadFile("config/crd/bases/web.example.com_sites.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Apply(definition); err != nil {
			t.Fatal(err)
		}
		info := server.ConnectionInfo()
		cfg := &rest.Config{Host: info.Server, Transport: info.HTTPClient.Transport}

		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, AddToScheme} {
			if err := add(scheme); err != nil {
				t.Fatal(err)
			}
		}
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{
			Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: new(true)}, // for several tests in one process
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := (&SiteReconciler{Client: mgr.GetClient(), Scheme: scheme}).SetupWithManager(mgr); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- mgr.Start(ctx) }()

		c, err := client.New(cfg, client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		site := &Site{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default"}, Spec: SiteSpec{Image: "nginx:1", Replicas: 1}}
		if err := c.Create(ctx, site); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*24*time.Hour + time.Hour) // which takes no time
		if err := c.Get(ctx, client.ObjectKeyFromObject(site), site); err != nil {
			t.Fatal(err)
		}
		if site.Status.Checks != 11 {
			t.Errorf("there were %d checks in ten days, want 11", site.Status.Checks)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
