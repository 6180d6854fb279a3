package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// inEmptyRoot is a command that runs a binary in a root folder with nothing in it but the binary and a kubeconfig.
func inEmptyRoot(t *testing.T, binary, kubeconfig string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may change the root folder")
	}
	root := t.TempDir()
	for name, source := range map[string]string{"operator": binary, "kubeconfig": kubeconfig} {
		if err := os.WriteFile(filepath.Join(root, name), mustRead(t, source), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/operator", "run")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
	return cmd
}
