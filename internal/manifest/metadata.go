package manifest

import "fmt"

// AddOwner adds an owner reference, unless one with the uid exists. It returns an error if the reference is to a controller, and there is another controller.
func AddOwner(object, owner map[string]any) error {
	meta, owners, err := ownersOf(object)
	if err != nil {
		return err
	}
	for _, ref := range owners {
		if ref, ok := ref.(map[string]any); ok && ref["uid"] == owner["uid"] {
			return nil
		}
	}
	for _, ref := range owners {
		if ref, ok := ref.(map[string]any); ok && ref["controller"] == true && owner["controller"] == true {
			return fmt.Errorf("%v %q is the controller already, and there can be only one", ref["kind"], ref["name"])
		}
	}
	meta["ownerReferences"] = append(owners, owner)
	return nil
}

// RemoveOwner removes the references with an owner's uid.
func RemoveOwner(object map[string]any, uid string) error {
	meta, owners, err := ownersOf(object)
	if err != nil {
		return err
	}
	others := []any{}
	for _, ref := range owners {
		if entry, ok := ref.(map[string]any); !ok || entry["uid"] != uid {
			others = append(others, ref)
		}
	}
	meta["ownerReferences"] = others
	return nil
}

// ownersOf returns the metadata of an object and the owner references in it.
func ownersOf(object map[string]any) (meta map[string]any, owners []any, err error) {
	meta, err = section(object, "metadata")
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

// SetName sets generateName, or name if strict. An object with one of them keeps it, unless forced.
func SetName(object map[string]any, name string, strict, forced bool) error {
	meta, err := section(object, "metadata")
	if err != nil {
		return err
	}
	_, named := meta["name"]
	_, generated := meta["generateName"]
	switch {
	case (named || generated) && !forced:
	case strict:
		meta["name"] = name
		delete(meta, "generateName")
	default:
		meta["generateName"] = name + "-"
		delete(meta, "name")
	}
	return nil
}

// SetNamespace sets the namespace of an object. An existing namespace stays, unless forced.
func SetNamespace(object map[string]any, namespace string, forced bool) error {
	meta, err := section(object, "metadata")
	if err != nil {
		return err
	}
	if forced || meta["namespace"] == nil {
		meta["namespace"] = namespace
	}
	return nil
}

// AddLabels adds labels to an object. Existing ones stay, unless forced.
func AddLabels(object map[string]any, labels map[string]string, forced bool) error {
	meta, err := section(object, "metadata")
	if err != nil {
		return err
	}
	old, err := section(meta, "labels")
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

// AddAnnotation adds an annotation to an object, unless the key exists.
func AddAnnotation(object map[string]any, key, value string) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations[key] != nil {
		return
	}
	if metadata == nil {
		metadata = make(map[string]any)
	}
	if annotations == nil {
		annotations = make(map[string]any)
	}
	annotations[key] = value
	metadata["annotations"], object["metadata"] = annotations, metadata
}
