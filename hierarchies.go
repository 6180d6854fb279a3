package kopf

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file knows how children are tied to their owner before they are created: by owner references, names,
// namespaces and labels. It changes the objects in the caller's memory, on the caller's goroutine, and sends nothing.

// HierarchyOptions adjust [Adopt] and the functions that it consists of. Each function reads what it has a use for.
type HierarchyOptions struct {
	// AddLabels are the labels to put on the objects. Defaults to those of the owner.
	AddLabels map[string]string
	// Name is what the objects are named after. Defaults to the name of the owner.
	Name string
	// Namespace is where the objects go. Defaults to the namespace of the owner.
	Namespace string
	// Forced replaces labels, names and namespaces that the objects have already. Defaults to false.
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

// Adopt makes objects the children of an owner: it appends the owner reference, and harmonizes their naming, adjusts their namespace
// and labels them like the owner, in this order. Once they are created, they are deleted together with the owner.
//
// The objects are one object, or slices and arrays of objects, nested as deep as needed; a nil is skipped. An object is a
// map[string]any, or a pointer to a struct that encoding/json turns into a Kubernetes object, such as those of the common
// client libraries. Anything else is an error, and then no object is changed. Nil options mean the defaults.
func Adopt(owner *Body, objects any, options *HierarchyOptions) error {
	return edit("adopting", owner, objects, options, appendOwner, harmonizeName, adjustNamespace, label)
}

// Adopt makes objects the children of the object that is being handled, as [Adopt] does, with its errors.
func (o *Object) Adopt(objects any, options *HierarchyOptions) error {
	return Adopt(o.Latest(), objects, options)
}

// AppendOwnerReference adds a reference to the owner to objects, unless they have one with its uid. It fails if the owner has no uid, or
// if the objects have another controller and NotController is not set. For the objects, see [Adopt].
func AppendOwnerReference(owner *Body, objects any, options *HierarchyOptions) error {
	return edit("appending an owner reference", owner, objects, options, appendOwner)
}

// RemoveOwnerReference removes all references with the owner's uid from objects. For the objects, see [Adopt].
func RemoveOwnerReference(owner *Body, objects any) error {
	return edit("removing an owner reference", owner, objects, nil, removeOwner)
}

// HarmonizeNaming names objects after the owner, unless they have a name or a generateName: by generateName, or
// by name if Strict is set. It fails if the owner has no name and the options have none. For the objects, see [Adopt].
func HarmonizeNaming(owner *Body, objects any, options *HierarchyOptions) error {
	return edit("naming", owner, objects, options, harmonizeName)
}

// AdjustNamespace puts objects into the namespace of the owner, unless they have one. If neither the owner nor the
// options have a namespace, the objects are left alone. For the objects, see [Adopt].
func AdjustNamespace(owner *Body, objects any, options *HierarchyOptions) error {
	return edit("adjusting the namespace", owner, objects, options, adjustNamespace)
}

// Label puts the labels of the owner on objects, and on the structures in them at the Nested paths. Labels that are there already are
// kept unless Forced is set. For the objects, see [Adopt].
func Label(owner *Body, objects any, options *HierarchyOptions) error {
	return edit("labelling", owner, objects, options, label)
}

// step is one change to an object, which is made to its decoded form.
type step func(owner *Body, object map[string]any, o *HierarchyOptions) error

// edit takes the steps with copies of all objects, and only then changes the objects.
func edit(what string, owner *Body, objects any, options *HierarchyOptions, steps ...step) error {
	if options == nil {
		options = &HierarchyOptions{}
	}
	if owner == nil {
		return fmt.Errorf("%s: no owner was given", what)
	}
	children, err := appendChildren(nil, reflect.ValueOf(objects))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for i := range children {
		child := &children[i]
		for _, apply := range steps {
			if err := apply(owner, child.after, options); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
	}
	for i := range children {
		if err := children[i].write(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// child is an object to change: a map, or what a pointer to a struct points to.
type child struct {
	target map[string]any // nil for structs
	typed  any            // the pointer to a struct
	before map[string]any // the decoded struct
	after  map[string]any // a copy, to be changed
}

// appendChildren collects the objects in a value, however they are nested.
func appendChildren(children []child, v reflect.Value) ([]child, error) {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Invalid:
		return children, nil
	case reflect.Slice, reflect.Array:
		var err error
		for i := 0; i < v.Len() && err == nil; i++ {
			item := v.Index(i)
			if item.Kind() == reflect.Struct && item.CanAddr() {
				item = item.Addr()
			}
			children, err = appendChildren(children, item)
		}
		return children, err
	case reflect.Map:
		plain := reflect.TypeFor[map[string]any]()
		if !v.CanConvert(plain) {
			break
		}
		if v.IsNil() {
			return children, nil
		}
		target := v.Convert(plain).Interface().(map[string]any)
		return append(children, child{target: target, after: cloneStanzas(target)}), nil
	case reflect.Pointer:
		if v.IsNil() {
			return children, nil
		}
		if kind := v.Elem().Kind(); kind == reflect.Slice || kind == reflect.Array || kind == reflect.Interface {
			return appendChildren(children, v.Elem())
		}
		if _, readOnly := v.Interface().(*Body); readOnly || v.Elem().Kind() != reflect.Struct {
			break
		}
		before, err := decodeStruct(v.Interface())
		if err != nil {
			return nil, err
		}
		return append(children, child{typed: v.Interface(), before: before, after: cloneStanzas(before)}), nil
	}
	return nil, fmt.Errorf("a %s is not an object that can be changed; a map[string]any or a pointer to a struct is", v.Type())
}

func decodeStruct(typed any) (map[string]any, error) {
	data, err := json.Marshal(typed)
	if err != nil {
		return nil, fmt.Errorf("reading a %T: %w", typed, err)
	}
	value, err := rawjson.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("reading a %T: %w", typed, err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a %T is not an object: it reads as %s", typed, data)
	}
	return object, nil
}

// cloneStanzas copies the maps of an object. All else in it is shared, as it is never changed. Labels and
// metadata that were written as maps of strings become maps of anything.
func cloneStanzas(object map[string]any) map[string]any {
	clone := make(map[string]any, len(object))
	for key, value := range object {
		switch value := value.(type) {
		case map[string]any:
			if value != nil {
				clone[key] = cloneStanzas(value)
			}
		case map[string]string:
			texts := make(map[string]any, len(value))
			for k, text := range value {
				texts[k] = text
			}
			clone[key] = texts
		default:
			clone[key] = value
		}
	}
	return clone
}

// write changes the object itself.
func (c *child) write() error {
	if c.target != nil {
		clear(c.target)
		for key, value := range c.after {
			c.target[key] = value
		}
		return nil
	}
	document := c.after
	if _, whole := c.typed.(json.Unmarshaler); !whole {
		document = changes(c.before, c.after) // so that fields which JSON does not carry stay as they are
		// The list is emptied first, as its items would be decoded on top of the old ones.
		if _, listed := rawjson.Lookup(document, "metadata", "ownerReferences"); listed {
			if err := json.Unmarshal([]byte(`{"metadata":{"ownerReferences":null}}`), c.typed); err != nil {
				return fmt.Errorf("changing a %T: %w", c.typed, err)
			}
		}
	}
	data, err := json.Marshal(document)
	if err == nil {
		err = json.Unmarshal(data, c.typed)
	}
	if err != nil {
		return fmt.Errorf("changing a %T: %w", c.typed, err)
	}
	result, err := decodeStruct(c.typed)
	if err != nil {
		return err
	}
	if lost := changes(result, c.after); len(lost) > 0 {
		data, _ := json.Marshal(lost)
		return fmt.Errorf("a %T has no place for %s", c.typed, data)
	}
	return nil
}

// changes returns what to merge into a struct to make it read as the second object does. Empty values count as absent.
func changes(before, after map[string]any) map[string]any {
	merge := map[string]any{}
	for key, value := range after {
		if inner, ok := value.(map[string]any); ok {
			old, _ := before[key].(map[string]any)
			if sub := changes(old, inner); len(sub) > 0 {
				merge[key] = sub
			}
			continue
		}
		list, isList := value.([]any)
		absent := before[key] == nil && (value == nil || value == "" || isList && len(list) == 0)
		if !absent && !rawjson.Equal(before[key], value) {
			merge[key] = value
		}
	}
	for key, value := range before {
		if _, isText := value.(string); isText && after[key] == nil && value != "" {
			merge[key] = ""
		}
	}
	return merge
}

// stanza returns a map in another one, and makes it if it is absent or null.
func stanza(in map[string]any, key string) (map[string]any, error) {
	switch value := in[key].(type) {
	case nil:
		made := map[string]any{}
		in[key] = made
		return made, nil
	case map[string]any:
		return value, nil
	default:
		return nil, fmt.Errorf("%s is a %T, not a map", key, value)
	}
}

// ownersOf returns the metadata of an object and the owner references in it.
func ownersOf(object map[string]any) (meta map[string]any, owners []any, err error) {
	meta, err = stanza(object, "metadata")
	if err != nil {
		return nil, nil, err
	}
	switch list := meta["ownerReferences"].(type) {
	case nil:
	case []any:
		owners = append(owners, list...)
	case []map[string]any:
		for _, ref := range list {
			owners = append(owners, ref)
		}
	default:
		return nil, nil, fmt.Errorf("metadata.ownerReferences is a %T, not a list", list)
	}
	return meta, owners, nil
}

func appendOwner(owner *Body, object map[string]any, o *HierarchyOptions) error {
	if owner.UID() == "" {
		return fmt.Errorf("the owner %s has no uid", owner.Reference())
	}
	meta, owners, err := ownersOf(object)
	if err != nil {
		return err
	}
	for _, ref := range owners {
		if ref, ok := ref.(map[string]any); ok && ref["uid"] == owner.UID() {
			return nil
		}
	}
	for _, ref := range owners {
		if ref, ok := ref.(map[string]any); ok && ref["controller"] == true && !o.NotController {
			return fmt.Errorf("%v %q is the controller already, and there can be only one", ref["kind"], ref["name"])
		}
	}
	meta["ownerReferences"] = append(owners, ownerReference(owner, o))
	return nil
}

// ownerReference is the entry of an owner in metadata.ownerReferences. What the owner does not have is left out.
func ownerReference(owner *Body, o *HierarchyOptions) map[string]any {
	ref := map[string]any{"controller": !o.NotController, "blockOwnerDeletion": !o.NotBlocking}
	for key, text := range map[string]string{
		"apiVersion": owner.APIVersion(), "kind": owner.Kind(), "name": owner.Name(), "uid": owner.UID(),
	} {
		if text != "" {
			ref[key] = text
		}
	}
	return ref
}

func removeOwner(owner *Body, object map[string]any, _ *HierarchyOptions) error {
	if owner.UID() == "" {
		return fmt.Errorf("the owner %s has no uid", owner.Reference())
	}
	meta, owners, err := ownersOf(object)
	if err != nil {
		return err
	}
	others := []any{}
	for _, ref := range owners {
		if entry, ok := ref.(map[string]any); !ok || entry["uid"] != owner.UID() {
			others = append(others, ref)
		}
	}
	meta["ownerReferences"] = others
	return nil
}

func harmonizeName(owner *Body, object map[string]any, o *HierarchyOptions) error {
	name := o.Name
	if name == "" {
		name = owner.Name()
	}
	if name == "" {
		return errors.New("there is no name to use: the owner has none, and none was given")
	}
	meta, err := stanza(object, "metadata")
	if err != nil {
		return err
	}
	_, named := meta["name"]
	_, generated := meta["generateName"]
	switch {
	case (named || generated) && !o.Forced:
	case o.Strict:
		meta["name"] = name
		delete(meta, "generateName")
	default:
		meta["generateName"] = name + "-"
		delete(meta, "name")
	}
	return nil
}

func adjustNamespace(owner *Body, object map[string]any, o *HierarchyOptions) error {
	namespace := o.Namespace
	if namespace == "" {
		namespace = owner.Namespace()
	}
	if namespace == "" {
		return nil
	}
	meta, err := stanza(object, "metadata")
	if err != nil {
		return err
	}
	if o.Forced || meta["namespace"] == nil {
		meta["namespace"] = namespace
	}
	return nil
}

func label(owner *Body, object map[string]any, o *HierarchyOptions) error {
	labels := o.AddLabels
	if labels == nil {
		labels = owner.Labels()
	}
	if err := labelStanza(object, labels, o.Forced); err != nil {
		return err
	}
	for _, path := range o.Nested {
		part, ok := lookupPart(object, path.Keys())
		if !ok {
			continue
		}
		nested, ok := part.(map[string]any)
		if !ok {
			return fmt.Errorf("%q is a %T, not a map that can be labelled", path, part)
		}
		if err := labelStanza(nested, labels, o.Forced); err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
	}
	return nil
}

// lookupPart returns what is at a path, unless it is null or the path does not lead there.
func lookupPart(object map[string]any, keys []string) (any, bool) {
	var part any = object
	for _, key := range keys {
		stanza, ok := part.(map[string]any)
		if !ok {
			return nil, false
		}
		part = stanza[key]
	}
	return part, part != nil
}

func labelStanza(object map[string]any, labels map[string]string, forced bool) error {
	meta, err := stanza(object, "metadata")
	if err != nil {
		return err
	}
	old, err := stanza(meta, "labels")
	if err != nil {
		return fmt.Errorf("metadata.%w", err)
	}
	for key, value := range labels {
		if _, has := old[key]; forced || !has {
			old[key] = value
		}
	}
	return nil
}
