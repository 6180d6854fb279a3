package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// This file tests the children of a reconcile handler. Gardens want a config map for each plant, and other clients change, delete and take over the config
// maps.

// The faults of this family.
const (
	childChanged  = "child changed"
	childForgot   = "managed fields of a child lost"
	childDeleted  = "child deleted"
	childTaken    = "child taken over"
	childOrphaned = "child orphaned"
	childSquatted = "name of a child taken"
)

var gardenFaults = []string{childChanged, childForgot, childDeleted, childTaken, childOrphaned, childSquatted}

// The invariants.
const (
	childrenWished = "every desired child is as it is desired"
	childrenPruned = "no child is left that is not desired"
	childrenOthers = "what belongs to others is as they have left it"
)

const (
	gardenCount = 15
	gardenPace  = 60 * time.Millisecond
	// takenKey is the annotation of a config map that another client has taken over: the number of that takeover.
	takenKey = group + "/taken"
	// stranger is the object that becomes the new controller of children.
	stranger = "stranger"
)

var plants = []string{"oak", "rose", "fern", "moss"}

func gardenPath(name string) string {
	return strings.TrimSuffix("/apis/"+group+"/v1/namespaces/"+namespace+"/gardens/"+name, "/")
}

func configMapPath(name string) string {
	return strings.TrimSuffix("/api/v1/namespaces/"+namespace+"/configmaps/"+name, "/")
}

// gardener changes gardens and their children.
type gardener struct {
	*bench
	random   *rand.Rand
	taken    atomic.Int64
	stranger string // its uid
}

