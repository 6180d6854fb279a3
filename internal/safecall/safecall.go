// Package safecall calls functions of users, which may panic.
package safecall

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrorText returns the text of an error, or something else where there is none.
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

// StackOf returns the stack of the panic in err's chain, nil if there is none.
func StackOf(err error) []byte {
	if p := (*PanicError)(nil); errors.As(err, &p) {
		return p.Stack
	}
	return nil
}

// Do calls a user's function and turns a panic into an error with its stack. So it does with a nil pointer of an error type, which is an
// error whose text cannot be read.
func Do(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if err = fn(); err != nil {
		_ = err.Error()
	}
	return err
}
