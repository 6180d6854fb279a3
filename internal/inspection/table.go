package inspection

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kopf-go/kopf/internal/installation"
)

// Printer prints statuses in one of the formats of the command "status". It keeps none of them.
type Printer struct {
	Out      io.Writer
	Format   string // table, wide, json, yaml or lines (JSON with one status per line)
	WithKind bool   // the objects are of several kinds

	widths []int // of the table columns, after the first page
	begun  bool
	err    error
}

// header has the column titles. In the rows of handlers, below their object, DONE has the purpose, and AGE the time since the start.
var header = []string{"NAMESPACE", "NAME", "STATE", "DONE", "ATTEMPTS", "NEXT", "ERROR", "AGE"}

// Page prints some statuses. The table columns keep their widths from page to page.
func (p *Printer) Page(all []*Status) error {
	switch p.Format {
	case "json", "yaml", "lines":
		for _, s := range all {
			p.encode(s)
		}
		return p.err
	}
	now, limit := time.Now(), maxError
	if p.Format == "wide" {
		limit = maxWideError
	}
	var rows [][]string
	if !p.begun && len(all) > 0 {
		rows = append(rows, header)
		p.begun = true
	}
	for _, s := range all {
		rows = append(rows, s.row(now, p.WithKind, limit))
		if p.Format == "wide" {
			rows = append(rows, s.handlerRows(now)...)
		}
	}
	for _, row := range rows {
		for i := range row {
			if i >= len(p.widths) {
				p.widths = append(p.widths, 0)
			}
			row[i] = Clean(row[i])
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		writeRow(&b, row, p.widths)
	}
	p.write(b.String())
	return p.err
}

// writeRow writes the cells of a row, padded to the widths of their columns. Empty cells become dashes, except the namespace.
func writeRow(b *strings.Builder, row []string, widths []int) {
	for i, cell := range row {
		if cell == "" && i > 0 {
			cell = "-"
		}
		b.WriteString(cell)
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0)+2))
		}
	}
	b.WriteString("\n")
}

// encode prints a status as JSON or YAML: as an item of a list, or on one line.
func (p *Printer) encode(s *Status) {
	data, err := json.Marshal(s)
	switch {
	case err != nil:
		p.err = err
	case p.Format == "lines":
		p.write(escapeControls(string(data)) + "\n")
	case p.Format == "yaml":
		var value any
		if p.err = json.Unmarshal(data, &value); p.err == nil {
			p.write(map[bool]string{true: "---\n"}[p.begun] + installation.YAML(value))
		}
	default:
		p.write(map[bool]string{false: "[\n", true: ",\n"}[p.begun] + escapeControls(string(data)))
	}
	p.begun = true
}

// End completes the output. It reports whether anything was printed.
func (p *Printer) End() (printed bool, err error) {
	if p.Format == "json" {
		p.write(map[bool]string{false: "[]\n", true: "\n]\n"}[p.begun])
	}
	return p.begun, p.err
}

func (p *Printer) write(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.Out, text)
	}
}

func fraction(done, all int) string {
	if all == 0 {
		return ""
	}
	return strconv.Itoa(done) + "/" + strconv.Itoa(all)
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// until returns the time remaining until t.
func until(t *time.Time, now time.Time) string {
	switch {
	case t == nil:
		return ""
	case t.Before(now):
		return "now"
	}
	return "in " + Age(t.Sub(now))
}

func age(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Age(now.Sub(t))
}
