package main

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// An index is what the script searches.
type index struct {
	Pages    [][2]string      `json:"pages"`    // their paths and titles
	Sections [][3]any         `json:"sections"` // the number of the page, the anchor and the heading
	Words    map[string][]int `json:"words"`    // the sections of a word: the number of the first, and the distance to each next one
}

// searchIndex returns the index. As a script, rather than plain JSON, it can be loaded by a page that is opened as a file.
func (s *site) searchIndex() ([]byte, error) {
	all := &index{Words: make(map[string][]int)}
	for _, p := range s.pages {
		all.add(p)
	}
	for _, sections := range all.Words {
		for i := len(sections) - 1; i > 0; i-- {
			sections[i] -= sections[i-1]
		}
	}
	data, err := json.Marshal(all)
	return slices.Concat([]byte("searchIndex = "), data, []byte(";\n")), err
}

func (x *index) add(p *page) {
	x.Pages = append(x.Pages, [2]string{p.Path, p.Label})
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

// words returns the words of a text in order, each of them once, without numbers and single letters.
func words(text string) []string {
	all := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	all = slices.DeleteFunc(all, func(word string) bool { return len(word) < 2 || unicode.IsDigit(rune(word[0])) })
	slices.Sort(all)
	return slices.Compact(all)
}
