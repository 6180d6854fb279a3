package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// TestOriginal alternates between Kopf for Python and kopf for one object, attempt by attempt. Each is killed during the handling. The test runs if
// KOPF_ORIGINAL is the command of a Python with Kopf, such as "python3".
func TestOriginal(t *testing.T) {
	python := os.Getenv("KOPF_ORIGINAL")
	if python == "" {
		t.Skip("KOPF_ORIGINAL is not set")
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	c := (&Judge{Open: func(t testing.TB) (*kopf.ConnectionInfo, string) {
		server := newServer(t)
		served, err := server.Listen("127.0.0.1:0")
		if err == nil {
			t.Cleanup(func() { _ = served.Close() }) // the test is over
			err = served.WriteKubeconfig(kubeconfig)
		}
		if err != nil {
			t.Fatal(err)
		}
		return server.ConnectionInfo(), leafNamespace
	}}).suite(t, "original")
	for _, theirs := range []bool{true, false} {
		first := map[bool]string{true: "the original", false: "ours"}[theirs]
		for name, play := range map[string]func(*turns){"they take turns": (*turns).play, "a deletion comes between": (*turns).supersede} {
			c.Run(t, name+", begun by "+first, func(c *C) {
				play(&turns{C: c, python: python, kubeconfig: kubeconfig, notes: filepath.Join(t.TempDir(), "calls"), theirs: theirs})
			})
		}
	}
	for _, storage := range []string{"prefix", "status"} {
		c.Run(t, "they take turns with the storage "+storage, func(c *C) {
			turns := &turns{C: c, python: python, kubeconfig: kubeconfig, notes: filepath.Join(t.TempDir(), "calls"), theirs: true, storage: storage}
			turns.play()
		})
	}
}

// turns are operators that alternate.
type turns struct {
	*C
	python, kubeconfig, notes string
	storage                   string // "" means the default, "prefix" another prefix, and "status" the status

	theirs bool // whether Kopf for Python runs
	kill   func()
	ours   calls
}

func (p *turns) play() {
	p.next()
	p.Create("a", spec(map[string]any{"x": 1}))
	for n := 1; n <= 4; n++ {
		p.until(map[string]int{"create_2": n, universe + ".item2": n})
		p.next()
	}
	p.WaitFor("the creation", func() bool { return strings.Contains(p.stored()["last-handled-configuration"], `"x":1`) })
	p.expectCalls("create_1 create 0", "create_2 create 0", "create_2 create 1", "create_2 create 2", "create_2 create 3", "create_2 create 4",
		"item1 create 0", "item2 create 0", "item2 create 1", "item2 create 2", "item2 create 3")
	p.clean(`{"spec":{"x":1}}`)
	status := p.Get("a").Status().Map()
	delete(status, "kopf")
	p.same("the status", map[string]any{"create_1": map[string]any{"by": "create_1"}, universe + "/item1": "ITEM1", universe + "/item2": "ITEM2"}, status)

	p.Patch("a", spec(map[string]any{"x": 2}))
	for n := 1; n <= 3; n++ {
		p.until(map[string]int{"update_2": n})
		p.next()
	}
	p.WaitFor("the update", func() bool { return strings.Contains(p.stored()["last-handled-configuration"], `"x":2`) })
	p.expectCalls("resume_1 update 0", "update_1 update 0", "update_2 update 0", "update_2 update 1", "update_2 update 2", "update_2 update 3")
	p.clean(`{"spec":{"x":2}}`)

	p.Delete("a")
	for n := 1; n <= 3; n++ {
		p.until(map[string]int{"delete_2": n})
		p.next()
	}
	p.WaitFor("the end of the object", func() bool { return !p.Exists("a") })
	p.expectCalls("delete_1 delete 0", "delete_2 delete 0", "delete_2 delete 1", "delete_2 delete 2", "delete_2 delete 3")
	p.kill()
}

// supersede deletes the object during its creation, while no operator runs.
func (p *turns) supersede() {
	p.next()
	p.Create("a", spec(map[string]any{"x": 1}))
	p.until(map[string]int{"create_2": 1, universe + ".item2": 1})
	p.kill()
	p.Delete("a")
	for n := 1; n <= 3; n++ {
		p.next()
		p.until(map[string]int{"delete_2": n})
		if left := records(p.Get("a")); !slices.Equal(left, []string{"delete_1", "delete_2"}) {
			p.Errorf("got the records %q, want those of the deletion", left)
		}
	}
	p.WaitFor("the end of the object", func() bool { return !p.Exists("a") })
	p.expectCalls("create_1 create 0", "create_2 create 0", "delete_1 delete 0", "delete_2 delete 0", "delete_2 delete 1", "delete_2 delete 2", "delete_2 delete 3",
		"item1 create 0", "item2 create 0")
	p.kill()
}

// next kills the current operator, and starts the other one.
func (p *turns) next() {
	if p.kill != nil {
		p.kill()
		p.theirs = !p.theirs
	}
	if p.theirs {
		p.kill = p.startTheirs()
	} else {
		p.kill = p.startOurs()
	}
}

func (p *turns) startTheirs() func() {
	cmd := exec.Command(p.python, filepath.Join("testdata", "original.py"))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig, "CALLS="+p.notes, "NAMESPACE="+p.Namespace, "STORAGE="+p.storage)
	cmd.Stdout, cmd.Stderr = p.Output(), p.Output()
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	kill := func() {
		_ = cmd.Process.Kill() // or it has ended
		_ = cmd.Wait()         // it was killed
	}
	p.Cleanup(kill)
	return kill
}

