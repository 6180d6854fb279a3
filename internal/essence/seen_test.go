package essence

import "testing"

func TestSeen(t *testing.T) {
	stored, seen := []byte(`{"a":1, "b":"x"}`), Of([]byte(`{"a":2,"b":"x"}`))
	base := StoredDigest(stored)
	got, digest, ok := ReadSeen(SeenMessage(base, stored, seen), stored)
	if !ok || digest != "" || string(got.Text()) != string(seen.Text()) {
		t.Errorf("got %s, %q, %t", got.Text(), digest, ok)
	}
	if got, digest, ok := ReadSeen(ShortSeenMessage(base, seen), stored); !ok || got != nil || digest != seen.SortedDigest() {
		t.Errorf("the short one: got %s, %q, %t", got.Text(), digest, ok)
	}
	if got, _, ok := ReadSeen(SeenMessage("", nil, seen), nil); !ok || !got.Equal(seen) {
		t.Errorf("without a last handled state: got %s, %t", got.Text(), ok)
	}
	for _, message := range []string{"", base, base + " ", "none 1", SeenMessage("", stored, seen), base + " 1 2", base + " 0 0 [1]", base + " 99 99 x"} {
		if got, digest, ok := ReadSeen(message, stored); ok && (got != nil || digest == "") {
			t.Errorf("%q is read as %s", message, got.Text())
		}
	}
}
