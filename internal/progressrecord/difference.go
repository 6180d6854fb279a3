package progressrecord

import (
	"fmt"
	"strconv"
	"strings"
)

// Difference encodes a text as its difference from a base: the lengths of the common beginning and end, and the bytes between.
func Difference(base, text []byte) string {
	most := min(len(text), len(base))
	head, tail := 0, 0
	for head < most && text[head] == base[head] {
		head++
	}
	for tail < most-head && text[len(text)-1-tail] == base[len(base)-1-tail] {
		tail++
	}
	return fmt.Sprintf("%d %d %s", head, tail, text[head:len(text)-tail])
}

// Restore decodes a difference from a base, and reports whether it is valid.
func Restore(base []byte, difference string) (text []byte, ok bool) {
	parts := strings.SplitN(difference, " ", 3)
	if len(parts) < 3 {
		return nil, false
	}
	head, failed := strconv.Atoi(parts[0])
	tail, wrong := strconv.Atoi(parts[1])
	if failed != nil || wrong != nil || min(head, tail) < 0 || head > len(base) || tail > len(base)-head {
		return nil, false
	}
	text = append(text, base[:head]...)
	text = append(text, parts[2]...)
	return append(text, base[len(base)-tail:]...), true
}
