package kopf

import (
	"context"
	"encoding"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// This file knows how the operator's messages look: on a terminal, in plain text, and as JSON.
// The messages themselves go through log/slog, so another slog.Handler can take the place of this one. Records are
// formatted on the goroutine that logs, and written one at a time.

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
	var o LogOptions
	if options != nil {
		o = *options
	}
	if o.Output == nil {
		o.Output = os.Stderr
	}
	if o.RefKey == "" {
		o.RefKey = objectKey
	}
	h := &logHandler{out: &logOutput{w: o.Output}, options: o, level: slog.LevelInfo}
	h.colors = o.Format != LogJSON && isTerminal(o.Output)
	switch {
	case o.Verbose, o.Debug:
		h.level = slog.LevelDebug
	case o.Quiet:
		h.level = slog.LevelWarn
	}
	return h
}

// objectKey is the key of the attribute that returns which object a message is about. Its value
// is an [ObjectReference], for handlers of any kind to use.
const objectKey = "object"

// stackKey is the key of the attribute with the stack of a panic, a text of many lines.
const stackKey = "stack"

// objectLogger returns a logger of messages about one object.
func objectLogger(base *slog.Logger, ref ObjectReference) *slog.Logger {
	return base.With(slog.Any(objectKey, ref))
}

// postedLogger returns a logger whose messages are posted as Kubernetes events about an object, too, if that is wanted.
func postedLogger(base *slog.Logger, ref ObjectReference, to eventRecorder) *slog.Logger {
	level, ok := to.logLevel()
	if !ok {
		return base
	}
	text := &logHandler{options: LogOptions{Format: LogPlain, NoPrefix: true}}
	return slog.New(&postingHandler{next: base.Handler(), text: text, level: level, ref: ref, to: to})
}

// postingHandler passes log records on, and posts them.
type postingHandler struct {
	next  slog.Handler
	text  *logHandler // makes the messages, and writes nothing
	level int
	ref   ObjectReference
	to    eventRecorder
}

// Enabled reports whether records of the level are logged: what is not is not posted either.
func (h *postingHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs returns a handler that adds the attributes to each record.
func (h *postingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	derived := *h
	derived.next, derived.text = h.next.WithAttrs(attrs), h.text.WithAttrs(attrs).(*logHandler)
	return &derived
}

// WithGroup returns a handler that puts all further attributes into a group.
func (h *postingHandler) WithGroup(name string) slog.Handler {
	derived := *h
	derived.next, derived.text = h.next.WithGroup(name), h.text.WithGroup(name).(*logHandler)
	return &derived
}

// Handle logs one record, and posts it.
func (h *postingHandler) Handle(ctx context.Context, r slog.Record) error {
	if int(r.Level) >= h.level {
		h.to.post(int(r.Level), h.ref, eventTypeOf(r.Level), "Logging", h.text.message(r))
	}
	return h.next.Handle(ctx, r)
}

// eventTypeOf returns the type of the events of a level.
func eventTypeOf(level slog.Level) string {
	switch name := severity(level); {
	case name == "info":
		return EventNormal
	case name == "warn":
		return EventWarning
	case level > slog.LevelError+4:
		return level.String()
	default:
		return strings.ToUpper(name[:1]) + name[1:]
	}
}

// message returns a record as the text of an event.
func (h *logHandler) message(r slog.Record) string {
	full := h.with(r)
	return strings.TrimSpace(string(full.appendText(nil, r)))
}

// logOutput is shared by a handler and all that were derived from it.
type logOutput struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

// logHandler is the slog.Handler of [NewLogHandler]. It is never changed after it was made.
type logHandler struct {
	out     *logOutput
	options LogOptions
	level   slog.Level
	colors  bool
	groups  []string
	fields  []logField       // of WithAttrs
	object  *ObjectReference // that the messages are about, nil if none
	stack   string           // of the panic that they tell of
}

// logField is an attribute made ready to be written: its path through the groups, and its value as
// text or as JSON.
type logField struct {
	path  []string
	value []byte
}

// Enabled reports whether records of the level are written.
func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// WithAttrs returns a handler that adds the attributes to each record.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	derived := *h
	derived.fields = slices.Clip(h.fields)
	for _, a := range attrs {
		derived.add(a)
	}
	return &derived
}

// WithGroup returns a handler that puts all further attributes into a group.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	derived := *h
	derived.groups = append(slices.Clip(h.groups), name)
	return &derived
}

// Handle writes one record.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	full := h.with(r)
	var line []byte
	if h.options.Format == LogJSON {
		line = full.appendJSON(nil, r)
	} else {
		line = full.appendText(nil, r)
	}
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := h.out.w.Write(line)
	return err
}

