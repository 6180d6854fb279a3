package kopf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/safecall"
	"github.com/kopf-go/kopf/internal/validation"
)

// Match is the labels or annotations that an object must have. The value of each key is a string, [Present], [Absent], or a predicate, a func(*FieldValue)
// bool.
type Match map[string]any

// marker is the type of [Present] and [Absent].
type marker int

const (
	// Present matches any existing value, also null and the empty string.
	Present marker = iota + 1
	// Absent matches a missing value.
	Absent
)

// String returns the name of the marker.
func (m marker) String() string { return [...]string{"", "Present", "Absent"}[m] }

// FieldValue is the argument of a predicate for one value, a func(*kopf.FieldValue) bool, in a [Match] or in the options Value, Old or New.
type FieldValue struct {
	// Value is the decoded value, or nil if it is missing.
	Value any
	// Present reports whether the value exists. Null exists.
	Present bool
	// Object is the object that contains the value.
	Object *Object
}

// Not returns a predicate that is true if f is false. Like [All], [Any] and [None], it accepts predicates of the When options and of values.
func Not[T any](f func(*T) bool) func(*T) bool { return func(v *T) bool { return !f(v) } }

// All returns a predicate that is true if all of the given predicates are. Without predicates, it is true.
func All[T any](fs ...func(*T) bool) func(*T) bool {
	return func(v *T) bool {
		return !slices.ContainsFunc(fs, func(f func(*T) bool) bool { return !f(v) })
	}
}

// Any returns a predicate that is true if at least one of the given predicates is. Without predicates, it is false.
func Any[T any](fs ...func(*T) bool) func(*T) bool {
	return func(v *T) bool {
		return slices.ContainsFunc(fs, func(f func(*T) bool) bool { return f(v) })
	}
}

// None returns a predicate that is true if none of the given predicates is. Without predicates, it is true.
func None[T any](fs ...func(*T) bool) func(*T) bool { return Not(Any(fs...)) }

// criterion is a condition for one value: a literal, a marker, or a predicate.
type criterion struct {
	literal   any
	marker    marker
	predicate func(*FieldValue) bool
}

// newCriterion converts an option. It returns nil for nil.
func newCriterion(option any) (*criterion, error) {
	switch v := option.(type) {
	case nil:
		return nil, nil
	case marker:
		return &criterion{marker: v}, nil
	case func(*FieldValue) bool:
		if v == nil {
			return nil, errors.New("invalid predicate: want a function, not nil")
		}
		return &criterion{predicate: v}, nil
	}
	literal, err := rawjson.Normalize(option)
	if err != nil {
		return nil, fmt.Errorf("invalid criterion of type %T: want a value, Present, Absent, or a func(*kopf.FieldValue) bool", option)
	}
	return &criterion{literal: literal}, nil
}

// fits reports whether a value, or its absence, satisfies the criterion.
func (c *criterion) fits(v View, o *Object) bool {
	switch present := v.Has(""); {
	case c.predicate != nil:
		return c.predicate(&FieldValue{Value: v.Get(""), Present: present, Object: o})
	case c.marker != 0:
		return present == (c.marker == Present)
	default:
		return present && rawjson.Equal(v.Get(""), c.literal)
	}
}

// filters are the criteria of one handler.
type filters struct {
	labels, annotations []keyCriterion
	value, old, new     *criterion
	when                func(*Change) bool
	whenEvent           func(*WatchEvent) bool
	whenObject          func(*Object) bool // of daemons, timers, indices and reconcile handlers

	panicked sync.Once // logs the first panic of a filter
}

// keyCriterion is the criterion for one label or annotation.
type keyCriterion struct {
	key string
	*criterion
}

// mismatch is the reason why a handler does not match an object. It keeps the filter that was evaluated last, which is the first mismatch. A nil one keeps
// nothing.
type mismatch struct {
	part     filterPart
	key      string     // of a label or an annotation
	want     *criterion // nil for a predicate of the whole object
	got      View       // the value
	panicked any        // the value of the predicate's panic, nil without one
	fits     bool       // whether the object matches after all
	kept     bool       // whether it is stored in answers
}

// answers keep the results of filters while kopf decides about an object. Explanations use them, and do not call the functions of users again. Nil keeps
// none.
type answers map[question]*mismatch

// question identifies one evaluation of a handler's filters.
type question struct {
	handler *handler
	version string // of the object
	early   bool   // whether it was before the cause was known
}

// to returns where the filters of a handler store their result; nil if it is not kept.
func (a answers) to(h *handler, body *Body, early bool) *mismatch {
	if a == nil {
		return nil
	}
	why := &mismatch{kept: true}
	a[question{h, body.version, early}] = why
	return why
}

