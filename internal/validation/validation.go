// Package validation validates Kubernetes names, and the intervals of timers.
package validation

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// IsVersion reports whether a text is a Kubernetes version: v1, v1beta2, v2alpha1.
func IsVersion(text string) bool {
	rest, ok := strings.CutPrefix(text, "v")
	for i, word := range []string{"", "alpha", "beta"} {
		major, minor, found := strings.Cut(rest, word)
		if i == 0 {
			if ok && rawjson.IsDigits(rest) {
				return true
			}
		} else if ok && found && rawjson.IsDigits(major) && rawjson.IsDigits(minor) {
			return true
		}
	}
	return false
}

// CompareVersions orders versions as Kubernetes does: v2, v1, v2beta1, v1alpha1, and then all others by name. See
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
func CompareVersions(a, b string) int {
	x, y := versionRank(a), versionRank(b)
	if c := slices.Compare(x[:], y[:]); c != 0 {
		return c
	}
	return -strings.Compare(a, b)
}

func versionRank(v string) (rank [3]int) {
	if !IsVersion(v) {
		return rank
	}
	rest := v[1:]
	for i, word := range []string{"alpha", "beta"} {
		if major, minor, ok := strings.Cut(rest, word); ok {
			return [3]int{i + 1, Number(major), Number(minor)}
		}
	}
	return [3]int{3, Number(rest), 0}
}

// Number returns the value of decimal digits, at most 1<<30.
func Number(text string) int {
	n := 0
	for _, c := range text {
		n = min(n*10+int(c-'0'), 1<<30)
	}
	return n
}

// IsName reports whether a text consists of letters and digits, with the given signs only between them.
func IsName(text, signs string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return text != "" && strings.Trim(text, plain+signs) == "" && strings.Trim(text, signs) == text
}

// IsDNSLabel reports whether a text is a label (RFC 1123) of any length.
func IsDNSLabel(text string) bool { return IsName(text, "-") && strings.ToLower(text) == text }

// IsDNSSubdomain reports whether a text is a subdomain (RFC 1123) of any length.
func IsDNSSubdomain(text string) bool {
	for _, label := range strings.Split(text, ".") {
		if !IsDNSLabel(label) {
			return false
		}
	}
	return true
}

// IsObjectName reports whether a text is a valid name for objects of most kinds: a subdomain of at most 253 characters.
func IsObjectName(text string) bool { return len(text) <= 253 && IsDNSSubdomain(text) }

// IsNamespaceName reports whether a text is a valid namespace name: a label of at most 63 characters.
func IsNamespaceName(text string) bool { return len(text) <= 63 && IsDNSLabel(text) }

// ObjectName and NamespaceName describe valid names in errors.
const (
	ObjectName    = `at most 253 lower-case letters, digits, "-" and "."`
	NamespaceName = `at most 63 lower-case letters, digits and "-"`
)

// IsQualifiedName reports whether a text is a name of at most 63 characters, after an optional subdomain of at most 253 and a slash. See
// https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
func IsQualifiedName(text string) bool {
	domain, name, ok := strings.Cut(text, "/")
	if !ok {
		domain, name = "", text
	}
	return (!ok || len(domain) <= 253 && IsDNSSubdomain(domain)) && len(name) <= 63 && IsName(name, "-_.")
}

// maxFieldManager is the maximum length of field managers at API servers, in bytes.
const maxFieldManager = 128

// FieldManager returns an error for a name that API servers refuse as a field manager. The name may be empty.
func FieldManager(name string) error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(name) > maxFieldManager || strings.ContainsFunc(name, unprintable) {
		return fmt.Errorf("%q: want at most %d bytes, and printable characters only", name, maxFieldManager)
	}
	return nil
}
