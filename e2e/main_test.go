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

// Two control planes serve the tests, one with controllers and one without. Each starts with the first test that needs it and
// ends with the last test. Tests that stop, restart or break a cluster, or change what all of its users see, start their own.
var (
	full  = sharedCluster{opts: cluster.Options{Controllers: cluster.UsualControllers, Log: os.Stderr}}
	plain = sharedCluster{opts: cluster.Options{Log: os.Stderr}}
)

type sharedCluster struct {
	opts    cluster.Options
	once    sync.Once
	cluster *cluster.Cluster
	err     error
}

func (s *sharedCluster) get(t *testing.T) *cluster.Cluster {
	t.Helper()
	s.once.Do(func() { s.cluster, s.err = cluster.Start(context.Background(), &s.opts) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}

func (s *sharedCluster) stop(failed bool) {
	if s.cluster == nil {
		return
	}
	if failed {
		os.Stderr.WriteString(s.cluster.Logs())
	}
	s.cluster.Stop()
}

func TestMain(m *testing.M) {
	if os.Getenv("KOPF_E2E_EDIT") != "" { // kubectl edit runs this binary as its editor
		if err := editFile(os.Args[len(os.Args)-1]); err != nil {
			panic(err)
		}
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given { // most tests wait for their servers
		if err := flag.Set("test.parallel", "5"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	full.stop(code != 0)
	plain.stop(code != 0)
	if binaries.dir != "" {
		_ = os.RemoveAll(binaries.dir) // it is temporary
	}
	os.Exit(code)
}

// theCluster returns the shared control plane with controllers.
func theCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	return full.get(t)
}

// plainCluster returns the shared control plane with only an API server and etcd.
func plainCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	return plain.get(t)
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
