// Package proof sets how many rounds the random, stress and chaos tests have: a few by default, so that all tests take little time, many for "make proof",
// and still fewer with -short, for a run under the race detector.
package proof

import (
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable that asks for many rounds. It has a boolean value, such as 1. Others
// panic, so that no proof has few rounds by mistake.
const Variable = "KOPF_PROOF"

// Full reports whether the tests are to have many rounds.
func Full() bool {
	value := os.Getenv(Variable)
	if value == "" {
		return false
	}
	full, err := strconv.ParseBool(value)
	if err != nil {
		panic(Variable + ": want 1 or nothing, not " + strconv.Quote(value))
	}
	return full
}

// Rounds returns the number of rounds of a test: few by default, many for a full proof, and a quarter of the few with -short,
// but at least one. The fewer rounds must be the first of the many, with the same seeds, so that a failure of either run can be
// repeated by the other one.
func Rounds(few, many int) int {
	switch {
	case Full():
		return many
	case testing.Short():
		return max(1, few/4)
	}
	return few
}
