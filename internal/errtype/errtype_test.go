package errtype

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// disguise is an error that can be taken for an error of type *fs.PathError.
type disguise struct{ path *fs.PathError }

func (d disguise) Error() string { return "a disguise" }

func (d disguise) As(target any) bool {
	t, ok := target.(**fs.PathError)
	if ok {
		*t = d.path
	}
	return ok
}

// bundle is an error with several causes.
type bundle []error

func (b bundle) Error() string   { return "a bundle" }
func (b bundle) Unwrap() []error { return b }

// TestAs compares As with errors.As.
func TestAs(t *testing.T) {
	one, two := &fs.PathError{Op: "one", Err: fs.ErrExist}, &fs.PathError{Op: "two", Err: fs.ErrExist}
	for name, err := range map[string]error{
		"nil":                        nil,
		"another type":               errors.New("x"),
		"the type":                   one,
		"a cause":                    fmt.Errorf("x: %w", fmt.Errorf("y: %w", one)),
		"the first in a chain":       &fs.PathError{Op: "outer", Err: one},
		"the first of several":       errors.Join(errors.New("x"), fmt.Errorf("y: %w", one), two),
		"one below several":          fmt.Errorf("%w and %w", bundle{nil, errors.New("x")}, bundle{bundle{}, two}),
		"none of several":            errors.Join(errors.New("x"), bundle{}),
		"an error with a method As":  fmt.Errorf("x: %w", disguise{one}),
		"such an error among others": errors.Join(errors.New("x"), disguise{two}, one),
		"a chain that ends with nil": &net.OpError{Op: "dial"},
	} {
		t.Run(name, func(t *testing.T) {
			compare[*fs.PathError](t, err)
			compare[disguise](t, err)
			compare[net.Error](t, err)
		})
	}
}

func compare[E error](t *testing.T, err error) {
	t.Helper()
	var got, want E
	found, ok := As(err, &got), errors.As(err, &want)
	if found != ok || any(got) != any(want) {
		t.Errorf("As(%T) found %v (%v), want %v (%v): %s", want, got, found, want, ok, cmp.Diff(fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got)))
	}
}
