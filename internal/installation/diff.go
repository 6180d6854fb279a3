package installation

import (
	"fmt"
	"strings"
)

// lines splits a text into lines with their line ends. The last line may have none.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	all := strings.SplitAfter(text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// diffContext is the number of unchanged lines around a difference.
const diffContext = 3

// diff returns one hunk, from the first to the last difference of two lists of lines. A very long hunk removes and adds all lines.
func diff(before, after []string) string {
	start := 0
	for start < min(len(before), len(after)) && before[start] == after[start] {
		start++
	}
	end := 0
	for end < min(len(before), len(after))-start && before[len(before)-1-end] == after[len(after)-1-end] {
		end++
	}
	lead, trail := min(start, diffContext), min(end, diffContext)
	from, to := before[start-lead:len(before)-end+trail], after[start-lead:len(after)-end+trail]
	var b strings.Builder
	fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", min(start-lead+1, len(before)), len(from), min(start-lead+1, len(after)), len(to))
	if len(from)*len(to) > maxCommon {
		for _, l := range from {
			b.WriteString(line("-", l))
		}
		for _, l := range to {
			b.WriteString(line("+", l))
		}
		return b.String()
	}
	common := common(from, to)
	i, j := 0, 0
	for i < len(from) || j < len(to) {
		switch {
		case i < len(from) && j < len(to) && from[i] == to[j]:
			b.WriteString(line(" ", from[i]))
			i, j = i+1, j+1
		case i < len(from) && (j == len(to) || common[i+1][j] >= common[i][j+1]):
			b.WriteString(line("-", from[i]))
			i++
		default:
			b.WriteString(line("+", to[j]))
			j++
		}
	}
	return b.String()
}

// line returns a line of a diff, with a note if the last line of a file has no line end.
func line(sign, text string) string {
	if body, ok := strings.CutSuffix(text, "\n"); ok {
		return sign + body + "\n"
	}
	return sign + text + "\n\\ No newline at end of file\n"
}

// maxCommon limits the pairs of lines to compare, to use at most 16 MB.
const maxCommon = 4 << 20

// common returns the length of the longest common subsequence for each pair of suffixes.
func common(a, b []string) [][]int32 {
	all := make([][]int32, len(a)+1)
	for i := range all {
		all[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				all[i][j] = all[i+1][j+1] + 1
			} else {
				all[i][j] = max(all[i+1][j], all[i][j+1])
			}
		}
	}
	return all
}
