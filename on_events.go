package kopf

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// This file is how handlers post Kubernetes events, which tell people what happens to an object: kubectl describe shows them
// below it. The functions run on the goroutine of the handler and do not wait; what becomes of the events is the business of an engine.

// The types of Kubernetes events. Any other text is taken as well.
const (
	EventNormal  = "Normal"  // of PostInfo
	EventWarning = "Warning" // of PostWarning
	EventError   = "Error"   // of PostError
)

// eventRecorder takes the events that handlers post.
type eventRecorder interface {
	// post takes an event. The level decides whether it is posted at all.
	post(level int, ref ObjectReference, kind, reason, message string)
	// reject logs why there is no event about something.
	reject(reason string, err error)
	// logLevel returns the lowest level of log lines that are posted too, and whether any are.
	logLevel() (level int, ok bool)
}

// The levels of events, as those of log/slog.
const (
	levelInfo    = 0
	levelWarning = 4
	levelError   = 8
	levelAny     = 1 << 30 // of events that are only posted if any are
)

// PostEvent posts a Kubernetes event about the object of the handler, or instead about others: about an object as a [Body], an [ObjectReference],
// a map or a struct, or about each one in a slice of them; nil ones are passed over. It never waits and never fails: events are posted in
// the background, in their order, and what goes wrong with them is logged. The reason is a word in CamelCase of at most 128 bytes, the
// message a sentence of at most 1024; more is cut out. Events of the types Normal, Warning and Error are posted from
// Settings.Posting.Level up, as if they were logged; those of other types always, if Settings.Posting.Enabled.
//
// Repetitions are counted by the first event instead of posting it again, and an object gets 25 events at once, then one in 5
// minutes; more are dropped. An Object that was made by hand posts nothing.
func (o *Object) PostEvent(kind, reason, message string, about ...any) {
	level := levelAny
	switch kind {
	case EventNormal:
		level = levelInfo
	case EventWarning:
		level = levelWarning
	case EventError:
		level = levelError
	}
	if o.events == nil {
		return
	}
	if about == nil {
		o.events.post(level, o.Body.Reference(), kind, reason, message)
		return
	}
	for _, other := range about {
		o.postAbout(reflect.ValueOf(other), func(ref ObjectReference, err error) {
			if err != nil {
				o.events.reject(reason, err)
				return
			}
			o.events.post(level, ref, kind, reason, message)
		})
	}
}

// PostInfo posts an event of the type Normal. See [Object.PostEvent].
func (o *Object) PostInfo(reason, message string, about ...any) {
	o.PostEvent(EventNormal, reason, message, about...)
}

// PostWarning posts an event of the type Warning. See [Object.PostEvent].
func (o *Object) PostWarning(reason, message string, about ...any) {
	o.PostEvent(EventWarning, reason, message, about...)
}

// PostError posts an event of the type Error about an error. The text of the error follows the message, if there is one; an empty
// reason is replaced by the name of the error's type. See [Object.PostEvent].
func (o *Object) PostError(reason, message string, err error, about ...any) {
	if err != nil {
		message = strings.TrimSpace(message + " " + err.Error())
		if reason == "" {
			reason = typeName(err)
		}
	}
	o.PostEvent(EventError, reason, message, about...)
}

// typeName returns the name of an error's type, without its package.
func typeName(err error) string {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// postAbout finds the objects in a value, and has each of them posted about.
func (o *Object) postAbout(v reflect.Value, post func(ObjectReference, error)) {
	if !v.IsValid() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Interface:
		if v.IsNil() {
			return
		}
	}
	switch x := v.Interface().(type) {
	case *Body:
		post(x.Reference(), nil)
		return
	case ObjectReference:
		post(x, nil)
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		o.postAbout(v.Elem(), post)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			o.postAbout(v.Index(i), post)
		}
	case reflect.Pointer, reflect.Map, reflect.Struct:
		body, err := NewBody(v.Interface())
		if err != nil {
			post(ObjectReference{}, err)
			return
		}
		post(body.Reference(), nil)
	default:
		post(ObjectReference{}, fmt.Errorf("%v is not an object: expected a body, a reference, a map or a struct", v.Interface()))
	}
}

// errNameless is why there is no event about an object.
var errNameless = errors.New("the object has no kind or no name")
