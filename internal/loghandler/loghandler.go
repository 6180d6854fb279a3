// Package loghandler writes records of log/slog as text, or as JSON objects with a reference to the object of each message.
//
// The goroutine that logs formats the record, and writes it under a lock.
//
// [slog.JSONHandler] cannot write this JSON. The reference and the severity are the last fields, even after open groups. Attributes never replace
// fields of the handler. A repeated key gets another name. A value whose method panics becomes a text.
package loghandler

import (
	"cmp"
	"context"
	"encoding"
	"encoding/json"
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

	"github.com/kopf-go/kopf/internal/iso8601"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Format is the look of lines.
type Format int

// The formats.
const (
	Full  Format = iota // time, level, object, message, attributes
	Plain               // object, message, attributes
	JSON                // a JSON object in each line
)

// The keys of the attributes that are no fields of their own: the object that a message is about, and the stack of a panic, a text of
// many lines.
const (
	ObjectKey = "object"
	StackKey  = "stack"
)

// Options are what a handler is made from. All of them are required.
type Options struct {
	Level  slog.Level // of the least records that are written
	Format Format
	RefKey string // of the reference in JSON
	Prefix bool   // whether messages about objects begin with "[namespace/name] "
	Source bool   // whether lines have the place in the source code that they come from
	Output io.Writer

	Reference func(value any) *Reference // returns the value of an attribute as a reference, nil if it is none
	Stack     func(err error) []byte     // returns the stack of the panic that an error comes from, nil if there is none
}

// JSONOnly is the value of an attribute that lines for people leave out, because their text has it already. Other implementations of
// [slog.Handler] take it for a string.
type JSONOnly string

// Reference names the object that messages are about.
type Reference struct {
	APIVersion string
	Kind       string
	Name       string
	UID        string
	Namespace  string
}

// String returns "namespace/name", or the name alone for objects without a namespace.
func (r *Reference) String() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// output is shared by a handler and all that were derived from it.
type output struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

// Handler is a [slog.Handler]. It is never changed after it was made.
type Handler struct {
	out     *output
	options Options
	colors  bool
	groups  []string
	fields  []field    // of WithAttrs
	object  *Reference // that the messages are about, nil if none
	stack   string     // of the panic that they tell of
}

// New returns a handler. Lines of text are in colors on a terminal, unless the variable NO_COLOR is set.
func New(o Options) *Handler {
	return &Handler{out: &output{w: o.Output}, options: o, colors: o.Format != JSON && isTerminal(o.Output)}
}

// field is an attribute made ready to be written: its path through the groups, and its value as
// text or as JSON.
type field struct {
	path  []string
	value []byte
}

// Enabled reports whether records of the level are written.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.options.Level }

// WithAttrs returns a handler that adds the attributes to each record.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	derived := *h
	derived.fields = slices.Clip(h.fields)
	for _, a := range attrs {
		derived.add(a)
	}
	return &derived
}

// WithGroup returns a handler that puts all further attributes into a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	derived := *h
	derived.groups = append(slices.Clip(h.groups), name)
	return &derived
}

// Handle writes one record.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	full := h.with(r)
	var line []byte
	if h.options.Format == JSON {
		line = full.appendJSON(nil, r)
	} else {
		line = full.appendText(nil, r)
	}
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := h.out.w.Write(line)
	return err
}

// Message returns a record as the text of an event.
func (h *Handler) Message(r slog.Record) string {
	full := h.with(r)
	return strings.TrimSpace(string(full.appendText(nil, r)))
}

// with returns a handler with the attributes of the record.
func (h *Handler) with(r slog.Record) *Handler {
	full := *h
	full.fields = slices.Clip(h.fields)
	r.Attrs(func(a slog.Attr) bool {
		full.add(a)
		return true
	})
	return &full
}

// add takes an attribute in: the object and the stack aside, groups one by one, all else ready to be written.
func (h *Handler) add(a slog.Attr) {
	if a.Key == StackKey && len(h.groups) == 0 && a.Value.Kind() == slog.KindString {
		h.stack = strings.TrimSpace(a.Value.String())
		return
	}
	if a.Key == ObjectKey && len(h.groups) == 0 {
		if ref := h.options.Reference(a.Value.Any()); ref != nil {
			h.object = ref
			return
		}
	}
	h.addTo(h.groups, a)
}

