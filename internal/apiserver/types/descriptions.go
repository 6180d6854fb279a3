package types

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:embed descriptions.txt
var descriptionsText string

// Description is what the OpenAPI documents show of a type.
type Description struct {
	Text   string
	Fields []Field // with their descriptions
}

// Description returns what the OpenAPI documents show of the type, nil if they do not show it.
func (t *Type) Description() *Description { return descriptions()[t] }

func descriptions() map[*Type]*Description {
	lazyDescriptions.once.Do(func() { lazyDescriptions.value = makeDescriptions() })
	return lazyDescriptions.value
}

// lazyDescriptions is made when it is first asked for, by a function, because an initial value would be in every operator.
var lazyDescriptions struct {
	once  sync.Once
	value map[*Type]*Description
}

func makeDescriptions() map[*Type]*Description {
	all := make(map[*Type]*Description)
	paragraphs := strings.Split(strings.TrimSpace(descriptionsText), "\n\n")
	for _, paragraph := range paragraphs[1:] { // the first one is a comment
		lines := strings.Split(paragraph, "\n")
		name, text, _ := strings.Cut(lines[0], " ")
		d := &Description{Text: text}
		for _, line := range lines[1:] {
			word, text, _ := strings.Cut(line, " ")
			f := shownField(Named(name), word)
			f.Description = text
			d.Fields = append(d.Fields, f)
		}
		all[Named(name)] = d
	}
	return all
}

// shownField returns the field with a name. A word that is no name is a field that documents show
// in place of the real one.
func shownField(t *Type, word string) Field {
	if i := slices.IndexFunc(t.fields, func(f Field) bool { return f.Name == word }); i >= 0 {
		return t.fields[i]
	}
	f := parseFieldsOf([]string{word})[0]
	f.Ref = Named(f.Type)
	return f
}
