package kopf

import (
	"fmt"
	"reflect"

	"github.com/kopf-go/kopf/internal/applyset"
	"github.com/kopf-go/kopf/internal/manifest"
)

// HierarchyOptions are the options of [Adopt] and of the functions that it calls. Each function ignores options of the others.
type HierarchyOptions struct {
	// AddLabels are the labels to add to the objects. Defaults to those of the owner.
	AddLabels map[string]string
	// Name is the base of the objects' names. Defaults to the name of the owner.
	Name string
	// Namespace is the namespace of the objects. Defaults to that of the owner.
	Namespace string
	// Forced replaces existing labels, names and namespaces of the objects. Defaults to false.
	Forced bool
	// Strict gives the objects the name itself instead of a generated one that begins with it. Defaults to false.
	Strict bool
	// Nested are the paths of further structures to label, such as "spec.template". A path that does not exist is skipped. Defaults to none.
	Nested []FieldPath
	// NotController makes the owner one of several, not the controller of the objects. Defaults to false.
	NotController bool
	// NotBlocking lets the owner be deleted in the foreground before the objects are. Defaults to false.
	NotBlocking bool
}

// Adopt makes objects the children of an owner. It appends the owner reference, harmonizes the names, adjusts the namespaces, and adds the labels of the owner,
// in this order. Kubernetes deletes the children together with the owner.
//
// The objects are one object, or nested slices and arrays of objects. Adopt skips nil. An object is a map[string]any, or a pointer to a struct that
// encoding/json encodes as a Kubernetes object, such as those of the common client libraries. Anything else is an error, and then no object changes. Nil
// options mean the defaults.
func Adopt(owner *Body, objects any, options *HierarchyOptions) error {
	return edit("adopting", owner, objects, options, (*manifest.Hierarchy).AddOwner, (*manifest.Hierarchy).SetName, (*manifest.Hierarchy).SetNamespace, (*manifest.Hierarchy).AddLabels)
}

// Adopt makes objects the children of the object that is being handled, as [Adopt] does, with its errors.
func (o *Object) Adopt(objects any, options *HierarchyOptions) error {
	return Adopt(o.Latest(), objects, options)
}

// AppendOwnerReference adds a reference to the owner to objects, unless they have one with its UID. It fails if the owner has no UID, or if the objects have
// another controller and NotController is not set. For the objects, see [Adopt].
func AppendOwnerReference(owner *Body, objects any, options *HierarchyOptions) error {
	return edit("appending an owner reference", owner, objects, options, (*manifest.Hierarchy).AddOwner)
}

// RemoveOwnerReference removes all references with the owner's UID from objects. For the objects, see [Adopt].
func RemoveOwnerReference(owner *Body, objects any) error {
	return edit("removing an owner reference", owner, objects, nil, (*manifest.Hierarchy).RemoveOwner)
}

// HarmonizeNaming names objects after the owner, unless they have a name or a generateName. It sets the generateName, or the name if Strict is set. It fails
// if neither the owner nor the options have a name. For the objects, see [Adopt].
func HarmonizeNaming(owner *Body, objects any, options *HierarchyOptions) error {
	return edit("naming", owner, objects, options, (*manifest.Hierarchy).SetName)
}

// AdjustNamespace sets the namespace of objects to that of the owner, unless they have one. It does nothing if neither the owner nor the options have a
// namespace. For the objects, see [Adopt].
func AdjustNamespace(owner *Body, objects any, options *HierarchyOptions) error {
	return edit("adjusting the namespace", owner, objects, options, (*manifest.Hierarchy).SetNamespace)
}

// Label adds the labels of the owner to objects, and to the structures in them at the Nested paths. It keeps existing labels unless Forced is set. For the
// objects, see [Adopt].
func Label(owner *Body, objects any, options *HierarchyOptions) error {
	return edit("labelling", owner, objects, options, (*manifest.Hierarchy).AddLabels)
}

// edit applies the steps to copies of all objects, and changes the objects only if all steps succeed.
func edit(what string, owner *Body, objects any, options *HierarchyOptions, steps ...manifest.Step) error {
	if options == nil {
		options = &HierarchyOptions{}
	}
	if owner == nil {
		return fmt.Errorf("%s: no owner was given", what)
	}
	children, err := manifest.AppendChildren(nil, reflect.ValueOf(objects), reflect.TypeFor[*Body]())
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	h := hierarchyOf(owner, options)
	for i := range children {
		child := &children[i]
		for _, apply := range steps {
			if err := apply(h, child.After); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
	}
	for i := range children {
		if err := children[i].Write(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// hierarchyOf returns the relation of children to an owner.
func hierarchyOf(owner *Body, o *HierarchyOptions) *manifest.Hierarchy {
	h := &manifest.Hierarchy{
		Owner:  manifest.Owner{APIVersion: owner.APIVersion(), Kind: owner.Kind(), Namespace: owner.Namespace(), Name: owner.Name(), UID: owner.UID()},
		Labels: o.AddLabels, Name: o.Name, Namespace: o.Namespace, Forced: o.Forced, Strict: o.Strict, NotController: o.NotController, NotBlocking: o.NotBlocking,
	}
	for _, path := range o.Nested {
		h.Nested = append(h.Nested, path.Keys())
	}
	if h.Labels == nil {
		h.Labels = owner.Labels()
		delete(h.Labels, applyset.IDLabel) // the label would make the object a parent or a member of the set, and it would be pruned
		delete(h.Labels, applyset.PartOfLabel)
	}
	return h
}
