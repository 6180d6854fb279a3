package chaos

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// This file lets the versions of the kind come and go, as conversions and upgrades of definitions do.

// versionSet tells which versions of the kind are served. The last one that is served is preferred; v1 is always that of the store.
type versionSet struct{ v1, v2 bool }

// writable is the version by which people reach the objects, "" if there is none.
func (s versionSet) writable() string {
	switch {
	case s.v1:
		return "v1"
	case s.v2:
		return "v2"
	}
	return ""
}

const definitionPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets." + group

// moveVersions lets one set of versions follow the other until the context ends, and leaves one in which the objects can be reached.
func (b *bench) moveVersions(ctx context.Context, random *rand.Rand) error {
	now := versionSet{v1: true}
	for ctx.Err() == nil {
		sets := []versionSet{{v1: true}, {v2: true}, {v1: true, v2: true}, {}}
		random.Shuffle(len(sets), func(i, j int) { sets[i], sets[j] = sets[j], sets[i] })
		for _, next := range sets {
			pause(ctx, between(random, time.Second, 4*time.Second))
			if next == now || ctx.Err() != nil {
				continue
			}
			b.serve(ctx, now, next)
			if now = next; now.writable() != "" {
				continue
			}
			pause(ctx, between(random, 5*time.Second, 8*time.Second)) // for longer than an operator takes to believe it
			next = versionSet{v1: true, v2: random.IntN(2) == 0}
			b.serve(ctx, now, next)
			now = next
		}
	}
	return nil
}

// serve changes the definition. People go by a version that is there before and after, if there is one.
func (b *bench) serve(ctx context.Context, before, after versionSet) {
	ctx = context.WithoutCancel(ctx) // what is served is to be known at the end
	if both := (versionSet{before.v1 && after.v1, before.v2 && after.v2}).writable(); both != "" {
		b.writers.version.Store(both)
	}
	patch := map[string]any{"spec": map[string]any{"versions": []any{version("v1", after.v1, true), version("v2", after.v2, false)}}}
	b.writers.do(ctx, http.MethodPatch, definitionPath, patch)
	if v := after.writable(); v != "" {
		b.writers.version.Store(v)
	}
	if after.v1 && !before.v1 || after.v2 && !before.v2 {
		b.counts.add(versionAdded)
	}
	if before.v1 && !after.v1 || before.v2 && !after.v2 {
		b.counts.add(versionRemoved)
	}
	if after.writable() == "" {
		b.counts.add(nothingServed)
	}
}

func version(name string, served, storage bool) map[string]any {
	return map[string]any{"name": name, "served": served, "storage": storage, "subresources": map[string]any{"status": map[string]any{}},
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
}

// kindDefinition is what a kind of the bench is defined by.
type kindDefinition struct {
	group, plural, kind, scope string
	noStatus                   bool // whether the status is a part like others
}

// kinds are all that the bench defines.
var kinds = []kindDefinition{
	{group: group, plural: "widgets", kind: "Widget", scope: "Namespaced"},
	{group: group, plural: "tickets", kind: "Ticket", scope: "Namespaced"},
	{group: group, plural: "gardens", kind: "Garden", scope: "Namespaced"},
	{group: group, plural: "leaves", kind: "Leaf", scope: "Namespaced"},
	{group: extensionGroup, plural: "things", kind: "Thing", scope: "Namespaced"},
	{group: "kopf.dev", plural: "clusterkopfpeerings", kind: "ClusterKopfPeering", scope: "Cluster", noStatus: true},
	{group: "kopf.dev", plural: "kopfpeerings", kind: "KopfPeering", scope: "Namespaced", noStatus: true},
}

func (k kindDefinition) manifest() map[string]any {
	first := version("v1", true, true)
	if k.noStatus {
		delete(first, "subresources")
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": k.plural + "." + k.group},
		"spec": map[string]any{"group": k.group, "scope": k.scope, "versions": []any{first},
			"names": map[string]any{"plural": k.plural, "singular": strings.ToLower(k.kind), "kind": k.kind}}}
}

// collection is the path of all objects of the kind.
func (k kindDefinition) collection() string { return "/apis/" + k.group + "/v1/" + k.plural }
