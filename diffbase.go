package kopf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/applyset"
	"github.com/kopf-go/kopf/internal/essence"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file extracts the tracked fields of objects, and stores the last-handled configuration. Every event takes this path, so it works on the object's
// bytes, and does not decode them for comparisons. It runs on the goroutine of the object's worker, and is stateless.

const (
	trackedKey = markers.TrackedFields // only for kopf; operators in Python ignore it
	formerKey  = markers.HandlingBase  // of version 0.1.0; kopf only removes it
)

// Essence has the tracked fields of an object, whose changes kopf handles. It lacks the fields that Kubernetes and operators maintain. It is a JSON object,
// and keeps the order of its keys. A nil one has no fields. It is not safe for concurrent use.
type Essence essence.Essence

// parseEssence reads a stored configuration, nil for null. It keeps the bytes.
func parseEssence(data []byte) (*Essence, error) {
	e, err := essence.Parse(data)
	return (*Essence)(e), err
}

// essenceIn wraps JSON that kopf has written. It keeps the bytes.
func essenceIn(raw []byte) *Essence { return (*Essence)(essence.Of(raw)) }

func (e *Essence) in() *essence.Essence { return (*essence.Essence)(e) }

// UnmarshalJSON decodes the tracked fields from a JSON object.
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

// MarshalJSON encodes the tracked fields as kopf stores them: compact, in ASCII, with the keys in their order. It never fails.
func (e *Essence) MarshalJSON() ([]byte, error) { return slices.Clone(e.text()), nil }

// text returns the stored form, which is read-only.
func (e *Essence) text() []byte { return e.in().Text() }

// bytes returns any JSON form, the cheapest available.
func (e *Essence) bytes() []byte { return e.in().Bytes() }

// digest returns a hash, to detect changes.
func (e *Essence) digest() uint64 { return e.in().Digest() }

// View returns a view of the current content.
func (e *Essence) View() View { return View{raw: e.bytes()} }

// Get returns a copy of the value at a path, as [View.Get] does.
func (e *Essence) Get(path FieldPath) any { return e.View().Get(path) }

// Map returns a copy as a map, which you can change. It is never nil.
func (e *Essence) Map() map[string]any { return e.View().Map() }

// Set sets the field at a path, and adds missing objects on the way. It fails if encoding/json cannot encode the value, if the path is empty, or if the path
// leads through anything but objects.
func (e *Essence) Set(path FieldPath, value any) error {
	raw, err := rawjson.Encode(value)
	if err != nil {
		return fmt.Errorf("field %q of an essence: %w", path, err)
	}
	if !e.in().Set(raw, path.Keys()...) {
		return fmt.Errorf("field %q of an essence: an object is expected above it", path)
	}
	return nil
}

// Remove removes the field at a path, and the parents that then are empty.
func (e *Essence) Remove(path FieldPath) { e.in().Remove(path.Keys()...) }

// Equal reports whether two essences do not differ. As in a [Diff], null equals a missing value, and 1 equals 1.0.
func (e *Essence) Equal(other *Essence) bool { return e.in().Equal(other.in()) }

// buildEssence extracts the tracked fields of an object, with the data of storages still among them. It adds the given fields, which handlers need. Missing
// fields add nothing (CH-T18).
func buildEssence(body *Body, fields []FieldPath) *Essence {
	source := essence.Source{Raw: body.raw, Metadata: body.of(body.meta), Status: body.of(body.status)}
	source.Labels, source.Annotations = applyset.WithoutOwn(body.of(body.labels), body.of(body.annotations))
	var keys [][]string
	for _, field := range fields {
		keys = append(keys, field.Keys())
	}
	return (*Essence)(essence.Build(&source, keys))
}

// DiffBaseStorage stores the last-handled configuration of an object, to which kopf compares the current one. It writes to the patch, which kopf sends
// anyway. To write your own, embed an existing storage for its Build. kopf calls it concurrently for different objects.
type DiffBaseStorage interface {
	// Build returns the tracked fields of an object, without the data of this storage. It includes the given fields, which handlers need, even if they are in
	// the status or the metadata.
	Build(body *Body, fields []FieldPath) *Essence
	// Fetch returns the last-handled configuration, or nil if the object was never handled. After an error, such as for damaged data, kopf does not treat the
	// object as new, because it would handle the creation again.
	Fetch(body *Body) (*Essence, error)
	// Store adds the configuration to the patch.
	Store(essence *Essence, body *Body, patch *Patch)
}

