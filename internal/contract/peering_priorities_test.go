package contract

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// TestPeersOfOriginal checks that Kopf for Python and kopf pause for each other. It runs if KOPF_ORIGINAL is the command of a Python with Kopf, as in
// TestOriginal.
func TestPeersOfOriginal(t *testing.T) {
	c, python, kubeconfig := openForOriginal(t)
	for _, priority := range []int{-1, 0, 1} {
		c.Run(t, fmt.Sprintf("the original has the priority %d, and ours 0", priority), func(c *C) {
			k := c.meet()
			notes := filepath.Join(t.TempDir(), "calls")
			theirs := func() []string {
				data, _ := os.ReadFile(notes) // or there is none yet
				return strings.Fields(string(data))
			}
			var ours calls
			c.Operator(worker(&ours), as("ours"), func(op *kopf.Operator) { op.Settings.Peering.Lifetime = 10 * time.Second })
			c.works(&ours, "before")
			stop := c.original(python, kubeconfig, notes, priority)
			c.WaitFor("both records", func() bool { return slices.Equal(k.seats("default"), []string{"ours", "theirs"}) })
			time.Sleep(3 * time.Second) // until both have read the peering object
			c.Create("beside", nil)
			time.Sleep(3 * time.Second)
			got := fmt.Sprintf("ours %t, theirs %t", slices.Contains(ours.all(), "beside"), slices.Contains(theirs(), "beside"))
			c.same("who works", map[int]string{-1: "ours true, theirs false", 0: "ours false, theirs false", 1: "ours false, theirs true"}[priority], got)
			stop()
			c.works(&ours, "after")
			c.same("the records at the end", []string{"ours"}, k.seats("default"))
			for _, name := range []string{"before", "beside", "after"} {
				if n := ours.count(name) + strings.Count(strings.Join(theirs(), " "), name); n != 1 {
					c.Errorf("%q was handled %d times: by ours %q, by theirs %q", name, n, ours.all(), theirs())
				}
			}
		})
	}
	c.Run(t, "the original resumes what ours has frozen, and the other way around", func(c *C) {
		k := c.meet()
		for _, theirs := range []bool{false, true} {
			for _, verb := range []string{"freeze", "resume"} {
				args := []string{verb, "-n", c.Namespace, "-P", "default"}
				if verb == "freeze" {
					args = append(args, "-t", "600")
				}
				if theirs == (verb == "freeze") {
					ctx, cancel := context.WithTimeout(c.Context(), 30*time.Second)
					defer cancel()
					cmd := exec.CommandContext(ctx, python, append([]string{filepath.Join("testdata", "peers.py")}, args...)...)
					cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PRIORITY=0")
					if out, err := cmd.CombinedOutput(); err != nil {
						c.Fatalf("%v: %s", err, out)
					}
				} else {
					c.obey(args...)
				}
				if got, want := len(k.seats("default")), map[string]int{"freeze": 1, "resume": 0}[verb]; got != want {
					c.Errorf("after %s (by theirs: %t), got the records %q, want %d", verb, theirs == (verb == "freeze"), k.seats("default"), want)
				}
			}
		}
	})
}

// openForOriginal returns a server that Kopf for Python can reach, the command of its Python, and its kubeconfig. Without such a Python, it skips the test.
func openForOriginal(t *testing.T) (c *C, python, kubeconfig string) {
	t.Helper()
	python = os.Getenv("KOPF_ORIGINAL")
	if python == "" {
		t.Skip("KOPF_ORIGINAL is not set")
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	c = (&Judge{Open: func(t testing.TB) (*kopf.ConnectionInfo, string) {
		server := newServer(t)
		served, err := server.Listen("127.0.0.1:0")
		if err == nil {
			t.Cleanup(func() { _ = served.Close() }) // the test is over
			err = served.WriteKubeconfig(kubeconfig)
		}
		if err != nil {
			t.Fatal(err)
		}
		return server.ConnectionInfo(), leafNamespace
	}}).suite(t, "original")
	return c, python, kubeconfig
}

// TestReplicasAndOriginal runs Kopf for Python with two replicas of kopf, which are one peer. It runs as [TestPeersOfOriginal] does.
func TestReplicasAndOriginal(t *testing.T) {
	c, python, kubeconfig := openForOriginal(t)
	for _, priority := range []int{-1, 1} {
		c.Run(t, fmt.Sprintf("HA-46 the original, with the priority %d, sees one peer, whichever replica works", priority), func(c *C) {
			table := c.meet()
			notes := filepath.Join(t.TempDir(), "calls")
			theirs := func(name string) int {
				data, _ := os.ReadFile(notes) // or there is none yet
				return strings.Count(string(data), name+"\n")
			}
			brief := func(op *kopf.Operator) { op.Settings.Peering.Lifetime = 10 * time.Second }
			var first, second calls
			a := c.Replica(worker(&first), as("pod-a"), brief)
			c.leads(a)
			b := c.Replica(worker(&second), as("pod-b"), brief)
			stop := c.original(python, kubeconfig, notes, priority)
			both := []string{"theirs", leaseName}
			c.WaitFor("both records", func() bool { return slices.Equal(table.seats("default"), both) })
			time.Sleep(3 * time.Second) // until both have read the peering object
			works := func(name string, ours *calls) {
				c.Create(name, nil)
				time.Sleep(3 * time.Second)
				got := fmt.Sprintf("first %d, second %d, theirs %d", first.count(name), second.count(name), theirs(name))
				want := "first 0, second 0, theirs 1"
				if priority < 0 {
					want = map[bool]string{true: "first 1, second 0, theirs 0", false: "first 0, second 1, theirs 0"}[ours == &first]
				}
				c.same("who handles "+name, want, got)
				c.same("the records", both, table.seats("default"))
			}
			works("one", &first)
			a.Crash()
			c.leads(b)
			time.Sleep(3 * time.Second)
			works("two", &second)
			stop()
			c.WaitFor("the end of the record", func() bool { return slices.Equal(table.seats("default"), []string{leaseName}) })
			c.Create("three", nil)
			c.WaitFor("the handling by the second", func() bool { return second.count("three") == 1 })
		})
	}
}

// original starts an operator of Kopf for Python. The returned function stops it.
func (c *C) original(python, kubeconfig, notes string, priority int) (stop func()) {
	cmd := exec.Command(python, filepath.Join("testdata", "peers.py"))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "CALLS="+notes, "NAMESPACE="+c.Namespace, fmt.Sprintf("PRIORITY=%d", priority))
	cmd.Stdout, cmd.Stderr = c.Output(), c.Output()
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = cmd.Process.Kill() }) // or it has ended
	return func() {
		_ = cmd.Process.Signal(os.Interrupt) // or it has ended
		_ = cmd.Wait()                       // it was interrupted
	}
}
