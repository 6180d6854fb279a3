package e2e

import (
	"context"
	"flag"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"
)

// One control plane serves all tests that need one. It starts with the first of them and ends with the last. Tests that stop, restart or break a cluster
// start their own.

var shared struct {
	once    sync.Once
	cluster *cluster.Cluster
	err     error
}

func TestMain(m *testing.M) {
	if os.Getenv("KOPF_E2E_EDIT") != "" { // kubectl edit runs this binary as its editor
		if err := editFile(os.Args[len(os.Args)-1]); err != nil {
			panic(err)
		}
		return
	}
	flag.Parse()
	code := m.Run()
	if shared.cluster != nil {
		if code != 0 {
			os.Stderr.WriteString(shared.cluster.Logs())
		}
		shared.cluster.Stop()
	}
	if binaries.dir != "" {
		_ = os.RemoveAll(binaries.dir) // it is temporary
	}
	os.Exit(code)
}

// theCluster returns the shared control plane.
func theCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	shared.once.Do(func() {
		shared.cluster, shared.err = cluster.Start(context.Background(), &cluster.Options{
			Controllers: cluster.UsualControllers, Log: os.Stderr,
		})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// ownCluster returns a separate control plane with only an API server and etcd.
func ownCluster(t *testing.T, opts *cluster.Options) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
		c.Stop()
	})
	return c
}

// eventually calls the condition until it holds. The test fails after a timeout.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); !condition(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func TestCluster(t *testing.T) {
	c := theCluster(t)
	if _, err := c.Request(t.Context(), http.MethodGet, "/version", nil); err != nil {
		t.Error(err)
	}
	user, err := c.NewUser(t.Context(), "nobody")
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		return cluster.RunKubectl(c.KubectlPath(), user.Kubeconfig, t.TempDir(), "", args...)
	}
	if out, err := run("get", "pods"); err == nil {
		t.Errorf("a user without rights sees %q", out)
	}
	rule := cluster.Rule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}
	if err := c.SetRules(t.Context(), "nobody", rule); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the right to list pods", func() bool {
		_, err := run("get", "pods")
		return err == nil
	})
}
