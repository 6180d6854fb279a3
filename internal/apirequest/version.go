package apirequest

import "strconv"

// NewerVersion reports whether resource version a is b or newer. Versions are opaque in
// principle, and in practice whole numbers that grow; others are newer only if equal.
// See https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
func NewerVersion(a, b string) bool {
	if a == b {
		return true
	}
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	return err == nil && x > y
}

// VersionNumber returns a resource version as a number; 0 if it is none, for which nothing is known to be older or newer.
func VersionNumber(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return n
}
