package kopf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/progressrecord"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/settingscheck"
)

// This file stores the progress of handlers on the objects, with the same keys and bytes as operators in Python. It is stateless, and runs on the goroutine
// of the object's worker.

const (
	defaultTouchKey = "touch-dummy"
	defaultName     = "kopf" // of the stanza in the status
	handledUIDKey   = markers.HandledUID
)

// ProgressRecord is the stored progress of one handler on one object. Zero times and empty values are unset, and not stored, except for the counter and the
// flags.
type ProgressRecord struct {
	Started time.Time // when the handler was selected for the change; stored in microseconds
	Stopped time.Time // when it succeeded or failed permanently
	Delayed time.Time // when its next attempt is due
	Purpose Reason    // why it is called; "" fits every reason
	Retries int       // the attempts made so far
	Success bool      // it has succeeded
	Failure bool      // it has failed permanently
	Message *string   // the text of the last attempt's error; nil if it had none
	Subrefs []string  // ids of the sub-handlers of all levels

	stored any // the decoded stored record; nil for new ones
}

// waitingMessage replaces the error message while a handler waits for sub-handlers. Kopf for Python stores the same.
const waitingMessage = "None"

// changedFrom reports whether the record differs from the stored one.
func (r *ProgressRecord) changedFrom(stored *ProgressRecord) bool {
	c := *r
	c.stored = stored.stored
	return c.changed()
}

// waits reports whether the last attempt waited for sub-handlers.
func (r *ProgressRecord) waits() bool {
	return len(r.Subrefs) > 0 && r.Message != nil && *r.Message == waitingMessage
}

// addSubref adds a sub-handler whose record is purged with this one.
func (r *ProgressRecord) addSubref(id HandlerID) {
	if !slices.Contains(r.Subrefs, string(id)) {
		r.Subrefs = append(r.Subrefs, string(id))
		slices.Sort(r.Subrefs)
	}
}

// owed reports whether the record is that of a handler that has been called for a reason, and must be called again.
func (r *ProgressRecord) owed(reason Reason) bool {
	return !r.finished() && !r.Started.IsZero() && (r.Purpose == "" || r.Purpose == reason)
}

func (r *ProgressRecord) finished() bool { return r.Success || r.Failure }

// changed reports whether the record differs from the stored one. Another spelling of a time is a difference, another order of keys is not.
func (r *ProgressRecord) changed() bool { return !rawjson.Equal(r.members(false).Decoded(), r.stored) }

// members returns the keys of the record in order, with the unset ones on request.
func (r *ProgressRecord) members(unset bool) progressrecord.Members {
	return r.encodable().Members(unset)
}

// encodable returns the record in the form that is encoded.
func (r *ProgressRecord) encodable() *progressrecord.Record {
	return &progressrecord.Record{
		Started: r.Started, Stopped: r.Stopped, Delayed: r.Delayed, Purpose: string(r.Purpose), Retries: r.Retries,
		Success: r.Success, Failure: r.Failure, Message: r.Message, Subrefs: r.Subrefs,
	}
}

// MarshalJSON encodes the record as in annotations: only set keys, in a fixed order, with times in UTC and microseconds. It never fails.
func (r ProgressRecord) MarshalJSON() ([]byte, error) { return r.members(false).Encoded(), nil }

// UnmarshalJSON decodes a stored record. It ignores unknown keys. Missing and null keys are unset. Times have any form of ISO 8601, in UTC if they have no
// zone. It fails for values of a wrong type, and for wrong times.
func (r *ProgressRecord) UnmarshalJSON(data []byte) error {
	v, err := rawjson.Decode(data)
	if err != nil {
		return err
	}
	record, err := decodeRecord(v)
	if err != nil {
		return err
	}
	*r = *record
	return nil
}

func decodeRecord(v any) (*ProgressRecord, error) {
	r, err := progressrecord.Parse(v)
	if err != nil {
		return nil, err
	}
	return &ProgressRecord{
		Started: r.Started, Stopped: r.Stopped, Delayed: r.Delayed, Purpose: Reason(r.Purpose), Retries: r.Retries, Success: r.Success, Failure: r.Failure, Message: r.Message, Subrefs: r.Subrefs, stored: v,
	}, nil
}

