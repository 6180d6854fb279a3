// Package suggest corrects misspelled words.
package suggest

import (
	"strings"
	"unicode/utf8"
)

// Nearest returns the most similar word: with at most 2 typing errors, at most 1 in a word of less than 8 letters, and none in one of less than 3. The first of
// equally similar words wins. It returns "" if none is similar. It ignores case.
func Nearest(word string, among []string) string {
	nearest, best := "", 3
	switch letters := utf8.RuneCountInString(word); {
	case letters < 3:
		best = 1
	case letters < 8:
		best = 2
	}
	for _, other := range among {
		if d := Distance(strings.ToLower(word), strings.ToLower(other), best); d < best {
			nearest, best = other, d
		}
	}
	return nearest
}

// Distance returns the number of letters to add, remove, replace, or exchange with their neighbor, to turn one word into another, up to a limit.
func Distance(from, to string, limit int) int {
	a, b := []rune(from), []rune(to)
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	var before, last []int // rows for the two preceding letters of a
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			row[j+1] = min(last[j+1], row[j]) + 1
			if a[i] == b[j] {
				row[j+1] = min(row[j+1], last[j])
			} else {
				row[j+1] = min(row[j+1], last[j]+1)
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return min(row[len(b)], limit)
}
