package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	goldmarkhtml "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"
)

// A section is a part of a page below a heading.
type section struct {
	Level         int
	Title, Anchor string
	text          string
}

// The repository's own HTML in Markdown is trusted: it contains the pictures.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(goldmarkhtml.WithUnsafe()))

// convert parses a page in Markdown.
func convert(source []byte) (*html.Node, error) {
	var b bytes.Buffer
	if err := markdown.Convert(source, &b); err != nil {
		return nil, err
	}
	return parse(b.String())
}

// dress converts a tree for the site: without comments, with callouts, colors, diagrams, and tables that scroll.
func dress(body *html.Node) {
	var comments []*html.Node
	for n := range body.Descendants() {
		if n.Type == html.CommentNode {
			comments = append(comments, n)
		}
	}
	for _, n := range comments {
		n.Parent.RemoveChild(n)
	}
	for _, quote := range elements(body, "blockquote") {
		dressCallout(quote)
	}
	for _, code := range elements(body, "code") {
		if language, ok := strings.CutPrefix(attribute(code, "class"), "language-"); ok && code.Parent.Data == "pre" {
			dressBlock(code, language)
		}
	}
	for _, table := range elements(body, "table") {
		wrap(table, element("div", []string{"class", "scroll"}))
	}
}

var callout = regexp.MustCompile(`^\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]\s*`)

// dressCallout converts a quotation to a callout if GitHub shows it as one.
func dressCallout(quote *html.Node) {
	paragraph := first(quote, "p")
	if paragraph == nil || paragraph.FirstChild == nil || paragraph.FirstChild.Type != html.TextNode {
		return
	}
	found := callout.FindStringSubmatch(paragraph.FirstChild.Data)
	if found == nil {
		return
	}
	paragraph.FirstChild.Data = paragraph.FirstChild.Data[len(found[0]):]
	if textOf(paragraph) == "" {
		quote.RemoveChild(paragraph)
	}
	kind := strings.ToLower(found[1])
	title := element("p", []string{"class", "callout-title"}, textNode(strings.ToUpper(kind[:1])+kind[1:]))
	box := element("div", []string{"class", "callout " + kind, "role", "note"}, title)
	for child := quote.FirstChild; child != nil; child = quote.FirstChild {
		quote.RemoveChild(child)
		box.AppendChild(child)
	}
	replace(quote, box)
}

// dressBlock colors a block of code, or draws its diagram.
func dressBlock(code *html.Node, language string) {
	text := textOf(code)
	if language == "mermaid" {
		if diagram, err := drawMermaid(text); err == nil {
			replace(code.Parent, diagram)
		}
		return // it is shown as its source
	}
	for child := code.FirstChild; child != nil; child = code.FirstChild {
		code.RemoveChild(child)
	}
	appendAll(code, highlight(text, language))
}

var (
	headings = []string{"h1", "h2", "h3", "h4", "h5", "h6"}
	blocks   = []string{"p", "li", "td", "th", "pre", "div"}
)

// divide sets the anchors of headings, and returns the sections for a table of contents.
func divide(body *html.Node) []section {
	counts := make(map[string]int)
	for _, h := range elements(body, headings...) {
		anchor := attribute(h, "id")
		if anchor == "" {
			anchor = anchorOf(textOf(h))
			if n := counts[anchor]; n > 0 {
				anchor, counts[anchor] = fmt.Sprintf("%s-%d", anchor, n), n+1
			} else {
				counts[anchor]++
			}
			setAttribute(h, "id", anchor)
		}
	}
	var sections []section
	for n := range body.Descendants() {
		switch {
		case n.Type == html.ElementNode && (n.Data == "h1" || n.Data == "h2" || n.Data == "h3"):
			title := strings.Join(strings.Fields(textOf(n)), " ")
			sections = append(sections, section{Level: int(n.Data[1] - '0'), Title: title, Anchor: attribute(n, "id")})
		case n.Type == html.TextNode && len(sections) > 0 && !within(n, "h1", "h2", "h3", "svg", "details"):
			sections[len(sections)-1].text += n.Data
		case n.Type == html.ElementNode && len(sections) > 0 && slices.Contains(blocks, n.Data):
			sections[len(sections)-1].text += " " // a word does not continue across elements
		}
	}
	return sections
}

// linkHeadings adds a link to itself to each heading. It runs after all code that reads the headings' texts.
func linkHeadings(body *html.Node) {
	for _, h := range elements(body, headings[1:]...) {
		link := element("a", []string{"class", "anchor", "href", "#" + attribute(h, "id"), "aria-label", "Link to: " + textOf(h)}, textNode("#"))
		h.AppendChild(link)
	}
}

// describe returns the text of the first paragraph, truncated at a word.
func describe(body *html.Node) string {
	for _, p := range elements(body, "p") {
		if text := strings.Join(strings.Fields(textOf(p)), " "); text != "" && !within(p, "div") {
			return shorten(text, 160)
		}
	}
	return ""
}

// shorten truncates a text at a word, if it has more bytes than the limit.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := strings.LastIndexByte(text[:limit], ' ')
	return text[:max(cut, 0)] + " …"
}
