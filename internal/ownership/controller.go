package ownership

import (
	"bytes"

	"github.com/kopf-go/kopf/internal/applyset"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// ControllerOf returns the reference to the controller among owner references, or nil.
func ControllerOf(references []byte) (controller []byte) {
	_ = rawjson.EachItem(references, func(ref []byte) bool { // malformed input has none
		if rawjson.ScalarAt(ref, "controller") == "true" {
			controller = ref
		}
		return controller == nil
	})
	return controller
}

// ControllerOfKind returns the quoted uid of the controller among owner references, if it is of a kind, in any version, or nil.
func ControllerOfKind(references []byte, group, kind string) (uid []byte) {
	ref := ControllerOf(references)
	if found, _ := rawjson.Find(ref, "kind"); string(rawjson.PlainText(found)) != kind {
		return nil
	}
	apiVersion, _ := rawjson.Find(ref, "apiVersion")
	of, _, grouped := bytes.Cut(rawjson.PlainText(apiVersion), []byte("/"))
	if !grouped {
		of = nil
	}
	if uid, _ = rawjson.Find(ref, "uid"); string(of) != group || len(rawjson.PlainText(uid)) == 0 {
		return nil
	}
	return uid
}

// SetOf returns the ID of the set to which a manager has added an object, from the object's label and managed fields, or "".
func SetOf(label string, managedFields []byte, manager string) string {
	if !applyset.IsID(label) {
		return ""
	}
	fields, _ := FieldsOf(managedFields, manager)
	if _, ours := rawjson.Find(fields, "f:metadata", "f:labels", "f:"+applyset.PartOfLabel); !ours {
		return ""
	}
	return label
}
