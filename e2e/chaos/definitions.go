package chaos

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// This file adds and removes versions of the kind, as conversions and upgrades of CRDs do.

// versionSet has the served versions of the kind. The last served version is preferred; v1 is always the stored one.
type versionSet struct{ v1, v2 bool }

// writable returns the version in which clients use the objects, "" if there is none.
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

// moveVersions switches between sets of versions until the context is canceled. It ends with a set in which clients can use the objects.
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
			pause(ctx, between(random, 5*time.Second, 8*time.Second)) // longer than the time until an operator believes it
			next = versionSet{v1: true, v2: random.IntN(2) == 0}
			b.serve(ctx, now, next)
			now = next
		}
	}
	return nil
}

// serve changes the CRD. Clients use a version that is served before and after the change, if there is one.
func (b *bench) serve(ctx context.Context, before, after versionSet) {
	ctx = context.WithoutCancel(ctx) // in the end, the served versions must be known
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

// kindDefinition describes the CRD of a kind.
type kindDefinition struct {
	group, plural, kind, scope string
	noStatus                   bool // whether the status is no subresource
}

// kinds are all kinds of the bench.
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

// collection returns the path of all objects of the kind.
func (k kindDefinition) collection() string { return "/apis/" + k.group + "/v1/" + k.plural }
