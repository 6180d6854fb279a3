//go:build !noembed || livepage

package livepage

// Included is whether this build has the live page, and what it shows of decisions: builds with the tag noembed do only with the tag livepage, too.
const Included = true
