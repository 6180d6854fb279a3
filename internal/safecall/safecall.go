// Package safecall calls functions of users, which may panic or end their goroutine.
package safecall

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/errtype"
)

// ErrorText returns the text of an error, or the alternative for nil.
func ErrorText(err error, otherwise string) string {
	if err == nil {
		return otherwise
	}
	return err.Error()
}

// PanicError is a panic of a user's function, turned into an arbitrary error.
type PanicError struct {
	Value any // of the panic, or ErrExited
	Stack []byte
}

func (e *PanicError) Error() string {
	if e.Value == ErrExited {
		return ErrExited.Error()
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// StackOf returns the stack trace of the panic in err's chain, or nil.
func StackOf(err error) []byte {
	if p := (*PanicError)(nil); errtype.As(err, &p) {
		return p.Stack
	}
	return nil
}

// ErrExited is the value of a [PanicError] after runtime.Goexit.
var ErrExited = errors.New("runtime.Goexit was called, as by t.FailNow of a test")

// Do calls a user's function on a goroutine of its own, and waits for it. Otherwise,
// runtime.Goexit would end the caller, with all that it holds. Do converts that to an error
// with its stack trace, and also what [Recover] converts.
func Do(fn func() error) error {
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		protect(fn, &err)
	}()
	<-done
	return err
}

// Recover calls a function, and converts a panic to an error with its stack trace. It also
// converts an error that is a nil pointer, whose text cannot be read. It does not return
// after runtime.Goexit, so a function of a user needs a [Do] around it.
func Recover(fn func() error) (err error) {
	protect(fn, &err)
	return err
}

// protect calls a function, and stores its error.
func protect(fn func() error, err *error) {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			*err = &PanicError{Value: v, Stack: userFrames(debug.Stack(), isMisuse(v))}
		} else if !returned {
			*err = &PanicError{Value: ErrExited, Stack: userFrames(debug.Stack(), false)}
		}
	}()
	if *err = fn(); *err != nil {
		_ = (*err).Error()
	}
	returned = true
}

// own is the name of this package, and module that of kopf.
var (
	own    = reflect.TypeFor[PanicError]().PkgPath()
	module = strings.TrimSuffix(own, "/internal/safecall")
)

// isMisuse reports whether kopf has panicked because a function was called wrongly, such as
// with an invalid option.
func isMisuse(value any) bool {
	text, ok := value.(string)
	return ok && strings.HasPrefix(text, "kopf: ")
}

// userFrames returns the frames of a stack trace between the panic, or runtime.Goexit, and
// kopf, which has called the function. If kopf itself has panicked, it returns the whole
// stack trace, but after a misuse the frames from the misused function on.
func userFrames(stack []byte, misuse bool) []byte {
	var frames []string // each with its place on the next line
	for line := range strings.Lines(string(stack)) {
		if last := len(frames) - 1; strings.HasPrefix(line, "\t") && last >= 0 {
			frames[last] += line
		} else {
			frames = append(frames, line)
		}
	}
	start := slices.IndexFunc(frames, func(f string) bool {
		return strings.HasPrefix(f, "panic(") || strings.HasPrefix(f, "runtime.Goexit(")
	}) + 1
	for start < len(frames) && strings.HasPrefix(frames[start], "runtime.") {
		start++
	}
	if start > 0 && misuse {
		for start+1 < len(frames) && isFramework(frames[start]) && isFramework(frames[start+1]) {
			start++
		}
	}
	if start == 0 || start == len(frames) || isFramework(frames[start]) && !misuse {
		return stack
	}
	kept := frames[start:]
	if end := slices.IndexFunc(kept, func(f string) bool { return strings.HasPrefix(f, own+".protect(") }); end > 0 {
		kept = kept[:end]
	} else if end == 0 { // no frame of the user
		return stack
	}
	for len(kept) > 1 && isFramework(kept[len(kept)-1]) {
		kept = kept[:len(kept)-1]
	}
	return []byte(strings.Join(kept, ""))
}

// isFramework reports whether a frame belongs to kopf. Tests count as users.
func isFramework(frame string) bool {
	return (strings.HasPrefix(frame, module+".") || strings.HasPrefix(frame, module+"/internal/")) && !strings.Contains(frame, "_test.go:")
}
