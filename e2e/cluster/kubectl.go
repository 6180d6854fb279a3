package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// This file runs kubectl, with its caches in the folder of the cluster.

// T is the part of testing.TB that the helpers use.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// KubectlPath returns the path of the cluster's kubectl.
func (c *Cluster) KubectlPath() string { return filepath.Join(c.bin, executable("kubectl")) }

// Kubectl runs kubectl as the administrator and returns its output. The test fails if kubectl fails.
func (c *Cluster) Kubectl(t T, args ...string) string {
	t.Helper()
	return c.KubectlInput(t, "", args...)
}

// KubectlInput is [Cluster.Kubectl] with standard input, such as a manifest for "apply -f -".
func (c *Cluster) KubectlInput(t T, input string, args ...string) string {
	t.Helper()
	out, err := c.TryKubectl(input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// TryKubectl runs kubectl as the administrator and returns its output. The error contains its error messages.
func (c *Cluster) TryKubectl(input string, args ...string) (string, error) {
	return RunKubectl(c.KubectlPath(), c.kubeconfig, c.path("kubectl-cache"), input, args...)
}

// RunKubectl runs a kubectl with a kubeconfig and a folder for its caches, and returns its output.
func RunKubectl(kubectl, kubeconfig, cache, input string, args ...string) (string, error) {
	cmd := exec.Command(kubectl, append([]string{"--cache-dir=" + cache}, args...)...)
	cmd.Env = []string{"KUBECONFIG=" + kubeconfig, "HOME=" + cache, "KUBECTL_KUBERC=false", "PATH=" + os.Getenv("PATH"),
		"EDITOR=" + os.Args[0], "KOPF_E2E_EDIT=yes"} // a test can be the editor of "kubectl edit"
	cmd.Stdin = strings.NewReader(input)
	cmd.SysProcAttr = EndsWithParent()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}
