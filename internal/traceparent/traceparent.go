// Package traceparent reads the header "traceparent" of W3C Trace Context.
package traceparent

import "strings"

// maxLength is the longest header that is read, in bytes. That of version 00 has 55; later versions may add parts.
const maxLength = 512

// Parent is a span as the header has it.
type Parent struct {
	TraceID string // 32 hexadecimal digits
	SpanID  string // 16 hexadecimal digits
	Sampled bool   // whether the span is recorded
}

// Parse reads a header, and reports whether it is valid. Headers of later versions than 00 may have more flags and parts.
func Parse(header string) (p Parent, ok bool) {
	parts := strings.SplitN(header[:min(len(header), maxLength)], "-", 5)
	if len(header) > maxLength || len(parts) < 4 {
		return Parent{}, false
	}
	version, flags := parts[0], parts[3]
	if !isHex(version, 2) || version == "ff" || version == "00" && len(parts) > 4 || !isID(parts[1], 32) || !isID(parts[2], 16) || !isHex(flags, 2) {
		return Parent{}, false
	}
	return Parent{TraceID: parts[1], SpanID: parts[2], Sampled: strings.IndexByte("13579bdf", flags[1]) >= 0}, true // its lowest bit
}

// isID reports whether a text is an id with so many digits, which are not all zero.
func isID(text string, digits int) bool { return isHex(text, digits) && strings.Trim(text, "0") != "" }

// isHex reports whether a text has so many hexadecimal digits, in lower case, and nothing else.
func isHex(text string, digits int) bool {
	return len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}
