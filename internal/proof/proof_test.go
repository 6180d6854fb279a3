package proof

import "testing"

func TestRounds(t *testing.T) {
	for value, want := range map[string]int{"": 3, "0": 3, "false": 3, "1": 40, "true": 40} {
		t.Setenv(Variable, value)
		if got := Rounds(3, 40); got != want {
			t.Errorf("%s=%q: got %d rounds, want %d", Variable, value, got, want)
		}
	}
}
