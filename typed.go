package kopf

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kopf-go/kopf/internal/boundedset"
	"github.com/kopf-go/kopf/internal/funcid"
	"github.com/kopf-go/kopf/internal/jsonpatch"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/objectpatch"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/structschema"
)

// This file converts functions that take structs to handlers, and has types for fields of such structs. Programs without such functions are linked without
// the conversion.

// TypedArgument is a handler argument with an object: [*Change], [*WatchEvent], [*Daemon], [*Timer], [*Reconcile], [*Admission] or [*Indexing].
type TypedArgument interface {
	HandlerArgument
	object() *Object
	// then registers a function for the time after other functions of the same call, which may run
	// when the handler has returned.
	then(settle func() error)
}

func (o *Object) object() *Object { return o }

func (o *Object) then(func() error) {} // no other functions are called

func (c *Change) then(settle func() error) {
	if c.subs != nil { // nil in a hand-made argument
		c.subs.then(settle)
	}
}

func (r *Reconcile) then(settle func() error) {
	if r.desired != nil {
		r.desired.then(settle)
	}
}

// settlers are the functions that typed handlers have registered for the end of their call.
type settlers []func() error

func (s *settlers) then(settle func() error) { *s = append(*s, settle) }

// settle calls the functions.
func (s settlers) settle() (err error) {
	for _, settle := range s {
		err = errors.Join(err, settle())
	}
	return err
}

// Typed converts a function that also takes the object as a struct to a handler, for [OnCreate] and all others whose handlers have an object. See [Define] for
// the struct.
//
//	kopf.OnReconcile(websites.Selector(), kopf.Typed(reconcile), nil)
//
//	func reconcile(ctx context.Context, r *kopf.Reconcile, site *Website) error
//
// Each call gets a new struct with the object at the start of the call. When the function returns, also with an error or a panic, kopf adds its changes of the
// field Status to the Patch. It adds only the differences. So fields that the struct lacks stay, and so do conditions and list items that others have changed
// meanwhile. What the function sets in the Patch has priority. kopf drops changes of other fields, with a warning. Later in the call, kopf also adds the
// changes that sub-handlers and the functions in [DesiredOptions] have made.
//
// An object that does not fit the struct fails the handler permanently. The default ID is the name of the function. Typed panics if the function takes anything
// but a pointer to a struct.
//
//go:noinline
func Typed[A TypedArgument, T any](fn func(ctx context.Context, arg A, object *T) error) func(context.Context, A) error {
	if fn == nil {
		return nil
	}
	t := newTyped(fn, reflect.TypeFor[T](), "Typed")
	return func(ctx context.Context, arg A) (err error) {
		if isTypedQuestion(ctx) {
			return t
		}
		value := new(T)
		call, err := t.begin(arg.object(), value)
		if err != nil {
			return err
		}
		defer func() { err = call.end(err) }() // also after a panic
		arg.then(call.settle)
		return fn(ctx, arg, value)
	}
}

// TypedIndex converts a function that also takes the object as a struct to a function for [OnIndex]. See [Typed].
//
//go:noinline
func TypedIndex[K comparable, V, T any](fn func(ctx context.Context, i *Indexing, object *T) (map[K]V, error)) IndexFunc[K, V] {
	if fn == nil {
		return nil
	}
	t := newTyped(fn, reflect.TypeFor[T](), "TypedIndex")
	return func(ctx context.Context, i *Indexing) (map[K]V, error) {
		if isTypedQuestion(ctx) {
			return nil, t
		}
		value := new(T)
		if _, err := t.begin(&i.Object, value); err != nil {
			return nil, err
		}
		return fn(ctx, i, value)
	}
}

// typed is a function that takes a struct. It is also the error with which its handler answers a [typedQuestion].
type typed struct {
	fn     any
	keys   *jsonpatch.ListKeys // for the lists in the status
	warned boundedset.Set      // of the fields whose changes were dropped
}

// typedQuestion is the context of a call that asks a handler for its original function.
type typedQuestion struct{ context.Context }

func isTypedQuestion(ctx context.Context) bool {
	_, asks := ctx.(typedQuestion)
	return asks
}

func (t *typed) Error() string { return "the handler is of another function" }

