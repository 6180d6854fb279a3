package main

import (
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"golang.org/x/net/html"
)

// tokens returns the tokens of a text, by line. An unknown language has only plain text.
func tokens(text, language string) [][]chroma.Token {
	lexer := lexers.Get(language)
	if lexer == nil {
		lexer = lexers.Fallback
	}
	iterator, err := chroma.Coalesce(lexer).Tokenise(nil, text)
	if err != nil {
		return [][]chroma.Token{{{Type: chroma.Text, Value: text}}}
	}
	return chroma.SplitTokensIntoLines(iterator.Tokens())
}

// tokenNode returns the node for a token: text, in a span if the style sheet has a color for it.
func tokenNode(token chroma.Token) *html.Node {
	class := ""
	switch kind := token.Type; {
	case kind.InCategory(chroma.Comment):
		class = "c"
	case kind.InCategory(chroma.Keyword):
		class = "k"
	case kind.InSubCategory(chroma.LiteralString):
		class = "s"
	case kind.InSubCategory(chroma.LiteralNumber):
		class = "m"
	case kind == chroma.NameFunction, kind == chroma.NameTag:
		class = "f"
	}
	if class == "" || strings.TrimSpace(token.Value) == "" {
		return textNode(token.Value)
	}
	return element("span", []string{"class", class}, textNode(token.Value))
}

// highlight returns the nodes of a text in a language.
func highlight(text, language string) []*html.Node {
	var nodes []*html.Node
	for _, line := range tokens(text, language) {
		for _, token := range line {
			nodes = append(nodes, tokenNode(token))
		}
	}
	return nodes
}

// highlightFile returns the nodes of a file, whose lines have the anchors of GitHub.
func highlightFile(text, name string) []*html.Node {
	language := ""
	if lexer := lexers.Match(name); lexer != nil {
		language = lexer.Config().Name
	}
	var nodes []*html.Node
	for i, line := range tokens(text, language) {
		row := element("span", []string{"class", "line", "id", lineAnchor(i + 1)})
		for _, token := range line {
			row.AppendChild(tokenNode(token))
		}
		nodes = append(nodes, row)
	}
	return nodes
}