// meddle changes gardens and their children until the context is canceled.
func (b *bench) meddle(ctx context.Context, random *rand.Rand) error {
	g := &gardener{bench: b, random: random}
	b.writers.do(ctx, http.MethodPost, configMapPath(""), map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": stranger}})
	for ctx.Err() == nil {
		if g.stranger == "" {
			g.stranger = b.uidOf(ctx, configMapPath(stranger))
			continue
		}
		garden := fmt.Sprint("g-", random.IntN(gardenCount))
		switch n := random.IntN(30); {
		case n == 0:
			b.collect(ctx)
		case n < 20:
			g.work(ctx, garden)
		default:
			g.disturb(ctx, garden+"-"+plants[random.IntN(len(plants))])
		}
		pause(ctx, time.Duration(random.Int64N(int64(2*gardenPace))))
	}
	return nil
}

func (b *bench) uidOf(ctx context.Context, path string) string {
	data, err := b.cluster.Request(ctx, http.MethodGet, path, nil)
	var o configMap
	if err != nil || json.Unmarshal(data, &o) != nil {
		pause(ctx, 200*time.Millisecond)
		return ""
	}
	return o.Metadata.UID
}

// work changes a garden like its user.
func (g *gardener) work(ctx context.Context, name string) {
	some := []string{}
	for _, plant := range plants {
		if g.random.IntN(2) == 0 {
			some = append(some, plant)
		}
	}
	spec := map[string]any{"value": g.writers.value.Add(1), "plants": some}
	switch n := g.random.IntN(20); {
	case n < 8:
		g.writers.do(ctx, http.MethodPost, gardenPath(""), map[string]any{"apiVersion": group + "/v1", "kind": "Garden", "metadata": map[string]any{"name": name}, "spec": spec})
	case n < 18:
		g.writers.do(ctx, http.MethodPatch, gardenPath(name), map[string]any{"spec": spec})
	default:
		g.writers.do(ctx, http.MethodDelete, gardenPath(name), nil)
	}
}

// disturb changes a child, if it exists, as another client may do.
func (g *gardener) disturb(ctx context.Context, name string) {
	patch := func(what string, patch map[string]any) {
		if g.writers.do(ctx, http.MethodPatch, configMapPath(name), patch) == http.StatusOK {
			g.counts.add(what)
		}
	}
	number := g.taken.Add(1)
	theirs := map[string]any{"data": map[string]any{"value": theirs(number)}}
	metadata := map[string]any{"annotations": map[string]any{takenKey: strconv.FormatInt(number, 10)}}
	owners := []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": stranger, "uid": g.stranger, "controller": true}}
	switch n := g.random.IntN(20); {
	case n < 6:
		patch(childChanged, map[string]any{"data": map[string]any{"value": "weed"}})
	case n < 9:
		patch(childForgot, map[string]any{"metadata": map[string]any{"managedFields": []any{map[string]any{}}}})
	case n < 13:
		if g.writers.do(ctx, http.MethodDelete, configMapPath(name), nil) == http.StatusOK {
			g.counts.add(childDeleted)
		}
	case n < 15:
		metadata["ownerReferences"] = owners
		theirs["metadata"] = metadata
		patch(childTaken, theirs)
	case n < 17:
		metadata["ownerReferences"] = nil
		theirs["metadata"] = metadata
		patch(childOrphaned, theirs)
	default:
		metadata["name"], theirs["apiVersion"], theirs["kind"] = name, "v1", "ConfigMap"
		if g.random.IntN(2) == 0 {
			metadata["ownerReferences"] = owners
		}
		theirs["metadata"] = metadata
		if g.writers.do(ctx, http.MethodPost, configMapPath(""), theirs) == http.StatusCreated {
			g.counts.add(childSquatted)
		}
	}
}

// The value in a config map that another client has taken over.
func theirs(number int64) string { return "theirs-" + strconv.FormatInt(number, 10) }

// configMap has the checked fields of a config map.
type configMap struct {
	Metadata struct {
		Name, UID       string
		Annotations     map[string]string
		OwnerReferences []owner
		ManagedFields   []struct{ Manager, Operation string }
	}
	Data map[string]string
}

// owner has the checked fields of an owner reference.
type owner struct {
	Kind, UID  string
	Controller bool
}

// controller returns the uid of the controller, "" if there is none.
func (c *configMap) controller() string {
	for _, owner := range c.Metadata.OwnerReferences {
		if owner.Controller {
			return owner.UID
		}
	}
	return ""
}

// applied reports whether the operator has applied it. Otherwise the operator does not recognize it as its own.
func (c *configMap) applied() bool {
	return slices.ContainsFunc(c.Metadata.ManagedFields, func(f struct{ Manager, Operation string }) bool {
		return f.Manager == "kopf-gardens."+group && f.Operation == "Apply"
	})
}

// garden has the checked fields of a garden.
type garden struct {
	Metadata struct{ Name, UID, DeletionTimestamp string }
	Spec     struct {
		Value  int64
		Plants []string
	}
}

// Gardens are all gardens, and all config maps with the names of children, by these names.
type Gardens struct {
	Gardens    map[string]*garden
	ConfigMaps map[string]*configMap
}

// gardens returns the gardens and children.
func (b *bench) gardens(ctx context.Context) (*Gardens, error) {
	if !b.opts.has("children") {
		return nil, nil
	}
	var owners struct{ Items []*garden }
	var children struct{ Items []*configMap }
	for path, into := range map[string]any{gardenPath(""): &owners, configMapPath(""): &children} {
		data, err := b.cluster.Request(ctx, http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, into); err != nil {
			return nil, err
		}
	}
	all := &Gardens{map[string]*garden{}, map[string]*configMap{}}
	for _, g := range owners.Items {
		all.Gardens[g.Metadata.Name] = g
	}
	for _, c := range children.Items {
		if strings.HasPrefix(c.Metadata.Name, "g-") {
			all.ConfigMaps[c.Metadata.Name] = c
		}
	}
	return all, nil
}

// collect deletes the children of deleted gardens, as the garbage collector does. That of Kubernetes misses children whose owner was replaced under the same
// name while it could not watch, as during restarts of the API server.
func (b *bench) collect(ctx context.Context) {
	before, err := b.gardens(ctx)
	if before == nil || err != nil {
		return
	}
	after, err := b.gardens(ctx) // their owners are not older than the children before
	if err != nil {
		return
	}
	c := &court{Evidence: &Evidence{Gardens: after}}
	for name, one := range before.ConfigMaps {
		if slices.ContainsFunc(one.Metadata.OwnerReferences, func(r owner) bool { return r.Kind == "Garden" }) && !c.isOfGarden(one) {
			b.writers.do(ctx, http.MethodDelete, configMapPath(name), map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": map[string]any{"uid": one.Metadata.UID}})
		}
	}
}

// clone returns a copy to manipulate.
func (g *Gardens) clone() *Gardens {
	if g == nil {
		return nil
	}
	c := &Gardens{maps.Clone(g.Gardens), map[string]*configMap{}}
	for name, one := range g.ConfigMaps {
		copied := *one
		copied.Data = maps.Clone(one.Data)
		c.ConfigMaps[name] = &copied
	}
	return c
}

// releaseGardens has other clients return half of the children that they took over, or all of them together with the gardens themselves.
func (b *bench) releaseGardens(ctx context.Context, remove bool) {
	all, err := b.gardens(ctx)
	for ; err != nil && ctx.Err() == nil; all, err = b.gardens(ctx) {
		pause(ctx, 300*time.Millisecond)
	}
	if all == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(all.ConfigMaps)) {
		number, err := strconv.ParseInt(all.ConfigMaps[name].Metadata.Annotations[takenKey], 10, 64)
		if err == nil && (remove || number%2 == 0) {
			b.writers.do(ctx, http.MethodDelete, configMapPath(name), nil)
		}
	}
	for name := range all.Gardens {
		if remove {
			b.writers.do(ctx, http.MethodDelete, gardenPath(name), nil)
		}
	}
}

// gardened checks the children of all gardens.
func (c *court) gardened() {
	if c.Gardens == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.Gardens.Gardens)) {
		if g := c.Gardens.Gardens[name]; g.Metadata.DeletionTimestamp == "" {
			c.garden(g)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Gardens.ConfigMaps)) {
		one := c.Gardens.ConfigMaps[name]
		number, err := strconv.ParseInt(one.Metadata.Annotations[takenKey], 10, 64)
		if err == nil && !c.isOfGarden(one) && one.Data["value"] != theirs(number) && one.Data["value"] != "weed" {
			c.complain(childrenOthers, one.Metadata.UID, name, "it has the value %q, and was left with %q", one.Data["value"], theirs(number))
		}
	}
}

