package kopf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// This file knows the essence of an object, which is the part of it whose changes matter, and the
// storages that keep the last handled essence on the object. It is on the way of every event: an
// essence is made of the object's bytes, and nothing is decoded as long as essences are only compared. It
// works on the goroutine of the object's worker, and keeps no state.

const (
	defaultDiffBaseKey = "last-handled-configuration"
	carriedKey         = "handling-base"  // ours alone; operators in Python leave it untouched
	trackedKey         = "tracked-fields" // ours alone, too
	lastAppliedKey     = "kubectl.kubernetes.io/last-applied-configuration"
)

// Essence is the tracked part of an object: what its users decide about, without what Kubernetes
// and operators keep in it. It is a JSON object that keeps the order of its keys. A nil
// Essence has no fields to read. An Essence is not safe for concurrent use.
type Essence struct {
	raw     []byte  // the whole text, nil if it must be made anew of root
	foreign bool    // raw is written as somebody else has written it
	root    *object // the same in parts, nil until someone needs them
}

// parseEssence reads a stored essence, nil if null is stored. It keeps the bytes.
func parseEssence(data []byte) (*Essence, error) {
	data = bytes.TrimSpace(data)
	if string(data) == "null" {
		return nil, nil
	}
	if !json.Valid(data) {
		_, err := decodeJSON(data) // which tells what is wrong
		return nil, err
	}
	if data[0] != '{' {
		return nil, errors.New("an object is expected")
	}
	return &Essence{raw: data, foreign: true}, nil
}

// UnmarshalJSON reads an essence from a JSON object.
func (e *Essence) UnmarshalJSON(data []byte) error {
	parsed, err := parseEssence(bytes.Clone(data))
	if err != nil {
		return err
	}
	if parsed != nil {
		*e = *parsed
	}
	return nil
}

// MarshalJSON returns the essence as it is stored: compact, in pure ASCII, with the keys in
// their order. It never fails.
func (e *Essence) MarshalJSON() ([]byte, error) { return slices.Clone(e.text()), nil }

// text returns the essence as it is stored. It is not to be changed.
func (e *Essence) text() []byte {
	if e == nil {
		return []byte("null")
	}
	if e.foreign && e.raw != nil {
		e.raw, e.foreign = appendCompact(make([]byte, 0, len(e.raw)), e.raw), false
	}
	return e.bytes()
}

// bytes returns the essence as JSON in whatever form is at hand.
func (e *Essence) bytes() []byte {
	if e == nil {
		return nil
	}
	if e.raw == nil {
		root := e.parts() // of a zero Essence, it is empty
		e.raw, e.foreign = root.appendTo(make([]byte, 0, root.size())), false
	}
	return e.raw
}

// digest returns a short sum of the essence, to tell whether it is another one.
func (e *Essence) digest() uint64 {
	if e == nil {
		return 0
	}
	sum := fnv.New64a()
	sum.Write(e.bytes()) // it never fails
	return sum.Sum64()
}

// parts returns the essence as an object. Who changes it sets raw to nil.
func (e *Essence) parts() *object {
	if e.root == nil {
		e.root = parseObject(e.raw)
	}
	return e.root
}

// View returns a view of the essence as it is now.
func (e *Essence) View() View { return View{raw: e.bytes()} }

// Get returns a copy of the value at a path, as [View.Get] does.
func (e *Essence) Get(path FieldPath) any { return e.View().Get(path) }

// Map returns a copy of the whole essence to change, never nil.
func (e *Essence) Map() map[string]any { return e.View().Map() }

// Set sets the field at a path to a value that encoding/json can encode, and makes the
// objects on the way. It fails if the value cannot be encoded, if the path is empty, or if something else
// than an object is in the way.
func (e *Essence) Set(path FieldPath, value any) error {
	raw, err := encodeJSON(value)
	if err != nil {
		return fmt.Errorf("field %q of an essence: %w", path, err)
	}
	if keys := path.Keys(); len(keys) == 0 || !e.parts().set(raw, keys...) {
		return fmt.Errorf("field %q of an essence: an object is expected above it", path)
	}
	e.raw = nil
	return nil
}

