package kopf

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

func TestTemporary(t *testing.T) {
	err := fmt.Errorf("around: %w", Temporary(io.EOF, time.Second))
	var temporary *TemporaryError
	if !errors.As(err, &temporary) || temporary.Delay != time.Second || !errors.Is(err, io.EOF) || err.Error() != "around: EOF" {
		t.Errorf("%v: %+v", err, temporary)
	}
	if got := Temporary(nil, Immediately).Error(); got != "temporary error" {
		t.Errorf("without a cause: %q", got)
	}
	if errors.As(err, new(*PermanentError)) {
		t.Error("a temporary error is permanent")
	}
}

func TestPermanent(t *testing.T) {
	cause := errors.New("cause")
	tests := []struct {
		err  error
		text string
	}{
		{Permanent(cause), "cause"},
		{fmt.Errorf("around: %w", Permanent(cause)), "around: cause"},
		{&HandlerTimeoutError{ID: "fn", Runtime: time.Minute, Err: cause}, `handler "fn" is out of time after 1m0s`},
		{&HandlerTimeoutError{ID: "fn", Runtime: time.Second, Timeout: 2 * time.Second, Delay: time.Minute, Err: cause},
			`handler "fn" is out of time after 1s, because the next attempt in 1m0s would exceed its Timeout of 2s`},
		{&HandlerRetriesError{ID: "fn", Retries: 3, Err: cause}, `handler "fn" has used up its 3 attempts`},
	}
	for _, tt := range tests {
		var permanent *PermanentError
		if !errors.As(tt.err, &permanent) || !errors.Is(tt.err, cause) || tt.err.Error() != tt.text {
			t.Errorf("%v, permanent %v, want %s", tt.err, permanent, tt.text)
		} else if permanent.Err == nil {
			t.Errorf("%v: the permanent error in it is empty", tt.err)
		}
		if errors.As(tt.err, new(*TemporaryError)) {
			t.Errorf("%v is temporary", tt.err)
		}
	}
	if got := Permanent(nil).Error(); got != "permanent error" {
		t.Errorf("without a cause: %q", got)
	}
	if (&HandlerTimeoutError{}).Unwrap() != nil || (&HandlerRetriesError{}).Unwrap() != nil {
		t.Error("there is a cause where none was given")
	}
}

func TestLoginError(t *testing.T) {
	err := error(&LoginError{Message: "no credentials", Err: io.EOF})
	if err.Error() != "no credentials: EOF" || !errors.Is(err, io.EOF) || (&LoginError{Message: "x"}).Error() != "x" {
		t.Errorf("%v", err)
	}
}
