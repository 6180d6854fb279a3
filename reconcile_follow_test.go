package kopf

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-go/kopf/internal/ownership"
)

// followingHandler makes a reconciler follow the objects of a queue.
type followingHandler struct {
	rc *reconciler
	r  *reactor
}

func (h *followingHandler) index(e *entry, events []RawEvent, at epoch) result {
	h.rc.follow(h.r, e, events[len(events)-1], at)
	return result{}
}
func (h *followingHandler) reconcile(*entry, []RawEvent, epoch) result { return result{} }
func (h *followingHandler) forget(*entry)                              {}

// newFollowing makes a reconciler that follows the ConfigMaps of KopfExamples.
func newFollowing() (*reconciler, *reactor) {
	env := &environment{log: slog.New(slog.DiscardHandler)}
	rc := &reconciler{environment: env, seed: maphash.MakeSeed(), reactors: make(map[*reactor]*reconciled), families: make(map[string]*family), unseen: make(map[string]*child)}
	owner := Resource{Group: "kopf.dev", Version: "v1", Kind: "KopfExample", Plural: "kopfexamples"}
	r := &reactor{environment: env}
	r.served.Store(&resolved{
		resource: Resource{Version: "v1", Kind: "ConfigMap", Plural: "configmaps"},
		follows:  []*follow{{handler: &handler{id: "h"}, spec: &followSpec{owns: true}, owner: owner, manager: "kopf-kopfexamples.kopf.dev"}},
	})
	r.queue = newQueue(0, env.log, &followingHandler{rc, r})
	rc.serve(r)
	return rc, r
}

