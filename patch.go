package kopf

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/boundedset"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/safecall"
)

// Patch collects the changes that a handler makes to its object. kopf sends it after the handler has returned, together with the patches of other handlers
// and its own changes. A Patch starts empty, and does not change the Body that the handler sees. It is not safe for concurrent use.
type Patch struct {
	changes objectpatch.Changes
	err     error // of the first value that is not JSON

	replacedText []string // the paths of text that was not UTF-8

	persistence *PersistenceSettings // whose fields and annotations transformations cannot change; nil for none
	of          *Body                // the handler's body, for the generation in its conditions, and to conceal a Secret; nil for none
	apart       bool                 // whether the status is a subresource, whose changes are not in the generation
}

// newPatch returns an empty patch for a handler of an object.
func newPatch(persistence *PersistenceSettings, resource *Resource, body *Body) *Patch {
	return &Patch{persistence: persistence, of: body, apart: resource.hasStatus()}
}

// Set sets the field at a path to a value that encoding/json can encode. A map is merged with the current value. Other values replace it, and nil removes
// the field, if there is one. A value that cannot be encoded fails the handler permanently, as does a path into a list. As in encoding/json, U+FFFD replaces
// bytes that are not UTF-8, in texts and in keys. kopf logs the path of the first one.
// An empty key in the path, as in "spec..size", also fails the handler. SetPath takes such keys.
func (p *Patch) Set(path FieldPath, value any) {
	if p.hasKeys(path) {
		p.SetPath(value, path.Keys()...)
	}
}

// hasKeys reports whether a path has no empty key, which is a mistake in most cases. It records the error.
func (p *Patch) hasKeys(path FieldPath) bool {
	ok := !slices.Contains(path.Keys(), "")
	if !ok {
		p.fail(fmt.Errorf("invalid path %q in a patch: want keys joined by dots, as in \"spec.size\"", string(path)))
	}
	return ok
}

// SetAnnotation sets an annotation. The key may contain dots.
func (p *Patch) SetAnnotation(key, value string) { p.SetPath(value, "metadata", "annotations", key) }

// SetLabel sets a label. The key may contain dots.
func (p *Patch) SetLabel(key, value string) { p.SetPath(value, "metadata", "labels", key) }

// Replace sets the field at a path to a value like a PUT of that part of the object: it also removes fields that the value does not have, such as empty
// omitempty fields of a struct. It drops earlier changes below the path. Later changes below the path are added.
//
// Replace keeps the state that kopf stores in the status and in annotations. It keeps the conditions of a status whose value has no field conditions. Use
// [Patch.SetCondition] to change them. kopf sends the patch with the expected resource version, and computes it again after an update conflict. A value
// that cannot be encoded fails the handler permanently. So does the path of the whole metadata or of the finalizers.
func (p *Patch) Replace(path FieldPath, value any) {
	if !p.hasKeys(path) {
		return
	}
	v, keys, err := p.normalize(value, path.Keys()...)
	switch {
	case err != nil:
	case len(keys) == 0:
		err = errors.New("want the path of a field")
	case keys[0] == "metadata" && len(keys) > 1 && slices.Contains(serverFields[:2], keys[1]):
		err = identityError(keys[1], v)
	case keys[0] == "metadata" && (len(keys) == 1 || keys[1] == "finalizers"):
		err = errors.New("want a field of the metadata other than the finalizers, such as metadata.labels; Transform can change lists")
	default:
		err = p.checkPath(keys)
	}
	if err != nil {
		p.fail(fmt.Errorf("replace %q: %w", path, err))
		return
	}
	p.changes.Replace(v, keys...)
}

// transformFunc is a transformation of a handler. It runs after the merge.
type transformFunc func(object map[string]any) error

func isTransformFunc(t objectpatch.Transformation) bool {
	_, ok := t.(transformFunc)
	return ok
}

// Apply implements [objectpatch.Transformation].
func (f transformFunc) Apply(object map[string]any, _ *objectpatch.Object) error {
	before := identityOf(object)
	if err := f(object); err != nil {
		return err
	}
	if !rawjson.IsNormal(object) {
		normal, err := rawjson.Normalize(object)
		if err != nil {
			return Permanent(fmt.Errorf("the object after a transformation: %q: %w", strings.Join(rawjson.PathOfUnencodable(object), "."), err))
		}
		clear(object)
		maps.Copy(object, rawjson.AsMap(normal))
	}
	for i, value := range identityOf(object) {
		if !rawjson.Equal(before[i], value) {
			return Permanent(identityError(serverFields[i], value))
		}
	}
	return nil
}

