// Package inspection produces and prints the output of the commands "status" and "explain": the status of objects, and the handlers that are called.
package inspection

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kopf-go/kopf/internal/cut"
	"github.com/kopf-go/kopf/internal/decision"
)

// Object names an object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// String returns the object as kubectl writes it.
func (o Object) String() string {
	return strings.TrimSpace(o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
}

// Explanation says what an operator does with an object, and why. The names of its fields in JSON are stable.
type Explanation struct {
	Object   Object `json:"object"`
	Operator string `json:"operator,omitempty"` // prefix of the annotations that the operator stores on the object
	Cause    string `json:"cause,omitempty"`    // create, update, delete or resume; noop without changes; free if kopf's finalizer is gone; empty if irrelevant
	Decision string `json:"decision"`

	Steps    []string  `json:"steps,omitempty"`   // earlier changes of the object
	Changes  []Change  `json:"changes,omitempty"` // since the object was last handled
	Handlers []Handler `json:"handlers,omitempty"`
	Notes    []string  `json:"notes,omitempty"` // additional information
}

// Change is one difference from the last-handled state.
type Change struct {
	Operation string `json:"operation"` // add, change or remove
	Field     string `json:"field"`
	Old       any    `json:"old,omitempty"`
	New       any    `json:"new,omitempty"`
}

// Handler says whether and when one handler is called.
type Handler struct {
	ID         string     `json:"id"`
	Kind       string     `json:"kind"`       // registering function, such as OnCreate
	Registered string     `json:"registered"` // place in the source
	Called     bool       `json:"called"`
	Why        string     `json:"why"` // the reason, also for no call
	Attempts   int        `json:"attempts,omitempty"`
	Next       *time.Time `json:"next,omitempty"`  // next attempt; nil for now
	Error      string     `json:"error,omitempty"` // of the last attempt

	Verdict decision.Verdict `json:"-"` // kind of the reason
}

// Summary returns a line about each handler, for the log.
func (e *Explanation) Summary() string {
	lines := make([]string, len(e.Handlers))
	for i := range e.Handlers {
		called := ": not called: "
		if e.Handlers[i].Called {
			called = ": called: "
		}
		lines[i] = e.Handlers[i].ID + called + e.Handlers[i].Why
	}
	return strings.Join(lines, "; ")
}

// Verdicts returns the kind of the reason for each handler.
func (e *Explanation) Verdicts() []decision.Verdict {
	all := make([]decision.Verdict, len(e.Handlers))
	for i := range e.Handlers {
		all[i] = e.Handlers[i].Verdict
	}
	return all
}

// Prevent records that no handler is ever called, for a reason that does not depend on the object.
func (e *Explanation) Prevent(why string) {
	e.Decision = "nothing: " + why
	for i := range e.Handlers {
		switch h := &e.Handlers[i]; {
		case h.Called:
			h.Called, h.Why = false, why
		case h.Next != nil:
			h.Why = why + "; otherwise, " + h.Why
		}
	}
}

// AddWarning adds a note about a warning of the API server, once.
func (e *Explanation) AddWarning(text string) {
	if note := "The API server warns: " + text; !slices.Contains(e.Notes, note) {
		e.Notes = append(e.Notes, note)
	}
}

// Conclude adjusts the decision if the only called handlers are not change handlers.
func (e *Explanation) Conclude(a decision.Action) {
	if a.Kind == decision.Skip && slices.ContainsFunc(e.Handlers, func(h Handler) bool { return h.Called }) {
		e.Decision = Decision(a, Outlook{Others: true})
	}
}

// HandlerList lists the handlers of a kind. The names of its fields in JSON are stable.
type HandlerList struct {
	Resource string             `json:"resource"`
	Handlers []HandlerCondition `json:"handlers,omitempty"`
	Notes    []string           `json:"notes,omitempty"`
}

// HandlerCondition says when a handler is called, and lists the values that it stores on objects.
type HandlerCondition struct {
	ID         string   `json:"id"`
	Kind       string   `json:"kind"`
	Registered string   `json:"registered"`
	Filters    []string `json:"filters,omitempty"` // filters for objects; empty for all objects
	Limits     []string `json:"limits,omitempty"`  // limits of its attempts
	Stores     []string `json:"stores,omitempty"`  // stored on objects
}

// WriteText writes the list as text.
func (l *HandlerList) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, note := range l.Notes {
		b.WriteString(Clean(note) + "\n")
	}
	if len(l.Handlers) == 0 {
		b.WriteString("There are no handlers for " + Clean(l.Resource) + ".\n")
	} else {
		writeTable(&b, "HANDLER\tKIND\tFOR\tLIMITS\tSTORES\tREGISTERED", len(l.Handlers), func(i int) []string {
			h := &l.Handlers[i]
			return []string{h.ID, h.Kind, strings.Join(h.Filters, "; "), strings.Join(h.Limits, ", "), strings.Join(h.Stores, ", "), h.Registered}
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, escapeControls(b.String()))
	return err
}

// escapeControls escapes control characters that JSON allows and terminals obey. It replaces invalid UTF-8, because some terminals obey such bytes too.
func escapeControls(data string) string {
	data = strings.ToValidUTF8(data, "\uFFFD")
	escaped := func(r rune) bool { return r >= 0x7f && r < 0xa0 }
	if strings.IndexFunc(data, escaped) < 0 {
		return data
	}
	var b strings.Builder
	for _, r := range data {
		if escaped(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// WriteText writes the explanation as text.
func (e *Explanation) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-10s%s\n", name+":", Clean(text))
		}
	}
	line("Object", e.Object.String())
	line("Prefix", e.Operator)
	line("Cause", e.Cause)
	for _, step := range e.Steps {
		line("First", step)
	}
	line("Decision", e.Decision)
	for i, note := range e.Notes {
		if i == 0 {
			b.WriteString("\nNotes:\n")
		}
		b.WriteString("  " + Clean(note) + "\n")
	}
	for i, c := range e.Changes {
		if i == 0 {
			b.WriteString("\nChanges since the object was last handled:\n")
		}
		b.WriteString("  " + Clean(c.text()) + "\n")
	}
	if len(e.Handlers) > 0 {
		b.WriteString("\n")
		writeTable(&b, "CALLED\tHANDLER\tKIND\tWHY\tREGISTERED", len(e.Handlers), func(i int) []string {
			h := &e.Handlers[i]
			return []string{map[bool]string{true: "yes", false: "no"}[h.Called], h.ID, h.Kind, h.Why, h.Registered}
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c Change) text() string {
	switch c.Operation {
	case "add":
		return c.Field + " is " + Value(c.New) + ", and was absent"
	case "remove":
		return c.Field + " is absent, and was " + Value(c.Old)
	}
	return c.Field + " is " + Value(c.New) + ", and was " + Value(c.Old)
}

// maxValue is the maximum length of values, in bytes.
const maxValue = 80

// Value returns a decoded value as short JSON.
func Value(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "a value that is not JSON"
	}
	return cut.End(strings.TrimSuffix(b.String(), "\n"), maxValue)
}

// Clean escapes the characters of a text that are not printable, so that it cannot control a terminal.
func Clean(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// writeTable writes a table whose columns fit their cells. The last column is not padded.
func writeTable(w io.Writer, header string, rows int, row func(int) []string) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, header)
	for i := range rows {
		cells := row(i)
		for j := range cells {
			if cells[j] = Clean(cells[j]); cells[j] == "" {
				cells[j] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	t.Flush() //nolint:errcheck // it goes to a builder
}

// Age returns a duration as kubectl formats it: in the two largest units.
func Age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 8*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
