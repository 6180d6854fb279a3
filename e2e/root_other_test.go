//go:build !linux

package e2e

import (
	"os/exec"
	"testing"
)

func inEmptyRoot(t *testing.T, _, _ string) *exec.Cmd {
	t.Helper()
	t.Skip("there is no chroot here")
	return nil
}

func inPod(t *testing.T, _ string, _ map[string]string) *exec.Cmd {
	t.Helper()
	t.Skip("there is no chroot here")
	return nil
}
