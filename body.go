package kopf

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/kstatus"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

// FieldPath is the path of a field in an object, as keys with dots in between: "spec.size". Backslashes escape dots and backslashes in keys, and [Path] adds
// them, such as for "example.com/x". The empty path is the whole object. Paths lead through objects, never into lists.
type FieldPath string

// Path returns the path of the given keys. It escapes the dots in them.
func Path(keys ...string) FieldPath { return FieldPath(rawjson.JoinPath(keys)) }

// Keys returns the keys of the path, none for the empty path.
func (p FieldPath) Keys() []string { return rawjson.SplitPath(string(p)) }

// String returns the keys with dots in between, without backslashes. Handler IDs contain this form.
func (p FieldPath) String() string { return strings.Join(p.Keys(), ".") }

// Body is a Kubernetes object as the API server sent it, in JSON. It is read-only, and decodes only the fields that you read. Missing fields read as zero
// values. A Body is safe for concurrent use.
type Body struct {
	raw      []byte
	identity // of the object, decoded eagerly because all code needs it
	deleting bool

	meta, spec, status                                span
	labels, annotations, finalizers, owners, managers span // in the metadata
}

// span is the range of a part in an object's bytes. The zero span means a missing part. It is small because there are many bodies.
type span struct{ from, to uint32 }

// of returns the bytes of a part, nil if it is missing.
func (b *Body) of(s span) []byte {
	if s.to == 0 {
		return nil
	}
	return b.raw[s.from:s.to:s.to]
}

// stanzas returns the object in the form that patches are applied to.
func (b *Body) stanzas() *objectpatch.Object {
	return &objectpatch.Object{Raw: b.raw, Metadata: b.of(b.meta), Spec: b.of(b.spec), Status: b.of(b.status)}
}

// identity holds the fields that identify an object and its version.
type identity struct {
	apiVersion, kind, namespace, name, uid, version string
}

// ParseBody parses an object in JSON. It keeps the bytes, so do not change them. It fails if they are not a JSON object.
func ParseBody(data []byte) (*Body, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return nil, errors.New("an object in JSON is expected")
	}
	var o rawjson.Header
	if err := o.Scan(data); err != nil {
		return nil, err
	}
	if o.End < len(data) {
		return nil, fmt.Errorf("an object in JSON is expected, and nothing after it: %.20q", data[o.End:])
	}
	return outlined(&o, data, 0), nil
}

// NewBody converts a map, or anything else that encoding/json encodes as a JSON object, to a Body. It fails for anything else.
func NewBody(object any) (*Body, error) {
	data, err := rawjson.Encode(object)
	if err != nil {
		return nil, err
	}
	return ParseBody(data)
}

// typed returns the body with the given kind and APIVersion if it has none. Items of a list have none.
func (b *Body) typed(apiVersion, kind string) *Body {
	if b.apiVersion != "" && b.kind != "" {
		return b
	}
	o := rawjson.ParseObject(b.raw)
	head := rawjson.NewObject()
	if b.apiVersion == "" {
		head.Put("apiVersion", rawjson.AppendString(nil, apiVersion))
		o.Delete("apiVersion")
	}
	if b.kind == "" {
		head.Put("kind", rawjson.AppendString(nil, kind))
		o.Delete("kind")
	}
	head.Members = append(head.Members, o.Members...)
	t, err := ParseBody(head.AppendTo(make([]byte, 0, len(b.raw)+len(apiVersion)+len(kind)+32)))
	if err != nil {
		return b // bytes that were parsed once can be parsed again
	}
	return t
}

// APIVersion returns the group and version of the object, such as "apps/v1" or "v1".
func (b *Body) APIVersion() string { return b.apiVersion }

// Kind returns the kind of the object.
func (b *Body) Kind() string { return b.kind }

// Name returns metadata.name.
func (b *Body) Name() string { return b.name }

// Namespace returns metadata.namespace, "" for objects without a namespace.
func (b *Body) Namespace() string { return b.namespace }

// UID returns metadata.uid.
func (b *Body) UID() string { return b.uid }

// ResourceVersion returns metadata.resourceVersion.
func (b *Body) ResourceVersion() string { return b.version }

// Deleting reports whether the object is marked for deletion.
func (b *Body) Deleting() bool { return b.deleting }

// DeletionTimestamp returns the moment when the object was marked for deletion, or the zero time.
func (b *Body) DeletionTimestamp() time.Time { return b.time("deletionTimestamp") }