// Storage selects where an operator stores its state on objects: the progress of handlers, and the last-handled configuration.
type Storage int

const (
	// InAnnotations stores the state in annotations. It is the default, and compatible with Kopf for Python. If the status is a subresource, changes of the
	// status need a second request.
	InAnnotations Storage = iota
	// InStatus stores the state in the field "kopf" of the status, so that one request has all changes. If the schema of a kind drops that field, kopf logs a
	// warning, and uses annotations for it. kopf reads state in annotations, and moves it when it handles the object.
	InStatus
)

// String returns the name of the constant, or "" for any other value.
func (s Storage) String() string {
	return map[Storage]string{InAnnotations: "InAnnotations", InStatus: "InStatus"}[s]
}

// ProgressStorage stores the progress of handlers between attempts. It writes to the patch, which kopf sends anyway. A storage outside of the objects writes
// in Store or in Flush. kopf calls it concurrently for different objects.
type ProgressStorage interface {
	// Fetch returns the stored record of a handler on an object, or nil. After an error, kopf logs a warning, and continues without a record.
	Fetch(id HandlerID, body *Body) (*ProgressRecord, error)
	// Store adds the record of a handler to the patch.
	Store(id HandlerID, record *ProgressRecord, body *Body, patch *Patch)
	// Purge adds the removal of the record of a handler to the patch, if the object has one. If the patch would store the record, Purge removes that.
	Purge(id HandlerID, body *Body, patch *Patch)
	// Touch adds a dummy value to the patch, so that the object changes. "" removes the value.
	Touch(value string, body *Body, patch *Patch)
	// Clear removes the data of this storage from the tracked fields.
	Clear(essence *Essence)
	// Flush ends a series of calls of Store, or of Purge.
	Flush()
}

// AnnotationsProgressStorage stores the progress of each handler in an annotation. Its zero value is ready to use.
type AnnotationsProgressStorage struct {
	// Prefix begins the keys of the annotations. Operators that share objects need different ones. Defaults to "kopf.zalando.org".
	Prefix string
	// Verbose stores unset keys of records as nulls. Default: false.
	Verbose bool
	// TouchKey is the name of the annotation that [ProgressStorage] touches. Defaults to "touch-dummy".
	TouchKey string
	// V2Only disables the keys that old versions of Kopf made of long IDs. Defaults to false.
	V2Only bool
}

func (s *AnnotationsProgressStorage) keys(id string, body *Body) []string {
	return annotationKeys(s.Prefix, id, body, s.V2Only)
}

// Fetch implements [ProgressStorage].
func (s *AnnotationsProgressStorage) Fetch(id HandlerID, body *Body) (*ProgressRecord, error) {
	var damage error
	for _, key := range s.keys(string(id), body) {
		text, ok := body.Annotation(key)
		if !ok {
			continue
		}
		record, err := parseRecord(text)
		if record != nil {
			return record, nil
		}
		if err != nil && damage == nil {
			damage = fmt.Errorf("annotation %q: %w", key, err)
		}
	}
	return nil, damage
}

func parseRecord(text string) (*ProgressRecord, error) {
	v, err := rawjson.Decode([]byte(text))
	if err != nil || v == nil {
		return nil, err
	}
	return decodeRecord(v)
}

// Store implements [ProgressStorage].
func (s *AnnotationsProgressStorage) Store(id HandlerID, record *ProgressRecord, body *Body, patch *Patch) {
	text := string(record.members(s.Verbose).Encoded())
	for _, key := range s.keys(string(id), body) {
		patch.put(text, "metadata", "annotations", key)
	}
	markPrefix(s.Prefix, body, patch)
}

// Purge implements [ProgressStorage].
func (s *AnnotationsProgressStorage) Purge(id HandlerID, body *Body, patch *Patch) {
	for _, key := range s.keys(string(id), body) {
		purgeField(body, patch, "metadata", "annotations", key)
	}
}

