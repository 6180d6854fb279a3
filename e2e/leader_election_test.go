package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kopf-go/kopf"
)

// An elector of client-go and a replica of an operator compete for one Lease, on both servers.

// candidate is one of them: it works while it holds the Lease.
type candidate struct {
	identity string
	clientGo bool          // an elector of client-go
	working  *atomic.Int32 // the number of working candidates
	most     *atomic.Int32 // the maximum number of concurrent ones
	leading  atomic.Bool
	stop     func()
}

func (c *candidate) begin() {
	if n := c.working.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	c.leading.Store(true)
}

func (c *candidate) end() {
	c.leading.Store(false)
	c.working.Add(-1)
}

func TestLeaderElection(t *testing.T) {
	t.Parallel()
	t.Run("kube-apiserver", func(t *testing.T) { testElectors(t, theCluster(t).Kubeconfig()) })
	t.Run("in memory", func(t *testing.T) {
		server := kopf.NewAPIServer(nil)
		listener, err := server.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		kubeconfig := t.TempDir() + "/memory.kubeconfig"
		if err := listener.WriteKubeconfig(kubeconfig); err != nil {
			t.Fatal(err)
		}
		testElectors(t, kubeconfig)
	})
}

func testElectors(t *testing.T, kubeconfig string) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	clients := kubernetes.NewForConfigOrDie(config)
	var working, most atomic.Int32
	const name = "contested"
	t.Cleanup(func() {
		_ = clients.CoordinationV1().Leases("default").Delete(context.Background(), name, meta.DeleteOptions{})
	})
	theirs := func(identity string) *candidate {
		c := &candidate{identity: identity, clientGo: true, working: &working, most: &most}
		ctx, cancel := context.WithCancel(t.Context())
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock:          &resourcelock.LeaseLock{LeaseMeta: meta.ObjectMeta{Namespace: "default", Name: name}, Client: clients.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: identity}},
			LeaseDuration: 20 * time.Second, RenewDeadline: 15 * time.Second, RetryPeriod: 500 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { c.begin() }, OnStoppedLeading: func() {
				if c.leading.Load() {
					c.end()
				}
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); elector.Run(ctx) }()
		c.stop = func() { cancel(); <-done }
		return c
	}
	ours := func(identity string) *candidate {
		c := &candidate{identity: identity, working: &working, most: &most}
		r := &kopf.Registry{}
		r.OnCreate("configmaps", func(context.Context, *kopf.Change) error { return nil }, &kopf.ChangeOptions{ID: "create", Labels: kopf.Match{"none": "such"}})
		r.OnStartedLeading(func(context.Context, *kopf.Activity) error { c.begin(); return nil }, &kopf.ActivityOptions{ID: "started"})
		r.OnStoppedLeading(func(context.Context, *kopf.Activity) error { c.end(); return nil }, &kopf.ActivityOptions{ID: "stopped"})
		op := &kopf.Operator{Registry: r, Settings: kopf.NewSettings(), Namespaces: []string{"default"}, Kubeconfig: kubeconfig, Identity: identity, Logger: slog.New(slog.DiscardHandler)}
		s := &op.Settings.LeaderElection
		s.Name, s.Namespace, s.LeaseDuration, s.RenewDeadline, s.RetryPeriod = name, "default", 20*time.Second, 15*time.Second, 500*time.Millisecond
		op.Settings.Peering.Standalone = true
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- op.Run(ctx) }()
		c.stop = func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		return c
	}
	lease := func() *coordination.Lease {
		l, err := clients.CoordinationV1().Leases("default").Get(t.Context(), name, meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	t.Run("HA-3 an elector of client-go and a replica take the Lease from each other, and honour the release", func(t *testing.T) {
		holder := theirs("client-go-0")
		eventually(t, "the first leader", holder.leading.Load)
		for i := range 6 {
			next := ours(fmt.Sprint("kopf-", i))
			if i%2 == 1 {
				next.stop()
				next = theirs(fmt.Sprint("client-go-", i))
			}
			// A wrong takeover would come now. A slow machine can only hide it.
			time.Sleep(time.Second)
			if next.leading.Load() {
				t.Fatal("two lead")
			}
			holder.stop()
			stopped, identity := time.Now(), lease().Spec.HolderIdentity
			held := identity != nil && *identity == holder.identity
			if held && !holder.clientGo { // one of client-go can't release it if it was stopped during an update
				t.Error("the leader has not released the Lease")
			}
			eventually(t, "the next leader", next.leading.Load)
			if passed := time.Since(stopped); passed > 15*time.Second && !held {
				t.Errorf("the next leader came %s after the release, which it has not honoured", passed)
			}
			holder = next
		}
		holder.stop()
		if got := *lease().Spec.LeaseTransitions; got != 6 {
			t.Errorf("got %d transitions, want 6", got)
		}
		if most.Load() != 1 {
			t.Errorf("%d have worked at once", most.Load())
		}
	})
}
