// Package ownership tells whether an object is still as a server-side apply has left it, without comparing values.
//
// By server-side apply, whoever else changes or removes a field takes it away from the entry of the former manager in metadata.managedFields. So an object is as a manager wants it
// if what it wants is what it has applied last, of which a digest is kept in an annotation, and if its entry still names every field of that, and no other. What the API server makes of the
// values, such as defaults, canonical quantities and the changes of admission webhooks, does not matter.
// See https://kubernetes.io/docs/reference/using-api/server-side-apply/
package ownership

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Configuration is all that one manager wants of an object.
type Configuration struct {
	kind   string // with its version
	digest string
	raw    []byte
	owned  map[string]any // what an entry names of it
}

// digestBytes is how much of a digest is kept.
const digestBytes = 10

// New returns the configuration of an object, with its digest in an annotation. The object is not changed. A null counts as a field that is not there, and the stringData
// of a Secret becomes data, because the API server notes that the manager owns the former, and stores the latter.
func New(object map[string]any, annotation string) (*Configuration, error) {
	value, err := rawjson.Normalize(object)
	if err != nil {
		return nil, err
	}
	o := dropNulls(value).(map[string]any)
	apiVersion, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	if apiVersion == "" || kind == "" {
		return nil, fmt.Errorf("invalid apiVersion %q and kind %q: want both", apiVersion, kind)
	}
	if apiVersion == "v1" && kind == "Secret" {
		if err := encodeStringData(o); err != nil {
			return nil, err
		}
	}
	metadata, ok := o["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("invalid metadata: want an object with a name")
	}
	if name, _ := metadata["name"].(string); name == "" {
		return nil, errors.New("invalid metadata.name: want that of the object")
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if _, has := metadata["annotations"]; has && !ok {
		return nil, errors.New("invalid metadata.annotations: want an object of strings")
	}
	delete(annotations, annotation)
	c := &Configuration{kind: apiVersion + " " + kind}
	raw, err := rawjson.Encode(o) // with sorted keys
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	c.digest = hex.EncodeToString(sum[:digestBytes])
	if annotations == nil {
		annotations = make(map[string]any)
		metadata["annotations"] = annotations
	}
	annotations[annotation] = c.digest
	c.raw, err = rawjson.Encode(o)
	c.owned = named(o)
	return c, err
}

// Digest returns the digest of the configuration, without the annotation that has it.
func (c *Configuration) Digest() string { return c.digest }

// JSON returns the configuration as it is sent.
func (c *Configuration) JSON() []byte { return c.raw }

// dropNulls returns a value without the members of objects that are null.
func dropNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			if member == nil {
				delete(v, key)
			} else {
				v[key] = dropNulls(member)
			}
		}
	case []any:
		for i, item := range v {
			v[i] = dropNulls(item)
		}
	}
	return v
}

// encodeStringData moves the stringData of a Secret to its data, as the API server does.
func encodeStringData(secret map[string]any) error {
	text, has := secret["stringData"]
	if !has {
		return nil
	}
	entries, ok := text.(map[string]any)
	if !ok {
		return errors.New("invalid stringData: want an object of strings")
	}
	data, ok := secret["data"].(map[string]any)
	if _, has := secret["data"]; has && !ok {
		return errors.New("invalid data: want an object of strings")
	}
	if data == nil && len(entries) > 0 {
		data = make(map[string]any)
		secret["data"] = data
	}
	for key, value := range entries {
		s, ok := value.(string)
		if !ok {
			return fmt.Errorf("invalid stringData %q: want a string", key)
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(s))
	}
	delete(secret, "stringData")
	return nil
}

// unnamed are the fields of the metadata that no entry names.
var unnamed = [...]string{"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"}

// named returns what an entry names of an object.
func named(object map[string]any) map[string]any {
	owned := make(map[string]any, len(object))
	for key, value := range object {
		switch key {
		case "apiVersion", "kind":
		case "metadata":
			metadata := make(map[string]any)
			for key, value := range rawjson.AsMap(value) {
				metadata[key] = value
			}
			for _, key := range unnamed {
				delete(metadata, key)
			}
			if len(metadata) > 0 {
				owned[key] = metadata
			}
		default:
			owned[key] = value
		}
	}
	return owned
}

// FieldsOf returns the fields that a manager has applied, among the managedFields of an object, with the version that they are of; nil if there are none. What was applied to a
// subresource does not count.
func FieldsOf(managedFields []byte, manager string) (fields []byte, apiVersion string) {
	rawjson.EachItem(managedFields, func(entry []byte) bool { // what is no list has none
		if rawjson.StringAt(entry, "operation") != "Apply" || rawjson.StringAt(entry, "manager") != manager || rawjson.StringAt(entry, "subresource") != "" {
			return true
		}
		if raw, found := rawjson.Find(entry, "fieldsV1"); found && !rawjson.IsNull(raw) {
			fields, apiVersion = raw, rawjson.StringAt(entry, "apiVersion")
		}
		return false
	})
	return fields, apiVersion
}