// of returns the result of a handler's filters, or where to store it if they were not evaluated.
func (a answers) of(h *handler, body *Body, early bool) (why *mismatch, known bool) {
	if why, known = a[question{h, body.version, early}]; known {
		return why, true
	}
	if why = a.to(h, body, early); why == nil {
		why = &mismatch{}
	}
	return why, false
}

// filterPart is the part of the object that a filter evaluates.
type filterPart uint8

const (
	partReason filterPart = iota
	partLabel
	partAnnotation
	partField  // its value
	partChange // whether the field has changed
	partOld    // the former value of the field
	partNew    // the current value of the field
	partWhen   // the whole object, by a predicate
)

// look records the filter that is evaluated.
func (m *mismatch) look(part filterPart, key string, want *criterion, got View) {
	if m != nil {
		*m = mismatch{part: part, key: key, want: want, got: got, kept: m.kept}
	}
}

// newMatch converts the criteria of labels or annotations, in the order of their keys.
func newMatch(what string, match Match) (all []keyCriterion, err error) {
	for _, key := range rawjson.SortedKeys(match) {
		if !validation.IsQualifiedName(strings.ToLower(key)) { // annotations may have an upper-case prefix
			return nil, fmt.Errorf("%s %q: invalid key: want a name such as \"app\" or \"example.com/app\"", what, key)
		}
		option := match[key]
		c, err := newCriterion(option)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", what, key, err)
		}
		if c == nil {
			return nil, fmt.Errorf("%s %q: invalid criterion nil: want Present or Absent", what, key)
		}
		if _, text := c.literal.(string); c.marker == 0 && c.predicate == nil && !text {
			return nil, fmt.Errorf("%s %q: invalid criterion %v: want a string, Present, Absent, or a func(*kopf.FieldValue) bool", what, key, option)
		}
		all = append(all, keyCriterion{key, c})
	}
	return all, nil
}

// fitsMeta reports whether the labels and the annotations match.
func (f *filters) fitsMeta(o *Object, why *mismatch) bool {
	return fitAll(f.labels, o.Body.of(o.Body.labels), o, partLabel, why) && fitAll(f.annotations, o.Body.of(o.Body.annotations), o, partAnnotation, why)
}

// fitAll reports whether all labels, or all annotations, match.
func fitAll(criteria []keyCriterion, raw []byte, o *Object, part filterPart, why *mismatch) bool {
	for _, c := range criteria {
		v := o.Body.viewOf(raw).View(Path(c.key))
		why.look(part, c.key, c.criterion, v)
		if !c.fits(v, o) {
			return false
		}
	}
	return true
}

// preMatches reports whether a change handler could match the object, regardless of the reason and the difference. The change's Old and New are those of the
// whole object.
func (h *handler) preMatches(c *Change) bool {
	return h.preMatchesFor(c, c.answers.to(h, c.Body, true))
}

func (h *handler) preMatchesFor(c *Change, why *mismatch) bool {
	return h.guarded(c, why, func() bool { return h.filters.fitsMeta(&c.Object, why) && h.fitsValue(c, why) && h.fitsWhen(c, why) })
}

func (h *handler) fitsWhen(c *Change, why *mismatch) bool {
	why.look(partWhen, "", nil, View{})
	return h.filters.when == nil || h.filters.when(c)
}

// fitsValue checks the value of the handler's field. Handlers of differences also match the old value, so that they notice when the value stops matching.
func (h *handler) fitsValue(c *Change, why *mismatch) bool {
	if len(h.field) == 0 {
		return true
	}
	want := h.filters.value
	if want == nil {
		want = &criterion{marker: Present}
	}
	now := viewOf(c.New, h.field)
	why.look(partField, "", want, now)
	if want.fits(now, &c.Object) {
		return true
	}
	return h.looksBack() && want.fits(viewOf(c.Old, h.field), &c.Object)
}

// looksBack reports whether the handler compares the old and the new state.
func (h *handler) looksBack() bool {
	return h.kind == kindUpdate || h.kind == kindField || h.kind == kindSub && h.changes.needsChange
}

// matches reports whether to call a handler for a cause. The flag initial means that the object existed before the operator started, and was not handled
// since.
func (h *handler) matches(c *Change, initial bool) bool { return h.matchesFor(c, initial, nil) }

func (h *handler) matchesFor(c *Change, initial bool, why *mismatch) bool {
	why.look(partReason, "", nil, View{})
	if !h.fitsReason(c.Reason, initial) {
		return false
	}
	return h.guarded(c, why, func() bool {
		return h.filters.fitsMeta(&c.Object, why) && h.fitsValue(c, why) && h.fitsChange(c, why) && h.fitsWhen(c, why)
	})
}