// Touch implements [ProgressStorage].
func (s *AnnotationsProgressStorage) Touch(value string, body *Body, patch *Patch) {
	for _, key := range s.keys(cmp.Or(s.TouchKey, defaultTouchKey), body) {
		if old, ok := body.Annotation(key); ok && value == "" {
			patch.put(nil, "metadata", "annotations", key)
		} else if value != "" && old != value {
			patch.put(value, "metadata", "annotations", key)
			markPrefix(s.Prefix, body, patch)
		}
	}
}

// Clear implements [ProgressStorage].
func (s *AnnotationsProgressStorage) Clear(essence *Essence) {
	prefix := cmp.Or(s.Prefix, markers.DefaultPrefix)
	essence.in().DropAnnotations(func(key []byte) bool { return markers.HasPrefix(key, prefix) })
	essence.in().DropEmpty()
}

// Flush implements [ProgressStorage].
func (s *AnnotationsProgressStorage) Flush() {}

// StatusProgressStorage stores the progress of handlers in the status. The schema of the kind must allow these fields. Its zero value is ready to use.
type StatusProgressStorage struct {
	// Name is the key of the stanza that the default fields are in. Defaults to "kopf".
	Name string
	// Field holds the records by handler ID, below the status. Defaults to "status.<Name>.progress".
	Field FieldPath
	// TouchField is the field that [ProgressStorage] touches, below the status. Defaults to "status.<Name>.dummy".
	TouchField FieldPath
}

func (s *StatusProgressStorage) field(id HandlerID) []string {
	return append(statusField(s.Field, s.Name, "progress"), string(id))
}

func (s *StatusProgressStorage) touchField() []string {
	return statusField(s.TouchField, s.Name, "dummy")
}

// statusField returns the keys of a field, or of its default.
func statusField(field FieldPath, name, key string) []string {
	if field != "" {
		return field.Keys()
	}
	return []string{"status", cmp.Or(name, defaultName), key}
}

// Fetch implements [ProgressStorage].
func (s *StatusProgressStorage) Fetch(id HandlerID, body *Body) (*ProgressRecord, error) {
	path := s.field(id)
	raw, ok := body.find(path...)
	if !ok {
		return nil, nil
	}
	record, err := parseRecord(string(raw))
	if err != nil {
		return nil, fmt.Errorf("field %q: %w", strings.Join(path, "."), err)
	}
	return record, nil
}

// Store implements [ProgressStorage]. It sends unset keys as nulls, because a merge patch would keep their former values.
func (s *StatusProgressStorage) Store(id HandlerID, record *ProgressRecord, body *Body, patch *Patch) {
	patch.put(record.members(true).Decoded(), s.field(id)...)
}

// Purge implements [ProgressStorage].
func (s *StatusProgressStorage) Purge(id HandlerID, body *Body, patch *Patch) {
	purgeField(body, patch, s.field(id)...)
}

// Touch implements [ProgressStorage].
func (s *StatusProgressStorage) Touch(value string, body *Body, patch *Patch) {
	path := s.touchField()
	if raw, ok := body.find(path...); ok && value == "" {
		patch.put(nil, path...)
	} else if value != "" && rawjson.Unquote(raw) != value {
		patch.put(value, path...)
	}
}

// Clear implements [ProgressStorage].
func (s *StatusProgressStorage) Clear(essence *Essence) {
	essence.in().Remove(s.touchField()...)
	s.clearRecords(essence)
}

func (s *StatusProgressStorage) clearRecords(essence *Essence) {
	if s.Field != "" || essence.in().Has("status") {
		essence.in().Remove(statusField(s.Field, s.Name, "progress")...)
	}
	essence.in().DropEmpty()
}

// Flush implements [ProgressStorage].
func (s *StatusProgressStorage) Flush() {}

// MultiProgressStorage writes to several storages, and reads from the first one that has a record. Use it to move from one storage to another.
type MultiProgressStorage []ProgressStorage

// Fetch implements [ProgressStorage]. An error of one storage matters only if no other one has a record.
func (m MultiProgressStorage) Fetch(id HandlerID, body *Body) (*ProgressRecord, error) {
	var damage []error
	for _, s := range m {
		record, err := s.Fetch(id, body)
		if err == nil && record != nil {
			return record, nil
		}
		damage = append(damage, err)
	}
	return nil, errors.Join(damage...)
}