func (h *Handler) addTo(groups []string, a slog.Attr) {
	value := a.Value.Resolve()
	if a.Key == "" && value.Kind() != slog.KindGroup {
		if a.Value.Any() == nil {
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
	f := field{path: groups}
	if err, ok := value.Any().(error); ok && h.stack == "" {
		h.stack = strings.TrimSpace(string(h.options.Stack(err)))
	}
	if len(groups) == 0 {
		f.path = []string{""}
	}
	if _, ok := value.Any().(JSONOnly); ok && h.options.Format != JSON {
		return
	}
	if h.options.Format == JSON {
		f.value = jsonLogValue(value)
	} else {
		f.value = quoteLogValue(textLogValue(value))
	}
	h.fields = append(h.fields, f)
}

// appendText appends a record as a line, its further lines indented.
func (h *Handler) appendText(b []byte, r slog.Record) []byte {
	if h.options.Format == Full {
		if !r.Time.IsZero() {
			b = r.Time.AppendFormat(b, "2006-01-02 15:04:05,000 ")
		}
		b = h.appendColored(b, levelColor(r.Level), fmt.Sprintf("[%-5s]", levelName(r.Level)))
		b = append(b, ' ')
	}
	if h.object != nil && h.options.Prefix {
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
	if h.options.Source {
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
func (h *Handler) appendColored(b []byte, color, text string) []byte {
	if !h.colors || color == "" {
		return append(b, text...)
	}
	b = append(b, "\x1b["+color+"m"...)
	b = append(b, text...)
	return append(b, "\x1b[0m"...)
}

// appendJSON appends a record as a JSON object in one line.
func (h *Handler) appendJSON(b []byte, r slog.Record) []byte {
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
			path = append([]string{path[0] + "_"}, path[1:]...) // an attribute does not replace a field of the handler
		}
		if !line.Set(f.value, path...) {
			line.Put(strings.Join(path, "."), f.value)
		}
	}
	if h.stack != "" {
		line.Put("exc_info", rawjson.AppendString(nil, h.stack))
	}
	if at := sourceOf(r); h.options.Source && at != "" {
		line.Put("source", rawjson.AppendString(nil, at))
	}
	if !r.Time.IsZero() {
		line.Put("timestamp", rawjson.AppendString(nil, r.Time.UTC().Format(iso8601.Layout)))
	}
	if h.object != nil {
		line.Put(h.options.RefKey, jsonReference(h.object))
	}
	if line.Index("severity") < 0 {
		line.Put("severity", rawjson.AppendString(nil, cmp.Or(cloudSeverities[Severity(r.Level)], Severity(r.Level))))
	}
	return append(line.AppendTo(b), '\n')
}

// jsonReference returns all five parts of a reference, as in the logs of Kopf for Python.
func jsonReference(ref *Reference) []byte {
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

// cloudSeverities are the names of levels in cloud logging, where they differ from the names in text. Google Cloud Logging accepts no others.
var cloudSeverities = map[string]string{"warn": "warning", "fatal": "critical"}

// Severity returns the name of a level.
func Severity(level slog.Level) string {
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

// EventType returns the type of the Kubernetes events for messages of a level.
func EventType(level slog.Level) string {
	switch name := Severity(level); {
	case name == "info":
		return "Normal"
	case name == "warn":
		return "Warning"
	case level > slog.LevelError+4:
		return level.String()
	default:
		return strings.ToUpper(name[:1]) + name[1:]
	}
}

func levelName(level slog.Level) string { return strings.ToUpper(Severity(level)) }

func levelColor(level slog.Level) string {
	switch Severity(level) {
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

// quoteLogValue quotes a value that would be ambiguous in a line. JSON is unambiguous, and easier to read without quotes.
func quoteLogValue(s string) []byte {
	if len(s) > 1 && (s[0] == '{' || s[0] == '[') && !strings.ContainsFunc(s, unicode.IsControl) && json.Valid([]byte(s)) {
		return []byte(s)
	}
	return quoteLogText(s)
}

// quoteLogText quotes a key or a value that would be ambiguous in a line.
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

// isTerminal reports whether colors make sense on w.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	if runtime.GOOS == "windows" && os.Getenv("WT_SESSION") == "" {
		return false // an old console shows the codes instead of the colors
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