// identityOf returns the resource version and the UID of an object.
func identityOf(object map[string]any) (all [2]any) {
	metadata := rawjson.AsMap(object["metadata"])
	for i := range all {
		all[i] = metadata[serverFields[i]]
	}
	return all
}

// Touched implements [objectpatch.Transformation].
func (f transformFunc) Touched() map[string]any { return nil }

// Holds implements [objectpatch.Transformation].
func (f transformFunc) Holds(*objectpatch.Object) bool { return false }

// ownFields returns kopf's own data in the status and in the annotations of an object.
func (p *Patch) ownFields(body *Body) map[string]any {
	if p.persistence == nil {
		return nil
	}
	settings := *p.persistence
	if s, ok := settings.DiffBaseStorage.(ownDiffBase); ok && len(s.ignored()) > 0 {
		settings.DiffBaseStorage = s.withKey("") // ignored fields are not kopf's own
	}
	own, others := make(map[string]any), essenceOf(body, []FieldPath{"status"}, &settings).Map()
	if status := jsonpatch.Without(body.Status().Map(), rawjson.AsMap(others["status"])); len(status) > 0 {
		own["status"] = status
	}
	annotations := jsonpatch.Without(body.Metadata().View("annotations").Map(), rawjson.AsMap(rawjson.AsMap(others["metadata"])["annotations"]))
	maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.HasPrefix(key, "kubectl.kubernetes.io/") }) // their changes are also ignored
	if len(annotations) > 0 {
		own["metadata"] = map[string]any{"annotations": annotations}
	}
	return own
}

// Condition is one of the conditions of an object, like metav1.Condition in the API conventions of Kubernetes.
type Condition struct {
	// Type is the name of the condition, such as "Ready".
	Type string `json:"type"`
	// Status is [ConditionTrue], [ConditionFalse] or [ConditionUnknown].
	Status ConditionStatus `json:"status"`
	// Reason is a word in CamelCase for programs. It is required.
	Reason string `json:"reason"`
	// Message is a text for people. kopf removes the middle of a text of more than 32768 characters. Default: none.
	Message string `json:"message"`
	// ObservedGeneration is the generation of the object that the condition describes. Default: that of
	// the object that the handler received, or none for a kind without the status subresource, in which
	// each write of a condition increases the generation.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastTransitionTime is the time of the last change of the Status. Default: now if the Status has changed, otherwise the stored time.
	LastTransitionTime time.Time `json:"lastTransitionTime,omitzero"`
}

// ConditionStatus is the status of a [Condition].
type ConditionStatus string

// The statuses of conditions.
const (
	ConditionTrue    ConditionStatus = "True"
	ConditionFalse   ConditionStatus = "False"
	ConditionUnknown ConditionStatus = "Unknown"
)

// SetCondition sets a condition in status.conditions, and keeps conditions of other types. If you set a condition several times in one patch, the last
// value counts, and its time changes only if its status differs from the stored one. kopf sends no request for a condition that equals the stored one.
//
// kopf sends the patch with the expected resource version, and computes it again after an update conflict. A condition that metav1.Condition does not
// allow fails the handler permanently.
func (p *Patch) SetCondition(condition Condition) {
	p.changes.Transforms = append(p.changes.Transforms, p.conditionChanges(condition.plain())...)
}

func (c *Condition) plain() manifest.Condition {
	return manifest.Condition{
		Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration, LastTransitionTime: c.LastTransitionTime,
	}
}

// conditionChanges returns the transformation that sets a condition, or none if the condition is invalid.
func (p *Patch) conditionChanges(c manifest.Condition) []objectpatch.Transformation {
	message, _, err := p.normalize(c.Message, "status", "conditions", c.Type, "message")
	text, _ := message.(string)
	c.Message = manifest.ConditionMessage(text)
	if err = cmp.Or(err, c.Check()); err != nil {
		p.fail(err)
		return nil
	}
	switch {
	case c.ObservedGeneration != 0 || p.of == nil:
	case p.apart:
		c.ObservedGeneration = p.of.Metadata().Int("generation")
	default: // the write itself increases the generation
		c.ObservedGeneration = manifest.NoGeneration
	}
	return []objectpatch.Transformation{&objectpatch.ConditionChange{Condition: c}}
}