// Remove takes the field at a path away, together with the parents that it leaves empty.
func (e *Essence) Remove(path FieldPath) { e.remove(path.Keys()...) }

func (e *Essence) remove(keys ...string) {
	if e.parts().remove(keys...) {
		e.raw = nil
	}
}

// Equal tells whether there are no differences between two essences: as in a
// [Diff], null and absent are the same, and 1 equals 1.0.
func (e *Essence) Equal(other *Essence) bool {
	a, b := e.bytes(), other.bytes()
	return bytes.Equal(a, b) || len(diffRaw(a, b)) == 0
}

// dropAnnotations takes the annotations away whose keys fit.
func (e *Essence) dropAnnotations(fits func(key []byte) bool) {
	meta := e.parts().open("metadata")
	if meta == nil {
		return
	}
	if raw, ok := meta.flat("annotations"); ok {
		if rest, changed := filterMembers(raw, fits); changed {
			meta.put("annotations", rest)
			e.raw = nil
		}
	}
}

// dropEmpty takes empty stanzas away, in an order that lets the emptiness propagate.
func (e *Essence) dropEmpty() {
	drop := func(o *object, key string) {
		if o.hollow(key) {
			o.drop(key)
			e.raw = nil
		}
	}
	root := e.parts()
	if meta := root.open("metadata"); meta != nil {
		drop(meta, "annotations")
		drop(meta, "labels")
	}
	drop(root, "metadata")
	drop(root, "status")
}

// buildEssence makes the essence of an object, which still has in it what storages keep there. The fields are those
// of the handlers; what is absent or cannot be reached adds nothing (CH-T18).
func buildEssence(body *Body, fields []FieldPath) *Essence {
	meta := newObject()
	root := parseMembers(body.raw, func(key string) bool {
		return key == "apiVersion" || key == "kind" || key == "metadata" || key == "status"
	})
	if body.labels != nil {
		meta.put("labels", body.labels)
	}
	if body.annotations != nil {
		rest, _ := filterMembers(body.annotations, findManaged(body.annotations).own)
		meta.put("annotations", rest)
	}
	if len(meta.members) > 0 {
		root.members = append(root.members, member{key: "metadata", nested: meta})
	}
	e := &Essence{root: root}
	for _, field := range fields {
		e.restore(body, field.Keys())
	}
	e.dropEmpty()
	return e
}

// restore copies a field of the body that the essence may have lost.
func (e *Essence) restore(body *Body, keys []string) {
	if len(keys) == 0 {
		return
	}
	switch {
	case keys[0] == "metadata" && len(keys) == 1:
		rest, _ := filterMembers(body.meta, volatileMeta)
		e.root.put("metadata", rest)
		return
	case keys[0] == "metadata" && (keys[1] == "resourceVersion" || keys[1] == "managedFields"):
		return // every patch of ours changes them, and would cause the next one (CH-T30)
	case keys[0] == "metadata", keys[0] == "status", keys[0] == "apiVersion", keys[0] == "kind":
		if raw, ok := body.find(keys...); ok {
			e.root.set(raw, keys...)
		}
	}
	// All other stanzas are in the essence as a whole.
}

// volatileMeta tells the metadata that change with each patch, or with the object's identity.
func volatileMeta(key []byte) bool {
	switch string(key) {
	case "resourceVersion", "managedFields", "generation", "uid":
		return true
	}
	return false
}

// managedPrefixes are the prefixes of annotations that operators like us have marked as theirs.
type managedPrefixes [][]byte

func findManaged(annotations []byte) managedPrefixes {
	return findPrefixes(annotations, func(_, name []byte) bool { return string(name) == managedMarker })
}

// findUnmarked finds the prefixes of operators that are not marked, because they begin with "kopf.", but that have a last handled state.
func findUnmarked(annotations []byte) managedPrefixes {
	return findPrefixes(annotations, func(prefix, name []byte) bool {
		return string(name) == defaultDiffBaseKey && bytes.HasPrefix(prefix, []byte("kopf.")) && string(prefix) != defaultPrefix
	})
}

