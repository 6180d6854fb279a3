package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestChart(t *testing.T) {
	c := chart{title: "a < b", x: "objects", y: "CPU, s", lines: []line{
		{"kopf", []point{{1000, 0.05}, {10_000, 0.5}, {500_000, 30}}},
		{"other", []point{{1000, 0.1}}},
	}}
	svg := c.svg()
	dec := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"a &lt; b", ">objects<", ">CPU, s<", ">kopf<", ">other<", ">100 k<", ">1 k<", `points="76.0,`} {
		if !strings.Contains(svg, want) {
			t.Errorf("the drawing lacks %q", want)
		}
	}
	if strings.Contains(svg, "%!") || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("the drawing is not well written: %s", svg)
	}
}

func TestTicks(t *testing.T) {
	a := axis{from: 3, to: 45}
	if low, high := a.below(), a.above(); low != 2 || high != 50 {
		t.Errorf("the axis is from %v to %v, want 2 to 50", low, high)
	}
	for _, x := range []axis{{from: 1, to: 1}, {from: 0.2, to: 0.5}, {from: 1000, to: 500_000}} {
		if got := x.ticks(); len(got) == 0 {
			t.Errorf("no ticks from %v to %v", x.from, x.to)
		}
	}
}