func (h *handler) fitsReason(reason Reason, initial bool) bool {
	switch reason {
	case ReasonCreate, ReasonUpdate, ReasonDelete, ReasonResume:
	default:
		return false // other reasons never reach a handler
	}
	switch h.kind {
	case kindCreate:
		return reason == ReasonCreate
	case kindUpdate:
		return reason == ReasonUpdate
	case kindDelete:
		return reason == ReasonDelete
	case kindResume:
		return initial && reason != ReasonCreate && (reason != ReasonDelete || h.changes.deleted)
	}
	return true
}

// fitsChange reports whether the handler's field differs, and whether its old and new values match.
func (h *handler) fitsChange(c *Change, why *mismatch) bool {
	if !h.changes.needsChange || len(h.field) == 0 {
		return true
	}
	before, now := viewOf(c.Old, h.field), viewOf(c.New, h.field)
	why.look(partChange, "", nil, now)
	if !h.fieldDiffers(c.Old, c.New) {
		return false
	}
	f := &h.filters
	why.look(partOld, "", f.old, before)
	if f.old != nil && !f.old.fits(before, &c.Object) {
		return false
	}
	why.look(partNew, "", f.new, now)
	return f.new == nil || f.new.fits(now, &c.Object)
}

// fieldDiffers reports whether the handler's field differs between two states, or the states themselves without a field.
func (h *handler) fieldDiffers(before, now View) bool {
	before, now = viewOf(before, h.field), viewOf(now, h.field)
	return before.Has("") != now.Has("") || !rawjson.Equal(before.Get(""), now.Get(""))
}

// matchesEvent reports whether to call an event handler.
func (h *handler) matchesEvent(e *WatchEvent, why *mismatch) bool {
	c := &Change{Object: e.Object}
	return h.guarded(c, why, func() bool {
		c.New = e.Body.viewOf(e.Body.raw)
		if !h.filters.fitsMeta(&e.Object, why) || !h.fitsValue(c, why) {
			return false
		}
		why.look(partWhen, "", nil, View{})
		return h.filters.whenEvent == nil || h.filters.whenEvent(e)
	})
}

// matchesObject reports whether a daemon, timer, index or reconcile handler matches the current object.
func (h *handler) matchesObject(o *Object) bool {
	return h.matchesObjectFor(o, o.answers.to(h, o.Body, false))
}

// fits is matchesObject with the kept result, if there is one.
func (o *Object) fits(h *handler) bool {
	if why := o.answers[question{h, o.Body.version, false}]; why != nil {
		return why.fits
	}
	return h.matchesObject(o)
}

func (h *handler) matchesObjectFor(o *Object, why *mismatch) bool {
	c := &Change{Object: *o}
	return h.guarded(c, why, func() bool {
		c.New = o.Body.viewOf(o.Body.raw)
		if !h.filters.fitsMeta(o, why) || !h.fitsValue(c, why) {
			return false
		}
		why.look(partWhen, "", nil, View{})
		return h.filters.whenObject == nil || h.filters.whenObject(o)
	})
}

// guarded evaluates filters. If they panic, the handler does not match, and the panic is logged once per handler.
func (h *handler) guarded(c *Change, why *mismatch, fits func() bool) (ok bool) {
	call := safecall.Recover
	if h.calls() {
		call = safecall.Do
	}
	err := call(func() error {
		ok = fits()
		return nil
	})
	if ok = ok && err == nil; why != nil {
		why.fits = ok
	}
	panicked, failed := err.(*safecall.PanicError)
	if !failed {
		return ok
	}
	if why != nil {
		if why.panicked = panicked.Value; !why.kept { // an explanation shows it instead
			return false
		}
	}
	h.filters.panicked.Do(func() {
		c.Logger.Error("A filter of a handler panicked; it matches nothing", handlerKey, h.id,
			"panic", fmt.Sprint(panicked.Value), "help", "K118")
	})
	return false
}

// calls reports whether some of the handler's filters are functions of the user.
func (h *handler) calls() bool {
	f := &h.filters
	return f.when != nil || f.whenEvent != nil || f.whenObject != nil ||
		h.admission != nil && h.admission.when != nil ||
		f.value.calls() || f.old.calls() || f.new.calls() ||
		slices.ContainsFunc(f.labels, keyCriterion.calls) || slices.ContainsFunc(f.annotations, keyCriterion.calls)
}

// calls reports whether the criterion is a predicate. Nil is none.
func (c *criterion) calls() bool { return c != nil && c.predicate != nil }

// narrow reduces a change to the handler's field.
func (h *handler) narrow(c *Change) {
	if len(h.field) == 0 {
		return
	}
	whole := c.diff
	c.Old, c.New = viewOf(c.Old, h.field), viewOf(c.New, h.field)
	if whole != nil {
		c.diff = func() Diff { return whole().reduce(h.field) }
	}
}

func viewOf(v View, keys []string) View {
	raw, _ := rawjson.Find(v.raw, keys...)
	return View{raw: raw, secret: v.secret}
}
