package loghandler

import (
	"context"
	"log/slog"
)

// Poster takes messages that are posted elsewhere, too.
type Poster interface {
	// Post takes the message of a record, as a line in the plain format has it.
	Post(level slog.Level, message string)
}

// Posting is a handler that passes records on, and posts them.
type Posting struct {
	next  slog.Handler
	text  *Handler // makes the messages, and writes nothing
	level slog.Level
	to    Poster
}

// NewPosting returns a handler that passes records on to the next one, and posts those of the level and above, with the messages that a text handler makes.
func NewPosting(next slog.Handler, text *Handler, level slog.Level, to Poster) *Posting {
	return &Posting{next, text, level, to}
}

// Enabled reports whether records of the level are logged. Others are not posted either.
func (p *Posting) Enabled(ctx context.Context, level slog.Level) bool {
	return p.next.Enabled(ctx, level)
}

// WithAttrs returns a handler that adds the attributes to each record.
func (p *Posting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Posting{p.next.WithAttrs(attrs), p.text.WithAttrs(attrs).(*Handler), p.level, p.to}
}

// WithGroup returns a handler that puts all further attributes into a group.
func (p *Posting) WithGroup(name string) slog.Handler {
	return &Posting{p.next.WithGroup(name), p.text.WithGroup(name).(*Handler), p.level, p.to}
}

// Handle logs one record, and posts it.
func (p *Posting) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= p.level {
		p.to.Post(r.Level, p.text.Message(r))
	}
	return p.next.Handle(ctx, r)
}
