package loghandler

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"time"
	"unicode"
)

var ref = Reference{APIVersion: "kopf.dev/v1", Kind: "KopfExample", Name: "obj", UID: "u1", Namespace: "default"}

// newHandler returns a handler of all records from slog.LevelInfo up.
func newHandler(w io.Writer, format Format) *Handler {
	return New(Options{
		Format: format, RefKey: ObjectKey, Prefix: format != JSON, Output: w,
		Reference: func(value any) *Reference { r, _ := value.(*Reference); return r },
		Stack:     func(error) []byte { return nil },
	})
}

func TestColors(t *testing.T) {
	h := newHandler(io.Discard, Full)
	h.colors = true
	r := slog.NewRecord(time.Time{}, slog.LevelError, "m", 0)
	r.Add(slog.Any(ObjectKey, &ref))
	full := *h
	full.object = &ref
	want := "\x1b[31m[ERROR]\x1b[0m \x1b[36m[default/obj]\x1b[0m m"
	if got := string(full.appendText(nil, r)); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConcurrency(t *testing.T) {
	var b bytes.Buffer
	logger := slog.New(newHandler(&b, Plain)).With("a", 1)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				logger.With("b", 2).Info("m", "c", 3)
			}
		})
	}
	wg.Wait()
	if want := strings.Repeat("m  a=1 b=2 c=3\n", 800); b.String() != want {
		t.Error("lines of different goroutines are mixed up")
	}
}

// TestHandlerRules holds the handler to the rules of slog.Handler.
func TestHandlerRules(t *testing.T) {
	var b bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		b.Reset()
		return newHandler(&b, JSON)
	}, func(t *testing.T) map[string]any {
		var line map[string]any
		if err := json.Unmarshal(b.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		for ours, theirs := range map[string]string{"timestamp": slog.TimeKey, "severity": slog.LevelKey, "message": slog.MessageKey} {
			if value, ok := line[ours]; ok {
				line[theirs] = value
				delete(line, ours)
			}
		}
		return line
	})
}

// FuzzLogText looks for a text that passes for another record, or that plays with the terminal.
func FuzzLogText(f *testing.F) {
	f.Add("a\nb", "k=\n", "v\x1b[0m")
	f.Add("\r", "", "\u2028\u0085")
	f.Fuzz(func(t *testing.T, message, key, value string) {
		var b bytes.Buffer
		slog.New(newHandler(&b, Plain)).With(ObjectKey, &Reference{Name: value}).Info("start "+message, key, value)
		text := b.String()
		for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
				t.Errorf("control characters in %q", line)
			}
			if i > 0 && !strings.HasPrefix(line, continued) {
				t.Errorf("line %d of %q passes for a record", i, text)
			}
		}
	})
}

// TestJSONValues holds that values that are JSON are readable in lines for people, and that nothing else passes for them.
func TestJSONValues(t *testing.T) {
	for value, want := range map[string]string{
		`{"a":"b c"}`:           `{"a":"b c"}`,
		`[{"op":"test","v":1}]`: `[{"op":"test","v":1}]`,
		`{"a":"b"} level=ERROR`: `"{\"a\":\"b\"} level=ERROR"`,
		"{\"a\":\n1}":           `"{\"a\":\n1}"`,
		`{a b}`:                 `"{a b}"`,
		`[`:                     `[`,
	} {
		var b bytes.Buffer
		slog.New(newHandler(&b, Plain)).Info("m", "v", value)
		if got := b.String(); got != "m  v="+want+"\n" {
			t.Errorf("%s is logged as %s", value, got)
		}
	}
}

// TestJSONOnly holds that attributes that only JSON lines have are there once.
func TestJSONOnly(t *testing.T) {
	for format, want := range map[Format]string{Plain: "m  handler=b\n", JSON: `{"message":"m","handler":"b","severity":"info"}` + "\n"} {
		var b bytes.Buffer
		log := slog.New(newHandler(&b, format)).With("handler", JSONOnly("a"))
		r := slog.NewRecord(time.Time{}, slog.LevelInfo, "m", 0)
		r.Add("handler", JSONOnly("a"), "handler", "b")
		if err := log.Handler().Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("got %s, want %s", b.String(), want)
		}
	}
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("m", "handler", JSONOnly("a"))
	if !strings.Contains(b.String(), "handler=a") {
		t.Errorf("another handler writes %s", b.String())
	}
}
