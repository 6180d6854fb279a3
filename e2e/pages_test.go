package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf/e2e/cluster"
	"github.com/kopf-go/kopf/internal/pages"
)

// The tests in this file run the commands of the pages as printed, on a real cluster where they need one. They skip commands that cannot run here: they
// neither build nor run images, and do not download kopf.

// TestPages follows the pages like a reader.
func TestPages(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, nil)
	w := &walk{cluster: c, root: absolute(t, "..")}
	t.Run("DF-34 peering.md", func(t *testing.T) { w.peering(t) })
	t.Run("DF-34 deployment.md", func(t *testing.T) { w.deployment(t) })
	t.Run("DF-34 migrating.md", func(t *testing.T) { w.migrating(t) })
	t.Run("DF-34 admission.md", func(t *testing.T) { w.admission(t) })
	t.Run("DF-34 getting-started.md", func(t *testing.T) { w.gettingStarted(t) })
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// walk is a reader with a clone of the repository, and a cluster.
type walk struct {
	cluster *cluster.Cluster
	root    string
}

// blocks returns the code blocks of a page in these languages.
func (w *walk) blocks(t *testing.T, page string, languages string) []pages.Block {
	t.Helper()
	all, err := pages.Read(filepath.Join(w.root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var found []pages.Block
	for _, b := range all {
		if b.Language != "" && strings.Contains(" "+languages+" ", " "+b.Language+" ") {
			found = append(found, b)
		}
	}
	return found
}

// command returns a shell with the commands. Its PATH has the cluster's programs, and a folder of further ones.
func (w *walk) command(t *testing.T, folder, programs, text string) *exec.Cmd {
	t.Helper()
	t.Logf("in %s:\n%s", folder, text)
	cmd := exec.Command("bash", "-euc", text) // its children would survive a kill by a context
	cmd.Dir = folder
	path := strings.Join([]string{filepath.Dir(w.cluster.KubectlPath()), programs, os.Getenv("PATH")}, string(os.PathListSeparator))
	cmd.Env = append(os.Environ(), "PATH="+path, "KUBECONFIG="+w.cluster.Kubeconfig(), "GOPROXY=off", "GOFLAGS=-buildvcs=false", "PWD="+folder)
	return cmd
}

// run runs commands to their end, and returns their output.
func (w *walk) run(t *testing.T, folder, programs, text string) string {
	t.Helper()
	out, err := w.command(t, folder, programs, text).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// begin runs commands until the end of the test, and waits until they print a text.
func (w *walk) begin(t *testing.T, folder, text, told string) *operator {
	t.Helper()
	cmd := w.command(t, folder, "", "set -m\n"+text+" & all=$!\ntrap 'kill -INT -- -$all' INT\nwait $all || wait $all || true") // as a terminal does
	op := start(t, cmd, cmd.Env...)
	t.Cleanup(op.interrupt) // the children of a killed process survive
	eventually(t, told, func() bool { return strings.Contains(op.log.String(), told) })
	return op
}

// myoperator returns a folder with a program of this name.
func myoperator(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.Symlink(example(t, "06-peering"), filepath.Join(folder, "myoperator")); err != nil {
		t.Fatal(err)
	}
	return folder
}

// peering follows the page from an empty cluster on.
func (w *walk) peering(t *testing.T) {
	programs := myoperator(t)
	for _, b := range w.blocks(t, "peering.md", "sh") {
		w.run(t, w.root, programs, b.Text)
	}
}

// deployment applies all objects of the page, without the images.
func (w *walk) deployment(t *testing.T) {
	w.cluster.Kubectl(t, "apply", "-f", "../examples/crd.yaml")
	w.cluster.Kubectl(t, "wait", "--for=condition=Established", "-f", "../examples/crd.yaml")
	w.cluster.Kubectl(t, "apply", "-f", "../examples/obj.yaml")
	module := w.module(t, "01-minimal")
	for _, b := range w.blocks(t, "deployment.md", "sh") {
		folder := w.root
		if strings.Contains(b.Text, "go mod") {
			folder = module
		}
		w.run(t, folder, "", withoutLines(b.Text, "docker "))
	}
}

// withoutLines returns a text without the lines that begin with the prefix.
func withoutLines(text, prefix string) string {
	var left strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, prefix) {
			left.WriteString(line)
		}
	}
	return left.String()
}

// module creates a module from an example, next to a clone of the repository.
func (w *walk) module(t *testing.T, example string) string {
	t.Helper()
	above := t.TempDir()
	if err := os.Symlink(w.root, filepath.Join(above, "kopf")); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(above, "operator")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(w.root, "examples", example))); err != nil {
		t.Fatal(err)
	}
	w.run(t, folder, "", "go mod init example.com/operator\n"+w.get())
	return folder
}

// get returns a command by which a module uses kopf from this repository.
func (w *walk) get() string {
	return "go mod edit -require=github.com/kopf-go/kopf@v0.1.0 -replace=github.com/kopf-go/kopf=" + w.root + "\n"
}