// wrappedFunction returns the function that a handler of [Typed] wraps, or the handler itself. It is nil in programs without Typed.
var wrappedFunction atomic.Pointer[func(handler any) any]

func newTyped(fn any, object reflect.Type, function string) *typed {
	if object.Kind() != reflect.Struct {
		panic(fmt.Sprintf("kopf: %s at %s: want a function that takes a pointer to a struct, not to %s", function, callSite(), object))
	}
	unwrap := unwrapTyped
	wrappedFunction.CompareAndSwap(nil, &unwrap)
	t := &typed{fn: fn}
	if keys := structschema.ListKeys(object); keys != nil {
		t.keys = keys.Fields["status"]
	}
	return t
}

func unwrapTyped(handler any) any {
	if _, symbol := funcid.Of(handler).Name(); !strings.HasPrefix(symbol, reflect.TypeFor[typed]().PkgPath()+".Typed") {
		return handler
	}
	fn := reflect.ValueOf(handler)
	question := reflect.ValueOf(typedQuestion{context.Background()})
	results := fn.Call([]reflect.Value{question, reflect.Zero(fn.Type().In(1))})
	t, _ := results[len(results)-1].Interface().(*typed) // the answer is always of this type
	return t.fn
}

// typedCall is one call of a function that takes a struct.
type typedCall struct {
	*typed
	object     *Object
	body       *Body                // with the pending patch applied
	pending    Patch                // the unsent patch of earlier calls, which is not in the Patch while the function runs
	value      any                  // the pointer to the struct
	before     map[string]any       // the struct before the call, as decoded JSON
	conditions []manifest.Condition // before the call
}

// begin decodes the object into a struct.
func (t *typed) begin(o *Object, value any) (*typedCall, error) {
	call := &typedCall{typed: t, object: o, body: o.Body, value: value}
	if o.Patch != nil && !o.Patch.Empty() {
		call.body = o.Patch.applied(o.Body)
	}
	err := structschema.Decode(call.body.raw, value, o.Resource.loggable("") != "")
	if err == nil {
		var before any
		before, err = rawjson.Normalize(value)
		call.before = rawjson.AsMap(before)
	}
	if err != nil {
		return nil, Permanent(fmt.Errorf("%s %s does not fit the type %s: %w", o.Body.kind, o.Body.Reference(), reflect.TypeOf(value).Elem(), err))
	}
	call.conditions = call.currentConditions()
	if o.Patch != nil {
		call.part()
	}
	return call, nil
}

// part takes the unsent patch of earlier calls out of the Patch.
func (c *typedCall) part() {
	c.pending = *c.object.Patch
	c.object.Patch.Clear()
}

// rejoin restores the unsent patch of earlier calls, below the changes of the function.
func (c *typedCall) rejoin() {
	own, p := *c.object.Patch, c.object.Patch
	*p = c.pending
	p.changes.Append(&own.changes)
	p.err, p.replacedText = cmp.Or(p.err, own.err), append(p.replacedText, own.replacedText...)
}

// currentConditions returns the conditions in the status of the struct, nil if it has no field of type []Condition.
func (c *typedCall) currentConditions() (all []manifest.Condition) {
	v := reflect.ValueOf(c.value).Elem()
	for _, name := range []string{"Status", "Conditions"} {
		if v = reflect.Indirect(v); v.Kind() != reflect.Struct {
			return nil
		}
		field, _ := v.Type().FieldByName(name)
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag != strings.ToLower(name) {
			return nil
		}
		var err error
		if v, err = v.FieldByIndexErr(field.Index); err != nil {
			return nil // in an embedded nil pointer
		}
	}
	conditions, _ := v.Interface().([]Condition)
	for i := range conditions {
		all = append(all, conditions[i].plain())
	}
	return all
}

// settle adds the changes of the struct since the end of the function. They have priority over the
// Patch, which has the earlier changes.
func (c *typedCall) settle() error {
	c.body = c.object.Patch.applied(c.object.Body)
	c.part()
	return c.end(nil)
}