// findPrefixes finds the prefixes of annotations whose prefix and name fit.
func findPrefixes(annotations []byte, fits func(prefix, name []byte) bool) managedPrefixes {
	var found managedPrefixes
	_ = eachMember(annotations, func(quoted, _ []byte) bool { // what is malformed is not there
		if prefix, name, ok := bytes.Cut(textOf(quoted), []byte("/")); ok && fits(prefix, name) {
			found = append(found, prefix)
		}
		return true
	})
	return found
}

// under tells whether a key is under one of the prefixes.
func (managed managedPrefixes) under(key []byte) bool {
	return slices.ContainsFunc(managed, func(prefix []byte) bool { return hasPrefix(key, string(prefix)) })
}

// own tells whether a key is that of an operator like us, or of kubectl, and not of a user.
func (managed managedPrefixes) own(key []byte) bool {
	if string(key) == lastAppliedKey {
		return true
	}
	prefix, _, ok := bytes.Cut(key, []byte("/"))
	return ok && (string(prefix) == defaultPrefix || bytes.HasSuffix(prefix, []byte("."+defaultPrefix)) || managed.under(key))
}

// filterMembers returns the object in raw without the members whose keys fit, and whether there were any.
func filterMembers(raw []byte, fits func(key []byte) bool) ([]byte, bool) {
	found := false
	_ = eachMember(raw, func(quoted, _ []byte) bool { // what is malformed is not there
		found = fits(textOf(quoted))
		return !found
	})
	if !found {
		return raw, false
	}
	rest := append(make([]byte, 0, len(raw)), '{')
	_ = eachMember(raw, func(quoted, value []byte) bool { // as above
		if fits(textOf(quoted)) {
			return true
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(append(rest, quoted...), ':'), value...)
		return true
	})
	return append(rest, '}'), true
}

// DiffBaseStorage keeps the essence of an object as it was last handled. What is to be written goes into the patch
// that is sent anyway. A storage of one's own embeds one of the existing ones for its Build. It is
// called by the workers of many objects at the same time.
type DiffBaseStorage interface {
	// Build returns the essence of an object: with the given fields, which handlers need, even if they are in the
	// status or metadata, and without anything that the storage itself keeps there.
	Build(body *Body, fields []FieldPath) *Essence
	// Fetch returns the stored essence, nil if the object was never handled. After an error, such as damage to what is
	// stored, the object does not count as new, because its creation would be handled again.
	Fetch(body *Body) (*Essence, error)
	// Store stores the essence with the patch.
	Store(essence *Essence, body *Body, patch *Patch)
}

// ownDiffBase is what the storages of this package can do besides.
type ownDiffBase interface {
	DiffBaseStorage
	// strip takes ignored fields and the traces of the storage out of an essence of the body.
	strip(e *Essence, body *Body)
	// purge removes what is stored on the body, and takes it out of the patch.
	purge(body *Body, patch *Patch)
	// beside returns a storage for something else in the same place.
	beside(key string) DiffBaseStorage
	// ignored returns the fields that are not tracked.
	ignored() []FieldPath
}

// AnnotationsDiffBaseStorage keeps the essence in an annotation. It is the default, and its
// zero value is ready to use.
type AnnotationsDiffBaseStorage struct {
	// Prefix begins the key of the annotation. Operators that share objects need different ones. Defaults to "kopf.zalando.org".
	Prefix string
	// Key is the rest of the key. Defaults to "last-handled-configuration".
	Key string
	// IgnoredFields are not tracked, nor are parents that are empty without them. Defaults to none.
	IgnoredFields []FieldPath
	// V2Only tells not to write or read the keys that old versions of Kopf made of long keys. Defaults to false.
	V2Only bool
}

func (s *AnnotationsDiffBaseStorage) keys(body *Body) []string {
	return annotationKeys(s.Prefix, orElse(s.Key, defaultDiffBaseKey), body, s.V2Only)
}

// Build implements [DiffBaseStorage].
func (s *AnnotationsDiffBaseStorage) Build(body *Body, fields []FieldPath) *Essence {
	e := buildEssence(body, fields)
	s.strip(e, body)
	return e
}

