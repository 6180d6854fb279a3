package inspection

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Notes is a [slog.Handler] that collects distinct messages of level INFO and above, to be printed instead of logged. Its zero value is ready to use.
type Notes struct {
	mu       sync.Mutex // guards messages
	messages []string
}

// Enabled implements [slog.Handler].
func (n *Notes) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements [slog.Handler].
func (n *Notes) Handle(_ context.Context, r slog.Record) error {
	message := strings.TrimSuffix(r.Message, ".")
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" || a.Key == "hint" || a.Key == "panic" {
			message += ": " + a.Value.String()
		}
		return true
	})
	n.Add(message)
	return nil
}

// Add adds a message.
func (n *Notes) Add(message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.messages, message) {
		n.messages = append(n.messages, message)
	}
}

// WithAttrs implements [slog.Handler]. It drops the attributes.
func (n *Notes) WithAttrs([]slog.Attr) slog.Handler { return n }

// WithGroup implements [slog.Handler].
func (n *Notes) WithGroup(string) slog.Handler { return n }

// Messages returns the messages, and clears them.
func (n *Notes) Messages() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.messages
	n.messages = nil
	return all
}
