// Package webhookname makes names and paths of webhooks that API servers accept of any text, and compares entries of their configurations.
package webhookname

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// EscapePath returns a path with percent-encoded bytes.
func EscapePath(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; strings.IndexByte("_.-~/", c) >= 0 || isAlphanumeric(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// ServicePath returns a path as the API server takes it for a service: each of its segments is a subdomain as of RFC 1123. One that is none, such as
// the name of a function with a capital letter, becomes labels that resemble it, with a hash that makes them differ from those of other segments.
func ServicePath(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if !IsDomain(segment) {
			hash := fnv.New32a()
			hash.Write([]byte(segment))
			labels := Labels(segment)
			labels = strings.TrimRight(labels[:min(len(labels), 200)], "-.")
			segments[i] = strings.TrimLeft(fmt.Sprintf("%s-%08x", labels, hash.Sum32()), "-")
		}
	}
	return strings.Join(segments, "/")
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// Labels turns an id into labels of a domain name.
func Labels(id string) string {
	var b strings.Builder
	for i := range len(id) {
		switch c := id[i]; {
		case c == '/':
			b.WriteByte('.')
		case c == '_':
			b.WriteByte('-')
		case c == '.' || c == '-' || isAlphanumeric(c):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%02x", c)
		}
	}
	var labels []string
	for label := range strings.SplitSeq(strings.ToLower(b.String()), ".") {
		if label = strings.Trim(label, "-"); label != "" {
			labels = append(labels, label)
		}
	}
	return strings.Join(labels, ".")
}

// IsDomain reports whether a text is a domain name in lower case.
func IsDomain(text string) bool {
	if len(text) > 253 {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		bad := strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
		if bad || len(label) > 63 || cmp.Or(strings.Trim(label, "-"), "?") != label {
			return false
		}
	}
	return true
}

// SameExceptRules reports whether two entries of webhook configurations differ in their names and rules alone.
func SameExceptRules(a, b map[string]any) bool {
	for key, value := range a {
		if key != "name" && key != "rules" && !rawjson.EqualNormalized(value, b[key]) {
			return false
		}
	}
	return true
}