// with returns a handler with the attributes of the record.
func (h *logHandler) with(r slog.Record) *logHandler {
	full := *h
	full.fields = slices.Clip(h.fields)
	r.Attrs(func(a slog.Attr) bool {
		full.add(a)
		return true
	})
	return &full
}

// add takes an attribute in: the object and the stack aside, groups one by one, all else ready to be written.
func (h *logHandler) add(a slog.Attr) {
	if a.Key == stackKey && len(h.groups) == 0 && a.Value.Kind() == slog.KindString {
		h.stack = strings.TrimSpace(a.Value.String())
		return
	}
	if ref, ok := a.Value.Any().(ObjectReference); ok && a.Key == objectKey && len(h.groups) == 0 {
		h.object = &ref
		return
	}
	h.addTo(h.groups, a)
}

func (h *logHandler) addTo(groups []string, a slog.Attr) {
	value := a.Value.Resolve()
	if a.Key == "" && value.Kind() != slog.KindGroup {
		if a.Equal(slog.Attr{}) {
			return // the rules of slog.Handler say so
		}
	} else if a.Key != "" {
		groups = append(slices.Clip(groups), a.Key)
	}
	if value.Kind() == slog.KindGroup {
		for _, member := range value.Group() {
			h.addTo(groups, member)
		}
		return
	}
	field := logField{path: groups}
	if err, ok := value.Any().(error); ok && h.stack == "" {
		h.stack = strings.TrimSpace(string(stackOf(err)))
	}
	if len(groups) == 0 {
		field.path = []string{""}
	}
	if h.options.Format == LogJSON {
		field.value = jsonLogValue(value)
	} else {
		field.value = quoteLogText(textLogValue(value))
	}
	h.fields = append(h.fields, field)
}

// appendText appends a record as a line, its further lines indented.
func (h *logHandler) appendText(b []byte, r slog.Record) []byte {
	if h.options.Format == LogFull {
		if !r.Time.IsZero() {
			b = r.Time.AppendFormat(b, "2006-01-02 15:04:05,000 ")
		}
		b = h.appendColored(b, levelColor(r.Level), fmt.Sprintf("[%-5s]", levelName(r.Level)))
		b = append(b, ' ')
	}
	if h.object != nil && !h.options.NoPrefix {
		b = h.appendColored(b, "36", "["+printable(h.object.String())+"]")
		b = append(b, ' ')
	}
	b = append(b, printable(strings.TrimRight(r.Message, "\n"))...)
	for i, f := range h.fields {
		b = append(b, ' ')
		if i == 0 {
			b = append(b, ' ')
		}
		key := string(quoteLogText(strings.Join(f.path, ".")))
		b = h.appendColored(b, "2", key+"=")
		b = append(b, f.value...)
	}
	if h.options.Debug {
		if at := sourceOf(r); at != "" {
			b = h.appendColored(append(b, "  "...), "2", "("+at+")")
		}
	}
	b = append(b, '\n')
	if h.stack != "" {
		b = append(b, continued...)
		b = append(b, printable(h.stack)...)
		b = append(b, '\n')
	}
	return b
}

// continued begins all lines of a record but its first one, so that no text can pass for a record.
const continued = "    "

// appendColored appends a text in a color, if there are any.
func (h *logHandler) appendColored(b []byte, color, text string) []byte {
	if !h.colors || color == "" {
		return append(b, text...)
	}
	b = append(b, "\x1b["+color+"m"...)
	b = append(b, text...)
	return append(b, "\x1b[0m"...)
}

// appendJSON appends a record as a JSON object in one line.
func (h *logHandler) appendJSON(b []byte, r slog.Record) []byte {
	message := r.Message
	if h.object != nil && h.options.Prefix {
		message = "[" + h.object.String() + "] " + message
	}
	own := []string{"message", "timestamp"}
	if h.object != nil {
		own = append(own, h.options.RefKey)
	}
	line := &rawjson.Object{}
	line.Put("message", rawjson.AppendString(nil, message))
	for _, f := range h.fields {
		path := f.path
		if slices.Contains(own, path[0]) {
			path = append([]string{path[0] + "_"}, path[1:]...) // an attribute does not pass for ours
		}
		if !line.Set(f.value, path...) {
			line.Put(strings.Join(path, "."), f.value)
		}
	}
	if h.stack != "" {
		line.Put("exc_info", rawjson.AppendString(nil, h.stack))
	}
	if at := sourceOf(r); h.options.Debug && at != "" {
		line.Put("source", rawjson.AppendString(nil, at))
	}
	if !r.Time.IsZero() {
		line.Put("timestamp", rawjson.AppendString(nil, r.Time.UTC().Format("2006-01-02T15:04:05.000000-07:00")))
	}
	if h.object != nil {
		line.Put(h.options.RefKey, jsonReference(*h.object))
	}
	if line.Index("severity") < 0 {
		line.Put("severity", rawjson.AppendString(nil, severity(r.Level)))
	}
	return append(line.AppendTo(b), '\n')
}

