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

// This file formats the operator's messages for terminals, as plain text, and as JSON. It also posts those about objects as events. It uses log/slog, so
// users can set another slog.Handler.

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

// UnmarshalText sets the format by its name, in upper or lower case.
func (f *LogFormat) UnmarshalText(text []byte) error {
	i := slices.Index(logFormats, strings.ToLower(string(text)))
	if i < 0 {
		return fmt.Errorf("unknown log format %q: expected full, plain or json", text)
	}
	*f = LogFormat(i)
	return nil
}

// LogOptions select the log messages and their format. The zero value is for people: messages from slog.LevelInfo up, in the full format, on the standard
// error.
type LogOptions struct {
	// Verbose logs from slog.LevelDebug up. Defaults to false.
	Verbose bool
	// Debug includes Verbose, and adds the source code location of each message. Defaults to false.
	Debug bool
	// Quiet logs from slog.LevelWarn up, unless Verbose or Debug is set. Defaults to false.
	Quiet bool
	// Format is the look of the lines. Defaults to [LogFull].
	Format LogFormat
	// RefKey is the key of the object's reference in [LogJSON]. Defaults to "object".
	RefKey string
	// Prefix begins the messages about objects with "[namespace/name] " in [LogJSON] too. Defaults to false.
	Prefix bool
	// NoPrefix omits this prefix in the text formats. Defaults to false.
	NoPrefix bool
	// Output receives the lines, each in one call of Write. Defaults to [os.Stderr].
	Output io.Writer
}

// ConfigureLogging sets the default logger of the process, which every [Operator] without its own Logger uses, and returns it. Its handler is a
// [NewLogHandler] with the options. Nil options mean the defaults. Running operators keep their former logger.
func ConfigureLogging(options *LogOptions) *slog.Logger {
	logger := slog.New(NewLogHandler(options))
	slog.SetDefault(logger)
	return logger
}

// NewLogHandler returns a [slog.Handler] that writes each record as one line, with the object that it is about. Nil options mean the defaults. Lines are
// colored on a terminal, unless the environment variable NO_COLOR is set. The stack of a panic follows below its line, or is in the field exc_info.
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

// logReference converts the value of an attribute to a reference, nil if it is none.
func logReference(value any) *loghandler.Reference {
	ref, ok := value.(ObjectReference)
	if !ok {
		return nil
	}
	r := loghandler.Reference(ref)
	return &r
}

// objectKey is the key of the attribute with the object of a message. Its value is an [ObjectReference], for any slog.Handler.
const objectKey = loghandler.ObjectKey

// objectLogger returns a logger for messages about one object.
func objectLogger(base *slog.Logger, ref ObjectReference) *slog.Logger {
	return base.With(slog.Any(objectKey, ref))
}

// The keys of further attributes of JSON lines: the ID of the handler, and the identity of the operator.
const (
	handlerKey  = "handler"
	operatorKey = "operator"
)

func handlerAttr(id HandlerID) slog.Attr { return slog.Any(handlerKey, loghandler.JSONOnly(id)) }

// handlerLogger returns the logger for a handler.
func handlerLogger(base *slog.Logger, id HandlerID) *slog.Logger { return base.With(handlerAttr(id)) }

// eventMessages formats the messages of events. It writes nothing.
var eventMessages = loghandler.New(loghandler.Options{Format: loghandler.Plain, Output: io.Discard, Reference: logReference, Stack: safecall.StackOf})

// postedLogger returns a logger that also posts its messages as Kubernetes events about an object, if the settings enable that.
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
