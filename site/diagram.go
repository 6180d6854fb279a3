package main

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"

	xhtml "golang.org/x/net/html"
)

// This file draws the Mermaid sequence diagrams of the documentation, and lists the connections of its flowcharts.

// drawMermaid returns an element for a diagram.
func drawMermaid(text string) (*xhtml.Node, error) {
	kind, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	switch {
	case strings.HasPrefix(kind, "sequenceDiagram"):
		return drawSequence(rest)
	case strings.HasPrefix(kind, "flowchart"):
		return listFlowchart(rest)
	}
	return nil, fmt.Errorf("invalid diagram %q: want sequenceDiagram or flowchart", kind)
}

var (
	participant = regexp.MustCompile(`^(?:participant|actor) (\w+)(?: as (.+))?$`)
	message     = regexp.MustCompile(`^(\w+)(--?>>?)(\w+): (.+)$`)
	note        = regexp.MustCompile(`^Note over (\w+)(?:, ?(\w+))?: (.+)$`)
	lineBreak   = regexp.MustCompile(`<br ?/?>`)
)

// A step is a message, a note, the beginning of a frame, or its end.
type step struct {
	kind, text string // "message", "back", "note", a frame such as "opt", or "end"
	from, to   int    // columns
}

// A sequence is a parsed sequence diagram.
type sequence struct {
	ids, names []string // of the participants
	steps      []step
}

func readSequence(text string) (*sequence, error) {
	s := &sequence{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		if m := participant.FindStringSubmatch(line); m != nil {
			s.ids, s.names = append(s.ids, m[1]), append(s.names, cmp.Or(m[2], m[1]))
		} else if m := message.FindStringSubmatch(line); m != nil {
			kind := "message"
			if strings.HasPrefix(m[2], "--") {
				kind = "back"
			}
			s.steps = append(s.steps, step{kind, m[4], slices.Index(s.ids, m[1]), slices.Index(s.ids, m[3])})
		} else if m := note.FindStringSubmatch(line); m != nil {
			s.steps = append(s.steps, step{"note", m[3], slices.Index(s.ids, m[1]), slices.Index(s.ids, cmp.Or(m[2], m[1]))})
		} else if word == "end" || word == "opt" || word == "alt" || word == "loop" {
			s.steps = append(s.steps, step{kind: word, text: rest})
		} else if line != "" {
			return nil, fmt.Errorf("invalid line %q: want a participant, a message, a note, or a frame", line)
		}
		if n := len(s.steps); n > 0 && min(s.steps[n-1].from, s.steps[n-1].to) < 0 {
			return nil, fmt.Errorf("invalid line %q: want participants that are declared above it", line)
		}
	}
	if len(s.ids) == 0 {
		return nil, errors.New("the diagram has no participants")
	}
	return s, nil
}

// The dimensions of a diagram, in pixels.
const (
	letter    = 6.2 // the approximate width of a letter
	rowHeight = 36
	boxWidth  = 108
	boxHeight = 44
)

// place returns the positions of the participants, with enough space between them for the labels.
func (s *sequence) place() []float64 {
	x := make([]float64, len(s.ids))
	for i := range x {
		x[i] = boxWidth/2 + 2 + float64(i)*(boxWidth+10)
	}
	for last := 1; last < len(x); last++ {
		for _, t := range s.steps {
			left, right, width := min(t.from, t.to), max(t.from, t.to), 0.0
			for _, line := range fold(t.text) {
				width = max(width, float64(len(line))*letter+16)
			}
			if left == right {
				right, width = left+1, width+24 // a message to itself is next to its line
			}
			if right != last || t.kind != "message" && t.kind != "back" {
				continue
			}
			missing := max(x[left]+width-x[right], 0)
			for i := right; i < len(x); i++ {
				x[i] += missing
			}
		}
	}
	return x
}

// fold returns the lines of a label: two if it is long.
func fold(text string) []string {
	const short = 20
	middle := len(text) / 2
	before, after := strings.LastIndexByte(text[:middle], ' '), strings.IndexByte(text[middle:], ' ')
	if cut := middle + after; len(text) > short && after >= 0 && (before < 0 || after < middle-before) {
		return []string{text[:cut], text[cut+1:]}
	} else if len(text) > short && before > 0 {
		return []string{text[:before], text[before+1:]}
	}
	return []string{text}
}