// Store implements [ProgressStorage].
func (m MultiProgressStorage) Store(id HandlerID, record *ProgressRecord, body *Body, patch *Patch) {
	for _, s := range m {
		s.Store(id, record, body, patch)
	}
}

// Purge implements [ProgressStorage].
func (m MultiProgressStorage) Purge(id HandlerID, body *Body, patch *Patch) {
	for _, s := range m {
		s.Purge(id, body, patch)
	}
}

// Touch implements [ProgressStorage].
func (m MultiProgressStorage) Touch(value string, body *Body, patch *Patch) {
	for _, s := range m {
		s.Touch(value, body, patch)
	}
}

// Clear implements [ProgressStorage].
func (m MultiProgressStorage) Clear(essence *Essence) {
	for _, s := range m {
		s.Clear(essence)
	}
}

// Flush implements [ProgressStorage].
func (m MultiProgressStorage) Flush() {
	for _, s := range m {
		s.Flush()
	}
}

// cloneProgressStorage returns a copy of a storage of kopf, or the same storage of another package.
func cloneProgressStorage(storage ProgressStorage) ProgressStorage {
	switch s := storage.(type) {
	case *AnnotationsProgressStorage:
		return cloned(s, nil)
	case *StatusProgressStorage:
		return cloned(s, nil)
	case *SmartProgressStorage:
		return cloned(s, nil)
	case MultiProgressStorage:
		own := slices.Clone(s)
		for i := range own {
			own[i] = cloneProgressStorage(own[i])
		}
		return own
	}
	return storage
}

// SmartProgressStorage is the default [ProgressStorage]. Settings.Persistence.Storage selects [AnnotationsProgressStorage] or [StatusProgressStorage]. It
// also reads and removes records in the other place. Its zero value is ready to use.
type SmartProgressStorage struct {
	// Prefix, Verbose, TouchKey and V2Only are those of [AnnotationsProgressStorage].
	Prefix   string
	Verbose  bool
	TouchKey string
	V2Only   bool
	// Name and Field are those of [StatusProgressStorage].
	Name  string
	Field FieldPath

	inStatus bool                  // whether to store records in the status
	states   *SmartDiffBaseStorage // for the last-handled configuration; nil if that has another storage
}

func (s *SmartProgressStorage) annotations() *AnnotationsProgressStorage {
	return &AnnotationsProgressStorage{Prefix: s.Prefix, Verbose: s.Verbose, TouchKey: s.TouchKey, V2Only: s.V2Only}
}

func (s *SmartProgressStorage) status() *StatusProgressStorage {
	return &StatusProgressStorage{Name: s.Name, Field: s.Field}
}

// Fetch implements [ProgressStorage]. Of two records, it returns the more advanced one, because the other one is from before a change of the place. While the
// two places have different configurations, it reads records only in the selected place. It returns an error of one place only if the other place has no
// record.
func (s *SmartProgressStorage) Fetch(id HandlerID, body *Body) (*ProgressRecord, error) {
	own, damage := s.annotations().Fetch(id, body)
	other, err := s.status().Fetch(id, body)
	if s.inStatus {
		own, other = other, own
	}
	if other != nil && s.states != nil && s.states.differ(body) {
		other = nil
	}
	switch {
	case own == nil && other == nil:
		return nil, errors.Join(damage, err)
	case own == nil || other != nil && other.beyond(own):
		return other, nil
	}
	return own, nil
}

// leftInStatus reports whether the status still has records, though annotations are selected.
func (s *SmartProgressStorage) leftInStatus(body *Body) bool {
	raw, _ := body.find(statusField(s.Field, s.Name, "progress")...)
	return !s.inStatus && !rawjson.IsNull(raw) && string(raw) != "{}"
}

// beyond reports whether a record is more advanced than another one of the same handler.
func (r *ProgressRecord) beyond(other *ProgressRecord) bool {
	switch {
	case !r.Started.Equal(other.Started): // the handler has started again since the earlier one
		return r.Started.After(other.Started)
	case r.finished() != other.finished():
		return r.finished()
	}
	return r.Retries > other.Retries
}

