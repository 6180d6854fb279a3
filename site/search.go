package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// An index is the data of the search script.
type index struct {
	Pages    [][3]string      `json:"pages"`    // their paths, their titles, and their titles in links
	Sections [][3]any         `json:"sections"` // the number of the page, the anchor and the heading
	Words    map[string][]int `json:"words"`    // the sections of a word: the number of the first, and the distance to each next one; none for a common word
}

// searchIndex returns the index as a script, not as plain JSON, so that it also works for pages that are opened as files.
func (s *site) searchIndex() ([]byte, error) {
	all := &index{Words: make(map[string][]int)}
	for _, p := range s.pages {
		all.add(p)
	}
	for word, sections := range all.Words {
		if len(sections) > len(all.Sections)/6 {
			all.Words[word] = []int{}
		}
		for i := len(sections) - 1; i > 0; i-- {
			sections[i] -= sections[i-1]
		}
	}
	data, err := json.Marshal(all)
	return slices.Concat([]byte("searchIndex = "), data, []byte(";\n")), err
}

func (x *index) add(p *page) {
	x.Pages = append(x.Pages, [3]string{p.Path, p.Label, strings.Join(p.called, ", ")})
	for _, section := range p.Sections {
		if section.Level == 1 {
			section.Anchor = "" // the top of the page
		}
		number := len(x.Sections)
		x.Sections = append(x.Sections, [3]any{len(x.Pages) - 1, section.Anchor, section.Title})
		for _, word := range words(section.text) {
			x.Words[word] = append(x.Words[word], number)
		}
	}
}

var nameParts = regexp.MustCompile(`\p{Lu}+\p{Ll}*|\p{Ll}+`)

// words returns the words of a text, sorted and unique, without numbers and single letters. A name such as RequestRate counts as three words, so that its
// parts are searchable.
func words(text string) []string {
	var all []string
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		for _, part := range append(nameParts.FindAllString(word, -1), word) {
			if len(part) > 1 && !unicode.IsDigit(rune(part[0])) {
				all = append(all, strings.ToLower(part))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
