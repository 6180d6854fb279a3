package kopf

import (
	"fmt"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/validation"
)

// This file knows what is registered for admission: the options of its handlers, what they get, and how they deny. The functions that
// register them are declared with the engine, so that only operators with such handlers link it. Handlers run on the goroutines of the server.

// Operation is what is about to happen to an object.
type Operation string

// The operations.
const (
	OperationCreate  Operation = "CREATE"  // a new object
	OperationUpdate  Operation = "UPDATE"  // a change of any kind, a patch as well
	OperationDelete  Operation = "DELETE"  // a deletion, or the mark for it
	OperationConnect Operation = "CONNECT" // a connection to it, such as an exec into a pod
)

// maxWarning is the longest warning that API servers pass on, in characters.
const maxWarning = 256

// AdmissionOptions are the options of handlers of admission. Zero values mean the defaults.
type AdmissionOptions struct {
	// ID names the handler; the API server asks for it by this id. Defaults to the name of the function. A slash and the path of the Field
	// are appended.
	ID HandlerID
	// Where narrows the selector down to the resources for which it returns true. Defaults to all.
	Where func(Resource) bool
	// Operations are those that the handler is for. Nil means all of them for [OnValidate], and all except DELETE for [OnMutate].
	// To mutate deletions, list [OperationDelete] alone: next to other operations, it has no effect in mutating handlers.
	Operations []Operation
	// Subresource is the one that the handler is for, such as "status" or "scale"; "*" means the object itself and all of
	// its subresources. Defaults to the object itself alone.
	Subresource string
	// Persistent tells to leave the handler in the managed configuration when the operator stops: until it is back, the operations are
	// refused, or not looked at with IgnoreFailures. Defaults to false.
	Persistent bool
	// SideEffects tells that the handler does something that lasts, elsewhere, unless [Admission.DryRun]. Defaults to false.
	SideEffects bool
	// IgnoreFailures tells the API server to admit the operation when it gets no answer. Defaults to refuse it.
	IgnoreFailures bool
	// Timeout is how long the API server waits for the answer, up to 30 seconds; parts of a second are rounded up. The context of
	// the handler ends a little earlier. Defaults to 30 seconds.
	Timeout time.Duration
	// Labels and Annotations say which ones the object must have. Operations on others are admitted. Default to any.
	Labels, Annotations Match
	// When says whether the handler is to be called, by looking at all of the review. If it panics, the review fails. Defaults to always.
	When func(*Admission) bool
	// Field is the path of a field that must be present. Defaults to none.
	Field FieldPath
	// Value is what the Field must be: a value, [Present], [Absent], or a predicate, a func(*FieldValue) bool.
	// Defaults to Present.
	Value any
	// Param is handed to the handler as it is. Defaults to nil.
	Param any
}

// admissionOperator is the operator as admission sees it.
type admissionOperator interface {
	// serves reports whether the operator is for a namespace.
	serves(namespace string) bool
	// memoryOf returns what is remembered of an object, nil if nothing is.
	memoryOf(resource, key string) *memory
	ender
}

// OnValidate registers a validating handler in the default registry. See [Registry.OnValidate].
func OnValidate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindValidate, DefaultRegistry().onAdmission(kindValidate, s, fn, opts))
}

// OnMutate registers a mutating handler in the default registry. See [Registry.OnMutate].
func OnMutate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindMutate, DefaultRegistry().onAdmission(kindMutate, s, fn, opts))
}

// OnValidate registers a handler that admits or denies operations on objects of the selected resources before they happen. It needs
// Settings.Admission.Server. It panics as [Registry.OnEvent] does.
func (r *Registry) OnValidate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindValidate, r.onAdmission(kindValidate, s, fn, opts))
}

// OnMutate registers a handler that changes objects of the selected resources by its Patch before they are stored, and can deny
// operations, too. It needs Settings.Admission.Server. It panics as [Registry.OnEvent] does.
func (r *Registry) OnMutate(s Selector, fn AdmissionFunc, opts *AdmissionOptions) {
	must(kindMutate, r.onAdmission(kindMutate, s, fn, opts))
}

// maxReviewTime is the longest time that API servers wait for a review.
const maxReviewTime = 30 * time.Second

func (r *Registry) onAdmission(kind handlerKind, s Selector, fn AdmissionFunc, opts *AdmissionOptions) error {
	o := AdmissionOptions{}
	if opts != nil {
		o = *opts
	}
	h := &handler{kind: kind, field: o.Field.Keys(), param: o.Param, retry: retryPolicy{timeout: o.Timeout, errors: ErrorsPermanent}}
	rules := &admissionSpec{
		runner: newReviewServer, call: fn, subresource: o.Subresource, persistent: o.Persistent, sideEffects: o.SideEffects, ignoreFailures: o.IgnoreFailures, when: o.When,
	}
	h.admission = rules
	if h.retry.timeout > maxReviewTime {
		return fmt.Errorf("the Timeout %s is longer than API servers wait, which is %s", h.retry.timeout, maxReviewTime)
	}
	if !validation.IsName(o.Subresource, "-") && o.Subresource != "" && o.Subresource != "*" {
		return fmt.Errorf("the subresource %q is bad: a name such as \"status\", or \"*\", is expected", o.Subresource)
	}
	if err := rules.setOperations(o.Operations); err != nil {
		return err
	}
	return r.addObjectHandler(h, s, o.Where, o.ID, fn, o.Labels, o.Annotations, o.Value)
}

// coversOperation reports whether a handler is for an operation on a part of an object.
func (h *handler) coversOperation(op Operation, subresource string) bool {
	a := h.admission
	switch {
	case a.subresource != "*" && a.subresource != subresource:
		return false
	case op == OperationDelete && h.kind == kindMutate: // there is nothing to be changed, so that it must be meant
		return len(a.operations) == 1 && a.operations[0] == op
	}
	return a.operations == nil || slices.Contains(a.operations, op)
}

// fitsReview reports whether the filters of a handler fit. They may panic.
func (h *handler) fitsReview(a *Admission) bool {
	c := &Change{Object: a.Object}
	c.New = View{raw: a.Body.raw}
	return h.filters.fitsMeta(&a.Object) && h.fitsValue(c) && (h.admission.when == nil || h.admission.when(a))
}