// SetPath sets the field at a path of keys, which may contain dots. See [Patch.Set].
func (p *Patch) SetPath(value any, keys ...string) {
	v, keys, err := p.normalize(value, keys...)
	if err == nil && v != nil { // a removal in a list changes nothing
		err = p.checkPath(keys)
	}
	if err != nil {
		p.fail(fmt.Errorf("the patch of %q: %w", strings.Join(keys, "."), err))
		return
	}
	if len(keys) == 0 {
		merge, ok := v.(map[string]any)
		if !ok {
			p.fail(fmt.Errorf("the patch of the whole object must be an object, not %s", rawjson.KindOf(v)))
			return
		}
		p.add(merge)
		return
	}
	merge := make(map[string]any, 1)
	jsonpatch.Put(merge, v, keys...)
	p.add(merge)
}

// checkPath returns an error for a path into a list, which the patch would replace by an object.
func (p *Patch) checkPath(keys []string) error {
	for i := 1; i < len(keys); i++ {
		set, changed := jsonpatch.Lookup(p.changes.Merge, keys[:i]...)
		_, isList := set.([]any)
		isList = isList || i == 2 && keys[0] == "status" && keys[1] == "conditions" // also before the first condition
		if !isList && (!changed || set != nil && jsonpatch.OnlyRemoves(set)) && p.of != nil {
			raw, _ := rawjson.Find(p.of.raw, keys[:i]...)
			isList = len(raw) > 0 && raw[0] == '['
		}
		if isList {
			return fmt.Errorf("%q is a list: want the whole list, or a function for Transform", strings.Join(keys[:i], "."))
		}
	}
	return nil
}

// Remove removes the field at a path. A missing field causes no change, nor does a field whose parent is missing or is no object.
func (p *Patch) Remove(path FieldPath) { p.Set(path, nil) }

// Merge adds a merge patch (RFC 7396) of the whole object. kopf leaves out what only the API server sets in the metadata, if it is that of the handler's
// object. Another resource version or UID fails the handler permanently.
//
// A list of finalizers removes and adds those that it lacks and has, compared with the handler's object. It does not change kopf's own finalizer, nor one that
// another client adds meanwhile. kopf warns of finalizers that it removes.
func (p *Patch) Merge(patch map[string]any) {
	v, _, err := p.normalize(patch)
	if err != nil {
		p.fail(fmt.Errorf("the patch: %w", err))
		return
	}
	p.add(rawjson.AsMap(v))
}

// add adds a merge patch of a handler, except invalid values. They fail the handler.
func (p *Patch) add(merge map[string]any) {
	if err := cmp.Or(p.takeServerFields(merge), jsonpatch.TakeBadTexts(merge)); err != nil {
		p.fail(err)
	}
	p.changes.Merge = jsonpatch.CombineMerges(p.changes.Merge, merge)
}

// serverFields are the fields of the metadata that the API server sets, identity first.
var serverFields = []string{
	"resourceVersion", "uid", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
	"managedFields", "name", "namespace", "selfLink",
}

// takeServerFields removes metadata that only the API server sets from a merge patch, if it is equal
// in the object of the handler. The patch of a whole object has it, and the object may have other
// values when the patch is sent. It removes any identity, and returns an error for another one than
// the stored one, because the API server would refuse it again and again.
func (p *Patch) takeServerFields(merge map[string]any) (first error) {
	metadata := rawjson.PatchFields(merge["metadata"])
	for i, field := range serverFields {
		value, set := metadata[field]
		if !set {
			continue
		}
		if p.of != nil && rawjson.Equal(rawjson.ValueAt(p.of.raw, "metadata", field), jsonpatch.Plain(value)) {
			jsonpatch.DropValueIn(merge, []string{"metadata", field})
		} else if i < 2 {
			jsonpatch.DropValueIn(merge, []string{"metadata", field})
			first = cmp.Or(first, identityError(field, value))
		}
	}
	return first
}

// identityError returns the error about a change of metadata that identifies a state of the object.
func identityError(field string, value any) error {
	text, _ := rawjson.Encode(jsonpatch.Plain(value)) // it is JSON
	return fmt.Errorf("invalid metadata.%s %s of the patch: want none, because the API server refuses any but the stored one", field, text)
}

// maxReplacedText limits the messages about text that is not UTF-8.
const maxReplacedText = 10

