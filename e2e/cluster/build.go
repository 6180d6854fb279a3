package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// This file builds the control plane once and keeps it in the user's cache folder, under a name
// that changes with whatever the binary is made of.

// Programs are the names that the binary can be called by.
var programNames = []string{string(Etcd), string(APIServer), string(ControllerManager), "kubectl"}

// Binaries returns the folder that holds etcd, kube-apiserver, kube-controller-manager and kubectl,
// which are built when they are not there yet; that takes minutes. Progress is told to log.
func Binaries(ctx context.Context, log io.Writer) (string, error) {
	source, err := sourceDir(ctx)
	if err != nil {
		return "", err
	}
	key, err := buildKey(source)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil { // no home folder, as in a bare container
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "kopf-e2e", Version+"-"+key)
	if _, err := os.Stat(filepath.Join(dir, executable("kubectl"))); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	// Whoever builds at the same time does so in a folder of their own; the first one to finish wins.
	building, err := os.MkdirTemp(filepath.Dir(dir), "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(building)
	if err := build(ctx, source, building, log); err != nil {
		return "", err
	}
	if err := os.Rename(building, dir); err != nil {
		if _, missing := os.Stat(dir); missing != nil {
			return "", err
		}
	}
	return dir, nil
}

// sourceDir finds the program's module beside this package, wherever the module has been checked out.
func sourceDir(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/kopf-go/kopf/e2e/cluster")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("the source of the control plane is not found from here: %w", err)
	}
	return filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "controlplane"), nil
}

func buildKey(source string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, name, len(data))
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

func build(ctx context.Context, source, dir string, log io.Writer) error {
	began := time.Now()
	fmt.Fprintf(log, "building the control plane %s; the first time takes some minutes\n", Version)
	var flags strings.Builder
	flags.WriteString("-s -w")
	major, minor, _ := strings.Cut(strings.TrimPrefix(Version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		fmt.Fprintf(&flags, " -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s", pkg, Version, pkg, major, pkg, minor)
	}
	binary := executable("controlplane")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", flags.String(), "-o", filepath.Join(dir, binary), ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the control plane: %w\n%s", err, out)
	}
	for _, name := range programNames {
		if err := link(dir, binary, executable(name)); err != nil {
			return err
		}
	}
	fmt.Fprintf(log, "built the control plane in %s\n", time.Since(began).Round(time.Second))
	return nil
}

// link gives the binary one more name; a hard link or a copy serves where symbolic links need a privilege.
func link(dir, binary, name string) error {
	target, from := filepath.Join(dir, name), filepath.Join(dir, binary)
	if os.Symlink(binary, target) == nil || os.Link(from, target) == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(target, data, fs.FileMode(0o755))
}

func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}
