//go:build noembed && !livepage

package livepage

// Included is whether this build has the live page, and what it shows of decisions.
const Included = false
