package apirequest

import "strconv"

// NewerVersion reports whether resource version a equals b or is newer. Versions are opaque in principle, but increasing integers in practice. Other versions
// are newer only if equal. See https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
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

// VersionNumber returns a resource version as a number, or 0 for other versions, whose order is unknown.
func VersionNumber(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return n
}
