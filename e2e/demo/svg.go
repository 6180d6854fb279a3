package main

import (
	"fmt"
	"html"
	"strings"
)

// The dimensions of the picture, in pixels and characters.
const (
	columns    = 80
	rows       = 20
	charWidth  = 7.8
	lineHeight = 19
	paneWidth  = columns*charWidth + 24
	paneHeight = rows*lineHeight + 52
)

// svg draws the terminals next to each other. Each line appears at its time and stays until the loop ends. With reduced motion, all lines are visible.
func (r *recording) svg() string {
	var out, styles strings.Builder
	times, length := r.schedule()
	titles := []string{"operator", "kubectl"}
	for i, pane := range r.panes {
		x := float64(i) * (paneWidth + 16)
		fmt.Fprintf(&out, `<rect x="%.0f" width="%.0f" height="%d" rx="8" fill="#161b22" stroke="#30363d"/>`+"\n", x, paneWidth, paneHeight)
		fmt.Fprintf(&out, `<text x="%.0f" y="24" fill="#8b949e">%s</text>`+"\n", x+12, titles[i])
		y := 52
		for j, l := range pane {
			class := fmt.Sprintf("p%dl%d", i, j)
			from := 100 * times[i][j] / length
			fmt.Fprintf(&styles, "@keyframes %[1]s{0%%,%.1[2]f%%{opacity:0}%.1[3]f%%,99%%{opacity:1}100%%{opacity:0}}.%[1]s{animation:%[1]s %.1[4]fs infinite}\n", class, from, from+0.1, length)
			for _, part := range wrap(l) {
				fmt.Fprintf(&out, `<text class="%s" x="%.0f" y="%d" fill="%s">%s</text>`+"\n", class, x+12, y, color(l), html.EscapeString(part))
				y += lineHeight
			}
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img">
<title>An operator with the embedded API server, next to kubectl</title>
<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}
%s@media (prefers-reduced-motion:reduce){text{animation:none!important}}</style>
%s</svg>
`, 2*paneWidth+16, paneHeight, styles.String(), out.String())
}

// schedule returns the time at which each line appears, in seconds, and the length of the loop.
func (r *recording) schedule() (times [2][]float64, length float64) {
	t := 0.5
	for step := range len(commands) + 1 {
		for _, i := range []int{1, 0} { // the operator's lines of a step follow the command that triggered them
			for _, l := range r.panes[i] {
				if l.step != step {
					continue
				}
				times[i] = append(times[i], t)
				if t += 0.15; l.typed {
					t += 1
				}
			}
		}
		t += 1.2
	}
	return times, t + 4
}

// wrap splits a line into parts of the terminal's width. It splits only commands and the output of kubectl, and truncates lines of the log.
func wrap(l line) []string {
	text := l.text
	if l.typed {
		text = "$ " + text
	}
	runes := []rune(text)
	if strings.HasPrefix(text, "INFO ") && len(runes) > columns {
		return []string{string(runes[:columns-1]) + "…"}
	}
	var parts []string
	for len(runes) > columns {
		at := columns
		for at > columns/2 && runes[at-1] != ' ' {
			at--
		}
		parts, runes = append(parts, string(runes[:at])), append([]rune("    "), runes[at:]...)
	}
	return append(parts, string(runes))
}

func color(l line) string {
	switch {
	case l.typed:
		return "#e6edf3"
	case strings.HasPrefix(l.text, "INFO"):
		return "#7ee787"
	}
	return "#c9d1d9"
}