// end adds the changes of the struct to the handler's patch, and returns the error of the handler.
func (c *typedCall) end(failure error) error {
	defer c.rejoin()
	normalized, _, err := c.object.Patch.normalize(c.value)
	if err != nil {
		return cmp.Or(failure, Permanent(fmt.Errorf("the status of the %T: %w", c.value, err)))
	}
	after := rawjson.AsMap(normalized)
	change := &objectpatch.StatusChange{Change: jsonpatch.Change{Before: typedStatus(c.before), After: typedStatus(after), Keys: c.keys}}
	conditions := c.changedConditions(change)
	change.AddTo(&c.object.Patch.changes, c.body.Status().Map(), conditions)
	for _, path := range (&jsonpatch.Change{Before: c.before, After: after}).Paths("status") {
		if c.warned.Add(path) {
			c.object.Logger.Warn("A change of a typed object outside of its status was dropped", "field", path, "hint", "put it into the Patch", "help", "K611")
		}
	}
	c.before, c.conditions = after, c.currentConditions()
	return failure
}

// typedStatus returns a copy of the status, empty if there is none.
func typedStatus(object map[string]any) map[string]any {
	status := make(map[string]any)
	maps.Copy(status, rawjson.AsMap(object["status"]))
	return status
}

// changedConditions returns transformations for new and changed conditions. Removed ones remain in the change.
func (c *typedCall) changedConditions(change *objectpatch.StatusChange) (all []objectpatch.Transformation) {
	now := c.currentConditions()
	if len(now)+len(c.conditions) == 0 {
		return nil
	}
	changed, left := manifest.ChangedConditions(c.conditions, now)
	var gone []any
	for _, i := range left {
		gone = append(gone, change.Before["conditions"].([]any)[i])
	}
	change.Without("conditions")
	if len(gone) > 0 {
		change.Before["conditions"], change.After["conditions"] = gone, []any{}
	}
	for _, condition := range changed {
		condition.Message = rawjson.ValidText(condition.Message) // invalid text was reported with the whole status
		all = append(all, c.object.Patch.conditionChanges(condition)...)
	}
	return all
}

// Meta has the metadata of an object. Embed it in structs for [Define]. kopf ignores changes of it.
type Meta struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	ObjectMeta `json:"metadata,omitzero"`
}

