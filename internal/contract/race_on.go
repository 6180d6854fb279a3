//go:build race

package contract

// raceDetector is whether the tests run with the race detector, which makes them many times slower.
const raceDetector = true
