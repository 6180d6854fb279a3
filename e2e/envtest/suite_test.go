package controller

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-go/kopf"
)

var (
	ctx       context.Context
	cfg       *rest.Config
	k8sClient client.Client
	testEnv   *envtest.Environment
)

func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Controller Suite")
}

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	Expect(AddToScheme(scheme.Scheme)).To(Succeed())

	server := kopf.NewAPIServer(&kopf.APIServerOptions{TLS: true, DisableGarbageCollector: true, RefuseUnsupported: true})
	served, err := server.Listen("127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(served.Close)
	info := served.ConnectionInfo()

	testEnv = &envtest.Environment{
		UseExistingCluster:    new(true),
		Config:                &rest.Config{Host: info.Server, TLSClientConfig: rest.TLSClientConfig{CAData: info.CAData}},
		CRDDirectoryPaths:     []string{filepath.Join("config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{filepath.Join("config", "webhook")}},
	}
	cfg, err = testEnv.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(testEnv.Stop)

	k8sClient, err = client.New(cfg, client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	startManager()
})

// startManager starts a manager with the reconciler and the webhook, and stops it after the suite.
func startManager() {
	hooks := &testEnv.WebhookInstallOptions
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:        scheme.Scheme,
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir}),
	})
	Expect(err).NotTo(HaveOccurred())
	Expect((&SiteReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr)).To(Succeed())
	Expect((&SiteValidator{}).SetupWithManager(mgr)).To(Succeed())

	var stop context.CancelFunc
	ctx, stop = context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		stop()
		Expect(<-done).NotTo(HaveOccurred())
	})
	started := mgr.GetWebhookServer().StartedChecker()
	Eventually(func() error { return started(nil) }).Should(Succeed())
}

var _ = Describe("Site", func() {
	site := func(name string, replicas int32) *Site {
		return &Site{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: SiteSpec{Image: "nginx:1", Replicas: replicas}}
	}

	It("has a Deployment, which is repaired", func() {
		Expect(k8sClient.Create(ctx, site("shop", 2))).To(Succeed())
		key := client.ObjectKey{Namespace: "default", Name: "shop"}
		deployment := &appsv1.Deployment{}
		Eventually(func() error { return k8sClient.Get(ctx, key, deployment) }).Should(Succeed())
		Expect(*deployment.Spec.Replicas).To(BeEquivalentTo(2))
		Expect(deployment.OwnerReferences).To(HaveLen(1))

		Expect(k8sClient.Delete(ctx, deployment)).To(Succeed())
		Eventually(func(g Gomega) {
			again := &appsv1.Deployment{}
			g.Expect(k8sClient.Get(ctx, key, again)).To(Succeed())
			g.Expect(again.UID).NotTo(Equal(deployment.UID))
		}).Should(Succeed())
	})

	It("is refused by the webhook if it is too large", func() {
		err := k8sClient.Create(ctx, site("huge", 11))
		Expect(err).To(MatchError(ContainSubstring("11 replicas are too many")))
	})

	It("is refused by its schema without an image", func() {
		empty := site("empty", 1)
		empty.Spec.Image = ""
		Expect(k8sClient.Create(ctx, empty)).To(MatchError(ContainSubstring("spec.image")))
	})
})
