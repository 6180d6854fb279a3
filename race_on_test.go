//go:build race

package kopf

// racing reports whether the race detector is on, which makes all code about ten times slower.
const racing = true