// ownDiffBase has the further methods of kopf's own storages.
type ownDiffBase interface {
	DiffBaseStorage
	// strip removes ignored fields and the storage's data from the tracked fields of a body.
	strip(e *Essence, body *Body)
	// purge removes the stored configuration from the body and from the patch.
	purge(body *Body, patch *Patch)
	// withKey returns a storage of the same kind with another key.
	withKey(key string) DiffBaseStorage
	// ignored returns the fields that are not tracked.
	ignored() []FieldPath
}

// AnnotationsDiffBaseStorage stores the last-handled configuration in an annotation. Its zero value is ready to use.
type AnnotationsDiffBaseStorage struct {
	// Prefix begins the key of the annotation. Operators that share objects need different ones. Defaults to "kopf.zalando.org".
	Prefix string
	// Key is the rest of the key. Defaults to "last-handled-configuration".
	Key string
	// IgnoredFields are not tracked, nor are parents that are empty without them. Defaults to none.
	IgnoredFields []FieldPath
	// V2Only disables the keys that old versions of Kopf made of long keys. Defaults to false.
	V2Only bool

	untracked string // a further ignored annotation; "" for none
}

func (s *AnnotationsDiffBaseStorage) keys(body *Body) []string {
	return annotationKeys(s.Prefix, cmp.Or(s.Key, markers.LastHandled), body, s.V2Only)
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
	prefix, keys := cmp.Or(s.Prefix, markers.DefaultPrefix), []string(nil)
	e.in().DropAnnotations(func(key []byte) bool {
		if !markers.HasPrefix(key, prefix) {
			return string(key) == s.untracked
		}
		if keys == nil { // rarely needed: most own annotations are already removed
			keys = s.keys(body)
		}
		return slices.ContainsFunc(keys, func(own string) bool { return own == string(key) })
	})
	e.in().DropEmpty()
}

