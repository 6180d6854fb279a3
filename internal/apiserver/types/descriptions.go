package types

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed descriptions.txt
var descriptionsText string

// Description is the description of a type in OpenAPI documents.
type Description struct {
	Text   string
	Fields map[string]string // the descriptions of its fields, by their names
}

// Description returns the description of the type in OpenAPI documents, which may be empty.
func (t *Type) Description() Description { return descriptions()[t] }

func descriptions() map[*Type]Description {
	lazyDescriptions.once.Do(func() { lazyDescriptions.value = makeDescriptions() })
	return lazyDescriptions.value
}

// lazyDescriptions is made on first use, by a function, because an initial value would take memory in every operator.
var lazyDescriptions struct {
	once  sync.Once
	value map[*Type]Description
}

func makeDescriptions() map[*Type]Description {
	all := make(map[*Type]Description)
	paragraphs := strings.Split(strings.TrimSpace(descriptionsText), "\n\n")
	for _, paragraph := range paragraphs[1:] { // the first one is a comment
		lines := strings.Split(paragraph, "\n")
		name, text, _ := strings.Cut(lines[0], " ")
		d := Description{Text: text, Fields: make(map[string]string)}
		for _, line := range lines[1:] {
			name, text, _ := strings.Cut(line, " ")
			d.Fields[name] = text
		}
		all[Named(name)] = d
	}
	return all
}
