package e2e

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"strings"
)

// This file creates random values, and random text that is often valid YAML.

func newReader(data []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(data)) }

var randomWords = []string{
	"", "a", "b", "key", "yes", "No", "on", "off", "null", "~", "true", "0", "-1", "12", "0777", "0o17", "0x1F", "0b11", "1e3", "1.5",
	".5", "1_000", "12:30", "1:2:3", "+1", "-.inf", ".nan", "2001-01-01", "2001-01-01T00:00:00Z", "9223372036854775808", "1.0",
	"a: b", "a #b", "#c", "- x", "[x]", "{x", "*x", "&x y", "!x", "%x", "@x", "`x", "|", ">", "'", "\"", "a'b", "a\"b", ":", "a:", ":a", "?", "? x",
	"-", "--", "---", "...", "=", "<<", " lead", "trail ", "two\nlines", "\n", "tab\t", "é", "日本", "\u2028", "\\", "e", "y", "n", "Y",
}

func randomText(r *rand.Rand) string {
	words := make([]string, 1+r.IntN(2))
	for i := range words {
		words[i] = randomWords[r.IntN(len(randomWords))]
	}
	return strings.Join(words, " ")
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(10); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range r.IntN(4) {
			m[randomText(r)] = randomValue(r, depth-1)
		}
		return m
	case n < 5 && depth > 0:
		l := []any{}
		for range r.IntN(4) {
			l = append(l, randomValue(r, depth-1))
		}
		return l
	case n == 5:
		return r.Int64() >> r.IntN(64)
	case n == 6:
		return r.NormFloat64() * float64(r.IntN(1e6))
	case n == 7:
		return []any{nil, true, false, "", map[string]any{}, []any{}}[r.IntN(6)]
	default:
		return randomText(r)
	}
}

// randomTokens contain no tabs, of which kopf accepts a few more than kubectl.
var randomTokens = []string{
	"\n", "\n", "\n", "\n  ", "\n  ", "\n    ", " ", " ", " ", "  ", ": ", ": ", ":", "- ", "- ", "-", "? ", "[", "]", "{", "}", ", ", ",",
	"a", "b", "c", "x y", "1", "0x1f", "010", "1.50", "yes", "null", "~", "'", "''", "'q'", "\"", "\"d\"", "\"\\n\\u00e9\"", "# c", "#", " #",
	"|", "|-", "|+", "|2", ">", ">-", ">1-", "&x ", "*x", "!!str ", "!!int ", "!!float ", "!!bool ", "!!null ", "!t ", "<<: ", "---", "%", "@", "é",
	"\u0085", "\u2028", "\u2029  ", "\u00a0", "😀",
}

func randomSyntax(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(9) {
		b.WriteString(randomTokens[r.IntN(len(randomTokens))])
	}
	return b.String()
}