// CreationTimestamp returns the moment of the object's creation, or the zero time.
func (b *Body) CreationTimestamp() time.Time { return b.time("creationTimestamp") }

func (b *Body) time(key string) time.Time {
	t, _ := time.Parse(time.RFC3339, rawjson.StringAt(b.of(b.meta), key))
	return t
}

// Finalizers returns metadata.finalizers.
func (b *Body) Finalizers() []string { return rawjson.StringsAt(b.of(b.finalizers)) }

// Labels returns a copy of metadata.labels, never nil.
func (b *Body) Labels() map[string]string { return rawjson.StringMap(b.of(b.labels)) }

// Annotations returns a copy of metadata.annotations, never nil.
func (b *Body) Annotations() map[string]string { return rawjson.StringMap(b.of(b.annotations)) }

// Label returns one label, and whether the object has it.
func (b *Body) Label(key string) (string, bool) { return rawjson.EntryAt(b.of(b.labels), key) }

// Annotation returns one annotation, and whether the object has it.
func (b *Body) Annotation(key string) (string, bool) {
	return rawjson.EntryAt(b.of(b.annotations), key)
}

// find returns the bytes of a field. It searches only the stanza of the path, because the ranges of the stanzas are known.
func (b *Body) find(path ...string) ([]byte, bool) {
	if len(path) > 0 {
		switch path[0] {
		case "spec":
			return b.findIn(b.spec, path[1:])
		case "status":
			return b.findIn(b.status, path[1:])
		case "metadata":
			return b.findIn(b.meta, path[1:])
		}
	}
	return rawjson.Find(b.raw, path...)
}

func (b *Body) findIn(stanza span, path []string) ([]byte, bool) {
	if stanza.to == 0 {
		return nil, false
	}
	return rawjson.Find(b.of(stanza), path...)
}

// Metadata returns the metadata stanza.
func (b *Body) Metadata() View { return b.viewOf(b.of(b.meta)) }

// Spec returns the spec stanza.
func (b *Body) Spec() View { return b.viewOf(b.of(b.spec)) }

// Status returns the status stanza.
func (b *Body) Status() View { return b.viewOf(b.of(b.status)) }

// View returns the part of the object at a path. It is empty if there is nothing.
func (b *Body) View(path FieldPath) View {
	raw, _ := b.find(path.Keys()...)
	return b.viewOf(raw)
}

// viewOf returns a view of a part of the object, or of what kopf has made of it.
func (b *Body) viewOf(raw []byte) View { return View{raw: raw, secret: b.isSecret()} }

// Get returns a copy of the value at a path, as [View.Get] does.
func (b *Body) Get(path FieldPath) any { return View{raw: b.raw}.Get(path) }

// Has reports whether the object has a value at a path. Null is a value.
func (b *Body) Has(path FieldPath) bool {
	_, ok := b.find(path.Keys()...)
	return ok
}

// Map returns a copy of the object as a map, which you can change. Numbers are json.Number, so that they stay exact.
func (b *Body) Map() map[string]any { return View{raw: b.raw}.Map() }

// Decode decodes the object into the value that v points to. It is [json.Unmarshal], with its
// errors, but names of fields are case-sensitive as everywhere in Kubernetes: "maxsize" does not
// fill the field "maxSize". Only fields without a tag match in any case. Types with a method
// UnmarshalJSON decode their part themselves.
func (b *Body) Decode(v any) error { return rawjson.Unmarshal(b.raw, v) }

// MarshalJSON returns the object as the API server sent it. It never fails.
func (b *Body) MarshalJSON() ([]byte, error) { return slices.Clone(b.raw), nil }

// LogValue returns the object as JSON for logs, or only the identity of a Secret.
func (b *Body) LogValue() slog.Value { return slog.StringValue(b.loggable()) }

// Format prints the text of [Body.LogValue], for %v, %s and the other verbs of strings.
func (b Body) Format(f fmt.State, verb rune) { printText(f, verb, b.loggable()) }

// printText prints a text with the verb and the flags of a state.
func printText(f fmt.State, verb rune, text string) {
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), text) // writers of fmt do not fail
}

// isSecret reports whether the object is a Secret, whose contents are never printed.
func (b *Body) isSecret() bool { return b.apiVersion == "v1" && b.kind == "Secret" }

