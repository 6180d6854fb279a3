//go:build !race

package contract

// raceDetector reports whether the tests run with the race detector, which makes them many times slower.
const raceDetector = false