func (s *AnnotationsDiffBaseStorage) strip(e *Essence, body *Body) {
	for _, field := range s.IgnoredFields {
		e.Remove(field)
	}
	prefix, keys := orElse(s.Prefix, defaultPrefix), []string(nil)
	e.dropAnnotations(func(key []byte) bool {
		if !hasPrefix(key, prefix) {
			return false
		}
		if keys == nil { // rarely needed: most own annotations are gone already
			keys = s.keys(body)
		}
		return slices.ContainsFunc(keys, func(own string) bool { return own == string(key) })
	})
	e.dropEmpty()
}

// Fetch implements [DiffBaseStorage].
func (s *AnnotationsDiffBaseStorage) Fetch(body *Body) (*Essence, error) {
	var damage error
	for _, key := range s.keys(body) {
		quoted, ok := findJSON(body.annotations, key)
		if !ok {
			continue
		}
		e, err := parseEssence(appendUnquoted(make([]byte, 0, len(quoted)), quoted))
		if e != nil {
			return e, nil
		}
		if err != nil && damage == nil {
			damage = fmt.Errorf("annotation %q: %w", key, err)
		}
	}
	return nil, damage
}

// Store implements [DiffBaseStorage].
func (s *AnnotationsDiffBaseStorage) Store(essence *Essence, body *Body, patch *Patch) {
	text := string(essence.text()) + "\n"
	for _, key := range s.keys(body) {
		patch.put(text, "metadata", "annotations", key)
	}
	markPrefix(s.Prefix, body, patch)
}

func (s *AnnotationsDiffBaseStorage) purge(body *Body, patch *Patch) {
	for _, key := range s.keys(body) {
		purgeField(body, patch, "metadata", "annotations", key)
	}
}

func (s *AnnotationsDiffBaseStorage) beside(key string) DiffBaseStorage {
	return &AnnotationsDiffBaseStorage{Prefix: s.Prefix, Key: key, V2Only: true}
}

func (s *AnnotationsDiffBaseStorage) ignored() []FieldPath { return s.IgnoredFields }

// StatusDiffBaseStorage keeps the essence as a string in the object's status, which works
// only for kinds whose schema allows the field. Its zero value is ready to use.
type StatusDiffBaseStorage struct {
	// Name is the key of the stanza that the default field is in. Defaults to "kopf".
	Name string
	// Field holds the essence. Defaults to "status.<Name>.last-handled-configuration".
	Field FieldPath
	// IgnoredFields are not tracked, nor are parents that are empty without them. Defaults to none.
	IgnoredFields []FieldPath
}

func (s *StatusDiffBaseStorage) field() []string {
	return statusField(s.Field, s.Name, defaultDiffBaseKey)
}

// Build implements [DiffBaseStorage].
func (s *StatusDiffBaseStorage) Build(body *Body, fields []FieldPath) *Essence {
	e := buildEssence(body, fields)
	s.strip(e, body)
	return e
}

func (s *StatusDiffBaseStorage) strip(e *Essence, _ *Body) {
	for _, field := range s.IgnoredFields {
		e.Remove(field)
	}
	e.remove(s.field()...)
}

// Fetch implements [DiffBaseStorage].
func (s *StatusDiffBaseStorage) Fetch(body *Body) (*Essence, error) {
	path := s.field()
	raw, ok := body.find(path...)
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '"' {
		return nil, fmt.Errorf("field %q: a string is expected", strings.Join(path, "."))
	}
	e, err := parseEssence([]byte(unquote(raw)))
	if err != nil {
		return nil, fmt.Errorf("field %q: %w", strings.Join(path, "."), err)
	}
	return e, nil
}

// Store implements [DiffBaseStorage].
func (s *StatusDiffBaseStorage) Store(essence *Essence, _ *Body, patch *Patch) {
	patch.put(string(essence.text()), s.field()...)
}

func (s *StatusDiffBaseStorage) purge(body *Body, patch *Patch) {
	purgeField(body, patch, s.field()...)
}

func (s *StatusDiffBaseStorage) beside(key string) DiffBaseStorage {
	path := s.field()
	path[len(path)-1] = key
	return &StatusDiffBaseStorage{Field: Path(path...)}
}

