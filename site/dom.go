package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// This file has helpers for trees of HTML.

// parse parses HTML below a new element.
func parse(text string) (*html.Node, error) {
	body := &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body}
	nodes, err := html.ParseFragment(strings.NewReader(text), body)
	if err != nil {
		return nil, err
	}
	appendAll(body, nodes)
	return body, nil
}

// parseElement returns the tree of a text that is one element.
func parseElement(text string) (*html.Node, error) {
	body, err := parse(text)
	if err != nil {
		return nil, err
	}
	n := body.FirstChild
	body.RemoveChild(n)
	return n, nil
}

// render returns the HTML of a node's children.
func render(n *html.Node) (string, error) {
	var b strings.Builder
	for child := range n.ChildNodes() {
		if err := html.Render(&b, child); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func textNode(text string) *html.Node { return &html.Node{Type: html.TextNode, Data: text} }

// element returns an element. The attributes are alternating names and values.
func element(name string, attributes []string, children ...*html.Node) *html.Node {
	n := &html.Node{Type: html.ElementNode, Data: name, DataAtom: atom.Lookup([]byte(name))}
	for pair := range slices.Chunk(attributes, 2) {
		n.Attr = append(n.Attr, html.Attribute{Key: pair[0], Val: pair[1]})
	}
	appendAll(n, children)
	return n
}

func appendAll(n *html.Node, children []*html.Node) {
	for _, child := range children {
		n.AppendChild(child)
	}
}

// elements returns the elements with the names below a node, in order. The tree may change during iteration.
func elements(n *html.Node, names ...string) []*html.Node {
	var found []*html.Node
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && slices.Contains(names, d.Data) {
			found = append(found, d)
		}
	}
	return found
}

// first returns the first of the elements, nil if there is none.
func first(n *html.Node, names ...string) *html.Node {
	if found := elements(n, names...); len(found) > 0 {
		return found[0]
	}
	return nil
}

// within reports whether a node is inside of an element with one of the names.
func within(n *html.Node, names ...string) bool {
	for a := range n.Ancestors() {
		if slices.Contains(names, a.Data) {
			return true
		}
	}
	return false
}

// replace replaces a node by another one.
func replace(old, n *html.Node) {
	old.Parent.InsertBefore(n, old)
	old.Parent.RemoveChild(old)
}

// wrap puts an element around a node.
func wrap(n, around *html.Node) {
	n.Parent.InsertBefore(around, n)
	n.Parent.RemoveChild(n)
	around.AppendChild(n)
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func setAttribute(n *html.Node, name, value string) {
	for i := range n.Attr {
		if n.Attr[i].Key == name {
			n.Attr[i].Val = value
			return
		}
	}
	n.Attr = append(n.Attr, html.Attribute{Key: name, Val: value})
}

// textOf returns the visible text below a node.
func textOf(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// anchorOf returns GitHub's anchor of a heading, without the number of a repeated one.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

func lineAnchor(line int) string { return fmt.Sprintf("L%d", line) }
