package apiserver

import (
	"strconv"
	"strings"
	"testing"
)

// FuzzContinue reads the token of a page back.
func FuzzContinue(f *testing.F) {
	f.Add(uint64(7), "default/a", "z.z~z")
	f.Fuzz(func(t *testing.T, version uint64, key, token string) {
		if gotVersion, gotKey, err := decodeContinue(encodeContinue(version, key)); !strings.Contains(key, "~") && (err != nil || gotVersion != version || gotKey != key) {
			t.Errorf("%d %q is read as %d %q, %v", version, key, gotVersion, gotKey, err)
		}
		if version, _, err := decodeContinue(token); err == nil && !strings.EqualFold(strings.TrimLeft(strings.SplitN(token, ".", 2)[0], "0"), strings.TrimLeft(strconv.FormatUint(version, 36), "0")) {
			t.Errorf("%q is of %d", token, version)
		}
	})
}
