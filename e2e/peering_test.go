package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestPeers has two processes pause for each other, until one of them is killed and a user freezes the other.
func TestPeers(t *testing.T) {
	t.Parallel()
	c := exampleCluster(t)
	c.Kubectl(t, "apply", "-f", "../examples/peering.yaml")
	c.Kubectl(t, "wait", "--for=condition=Established", "-f", "../examples/peering.yaml")
	c.Kubectl(t, "apply", "-f", "../examples/peering-objects.yaml")
	const handles = "Of all operators, this one handles the object."
	create := func(name string, worker *operator, idlers ...*operator) {
		t.Helper()
		before := make(map[*operator]int)
		for _, op := range append(idlers, worker) {
			if op != nil {
				before[op] = strings.Count(op.log.String(), handles)
			}
		}
		c.KubectlInput(t, fmt.Sprintf(exampleObject, name), "apply", "-f", "-")
		if worker != nil {
			eventually(t, "the handling of "+name, func() bool { return strings.Count(worker.log.String(), handles) > before[worker] })
		} else {
			// A wrong handling would come now. A slow machine can only hide it.
			time.Sleep(2 * time.Second)
		}
		for _, op := range idlers {
			if strings.Count(op.log.String(), handles) != before[op] {
				t.Errorf("%s was handled by an operator that pauses", name)
			}
		}
	}
	low := startExample(t, c, "06-peering", "-p", "1")
	create("a", low)
	low.waitForLog("The guard begins.")
	high := startExample(t, c, "06-peering", "-p", "2")
	low.waitForLog("Pausing operations in favour of")
	low.waitForLog("The guard ends.")
	create("b", high, low)

	high.waitForLog("[default/b] Creation is processed")
	began := time.Now()
	high.kill()
	c.KubectlInput(t, fmt.Sprintf(exampleObject, "c"), "apply", "-f", "-")
	for late := time.Now().Add(90 * time.Second); !strings.Contains(low.log.String(), "Resuming operations after the pause") && time.Now().Before(late); {
		time.Sleep(100 * time.Millisecond) // polls the log of a process
	}
	if passed := time.Since(began); passed > 80*time.Second { // with its own next renewal only, it would be up to 2 minutes
		t.Errorf("the killed operator was missed after %s, want at most its lifetime, 60s", passed)
	}
	eventually(t, "the handling of c", func() bool { return strings.Count(low.log.String(), handles) == 2 })

	tell := func(args ...string) (string, int) {
		op := start(t, exec.Command(example(t, "06-peering"), args...), "KUBECONFIG="+c.Kubeconfig(), "USER=somebody")
		code := op.wait(20 * time.Second)
		return op.log.String(), code
	}
	if out, code := tell("freeze", "--peering", "default", "--lifetime", "600", "--message", "maintenance"); code != 0 || !strings.Contains(out, "is in force for 10m0s") {
		t.Errorf("freeze has ended with the code %d: %s", code, out)
	}
	eventually(t, "the freezing", func() bool { return strings.Count(low.log.String(), "Pausing operations in favour of") == 2 })
	create("d", nil, low)
	if out, code := tell("resume", "--peering", "default"); code != 0 || !strings.Contains(out, "is removed from") {
		t.Errorf("resume has ended with the code %d: %s", code, out)
	}
	eventually(t, "the handling of d", func() bool { return strings.Count(low.log.String(), handles) == 3 })
	if out, code := tell("resume", "--peering", "default"); code != 1 || !strings.Contains(out, "there is no record of") {
		t.Errorf("a second resume has ended with the code %d: %s", code, out)
	}
	low.stop()
	if got := c.Kubectl(t, "get", "clusterkopfpeering", "default", "-o", "jsonpath={.status}"); got != "{}" {
		t.Errorf("got the records %s at the end", got)
	}
}
