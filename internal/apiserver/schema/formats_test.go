package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// Texts have the same formats as in kube-apiserver. A test in e2e sends them to a real server.
func TestFormats(t *testing.T) {
	lines, err := os.ReadFile("../testdata/formats.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(lines) {
		if bytes.HasPrefix(line, []byte("#")) {
			continue
		}
		n++
		words := strings.SplitN(string(line), " ", 3)
		var text string
		if err := json.Unmarshal([]byte(words[2]), &text); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got := fitsFormat(words[0], text); got != (words[1] == "takes") {
			t.Errorf("the format %s fits %q: %t, want that it %s it", words[0], text, got, words[1])
		}
	}
	if n < 100 {
		t.Errorf("%d texts are checked, want more", n)
	}
}