// loggable returns the object as JSON for logs and errors. It omits the data of a Secret, and its annotations, which may contain copies of the data.
func (b *Body) loggable() string {
	if !b.isSecret() {
		return string(b.raw)
	}
	metadata := map[string]string{"name": b.name}
	for key, value := range map[string]string{"namespace": b.namespace, "uid": b.uid, "resourceVersion": b.version} {
		if value != "" {
			metadata[key] = value
		}
	}
	data, err := rawjson.Encode(map[string]any{"apiVersion": b.apiVersion, "kind": b.kind, "metadata": metadata})
	if err != nil {
		return b.kind // strings can always be encoded
	}
	return string(data)
}

// Reference returns the reference to the object, as in events and logs. If the object has no name yet, the name is its generateName.
func (b *Body) Reference() ObjectReference {
	ref := ObjectReference{APIVersion: b.apiVersion, Kind: b.kind, Name: b.name, UID: b.uid, Namespace: b.namespace}
	if ref.Name == "" {
		ref.Name = rawjson.StringAt(b.of(b.meta), "generateName")
	}
	return ref
}

// key identifies an object among those of its resource. It is the UID, or the rest of the identity if there is no UID.
func (b *Body) key() string {
	if b.uid != "" {
		return b.uid
	}
	parts := []string{b.kind, b.apiVersion, b.name, b.namespace, rawjson.StringAt(b.of(b.meta), "creationTimestamp")}
	for i, part := range parts {
		if part == "" {
			parts[i] = "-"
		}
	}
	return strings.Join(parts, "/")
}