// migrating tests the new operator with a copy of all objects.
func (w *walk) migrating(t *testing.T) {
	folder := w.module(t, "01-minimal")
	n := 0
	for _, b := range w.blocks(t, "migrating.md", "sh") {
		switch commands := b.Commands(); {
		case strings.Contains(b.Text, "kinds.yaml"):
			w.run(t, folder, "", strings.Join(commands[:len(commands)-1], "\n"))
			w.begin(t, folder, commands[len(commands)-1], "Handler 'create_fn' succeeded").interrupt()
			n++
		case strings.Contains(b.Text, "examples/"):
			w.run(t, w.root, "", b.Text)
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d blocks were run, want 2", n)
	}
}

// admission completes one object, and denies another, on the in-memory server.
func (w *walk) admission(t *testing.T) {
	blocks := w.blocks(t, "admission.md", "sh")
	if len(blocks) != 3 {
		t.Fatalf("the page has %d blocks of commands, want 3", len(blocks))
	}
	w.begin(t, w.root, strings.TrimSpace(blocks[0].Text), "Reconfiguring the mutating webhook")
	out, err := w.command(t, w.root, "", blocks[1].Text).CombinedOutput()
	if want := "the size -1 is negative"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("the error is %v, want %q:\n%s", err, want, out)
	}
	w.run(t, w.root, "", "export KUBECONFIG=kopf.kubeconfig\n"+blocks[2].Text)
}

var (
	dockerRun = regexp.MustCompile(`(?m)^RUN (.*) -o /operator (.*)$`)
	refused   = regexp.MustCompile(`(?m)^NAME +TITLE +PHASE +AGE\nhome +Forbidden +Refused +\d+s$`)
)

// gettingStarted follows the page from an empty folder on.
func (w *walk) gettingStarted(t *testing.T) {
	above := t.TempDir()
	folder := filepath.Join(above, "websites")
	programs := []string{"main.go", "main_test.go"}
	var op *operator
	for _, b := range w.blocks(t, "getting-started.md", "sh yaml go dockerfile") {
		switch {
		case strings.HasPrefix(b.Text, "mkdir "):
			w.run(t, above, "", strings.Replace(b.Text, "go get github.com/kopf-go/kopf\n", w.get(), 1))
		case b.Language == "go":
			write(t, folder, programs[0], b.Text)
			programs = programs[1:]
		case b.Language == "yaml":
			write(t, folder, b.Name(), b.Text)
		case b.Language == "dockerfile":
			w.run(t, folder, "", dockerRun.FindStringSubmatch(b.Text)[1]+" -o "+filepath.Join(t.TempDir(), "operator")+" "+dockerRun.FindStringSubmatch(b.Text)[2])
		case strings.HasPrefix(b.Text, "go run . run "):
			op = w.begin(t, folder, strings.TrimSpace(b.Text), "Handler 'publish' succeeded.")
		case strings.HasPrefix(b.Text, "export KUBECONFIG"):
			text := strings.NewReplacer( // readers check when the operator has done its work, but the test is faster
				"\nkubectl get configmap home\n", "\nuntil kubectl get configmap home; do sleep 0.1; done\n",
				"\nkubectl get websites\n", "\nuntil kubectl get websites | grep Refused; do sleep 0.1; done\nkubectl get websites\n",
			).Replace(b.Text)
			if out, want := w.run(t, folder, "", text), refused; !want.MatchString(out) {
				t.Errorf("the output does not match %q:\n%s", want, out)
			}
			op.interrupt()
		case strings.HasSuffix(strings.TrimSpace(b.Text), "\ngo run . run"): // the operator in the cluster has the website to handle
			w.run(t, folder, "", withoutLines(withoutLines(b.Text, "go run . run"), "kubectl apply -f website.yaml"))
		case strings.Contains(b.Text, "kubectl apply"): // there are no nodes
			w.run(t, folder, "", withoutLines(withoutLines(b.Text, "kubectl rollout"), "kubectl logs"))
			w.inTheCluster(t, folder)
		default:
			w.run(t, folder, "", withoutLines(b.Text, "docker "))
		}
	}
	if len(programs) > 0 || op == nil {
		t.Error("the page has less than it should have")
	}
}

// inTheCluster runs the operator with the account of its manifests, like its pod.
func (w *walk) inTheCluster(t *testing.T, folder string) {
	w.run(t, folder, "", `token=$(kubectl create token websites)
kubectl config view --raw --minify > account.yaml
export KUBECONFIG=account.yaml
kubectl config set-credentials websites --token=$token
kubectl config set-context --current --user=websites`)
	op := w.begin(t, folder, "export KUBECONFIG=account.yaml\ngo run . run --standalone", "Handler 'publish' succeeded.")
	w.run(t, folder, "", "kubectl wait --for=condition=Ready website/home\nkubectl get configmap home")
	op.interrupt()
	if log := op.log.String(); strings.Contains(log, "WARN") || strings.Contains(log, "ERROR") {
		t.Errorf("the account needs more than it has:\n%s", log)
	}
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// interrupt ends the commands of [walk.begin], like Ctrl+C.
func (op *operator) interrupt() {
	op.t.Helper()
	_ = op.cmd.Process.Signal(os.Interrupt) // it may have ended
	op.wait(time.Minute)
}
