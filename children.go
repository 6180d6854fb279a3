package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/apirequest"
	"github.com/kopf-go/kopf/internal/applyset"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/ownership"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file takes the declarations of the children that a reconcile handler wants. It runs on the
// goroutine of the object's worker.

// DesiredOptions are the options of [Reconcile.Desired]. Zero values mean the defaults.
type DesiredOptions struct {
	// After are children that must be ready before kopf applies this one. Default: none.
	After []*Child
	// Ready decides whether the child is ready, with a short reason if it is not. Default: the rules of [Child.Ready]. After a restart, kopf reads the child
	// for it once.
	Ready func(*Body) (ready bool, reason string)
	// Recreate deletes and creates the child if the API server rejects a change because a field is immutable. Default: false, which makes it an error.
	Recreate bool
	// Once creates a missing child, and never changes it afterwards. If such a child is missing after
	// a call, kopf does not send the Patch of the call. Default: false.
	Once bool
	// Create returns further fields of the child, which kopf merges into the declared object. kopf
	// calls it only if the child is missing, right before it creates the child, and does not send
	// the Patch of the call if either fails. Use it for values that are known only once, such as
	// generated passwords. It implies Once. Default: none.
	Create func(context.Context) (fields any, err error)
	// Keep never deletes the child, neither when the handler leaves it out, nor with its owner. kopf adds no owner reference. Default: false.
	Keep bool
	// Adopt takes over an existing object, unless it has another controller. Default: false, which makes it a [ForeignError].
	Adopt bool
}

// children collects the children that a handler wants. It is an interface so that programs without reconcile handlers are linked without its implementation.
type children interface {
	add(c *Child, object any)
	addNone()
	list(of Selector) []*Child
	read(ctx context.Context, c *Child, into any) error
	then(settle func() error)
}

// Child is an object that a reconcile handler has passed to [Reconcile.Desired].
type Child struct {
	set      children
	ref      ObjectReference
	resource Resource
	options  DesiredOptions
	config   *ownership.Configuration
	known    *child // nil if kopf does not know it exists
	member   bool   // of a set, because it can have no owner reference
	state    childState
	failed   bool // whether it still differs after it was applied
	made     bool // whether the option Create was called

	found  *Body        // the object of its name that was there before; nil for a known child, and for a new one
	before appliedState // before the apply
	missed bool         // whether another client has changed the child before it, which no event has shown
}

// childState is the state of a child when the call of the handler begins.
type childState struct {
	exists, ready bool
	reason        string
}

// childKey identifies a child in all versions of its kind.
type childKey struct {
	group, plural string
	name          objectName
}

func (c *Child) key() childKey {
	return childKey{c.resource.Group, c.resource.Plural, objectName{c.ref.Namespace, c.ref.Name}}
}

// Reference returns the reference to the child. It has no UID before the child exists.
func (c *Child) Reference() ObjectReference { return c.ref }

// Exists reports whether the child existed when the call of the handler began.
func (c *Child) Exists() bool { return c.state.exists }

// Ready reports whether the child was ready when the call of the handler began, by the rules of kstatus, which kubectl and other tools use. Three rules differ:
// a Job is ready when it is complete, failed Jobs and Pods are not ready, and a condition Ready of an older generation does not count. Other kinds need the
// condition Ready, if they have one.
func (c *Child) Ready() bool { return c.state.ready }

// Reason returns a short text why the child was not ready, such as "Ready: 1/3", or "" if it was ready.
func (c *Child) Reason() string { return c.state.reason }

// Get reads the child from the API server, as [Client.Get] does.
func (c *Child) Get(ctx context.Context, into any) error {
	if c.set == nil {
		return errors.New("the child is of an argument that was made by hand")
	}
	return c.set.read(ctx, c, into)
}

// ConditionOf converts a bool to [ConditionTrue] or [ConditionFalse].
func ConditionOf(holds bool) ConditionStatus {
	if holds {
		return ConditionTrue
	}
	return ConditionFalse
}

// ForeignError is the error for a desired child that exists already, and that the handled object does not own.
type ForeignError struct {
	// Object is the existing object.
	Object ObjectReference
	// Controller is its controller, empty if it has none.
	Controller ObjectReference
	// ApplySet is the ID of the set that it is a member of, "" if it is in none.
	ApplySet string
}

// Error returns who owns the existing object.
func (e *ForeignError) Error() string {
	if e.Controller.Name != "" {
		return fmt.Sprintf("an object of its name is there already, and is controlled by the %s %q", e.Controller.Kind, e.Controller.Name)
	}
	if e.ApplySet != "" {
		return fmt.Sprintf("an object of its name is there already, and is a member of the set %q", e.ApplySet)
	}
	return "an object of its name is there already, and has no controller: the option Adopt takes it over"
}

