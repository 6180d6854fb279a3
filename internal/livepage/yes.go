//go:build !noembed || livepage

package livepage

// Included reports whether this build has the live page and its record of decisions. Builds with the tag noembed have it only with the tag livepage.
const Included = true