// ObjectMeta is the metadata of an object.
type ObjectMeta struct {
	Name              string            `json:"name,omitempty"`
	GenerateName      string            `json:"generateName,omitempty"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	Generation        int64             `json:"generation,omitempty"`
	CreationTimestamp time.Time         `json:"creationTimestamp,omitzero"`
	DeletionTimestamp time.Time         `json:"deletionTimestamp,omitzero"` // zero if the object is not being deleted
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	Finalizers        []string          `json:"finalizers,omitempty"`
	OwnerReferences   []OwnerReference  `json:"ownerReferences,omitempty"`
}

// OwnerReference is a reference to an owner of the object. It has the fields of metav1.OwnerReference.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         bool   `json:"controller,omitempty"`         // whether the owner manages the object
	BlockOwnerDeletion bool   `json:"blockOwnerDeletion,omitempty"` // whether a foreground deletion of the owner waits for the object
}

// Schema is the OpenAPI schema of a field, as in a CustomResourceDefinition. See [Schemer].
type Schema map[string]any

// Schemer is a type that describes its own schema to [Define], which calls the method on a zero value.
type Schemer interface{ Schema() Schema }

// Rule is a validation rule in CEL, which the API server checks. A struct returns its rules from a method Rules() []Rule.
// See https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
type Rule struct {
	Rule              string // the expression, such as "self.min <= self.max"
	Message           string // the problem. Defaults to the expression
	MessageExpression string // an expression for the message
	Reason            string // such as "FieldValueForbidden". Defaults to "FieldValueInvalid"
	FieldPath         string // the field in the error, such as ".min"
	OptionalOldSelf   bool   // whether the API server also checks the rule for new objects, although it uses oldSelf
}

// AnyJSON is a field with any JSON value except null, as bytes. The API server does not prune it.
type AnyJSON []byte

// Schema implements [Schemer].
func (AnyJSON) Schema() Schema {
	return Schema{"x-kubernetes-preserve-unknown-fields": true, "nullable": true}
}

// MarshalJSON returns the value. It fails if that is not JSON.
func (a AnyJSON) MarshalJSON() ([]byte, error) { return json.RawMessage(a).MarshalJSON() }

// UnmarshalJSON keeps a copy of the value. It fails only for a nil pointer.
func (a *AnyJSON) UnmarshalJSON(data []byte) error { return (*json.RawMessage)(a).UnmarshalJSON(data) }

// EmbeddedObject is a field with a whole Kubernetes object in JSON, such as a template. The API server checks its apiVersion, kind and metadata.
type EmbeddedObject []byte

// Schema implements [Schemer].
func (EmbeddedObject) Schema() Schema {
	return Schema{"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}
}

// MarshalJSON returns the object. It fails if that is not JSON.
func (o EmbeddedObject) MarshalJSON() ([]byte, error) { return json.RawMessage(o).MarshalJSON() }

// UnmarshalJSON keeps a copy of the object. It fails only for a nil pointer.
func (o *EmbeddedObject) UnmarshalJSON(data []byte) error {
	return (*json.RawMessage)(o).UnmarshalJSON(data)
}

// Duration is a field with a duration, such as "5m0s".
type Duration struct{ time.Duration }

// Schema implements [Schemer].
func (Duration) Schema() Schema {
	return Schema{"type": "string", "pattern": structschema.DurationPattern}
}

// MarshalText returns the text. It never fails.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses a text as [time.ParseDuration] does, with its errors.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = time.ParseDuration(string(text))
	return err
}

// Quantity is a field with an amount, such as "500m", "2Gi" or "1.5". It also decodes numbers.
type Quantity string

// Schema implements [Schemer].
func (Quantity) Schema() Schema {
	return structschema.QuantitySchema()
}

// UnmarshalJSON reads a text or a number. It fails for anything else.
func (q *Quantity) UnmarshalJSON(data []byte) error {
	text, err := structschema.ReadQuantity(data)
	if err == nil {
		*q = Quantity(text)
	}
	return err
}

// IntOrString is a field with a number of 32 bits or a text, such as the number or the name of a port.
type IntOrString struct {
	Int  int32  // the number, if there is no text
	Text string // "" for a number
}

// Schema implements [Schemer].
func (IntOrString) Schema() Schema {
	return Schema{
		"x-kubernetes-int-or-string": true, "minimum": math.MinInt32, "maximum": math.MaxInt32,
		"anyOf": []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}},
	}
}

// String returns the text, or the number as text.
func (v IntOrString) String() string {
	if v.Text != "" {
		return v.Text
	}
	return strconv.Itoa(int(v.Int))
}

// MarshalJSON returns the text or the number. It never fails.
func (v IntOrString) MarshalJSON() ([]byte, error) {
	if v.Text != "" {
		return json.Marshal(v.Text)
	}
	return json.Marshal(v.Int)
}

// UnmarshalJSON reads a text or a number. It fails for anything else, and for a number beyond 32 bits.
func (v *IntOrString) UnmarshalJSON(data []byte) error {
	n, text, err := structschema.ReadIntOrString(data, v.Int, v.Text)
	v.Int, v.Text = n, text
	return err
}

// LabelSelector is a field that selects objects by their labels. All of its conditions must match.
type LabelSelector struct {
	MatchLabels      map[string]string     `json:"matchLabels,omitempty"`
	MatchExpressions []SelectorRequirement `json:"matchExpressions,omitempty" listType:"atomic"`
}

// SelectorRequirement is a condition of a [LabelSelector].
type SelectorRequirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"` // In, NotIn, Exists or DoesNotExist
	Values   []string `json:"values,omitempty" listType:"atomic"`
}

// describeType returns the description of a type by its methods. It uses type assertions, so that the linker can drop unused methods.
func describeType(pointer any) (d structschema.Description) {
	if s, ok := pointer.(Schemer); ok {
		d.Schema = s.Schema()
	}
	if r, ok := pointer.(interface{ Rules() []Rule }); ok {
		for _, rule := range r.Rules() {
			d.Rules = append(d.Rules, structschema.Rule(rule))
		}
	}
	switch pointer.(type) {
	case *Condition:
		d.Schema = structschema.ConditionSchema()
	case *LabelSelector, *ObjectReference:
		d.Atomic = true
	}
	return d
}
