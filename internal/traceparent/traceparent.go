// Package traceparent parses the header "traceparent" of W3C Trace Context.
package traceparent

import "strings"

// maxLength is the maximum length of a header, in bytes. Headers of version 00 have 55; later versions may add parts.
const maxLength = 512

// Parent is the span in a header.
type Parent struct {
	TraceID string // 32 hexadecimal digits
	SpanID  string // 16 hexadecimal digits
	Sampled bool   // the span is recorded
}

// Parse parses a header, and reports whether it is valid. Versions after 00 may have more flags and parts.
func Parse(header string) (p Parent, ok bool) {
	parts := strings.SplitN(header[:min(len(header), maxLength)], "-", 5)
	if len(header) > maxLength || len(parts) < 4 {
		return Parent{}, false
	}
	version, flags := parts[0], parts[3]
	if !isHex(version, 2) || version == "ff" || version == "00" && len(parts) > 4 || !isID(parts[1], 32) || !isID(parts[2], 16) || !isHex(flags, 2) {
		return Parent{}, false
	}
	return Parent{TraceID: parts[1], SpanID: parts[2], Sampled: strings.IndexByte("13579bdf", flags[1]) >= 0}, true // lowest bit
}

// isID reports whether a text is an id with a number of digits, which are not all zero.
func isID(text string, digits int) bool { return isHex(text, digits) && strings.Trim(text, "0") != "" }

// isHex reports whether a text consists of a number of lower-case hexadecimal digits.
func isHex(text string, digits int) bool {
	return len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}