// normalize returns a value and the keys of its field as the API server stores them. Text that is not UTF-8 would differ from the stored text forever.
func (p *Patch) normalize(value any, keys ...string) (normal any, names []string, err error) {
	normal, replaced, err := rawjson.NormalizeText(value)
	names = keys
	for i, key := range keys {
		if name := rawjson.ValidText(key); name != key {
			names, replaced = slices.Clone(names), true
			names[i] = name
		}
	}
	if err != nil {
		if below := rawjson.PathOfUnencodable(value); len(below) > 0 {
			err = fmt.Errorf("%q: %w", strings.Join(below, "."), err)
		}
	}
	if replaced && p != nil && len(p.replacedText) < maxReplacedText {
		below, _ := rawjson.PathOfText(normal, string(utf8.RuneError))
		p.replacedText = append(p.replacedText, strings.Join(slices.Concat(names, below), "."))
	}
	return normal, names, err
}

// settle completes the patch after an attempt of its handler. It logs what the author may not have
// meant, unless the same was logged before.
func (p *Patch) settle(log *slog.Logger, warned *boundedset.Set) {
	for _, path := range p.replacedText {
		if warned.Add(path) {
			log.Warn("Text that is not UTF-8 was replaced in a patch", "field", path, "help", "K612")
		}
	}
	p.replacedText = nil
	removed := p.settleFinalizers()
	if len(removed) > 0 && warned.Add("metadata.finalizers "+strings.Join(removed, " ")) {
		log.Warn("A patch removes finalizers of the object, whose owners may not have finished", "finalizers", removed, "help", "K615")
	}
}

// settleFinalizers replaces a list of finalizers in the merge patch by its difference to the list that
// the handler has seen, because other clients may change the list meanwhile. It returns the
// finalizers that the handler removes. kopf's own is not the handler's to change.
func (p *Patch) settleFinalizers() (removed []string) {
	value, set := jsonpatch.Lookup(p.changes.Merge, "metadata", "finalizers")
	list, isList := value.([]any)
	noText := func(v any) bool { _, isText := v.(string); return !isText }
	if !set || !isList && value != nil || slices.ContainsFunc(list, noText) || p.of == nil || p.persistence == nil {
		return nil // the API server refuses other values
	}
	p.changes.Drop("metadata", "finalizers")
	change, seen := &objectpatch.FinalizersChange{}, p.of.Finalizers()
	for _, f := range seen {
		if f != p.persistence.Finalizer && !slices.Contains(list, any(f)) {
			change.Removes = append(change.Removes, f)
		}
	}
	for _, f := range list {
		if name, _ := f.(string); name != p.persistence.Finalizer && !slices.Contains(seen, name) {
			change.Adds = append(change.Adds, name)
		}
	}
	if len(change.Removes)+len(change.Adds) > 0 {
		p.changes.Transforms = append(p.changes.Transforms, change)
	}
	return change.Removes
}

// Transform adds a function that changes the object in place, for changes that a merge patch cannot express, such as one item of a list. The function
// receives a new copy of the whole object, decoded by encoding/json with numbers as json.Number.
//
// kopf can call the function several times, with newer states, so it must be idempotent. It calls the function on the goroutine of the handler, or of the
// object's worker, but not while another handler of changes, events or reconciliations of the object runs. An error fails the handler, as if the handler had
// returned it. A value that cannot be encoded fails the handler permanently.
func (p *Patch) Transform(change func(object map[string]any) error) {
	p.changes.Transforms = append(p.changes.Transforms, transformFunc(change))
}

// Get returns the value that the patch sets at a path so far, and reports whether it sets one. A nil value is a removal.
func (p *Patch) Get(path FieldPath) (any, bool) {
	v, ok := jsonpatch.Lookup(p.changes.Merge, path.Keys()...)
	return jsonpatch.Plain(v), ok
}

// Map returns a copy of the merge patch, without the functions of [Patch.Transform].
func (p *Patch) Map() map[string]any {
	m, _ := jsonpatch.Plain(p.changes.Merge).(map[string]any)
	return m
}

// LogValue returns the merge patch as JSON for logs, with the number of changes that it does not
// show, or "concealed" for the patch of a Secret.
func (p *Patch) LogValue() slog.Value { return slog.StringValue(p.loggable()) }

// Format prints the text of [Patch.LogValue], for %v, %s and the other verbs of strings.
func (p Patch) Format(f fmt.State, verb rune) { printText(f, verb, p.loggable()) }

