// Package cut shortens long texts, never inside of a character. Bytes and Runes return the beginning. The other functions mark the omission.
package cut

import (
	"strings"
	"unicode/utf8"
)

// Bytes returns the beginning of a text, at most limit bytes long.
func Bytes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Runes returns the first limit characters of a text.
func Runes(text string, limit int) string {
	for i := range text {
		if limit--; limit < 0 {
			return text[:i]
		}
	}
	return text
}

// End returns a valid UTF-8 text of at most limit bytes. A shortened one ends with "…".
func End(text string, limit int) string {
	if text = strings.ToValidUTF8(text, "\ufffd"); len(text) <= limit {
		return text
	}
	return Bytes(text, limit-len("…")) + "…"
}

// Middle returns a valid UTF-8 text of at most limit bytes. A shortened one has "..." in the middle.
func Middle(text string, limit int) string {
	if text = strings.ToValidUTF8(text, "\ufffd"); len(text) <= limit {
		return text
	}
	tail := (limit - len("...")) / 2
	head := limit - len("...") - tail
	end := len(text) - tail
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	return Bytes(text, head) + "..." + text[end:]
}

// Words returns a text of at most limit characters. A longer one is cut at the end of a word, unless that would remove more than a third, and ends with "…".
func Words(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	cut := limit - 1
	for i := cut; i > limit*2/3; i-- {
		if runes[i] == ' ' {
			cut = i
			break
		}
	}
	for cut > 0 && runes[cut-1] == ' ' {
		cut--
	}
	return string(runes[:cut]) + "…"
}
