//go:build noembed

package embedded

// Included reports whether the command line of this build has the embedded server.
const Included = false
