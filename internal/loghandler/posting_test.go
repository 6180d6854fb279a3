package loghandler

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// posted are the messages that were posted.
type posted []string

func (p *posted) Post(level slog.Level, message string) {
	*p = append(*p, fmt.Sprint(level, ": ", message))
}

func TestPosting(t *testing.T) {
	var logged bytes.Buffer
	var got posted
	nothing := func(any) *Reference { return nil }
	noStack := func(error) []byte { return nil }
	text := New(Options{Format: Plain, Output: io.Discard, Reference: nothing, Stack: noStack})
	next := slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelInfo})
	log := slog.New(NewPosting(next, text, slog.LevelWarn, &got))
	log.Debug("not logged")
	log.Info("not posted")
	log.Warn("first", "a", 1)
	log.With("b", 2).WithGroup("g").Error("second", "c", 3)
	if want := (posted{"WARN: first  a=1", "ERROR: second  b=2 g.c=3"}); !slices.Equal(got, want) {
		t.Errorf("got the messages %q, want %q", got, want)
	}
	if lines := strings.Count(logged.String(), "\n"); lines != 3 || !strings.Contains(logged.String(), "msg=second b=2 g.c=3") {
		t.Errorf("got the lines\n%s", logged.String())
	}
}
