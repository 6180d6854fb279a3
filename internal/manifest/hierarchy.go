package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Owner is the owner of child objects.
type Owner struct {
	APIVersion, Kind, Namespace, Name, UID string
}

// Hierarchy says how objects become children of their owner.
type Hierarchy struct {
	Owner         Owner
	Labels        map[string]string
	Name          string // base of the object names; default: the name of the owner
	Namespace     string // of the objects; default: the namespace of the owner
	Forced        bool   // replace existing labels, names and namespaces
	Strict        bool   // use the name itself, not as a prefix for generated names
	Nested        [][]string
	NotController bool // the owner is not the controller
	NotBlocking   bool // the objects do not block the foreground deletion of the owner
}

// Step is one change of an object, a method of Hierarchy.
type Step func(h *Hierarchy, object map[string]any) error

// checkUID returns an error if the owner has no uid.
func (h *Hierarchy) checkUID() error {
	if h.Owner.UID == "" {
		return fmt.Errorf("the owner %s has no uid", strings.TrimPrefix(h.Owner.Namespace+"/"+h.Owner.Name, "/"))
	}
	return nil
}

// AddOwner adds an owner reference.
func (h *Hierarchy) AddOwner(object map[string]any) error {
	if err := h.checkUID(); err != nil {
		return err
	}
	return AddOwner(object, h.Reference())
}

// Reference returns the owner reference. It omits empty fields.
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

// SetNamespace sets the namespace of the object, if there is one.
func (h *Hierarchy) SetNamespace(object map[string]any) error {
	namespace := cmp.Or(h.Namespace, h.Owner.Namespace)
	if namespace == "" {
		return nil
	}
	return SetNamespace(object, namespace, h.Forced)
}

// AddLabels adds labels to the object, and to the existing nested structures in it.
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
