package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Owner is what objects are tied to.
type Owner struct {
	APIVersion, Kind, Namespace, Name, UID string
}

// Hierarchy is how objects are tied to their owner.
type Hierarchy struct {
	Owner         Owner
	Labels        map[string]string
	Name          string // what the objects are named after; defaults to the name of the owner
	Namespace     string // where the objects go; defaults to the namespace of the owner
	Forced        bool   // whether labels, names and namespaces of the objects are replaced
	Strict        bool   // whether the name itself is theirs, and not a generated one
	Nested        [][]string
	NotController bool // whether the owner is one of several
	NotBlocking   bool // whether it can be deleted in the foreground before the objects are
}

// Step is one change to an object, by a method of the hierarchy.
type Step func(h *Hierarchy, object map[string]any) error

// checkUID fails if the owner has no uid.
func (h *Hierarchy) checkUID() error {
	if h.Owner.UID == "" {
		return fmt.Errorf("the owner %s has no uid", strings.TrimPrefix(h.Owner.Namespace+"/"+h.Owner.Name, "/"))
	}
	return nil
}

// AddOwner adds a reference to the owner.
func (h *Hierarchy) AddOwner(object map[string]any) error {
	if err := h.checkUID(); err != nil {
		return err
	}
	return AddOwner(object, h.Reference())
}

// Reference returns the entry of the owner in metadata.ownerReferences. What the owner does not have is left out.
func (h *Hierarchy) Reference() map[string]any {
	ref := map[string]any{"controller": !h.NotController, "blockOwnerDeletion": !h.NotBlocking}
	for key, text := range map[string]string{"apiVersion": h.Owner.APIVersion, "kind": h.Owner.Kind, "name": h.Owner.Name, "uid": h.Owner.UID} {
		if text != "" {
			ref[key] = text
		}
	}
	return ref
}

// RemoveOwner removes all references to the owner.
func (h *Hierarchy) RemoveOwner(object map[string]any) error {
	if err := h.checkUID(); err != nil {
		return err
	}
	return RemoveOwner(object, h.Owner.UID)
}

// SetName names the object after the owner.
func (h *Hierarchy) SetName(object map[string]any) error {
	name := cmp.Or(h.Name, h.Owner.Name)
	if name == "" {
		return errors.New("there is no name to use: the owner has none, and none was given")
	}
	return SetName(object, name, h.Strict, h.Forced)
}

// SetNamespace puts the object into a namespace, if there is one to use.
func (h *Hierarchy) SetNamespace(object map[string]any) error {
	namespace := cmp.Or(h.Namespace, h.Owner.Namespace)
	if namespace == "" {
		return nil
	}
	return SetNamespace(object, namespace, h.Forced)
}

// AddLabels labels the object, and the nested structures in it. Those that do not exist are skipped.
func (h *Hierarchy) AddLabels(object map[string]any) error {
	if err := AddLabels(object, h.Labels, h.Forced); err != nil {
		return err
	}
	for _, path := range h.Nested {
		part, ok := Lookup(object, path)
		if !ok {
			continue
		}
		nested, ok := part.(map[string]any)
		shown := strings.Join(path, ".")
		if !ok {
			return fmt.Errorf("%q is a %T, not a map that can be labelled", shown, part)
		}
		if err := AddLabels(nested, h.Labels, h.Forced); err != nil {
			return fmt.Errorf("%q: %w", shown, err)
		}
	}
	return nil
}
