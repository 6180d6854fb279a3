package inspection

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/yaml"
)

// checkPrinted fails the test if a text has a character that controls a terminal, except line ends.
func checkPrinted(t *testing.T, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); i >= 0 {
		t.Errorf("got the character %q in %q", []rune(text[i:])[0], text)
	}
	if !utf8.ValidString(text) {
		t.Errorf("got what is not UTF-8: %q", text)
	}
}

// FuzzStatusPrinter prints statuses with arbitrary texts in all formats.
func FuzzStatusPrinter(f *testing.F) {
	f.Add("a", "kopf.zalando.org", "create", "oops", "Retrying", int64(40), 3)
	f.Add("\x1b[2J\x00\a\x7f", "\u009b31m.example.com", "a\tb\nc\r", "\xff\xfe\u202e\u2028", "", int64(-1), -1)
	f.Add("---", "- x", "{}", "null", "Paused", int64(1)<<62, 1<<30)
	f.Fuzz(func(t *testing.T, name, operator, id, message, state string, seconds int64, count int) {
		now := time.Now()
		next := now.Add(time.Duration(seconds) * time.Second)
		s := &Status{
			Object:   Object{APIVersion: operator, Kind: state, Namespace: id, Name: name, UID: message},
			Operator: operator, Created: now, Finalizers: []string{message}, PausedFor: name, Problems: []string{message, id},
			Handlers: []HandlerStatus{{ID: id, State: State(state), Purpose: operator, Attempts: count, Started: &now, Next: &next, Error: message}, {ID: name, State: Retrying, Error: id}},
		}
		s.Conclude(Facts{Stored: count&1 > 0, Changed: count&2 > 0, Deleting: count&4 > 0})
		s.FromConditions([]Condition{{Type: "Ready", Status: state, Reason: id, Message: message, ObservedGeneration: int64(count)}}, seconds)
		for _, format := range []string{"table", "wide", "json", "yaml", "lines"} {
			var out bytes.Buffer
			p := &Printer{Out: &out, Format: format, WithKind: true}
			if err := errors.Join(p.Page([]*Status{s, s}), p.Page(nil), p.Page([]*Status{s})); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if any, err := p.End(); !any || err != nil {
				t.Fatalf("%s: got %t and %v at the end", format, any, err)
			}
			checkPrinted(t, out.String())
			checkReadable(t, format, out.Bytes())
		}
	})
}

// checkReadable fails the test if the output is not a readable list of three statuses.
func checkReadable(t *testing.T, format string, out []byte) {
	t.Helper()
	n, err := 3, error(nil)
	switch format {
	case "json":
		var all []Status
		err = json.Unmarshal(out, &all)
		n = len(all)
	case "yaml":
		var all []map[string]any
		all, err = yaml.ParseManifests(out)
		n = len(all)
	case "lines", "table":
		n = bytes.Count(out, []byte("\n"))
		if format == "table" {
			n-- // the header
		}
	}
	if n != 3 || err != nil {
		t.Errorf("%s: got %d statuses (%v) in %s", format, n, err, out)
	}
}

// FuzzStatusExplanation prints explanations with arbitrary texts.
func FuzzStatusExplanation(f *testing.F) {
	f.Add("a", "create", "label env is \"dev\"", []byte(`{"a":[1,null]}`))
	f.Add("\x1b]0;x\a", "\u009b", "a\nb", []byte(`"\u001b[31m"`))
	f.Fuzz(func(t *testing.T, name, id, why string, value []byte) {
		var decoded any
		_ = json.Unmarshal(value, &decoded) // or nil
		x := &Explanation{
			Object: Object{APIVersion: id, Kind: why, Namespace: id, Name: name}, Operator: id, Cause: why, Decision: why, Steps: []string{why}, Notes: []string{id, why},
			Changes:  []Change{{"add", name, nil, decoded}, {"change", id, decoded, why}, {"remove", why, decoded, nil}, {why, why, string(value), nil}},
			Handlers: []Handler{{ID: id, Kind: name, Registered: why, Called: true, Why: why, Error: name}},
		}
		l := &HandlerList{Resource: name, Handlers: []HandlerCondition{{id, why, name, []string{why, id}, []string{why}, []string{name}}}, Notes: []string{why}}
		for range 2 {
			var out bytes.Buffer
			if err := errors.Join(x.WriteText(&out), WriteJSON(&out, x), l.WriteText(&out), WriteJSON(&out, l)); err != nil {
				t.Fatal(err)
			}
			checkPrinted(t, out.String())
			x.Prevent(why)
			l.Handlers = nil
		}
	})
}
