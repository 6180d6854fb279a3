// Package suggest finds the word that was probably meant by one with a typing error.
package suggest

import (
	"strings"
	"unicode/utf8"
)

// Nearest returns the word among some that is nearest to a given one: with the fewest typing errors, which are at most 2, at most 1 in a word of
// less than 8 letters, and none in one of less than 3. Of words that are as near, the first one wins. It returns "" if none is near. Upper and
// lower case are the same.
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

// Distance returns how many letters are to be added, left out, replaced, or exchanged with their neighbor, to turn one word into another; a limit
// and more are the same.
func Distance(from, to string, limit int) int {
	a, b := []rune(from), []rune(to)
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	var before, last []int // of the letters of a before the last two
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
