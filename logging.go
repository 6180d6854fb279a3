package kopf

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kopf-go/kopf/internal/loghandler"
	"github.com/kopf-go/kopf/internal/safecall"
)

// This file chooses how the operator's messages look: on a terminal, in plain text, and as JSON. It also posts those about objects as
// events. The messages themselves go through log/slog, so another slog.Handler can take the place of ours.

// LogFormat is the look of log lines. The zero value is [LogFull].
type LogFormat int

// The formats of log lines.
const (
	LogFull  LogFormat = iota // time, level, object, message, attributes
	LogPlain                  // object, message, attributes
	LogJSON                   // a JSON object in each line
)

var logFormats = []string{"full", "plain", "json"}

// String returns the name of the format: "full", "plain" or "json".
func (f LogFormat) String() string {
	if f < 0 || int(f) >= len(logFormats) {
		return "LogFormat(" + strconv.Itoa(int(f)) + ")"
	}
	return logFormats[f]
}

// MarshalText returns the name of the format. It never fails.
func (f LogFormat) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText takes the name of a format, in letters of any case.
func (f *LogFormat) UnmarshalText(text []byte) error {
	i := slices.Index(logFormats, strings.ToLower(string(text)))
	if i < 0 {
		return fmt.Errorf("unknown log format %q: expected full, plain or json", text)
	}
	*f = LogFormat(i)
	return nil
}

// LogOptions tell what is logged, and how it looks. The zero value is for people: messages from
// slog.LevelInfo up, in the full format, on the standard error.
type LogOptions struct {
	// Verbose logs from slog.LevelDebug up. Defaults to false.
	Verbose bool
	// Debug is as Verbose, and adds the place in the source code that each message comes from. Defaults to false.
	Debug bool
	// Quiet logs from slog.LevelWarn up, unless Verbose or Debug is set. Defaults to false.
	Quiet bool
	// Format is the look of the lines. Defaults to [LogFull].
	Format LogFormat
	// RefKey is the key of the object's reference in [LogJSON]. Defaults to "object".
	RefKey string
	// Prefix begins the messages about objects with "[namespace/name] " in [LogJSON] too. Defaults to false.
	Prefix bool
	// NoPrefix leaves this prefix out in the text formats. Defaults to false.
	NoPrefix bool
	// Output is where the lines go, each in one call of Write. Defaults to [os.Stderr].
	Output io.Writer
}

// ConfigureLogging makes [NewLogHandler] with the options the handler of the process's default
// logger, which is the one of every [Operator] without a logger of its own, and returns that logger. Nil
// options mean the defaults. Operators that run already keep the logger that they began with.
func ConfigureLogging(options *LogOptions) *slog.Logger {
	logger := slog.New(NewLogHandler(options))
	slog.SetDefault(logger)
	return logger
}

// NewLogHandler returns a [slog.Handler] that writes each record as one line, with the object that it
// is about; nil options mean the defaults. Lines are in colours on a terminal, unless the variable NO_COLOR is
// set. The stack of a panic follows below its line, or is in the field exc_info.
func NewLogHandler(options *LogOptions) slog.Handler {
	o := optionsOf(options)
	level := slog.LevelInfo
	switch {
	case o.Verbose, o.Debug:
		level = slog.LevelDebug
	case o.Quiet:
		level = slog.LevelWarn
	}
	return o.handler(level)
}

func (o *LogOptions) handler(level slog.Level) slog.Handler {
	prefix := !o.NoPrefix
	if o.Format == LogJSON {
		prefix = o.Prefix
	}
	return loghandler.New(loghandler.Options{
		Level: level, Format: loghandler.Format(o.Format), RefKey: cmp.Or(o.RefKey, objectKey), Prefix: prefix, Source: o.Debug,
		Output: cmp.Or[io.Writer](o.Output, os.Stderr), Reference: logReference, Stack: safecall.StackOf,
	})
}

// logReference returns the value of an attribute as a reference, nil if it is none.
func logReference(value any) *loghandler.Reference {
	ref, ok := value.(ObjectReference)
	if !ok {
		return nil
	}
	r := loghandler.Reference(ref)
	return &r
}

// objectKey is the key of the attribute that names the object a message is about. Its value
// is an [ObjectReference], for handlers of any kind to use.
const objectKey = loghandler.ObjectKey

// objectLogger returns a logger of messages about one object.
func objectLogger(base *slog.Logger, ref ObjectReference) *slog.Logger {
	return base.With(slog.Any(objectKey, ref))
}

// The keys of the attributes that JSON lines have in addition: the id of the handler that a message is about, and the identity of the operator.
const (
	handlerKey  = "handler"
	operatorKey = "operator"
)

// handlerAttr returns the attribute of messages about a handler.
func handlerAttr(id HandlerID) slog.Attr { return slog.Any(handlerKey, loghandler.JSONOnly(id)) }

// handlerLogger returns the logger that a handler gets.
func handlerLogger(base *slog.Logger, id HandlerID) *slog.Logger { return base.With(handlerAttr(id)) }

// eventMessages makes the messages of events. It writes nothing.
var eventMessages = loghandler.New(loghandler.Options{Format: loghandler.Plain, Output: io.Discard, Reference: logReference, Stack: safecall.StackOf})

// postedLogger returns a logger whose messages are posted as Kubernetes events about an object, too, if that is wanted.
func postedLogger(base *slog.Logger, ref ObjectReference, to eventRecorder) *slog.Logger {
	level, ok := to.logLevel()
	if !ok {
		return base
	}
	return slog.New(loghandler.NewPosting(base.Handler(), eventMessages, level, &messagePoster{ref, to}))
}

// messagePoster posts messages as events about an object.
type messagePoster struct {
	ref ObjectReference
	to  eventRecorder
}

// Post implements [loghandler.Poster].
func (p *messagePoster) Post(level slog.Level, message string) {
	p.to.post(level, p.ref, loghandler.EventType(level), "Logging", message)
}
