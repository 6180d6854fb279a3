package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestWithoutCommand holds that the command alone runs no operator: it would have no handlers, and others would pause for it.
func TestWithoutCommand(t *testing.T) {
	if os.Getenv("KOPF_TEST_MAIN") != "" {
		os.Args = os.Args[:1]
		main()
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithoutCommand$")
	cmd.Env = append(os.Environ(), "KOPF_TEST_MAIN=yes")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Usage:") || strings.Contains(string(out), "Operator") {
		t.Errorf("%v: got %s", err, out)
	}
}