func (p *turns) startOurs() func() {
	r := &kopf.Registry{}
	fails := func(name string, attempts int, text string, result any) kopf.ChangeFunc {
		return func(ctx context.Context, ch *kopf.Change) error {
			p.ours.add("%s %s %d", name, ch.Reason, ch.Retry)
			if ch.Retry < attempts {
				return kopf.Temporary(errors.New(text), 3*time.Second)
			}
			if result != nil {
				ch.SetResult(result)
			}
			return nil
		}
	}
	r.OnCreate(Examples, fails("create_1", 0, "", map[string]any{"by": "create_1"}), named("create_1"))
	r.OnCreate(Examples, fails("create_2", 4, "not yet, né", nil), named("create_2"))
	r.OnCreate(Examples, func(ctx context.Context, ch *kopf.Change) error {
		ch.Subhandler("item1", fails("item1", 0, "", "ITEM1"), nil)
		ch.Subhandler("item2", fails("item2", 3, "not this one", "ITEM2"), nil)
		return nil
	}, named(universe))
	r.OnResume(Examples, fails("resume_1", 0, "", nil), named("resume_1"))
	r.OnUpdate(Examples, fails("update_1", 0, "", nil), named("update_1"))
	r.OnUpdate(Examples, fails("update_2", 3, "not updated", nil), named("update_2"))
	r.OnDelete(Examples, fails("delete_1", 0, "", nil), named("delete_1"))
	r.OnDelete(Examples, fails("delete_2", 3, "not deleted", nil), named("delete_2"))
	return p.Operator(r, func(op *kopf.Operator) {
		switch persistence := &op.Settings.Persistence; p.storage {
		case "prefix":
			persistence.Finalizer = "my-op.example.com/finalizer"
			persistence.ProgressStorage = &kopf.AnnotationsProgressStorage{Prefix: "my-op.example.com"}
			persistence.DiffBaseStorage = &kopf.AnnotationsDiffBaseStorage{Prefix: "my-op.example.com"}
		case "status":
			persistence.ProgressStorage, persistence.DiffBaseStorage = &kopf.StatusProgressStorage{}, &kopf.StatusDiffBaseStorage{}
		}
	}).Crash
}

// stored returns the stored state of the object: the records by their ids in annotations, and all else by the rest of its key.
func (p *turns) stored() map[string]string {
	p.Helper()
	body, all := p.Get("a"), map[string]string{}
	if p.storage == "status" {
		for key, value := range body.Status().View("kopf").Map() {
			switch value := value.(type) {
			case string:
				all[key] = value
			case map[string]any:
				for id, record := range value {
					all[strings.ReplaceAll(id, "/", ".")] = encoded(record)
				}
			}
		}
		return all
	}
	for key, text := range body.Annotations() {
		_, id, _ := strings.Cut(key, "/")
		all[id] = text
	}
	delete(all, "kopf-managed")
	return all
}

// until waits until the unfinished records have the given numbers of attempts, and all others are finished.
func (p *turns) until(attempts map[string]int) {
	p.Helper()
	p.WaitFor(fmt.Sprintf("the attempts %v", attempts), func() bool {
		left := maps.Clone(attempts)
		for id, text := range p.stored() {
			if id == "handling-state" { // it belongs to no handler
				continue
			}
			var record struct {
				Started, Delayed string
				Retries          int
				Success, Failure bool
			}
			if json.Unmarshal([]byte(text), &record) != nil || record.Started == "" {
				continue
			}
			if want, counts := left[id]; counts && record.Retries != want {
				return false
			}
			delete(left, id)
			if !record.Success && !record.Failure && record.Delayed == "" {
				return false // its first attempt is still due
			}
		}
		return len(left) == 0
	})
}

// expectCalls compares the calls of both operators so far, and drops them.
func (p *turns) expectCalls(want ...string) {
	p.Helper()
	data, err := os.ReadFile(p.notes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.Fatal(err)
	}
	_ = os.Remove(p.notes) // it may not exist
	got := append(p.ours.all(), strings.Split(strings.TrimSpace(string(data)), "\n")...)
	p.ours = calls{}
	got = slices.DeleteFunc(got, func(call string) bool { return call == "" || call == "resume_1 resume 0" }) // it resumes at each start
	slices.Sort(got)
	p.same("the calls of both", want, got)
}

// clean checks that only the state remains after a handling, whichever operator has finished it. Both operators remove the additional annotations of
// kopf with the records.
func (p *turns) clean(state string) {
	p.Helper()
	stored := p.stored()
	if p.storage != "status" { // the status has none (CH-149)
		state += "\n"
	}
	p.same("what is stored", map[string]string{"last-handled-configuration": state}, stored)
}