// Store implements [ProgressStorage].
func (s *SmartProgressStorage) Store(id HandlerID, record *ProgressRecord, body *Body, patch *Patch) {
	if s.inStatus {
		s.status().Store(id, record, body, patch)
	} else {
		s.annotations().Store(id, record, body, patch)
	}
}

// Purge implements [ProgressStorage].
func (s *SmartProgressStorage) Purge(id HandlerID, body *Body, patch *Patch) {
	s.annotations().Purge(id, body, patch)
	s.status().Purge(id, body, patch)
}

// Touch implements [ProgressStorage].
func (s *SmartProgressStorage) Touch(value string, body *Body, patch *Patch) {
	if s.inStatus {
		s.status().Touch(value, body, patch)
	} else {
		s.annotations().Touch(value, body, patch)
	}
}

// Clear implements [ProgressStorage].
func (s *SmartProgressStorage) Clear(essence *Essence) {
	s.annotations().Clear(essence)
	if s.inStatus {
		s.status().Clear(essence)
	} else {
		s.status().clearRecords(essence)
	}
}

// Flush implements [ProgressStorage].
func (s *SmartProgressStorage) Flush() {}

// purgeField removes a field of the object with the patch. If only the patch has it, it removes it there.
func purgeField(body *Body, patch *Patch, path ...string) {
	if _, ok := body.find(path...); ok {
		patch.put(nil, path...)
	} else {
		patch.changes.Drop(path...)
	}
}

// markPrefix marks a prefix as that of an operator, so that other operators ignore changes of its annotations.
func markPrefix(prefix string, body *Body, patch *Patch) {
	prefix = cmp.Or(prefix, markers.DefaultPrefix)
	if strings.HasPrefix(prefix, "kopf.") {
		return
	}
	key := prefix + "/" + markers.Managed
	if _, ok := body.Annotation(key); ok {
		return
	}
	if _, ok := jsonpatch.Lookup(patch.changes.Merge, "metadata", "annotations", key); !ok {
		patch.put("yes", "metadata", "annotations", key)
	}
}

// resolve returns the settings for a kind. It replaces missing storages by smart ones, which use annotations if the status of the kind drops the state.
func (p *PersistenceSettings) resolve(statusKept bool) *PersistenceSettings {
	resolved, inStatus := *p, p.Storage == InStatus && statusKept
	var states *SmartDiffBaseStorage
	if s, ok := p.smartDiffBase(); ok {
		s.untracked, s.inStatus, states = p.untracked, inStatus, &s
		resolved.DiffBaseStorage = states
	}
	if s, ok := p.smartProgress(); ok {
		s.inStatus, s.states = inStatus, states
		resolved.ProgressStorage = &s
	}
	return &resolved
}

// smartProgress returns the progress storage if it is a smart one or missing.
func (p *PersistenceSettings) smartProgress() (s SmartProgressStorage, ok bool) {
	if own, ok := p.ProgressStorage.(*SmartProgressStorage); ok {
		return *own, true
	}
	return s, p.ProgressStorage == nil
}

// smartDiffBase returns the storage of the last-handled configuration if it is a smart one or missing.
func (p *PersistenceSettings) smartDiffBase() (s SmartDiffBaseStorage, ok bool) {
	if own, ok := p.DiffBaseStorage.(*SmartDiffBaseStorage); ok {
		return *own, true
	}
	return s, p.DiffBaseStorage == nil
}

// misplaced reports whether the stored state must move to the selected place, even without a change.
func (p *PersistenceSettings) misplaced(body *Body) bool {
	states, ok := p.DiffBaseStorage.(*SmartDiffBaseStorage)
	records, both := p.ProgressStorage.(*SmartProgressStorage)
	return ok && (states.misplaced(body) || both && records.leftInStatus(body))
}

// statusFields returns the status fields with the state of change handlers. There are none if
// annotations are selected, or for other storages.
func (p *PersistenceSettings) statusFields() (fields [][]string) {
	if s, ok := p.ProgressStorage.(*SmartProgressStorage); ok && s.inStatus {
		fields = append(fields, statusField(s.Field, s.Name, "progress"))
	}
	if s, ok := p.DiffBaseStorage.(*SmartDiffBaseStorage); ok && s.inStatus {
		fields = append(fields, s.status().field())
	}
	return fields
}