func (p *Patch) loggable() string {
	if p.of != nil && p.of.isSecret() {
		return concealed
	}
	merge := "{}"
	if fields := p.Map(); len(fields) > 0 {
		merge = shown(fields)
	}
	switch further := len(p.changes.Transforms); further {
	case 0:
		return merge
	case 1:
		return merge + " and 1 further change"
	default:
		return fmt.Sprintf("%s and %d further changes", merge, further)
	}
}

// Empty reports whether the patch has no changes.
func (p *Patch) Empty() bool { return p.changes.Empty() }

// holds reports whether an object already matches the patch, as far as its bytes show that.
func (p *Patch) holds(body *Body) bool { return p.changes.Holds(body.stanzas()) }

// Clear drops all changes.
func (p *Patch) Clear() { *p = Patch{persistence: p.persistence, of: p.of, apart: p.apart} }

// JSONPatch returns the whole patch as the operations of a JSON patch (RFC 6902) for the body. It returns nil if the patch changes nothing, and also if a
// function of [Patch.Transform] fails or panics.
func (p *Patch) JSONPatch(body *Body) []PatchOperation {
	var all []PatchOperation
	for _, o := range p.operations(body) {
		all = append(all, PatchOperation(o))
	}
	return all
}

func (p *Patch) operations(body *Body) []jsonpatch.Operation {
	after, err := p.apply(body)
	if err != nil {
		return nil
	}
	return jsonpatch.Diff(body.Map(), after)
}

// check returns a permanent error for invalid values, which the patch does not contain. A retry would not help.
func (p *Patch) check() error {
	if p.err == nil {
		return nil
	}
	return Permanent(p.err)
}

// try removes the parts of the patch that cannot be applied to the body, so that the rest can be sent. It returns the error: of invalid values, or of
// transformations that fail or panic.
func (p *Patch) try(body *Body) error {
	err := p.check()
	for len(p.changes.Transforms) > 0 && !p.holds(body) {
		_, failure := p.apply(p.touched(body))
		var failed *objectpatch.TransformError
		if !errtype.As(failure, &failed) {
			break
		}
		err = cmp.Or(err, failure)
		p.changes.Transforms = slices.Delete(p.changes.Transforms, failed.At, failed.At+1)
	}
	return err
}

// withPatchError returns the error of a handler with that of its patch, whose other parts are sent. It does not change the
// outcome of a handler that has failed.
func withPatchError(err, invalid error) error {
	switch {
	case invalid == nil:
		return err
	case err == nil:
		return invalid
	}
	return fmt.Errorf("%w; a part of its patch was left out: %v", err, invalid)
}

// applied returns the body with the patch applied, for the next handlers.
func (p *Patch) applied(body *Body) *Body {
	if p.Empty() {
		return body
	}
	object, err := p.apply(body)
	if err != nil {
		return body
	}
	b, err := NewBody(object)
	if err != nil {
		return body
	}
	return b
}

func (p *Patch) apply(body *Body) (object map[string]any, err error) {
	object, err = p.changes.Apply(body.Map(), body.stanzas(), func() map[string]any { return p.ownFields(body) })
	if err != nil || p.persistence == nil {
		return object, err
	}
	own := p.persistence.Finalizer // a function may have removed it
	if slices.Contains(body.Finalizers(), own) && !slices.Contains(p.changes.Removes, own) {
		manifest.AddFinalizer(object, own)
	}
	return object, nil
}

// permanent reports whether a failed transformation would also fail for newer states of the object.
func permanent(failed *objectpatch.TransformError) bool {
	return errtype.As(failed, new(*safecall.PanicError)) || errtype.As(failed, new(*PermanentError)) ||
		errtype.As(failed, new(*manifest.ConditionsError)) // of the same patch, as a rule
}

// touched returns the part of an object that the patch reads and changes.
func (p *Patch) touched(body *Body) *Body {
	model := p.changes.Model()
	if model == nil {
		return body
	}
	b, err := NewBody(jsonpatch.DecodeLike(body.raw, model))
	if err != nil {
		return body
	}
	return b
}

// sides returns the part of an object that the patch touches, before and after the patch.
func (p *Patch) sides(body *Body) (before, after map[string]any, err error) {
	if p.changes.Versioned() {
		body = p.touched(body)
		after, err = p.apply(body)
		return body.Map(), after, err
	}
	before, after = p.changes.Sides(body.raw)
	return before, after, nil
}