// ownedMap returns a ConfigMap after an apply.
func ownedMap(t *testing.T, owner, name, uid string, version int) *Body {
	t.Helper()
	config, err := ownership.New(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"}, "data": map[string]any{"text": strings.Repeat("x", 1500)},
	}, wantedAnnotation)
	if err != nil {
		t.Fatal(err)
	}
	body, err := NewBody(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"text": strings.Repeat("x", 1500)},
		"metadata": map[string]any{
			"name": name, "namespace": "default", "uid": uid, "resourceVersion": fmt.Sprint(version), "annotations": map[string]any{wantedAnnotation: config.Digest()},
			"ownerReferences": []any{map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "o", "uid": owner, "controller": true}},
			"managedFields": []any{map[string]any{"manager": "kopf-kopfexamples.kopf.dev", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{
				"f:data":     map[string]any{"f:text": map[string]any{}},
				"f:metadata": map[string]any{"f:annotations": map[string]any{"f:" + wantedAnnotation: map[string]any{}}},
			}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestBytesOfChildren measures the memory for the children of idle objects, three for each.
func TestBytesOfChildren(t *testing.T) {
	t.Run("RC-55 a child at rest takes at most 400 bytes", func(t *testing.T) {
		const children, limit = 21_000, 400
		rc, r := newFollowing()
		from := &source{}
		heap := func() int {
			var m runtime.MemStats
			for last := uint64(math.MaxUint64); ; last = m.HeapAlloc { // the garbage of other tests takes several rounds
				runtime.GC()
				if runtime.ReadMemStats(&m); m.HeapAlloc+1<<12 > last {
					return int(m.HeapAlloc)
				}
			}
		}
		before := heap()
		for i := range children {
			owner := fmt.Sprintf("0b1c8e3e-6f6e-4bd1-9c38-0f9b2c5%05d", i/3)
			r.queue.add(RawEvent{Type: Listed, Body: ownedMap(t, owner, fmt.Sprintf("a-child-%05d", i), fmt.Sprintf("4b1c8e3e-6f6e-4bd1-9c38-0f9b2c5%05d", i), 100_000+i)}, from, false)
			if i%100 == 0 {
				r.queue.workers.Wait()
			}
		}
		r.queue.workers.Wait()
		for _, f := range rc.families { // as a call of their handler does
			for c := range f.all() {
				if !c.applied || c.more.fields == "" {
					t.Fatal("the fields of a child are not known")
				}
				c.setOwned()
			}
		}
		got := (heap() - before) / children
		if len(rc.families) != children/3 || len(r.queue.entries) != children {
			t.Fatalf("there are %d families and %d children", len(rc.families), len(r.queue.entries))
		}
		if t.Logf("a child takes %d bytes", got); got > limit {
			t.Errorf("a child takes %d bytes, want %d at most", got, limit)
		}
		runtime.KeepAlive(rc)
	})
}

// TestChildGoesUnseen deletes an applied child before its first event.
func TestChildGoesUnseen(t *testing.T) {
	const owner, uid = "0b1c8e3e-6f6e-4bd1-9c38-0f9b2c500001", "4b1c8e3e-6f6e-4bd1-9c38-0f9b2c500001"
	for name, ev := range map[string]func(*Body) RawEvent{
		"it is deleted":               func(b *Body) RawEvent { return RawEvent{Type: Deleted, Body: b} },
		"it has no owner any more":    func(b *Body) RawEvent { return RawEvent{Type: Modified, Body: withoutOwners(t, b)} },
		"it belongs to another owner": func(*Body) RawEvent { return RawEvent{Type: Modified, Body: ownedMap(t, "other", "a", uid, 8)} },
	} {
		t.Run("RC-10 "+name, func(t *testing.T) {
			rc, r := newFollowing()
			f := rc.familyLocked(owner)
			k := &child{family: f, kind: rc.kindLocked(r, r.served.Load().follows[0])}
			k.details().unseen = &ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a", UID: uid}
			f.addLocked(k)
			rc.unseen[uid] = k
			body := ownedMap(t, owner, "a", uid, 8)
			e := r.queue.addEntryLocked(uid, body.Reference(), false)
			rc.follow(r, e, ev(body), epoch{})
			if rc.families[owner] != nil || len(rc.unseen) > 0 {
				t.Error("the child is still taken for one of its owner")
			}
		})
	}
}

// TestFamilyOfManyChildren counts the children that kopf looks at to find each child of an owner by
// its name, and to remove it.
func TestFamilyOfManyChildren(t *testing.T) {
	for _, n := range []int{maxFew, 1000, 10_000} {
		t.Run(fmt.Sprintf("DF-45 each of %d children is found by its name", n), func(t *testing.T) {
			rc, r := newFollowing()
			f := rc.familyLocked("owner")
			var all []*child
			for i := range n {
				k := &child{family: f, kind: rc.kindLocked(r, r.served.Load().follows[0])}
				name := fmt.Sprint("child-", i)
				k.details().unseen = &ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: name, UID: name}
				f.addLocked(k)
				all = append(all, k)
			}
			if got := slices.Collect(f.all()); len(got) != n {
				t.Errorf("got %d children", len(got))
			}
			looked := 0
			for _, k := range all {
				looked += len(f.named(k.name()))
				if rc.memberLocked("owner", k.name(), k.uid()) != k {
					t.Fatalf("the child %s is not found", k.uid())
				}
			}
			if looked > n*maxFew {
				t.Errorf("it looks at %d children to find %d", looked, n)
			}
			for _, k := range all {
				rc.removeLocked(k)
			}
			if len(rc.families) > 0 {
				t.Errorf("the family is left with %d children", len(slices.Collect(f.all())))
			}
		})
	}
}

func withoutOwners(t *testing.T, b *Body) *Body {
	t.Helper()
	var object map[string]any
	if err := b.Decode(&object); err != nil {
		t.Fatal(err)
	}
	delete(object["metadata"].(map[string]any), "ownerReferences")
	delete(object["metadata"].(map[string]any), "managedFields")
	changed, err := NewBody(object)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// TestChildrenDoNotWait lists children before the indices are full. Nothing is kept for them that only waiting objects need.
func TestChildrenDoNotWait(t *testing.T) {
	for name, waits := range map[string]bool{"RC-55 children leave no body behind while others wait": false, "what has handlers waits": true} {
		t.Run(name, func(t *testing.T) {
			_, r := newFollowing()
			r.queue.barrier = &syncBarrier{}
			r.queue.barrier.add()
			r.queue.setServed(false, !waits, false)
			body := ownedMap(t, "0b1c8e3e-6f6e-4bd1-9c38-0f9b2c500001", "a", "4b1c8e3e-6f6e-4bd1-9c38-0f9b2c500001", 8)
			r.queue.add(RawEvent{Type: Listed, Body: body}, &source{}, false)
			r.queue.workers.Wait()
			e := r.queue.entries[body.uid]
			if e.child == nil {
				t.Error("the child is not known")
			}
			if kept := e.state != nil; kept != waits {
				t.Errorf("its state is kept: %t, want %t", kept, waits)
			}
		})
	}
}

func TestRecreatedDefinitions(t *testing.T) {
	t.Run("DF-49 a definition that comes and goes leaves nothing behind", recreateDefinitions)
}

func recreateDefinitions(t *testing.T) {
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kopfexamples.kopf.dev}
spec:
  scope: Namespaced
  group: kopf.dev
  names: {kind: KopfExample, plural: kopfexamples, singular: kopfexample}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`
	synctest.Test(t, func(t *testing.T) {
		server := NewAPIServer(nil)
		if err := server.Apply([]byte(crd + "\n---\n" + `{apiVersion: v1, kind: ConfigMap, metadata: {name: owner, namespace: default}}`)); err != nil {
			t.Fatal(err)
		}
		client, err := NewClient(server.ConnectionInfo(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var known atomic.Pointer[reconciler]
		var children atomic.Int32
		r := &Registry{}
		r.OnReconcile("v1/configmaps", func(_ context.Context, x *Reconcile) error {
			if x.Name() == "owner" {
				known.Store(x.desired.(*desiredSet).reconciler)
				x.Desired(map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": map[string]any{"name": "child"}}, nil)
			}
			return nil
		}, &ReconcileOptions{ID: "owner", Owns: []Selector{"kopfexamples"}, Resync: time.Minute})
		r.OnReconcile("kopfexamples", func(context.Context, *Reconcile) error { children.Add(1); return nil }, &ReconcileOptions{ID: "child"})
		NewRunner(t, &Operator{Registry: r, Connection: server.ConnectionInfo(), Logger: slog.New(slog.DiscardHandler)}, nil)
		time.Sleep(5 * time.Minute)
		count := func() []int {
			synctest.Wait()
			rc := known.Load()
			rc.mu.Lock()
			defer rc.mu.Unlock()
			return []int{
				len(rc.reactors), len(rc.listed), len(rc.kinds), len(rc.families), len(rc.unseen),
				len(rc.streams), len(rc.watched), len(rc.parents), len(rc.applying), len(rc.writing),
			}
		}
		before := count()
		const times = 20
		for range times {
			err := client.Delete(t.Context(), ObjectReference{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "kopfexamples.kopf.dev"}, nil)
			if err == nil {
				time.Sleep(5 * time.Minute)
				err = server.Apply([]byte(crd))
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
		}
		if n := children.Load(); n < times {
			t.Fatalf("the child was reconciled %d times, want once for each of %d definitions", n, times)
		}
		after := count()
		for i := range after {
			if after[i] > before[i]+1 { // the former one may still have work
				t.Errorf("got the sizes %v after %d re-creations of a definition, want %v as before", after, times, before)
				break
			}
		}
	})
}
