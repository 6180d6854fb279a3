package essence

import (
	"testing"
	"time"
)

func TestSeen(t *testing.T) {
	stored, first, second := []byte(`{"a":1, "b":"x"}`), Of([]byte(`{"a":2,"b":"x"}`)), Of([]byte(`{"a":3,"b":"\\n"}`))
	base, from := StoredDigest(stored), time.UnixMicro(1234567890123456)
	all := []Seen{{State: first}, {State: second, From: from}, {State: first, From: from.Add(1000)}}
	got := ReadSeen(SeenMessage(base, stored, all), stored)
	if len(got) != 3 || !got[0].Is(first) || !got[1].Is(second) || !got[2].Is(first) || !got[1].From.Equal(from) {
		t.Errorf("got %v", got)
	}
	if got := ReadSeen(ShortSeenMessage(base, first), stored); len(got) != 1 || got[0].State != nil || !got[0].Is(first) || got[0].Is(second) {
		t.Errorf("the short one: got %v", got)
	}
	if got := ReadSeen(SeenMessage("", nil, all[:1]), nil); len(got) != 1 || !got[0].Is(first) {
		t.Errorf("without a last handled state: got %v", got)
	}
	long := SeenMessage(base, stored, all[:2])
	for _, message := range []string{
		"", base, base + " ", "none 1", SeenMessage("", stored, all[:1]), base + " 1 2", base + " 0 0 [1]", base + " 99 99 x",
		long + "\n", long + "\nx 0 0 {}", long + "\n1 99 99 {}", long + "\n1",
	} {
		if got := ReadSeen(message, stored); got != nil && (got[0].State != nil || got[0].Digest == "") {
			t.Errorf("%q is read as %v", message, got)
		}
	}
}
