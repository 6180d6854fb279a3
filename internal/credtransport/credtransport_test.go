package credtransport

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzHeaderKey escapes impersonation keys for headers, and decodes them as servers do.
func FuzzHeaderKey(f *testing.F) {
	f.Add("example.com/scopes")
	f.Add("a%41\r\nX: é")
	f.Fuzz(func(t *testing.T, key string) {
		escaped := EscapeHeaderKey(key)
		if back, err := url.PathUnescape(escaped); err != nil || back != key {
			t.Errorf("%q is written as %q, and read as %q (%v)", key, escaped, back, err)
		}
		if strings.ContainsFunc(escaped, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }) {
			t.Errorf("%q is written as %q, which cannot be in the name of a header", key, escaped)
		}
	})
}