func (s *StatusDiffBaseStorage) ignored() []FieldPath { return s.IgnoredFields }

// MultiDiffBaseStorage writes to all its storages, and reads from the first one that has
// something: for the time of a transition between them.
type MultiDiffBaseStorage []DiffBaseStorage

// Build implements [DiffBaseStorage].
func (all MultiDiffBaseStorage) Build(body *Body, fields []FieldPath) *Essence {
	e := buildEssence(body, fields)
	for _, s := range all {
		switch s := s.(type) {
		case *AnnotationsDiffBaseStorage:
			s.strip(e, body)
		case *StatusDiffBaseStorage:
			s.strip(e, body)
		default: // of a user, who may have an own idea of essences
			if sub, err := ParseBody(e.text()); err == nil { // what we wrote can be read
				e = s.Build(sub, fields)
			}
		}
	}
	return e
}

func (all MultiDiffBaseStorage) strip(e *Essence, body *Body) {
	for _, s := range all {
		if own, ok := s.(ownDiffBase); ok {
			own.strip(e, body)
		}
	}
}

// Fetch implements [DiffBaseStorage]. An error of one storage matters only if no other one has an essence.
func (all MultiDiffBaseStorage) Fetch(body *Body) (*Essence, error) {
	var damage []error
	for _, s := range all {
		e, err := s.Fetch(body)
		if err == nil && e != nil {
			return e, nil
		}
		damage = append(damage, err)
	}
	return nil, errors.Join(damage...)
}

// Store implements [DiffBaseStorage].
func (all MultiDiffBaseStorage) Store(essence *Essence, body *Body, patch *Patch) {
	for _, s := range all {
		s.Store(essence, body, patch)
	}
}

func (all MultiDiffBaseStorage) purge(body *Body, patch *Patch) {
	for _, s := range all {
		purgeEssence(s, body, patch)
	}
}

func (all MultiDiffBaseStorage) beside(key string) DiffBaseStorage {
	others := make(MultiDiffBaseStorage, len(all))
	for i, s := range all {
		others[i] = storageBeside(s, key)
	}
	return others
}

func (all MultiDiffBaseStorage) ignored() []FieldPath {
	var fields []FieldPath
	for _, s := range all {
		if own, ok := s.(ownDiffBase); ok {
			fields = append(fields, own.ignored()...)
		}
	}
	return fields
}

// essenceOf returns the essence of an object as it is.
func essenceOf(body *Body, fields []FieldPath, p *PersistenceSettings) *Essence {
	e := p.DiffBaseStorage.Build(body, fields)
	p.clear(e, body)
	return e
}

// storedEssence returns the essence of an object as it was last handled, nil if it never was.
func storedEssence(body *Body, p *PersistenceSettings) (*Essence, error) {
	e, err := p.DiffBaseStorage.Fetch(body)
	if e == nil || err != nil {
		return nil, err
	}
	p.clear(e, body)
	return e, nil
}

// clear takes out of an essence what is kept on the object for the time of a handling.
func (p *PersistenceSettings) clear(e *Essence, body *Body) {
	p.ProgressStorage.Clear(e)
	for _, key := range []string{carriedKey, trackedKey} {
		storageBeside(p.DiffBaseStorage, key).(ownDiffBase).strip(e, body)
	}
}

// dropOthers takes out of an essence what operators keep on the object whose prefixes begin with "kopf.": these are not
// marked, so that operators in Python take each other's annotations for changes (CH-T27). They are known by their last handled states.
func dropOthers(e *Essence, body *Body) *Essence {
	if others := findUnmarked(body.annotations); e != nil && len(others) > 0 {
		e.dropAnnotations(others.under)
		e.dropEmpty()
	}
	return e
}

// carriedStorage returns a storage for the essence that a handling began with.
func carriedStorage(d DiffBaseStorage) DiffBaseStorage { return storageBeside(d, carriedKey) }

// storageBeside returns a storage for something else than the last handled essence: in the
// same place as d, under a key of our own. For storages of users it is an annotation.
func storageBeside(d DiffBaseStorage, key string) DiffBaseStorage {
	if own, ok := d.(ownDiffBase); ok {
		return own.beside(key)
	}
	return (&AnnotationsDiffBaseStorage{}).beside(key)
}

