package inspection

import (
	"strings"
	"testing"
)

func TestReadObjectNamesStandardInput(t *testing.T) {
	for text, want := range map[string]string{
		"kind: A":                     "standard input has an object without apiVersion: want a whole object",
		"{kind: A}\n---\n{kind: B}\n": "standard input has 2 objects: want one",
	} {
		if _, err := ReadObject(t.Context(), "-", strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
