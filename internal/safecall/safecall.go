// Package safecall calls functions of users, which may panic.
package safecall

import (
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
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

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

// Do calls a user's function, and converts a panic to an error with its stack trace. It also converts an error that is a nil pointer, whose text cannot be
// read.
func Do(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: userFrames(debug.Stack())}
		}
	}()
	if err = fn(); err != nil {
		_ = err.Error()
	}
	return err
}

// own is the name of this package, and module that of kopf.
var (
	own    = reflect.TypeFor[PanicError]().PkgPath()
	module = strings.TrimSuffix(own, "/internal/safecall")
)

// userFrames returns the frames of a stack trace between the panic and kopf, which has called the function that panicked. If kopf itself has panicked, it
// returns the whole stack trace.
func userFrames(stack []byte) []byte {
	var frames []string // each with its place on the next line
	for line := range strings.Lines(string(stack)) {
		if last := len(frames) - 1; strings.HasPrefix(line, "\t") && last >= 0 {
			frames[last] += line
		} else {
			frames = append(frames, line)
		}
	}
	start := slices.IndexFunc(frames, func(f string) bool { return strings.HasPrefix(f, "panic(") }) + 1
	for start < len(frames) && strings.HasPrefix(frames[start], "runtime.") {
		start++
	}
	if start == 0 || start == len(frames) || isFramework(frames[start]) {
		return stack
	}
	kept := frames[start:]
	if end := slices.IndexFunc(kept, func(f string) bool { return strings.HasPrefix(f, own+".Do(") }); end >= 0 {
		kept = kept[:end]
	}
	for isFramework(kept[len(kept)-1]) { // the first one is not
		kept = kept[:len(kept)-1]
	}
	return []byte(strings.Join(kept, ""))
}

// isFramework reports whether a frame belongs to kopf. Tests count as users.
func isFramework(frame string) bool {
	return (strings.HasPrefix(frame, module+".") || strings.HasPrefix(frame, module+"/internal/")) && !strings.Contains(frame, "_test.go:")
}