// jsonReference returns all five parts of a reference, as those who collect logs of the original know them.
func jsonReference(ref ObjectReference) []byte {
	o := &rawjson.Object{}
	o.Put("apiVersion", rawjson.AppendString(nil, ref.APIVersion))
	o.Put("kind", rawjson.AppendString(nil, ref.Kind))
	o.Put("name", rawjson.AppendString(nil, ref.Name))
	o.Put("uid", rawjson.AppendString(nil, ref.UID))
	o.Put("namespace", []byte("null"))
	if ref.Namespace != "" {
		o.Put("namespace", rawjson.AppendString(nil, ref.Namespace))
	}
	return o.AppendTo(nil)
}

// severity returns the name of a level in JSON.
func severity(level slog.Level) string {
	switch {
	case level <= slog.LevelDebug:
		return "debug"
	case level <= slog.LevelInfo:
		return "info"
	case level <= slog.LevelWarn:
		return "warn"
	case level <= slog.LevelError:
		return "error"
	}
	return "fatal"
}

func levelName(level slog.Level) string { return strings.ToUpper(severity(level)) }

func levelColor(level slog.Level) string {
	switch severity(level) {
	case "debug":
		return "2" // dim
	case "warn":
		return "33" // yellow
	case "error":
		return "31" // red
	case "fatal":
		return "1;31"
	}
	return ""
}

// sourceOf returns the file and line that a record comes from, "" if they are not known.
func sourceOf(r slog.Record) string {
	if r.PC == 0 {
		return ""
	}
	frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
	return filepath.Base(frame.File) + ":" + strconv.Itoa(frame.Line)
}

// textLogValue returns a value as text. A panic of the value's own methods is a part of the text: a log
// line must not end an operator.
func textLogValue(v slog.Value) (text string) {
	defer recoverLogValue(v, &text)
	switch v.Kind() {
	case slog.KindTime:
		return v.Time().Format("2006-01-02T15:04:05.000Z07:00")
	case slog.KindAny:
		switch x := v.Any().(type) {
		case error:
			return x.Error()
		case fmt.Stringer:
			return x.String()
		case encoding.TextMarshaler:
			if data, err := x.MarshalText(); err == nil {
				return string(data)
			}
		case []byte:
			return string(x)
		}
		return fmt.Sprintf("%+v", v.Any())
	}
	return v.String()
}

// recoverLogValue puts a panic of a value's methods in the place of its text.
func recoverLogValue(v slog.Value, text *string) {
	switch p := recover(); {
	case p == nil:
	case reflect.ValueOf(v.Any()).Kind() == reflect.Pointer && reflect.ValueOf(v.Any()).IsNil():
		*text = "<nil>"
	default:
		*text = fmt.Sprintf("!PANIC: %v", p)
	}
}

// jsonLogValue returns a value as JSON.
func jsonLogValue(v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindBool, slog.KindInt64, slog.KindUint64:
		return []byte(v.String())
	case slog.KindTime:
		return rawjson.AppendString(nil, v.Time().Format(time.RFC3339Nano))
	case slog.KindFloat64, slog.KindAny:
		if _, isError := v.Any().(error); isError {
			break
		}
		if data, ok := encodeLogValue(v.Any()); ok {
			return data
		}
	}
	return rawjson.AppendString(nil, textLogValue(v))
}

// encodeLogValue encodes a value as JSON, and reports whether it could.
func encodeLogValue(value any) (data []byte, ok bool) {
	defer func() {
		if recover() != nil {
			data, ok = nil, false // the text of the value tells of the panic
		}
	}()
	data, err := rawjson.Encode(value)
	return data, err == nil
}

// quoteLogText quotes a key or a value where it could not be told from what is around it.
func quoteLogText(s string) []byte {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r == ' ' || r == '=' || r == '"' || !unicode.IsPrint(r)
	})
	if plain {
		return []byte(s)
	}
	return strconv.AppendQuote(nil, s)
}

// printable returns a text without control characters, its further lines indented.
func printable(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString("\n" + continued)
		case r == '\t' || !unicode.IsControl(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// isTerminal reports whether colours make sense on w.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	if runtime.GOOS == "windows" && os.Getenv("WT_SESSION") == "" {
		return false // an old console shows the codes instead of the colours
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
