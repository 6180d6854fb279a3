package kopf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-go/kopf/internal/safecall"
)

var logRef = ObjectReference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Name: "obj", UID: "u1", Namespace: "default"}

// logLines logs one record of each kind at a fixed time, and returns the output.
func logLines(options LogOptions, log func(logger *slog.Logger)) string {
	var b bytes.Buffer
	options.Output = &b
	log(slog.New(fixedTime{NewLogHandler(&options)}))
	return b.String()
}

// fixedTime sets the time of each record.
type fixedTime struct{ slog.Handler }

func (f fixedTime) Handle(ctx context.Context, r slog.Record) error {
	r.Time = time.Date(2020, 12, 31, 23, 59, 58, 123456789, time.Local)
	return f.Handler.Handle(ctx, r)
}

func (f fixedTime) WithAttrs(attrs []slog.Attr) slog.Handler {
	return fixedTime{f.Handler.WithAttrs(attrs)}
}

func (f fixedTime) WithGroup(name string) slog.Handler { return fixedTime{f.Handler.WithGroup(name)} }

func TestLogText(t *testing.T) {
	object := func(l *slog.Logger) *slog.Logger { return objectLogger(l, logRef) }
	tests := []struct {
		name    string
		options LogOptions
		log     func(l *slog.Logger)
		want    string
	}{
		{"OP-112 full", LogOptions{}, func(l *slog.Logger) { l.Info("hello") },
			"2020-12-31 23:59:58,123 [INFO ] hello\n"},
		{"OP-112 plain", LogOptions{Format: LogPlain}, func(l *slog.Logger) { l.Info("hello") }, "hello\n"},
		{"OP-113 prefix", LogOptions{}, func(l *slog.Logger) { object(l).Info("hello", "size", 1) },
			"2020-12-31 23:59:58,123 [INFO ] [default/obj] hello  size=1\n"},
		{"OP-113 prefix in plain", LogOptions{Format: LogPlain}, func(l *slog.Logger) { object(l).Info("hello") },
			"[default/obj] hello\n"},
		{"OP-113 cluster-scoped", LogOptions{Format: LogPlain}, func(l *slog.Logger) {
			objectLogger(l, ObjectReference{Name: "obj"}).Info("hello")
		}, "[obj] hello\n"},
		{"OP-113 no prefix", LogOptions{Format: LogPlain, NoPrefix: true}, func(l *slog.Logger) { object(l).Info("hello") },
			"hello\n"},
		{"OP-52 levels by default", LogOptions{}, func(l *slog.Logger) { l.Debug("no"); l.Warn("yes"); l.Error("yes") },
			"2020-12-31 23:59:58,123 [WARN ] yes\n2020-12-31 23:59:58,123 [ERROR] yes\n"},
		{"OP-52 verbose", LogOptions{Verbose: true, Quiet: true, Format: LogPlain}, func(l *slog.Logger) { l.Debug("yes") }, "yes\n"},
		{"OP-52 quiet", LogOptions{Quiet: true, Format: LogPlain}, func(l *slog.Logger) { l.Info("no"); l.Warn("yes") }, "yes\n"},
		{"values", LogOptions{Format: LogPlain}, func(l *slog.Logger) {
			l.Info("m", "a", "x y", "b", 1.5, "c", time.Second, "d", errors.New("oops"), "e", `"`, "f", "", "g", nil, "h", []int{1})
		}, `m  a="x y" b=1.5 c=1s d=oops e="\"" f="" g=<nil> h=[1]` + "\n"},
		{"groups", LogOptions{Format: LogPlain}, func(l *slog.Logger) {
			l.With("a", 1).WithGroup("g").With("b", 2).Info("m", slog.Group("h", "c", 3), slog.Group("", "d", 4), slog.Attr{})
		}, "m  a=1 g.b=2 g.h.c=3 g.d=4\n"},
		{"another object's reference", LogOptions{Format: LogPlain}, func(l *slog.Logger) { object(l).Info("m", "owner", logRef) },
			"[default/obj] m  owner=default/obj\n"},
		{"panicking values", LogOptions{Format: LogPlain}, func(l *slog.Logger) {
			l.Info("m", "a", panicking{}, "b", (*nilStringer)(nil))
		}, `m  a="!PANIC: no" b=<nil>` + "\n"},
		{"no text passes for a record", LogOptions{Format: LogPlain}, func(l *slog.Logger) { l.Info("a\nb\x1b[31m\rc\n", "d", "e\nf") },
			"a\n    b\\x1b[31m\\rc  d=\"e\\nf\"\n"},
		{"stack of a panic", LogOptions{Format: LogPlain}, func(l *slog.Logger) {
			l.Error("m", "error", fmt.Errorf("x: %w", &safecall.PanicError{Value: "no", Stack: []byte("main.f()\n\tmain.go:1\n")}), "b", 1)
		}, "m  error=\"x: panic: no\" b=1\n    main.f()\n    \tmain.go:1\n"},
		{"stack as an attribute", LogOptions{Format: LogPlain}, func(l *slog.Logger) {
			l.Error("m", "error", &safecall.PanicError{Value: "no", Stack: []byte("main.f()\n")}, "stack", "main.f()\n")
		}, "m  error=\"panic: no\"\n    main.f()\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, logLines(tt.options, tt.log)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

type panicking struct{}

func (panicking) String() string               { panic("no") }
func (panicking) MarshalJSON() ([]byte, error) { panic("no") }

type nilStringer struct{ s string }

func (n *nilStringer) String() string { return n.s }

func TestLogJSON(t *testing.T) {
	object := func(l *slog.Logger) *slog.Logger { return objectLogger(l, logRef) }
	ref := map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "obj", "uid": "u1", "namespace": "default"}
	tests := []struct {
		name    string
		options LogOptions
		log     func(l *slog.Logger)
		want    map[string]any
	}{
		{"OP-114 line", LogOptions{}, func(l *slog.Logger) { l.Info("hello", "size", 1, "err", errors.New("oops")) },
			map[string]any{"message": "hello", "severity": "info", "size": 1.0, "err": "oops"}},
		{"OP-115 reference", LogOptions{}, func(l *slog.Logger) { object(l).Info("hello") },
			map[string]any{"message": "hello", "severity": "info", "object": ref}},
		{"OP-115 reference key", LogOptions{RefKey: "ref"}, func(l *slog.Logger) { object(l).Info("hello") },
			map[string]any{"message": "hello", "severity": "info", "ref": ref}},
		{"OP-115 no namespace", LogOptions{}, func(l *slog.Logger) { objectLogger(l, ObjectReference{Name: "obj"}).Info("hello") },
			map[string]any{"message": "hello", "severity": "info", "object": map[string]any{
				"apiVersion": "", "kind": "", "name": "obj", "uid": "", "namespace": nil}}},
		{"OP-113 prefix on demand", LogOptions{Prefix: true}, func(l *slog.Logger) { object(l).Info("hello") },
			map[string]any{"message": "[default/obj] hello", "severity": "info", "object": ref}},
		{"OP-116 severity of the caller", LogOptions{}, func(l *slog.Logger) { l.Info("hello", "severity", "odd") },
			map[string]any{"message": "hello", "severity": "odd"}},
		{"OP-116 beyond errors", LogOptions{}, func(l *slog.Logger) { l.Log(t.Context(), 9, "hello") },
			map[string]any{"message": "hello", "severity": "critical"}},
		{"OP-114 stack", LogOptions{}, func(l *slog.Logger) {
			l.Error("hello", "error", &safecall.PanicError{Value: "no", Stack: []byte("main.f()\n")})
		}, map[string]any{"message": "hello", "severity": "error", "error": "panic: no", "exc_info": "main.f()"}},
		{"groups and values", LogOptions{}, func(l *slog.Logger) {
			l.WithGroup("g").With("a", []int{1}).Info("m", slog.Group("h", "b", true, "c", time.Second), "nan", panicking{}, "s", "ü\n")
		}, map[string]any{"message": "m", "severity": "info", "g": map[string]any{
			"a": []any{1.0}, "h": map[string]any{"b": true, "c": "1s"}, "nan": "!PANIC: no", "s": "ü\n"}}},
		{"attributes do not pass for ours", LogOptions{}, func(l *slog.Logger) {
			object(l).Info("m", "message", "x", "timestamp", "y", slog.Group("object", "z", 1), "a", 1, slog.Group("a", "b", 2))
		}, map[string]any{"message": "m", "severity": "info", "object": ref, "message_": "x", "timestamp_": "y",
			"object_": map[string]any{"z": 1.0}, "a": 1.0, "a.b": 2.0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.options.Format = LogJSON
			line := logLines(tt.options, tt.log)
			var got map[string]any
			if err := json.Unmarshal([]byte(line), &got); err != nil || strings.Count(line, "\n") != 1 {
				t.Fatalf("%v in %q", err, line)
			}
			want := time.Date(2020, 12, 31, 23, 59, 58, 123456000, time.Local).UTC().Format("2006-01-02T15:04:05.000000+00:00")
			if got["timestamp"] != want {
				t.Errorf("timestamp: got %q, want %q", got["timestamp"], want)
			}
			delete(got, "timestamp")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestLogSource(t *testing.T) {
	line := logLines(LogOptions{Debug: true, Format: LogPlain}, func(l *slog.Logger) { l.Debug("m") })
	if !strings.HasPrefix(line, "m  (logging_test.go:") {
		t.Errorf("got %q", line)
	}
}

// The loggers of users may be of any kind. The reference is then an ordinary attribute.
func TestLogForeignHandler(t *testing.T) {
	var b bytes.Buffer
	objectLogger(slog.New(slog.NewTextHandler(&b, nil)), logRef).Info("m")
	if !strings.Contains(b.String(), "object=default/obj") {
		t.Errorf("got %q", b.String())
	}
	b.Reset()
	objectLogger(slog.New(slog.NewJSONHandler(&b, nil)), logRef).Info("m")
	if !strings.Contains(b.String(), `"object":{"apiVersion":"kopf.dev/v1","kind":"KopfExample","name":"obj","uid":"u1","namespace":"default"}`) {
		t.Errorf("got %q", b.String())
	}
}

func TestLogFormatText(t *testing.T) {
	for _, f := range []LogFormat{LogFull, LogPlain, LogJSON} {
		var got LogFormat
		if err := got.UnmarshalText([]byte(strings.ToUpper(f.String()))); err != nil || got != f {
			t.Errorf("%s: got %s, %v", f, got, err)
		}
	}
	if err := new(LogFormat).UnmarshalText([]byte("xml")); err == nil {
		t.Error("an unknown format is accepted")
	}
}
