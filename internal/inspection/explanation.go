// Package inspection has the answers of the commands "status" and "explain": how far operators are with objects, and which handlers they call for them. It also prints them.
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

// String returns the object as people write it.
func (o Object) String() string {
	return strings.TrimSpace(o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
}

// Explanation is what an operator does with an object, and why. The names of its fields in JSON are stable.
type Explanation struct {
	Object   Object `json:"object"`
	Operator string `json:"operator"` // the prefix of what the operator has stored on the object
	Cause    string `json:"cause"`    // create, update, delete or resume; noop if nothing has changed, free if the operator does not hold a deleted object; empty if that makes no difference
	Decision string `json:"decision"`

	Steps    []string  `json:"steps,omitempty"`   // what is done to the object before that
	Changes  []Change  `json:"changes,omitempty"` // since the object was last handled
	Handlers []Handler `json:"handlers"`
	Notes    []string  `json:"notes,omitempty"` // what else is worth knowing
}

// Change is one difference to the last handled state.
type Change struct {
	Operation string `json:"operation"` // add, change or remove
	Field     string `json:"field"`
	Old       any    `json:"old,omitempty"`
	New       any    `json:"new,omitempty"`
}

// Handler is what becomes of one handler.
type Handler struct {
	ID         string     `json:"id"`
	Kind       string     `json:"kind"`       // the function that registers it, such as OnCreate
	Registered string     `json:"registered"` // the place in the source
	Called     bool       `json:"called"`
	Why        string     `json:"why"` // or why not
	Attempts   int        `json:"attempts,omitempty"`
	Next       *time.Time `json:"next,omitempty"`  // the next attempt, if that is not now
	Error      string     `json:"error,omitempty"` // of the last attempt

	Verdict decision.Verdict `json:"-"` // the kind of the reason
}

// Summary returns what becomes of each handler, for the log.
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

// Verdicts returns the kinds of the reasons, by handler.
func (e *Explanation) Verdicts() []decision.Verdict {
	all := make([]decision.Verdict, len(e.Handlers))
	for i := range e.Handlers {
		all[i] = e.Handlers[i].Verdict
	}
	return all
}

// Prevent notes that no handler is called at all, now or later, for a reason that has nothing to do with the object.
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

// Conclude says that handlers are called which are none of changes, if there are only such ones for the object.
func (e *Explanation) Conclude(a decision.Action) {
	if a.Kind == decision.Skip && slices.ContainsFunc(e.Handlers, func(h Handler) bool { return h.Called }) {
		e.Decision = "no handler of changes is for the object, and other handlers are called"
	}
}

// HandlerList is what a kind has handlers for. The names of its fields in JSON are stable.
type HandlerList struct {
	Resource string             `json:"resource"`
	Handlers []HandlerCondition `json:"handlers"`
	Notes    []string           `json:"notes,omitempty"`
}

// HandlerCondition is when a handler is called, and what it leaves on objects.
type HandlerCondition struct {
	ID         string   `json:"id"`
	Kind       string   `json:"kind"`
	Registered string   `json:"registered"`
	Filters    []string `json:"filters,omitempty"` // which objects it is for; all without any
	Limits     []string `json:"limits,omitempty"`  // of its attempts
	Stores     []string `json:"stores,omitempty"`  // what it leaves on objects
}

// WriteText writes the list for people.
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

// escapeControls escapes in JSON the control characters that JSON may have as they are, and that terminals obey. So do some of them obey bytes that are no UTF-8, as JSON of others can have them.
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

// WriteText writes the explanation for people.
func (e *Explanation) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-10s%s\n", name+":", Clean(text))
		}
	}
	line("Object", e.Object.String())
	line("Operator", e.Operator)
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

// maxValue is the length at which values are cut, in bytes.
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

// Clean returns a text that moves nothing on a terminal: characters that are not printed are escaped.
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

// writeTable writes a table with columns of the width that they need. The last column is not padded.
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

// Age returns a time that has passed as kubectl does: in the two largest units.
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
