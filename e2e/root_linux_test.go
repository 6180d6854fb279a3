package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// inEmptyRoot returns a command that runs a binary in a root folder with only the binary and a kubeconfig.
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

// inPod returns a command as the kubelet runs it in an image from scratch. The root folder contains only a binary and the files of its service account, by
// their paths. Another user owns them, and they are read-only.
func inPod(t *testing.T, binary string, files map[string]string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may change the root folder")
	}
	root := t.TempDir()
	write := func(path string, content []byte, mode os.FileMode) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("operator", mustRead(t, binary), 0o755)
	for path, content := range files {
		write(path, []byte(content), 0o644)
	}
	cmd := exec.Command("/operator")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: 65532, Gid: 65532},
	}
	return cmd
}
