package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// chart is a plot of lines with two logarithmic axes, for a page with a light or a dark background.
type chart struct {
	file        string
	title, x, y string // the labels of the axes, with the units
	lines       []line
}

type line struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

// The size of the picture, and the frame of the axes in it, in pixels.
const (
	width, height            = 720, 400
	left, right, top, bottom = 76, 700, 84, 340
)

// colors are distinguishable on both backgrounds. The dashes help people with color blindness.
var colors = []string{"#2f81f7", "#e16f24", "#8957e5", "#2da44e"}

var dashes = []string{"", "7 4", "2 4", "10 4 2 4"}

const style = `text{font:13px system-ui,sans-serif;fill:#57606a}.title{font-size:15px;font-weight:600;fill:#24292f}.grid{stroke:#8c959f;stroke-opacity:.35}.axis{stroke:#8c959f}` +
	`@media(prefers-color-scheme:dark){text{fill:#9da7b1}.title{fill:#e6edf3}}`

// svg returns the picture.
func (c chart) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img"><title>%s</title><style>%s</style>`+"\n",
		width, height, escaped(c.title), style)
	fmt.Fprintf(&b, `<text class="title" x="%d" y="22">%s</text>`+"\n", left, escaped(c.title))
	xs, ys := c.axes()
	for _, v := range xs.ticks() {
		at := xs.place(v)
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %dV%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", at, top, bottom, at, bottom+20, short(v))
	}
	for _, v := range ys.ticks() {
		at := ys.place(v)
		fmt.Fprintf(&b, `<path class="grid" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left, at, right, left-8, at+4, short(v))
	}
	fmt.Fprintf(&b, `<path class="axis" fill="none" d="M%d %dV%dH%d"/>`+"\n", left, top, bottom, right)
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+right)/2, height-12, escaped(c.x))
	fmt.Fprintf(&b, `<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+bottom)/2, escaped(c.y))
	for i, l := range c.lines {
		l.draw(&b, i, xs, ys)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// draw draws one line and its place in the legend, which is two columns above the frame.
func (l line) draw(b *strings.Builder, i int, xs, ys axis) {
	color, dash := colors[i%len(colors)], dashes[i%len(dashes)]
	var points, dots strings.Builder
	for _, p := range l.points {
		fmt.Fprintf(&points, "%.1f,%.1f ", xs.place(p.x), ys.place(p.y))
		fmt.Fprintf(&dots, `<circle cx="%.1f" cy="%.1f" r="3.5"><title>%s: %s</title></circle>`, xs.place(p.x), ys.place(p.y), short(p.x), short(p.y))
	}
	fmt.Fprintf(b, `<g fill="%s"><polyline fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s" points="%s"/>%s</g>`+"\n",
		color, color, dash, strings.TrimSpace(points.String()), dots.String())
	x, y := left+i%2*320, 42+i/2*20
	fmt.Fprintf(b, `<path stroke="%s" stroke-width="2" stroke-dasharray="%s" d="M%d %dh28"/><text x="%d" y="%d">%s</text>`+"\n", color, dash, x, y, x+36, y+4, escaped(l.name))
}

// axes returns the two axes, each as long as the lines need.
func (c chart) axes() (x, y axis) {
	x, y = axis{from: math.Inf(1), start: left, end: right}, axis{from: math.Inf(1), start: bottom, end: top}
	for _, l := range c.lines {
		for _, p := range l.points {
			x.take(p.x)
			y.take(p.y)
		}
	}
	y.from, y.to = y.below(), y.above()
	return x, y
}

// axis is a logarithmic scale between two positions.
type axis struct {
	from, to   float64
	start, end float64
}

func (a *axis) take(v float64) {
	a.from, a.to = min(a.from, v), max(a.to, v)
}

func (a axis) place(v float64) float64 {
	if a.to == a.from {
		return (a.start + a.end) / 2
	}
	return a.start + (a.end-a.start)*math.Log(v/a.from)/math.Log(a.to/a.from)
}

// below and above return the ticks around all values.
func (a axis) below() float64 {
	for _, step := range []float64{5, 2, 1} {
		if v := step * math.Pow(10, math.Floor(math.Log10(a.from))); v <= a.from {
			return v
		}
	}
	return a.from
}

func (a axis) above() float64 {
	for _, step := range []float64{1, 2, 5, 10} {
		if v := step * math.Pow(10, math.Floor(math.Log10(a.to))); v >= a.to {
			return v
		}
	}
	return a.to
}

// ticks returns the powers of ten, and their doubles and halves if these are few.
func (a axis) ticks() []float64 {
	steps := []float64{1, 2, 5}
	if a.to/a.from > 1000 {
		steps = steps[:1]
	}
	var all []float64
	for power := math.Floor(math.Log10(a.from)); power <= math.Ceil(math.Log10(a.to)); power++ {
		for _, step := range steps {
			if v := step * math.Pow(10, power); v >= a.from*0.999 && v <= a.to*1.001 {
				all = append(all, v)
			}
		}
	}
	return all
}

// short formats a number for an axis.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + " M"
	case v >= 1000:
		return strconv.FormatFloat(v/1e3, 'g', 3, 64) + " k"
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder returns no errors
	return b.String()
}

// write draws the chart into a folder.
func (c chart) write(folder string) error {
	return os.WriteFile(filepath.Join(folder, c.file), []byte(c.svg()), 0o644)
}