func (p *Patch) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// put sets a valid value. It requires at least one key.
func (p *Patch) put(value any, keys ...string) { p.changes.Put(value, keys...) }

// unapplied returns the part of a merge patch that the response does not show. The schema may have dropped it, or another client may have changed it. Further
// fields of the response do not matter, nor do missing lists or maps of the metadata that the patch empties.
func unapplied(patch map[string]any, response *Body) (lost Diff) {
	if jsonpatch.IsApplied(response.raw, patch) {
		return nil
	}
	stored := rawjson.AsMap(jsonpatch.DecodeLike(response.raw, patch))
	left := rawjson.AsMap(jsonpatch.Plain(jsonpatch.EffectiveMerge(stored, patch)))
	for _, item := range leftDiff(left, response.raw) {
		removed := item.New == nil && jsonpatch.OnlyRemoves(item.Old)
		empty := len(item.Path) == 2 && item.Path[0] == "metadata" && rawjson.IsEmpty(item.Old) && rawjson.IsEmpty(item.New) &&
			slices.Contains([]string{"annotations", "labels", "finalizers"}, item.Path[1])
		if !removed && !empty {
			lost = append(lost, item)
		}
	}
	return lost
}

// leftDiff is [diffJSON] for the keys that before has, on each level.
func leftDiff(before map[string]any, after []byte) Diff {
	return diffJSON(before, jsonpatch.DecodeLike(after, before))
}

// PatchOperation is one operation of a JSON patch (RFC 6902).
type PatchOperation struct {
	Op    string `json:"op"`             // add, remove, replace, move, copy, or test
	Path  string `json:"path"`           // a JSON pointer (RFC 6901)
	From  string `json:"from,omitempty"` // the source of move and copy, a JSON pointer
	Value any    `json:"value"`          // the value of add, replace and test
}

// MarshalJSON encodes the operation. It includes the value only for operations that have one, even if the value is null.
func (o PatchOperation) MarshalJSON() ([]byte, error) { return jsonpatch.Operation(o).MarshalJSON() }

// handlerPatch holds the changes of one attempt of one handler.
type handlerPatch struct {
	id     HandlerID
	patch  *Patch // with the result in its status
	change bool   // whether it is of a change handler, which fails if its patch is refused

	conditions objectpatch.Changes // the conditions that kopf maintains; they are never stored before the patch

	succeeded bool  // whether to log the success of an event handler when this is stored
	refusals  int   // in a row, of this patch alone
	refusal   error // the last one; nil when the patch is stored or dropped

	// refused fails the call of a reconcile handler, and returns the conditions for that. It is nil for others.
	refused func(c *cycle, p *handlerPatch, err error) objectpatch.Changes
}

// isOpen reports whether there are changes to send.
func (p *handlerPatch) isOpen() bool { return !p.patch.Empty() || !p.conditions.Empty() }

// whole returns the patch with the conditions.
func (p *handlerPatch) whole() (all objectpatch.Changes) {
	all.Append(&p.patch.changes)
	all.Append(&p.conditions)
	return all
}

// coalesce merges consecutive patches of the same event handler, so that waiting ones do not accumulate.
func coalesce(patches []*handlerPatch) (all []*handlerPatch) {
	for i, p := range patches {
		if i > 0 && p.joins(patches[i-1]) {
			p.patch.changes.Merge = jsonpatch.CombineMerges(patches[i-1].patch.changes.Merge, p.patch.changes.Merge)
			earlier := patches[i-1].patch.changes.Last
			p.patch.changes.Last = jsonpatch.CombineMerges(earlier, p.patch.changes.Last)
			p.succeeded, p.refusals = p.succeeded || patches[i-1].succeeded, max(p.refusals, patches[i-1].refusals)
			if p.conditions.Empty() {
				p.conditions = patches[i-1].conditions
			}
			all = all[:len(all)-1]
		}
		all = append(all, p)
	}
	return all
}

// joins reports whether a patch can be merged with the one before it, which is of an earlier call of the same handler.
func (p *handlerPatch) joins(before *handlerPatch) bool {
	return p.id == before.id && !p.change && !before.change && (p.refused == nil) == (before.refused == nil) &&
		len(p.patch.changes.Transforms)+len(before.patch.changes.Transforms) == 0
}
