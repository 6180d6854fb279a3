//go:build race

package kopf

// racing tells that the race detector is on, with which everything takes ten times as long.
const racing = true