// purgeEssence removes what a storage of our own has stored.
func purgeEssence(d DiffBaseStorage, body *Body, patch *Patch) {
	if own, ok := d.(ownDiffBase); ok {
		own.purge(body, patch)
	}
}

// tracking says which fields of an object are tracked beside those that always are, and which are not. It is
// stored beside the last handled essence, so that another set of handlers does not make all objects look changed (CH-T28).
type tracking struct {
	Fields  []FieldPath `json:"fields,omitempty"`
	Ignored []FieldPath `json:"ignored,omitempty"`
}

// trackingOf returns what is tracked for handlers that are about those fields.
func (p *PersistenceSettings) trackingOf(fields []FieldPath) tracking {
	var t tracking
	for _, field := range fields {
		switch keys := field.Keys(); {
		case len(keys) > 1 && keys[0] == "metadata" && (keys[1] == "labels" || keys[1] == "annotations"):
		case len(keys) > 0 && slices.Contains([]string{"metadata", "status", "apiVersion", "kind"}, keys[0]):
			t.Fields = append(t.Fields, field)
		}
	}
	if own, ok := p.DiffBaseStorage.(ownDiffBase); ok {
		t.Ignored = slices.Clone(own.ignored())
	}
	slices.Sort(t.Fields)
	slices.Sort(t.Ignored)
	return t
}

// tracked returns what was tracked when the essence of an object was stored. Where nobody has noted
// it, as operators in Python do not, it is what the essence shows.
func (p *PersistenceSettings) tracked(body *Body, before *Essence, now tracking) tracking {
	var then tracking
	if e, err := storageBeside(p.DiffBaseStorage, trackedKey).Fetch(body); err == nil && e != nil && e.View().Decode(&then) == nil {
		return then
	}
	shown := before.View()
	for _, field := range now.Fields {
		if shown.Has(field) {
			then.Fields = append(then.Fields, field)
		}
	}
	if shown.Has("status") {
		then.Fields = append(then.Fields, "status")
	}
	return then
}

// track notes with the patch what is tracked.
func (p *PersistenceSettings) track(now tracking, body *Body, patch *Patch) {
	storage := storageBeside(p.DiffBaseStorage, trackedKey)
	if len(now.Fields)+len(now.Ignored) == 0 {
		purgeEssence(storage, body, patch)
		return
	}
	if data, err := json.Marshal(now); err == nil { // which holds for texts
		storage.Store(&Essence{raw: data}, body, patch)
	}
}

// explains tells whether two essences differ only because something else is tracked now than it was then.
func (then tracking) explains(now tracking, before, after *Essence) bool {
	differing := slices.Concat(uncovered(then.Fields, now.Fields), uncovered(now.Fields, then.Fields),
		uncovered(then.Ignored, now.Ignored), uncovered(now.Ignored, then.Ignored))
	if len(differing) == 0 {
		return false
	}
	a, b := &Essence{raw: bytes.Clone(before.bytes())}, &Essence{raw: bytes.Clone(after.bytes())}
	for _, field := range differing {
		a.Remove(field)
		b.Remove(field)
	}
	for _, field := range slices.Concat(then.Fields, now.Fields) { // a wider field must not hide a narrower one
		tracked := len(uncovered([]FieldPath{field}, then.Fields)) == 0 && len(uncovered([]FieldPath{field}, now.Fields)) == 0
		if tracked && len(diffJSON(before.Get(field), after.Get(field))) > 0 {
			return false
		}
	}
	return a.Equal(b)
}

// uncovered returns those fields that are neither among the others nor in them.
func uncovered(fields, others []FieldPath) []FieldPath {
	return slices.DeleteFunc(slices.Clone(fields), func(field FieldPath) bool {
		keys := field.Keys()
		return slices.ContainsFunc(others, func(other FieldPath) bool {
			above := other.Keys()
			return len(above) <= len(keys) && slices.Equal(above, keys[:len(above)])
		})
	})
}