// allStatusFields adds the field with the digests of reconcile handlers.
func (p *PersistenceSettings) allStatusFields() [][]string {
	fields := p.statusFields()
	if s, ok := p.DiffBaseStorage.(*SmartDiffBaseStorage); ok && s.inStatus {
		fields = append(fields, s.status().sibling(markers.Reconciled))
	}
	return fields
}

// inStatus reports whether the status has any of these fields.
func (p *PersistenceSettings) inStatus(body *Body) bool {
	return slices.ContainsFunc(p.allStatusFields(), func(field []string) bool {
		_, ok := body.find(field...)
		return ok
	})
}

// dropped reports whether the status lacks the state that a patch has just stored.
func (p *PersistenceSettings) dropped(patch *Patch, now *Body) bool {
	return slices.ContainsFunc(p.allStatusFields(), func(field []string) bool {
		for _, merge := range []map[string]any{patch.changes.Merge, patch.changes.Last} {
			if v, ok := jsonpatch.Lookup(merge, field...); ok && !jsonpatch.OnlyRemoves(v) {
				_, kept := now.find(field...)
				return !kept
			}
		}
		return false
	})
}

// leavesStatus reports whether annotations are selected, so that state in the status must be removed.
func (p *PersistenceSettings) leavesStatus() bool {
	states, ok := p.DiffBaseStorage.(*SmartDiffBaseStorage)
	return ok && !states.inStatus
}

// statesDiffer reports whether the object has two different last-handled configurations, of which one counts.
func (p *PersistenceSettings) statesDiffer(body *Body) bool {
	states, ok := p.DiffBaseStorage.(*SmartDiffBaseStorage)
	return ok && states.differ(body)
}

// recordPlace returns the storage of the selected place for records.
func (p *PersistenceSettings) recordPlace() ProgressStorage {
	switch s, ok := p.ProgressStorage.(*SmartProgressStorage); {
	case !ok:
		return p.ProgressStorage
	case s.inStatus:
		return s.status()
	default:
		return s.annotations()
	}
}

// recordsOf returns all records of a handler on an object, in all places.
func (p *PersistenceSettings) recordsOf(id HandlerID, body *Body) (all []*ProgressRecord) {
	storages := []ProgressStorage{p.ProgressStorage}
	if s, ok := p.ProgressStorage.(*SmartProgressStorage); ok {
		storages = []ProgressStorage{s.annotations(), s.status()}
	}
	for _, s := range storages {
		if record, _ := s.Fetch(id, body); record != nil { // damaged records refer to no others
			all = append(all, record)
		}
	}
	return all
}

// copied reports whether the state on an object was stored on another one.
func (p *PersistenceSettings) copied(body *Body) bool {
	if !p.IgnoreCopies {
		return false
	}
	uid, bound := body.Annotation(p.boundKey(body))
	if s, current := p.statusStates(); s != nil && (current || !bound) {
		if raw, ok := body.find(s.sibling(handledUIDKey)...); ok {
			uid, bound = rawjson.Unquote(raw), true
		}
	}
	return bound && uid != body.UID()
}

// statusStates returns the status storage of configurations, nil if there is none, and whether it is selected.
func (p *PersistenceSettings) statusStates() (s *StatusDiffBaseStorage, current bool) {
	switch d := p.DiffBaseStorage.(type) {
	case *StatusDiffBaseStorage:
		return d, true
	case *SmartDiffBaseStorage:
		return d.status(), d.inStatus
	}
	return nil, false
}

// bind stores the UID of the object next to its configuration, to detect copies. When the configuration leaves the status, it also removes a parent that
// would be empty.
func (p *PersistenceSettings) bind(body *Body, patch *Patch) {
	s, inStatus := p.statusStates()
	if p.IgnoreCopies && !patch.Empty() && len(patch.changes.Removes) == 0 { // useless on an object that is about to be deleted
		key := p.boundKey(body)
		uid, _ := body.Annotation(key)
		if inStatus {
			patch.put(body.UID(), s.sibling(handledUIDKey)...)
			purgeField(body, patch, "metadata", "annotations", key)
		} else if uid != body.UID() {
			patch.put(body.UID(), "metadata", "annotations", key)
		}
		if s != nil && !inStatus {
			purgeField(body, patch, s.sibling(handledUIDKey)...)
		}
	}
	if s == nil || inStatus || len(s.field()) < 3 {
		return
	}
	parent := s.field()[:len(s.field())-1]
	if _, leaves := jsonpatch.Lookup(patch.changes.Merge, s.field()...); leaves && jsonpatch.Hollows(body.raw, patch.changes.Merge, parent) { // records alone leave an empty parent, as in Kopf for Python
		patch.put(nil, parent...)
	}
}