// isOfGarden reports whether a config map belongs to an existing garden.
func (c *court) isOfGarden(one *configMap) bool {
	for _, g := range c.Gardens.Gardens {
		if g.Metadata.UID == one.controller() {
			return true
		}
	}
	return false
}

// garden checks the children of one garden. As long as one of them has another controller, the handler fails, and deletes nothing.
func (c *court) garden(g *garden) {
	value, others := strconv.FormatInt(g.Spec.Value, 10), false
	for _, plant := range g.Spec.Plants {
		name := g.Metadata.Name + "-" + plant
		switch one := c.Gardens.ConfigMaps[name]; {
		case one == nil:
			c.complain(childrenWished, g.Metadata.UID, name, "it is not there")
		case one.controller() != g.Metadata.UID && one.Metadata.Annotations[takenKey] == "":
			c.complain(childrenWished, g.Metadata.UID, name, "it has the controller %q, and no other client has taken it over", one.controller())
		case one.controller() != g.Metadata.UID:
			others = true
		case one.Data["value"] != value:
			c.complain(childrenWished, g.Metadata.UID, name, "it has the value %q, and is to have %q", one.Data["value"], value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Gardens.ConfigMaps)) {
		one := c.Gardens.ConfigMaps[name]
		plant := strings.TrimPrefix(name, g.Metadata.Name+"-")
		if !others && one.controller() == g.Metadata.UID && one.applied() && !slices.Contains(g.Spec.Plants, plant) {
			c.complain(childrenPruned, g.Metadata.UID, name, "it is still there")
		}
	}
}

// gardensGone checks that the gardens and their children are gone.
func (c *court) gardensGone() {
	if c.Gardens == nil {
		return
	}
	for name, g := range c.Gardens.Gardens {
		c.complain(leftovers, g.Metadata.UID, name, "the garden is still there")
	}
	for name, one := range c.Gardens.ConfigMaps {
		c.complain(leftovers, one.Metadata.UID, name, "the child is still there")
	}
}

// liesOfGardens are manipulations of the children.
var liesOfGardens = []lie{
	{"a child was not made", childrenWished, func(e *Evidence) bool {
		return e.someChild(func(name string, _ *configMap) { delete(e.Gardens.ConfigMaps, name) })
	}},
	{"a child has what another client has written", childrenWished, func(e *Evidence) bool {
		return e.someChild(func(_ string, one *configMap) { one.Data["value"] = "weed" })
	}},
	{"a child is left that is not desired", childrenPruned, func(e *Evidence) bool {
		for _, g := range e.Gardens.owners() {
			one := &configMap{}
			one.Metadata.OwnerReferences = append(one.Metadata.OwnerReferences, owner{"Garden", g.Metadata.UID, true})
			one.Metadata.ManagedFields = append(one.Metadata.ManagedFields, struct{ Manager, Operation string }{"kopf-gardens." + group, "Apply"})
			e.Gardens.ConfigMaps[g.Metadata.Name+"-thistle"] = one
		}
		return len(e.Gardens.owners()) > 0
	}},
	{"a config map of another client was changed", childrenOthers, func(e *Evidence) bool {
		one := &configMap{Data: map[string]string{"value": "1"}}
		one.Metadata.Annotations = map[string]string{takenKey: "1"}
		if e.Gardens != nil {
			e.Gardens.ConfigMaps["g-0-nettle"] = one
		}
		return e.Gardens != nil
	}},
}

func (g *Gardens) owners() []*garden {
	if g == nil {
		return nil
	}
	return slices.Collect(maps.Values(g.Gardens))
}

// someChild changes one of the children in the desired state.
func (e *Evidence) someChild(change func(name string, one *configMap)) bool {
	for _, g := range e.Gardens.owners() {
		for _, plant := range g.Spec.Plants {
			name := g.Metadata.Name + "-" + plant
			if one := e.Gardens.ConfigMaps[name]; one != nil && one.controller() == g.Metadata.UID {
				change(name, one)
				return true
			}
		}
	}
	return false
}
