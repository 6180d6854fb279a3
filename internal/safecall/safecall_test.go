package safecall

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestPanicError(t *testing.T) {
	err := fmt.Errorf("around: %w", &PanicError{Value: io.EOF, Stack: []byte("stack")})
	if err.Error() != "around: panic: EOF" || !errors.Is(err, io.EOF) || string(StackOf(err)) != "stack" {
		t.Errorf("%v, stack %s", err, StackOf(err))
	}
	if StackOf(io.EOF) != nil || (&PanicError{Value: 1}).Unwrap() != nil {
		t.Error("there is a stack or a cause where there can be none")
	}
}