func (p *PersistenceSettings) boundKey(body *Body) string {
	prefixes := append(prefixesOf(p.ProgressStorage), prefixesOf(p.DiffBaseStorage)...)
	return annotationKeys(append(prefixes, "")[0], handledUIDKey, body, true)[0]
}

// checked returns the settings for validation.
func (p *PersistenceSettings) checked() *settingscheck.Persistence {
	return &settingscheck.Persistence{
		Finalizer: p.Finalizer, LegacyFinalizers: p.LegacyFinalizers, InStatus: p.Storage == InStatus,
		Progress: settingscheck.NewSetting("ProgressStorage", cmp.Or[ProgressStorage](p.ProgressStorage, &SmartProgressStorage{}), describeStorage),
		States:   settingscheck.NewSetting("DiffBaseStorage", cmp.Or[DiffBaseStorage](p.DiffBaseStorage, &SmartDiffBaseStorage{}), describeStorage),
	}
}

// validate returns the errors in the settings for these handlers.
func (p *PersistenceSettings) validate(handlers []*handler) (errs []error) {
	if p.Storage.String() == "" {
		errs = append(errs, fmt.Errorf("invalid Settings.Persistence.Storage %d: want InAnnotations or InStatus", int(p.Storage)))
	}
	var stored, resulting []string // the IDs of handlers with stored progress, and of those that may have results
	for _, h := range handlers {
		if h.changes.change != nil {
			stored = append(stored, string(h.id))
		}
		if h.changes.change != nil || h.background() {
			resulting = append(resulting, string(h.id))
		}
	}
	return append(errs, p.checked().Errors(stored, resulting)...)
}

// describeStorage returns the places of a storage, unless it is one of a user.
func describeStorage(storage any) (d settingscheck.Storage, ok bool) {
	switch s := storage.(type) {
	case *AnnotationsProgressStorage:
		d.InAnnotations(s.Prefix, cmp.Or(s.TouchKey, defaultTouchKey), s.V2Only)
	case *StatusProgressStorage:
		d.Field, d.Touched = statusField(s.Field, s.Name, "progress"), s.touchField()
	case *SmartProgressStorage:
		d, _ = describeStorage(s.annotations())
		d.Field, d.Touched = statusField(s.Field, s.Name, "progress"), s.status().touchField()
	case *AnnotationsDiffBaseStorage:
		d.InAnnotations(s.Prefix, cmp.Or(s.Key, markers.LastHandled), s.V2Only)
	case *StatusDiffBaseStorage:
		d.Field = s.field()
	case *SmartDiffBaseStorage:
		d, _ = describeStorage(s.annotations())
		d.Field = s.status().field()
	default:
		return d, false
	}
	if s, ok := storage.(ownDiffBase); ok {
		d.Ignored = nil // those of the storages of a smart one are the same
		for _, path := range s.ignored() {
			d.Ignored = append(d.Ignored, path.Keys())
		}
	}
	return d, true
}

// prefixesOf returns the annotation prefixes of a storage.
func prefixesOf(storage any) []string {
	return settingscheck.NewSetting("", storage, describeStorage).Prefixes()
}

// annotationKeys returns the annotation keys for an ID on an object, in reading order: those of both versions, or one if they are equal.
func annotationKeys(prefix, id string, body *Body, v2only bool) []string {
	if body != nil && body.kind == "ReplicaSet" {
		owners := body.of(body.owners)
		id = markers.ReplicaSetID(id, owners)
	}
	return markers.AnnotationKeys(cmp.Or(prefix, markers.DefaultPrefix)+"/", id, v2only)
}
