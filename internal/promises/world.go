package promises

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/kopf-go/kopf"
)

// This file provides the environment of examples: an API server that knows their kinds, and the programs. It runs on the goroutines of tests.

// Build builds all examples, and returns the folder of the programs. The root is the folder of the repository. The build
// shares the build cache with the tests, so it has no -trimpath.
func Build(t *testing.T, root string) string {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", bin+string(filepath.Separator), "./examples/...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// Names returns the names of all examples: the folders with a number. The root is the folder of the repository.
func Names(t *testing.T, root string) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(root, "examples", "[0-9][0-9]-*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for i := range folders {
		folders[i] = filepath.Base(folders[i])
	}
	return folders
}

// World is an API server that knows the kinds of the examples.
type World struct {
	// Namespace is the namespace of all examples. Default: one for each example.
	Namespace string
	// Command returns the command for an example. Default: one with the kubeconfig, and without other environment variables.
	Command func(program string, args []string) *exec.Cmd
	// Meanwhile, if not nil, is called before the object of an example is deleted.
	Meanwhile func(s *Stage)

	root       string // the folder of the repository
	programs   string // folder of the result of Build
	kubeconfig string // path of the administrator's kubeconfig
	client     *kopf.Client
}

// NewWorld returns the world of an API server, given by a kubeconfig and by an administrator's connection. It waits until the kinds are served.
func NewWorld(t *testing.T, root, programs, kubeconfig string, admin *kopf.ConnectionInfo) *World {
	t.Helper()
	client, err := kopf.NewClient(admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &World{root: root, programs: programs, kubeconfig: kubeconfig, client: client}
	kinds := append(w.manifests(t, "crd.yaml"), w.manifests(t, "peering.yaml")...)
	for _, object := range kinds {
		if object["kind"] == "CustomResourceDefinition" {
			if err := client.Apply(t.Context(), object, &kopf.WriteOptions{FieldManager: "test"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, kind := range []string{"KopfExample", "KopfPeering"} {
		until(t, "the kind "+kind, func() bool {
			for _, err := range client.List(t.Context(), kopf.ObjectReference{APIVersion: "kopf.dev/v1", Kind: kind}, nil) {
				return err == nil
			}
			return true
		})
	}
	w.Command = func(program string, args []string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Env = []string{"KUBECONFIG=" + w.kubeconfig}
		return cmd
	}
	return w
}

// manifests reads the objects of a file.
func (w *World) manifests(t *testing.T, file string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.root, "examples", file))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kopf.ParseManifests(data)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// PlayAll runs all examples in the repository, each in its world: first those that may run concurrently, because they mostly wait, and then the others.
func PlayAll(t *testing.T, root string, world func(t *testing.T) *World) {
	t.Helper()
	var together sync.WaitGroup
	var alone []string
	for _, name := range Names(t, root) {
		if All[name].Alone {
			alone = append(alone, name)
			continue
		}
		together.Go(func() { t.Run(name, func(t *testing.T) { world(t).Play(t, name) }) })
	}
	together.Wait()
	for _, name := range alone {
		t.Run(name, func(t *testing.T) { world(t).Play(t, name) })
	}
}

// Play runs an example in its own namespace, and checks its promise.
func (w *World) Play(t *testing.T, name string) {
	t.Helper()
	promise, ok := All[name]
	if !ok {
		t.Fatalf("nobody has said what %s promises", name)
	}
	program := filepath.Join(w.programs, name)
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	s := &Stage{T: t, World: w, Namespace: cmp.Or(w.Namespace, promise.Namespace, "example-"+name), program: program, promised: map[string]int{}}
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": s.Namespace}}
	if err := w.client.Apply(t.Context(), namespace, &kopf.WriteOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.curtain)
	promise.Play(s)
	s.settle()
}
