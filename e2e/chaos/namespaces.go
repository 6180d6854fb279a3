package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kopf-go/kopf/e2e/chaos/journal"
)

// This file adds and removes namespaces with peering objects. A second operator, that of the tenant, depends on them. It serves the namespaces room-*, each
// with its own peering object, and pauses everywhere while one of those is missing.

const (
	tenantRole = "tenant"
	roomPrefix = "room-"
	lobby      = roomPrefix + "lobby" // the permanent namespace
)

func leavesIn(space string) string {
	return "/apis/" + group + "/v1/namespaces/" + space + "/leaves"
}

func peeringsIn(space string) string {
	return "/apis/kopf.dev/v1/namespaces/" + space + "/kopfpeerings"
}

// rooms are the namespaces of a run.
type rooms struct {
	mu      sync.Mutex           // guards removed
	removed map[string]time.Time // the times of their deletions
}

// openRoom creates a namespace with its peering object and some objects, even if the context is canceled in the meantime: without the peering object, the
// operator would pause.
func (b *bench) openRoom(ctx context.Context, space string, leaves int) {
	ctx = context.WithoutCancel(ctx)
	b.writers.do(ctx, http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": space}})
	b.writers.do(ctx, http.MethodPost, peeringsIn(space),
		map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": map[string]any{"name": "default", "namespace": space}})
	for i := range leaves {
		b.growLeaf(ctx, space, fmt.Sprintf("%s-%d", space, i))
	}
}

func (b *bench) growLeaf(ctx context.Context, space, name string) {
	b.writers.do(ctx, http.MethodPost, leavesIn(space), map[string]any{"apiVersion": group + "/v1", "kind": "Leaf",
		"metadata": map[string]any{"name": name, "namespace": space}, "spec": map[string]any{"value": b.writers.value.Add(1)}})
}

// moveRooms adds namespaces and deletes them, each in one of several ways, until the context is canceled. The permanent namespace always has work in the
// meantime.
func (b *bench) moveRooms(ctx context.Context, random *rand.Rand) error {
	ways := []func(context.Context, string){b.removePeeringFirst, b.removeUnseen, b.removeRoom}
	var group sync.WaitGroup
	defer group.Wait()
	for n := 0; ctx.Err() == nil; n++ {
		space := fmt.Sprintf("%s%d", roomPrefix, n)
		b.openRoom(ctx, space, random.IntN(3))
		b.growLeaf(ctx, lobby, fmt.Sprintf("lobby-%d", n))
		pause(ctx, between(random, time.Second, 4*time.Second))
		if ctx.Err() != nil {
			return nil
		}
		way := ways[n%len(ways)]
		b.rooms.mu.Lock()
		b.rooms.removed[space] = time.Now()
		b.rooms.mu.Unlock()
		group.Go(func() { way(context.WithoutCancel(ctx), space) })
		pause(ctx, between(random, time.Second, 4*time.Second))
	}
	return nil
}

func (b *bench) removeRoom(ctx context.Context, space string) {
	b.counts.add(removedRoom)
	b.writers.do(ctx, http.MethodDelete, "/api/v1/namespaces/"+space, nil)
}

// removePeeringFirst deletes the peering object before the operator can know that the namespace is deleted.
func (b *bench) removePeeringFirst(ctx context.Context, space string) {
	b.counts.add(removedPeering)
	b.writers.do(ctx, http.MethodDelete, peeringsIn(space)+"/default", nil)
	pause(ctx, 300*time.Millisecond)
	b.removeRoom(ctx, space)
}

// removeUnseen deletes the namespace while its operator cannot watch namespaces.
func (b *bench) removeUnseen(ctx context.Context, space string) {
	b.counts.add(removedUnseen)
	b.proxy.blind.Add(1)
	defer b.proxy.blind.Add(-1)
	b.proxy.cutStreamsOf(namespacesPath)
	b.removeRoom(ctx, space)
	for range 100 {
		if code, err := send(ctx, b.cluster, http.MethodGet, "/api/v1/namespaces/"+space, nil); err == nil && code == http.StatusNotFound {
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}

const namespacesPath = "/api/v1/namespaces"

// spaces returns the existing namespaces, and the reasons why deleted ones still exist.
func (b *bench) spaces(ctx context.Context) (existing map[string]bool, terminating map[string]string, err error) {
	data, err := b.cluster.Request(ctx, http.MethodGet, namespacesPath, nil)
	if err != nil {
		return nil, nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name, DeletionTimestamp string }
			Status   struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, nil, err
	}
	b.rooms.mu.Lock()
	defer b.rooms.mu.Unlock()
	existing, terminating = map[string]bool{}, map[string]string{}
	for _, item := range list.Items {
		existing[item.Metadata.Name] = true
		if _, removed := b.rooms.removed[item.Metadata.Name]; !removed {
			continue
		}
		text := "it is not being deleted"
		if item.Metadata.DeletionTimestamp != "" {
			text = "since " + item.Metadata.DeletionTimestamp
		}
		for _, c := range item.Status.Conditions {
			if c.Status == "True" {
				text += ", " + c.Message
			}
		}
		terminating[item.Metadata.Name] = text
	}
	return existing, terminating, nil
}

// tenants checks the namespaces and the objects of the second operator.
func (c *court) tenants() {
	for _, space := range slices.Sorted(maps.Keys(c.Terminating)) {
		c.complain(roomsEnd, "", space, "the namespace is still there: %s", c.Terminating[space])
	}
	calls := (&Evidence{Journal: c.TenantJournal}).callsByUID()
	for _, uid := range slices.Sorted(maps.Keys(c.Leaves)) {
		versions := c.Leaves[uid]
		now := versions[len(versions)-1]
		name := now.Object.Metadata.Name
		held := slices.ContainsFunc(versions, func(v *Version) bool { return v.Object.held() && v.Object.Metadata.DeletionTimestamp != "" })
		grown, fallen := last(calls[uid]["grow"]), last(calls[uid]["fall"])
		switch {
		case now.Gone && held && !fallen.Finished():
			c.complain(roomsWork, uid, name, "the handler of the deletion has come to %q", fallen.Event)
		case now.Gone, !c.Namespaces[now.Object.Metadata.Namespace]: // an API server that loses a kind may remove a namespace before its objects
		case now.Object.Metadata.DeletionTimestamp != "":
			c.complain(roomsWork, uid, name, "the object is still there, with the finalizers %q", now.Object.Metadata.Finalizers)
		case !grown.Finished():
			c.complain(roomsWork, uid, name, "the handler of the creation has come to %q", grown.Event)
		case !strings.Contains(now.Object.Metadata.Annotations[prefix+"last-handled-configuration"], fmt.Sprintf(`"value":%d`, now.Object.value())):
			c.complain(roomsWork, uid, name, "the object is %v, its annotations are %v", now.Object.Spec, now.Object.Metadata.Annotations)
		}
	}
}

// tenantEvidence adds the evidence about the second operator.
func (b *bench) tenantEvidence(ctx context.Context, e *Evidence) (err error) {
	if b.tenant == nil {
		return nil
	}
	if e.Namespaces, e.Terminating, err = b.spaces(ctx); err != nil {
		return err
	}
	e.Leaves = b.history.versions("leaves")
	e.TenantJournal, err = journal.Read(b.tenant.journal())
	return err
}
