// Package ownership reports whether an object is still as a server-side apply of one field manager has left it, without comparing any values.
//
// With server-side apply, a client that changes or removes a field takes it from the manager's entry in metadata.managedFields. So an object is as applied if
// two things hold: its annotation has the digest of the configuration, and the entry names exactly the fields of the configuration. Defaults, other notations
// of quantities, conversions and mutating webhooks make no difference, whereas a comparison of values would have to know them all.
//
// Managed fields do not show five changes, which therefore go unnoticed:
//
//   - another order of the items of a set or of a list with keys.
//   - the removal of an empty list with keys.
//   - an empty map in place of a null, or the other way round.
//   - a second item that has the keys of another one only after defaults are set, such as a port with the protocol "".
//   - changes that admission webhooks make to the fields of a request.
//
// See https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
package ownership

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// Configuration is an apply configuration with all fields that its manager owns, a "fully specified intent". It is immutable.
type Configuration struct {
	object     map[string]any
	apiVersion string
	kind       string
	digest     string
	hasEmpty   bool // it has an empty map outside of the metadata
}

// New returns the configuration for an object: any value that encodes as JSON, with apiVersion, kind and name. It does not modify the object. It sets the named
// annotation to the digest of everything else. It converts the stringData of a Secret to data, because managed fields would name it by a field that stored
// objects do not have. An error names the missing or invalid field.
func New(object map[string]any, annotation string) (*Configuration, error) {
	normal, err := rawjson.NormalizeObject(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	return Of(rawjson.AsMap(normal), annotation)
}

// Of is [New] for an object of decoded JSON. The configuration takes over the object.
func Of(object map[string]any, annotation string) (*Configuration, error) {
	if annotation == "" {
		return nil, errors.New("invalid annotation \"\": want a name")
	}
	c := &Configuration{object: object}
	metadata, annotations, err := c.check()
	if err != nil {
		return nil, err
	}
	if c.apiVersion == "v1" && c.kind == "Secret" {
		if err := encodeStringData(c.object); err != nil {
			return nil, err
		}
	}
	delete(annotations, annotation)
	metadata["annotations"] = annotations
	c.digest = digestOf(c.object)
	annotations[annotation] = c.digest
	for key, value := range c.object {
		c.hasEmpty = c.hasEmpty || key != "metadata" && hasEmptyMap(value)
	}
	return c, nil
}

// digestBytes is the length of digests, enough to avoid collisions.
const digestBytes = 10

// canonical holds buffers for the canonical form of a configuration.
var canonical = sync.Pool{New: func() any { return new([]byte) }}

func digestOf(object map[string]any) string {
	buffer := canonical.Get().(*[]byte)
	defer canonical.Put(buffer)
	*buffer = appendCanonical((*buffer)[:0], object)
	sum := sha256.Sum256(*buffer)
	return hex.EncodeToString(sum[:digestBytes])
}

// check reads the apiVersion and the kind, and returns the metadata and the annotations, which it creates if missing.
func (c *Configuration) check() (metadata, annotations map[string]any, err error) {
	if c.apiVersion, err = requiredText(c.object, "apiVersion", "apiVersion"); err != nil {
		return nil, nil, err
	}
	if c.kind, err = requiredText(c.object, "kind", "kind"); err != nil {
		return nil, nil, err
	}
	metadata, ok := c.object["metadata"].(map[string]any)
	if !ok {
		return nil, nil, wrongField("metadata", c.object["metadata"], "an object")
	}
	if _, err = requiredText(metadata, "name", "metadata.name"); err != nil {
		return nil, nil, err
	}
	if metadata["managedFields"] != nil {
		return nil, nil, errors.New("invalid metadata.managedFields: want none in an apply configuration")
	}
	switch value := metadata["annotations"].(type) {
	case nil:
		annotations = make(map[string]any)
	case map[string]any:
		annotations = value
	default:
		return nil, nil, wrongField("metadata.annotations", value, "an object of strings")
	}
	for key, value := range annotations {
		if _, ok := value.(string); !ok {
			return nil, nil, wrongField(fmt.Sprintf("metadata.annotations[%q]", key), value, "a string")
		}
	}
	return metadata, annotations, c.checkTexts(metadata, annotations)
}

// checkTexts returns an error for a label, or for a key of texts, that is not UTF-8. The API server
// takes only ASCII there, so the next attempt would be refused, too.
func (c *Configuration) checkTexts(metadata, annotations map[string]any) error {
	labels := rawjson.AsMap(metadata["labels"])
	err := cmp.Or(checkKeys("metadata.annotations", annotations), checkKeys("metadata.labels", labels))
	if c.apiVersion == "v1" && (c.kind == "ConfigMap" || c.kind == "Secret") {
		for _, field := range []string{"data", "binaryData", "stringData"} {
			err = cmp.Or(err, checkKeys(field, rawjson.AsMap(c.object[field])))
		}
	}
	for key, value := range labels {
		if text, _ := value.(string); err == nil && strings.ContainsRune(text, utf8.RuneError) {
			err = fmt.Errorf("invalid metadata.labels[%q] %q: want UTF-8", key, text)
		}
	}
	return err
}

func checkKeys(field string, texts map[string]any) error {
	for key := range texts {
		if strings.ContainsRune(key, utf8.RuneError) {
			return fmt.Errorf("invalid key %q in %s: want UTF-8", key, field)
		}
	}
	return nil
}

func requiredText(object map[string]any, key, path string) (string, error) {
	text, ok := object[key].(string)
	if !ok || text == "" {
		return "", wrongField(path, object[key], "a string that is not empty")
	}
	return text, nil
}

func wrongField(path string, value any, want string) error {
	return fmt.Errorf("invalid %s, %s: want %s", path, rawjson.KindOf(value), want)
}

// encodeStringData moves the stringData of a Secret to its data.
func encodeStringData(secret map[string]any) error {
	value, ok := secret["stringData"]
	if !ok {
		return nil
	}
	texts, ok := value.(map[string]any)
	if !ok && value != nil {
		return wrongField("stringData", value, "an object of strings")
	}
	data, ok := secret["data"].(map[string]any)
	if !ok && secret["data"] != nil {
		return wrongField("data", secret["data"], "an object of strings")
	}
	delete(secret, "stringData")
	if data == nil && len(texts) > 0 {
		data = make(map[string]any, len(texts))
		secret["data"] = data
	}
	for key, value := range texts {
		text, ok := value.(string)
		if !ok {
			return wrongField(fmt.Sprintf("stringData[%q]", key), value, "a string")
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return nil
}

// isStripped reports whether kube-apiserver removes a field of the map at a path from the entries of all managers.
func isStripped[T string | []byte](path uint64, key T) bool {
	switch path {
	case rootPath:
		return string(key) == "apiVersion" || string(key) == "kind"
	case metadataPath:
		switch string(key) {
		case "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "clusterName", "managedFields":
			return true
		}
	}
	return false
}

// appendCanonical appends a value in canonical form: with sorted keys, and numbers as the API server stores them.
func appendCanonical(b []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		b = append(b, '{')
		var room [16]string // most maps are small
		keys := slices.AppendSeq(room[:0], maps.Keys(v))
		slices.Sort(keys)
		for _, key := range keys {
			b = append(rawjson.AppendString(b, key), ':')
			b = append(appendCanonical(b, v[key]), ',')
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for _, item := range v {
			b = append(appendCanonical(b, item), ',')
		}
		return append(b, ']')
	case string:
		return rawjson.AppendString(b, v)
	case json.Number:
		return appendNumber(b, string(v))
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}

// appendNumber appends a number as the API server stores it: as an int64 if possible, else as a float64.
func appendNumber(b []byte, text string) []byte {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.AppendInt(b, n, 10)
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.AppendFloat(b, f, 'g', -1, 64)
	}
	return append(b, text...)
}

// Digest returns the digest of the configuration, 20 hexadecimal digits. It does not depend on the order of keys or the notation of numbers.
func (c *Configuration) Digest() string { return c.digest }

// JSON returns the configuration with its annotation, as the body of a request. It adds the preconditions to the metadata.
func (c *Configuration) JSON(preconditions map[string]string) []byte {
	object := c.object
	if len(preconditions) > 0 {
		object = maps.Clone(object)
		metadata := maps.Clone(rawjson.AsMap(object["metadata"]))
		object["metadata"] = metadata
		for field, value := range preconditions {
			metadata[field] = value
		}
	}
	data, err := rawjson.Encode(object)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return data
}

// FieldsOf returns the fieldsV1 and the apiVersion of a manager's Apply entry without a subresource, from the JSON of metadata.managedFields. The fields are a
// part of the input, or nil if there is no such entry. The last entry wins, as on the API server.
func FieldsOf(managedFields []byte, manager string) (fields []byte, apiVersion string) {
	var version []byte
	_ = rawjson.EachItem(managedFields, func(entry []byte) bool { // malformed JSON ends the search
		if found, in, ok := appliedFields(entry, manager); ok {
			fields, version = found, in
		}
		return true
	})
	return slices.Clip(fields), rawjson.Unquote(version)
}

// appliedFields returns the fields and the apiVersion of an entry, and reports whether it is the Apply entry of a manager.
func appliedFields(entry []byte, manager string) (fields, apiVersion []byte, ok bool) {
	applied, same, whole, readable := false, false, true, true
	err := rawjson.EachMember(entry, func(quoted, value []byte) bool {
		switch string(rawjson.PlainText(quoted)) {
		case "manager":
			same = textIs(value, manager)
		case "operation":
			applied = textIs(value, "Apply")
		case "subresource":
			whole = rawjson.IsNull(value) || textIs(value, "")
		case "fieldsType":
			readable = textIs(value, "FieldsV1")
		case "apiVersion":
			apiVersion = value
		case "fieldsV1":
			fields = value
		}
		return true
	})
	return fields, apiVersion, err == nil && applied && same && whole && readable && len(fields) > 0
}

func textIs(raw []byte, text string) bool {
	return rawjson.IsQuoted(raw) && rawjson.QuotedIs(raw, text)
}
