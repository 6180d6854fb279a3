package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// The test in this file runs daemons and timers as processes, with a real API server, and kills them.

func TestBackground(t *testing.T) {
	t.Parallel()
	c := exampleCluster(t)
	held := func(name string) bool {
		return strings.Contains(status(t, c, name, ".metadata.finalizers"), "KopfFinalizerMarker")
	}

	t.Run("a daemon survives changes, and is stopped by the deletion", func(t *testing.T) {
		c.KubectlInput(t, fmt.Sprintf(exampleObject, "watched"), "apply", "-f", "-")
		op := startExample(t, c, "14-daemons")
		op.waitForLog("[default/watched] The object is watched.")
		eventually(t, "the finalizer", func() bool { return held("watched") })
		c.Kubectl(t, "patch", "kopfexample", "watched", "--type=merge", `--patch={"spec": {"field": "changed"}}`)
		op.waitForLog("field=changed")
		c.Kubectl(t, "delete", "kopfexample", "watched", "--timeout=30s")
		op.waitForLog("The watch is over.  reason=ResourceDeleted")
		op.waitForLog("Listening ends.")
		if n := strings.Count(op.log.String(), "[default/watched] Daemon 'watch' is invoked"); n > 1 {
			t.Errorf("the daemon was begun %d times", n)
		}
		op.stop()
	})

	t.Run("killed with daemons, and started again", func(t *testing.T) {
		c.KubectlInput(t, fmt.Sprintf(exampleObject, "killed"), "apply", "-f", "-")
		first := startExample(t, c, "14-daemons")
		first.waitForLog("[default/killed] The object is watched.")
		eventually(t, "the finalizer", func() bool { return held("killed") })
		first.kill()
		c.Kubectl(t, "delete", "kopfexample", "killed", "--wait=false")
		if !held("killed") {
			t.Error("the object was released without its operator")
		}
		second := startExample(t, c, "14-daemons")
		c.Kubectl(t, "wait", "--for=delete", "kopfexample/killed", "--timeout=30s")
		if strings.Contains(second.log.String(), "[default/killed] The object is watched.") {
			t.Error("a daemon was begun for an object that is being deleted")
		}
		second.stop()
	})

	t.Run("killed with timers, and started again", func(t *testing.T) {
		c.KubectlInput(t, fmt.Sprintf(exampleObject, "ticking"), "apply", "-f", "-")
		first := startExample(t, c, "15-timers")
		eventually(t, "two ticks", func() bool { return status(t, c, "ticking", ".status.tick.count") >= "2" })
		first.kill()
		second := startExample(t, c, "15-timers")
		second.waitForLog("[default/ticking] A tick.")
		eventually(t, "more ticks", func() bool { return status(t, c, "ticking", ".status.tick.count") >= "4" })
		c.Kubectl(t, "delete", "kopfexample", "ticking", "--timeout=30s")
		second.stop()
	})
}
