package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/internal/pages"
)

// TestReadme runs the commands of the README as printed, in the given folders, like a reader with a cluster. It skips "go test ./...", which .ci/run also
// takes from the README.
func TestReadme(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("the repository is not there, which the README clones")
	}
	blocks, err := pages.Read(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	r := newReadmeReader(t, root)
	for i, b := range blocks {
		if b.Language == "go" && strings.HasPrefix(b.Text, "package main") {
			r.program = b.Text
		}
		if b.Language != "sh" {
			continue
		}
		if strings.Contains(b.Text, "go mod init") {
			r.folder = t.TempDir()
			if err := os.WriteFile(filepath.Join(r.folder, "main.go"), []byte(r.program), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, command := range b.Commands() {
			want := ""
			if i+1 < len(blocks) && blocks[i+1].Language == "text" {
				want = blocks[i+1].Text
			}
			t.Run(command, func(t *testing.T) { r.run(t, command, want) })
		}
	}
	r.stop(t)
	if r.commands < 8 {
		t.Errorf("only %d commands were run", r.commands)
	}
}

// readmeReader types the commands of a page.
type readmeReader struct {
	folder   string
	program  string // the last main.go of the page
	env      []string
	commands int

	operator *exec.Cmd // the operator in the first terminal; nil for none
	log      *safeBuffer
}

func newReadmeReader(t *testing.T, root string) *readmeReader {
	c := ownCluster(t, nil)
	r := &readmeReader{folder: t.TempDir()}
	r.env = append(os.Environ(),
		"KUBECONFIG="+c.Kubeconfig(), "PATH="+filepath.Dir(c.KubectlPath())+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=url."+root+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/kopf-go/kopf", "GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*",
		"GOPROXY=file://"+filepath.ToSlash(moduleProxy(t, root))+","+goEnv(t, "GOPROXY"), "GONOSUMDB=github.com/kopf-go/kopf", "GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw -buildvcs=false -trimpath") // with -trimpath, the build cache also serves other folders
	return r
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// moduleProxy returns a folder that is a module proxy with this module.
func moduleProxy(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	versions := filepath.Join(dir, "github.com", "kopf-go", "kopf", "@v")
	if err := os.MkdirAll(versions, 0o750); err != nil {
		t.Fatal(err)
	}
	v := module.Version{Path: "github.com/kopf-go/kopf", Version: "v" + kopf.Version}
	var archive bytes.Buffer
	if err := modzip.CreateFromDir(&archive, v, root); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"list": []byte(v.Version + "\n"), v.Version + ".info": []byte(`{"Version":"` + v.Version + `"}`), v.Version + ".mod": mod, v.Version + ".zip": archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(versions, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs a command, and compares its output with the page, unless that is "". A command that runs an operator continues until the next one.
func (r *readmeReader) run(t *testing.T, command, want string) {
	switch {
	case strings.HasPrefix(command, "cd "):
		r.folder = filepath.Join(r.folder, command[3:])
		return
	case strings.HasPrefix(command, "go test "):
		return
	case strings.HasPrefix(command, "go run ") && strings.Contains(command, " run "):
		r.stop(t)
		r.start(t, command)
		return
	}
	r.commands++
	var seen string
	eventually(t, command, func() bool {
		out, err := r.shell(t, command).CombinedOutput()
		seen = string(out)
		if err != nil && want == "" {
			t.Fatalf("%v\n%s", err, out)
		}
		return want == "" || strings.Join(strings.Fields(seen), " ") == strings.Join(strings.Fields(want), " ")
	})
}

func (r *readmeReader) shell(t *testing.T, command string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
	cmd.Dir, cmd.Env = r.folder, r.env
	return cmd
}

// start runs an operator in a separate process group, as a terminal does, and waits until it works.
func (r *readmeReader) start(t *testing.T, command string) {
	t.Helper()
	r.commands++
	r.log = &safeBuffer{}
	r.operator = exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-c", command)
	r.operator.Dir, r.operator.Env, r.operator.Stdout, r.operator.Stderr, r.operator.SysProcAttr = r.folder, r.env, r.log, r.log, cluster.EndsWithParent()
	if err := r.operator.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the start of the operator", func() bool { return strings.Contains(r.log.String(), "Operator started") })
}

// stop presses Ctrl+C, if an operator runs.
func (r *readmeReader) stop(t *testing.T) {
	t.Helper()
	if r.operator == nil {
		return
	}
	if err := syscall.Kill(-r.operator.Process.Pid, syscall.SIGINT); err != nil {
		t.Error(err)
	}
	timer := time.AfterFunc(time.Minute, func() { _ = r.operator.Process.Kill() })
	defer timer.Stop()
	if err := r.operator.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Error(err)
	}
	if !strings.Contains(r.log.String(), "Operator stopped") {
		t.Errorf("the operator has not stopped in an orderly way: %s", r.log)
	}
	r.operator = nil
}
