package ngrok

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// FuzzOutput parses a log in pieces, and checks that the stored part is limited.
func FuzzOutput(f *testing.F) {
	f.Add([]byte(`{"msg":"starting web service","addr":"127.0.0.1:4040"}`+"\n"+`{"err":"no"}`+"\nx"), 7)
	f.Add(bytes.Repeat([]byte("x"), 100), 1)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		whole, parts := newOutput(), newOutput()
		_, _ = whole.Write(text)
		for part := range slices.Chunk(text, min(max(size, 1), 1<<10)) {
			if n, err := parts.Write(part); n != len(part) || err != nil {
				t.Errorf("%d of %d bytes, %v", n, len(part), err)
			}
		}
		if whole.api != parts.api || whole.fault != parts.fault || !bytes.Equal(whole.rest, parts.rest) {
			t.Errorf("%q is read as %q, %q, and in pieces as %q, %q", text, whole.api, whole.fault, parts.api, parts.fault)
		}
		if bytes.Contains(whole.rest, []byte("\n")) || len(whole.rest) > maxAnswer {
			t.Errorf("%d bytes are kept", len(whole.rest))
		}
		if err := whole.explain(errors.New("x")); err == nil {
			t.Error("there is no reason")
		}
	})
}