// Fetch implements [DiffBaseStorage].
func (s *AnnotationsDiffBaseStorage) Fetch(body *Body) (*Essence, error) {
	var damage error
	for _, key := range s.keys(body) {
		quoted, ok := rawjson.Find(body.of(body.annotations), key)
		if !ok {
			continue
		}
		e, err := parseEssence(rawjson.AppendUnquoted(make([]byte, 0, len(quoted)), quoted))
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

func (s *AnnotationsDiffBaseStorage) withKey(key string) DiffBaseStorage {
	return &AnnotationsDiffBaseStorage{Prefix: s.Prefix, Key: key, V2Only: true}
}

func (s *AnnotationsDiffBaseStorage) ignored() []FieldPath { return s.IgnoredFields }

// StatusDiffBaseStorage stores the last-handled configuration as a string in the status. The schema of the kind must allow the field. Its zero value is ready
// to use.
type StatusDiffBaseStorage struct {
	// Name is the key of the stanza that the default field is in. Defaults to "kopf".
	Name string
	// Field holds the configuration, below the status. Defaults to "status.<Name>.last-handled-configuration".
	Field FieldPath
	// IgnoredFields are not tracked, nor are parents that are empty without them. Defaults to none.
	IgnoredFields []FieldPath

	key string // replaces the last key of the field; "" means that key
}

func (s *StatusDiffBaseStorage) field() []string {
	path := statusField(s.Field, s.Name, markers.LastHandled)
	if s.key != "" {
		path[len(path)-1] = s.key
	}
	return path
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
	e.in().Remove(s.field()...)
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
	e, err := parseEssence([]byte(rawjson.Unquote(raw)))
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

func (s *StatusDiffBaseStorage) withKey(key string) DiffBaseStorage {
	return &StatusDiffBaseStorage{Name: s.Name, Field: s.Field, key: key}
}

// sibling returns the field with a key next to the configuration.
func (s *StatusDiffBaseStorage) sibling(key string) []string {
	return (&StatusDiffBaseStorage{Name: s.Name, Field: s.Field, key: key}).field()
}

func (s *StatusDiffBaseStorage) ignored() []FieldPath { return s.IgnoredFields }

// MultiDiffBaseStorage writes to several storages, and reads from the first one that has a configuration. Use it to move from one storage to another.
type MultiDiffBaseStorage []DiffBaseStorage

// Build implements [DiffBaseStorage].
func (m MultiDiffBaseStorage) Build(body *Body, fields []FieldPath) *Essence {
	e := buildEssence(body, fields)
	for _, s := range m {
		switch s := s.(type) {
		case *AnnotationsDiffBaseStorage:
			s.strip(e, body)
		case *StatusDiffBaseStorage:
			s.strip(e, body)
		default: // a storage of the user may select other fields
			if sub, err := ParseBody(e.text()); err == nil { // kopf's own JSON is readable
				e = s.Build(sub, fields)
			}
		}
	}
	return e
}

func (m MultiDiffBaseStorage) strip(e *Essence, body *Body) {
	for _, s := range m {
		if own, ok := s.(ownDiffBase); ok {
			own.strip(e, body)
		}
	}
}

// Fetch implements [DiffBaseStorage]. An error of one storage matters only if no other one has a configuration.
func (m MultiDiffBaseStorage) Fetch(body *Body) (*Essence, error) {
	var damage []error
	for _, s := range m {
		e, err := s.Fetch(body)
		if err == nil && e != nil {
			return e, nil
		}
		damage = append(damage, err)
	}
	return nil, errors.Join(damage...)
}

// Store implements [DiffBaseStorage].
func (m MultiDiffBaseStorage) Store(essence *Essence, body *Body, patch *Patch) {
	for _, s := range m {
		s.Store(essence, body, patch)
	}
}

func (m MultiDiffBaseStorage) purge(body *Body, patch *Patch) {
	for _, s := range m {
		purgeEssence(s, body, patch)
	}
}

func (m MultiDiffBaseStorage) withKey(key string) DiffBaseStorage {
	others := make(MultiDiffBaseStorage, len(m))
	for i, s := range m {
		others[i] = siblingStorage(s, key)
	}
	return others
}

func (m MultiDiffBaseStorage) ignored() []FieldPath {
	var fields []FieldPath
	for _, s := range m {
		if own, ok := s.(ownDiffBase); ok {
			fields = append(fields, own.ignored()...)
		}
	}
	return fields
}

// cloneDiffBaseStorage returns a copy of a storage of kopf, or the same storage of another package.
func cloneDiffBaseStorage(storage DiffBaseStorage) DiffBaseStorage {
	switch s := storage.(type) {
	case *AnnotationsDiffBaseStorage:
		return cloned(s, func(s *AnnotationsDiffBaseStorage) {
			s.IgnoredFields = slices.Clone(s.IgnoredFields)
		})
	case *StatusDiffBaseStorage:
		return cloned(s, func(s *StatusDiffBaseStorage) {
			s.IgnoredFields = slices.Clone(s.IgnoredFields)
		})
	case *SmartDiffBaseStorage:
		return cloned(s, func(s *SmartDiffBaseStorage) {
			s.IgnoredFields = slices.Clone(s.IgnoredFields)
		})
	case MultiDiffBaseStorage:
		own := slices.Clone(s)
		for i := range own {
			own[i] = cloneDiffBaseStorage(own[i])
		}
		return own
	}
	return storage
}

// SmartDiffBaseStorage is the default [DiffBaseStorage]. Settings.Persistence.Storage selects [AnnotationsDiffBaseStorage] or [StatusDiffBaseStorage]. It
// also reads the other place, and clears that with the next write. If annotations are selected, it moves a configuration from the status at once, so that
// operators in Python find it. Its zero value is ready to use.
type SmartDiffBaseStorage struct {
	// Prefix, Key and V2Only are those of [AnnotationsDiffBaseStorage].
	Prefix string
	Key    string
	V2Only bool
	// Name and Field are those of [StatusDiffBaseStorage].
	Name  string
	Field FieldPath
	// IgnoredFields are those of both.
	IgnoredFields []FieldPath

	key       string // for the status storage
	inStatus  bool   // whether to store in the status
	untracked string // a further ignored annotation; "" for none
}

//go:noinline
func (s *SmartDiffBaseStorage) annotations() *AnnotationsDiffBaseStorage {
	return &AnnotationsDiffBaseStorage{Prefix: s.Prefix, Key: s.Key, V2Only: s.V2Only, IgnoredFields: s.IgnoredFields, untracked: s.untracked}
}

//go:noinline
func (s *SmartDiffBaseStorage) status() *StatusDiffBaseStorage {
	return &StatusDiffBaseStorage{Name: s.Name, Field: s.Field, IgnoredFields: s.IgnoredFields, key: s.key}
}

// Build implements [DiffBaseStorage].
func (s *SmartDiffBaseStorage) Build(body *Body, fields []FieldPath) *Essence {
	e := buildEssence(body, fields)
	s.strip(e, body)
	return e
}

func (s *SmartDiffBaseStorage) strip(e *Essence, body *Body) {
	s.annotations().strip(e, body)
	if s.Field != "" || e.in().Has("status") {
		s.status().strip(e, body)
	}
}

// Fetch implements [DiffBaseStorage]. An error of one place matters only if the other one has no configuration.
func (s *SmartDiffBaseStorage) Fetch(body *Body) (*Essence, error) {
	inAnnotations, damage := s.annotations().Fetch(body)
	if inAnnotations != nil && !s.inStatus {
		return inAnnotations, nil
	}
	inStatus, err := s.status().Fetch(body)
	if inStatus != nil {
		return inStatus, nil
	} else if inAnnotations != nil {
		return inAnnotations, nil
	}
	return nil, errors.Join(damage, err)
}

// Store implements [DiffBaseStorage].
func (s *SmartDiffBaseStorage) Store(essence *Essence, body *Body, patch *Patch) {
	if s.inStatus {
		s.status().Store(essence, body, patch)
		s.annotations().purge(body, patch)
		return
	}
	s.annotations().Store(essence, body, patch)
	s.status().purge(body, patch)
}

// purgeOther clears the unselected place.
func (s *SmartDiffBaseStorage) purgeOther(body *Body, patch *Patch) {
	if s.inStatus {
		s.annotations().purge(body, patch)
	} else {
		s.status().purge(body, patch)
	}
}

// differ reports whether both places have different configurations: a move was interrupted, or an operator that knows only one place has written.
func (s *SmartDiffBaseStorage) differ(body *Body) bool {
	inAnnotations, _ := s.annotations().Fetch(body)
	inStatus, _ := s.status().Fetch(body)
	return inAnnotations != nil && inStatus != nil && !inAnnotations.Equal(inStatus)
}

func (s *SmartDiffBaseStorage) purge(body *Body, patch *Patch) {
	s.annotations().purge(body, patch)
	s.status().purge(body, patch)
}

func (s *SmartDiffBaseStorage) withKey(key string) DiffBaseStorage {
	return &SmartDiffBaseStorage{inStatus: s.inStatus, Prefix: s.Prefix, Key: key, V2Only: true, Name: s.Name, Field: s.Field, key: key}
}

func (s *SmartDiffBaseStorage) ignored() []FieldPath {
	if s.untracked == "" {
		return s.IgnoredFields
	}
	return append(slices.Clip(s.IgnoredFields), Path("metadata", "annotations", s.untracked))
}

// misplaced reports whether the configuration must move to the selected place, even without a change.
func (s *SmartDiffBaseStorage) misplaced(body *Body) bool {
	if _, ok := body.find(s.status().field()...); !ok || !s.inStatus {
		return ok
	}
	inAnnotations, _ := s.annotations().Fetch(body)
	return inAnnotations != nil
}

// essenceOf returns the current tracked fields of an object.
func essenceOf(body *Body, fields []FieldPath, p *PersistenceSettings) *Essence {
	e := p.DiffBaseStorage.Build(body, fields)
	p.stripRecords(e, body)
	return e
}

// storedEssence returns the last-handled configuration of an object, nil if there is none.
func storedEssence(body *Body, p *PersistenceSettings) (*Essence, error) {
	e, err := p.DiffBaseStorage.Fetch(body)
	if e == nil || err != nil {
		return nil, err
	}
	p.stripRecords(e, body)
	return e, nil
}

// stripRecords removes the temporary data of operators from the tracked fields.
func (p *PersistenceSettings) stripRecords(e *Essence, body *Body) {
	p.ProgressStorage.Clear(e)
	for _, key := range []string{formerKey, trackedKey, markers.Reconciled, handledUIDKey} {
		if key != handledUIDKey || p.IgnoreCopies {
			siblingStorage(p.DiffBaseStorage, key).(ownDiffBase).strip(e, body)
		}
	}
}

// dropOthers removes the annotations of operators whose prefixes begin with "kopf." from the tracked fields. Operators in Python do not mark these, so they
// take each other's annotations for changes (CH-T27). kopf recognizes them by their last-handled configurations.
func dropOthers(e *Essence, body *Body) *Essence {
	if others := markers.FindUnmarked(body.of(body.annotations)); e != nil && len(others) > 0 {
		e.in().DropAnnotations(others.Under)
		e.in().DropEmpty()
	}
	return e
}

// siblingStorage returns a storage of the same kind for other data, with its own key. For storages of users, it is an annotation.
func siblingStorage(d DiffBaseStorage, key string) DiffBaseStorage {
	if own, ok := d.(ownDiffBase); ok {
		return own.withKey(key)
	}
	return (&AnnotationsDiffBaseStorage{}).withKey(key)
}

// purgeEssence clears one of kopf's own storages.
func purgeEssence(d DiffBaseStorage, body *Body, patch *Patch) {
	if own, ok := d.(ownDiffBase); ok {
		own.purge(body, patch)
	}
}

// withOthers returns the tracked fields as operators in Python store them, including those that dropOthers removes. Those operators would take the missing
// ones for a change. It returns nil if there are none. It also does if the prefix of this operator is not marked, because two such operators would store each
// other's data.
func (p *PersistenceSettings) withOthers(body *Body, fields []FieldPath) *Essence {
	unmarked := func(prefix string) bool { return strings.HasPrefix(prefix, "kopf.") && prefix != markers.DefaultPrefix }
	if len(markers.FindUnmarked(body.of(body.annotations))) == 0 || slices.ContainsFunc(prefixesOf(p.DiffBaseStorage), unmarked) {
		return nil
	}
	return essenceOf(body, fields, p)
}

// annotationsLimit is the maximum size of all annotations of an object together, set by Kubernetes.
const annotationsLimit = 256 << 10

// annotationsSize returns the size of all annotations of a body together, after the patches.
func annotationsSize(body *Body, patches ...*Patch) int {
	all := body.Annotations()
	for _, patch := range patches {
		for _, merge := range []map[string]any{patch.changes.Merge, patch.changes.Last} {
			changes, _ := jsonpatch.Lookup(merge, "metadata", "annotations")
			markers.MergeAnnotations(all, rawjson.PatchFields(changes))
		}
	}
	return markers.Size(all)
}

// trackingOf returns the tracking for handlers that need the fields.
func (p *PersistenceSettings) trackingOf(fields []FieldPath) essence.Tracking {
	var ignored []FieldPath
	if own, ok := p.DiffBaseStorage.(ownDiffBase); ok {
		ignored = own.ignored()
	}
	return essence.NewTracking(pathTexts(fields), pathTexts(ignored))
}

func pathTexts(fields []FieldPath) (texts []string) {
	for _, field := range fields {
		texts = append(texts, string(field))
	}
	return texts
}

// tracked returns the tracking at the time when the configuration was stored. It takes the configuration as stored and as parsed. kopf stores its tracking,
// unless that is empty. Operators in Python do not, so it is guessed for them.
func (p *PersistenceSettings) tracked(body *Body, stored []byte, before *Essence, now essence.Tracking) essence.Tracking {
	var then essence.Tracking
	note, err := siblingStorage(p.DiffBaseStorage, trackedKey).Fetch(body)
	noted := err == nil && note != nil && note.View().Decode(&then) == nil
	switch {
	case noted && then.State == essence.StoredDigest(stored):
		return then
	case storedByUs(p.DiffBaseStorage, body) && (!noted || then.State == ""): // the tracking was empty; or version 0.1.0 stored it, without the digest of the configuration
		return then
	}
	return now.Guess(before.bytes())
}

// fieldManager is kopf's field manager at API servers. They take it from the first part of the User-Agent.
const fieldManager = "kopf-go"

// storedByUs reports whether kopf was the last to write the configuration, by the managed fields of the object.
func storedByUs(d DiffBaseStorage, body *Body) bool {
	var path []string
	switch d := d.(type) {
	case *AnnotationsDiffBaseStorage:
		path = []string{"metadata", "annotations", d.keys(body)[0]}
	case *StatusDiffBaseStorage:
		path = d.field()
	case MultiDiffBaseStorage:
		return len(d) > 0 && storedByUs(d[0], body)
	case *SmartDiffBaseStorage:
		return storedByUs(d.annotations(), body) || storedByUs(d.status(), body)
	default:
		return false
	}
	managers := body.of(body.managers)
	return markers.Manages(managers, fieldManager, path...)
}

// track stores the tracking for a configuration with the same patch.
func (p *PersistenceSettings) track(now essence.Tracking, e *Essence, body *Body, patch *Patch) {
	storage := siblingStorage(p.DiffBaseStorage, trackedKey)
	if now.IsEmpty() {
		purgeEssence(storage, body, patch)
		return
	}
	now.State = essence.StoredDigest(e.bytes())
	if data, err := json.Marshal(now); err == nil { // strings always succeed
		storage.Store(essenceIn(data), body, patch)
	}
}
