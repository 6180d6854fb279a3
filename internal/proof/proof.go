// Package proof sets how many rounds the random, stress and chaos tests have: a few by default, so that all tests take little time, and many for "make proof".
package proof

import "os"

// Variable is the environment variable that asks for many rounds. Any value but the empty one does.
const Variable = "KOPF_PROOF"

// Full reports whether the tests are to have many rounds.
func Full() bool { return os.Getenv(Variable) != "" }

// Rounds returns the number of rounds of a test: few by default, and many for a full proof. The few rounds must be the first of the many, with the
// same seeds, so that a failure of either run can be repeated by the other one.
func Rounds(few, many int) int {
	if Full() {
		return many
	}
	return few
}
