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
	"regexp"
	"runtime"
	"strings"
	"time"
)

// This file builds the control plane once for each version of Kubernetes, and keeps it in the user's cache folder.

// programNames are the names by which the binary can be called.
var programNames = []string{string(Etcd), string(APIServer), string(ControllerManager), "kubectl"}

// Environment variables that select another control plane.
const (
	// VersionVariable contains the minor version of Kubernetes, such as "1.33". Default: the newest one.
	VersionVariable = "KUBERNETES"
	// BinariesVariable contains a folder with etcd, kube-apiserver, kube-controller-manager and kubectl, which are used unchanged.
	BinariesVariable = "KOPF_E2E_BIN"
)

// source is the source of the control plane: a module file for each minor version of Kubernetes, and one program.
type source struct {
	dir     string
	modfile string // "go.mod" for the newest version
	version string // of Kubernetes, such as "v1.36.3"
}

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\S+)$`)

// Binaries returns the folder with etcd, kube-apiserver, kube-controller-manager and kubectl. It builds them if they are missing, which takes minutes. It
// logs progress to log.
func Binaries(ctx context.Context, log io.Writer) (string, error) {
	if dir := os.Getenv(BinariesVariable); dir != "" {
		return dir, complete(dir)
	}
	s, err := findSource(ctx)
	if err != nil {
		return "", err
	}
	key, err := s.key()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil { // no home folder, as in an empty container
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "kopf-e2e", s.version+"-"+key)
	if _, err := os.Stat(filepath.Join(dir, executable("kubectl"))); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	// Concurrent builds use separate folders. The first one to finish wins.
	building, err := os.MkdirTemp(filepath.Dir(dir), "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(building)
	if err := s.build(ctx, building, log); err != nil {
		return "", err
	}
	if err := os.Rename(building, dir); err != nil {
		if _, missing := os.Stat(dir); missing != nil {
			return "", err
		}
	}
	return dir, nil
}

// Version returns the version of Kubernetes that [Binaries] builds, such as "v1.36.3".
func Version(ctx context.Context) (string, error) {
	s, err := findSource(ctx)
	if err != nil {
		return "", err
	}
	return s.version, nil
}

// complete returns an error if a folder lacks a program, except kube-controller-manager, which the binaries of envtest do not include.
func complete(dir string) error {
	for _, name := range []Program{Etcd, APIServer, "kubectl"} {
		if _, err := os.Stat(filepath.Join(dir, executable(string(name)))); err != nil {
			return fmt.Errorf("%s=%q: %s is not there: %w", BinariesVariable, dir, name, err)
		}
	}
	return nil
}

// findSource returns the module of the program next to this package, and the module file for the requested version.
func findSource(ctx context.Context) (*source, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/kopf-go/kopf/e2e/cluster")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the source of the control plane is not found from here: %w", err)
	}
	s := &source{dir: filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "controlplane"), modfile: "go.mod"}
	if s.version, err = s.read(); err != nil {
		return nil, err
	}
	wanted := strings.TrimPrefix(os.Getenv(VersionVariable), "v")
	if wanted == "" || strings.HasPrefix(s.version, "v"+wanted+".") {
		return s, nil
	}
	newest := s.version
	s.modfile = wanted + ".mod"
	if s.version, err = s.read(); err != nil {
		return nil, fmt.Errorf("%s=%q: want a minor version with a module file in %s, or that of %s: %w", VersionVariable, wanted, s.dir, newest, err)
	}
	return s, nil
}

// read returns the version of Kubernetes in the module file.
func (s *source) read() (string, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, s.modfile))
	if err != nil {
		return "", err
	}
	found := kubernetesVersion.FindSubmatch(data)
	if found == nil {
		return "", fmt.Errorf("%s requires no k8s.io/kubernetes", filepath.Join(s.dir, s.modfile))
	}
	return string(found[1]), nil
}

// key returns a name that changes with the source of the binary.
func (s *source) key() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{s.modfile, strings.TrimSuffix(s.modfile, ".mod") + ".sum", "main.go"} {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, name, len(data))
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

func (s *source) build(ctx context.Context, dir string, log io.Writer) error {
	began := time.Now()
	fmt.Fprintf(log, "building the control plane %s; the first time takes some minutes\n", s.version)
	var flags strings.Builder
	flags.WriteString("-s -w")
	major, minor, _ := strings.Cut(strings.TrimPrefix(s.version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		fmt.Fprintf(&flags, " -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s", pkg, s.version, pkg, major, pkg, minor)
	}
	binary := executable("controlplane")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-modfile="+s.modfile, "-ldflags", flags.String(), "-o", filepath.Join(dir, binary), ".")
	cmd.Dir = s.dir
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

// link gives the binary another name. It uses a hard link or a copy if symbolic links require a privilege.
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