// desiredSet holds the children that one call of a reconcile handler wants.
type desiredSet struct {
	reconciler  *reconciler
	reconciling *reconciling
	cycle       *cycle
	client      *Client
	owner       *Body
	log         *slog.Logger
	wanted      []*Child
	declared    map[childKey]*Child // the same
	none        bool                // NoChildren was called
	kept        bool                // children that were not declared stay
	err         error               // the first error of a call of Desired
	applying    *applying
	applied     []string // children, for the audit
	deleted     []string
	listed      map[*child]bool     // by calls of Children
	set         string              // the ID of the owner's set
	hierarchy   *manifest.Hierarchy // nil before the first child
	reference   map[string]any      // to the owner; nil before the first child
	state       *reconcileState
	triggers    []Trigger // of the call
	settlers
}

// Desired declares a child object that should exist: a map, or anything else that encoding/json encodes as an object of a kind in the option Owns. A missing
// name, namespace or label comes from the handled object, which becomes the controller of the child. When the handler returns nil, kopf applies the children
// that differ, in this order, by server-side apply, and deletes former children. A call that declares no child deletes none, unless it calls
// [Reconcile.NoChildren]. The result describes the state of the child when the call began. A wrong child fails the handler.
func (r *Reconcile) Desired(object any, opts *DesiredOptions) *Child {
	c := &Child{set: r.desired, options: optionsOf(opts)}
	c.options.Once = c.options.Once || c.options.Create != nil
	if r.desired == nil { // in a hand-made argument
		return c
	}
	r.desired.add(c, object)
	return c
}

// NoChildren declares that the object should have no children: kopf deletes all former ones.
// Without it, a call that declares no child leaves all children as they are, because it may just
// have returned early. A call of both NoChildren and [Reconcile.Desired] fails the handler.
func (r *Reconcile) NoChildren() {
	if r.desired != nil { // nil in a hand-made argument
		r.desired.addNone()
	}
}

func (d *desiredSet) read(ctx context.Context, c *Child, into any) error {
	return d.client.Get(ctx, c.ref, into, nil)
}

// add adds a child, or records the error.
func (d *desiredSet) add(c *Child, object any) {
	if err := d.want(c, object); err != nil && d.err == nil {
		d.err = err
	}
}

func (d *desiredSet) addNone() { d.none = true }

// want completes an object, and looks up the existing child.
func (d *desiredSet) want(c *Child, object any) error {
	if err := d.configure(c, object); err != nil {
		return err
	}
	if d.declared[c.key()] != nil {
		return fmt.Errorf("%s %s is desired twice", c.ref.Kind, c.ref)
	}
	for _, after := range c.options.After {
		if after == nil || d.declared[after.key()] != after {
			return fmt.Errorf("invalid option After of %s %s: want children that were desired before it in this call", c.ref.Kind, c.ref)
		}
	}
	if d.declared == nil {
		d.declared = make(map[childKey]*Child)
	}
	d.declared[c.key()] = c
	d.wanted = append(d.wanted, c)
	d.reconciler.find(d, c)
	return nil
}

// configure sets what a child is, from a desired object.
func (d *desiredSet) configure(c *Child, object any) error {
	value, err := rawjson.NormalizeObject(object)
	if err != nil {
		return fmt.Errorf("the desired %T: %w", object, err)
	}
	m, ok := value.(map[string]any)
	switch metadata := rawjson.AsMap(m["metadata"]); {
	case value == nil:
		return fmt.Errorf("the desired object is nil, of type %T: want an object, or no call of Desired", object)
	case metadata["generateName"] != nil && metadata["name"] == nil:
		return errors.New("invalid metadata.generateName of a desired object: want metadata.name, which is the same in each call")
	case !ok:
		return fmt.Errorf("invalid desired object of type %T: want a map, or a struct that is an object in JSON", object)
	}
	apiVersion, _ := m["apiVersion"].(string)
	kind, _ := m["kind"].(string)
	if err := apirequest.CheckType(apiVersion, kind, object); err != nil {
		return fmt.Errorf("invalid desired object: %w", err)
	}
	if c.resource, err = d.resourceOf(apiVersion, kind); err != nil {
		return err
	}
	if c.resource.hasStatus() {
		delete(m, "status") // structs have it, and the API server ignores it here
	}
	d.reconciler.settings.Tracing.link(m, d.owner)
	if err := d.complete(c, m); err != nil {
		return fmt.Errorf("the desired %s: %w", kind, err)
	}
	if c.config, err = ownership.Of(m, wantedAnnotation); err != nil {
		return fmt.Errorf("the desired %s: %w", kind, err)
	}
	metadata := rawjson.AsMap(m["metadata"])
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	c.ref = ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
	return nil
}

