package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/internal/proof"
)

// replica is a process of the operator in the rolling update.
type replica struct {
	runner *kopf.Runner
	addr   net.Addr
}

// update is a rolling update of an operator with webhooks.
type update struct {
	cluster   *cluster.Cluster
	namespace string
	service   *balancer
	replicas  []*replica
}

// start adds a replica with a version of the operator. It becomes an endpoint when it is ready.
func (u *update) start(t *testing.T, version int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := &kopf.Registry{}
	registry.OnMutate("configmaps", func(_ context.Context, a *kopf.Admission) error {
		a.Patch.Set("data.version", strconv.Itoa(version))
		return nil
	}, &kopf.AdmissionOptions{ID: "version"})
	registry.OnValidate("configmaps", func(_ context.Context, a *kopf.Admission) error {
		if !a.Body.Has("data.version") {
			return kopf.Deny("there is no version", http.StatusForbidden)
		}
		return nil
	}, &kopf.AdmissionOptions{ID: "check"})
	s := kopf.NewSettings()
	s.LeaderElection = kopf.LeaderElectionSettings{Name: "update", Namespace: u.namespace, LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: time.Second}
	s.Admission.Server = &kopf.WebhookServer{Listener: listener, Addr: "127.0.0.1", Port: u.service.port()}
	s.Admission.Managed, s.Admission.ShutdownDelay = u.namespace+".kopf.dev", 2*time.Second
	ready := make(chan struct{})
	op := &kopf.Operator{
		Registry: registry, Settings: s, Namespaces: []string{u.namespace}, Connection: u.cluster.ConnectionInfo(),
		Ready: func() { close(ready) },
	}
	r := &replica{kopf.NewRunner(t, op, nil), listener.Addr()}
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatalf("replica %d of the version %d is not ready within a minute", len(u.replicas), version)
	}
	u.replicas = append(u.replicas, r)
	u.announce()
}

func (u *update) announce() {
	var endpoints []net.Addr
	for _, r := range u.replicas {
		endpoints = append(endpoints, r.addr)
	}
	u.service.serve(endpoints...)
}

// stopOldest stops a replica. The Service follows a second later.
func (u *update) stopOldest(t *testing.T) {
	oldest := u.replicas[0]
	u.replicas = u.replicas[1:]
	follow := time.AfterFunc(time.Second, u.announce)
	defer follow.Stop()
	if err := oldest.runner.Stop(); err != nil {
		t.Error(err)
	}
}

// writes creates config maps, fifty a second, until the context ends. It returns their number, and those that were refused, or that no handler has seen.
func (u *update) writes(ctx context.Context) (count int, wrong []string) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	tick := time.NewTicker(time.Second / 50)
	defer tick.Stop()
	path := "/api/v1/namespaces/" + u.namespace + "/configmaps"
	for {
		select {
		case <-ctx.Done():
			wg.Wait()
			return count, wrong
		case <-tick.C:
		}
		count++
		name := fmt.Sprintf("write-%d", count)
		wg.Go(func() {
			var created struct{ Data map[string]string }
			text, err := u.cluster.Request(context.WithoutCancel(ctx), http.MethodPost, path, fmt.Appendf(nil, `{"metadata": {"name": %q}}`, name))
			if err == nil {
				err = json.Unmarshal(text, &created)
			}
			if err != nil || created.Data["version"] == "" {
				mu.Lock()
				wrong = append(wrong, fmt.Sprintf("%s: %v, with the data %v", name, err, created.Data))
				mu.Unlock()
			}
		})
	}
}

func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	c := plainCluster(t)
	u := &update{cluster: c, namespace: "rolling", service: newBalancer(t)}
	c.Create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": u.namespace}})
	u.start(t, 0)
	u.start(t, 0)
	probe := fmt.Appendf(nil, `{"metadata": {"name": "probe"}}`)
	eventually(t, "a config map is mutated", func() bool {
		text, err := c.Request(t.Context(), http.MethodPost, "/api/v1/namespaces/"+u.namespace+"/configmaps?dryRun=All", probe)
		var created struct{ Data map[string]string }
		return err == nil && json.Unmarshal(text, &created) == nil && created.Data["version"] == "0"
	})
	ctx, stop := context.WithCancel(t.Context())
	var count int
	var wrong []string
	var wg sync.WaitGroup
	wg.Go(func() { count, wrong = u.writes(ctx) })
	for version := range proof.Rounds(1, 10) {
		for range 2 {
			u.start(t, version+1)
			u.stopOldest(t)
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d writes", count)
	t.Run("DF-67 a rolling update refuses no operation, and none passes unchecked", func(t *testing.T) {
		if len(wrong) > 0 {
			t.Errorf("%d of %d writes are wrong: %q", len(wrong), count, wrong)
		}
		if count == 0 {
			t.Error("there were no writes")
		}
	})
}
