package essence

import (
	"cmp"
	"strings"

	"github.com/kopf-go/kopf/internal/progressrecord"
)

// This file writes and reads the messages of progress records that store the state that the handlers have seen.

// NoBase replaces the digest of the last-handled state if there is none.
const NoBase = "none"

// SeenMessage returns a message that stores a state as its difference from the last-handled state: the digest of the last-handled state, the lengths of the
// common beginning and end, and the bytes between.
func SeenMessage(base string, stored []byte, seen *Essence) string {
	return cmp.Or(base, NoBase) + " " + progressrecord.Difference(StoredText(stored), seen.Text())
}

// ShortSeenMessage returns a message that stores only the digest of a state.
func ShortSeenMessage(base string, seen *Essence) string {
	return cmp.Or(base, NoBase) + " " + seen.SortedDigest()
}

// ReadSeen reads the state from a message, or only its digest. It reports false if the message belongs to another last-handled state.
func ReadSeen(message string, stored []byte) (seen *Essence, digest string, ok bool) {
	base, rest, _ := strings.Cut(message, " ")
	if base != cmp.Or(StoredDigest(stored), NoBase) || rest == "" {
		return nil, "", false
	}
	if !strings.Contains(rest, " ") {
		return nil, rest, true
	}
	text, ok := progressrecord.Restore(StoredText(stored), rest)
	seen, err := Parse(text)
	return seen, "", ok && seen != nil && err == nil
}