// ObjectReference names one object, as Kubernetes does in events and owner references.
type ObjectReference struct {
	APIVersion string `json:"apiVersion,omitempty"` // group and version, such as "apps/v1", or "v1" for the core group
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`       // empty if it does not matter which object of the name it is
	Namespace  string `json:"namespace,omitempty"` // empty for objects that are not in namespaces
}

// String returns "namespace/name", or the name alone for objects without a namespace.
func (r ObjectReference) String() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// View is a read-only part of an object, such as its spec. The zero View and the View of something missing or null have no fields.
type View struct {
	raw    []byte
	secret bool // whether it is never printed, as a part of a Secret
}

// View returns the part at a path relative to this one.
func (v View) View(path FieldPath) View {
	raw, _ := rawjson.Find(v.raw, path.Keys()...)
	return View{raw: raw, secret: v.secret}
}

// Has reports whether the view has a value at a path. Null is a value.
func (v View) Has(path FieldPath) bool {
	_, ok := rawjson.Find(v.raw, path.Keys()...)
	return ok
}

// Get returns a copy of the value at a path as a map[string]any, []any, string, json.Number or bool. It returns nil if there is nothing.
func (v View) Get(path FieldPath) any { return rawjson.ValueAt(v.raw, path.Keys()...) }

// String returns the text at a path. It returns numbers and booleans as their text in JSON, and "" for lists, objects, null and missing values.
func (v View) String(path FieldPath) string { return rawjson.ScalarAt(v.raw, path.Keys()...) }

// Int returns the whole number at a path, or that in a text such as "5". Forms such as 1.0 and 1e3 are whole numbers, too. It returns 0 for missing values,
// fractions, and numbers beyond an int64. [View.Has] distinguishes 0 from a missing value, and [View.Decode] fails for anything that is not a number.
func (v View) Int(path FieldPath) int64 { return rawjson.IntAt(v.raw, path.Keys()...) }

// Float returns the number at a path, or that in a text such as "0.5". It returns 0 for missing values, and an infinity for numbers beyond a float64.
func (v View) Float(path FieldPath) float64 { return rawjson.FloatAt(v.raw, path.Keys()...) }

// Bool reports whether the value at a path is true or the text "true".
func (v View) Bool(path FieldPath) bool { return v.String(path) == "true" }

// Strings returns the list of strings at a path, or nil if there is none. An item that is not a string becomes "".
func (v View) Strings(path FieldPath) []string { return rawjson.StringsAt(v.raw, path.Keys()...) }

// IsReady reports whether an object has reached the state that its spec requests, by the rules of [Child.Ready]. A workload is then ready and up to date, a job
// complete, and a volume bound. A custom resource must not have a condition Ready that is not true. IsReady is false for nil and for objects that are being
// deleted. Use it with [WaitFor].
func IsReady(b *Body) bool {
	if b == nil {
		return false
	}
	group, _, grouped := strings.Cut(b.apiVersion, "/")
	if !grouped {
		group = ""
	}
	ready, _ := b.ready(group, b.kind)
	return ready
}

// ready reports whether the object is ready, as one of a kind, and why it is not.
func (b *Body) ready(group, kind string) (ready bool, reason string) {
	return kstatus.Ready(group, kind, kstatus.Parts{Deleting: b.deleting, Metadata: b.of(b.meta), Spec: b.of(b.spec), Status: b.of(b.status)})
}

// Views returns the items of the list at a path, nil where there is none.
func (v View) Views(path FieldPath) []View {
	list, _ := rawjson.Find(v.raw, path.Keys()...)
	var all []View
	_ = rawjson.EachItem(list, func(value []byte) bool { // malformed parts count as missing
		all = append(all, View{raw: value, secret: v.secret})
		return true
	})
	return all
}

// StringMap returns the object at a path, such as labels, as a map. It skips values that are not strings. The map is never nil.
func (v View) StringMap(path FieldPath) map[string]string {
	raw, _ := rawjson.Find(v.raw, path.Keys()...)
	m := make(map[string]string)
	_ = rawjson.EachMember(raw, func(quoted, value []byte) bool { // malformed parts count as missing
		if rawjson.IsQuoted(value) {
			m[rawjson.Unquote(quoted)] = rawjson.Unquote(value)
		}
		return true
	})
	return m
}

// Keys returns the keys of the view in their order in the JSON.
func (v View) Keys() []string { return rawjson.Keys(v.raw) }

// Len returns the number of keys.
func (v View) Len() int { return len(v.Keys()) }

// Map returns a copy of the view as a map, which you can change. It is never nil, and empty if the view is not an object.
func (v View) Map() map[string]any { return rawjson.Map(v.raw) }

// Decode stores the view in the value that target points to, as [Body.Decode] does, with its errors. An empty view changes nothing.
func (v View) Decode(target any) error {
	if len(v.raw) == 0 {
		return nil
	}
	return rawjson.Unmarshal(v.raw, target)
}

// MarshalJSON returns the view as the API server sent it, or null if it is empty. It never fails.
func (v View) MarshalJSON() ([]byte, error) {
	if len(v.raw) == 0 {
		return []byte("null"), nil
	}
	return slices.Clone(v.raw), nil
}

// LogValue returns the view as JSON for logs, or "concealed" for a part of a Secret.
func (v View) LogValue() slog.Value { return slog.StringValue(v.loggable()) }

// Format prints the text of [View.LogValue], for %v, %s and the other verbs of strings.
func (v View) Format(f fmt.State, verb rune) { printText(f, verb, v.loggable()) }

func (v View) loggable() string {
	switch {
	case len(v.raw) == 0:
		return "null"
	case v.secret:
		return concealed
	}
	return string(v.raw)
}

// ParseManifests parses the objects of a YAML file with one or more documents, or of a JSON file, in their order. It replaces lists, such as those of the kind
// List, by their items, and skips empty documents. A document that is not an object is an error. Numbers are [encoding/json.Number]. Syntax errors name the
// line and the column.
func ParseManifests(data []byte) ([]map[string]any, error) { return yaml.ParseManifests(data) }

// outlined makes a body of an object that was scanned, and begins at raw[at]. It keeps the bytes.
func outlined(o *rawjson.Header, raw []byte, at int) *Body {
	text := func(r rawjson.Range) string { return rawjson.Unquote(r.Of(raw[at:])) }
	b := &Body{identity: identity{
		apiVersion: text(o.APIVersion), kind: text(o.Kind), namespace: text(o.Namespace), name: text(o.Name), uid: text(o.UID), version: text(o.ResourceVersion),
	}}
	b.outline(o, raw, at)
	return b
}

// outline stores the bytes of an object, and the ranges of its parts.
func (b *Body) outline(o *rawjson.Header, raw []byte, at int) {
	in := func(r rawjson.Range) span {
		if r.To == 0 {
			return span{}
		}
		return span{uint32(at + r.From), uint32(at + r.To)}
	}
	b.raw, b.deleting = raw[:at+o.End:at+o.End], !rawjson.IsNull(o.DeletionTimestamp.Of(raw[at:]))
	b.meta, b.spec, b.status = in(o.Metadata), in(o.Spec), in(o.Status)
	b.labels, b.annotations, b.finalizers, b.owners, b.managers = in(o.Labels), in(o.Annotations), in(o.Finalizers), in(o.OwnerReferences), in(o.Managed)
}
