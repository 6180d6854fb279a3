//go:build noembed && !livepage

package livepage

// Included reports whether this build has the live page and its record of decisions.
const Included = false