// resourceOf returns the resource of a kind that the handler owns.
func (d *desiredSet) resourceOf(apiVersion, kind string) (Resource, error) {
	group, version, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group, version = "", apiVersion
	}
	var owned []string
	for _, r := range d.reconciling.owns {
		if r.Group == group && r.Kind == kind {
			r.Version = version
			return r, nil
		}
		owned = append(owned, r.Kind)
	}
	return Resource{}, fmt.Errorf("invalid desired kind %s of %s: want one of ReconcileOptions.Owns that the API server has: %s", kind, apiVersion, cmp.Or(strings.Join(owned, ", "), "none"))
}

// complete adds the missing name, namespace, labels and owner reference to a desired object.
func (d *desiredSet) complete(c *Child, object map[string]any) error {
	steps := []manifest.Step{(*manifest.Hierarchy).SetName, (*manifest.Hierarchy).AddLabels}
	if c.resource.Namespaced {
		steps = append(steps, (*manifest.Hierarchy).SetNamespace)
	}
	if d.hierarchy == nil {
		d.hierarchy = hierarchyOf(d.owner, &HierarchyOptions{Strict: true})
		d.reference = d.hierarchy.Reference() // shared by all children
	}
	for _, apply := range steps {
		if err := apply(d.hierarchy, object); err != nil {
			return err
		}
	}
	metadata := rawjson.AsMap(object["metadata"])
	namespace, _ := metadata["namespace"].(string)
	_, inSet := rawjson.AsMap(metadata["labels"])[applyset.PartOfLabel]
	switch {
	case c.resource.Namespaced && namespace == "":
		return errors.New("it needs a namespace, since its owner is in none")
	case !c.resource.Namespaced && namespace != "":
		return fmt.Errorf("invalid namespace %q: the kind is not in namespaces", namespace)
	case namespace != "" && !d.reconciler.observer.serves(namespace):
		return fmt.Errorf("invalid namespace %q: want one that the operator serves", namespace)
	case inSet:
		return fmt.Errorf("invalid label %q: want none, because kopf says which set an object is part of", applyset.PartOfLabel)
	case c.options.Keep:
		return nil
	case d.owner.Namespace() != "" && namespace != d.owner.Namespace(): // the garbage collector would not find the owner, and would delete the child
		c.member = true
		return d.addMember(object)
	}
	return manifest.AddOwner(object, d.reference)
}

// keyOf returns the key of a child's family.
func (d *desiredSet) keyOf(c *Child) string {
	if c.options.Keep {
		return keptKey(c.resource, c.ref.Namespace, c.ref.Name)
	}
	if c.member {
		return d.set
	}
	return d.owner.UID()
}

// find looks up the known state of a child.
func (rc *reconciler) find(d *desiredSet, c *Child) {
	key, uid := keptKey(c.resource, c.ref.Namespace, c.ref.Name), d.owner.UID()
	free := c.options.Keep || rc.isFree(key, uid)
	rc.mu.Lock()
	defer rc.mu.Unlock()
	families := []*family{rc.families[d.keyOf(c)]}
	kept := rc.families[key]
	switch {
	case c.options.Keep: // perhaps from now on
		families = append(families, rc.families[uid], rc.families[d.set])
	case free: // the option was dropped, or another client has removed the reference to the owner
		families = append(families, kept)
	}
	if free && kept != nil {
		kept.owner = uid // so that its events call the handler, such as that of its end
	}
	for _, f := range families {
		for _, known := range f.named(objectName{c.ref.Namespace, c.ref.Name}) {
			newer := c.known == nil || known.newest() >= c.known.newest() // others of the name are gone
			if newer && rc.is(known, c.resource, c.ref.Namespace, c.ref.Name) {
				c.known = known
			}
		}
	}
	c.state = childState{reason: "NotFound"}
	if c.known == nil {
		return
	}
	if c.known.more != nil {
		c.known.more.pruned = false // from now on, its deletion calls the handler
	}
	c.known.kind = rc.kindOfLocked(d.reconciling.handler, c.resource)
	c.ref.UID = c.known.uid()
	if c.state = c.known.state(); c.options.Ready != nil {
		c.state.ready, c.state.reason = false, "Unknown"
		if custom := c.known.custom(); custom != nil {
			c.state.ready, c.state.reason = custom.ready, custom.reason
		}
	}
}

// isFree reports whether an owner may have the only child of a family without an owner reference:
// the handler of no other existing object has wanted it last.
func (rc *reconciler) isFree(key, uid string) bool {
	rc.mu.Lock()
	owner := ""
	if kept := rc.families[key]; kept != nil {
		owner = kept.owner
	}
	rc.mu.Unlock()
	return owner == "" || owner == uid || !slices.ContainsFunc(rc.allReactors(), func(r *reactor) bool {
		return r.queue.entryOf(owner) != nil
	})
}

// custom returns the last result of the user's readiness function for the child, nil before its first call.
func (c *child) custom() *customReady {
	if c.more == nil {
		return nil
	}
	return c.more.custom
}