// drawSequence returns a picture of a sequence diagram.
func drawSequence(text string) (*xhtml.Node, error) {
	s, err := readSequence(text)
	if err != nil {
		return nil, err
	}
	x := s.place()
	width, height := x[len(x)-1]+boxWidth/2+2, boxHeight+rowHeight*len(s.steps)+20
	var b, labels strings.Builder // labels are above the lines
	for i, name := range s.names {
		fmt.Fprintf(&b, `<line x1="%.0[1]f" x2="%.0[1]f" y1="%[2]d" y2="%[3]d"/><rect x="%.0[4]f" y="1" width="%.0[5]f" height="%[2]d" rx="4"/>`, x[i], boxHeight, height, x[i]-boxWidth/2, float64(boxWidth))
		lines := lineBreak.Split(name, -1)
		for j, line := range lines {
			fmt.Fprintf(&labels, `<text x="%.0f" y="%d">%s</text>`, x[i], boxHeight/2+4+j*14-(len(lines)-1)*7, html.EscapeString(line))
		}
	}
	var frames []int
	for i, t := range s.steps {
		y := boxHeight + rowHeight*(i+1)
		switch t.kind {
		case "end":
			if n := len(frames); n > 0 {
				fmt.Fprintf(&b, `<rect class="frame" x="2" y="%d" width="%.0f" height="%d"/>`, frames[n-1], width-4, y-8-frames[n-1])
				frames = frames[:n-1]
			}
		case "message", "back":
			drawMessage(&b, &labels, t, x[t.from], x[t.to], y)
		case "note":
			drawNote(&b, &labels, t.text, (x[t.from]+x[t.to])/2, width, y)
		default:
			frames = append(frames, y-18)
			fmt.Fprintf(&labels, `<text class="label begin" x="10" y="%d">%s: %s</text>`, y, t.kind, html.EscapeString(t.text))
		}
	}
	return parseElement(fmt.Sprintf(`<div class="diagram scroll"><svg width="%.0[1]f" height="%[2]d" viewBox="0 0 %.0[1]f %[2]d" role="img" aria-label="Sequence of messages between %[3]s">%[4]s%[5]s</svg></div>`,
		width, height, html.EscapeString(lineBreak.ReplaceAllString(strings.Join(s.names, ", "), ", ")), b.String(), labels.String()))
}

// drawMessage draws an arrow with its label.
func drawMessage(b, labels *strings.Builder, t step, from, to float64, y int) {
	middle, tip := (from+to)/2, 6.0
	if from < to {
		tip = -6
	}
	if from == to {
		fmt.Fprintf(b, `<path d="M%.0[1]f %[2]d h20 v12 h-20"/>`, from, y-4)
		y, tip = y+8, 6
	} else {
		fmt.Fprintf(b, `<line class="%s" x1="%.0f" x2="%.0f" y1="%[4]d" y2="%[4]d"/>`, t.kind, from, to, y)
	}
	fmt.Fprintf(b, `<path d="M%.0[1]f %[2]d L%.0[3]f %[4]d M%.0[1]f %[2]d L%.0[3]f %[5]d"/>`, to, y, to+tip, y-4, y+4)
	lines := fold(t.text)
	for i, line := range lines {
		above := 13 * (len(lines) - 1 - i)
		if from == to {
			fmt.Fprintf(labels, `<text class="label begin" x="%.0f" y="%d">%s</text>`, from+26, y+4-above, html.EscapeString(line))
		} else {
			fmt.Fprintf(labels, `<text class="label" x="%.0f" y="%d">%s</text>`, middle, y-6-above, html.EscapeString(line))
		}
	}
}

// drawNote draws a text in a box around a center, within the width of the diagram.
func drawNote(b, labels *strings.Builder, text string, middle, width float64, y int) {
	lines, half := fold(text), 0.0
	for _, line := range lines {
		half = max(half, float64(len(line))*letter/2+8)
	}
	middle = max(min(middle, width-half-2), half+2)
	fmt.Fprintf(b, `<rect class="note" x="%.0f" y="%d" width="%.0f" height="%d" rx="4"/>`, middle-half, y-30, 2*half, 32)
	for i, line := range lines {
		fmt.Fprintf(labels, `<text x="%.0f" y="%d">%s</text>`, middle, y-17+13*i+7*(2-len(lines)), html.EscapeString(line))
	}
}

var edge = regexp.MustCompile(`^(\w+)(?:\["(.+?)"\])?(?: --> (\w+)(?:\["(.+?)"\])?)?$`)

// listFlowchart returns a list of a flowchart's connections: each box with the targets of its arrows.
func listFlowchart(text string) (*xhtml.Node, error) {
	labels, targets := make(map[string]string), make(map[string][]string)
	var order []string
	note := func(id, label string) {
		if !slices.Contains(order, id) {
			order = append(order, id)
		}
		if label != "" || labels[id] == "" {
			labels[id] = cmp.Or(lineBreak.ReplaceAllString(label, ": "), id)
		}
	}
	for line := range strings.Lines(text) {
		m := edge.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			return nil, fmt.Errorf("invalid line %q: want boxes and arrows", line)
		}
		note(m[1], m[2])
		if m[3] != "" {
			note(m[3], m[4])
			targets[m[1]] = append(targets[m[1]], m[3])
		}
	}
	var b strings.Builder
	for _, id := range order {
		fmt.Fprintf(&b, `<li>%s`, labels[id])
		for i, target := range targets[id] {
			name, _, _ := strings.Cut(labels[target], ": ")
			fmt.Fprintf(&b, `%s%s`, []string{" → ", ", "}[min(i, 1)], name)
		}
		b.WriteString("</li>")
	}
	return parseElement(`<ul class="flowchart">` + b.String() + `</ul>`)
}
